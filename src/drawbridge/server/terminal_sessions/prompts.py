"""Prompts that clients send to the agent of a terminal session. They are typed into the agent's terminal, which is
possible if the terminal belongs to an editor with a bridge.

Bridges identify a terminal by the process that was started in it: the agent itself, or one of its ancestors.

A prompt is accepted when the agent itself reports that it started on it. A prompt is stored before it is typed, so
that even after a restart its request id is recognized and the history names its sender.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec
import psutil
from msgspec import Struct

from drawbridge.agents.terminal import AskingAgent, Prompt
from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.protocols import local_ipc as wire
from drawbridge.server.approvals.editors import Editor
from drawbridge.server.events import PromptAccepted, Submission, TerminalState
from drawbridge.server.protocol import commands
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.protocol.messages import TERMINAL_NAME
from drawbridge.server.protocol.replies import Accepted
from drawbridge.server.sessions.recorded_state import RecordedState, request_key
from drawbridge.server.terminal_sessions.prompt_text import same_words, typeable

logger = logging.getLogger("drawbridge.server")

BEGIN_SECONDS: Final = 10.0
"""Seconds that the agent may take to start on a typed prompt, including the time that its hooks take."""

UNSURE: Final = (
    "The prompt may have been typed, but the agent has not reported that it has begun to work on it. Check its terminal before "
    "you send the prompt again as a new request."
)

MAYBE_TYPED: Final = ("EXECUTION_FAILED", "SHUTTING_DOWN")
"""The codes of errors after which the prompt may have been typed."""

TYPING_SECONDS: Final = 12.0
"""Seconds that an editor may take to type a prompt. The editor's own time limit is shorter."""

ANCESTORS_SECONDS: Final = 10.0
"""Seconds for which the ancestors of a process are remembered."""

MOST_ANCESTORS: Final = 1_000

ELSEWHERE: Final = (
    "This agent was started in a terminal and is controlled there. Answer its requests here, or fork the session to "
    "continue it in a project on this server."
)

ONLY_THERE: Final = (
    "This agent was started in a terminal and is controlled there. Answer its requests here, and send prompts in its "
    "terminal."
)
"""Like ``ELSEWHERE``, for an agent that can't fork a conversation."""

HAS_ENDED: Final = "The comments can't be sent: the session has ended."


def above(*, forks: bool) -> ClientError:
    """The refusal of a prompt for an agent that runs outside the owner's limits for clients. ``forks``: whether the
    agent can fork the conversation."""
    remedy = (
        "Fork the session: the copy runs within the limits." if forks else "Enter the text in the agent's terminal."
    )
    text = "Not sent: the owner's limits for clients can't be applied to this agent."
    return ClientError("PERMISSION_DENIED", f"{text} {remedy}")


