"""Runs an agent as a child process: starts it, connects its pipes to its ``Dialect``, and ends it reliably."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

from msgspec import Struct, structs

from drawbridge.agents import process_tree
from drawbridge.agents.base import (
    AgentRefused,
    AgentUnusable,
    Attachment,
    Broken,
    Confinement,
    Decision,
    Dialect,
    Event,
    LookedAt,
    NotAtWork,
    Output,
    Replied,
    Steers,
    Unread,
)
from drawbridge.agents.environment import MARK
from drawbridge.agents.output import LINE_LIMIT, STDERR_LIMIT, Lines, Tail
from drawbridge.agents.shortage import shortage
from drawbridge.agents.supervisor_pipe import SupervisorPipe
from drawbridge.core.disk_threads import DiskThreads
from drawbridge.core.subprocesses import check_descriptors
from drawbridge.core.tasks import BackgroundTasks

STDIN_LIMIT: Final = 64 * 1024 * 1024
"""The maximum number of bytes that may wait until an agent reads its input. The files in a prompt are smaller."""

STDOUT, STDERR = 1, 2

LOOKS: Final = 2
"""The maximum number of threads in which one process's questions wait for a disk."""

logger = logging.getLogger("drawbridge.agents")


class Times(Struct, frozen=True):
    """The seconds that each step of ending a process may take before the next, more forceful step."""

    interrupt: float = 2.0
    leave: float = 1.0
    """The time that ``kill`` gives a process without an open turn to exit after its input was closed."""
    leave_idle: float = 5.0
    """The time that ``stop`` gives an idle process to exit after its input was closed."""
    sigint: float = 2.0
    sigterm: float = 3.0
    """The time that the process has to exit after SIGTERM. ``claude`` needs one second to end a command that it runs
    (2.1.329)."""
    sigkill: float = 5.0
    """The time that the supervisor has to end everything. After that, the server ends the processes itself."""
    pipes: float = 2.0
    """The maximum time between the end of stdin or stdout and the end of the process, and between the end of the
    process and the end of its pipes.
    """
    reply: float = 5.0
    """The time that the agent has to answer a command. This is not a step of ending the process."""
    disk: float = 5.0
    """The time that the disk has to respond. After that, a question or a change of directory is reported without what
    the disk would have shown. This is not a step of ending the process, either."""


