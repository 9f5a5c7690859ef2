"""The agents that people have started in terminals of this machine, as far as their hooks and bridges report them.

Each is a ``DeskSession`` with a history in ``<data>/desk/<id>``. Reports about one are processed in the order of their arrival,
after what its conversation's file contains by then.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.private_files import make_private_directory, process_alive
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.events import Announced, ProjectCreated, ProjectGone, SessionChanged
from drawbridge.server.protocol import commands
from drawbridge.server.protocol.client_errors import no_project
from drawbridge.server.protocol.messages import Answer, Subscriber
from drawbridge.server.protocol.replies import Accepted
from drawbridge.server.sessions import metadata
from drawbridge.server.sessions.context import Context
from drawbridge.server.sessions.shown import now
from drawbridge.server.sessions.terminals import Terminals
from drawbridge.server.store.log import FsyncPolicy, History
from drawbridge.server.terminal_sessions import hook_events, transcript
from drawbridge.server.terminal_sessions.parked import moved_to
from drawbridge.server.terminal_sessions.session import DeskSession, Facts
from drawbridge.server.terminal_sessions.transcript_file import NotItsFile, TranscriptFile, checked

logger = logging.getLogger("drawbridge.server")

MOST: Final = 50
"""The maximum of sessions; the one that ended first is removed first."""

WORKING_SECONDS: Final = 0.3
RESTING_SECONDS: Final = 3.0
"""Seconds between two looks at a conversation's file and at the agent's process, while no hook reports anything."""

RETURN_SECONDS: Final = 20.0
"""Seconds after the server's start in which hooks and bridges reconnect; they try every 2 s."""

RECORD_SECONDS: Final = 1.0
"""Seconds by which Claude Code's record may be late (0.1 to 1 s on 2.1.329)."""

PREFIX: Final = "desk_"

SPARE: Final = {("SessionStart", "startup"), ("SessionEnd", "")}
"""What hooks of a background session report before it has anything to do: event and source."""

LOOKS: Final = 3
"""In which the successor of a session that was moved to the background may not have reported yet."""

FORGOTTEN: Final = "gone_"
"""What a directory's name begins with that is being removed."""