class Terminals:
    """The terminals of all connected editors."""

    def __init__(self) -> None:
        self._editors: list[Editor] = []
        self._typing: dict[str, tuple[Editor, asyncio.Future[str | None]]] = {}
        self._ancestors: dict[int, tuple[float, Sequence[int]]] = {}
        """Maps a PID to the time at which its ancestors were looked up, and to the result."""

    def add(self, editor: Editor) -> None:
        """Adds an editor after its bridge has connected, unless it has been added already."""
        if editor not in self._editors:
            self._editors.append(editor)

    def remove(self, editor: Editor) -> None:
        if editor in self._editors:
            self._editors.remove(editor)
        for typed_by, outcome in self._typing.values():
            if typed_by is editor and not outcome.done():
                text = "The editor has disconnected. Check in the agent's terminal whether the prompt has arrived."
                outcome.set_exception(ClientError("EXECUTION_FAILED", text, retryable=False))

    def answered(self, editor: Editor, id: str, refusal: str | None) -> None:
        """Sets the result of a prompt. ``refusal``: the reason why the prompt was not typed; None if it was."""
        typed_by, outcome = self._typing.get(id, (None, None))
        if outcome is not None and typed_by is editor and not outcome.done():
            outcome.set_result(refusal)

    def contain(self, pid: int | None) -> bool:
        """Whether the agent with this PID runs in one of the terminals. Its ancestors are looked up only now and then,
        because this is asked whenever the state of a session is published."""
        return self._find(pid, self._known_ancestors) is not None

    async def type(self, pid: int | None, text: str) -> None:
        """Types a prompt for the agent. Returns once the editor has confirmed that it was typed. Raises
        ``ClientError``."""
        found = self._find(pid, _with_ancestors)
        if found is None:
            text = "The prompt was not typed: the agent's terminal is no longer open in a connected editor."
            raise ClientError("NOT_SUPPORTED", text)
        editor, terminal = found
        id, outcome = uuid.uuid4().hex, asyncio.get_running_loop().create_future()
        self._typing[id] = (editor, outcome)
        try:
            editor.send(wire.Prompt(id, terminal, text))
            async with asyncio.timeout(TYPING_SECONDS):
                refusal = await outcome
        except TimeoutError:
            text = "The editor has not confirmed that the prompt was typed. Check the agent's terminal."
            raise ClientError("EXECUTION_FAILED", text, retryable=False) from None
        finally:
            del self._typing[id]
        if refusal is not None:
            raise ClientError("PROCESS_ACTIVE", refusal)

    def _find(self, pid: int | None, ancestors: Callable[[int], Sequence[int]]) -> tuple[Editor, int] | None:
        held = {terminal: one for one in self._editors if one.about for terminal in one.about.terminals}
        if not held or pid is None:
            return None
        return next(((held[one], one) for one in ancestors(pid) if one in held), None)

    def _known_ancestors(self, pid: int) -> Sequence[int]:
        when, found = self._ancestors.get(pid, (float("-inf"), ()))
        if time.monotonic() - when > ANCESTORS_SECONDS:
            if len(self._ancestors) >= MOST_ANCESTORS:
                self._ancestors.clear()
            found = _with_ancestors(pid)
            self._ancestors[pid] = time.monotonic(), found
        return found


class SentPrompt(Struct, frozen=True):
    """A prompt from the client ``by``, ``client_id``. ``turn``: the id of the agent's turn, once it has begun; empty
    before. ``review``: the comments that the prompt contains, if any."""

    text: str
    by: str
    request_id: str | None = None
    turn: str = ""
    review: Submission | None = None
    client_id: str | None = None

    @property
    def key(self) -> str | None:
        return request_key(self.request_id, self.review.key if self.review else self.text) if self.request_id else None


class Receiver(Protocol):
    """The part of ``TerminalSession`` that ``Prompts`` uses. The class itself is in a higher layer."""

    id: str
    ended: bool
    agent: AskingAgent

    @property
    def pid(self) -> int | None: ...

    @property
    def forks(self) -> bool:
        """Whether a copy of the conversation can be continued in a project."""
        ...

    @property
    def recorded(self) -> RecordedState: ...

    @property
    def phase(self) -> TerminalState: ...

    @property
    def resting(self) -> bool:
        """Whether the agent's prompt box accepts a new prompt. Its background tasks may still be running."""
        ...

    def submitted(self, review: Submission, turn: str, by: str) -> None:
        """Marks these comments as sent, because the agent started on a prompt with them."""
        ...


