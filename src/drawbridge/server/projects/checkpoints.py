"""What the files of a project were before and after each run, kept by git: to see what a run changed, and to take
it back.

Only in a git work tree. A checkpoint is a commit that nothing but a private ref points to
(``refs/drawbridge/<project>/<run>/before`` and ``…/after``); it is made with an index of its own, so the person's
index, branches and stash are never touched, and no hook runs. What git ignores is not part of it, nor are other
repositories inside (submodules too); what of it there was before a run stays as it is, also where a run has git take it in.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from drawbridge.server.protocol.messages import ChangedFile, RunChanges
from drawbridge.text import hunks, split

GIT_SECONDS: Final = 30.0
LARGEST_DIFF: Final = 400_000
"""Bytes of a diff that is shown, and"""

LARGEST_LIST: Final = 200_000
"""of the list of files, so that both fit a frame, """

ESCAPED: Final = 600_000
"""a diff full of control characters too, each of which takes six bytes there."""

NAMED: Final = 5
"""Files in the text of an error."""

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
    "-c",
    "apply.ignoreWhitespace=no",
)
PATCH: Final = ("diff-tree", "-r", "--no-renames", "--ignore-submodules=all", "--no-ext-diff", "--no-textconv")
"""The plumbing: what a person has set for their own eyes (colours, prefixes) is none of a patch's business."""

MERGED: Final = ("there", "made", "was")
"""Names of files, in the order in which git merges them."""

_NAMES: Final[dict[str, Literal["added", "changed", "deleted"]]] = {
    "A": "added",
    "M": "changed",
    "D": "deleted",
    "T": "changed",
}


class NoCheckpoint(Exception):
    """There is none: no git work tree, or it has been dropped. The text is for people."""


class Changed(Exception):
    """The files were changed since, in the same places: its text says where. Nothing was touched.

    ``paths`` are relative to the project. ``lines``: where in a file that begins, from 1, as far as it is a matter of lines.
    """

    def __init__(self, paths: Sequence[str], lines: Mapping[str, int] | None = None) -> None:
        self.paths = tuple(paths)
        self.lines = dict(lines or {})
        named = [f"{path} (line {self.lines[path]})" if path in self.lines else path for path in self.paths[:NAMED]]
        super().__init__(", ".join(named) + (" and others" if len(self.paths) > NAMED else ""))


class GitFailed(Exception):
    """git did not do what it was asked; the text is its own, for the log."""


