"""git for one operation. The repository's configuration can't make it run a program.

Anyone who can write files in a project, such as an agent, can also write ``.git/config`` and ``.gitattributes``. git
runs programs that these name: filters, fsmonitor, hooks, external diffs, and ``core.sshCommand`` for a missing object
of a partial clone. Disabling each of them by name would fail as soon as one is forgotten, and new versions of git add
more. So git works in Drawbridge's own git directory (``directory.py``), with Drawbridge's own configuration, in a
shell under a supervisor (``shell.py``). A filter without a configured program does not change the bytes, a repository
without a remote fetches nothing, and a submodule's status is never requested. Only ``git config --list`` and, if that
prints an error, ``git rev-parse --git-dir`` read the repository's configuration. They start no program, and only the
extensions (such as the object format) and a few settings are used (``settings.py``). (To determine where a push
goes, the settings of remotes and branches are used as well.) The one exception is ``as_person``. A commit, a push or a
pull request that was requested by a client is made with the user's configuration and hooks, and the author of a
possible commit is read from that configuration.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from drawbridge.agents.base import Confinement
from drawbridge.agents.environment import environment
from drawbridge.agents.memory import MemoryWatch
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.checkpoints import shell
from drawbridge.server.checkpoints.errors import GitFailed, unavailable
from drawbridge.server.checkpoints.git import directory as git_directory
from drawbridge.server.checkpoints.git.program import GitProgram, program
from drawbridge.server.checkpoints.git.settings import Settings, settings_from, settings_listed
from drawbridge.server.checkpoints.remembered import Remembered
from drawbridge.server.checkpoints.repository import Repository, find, odd_file

SETTINGS_SECONDS: Final = 5.0
"""Seconds to read the configuration, which an agent can write and can make include a pipe that nobody writes to."""

IDENTIFIER: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")

LOCAL: Final = frozenset(
    "GIT_" + name
    for name in (
        "ALTERNATE_OBJECT_DIRECTORIES",
        "COMMON_DIR",
        "CONFIG",
        "CONFIG_COUNT",
        "CONFIG_PARAMETERS",
        "DIR",
        "EDITOR",
        "GRAFT_FILE",
        "IMPLICIT_WORK_TREE",
        "INDEX_FILE",
        "INTERNAL_SUPER_PREFIX",
        "NAMESPACE",
        "NO_REPLACE_OBJECTS",
        "OBJECT_DIRECTORY",
        "PREFIX",
        "REPLACE_REF_BASE",
        "SHALLOW_FILE",
        "WORK_TREE",
    )
)
"""Environment variables that describe one repository, which may be a different one (those of ``git rev-parse
--local-env-vars``, and ``GIT_NAMESPACE``); and ``GIT_EDITOR``.
"""


class Git:
    """git for one operation, with ``settings``. ``folder`` is for files, such as ``index``, that exist only during the
    operation. Each method that runs git with ``run`` can raise the same errors as ``run``."""

    def __init__(
        self, program: GitProgram, settings: Settings, remembered: Remembered | None = None, *, is_in_root: bool
    ) -> None:
        """``remembered``: what earlier operations have read, if any. ``is_in_root``: whether the project's directory is
        the root of the work tree."""
        self.repository = program.repository
        self.folder = program.folder
        self.index = program.folder / "index"
        self.settings = settings
        self._program = program
        self._is_in_root = is_in_root
        self._once: dict[tuple[str, ...], tuple[int, str, str]] = {}
        """The results of ``once``, by its arguments."""
        self.remembered = remembered or Remembered()
        self._commits: dict[str, tuple[str, str]] = {}
        """What ``known_commit`` returns, by the commit's id."""
        self._environment = {
            "GIT_DIR": str(self.folder / "git"),
            "GIT_WORK_TREE": str(self.repository.root),
            "GIT_INDEX_FILE": str(self.index),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "HOME": str(self.folder / "home"),
            "XDG_CONFIG_HOME": str(self.folder / "home"),
        }

    async def configuration(self) -> list[tuple[str, str]]:
        """All settings of the user and the repository, as names and values. If a name occurs several times, the last
        value applies. Raises the errors of ``run``."""
        return settings_listed((await _configuration(self._program))[0])

    async def see_head(self) -> None:
        """Copies the repository's HEAD into this operation's git directory. Until then, the HEAD there does not name a
        commit."""
        await asyncio.to_thread(git_directory.copy_head, self.folder, self.repository)

    async def run(
        self,
        *words: str,
        stdin: str = "",
        environment: Mapping[str, str] | None = None,
        writes: bool = False,
        within: float | None = None,
        closed: bool = False,
    ) -> tuple[int, str, str]:
        """Runs git. Returns its exit code, output and error output. In the output, bytes that are not UTF-8 are
        surrogates. ``writes``: whether git writes to the work tree, or stores what was written there. If so, its time
        limit is never shortened. ``within``: a separate time limit, as in ``GitProgram.run``. ``closed``: whether only
        the user can read the files that git creates.

        Raises the errors of ``GitProgram.run``."""
        given = self._environment | dict(environment or {})
        arguments = [*self.settings.words, *words]
        return await self._program.run(arguments, given, stdin, writes=writes, within=within, closed=closed)

    async def read(
        self,
        *words: str,
        stdin: str = "",
        environment: Mapping[str, str] | None = None,
        within: float | None = None,
    ) -> str:
        """Runs git and returns its output. ``within``: as in ``run``. Raises the errors of ``run``, and ``GitFailed``
        if git's exit code is not 0."""
        return _output(words, *await self.run(*words, stdin=stdin, environment=environment, within=within))

    def known_commit(self, id: str) -> tuple[str, str] | None:
        """The tree and the message of a commit that this operation has read; None if it has not read the commit."""
        return self._commits.get(id)

    def remember_commit(self, id: str, tree: str, message: str) -> None:
        """Remembers a commit for the rest of this operation. ``id``: not a ref, because a ref can change."""
        self._commits[id] = tree, message

    async def once(self, *words: str) -> tuple[int, str, str]:
        """Like ``run``, but for results that can't change during an operation, such as the content of an object. git is
        started only the first time."""
        if words not in self._once:
            self._once[words] = await self.run(*words)
        return self._once[words]

    async def read_once(self, *words: str) -> str:
        """Like ``once``, but returns only the output. Raises ``GitFailed`` if the command fails."""
        return _output(words, *await self.once(*words))

    async def prefix(self) -> str:
        """The path of the project's directory in the work tree, with a slash at its end; empty for the root."""
        return "" if self._is_in_root else (await self.read_once("rev-parse", "--show-prefix")).removesuffix("\n")

    async def update(self, flag: str, paths: Iterable[str], environment: Mapping[str, str] | None = None) -> None:
        """Changes the index for these paths, which are relative to the project. ``flag``: the option of
        ``git update-index`` that applies to them. ``environment``: may name another index. Raises ``GitFailed``."""
        named = "\0".join(paths)
        if named:
            await self.read("update-index", flag, "-z", "--stdin", stdin=named, environment=environment)

    @contextlib.asynccontextmanager
    async def with_ident(self) -> AsyncIterator[None]:
        """In the context, git finds the files with the ``ident`` attribute. Outside of it, the attribute has no effect.
        Raises OSError."""
        change = git_directory.write_attributes
        await asyncio.to_thread(change, self.folder, self.repository, git_directory.SHOW_IDENT)
        try:
            yield
        finally:
            await asyncio.to_thread(change, self.folder, self.repository, git_directory.SHOW_ALL)

    async def as_person(self, script: str, seconds: float, what: str) -> tuple[int, str]:
        """Runs a shell script in the root of the work tree. In the script, ``$git`` is the user's own git, with the
        user's configuration, identity, hooks and signing, but with the limits of an agent. Returns the script's exit
        code and the end of its output. ``what``: how an error refers to the script.

        After ``seconds``, the shell's process group receives SIGTERM, which the script itself ignores unless it resets
        the trap. Raises ``GitFailed`` if the script still does not end, or was killed.
        """
        root = shlex.quote(str(self.repository.root))
        lines = [*_users_environment(self.repository), f"git={shlex.quote(self._program.path)}"]
        lines += [f"cd {root} || exit 1", script]
        return await self._program.run_script("\n".join(lines) + "\n", seconds, what)

    async def remove_at_end(self, file: Path | None) -> None:
        """Removes this file when the operation ends, even if it ends because the server died; None cancels the removal.
        Raises ``GitFailed``."""
        await self._program.remove_at_end(file)


