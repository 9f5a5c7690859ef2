"""What setup made in whose settings: kept so that ``--remove`` takes back exactly that.

One JSON file in our data directory: an object for each settings file. Without it (or what is no record any more) ``--remove``
still finds every hook of ours; it then takes what is empty afterwards for its own too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drawbridge.private_files import make_private_directory, remove_quietly, write_private
from drawbridge.setup import installed, jsonc


@dataclass(frozen=True)
class Record:
    """``blank``: what was in the file where that was no value at all (None: there was one; and none where it was
    ``created``). ``mode``: the source text of the mode before, in a list that is empty where there was none."""

    created: bool = False
    blank: str | None = None
    containers: frozenset[jsonc.Path] = frozenset()
    directories: tuple[str, ...] = ()
    mode: tuple[str, ...] | None = None


def load(settings: Path) -> Record | None:
    entry = _entries().get(str(settings))
    if not isinstance(entry, dict):
        return None
    try:
        containers = frozenset(tuple(map(str, path)) for path in entry["containers"])
        mode = None if entry["mode"] is None else tuple(map(str, entry["mode"]))
        blank = None if entry["blank"] is None else str(entry["blank"])
        return Record(bool(entry["created"]), blank, containers, tuple(map(str, entry["directories"])), mode)
    except (KeyError, TypeError):
        return None


def save(settings: Path, record: Record | None) -> None:
    """None: forgets it."""
    entries = {path: entry for path, entry in _entries().items() if path != str(settings)}
    if record is not None:
        entries[str(settings)] = asdict(record) | {"containers": _sorted(record.containers)}
    file = _file()
    if entries:
        make_private_directory(str(file.parent))
        write_private(str(file), json.dumps(entries, indent=2).encode())
    else:
        remove_quietly(str(file))


def _entries() -> dict[str, Any]:
    try:
        entries = json.loads(_file().read_bytes())
    except (OSError, ValueError):
        return {}
    return entries if isinstance(entries, dict) else {}


def _file() -> Path:
    return installed.directory().with_name("setup.json")


def _sorted(paths: Iterable[jsonc.Path]) -> list[jsonc.Path]:
    return sorted(paths, key=lambda path: tuple(map(str, path)))
