"""The editors' terminals in which people run agents, as bridges report them: a prompt can be typed there.

A terminal is named by the process that was started in it: the agent itself, or an ancestor of it.
"""

from __future__ import annotations

import asyncio
import unicodedata
import uuid
from collections.abc import Iterator
from typing import Final

import psutil

from drawbridge.protocols import local_ipc as wire
from drawbridge.server.approvals.editors import Editor
from drawbridge.server.protocol.client_errors import ClientError

LONGEST: Final = 100_000
"""Characters of a prompt that is typed: a third of a second's work for Claude Code; 1 MB showed nothing in 3 s (2.1.329)."""

TYPING_SECONDS: Final = 12.0
"""Seconds that an editor may take; its own time limit is shorter."""

LEAVES: Final = frozenset({"exit", "quit", ":q", ":q!", ":wq", ":wq!"})
"""Words that end Claude Code if nothing else is typed (2.1.329)."""

JOINERS: Final = "\u200c\u200d"
"""These change how letters look. With other invisible characters Claude Code requires a second Enter."""

ELSEWHERE: Final = (
    "This agent was started in a terminal and is controlled there. Nothing was done. Its questions can be "
    "answered, and a fork of the session continues in a project of this server."
)

ABOVE: Final = (
    "This agent was started with more rights than the owner of this server lets clients use. "
    "Nothing was typed. Fork the session: the copy runs within the limits."
)


def typeable(text: str) -> str:
    """The text as it is typed. Raises ``ClientError`` for what would be a command to the agent's program, not a prompt.

    Control characters and invisible ones are left out: with them a text could end the paste, or hide how it begins.
    """
    seen = "".join(filter(_is_typed, text.replace("\r\n", "\n").replace("\r", "\n"))).strip()
    if not seen:
        raise ClientError(
            "VALIDATION_FAILED", "The prompt does not contain text that can be typed.", field="data.prompt"
        )
    if seen.startswith(("/", "!")) or seen in LEAVES:
        text = (
            "In a terminal this text is a command, not a prompt. Nothing was typed. Begin the prompt with another word."
        )
        raise ClientError("NOT_SUPPORTED", text, field="data.prompt")
    if len(seen) > LONGEST:
        text = f"More than {LONGEST:,} characters can't be typed into a terminal. Nothing was typed; fork the session."
        raise ClientError("NOT_SUPPORTED", text, field="data.prompt")
    return seen + " " if seen.endswith("\\") else seen  # the Enter after it would be a line end


def _is_typed(character: str) -> bool:
    return character in "\n\t" + JOINERS or unicodedata.category(character) not in ("Cc", "Cf")


class Terminals:
    """The terminals of all connected editors."""

    def __init__(self) -> None:
        self._editors: list[Editor] = []
        self._typing: dict[str, tuple[Editor, asyncio.Future[str | None]]] = {}

    def came(self, editor: Editor) -> None:
        """The bridge has identified itself, or its report has changed."""
        if editor not in self._editors:
            self._editors.append(editor)

    def went(self, editor: Editor) -> None:
        if editor in self._editors:
            self._editors.remove(editor)
        for typed_by, outcome in self._typing.values():
            if typed_by is editor and not outcome.done():
                text = "The editor has disconnected. Check in the agent's terminal whether the prompt has arrived."
                outcome.set_exception(ClientError("EXECUTION_FAILED", text, retryable=False))

    def answered(self, editor: Editor, id: str, refusal: str | None) -> None:
        """The result of a prompt; ``refusal``: why it was not typed."""
        typed_by, outcome = self._typing.get(id, (None, None))
        if outcome is not None and typed_by is editor and not outcome.done():
            outcome.set_result(refusal)

    def hold(self, pid: int | None) -> bool:
        """Whether this agent runs in one of them."""
        return self._find(pid) is not None

    async def type(self, pid: int | None, text: str) -> None:
        """Send the agent a prompt; it is on its way when this returns. Raises ``ClientError``."""
        found = self._find(pid)
        if found is None:
            raise ClientError("NOT_SUPPORTED", ELSEWHERE)
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

    def _find(self, pid: int | None) -> tuple[Editor, int] | None:
        held = {terminal: one for one in self._editors if one.about for terminal in one.about.terminals}
        if not held or pid is None:
            return None
        return next(((held[one], one) for one in _with_ancestors(pid) if one in held), None)


def _with_ancestors(pid: int) -> Iterator[int]:
    yield pid
    try:
        yield from (parent.pid for parent in psutil.Process(pid).parents())
    except (psutil.Error, OSError, ValueError, OverflowError):
        return
