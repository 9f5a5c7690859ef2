"""Prompts that clients send to the agent of a terminal session: typed into its terminal, if an editor with a bridge has it.

A prompt is accepted when the agent itself reports that it has begun with it. Prompts on their way are stored, so that they
are recognised by their request after a restart too, and are in the history with the name of their sender.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from drawbridge.agents.base import Options
from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.events import PromptAccepted
from drawbridge.server.protocol import commands
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import Answer, DeskState, Subscriber
from drawbridge.server.protocol.replies import Accepted
from drawbridge.server.sessions.records import Memory, request_key
from drawbridge.server.sessions.terminals import ABOVE, ELSEWHERE, Terminals, typeable
from drawbridge.server.terminal_sessions import transcript

logger = logging.getLogger("drawbridge.server")

AT_DESK: Final = "desk"
"""The sender of prompts that were typed in the terminal."""

BEGIN_SECONDS: Final = 10.0
"""Seconds that the agent may take to begin with a typed prompt; its hooks run first."""


PASTE_MARK: Final = re.compile(r'</?pasted_content id="\w*">')
"""What Claude Code puts round a long paste (2.1.329)."""

UNSURE: Final = (
    "The prompt was typed, or was about to be, but the agent has not started on it. Check its terminal. To send the prompt "
    "again, use a new request."
)


class Sent(Struct, frozen=True):
    """``turn``: the agent's, once it has begun."""

    text: str
    by: str
    request_id: str | None = None
    turn: str = ""

    @property
    def key(self) -> str | None:
        return request_key(self.request_id, self.text) if self.request_id else None


class Session(Protocol):
    """The session whose prompts they are."""

    id: str
    pid: int | None
    ended: bool

    @property
    def memory(self) -> Memory: ...

    @property
    def state(self) -> DeskState: ...

    @property
    def resting(self) -> bool:
        """Whether the agent's prompt box takes a new prompt, while background tasks of its may still run."""
        ...


