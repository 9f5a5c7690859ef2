"""What is left to decide in a review, at one moment."""

from __future__ import annotations

from functools import cached_property
from hashlib import blake2b

from msgspec import Struct

from drawbridge.server.reviews.change_set import FileChange


class OpenReview(Struct, frozen=True, dict=True):
    """The review at one moment. ``version`` changes whenever anything in ``files``, or what is missing, does. ``private``:
    whether it is stored in a private repository. ``lost``, ``elsewhere``, ``outlasted``: as in ``Gaps``."""

    files: tuple[FileChange, ...] = ()
    private: bool = False
    lost: str = ""
    elsewhere: str = ""
    outlasted: bool = False

    # These are needed several times for each reply, and take a while for thousands of hunks.
    @cached_property
    def version(self) -> str:
        digest = blake2b(repr((self.lost, self.elsewhere, self.outlasted)).encode(), digest_size=12)
        for file in self.files:
            digest.update(_state(file))
        return digest.hexdigest()

    def states(self) -> dict[str, int]:
        """Maps the path of each file to a number that changes whenever anything in the file's part of the review does,
        as long as the server runs."""
        return {file.path: hash(_state(file)) for file in self.files}

    @cached_property
    def hunks(self) -> int:
        return sum(len(file.hunks) for file in self.files)

    @cached_property
    def lines(self) -> tuple[int, int]:
        """The numbers of added and of removed lines."""
        added = sum(hunk.span.new_count for file in self.files for hunk in file.hunks)
        return added, sum(hunk.span.old_count for file in self.files for hunk in file.hunks)


def _state(file: FileChange) -> bytes:
    """The file's part of the review."""
    sides = [(side.mode, side.blob) if side else None for side in (file.old, file.new)]
    return repr((file.path, file.old_path, sides, [hunk.id for hunk in file.hunks])).encode()
