"""The conversations that Claude Code stores for a directory, including those begun in a terminal.

They are the CLI's own files, ``<config>/projects/<directory>/<session id>.jsonl``. In the directory's name, a hyphen
replaces each character that is not a letter or digit. The format is undocumented (seen on 2.1.197 and 2.1.329), so
files in another format are ignored.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from pathlib import Path

import msgspec
from msgspec import Struct

from drawbridge.agents.base import StoredConversation
from drawbridge.core.json_text import UNDECODABLE

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
WORKTREES = "--claude-worktrees-"
"""``/.claude/worktrees/``, where the EnterWorktree tool creates worktrees, in the form that it has in the name of a
directory below ``projects``."""
LONGEST_TITLE = 120
HEAD_BYTES = 65_536
"""The minimum number of bytes at the beginning of a file that are searched for a title."""
LONGEST_HEAD = 16 * 1024 * 1024
"""The maximum number of bytes at the beginning of a file that are searched for the directory. The first prompt, which
may contain images, precedes the directory in the same line."""


def config() -> Path:
    """The CLI's own directory."""
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")


def directory_of(path: Path) -> Path:
    """The directory in which the CLI stores the conversations of a project directory."""
    return config() / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(path))


def file_of(path: Path, session_id: str) -> Path:
    """The file that contains a conversation of the project directory ``path``, or would contain it if no such file is
    found. The CLI moves the file to another directory when the agent enters a git worktree (2.1.329). Blocking."""
    usual = directory_of(path) / f"{session_id}.jsonl"
    if ID.fullmatch(session_id) is None or os.path.exists(usual):
        return usual
    moved = (config() / "projects").glob(f"*/{session_id}.jsonl")
    return next((file for file in moved if _head(file).is_of(path)), usual)


def listed(path: Path, limit: int) -> list[StoredConversation]:
    """The conversations of the project directory ``path``, at most ``limit``, most recently active first, including
    those that have moved to a worktree that Claude Code created. Blocking."""
    usual = directory_of(path)
    entries = _entries(usual)
    for directory in usual.parent.glob(f"{usual.name}{WORKTREES}*"):
        entries += _entries(directory)
    entries.sort(key=lambda found: found[0].st_mtime, reverse=True)
    found: list[StoredConversation] = []
    for status, entry in entries:
        if len(found) == limit:
            break
        if ID.fullmatch(entry.name[:-6]) and (head := _head(Path(entry.path))).is_of(path):
            found.append(StoredConversation(entry.name[:-6], status.st_mtime, head.title))
    return found


def directories(limit: int) -> list[tuple[Path, float]]:
    """The directories with the most recently active conversations, at most ``limit``, each with the time of its last
    activity (seconds since 1970). Worktrees that Claude Code created are left out. Blocking."""
    newest = []
    for directory in (config() / "projects").glob("*"):
        if WORKTREES not in directory.name and (entries := _entries(directory)):
            status, entry = max(entries, key=lambda found: found[0].st_mtime)
            newest.append((status.st_mtime, entry.path))
    newest.sort(reverse=True)
    heads = ((_head(Path(file)).directory, time) for time, file in newest)
    known = ((Path(directory), time) for directory, time in heads if directory and directory.startswith("/"))
    return list(itertools.islice(known, limit))


def _entries(directory: Path) -> list[tuple[os.stat_result, os.DirEntry[str]]]:
    try:
        return [(entry.stat(), entry) for entry in os.scandir(directory) if entry.name.endswith(".jsonl")]
    except OSError:
        return []


def known(path: Path, session_id: str) -> bool:
    return ID.fullmatch(session_id) is not None and _head(file_of(path, session_id)).is_of(path)


def title(path: Path, session_id: str) -> str | None:
    return title_of(file_of(path, session_id)) if ID.fullmatch(session_id) else None


def title_of(file: Path) -> str | None:
    """The title of the conversation in a file: the CLI's summary or the first prompt, whichever comes first, shortened.
    None if the beginning of the file contains neither. Blocking."""
    return _head(file).title


class _Head(Struct):
    """Facts from the beginning of a conversation. ``title``: see ``title_of``."""

    directory: str | None = None
    title: str | None = None

    def is_of(self, path: Path) -> bool:
        """Whether the conversation began in ``path``. The name of the CLI's folder is not proof: ``site-a`` and
        ``site/a`` share one."""
        if self.directory is None or not self.directory.startswith("/") or "\0" in self.directory:
            return False
        return self.directory == str(path) or os.path.realpath(self.directory) == str(path)


class _Line(Struct):
    type: str = ""
    isMeta: bool = False  # noqa: N815 - the CLI's own name
    cwd: str | None = None
    summary: str | None = None
    message: msgspec.Raw = msgspec.Raw(b"null")


class _Text(Struct):
    type: str = ""
    text: str = ""


class _Prompt(Struct):
    content: str | list[_Text] = ""


def _head(file: Path) -> _Head:
    """The facts from the beginning of a file; an empty ``_Head`` if the file can't be read."""
    head, left = _Head(), LONGEST_HEAD
    with contextlib.suppress(OSError), file.open("rb") as opened:
        while line := opened.readline(left):
            left -= len(line)
            with contextlib.suppress(*UNDECODABLE):
                found = msgspec.json.decode(line, type=_Line)
                head.directory = head.directory or found.cwd
                head.title = head.title or _title(found)
            if head.directory and (head.title or LONGEST_HEAD - left > HEAD_BYTES):
                break
    return head


def _title(line: _Line) -> str | None:
    if line.summary:
        return line.summary[:LONGEST_TITLE]
    if line.type != "user" or line.isMeta:
        return None
    content = msgspec.json.decode(bytes(line.message), type=_Prompt).content
    text = content if isinstance(content, str) else " ".join(part.text for part in content if part.type == "text")
    if not text.strip() or text.lstrip().startswith("<"):
        return None
    return " ".join(text.split())[:LONGEST_TITLE]
