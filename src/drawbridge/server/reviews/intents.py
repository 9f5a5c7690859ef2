"""Intents: the changes that the server is about to make to files or branches, recorded beforehand. Also determines the
result if the server is killed before the change is complete. Pure. git writes the files of a decision one after
another, and may also be killed in between. An ``Intent`` contains enough to determine what happened: each file is as
before, as decided, torn (git was writing it), or changed by somebody else. A decision of which only a part was written
is completed. If that is not possible because somebody else has changed one of its files, the part is undone. The same
applies to a run that is reverted. A commit was either made or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from drawbridge.server.events import ChangedFile

LISTED_PATHS: Final = 20
"""The maximum number of paths in an intent, and in the record of a decision."""

Action: TypeAlias = Literal["keep", "undo", "edit"]

Operation: TypeAlias = Literal["keep", "undo", "edit", "revert", "commit"]
"""What may be interrupted: a decision, the revert of a run, or a commit."""

State: TypeAlias = Literal["before", "after", "torn", "changed"]
"""The state of a file: as before the decision, as decided, only partly written, or changed by somebody else."""

Result: TypeAlias = Literal["done", "not_done", "unknown"]


class _Intent(Struct, frozen=True, kw_only=True):
    """``session``: the id of the session in which the result is recorded; ``seq``: the number of the last record there
    before it. ``by``, ``client_id``: as in the record. ``surface``: see ``Surface.audited``; empty if an earlier version
    has stored the intent."""

    session: str
    seq: int
    by: str
    client_id: str
    surface: dict[str, Any] = {}


class DecisionIntent(_Intent, frozen=True, kw_only=True, tag="decision"):
    """A decision that is about to be applied.

    ``decision``, ``files``, ``hunks``: as in its record. ``bases``, ``heads``: the commits of the review before and
    after it. The files that it writes are those that differ between both heads. ``paths``: the files of its hunks, at
    most ``LISTED_PATHS``, as clients see them; empty if an earlier version has stored the intent.
    """

    decision: Action
    files: int
    hunks: int
    bases: tuple[str, str]
    heads: tuple[str, str]
    paths: tuple[str, ...] = ()


class RevertIntent(_Intent, frozen=True, kw_only=True, tag="revert"):
    """A run that is about to be reverted. ``run_id``, ``files``: as in its record. ``heads``: commits with the files
    before and after it."""

    run_id: str
    files: tuple[ChangedFile, ...]
    heads: tuple[str, str]


class Attempt(Struct, frozen=True):
    """A commit of kept changes before it is made.

    ``ref``: its branch, with "refs/heads/"; ``created``: the branch is new. ``parent``: the last commit before it, and
    ``former``: the branch that is checked out before it; each is empty if it does not exist. ``tree``, ``message``:
    those of the commit, unless a hook changes them. ``files``: the paths of the committed files, as ``shown_path``
    returns them. ``lock``: identifies the file that locks git's index meanwhile (its inode, and the time of its last
    change in nanoseconds); None if an earlier version has stored the intent.
    """

    ref: str
    created: bool
    parent: str
    former: str
    tree: str
    message: str
    files: tuple[str, ...]
    lock: tuple[int, int] | None = None

    @property
    def branch(self) -> str:
        return self.ref.removeprefix("refs/heads/")


class CommitIntent(_Intent, frozen=True, kw_only=True, tag="commit"):
    """A commit that is about to be made."""

    attempt: Attempt


Intent: TypeAlias = DecisionIntent | RevertIntent | CommitIntent


class Verdict(Struct, frozen=True):
    """The result, which applies once the files in ``write`` have their versions from before (``to`` is "before") or
    after the decision or the revert. ``changed``: the files that somebody else changed. ``commit``: the id of the
    commit that was made.
    """

    result: Result
    to: Literal["before", "after"] = "after"
    write: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    commit: str = ""


def state_of(before: str, after: str, now: str, *, is_part: bool) -> State:
    """The state of a file. ``before``, ``after``, ``now``: its mode and content, as git lists them; zeros if it does not
    exist. ``is_part``: whether its content now is only the beginning of the decided content."""
    if now == after:
        return "after"
    if now == before:
        return "before"
    # git removes a file before it writes the new one.
    return "torn" if exists(after) and (not exists(now) or is_part) else "changed"


def exists(entry: str) -> bool:
    """Whether the file exists in this version."""
    return bool(int(entry.partition(" ")[0], 8))


def verdict(states: Mapping[str, State], *, is_in_review: bool) -> Verdict:
    """The result of an interrupted decision. ``states``: the states of the decision's files, by path. ``is_in_review``:
    whether the review already contains the decision, which is the case only once all files are written."""
    found = {state: tuple(path for path, one in states.items() if one == state) for state in set(states.values())}
    before, after, torn, changed = (found.get(state, ()) for state in ("before", "after", "torn", "changed"))
    if is_in_review:
        return Verdict("done", "after", torn, changed)  # somebody has restored the files that are as before
    if not after and not torn:
        return Verdict("unknown" if changed and not before else "not_done", changed=changed)
    if not before and not torn:
        return Verdict("done", changed=changed)
    if changed:
        return Verdict("not_done", "before", after + torn, changed)
    return Verdict("done", "after", before + torn)
