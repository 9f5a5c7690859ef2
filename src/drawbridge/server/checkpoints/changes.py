"""The changes of a run, as clients see them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

LARGEST_DIFF: Final = 400_000
"""The maximum size of the shown part of a diff, in bytes."""

ESCAPED: Final = 600_000
"""The maximum size of the shown part of a diff as JSON, in bytes; each control character takes six of them."""


def beginning_of(patch: Path) -> tuple[str, bool]:
    """The part of a diff that is shown, and whether the diff has more. Blocking."""
    with patch.open("rb") as file:
        start, more = file.read(LARGEST_DIFF).decode(errors="replace"), bool(file.read(1))
    diff = start
    while len(msgspec.json.encode(diff)) > ESCAPED:
        diff = diff[: len(diff) * 3 // 4]
    return diff, more or diff != start
