"""What the C library does with memory that is free again."""

from __future__ import annotations

import ctypes
from typing import Final

LARGE: Final = 256 * 1024
"""Bytes. Python itself allocates what is small in pieces of this size and gives each back."""

_M_MMAP_THRESHOLD: Final = -3


def return_large_blocks() -> None:
    """From now on each block of ``LARGE`` bytes or more goes back to the system as soon as it is free. glibc raises its own
    limit, up to 32 MB, with each large block that it has seen: a process that has once handled a text of 5 MB would
    keep several times as much for good. Other C libraries have no such setting; nothing happens there."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, LARGE)