class Process(asyncio.SubprocessProtocol):
    """Implements ``AgentProcess``. ``times``: the time limits for the steps of ending it, and for its replies."""

    pid = 0

    def __init__(
        self,
        name: str,
        mark: str,
        pipe: SupervisorPipe,
        conversation: Dialect,
        emit: Callable[[Event], None],
        look: Callable[[LookedAt], object] | None = None,
    ) -> None:
        """``look``: as in ``Launch``."""
        self._name = name
        self._pipe = pipe
        self._mark = f"{MARK}={mark}"
        self._conversation = conversation
        self._emit = emit
        self._look = look
        self._outputs: deque[Output] = deque()
        """What has not been passed on yet. The first one waits for the disk, and the others wait behind it."""
        self._looking: asyncio.Task[None] | None = None
        """The task that is looking at the disk, if any."""
        self._disk = DiskThreads(LOOKS)
        self._looks = BackgroundTasks(logger)
        self.times = Times()
        self._lines = Lines()
        self._stderr = Tail(STDERR_LIMIT)
        self._fault: str | None = None
        self._replies: dict[str, asyncio.Future[str | None]] = {}
        self._asks = False
        """Whether an open question has been reported to the supervisor."""
        self._tasks = BackgroundTasks(logger)
        self._quiet = asyncio.Event()
        self._exited = asyncio.Event()
        self._closed = asyncio.Event()
        self._ended = asyncio.Event()

    @property
    def busy(self) -> bool:
        return self._conversation.busy

    # Messages to the process.

    async def identify(self) -> None:
        """Makes ``pid`` the agent's process id, which the supervisor reports. Until then, it is the supervisor's."""
        self.pid = await self._pipe.agent_pid() or self.pid

    def prompt(self, text: str, attachments: tuple[Attachment, ...] = ()) -> None:
        if not self._ended.is_set():
            self._handle(self._conversation.prompt(text, attachments))

    def answer(self, question_id: str, decision: Decision) -> None:
        self._conversation.answer(question_id, decision)
        self._flush()

    def interrupt(self) -> None:
        self._conversation.interrupt()
        self._flush()

    async def set_mode(self, mode: str) -> None:
        await self._reply(self._conversation.set_mode(mode))

    async def set_model(self, model: str) -> None:
        await self._reply(self._conversation.set_model(model))

    async def set_effort(self, effort: str) -> bool:
        if not isinstance(self._conversation, Steers):
            return False
        await self._reply(self._conversation.set_effort(effort))
        return True

    def steer(self, text: str, attachments: tuple[Attachment, ...], record: Callable[[], None]) -> None:
        if self._ended.is_set():
            raise NotAtWork(f"{self._name} has ended")
        if not isinstance(self._conversation, Steers):
            raise AgentRefused(f"{self._name} does not accept messages while it is working")
        self._conversation.steer(text, attachments, record)
        self._flush()

    async def _reply(self, request_id: str) -> None:
        if self._ended.is_set():
            raise AgentRefused(f"{self._name} has ended.")
        reply = self._replies[request_id] = asyncio.get_running_loop().create_future()
        self._flush()
        try:
            async with asyncio.timeout(self.times.reply):
                error = await reply
        except TimeoutError:
            error = f"{self._name} did not answer within {self.times.reply:g} s."
        finally:
            del self._replies[request_id]
        if error is not None:
            raise AgentRefused(error)

    def _tell_supervisor(self) -> None:
        if self._conversation.asks != self._asks:
            self._asks = self._conversation.asks
            self._pipe.waits(for_decision=self._asks)

    def _flush(self) -> None:
        data = self._conversation.outgoing()
        if data and not self._stdin.is_closing():
            self._stdin.write(data)
        self._tell_supervisor()  # reports a closed question only after its answer was written
        if data and self._stdin.get_write_buffer_size() > STDIN_LIMIT:
            self._fail(f"{self._name} is not reading its input")

    # Messages from the process: asyncio calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)
        self._stdin = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))
        self.pid = self._transport.get_pid()
        self._flush()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == STDERR:
            self._stderr.add(data)
            return
        for line in self._lines.feed(data):
            self._handle(self._conversation.received(line))
        if self._lines.too_long:
            self._fail(f"{self._name} sent a line longer than {LINE_LIMIT // 2**20} MB")

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == STDOUT:
            self._handle(self._conversation.received(self._lines.rest()))
        if fd != STDERR:
            asyncio.get_running_loop().call_later(self.times.pipes, self._expect_exit)

    def process_exited(self) -> None:
        self._exited.set()
        self._pause(on=False)  # what is left in the pipe is not large, and would otherwise be lost
        self._tasks.start(self._finish(), f"{self._name}: cleaning up after its exit")

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed.set()

    def _handle(self, outputs: Sequence[Output]) -> None:
        self._tell_supervisor()  # this comes first, so that a question is reported before any client can answer it
        self._outputs += outputs
        if self._looking is None:
            self._pass_on()
        self._flush()
        if self._conversation.turn_open:
            self._quiet.clear()
        else:
            self._quiet.set()

    def _pass_on(self) -> None:
        """Passes on the outputs, up to the next one that depends on the disk."""
        while self._outputs:
            item = self._outputs[0]
            if isinstance(item, Unread) or (isinstance(item, LookedAt) and self._look is not None):
                self._pause(on=True)
                self._looking = self._looks.start(self._look_at(item), f"{self._name}: looking at the disk")
                return
            self._outputs.popleft()
            self._report(item)

    async def _look_at(self, item: Unread | LookedAt) -> None:
        """Looks at the disk for the first output, and then passes on the outputs. Meanwhile, nothing is read from the
        agent."""
        event = item.question if isinstance(item, Unread) else item
        try:
            event = await self._disk.run(partial(self._looked_at, item), self.times.disk)
        except TimeoutError:
            logger.warning("%s: the disk of a file or directory that it uses does not respond", self._name)
        except Exception:
            logger.exception("%s: internal error: its output could not be processed", self._name)
        self._outputs.popleft()
        self._report(event)
        self._looking = None
        self._pass_on()
        if self._looking is None:
            self._pause(on=False)
        self._flush()

    def _looked_at(self, item: Unread | LookedAt) -> LookedAt:
        """The event for an output that depends on the disk. Blocking."""
        event = item.read() if isinstance(item, Unread) else item
        return event if self._look is None else structs.replace(event, look=self._look(event))

    def _report(self, item: Event | Replied | Broken) -> None:
        if isinstance(item, Replied):
            reply = self._replies.get(item.request_id)
            if reply is not None and not reply.done():
                reply.set_result(item.error)
        elif isinstance(item, Broken):
            self._fail(item.fault)
        else:
            try:
                self._emit(item)
            except Exception:  # an internal error must not lose the rest of the agent's output
                logger.exception("%s: internal error: its output could not be processed", self._name)

    def _pause(self, *, on: bool) -> None:
        """Stops reading what the agent writes, or continues."""
        stdout = cast(asyncio.ReadTransport, self._transport.get_pipe_transport(STDOUT))
        if on and not self._exited.is_set():
            stdout.pause_reading()
        elif not on:
            stdout.resume_reading()

    # The end of the process.

    async def stop(self) -> None:
        await self._shielded(self._stop())

    async def kill(self) -> None:
        await self._shielded(self._kill())

    async def _stop(self) -> None:
        if self._conversation.turn_open:
            await self._kill()
            return
        self._wake()
        self._stdin.close()
        if not await self._is_gone_within(self.times.leave_idle):
            await self._kill_by_signals(signal.SIGTERM)

    async def _kill(self) -> None:
        self._wake()
        if self._conversation.turn_open:
            self.interrupt()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.times.interrupt):
                    await self._quiet.wait()
        if not self._conversation.turn_open:
            self._stdin.close()
            if await self._is_gone_within(self.times.leave):
                return
        await self._kill_by_signals(signal.SIGINT, signal.SIGTERM)

    def _wake(self) -> None:
        """Continues the process if SIGSTOP has stopped it, because it would otherwise react only to the final
        SIGKILL. Also continues to read its output, which may contain the end of its turn."""
        self._pipe.signal(signal.SIGCONT)
        self._pause(on=False)

    async def _kill_by_signals(self, *numbers: signal.Signals) -> None:
        for number in numbers:
            self._pipe.signal(number)
            seconds = self.times.sigint if number is signal.SIGINT else self.times.sigterm
            if await self._is_gone_within(seconds):
                return
        self._pipe.signal(signal.SIGKILL)
        if await self._is_gone_within(self.times.sigkill):
            return
        await asyncio.to_thread(process_tree.end, self.pid, self._mark)
        await self._ended.wait()

    async def _is_gone_within(self, seconds: float) -> bool:
        """Whether the process ends within that time. After its exit, this also waits for the rest of its process
        tree.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._exited.wait()
        except TimeoutError:
            return False
        await self._ended.wait()
        return True

    def _fail(self, fault: str) -> None:
        """Ends the process because of ``fault``, from which it can't recover."""
        if self._fault is None and not self._exited.is_set():
            self._fault = f"{fault}, and was stopped."
            self._tasks.start(self._kill_by_signals(signal.SIGTERM), f"{self._name}: stopping the faulty agent")

    def _expect_exit(self) -> None:
        """Ends the process if it is still running ``Times.pipes`` seconds after its input or output was closed, unless
        it is already being ended."""
        if not self._exited.is_set() and not self._tasks:
            self._fail(f"{self._name} closed its input or output but continued to run")

    async def _finish(self) -> None:
        """Ends everything that the exited process started, and emits the last events."""
        try:
            if not self._pipe.tree_is_empty():
                left = await asyncio.to_thread(process_tree.end, self.pid, self._mark)
                if left:
                    logger.error("%s: could not stop its processes %s", self._name, left)
            await self._close_pipes()
        finally:
            self._pipe.close()
            code = self._transport.get_returncode()
            self._handle(self._conversation.ended(-1 if code is None else code, self._stderr.text, self._fault))
            while self._looking is not None:
                await asyncio.wait([self._looking])
            self._ended.set()

    async def _close_pipes(self) -> None:
        """Reads the pipes to their end, or for ``Times.pipes`` seconds if another process keeps one open."""
        await self._wait_for_pipes(self.times.pipes)
        self._transport.close()
        await self._wait_for_pipes(self.times.pipes)

    async def _wait_for_pipes(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()

    async def _shielded(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs ``work`` in a task and waits for it. The task continues if the caller is canceled."""
        await asyncio.shield(self._tasks.start(work, f"{self._name}: ending the agent"))


async def start(
    name: str,
    command: Sequence[str],
    directory: str,
    environment: Mapping[str, str],
    conversation: Dialect,
    emit: Callable[[Event], None],
    confinement: Confinement = Confinement(),  # noqa: B008 - frozen
    kind: type[Process] = Process,
    look: Callable[[LookedAt], object] | None = None,
) -> Process:
    """Runs ``command`` in ``directory``, in its own session, under a supervisor.

    ``environment`` must contain the mark. Raises ``AgentUnusable`` if the supervisor can't be started. If the command
    can't be run, the process ends with the exit code ``supervisor.NOT_STARTED``. ``look``: as in ``Launch``.
    """
    pipe = SupervisorPipe()
    process = kind(name, environment[MARK], pipe, conversation, emit, look)
    try:
        check_descriptors()
        await asyncio.get_running_loop().subprocess_exec(
            lambda: process,
            *pipe.command(confinement, command),
            cwd=directory,
            env=dict(environment),
            start_new_session=True,
            pass_fds=(pipe.descriptor,),
        )
    except OSError as error:
        pipe.close()
        raise _not_started(name, directory, error) from None
    except BaseException:
        pipe.close()
        raise
    try:
        await process.identify()
    except BaseException:  # the caller was canceled, and nobody else would end the process
        await process.stop()
        raise
    return process


def _not_started(name: str, directory: str, error: OSError) -> AgentUnusable:
    if not os.path.isdir(directory):
        return AgentUnusable("INVALID_PATH", "The session's directory does not exist.")
    return shortage(error) or AgentUnusable("EXECUTION_FAILED", f"{name} can't be started: {error.strerror}.")


async def program(name: str, path: str, environment: Mapping[str, str], install: str = "") -> str:
    """The absolute path of an agent's program. ``path``: its name or path. ``install``: what to install if it is
    missing, for an agent with a program that ``--agent-path`` can set.

    Raises ``AgentUnusable`` (AGENT_NOT_FOUND).
    """
    found = await asyncio.to_thread(_found, path, environment.get("PATH"))
    if found is None:
        problem = f"`{path}` was not found on PATH"
        if os.sep in path:
            problem = f"{path} {await asyncio.to_thread(problem_with, path)}"
        text = f"The `{name}` agent can't run: its program {problem} on the server's machine."
        remedy = f"Install {install} there, or start the server with --agent-path {name}=PATH."
        if not install:
            remedy = "Install it there."
        if os.sep in path:
            flag = "--agent-path" if install else "--acp-agent or --command-agent"
            remedy = f"Install {install or 'it'} there, or correct its path ({flag})."
        raise AgentUnusable("AGENT_NOT_FOUND", f"{text} {remedy}")
    return found


def problem_with(path: str) -> str:
    """Why ``shutil.which`` does not find the program ``path``, in words that follow its path."""
    if os.path.isdir(path):
        return "is a directory"
    return "is not executable" if os.path.isfile(path) else "was not found"


def _found(path: str, places: str | None) -> str | None:
    found = shutil.which(path, path=places)
    return None if found is None else os.path.abspath(found)
