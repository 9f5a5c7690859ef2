"""The offers of a project's current agent: its models with their levels of effort, commands, MCP servers and modes."""

from __future__ import annotations

import msgspec

from drawbridge.agents import base
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.options.known_offers import KnownOffers


class CurrentOffers:
    """The offers of the agent that clients see: the project's agent, or another one that a prompt has chosen."""

    def __init__(self, agent: str, of_project: KnownOffers, models: KnownOffers) -> None:
        """``of_project``: what each agent last reported in this project, without its models and without what only its
        process knows. ``models``: the models that each agent last reported in any project."""
        self.agent = agent
        self.modes: tuple[str, ...] = ()
        """The modes that the agent offers; empty if they are Claude Code's, or if no process has reported them yet."""
        self.own_modes: tuple[base.ModeOffer, ...] = ()
        """The offered modes that only this agent has."""
        self._reported: base.AgentOffers | None = None
        """The offers that a process of the agent has reported; None if no process of this agent has reported any
        yet."""
        self._of_project = of_project
        self._models = models

    @property
    def known(self) -> base.AgentOffers:
        """The known offers of the agent."""
        if self._reported is not None:
            return self._reported
        models = self._models.of(self.agent).models
        return msgspec.structs.replace(self._of_project.of(self.agent), models=models)

    def change_agent(self, agent: str) -> None:
        self.agent, self._reported = agent, None
        self.modes, self.own_modes = (), ()

    def report(self, agent: str, offers: base.AgentOffers) -> bool:
        """Replaces the offers with those that a process of ``agent`` has reported. Returns False if they are the
        same."""
        if (agent, offers) == (self.agent, self._reported):
            return False
        self.agent, self._reported = agent, offers
        return True

    def report_modes(self, report: base.ModeChanged) -> None:
        self.modes, self.own_modes = report.offered, report.described

    def store(self) -> None:
        """Stores the known offers, which are used until the next process reports its own."""
        offers = self.known
        # Only the process itself knows which MCP servers it is connected to, and whether it can be steered.
        self._of_project.store(self.agent, msgspec.structs.replace(offers, models=(), mcp_servers=(), steer=False))
        self._models.store(self.agent, base.AgentOffers(models=offers.models))

    async def close(self) -> None:
        """Returns when the offers are stored."""
        await self._of_project.close()

    def with_choices(self, state: base.AgentState, options: base.Options) -> base.AgentState:
        """``state`` with the model and the effort in ``options``, which were chosen for the agent's next run."""
        if options.effort:
            state = msgspec.structs.replace(state, effort=options.effort)
        resolved = next((one.resolved for one in self.known.models if one.name == options.model), None)
        if options.model and (state.model is None or state.model not in (options.model, resolved)):
            state = msgspec.structs.replace(state, model=options.model, context_window=None)
        return state

    def check_effort(self, effort: str) -> None:
        """Raises ``ClientError`` unless the agent has reported this level of effort."""
        efforts = {level for model in self.known.models for level in model.efforts}
        if effort not in efforts:
            named = (
                f"The agent's effort levels are {', '.join(sorted(efforts))}."
                if efforts
                else "The agent has reported no effort levels."
            )
            raise ClientError("NOT_SUPPORTED", f"The effort can't be set to this level. {named}", field="data.effort")
