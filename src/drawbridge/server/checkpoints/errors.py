"""The errors of git and of checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

NAMED: Final = 5
"""The maximum number of files that are named in the text of an error."""


class GitFailed(Exception):
    """A git command failed. The text, which may contain git's own message, is for the log."""


class TookTooLong(GitFailed):
    """A git command did not end in time."""


class NoCheckpoint(Exception):
    """No checkpoint exists, or git can't work in this repository. The text gives the reason and is shown to the
    user."""


def reason_of(error: Exception) -> str:
    """Why a checkpoint could not be taken or read, for the user: one or more sentences."""
    if isinstance(error, NoCheckpoint):
        return str(error)
    if isinstance(error, TookTooLong):
        return "git took too long. See the server's log for the command."
    what = "git" if isinstance(error, GitFailed) else "A file operation"
    return f"{what} failed. See the server's log for the reason."


class Changed(Exception):
    """Files that were to be written have other changes in the same places. The text names up to ``NAMED`` of them.
    Nothing was written.

    ``paths`` are relative to the project. ``lines`` maps a path to the line where the conflict begins, from 1; only
    for conflicts in lines.
    """

    def __init__(self, paths: Sequence[str], lines: Mapping[str, int] | None = None) -> None:
        self.paths = tuple(paths)
        self.lines = dict(lines or {})
        super().__init__(
            enumerated([f"{path} (line {self.lines[path]})" if path in self.lines else path for path in self.paths])
        )


def unavailable(reason: str) -> NoCheckpoint:
    """The error for a repository in which git can't work. ``reason``: a clause without a period."""
    return NoCheckpoint(f"git can't be used in this repository: {reason}.")


def damaged_index(index: Path) -> NoCheckpoint:
    """The error for a repository with a damaged index. ``index``: the user's index."""
    return unavailable(f"its index is damaged. Delete {index} and run git reset, then stage again what was staged")


def enumerated(files: Sequence[str]) -> str:
    """Up to ``NAMED`` of these files, for the text of an error."""
    return ", ".join(files[:NAMED]) + (" and others" if len(files) > NAMED else "")
