"""The text of a prompt: converts it to the form in which it is typed into a terminal, and compares prompts. Pure."""

from __future__ import annotations

import unicodedata
from typing import Final

from drawbridge.agents.terminal import AskingAgent
from drawbridge.server.protocol.client_errors import ClientError

LONGEST: Final = 100_000
"""The maximum number of characters in a typed prompt. Claude Code needs a third of a second for that many. With 1 MB,
it showed nothing for 3 s (2.1.329)."""

JOINERS: Final = "\u200c\u200d"
"""Invisible characters that change how letters look. With other invisible characters, Claude Code requires a second
Enter."""


def typeable(agent: AskingAgent, text: str, field: str = "data.prompt") -> str:
    """The text in the form in which it is typed. Raises ``ClientError`` if it is empty, is too long, or would be a
    command to the agent's program.

    Control characters and invisible characters are left out, because a text could use them to end the paste early, or
    to hide its own beginning. Tabs, line breaks and ``JOINERS`` are kept.
    """
    seen = "".join(filter(_is_typed, text.replace("\r\n", "\n").replace("\r", "\n"))).strip()
    if not seen:
        raise ClientError("VALIDATION_FAILED", "The prompt does not contain text that can be typed.", field=field)
    if agent.is_command(seen):
        text = "The agent's program would run this text as a command. Begin the prompt with another word."
        raise ClientError("NOT_SUPPORTED", text, field=field)
    if len(seen) > LONGEST:
        text = f"At most {LONGEST:,} characters can be typed into a terminal. Shorten the prompt."
        raise ClientError("NOT_SUPPORTED", text, field=field)
    return seen + " " if seen.endswith("\\") else seen  # after a backslash, Enter would insert a line break


def _is_typed(character: str) -> bool:
    return character in "\n\t" + JOINERS or unicodedata.category(character) not in ("Cc", "Cf")


def same_words(agent: AskingAgent, prompt: str, reported: str) -> bool:
    """Whether ``reported``, a prompt that the agent reports, has the same words as ``prompt``."""
    return letters(agent.words(reported)) == letters(agent.words(prompt))


def letters(text: str) -> str:
    """The characters of a text that are compared. Characters that are not printable are left out, and so is whitespace,
    which may change in transit. For example, a tab becomes four spaces in the agent's prompt box.
    """
    return "".join(filter(str.isprintable, "".join(text.split())))