class Follower:
    """One session and what follows it: the calls that wait for their turn, and the conversation's file."""

    def __init__(self, session: DeskSession, directory: Path, beginning_with: Callable[[str], str | None]) -> None:
        """``beginning_with``: the id here of the agent's session whose own id begins so."""
        self.session = session
        self._beginning_with = beginning_with
        self._moved = ("", 0)
        """Where the conversation was moved to, and how often that was seen."""
        self.directory = directory
        self._calls: asyncio.Queue[tuple[Callable[[], None], str]] = asyncio.Queue()
        self._call: Callable[[], None] | None = None
        """Whose turn it is, once everything before it was read."""
        self._file: TranscriptFile | None = None
        self._seen = False
        self._tasks = BackgroundTasks(logger)
        self._task = self._tasks.start(self._follow(), f"{session.id}: following the session")
        self._open_file()

    def soon(self, call: Callable[[], None], text: str = "") -> None:
        """In its turn, and if possible after ``text``, which the agent has said and its record may not have yet."""
        self._calls.put_nowait((call, text))

    def names(self, pid: int, path: str, *, background: bool) -> None:
        """The agent's process and its conversation's file, as a hook has reported them."""
        if self.session.hosted_by(pid, path, background=background):
            self._open_file()
            self.session.save()

    async def up_to_date(self) -> None:
        """What was told so far has been worked on, or nothing is any more."""
        done = asyncio.get_running_loop().create_future()
        self.soon(lambda: done.set_result(None))
        await asyncio.wait([done, self._task], return_when=asyncio.FIRST_COMPLETED)

    def _open_file(self) -> None:
        if self._file is not None or not self.session.facts.transcript:
            return
        session_id = self.session.data.memory.session_id
        try:
            path = checked(self.session.facts.transcript, session_id)
        except NotItsFile:
            logger.warning("%s: its conversation is not read: the file is not one of Claude Code", self.session.id)
            return
        after = self._taken_last()
        self._seen = bool(after)
        self._file = TranscriptFile(path, after)

    def _taken_last(self) -> str:
        page = self.session.history.read(before_seq=self.session.history.last_seq + 1, limit=200)
        for record in reversed(page.records):
            if place := transcript.place(record.line):
                return place
        return ""

    async def _follow(self) -> None:
        while True:
            seconds = WORKING_SECONDS if self.session.turn or self.session.approvals else RESTING_SECONDS
            try:
                async with asyncio.timeout(None if self.session.ended else seconds):
                    call, text = await self._calls.get()
            except TimeoutError:
                call, text = self._look, ""
            self._call = call
            try:
                await self._read_until(text)
            except Exception:
                logger.exception("%s: internal error", self.session.id)
            self._do(call)

    def _do(self, call: Callable[[], None]) -> None:
        self._call = None
        try:
            call()
        except Exception:  # a fault of ours: this session may be told wrongly, the others go on
            logger.exception("%s: internal error", self.session.id)

    def _look(self) -> None:
        """Whether the agent is still there, and still has this conversation: no hook reports the end of either."""
        session = self.session
        if session.pid is None or session.ended:
            return
        if not process_alive(session.pid):
            session.end()
            session.save()
            return
        session.tick()
        if self._file is not None and not session.in_background and session.resting:
            self._look_for_successor(session.pid)

    def _look_for_successor(self, pid: int) -> None:
        job = moved_to(self.session.facts.transcript, self.session.data.memory.session_id, pid)
        former, looks = self._moved
        if job is None or (job == former and looks > LOOKS):
            return
        self._moved = (job, looks + 1 if job == former else 1)
        successor = self._beginning_with(job)
        if successor is not None or self._moved[1] > LOOKS:
            self._moved = (job, LOOKS + 1)
            self.session.move(successor)

    async def _read_until(self, text: str) -> None:
        """Reads all lines; the CLI writes them a moment after it has shown them."""
        until = time.monotonic() + RECORD_SECONDS
        await self._read()
        while text and self._file is not None and self.session.last_text.strip() != text.strip():
            if time.monotonic() > until:
                break
            await asyncio.sleep(RECORD_SECONDS / 20)
            await self._read()

    async def _read(self) -> None:
        more = self._file is not None
        while more and self._file is not None:
            try:
                lines, more = await asyncio.to_thread(self._file.read)
            except OSError as error:
                logger.warning("%s: its conversation can't be read: %s", self.session.id, error)
                self._file = None
                return
            for line in lines:
                if entry := transcript.entry(line, self.session.data.memory.session_id):
                    self.session.told(entry, quiet=not self._seen)
            if lines:
                self.session.publish_state()
        self._seen = True

    def hurry(self) -> None:
        """What waits for its turn has it now, whatever may stand before it."""
        if self._call is not None:
            self._do(self._call)
        while not self._calls.empty():
            self._do(self._calls.get_nowait()[0])

    def close(self, reason: str) -> asyncio.Future[None]:
        """Nothing follows any more from now on; what is returned is done when that is over too."""
        self._tasks.cancel()
        self.session.close(reason)
        return self._task


