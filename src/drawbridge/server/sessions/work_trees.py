"""Whether an agent works in its project or in another work tree."""

from __future__ import annotations

import os
from pathlib import Path


def is_elsewhere(directory: str, project: Path) -> bool:
    """Whether changes in ``directory`` are not changes to the project: it is outside the project, or in another work
    tree inside it. Blocking."""
    place, root = Path(os.path.realpath(directory)), Path(os.path.realpath(project))
    between = [one for one in (place, *place.parents) if root in one.parents]
    return not (place == root or root in place.parents) or any(os.path.exists(one / ".git") for one in between)
