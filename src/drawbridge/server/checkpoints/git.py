"""git for checkpoints. It runs under a supervisor, like an agent, and the repository's configuration can't make it run
a program.

Anyone who can write files in a project, such as an agent, can also write ``.git/config`` and ``.gitattributes``. git
runs programs that these name: filters, fsmonitor, hooks, external diffs, and ``core.sshCommand`` for a missing object
of a partial clone. Disabling each of them by name would fail with the first one that is forgotten, and new versions of
git add more. So git works in Drawbridge's own git directory, made for one operation: objects, refs and the repository's
``info/exclude`` and ``info/attributes`` are links into the repository, and the configuration is Drawbridge's. A filter
without a configured program does not change the bytes, a repository without a remote fetches nothing, and a submodule's
status is never requested. Only ``git config --list`` and, if that prints an error, ``git rev-parse --git-dir`` read the
repository's configuration. They start no program, and only the extensions (such as the object format) and the settings
in ``KEPT`` are used: line endings, ignored files, what the file system can do. (To determine where a push goes, the
settings of remotes and branches are used as well.) The one exception is ``as_person``: a commit, a push or a pull
request that a client has requested is made with the user's configuration and hooks, and the author of a possible commit
is read from that configuration.

One shell under one supervisor (``agents/supervisor.py``) runs the commands of one operation, since starting a
supervisor takes 15 ms. So git has no more permissions than an agent, ends with the server and leaves no process behind.
git writes files while a run is reverted. The shell and git therefore ignore SIGTERM: if the server dies, git has 3
seconds to finish before the supervisor kills it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from drawbridge.agents import process_tree
from drawbridge.agents.base import Confinement
from drawbridge.agents.environment import MARK, environment
from drawbridge.agents.memory import MB, MemoryWatch
from drawbridge.agents.supervisor_pipe import SupervisorPipe
from drawbridge.core.private_files import process_alive
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.checkpoints.repository import Repository, find, is_odd, line_of, odd_below, odd_file

SECONDS: Final = 30.0
"""Seconds that one command may take."""

SETTINGS_SECONDS: Final = 5.0
"""Seconds to read the configuration. An agent can write it, and can make it include a pipe that nobody writes to."""

SECONDS_AFTER: Final = 2.0
"""Seconds for one command if git did not end in time in the same repository less than ``HURRIED_SECONDS`` ago: it will
probably block again, and each run waits for its checkpoint."""

HURRIED_SECONDS: Final = 300.0
"""Seconds for which git gets only ``SECONDS_AFTER`` for a command. After that it gets its full time again, because it
may have been slow only at that moment."""

LEAVE_SECONDS: Final = 5.0
"""Seconds for the shell to end after its last command or after it was killed, and for a program to end after
SIGTERM."""

LEFT_SECONDS: Final = 5.0
"""Seconds for git to end after its server was killed. Its supervisor gives it 3 seconds."""

NOBODY: Final = -1
"""A process id that no process has."""

KEPT: Final = frozenset(
    "core." + name
    for name in (
        "attributesfile",
        "autocrlf",
        "checkroundtripencoding",
        "checkstat",
        "eol",
        "excludesfile",
        "filemode",
        "ignorecase",
        "precomposeunicode",
        "sharedrepository",
        "symlinks",
        "trustctime",
    )
)
"""The settings of the user and the repository that also apply to Drawbridge's git. None of them can name a program."""

NAMES_A_FILE: Final = ("core.attributesfile", "core.excludesfile")

KNOWN_EXTENSIONS: Final = frozenset(
    "extensions." + name
    for name in ("noop", "objectformat", "partialclone", "preciousobjects", "relativeworktrees", "worktreeconfig")
)
"""The extensions with which a repository can still be read through links to its objects and refs."""

FORMATS: Final = ("sha1", "sha256")

OURS: Final = ("core.safecrlf=false", "core.quotePath=off", "gc.auto=0", "protocol.allow=never")

