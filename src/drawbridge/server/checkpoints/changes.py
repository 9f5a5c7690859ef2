"""The changes of a run, as clients see them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from drawbridge.server.checkpoints.commits import PATCH, listed_statuses, shown_path
from drawbridge.server.checkpoints.errors import GitFailed, NoCheckpoint
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.operations import Operations
from drawbridge.server.checkpoints.refs import Refs
from drawbridge.server.events import ChangedFile

LARGEST_LIST: Final = 200_000
"""The maximum size of the list of files as JSON, in bytes, so that it fits into a frame together with the diff."""

LARGEST_DIFF: Final = 400_000
"""The maximum size of the shown part of a diff, in bytes."""

ESCAPED: Final = 600_000
"""The maximum size of the shown part of a diff as JSON, in bytes. A control character takes six bytes."""

_NAMES: Final[dict[str, Literal["added", "changed", "deleted"]]] = {
    "A": "added",
    "M": "changed",
    "D": "deleted",
    "T": "changed",
}


class RunChanges(Struct, frozen=True):
    """The changes of a run. ``diff``: in git's format, perhaps only its beginning; ``files``: the changed files.
    ``truncated``: ``diff`` or ``files`` are incomplete."""

    run_id: str
    files: tuple[ChangedFile, ...]
    diff: str
    truncated: bool


class Changes:
    """The changes of the runs of one project."""

    def __init__(self, operations: Operations, refs: Refs) -> None:
        self._operations = operations
        self._refs = refs
        self._reading: dict[str, asyncio.Future[RunChanges]] = {}
        """Maps a run's id to the task that reads the run's changes, so that identical requests share an answer."""

    async def of(self, run_id: str) -> RunChanges:
        """The changes of the run, as many as fit into one message. Raises ``NoCheckpoint``, ``GitFailed`` or
        OSError."""
        while (shared := self._reading.get(run_id)) is not None:
            await asyncio.wait([shared])
            if not shared.cancelled():
                return shared.result()
        shared = self._reading[run_id] = asyncio.get_running_loop().create_future()
        try:
            shared.set_result(await self._read(run_id))
        except (GitFailed, NoCheckpoint, OSError) as error:
            shared.set_exception(error)
        except BaseException:
            shared.cancel()
            raise
        finally:
            del self._reading[run_id]
        return shared.result()

    async def _read(self, run_id: str) -> RunChanges:
        async with self._operations.exclusive() as git:
            before, after = await self._refs.commits(git, run_id)
            return await changes_between(git, run_id, before, after, await statuses(git, before, after))


async def statuses(git: Git, before: str, after: str) -> list[tuple[str, str]]:
    """The files that differ: pairs of git's status and the path, which is relative to the project. Raises ``GitFailed``
    or ``NoCheckpoint``."""
    return listed_statuses(await git.read(*PATCH, "--name-status", "--relative", "-z", before, after, "--", "."))


async def changes_between(git: Git, run_id: str, before: str, after: str, listed: list[tuple[str, str]]) -> RunChanges:
    """The changes between two checkpoints, as many as fit into one message. ``listed``: all files that differ, as
    ``statuses`` returns them. Raises ``GitFailed``, ``NoCheckpoint`` or OSError."""
    patch = git.folder / "patch"
    await git.read(*PATCH, "-p", "--relative", f"--output={patch}", before, after, "--", ".")
    diff, more = await asyncio.to_thread(beginning_of, patch)
    files = tuple(_fitting(ChangedFile(shown_path(path), _NAMES[status]) for status, path in listed))
    return RunChanges(run_id, files, diff, more or len(files) < len(listed))


def beginning_of(patch: Path) -> tuple[str, bool]:
    """The part of a diff that is shown, and whether the diff has more. Blocking. Raises OSError."""
    with patch.open("rb") as file:
        start, more = file.read(LARGEST_DIFF).decode(errors="replace"), bool(file.read(1))
    diff = start
    while len(msgspec.json.encode(diff)) > ESCAPED:
        diff = diff[: len(diff) * 3 // 4]
    return diff, more or diff != start


def _fitting(files: Iterable[ChangedFile]) -> Iterable[ChangedFile]:
    """The first files, as many as fit into ``LARGEST_LIST``."""
    room = LARGEST_LIST
    for file in files:
        room -= len(msgspec.json.encode(file)) + 1
        if room < 0:
            return
        yield file
