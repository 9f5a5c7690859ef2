"""``drawbridge hook --restore``: lists the copies of text that reloads and earlier restores replaced, or restores one.

The user runs this. It is not a hook call.
"""

from __future__ import annotations

import os
import posix
import time

from drawbridge.core.errors import NotPrivate, Refused, UnusableFile
from drawbridge.core.terminal_text import harmless
from drawbridge.guard import ask, copies, find, rule, state
from drawbridge.guard.unsaved import protected_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drawbridge.guard.settings import Settings

MOST_SHOWN = 30


def run(which: str, settings: Settings) -> int:
    """Lists the copies if ``which`` is "". Otherwise, restores the one that ``which`` selects, by its number in the
    list or, for the newest copy of a file, by the file's path. Returns the exit code.

    Raises ``NotPrivate`` if the directory of the copies can't be used, ``UnusableFile`` if the copy does not exist or
    the file can't be written, and ``Refused`` if the file has unsaved changes in an editor.
    """
    try:
        directory = state.directory(posix.environ, "guard", "copies")
    except OSError as error:
        raise NotPrivate(f"The copies can't be read: {str(error.strerror or error).lower()}.") from None
    listed = copies.listed(directory)
    if which:
        copy = _chosen(which, listed)
        was_there = _restore(copy, directory, settings)
        print(
            f"{harmless(copy.path)} was restored to its text from {copy.when}."
            + (" The replaced text is now the newest copy." if was_there else "")
        )
    elif not listed:
        print("There are no saved copies yet: the guard has not replaced any text in an editor.")
    else:
        for number, copy in enumerate(listed[:MOST_SHOWN], 1):
            print(
                f"{number:3}  {copy.when}  {copy.size:9,} {'byte ' if copy.size == 1 else 'bytes'}  {harmless(copy.path)}"
            )
        if len(listed) > MOST_SHOWN:
            older = len(listed) - MOST_SHOWN
            print(f"     and {older} older {'one' if older == 1 else 'ones'}: name the file to restore its newest copy")
    return 0


def _chosen(which: str, listed: list[copies.Copy]) -> copies.Copy:
    if which.isascii() and which.isdigit() and 1 <= int(which) <= len(listed):
        return listed[int(which) - 1]
    path = os.path.realpath(which)
    for copy in listed:
        if copy.path == path:
            return copy
    what = "with the number" if which.isascii() and which.isdigit() else "of"
    raise UnusableFile(f"There is no copy {what} {which}. `drawbridge hook --restore` lists the copies.")


def _restore(copy: copies.Copy, directory: str, settings: Settings) -> bool:
    """Makes a copy of the current file, if it exists, restores its previous text, and makes editors reload it. Returns
    whether the file existed. Raises ``Refused`` if the file has unsaved changes in an editor, ``UnusableFile`` if it
    can't be written."""
    sockets = find.sockets(settings["socket_dir"], posix.environ)
    for one in protected_in(rule.snapshot(sockets, [copy.path], settings), "any"):
        raise Refused(f"{copy.path} has unsaved changes in {one.editor}. Save or discard them first.")
    try:
        if was_there := os.path.exists(copy.path):
            _copy(copy.path, os.path.join(directory, f"{time.time_ns() // 1_000_000}.{os.getpid()}") + copy.path)
        _copy(copy.file, copy.path)
    except OSError as error:
        why = (error.strerror or "unknown reason").lower()
        raise UnusableFile(f"{copy.path} could not be restored: {why}. The copy is still at {copy.file}.") from None
    ask.ask(sockets, "refresh_buffer", {"file_path": copy.path}, 2_000)
    return was_there


def _copy(source: str, target: str) -> None:
    """Writes in place, so that ``target`` keeps its mode, its owner and its links. A new file gets mode 0600."""
    with open(source, "rb") as file:
        data = file.read()
    if not os.path.exists(target):
        state.make_directory(os.path.dirname(target))
    opened = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(opened, "wb") as written:
        written.write(data)
