"""Makes the C library return large blocks of freed memory to the system."""

from __future__ import annotations

import ctypes
from typing import Final

LARGE: Final = 256 * 1024
"""Blocks of at least this size, in bytes, are returned when they are freed. Python's arenas for small objects are not
affected: Python maps and unmaps them itself."""

_M_MMAP_THRESHOLD: Final = -3


def return_large_blocks() -> None:
    """Makes the C library return each block of ``LARGE`` bytes or more to the system as soon as it is freed. With each
    large block that is freed, glibc raises its own threshold, up to 32 MB. A process that has once handled 5 MB of text
    would therefore keep several times that amount of memory. Has no effect with other C libraries."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, LARGE)
