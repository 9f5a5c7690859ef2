"""Records what setup added to each settings file, to Neovim's package directory, to VS Code and as a service, so that
``--remove`` removes exactly that, and so that setup finds what has changed since then.

The records are in one JSON file in Drawbridge's data directory, which maps the path of each settings file, package
directory, VS Code command and service file to its record. If the JSON file is missing or damaged, ``--remove`` still
finds every Drawbridge hook. In that case, it also removes lists and objects that are empty afterwards.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from drawbridge.core.json_text import UNDECODABLE
from drawbridge.core.private_files import make_private_directory, remove_quietly, write_private
from drawbridge.setup import copies, jsonc


class Record(msgspec.Struct, frozen=True):
    """The changes that setup made to one file or directory. ``created``: whether setup created the file;
    ``directories``: the directories that setup created for it. ``blank``: the previous content of a file that contained
    no value. ``containers``: the paths of the lists and objects that setup created. ``mode``, ``auto``: the previous
    source texts of ``AskMode.mode`` and ``AskMode.lasting``, each in a tuple that is empty if the file did not contain
    the value; None if setup did not set it. ``link``: the target of the plugin's link, in the record of Neovim's
    package directory. ``content``: the digest of the installed extension, in the record of a VS Code command."""

    created: bool = False
    blank: str | None = None
    containers: frozenset[jsonc.Path] = frozenset()
    directories: tuple[str, ...] = ()
    mode: tuple[str, ...] | None = None
    auto: tuple[str, ...] | None = None
    link: str | None = None
    content: str | None = None


def merged(before: Record, after: Record) -> Record:
    """The record of a file that is being changed, from ``before`` to ``after``. It describes the changes of both."""
    return msgspec.structs.replace(
        after,
        containers=before.containers | after.containers,
        mode=before.mode if after.mode is None else after.mode,
        auto=before.auto if after.auto is None else after.auto,
    )


def load(settings: Path) -> Record | None:
    return _records().get(str(settings))


def save(settings: Path, record: Record | None) -> None:
    """Stores the record of a path; None removes it."""
    records = {path: kept for path, kept in _records().items() if path != str(settings)}
    if record is not None:
        records[str(settings)] = record
    file = _file()
    if records:
        make_private_directory(str(file.parent))
        write_private(str(file), msgspec.json.format(msgspec.json.encode(records, order="deterministic")))
    else:
        remove_quietly(str(file))


def _records() -> dict[str, Record]:
    try:
        return msgspec.json.decode(_file().read_bytes(), type=dict[str, Record])
    except (OSError, *UNDECODABLE):
        return {}


def _file() -> Path:
    return copies.data_directory() / "setup.json"
