"""The private repository of a directory that is not in a git work tree.

It is in the server's data, and the user's directory is its work tree. None of the repository's data is written into the
user's directory, and git does not look for a repository there. ``.gitattributes`` has no effect, so all files are
stored and restored byte for byte. ``.gitignore`` applies as usual.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from drawbridge.agents.memory import MB
from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.private_files import PRIVATE_FILE, make_private_directory, write_private
from drawbridge.server.checkpoints.errors import GitFailed, NoCheckpoint, TookTooLong
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.repository import Repository, find, in_git_directory

logger = logging.getLogger("drawbridge.server")

NAME: Final = "repository"
"""The name of the git directory in the folder that belongs to the checkpoints."""

IGNORED: Final = (
    # dependencies
    *("node_modules/", "bower_components/", "jspm_packages/", ".venv/", "venv/", "virtualenv/", "site-packages/"),
    *(".bundle/", "Pods/", ".pnpm-store/", ".yarn/cache/", ".eggs/", "*.egg-info/"),
    # build output
    *("target/", "build/", "dist/", "_build/", "DerivedData/", "__pycache__/", "*.pyc", "*.o", "*.class"),
    *(".next/", ".nuxt/", ".svelte-kit/", ".output/", ".dart_tool/", ".gradle/", ".terraform/"),
    # caches
    *(".cache/", ".parcel-cache/", ".turbo/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/", ".hypothesis/"),
    *(".tox/", ".nox/", ".nyc_output/", ".ipynb_checkpoints/", "htmlcov/"),
    # other version control systems, and files left behind by desktops and editors
    *(".hg/", ".svn/", ".jj/", ".bzr/", ".DS_Store", "Thumbs.db", "*.swp", "*.swo"),
)
"""The patterns of the files that are left out, as in a ``.gitignore``. The directory's own ``.gitignore`` files can
include some of it again (``!build/``)."""

CONFIGURATION: Final = "[core]\n\tbare = false\n\trepositoryFormatVersion = 0\n\tsharedRepository = 0600\n"
"""The configuration of the repository. Its last line prevents other users from reading what git writes there."""

ATTRIBUTES: Final = "* -text -ident -filter -working-tree-encoding !eol !crlf !diff !merge !whitespace\n"
"""The attributes of all files in the repository. No file is converted, regardless of ``.gitattributes``."""

LARGEST_FILE: Final = 10 * MB
"""The maximum size of a file, in bytes. A larger file is left out, unless the previous checkpoint contains it."""

MOST_LARGE: Final = 1_000
"""The maximum number of large files and nested repositories that are left out one by one. A directory with more of
these is too large.
"""

LIST_SECONDS: Final = 5.0
"""The number of seconds that git may take to list the files."""

REST_SECONDS: Final = 600.0
"""Seconds for which a directory that was too large is not checked before a run, because each check would delay the
run."""

MOST_STORED: Final = 2_000 * MB
"""The maximum size of the repository, in bytes. Beyond it, only the review and the checkpoints of the latest run and of
active runs are kept."""

COLLECT_SECONDS: Final = 3600.0
MOST_LOOSE: Final = 2_000
"""If there are more object files than this, objects that are no longer in any checkpoint or review are removed after a
run. They are also removed if the repository is full (``MOST_STORED``), or if the last removal was more than
``COLLECT_SECONDS`` ago."""

CLEAN_UP_SECONDS: Final = 30.0
"""Seconds that each git command may take that removes such objects, or packs the others. The next run or review waits
for it."""

CLEAN_UP_FULL_SECONDS: Final = 120.0
"""The same if the repository is full, because more checkpoints are lost if it stays full."""

UNFINISHED: Final = ("tmp_", ".tmp-")
"""How the names of files begin to which git writes objects until they are complete. git leaves such files behind if it
is killed or the disk is full, and ``git prune`` does not remove all of them."""

ADVICE: Final = (
    "Add files that need no review to a .gitignore file, or make the directory a git repository (git init), to which "
    "these limits do not apply."
)

NOTICE: Final = (
    "The server stores the versions of these files in its own repository, without dependencies, build output, "
    f"caches, nested repositories or files over {LARGEST_FILE // MB} MB."
)
"""The notice about a review in a private repository, in one sentence."""

NARROWER: Final = "Work in one of its subdirectories, or make it a git repository (git init)."
"""The advice if the directory is refused regardless of its contents, so that a ``.gitignore`` file would not help."""


class Largest(Struct, frozen=True):
    """The largest directory for which checkpoints are taken: the numbers of its files, and of their bytes."""

    files: int = 20_000
    bytes: int = 300 * MB


class TooLarge(NoCheckpoint):
    """The directory exceeds a limit. ``setting``: the option with which the server's owner can raise the limit; empty if
    there is none."""

    def __init__(self, why: str, setting: str = "") -> None:
        owner = f" The server's owner can also raise the limit ({setting})." if setting else ""
        super().__init__(f"Too large to review: {why} {ADVICE}{owner}")


class PrivateRepository:
    """The private repository of ``directory``, in ``folder``. It is created when it is needed for the first time.
    ``largest``: a directory that is larger has no checkpoints."""

    def __init__(self, folder: Path, directory: Path, largest: Largest) -> None:
        self._git_directory = folder / NAME
        self._directory = directory
        self._largest = largest
        self._too_large: tuple[float, TooLarge] | None = None
        """The time at which the directory was found to be too large (``time.monotonic``), and the error; None if it is
        not too large."""
        self._packed_from = 0.0
        """The time from which ``collect`` packs objects again after a failure (``time.monotonic``). The next run waits
        for it, so it is not tried after each run."""

    @property
    def exists(self) -> bool:
        """Whether the repository was created. Blocking."""
        return self._git_directory.is_dir()

    def repository(self) -> Repository | None:
        """The repository for the checkpoints of the directory: the private one if it exists, otherwise the repository
        of the git work tree that contains the directory or, without a work tree, a new private one. None in a directory
        that belongs to git. Blocking. Raises ``NoCheckpoint``, ``GitFailed`` or OSError."""
        if not self.exists:
            found = find(self._directory)
            if found is not None or in_git_directory(self._directory):
                return found
            try:
                self._create()
            except DrawbridgeError as error:
                raise GitFailed(f"the private repository could not be created: {error}") from None
        return Repository(self._directory.resolve(), self._git_directory, self._git_directory, private=True)

    def _create(self) -> None:
        """Creates the repository. Raises ``NoCheckpoint``, ``DrawbridgeError`` or OSError."""
        directory = self._directory.resolve(strict=True)
        home = "the home directory of the server's user"
        for name, folder in ((home, Path.home()), ("the server's data", self._git_directory)):
            if directory in ((real := folder.resolve()), *real.parents):
                raise NoCheckpoint(f"This directory can't be reviewed, because it is or contains {name}. {NARROWER}")
        new = self._git_directory.with_name(f"{NAME}.new")
        shutil.rmtree(new, ignore_errors=True)
        make_private_directory(str(new))
        for name in ("objects", "refs", "info"):
            (new / name).mkdir(0o700)
        files = {
            "HEAD": "ref: refs/heads/drawbridge\n",
            "config": CONFIGURATION,
            "info/exclude": "".join(f"{pattern}\n" for pattern in IGNORED),
            "info/attributes": ATTRIBUTES,
        }
        for name, text in files.items():
            write_private(str(new / name), text.encode())
        new.rename(self._git_directory)

    def successor(self) -> Repository | None:
        """The git work tree that the directory has become part of since the private repository was created, if any.
        Blocking.

        Only a real ``.git`` directory counts, because an agent could have created a file or a link with that name that
        leads anywhere.
        """
        found = find(self._directory) if self.exists else None
        own = found.root / ".git" if found is not None else None
        return found if own is not None and own.is_dir() and not own.is_symlink() else None

    def remove(self) -> None:
        """Removes the repository. Blocking."""
        shutil.rmtree(self._git_directory, ignore_errors=True)

    def check_again_later(self) -> None:
        """Raises ``TooLarge`` if the directory was found to be too large less than ``REST_SECONDS`` ago."""
        if self._too_large is not None and time.monotonic() - self._too_large[0] < REST_SECONDS:
            raise self._too_large[1]

    async def check_size(self, git: Git) -> None:
        """If git works in the private repository, checks the size of the directory. Raises ``TooLarge`` and the errors
        of ``Git.read``."""
        if git.repository.private:
            await self.selection(git)

    async def selection(self, git: Git) -> str:
        """The pathspecs of the files that belong to a checkpoint, as git's input, each followed by NUL. Raises
        ``TooLarge`` and the errors of ``Git.read``."""
        try:
            left_out = await self._listed(git, "--cached", "--others", "--exclude-standard")
        except TooLarge as error:
            self._too_large = (time.monotonic(), error)
            raise
        self._too_large = None
        return ".\0" + "".join(f":(exclude,literal){path}\0" for path in left_out)

    async def check_known(self, git: Git) -> None:
        """Checks only the size of the files in git's index. Raises ``TooLarge`` and the errors of ``Git.read``."""
        await self._listed(git, "--cached")

    async def _listed(self, git: Git, *which: str) -> list[str]:
        """The files that are left out of those that git lists with the options ``which``. Raises ``TooLarge`` and the
        errors of ``Git.read``."""
        try:
            listed = await git.read("ls-files", "-t", "-z", *which, "--", ".", within=LIST_SECONDS)
        except TookTooLong:
            raise TooLarge(f"the files in the directory can't be listed within {LIST_SECONDS:g} s.") from None
        return await asyncio.to_thread(self._left_out, listed)

    def _left_out(self, listed: str) -> list[str]:
        """The large files that the previous checkpoint does not contain, and the nested repositories. Blocking. Raises
        ``TooLarge``."""
        left_out, count, size = list[str](), 0, 0
        for mark, path in _parsed(listed):
            if path.endswith("/"):
                left_out.append(path)
                continue
            with contextlib.suppress(OSError):  # the file may no longer exist
                bytes = os.lstat(self._directory / path).st_size
                if mark == "?" and bytes > LARGEST_FILE:
                    left_out.append(path)
                    continue
                count, size = count + 1, size + bytes
            if count > self._largest.files:
                text = f"the directory has more than {self._largest.files:,} files."
                raise TooLarge(text, "--checkpoint-files")
            if size > self._largest.bytes:
                text = f"the files in the directory exceed {self._largest.bytes // MB:,} MB."
                raise TooLarge(text, "--checkpoint-mb")
        if len(left_out) > MOST_LARGE:
            large = f"files over {LARGEST_FILE // MB} MB and nested repositories"
            raise TooLarge(f"the directory has more than {MOST_LARGE:,} {large}.")
        return left_out

    async def forget_ignored(self, git: Git) -> None:
        """Removes from git's index what git now ignores."""
        listed = await git.read("ls-files", "-z", "--cached", "--ignored", "--exclude-standard", "--", ".")
        await git.update("--force-remove", filter(None, listed.split("\0")))

    def is_full(self) -> bool:
        """Whether the repository is larger than ``MOST_STORED``. Blocking."""
        return sum(self._sizes()) > MOST_STORED

    async def collect(self, git: Git) -> None:
        """Removes what git commands that were killed have left, and if it is due, objects that are no longer in any
        checkpoint or review. A failure is logged. This is the last step of an operation, because git can't be used any
        more if a command does not end."""
        try:
            await asyncio.to_thread(self._remove_unfinished)
            if not await asyncio.to_thread(self._is_due):
                return
            seconds = CLEAN_UP_FULL_SECONDS if await asyncio.to_thread(self.is_full) else CLEAN_UP_SECONDS
            # This comes first, so that the repository stays small even if it takes too long to put the rest into one file.
            await git.read("prune", "--expire=now", within=seconds)
            if time.monotonic() < self._packed_from:
                return
            # This does not search for similar contents, which could take minutes.
            await git.read("repack", "-a", "-d", "-q", "--window=0", "--depth=0", within=seconds)
            await asyncio.to_thread((self._git_directory / "collected").touch, PRIVATE_FILE)
        except (GitFailed, NoCheckpoint, OSError) as error:
            logger.warning("the private repository of %s was not cleaned up: %s", self._directory, error)
            self._packed_from = time.monotonic() + COLLECT_SECONDS
            await asyncio.to_thread(self._remove_unfinished)

    def _is_due(self) -> bool:
        """Whether it is time for ``collect`` to remove objects. Blocking. Raises OSError."""
        collected = self._git_directory / "collected"
        try:
            age = time.time() - collected.stat().st_mtime
        except FileNotFoundError:
            collected.touch(PRIVATE_FILE)
            age = 0.0
        sizes = self._sizes()
        return not 0 <= age < COLLECT_SECONDS or len(sizes) > MOST_LOOSE or sum(sizes) > MOST_STORED

    def _sizes(self) -> list[int]:
        """The sizes of the files with objects, in bytes. Blocking."""
        sizes = list[int]()
        for path in self._files():
            if not _is_unfinished(path):
                with contextlib.suppress(OSError):
                    sizes.append(os.lstat(path).st_size)
        return sizes

    def _remove_unfinished(self) -> None:
        """Removes files that git has not completed. No other git command writes objects meanwhile. Blocking."""
        for path in filter(_is_unfinished, self._files()):
            with contextlib.suppress(OSError):
                os.unlink(path)

    def _files(self) -> Iterator[str]:
        """The paths of all files with objects. Blocking."""
        for folder, _, names in os.walk(self._git_directory / "objects"):
            yield from (os.path.join(folder, name) for name in names)


def _is_unfinished(path: str) -> bool:
    return os.path.basename(path).startswith(UNFINISHED)


def _parsed(output: str) -> Iterable[tuple[str, str]]:
    """Parses the output of ``ls-files -t -z``: pairs of mark and path."""
    return ((item[0], item[2:]) for item in output.split("\0") if item)
