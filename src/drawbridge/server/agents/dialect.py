"""One process' side of an agent's stream, as the shell that owns its pipes sees it. Pure."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from msgspec import Struct

from drawbridge.server.agents.port import Attachment, Decision, Event


class Replied(Struct, frozen=True):
    """The agent's answer to a command that is waited for; ``error`` where it did not do it."""

    request_id: str
    error: str | None = None


class Broken(Struct, frozen=True):
    """Nothing can come of this process any more: it has to be ended. ``fault``: why, for people."""

    fault: str


Said: TypeAlias = Event | Replied | Broken


class Dialect(Protocol):
    """Lines in, what they mean out. What is to be written is fetched with ``outgoing`` after every call."""

    @property
    def turn_open(self) -> bool: ...

    @property
    def busy(self) -> bool: ...

    def outgoing(self) -> bytes:
        """What has to be written now."""
        ...

    def received(self, line: bytes) -> list[Said]:
        """One line of it, without its newline."""
        ...

    def ended(self, code: int, stderr: str, fault: str | None) -> list[Said]:
        """The process is gone. ``fault``: why we ended it, where we did. The last events, ``Exited`` at their end."""
        ...

    def prompt(self, text: str, attachments: tuple[Attachment, ...] = ()) -> list[Said]: ...

    def answer(self, question_id: str, decision: Decision) -> None: ...

    def interrupt(self) -> None: ...

    def set_mode(self, mode: str) -> str:
        """The id of the ``Replied`` that follows."""
        ...

    def set_model(self, model: str) -> str: ...
