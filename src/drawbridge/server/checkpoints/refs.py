"""The refs of a project's checkpoints in its repository: ``refs/drawbridge/<project>/<run>/before`` and ``…/after``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias

from drawbridge.server.checkpoints.commits import message_of
from drawbridge.server.checkpoints.errors import NoCheckpoint
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.private import PrivateRepository

When: TypeAlias = Literal["before", "after"]
"""Whether a checkpoint is from before or after its run."""

KEPT_RUNS: Final = 50
"""The number of runs of a project for which checkpoints are kept. Older checkpoints are dropped. git garbage-collects
them later (in a private repository, ``PrivateRepository.collect`` removes them)."""

NO_CHECKPOINT: Final = (
    "The run has no checkpoint: it has not started, it is too old, or checkpoints were disabled or failed. If they "
    "failed, the server's log has the reason."
)
NO_SECOND_CHECKPOINT: Final = (
    "The run has not ended, or the checkpoint after it failed. If it failed, the server's log has the reason."
)

REVIEW: Final = "review"
"""The word that the refs of a project's review contain in place of a run's id (``refs/drawbridge/<project>/review/…``).
These refs are not dropped when the checkpoints of older runs are."""


class Refs:
    """The refs of one project. ``private``: its private repository; None if it can't have one. ``active``: returns the
    runs that may be active in addition to the latest one."""

    def __init__(self, project_id: str, private: PrivateRepository | None, active: Callable[[], Iterable[str]]) -> None:
        self._prefix = f"refs/drawbridge/{project_id}"
        self._private = private
        self._active = active

    def name(self, run_id: str, when: When) -> str:
        return f"{self._prefix}/{run_id}/{when}"

    async def commits(self, git: Git, run_id: str) -> tuple[str, str]:
        """The ids of the checkpoints before and after a run. Raises ``NoCheckpoint`` or ``GitFailed``."""
        names = [self.name(run_id, when) for when in ("before", "after")]
        found = [await git.run("rev-parse", "--verify", "--quiet", name) for name in names]
        if any(code for code, _, _ in found):
            if self._private is not None:
                await self._private.check_size(git)
            raise NoCheckpoint(NO_CHECKPOINT if found[0][0] else NO_SECOND_CHECKPOINT)
        return found[0][1].strip(), found[1][1].strip()

    async def review_is_open(self, git: Git) -> bool:
        """Whether the review has changes to decide on, or a run has not ended. Raises ``GitFailed`` or
        ``NoCheckpoint``."""
        review = f"{self._prefix}/{REVIEW}"
        sides = [
            await git.run("rev-parse", "--verify", "--quiet", f"{review}/{name}^{{tree}}") for name in ("base", "head")
        ]
        if any(code for code, _, _ in sides):
            return False
        title = (await message_of(git, f"{review}/head")).partition("\n")[0]
        return sides[0][1] != sides[1][1] or not title.endswith(" after")

    async def drop_old(self, git: Git, latest: str) -> None:
        """Drops the checkpoints of older runs (of all earlier runs if the private repository is full), and of runs that
        ended without a second checkpoint. ``latest``: the latest run. Its checkpoints and the checkpoints of active
        runs are kept. Raises ``GitFailed`` or ``NoCheckpoint``."""
        private = self._private if git.repository.private else None
        is_full = private is not None and await asyncio.to_thread(private.is_full)
        names = await self._names(git)
        ended = [name.removesuffix("/after") for name in names if name.endswith("/after")]
        kept = {*(f"{self._prefix}/{run}" for run in (latest, *self._active())), *ended[: 0 if is_full else KEPT_RUNS]}
        kept.add(f"{self._prefix}/{REVIEW}")
        await _remove(git, [name for name in names if name.rpartition("/")[0] not in kept])

    async def remove_all(self, git: Git) -> None:
        """Removes all checkpoints and the review. Raises ``GitFailed`` or ``NoCheckpoint``."""
        await _remove(git, await self._names(git))

    async def _names(self, git: Git) -> list[str]:
        """The refs of all checkpoints, newest first."""
        order = ("for-each-ref", "--sort=-committerdate", "--format=%(refname)", f"{self._prefix}/")
        return (await git.read(*order)).split()


async def _remove(git: Git, names: Iterable[str]) -> None:
    for name in names:
        await git.run("update-ref", "-d", name)
