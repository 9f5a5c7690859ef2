"""What the files of a project were before and after each run, kept by git: to see what a run changed, and to take
it back.

Only in a git work tree. A checkpoint is a commit that nothing but a private ref points to
(``refs/drawbridge/<project>/<run>/before`` and ``…/after``); it is made with an index of its own, so the person's
index, branches and stash are never touched, and no hook runs. What git ignores is not part of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from drawbridge.server.messages import ChangedFile, RunChanges

GIT_SECONDS: Final = 30.0
LARGEST_DIFF: Final = 400_000
"""Bytes of a diff that is shown; the files are always told."""

KEPT_RUNS: Final = 50
"""Of a project; the checkpoints of older runs are dropped, and git collects them in its own time."""

AUTHOR: Final = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Drawbridge"), ("EMAIL", "drawbridge@localhost"))
}
QUIET: Final = (
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "gc.auto=0",
    "-c",
    "core.quotePath=off",
)

_NAMES = {"A": "added", "M": "changed", "D": "deleted", "T": "changed"}


class NoCheckpoint(Exception):
    """There is none: no git work tree, or it has been dropped. The text is for people."""


class Changed(Exception):
    """The files were changed since, in the same places; ``paths`` (relative to the project) says which. Nothing was touched."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(", ".join(paths))
        self.paths = tuple(paths)


class GitFailed(Exception):
    """git did not do what it was asked; the text is its own, for the log."""


class Checkpoints:
    """Of one project."""

    def __init__(self, directory: Path, project_id: str) -> None:
        self._directory = directory
        self._refs = f"refs/drawbridge/{project_id}"
        self._busy = asyncio.Lock()
        """One after the other: what a run that has just ended changed is asked for while that is still being looked at."""

    async def take(self, run_id: str, when: Literal["before", "after"]) -> bool:
        """False where the project is in no git work tree (or there is no git). Raises ``GitFailed``."""
        async with self._busy:
            return await self._take(run_id, when)

    async def _take(self, run_id: str, when: Literal["before", "after"]) -> bool:
        git_directory = await self._git_directory()
        if git_directory is None:
            return False
        with tempfile.TemporaryDirectory(prefix="drawbridge-") as folder:
            index = Path(folder) / "index"
            if (git_directory / "index").exists():
                shutil.copyfile(git_directory / "index", index)  # what git knows of unchanged files is not read again
            own = {"GIT_INDEX_FILE": str(index)}
            await self._git("add", "--all", "--", ".", environment=own)
            tree = (await self._git("write-tree", environment=own)).strip()
        commit = (await self._git("commit-tree", tree, "-m", f"{run_id} {when}", environment=AUTHOR)).strip()
        await self._git("update-ref", f"{self._refs}/{run_id}/{when}", commit)
        if when == "after":
            await self._drop_old()
        return True

    async def changes(self, run_id: str) -> RunChanges:
        """What the run changed."""
        async with self._busy:
            return await self._changes(run_id)

    async def _changes(self, run_id: str) -> RunChanges:
        before, after = await self._both(run_id)
        listed = await self._git("diff", "--name-status", "--no-renames", "-z", "--relative", before, after, "--", ".")
        words = listed.split("\0")
        files = tuple(
            ChangedFile(path, "added" if _NAMES[mark] == "added" else "deleted" if mark == "D" else "changed")
            for mark, path in zip(words[::2], words[1::2], strict=False)
        )
        diff = await self._git("diff", "--no-renames", "--no-ext-diff", "--relative", before, after, "--", ".")
        return RunChanges(run_id, files, diff[:LARGEST_DIFF], len(diff) > LARGEST_DIFF)

    async def revert(self, run_id: str) -> RunChanges:
        """Takes back exactly what the run changed, and tells it. Raises ``Changed``, with nothing touched."""
        async with self._busy:
            return await self._revert(run_id)

    async def _revert(self, run_id: str) -> RunChanges:
        changes = await self._changes(run_id)
        before, after = await self._both(run_id)
        options = ("--binary", "--full-index", "--no-renames", "--no-ext-diff")
        patch = await self._git("diff", *options, after, before, "--", ".")
        if not patch:
            return changes
        check = await self._run(("apply", "--check", "--whitespace=nowarn", "-"), stdin=patch)
        if check[0]:
            named = re.findall(r"error: (?:patch failed: )?(.+?)(?::\d+)?(?:: .*)?$", check[2], re.MULTILINE)
            known = {file.path for file in changes.files}
            prefix = (await self._git("rev-parse", "--show-prefix")).strip()
            raise Changed(sorted({name.removeprefix(prefix) for name in named} & known) or sorted(known))
        await self._git("apply", "--whitespace=nowarn", "-", stdin=patch)
        return changes

    async def _both(self, run_id: str) -> tuple[str, str]:
        if await self._git_directory() is None:
            raise NoCheckpoint("The project is in no git work tree, so there is nothing to compare with.")
        names = [f"{self._refs}/{run_id}/{when}" for when in ("before", "after")]
        found = [await self._run(("rev-parse", "--verify", "--quiet", name)) for name in names]
        if any(code for code, _, _ in found):
            raise NoCheckpoint("There is no checkpoint of this run any more, or it has not ended yet.")
        return found[0][1].strip(), found[1][1].strip()

    async def _drop_old(self) -> None:
        order = ("for-each-ref", "--sort=-committerdate", "--format=%(refname)", f"{self._refs}/*/after")
        ended = (await self._git(*order)).split()
        for name in ended[KEPT_RUNS:]:
            for when in ("before", "after"):
                await self._run(("update-ref", "-d", f"{name.removesuffix('after')}{when}"))

    async def _git_directory(self) -> Path | None:
        try:
            code, said, _ = await self._run(("rev-parse", "--is-inside-work-tree", "--absolute-git-dir"))
        except FileNotFoundError:
            return None
        words = said.split("\n")
        return Path(words[1]) if code == 0 and words[0] == "true" else None

    async def _git(self, *words: str, environment: dict[str, str] | None = None, stdin: str = "") -> str:
        code, said, complaint = await self._run(words, environment or {}, stdin)
        if code:
            raise GitFailed(f"git {words[0]} ended with code {code}: {complaint.strip()[:500]}")
        return said

    async def _run(
        self, words: Sequence[str], environment: dict[str, str] | None = None, stdin: str = ""
    ) -> tuple[int, str, str]:
        """Exit code, output and complaint. Bytes that are no UTF-8 survive as surrogates."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        process = await asyncio.create_subprocess_exec(
            "git", *QUIET, *words,
            cwd=str(self._directory), env=kept | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"} | (environment or {}),
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            async with asyncio.timeout(GIT_SECONDS):
                # Nothing where there is nothing to say: uvloop fails where a git that has ended already is written to.
                given = stdin.encode(errors="surrogateescape") if stdin else None
                out, complaint = await process.communicate(given)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            if isinstance(error, TimeoutError):
                raise GitFailed(f"git {words[0]} took more than {GIT_SECONDS:g} s") from None
            raise
        assert process.returncode is not None
        return process.returncode, out.decode(errors="surrogateescape"), complaint.decode(errors="replace")
