"""The interface of every editor, and its types. Pure: no I/O library is imported here.

Positions are 0-based; columns count UTF-16 code units, as the agents' protocols do (LSP's convention). Each editor
converts from its own units (Neovim: bytes). Paths are absolute and in the editor's own spelling.

Implementations: ``neovim.Neovim``, ``folder.Folder`` (no editor: a directory and a terminal), and ``MemoryEditor`` in the
tests. One suite, ``tests/editors/test_port.py``, runs against all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from drawbridge.text import Split
from drawbridge.text.hunks import Hunk

Severity: TypeAlias = Literal["Error", "Warning", "Info", "Hint"]
Level: TypeAlias = Literal["info", "warn", "error"]


class Position(Struct, frozen=True):
    """A position in a text: ``line`` 0-based, ``character`` 0-based in UTF-16 code units."""

    line: int
    character: int


class Range(Struct, frozen=True):
    """From ``start`` (inclusive) to ``end`` (exclusive)."""

    start: Position
    end: Position

    @property
    def is_empty(self) -> bool:
        return self.start == self.end


class Selection(Struct, frozen=True):
    """What the person has selected in a file; an empty ``range`` is the cursor alone.

    ``text`` is cut at ``SELECTION_LIMIT`` characters; ``range`` always covers the whole selection.
    """

    path: str
    text: str
    range: Range


class Tab(Struct, frozen=True):
    """A file that is open in the editor (Neovim: a listed buffer of a real file)."""

    path: str
    active: bool
    modified: bool
    language: str
    line_count: int


class Diagnostic(Struct, frozen=True):
    message: str
    severity: Severity
    range: Range
    source: str | None = None
    code: str | None = None


class FileDiagnostics(Struct, frozen=True):
    path: str
    diagnostics: tuple[Diagnostic, ...]


class BufferStatus(Struct, frozen=True):
    """The state of a file that is open in the editor. ``untitled``: it has never been written to disk."""

    modified: bool
    untitled: bool


class BridgeState(Struct, frozen=True):
    """What the person can see of the bridge: where it listens, and which agents are connected (``agents``: their names).

    ``token`` lets the editor hand the same one to a restarted bridge, so that agents reconnect by themselves. ``pids``
    are the processes of the agents that report theirs: the guard asks for them, so that no agent receives a notice twice.
    ``unasked`` are the agents that have written a file without a proposal since the last one that they made.
    """

    port: int
    token: str
    agents: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()
    unasked: tuple[str, ...] = ()


class OpenRequest(Struct, frozen=True):
    """Show a file: with ``focus`` in front of the person, without it only loaded, no window changes.

    ``start_text``/``end_text`` select from the first match of the one to the first match of the other after it;
    ``to_end_of_line`` extends the selection to the end of its last line.
    """

    path: str
    focus: bool = True
    start_text: str | None = None
    end_text: str | None = None
    to_end_of_line: bool = False


class OpenedFile(Struct, frozen=True):
    """``found``: whether ``start_text`` was found; True where none was given."""

    path: str
    language: str
    line_count: int
    found: bool = True


class Proposal(Struct, frozen=True):
    """A change that waits for a person.

    ``old_text`` is the person's current text (with unsaved work), ``new_text`` the one that would be written; both are whole
    texts with their own line endings, byte-order mark (as U+FEFF) and final newline. ``hunks`` is the difference in lines.
    ``title`` is the agent's name for it; ``note`` is something that the person must know about this proposal.
    ``kind`` "code" is not a change of a file but code that would be run; its ``old_text`` is empty.
    ``lines``: both texts as ``text.split`` returns them, so that ``Editor.show`` need not split them. An editor does not keep
    them: the lines of a large text take more than twice the memory of the text.
    """

    id: str
    agent: str
    title: str
    path: str
    old_text: str
    new_text: str
    hunks: tuple[Hunk, ...]
    note: str | None = None
    kind: Literal["change", "code"] = "change"
    lines: tuple[Split, Split] | None = None

    def without_lines(self) -> Proposal:
        """A copy without ``lines``, for an editor that stores the proposal."""
        return replace(self, lines=None)


class ReviewedHunk(Struct, frozen=True):
    """A change in the review of runs that nobody has decided.

    ``row``: the first of its new lines in the file, from 0; without new lines, the line that follows it. ``removed`` and
    ``added`` are texts with their line ends. ``words``: what is not in these lines, empty if there is nothing to add.
    ``text``: the change in one short line.
    """

    id: str
    row: int
    removed: str
    added: str
    words: str
    text: str


class ReviewedFile(Struct, frozen=True):
    """A file with such changes. ``path`` is absolute; ``name`` is what decisions on the whole file name; ``shown`` is that
    name as harmless text.

    ``has_lines``: the lines of a buffer with this file are those that the hunks are about, which are not those of a link.
    ``was_deleted``: it does not exist now. ``text``: the change in one short line, of a file without hunks.
    """

    path: str
    name: str
    shown: str
    hunks: tuple[ReviewedHunk, ...]
    has_lines: bool = True
    was_deleted: bool = False
    text: str = ""


class ReviewedComment(Struct, frozen=True):
    """A comment on a file of a review. ``path`` is absolute; ``shown`` is the file's name as harmless text.

    ``first`` to ``last``: its rows in the file, from 0. ``has_place``: they are in the file as it is now. ``text``: the comment
    with its author, in one line. ``is_draft``: it was not sent; ``is_waiting``: it was, and the agent has not received it.
    """

    id: str
    path: str
    shown: str
    first: int
    last: int
    has_place: bool
    text: str
    is_draft: bool
    is_waiting: bool = False


class Review(Struct, frozen=True):
    """What runs have changed and nobody has decided. ``version`` changes with anything in ``files``. ``title``: its numbers.
    ``drafts`` changes with any comment that is a draft."""

    version: str
    title: str
    files: tuple[ReviewedFile, ...]
    comments: tuple[ReviewedComment, ...] = ()
    drafts: str = ""


class Accepted(Struct, frozen=True, tag=True):
    """The person wants exactly ``text`` written: the proposal, as it was or edited."""

    text: str


class Rejected(Struct, frozen=True, tag=True):
    """The person rejected the proposal, or closed the view."""


class Withdrawn(Struct, frozen=True, tag=True):
    """Not decided in this editor: the agent withdrew it, it was decided on another surface, or the connection ended."""

    reason: str


Overwritten: TypeAlias = Literal["reloaded", "unsaved"]
"""What an editor did with a file that an agent wrote: reloaded it, or preserved the person's unsaved changes."""

