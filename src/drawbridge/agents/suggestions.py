"""What agents suggest to remember along with a decision, in Claude Code's format (2.1.329). Pure."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw


def remembered(suggestions: Raw) -> list[dict[str, Any]]:
    """The suggestions that a decision with ``remember`` accepts: rules and directories if there are any; a mode, which
    covers far more, only if there are none.
    """
    try:
        offered = msgspec.json.decode(suggestions, type=list[dict[str, Any]])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
    narrow = [suggestion for suggestion in offered if suggestion.get("type") != "setMode"]
    return narrow or offered
