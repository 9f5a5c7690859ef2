"""Lasting copies of parts of this package: named by their content, installed atomically, removed when unused."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import platformdirs

from drawbridge.core.errors import NotPrivate
from drawbridge.core.private_files import PRIVATE_DIRECTORY, PRIVATE_FILE, make_private_directory, process_alive

NAME = re.compile(r"[0-9a-f]{12}")
UNFINISHED = re.compile(r"[0-9a-f]{12}\.(\d+)\.tmp")


def data_directory() -> Path:
    return Path(platformdirs.user_data_dir("drawbridge", appauthor=False))


def files_of(folder: Path, parts: Iterable[str]) -> Iterator[Path]:
    """The files in some parts of a folder, relative to it, always in the same order, without bytecode and help tags."""
    for part in parts:
        found = sorted((folder / part).rglob("*")) if (folder / part).is_dir() else [folder / part]
        for file in found:
            if file.is_file() and "__pycache__" not in file.parts and file.name != "tags":
                yield file.relative_to(folder)


def digest(folder: Path, parts: Iterable[str]) -> str:
    """A name that is derived from the content of these files: 12 hexadecimal digits."""
    seen = hashlib.sha256()
    for file in files_of(folder, parts):
        content = (folder / file).read_bytes()
        seen.update(f"{file.as_posix()}\0{len(content)}\0".encode() + content)
    return seen.hexdigest()[:12]


def install(folder: Path, parts: Iterable[str], place: Path, inside: str, prepare: Callable[[Path], None]) -> None:
    """Copies ``parts`` of ``folder`` to ``place/inside``. ``prepare`` receives a temporary folder, which is then moved
    to ``place``.

    Raises ``NotPrivate`` if the copy can't be written or ``prepare`` raises OSError, and any other error that
    ``prepare`` raises.
    """
    make_private_directory(str(place.parent))
    beside = place.with_name(f"{place.name}.{os.getpid()}.tmp")
    try:
        for file in files_of(folder, parts):
            target = beside / inside / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch(PRIVATE_FILE)
            shutil.copyfile(folder / file, target)
        prepare(beside)
        for made in (beside, *filter(Path.is_dir, beside.rglob("*"))):
            made.chmod(PRIVATE_DIRECTORY)
        if place.exists():
            shutil.rmtree(place)
        os.rename(beside, place)
    except OSError as error:
        why = (error.strerror or "unknown reason").lower()
        raise NotPrivate(f"{place} can't be written: {why}. No other changes were made.") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def remove_unused(directory: Path, is_used: Callable[[Path], bool]) -> None:
    """Removes unused copies, and unfinished copies that ended processes have left behind. Then removes the directory
    and Drawbridge's data directory if they are empty."""
    for entry in list(directory.iterdir()) if directory.is_dir() else []:
        unfinished = UNFINISHED.fullmatch(entry.name)
        old = NAME.fullmatch(entry.name) and not is_used(entry)
        if old or (unfinished and not process_alive(int(unfinished[1]))):
            shutil.rmtree(entry, ignore_errors=True)
    for empty in (directory, data_directory()):
        with contextlib.suppress(OSError):
            empty.rmdir()
