"""The context of a prompt or a new session: the user's selection, and the files with unsaved changes in an editor."""

from __future__ import annotations

import os
import re

from drawbridge.agents.catalog import title
from drawbridge.guard import ask, calls, rule
from drawbridge.guard.after import connected_to
from drawbridge.guard.unsaved import editor_name, privacy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from drawbridge.guard.settings import Settings

    Sockets = list[tuple[str, str]]

LARGEST_SELECTION = 8_000
"""The maximum length of a selection, in characters. Claude Code moves a context of more than 10,000 to a file."""

MOST_FILES = 20
MOST_WATCHED = 100


def answer(call: calls.Call, sockets: Sockets, settings: Settings) -> bytes:
    """The selection and the files with unsaved changes, as context for the prompt."""
    want = ["unsaved", "open", "connected", *(["selection"] if settings["selection"] else [])]
    answers = _snapshots(call, sockets, want, settings)
    texts = [*_selections(call, answers, settings), *_unsaved(call, answers, settings)]
    return calls.add_context(call, "\n\n".join(texts))


def start(call: calls.Call, sockets: Sockets, settings: Settings) -> bytes:
    """The answer for a new session or a new working directory: the open files that the agent should watch and, as
    context for a new session, the files with unsaved changes."""
    answers = _snapshots(call, sockets, ["unsaved", "open"], settings)
    project, hidden = _project(call), privacy(settings)
    opened = (name for found in answers for name in _names(found, "open"))
    watch = [name for name in dict.fromkeys(opened) if _inside(name, project) and not hidden.hides(name)]
    texts = _unsaved(call, answers, settings) if call.event == calls.START else ()
    return calls.add_context(call, "\n\n".join(texts), watch[:MOST_WATCHED])


def _snapshots(call: calls.Call, sockets: Sockets, want: list[str], settings: Settings) -> list[ask.Answer]:
    mode = rule.permission_mode(call)
    answers = rule.snapshot(sockets, [], settings, want=want, session=call.session, **mode)
    return [found for found in answers if found.result is not None]


def _project(call: calls.Call) -> str:
    """The directory with the editors and files that concern this session: its repository or, if it is not in one, its
    working directory."""
    directory = os.path.realpath(call.cwd)
    above = directory
    while above != os.path.dirname(above):
        if os.path.exists(os.path.join(above, ".git")):
            return above
        above = os.path.dirname(above)
    return directory


def _inside(name: str, directory: str) -> bool:
    return name == directory or name.startswith(directory.rstrip("/") + "/")


def _names(found: ask.Answer, key: str) -> list[str]:
    return [name for name in found.result.get(key, ()) if isinstance(name, str)]


def _unsaved(call: calls.Call, answers: list[ask.Answer], settings: Settings) -> Iterator[str]:
    project, hidden = _project(call), privacy(settings)
    places: dict[str, list[str]] = {}
    for found in answers:
        for file in rule.unsaved_files(found):
            if _inside(file["name"], project) and not hidden.hides(file["name"]):
                places.setdefault(file["name"], []).append(editor_name(found))
    if places:
        lines = [f"- {_one_line(name)} ({', '.join(dict.fromkeys(where))})" for name, where in places.items()]
        if len(lines) > MOST_FILES:
            lines[MOST_FILES:] = [f"- and {len(lines) - MOST_FILES} more"]
        yield (
            "Files with unsaved changes in an editor (the files on disk are older than what the user sees):\n"
            + "\n".join(lines)
        )


def _selections(call: calls.Call, answers: list[ask.Answer], settings: Settings) -> Iterator[str]:
    """The selections in this project's editors, and those in its files in other editors. Editors with a bridge that
    already sends the selection to the agent are left out, and so are files that are hidden from agents."""
    project, hidden = _project(call), privacy(settings)
    informed = connected_to(answers)
    if (
        not call.dialect.CALLED_BY_CLIENT
    ):  # the process is unknown, so any connected agent with that name counts as this one
        informed = [found for found in answers if title(call.agent) in _names(found, "agents")]
    for found in answers:
        selection = found.result.get("selection")
        if found in informed or not isinstance(selection, dict) or not isinstance(selection.get("content"), str):
            continue
        name = str(selection.get("file_path"))
        folders = [os.path.realpath(folder) for folder in _names(found, "folders")]
        near = any(_inside(folder, project) or _inside(project, folder) for folder in folders)
        if (near or _inside(name, project)) and not hidden.hides(name):
            yield _fenced(name, selection)


def _fenced(name: str, selection: Mapping[str, Any]) -> str:
    content = selection["content"]
    cut = selection.get("truncated") is True or len(content) > LARGEST_SELECTION
    content = content[:LARGEST_SELECTION]
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", content)), default=0))
    language = re.sub(r"[^\w+#.-]", "", str(selection.get("language") or ""))
    head = f"Selected by the user in {_one_line(name)}, lines {selection.get('start_line')}-{selection.get('end_line')}"
    return f"{head}{' (the beginning)' if cut else ''}:\n{fence}{language}\n{content}\n{fence}"


def _one_line(name: str) -> str:
    """Replaces unprintable characters, because a file name may contain anything, but must not read like text from the
    user.
    """
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in name)
