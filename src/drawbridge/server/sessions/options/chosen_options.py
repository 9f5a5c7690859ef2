"""The options of a managed session's runs: what users chose, and the mode that the agent is in.

An agent may change its mode on its own or because of a decision. A mode that the owner does not allow is reset.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from drawbridge.agents import base
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions import metadata
from drawbridge.server.sessions.conversations.current_conversation import CurrentConversation
from drawbridge.server.sessions.options.ceilings import usual_mode
from drawbridge.server.sessions.options.current_offers import CurrentOffers
from drawbridge.server.sessions.options.grants import Grants
from drawbridge.server.sessions.prompts.queue import PromptQueue
from drawbridge.server.sessions.runs.controller import DEFECT, RunController
from drawbridge.server.sessions.session import SessionStore

logger = logging.getLogger("drawbridge.server")

MOST_RESETS = 20
"""The maximum number of times that a process is reset to an allowed mode. After that, it is ended."""


class ChosenOptions:
    def __init__(
        self,
        store: SessionStore,
        grants: Grants,
        offers: CurrentOffers,
        conversation: CurrentConversation,
        queue: PromptQueue,
        controller: RunController,
        tasks: BackgroundTasks,
        publish_state: Callable[[], None],
    ) -> None:
        """``publish_state`` is called when the mode or the offered modes have changed."""
        self._store = store
        self._data = store.data
        self._grants = grants
        self._offers = offers
        self._conversation = conversation
        self._queue = queue
        self._controller = controller
        self._process = controller.process
        self._tasks = tasks
        self._publish_state = publish_state
        self._mode: str | None = None
        """The mode that the agent's process has reported or was set to; None if that is not known, or without a
        process."""
        self._resets = 0
        """The number of times that the agent's process has been reset to an allowed mode."""

    @property
    def agent(self) -> str:
        """The name of the agent of the active run or, without an active run, of the conversation."""
        run = self._controller.run
        return (run and run.order.agent) or self._store.recorded.agent or self._data.agent

    @property
    def permission_mode(self) -> str:
        """The mode that the agent's process has reported or was set to or, if that is not known, the mode of the next
        run."""
        next_mode = self.usual(self._data.agent).permission_mode
        return self._mode or next_mode or usual_mode(self._grants.ceilings)

    def shown(self) -> dict[str, Any]:
        """The fields of ``ProjectInfo`` about the modes."""
        agent, offers = self.agent, self._offers
        return {
            "permission_mode": self.permission_mode,
            "modes": [mode for mode in offers.modes if self._grants.offers(mode, agent)],
            "own_modes": [mode for mode in offers.own_modes if self._grants.offers(mode.name, agent)],
        }

    def usual(self, agent: str) -> base.Options:
        """The options of a run with this agent if its prompt chooses none: the project's options. If the agent changed
        its mode in this conversation, they contain that mode, provided that clients may choose it.
        """
        options, changed = self._data.options, self._data.session_mode
        session_id = self._store.recorded.session_id
        if changed is None or changed.session_id != session_id or self._conversation.is_of_another(agent):
            return options
        if not self._grants.offers(changed.mode, agent):  # the owner has changed what is allowed
            return options
        return msgspec.structs.replace(options, permission_mode=changed.mode)

    async def choose(self, **chosen: str) -> None:
        """Sets the ``permission_mode``, ``model`` or ``effort`` of later runs, including those that wait, and of the
        active one if the agent can change it. Raises ``ClientError`` if the agent refuses."""
        try:
            await self._process.change(**chosen)
        except base.AgentRefused as error:
            reason = str(error).removesuffix(".")
            text = f"The setting could not be changed: {reason}. The previous setting is still in effect."
            raise ClientError("NOT_SUPPORTED", text) from None
        self._store.check_there()
        self._data.options = msgspec.structs.replace(self._data.options, **chosen)
        self._queue.choose(self._data.agent, chosen)
        if "permission_mode" in chosen:
            self._data.session_mode = None
        self._store.save()

    def mode_reported(self, report: base.ModeChanged) -> None:
        """Stores the mode that the agent reported, and the modes that it offers."""
        self._keep(report.mode)
        self._know(report.mode, report)

    def mode_set(self, mode: str | None) -> None:
        """Stores the mode that the process was given; None if the process has ended."""
        self._know(mode)
        if mode is None:
            self._resets = 0

    def _keep(self, mode: str) -> None:
        """Keeps a mode that the agent changed to. Its next process continues this conversation in that mode, if clients
        may choose it. Other conversations are not affected. The first mode that a process reports is the one that it
        was started in, perhaps for one prompt only, so it is not kept."""
        if self._mode is None or mode == self._mode or not self._grants.allows(mode, self.agent):
            return
        self._process.mode_changed(mode)
        session_id = self._store.recorded.session_id
        if session_id and self._grants.offers(mode, self.agent):
            self._data.session_mode = metadata.SessionMode(session_id, mode)
            self._store.save()

    def _know(self, mode: str | None, report: base.ModeChanged | None = None) -> None:
        offers = self._offers
        before = self.permission_mode, offers.modes, offers.own_modes
        self._mode = mode
        if report is not None:
            offers.report_modes(report)
        if (self.permission_mode, offers.modes, offers.own_modes) != before:
            self._publish_state()
        if mode is not None and not self._grants.allows(mode, self.agent):
            # After an unexpected error, the agent may still be in that mode.
            failure = ClientError("INTERNAL_ERROR", DEFECT)
            what = f"{self._data.id}: resetting the agent's mode"
            self._tasks.start(self._reset(mode), what, lambda _: self._controller.stop(failure))

    async def _reset(self, mode: str) -> None:
        """Resets a mode that the owner does not allow, which came from the agent's own settings or its own decision."""
        usual = usual_mode(self._grants.ceilings)
        logger.warning(
            "%s: the agent is in mode %s, which is not allowed; resetting it to %s", self._data.id, mode, usual
        )
        self._resets += 1
        try:
            if self._resets > MOST_RESETS:
                raise base.AgentRefused("the agent changed it back too often")
            await self._process.set_mode(usual)
        except base.AgentRefused as error:
            reason = str(error).removesuffix(".")
            problem = f"The agent is in the {mode[:100]} mode, which the owner does not allow"
            text = f"{problem}, and the mode could not be reset: {reason}."
            self._controller.stop(ClientError("PERMISSION_DENIED", text))
            if self._controller.run is None:
                await self._process.end()
