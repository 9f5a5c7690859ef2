"""Runs the git program within a time limit. Its output is written to files, and the server reads only as much of it as
it can hold in memory.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from drawbridge.agents.memory import MB
from drawbridge.server.checkpoints.errors import GitFailed, TookTooLong, unavailable
from drawbridge.server.checkpoints.repository import Repository, odd_below
from drawbridge.server.checkpoints.shell import Shell

SECONDS: Final = 30.0
"""Seconds that one command may take."""

SECONDS_AFTER: Final = 2.0
"""Seconds for one command of an operation that a run waits for, if git did not end in time in the same repository less
than ``HURRIED_SECONDS`` ago. It will probably block again.
"""

HURRIED_SECONDS: Final = 300.0
"""Seconds for which git gets only ``SECONDS_AFTER`` for each command that a run waits for. After that, it gets its full
time again, because it may have been slow only at that moment.
"""

LARGEST_OUTPUT: Final = 100 * MB
"""The maximum size of one command's output that the server reads into its memory, in bytes. Some output, such as the
configuration, may have been written by an agent."""

LONGEST_COMPLAINT: Final = 65_536
"""The maximum size of an error output, or of the end of a script's output, in bytes."""

_late_at: dict[Path, float] = {}
"""Maps the root of a work tree to the time at which git last exceeded its full time there, for a reason that was not
found."""


def now() -> float:
    return time.monotonic()


def program() -> str | None:
    """The path of git; None if it is not installed. Relative entries of PATH are ignored, since the current directory
    may be the project."""
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return shutil.which("git", path=os.pathsep.join(entry for entry in entries if os.path.isabs(entry)))


class GitProgram:
    """The git program ``path`` in a shell. ``folder``: for the files with its input and output, and for other files of
    the same operation. ``awaited``: whether a run waits for the operation, so that the time limits are shortened after
    git was slow."""

    def __init__(self, path: str, repository: Repository, folder: Path, shell: Shell, *, awaited: bool = False) -> None:
        self.path = path
        self.repository = repository
        self.folder = folder
        self._shell = shell
        self._awaited = awaited

    async def run(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        stdin: str = "",
        *,
        seconds: float | None = None,
        writes: bool = False,
        within: float | None = None,
        closed: bool = False,
    ) -> tuple[int, str, str]:
        """Runs git with these arguments. Returns its exit code, output and error output. In the output, bytes that are
        not UTF-8 are surrogates. ``seconds``: the maximum, by default ``SECONDS``. ``writes``: whether git writes to
        the work tree, or stores what was written there. If so, its time limit is never shortened. ``within``: a
        separate maximum, for a command that may be ended and that depends on the number or the size of all files. It is
        never shortened. If it is exceeded, git receives SIGTERM, and the limits of later commands stay the same.
        ``closed``: whether only the user can read the files that git creates.

        Raises ``NoCheckpoint`` if git waited for a file, such as a pipe, unless ``within`` is set. Raises
        ``TookTooLong`` if git did not end in time for another reason, and ``GitFailed`` if it was killed, or printed
        too much."""
        if stdin:
            await asyncio.to_thread((self.folder / "in").write_bytes, stdin.encode(errors="surrogateescape"))
        variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
        files = f"<{self._quoted('in') if stdin else '/dev/null'} >{self._quoted('out')} 2>{self._quoted('err')}"
        command = f"{shlex.join([self.path, *words])} {files}"
        if within is not None:
            code = await self._ended_after(f"{variables} exec {command}", within, _named(words))
        else:
            line = f"(umask 077; {variables} {command})" if closed else f"{variables} {command}"
            code = await self._in_time(line, seconds or SECONDS, _named(words), writes=writes)
        return code, *(await asyncio.to_thread(self._outputs, words))

    async def _ended_after(self, line: str, seconds: float, what: str) -> int:
        """Runs a git command in the shell, and ends it with SIGTERM after ``seconds``. Raises the errors of ``run``."""
        code = await self._shell.run(f"(trap - TERM; {line})", seconds, what, terminates=True)
        if code == 128 + signal.SIGTERM:
            raise TookTooLong(f"git took more than {seconds:g} s for: {what}")
        return code

    async def _in_time(self, line: str, seconds: float, what: str, *, writes: bool) -> int:
        """Runs a git command in the shell, and remembers if it does not end in time. Raises the errors of ``run``."""
        root = self.repository.root
        was_late = now() - _late_at.get(root, float("-inf")) < HURRIED_SECONDS
        is_hurried = self._awaited and was_late and not writes
        try:
            return await self._shell.run(line, min(seconds, SECONDS_AFTER) if is_hurried else seconds, what)
        except TookTooLong:
            if is_hurried:  # the search for the reason has already failed
                raise
            if odd := await asyncio.to_thread(odd_below, self.repository):
                raise unavailable(odd) from None
            _late_at[root] = now()
            raise

    def _outputs(self, words: Sequence[str]) -> tuple[str, str]:
        """The output and error output of a finished command. Raises ``GitFailed`` if the output is too large.
        Blocking."""
        output = self.folder / "out"
        if output.stat().st_size > LARGEST_OUTPUT:
            raise GitFailed(f"git printed more than {LARGEST_OUTPUT // MB} MB for: {_named(words)}")
        with (self.folder / "err").open("rb") as file:
            complaint = file.read(LONGEST_COMPLAINT).decode(errors="replace")
        return output.read_bytes().decode(errors="surrogateescape"), complaint

    async def run_script(self, script: str, seconds: float, what: str) -> tuple[int, str]:
        """Runs a shell script, in which git may run in any way. Returns its exit code and the end of its output.
        ``what``: how an error refers to the script.

        After ``seconds``, the shell's process group receives SIGTERM, which the script itself ignores unless it resets
        the trap. Raises ``GitFailed`` if the script still does not end, or was killed.
        """
        await asyncio.to_thread((self.folder / "script").write_bytes, os.fsencode(script))
        line = f"(. {self._quoted('script')}) </dev/null >{self._quoted('out')} 2>&1"
        code = await self._shell.run(line, seconds, what, terminates=True)
        return code, await asyncio.to_thread(self._end_of_output)

    def _end_of_output(self) -> str:
        """The end of the output of a script. Blocking."""
        with (self.folder / "out").open("rb") as file:
            file.seek(max(0, (self.folder / "out").stat().st_size - LONGEST_COMPLAINT))
            return file.read(LONGEST_COMPLAINT).decode(errors="replace")

    async def remove_at_end(self, file: Path | None) -> None:
        """Makes the shell remove this file when the shell ends, even if it ends because the server died; None cancels
        the removal. Raises ``GitFailed``.
        """
        what = "-" if file is None else shlex.quote(f"rm -f {shlex.quote(str(file))}")
        await self._shell.run(f"trap {what} EXIT", SECONDS, "a lock")

    def _quoted(self, name: str) -> str:
        return shlex.quote(str(self.folder / name))


def _named(words: Sequence[str]) -> str:
    """The beginning of a git command, for an error: without the settings, which would leave no room for the command."""
    start = 0
    while words[start : start + 1] == ["-c"]:
        start += 2
    return " ".join(words[start:])[:200]
