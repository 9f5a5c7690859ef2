"""How agents find the bridge: one file for each of them. Light: written before asyncio is loaded.

Claude Code: ``<config>/ide/<port>.lock``, where ``<config>`` is ``$CLAUDE_CONFIG_DIR`` or ``~/.claude``. Gemini CLI:
``<tmpdir>/gemini/ide/gemini-ide-server-<pid>-<port>.json``. The pid is the editor's; ``drawbridgePid`` in the file is ours,
and only a file that carries it is ever swept.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from drawbridge.private_files import make_private_directory, port_open, process_alive, remove_quietly, write_private

LOCK_NAME: Final = re.compile(r"(\d{1,5})\.lock")
GEMINI_NAME: Final = re.compile(r"gemini-ide-server-\d+-(\d{1,5})\.json")
LINK_NAME: Final = re.compile(r"workspace-[0-9a-f]{8}-latest\.json")


def lock_directory(environ: Mapping[str, str] = os.environ) -> str:
    config = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
    return os.path.join(config, "ide")


def gemini_directory(environ: Mapping[str, str] = os.environ) -> str:
    """Under the directory that Node.js takes for temporary files: its order, and no look at what is writable."""
    root = environ.get("TMPDIR") or environ.get("TMP") or environ.get("TEMP") or "/tmp"  # noqa: S108 - as Node.js has it
    return os.path.join(root[:-1] if len(root) > 1 and root.endswith("/") else root, "gemini", "ide")


def unsayable_folders(folders: Sequence[str]) -> list[str]:
    """Those that Gemini CLI can't be told of: it takes the separator in their names for one, and knows no escape."""
    return [folder for folder in folders if os.pathsep in folder]


class DiscoveryFile(Protocol):
    """What one kind of agent looks for. ``path`` is known once it was written."""

    path: str

    def write(self, editor_pid: int, ide_name: str, folders: Sequence[str]) -> None:
        """Also for a change of the folders: port and token stay. After ``remove`` nothing is written any more.

        Raises ``NotPrivate``, saying which directory can't be used and why.
        """
        ...

    def remove(self) -> None:
        """Never fails."""
        ...


class LockFile:
    """Claude Code's."""

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
    """Gemini CLI's, and beside it the link that its spec names after the workspace (today's CLI does not read it)."""

    def __init__(self, directory: str, port: int, token: str) -> None:
        self.path = ""
        self._directory = directory
        self._port = port
        self._token = token
        self._link = ""
        self._removed = False

    def write(self, editor_pid: int, ide_name: str, folders: Sequence[str]) -> None:
        """The file's name changes with the editor's pid."""
        if self._removed:
            return
        make_private_directory(self._directory)
        path = os.path.join(self._directory, f"gemini-ide-server-{editor_pid}-{self._port}.json")
        content = {
            "port": self._port,
            "workspacePath": os.pathsep.join(folder for folder in folders if folder not in unsayable_folders(folders)),
            "authToken": self._token,
            "ideInfo": {"name": ide_name.lower(), "displayName": ide_name},
            "drawbridgePid": os.getpid(),
        }
        write_private(path, json.dumps(content).encode())
        if self.path not in ("", path):
            remove_quietly(self.path)
        self.path = path
        self._point_at_it(folders[0])

    def remove(self) -> None:
        self._removed = True
        self._unlink()
        remove_quietly(self.path)

    def _point_at_it(self, folder: str) -> None:
        from hashlib import sha256

        self._unlink()
        name = f"workspace-{sha256(os.fsencode(folder)).hexdigest()[:8]}-latest.json"
        self._link = os.path.join(self._directory, name)
        temporary = f"{self._link}.{os.getpid()}.tmp"
        try:
            os.symlink(self.path, temporary)
            os.replace(temporary, self._link)
        except (OSError, NotImplementedError):
            remove_quietly(temporary)
            self._link = ""

    def _unlink(self) -> None:
        """Our link, not one that a later bridge of the same folder put in its place."""
        try:
            if self._link and os.readlink(self._link).endswith(f"-{self._port}.json"):
                remove_quietly(self._link)
        except OSError:
            return


def sweep(directory: str) -> list[str]:
    """Remove what bridges of ours left behind: its process gone *and* its port closed. Returns the paths."""
    swept = []
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return []
    for name in names:
        match = LOCK_NAME.fullmatch(name) or GEMINI_NAME.fullmatch(name)
        path = os.path.join(directory, name)
        if (match and _left_behind(path, int(match[1]))) or (LINK_NAME.fullmatch(name) and _target(path) in swept):
            remove_quietly(path)
            swept.append(path)
    return swept


def _left_behind(path: str, port: int) -> bool:
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            content = json.loads(file.read(65_536))
        pid = content["drawbridgePid"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False
    return isinstance(pid, int) and not process_alive(pid) and not port_open(port)


def _target(link: str) -> str:
    """Where a link leads; "" for what is none."""
    try:
        return os.readlink(link)
    except OSError:
        return ""


def _open_at_once(path: str, flags: int) -> int:
    """A pipe of that name must not hold up the start."""
    return os.open(path, flags | os.O_NONBLOCK)