Decision: TypeAlias = Accepted | Rejected | Withdrawn


# Events of an editor.


class SelectionChanged(Struct, frozen=True):
    """Debounced; never for special buffers (terminals, help, views of proposals), whose focus keeps the last selection."""

    selection: Selection


class Mentioned(Struct, frozen=True):
    """The person wants an agent to look at ``path``; ``lines`` = (first, last), 0-based and inclusive, or the whole file."""

    path: str
    lines: tuple[int, int] | None


class FoldersChanged(Struct, frozen=True):
    folders: tuple[str, ...]


class TerminalsChanged(Struct, frozen=True):
    """The editor's terminals whose agent accepts prompts by ``type_prompt``: the process that was started in each."""

    pids: tuple[int, ...]


class ReviewWanted(Struct, frozen=True):
    """The person wants to see what runs have changed in the directory ``folder``, or where the file ``path`` is (empty
    without a file)."""

    folder: str
    path: str


class ReviewOutdated(Struct, frozen=True):
    """The person has saved a file of the review that is shown."""


class ReviewDecided(Struct, frozen=True):
    """The person has decided a hunk (by its id), or a whole file (by its name), of this ``version`` of the review."""

    decision: Literal["keep", "undo"]
    version: str
    hunk: str | None = None
    file: str | None = None


class ReviewCommented(Struct, frozen=True):
    """The person has commented on the lines ``line`` to ``end_line`` (from 1) of a file (by its name), which are ``quote``."""

    file: str
    line: int
    end_line: int
    quote: str
    text: str


class ReviewCommentRemoved(Struct, frozen=True):
    """The person has removed a draft."""

    comment: str


class ReviewSubmitted(Struct, frozen=True):
    """The person sends the drafts of this version to the agent. ``text``: what the prompt begins with."""

    drafts: str
    text: str


ReviewEvent: TypeAlias = (
    ReviewWanted | ReviewOutdated | ReviewDecided | ReviewCommented | ReviewCommentRemoved | ReviewSubmitted
)