class Prompts:
    """The prompts that clients send to one session.

    ``sent``: the prompt that was sent last, until it is in the history. ``save``: called when ``sent`` has changed.
    """

    def __init__(
        self, session: Receiver, terminals: Terminals, sent: SentPrompt | None, save: Callable[[], None]
    ) -> None:
        self.sent = sent
        self._save = save
        self._session = session
        self._terminals = terminals
        self._begun: asyncio.Future[str] | None = None
        self._tasks = BackgroundTasks(logger)
        self._sending: asyncio.Future[str] | None = None
        """A future for the turn that the last prompt begins. Its exception is the error with which the prompt has
        failed."""

    @property
    def possible(self) -> bool:
        """Whether clients can send prompts to this session, because its agent accepts typed prompts and runs in a
        terminal of a connected editor. A prompt is still refused while the agent is busy."""
        session = self._session
        return session.agent.accepts_typing and not session.ended and self._terminals.contain(session.pid)

    @property
    def can_type(self) -> bool:
        """Whether a prompt can be typed at this moment."""
        is_free = self._sending is None or self._sending.done()
        busy = self._session.phase == "waiting" or (self._session.phase == "working" and not self._session.resting)
        return self.possible and is_free and not busy

    async def execute(
        self, command: commands.Execute, client: Subscriber, allowed: Callable[[], bool]
    ) -> Answer[Accepted]:
        """Types a prompt, which is accepted once the agent has started on it. A repeated request (the same
        ``request_id`` and prompt) gets the same reply, and nothing is typed again. Raises ``ClientError``.

        ``allowed``: returns whether clients could have started the agent with the permissions that it has.
        """
        sent = SentPrompt(
            typeable(self._session.agent, command.prompt), client.name, command.request_id, client_id=client.id
        )
        known = await self.known(sent.request_id, sent.text)
        if known is not None:
            return known
        if self.possible:
            _check(command)
        return await self.accepted(self.begin(sent, allowed))

    async def known(self, request_id: str | None, text: str) -> Answer[Accepted] | None:
        """Returns the reply to a request that was made before, once its result is known; None if the request is new.
        ``text``: the prompt, or the key of the submission if it contains comments. Raises ``ClientError`` if the
        request has failed, or its result can't be determined."""
        key = request_key(request_id, text) if request_id else None
        known = self.sent if self.sent is not None and self.sent.key == key is not None else None
        turn = self._session.recorded.run_of(request_id or "", text) or (known.turn if known else "")
        if turn or known is None:
            return self._accepted(turn) if turn else None
        return await self.accepted(self._again())

    async def accepted(self, sending: asyncio.Future[str]) -> Answer[Accepted]:
        """The reply, once the agent has started on the prompt. Raises ``ClientError``."""
        return self._accepted(await asyncio.shield(sending))

    def _accepted(self, turn: str) -> Answer[Accepted]:
        return Answer(type="accepted", project_id=self._session.id, data=Accepted(turn, 0))

    def _again(self) -> asyncio.Future[str]:
        """The future for the result of a request that is repeated. Raises ``ClientError`` if the result is not
        known."""
        if self._sending is None or self._sending.done():
            raise ClientError("EXECUTION_FAILED", UNSURE, retryable=False)
        return self._sending

    def begin(self, sent: SentPrompt, allowed: Callable[[], bool]) -> asyncio.Future[str]:
        """Starts typing a prompt. Returns a future for the turn that the agent starts with it; the future fails if the
        prompt does. Raises ``ClientError``, and types nothing, if the prompt is refused now."""
        if self._sending is not None and not self._sending.done():
            raise ClientError(
                "PROCESS_ACTIVE", "Another prompt is being typed in this terminal. Try again in a moment."
            )
        self._check()
        if not allowed():
            raise above(forks=self._session.forks)
        sending = self._sending = asyncio.get_running_loop().create_future()
        sending.add_done_callback(_retrieve_error)

        def ended(_: asyncio.Task[None]) -> None:
            if not sending.done():
                sending.set_exception(ClientError("SHUTTING_DOWN", UNSURE))

        what = f"{self._session.id}: typing a prompt"
        sent_to = self._session.pid  # the checks were about this process
        self._tasks.start(self._send(sent, sent_to, sending), what, failed=sending.set_exception).add_done_callback(
            ended
        )
        return sending

    def _check(self) -> None:
        session = self._session
        if session.ended:
            remedy = " Fork it to continue in a project on this server." if session.forks else ""
            raise ClientError("NOT_SUPPORTED", f"The prompt can't be sent: the session has ended.{remedy}")
        if not self.possible:
            raise ClientError("NOT_SUPPORTED", ELSEWHERE if session.forks else ONLY_THERE)
        if session.phase == "waiting":
            text = (
                "The agent is waiting for an answer, and typing a prompt would press Enter in its dialog. Answer "
                "its request first."
            )
            raise ClientError("PROCESS_ACTIVE", text)
        if session.phase == "working" and not session.resting:
            raise ClientError("PROCESS_ACTIVE", "The agent is busy. Try again when it has finished.")

    async def _send(self, sent: SentPrompt, pid: int | None, sending: asyncio.Future[str]) -> None:
        try:
            sending.set_result(await self._type(sent, pid))
        except (ClientError, DrawbridgeError) as error:
            sending.set_exception(error)

    async def _type(self, sent: SentPrompt, pid: int | None) -> str:
        """Types a prompt. Returns the turn that the agent started with it. Raises ``ClientError``."""
        self._begun = asyncio.get_running_loop().create_future()
        self._keep(sent)
        try:
            await self._terminals.type(pid, sent.text)
            async with asyncio.timeout(BEGIN_SECONDS):
                return await self._begun
        except ClientError as error:
            if error.code not in MAYBE_TYPED:
                self._keep(None)
            raise
        except TimeoutError:
            raise ClientError("EXECUTION_FAILED", UNSURE, retryable=False) from None

    def _keep(self, sent: SentPrompt | None) -> None:
        self.sent = sent
        self._save()

    def as_sent(self, prompt: str) -> str:
        """A reported prompt as it was sent by the client; unchanged if it is not the last prompt that a client sent."""
        sent = self.sent
        is_sent = sent is not None and same_words(self._session.agent, sent.text, prompt)
        return sent.text if sent is not None and is_sent else prompt

    def begun(self, turn: str, prompt: str) -> None:
        """Handles the report that the agent started on ``prompt``."""
        sent = self.sent
        if sent is None or not same_words(self._session.agent, sent.text, prompt):
            return
        if sent.review is not None:
            self._session.submitted(sent.review, turn, sent.by)
        self._keep(msgspec.structs.replace(sent, turn=turn))
        if self._begun is not None and not self._begun.done():
            self._begun.set_result(turn)

    def found(self, entry: Prompt, run: str) -> PromptAccepted:
        """Handles a prompt of ``run`` in the conversation's file, on which the agent has therefore started. Returns it
        as it is stored in the history."""
        self.begun(run, entry.text)
        sent = self.sent
        if sent is None or sent.turn != run:
            return PromptAccepted(run, entry.text, TERMINAL_NAME, uuid=entry.uuid)
        return PromptAccepted(
            run,
            self.as_sent(entry.text),
            sent.by,
            sent.request_id,
            uuid=entry.uuid,
            review=sent.review,
            client_id=sent.client_id,
        )

    def recorded(self, entry: Prompt, run: str) -> None:
        """Forgets a prompt of ``run``, because it is now in the history."""
        self.begun(run, entry.text)
        if self.sent is not None and self.sent.turn:
            self._keep(None)

    def close(self) -> None:
        self._tasks.cancel()


