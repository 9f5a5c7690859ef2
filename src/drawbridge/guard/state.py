"""The guard's files: its log, and the directories for copies and bases. This module is not on the hot path.

``$XDG_STATE_HOME/drawbridge`` (default: ``~/.local/state/drawbridge``)::

    guard.log            one line for each entry; guard.log.1 is the previous log (above 1 MB, a new one begins)
    guard/copies/        text that a reload or a restore replaced (docs/internals/protocols/guard.md, refresh_buffer)
    guard/bases/         the content of files before an edit that will be merged
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from drawbridge.guard.settings import Settings

LARGEST_LOG = 1024 * 1024


def directory(environ: Mapping[bytes, bytes], *names: str) -> str:
    """One of the guard's directories. It is created with mode 0700 if it is missing. Raises ``OSError`` if that fails,
    or if Drawbridge's state directory belongs to another user."""
    base = os.fsdecode(environ.get(b"XDG_STATE_HOME", b""))
    if not base.startswith("/"):
        base = os.path.join(os.fsdecode(environ.get(b"HOME", b"")) or os.path.expanduser("~"), ".local", "state")
    ours = os.path.join(base, "drawbridge")
    make_directory(ours)
    if os.stat(ours).st_uid != os.geteuid():
        raise PermissionError(f"{ours} belongs to another user")
    path = os.path.join(ours, *names)
    make_directory(path)
    return path


def make_directory(path: str) -> None:
    """Makes the directory and missing parents, all with mode 0700, because ``os.makedirs`` ignores its mode for the
    parents."""
    before = os.umask(0o077)  # the umask is the whole process's, but the process has only one thread
    try:
        os.makedirs(path, 0o700, exist_ok=True)
    finally:
        os.umask(before)


def log(settings: Settings, environ: Mapping[bytes, bytes], text: str) -> None:
    """Appends one line, whatever ``text`` contains. A log that can't be written is not an error."""
    shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in " ".join(text.split()))
    try:
        path = settings["log_file"] or os.path.join(directory(environ), "guard.log")
        if os.path.exists(path) and os.path.getsize(path) > LARGEST_LOG:
            os.replace(path, path + ".1")
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {settings['agent']}: {shown}\n"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK  # a named pipe must not block
        file = os.open(path, flags, 0o600)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)
    except (OSError, ValueError):
        pass