class Prompts:
    """One session's.

    ``sent``: what is typed, or about to be, and not in the history yet; ``save`` is called when that changes.
    """

    def __init__(self, session: Session, terminals: Terminals, sent: Sent | None, save: Callable[[], None]) -> None:
        self.sent = sent
        self._save = save
        self._session = session
        self._terminals = terminals
        self._begun: asyncio.Future[str] | None = None
        self._tasks = BackgroundTasks(logger)
        self._sending: asyncio.Future[str] | None = None
        """The turn that the last prompt has begun, or the ``ClientError`` that it failed with."""

    @property
    def taken(self) -> bool:
        """Whether clients can send some."""
        return not self._session.ended and self._terminals.hold(self._session.pid)

    async def execute(
        self, command: commands.Execute, client: Subscriber, allowed: Callable[[], bool]
    ) -> Answer[Accepted]:
        """Accepted when the agent has begun with it. A repeated ``request_id`` gets the same reply; nothing is typed again.

        ``allowed``: whether a client might have started the agent as it is.
        """
        sent = Sent(typeable(command.prompt), client.name, command.request_id)
        known = self.sent if self.sent is not None and self.sent.key == sent.key is not None else None
        turn = self._session.memory.run_of(sent.request_id or "", sent.text) or (known.turn if known else "")
        if not turn:
            turn = await asyncio.shield(self._again() if known else self._first(sent, command, allowed))
        return Answer(type="accepted", project_id=self._session.id, data=Accepted(turn, 0))

    def _again(self) -> asyncio.Future[str]:
        """What becomes of the request that was made before."""
        if self._sending is None or self._sending.done():
            raise ClientError("EXECUTION_FAILED", UNSURE, retryable=False)
        return self._sending

    def _first(self, sent: Sent, command: commands.Execute, allowed: Callable[[], bool]) -> asyncio.Future[str]:
        if self._sending is not None and not self._sending.done():
            raise ClientError("PROCESS_ACTIVE", "Another prompt is being typed in this terminal. Nothing was typed.")
        self._check(command)
        if not allowed():
            raise ClientError("PERMISSION_DENIED", ABOVE)
        sending = self._sending = asyncio.get_running_loop().create_future()
        sending.add_done_callback(_seen)

        def ended(_: asyncio.Task[None]) -> None:
            if not sending.done():
                sending.set_exception(ClientError("SHUTTING_DOWN", UNSURE))

        what = f"{self._session.id}: typing a prompt"
        self._tasks.start(self._send(sent, sending), what, failed=sending.set_exception).add_done_callback(ended)
        return sending

    def _check(self, command: commands.Execute) -> None:
        session = self._session
        if not self.taken:
            raise ClientError("NOT_SUPPORTED", ELSEWHERE)
        if command.attachments or command.agent is not None or _chosen(command.options):
            text = "Only text can be typed into a terminal: no files, no options. Nothing was typed."
            field = "data.attachments" if command.attachments else "data.agent" if command.agent else "data.options"
            raise ClientError("NOT_SUPPORTED", text, field=field)
        if session.state == "waiting":
            text = (
                "The agent waits for a decision, and Enter would be one. Nothing was typed; answer its approval first."
            )
            raise ClientError("PROCESS_ACTIVE", text)
        if session.state == "working" and not session.resting:
            raise ClientError("PROCESS_ACTIVE", "The agent is busy. Nothing was typed; try again when it has finished.")

    async def _send(self, sent: Sent, sending: asyncio.Future[str]) -> None:
        try:
            sending.set_result(await self._type(sent))
        except (ClientError, DrawbridgeError) as error:
            sending.set_exception(error)

    async def _type(self, sent: Sent) -> str:
        """Returns the turn that the agent has begun with it. Raises ``ClientError``."""
        self._begun = asyncio.get_running_loop().create_future()
        self._keep(sent)
        try:
            await self._terminals.type(self._session.pid, sent.text)
            async with asyncio.timeout(BEGIN_SECONDS):
                return await self._begun
        except ClientError as error:
            if error.code != "EXECUTION_FAILED":  # nothing was typed
                self._keep(None)
            raise
        except TimeoutError:
            raise ClientError("EXECUTION_FAILED", UNSURE, retryable=False) from None

    def _keep(self, sent: Sent | None) -> None:
        self.sent = sent
        self._save()

    def begun(self, turn: str, prompt: str) -> str:
        """The agent begins with a prompt; its text as it was sent, else as it is."""
        sent = self.sent
        if sent is None or _letters(PASTE_MARK.sub("", prompt)) != _letters(sent.text):
            return prompt
        self._keep(msgspec.structs.replace(sent, turn=turn))
        if self._begun is not None and not self._begun.done():
            self._begun.set_result(turn)
        return sent.text

    def record(self, entry: transcript.Prompt, run: str) -> PromptAccepted:
        """A prompt in the conversation's file, which belongs to ``run``, as the history keeps it."""
        text = self.begun(run, entry.text)
        sent = self.sent
        if sent is None or sent.turn != run:
            return PromptAccepted(run, entry.text, AT_DESK, uuid=entry.uuid)
        return PromptAccepted(run, text, sent.by, sent.request_id, uuid=entry.uuid)

    def recorded(self, entry: transcript.Prompt, run: str) -> str:
        """It is in the history: from there it is known. Its text."""
        text = self.begun(run, entry.text)
        if self.sent is not None and self.sent.turn:
            self._keep(None)
        return text

    def close(self) -> None:
        self._tasks.cancel()


def _chosen(options: Options) -> bool:
    """Something about how the agent is to run."""
    return msgspec.structs.replace(options, partial_messages=False) != Options()


def _letters(text: str) -> str:
    """Blanks come and go on the way: a tab is four of them in the agent's box."""
    return "".join(filter(str.isprintable, "".join(text.split())))


def _seen(sending: asyncio.Future[str]) -> None:
    """The client may be gone before its prompt fails: the event loop need not report that as an error."""
    if not sending.cancelled():
        sending.exception()