class Checkpoints:
    """Of one project."""

    def __init__(self, directory: Path, project_id: str) -> None:
        self._directory = directory
        self._refs = f"refs/drawbridge/{project_id}"
        self._busy = asyncio.Lock()
        """One after the other: what a run that has just ended changed is asked for while that is still being looked at."""
        self._outside: tuple[str, frozenset[str]] = ("", frozenset())
        """The run that was looked at last before it began, and what was there then that is no part of a checkpoint."""

    async def take(self, run_id: str, when: Literal["before", "after"]) -> bool:
        """False where the project is in no git work tree (or there is no git). Raises ``GitFailed``."""
        async with self._busy:
            return await self._take(run_id, when)

    async def _take(self, run_id: str, when: Literal["before", "after"]) -> bool:
        git_directory = await self._git_directory()
        if git_directory is None:
            return False
        with tempfile.TemporaryDirectory(prefix="drawbridge-") as folder:
            own = await self._all_there_is(git_directory, Path(folder))
            if when == "before":
                others = await self._git("ls-files", "--others", "--directory", "-z", "--", ".", environment=own)
                self._outside = run_id, frozenset(others.split("\0"))
            else:
                await self._even_out(run_id, f"{self._refs}/{run_id}/before", own)
            tree = (await self._git("write-tree", environment=own)).strip()
        commit = (await self._git("commit-tree", tree, "-m", f"{run_id} {when}", environment=AUTHOR)).strip()
        await self._git("update-ref", f"{self._refs}/{run_id}/{when}", commit)
        if when == "after":
            await self._drop_old()
        return True

    async def _all_there_is(self, git_directory: Path, folder: Path) -> dict[str, str]:
        """An index of our own in ``folder`` that holds it; for git's environment."""
        index = folder / "index"
        if (git_directory / "index").exists():
            # What git knows of unchanged files is not read again; of when that was the time of the index is a part.
            shutil.copy2(git_directory / "index", index)
        own = {"GIT_INDEX_FILE": str(index)}
        code, _, complaint = await self._run(("add", "--all", "--ignore-errors", "--", "."), own)
        if code not in (0, 1):  # 1: some could not be read, or are a repository without a commit
            raise GitFailed(f"git add ended with code {code}: {complaint.strip()[:500]}")
        return own

    async def _even_out(self, run_id: str, before: str, own: dict[str, str]) -> None:
        """What git ignores may have changed: what was in ``before`` is still part of it, what was there beside it is not."""
        if (await self._run(("rev-parse", "--verify", "--quiet", before)))[0]:
            return
        options = ("--cached", "--name-status", "--no-renames", "--ignore-submodules=all", "--relative", "-z")
        listed = _marked(await self._git("diff-index", *options, before, "--", ".", environment=own))
        known = self._outside[0] == run_id
        for flag, paths in (
            ("--force-remove", [path for mark, path in listed if known and mark == "A" and self._was_outside(path)]),
            ("--add", [path for mark, path in listed if mark == "D" and self._is_there(path)]),
        ):
            if paths:
                await self._git("update-index", flag, "-z", "--stdin", environment=own, stdin="\0".join(paths))

    def _was_outside(self, path: str) -> bool:
        names = path.split("/")
        above = ("/".join(names[:depth]) + "/" for depth in range(1, len(names)))
        return path in self._outside[1] or any(directory in self._outside[1] for directory in above)

    def _is_there(self, path: str) -> bool:
        """As itself: not behind a directory that has become a link."""
        found = self._directory / path
        return os.path.lexists(found) and found.parent.resolve() == self._directory.resolve() / Path(path).parent

    async def changes(self, run_id: str) -> RunChanges:
        """What the run changed, as far as one message holds it."""
        async with self._busy:
            before, after = await self._both(run_id)
            return await self._shown(run_id, await self._changed(before, after), before, after)

    async def _changed(self, before: str, after: str) -> list[tuple[str, str]]:
        """Marks and paths, relative to the project."""
        return _marked(await self._git(*PATCH, "--name-status", "--relative", "-z", before, after, "--", "."))

    async def _shown(self, run_id: str, listed: list[tuple[str, str]], before: str, after: str) -> RunChanges:
        with tempfile.TemporaryDirectory(prefix="drawbridge-") as folder:
            patch = Path(folder) / "patch"
            await self._git(*PATCH, "-p", "--relative", f"--output={patch}", before, after, "--", ".")
            with patch.open("rb") as file:
                start, more = file.read(LARGEST_DIFF).decode(errors="replace"), bool(file.read(1))
        diff = start
        while len(msgspec.json.encode(diff)) > ESCAPED:
            diff = diff[: len(diff) * 3 // 4]
        files = tuple(_fitting(ChangedFile(_words(path), _NAMES[mark]) for mark, path in listed))
        return RunChanges(run_id, files, diff, more or diff != start or len(files) < len(listed))

    async def revert(self, run_id: str) -> RunChanges:
        """Takes back exactly what the run changed, and tells it. Raises ``Changed``, with nothing touched."""
        async with self._busy:
            return await self._revert(run_id)

    async def _revert(self, run_id: str) -> RunChanges:
        before, after = await self._both(run_id)
        git_directory = await self._git_directory()
        assert git_directory is not None
        listed = await self._changed(before, after)
        with tempfile.TemporaryDirectory(prefix="drawbridge-") as folder:
            own = await self._all_there_is(git_directory, Path(folder))
            await self._even_out("", after, own)
            now = (await self._git("write-tree", environment=own)).strip()
            await self._take_out(before, after, own, Path(folder))
            wanted = (await self._git("write-tree", environment=own)).strip()
            # What is applied is the way from what is there: each change has one place, however alike others look.
            patch = Path(folder) / "patch"
            await self._git(*PATCH, "-p", "--binary", "--full-index", f"--output={patch}", now, wanted, "--", ".")
            if patch.stat().st_size:
                code, _, complaint = await self._run(("apply", "--whitespace=nowarn", str(patch)))
                if code:
                    raise Changed(await self._named(complaint, [path for _, path in listed]))
        return await self._shown(run_id, listed, before, after)

    async def _take_out(self, before: str, after: str, own: dict[str, str], folder: Path) -> None:
        """Makes the index what is there without what the run did. Raises ``Changed``."""
        options = ("--no-renames", "--ignore-submodules=all", "--relative", "-z")
        changed = _entries(await self._git("diff-tree", "-r", *options, before, after, "--", "."))
        since = _entries(await self._git("diff-index", "--cached", *options, after, "--", ".", environment=own))
        prefix = (await self._git("rev-parse", "--show-prefix")).removesuffix("\n")
        lines: list[str] = []
        refused: dict[str, int | None] = {}
        for path, (was, made) in changed.items():
            there = since[path][1] if path in since else made
            wanted = was if there == made else there if there == was else await self._merged(there, made, was, folder)
            if isinstance(wanted, str):
                lines.append(f"{wanted}\t{prefix}{path}\0")
            else:
                refused[_words(path)] = wanted
        if refused:
            raise Changed(sorted(refused), {path: line for path, line in refused.items() if line is not None})
        if lines:
            await self._git("update-index", "--replace", "-z", "--index-info", environment=own, stdin="".join(lines))

    async def _merged(self, there: str, made: str, was: str, folder: Path) -> str | int | None:
        """The entry of a file that was changed since, with what the run did undone. Where both changed the same, the line
        where that begins; None where it is no matter of lines."""
        modes, blobs = zip(*(entry.split(" ") for entry in (there, made, was)), strict=True)
        if not {*modes} <= {"100644", "100755"}:
            return None
        texts = [await self._git("cat-file", "blob", blob) for blob in blobs]
        for name, text in zip(MERGED, texts, strict=True):
            (folder / name).write_bytes(text.encode(errors="surrogateescape"))
        files = [str(folder / name) for name in MERGED]
        if (await self._run(("merge-file", "--quiet", *files)))[0]:
            return None if any("\0" in text for text in texts) else await asyncio.to_thread(_clash, *texts)
        blob = (await self._git("hash-object", "-w", "--no-filters", files[0])).strip()
        return f"{modes[2] if modes[0] == modes[1] else modes[0]} {blob}"

    async def _named(self, complaint: str, known: list[str]) -> list[str]:
        """Which files git complains of; all that the run changed, where it can't be said."""
        named = re.findall(r"error: (?:patch failed: )?(.+?)(?::\d+)?(?:: .*)?$", complaint, re.MULTILINE)
        prefix = (await self._git("rev-parse", "--show-prefix")).strip()
        words = [_words(path) for path in known]
        return sorted({name.removeprefix(prefix) for name in named} & set(words)) or sorted(words)

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


def _clash(there: str, made: str, was: str) -> int | None:
    """The first line of ``there``, from 1, that was changed where the way from ``made`` back to ``was`` changes something."""
    lines = split(made)[0]
    undone = hunks.diff(lines, split(was)[0])
    for hunk in hunks.diff(lines, split(there)[0]):
        if any(hunk.old_start <= other.old_end and other.old_start <= hunk.old_end for other in undone):
            return hunk.new_start + 1
    return None


def _marked(listed: str) -> list[tuple[str, str]]:
    """Of ``--name-status -z``."""
    words = listed.split("\0")
    return list(zip(words[::2], words[1::2], strict=False))


def _entries(listed: str) -> dict[str, tuple[str, str]]:
    """Of the raw form with ``-z``: path → "mode blob" of both sides; zeros where there is none."""
    words = listed.split("\0")
    sides = [word.removeprefix(":").split(" ") for word in words[::2]]
    return {path: (f"{one[0]} {one[2]}", f"{one[1]} {one[3]}") for one, path in zip(sides, words[1::2], strict=False)}


def _words(path: str) -> str:
    """For people: what is no UTF-8 can't be sent."""
    return path.encode(errors="surrogateescape").decode(errors="replace")


def _fitting(files: Iterable[ChangedFile]) -> Iterable[ChangedFile]:
    room = LARGEST_LIST
    for file in files:
        room -= len(msgspec.json.encode(file)) + 1
        if room < 0:
            return
        yield file
