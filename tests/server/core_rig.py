"""The core of the server in the test's process, with a fake agent that the tests control."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from drawbridge.agents import base
from drawbridge.agents.claude import prompts, reports
from drawbridge.agents.output import session_id_of
from drawbridge.server import composition
from drawbridge.server.app.command_table import COMMANDS
from drawbridge.server.app.dispatch import AnyRow
from drawbridge.server.app.outbox import Writers
from drawbridge.server.auth.scopes import owner
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.commands import parse
from drawbridge.server.protocol.frames import Frame, Subscriber, encode
from drawbridge.server.sessions.options.limits import Limits
from drawbridge.server.sessions.runs.run import State
from drawbridge.server.updates import project_info
from tests.server.plans import plan_of
from tests.server.schema import check_sent
from tests.waiting import until

ROWS = {row.name: row for row in COMMANDS}
QUIET = Limits(checkpoints=False)


class OneByOne(Writers):
    """Sends each frame to each client directly."""

    def broadcast(self, audience: Sequence[Subscriber], frame: Frame) -> None:
        for subscriber in audience:
            subscriber.send(frame)


class Process:
    """An ``AgentProcess`` that records what it was sent, for the test to inspect."""

    _pids = itertools.count(1_000_000)

    def __init__(
        self, launch: base.Launch, emit: Callable[[base.Event], None], *, says_its_session: bool = True
    ) -> None:
        self.says_its_session = says_its_session
        self.pid = next(self._pids)
        self.launch = launch
        self._emit = emit
        self.prompts: list[str] = []
        self.attachments: tuple[base.Attachment, ...] = ()
        self.answers: list[tuple[str, base.Decision]] = []
        self.interrupts = 0
        self.steers: list[str] | None = []
        """Messages sent into its turn; None if it accepts no messages."""
        self.modes: list[str] = []
        self.ended = False
        self.busy = False
        self.turn_open = False

    def emit(self, event: base.Event) -> None:
        """Emits an event, after the look at the disk that it may need. The disk responds immediately."""
        if isinstance(event, base.LookedAt) and self.launch.look is not None:
            event = msgspec.structs.replace(event, look=self.launch.look(event))
        self._emit(event)

    def prompt(self, text: str, attachments: tuple[base.Attachment, ...] = ()) -> None:
        self.prompts.append(text)
        self.attachments = attachments
        self.turn_open = True
        if self.says_its_session:
            self.emit(base.SessionIdentified(self.launch.session_id))

    def answer(self, question_id: str, decision: base.Decision) -> None:
        self.answers.append((question_id, decision))

    def interrupt(self) -> None:
        self.interrupts += 1

    async def set_mode(self, mode: str) -> None:
        if mode == "dontAsk":
            raise base.AgentRefused("there is no such mode")
        self.modes.append(mode)

    async def set_model(self, model: str) -> None:
        self.modes.append(model)

    async def set_effort(self, effort: str) -> bool:
        self.modes.append(effort)
        return True

    def steer(self, text: str, attachments: tuple[base.Attachment, ...], record: Callable[[], None]) -> None:
        if self.steers is None:
            raise base.AgentRefused("it takes no message while it works")
        record()
        self.steers.append(text)

    async def stop(self) -> None:
        self.exit(0)

    async def kill(self) -> None:
        """Ends its turn a moment before it exits, as a real agent process does."""
        await asyncio.sleep(0)
        if self.turn_open and not self.ended:
            self.ends(ok=False, interrupted=True)
        for _ in range(5):
            await asyncio.sleep(0)
        self.exit(-9)

    # what a test makes it do

    def says(self, line: dict[str, Any], *, durable: bool = True) -> None:
        self.emit(base.AgentLine(json.dumps(line).encode(), session_id_of(line.get("session_id")), durable))

    def asks(self, question_id: str, tool: str = "Write", given: dict[str, Any] | None = None) -> None:
        proposal = base.Proposal("/p/a.py", "old\n", "new\n")
        asked = json.dumps(given or {"file_path": "/p/a.py"}).encode()
        self.emit(base.Question(question_id, tool, Raw(asked), Raw(b"[]"), proposal))

    def ends(
        self, *, ok: bool = True, cost: float = 0.01, interrupted: bool = False, error: str = "it went wrong"
    ) -> None:
        self.turn_open = False
        self.emit(base.TurnEnded(ok, self.launch.session_id, cost, None if ok else error, interrupted=interrupted))

    def refuses_its_conversation(self) -> None:
        self.turn_open = False
        self.emit(base.TurnEnded(ok=False, error="there is no such conversation", code="SESSION_NOT_FOUND"))

    def exit(self, code: int, stderr: str = "") -> None:
        if not self.ended:
            self.ended = True
            self.turn_open = False
            self.emit(base.Exited(code, stderr))


class StoredSessions:
    """The conversations that an agent stored: those with the given ids, or with any id if ``all`` is true.
    ``used_by`` contains the ids of the processes that have them open.
    """

    def __init__(self, *ids: str, all: bool = False, used_by: Sequence[int] = ()) -> None:
        self._ids = ids
        self._all = all
        self._used_by = used_by

    def directories(self, limit: int) -> list[tuple[Path, float]]:
        return []

    def listed(self, path: Path, limit: int) -> list[base.StoredConversation]:
        return []

    def known(self, path: Path, session_id: str) -> bool:
        return self._all or session_id in self._ids

    def title(self, path: Path, session_id: str) -> str | None:
        return None

    def messages(self, path: Path, session_id: str, **where: Any) -> base.EarlierMessages:
        return base.EarlierMessages((), None)

    def messages_from(self, path: Path, session_id: str, **where: Any) -> Iterator[tuple[int, base.EarlierMessage]]:
        return iter(())

    def used_by(self, session_id: str) -> list[int]:
        return list(self._used_by)


class Agent:
    """A fake agent. ``processes`` contains every process that it started."""

    name = "claude"
    asks = True
    own_modes = False
    sees = forks = True
    embeds = staticmethod(prompts.embeds)
    sessions: base.StoredConversations | None = None
    says_sessions = True
    """Whether processes report their conversation as soon as they get a prompt."""

    def __init__(self) -> None:
        self.processes: list[Process] = []
        self.unusable: base.AgentUnusable | None = None
        self.may_start = asyncio.Event()
        self.may_start.set()
        self.starts = 0
        """How often a process was to be started."""

    async def start(self, launch: base.Launch, emit: Callable[[base.Event], None]) -> Process:
        self.starts += 1
        await asyncio.sleep(0)
        await self.may_start.wait()
        if self.unusable:
            raise self.unusable
        self.processes.append(Process(launch, emit, says_its_session=self.says_sessions))
        return self.processes[-1]

    def last_state(self, lines: Sequence[bytes], session_id: str) -> base.AgentState:
        return reports.last_state(lines, session_id)

    @property
    def latest(self) -> Process:
        return self.processes[-1]


class Client:
    """A subscriber that records what it is sent."""

    _ids = itertools.count(1)

    def __init__(self, name: str = "phone") -> None:
        self.id = f"client-{next(self._ids)}"
        self.name = name
        self.received: list[dict[str, Any]] = []
        self.frames: list[Frame] = []
        self.decides = self.runs = self.owns = True
        self.device: str | None = None
        self.known = owner(name)

    @property
    def audited(self) -> dict[str, Any]:
        return {"by": self.name}

    def send(self, frame: Frame) -> None:
        self.frames.append(frame)
        self.received.append(json.loads(frame.data))
        check_sent(self.received[-1])

    def sees(self, path: Path) -> bool:
        return True

    async def room(self) -> None:
        await asyncio.sleep(0)

    def updates(self, what: str) -> list[dict[str, Any]]:
        return [
            one["data"]["data"]
            for one in self.received
            if one["type"] == "update" and one["data"]["update_type"] == what
        ]

    def of_type(self, what: str) -> list[dict[str, Any]]:
        return [one for one in self.received if one["type"] == what]

    @property
    def seqs(self) -> list[int]:
        return [one["seq"] for one in self.received if "seq" in one]


class Server:
    """The server's core with its data in a directory. ``does`` executes a message as the transport would, and returns
    the reply as a client reads it.

    Its data is in ``folder / "data"``; projects must be in ``root``. ``planned``: attributes of its plan.
    """

    def __init__(
        self,
        folder: Path,
        limits: Limits | None = None,
        root: Path | None = None,
        writers: Writers | None = None,
        **planned: Any,
    ) -> None:
        self.folder = folder
        self.root = root or folder / "work"
        self.root.mkdir(exist_ok=True)
        self.agent = Agent()
        plan = plan_of(folder / "data", self.root, token_wanted=False, limits=limits or QUIET, **planned)
        self.built = composition.Server(plan, 0, {"claude": self.agent}, writers=writers or OneByOne())
        self.core = self.built.core

    async def upload(self, blob_id: str, data: bytes) -> None:
        """Uploads a blob, as the owner."""
        await self.built.blobs.put(blob_id, 0, data, True)

    def audited(self) -> list[dict[str, Any]]:
        """The entries of the audit log, without their times."""
        log = self.folder / "data" / "audit.jsonl"
        entries = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [{name: value for name, value in entry.items() if name != "time"} for entry in entries]

    async def does(self, client: Client, type: str, project_id: str | None = None, **data: Any) -> dict[str, Any]:
        request_id = data.pop("request_id", None)
        message = {"type": type, "data": data} | ({"project_id": project_id} if project_id else {})
        row: AnyRow = ROWS[type]
        command = parse(
            json.dumps(message | ({"request_id": request_id} if request_id else {})), {row.name: row.request}
        )
        sender: Any = client  # the core uses a client only as a subscriber
        owners = (self.core, self.built.runs, self.built.reviews, self.built.files, self.built.histories)
        owner = next(one for one in owners if isinstance(one, row.owner))
        answered = row.handler(owner, command, sender)
        answer: Answer[Any] = answered if isinstance(answered, Answer) else await answered
        found: dict[str, Any] = json.loads(encode(answer, command.request_id))
        if "seq" in found:  # the reply replaces the record for the client that asked
            client.received.append(found)
        if answer.then is not None:
            answer.then()
        return found

    async def project(self, client: Client, name: str = "one", *, join: bool = True) -> str:
        (self.root / name).mkdir(exist_ok=True)
        answer = await self.does(client, "project_create", path=str(self.root / name), join=join)
        return str(answer["project_id"])

    async def running(self, client: Client, project: str, prompt: str = "go", **more: Any) -> Process:
        """Executes a prompt. Returns the process that received it. ``more``: further fields of the command."""
        before = {process.pid: len(process.prompts) for process in self.agent.processes}

        def given() -> list[Process]:
            return [process for process in self.agent.processes if len(process.prompts) > before.get(process.pid, 0)]

        await self.does(client, "execute", project, prompt=prompt, **more)
        await until(given, "the prompt")
        return given()[-1]

    async def starting(self, client: Client, project: str, prompt: str = "go") -> None:
        """Executes a prompt that waits for its process, which starts once ``agent.may_start`` is set. If no slot is free,
        it waits for one instead."""
        self.agent.may_start.clear()
        starts = self.agent.starts
        await self.does(client, "execute", project, prompt=prompt)

        def is_waiting() -> bool:
            run = self.core.projects.get(project).controller.run
            return self.agent.starts > starts or run is None or run.state is State.WAITING

        await settled(is_waiting)


@contextlib.asynccontextmanager
async def serving(folder: Path, limits: Limits | None = None, root: Path | None = None) -> AsyncIterator[Server]:
    server = Server(folder, limits, root)
    await server.built.open()
    try:
        yield server
    finally:
        await server.built.close("the server is ending")


def check_list(server: Server) -> None:
    """Checks that a list of all sessions, which reuses what has not changed, shows each as it is now."""
    for session in server.core.all_sessions:
        assert session.info() == project_info(session.summary())


async def settled(condition: Callable[[], bool] | None = None, turns: int = 200) -> None:
    """Lets the event loop run until ``condition`` is true or, without a condition, for ``turns`` turns."""
    for _ in range(turns):
        if condition is not None and condition():
            return
        await asyncio.sleep(0)
    if condition is not None:
        await until(condition)


async def exported(server: Server, client: Client, project: str, **wanted: Any) -> str:
    """Requests all pieces of an export. Returns the whole text. ``wanted``: fields of the command."""
    found, after = "", None
    for _ in range(10_000):
        piece = (await server.does(client, "session_export", project, **wanted, after=after))["data"]
        found += piece["text"]
        after = piece.get("next")
        if after is None:
            return str(found)
    raise AssertionError("there is no end")


def records(server: Server, project: str) -> list[dict[str, Any]]:
    """The records of a project's history, read from its files without the server's own reader."""
    logs = server.folder / "data" / "projects" / project / "logs"
    lines = [line for file in sorted(logs.glob("messages_*.jsonl")) for line in file.read_bytes().split(b"\n") if line]
    return [msgspec.json.decode(line) for line in lines]
