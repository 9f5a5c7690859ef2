"""The limits that the owner sets for agents and for the server's data."""

from __future__ import annotations

from msgspec import Struct

from drawbridge.agents.base import Confinement
from drawbridge.server.checkpoints.private import Largest
from drawbridge.server.sessions.disk import Sizes


class Limits(Struct, frozen=True):
    """The limits that the owner sets, and ``warm_seconds``, the time for which an idle process is kept for the next
    prompt. Times are in seconds."""

    projects: int = 100
    runs_at_once: int = 4
    queue: int = 20
    idle_seconds: float = 300.0
    """A run is stopped after this many seconds without output from the agent. Time in which a person is being asked
    does not count."""
    total_seconds: float | None = None
    warm_processes: int = 4
    checkpoints: bool = True
    """Whether a checkpoint is taken before and after each run."""
    largest: Largest = Largest()
    """The largest directory outside git work trees for which checkpoints are taken."""
    warm_seconds: float = 1800.0
    memory_bytes: int | None = None
    """The maximum resident memory of one agent process and everything that it started, in bytes; None for no
    limit."""
    confinement: Confinement = Confinement()
    sizes: Sizes = Sizes()
    continue_limited: bool = False
    """Whether a run that was stopped by a limit of its agent's account continues automatically when the limit
    resets."""
