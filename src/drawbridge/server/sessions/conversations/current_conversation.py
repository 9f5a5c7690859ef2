"""The current conversation of a managed session, which its next run continues, and its replacement by another one.

Its id is part of the session's ``RecordedState``. This class adds what that state does not contain: the conversation to
fork.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from drawbridge.server.events import SessionChanged, SessionReset
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.sessions.processes.session_process import SessionProcess
from drawbridge.server.sessions.prompts.attachments import PromptAttachments
from drawbridge.server.sessions.prompts.images import named_in
from drawbridge.server.sessions.recorded_state import RecordedState, titled
from drawbridge.server.sessions.session import SessionStore
from drawbridge.server.store.search import Index, Part


class CurrentConversation:
    def __init__(
        self,
        store: SessionStore,
        index: Index,
        attachments: PromptAttachments,
        process: SessionProcess,
        forget_state: Callable[[], None],
    ) -> None:
        """``forget_state`` is called when another conversation begins, because each has its own context, to-do list
        and tasks."""
        self._store = store
        self._index = index
        self._attachments = attachments
        self._process = process
        self._forget_state = forget_state
        self.fork_from: str | None = None
        """The agent's conversation that the next run forks, if any."""

    @property
    def _recorded(self) -> RecordedState:
        return self._store.recorded

    def snapshot(self, title: str) -> SessionChanged:
        """The conversation as ``restore`` expects it. ``title``: the title that people see."""
        return SessionChanged(self._recorded.session_id, self.fork_from, self._recorded.agent, title)

    def restore(self, former: SessionChanged) -> None:
        self.fork_from = former.fork_from
        self._store.record(former)

    def is_of_another(self, agent: str) -> bool:
        """Whether the conversation belongs to an agent other than ``agent``, which can't continue it."""
        return bool(self._recorded.session_id or self.fork_from) and self._recorded.agent not in ("", agent)

    def change_agent(self, title: str | None) -> None:
        """Records that the next run begins a conversation with another agent. ``title``: the conversation's title, if
        its first prompt is already recorded."""
        self.fork_from = None
        self._store.record(SessionChanged("", title=title))

    def identified(self, session_id: str, prompt: str) -> None:
        """Records the id that the agent reported for its conversation. ``prompt``: the active run's prompt, which
        precedes this record in the history."""
        self.fork_from = None
        before = self._recorded.session_id
        if session_id == before:
            return
        # If there was a previous conversation, the agent could not continue it.
        title = titled(prompt) if before else ""
        self._store.record(SessionChanged(session_id, title=title or None))
        if before:
            self._forget_state()

    async def is_lost(self, agent: str) -> bool:
        """Whether the agent ended without storing the conversation. ``agent``: the session's agent, for a conversation
        with an unknown agent."""
        recorded, session_id = self._recorded, self._recorded.session_id
        if not recorded.unproven or not await self._process.is_lost(recorded.agent or agent, recorded):
            return False
        return recorded.unproven and recorded.session_id == session_id

    def lose(self) -> None:
        """Abandons the conversation, which the agent did not store. The next prompt begins a new one."""
        self._store.record(SessionChanged(""))
        self._forget_state()

    def resume(self, session_id: str, title: str | None, agent: str, *, fork: bool) -> None:
        """Makes the next prompt continue the conversation ``session_id`` or, with ``fork``, a copy of it."""
        self.fork_from = session_id if fork else None
        self._forget_state()
        self._store.record(SessionChanged("" if fork else session_id, self.fork_from, agent, title))

    def reset(self, sender: Subscriber | None = None) -> tuple[SessionReset, int | None]:
        """Makes the next prompt begin a new conversation. Returns the event, and what ``SessionStore.record`` returns
        for the reply to ``sender``."""
        reset = SessionReset(self._recorded.session_id, "", self._store.data.id)
        self.fork_from = None
        self._forget_state()
        return reset, self._store.record(reset, sender)

    async def delete(self, parts: Sequence[Part], trash: Path, *, is_current: bool) -> None:
        """Moves the records of a conversation into the new file ``trash``, and removes the images and files that they
        name. If this raises ``DrawbridgeError``, the conversation can still be continued.
        """
        if is_current:
            await self._process.end()
        keys = {parts[0].key, *(f"log_{part.first_seq}" for part in parts)}
        names = await asyncio.to_thread(self._index.named, keys)
        ranges = [range(part.first_seq, part.last_seq + 1) for part in parts]
        ranges += [range(seq, seq + 1) for seq in names if not any(seq in one for one in ranges)]
        await asyncio.to_thread(self._index.rebuild_after, partial(self._remove, ranges, trash))
        if is_current:
            self.reset()

    def _remove(self, ranges: Sequence[range], trash: Path) -> None:
        self._store.history.remove(ranges, str(trash))
        with open(trash, "rb") as records:
            named = named_in(records)
        self._attachments.remove(named)
