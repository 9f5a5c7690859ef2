"""Runs agents that handle one prompt per process. They read it from stdin until end of file, and the turn ends with the
process."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from drawbridge.agents.attached import LONGEST_TEXT as LONGEST_FILE
from drawbridge.agents.attached import text_of, with_paths
from drawbridge.agents.base import (
    AgentLine,
    AgentRefused,
    Attachment,
    Decision,
    Exited,
    Output,
    SessionIdentified,
    TurnEnded,
)
from drawbridge.agents.output import JUNK_LIMIT, Tail, parsed, readable, session_id_of, valid
from drawbridge.agents.process import Process
from drawbridge.agents.results import EXITED, FAILED, INTERRUPTED, Failure, exit_words
from drawbridge.core.json_text import UNDECODABLE
from drawbridge.text.counts import size

STDIN = 0
LONGEST_TEXT = 2_000


class _Object(Struct):
    """Any JSON object."""


_object: Final = msgspec.json.Decoder(_Object)


class OneShot(Process):
    """A process that SIGINT interrupts. Its stdin is closed after the prompt."""

    def _flush(self) -> None:
        super()._flush()
        if self._conversation.turn_open:
            self._stdin.close()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd != STDIN:
            super().pipe_connection_lost(fd, exc)

    def interrupt(self) -> None:
        super().interrupt()
        if self._conversation.turn_open:
            self._pipe.signal(signal.SIGINT)


class Turn:
    """A ``Dialect`` for one process: a prompt in, lines out. Each agent overrides ``meant`` to interpret the lines that
    are JSON objects, and may override ``text``, ``rest`` and ``failed``.
    """

    asks = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.session_id: str | None = None
        self.turn_open = self._interrupted = False
        self._out = b""
        self.junk = Tail(JUNK_LIMIT)

    @property
    def busy(self) -> bool:
        return self.turn_open

    def meant(self, message: Mapping[str, Any], data: bytes) -> list[Output]:
        """The events of one JSON object of the output."""
        return [AgentLine(data, session_id_of(message.get("session_id")))]

    def text(self, line: bytes) -> list[Output]:
        """The events of a line that is not a JSON object. The last line is empty if the output ends with a newline."""
        self.junk.add(line + b"\n")
        return []

    def rest(self) -> list[Output]:
        """The last events, once the output has ended."""
        return []

    def failed(self, code: int, words: str) -> Failure | None:
        """The failure of the turn; None if it did not fail. ``words``: the process's stderr or, if that is empty, the
        output that ``text`` has collected."""
        if code == 0:
            return None
        words = "\n".join(words.splitlines()[-5:])
        how = exit_words(code)
        text = f"{self.name} {how}{f': {words}' if words else ', without a message.'}"[:LONGEST_TEXT]
        return Failure(EXITED if code < 0 else FAILED, text)

    def outgoing(self) -> bytes:
        data, self._out = self._out, b""
        return data

    def received(self, line: bytes) -> list[Output]:
        stripped = line.strip(b" \t\r")
        read = parsed(stripped, _object) if stripped else None
        if read is None:
            return self.text(line)
        try:
            message = msgspec.json.decode(read[1], type=dict[str, Any])
        except UNDECODABLE:
            message = {}
        return self.meant(message, read[1])

    def in_session(self, session_id: object) -> list[Output]:
        if not isinstance(session_id, str) or not session_id or session_id == self.session_id:
            return []
        self.session_id = session_id
        return [SessionIdentified(session_id)]

    def ended(self, code: int, stderr: str, fault: str | None) -> list[Output]:
        outputs = self.rest()
        if self.turn_open:
            failure = Failure(FAILED, fault) if fault else self.failed(code, stderr.strip() or readable(self.junk.text))
            interrupted = failure is not None and self._interrupted and fault is None
            if interrupted:  # the signal that interrupted the program is not the user's concern
                failure = Failure(FAILED, INTERRUPTED)
            self.turn_open = False
            outputs.append(
                TurnEnded(
                    ok=failure is None,
                    session_id=self.session_id,
                    error=failure.text if failure else None,
                    code=failure.code if failure else None,
                    interrupted=interrupted,
                )
            )
        return [*outputs, Exited(code, stderr)]

    def prompt(self, text: str, attachments: tuple[Attachment, ...] = ()) -> list[Output]:
        """Begins the turn. Text files are sent before the prompt. Other attachments are referred to by their paths. If
        one of them is not stored, the turn fails immediately (VALIDATION_FAILED)."""
        parts, stored = [], []
        for one in attachments:
            name, content = one.name or "attachment", text_of(one)
            if content is not None:
                parts.append(f"{name}:\n\n{content}\n\n")
            elif one.path is not None:
                stored.append(one)
            else:
                only = f"{self.name} accepts only text files of up to {size(LONGEST_FILE)}"
                problem = f"{only}, and {name} ({one.media_type}) is not one. The prompt was not sent."
                return [TurnEnded(ok=False, error=valid(problem), code="VALIDATION_FAILED")]
        self.turn_open = True
        self._out = with_paths("".join([*parts, text]), stored).encode()
        return []

    def answer(self, question_id: str, decision: Decision) -> None:
        """Has no effect, because these agents never ask."""

    def interrupt(self) -> None:
        self._interrupted = self.turn_open

    def set_mode(self, mode: str) -> str:
        raise AgentRefused(
            f"{self.name} can't change its mode or model during a run. Try again when the run has finished."
        )

    def set_model(self, model: str) -> str:
        return self.set_mode(model)