class Decided(Struct, frozen=True):
    """The person has decided the proposal ``proposal_id`` in this editor. Sent at most once for each; its view is closed."""

    proposal_id: str
    decision: Accepted | Rejected


class Gone(Struct, frozen=True):
    """The editor ended or its connection broke. The last event."""


EditorEvent: TypeAlias = SelectionChanged | Mentioned | FoldersChanged | TerminalsChanged | Decided | ReviewEvent | Gone
Listener: TypeAlias = Callable[[EditorEvent], None]

SELECTION_LIMIT = 262_144
"""Characters of a selection's text that an editor reports. Agents cut far below that, and a selected file of 5 MB must not
be sent at each cursor move."""


class Editor(Protocol):
    """A running editor. Calls raise ``EditorGone``, or ``EditorHung`` after 5 s without an answer (later calls work again).

    Events go to the ``listener`` given to ``start``, in the order in which they happened, from the event loop's thread.
    """

    @property
    def name(self) -> str:
        """The name for agents and people: "Neovim"."""
        ...

    @property
    def pid(self) -> int:
        """The editor's process; the bridge's own without an editor."""
        ...

    async def start(self, listener: Listener) -> None: ...

    async def close(self) -> None:
        """Closes every view of Drawbridge and disconnects from the editor. Idempotent."""
        ...

    async def announce(self, state: BridgeState) -> None:
        """Show the state of the bridge (a status line, a message); called at each change."""
        ...

    async def folders(self) -> tuple[str, ...]:
        """The directories the person works in, first the main one."""
        ...

    async def selection(self) -> Selection | None:
        """The selection or cursor of the active file; None when no file is active."""
        ...

    async def tabs(self) -> Sequence[Tab]: ...

    async def diagnostics(self, path: str | None) -> Sequence[FileDiagnostics]:
        """Those of one file (one entry, maybe empty) or of all files that have some. At most ``DIAGNOSTICS_LIMIT`` in all."""
        ...

    async def status(self, path: str) -> BufferStatus | None:
        """The status of the file; None if it is not open."""
        ...

    async def unsaved_text(self, path: str) -> str | None:
        """The whole text of a file that is open with unsaved changes, in the form that saving would write; else None."""
        ...

    async def save(self, path: str) -> None:
        """Save an open file. Raises ``Refused`` with the editor's reason when it is not open or can't be written."""
        ...

    async def open_file(self, request: OpenRequest) -> OpenedFile: ...

    async def show(self, proposal: Proposal) -> None:
        """Show a proposal and return; the decision comes as ``Decided``. The file itself is never touched."""
        ...

    async def proposed_text(self, proposal_id: str) -> str | None:
        """The text of an open proposal as the person has edited it so far; None for one that is not shown."""
        ...

    async def withdraw(self, proposal_id: str) -> None:
        """Close the view of a proposal without a decision, and nothing else. Unknown ids are ignored."""
        ...

    async def written(self, path: str, text: str, proposal_id: str) -> None:
        """The agent wrote an accepted proposal (``text`` is on disk now): show the file as it is on disk.

        An unmodified buffer is reloaded. A buffer with unsaved changes receives ``text`` only if it has not changed since the
        proposal was shown (whose ``new_text`` contained those changes); otherwise it is left unchanged.
        """
        ...

    async def overwritten(self, path: str) -> Overwritten | None:
        """An agent wrote ``path`` without a proposal: show the file as it is on disk, unless it has unsaved changes.

        None if the file is not open, or the editor has already shown exactly this text.
        """
        ...

    async def type_prompt(self, terminal: int, text: str) -> None:
        """Send a prompt to the agent in a terminal, named by its process, as if the person had typed it; focus and mode stay.

        Control characters are removed, except line endings and tabs. Raises ``Refused`` if nothing was sent: the terminal no
        longer exists, shows no prompt, or the person has begun to type in it.
        """
        ...

    async def show_review(self, review: Review | None, *, is_wanted: bool) -> None:
        """Shows the review in the place of the former one, and the files that it is about as they are on disk, except those
        with unsaved changes. None if no review is to be shown now. ``is_wanted``: whether the user has asked for it."""
        ...

    async def notify(self, message: str, level: Level = "info") -> None:
        """Shows a notice that needs no answer; returns without waiting for the person."""
        ...


DIAGNOSTICS_LIMIT = 1_000
"""Diagnostics reported in one answer; thousands have blocked the agent's screen."""