class Desk:
    """By id, in the order in which they came."""

    def __init__(self, data: Path, context: Context, fsync: FsyncPolicy) -> None:
        self._place = data / "desk"
        self._context = context
        self._fsync = fsync
        self.closed = False
        """Shuts down: hooks and bridges that connect now wait for the next server."""
        self._followers: dict[str, Follower] = {}
        self._removals = BackgroundTasks(logger)

    def __iter__(self) -> Iterator[DeskSession]:
        return iter([follower.session for follower in self._followers.values()])

    def find(self, id: str) -> DeskSession | None:
        follower = self._followers.get(id)
        return follower.session if follower else None

    def open_in_terminal(self, session_id: str) -> bool:
        """Whether a ``claude`` that a person has started has this conversation open now, in a terminal or in the background."""
        session = self.find(PREFIX + session_id)
        return session is not None and not session.ended and session.pid is not None and process_alive(session.pid)

    def _beginning_with(self, session_id: str) -> str | None:
        return next((id for id in self._followers if id.startswith(PREFIX + session_id)), None)

    @property
    def terminals(self) -> Terminals:
        return self._context.terminals

    async def execute(
        self, session: DeskSession, command: commands.Execute, client: Subscriber, allowed: Callable[[], bool]
    ) -> Answer[Accepted]:
        """A prompt for its agent, where the owner of this server allows it. Raises ``ClientError``."""
        await self._followers[session.id].up_to_date()
        if self.find(session.id) is not session:
            raise no_project()
        return await session.prompts.execute(command, client, allowed)

    def load(self) -> None:
        """Those that were there before a restart. What can't be read is removed: the agent has its own record."""
        make_private_directory(str(self._place))
        loop = asyncio.get_running_loop()
        for directory in sorted(self._place.iterdir(), key=lambda each: each.stat().st_mtime):
            if directory.name.startswith(FORGOTTEN):
                shutil.rmtree(directory, ignore_errors=True)
                continue
            try:
                data = metadata.load(directory)
                history = History.open(directory / "logs", fsync=self._fsync)
                facts = msgspec.json.decode((directory / "desk.json").read_bytes(), type=Facts)
            except (metadata.Damaged, DrawbridgeError, OSError, msgspec.MsgspecError) as error:
                logger.error("the terminal session in %s can't be read (%s); it was removed", directory.name, error)
                shutil.rmtree(directory, ignore_errors=True)
                continue
            session = DeskSession(directory, data, history, self._context, facts)
            session.recover()
            follower = Follower(session, directory, self._beginning_with)
            self._followers[session.id] = follower
            if session.approvals:
                loop.call_later(RETURN_SECONDS, follower.soon, session.await_no_longer)

    def hook(self, event: hook_events.HookEvent, pid: int, *, background: bool = False) -> Follower | None:
        """The session that a hook reports about: a new one, where it was not known. None: it is not shown.

        The CLI's daemon starts background sessions ahead, which nobody has given anything to do; they are not shown.
        """
        id = PREFIX + event.session_id
        follower = self._followers.get(id)
        if follower is None and background and (event.hook_event_name, event.source) in SPARE:
            return None
        if follower is None:
            follower = self.begin(id, event.cwd, "claude", event.session_id, background=background)
        if follower is not None:
            follower.names(pid, event.transcript_path, background=background)
        return follower

    def begin(self, id: str, path: str, agent: str, session_id: str, *, background: bool = False) -> Follower | None:
        """Adds a session, and notifies the clients that follow all projects."""
        if not metadata.ID.fullmatch(id):
            return None
        self._make_room()
        if len(self._followers) >= MOST:
            logger.warning("more than %d terminal sessions are active: one is not shown", MOST)
            return None
        directory, when = self._place / id, now()
        try:
            make_private_directory(str(directory))
            data = metadata.Metadata(id, path, session_id, when, when, agent=agent)
            history = History.open(directory / "logs", fsync=self._fsync)
        except (DrawbridgeError, OSError) as error:
            logger.error("a terminal session can't be saved, so it is not shown: %s", error)
            return None
        session = DeskSession(directory, data, history, self._context, Facts(background=background))
        session.store.record(SessionChanged(session_id))
        follower = self._followers[id] = Follower(session, directory, self._beginning_with)
        session.save()
        session.store.announce(ProjectCreated(session.info()))
        return follower

    def new_id(self) -> str:
        return PREFIX + uuid.uuid4().hex

    def _make_room(self) -> None:
        over = len(self._followers) - MOST + 1
        ended = [follower for follower in self._followers.values() if follower.session.ended]
        for follower in ended[: max(0, over)]:
            self._removals.start(self._discard(follower), f"{follower.session.id}: removing its files")

    async def forget(self, session: DeskSession) -> None:
        """Removes it from the list, with its history. It is listed again if its agent continues and reports something."""
        follower = self._followers[session.id]
        await follower.up_to_date()
        if self._followers.get(session.id) is follower:
            await self._discard(follower)

    def _discard(self, follower: Follower) -> Coroutine[Any, Any, None]:
        """The session is forgotten when this returns; its agent may report again at any moment, and then gets a new session.
        Returns what removes the session's files.
        """
        session, reason = follower.session, "it was removed from the list"
        del self._followers[session.id]
        follower.hurry()  # a hook whose question waits for its turn is answered, too
        session.settle_all(reason)
        closed = follower.close(reason)
        forgotten = self._place / f"{FORGOTTEN}{uuid.uuid4().hex}"
        try:
            follower.directory.rename(forgotten)
        except OSError:
            forgotten = follower.directory
        gone = ProjectGone(session.id, str(session.path))
        self._context.publish(Announced(session.id, session.path, gone))
        return self._remove(closed, forgotten)

    async def _remove(self, closed: asyncio.Future[None], forgotten: Path) -> None:
        await asyncio.gather(closed, return_exceptions=True)
        await asyncio.to_thread(shutil.rmtree, forgotten, ignore_errors=True)

    async def close(self, reason: str) -> None:
        self.closed = True
        followers = [follower.close(reason) for follower in self._followers.values()]
        await asyncio.gather(self._removals.wait(), *followers, return_exceptions=True)