LARGEST_OUTPUT: Final = 100 * MB
"""The maximum size of one command's output that the server reads into its memory, in bytes. Some output, such as the
configuration, may have been written by an agent."""

LARGEST_DIFF: Final = 400_000
"""The maximum size of the shown part of a diff, in bytes."""

ESCAPED: Final = 600_000
"""The maximum size of the shown part of a diff as JSON, in bytes; each control character takes six of them."""

MOST_CONFIGURATION_FILES: Final = 50
"""The maximum number of files that are checked before an operation for changes to the configuration. If there are more,
the configuration is read for every operation."""

LONGEST_COMPLAINT: Final = 65_536

IDENTIFIER: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")

FOLDER: Final = "drawbridge-git-"
"""The prefix of the names of folders for one operation."""

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
"""Environment variables that describe one repository (those of ``git rev-parse --local-env-vars``, and
``GIT_NAMESPACE``), perhaps a different one; and ``GIT_EDITOR``."""


Versions: TypeAlias = Mapping[str, tuple[int, ...] | None]


class GitFailed(Exception):
    """A git command failed. The text, which may contain git's own message, is for the log."""


class TookTooLong(GitFailed):
    """A git command did not end in time."""


class NoCheckpoint(Exception):
    """No checkpoint exists, or git can't work in this repository. The text gives the reason and is shown to the
    user."""


_late_at: dict[Path, float] = {}
"""The root of a work tree → when git last exceeded its full time there, for a reason that was not found."""


def now() -> float:
    return time.monotonic()


class Settings(Struct, frozen=True):
    """The part of the configuration that git receives. ``words``: the arguments for its command line; ``format``: the
    object format; ``id_bytes``: the size of an object id, in bytes. ``files``: the files that the configuration was
    read from, or would be if they existed, and the lists of ignored files and attributes outside the work tree, each
    with a value that changes when the file does; None if these files are not known or there are too many.
    """

    words: tuple[str, ...]
    format: str
    files: Versions | None

    @property
    def id_bytes(self) -> int:
        return 20 if self.format == "sha1" else 32

    def are_current(self) -> bool:
        """Whether the files are unchanged, so that the settings still apply. Blocking."""
        return self.files is not None and versions(self.files) == self.files


def program() -> str | None:
    """The path of git; None if it is not installed. Relative entries of PATH are ignored, since the current directory
    may be the project."""
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return shutil.which("git", path=os.pathsep.join(entry for entry in entries if os.path.isabs(entry)))


