"""The proposals that agents' bridges show in editors.

The diff that Claude Code's bridge shows is a second asker of the approval request that Claude Code's hook reports,
whichever of the two arrives first. They are matched by the agent's process, the path and the text.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Final

from drawbridge.agents.base import Decision, Proposal
from drawbridge.protocols import local_ipc as wire
from drawbridge.server.approvals import editors
from drawbridge.server.approvals.editors import Editor, Person
from drawbridge.server.approvals.pending import PendingApproval
from drawbridge.server.sessions.session import Session
from drawbridge.server.terminal_sessions.questions import ELSEWHERE

MOST_CLOSED: Final = 20
CLOSED_SECONDS: Final = 30.0
"""The maximum number of proposals that are remembered after the user has decided on them and the editor has closed them,
and for how many seconds. Each waits for its hook's question, which the server may process later, for example because a
disk is slow. A later question about the same change is a new one."""


class AskingBridge:
    """A proposal that its agent's bridge shows in an editor."""

    in_editor = True

    def __init__(self, editor: Editor, proposed: wire.Proposed) -> None:
        self.pid = proposed.pid
        self.known_as = proposed.question
        self.editor = editor
        self.proposed = proposed
        self.session: Session | None = None
        self.approval: PendingApproval | None = None
        self._early: tuple[str | None] | None = None
        """The text that the user decided on in the editor (None: rejected) before a hook reported the question; None
        without such a decision."""

    @property
    def person(self) -> Person:
        """The user who decides in the editor."""
        return Person(self.editor.about.editor if self.editor.about else "an editor")

    def decided(self, approval: PendingApproval, decision: Decision, by: str) -> None:
        text: str | None = None
        if decision.allow:
            text = self.proposed.new_text
            if decision.updated_input is not None:
                text = approval.text_after(decision)
        self.editor.send(wire.ClientDecision(self.proposed.id, by, text))

    def closed(self) -> None:
        pass  # the proposal's own agent closes the view

    def belongs_to(self, session: Session, approval: PendingApproval | None) -> None:
        """Sets the session and the approval request of the proposal. ``approval``: None if the request does not exist
        yet."""
        self.session, self.approval = session, approval

    def join(self, session: Session, approval: PendingApproval) -> None:
        """Makes the view in the editor a second asker of an approval request. If the user has already decided there,
        the decision is audited, and the request is withdrawn, because the agent has its answer."""
        self.belongs_to(session, approval)
        session.approvals.add(approval, self)
        if self._early is not None:
            session.audit(approval, editors.decision(approval, *self._early), self.person)
            session.withdraw(approval, ELSEWHERE)

    def decided_early(self, text: str | None) -> None:
        self._early = (text,)

    @property
    def is_early(self) -> bool:
        """Whether the user has decided in the editor, and no hook has reported the question yet."""
        return self._early is not None and self.approval is None

    def is_same(self, pid: int | None, proposal: Proposal | None) -> bool:
        proposed = self.proposed
        if proposed.pid is None or proposed.pid != pid or proposal is None or proposed.path != proposal.path:
            return False
        return _lines(proposed.new_text if proposed.agent_text is None else proposed.agent_text) == _lines(
            proposal.new_text
        )


class ShownProposals:
    """The proposals that are shown in the editors of connected bridges. A proposal's id is unique only in its editor."""

    def __init__(self) -> None:
        self._shown: dict[tuple[int, str], AskingBridge] = {}
        self._closed: deque[tuple[float, AskingBridge]] = deque(maxlen=MOST_CLOSED)
        """The proposals that were decided on early and are no longer shown, with the times at which they were closed."""

    def __iter__(self) -> Iterator[AskingBridge]:
        return iter(list(self._shown.values()))

    def add(self, editor: Editor, proposed: wire.Proposed) -> AskingBridge:
        shown = self._shown[id(editor), proposed.id] = AskingBridge(editor, proposed)
        return shown

    def find(self, editor: Editor, id_: str) -> AskingBridge | None:
        return self._shown.get((id(editor), id_))

    def remove(self, editor: Editor, id_: str) -> AskingBridge | None:
        """Removes and returns a proposal that is no longer shown; None if it is not known."""
        shown = self._shown.pop((id(editor), id_), None)
        if shown is not None and shown.is_early:
            self._closed.append((time.monotonic(), shown))
        return shown

    def remove_all(self, editor: Editor) -> list[AskingBridge]:
        """Removes and returns the proposals in an editor after its bridge has disconnected."""
        keys = [key for key in self._shown if key[0] == id(editor)]
        return [shown for _, id_ in keys if (shown := self.remove(editor, id_)) is not None]

    def join(self, session: Session, approval: PendingApproval, pid: int | None, proposal: Proposal | None) -> None:
        """If a bridge has already reported the proposal of a hook's new approval request, its view in the editor becomes
        a second asker of the request. ``pid``: the PID of the agent's process."""
        for shown in (*self, *self._closed_early()):
            if shown.approval is None and shown.is_same(pid, proposal):
                shown.join(session, approval)
                return

    def is_early(self, pid: int | None, proposal: Proposal | None) -> bool:
        """Whether the user has decided on the proposal of a hook's question in an editor, before the question was
        processed. ``pid``: as in ``join``."""
        return any(shown.is_early and shown.is_same(pid, proposal) for shown in (*self, *self._closed_early()))

    def _closed_early(self) -> list[AskingBridge]:
        since = time.monotonic() - CLOSED_SECONDS
        while self._closed and self._closed[0][0] <= since:
            self._closed.popleft()
        return [shown for _, shown in self._closed]


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")
