"""Text that was sent to the agent as if from the user, but that the user did not type. The web UI distinguishes the same
kinds. Does no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from drawbridge.tui.wording import without_colors

SHORT: Final = 300
"""The maximum length of a text that is not folded, in characters."""

OUTPUT: Final = "Output"
SUMMARY: Final = "Summary that the agent continues from"
CONTEXT: Final = "Context added for the agent"

_COMPACTED: Final = "This session is being continued from a previous conversation"
"""The beginning of the summary from which an agent continues a conversation that has become too long."""

_OUTPUTS: Final = ("local-command-stdout", "local-command-stderr", "bash-stdout", "bash-stderr")
"""The tags around the output of one of the agent's own commands, such as /context, or of a command that the user ran
with "!"."""


class Aside(NamedTuple):
    """``label``: the line that is shown while the text is folded; empty if the text is never folded."""

    label: str
    text: str


def aside(data: Mapping[str, Any]) -> Aside:
    """How a text is shown. ``data``: as ``Conversation`` stores it in an item."""
    text = str(data["text"]).strip()
    output = _output(text)
    if output is not None:
        return Aside(OUTPUT if len(output) > SHORT else "", output)
    if data.get("summary") or text.startswith(_COMPACTED):
        return Aside(SUMMARY, text)
    return Aside(CONTEXT if len(text) > SHORT or text.startswith("<") else "", text)


def _output(text: str) -> str | None:
    """The output in a text that is nothing but the output of a command; None for any other text."""
    tag = next((tag for tag in _OUTPUTS if text.startswith(f"<{tag}>")), None)
    if tag is None or text.find(f"</{tag}>") != len(text) - len(f"</{tag}>"):
        return None
    return without_colors(text[len(f"<{tag}>") : -len(f"</{tag}>")]).strip()
