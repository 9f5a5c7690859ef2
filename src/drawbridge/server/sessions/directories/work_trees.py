"""Determines whether an agent works in its project or in another work tree."""

from __future__ import annotations

import os
from pathlib import Path


def is_elsewhere(directory: str, project: Path) -> bool:
    """Whether changes in ``directory`` are not changes to the project, because it is outside the project, or in another
    work tree inside it. Blocking."""
    real, root = Path(os.path.realpath(directory)), Path(os.path.realpath(project))
    between = [one for one in (real, *real.parents) if root in one.parents]
    return not (real == root or root in real.parents) or any(os.path.exists(one / ".git") for one in between)
