"""How Claude Code finds the bridge: one lock file, named after the port. Light: written before asyncio is loaded.

``<config>/ide/<port>.lock``, where ``<config>`` is ``$CLAUDE_CONFIG_DIR`` or ``~/.claude``. Its ``pid`` is the editor's, as the
connection spec has it (the CLI deletes a lock whose ``pid`` is dead); ``drawbridgePid`` is ours, and only a lock that carries
it is ever swept.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence

from drawbridge.private_files import make_private_directory, port_open, process_alive, remove_quietly, write_private


def lock_directory(environ: dict[str, str] | os._Environ[str] = os.environ) -> str:
    config = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
    return os.path.join(config, "ide")


class LockFile:
    """Our lock file. ``write`` raises ``NotPrivate``, saying which directory and why; ``remove`` never fails."""

    def __init__(self, directory: str, port: int, token: str) -> None:
        self.path = os.path.join(directory, f"{port}.lock")
        self._directory = directory
        self._token = token
        self._removed = False

    def write(self, editor_pid: int, ide_name: str, folders: Sequence[str]) -> None:
        """Also for a change of the folders: port and token stay."""
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


def sweep(directory: str) -> list[str]:
    """Remove the locks that bridges of ours left behind: its process gone *and* its port closed. Returns their paths."""
    swept = []
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    for name in names:
        match = re.fullmatch(r"(\d{1,5})\.lock", name)
        path = os.path.join(directory, name)
        if match and _left_behind(path, int(match[1])):
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


def _open_at_once(path: str, flags: int) -> int:
    """A pipe of that name must not hold up the start."""
    return os.open(path, flags | os.O_NONBLOCK)
