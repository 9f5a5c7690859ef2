"""Private files, for tokens and prompts: directories with mode 0700, files with mode 0600, written atomically.

Imports nothing heavy: the bridge writes its discovery files with this module before it loads most of its code.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import time
from collections.abc import Mapping
from typing import Final

from drawbridge.core.errors import NotPrivate

PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600


def state_directory(environ: Mapping[str, str] = os.environ) -> str:
    """The directory in which Drawbridge's programs store their internal files, such as sockets: in ``$XDG_STATE_HOME``,
    or in ``~/.local/state`` if that is not an absolute path. The directory may not exist yet."""
    state = environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "drawbridge")


def make_private_directory(path: str) -> None:
    """Creates ``path`` and missing directories above it, all 0700, and removes other users' access to ``path``.

    Raises ``NotPrivate`` if it can't be created, is not a directory, or belongs to another user.
    """
    try:
        _make_missing(path)
        found = os.stat(path)
        if found.st_uid != os.getuid():
            raise NotPrivate(
                f"{path} belongs to another user. Change its owner, run Drawbridge as that user, or choose another "
                "directory."
            )
        if stat.S_IMODE(found.st_mode) & 0o077:
            os.chmod(path, PRIVATE_DIRECTORY)
    except OSError as error:
        raise NotPrivate(f"{path} can't be made a private directory: {_why(error)}.") from None


def _make_missing(path: str) -> None:
    """Creates ``path`` and missing directories above it. ``os.makedirs`` applies its mode to the last directory only,
    and the umask to the others."""
    if not os.path.isdir(path):
        parent = os.path.dirname(path.rstrip("/"))
        if parent and not os.path.exists(parent):
            _make_missing(parent)
        try:
            os.mkdir(path, PRIVATE_DIRECTORY)
        except FileExistsError:
            if not os.path.isdir(path):  # otherwise, another process has created it
                raise


def write_private(path: str, data: bytes, *, synced: bool = False) -> None:
    """Writes ``data`` to ``path``, 0600, atomically: a reader sees either the old file or the new one, never a partial
    one. ``synced``: the data is flushed to the disk before it replaces the old file. Raises ``NotPrivate`` if the file
    can't be written.

    The temporary name ends in ``.tmp``, so that programs that search for ``*.lock`` or ``*.json`` do not find it.
    """
    temporary = f"{path}.{os.getpid()}.{time.monotonic_ns()}.tmp"
    try:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_FILE)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]
            if synced:
                os.fsync(file)
        finally:
            os.close(file)
        os.replace(temporary, path)
    except OSError as error:
        remedy = " You need write permission for its directory." if isinstance(error, PermissionError) else ""
        raise NotPrivate(f"{path} can't be written: {_why(error)}.{remedy}") from None
    finally:
        remove_quietly(temporary)  # the file still exists if a signal arrived before the rename


def remove_quietly(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


EXITING: Final = 0x4
"""PF_EXITING, one of the flags in Linux's ``/proc/PID/stat``: the process is exiting and closes its files."""


def process_alive(pid: int) -> bool:
    """Whether the process ``pid`` is running, whichever user it belongs to.

    On Linux, a process of this user that is exiting, or is a zombie, does not count. Elsewhere it does.
    """
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    except OverflowError:
        return False
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The fields after the last ")", since the name before it may contain anything.
            fields = file.read().rpartition(b")")[2].split()
            return fields[0] not in (b"Z", b"X") and not int(fields[6]) & EXITING
    except (OSError, IndexError):
        return True


def port_open(port: int, timeout: float = 0.2) -> bool:
    """Whether a program may listen on ``port`` of 127.0.0.1: True unless the connection is refused within ``timeout``
    seconds."""
    with socket.socket() as probe:
        probe.settimeout(timeout)
        try:
            refused = probe.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED
        except (OSError, OverflowError):
            return True
    return not refused


def _why(error: OSError) -> str:
    return (error.strerror or "unknown reason").lower()
