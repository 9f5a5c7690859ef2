"""Unsaved changes that an agent's call would overwrite: the editor that has them, and both texts. This module is not on
the hot path."""

from __future__ import annotations

import os

from drawbridge.guard import ask, find, rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from drawbridge.core.privacy import Privacy
    from drawbridge.guard.settings import Settings

LARGEST_FILE = 4 * 1024 * 1024
# Milliseconds.
TEXT_DEADLINE = 300
NOTICE_DEADLINE = 300

MOST_NAMES = 8


class UnsavedFile:
    """One file with unsaved changes in one editor. ``file``: its entry in the editor's answer."""

    __slots__ = ("editor", "file", "found", "name")

    def __init__(self, found: ask.Answer, file: Mapping[str, Any]) -> None:
        self.found = found
        self.file = file
        self.name: str = file["name"]
        self.editor = editor_name(found)

    @property
    def socket(self) -> tuple[str, str]:
        return self.found.path, self.found.kind


def entries(found: ask.Answer, key: str) -> list[dict[str, Any]]:
    """The objects in one list of an answer. Other values are skipped."""
    listed = found.result.get(key) if isinstance(found.result, dict) else None
    return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def privacy(settings: Settings) -> Privacy:
    from drawbridge.core.privacy import DEFAULT_PATTERNS, Privacy

    return Privacy(DEFAULT_PATTERNS if settings["ignore"] is None else settings["ignore"])


def notify(sockets: Iterable[tuple[str, str]], text: str) -> None:
    """Sends a notice for the user without waiting until it is shown."""
    ask.ask(sockets, "send_message", {"message": text}, NOTICE_DEADLINE)


def editor_name(found: ask.Answer) -> str:
    named = found.result.get("editor") if isinstance(found.result, dict) else None
    return str(named) if named else {find.NEOVIM: "Neovim", find.VSCODE: "VS Code"}[found.kind]


def process(found: ask.Answer) -> int | str:
    """The identity of an editor: its process or, if that is not known, its socket. VS Code has one socket for each of
    its folders."""
    pid = found.result.get("pid") if isinstance(found.result, dict) else None
    return pid if isinstance(pid, int) else find.pid_in(os.path.basename(found.path)) or found.path


def once(protected: Iterable[UnsavedFile]) -> list[UnsavedFile]:
    """One entry for each process and path."""
    return list({(process(one.found), one.name): one for one in protected}.values())


def protected_in(answers: list[ask.Answer], policy: str) -> list[UnsavedFile]:
    return once(
        UnsavedFile(found, file) for found in answers for file in rule.files(found) if rule.protects(file, policy)
    )


def base_names(paths: Iterable[str]) -> str:
    """ "a.py, b.py and c.py", each name once. A long list ends with "and 17 more"."""
    names = list(dict.fromkeys(os.path.basename(path) for path in paths))
    if len(names) > MOST_NAMES:
        names[MOST_NAMES:] = [f"{len(names) - MOST_NAMES} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def buffer_text(one: UnsavedFile) -> tuple[str, int] | None:
    """The text that a save would write, and the buffer's version. None if the editor does not answer in time
    or sends no text."""
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
    """The file's content: "" if it does not exist, None if it is too large or can't be read."""
    try:
        # A named pipe must not block.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        return ""
    except (OSError, ValueError):
        return None
    return data.decode(errors="surrogateescape") if len(data) <= LARGEST_FILE else None
