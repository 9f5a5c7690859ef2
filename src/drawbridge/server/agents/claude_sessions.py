"""The conversations that Claude Code keeps for a directory, those begun in a terminal included.

They are the CLI's own files, ``<config>/projects/<directory with - for every other sign>/<session id>.jsonl`` (seen
on 2.1.197 and 2.1.329; undocumented, so what looks different is passed over).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
from msgspec import Struct

from drawbridge.server.agents.port import Remembered

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
LONGEST_TITLE = 120
HEAD_BYTES = 65_536


def config() -> Path:
    """The CLI's own directory."""
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")


def directory_of(path: Path) -> Path:
    """Where the CLI keeps the conversations of a project directory."""
    return config() / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(path))


def listed(path: Path, limit: int) -> list[Remembered]:
    """The newest first. Reads files: not from the event loop's thread."""
    try:
        entries = [(entry.stat(), entry) for entry in os.scandir(directory_of(path)) if entry.name.endswith(".jsonl")]
    except OSError:
        return []
    entries.sort(key=lambda found: found[0].st_mtime, reverse=True)
    return [
        Remembered(entry.name[:-6], status.st_mtime, _title(Path(entry.path)))
        for status, entry in entries[:limit]
        if ID.fullmatch(entry.name[:-6])
    ]


def known(path: Path, session_id: str) -> bool:
    return ID.fullmatch(session_id) is not None and (directory_of(path) / f"{session_id}.jsonl").is_file()


class _Line(Struct):
    type: str = ""
    isMeta: bool = False  # noqa: N815 - the CLI's own name
    summary: str | None = None
    message: msgspec.Raw = msgspec.Raw(b"null")


class _Text(Struct):
    type: str = ""
    text: str = ""


class _Prompt(Struct):
    content: str | list[_Text] = ""


def _title(file: Path) -> str | None:
    """The first thing that the person said."""
    with file.open("rb") as opened:
        head = opened.read(HEAD_BYTES)
    for line in head.split(b"\n"):
        try:
            found = msgspec.json.decode(line, type=_Line)
            if found.summary:
                return found.summary[:LONGEST_TITLE]
            if found.type != "user" or found.isMeta:
                continue
            content = msgspec.json.decode(bytes(found.message), type=_Prompt).content
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        text = content if isinstance(content, str) else " ".join(part.text for part in content if part.type == "text")
        if text.strip() and not text.lstrip().startswith("<"):
            return " ".join(text.split())[:LONGEST_TITLE]
    return None
