"""The sockets of this user's editors, and what each editor reports about itself.

This uses the guard's own modules (``guard.find``, ``guard.ask``), so that it shows exactly what the guard would see.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from drawbridge import settings
from drawbridge.core import launcher
from drawbridge.core.errors import BadSetting
from drawbridge.core.private_files import process_alive, remove_quietly
from drawbridge.guard import ask, find
from drawbridge.settings.hook import HookSettings

State = Literal["live", "stale", "silent", "not ours"]

WANTED: Final = ("open", "unsaved", "connected")
SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""Matches a byte of a path that is not UTF-8, since no editor's answer can name such a file."""

NEOVIMS_OWN: Final = re.compile(r"nvim\.(\d+)\.\d+")


@dataclass(frozen=True)
class Socket:
    """An editor's socket. ``state`` "silent": a process listens, but does not answer within the guard's deadline, or
    sends an invalid answer. "not ours": the file has the name of an editor's socket for this directory, but belongs to
    another user, or is not a socket. ``problem``: what is wrong, such as "did not answer in time".
    """

    path: str
    kind: str
    state: State
    here: bool
    problem: str = ""


@dataclass(frozen=True)
class OpenFile:
    name: str
    modified: bool
    current: bool


@dataclass(frozen=True)
class Editor:
    """A running editor. ``agents``: the process ids of the agents that its bridge serves."""

    name: str
    kind: str
    pid: int
    here: bool
    sockets: list[str]
    folders: list[str]
    files: list[OpenFile]
    agents: list[int] = field(default_factory=list)


def inspect(directory: str, places: tuple[str, ...] | None, deadline: int) -> tuple[list[Socket], list[Editor]]:
    """All sockets and editors, those for ``directory`` first. ``deadline``: how long all editors together may take to
    answer one request, in milliseconds. Editors that answered the first request receive a second one."""
    prefix = launcher.socket_prefix(directory)
    found = find.sockets(places, os.environb)
    sockets = [Socket(path, kind, "stale", path.startswith(prefix)) for path, kind in found if not _listens(path)]
    sockets += [Socket(path, _kind(path), "not ours", True, problem) for path, problem in _not_ours(prefix, found)]
    answers = _answers([entry for entry in found if entry[0] not in {gone.path for gone in sockets}], deadline)
    editors = list(_editors(answers, directory))
    at_home = {path for editor in editors if editor.here for path in editor.sockets}
    for answer in answers:
        here = answer.path.startswith(prefix) or answer.path in at_home
        state: State = "live" if _is_snapshot(answer.result) else "silent"
        problem = "" if state == "live" else answer.problem or "sent an invalid answer"
        sockets.append(Socket(answer.path, answer.kind, state, here, problem))
    known = {entry.path for entry in sockets}
    sockets += [Socket(path, kind, "stale", path.startswith(prefix)) for path, kind in found if path not in known]
    return sorted(sockets, key=lambda entry: (not entry.here, entry.path)), editors


def unsaved(paths: Sequence[str]) -> dict[str, str]:
    """The files among ``paths`` (absolute) that have unsaved changes in an editor, each with the editor's name. Editors
    that do not answer within the guard's deadline are ignored, as are settings of the guard that can't be used. Blocks
    until all editors have answered or the deadline has passed."""
    try:
        guard = settings.load("hook", HookSettings, {})
    except BadSetting:
        guard = HookSettings()
    wanted = [path for path in paths if not SURROGATE.search(path)]
    places = find.sockets(guard.socket_dir, os.environb)
    found: dict[str, str] = {}
    for answer in ask.ask(places, "snapshot", {"paths": wanted, "want": []}, guard.deadline) if places else []:
        files = answer.result.get("files") if _is_snapshot(answer.result) else None
        for path, file in zip(wanted, files if isinstance(files, list) else (), strict=False):
            if isinstance(file, dict) and file.get("modified"):
                found.setdefault(path, answer.result["editor"].rpartition(" ")[0] or answer.result["editor"])
    return found


def unseen(places: tuple[str, ...] | None) -> list[str]:
    """The sockets in ``DRAWBRIDGE_SOCKET_DIR`` (default: /tmp) that a guard with these ``places`` does not find."""
    seen = {os.path.realpath(path) for path, _ in find.sockets(places, os.environb)}
    there = find.sockets((launcher.socket_directory(),), os.environb)
    return [path for path, _ in there if os.path.realpath(path) not in seen]


def how_to_see(place: str, places: tuple[str, ...] | None) -> str:
    """The change of the guard's setting after which a guard with these ``places`` also looks in ``place``. If
    ``places`` is None, the guard searches the usual directories. The setting replaces them, so it has to list them,
    too."""
    change = f'Add "{place}" to socket_dir'
    if places is None:
        listed = ", ".join(f'"{one}"' for one in (place, *find.usual_places(os.environb, os.geteuid())))
        change = f"Put socket_dir = [{listed}]"
    return f"{change} under [hook] in {settings.config_file()}"


