"""The editors on this machine as surfaces. A proposal is shown in each editor that accepts proposals and has an open
folder that contains the file, and a decision there counts like a client's. Editors that show reviews are notified when
one changes.

Editors connect to the private socket (``terminal_sessions.socket``), each through its bridge.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from drawbridge.agents import catalog
from drawbridge.agents.base import Decision
from drawbridge.protocols import local_ipc as wire
from drawbridge.server.approvals.paths import escaped, normal
from drawbridge.server.approvals.pending import PendingApproval, Surface
from drawbridge.server.events import Announced, ReviewChanged, ReviewCommented
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.frames import Frame

logger = logging.getLogger("drawbridge.server")

Decide: TypeAlias = Callable[[PendingApproval, Decision, Surface], Awaitable[object]]
"""See ``Session.decide``."""


class Editor(Protocol):
    """A bridge that is connected to the socket. ``about`` is None until it has identified itself."""

    about: wire.Bridge | None

    def introduce(self, about: wire.Bridge) -> None:
        """Stores what the bridge reported about itself."""
        ...

    def send(self, message: wire.ToBridge | wire.HookAnswer) -> None: ...


class Person:
    """The user of an editor, as a ``Surface``, and as a ``Subscriber`` that receives no frames."""

    id = "editor"
    decides = runs = owns = True
    device = None

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def audited(self) -> Mapping[str, Any]:
        return {"by": self.name}

    def sees(self, path: Path) -> bool:
        return True

    def send(self, frame: Frame) -> None:
        pass

    async def room(self) -> None:
        pass


class _Offer:
    """An open approval request, and the editors that show it. ``besides``: the id of the agent's process, if it is
    known. An editor that is connected to this process is left out, because the agent itself shows its changes there."""

    def __init__(self, approval: PendingApproval, agent: str, decide: Decide, besides: int | None) -> None:
        self.approval = approval
        self.agent = agent
        self.decide = decide
        self.besides = besides
        self.editors: list[Editor] = []


class Editors:
    """All connected editors, and the approval requests that they show. ``Approvals`` opens and closes these.
    ``published`` is the "editors" receiver of the event bus."""

    def __init__(self, leads_to: Callable[[Path], Path]) -> None:
        """``leads_to``: see ``AllowedDirectories.leads_to``."""
        self._leads_to = leads_to
        self._editors: dict[Editor, Sequence[str]] = {}
        """The connected editors, with the canonical paths of their open folders."""
        self._offered: dict[str, _Offer] = {}

    # Called by sessions.

    def offer(self, approval: PendingApproval, agent: str, decide: Decide, besides: int | None) -> None:
        """Shows an open approval request. Does nothing if the request has no proposal, or if no change to its input
        makes the tool write an edited text."""
        if approval.request.proposal is None or approval.with_text(approval.request.proposal.new_text) is None:
            return
        offered = self._offered[approval.id] = _Offer(approval, agent, decide, besides)
        for editor in self._editors:
            self._show(offered, editor)

    def close(self, approval: PendingApproval) -> None:
        """Closes an approval request that was resolved or withdrawn in every editor that shows it."""
        offered = self._offered.pop(approval.id, None)
        # After a withdrawal, the agent may have been allowed to write the file elsewhere.
        may_be_written = approval.decision is None or approval.decision.allow
        for editor in offered.editors if offered else ():
            editor.send(wire.Withdraw(approval.id, may_be_written))

    def published(self, announced: Announced) -> None:
        """Notifies the editors that show reviews when a review or its comments have changed."""
        match announced.event:
            case ReviewChanged(by=by) if announced.project_id is not None:
                self._review_changed(announced.project_id, announced.path, by or "")
            case ReviewCommented() if announced.project_id is not None:
                self._review_changed(announced.project_id, announced.path, "")

    def _review_changed(self, project: str, directory: Path, by: str) -> None:
        for editor in self._editors:
            if editor.about is not None and editor.about.reviews:
                editor.send(wire.ReviewChanged(project, by, str(self._leads_to(directory))))

    # Called by editors.

    def add(self, editor: Editor, folders: Sequence[str]) -> None:
        """Adds an editor after its bridge has identified itself, or updates it after a change to its report. Sends it
        the approval requests that it may show now. ``folders``: the canonical paths of its open folders."""
        self._editors[editor] = [escaped(folder) for folder in folders]
        for offered in self._offered.values():
            self._show(offered, editor)

    def remove(self, editor: Editor) -> None:
        self._editors.pop(editor, None)
        for offered in self._offered.values():
            self._forget(offered, editor)

    def declined(self, editor: Editor, approval_id: str) -> None:
        if offered := self._offered.get(approval_id):
            self._forget(offered, editor)

    async def answered(self, editor: Editor, approval_id: str, text: str | None) -> None:
        """Handles the user's decision in an editor. A late decision is ignored, because the editor has been asked to
        close its view."""
        offered = self._offered.get(approval_id)
        if offered is None or editor not in offered.editors:
            return
        self._forget(offered, editor)  # the editor has already closed its view
        name = editor.about.editor if editor.about else "an editor"
        try:
            await offered.decide(offered.approval, decision(offered.approval, text), Person(name))
        except ClientError as error:
            logger.info("%s: %s", approval_id, error.text)
            if approval_id in self._offered:
                # The request is still open, for example because the decision could not be written. Ask the user again.
                self._show(offered, editor)

    def _show(self, offered: _Offer, editor: Editor) -> None:
        proposal, about = offered.approval.request.proposal, editor.about
        if editor in offered.editors or proposal is None or about is None or not about.offers:
            return
        if offered.besides in about.pids:
            return
        path = offered.approval.request.link_targets.get(proposal.path) or normal(proposal.path)
        if any(path.startswith(folder.rstrip("/") + "/") for folder in self._editors.get(editor, ())):
            offered.editors.append(editor)
            agent = catalog.title(offered.agent)
            editor.send(wire.Offer(offered.approval.id, agent, proposal.path, proposal.new_text))

    def _forget(self, offered: _Offer, editor: Editor) -> None:
        if editor in offered.editors:
            offered.editors.remove(editor)


def decision(approval: PendingApproval, text: str | None) -> Decision:
    """The decision of a user who saw the change as text. It allows the agent to write exactly ``text``, and denies the
    request if ``text`` is None or the tool can't write it."""
    proposal = approval.request.proposal
    if text is None or proposal is None:
        return Decision(allow=False)
    if text == proposal.new_text:
        return Decision(allow=True)
    changed = approval.with_text(text)
    return Decision(
        allow=changed is not None, updated_input=changed
    )  # never use the agent's text in place of the user's
