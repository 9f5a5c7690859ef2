"""A fake editor for tests. It has buffers, a selection and views in memory, and no screen.

It implements the port like a real editor, as ``tests/editors/test_port.py`` verifies. Files are real: opening reads
them and saving writes them. The user's actions are plain methods, such as ``open``, ``type``, ``select`` and
``decide``; events that an action causes are reported before its method returns.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from drawbridge.core.errors import EditorGone, EditorHung, Refused
from drawbridge.editors import files
from drawbridge.editors.port import (
    DIAGNOSTICS_LIMIT,
    SELECTION_LIMIT,
    Accepted,
    BridgeState,
    BufferStatus,
    Decided,
    Diagnostic,
    EditorEvent,
    FileDiagnostics,
    FoldersChanged,
    Gone,
    Level,
    Listener,
    Mentioned,
    OpenedFile,
    OpenRequest,
    Overwritten,
    Position,
    Proposal,
    Range,
    Rejected,
    Review,
    ReviewEvent,
    Selection,
    SelectionChanged,
    Tab,
    TerminalsChanged,
)
from drawbridge.text import split, utf16_length


class Buffer(Struct):
    """An open file. ``saved`` is its content when it was last read or written; None if it has never been on disk."""

    text: str
    saved: str | None

    @property
    def modified(self) -> bool:
        return self.text != self.saved

    def write(self, path: str) -> None:
        Path(path).write_bytes(self.text.encode("utf-8", "surrogateescape"))
        self.saved = self.text


class MemoryEditor:
    """Tests can examine what happened to it: ``shown``, ``notices``, ``announced``, ``opened``."""

    name = "MemoryEditor"

    def __init__(self, folders: Sequence[str] = ("/",)) -> None:
        self.buffers: dict[str, Buffer] = {}
        self.active: str | None = None
        self.problems: dict[str, Sequence[Diagnostic]] = {}
        self.shown: dict[str, Proposal] = {}
        self.notices: list[tuple[str, Level]] = []
        self.announced: list[BridgeState] = []
        self.opened: list[OpenRequest] = []
        self.terminals: dict[int, list[str]] = {}
        self.reviews: list[Review | None] = []
        self.suggestions: list[tuple[int, bool]] = []
        """The windows of suggestions, and whether each suggestion was added."""
        self.copied = ""
        self.hung = False
        """While this is True, every call of the port except ``close`` raises ``EditorHung``."""
        self._folders = tuple(folders)
        self._selections: dict[str, Range] = {}
        self._read: dict[str, str | None] = {}  # text of the buffer when its unsaved text was read, by path
        self._before: dict[str, str | None] = {}  # text of the buffer that a shown proposal is based on, by proposal
        self._listener: Listener | None = None
        self._gone = False

    # What the user does.

    def open(self, path: str) -> None:
        """Brings the file to the front. For a file that does not exist, creates an empty buffer."""
        self._load(path)
        self.active = path

    def type(self, path: str, text: str) -> None:
        """Changes an open file's text without saving it."""
        self.buffers[path].text = text

    def select(self, path: str, selected: Range) -> None:
        self.active = path
        self._selections[path] = selected
        self._report(SelectionChanged(self._selection(path)))

    def mention(self, path: str, lines: tuple[int, int] | None = None) -> None:
        self._report(Mentioned(path, lines))

    def edit(self, proposal_id: str, text: str) -> None:
        """Changes a proposed text before a decision."""
        self.shown[proposal_id] = msgspec.structs.replace(self.shown[proposal_id], new_text=text)

    def decide(self, proposal_id: str, decision: Accepted | Rejected) -> None:
        """Decides on a proposal. Raises ``KeyError`` if it is not shown."""
        del self.shown[proposal_id]
        self._report(Decided(proposal_id, decision))

    def change_folders(self, *folders: str) -> None:
        self._folders = folders
        self._report(FoldersChanged(folders))

    def open_terminal(self, pid: int) -> None:
        """Starts an agent in a terminal. Its prompts are then in ``terminals``."""
        self.terminals[pid] = []
        self._report(TerminalsChanged(tuple(self.terminals)))

    def leave(self) -> None:
        """Ends like an editor that is quit or killed."""
        self.shown.clear()
        self._report(Gone())
        self._gone = True
        self._listener = None

    def report(self, event: ReviewEvent) -> None:
        """Reports that the user did something in a review."""
        self._report(event)

    # The port.

    @property
    def pid(self) -> int:
        return os.getpid()

    async def start(self, listener: Listener) -> None:
        self._answer()
        self._listener = listener

    async def close(self) -> None:
        self.shown.clear()
        self._listener = None

    async def announce(self, state: BridgeState) -> None:
        self._answer()
        self.announced.append(state)

    async def folders(self) -> tuple[str, ...]:
        self._answer()
        return self._folders

    async def selection(self) -> Selection | None:
        self._answer()
        return self._selection(self.active) if self.active else None

    async def tabs(self) -> Sequence[Tab]:
        self._answer()
        return [
            Tab(path, path == self.active, buffer.modified, files.language(path), _line_count(buffer.text))
            for path, buffer in self.buffers.items()
        ]

    async def diagnostics(self, path: str | None) -> Sequence[FileDiagnostics]:
        self._answer()
        if path is not None:
            return [FileDiagnostics(path, tuple(self.problems.get(path, ()))[:DIAGNOSTICS_LIMIT])]
        room = DIAGNOSTICS_LIMIT
        found = []
        for each, problems in self.problems.items():
            if problems and room:
                found.append(FileDiagnostics(each, tuple(problems)[:room]))
                room -= len(found[-1].diagnostics)
        return found

    async def status(self, path: str) -> BufferStatus | None:
        self._answer()
        buffer = self.buffers.get(path)
        return BufferStatus(buffer.modified, buffer.saved is None) if buffer else None

    async def unsaved_text(self, path: str) -> str | None:
        self._answer()
        buffer = self.buffers.get(path)
        self._read[path] = buffer.text if buffer else None
        return buffer.text if buffer and buffer.modified else None

    async def save(self, path: str) -> None:
        self._answer()
        buffer = self.buffers.get(path)
        if buffer is None:
            raise Refused(f"{path} is not open in the editor.")
        try:
            buffer.write(path)
        except OSError as error:
            raise Refused(f"{path} can't be written: {error.strerror}.") from None

    async def open_file(self, request: OpenRequest) -> OpenedFile:
        self._answer()
        self.opened.append(request)
        text = self._load(request.path).text
        selected = _find(text, request)
        if request.focus:
            self.active = request.path
            if selected is not None and request.start_text:
                self._selections[request.path] = selected
        return OpenedFile(request.path, files.language(request.path), _line_count(text), selected is not None)

    async def show(self, proposal: Proposal) -> None:
        self._answer()
        buffer = self.buffers.get(proposal.path)
        self._before[proposal.id] = self._read.pop(proposal.path, buffer.text if buffer else None)
        self.shown[proposal.id] = proposal.without_lines()

    async def proposed_text(self, proposal_id: str) -> str | None:
        self._answer()
        proposal = self.shown.get(proposal_id)
        return proposal.new_text if proposal else None

    async def withdraw(self, proposal_id: str) -> None:
        self._answer()
        self.shown.pop(proposal_id, None)

    async def written(self, path: str, text: str, proposal_id: str) -> None:
        self._answer()
        buffer = self.buffers.get(path)
        if buffer is not None and (not buffer.modified or self._before.get(proposal_id) == buffer.text):
            buffer.text = buffer.saved = text

    async def overwritten(self, path: str) -> Overwritten | None:
        self._answer()
        buffer, now = self.buffers.get(path), files.read_text(path)
        if buffer is None or now is None or now == buffer.saved:
            return None
        if buffer.modified:
            return "unsaved"
        buffer.text = buffer.saved = now
        return "reloaded"

    async def reload(self, directory: str) -> None:
        self._answer()
        for path, buffer in self.buffers.items():
            now = files.read_text(path)
            if Path(directory) in Path(path).parents and now is not None and not buffer.modified:
                buffer.text = buffer.saved = now

    async def type_prompt(self, terminal: int, text: str) -> None:
        self._answer()
        if terminal not in self.terminals:
            raise Refused("The agent's terminal has been closed, so your prompt was not sent.")
        self.terminals[terminal].append(text)

    async def show_review(self, review: Review | None, *, is_wanted: bool) -> None:
        self._answer()
        self.reviews.append(review)

    async def suggested(self, window: int, *, is_added: bool) -> None:
        self._answer()
        self.suggestions.append((window, is_added))

    async def copy(self, text: str) -> str:
        self._answer()
        self.copied = text
        return "clipboard"

    async def notify(self, message: str, level: Level = "info") -> None:
        self._answer()
        self.notices.append((message, level))

    def _answer(self) -> None:
        if self._gone:
            raise EditorGone("The editor is gone. Start it again.")
        if self.hung:
            raise EditorHung("The editor gave no answer for 5 seconds. Look at it: it may wait for a key.")

    def _report(self, event: EditorEvent) -> None:
        if self._listener is not None:
            self._listener(event)

    def _load(self, path: str) -> Buffer:
        if path not in self.buffers:
            saved = files.read_text(path)
            self.buffers[path] = Buffer(saved or "", saved)
        return self.buffers[path]

    def _selection(self, path: str) -> Selection:
        start = Position(0, 0)
        selected = self._selections.get(path, Range(start, start))
        return Selection(path, _text_in(self._load(path).text, selected)[:SELECTION_LIMIT], selected)


