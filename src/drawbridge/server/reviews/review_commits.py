"""How a review is stored: three commits with private refs, and notes in the message of one of them.

The diff from *base* to *head* is what the agent changed and nobody has decided on yet. The diff from *start* to *base*
is what was kept but not committed. The refs (``refs/drawbridge/<project or directory>/review/base``, ``…/head`` and
``…/start``) outlive the server.

The title of head names the run that it is about: ``run_1 before`` and ``run_1 now`` during that run, ``run_1 after``
once it has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import stat
import time
from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from msgspec import Struct

from drawbridge.server.checkpoints.commits import Filtered, committed, message_of, noted
from drawbridge.server.checkpoints.errors import GitFailed
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.refs import REVIEW
from drawbridge.server.reviews.decisions import HunkDecision

logger = logging.getLogger("drawbridge.server")

LOCKED_SECONDS: Final = 60.0
"""If the lock of a ref is older, the git that made it was killed. git holds such a lock only for a moment."""

REMEMBERED: Final = 500
"""The maximum number of hunks for which decisions are remembered."""

REMEMBERED_REQUESTS: Final = 50
"""The maximum number of requests that are remembered, in case they are repeated."""


class Notes(Struct, frozen=True):
    """What the message of the commit ``base`` contains: the hunks that were decided on, and the keys of the latest
    requests (``RequestedDecision.key``); both newest last. ``named``: maps the path of a file to the path that it had
    before its renaming was undone, because the ids of its hunks were made from that path."""

    decided: dict[str, HunkDecision] = {}
    requests: tuple[str, ...] = ()
    named: dict[str, str] = {}

    @property
    def newest(self) -> dict[str, Any]:
        """The newest of the notes as the message contains them."""
        newest = dict(list(self.decided.items())[-REMEMBERED:])
        return {
            "decided": {id: {"by": one.by, "decision": one.decision} for id, one in newest.items()},
            "requests": self.requests[-REMEMBERED_REQUESTS:],
            "named": dict(list(self.named.items())[-REMEMBERED:]),
        }


class Trees(NamedTuple):
    """The commits of a review. ``run``: the last run with changes that are in head. ``is_running``: whether head was
    recorded before the end of that run.
    """

    start: str
    base: str
    head: str
    run: str
    is_running: bool


class ReviewCommits:
    """The commits of one review. Each method is part of an operation."""

    def __init__(self, project_id: str) -> None:
        self.runs = f"refs/drawbridge/{project_id}"
        """The refs of the checkpoints of its runs begin with this."""
        self._refs = f"{self.runs}/{REVIEW}"
        self._trees_in: WeakKeyDictionary[Git, Trees] = WeakKeyDictionary()
        """Maps git for one operation to the review's commits, if that operation has read or set them."""

    async def read(self, git: Git) -> Trees | None:
        """The review's commits. None if no run has had a checkpoint yet, or if another program has removed the refs or
        set them to something else. Raises ``GitFailed``."""
        if git in self._trees_in:
            return self._trees_in[git]
        names = ("refname:lstrip=-1", "objecttype", "objectname", "tree", "contents")
        form = "--format=" + "".join(f"%({name})%00" for name in names)
        words = (await git.read("for-each-ref", form, f"{self._refs}/")).split("\0")
        columns = [words[at :: len(names)] for at in range(len(names))]
        found: dict[str, str] = {}
        for name, kind, id, tree, message in zip(*columns, strict=False):  # the last word ends the line
            if kind == "commit":
                found[name.removeprefix("\n")] = id
                git.remember_commit(id, tree, message)
        if not {"base", "head"} <= found.keys():
            return None
        base, head = found["base"], found["head"]
        start = found.get("start", base)  # earlier versions had no start
        run, _, when = (await message_of(git, head)).partition("\n")[0].rpartition(" ")
        self._trees_in[git] = trees = Trees(start, base, head, run, when != "after")
        return trees

    async def set(self, git: Git, trees: Trees) -> None:
        """Sets all refs, or none. Refs that an agent may have made symbolic are replaced, and not followed.
        Raises ``GitFailed``."""
        start, base, head, _, _ = trees
        commits = {"start": start, "base": base, "head": head}
        lines = (f"option no-deref\nupdate {self._refs}/{name} {commit}\n" for name, commit in commits.items())
        words, given = ("update-ref", "--stdin"), "".join(lines)
        code, _, complaint = await git.run(*words, stdin=given, writes=True)
        if code and await asyncio.to_thread(self._unlock, git, commits):
            code, _, complaint = await git.run(*words, stdin=given, writes=True)
        if code:
            raise GitFailed(f"git update-ref exited with code {code}: {complaint.strip()[:500]}")
        self._trees_in[git] = trees

    def _unlock(self, git: Git, names: Iterable[str]) -> bool:
        """Removes the locks of these refs that a killed git has left behind. Without that, the review could not be used
        until somebody deletes them. Returns whether a lock was removed. Blocking."""
        removed = False
        for name in names:
            lock = git.repository.common / self._refs / f"{name}.lock"
            with contextlib.suppress(OSError):
                found = lock.lstat()
                if stat.S_ISREG(found.st_mode) and time.time() - found.st_mtime > LOCKED_SECONDS:
                    lock.unlink()
                    logger.warning("%s was left by a git that was killed, and was removed", lock)
                    removed = True
        return removed

    async def keep_texts(self, git: Git, blobs: Collection[str]) -> None:
        """Makes git keep these contents of files with comments until the next call or until the checkpoints are
        removed. Raises ``GitFailed``.
        """
        listed = await git.read("cat-file", "--batch-check", stdin="".join(f"{blob}\n" for blob in sorted(set(blobs))))
        there = [words[0] for words in map(str.split, listed.splitlines()) if words[1:2] == ["blob"]]
        tree = await git.read("mktree", stdin="".join(f"100644 blob {blob}\t{blob}\n" for blob in there))
        commit = await committed(git, tree.strip(), "comments", Filtered())
        await git.read("update-ref", "--no-deref", f"{self._refs}/comments", commit)


async def notes_of(git: Git, base: str) -> Notes:
    """The notes in the message of base. Raises ``GitFailed``."""
    return noted(await message_of(git, base), Notes) or Notes()
