"""The commits of checkpoints and reviews: their contents, and the notes in their messages."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from drawbridge.core.json_text import UNDECODABLE
from drawbridge.server.checkpoints.git.git import Git

T = TypeVar("T")

NAME, EMAIL = "Drawbridge", "drawbridge@localhost"
"""The author of the commits."""

AUTHOR: Final = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", NAME), ("EMAIL", EMAIL))
}
PATCH: Final = ("diff-tree", "-r", "--no-renames", "--ignore-submodules=all")


class Filtered(msgspec.Struct, frozen=True):
    """The files of a checkpoint that have a filter, as its commit's message lists them. ``read``: files for which the
    checkpoint contains the bytes in the work tree; ``unread``: all others. Paths are relative to the project. Bytes
    that are not UTF-8 are surrogates."""

    read: frozenset[str] = frozenset()
    unread: frozenset[str] = frozenset()


async def differences(git: Git, old: str, new: str) -> dict[str, tuple[str, str]]:
    """The differences between two versions of the project. Maps each path, relative to the project, to the "mode blob"
    of both sides (zeros for a side without the file). ``old``, ``new``: the ids of commits or trees."""
    if (known := git.remembered.differences(old, new)) is not None:
        return dict(known)
    found = listed_differences(await git.read_once(*PATCH, "--relative", "-z", old, new, "--", "."))
    git.remembered.remember_differences(old, new, found)
    return dict(found)


async def filtered_of(git: Git, checkpoint: str) -> Filtered:
    """The files with a filter in a checkpoint. Empty if the checkpoint does not exist, or was made by an earlier
    version that did not record these files."""
    return noted(await message_of(git, checkpoint), Filtered) or Filtered()


async def message_of(git: Git, commit: str) -> str:
    """The message of a commit; empty if the commit does not exist. ``commit``: its id, or a ref."""
    return (await _commit(git, commit))[1]


async def tree_of(git: Git, commit: str) -> str:
    """The id of a commit's tree; empty if the commit does not exist. ``commit``: its id, or a ref."""
    return (await _commit(git, commit))[0]


async def _commit(git: Git, commit: str) -> tuple[str, str]:
    """The tree and the message of a commit. Both are empty if the commit does not exist."""
    if (known := git.known_commit(commit)) is not None:
        return known
    code, text, _ = await git.run("cat-file", "commit", commit)
    if code:
        return "", ""
    header, _, message = text.partition("\n\n")
    found = header.partition("\n")[0].removeprefix("tree "), message
    if "/" not in commit:
        git.remember_commit(commit, *found)
    return found


def noted(message: str, kind: type[T]) -> T | None:
    """The data below the title in a commit's message, converted to ``kind``; None if it can't be converted."""
    with contextlib.suppress(ValueError, *UNDECODABLE):
        return msgspec.convert(json.loads(message.partition("\n\n")[2]), kind)
    return None


async def committed(git: Git, tree: str, title: str, filtered: Filtered, more: Mapping[str, Any] = {}) -> str:
    """Makes a commit of a tree. Its message contains ``filtered`` and ``more``, which ``noted`` reads. Returns its
    id."""
    message = message_with(title, filtered, more)
    return (await git.read("commit-tree", tree, "-F", "-", stdin=message, environment=AUTHOR)).strip()


def message_with(title: str, filtered: Filtered, more: Mapping[str, Any] = {}) -> str:
    """The message of a commit, with notes that ``noted`` reads."""
    notes = {"read": sorted(filtered.read), "unread": sorted(filtered.unread), **more}
    return f"{title}\n\n{json.dumps(notes)}\n"


def listed_differences(listed: str) -> dict[str, tuple[str, str]]:
    """Parses git's raw diff format with ``-z``. Maps each path to the "mode blob" of both sides (zeros for a side
    without the file)."""
    words = listed.split("\0")
    sides = [word.removeprefix(":").split(" ") for word in words[::2]]
    return {path: (f"{one[0]} {one[2]}", f"{one[1]} {one[3]}") for one, path in zip(sides, words[1::2], strict=False)}


def listed_statuses(listed: str) -> list[tuple[str, str]]:
    """Parses the output of ``--name-status -z``: pairs of status and path."""
    words = listed.split("\0")
    return list(zip(words[::2], words[1::2], strict=False))


def shown_path(path: str) -> str:
    """The path as clients see it. Bytes that are not UTF-8 are replaced, because only valid UTF-8 can be sent."""
    return path.encode(errors="surrogateescape").decode(errors="replace")