class Git:
    """git for one operation. ``folder`` is for files, such as ``index``, that exist only during the operation. Each
    method that runs git with ``run`` can raise the same errors as ``run``."""

    def __init__(
        self,
        program: str,
        repository: Repository,
        folder: Path,
        shell: asyncio.subprocess.Process,
        signal: Callable[[int], None],
        *,
        is_in_root: bool,
    ) -> None:
        """``signal``: sends a signal to the shell's process group, or SIGKILL to everything that the shell has started;
        the shell itself ignores SIGTERM. ``is_in_root``: whether the project's directory is the root of the work
        tree."""
        self.repository = repository
        self._signal = signal
        self.folder = folder
        self.index = folder / "index"
        self._program = program
        self._shell = shell
        self.settings = Settings((), FORMATS[0], None)
        self._is_in_root = is_in_root
        self._once: dict[tuple[str, ...], tuple[int, str, str]] = {}
        """The results of ``once``, by its arguments."""
        self.texts: dict[str, str | None] = {}
        """Contents by object id, as far as this operation has read or written them; None for one that is not text."""
        self.sizes: dict[str, int] = {}
        """Sizes of contents in bytes, by object id, as far as this operation knows them."""
        self.commits: dict[str, tuple[str, str]] = {}
        """The tree and the message of commits, by the commit's id, as far as this operation has read them."""
        self._private = {
            "GIT_DIR": str(folder / "git"),
            "GIT_WORK_TREE": str(repository.root),
            "GIT_INDEX_FILE": str(self.index),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "HOME": str(folder / "home"),
            "XDG_CONFIG_HOME": str(folder / "home"),
        }

    async def prepare(self, known: Settings | None) -> None:
        """Makes the git directory. ``known``: the settings of an earlier operation; the configuration is read again if
        it has changed. Raises ``NoCheckpoint`` for a repository that is not supported, or in which git would wait for a
        file; ``GitFailed`` if the configuration can't be read."""
        if odd := await asyncio.to_thread(odd_file, self.repository):
            raise _not_read(odd)
        current = known is not None and await asyncio.to_thread(known.are_current)
        self.settings = known if known is not None and current else await self._read_settings()
        await asyncio.to_thread(_make, self.folder, self.repository, self.settings.format)

    @property
    def _place(self) -> Mapping[str, str]:
        """The environment in which git reads the repository's configuration."""
        place = {"GIT_DIR": str(self.repository.own), "GIT_WORK_TREE": str(self.repository.root)}
        return place | {"GIT_TRACE2": "0", "GIT_TRACE2_EVENT": "0", "GIT_TRACE2_PERF": "0"}

    async def configuration(self) -> list[tuple[str, str]]:
        """All settings of the user and the repository, as names and values; if a name occurs several times, the last
        value applies. Raises the errors of ``run``."""
        code, listed, complaint = await self._command(["config", "--list", "-z"], self._place, seconds=SETTINGS_SECONDS)
        if code:
            raise GitFailed(f"the configuration can't be read (code {code}): {complaint.strip()[:500]}")
        items = map(_setting, filter(None, listed.split("\0")))
        return [(name, value.removeprefix("=")) for name, value in items]

    async def _read_settings(self) -> Settings:
        place = self._place
        list_all = ["config", "--list", "--show-origin", "-z"]
        code, listed, complaint = await self._command(list_all, place, seconds=SETTINGS_SECONDS)
        if code:
            raise GitFailed(f"the configuration can't be read (code {code}): {complaint.strip()[:500]}")
        if (
            complaint and (await self._command(["rev-parse", "--git-dir"], place))[0]
        ):  # the list does not contain the repository's configuration
            raise NoCheckpoint(
                "Checkpoints are not available here: the installed git does not support the repository's format."
            )
        words = listed.split("\0")
        items = list(zip(words[::2], words[1::2], strict=False))
        chosen = dict(_setting(item) for _, item in items)
        unknown = sorted(name for name in chosen if name.startswith("extensions.") and name not in KNOWN_EXTENSIONS)
        if unknown:
            raise NoCheckpoint(
                f"Checkpoints are not available here: the repository uses {unknown[0]}, which is not supported."
            )
        format = chosen.get("extensions.objectformat", "=sha1").removeprefix("=")
        if format not in FORMATS:
            raise NoCheckpoint(
                f"Checkpoints are not available here: the repository's object format is not {' or '.join(FORMATS)}."
            )
        named = _with_files(chosen)
        for name in NAMES_A_FILE:
            if await asyncio.to_thread(is_odd, Path(named[name].removeprefix("="))):
                raise _not_read(f"{name} is not a small regular file")
        given = (*OURS, *(name + value for name, value in named.items() if name in KEPT))
        files = _configuration_files(self.repository, items)
        if files is not None:
            files |= {named[name].removeprefix("=") for name in NAMES_A_FILE}
        read = None if files is None else await asyncio.to_thread(versions, files)
        return Settings(tuple(word for setting in given for word in ("-c", setting)), format, read)

    async def see_head(self) -> None:
        """Copies the repository's HEAD into this operation's git directory. Until then, the HEAD there does not name a
        commit."""
        await asyncio.to_thread(self._copy_head)

    def _copy_head(self) -> None:
        head = line_of(self.repository.own / "HEAD")
        if head is not None:
            (self.folder / "git" / "HEAD").write_bytes(os.fsencode(head) + b"\n")

    async def run(
        self, *words: str, stdin: str = "", environment: Mapping[str, str] | None = None, writes: bool = False
    ) -> tuple[int, str, str]:
        """Runs git. Returns its exit code, output and error output. In the output, bytes that are not UTF-8 are
        surrogates. ``writes``: whether git writes to the work tree; if so, its time limit is never shortened.

        Raises ``NoCheckpoint`` if git has waited for a file, such as a pipe; ``GitFailed`` if git did not end in time
        for another reason, was killed, or printed too much."""
        place = self._private | dict(environment or {})
        return await self._command([*self.settings.words, *words], place, stdin, writes=writes)

    async def read(self, *words: str, stdin: str = "", environment: Mapping[str, str] | None = None) -> str:
        """Runs git and returns its output. Raises the errors of ``run``, and ``GitFailed`` if git's exit code is not
        0."""
        return _output(words, *await self.run(*words, stdin=stdin, environment=environment))

    async def once(self, *words: str) -> tuple[int, str, str]:
        """Like ``run``, but for results that can't change during an operation, such as the content of an object:
        git is started only the first time."""
        if words not in self._once:
            self._once[words] = await self.run(*words)
        return self._once[words]

    async def read_once(self, *words: str) -> str:
        """Like ``once``, but returns only the output. Raises ``GitFailed`` if the command fails."""
        return _output(words, *await self.once(*words))

    async def prefix(self) -> str:
        """The path of the project's directory in the work tree, with a slash at its end; empty for the root."""
        return "" if self._is_in_root else (await self.read_once("rev-parse", "--show-prefix")).removesuffix("\n")

    async def update(self, flag: str, paths: Iterable[str]) -> None:
        """Changes the index for these paths, which are relative to the project. ``flag``: the option of
        ``git update-index`` that applies to them. Raises ``GitFailed``."""
        named = "\0".join(paths)
        if named:
            await self.read("update-index", flag, "-z", "--stdin", stdin=named)

    async def as_person(self, script: str, seconds: float, what: str) -> tuple[int, str]:
        """Runs a shell script in the root of the work tree. In the script, ``$git`` is the user's own git, with the
        user's configuration, identity, hooks and signing, but with the limits of an agent. Returns the script's exit
        code and the end of its output. ``what``: how an error refers to the script.

        After ``seconds``, the shell's process group receives SIGTERM, which the script itself ignores unless it resets
        the trap. Raises ``GitFailed`` if the script still does not end, or was killed.
        """
        given = environment(os.environ, str(self.repository.root), "")
        removed = ["LC_ALL", *(name for name in os.environ if name not in given)]
        restored = {name: value for name, value in os.environ.items() if name == "LC_ALL" or name.startswith("GIT_")}
        restored = {name: value for name, value in restored.items() if name not in LOCAL}
        lines = [f"unset {name}" for name in removed if IDENTIFIER.fullmatch(name)]
        lines += [
            f"export {name}={shlex.quote(value)}" for name, value in restored.items() if IDENTIFIER.fullmatch(name)
        ]
        lines += [f"git={shlex.quote(self._program)}", f"cd {shlex.quote(str(self.repository.root))} || exit 1", script]
        file = self.folder / "script"
        await asyncio.to_thread(file.write_bytes, os.fsencode("\n".join(lines) + "\n"))
        line = f"(. {self._quoted('script')}) </dev/null >{self._quoted('out')} 2>&1"
        code = await self._line(line, seconds, what, terminates=True)
        return code, await asyncio.to_thread(self._end_of_output)

    async def remove_at_end(self, file: Path | None) -> None:
        """Makes the shell remove this file when the shell ends, even if it ends because the server has died; None
        cancels that. Raises ``GitFailed``."""
        what = "-" if file is None else shlex.quote(f"rm -f {shlex.quote(str(file))}")
        await self._line(f"trap {what} EXIT", SECONDS, "a lock")

    def _end_of_output(self) -> str:
        """The end of the output of a script. Blocking."""
        with (self.folder / "out").open("rb") as file:
            file.seek(max(0, (self.folder / "out").stat().st_size - LONGEST_COMPLAINT))
            return file.read(LONGEST_COMPLAINT).decode(errors="replace")

    async def _command(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        stdin: str = "",
        *,
        seconds: float | None = None,
        writes: bool = False,
    ) -> tuple[int, str, str]:
        if stdin:
            await asyncio.to_thread((self.folder / "in").write_bytes, stdin.encode(errors="surrogateescape"))
        variables = (f"{name}={shlex.quote(value)}" for name, value in environment.items())
        files = f"<{self._quoted('in') if stdin else '/dev/null'} >{self._quoted('out')} 2>{self._quoted('err')}"
        line = f"{' '.join(variables)} {shlex.join([self._program, *words])} {files}"
        code = await self._in_time(line, seconds or SECONDS, " ".join(words)[:200], writes=writes)
        return code, *(await asyncio.to_thread(self._finished, words))

    async def _in_time(self, line: str, seconds: float, what: str, *, writes: bool) -> int:
        """Runs a git command in the shell, and notes if it does not end in time. Raises the errors of ``run``."""
        root = self.repository.root
        is_hurried = not writes and now() - _late_at.get(root, float("-inf")) < HURRIED_SECONDS
        try:
            return await self._line(line, min(seconds, SECONDS_AFTER) if is_hurried else seconds, what)
        except TookTooLong:
            if is_hurried:  # the search for the reason has already failed
                raise
            if odd := await asyncio.to_thread(odd_below, self.repository):
                raise _not_read(odd) from None
            _late_at[root] = now()
            raise

    async def _line(self, line: str, seconds: float, what: str, *, terminates: bool = False) -> int:
        """Runs a line in the shell. Returns its exit code. ``terminates``: whether a program that has not ended in time
        gets SIGTERM and some more time. Raises ``GitFailed``."""
        assert self._shell.stdin is not None
        try:
            self._shell.stdin.write(os.fsencode(f"{line}; echo $?\n"))
            code = await self._reply(seconds)
            if code is None and terminates:
                self._signal(signal.SIGTERM)
                code = await self._reply(LEAVE_SECONDS)
        except OSError:
            code = b""
        if code is None:
            raise TookTooLong(f"git took more than {seconds:g} s for: {what}")
        if not code.strip().isdigit():
            raise GitFailed(f"git was killed by a signal during: {what}")
        return int(code)

    async def _reply(self, seconds: float) -> bytes | None:
        """The next line that the shell prints; None if it prints none in time."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        try:
            async with asyncio.timeout(seconds):
                await self._shell.stdin.drain()
                return await self._shell.stdout.readline()
        except TimeoutError:
            return None

    def _quoted(self, name: str) -> str:
        return shlex.quote(str(self.folder / name))

    def _finished(self, words: Sequence[str]) -> tuple[str, str]:
        """The output and error output of a finished command. Raises ``GitFailed`` if the output is too large.
        Blocking."""
        said = self.folder / "out"
        if said.stat().st_size > LARGEST_OUTPUT:
            raise GitFailed(f"git printed more than {LARGEST_OUTPUT // MB} MB for: {' '.join(words)[:200]}")
        with (self.folder / "err").open("rb") as file:
            complained = file.read(LONGEST_COMPLAINT).decode(errors="replace")
        return said.read_bytes().decode(errors="surrogateescape"), complained


def _not_read(reason: str) -> NoCheckpoint:
    return NoCheckpoint(f"Checkpoints are not available here: {reason}.")


def _output(words: Sequence[str], code: int, said: str, complaint: str) -> str:
    """Returns ``said``, the output of a command. Raises ``GitFailed`` if the command's exit code is not 0."""
    if code:
        raise GitFailed(f"git {words[0]} exited with code {code}: {complaint.strip()[:500]}")
    return said


