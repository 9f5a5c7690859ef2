"""The report as text: one line for each item, the directory's editors and sockets before the others, and the problems
at the end."""

from __future__ import annotations

import os
import textwrap
import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple

from drawbridge.core.own_command import own_command
from drawbridge.core.terminal_text import Terminal, harmless
from drawbridge.info import bridges
from drawbridge.info.bridges import Bridge
from drawbridge.info.editors import Editor, Socket, is_left_behind
from drawbridge.info.guards import how_to_make_it_ask
from drawbridge.info.report import Report

FILES_SHOWN: Final = 6
"""The maximum number of an editor's open files that are listed. Files with unsaved changes are always listed."""

LABEL: Final = 9
LONGEST_LABEL: Final = 28
"""The minimum and the maximum width of a line's label, in columns, after its mark."""

NARROWEST: Final = 40

ASCII: Final = {"●": "*", "✗": "x", "○": "o", "▸": ">", "·": "-", "…": "~"}

STYLES: Final = {"●": "accepted", "✗": "error", "○": "dim", "▸": "path", "·": "dim", " ": "context"}
"""The style of each mark: ``●`` works, ``✗`` is broken, ``○`` is missing or has ended, ``▸`` is the current file,
``·`` is a remark."""


class Line(NamedTuple):
    """A line of the report. ``text`` is cut in its middle if the line is too long; ``note`` is aligned at the right.
    ``deep``: whether the line is indented below another one."""

    mark: str
    label: str
    text: str
    note: str = ""
    note_style: str = "dim"
    deep: bool = False


def draw(report: Report, terminal: Terminal) -> str:
    width = max(terminal.width(), NARROWEST) if terminal.is_terminal else 0
    sections = (
        ("Editors", _editors(report)),
        ("Guard", _guards(report)),
        ("Approval", _approval(report)),
        ("IDE bridges", _bridges(report)),
        ("Agent servers", _servers(report)),
        ("Sockets", _sockets(report)),
    )
    parts = [
        terminal.paint("Drawbridge", "agent") + "  " + _fit(short(report.directory), width and width - 12, terminal)
    ]
    for title, found in sections:
        lines = list(found)
        if not lines:
            continue
        labels = max([LABEL, *(columns(harmless(line.label)) for line in lines)])
        rows = [_row(line, width, min(labels, LONGEST_LABEL), terminal) for line in lines]
        parts += ["", terminal.paint(title, "agent"), *rows]
    for title, texts, style in (("Removed", report.swept, "dim"), ("To fix", report.problems, "error")):
        if texts:
            parts += ["", terminal.paint(title, style)]
            parts += [row for text in texts for row in _wrapped(text, width or 100, terminal)]
    return "\n".join(parts) + "\n"


def short(path: str, directory: str = "") -> str:
    """A path as a user would write it in ``directory``: relative to it, or to their home directory."""
    home = os.path.expanduser("~")
    for place, name in ((directory, ""), (home, "~")):
        if place not in ("", "/") and path == place and name:
            return name
        if place not in ("", "/") and path.startswith(place + "/"):
            return os.path.join(name, path[len(place) + 1 :])
    return path


def _editors(report: Report) -> Iterator[Line]:
    for editor in report.editors:
        folders = ", ".join(map(short, editor.folders)) or "no folder"
        yield Line("●", editor.name, folders, f"pid {editor.pid}{'' if editor.here else ', elsewhere'}")
        yield from _files(editor, report.directory)
        if editor.agents:
            yield Line("·", "", f"connected agents: pid {', '.join(map(str, editor.agents))}", deep=True)
    for entry in report.sockets:
        if entry.state == "silent":
            yield Line("✗", "silent", short(entry.path), f"{entry.problem}: unsaved changes unknown", "warn")
    if not report.editors and not any(entry.state == "silent" for entry in report.sockets):
        yield Line("○", "none", "", f"`{own_command()} nvim` starts one here")


def _files(editor: Editor, directory: str) -> Iterator[Line]:
    """An editor's files, the current one first, then those with unsaved changes; for an editor elsewhere, only those
    with unsaved changes. The last line counts the files that are not listed."""
    shown = 0
    for file in editor.files:
        if file.modified or (editor.here and shown < FILES_SHOWN):
            shown += 1
            states = ["current"] * file.current + ["unsaved"] * file.modified
            style = "warn" if file.modified else "dim"
            yield Line(
                "▸" if file.current else " ", "", short(file.name, directory), ", ".join(states), style, deep=True
            )
    if rest := len(editor.files) - shown:
        yield Line("·", "", f"{rest}{' more' if shown else ''} open", deep=True)


def _sockets(report: Report) -> Iterator[Line]:
    marks = {"live": "●", "silent": "✗", "stale": "○", "not ours": "✗"}
    for entry in report.sockets:
        yield Line(marks[entry.state], entry.state, short(entry.path), _socket_note(entry))


