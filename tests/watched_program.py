"""Runs ``drawbridge`` and reports calls in an event loop's thread that may wait for a file, a process or the network.

Run it as ``python tests/watched_program.py COMMAND…``. It writes each finding as one line to the file that
``DRAWBRIDGE_TEST_BLOCKING`` names: the audit event and the function of the package that caused it.
"""

from __future__ import annotations

import asyncio
import fcntl
import linecache
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

SOURCES = str(Path(__file__).resolve().parent.parent / "src" / "drawbridge") + os.sep

EVENTS = ("open", "os.", "shutil.", "tempfile.", "glob.", "subprocess.", "fcntl.", "sqlite3.", "socket.getaddrinfo")
"""Prefixes of the audit events for calls that may wait for a disk, another process or the network."""

HARMLESS = {"os.putenv", "os.unsetenv", "os.kill", "os.killpg"}

PASSING_ON = ("core/private_files.py",)
"""Helper modules. Their caller is reported instead of them."""


def cause(frame: FrameType | None) -> str | None:
    """Returns the package's innermost function from ``frame`` outward, as "MODULE:FUNCTION". Skips ``PASSING_ON``.

    Returns None if there is no such function, and for calls that are not reported: those of the import system, and
    asyncio's debug mode reading source lines.
    """
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib") or name == linecache.__file__:
            return None
        if name.startswith(SOURCES) and not name.endswith(PASSING_ON):
            module = name.removeprefix(SOURCES).removesuffix(".py").replace(os.sep, ".")
            return f"{module}:{frame.f_code.co_qualname}"
        frame = frame.f_back
    return None


def install(report: int) -> None:
    """Writes findings to the file descriptor ``report`` from now on. An audit hook cannot be removed."""

    def found(event: str, frame: FrameType | None) -> None:
        # Only the thread of the event loop has a running loop.
        if asyncio._get_running_loop() is None or (by := cause(frame)) is None:
            return
        os.write(report, f"{event} {by}\n".encode())

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "fcntl.flock" and arguments[1] & fcntl.LOCK_NB:
            return  # does not wait
        if event.startswith(EVENTS) and event not in HARMLESS:
            found(event, sys._getframe(1))

    def noted(call: Callable[..., Any], module: str = "os") -> Callable[..., Any]:
        def noting(*arguments: Any, **options: Any) -> Any:
            found(f"{module}.{call.__name__}", sys._getframe(1))
            return call(*arguments, **options)

        return noting

    # Python raises no audit event for these calls.
    threading.Thread.join = noted(threading.Thread.join, "threading")  # type: ignore[method-assign]
    for name in ("fsync", "fdatasync", "stat", "lstat", "readlink", "access", "statvfs"):
        setattr(os, name, noted(getattr(os, name)))
    sys.addaudithook(hook)


if __name__ == "__main__":
    path = os.environ["DRAWBRIDGE_TEST_BLOCKING"]
    install(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))

    from drawbridge.cli import main

    sys.exit(main())
