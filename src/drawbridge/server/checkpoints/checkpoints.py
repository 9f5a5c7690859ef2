"""The files of a project before and after each run, stored by git, so that what a run changed can be seen and reverted.

A checkpoint is a commit that only a private ref points to (``refs.py``), in the repository of the project's git work
tree or, without one, in a private one (``private.py``). It is made with its own index, so the user's index, branches
and stash are never touched. git runs confined, and the repository's configuration can't make it run a program
(``git.py``). A checkpoint contains neither what git ignores nor nested repositories (including submodules). If such a
file existed before a run, reverting the run does not change it, even if the run made git track it. Filters never run
(``filters.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from drawbridge.agents.base import Confinement
from drawbridge.agents.memory import MemoryWatch
from drawbridge.server.checkpoints.changes import Changes
from drawbridge.server.checkpoints.index_cache import IndexCache
from drawbridge.server.checkpoints.operations import Operations
from drawbridge.server.checkpoints.private import Largest, PrivateRepository
from drawbridge.server.checkpoints.refs import Refs
from drawbridge.server.checkpoints.reverter import Reverter
from drawbridge.server.checkpoints.snapshotter import Missed, Snapshotter, Stored
from drawbridge.server.checkpoints.staging import Staging
from drawbridge.server.checkpoints.unsaved import FindUnsaved, no_editors
from drawbridge.server.checkpoints.work_tree import WorkTree


class Checkpoints:
    """Creates, shows and reverts the checkpoints of one project. Its parts share the operations of git, so that they
    wait for each other.

    ``folder``: where the index of the last checkpoint is stored (``index_cache.py``). The private repository of a
    directory that is not in a git work tree is also in ``folder``. Without a folder, such a directory has no
    checkpoints. ``on_stored``, ``on_missed``: as in ``Snapshotter``. ``active``: returns the runs that may be active in
    addition to the run that a checkpoint is for. ``largest``: as in ``PrivateRepository``.
    """

    def __init__(
        self,
        directory: Path,
        project_id: str,
        confinement: Confinement = Confinement(),  # noqa: B008 - frozen
        memory: MemoryWatch | None = None,
        folder: Path | None = None,
        on_stored: Stored | None = None,
        on_missed: Missed | None = None,
        active: Callable[[], Iterable[str]] = tuple,
        find_unsaved: FindUnsaved = no_editors,
        largest: Largest = Largest(),  # noqa: B008 - frozen
    ) -> None:
        private = PrivateRepository(folder, directory, largest) if folder is not None else None
        staging = Staging(directory, private)
        cache = IndexCache(folder, directory)
        self._refs = refs = Refs(project_id, private, active)
        self.operations = Operations(directory, confinement, memory or MemoryWatch(None), folder, private)
        self.work_tree = WorkTree(directory, staging, private, find_unsaved)
        self.snapshotter = Snapshotter(directory, self.operations, staging, cache, refs, private, on_stored, on_missed)
        self.changes = Changes(self.operations, refs)
        self.reverter = Reverter(self.operations, refs, self.work_tree)

    async def close(self) -> None:
        """Cancels what ``Snapshotter.begin`` started, and returns when the processes of all operations have ended."""
        await self.snapshotter.close()
        await self.operations.close()

    async def remove(self) -> None:
        """Removes all checkpoints of the project from the repository of its git work tree, if it has one. A private
        repository is left unchanged, because the caller removes its folder. Raises ``GitFailed``, ``NoCheckpoint`` or
        OSError."""
        async with self.operations.held(), self.operations.opened_in_work_tree() as git:
            if git is not None:
                await self._refs.remove_all(git)
