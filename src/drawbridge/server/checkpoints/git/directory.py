"""Drawbridge's own git directory, in a temporary folder that exists only during one operation.

Objects, refs and the repository's ``info/exclude`` are links into the repository, and ``info/attributes`` is a copy with
one more line. The configuration is Drawbridge's own, and the directory contains no hooks.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from drawbridge.agents import process_tree
from drawbridge.agents.environment import MARK
from drawbridge.core.private_files import process_alive
from drawbridge.server.checkpoints.repository import LARGEST_FILE, Repository, beginning_of, line_of

FOLDER: Final = "drawbridge-git-"
"""The prefix of the names of folders for one operation."""

LEFT_SECONDS: Final = 5.0
"""Seconds for git to end after its server was killed. Its supervisor gives it 3 seconds."""

SHOW_ALL: Final = b"* !diff -ident\n"
"""The last line of ``info/attributes``, which takes precedence over all other attributes. Whether a diff shows the lines
of a file depends only on its content, because users decide on these lines. Otherwise, an agent could hide a change with
a line in ``.gitattributes``: with ``diff``, or with ``ident``, because git leaves out what is between ``$Id:`` and the
next ``$`` in a file with that attribute."""

SHOW_IDENT: Final = b"* !diff\n"
"""Like ``SHOW_ALL``, but git finds the files with the ``ident`` attribute."""

NOBODY: Final = -1
"""A process id that no process has."""


@contextlib.asynccontextmanager
async def temporary_folder(mark: str) -> AsyncIterator[Path]:
    """A folder for one operation. ``mark``: a part of its name that can't be guessed. The name is known before the
    folder exists, so that the folder is removed even if its creation is canceled. Raises OSError.
    """
    folder = await asyncio.to_thread(lambda: Path(tempfile.gettempdir(), f"{FOLDER}{os.getpid()}-{mark}"))
    try:
        await asyncio.to_thread(folder.mkdir, 0o700)
        yield folder
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def remove_left_folders() -> None:
    """Removes the folders that operations of killed servers left behind, once their processes have ended, because git
    may still be writing files. Blocking."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER}*"):
        pid, _, mark = folder.name.removeprefix(FOLDER).partition("-")
        with contextlib.suppress(OSError):
            is_ours = folder.lstat().st_uid == os.getuid() and folder.is_dir() and not folder.is_symlink()
            if is_ours and pid.isascii() and pid.isdigit() and not process_alive(int(pid)):
                _end_left(f"{MARK}={mark}")
                shutil.rmtree(folder, ignore_errors=True)


def _end_left(mark: str) -> None:
    """Waits until the processes that an operation of a killed server left behind have ended, and kills those that take
    longer than their supervisor allows. ``mark``: as ``process_tree.members`` expects it. Blocking."""
    deadline = time.monotonic() + LEFT_SECONDS
    while process_tree.members(NOBODY, mark):
        if time.monotonic() > deadline:
            process_tree.end(NOBODY, mark)
            return
        time.sleep(process_tree.SWEEP_SECONDS)


def make(folder: Path, repository: Repository, format: str) -> None:
    """Makes the git directory ``git`` and the home directory ``home`` in ``folder``, like ``git-new-workdir`` does, but
    without the configuration and the hooks. ``format``: the object format. Until ``copy_head``, the HEAD there does not
    name a commit. Blocking. Raises OSError."""
    git = folder / "git"
    (git / "info").mkdir(parents=True)
    (folder / "home").mkdir()
    (git / "HEAD").write_text("ref: refs/heads/drawbridge\n")
    version = "0" if format == "sha1" else f"1\n[extensions]\n\tobjectFormat = {format}"
    (git / "config").write_text(f"[core]\n\tbare = false\n\trepositoryFormatVersion = {version}\n")
    for name in ("objects", "refs", "packed-refs", "info/exclude"):
        (git / name).symlink_to(repository.common / name)
    write_attributes(folder, repository, SHOW_ALL)
    for shared in repository.own.glob("sharedindex.*"):  # the larger part of an index that git split
        (git / shared.name).symlink_to(shared)


def write_attributes(folder: Path, repository: Repository, last: bytes) -> None:
    """Copies the repository's ``info/attributes`` into the git directory. ``last``: the last line of the copy. Blocking.
    Raises OSError."""
    attributes = beginning_of(repository.common / "info/attributes", LARGEST_FILE) or b""
    (folder / "git/info/attributes").write_bytes(attributes + b"\n" + last)


def copy_head(folder: Path, repository: Repository) -> None:
    """Copies the repository's HEAD into the git directory. Blocking. Raises OSError."""
    head = line_of(repository.own / "HEAD")
    if head is not None:
        (folder / "git" / "HEAD").write_bytes(os.fsencode(head) + b"\n")
