"""``answer = "merge"``: the agent writes the file, and its change is then merged into the unsaved text. This module is
not on the hot path.

It merges three texts: the file before the edit (the *base*, stored in a file, since the calls before and after an edit
are two processes), the file now, and the buffer. If the user and the agent changed the same or adjacent lines in
different ways, the buffer is left unchanged, and both are notified.
"""

from __future__ import annotations

import hashlib
import os
import time

from drawbridge import text
from drawbridge.guard import ask, json_text, state
from drawbridge.guard.unsaved import buffer_text, disk_text
from drawbridge.text import hunks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from drawbridge.guard.calls import Call
    from drawbridge.guard.unsaved import UnsavedFile

MERGE_DEADLINE = 1_000
"""Milliseconds that an editor has to merge."""

TRIES = 3
"""The maximum number of attempts, because the user may type between the request for the text and the merge."""

BASE_SECONDS = 24 * 60 * 60


def begin(call: Call, protected: Sequence[UnsavedFile], environ: Mapping[bytes, bytes]) -> bool:
    """Stores the files' current content as bases. Returns False if a file can't be merged later: if it does not exist,
    is empty, too large or not UTF-8, can't be read or stored, or if its editor sends no text (for a notebook, for
    example).
    """
    if any(buffer_text(one) is None for one in protected):
        return False
    try:
        _forget_old(state.directory(environ, "guard", "bases"))
        for name in {one.name for one in protected}:
            base = disk_text(name)
            if not base or any("\udc80" <= letter <= "\udcff" for letter in base):
                return False
            file = os.open(_base(call, name, environ), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(file, "wb") as opened:
                opened.write(base.encode(errors="surrogateescape"))
    except OSError:
        return False
    return True


def finish(call: Call, one: UnsavedFile, environ: Mapping[bytes, bytes]) -> str | None:
    """Merges the change into one editor's buffer. Returns None, or the reason if it can't be merged. In that case, the
    buffer is unchanged, unless an editor that did not answer in time merges the change later.
    """
    try:
        base = disk_text(_base(call, one.name, environ))
    except OSError:
        base = None
    written = disk_text(one.name)
    if not base:
        return "the file's text before the edit is not known"
    if written is None:
        return "the file is too large or can't be read"
    for _ in range(TRIES):
        unsaved = buffer_text(one)
        if unsaved is None:
            return f"{one.editor} did not answer in time"
        ours, version = text.split(unsaved[0])[0], unsaved[1]
        merged = hunks.merge(text.split(base)[0], ours, text.split(written)[0])
        if isinstance(merged, hunks.Overlap):
            several = merged.end > merged.start + 1
            lines = f"lines {merged.start + 1}-{merged.end}" if several else f"line {merged.start + 1}"
            return f"the user and the agent both changed {lines}"
        edits = [
            {"start": hunk.old_start, "end": hunk.old_end, "lines": merged[hunk.new_start : hunk.new_end]}
            for hunk in hunks.diff(ours, merged)
        ]
        params = {"file_path": one.name, "version": version, "edits": edits}
        answers = ask.ask([one.socket], "merge_buffer", params, MERGE_DEADLINE)
        result = answers[0].result if answers else None
        if isinstance(result, dict) and result.get("merged") is True:
            return None
    if isinstance(result, dict):
        return str(result.get("reason"))
    return f"{one.editor} {answers[0].problem or 'did not answer in time'}" if answers else f"{one.editor} was closed"


def forget(call: Call, name: str, environ: Mapping[bytes, bytes]) -> None:
    """Removes the base of a call that has ended."""
    try:
        os.unlink(_base(call, name, environ))
    except OSError:
        pass


def _base(call: Call, name: str, environ: Mapping[bytes, bytes]) -> str:
    """The path of the base for one call and file; unique if the agent sends a ``tool_use_id``."""
    number = call.input.get("tool_use_id")
    which = json_text.dump([call.session, number if isinstance(number, str) else "", name])
    digest = hashlib.blake2b(which.encode(), digest_size=16).hexdigest()
    return os.path.join(state.directory(environ, "guard", "bases"), digest)


def _forget_old(directory: str) -> None:
    for entry in os.scandir(directory):
        try:
            if time.time() - entry.stat().st_mtime > BASE_SECONDS:
                os.unlink(entry.path)
        except FileNotFoundError:
            pass  # another hook has removed it
