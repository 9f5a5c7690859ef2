"""Serves the bridges on the private socket. They send the proposals of their agents, and receive requests for their
editors.

Claude Code's hook reports the approval request, and the diff that its bridge shows is a second asker of it (see
``shown_proposals``). Gemini CLI does not have such a hook, so its bridge's proposal is the question. It belongs to the
session that Gemini CLI's other hooks report. If they report none, a session begins with the first proposal, and ends
with the bridge.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from drawbridge.agents import catalog
from drawbridge.agents.base import Proposal
from drawbridge.agents.proposals import in_editor
from drawbridge.core.approval import State
from drawbridge.core.disk_threads import DiskThreads
from drawbridge.protocols import local_ipc as wire
from drawbridge.server.approvals.editors import Editor, Editors, decision
from drawbridge.server.approvals.paths import normal, real
from drawbridge.server.approvals.service import look_at
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.terminal_sessions.editor_reviews import EditorReviews
from drawbridge.server.terminal_sessions.questions import ELSEWHERE
from drawbridge.server.terminal_sessions.session import TerminalSession
from drawbridge.server.terminal_sessions.sessions import TerminalSessions
from drawbridge.server.terminal_sessions.shown_proposals import AskingBridge

logger = logging.getLogger("drawbridge.server")

READING_SECONDS: Final = 5.0
"""Seconds that the server waits for the disk of a file or folder that a hook or a bridge names."""

AGENTS = {row.title: row.name for row in catalog.ROWS if row.proposes}
"""The agents for which the bridge's proposal is the question. Maps the title that bridges send to the agent's name."""

NOT_WRITTEN = ("DISK_SPACE_LOW", "FILE_OPERATION")
"""The error codes of decisions that were refused because the history can't be written."""