def check_not_steered(command: commands.Execute | commands.ReviewSubmit) -> None:
    """Raises ``ClientError`` if the command asks for its prompt to be sent into the active run."""
    if command.steer:
        text = "In a terminal session, nothing can be added to the current run. Try again when the run has finished."
        raise ClientError("NOT_SUPPORTED", text, field="data.steer")


def _check(command: commands.Execute) -> None:
    """Raises ``ClientError`` if the command contains anything that can't be typed."""
    check_not_steered(command)
    untypeable = {
        "attachments": bool(command.attachments),
        "agent": command.agent is not None,
        "options": _chosen(command.options),
    }
    given = [name for name, is_given in untypeable.items() if is_given]
    if given:
        words = " and ".join({"agent": "the choice of an agent"}.get(name, f"the {name}") for name in given)
        text = f"A terminal session accepts only text. Remove {words}."
        raise ClientError("NOT_SUPPORTED", text, field=f"data.{given[0]}")


def _with_ancestors(pid: int) -> Sequence[int]:
    try:
        return [pid, *(parent.pid for parent in psutil.Process(pid).parents())]
    except (psutil.Error, OSError, ValueError, OverflowError):
        return [pid]


def _chosen(options: commands.Options) -> bool:
    """Whether any option that affects how the agent runs is set."""
    return msgspec.structs.replace(options, partial_messages=False) != commands.Options()


def _retrieve_error(sending: asyncio.Future[str]) -> None:
    """Retrieves the error. Otherwise, the event loop would report it if the client disconnected before its prompt
    failed.
    """
    if not sending.cancelled():
        sending.exception()
