"""The errors of git and of checkpoints."""

from __future__ import annotations


class GitFailed(Exception):
    """A git command failed. The text, which may contain git's own message, is for the log."""


class TookTooLong(GitFailed):
    """A git command did not end in time."""


class NoCheckpoint(Exception):
    """No checkpoint exists, or git can't work in this repository. The text gives the reason and is shown to the
    user."""


def unavailable(reason: str) -> NoCheckpoint:
    """The error for a repository in which git can't work. ``reason``: a clause without a full stop."""
    return NoCheckpoint(f"Checkpoints are not available here: {reason}.")
