"""What one ``drawbridge setup`` would do, worked out before anything is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from drawbridge.setup.files import Step


@dataclass(frozen=True)
class Plan:
    """``steps`` in their order; none: nothing is to be changed. ``notes``: what the person should know besides.
    ``about``: for a step's path, what is in it, in a few words.
    ``finish`` is called after the steps. ``command``: the words that an agent will start the guard with."""

    steps: list[Step]
    done: str
    nothing: str
    notes: list[str] = field(default_factory=list)
    finish: Callable[[], None] = lambda: None
    command: list[str] = field(default_factory=list)
    about: dict[Path, str] = field(default_factory=dict)