def _socket_note(entry: Socket) -> str:
    if entry.state == "stale":
        return "`--sweep` removes it" if is_left_behind(entry) else "nothing listens on it"
    return entry.problem


def _bridges(report: Report) -> Iterator[Line]:
    swept = set(bridges.left_behind())
    for bridge in report.bridges:
        agents = ", ".join(bridge.files)
        folders = ", ".join(map(short, bridge.folders)) or "no folder"
        label = f"{bridge.port} {bridge.ide}"
        yield Line("●" if bridge.state == "live" else "○", label, folders, _bridge_note(bridge, agents, swept))
    if not report.bridges:
        yield Line("○", "none", "", "`:DrawbridgeStart` in Neovim starts one")


def _bridge_note(bridge: Bridge, agents: str, swept: set[str]) -> str:
    if bridge.state == "live":
        return agents if bridge.ours else f"{agents}, not Drawbridge's"
    return f"{bridge.state}, {agents}" + ("; `--sweep` removes it" if swept.issuperset(bridge.files.values()) else "")


def _servers(report: Report) -> Iterator[Line]:
    for server in report.servers:
        live = server.state == "live"
        page = server.pages[0] if server.pages else server.url
        yield Line("●" if live else "✗", page, short(server.data_dir), f"pid {server.pid}{'' if live else ', silent'}")
    if not report.servers:
        yield Line("○", "none", "", f"`{own_command()} serve` starts one")


def _guards(report: Report) -> Iterator[Line]:
    for guard in report.guard:
        path = short(guard.file, report.directory if guard.scope == "project" else "")
        if guard.state == "absent":
            yield Line("○", guard.agent, "not installed", f"`{own_command()} setup {guard.agent}`")
        elif guard.state != "works":
            yield Line("✗", guard.agent, path, guard.state.upper(), "error")
        elif guard.problem:
            yield Line("●", guard.agent, path, "incomplete hooks", "warn")
        else:
            took = f"works, answers in {guard.milliseconds:.0f} ms" if guard.milliseconds else "installed, not tested"
            yield Line("●", guard.agent, path, took)


def _approval(report: Report) -> Iterator[Line]:
    found = report.permissions
    where = (
        f"{found.mode} in {short(found.file, report.directory)}" if found.mode else "newer versions start in auto mode"
    )
    if found.asks:
        yield Line("●", "claude", f"asks before it writes ({where})")
    else:
        yield Line("○", "claude", f"is not set to ask before it writes ({where})")
        yield Line("·", "", how_to_make_it_ask("claude", found, report.directory), deep=True)


def _row(line: Line, width: int, labels: int, terminal: Terminal) -> str:
    """A line of the report, cut to ``width`` columns (0: not cut). Its note is on a second line if the first has no
    room for it. ``labels``: the width of the section's labels, in columns."""
    mark = line.mark if terminal.draws else ASCII.get(line.mark, line.mark)
    indent = "    " if line.deep else "  "
    label = _fit(line.label, labels if width else 0, terminal)
    label += "" if line.deep else " " * (labels + 2 - columns(label))
    used = len(indent) + 2 + columns(label)
    note = harmless(line.note)
    room = width - used - (columns(note) + 2 if note else 0) if width else 0
    if width and room < 12:  # the note gets its own line
        above = _row(line._replace(note=""), width, labels, terminal)
        return above + "\n" + " " * used + terminal.paint(_fit(note, width - used, terminal), line.note_style)
    text = _fit(line.text, room, terminal)
    start = indent + terminal.paint(mark, STYLES[line.mark]) + " " + label
    if not note:
        return (start + text).rstrip()
    gap = " " * max(2, room + 2 - columns(text)) if width else "  "
    return start + text + gap + terminal.paint(note, line.note_style)


def _wrapped(text: str, width: int, terminal: Terminal) -> list[str]:
    mark = "· " if terminal.draws else "- "
    return textwrap.wrap(
        harmless(text), width, initial_indent=f"  {mark}", subsequent_indent="    ", break_on_hyphens=False
    )


def _fit(text: str, room: int, terminal: Terminal) -> str:
    """Truncates the text to ``room`` columns (0: no limit) in its middle, because the two ends of a path matter
    most.
    """
    text = harmless(text)
    if not room or columns(text) <= room:
        return text
    end = text
    while columns(end) > (room - 1) * 2 // 3:
        end = end[1:]
    begin = text
    while columns(begin) > room - 1 - columns(end):
        begin = begin[:-1]
    return begin + ("…" if terminal.draws else ASCII["…"]) + end


def columns(text: str) -> int:
    """The width on a terminal. Wide East Asian characters take two columns, and combining marks take none."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )
