"""Reads what a running program has written to a file that it shares with the test."""

from __future__ import annotations

import os
from typing import IO, Any


def written(file: IO[Any]) -> str:
    """The content of the whole file. The file position is not moved, because the program shares it and would otherwise
    write in the wrong place.
    """
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode()
