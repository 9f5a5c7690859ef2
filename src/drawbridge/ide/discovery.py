"""The files by which agents find the bridge, one for each agent. This module has to load quickly, because it runs
before asyncio is loaded.

Claude Code: ``<config>/ide/<port>.lock``, where ``<config>`` is ``$CLAUDE_CONFIG_DIR`` or ``~/.claude``. Gemini CLI:
``<tmpdir>/gemini/ide/gemini-ide-server-<pid>-<port>.json``. The pid is the editor's; ``drawbridgePid`` in the file is
the bridge's. A bridge never removes another program's file, which has no ``drawbridgePid``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from drawbridge.core.private_files import (
    make_private_directory,
    port_open,
    process_alive,
    remove_quietly,
    write_private,
)

LOCK_NAME: Final = re.compile(r"(\d{1,5})\.lock")
GEMINI_NAME: Final = re.compile(r"gemini-ide-server-\d+-(\d{1,5})\.json")
LINK_NAME: Final = re.compile(r"workspace-[0-9a-f]{8}-latest\.json")


def lock_directory(environ: Mapping[str, str] = os.environ) -> str:
    config = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
    return os.path.join(config, "ide")


def gemini_directory(environ: Mapping[str, str] = os.environ) -> str:
    """A subdirectory of the temporary directory that Node.js uses. As in Node.js, it is not checked whether it is
    writable."""
    root = environ.get("TMPDIR") or environ.get("TMP") or environ.get("TEMP") or "/tmp"  # noqa: S108 - as in Node.js
    return os.path.join(root[:-1] if len(root) > 1 and root.endswith("/") else root, "gemini", "ide")


def folders_with_separator(folders: Sequence[str]) -> list[str]:
    """The folders with ``os.pathsep`` in their paths. Gemini CLI splits its list of folders there, and has no way to
    escape it."""
    return [folder for folder in folders if os.pathsep in folder]


class DiscoveryFile(Protocol):
    """The file that one kind of agent looks for. ``path`` is known once the file has been written."""

    path: str

    def write(self, editor_pid: int, ide_name: str, folders: Sequence[str]) -> None:
        """Writes the file, or updates it when the folders change. The port and the token stay the same. Does nothing
        after ``remove``.

        Raises ``NotPrivate`` with the path that can't be used and the reason.
        """
        ...

    def remove(self) -> None:
        """Removes the file. Never raises."""
        ...


class LockFile:
    """Claude Code's discovery file."""

    def __init__(self, directory: str, port: int, token: str) -> None:
        self.path = os.path.join(directory, f"{port}.lock")
        self._directory = directory
        self._token = token
        self._removed = False

    def write(self, editor_pid: int, ide_name: str, folders: Sequence[str]) -> None:
        if self._removed:
            return
        make_private_directory(self._directory)
        content = {
            "pid": editor_pid,
            "workspaceFolders": list(folders),
            "ideName": ide_name,
            "transport": "ws",
            "runningInWindows": os.name == "nt",
            "authToken": self._token,
            "drawbridgePid": os.getpid(),
        }
        write_private(self.path, json.dumps(content).encode())

    def remove(self) -> None:
        self._removed = True
        remove_quietly(self.path)


