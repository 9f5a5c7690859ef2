"""The review of the proposals that were accepted in this editor. It is shown where no server has a review, and its
answers have the form of a server's, so that an editor shows both alike and with the same words.

A review is computed from the files as they are now on disk. A file that no longer exists under its path, or is no
longer text, is left out.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from hashlib import blake2b
from io import FileIO
from typing import Any, Final

import msgspec
from msgspec import Raw

from drawbridge.core.errors import Refused, UnusableFile
from drawbridge.core.terminal_text import harmless
from drawbridge.editors import files
from drawbridge.editors.port import Editor
from drawbridge.ide.accepted_files import AcceptedFile, AcceptedFiles, AcceptedHunk
from drawbridge.ide.server_link import ReviewRefused
from drawbridge.protocols import local_ipc as wire

MOST_CHARACTERS: Final = 256 * 1024
"""The maximum number of characters in the hunks of a file. If there are more, only the whole file can be decided on."""

UNSAVED: Final = "The file has unsaved changes. Save or discard them first."


class AcceptedReview:
    def __init__(self, editor: Editor, accepted: AcceptedFiles) -> None:
        self._editor = editor
        self._accepted = accepted

    async def read(self, folder: str) -> wire.ReviewAnswer:
        """The review of all accepted files. Their names are relative to ``folder`` if they are in it."""
        return await asyncio.to_thread(_answer, self._accepted.all(), folder)

    async def decide(self, line: wire.ReviewDecision, folder: str) -> wire.ReviewAnswer:
        """Carries out a decision and returns the review after it. ``all`` files can only be kept. Raises
        ``ReviewRefused``, ``Refused`` or ``UnusableFile``."""
        if line.all and line.decision == "keep":
            await self._keep_all(line.version)
            return await self.read(folder)
        stored = self._accepted.all()
        before, now, hunks = await asyncio.to_thread(_chosen, stored, folder, line)
        after = now.kept(hunks) if line.decision == "keep" else now.undone(hunks)
        if self._accepted.find(before.path) is not before:
            raise _clash(before.path)  # an agent has just written the file
        if line.decision == "undo":
            if await self._editor.unsaved_text(before.path) is not None:
                raise Refused(UNSAVED)
            await asyncio.to_thread(_write, now, after)
        if self._accepted.find(before.path) is before:
            self._accepted.store(after)
        return await self.read(folder)

    async def _keep_all(self, version: str) -> None:
        """Keeps all hunks of the review with this version. Raises ``ReviewRefused`` without keeping anything if the
        review has changed."""
        found = await asyncio.to_thread(_current, self._accepted.all())
        is_as_read = all(self._accepted.find(before.path) is before for before, _, _ in found)
        if not found or not is_as_read or version != _version(found):
            raise ReviewRefused("HUNK_GONE", "The review has changed.", None)
        for _, now, hunks in found:
            self._accepted.store(now.kept(hunks))


def _current(stored: Sequence[AcceptedFile]) -> list[tuple[AcceptedFile, AcceptedFile, list[AcceptedHunk]]]:
    """The files that have anything to decide on: as they are stored, as they are now, and their hunks. Blocking."""
    found = []
    for file in stored:
        try:
            text = files.read_text(file.path)
        except UnusableFile:
            continue
        if text is not None and (hunks := (now := file.at(text)).hunks()):
            found.append((file, now, hunks))
    return found


def _chosen(
    stored: Sequence[AcceptedFile], folder: str, line: wire.ReviewDecision
) -> tuple[AcceptedFile, AcceptedFile, list[AcceptedHunk]]:
    """The file and the hunks that a decision is about. Blocking. Raises ``ReviewRefused`` if they are not as they were
    shown."""
    found = _current(stored)
    for file, now, hunks in found:
        if line.file is None:
            chosen = [hunk for hunk in hunks if hunk.id == line.hunk]
        else:
            chosen = hunks if line.file == _name(file.path, folder) and line.version == _version(found) else []
        if chosen:
            return file, now, chosen
    raise ReviewRefused("HUNK_GONE", "The change no longer needs a decision.", None)


def _write(now: AcceptedFile, after: AcceptedFile) -> None:
    """Writes the file in place, so that it keeps its mode, its owner and its links. Removes it if it is new and nothing
    is left of it. Blocking. Raises ``ReviewRefused`` if the file has changed in the meantime, and ``UnusableFile`` if
    it can't be written. In both cases, its content is unchanged."""
    if files.read_text(now.path) != now.written:
        raise _clash(now.path)
    before = _bytes(now.written)
    is_removal = after.base is None and not after.written
    try:
        if is_removal:
            os.unlink(now.path)
            return
        with open(now.path, "r+b", buffering=0) as file:
            if file.readall() != before:
                raise _clash(now.path)
            try:
                _replace(file, _bytes(after.written))
            except OSError:
                _replace(file, before)
                raise
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UnusableFile(f"{harmless(now.path)} can't be {'removed' if is_removal else 'written'}: {why}.") from None


def _replace(file: FileIO, content: bytes) -> None:
    file.seek(0)
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]
    file.truncate()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _clash(path: str) -> ReviewRefused:
    return ReviewRefused("REVIEW_CLASH", "The file has changed.", {"paths": [os.path.basename(path)]})


def _name(path: str, folder: str) -> str:
    inside = os.path.join(os.path.realpath(folder), "")
    return path.removeprefix(inside)


def _version(found: Sequence[tuple[AcceptedFile, AcceptedFile, list[AcceptedHunk]]]) -> str:
    ids = " ".join(hunk.id for _, _, hunks in found for hunk in hunks)
    return blake2b(ids.encode(), digest_size=12).hexdigest()


def _answer(stored: Sequence[AcceptedFile], folder: str) -> wire.ReviewAnswer:
    """The review in the form of a server's. Blocking."""
    found = _current(stored)
    shown = [_file(_name(now.path, folder), now, hunks) for _, now, hunks in found]
    review = {"version": _version(found), "files": shown, "more": 0, "comments": [], "drafts": ""}
    return wire.ReviewAnswer(id="", directory=os.path.realpath(folder), review=Raw(msgspec.json.encode(review)))


def _file(name: str, file: AcceptedFile, hunks: list[AcceptedHunk]) -> dict[str, Any]:
    """A ``ReviewFile`` of the client protocol."""
    is_new = file.base is None
    is_large = sum(len(hunk.removed) + len(hunk.added) for hunk in hunks) > MOST_CHARACTERS
    return {
        "path": name,
        "change": "added" if is_new else "changed",
        "old_mode": None if is_new else "100644",
        "new_mode": "100644",
        "added": sum(hunk.place.new_count for hunk in hunks),
        "removed": sum(hunk.place.old_count for hunk in hunks),
        "hunks": [] if is_large else [_hunk(hunk, "file" if is_new else "lines") for hunk in hunks],
    }


def _hunk(hunk: AcceptedHunk, kind: str) -> dict[str, Any]:
    """A ``ReviewHunk`` of the client protocol. Bytes that are not UTF-8 are replaced, but only unsaved text has any."""
    return {
        "id": hunk.id,
        "kind": kind,
        "old_start": hunk.place.old_start + (1 if hunk.removed else 0),
        "new_start": hunk.place.new_start + (1 if hunk.added else 0),
        "removed": _valid(hunk.removed),
        "added": _valid(hunk.added),
    }


def _valid(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