@contextlib.asynccontextmanager
async def opened(
    directory: Path,
    confinement: Confinement,
    memory: MemoryWatch,
    endings: BackgroundTasks,
    known: Settings | None = None,
    find: Callable[[Path], Repository | None] = find,
) -> AsyncIterator[Git | None]:
    """git for one operation in ``directory``; None if ``find`` returns None or git is not installed. ``endings``:
    the tasks in which the processes are ended, so that this is completed even if the operation is canceled; these tasks
    must not be canceled. ``known``: the settings of an earlier operation, so that git need not be started to read them.
    ``find``: finds the repository of ``directory``.

    Raises ``GitFailed``, ``NoCheckpoint`` or OSError. When the context ends, everything that was started has ended,
    unless the wait for that was canceled.
    """
    repository, path, place = await asyncio.to_thread(lambda: (find(directory), program(), directory.resolve()))
    if repository is None or path is None:
        yield None
        return
    pipe, mark = SupervisorPipe(), uuid.uuid4().hex
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(contextlib.closing(pipe))
        folder = await stack.enter_async_context(_temporary_folder(mark))
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        shell = await asyncio.create_subprocess_exec(
            *pipe.command(confinement, ["/bin/sh"]),
            cwd=str(directory), env=inherited | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", MARK: mark},
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True, pass_fds=(pipe.descriptor,),
        )  # fmt: skip
        pid = shell.pid
        try:
            pid = await pipe.agent_pid() or pid
            assert shell.stdin is not None
            shell.stdin.write(b"trap '' TERM\n")
            git = Git(path, repository, folder, shell, pipe.signal, is_in_root=place == repository.root)
            with memory.watching(pid):
                await git.prepare(known)
                yield git
                shell.stdin.close()
        except BaseException:
            pipe.signal(signal.SIGKILL)
            raise
        finally:
            await asyncio.shield(endings.start(_ended(shell, pipe, pid, mark), "waiting for the end of git"))