def sweep(sockets: Iterable[Socket]) -> list[str]:
    """Removes the sockets that are left behind. Returns their paths."""
    swept = [entry.path for entry in sockets if is_left_behind(entry)]
    for path in swept:
        remove_quietly(path)
    return swept


def is_left_behind(entry: Socket) -> bool:
    """Whether the socket is stale and the process with the id in its name has ended. Other stale sockets stay, because
    a running Neovim may be about to listen."""
    name = os.path.basename(entry.path)
    own = NEOVIMS_OWN.fullmatch(name)
    pid = int(own[1]) if own else find.pid_in(name)
    return entry.state == "stale" and pid > 0 and not process_alive(pid)


def _listens(path: str) -> bool:
    """Whether a process is listening, or may be listening: the queue of a busy process can be full."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except BlockingIOError:
            return True
        except OSError:
            return False
    return True


def _not_ours(prefix: str, found: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The path of each file that has the name of an editor's socket for the directory but is not one of this user's
    sockets, and the reason."""
    known = {path for path, _ in found}
    place, _, beginning = prefix.rpartition("/")
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(place or "/")):
            path = f"{place}/{name}"
            if name.startswith(beginning) and find.pid_in(name) and path not in known:
                foreign = os.lstat(path).st_uid != os.geteuid()
                yield path, "belongs to another user" if foreign else "is not a socket"


def _kind(path: str) -> str:
    return find.VSCODE if "-vscode-" in os.path.basename(path) else find.NEOVIM


def _answers(sockets: Sequence[tuple[str, str]], deadline: int) -> list[ask.Answer]:
    """Asks each editor for its report, and then asks those that answered for the state of every open file, because a
    silent editor would use up the deadline again.
    """
    answers = ask.ask(sockets, "snapshot", {"paths": [], "want": list(WANTED)}, deadline)
    names = sorted({name for answer in answers for name in _open_files(answer.result)})
    live = [(answer.path, answer.kind) for answer in answers if _is_snapshot(answer.result)]
    for file in ask.ask(live, "snapshot", {"paths": names, "want": []}, deadline) if names else []:
        for answer in answers:
            if answer.path == file.path and _is_snapshot(answer.result) and isinstance(file.result, dict):
                answer.result["files"] = file.result.get("files")
    return answers


def _is_snapshot(result: Any) -> bool:
    return isinstance(result, dict) and isinstance(result.get("editor"), str) and isinstance(result.get("pid"), int)


def _open_files(result: Any) -> list[str]:
    names = result.get("open") if _is_snapshot(result) else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _editors(answers: Iterable[ask.Answer], directory: str) -> Iterator[Editor]:
    """One entry for each process, which may have several sockets. Editors of ``directory`` come first."""
    by_pid: dict[tuple[str, int], list[ask.Answer]] = {}
    for answer in answers:
        if _is_snapshot(answer.result):
            by_pid.setdefault((answer.kind, answer.result["pid"]), []).append(answer)
    made = []
    for (kind, pid), same in by_pid.items():
        report = same[0].result
        folders = _texts(report.get("folders"))
        files = sorted({file.name: file for answer in same for file in _files(answer.result)}.values(), key=_rank)
        here = any(_related(os.path.realpath(folder), directory) for folder in folders)
        agents = [number for number in report.get("connected") or [] if isinstance(number, int)]
        sockets = sorted(answer.path for answer in same)
        made.append(Editor(report["editor"], kind, pid, here, sockets, folders, files, agents))
    yield from sorted(made, key=lambda editor: (not editor.here, editor.folders, editor.pid))


def _files(result: dict[str, Any]) -> Iterator[OpenFile]:
    states = dict.fromkeys(_names(result.get("unsaved")), (True, False))
    for file in result.get("files") or []:
        if isinstance(file, dict) and isinstance(file.get("name"), str):
            states[file["name"]] = bool(file.get("modified")), bool(file.get("current"))
    for name in dict.fromkeys([*_open_files(result), *states]):
        modified, current = states.get(name, (False, False))
        yield OpenFile(name, modified, current)


def _names(entries: Any) -> list[str]:
    return _texts([entry.get("name") for entry in entries if isinstance(entry, dict)]) if entries else []


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _rank(file: OpenFile) -> tuple[bool, bool, str]:
    return not file.current, not file.modified, file.name


def _related(folder: str, directory: str) -> bool:
    """Whether the paths are equal or one contains the other."""
    shorter, longer = sorted((folder, directory), key=len)
    return longer == shorter or longer.startswith(shorter.rstrip("/") + "/")
