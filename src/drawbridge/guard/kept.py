"""Unsaved changes that an agent's call would meet: whose they are, and both texts. Off the hot path."""

from __future__ import annotations

import os

from drawbridge.guard import ask, rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

LARGEST_FILE = 4 * 1024 * 1024
TEXT_DEADLINE = 300
"""Milliseconds."""


class Kept:
    """One editor's unsaved changes of one path."""

    __slots__ = ("editor", "file", "found", "name")

    def __init__(self, found: ask.Answer, file: Mapping[str, Any]) -> None:
        self.found = found
        self.file = file
        self.name = str(file.get("name"))
        self.editor = editor_name(found)

    @property
    def socket(self) -> tuple[str, str]:
        return self.found.path, self.found.kind


def editor_name(found: ask.Answer) -> str:
    named = found.result.get("editor") if isinstance(found.result, dict) else None
    return str(named) if named else {"neovim": "Neovim", "vscode": "VS Code"}[found.kind]


def kept_by(answers: list[ask.Answer], policy: str) -> list[Kept]:
    """One entry for each process and path: an editor may be reached by several sockets."""
    found_once: dict[tuple[Any, str], Kept] = {}
    for found in answers:
        for file in rule.files(found):
            if rule.is_kept(file, policy):
                found_once.setdefault((found.result.get("pid"), str(file.get("name"))), Kept(found, file))
    return list(found_once.values())


def base_names(paths: Iterable[str]) -> str:
    """ "a.py, b.py and c.py", each once."""
    names = list(dict.fromkeys(os.path.basename(path) for path in paths))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def buffer_text(one: Kept) -> tuple[str, int] | None:
    """What a save would write, and the version of the buffer."""
    answers = ask.ask([one.socket], "buffer_text", {"file_path": one.name}, TEXT_DEADLINE)
    found = answers[0].result if answers else None
    if (
        not isinstance(found, dict)
        or not isinstance(found.get("text"), str)
        or not isinstance(found.get("version"), int)
    ):
        return None
    return found["text"], found["version"]


def disk_text(path: str) -> str | None:
    """ "" where there is no such file; None where it is too large or can't be read."""
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        return ""
    except (OSError, ValueError):
        return None
    return data.decode(errors="surrogateescape") if len(data) <= LARGEST_FILE else None