@contextlib.asynccontextmanager
async def _temporary_folder(mark: str) -> AsyncIterator[Path]:
    """A folder for one operation. ``mark``: a part of its name that can't be guessed. The name is known before the
    folder exists, so that the folder is removed even if its creation is canceled.
    """
    folder = await asyncio.to_thread(lambda: Path(tempfile.gettempdir(), f"{FOLDER}{os.getpid()}-{mark}"))
    try:
        await asyncio.to_thread(folder.mkdir, 0o700)
        yield folder
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def remove_left_folders() -> None:
    """Removes the folders of operations whose server was killed, once their processes have ended: git may still be
    writing files. Blocking."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER}*"):
        pid, _, mark = folder.name.removeprefix(FOLDER).partition("-")
        with contextlib.suppress(OSError):
            is_ours = folder.lstat().st_uid == os.getuid() and folder.is_dir() and not folder.is_symlink()
            if is_ours and pid.isascii() and pid.isdigit() and not process_alive(int(pid)):
                _end_left(f"{MARK}={mark}")
                shutil.rmtree(folder, ignore_errors=True)


def _end_left(mark: str) -> None:
    """Waits until the processes of an operation whose server was killed have ended; kills those that take longer than
    their supervisor allows. ``mark``: as ``process_tree.members`` expects it. Blocking."""
    deadline = now() + LEFT_SECONDS
    while process_tree.members(NOBODY, mark):
        if now() > deadline:
            process_tree.end(NOBODY, mark)
            return
        time.sleep(process_tree.SWEEP_SECONDS)


async def _ended(shell: asyncio.subprocess.Process, pipe: SupervisorPipe, pid: int, mark: str) -> None:
    """Waits until every process has ended; kills those that do not end in time."""
    try:
        async with asyncio.timeout(LEAVE_SECONDS):
            await shell.wait()
    except TimeoutError:
        pipe.signal(signal.SIGKILL)
        await shell.wait()
    if not pipe.tree_is_empty():
        await asyncio.to_thread(process_tree.end, pid, f"{MARK}={mark}")


def _make(folder: Path, repository: Repository, format: str) -> None:
    """Makes Drawbridge's own git directory, like ``git-new-workdir`` does, but without the configuration and the
    hooks."""
    git = folder / "git"
    (git / "info").mkdir(parents=True)
    (folder / "home").mkdir()
    (git / "HEAD").write_text("ref: refs/heads/drawbridge\n")
    version = "0" if format == "sha1" else f"1\n[extensions]\n\tobjectFormat = {format}"
    (git / "config").write_text(f"[core]\n\tbare = false\n\trepositoryFormatVersion = {version}\n")
    for name in ("objects", "refs", "packed-refs", "info/exclude", "info/attributes"):
        (git / name).symlink_to(repository.common / name)
    for shared in repository.own.glob("sharedindex.*"):  # the larger part of an index that git has split
        (git / shared.name).symlink_to(shared)


def _setting(item: str) -> tuple[str, str]:
    """The name of a setting, and "=value"; a setting without a value is true and has no "=", as ``git -c`` expects."""
    name, separator, value = item.partition("\n")
    return name, "=" + value if separator else ""


def _configuration_files(repository: Repository, items: Iterable[tuple[str, str]]) -> set[str] | None:
    """All files that git reads the configuration from, or would if they existed; HEAD, which can decide which part of
    the configuration applies; and the repository's ``info/exclude`` and ``info/attributes``. ``items``: origin and
    setting, as ``git config --list --show-origin -z`` prints them. None if some of the files can't be known, or if
    there are too many."""
    user = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    files = {f"{user}/git/config", os.path.expanduser("~/.gitconfig"), "/etc/gitconfig"}
    files |= {str(repository.common / "config"), str(repository.own / "config.worktree")}
    files.add(str(repository.own / "HEAD"))  # the condition "onbranch:" of an included file
    files |= {str(repository.common / "info" / name) for name in ("exclude", "attributes")}
    for origin, item in items:
        kind, _, file = origin.partition(":")
        if kind != "file":
            return None
        files.add(file)
        name, value = _setting(item)
        if re.fullmatch(r"include(if\..*)?\.path", name, re.DOTALL):
            if value.startswith("=%("):  # relative to where git was installed
                return None
            named = os.path.expanduser(value.removeprefix("="))
            files.add(os.path.join(os.path.dirname(file), named))
    absolute = all(map(os.path.isabs, files)) and not any("\0" in file for file in files)
    return files if absolute and len(files) <= MOST_CONFIGURATION_FILES else None


def versions(files: Iterable[str]) -> Versions:
    """Returns, for each file, a value that changes when the file does; None if the file does not exist. Blocking."""
    found: dict[str, tuple[int, ...] | None] = {}
    for file in files:
        try:
            status = os.stat(file)
        except OSError:
            found[file] = None
        else:
            found[file] = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return found


def _with_files(chosen: Mapping[str, str]) -> dict[str, str]:
    """The settings with absolute paths for ``NAMES_A_FILE``, by default git's own default paths: git looks for these
    below HOME, which Drawbridge sets to another directory."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    files = {"core.excludesfile": f"={home}/git/ignore", "core.attributesfile": f"={home}/git/attributes"} | dict(
        chosen
    )
    return files | {name: "=" + os.path.expanduser(files[name].removeprefix("=")) for name in NAMES_A_FILE}


def beginning_of(patch: Path) -> tuple[str, bool]:
    """The part of a diff that is shown, and whether the diff has more. Blocking."""
    with patch.open("rb") as file:
        start, more = file.read(LARGEST_DIFF).decode(errors="replace"), bool(file.read(1))
    diff = start
    while len(msgspec.json.encode(diff)) > ESCAPED:
        diff = diff[: len(diff) * 3 // 4]
    return diff, more or diff != start
