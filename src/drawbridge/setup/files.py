"""The files that setup changes: checked first, shown as a diff, written atomically, with a copy of the old content."""

from __future__ import annotations

import contextlib
import difflib
import itertools
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from drawbridge.core.errors import NotWritable, UnusableFile

NEW_FILE = 0o600

PAST = {"create": "created", "modify": "changed", "delete": "deleted"}
"""The kinds of steps, as past participles for messages."""


class Step(Protocol):
    """One step of setup. ``lines`` shows it in the form of a unified diff; ``apply`` executes it."""

    @property
    def path(self) -> Path: ...

    @property
    def kind(self) -> str:
        """ "create", "modify" or "delete"."""

    def lines(self) -> list[str]: ...

    def apply(self) -> Path | None:
        """Executes the step. Returns the path of a copy of the previous file; None if no copy was made."""


@dataclass(frozen=True)
class Change:
    """A file that is created, changed or removed. ``before``, ``after``: its content; None if it does not exist. If
    ``path`` is a link, its target is written or removed. ``keep``: whether the previous content is first copied to a
    file next to ``path``."""

    path: Path
    before: bytes | None
    after: bytes | None
    keep: bool = True

    @property
    def kind(self) -> str:
        return "create" if self.before is None else "delete" if self.after is None else "modify"

    def lines(self) -> list[str]:
        old, new = _lines(self.before), _lines(self.after)
        old_name, new_name = (os.devnull if it is None else str(self.path) for it in (self.before, self.after))
        diff = difflib.unified_diff(old, new, old_name, new_name, lineterm="")
        return [line for lines in diff for line in lines.split("\n")]

    def check(self) -> None:
        """Raises ``NotWritable`` if the file can't be written. A read-only file counts as not writable, even for
        root."""
        target = _target(self.path)
        if self.before is not None and not (os.access(target, os.W_OK) and target.stat().st_mode & 0o222):
            raise NotWritable(f"{self.path} is read-only. No changes were made. Make it writable and run this again.")
        parent = next(parent for parent in target.parents if os.path.lexists(parent))
        if not parent.is_dir():
            raise NotWritable(
                f"{self.path} can't be created, because {parent} is not a directory. No changes were made."
            )
        if not os.access(parent, os.W_OK | os.X_OK):
            raise NotWritable(
                f"{self.path} can't be {PAST[self.kind]}: you have no write permission for {parent}. "
                "No changes were made."
            )

    def apply(self) -> Path | None:
        """See ``Step.apply``. Raises ``NotWritable`` or ``UnusableFile``. In that case, the file is unchanged."""
        if read(self.path) != self.before:
            raise NotWritable(
                f"{self.path} was not touched: another program has changed it in the meantime. Run this again."
            )
        target, kept = _target(self.path), None
        try:
            if self.keep and self.before is not None:
                kept = _keep(self.path, self.before)
            if self.after is None:
                target.unlink()
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                _write(target, self.after, _mode(target))
        except OSError as error:
            if kept:
                kept.unlink()
            raise NotWritable(f"{self.path} can't be {PAST[self.kind]}: {_why(error)}.") from None
        return kept


def read(path: Path) -> bytes | None:
    """The content of the file; None if it does not exist or is a broken link. Raises ``UnusableFile`` if it is not a
    regular file, or can't be read."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise UnusableFile(f"{path} is not a regular file. Move it elsewhere, then run this again.")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UnusableFile(f"{path} can't be read: {_why(error)}.") from None


def missing_directories(path: Path) -> list[Path]:
    """The directories above the file that do not exist, the innermost first."""
    return list(itertools.takewhile(lambda parent: not os.path.lexists(parent), _target(path).parents))


def _target(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _mode(target: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return stat.S_IMODE(target.stat().st_mode)
    return NEW_FILE


def _keep(path: Path, content: bytes) -> Path:
    """Writes a copy, which only the user can read, next to the path. Returns the path of the copy."""
    stem = f"{path.name}.drawbridge-{time.strftime('%Y%m%dT%H%M%S')}"
    for number in itertools.count(1):
        copy = path.with_name(f"{stem}{f'-{number}' if number > 1 else ''}.bak")
        with contextlib.suppress(FileExistsError):
            _write_new(copy, content, _mode(_target(path)) & 0o600)
            return copy
    raise AssertionError


def _write(target: Path, content: bytes, mode: int) -> None:
    """Writes atomically. A reader sees either the whole old content or the whole new content."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        _write_new(temporary, content, mode)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _write_new(path: Path, content: bytes, mode: int) -> None:
    """Creates a file. If it can't be written completely, removes it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)  # this sets the mode regardless of the umask
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _lines(content: bytes | None) -> list[str]:
    """The lines for a diff, with a note after a last line without a line break."""
    text = (content or b"").decode("utf-8", "replace")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    last = lines.pop()
    return [*lines, f"{last}\n\\ No newline at end of file"] if last else lines


def _why(error: OSError) -> str:
    return (error.strerror or "unknown reason").lower()
