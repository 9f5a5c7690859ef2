"""Permission modes: their names in the client protocol and in agents. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from drawbridge.agents.base import ModeOffer

BYPASS: Final = "bypassPermissions"
"""The mode that never asks."""

AUTO: Final = "auto"
"""The mode in which the agent's own check decides."""

NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "default": ("default", "ask", "manual"),
    "acceptEdits": ("acceptEdits", "autoEdit", "auto_edit", "auto-edit"),
    "plan": ("plan", "read-only"),
    BYPASS: (BYPASS, "yolo", "full-access", "agent-full-access"),
}
"""Maps a mode of the client protocol to the names that agents have for it. Other names are passed on unchanged, unless
they match ``_CARELESS``."""

OFFERS: Final = (
    ModeOffer("default", "Ask first", "Asks before it changes files or runs commands."),
    ModeOffer(
        "acceptEdits",
        "Auto-accept edits",
        "Changes files in the project without asking. Asks before commands.",
        asks=False,
    ),
    ModeOffer("plan", "Plan", "Reads files and makes a plan. Changes nothing until you approve it."),
    ModeOffer(
        BYPASS,
        "Bypass permissions",
        "Never asks. It can change any file and run any command on the server.",
        asks=False,
    ),
    ModeOffer(AUTO, "Auto", "Works without asking. The agent's own check stops risky actions.", asks=False),
)
"""The modes of the client protocol that clients list."""

_CARELESS: Final = re.compile(r"yolo|bypass|full[-_ ]?access|unrestricted|danger|skip[-_ ]?permission", re.IGNORECASE)
"""Matches names that agents give to a mode that never asks. Matching too many names is safer than matching too few."""


def word(name: str) -> str:
    """The client protocol's name for an agent's mode; ``name`` itself if the mode is specific to the agent."""
    if _CARELESS.search(name):
        return BYPASS
    return next((word for word, names in NAMES.items() if name in names), name)


def chosen(wanted: str, offered: Iterable[str]) -> str | None:
    """The agent's name for the mode ``wanted``; None if the agent does not offer it. Only the name ``BYPASS`` selects
    the mode that never asks."""
    names = list(offered)
    if wanted == BYPASS:
        return next((name for name in (*NAMES[BYPASS], *names) if name in names and word(name) == BYPASS), None)
    if word(wanted) == BYPASS:
        return None
    return next((name for name in (wanted, *NAMES.get(wanted, ())) if name in names), None)