def _output(words: Sequence[str], code: int, output: str, complaint: str) -> str:
    """Returns ``output``, the output of a command. Raises ``GitFailed`` if the command's exit code is not 0."""
    if code:
        raise GitFailed(f"git {words[0]} exited with code {code}: {complaint.strip()[:500]}")
    return output


def _users_environment(repository: Repository) -> list[str]:
    """The lines of a shell script that give git the environment of the user."""
    given = environment(os.environ, str(repository.root), "")
    removed = ["LC_ALL", *(name for name in os.environ if name not in given)]
    restored = {name: value for name, value in os.environ.items() if name == "LC_ALL" or name.startswith("GIT_")}
    restored = {name: value for name, value in restored.items() if name not in LOCAL}
    return [
        *(f"unset {name}" for name in removed if IDENTIFIER.fullmatch(name)),
        *(f"export {name}={shlex.quote(value)}" for name, value in restored.items() if IDENTIFIER.fullmatch(name)),
    ]


async def _configuration(program: GitProgram, *options: str) -> tuple[str, str]:
    """The output and error output of ``git config --list``, which reads the user's and the repository's configuration.
    Raises the errors of ``GitProgram.run``, and ``GitFailed`` if the configuration can't be read."""
    words = ["config", "--list", *options, "-z"]
    code, listed, complaint = await program.run(
        words, _git_directory_environment(program.repository), seconds=SETTINGS_SECONDS
    )
    if code:
        raise GitFailed(f"git's configuration can't be read (code {code}): {complaint.strip()[:500]}")
    return listed, complaint