def _line_count(text: str) -> int:
    """The number of lines as editors count them. An empty text has one empty line."""
    return max(len(split(text)[0]), 1)


def _text_in(text: str, selected: Range) -> str:
    lines = split(text)[0]
    first, last = selected.start, selected.end
    chosen = lines[first.line : last.line + 1]
    if len(chosen) > last.line - first.line:
        chosen[-1] = _up_to(chosen[-1], last.character)
    if chosen:
        chosen[0] = chosen[0][len(_up_to(lines[first.line], first.character)) :]
    return "\n".join(chosen)


def _up_to(line: str, units: int) -> str:
    """The characters of ``line`` that begin before the UTF-16 column ``units``."""
    width = 0
    for at, character in enumerate(line):
        if width >= units:
            return line[:at]
        width += utf16_length(character)
    return line


def _find(text: str, request: OpenRequest) -> Range | None:
    """Returns what an ``OpenRequest`` selects, or None if ``start_text`` is not in the text."""
    start = text.find(request.start_text) if request.start_text else 0
    if start < 0:
        return None
    end = start + len(request.start_text or "")
    if request.end_text and (found := text.find(request.end_text, end)) >= 0:
        end = found + len(request.end_text)
    if request.to_end_of_line:
        rest = text[end:].partition("\n")[0]
        end += len(rest.removesuffix("\r"))
    return Range(_position(text, start), _position(text, end))


def _position(text: str, at: int) -> Position:
    line_start = text.rfind("\n", 0, at) + 1
    return Position(text.count("\n", 0, at), utf16_length(text[line_start:at]))
