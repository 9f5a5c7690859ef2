"""Questions of an agent that only the dialog in its own terminal can answer, until they are known to be over.

There are two kinds: an approval that was handed over to the terminal, and a dialog of which nothing is known but the CLI's
notification. Pure.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Raw

from drawbridge.server.approvals.pending import PendingApproval
from drawbridge.server.terminal_sessions.hook_events import json_object, same_call


class TerminalOnly:
    def __init__(self) -> None:
        self._asked: list[PendingApproval] = []
        self._noticed = False

    def __bool__(self) -> bool:
        return self._noticed or bool(self._asked)

    @property
    def has_question(self) -> bool:
        """Whether an approval that was handed over waits there."""
        return bool(self._asked)

    def handed_over(self, approval: PendingApproval) -> None:
        self._asked.append(approval)

    def noticed(self) -> None:
        """The CLI has notified the person of a dialog. One that is known already is not counted twice."""
        self._noticed = not self._asked

    def called(self, tool: str, given: Raw, agent_id: str | None, *, as_run: bool) -> None:
        """A call was seen to end: what was asked about it is answered."""
        after = json_object(given)
        self._noticed = False
        self._asked = [
            approval
            for approval in self._asked
            if approval.request.agent_id != agent_id or not same_call(approval.request, tool, after, as_run=as_run)
        ]

    def went_on(self, agent_id: str | None) -> None:
        """The agent has continued with something else, so its dialog is closed."""
        self._noticed = False
        self._asked = [approval for approval in self._asked if approval.request.agent_id != agent_id]

    def only(self, agents: Collection[str]) -> None:
        """Only these subagents still run."""
        self._asked = [approval for approval in self._asked if approval.request.agent_id in agents]

    def clear(self) -> None:
        self._asked, self._noticed = [], False
