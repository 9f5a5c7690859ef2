"""What a running program writes into a file that it shares with the test."""

from __future__ import annotations

import os
from typing import IO, Any


def written(file: IO[Any]) -> str:
    """All of it, without moving the file's position: the program shares that, and would write its next line elsewhere."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode()
