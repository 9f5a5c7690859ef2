"""The guard's settings, for type checkers only. At run time, they are a plain dictionary, which needs no import.

``drawbridge setup`` writes these settings into the installed guard as a dictionary. ``settings.hook`` describes them
and defines their defaults. A test compares the two.
"""

from __future__ import annotations

from typing import Literal, TypedDict


class Settings(TypedDict):
    """The settings of one guard. ``wait`` is in seconds, ``deadline`` in milliseconds. Paths are absolute in the
    installed guard."""

    agent: str
    policy: Literal["current", "visible", "any"]
    policy_for: tuple[str, ...]
    answer: Literal["deny", "ask", "wait", "save", "merge"]
    wait: int
    unknown: Literal["allow", "ask", "deny"]
    fail: Literal["open", "closed"]
    deadline: int
    socket_dir: tuple[str, ...] | None
    selection: bool
    diagnostics: bool
    ignore: tuple[str, ...] | None
    log_file: str | None
