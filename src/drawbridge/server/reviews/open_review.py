"""What is left to decide in a review, at one moment."""

from __future__ import annotations

from hashlib import blake2b

from msgspec import Struct

from drawbridge.server.reviews.change_set import FileChange


class OpenReview(Struct, frozen=True):
    """The review at one moment. ``version`` changes whenever anything in ``files`` or ``lost`` does. ``private``: whether
    it is stored in a private repository. ``lost``: as in ``Gaps``."""

    files: tuple[FileChange, ...] = ()
    private: bool = False
    lost: str = ""

    @property
    def version(self) -> str:
        digest = blake2b(self.lost.encode(), digest_size=12)
        for file in self.files:
            sides = [(side.mode, side.blob) if side else None for side in (file.old, file.new)]
            digest.update(repr((file.path, file.old_path, sides, [hunk.id for hunk in file.hunks])).encode())
        return digest.hexdigest()

    @property
    def hunks(self) -> int:
        return sum(len(file.hunks) for file in self.files)

    def lines(self) -> tuple[int, int]:
        """The numbers of added and of removed lines."""
        added = sum(hunk.span.new_count for file in self.files for hunk in file.hunks)
        return added, sum(hunk.span.old_count for file in self.files for hunk in file.hunks)