class GeminiFile:
    """Gemini CLI's discovery file, and the link that its specification names after the workspace (the current CLI does
    not read the link)."""

    def __init__(self, directory: str, port: int, token: str) -> None:
        self.path = ""
        self._directory = directory
        self._port = port
        self._token = token
        self._link = ""
        self._removed = False

    def write(self, editor_pid: int, ide_name: str, folders: Sequence[str]) -> None:
        """Writes the file. Its name contains the editor's pid, and a file with an earlier pid is removed."""
        if self._removed:
            return
        make_private_directory(self._directory)
        path = os.path.join(self._directory, f"gemini-ide-server-{editor_pid}-{self._port}.json")
        usable = [folder for folder in folders if folder not in folders_with_separator(folders)]
        content = {
            "port": self._port,
            "workspacePath": os.pathsep.join(usable),
            "authToken": self._token,
            "ideInfo": {"name": ide_name.lower(), "displayName": ide_name},
            "drawbridgePid": os.getpid(),
        }
        data = json.dumps(content).encode()
        write_private(path, data)
        if self.path not in ("", path):
            remove_quietly(self.path)
        self.path = path
        self._point_at_it(folders[0], data)

    def remove(self) -> None:
        self._removed = True
        self._unlink()
        remove_quietly(self.path)

    def _point_at_it(self, folder: str, data: bytes) -> None:
        """Points the link at the file. The latest bridge of a folder owns the link. A file in its place that was not
        written by a bridge is left alone.
        """
        from hashlib import sha256

        self._unlink()
        name = f"workspace-{sha256(os.fsencode(folder)).hexdigest()[:8]}-latest.json"
        link = os.path.join(self._directory, name)
        if os.path.lexists(link) and not os.path.islink(link) and _registration_in(link) is None:
            return
        self._link = link
        temporary = f"{link}.{os.getpid()}.tmp"
        try:
            os.symlink(self.path, temporary)
            os.replace(temporary, link)
        except OSError:
            remove_quietly(temporary)
            write_private(link, data)  # the file system has no links

    def _unlink(self) -> None:
        """Removes this bridge's link, but not one that a later bridge of the same folder created in its place."""
        registration = _registration_in(self._link) if self._link and not os.path.islink(self._link) else None
        if _target(self._link).endswith(f"-{self._port}.json") or (
            registration is not None and registration.port == self._port
        ):
            remove_quietly(self._link)
        self._link = ""


def sweep(directory: str) -> list[str]:
    """Removes the files of each bridge if its process has ended *and* its port is closed. Returns their paths."""
    swept = left_behind(directory)
    for path in swept:
        remove_quietly(path)
    return swept


def left_behind(directory: str) -> list[str]:
    """The files that ``sweep`` removes. A link comes after the file that it points to."""
    found: list[str] = []
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return []
    for name in names:
        path = os.path.join(directory, name)
        named = LOCK_NAME.fullmatch(name) or GEMINI_NAME.fullmatch(name)
        if LINK_NAME.fullmatch(name) and os.path.islink(path):
            ended = _target(path) in found
        elif named or LINK_NAME.fullmatch(name):
            registration = _registration_in(path, int(named[1]) if named else None)
            ended = (
                registration is not None and not process_alive(registration.pid) and not port_open(registration.port)
            )
        else:
            continue
        if ended:
            found.append(path)
    return found


def shares_a_folder(directory: str, own_port: int, folders: Sequence[str], ide_name: str) -> bool:
    """Whether another running editor with that name has registered one of ``folders``."""
    try:
        names = os.listdir(directory)
    except OSError:
        return False
    for name in names:
        found = LOCK_NAME.fullmatch(name)
        if found and int(found[1]) != own_port and _is_of(os.path.join(directory, name), folders, ide_name):
            return True
    return False


def _is_of(path: str, folders: Sequence[str], ide_name: str) -> bool:
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            content = json.loads(file.read(65_536))
        shared = set(folders).intersection(content["workspaceFolders"])
        return bool(shared) and content["ideName"] == ide_name and process_alive(content["pid"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False


class _Registration(NamedTuple):
    pid: int
    port: int


def _registration_in(path: str, port: int | None = None) -> _Registration | None:
    """The registration in a Drawbridge bridge's file; None for any other file. ``port``: the one in the file's name."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            content = json.loads(file.read(65_536))
        registration = _Registration(content["drawbridgePid"], content["port"] if port is None else port)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return registration if isinstance(registration.pid, int) and isinstance(registration.port, int) else None


def _target(link: str) -> str:
    """The target of a link; "" if ``link`` is not one."""
    try:
        return os.readlink(link)
    except OSError:
        return ""


def _open_at_once(path: str, flags: int) -> int:
    """Opens a file without blocking, because a named pipe at that path must not delay startup."""
    return os.open(path, flags | os.O_NONBLOCK)