def _git_directory_environment(repository: Repository) -> Mapping[str, str]:
    """The environment in which git reads the repository's configuration."""
    environment = {"GIT_DIR": str(repository.own), "GIT_WORK_TREE": str(repository.root)}
    return environment | {"GIT_TRACE2": "0", "GIT_TRACE2_EVENT": "0", "GIT_TRACE2_PERF": "0"}


async def _read_settings(program: GitProgram) -> Settings:
    """Reads the settings. Raises the errors of ``_configuration`` and of ``settings_from``, and ``NoCheckpoint`` for a
    repository that the installed git does not support."""
    listed, complaint = await _configuration(program, "--show-origin")
    if (
        complaint and (await program.run(["rev-parse", "--git-dir"], _git_directory_environment(program.repository)))[0]
    ):  # the list does not contain the repository's configuration
        raise unavailable("the installed git does not support its format")
    return await asyncio.to_thread(settings_from, listed, program.repository)


async def _prepared(
    program: GitProgram, known: Settings | None, remembered: Remembered | None, *, is_in_root: bool
) -> Git:
    """git in its own git directory, which is created. ``known``: the settings of an earlier operation. The
    configuration is read again if it has changed. Raises ``NoCheckpoint`` for a repository that is not supported, or in
    which git would wait for a file. Raises ``GitFailed`` if the configuration can't be read."""
    if odd := await asyncio.to_thread(odd_file, program.repository):
        raise unavailable(odd)
    is_current = known is not None and await asyncio.to_thread(known.are_current)
    settings = known if known is not None and is_current else await _read_settings(program)
    await asyncio.to_thread(git_directory.make, program.folder, program.repository, settings.format)
    return Git(program, settings, remembered, is_in_root=is_in_root)


@contextlib.asynccontextmanager
async def opened(
    directory: Path,
    confinement: Confinement,
    memory: MemoryWatch,
    endings: BackgroundTasks,
    known: Settings | None = None,
    find: Callable[[Path], Repository | None] = find,
    remembered: Remembered | None = None,
    *,
    awaited: bool = False,
) -> AsyncIterator[Git | None]:
    """git for one operation in ``directory``; None if ``find`` returns None or git is not installed. ``endings``: the
    tasks in which the processes are ended, so that this is completed even if the operation is canceled. These tasks
    must not be canceled. ``known``: the settings of an earlier operation, so that git does not need to be started to
    read them. ``find``: finds the repository of ``directory``. ``remembered``: as in ``Git``.
    ``awaited``: as in ``GitProgram``.

    Raises ``GitFailed``, ``NoCheckpoint`` or OSError. When the context ends, every process that was started in it has
    ended, unless the wait for that was canceled.
    """
    repository, path, real = await asyncio.to_thread(lambda: (find(directory), program(), directory.resolve()))
    if repository is None or path is None:
        yield None
        return
    if remembered is not None:
        remembered.begin(repository, real)
    mark = uuid.uuid4().hex
    async with (
        git_directory.temporary_folder(mark) as folder,
        shell.started(directory, confinement, memory, endings, mark) as started,
    ):
        git = GitProgram(path, repository, folder, started, awaited=awaited)
        yield await _prepared(git, known, remembered, is_in_root=real == repository.root)