class Bridges:
    def __init__(self, sessions: TerminalSessions, editors: Editors, reviews: EditorReviews, disk: DiskThreads) -> None:
        """``disk``: for the files and folders that bridges name."""
        self._terminal_sessions = sessions
        self._reviews = reviews
        self._editors = editors
        self._disk = disk
        self._terminals = sessions.terminals
        self._shown = sessions.shown
        self._sessions: dict[tuple[int, str], TerminalSession] = {}
        """The sessions that began with a proposal, by bridge and by the bridge's id of the agent."""

    # One bridge.

    async def serve(self, editor: Editor, first: wire.FromPeer, reader: asyncio.StreamReader) -> None:
        """Serves a bridge until it disconnects. ``first``: the first line that it sent. Raises ``ValueError`` for an
        invalid line."""
        try:
            await self._handle(editor, first)
            while line := await reader.readline():
                await self._handle(editor, wire.decode_from_peer(line))
        finally:
            self._disconnected(editor)

    async def _handle(self, editor: Editor, line: wire.FromPeer) -> None:
        match line:
            case wire.Bridge():
                await self._connected(editor, line)
            case wire.OfferAnswered(id, text):
                await self._editors.answered(editor, id, text)
            case wire.OfferDeclined(id):
                self._editors.declined(editor, id)
            case wire.PromptSent(id):
                self._terminals.answered(editor, id, None)
            case wire.PromptFailed(id, reason):
                self._terminals.answered(editor, id, reason)
            case wire.Proposed():
                await self._proposed(editor, line)
            case wire.EditorDecision(id, text):
                won = await self._decided(self._shown.find(editor, id), text)
                editor.send(wire.DecisionAck(id, won))
            case wire.ProposalClosed(id, settled):
                self._proposal_closed(self._shown.remove(editor, id), settled=settled)
            case wire.ReviewRequest() | wire.ReviewDecision() | wire.ReviewComment() | wire.ReviewSubmission():
                self._reviews.handle(editor, line)
            case wire.ReviewListRequest():
                self._reviews.list_reviews(editor, line)
            case wire.ReviewSeen():
                self._reviews.remember(editor, line)
            case wire.Hook():
                raise ValueError("received a hook message on a bridge connection")

    async def _connected(self, editor: Editor, about: wire.Bridge) -> None:
        if editor.about is None and about.reviews:
            editor.send(wire.Welcome(remembers=True, suggests=True))
        with self._terminals_change():
            editor.introduce(about)
            self._terminals.add(editor)
        self._editors.add(editor, await self._real(about.folders))

    async def _real(self, folders: Sequence[str]) -> list[str]:
        """The canonical paths of an editor's folders. If their disk does not respond, links are not followed."""
        try:
            return await self._disk.run(lambda: [real(folder) for folder in folders], READING_SECONDS)
        except TimeoutError:
            return [normal(folder) for folder in folders]

    def _disconnected(self, editor: Editor) -> None:
        self._editors.remove(editor)
        with self._terminals_change():
            self._terminals.remove(editor)
        for shown in self._shown.remove_all(editor):
            self._proposal_closed(shown, settled=False)
        for key in [key for key in self._sessions if key[0] == _key(editor)]:
            self._sessions.pop(key).end()

    @contextlib.contextmanager
    def _terminals_change(self) -> Iterator[None]:
        """Publishes, after the block, the state of each session that has started or stopped accepting prompts."""
        before = {session.id: session.prompts.possible for session in self._terminal_sessions}
        yield
        for session in self._terminal_sessions:
            if session.prompts.possible != before[session.id]:
                session.publish_state()

    async def _proposed(self, editor: Editor, proposed: wire.Proposed) -> None:
        shown = self._shown.add(editor, proposed)
        agent = AGENTS.get(proposed.agent)
        if self._terminal_sessions.closed:
            return None
        if agent is not None:
            return await self._ask(editor, shown, agent)
        for session in self._terminal_sessions:
            if any(process.pid == proposed.pid for process in session.processes.all):
                for approval in session.approvals:
                    if shown.is_same(proposed.pid, approval.request.proposal):
                        return shown.join(session, approval)
                for approval in session.questions.decided:  # these requests may have been answered in the meantime
                    if shown.is_same(proposed.pid, approval.request.proposal):
                        shown.belongs_to(session, approval)
        return None

    async def _ask(self, editor: Editor, shown: AskingBridge, agent: str) -> None:
        proposed = shown.proposed
        session = await self._session_of(editor, proposed, agent)
        if session is None:
            return
        shown.belongs_to(session, session.reconnect(shown))
        if shown.approval is not None:
            return
        question = in_editor(uuid.uuid4().hex, Proposal(proposed.path, proposed.old_text, proposed.new_text))
        try:
            look = await self._disk.run(lambda: look_at(question, agent, str(session.path)), READING_SECONDS)
        except TimeoutError:
            look = None
        if self._terminal_sessions.find(session.id) is session and not self._terminal_sessions.closed:
            shown.belongs_to(session, session.requests.ask(question, shown, look))

    async def _session_of(self, editor: Editor, proposed: wire.Proposed, agent: str) -> TerminalSession | None:
        """The session in which the agent proposes a change. It begins now if it is not known; None if it can't be
        shown."""
        known = self._known_session(editor, proposed, agent)
        if known is not None:
            return known
        folders = editor.about.folders if editor.about else ()
        path = next((folder for folder in folders if proposed.path.startswith(folder.rstrip("/") + "/")), None)
        path = path or os.path.dirname(proposed.path)
        sessions = self._terminal_sessions
        await sessions.examine_directory(path)
        known = self._known_session(editor, proposed, agent)  # a hook may have reported it in the meantime
        if known is not None or sessions.closed:
            return known
        begun = sessions.begin(sessions.new_id(), path, agent, "")
        if begun is not None:
            self._sessions[_key(editor), proposed.session] = begun
        return begun

    def _known_session(self, editor: Editor, proposed: wire.Proposed, agent: str) -> TerminalSession | None:
        key = (_key(editor), proposed.session)
        known = self._sessions.get(key)
        if known is not None and self._terminal_sessions.find(known.id) is known:
            return known
        for session in self._terminal_sessions:
            if proposed.question and session.questions.known(proposed.question):
                if session.pid is None:
                    self._sessions[key] = session
                return session
        folders = editor.about.folders if editor.about else ()
        working = [one for one in self._terminal_sessions if one.data.agent == agent and _is_working_in(one, folders)]
        return working[0] if len(working) == 1 else None

    async def _decided(self, shown: AskingBridge | None, text: str | None) -> bool:
        """Applies a decision that the user made in the editor. Returns whether it counts."""
        if shown is None:
            return False
        if shown.session is None or shown.approval is None:
            shown.decided_early(text)
            return True
        by, given = shown.person, decision(shown.approval, text)
        if shown.session.history.closed and shown.approval.state is not State.DECIDED:
            # The session is closed, and no client has decided, so the decision in the editor counts.
            shown.session.audit(shown.approval, given, by)
            return True
        try:
            await shown.session.decide(shown.approval, given, by, shown)
        except ClientError as error:
            if error.code not in NOT_WRITTEN:
                return False
            # The agent follows the decision in its editor even if the server can't record it.
            shown.session.audit(shown.approval, given, by)
            shown.session.withdraw(shown.approval, ELSEWHERE)
        return True

    def _proposal_closed(self, shown: AskingBridge | None, *, settled: bool) -> None:
        if shown is None or shown.session is None or shown.approval is None:
            return
        if settled and shown.approval in list(shown.session.approvals):
            shown.session.withdraw(shown.approval, ELSEWHERE)
        session = self._terminal_sessions.find(shown.session.id)
        if session is not None and session is shown.session:
            session.requests.disconnect(shown)


def _key(editor: Editor) -> int:
    return id(editor)


def _is_working_in(session: TerminalSession, folders: Iterable[str]) -> bool:
    """Whether hooks have reported the session's agent, and it is working in one of the folders or below it."""
    if not session.is_open or session.resting:
        return False
    return any(session.path.is_relative_to(folder) for folder in folders)
