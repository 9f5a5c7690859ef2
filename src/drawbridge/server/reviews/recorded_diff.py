"""The diff in the record of a decision: what an undo or an edit changed in the files."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from msgspec import Struct

from drawbridge.server.checkpoints.commits import PATCH, differences
from drawbridge.server.checkpoints.errors import GitFailed, NoCheckpoint
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.reviews.contents import LARGEST_TEXT
from drawbridge.server.reviews.intents import LISTED_PATHS

logger = logging.getLogger("drawbridge.server")

LARGEST_DIFF: Final = 20_000
"""The maximum size of the diff in a record, in bytes."""


class RecordedDiff(Struct, frozen=True):
    """``text``: in git's format, perhaps only its beginning; empty if no file was changed, or git failed.
    ``truncated``: whether a part is left out."""

    text: str = ""
    truncated: bool = False


async def recorded_diff(git: Git, heads: tuple[str, str]) -> RecordedDiff:
    """What a decision changed in the files. ``heads``: the commits of the review before and after it. A failure is only
    logged, because the decision was applied."""
    old, new = heads
    if old == new:
        return RecordedDiff()
    try:
        return await _between(git, old, new)
    except (GitFailed, NoCheckpoint, OSError) as error:
        logger.warning("a decision is recorded without its diff: %s", error)
        return RecordedDiff()


async def _between(git: Git, old: str, new: str) -> RecordedDiff:
    """Raises ``GitFailed``, ``NoCheckpoint`` or OSError."""
    paths = sorted(await differences(git, old, new))
    shown = [f":(literal){path}" for path in paths[:LISTED_PATHS]]
    patch = git.folder / "decision"
    # Someone is waiting for the decision. For a large file, as for a binary one, git reports only that it differs.
    limit = ("-c", f"core.bigFileThreshold={LARGEST_TEXT}")
    await git.read(*limit, *PATCH, "-p", "--relative", f"--output={patch}", old, new, "--", *shown)
    text, is_cut = await asyncio.to_thread(_beginning_of, patch)
    return RecordedDiff(text, is_cut or len(shown) < len(paths))


def _beginning_of(patch: Path) -> tuple[str, bool]:
    """The whole lines of a diff that fit into a record, and whether it has more. Blocking. Raises OSError."""
    with patch.open("rb") as file:
        start = file.read(LARGEST_DIFF + 1)
    is_cut = len(start) > LARGEST_DIFF
    if is_cut:
        start = start[: start.rfind(b"\n", 0, LARGEST_DIFF) + 1]
    return start.decode(errors="replace"), is_cut
