"""The discovery files of Drawbridge's bridges and of other IDEs, and whether their processes are still running."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from drawbridge.agents import catalog
from drawbridge.core.private_files import port_open, process_alive
from drawbridge.ide import discovery
from drawbridge.ide.discovery import GEMINI_NAME, LOCK_NAME, gemini_directory, lock_directory

LARGEST: Final = 65_536


@dataclass(frozen=True)
class Bridge:
    """A port, and the discovery files that name it: at most one for each agent.

    ``ours``: whether it is Drawbridge's. Other programs' files are never removed. ``pid``: the editor's process;
    ``drawbridge_pid``: the bridge's process; each is 0 if the files do not name it. ``state`` "stale": a process has
    ended, or nothing listens on the port anymore.
    """

    port: int
    state: Literal["live", "stale", "unreadable"]
    ours: bool
    ide: str
    pid: int
    drawbridge_pid: int
    folders: list[str]
    files: dict[str, str]


PLACES: Final = {
    catalog.WEBSOCKET: (lock_directory, LOCK_NAME),
    catalog.HTTP: (gemini_directory, GEMINI_NAME),
}
"""For each way in which an agent connects to a bridge: the directory of the discovery files, and a pattern for their
names."""


def inspect(environ: Mapping[str, str] = os.environ) -> list[Bridge]:
    """All bridges, the running ones first."""
    by_port: dict[int, list[tuple[str, str, dict[str, Any] | None]]] = {}
    for agent, path, port in _discovery_files(environ):
        by_port.setdefault(port, []).append((agent, path, content(path)))
    bridges = [_bridge(port, files) for port, files in by_port.items()]
    return sorted(bridges, key=lambda bridge: (bridge.state != "live", not bridge.ours, bridge.port))


def sweep(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Removes the files of Drawbridge's bridges that have ended. Returns the paths of the removed files."""
    return discovery.sweep(lock_directory(environ)) + discovery.sweep(gemini_directory(environ))


def left_behind(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The paths of the files that ``sweep`` would remove."""
    return discovery.left_behind(lock_directory(environ)) + discovery.left_behind(gemini_directory(environ))


def _discovery_files(environ: Mapping[str, str]) -> Iterator[tuple[str, str, int]]:
    """The agent, the path and the port of each of this user's discovery files."""
    for row in (row for row in catalog.ROWS if row.bridge):
        place, pattern = PLACES[row.bridge]
        directory = place(environ)
        try:
            names = sorted(os.listdir(directory))
        except OSError:
            continue
        for name in names:
            if (found := pattern.fullmatch(name)) and _is_mine(path := os.path.join(directory, name)):
                yield row.name, path, int(found[1])


def _bridge(port: int, files: list[tuple[str, str, dict[str, Any] | None]]) -> Bridge:
    contents = {agent: content for agent, _, content in files if content is not None}
    by_way = {catalog.AGENTS[agent].bridge: content for agent, content in contents.items()}
    claude, gemini = by_way.get(catalog.WEBSOCKET, {}), by_way.get(catalog.HTTP, {})
    pid, ours = _number(claude, "pid"), _number(claude, "drawbridgePid") or _number(gemini, "drawbridgePid")
    names = claude.get("workspaceFolders") or str(gemini.get("workspacePath") or "").split(os.pathsep)
    shown = gemini.get("ideInfo")
    ide = claude.get("ideName") or (shown.get("displayName") if isinstance(shown, dict) else None)
    # Another program may be listening on the port of a bridge that has ended.
    alive = port < 65_536 and port_open(port) and all(process_alive(one) for one in (pid, ours) if one)
    return Bridge(
        port=port,
        state="unreadable" if not contents else "live" if alive else "stale",
        ours=ours > 0,
        ide=ide if isinstance(ide, str) else "",
        pid=pid,
        drawbridge_pid=ours,
        folders=[name for name in names if isinstance(name, str) and name] if isinstance(names, list) else [],
        files={agent: path for agent, path, _ in files},
    )


def _number(content: dict[str, Any], key: str) -> int:
    value = content.get(key)
    return value if isinstance(value, int) and 0 < value < 2**31 else 0


def _is_mine(path: str) -> bool:
    """Whether the file belongs to this user. Agents ignore other users' files, too; Gemini's are in a directory that
    all users share."""
    try:
        return os.lstat(path).st_uid == os.geteuid()
    except OSError:
        return False


def content(path: str) -> dict[str, Any] | None:
    """The content of a discovery file; None if it is not a JSON object that can be read."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            found = json.loads(file.read(LARGEST))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
