"""The plan of one ``drawbridge setup``, complete before anything is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from drawbridge.setup.files import Step


@dataclass(frozen=True)
class Plan:
    """The plan of one ``drawbridge setup``. ``steps``: in order; empty if nothing has to be changed. ``notes``: further
    sentences for the user. ``about``: maps the path of a step to a few words that describe the change or the file.
    ``finish`` is called after the steps. ``command``: the command that will start the guard or the server; empty for
    other targets, and for a removal."""

    steps: list[Step]
    done: str
    nothing: str
    notes: list[str] = field(default_factory=list)
    finish: Callable[[], None] = lambda: None
    command: list[str] = field(default_factory=list)
    about: dict[Path, str] = field(default_factory=dict)
