"""The interface of every editor, and its types. Pure: no I/O library is imported here.

Positions are 0-based, and columns count UTF-16 code units, as the agents' protocols do (LSP's convention). Each editor
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
    """A position in text: ``line`` 0-based, ``character`` 0-based in UTF-16 code units."""

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
    """The user's selection in a file. An empty ``range`` is the cursor alone.

    ``text`` is cut at ``SELECTION_LIMIT`` characters, but ``range`` always covers the whole selection.
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
    """The state of a file that is open in the editor. ``untitled``: the file does not exist on disk."""

    modified: bool
    untitled: bool


class BridgeState(Struct, frozen=True):
    """The state of the bridge, as its editor sees it. ``agents``: the names of the connected agents.

    ``token``: the editor passes it to a restarted bridge, so that agents reconnect automatically. ``pids``: the process
    ids of the agents that report one. The guard asks for them, so that no agent receives the same context twice.
    ``unasked``: the agents that wrote a file without a proposal after their last proposal.
    """

    port: int
    token: str
    agents: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()
    unasked: tuple[str, ...] = ()


class OpenRequest(Struct, frozen=True):
    """A request to show a file. With ``focus``, the user sees it. Otherwise, it is only loaded, and no window changes.

    The selection goes from the first match of ``start_text`` to the next match of ``end_text`` after it, or is only the
    first match if ``end_text`` is None, is empty or does not follow. ``to_end_of_line`` extends the selection to the
    end of its last line.
    """

    path: str
    focus: bool = True
    start_text: str | None = None
    end_text: str | None = None
    to_end_of_line: bool = False


class OpenedFile(Struct, frozen=True):
    """A file that the editor has opened. ``found``: whether ``start_text`` was found; also True if none was given."""

    path: str
    language: str
    line_count: int
    found: bool = True


class Proposal(Struct, frozen=True):
    """A change that waits for the user's decision.

    ``old_text`` is the user's current text (with unsaved work), ``new_text`` the text that would be written. Both are
    complete, with their own line endings, byte-order mark (as U+FEFF) and final newline. ``hunks`` is the diff, by
    lines. ``title`` is the agent's name for the proposal; ``note`` is something that the user has to know about it.
    With ``kind`` "code", the proposal is not a change to a file but code that would be run, and ``old_text`` is empty.
    ``lines``: both texts as ``text.split`` returns them, so that ``Editor.show`` does not need to split them. An editor
    does not keep them, because the lines of a large text take more than twice the memory of the text itself.
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
    """An undecided change in the review of runs.

    ``row``: the first of its new lines in the file, from 0; without new lines, the line that follows the change.
    ``removed`` and ``added`` are texts with their line endings. ``words`` describes what is not in these lines, and
    names the comments that the change answers; it may be empty. ``text``: the change in one short line. ``is_new``:
    whether it is new since the user's last visit, while other changes are not.
    """

    id: str
    row: int
    removed: str
    added: str
    words: str
    text: str
    is_new: bool = False


class ReviewedFile(Struct, frozen=True):
    """A file with undecided changes. ``path`` is absolute; ``name`` identifies the file in decisions that apply to the
    whole file; ``shown`` is that name as harmless text.

    ``has_lines``: whether the hunks are about the lines that a buffer with this file shows; False for a link, for
    example. ``was_deleted``: whether it no longer exists. ``text``: the change in one short line, for a file without
    hunks.
    """

    path: str
    name: str
    shown: str
    hunks: tuple[ReviewedHunk, ...]
    has_lines: bool = True
    was_deleted: bool = False
    text: str = ""


class ReviewedComment(Struct, frozen=True):
    """A comment on a file in a review. ``path`` is absolute; ``shown`` is the file's name as harmless text.

    ``first`` to ``last``: its rows in the file, from 0. ``has_place``: whether the current file has these rows; False
    for a comment on removed lines and for an outdated one. ``text``: the comment with its author, on one line.
    ``is_draft``: whether it has not been sent yet; ``is_waiting``: whether it has been sent but not received by the
    agent; ``is_resolved``: whether it is resolved.
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
    is_resolved: bool = False


class Review(Struct, frozen=True):
    """The undecided changes of runs. ``version`` changes whenever anything in ``files`` does. ``title``: the numbers of
    files and lines as text, such as "2 files +3 −1". ``drafts`` changes whenever a draft comment changes. ``only_new``:
    whether the editor hides the changes that are not new. The comments are shown in any case. ``more``: the number of
    files with undecided changes that are not in ``files``."""

    version: str
    title: str
    files: tuple[ReviewedFile, ...]
    comments: tuple[ReviewedComment, ...] = ()
    drafts: str = ""
    only_new: bool = False
    more: int = 0

    @property
    def hunk_ids(self) -> frozenset[str]:
        return frozenset(hunk.id for file in self.files for hunk in file.hunks)

    @property
    def count(self) -> int:
        """The number of changes. A file without hunks counts as one change."""
        return sum(len(file.hunks) or 1 for file in self.files)


class Accepted(Struct, frozen=True, tag=True):
    """The user wants exactly ``text`` to be written: the proposal, unchanged or as the user has edited it."""

    text: str


class Rejected(Struct, frozen=True, tag=True):
    """The user rejected the proposal, or closed the view."""


class Withdrawn(Struct, frozen=True, tag=True):
    """The proposal was not decided in this editor, because the agent withdrew it, it was decided on another surface, or
    the connection ended."""

    reason: str


Overwritten: TypeAlias = Literal["reloaded", "unsaved"]
"""The way in which an editor handled a file that an agent wrote: it reloaded the file, or preserved the user's unsaved
changes."""

Decision: TypeAlias = Accepted | Rejected | Withdrawn


# Events of an editor.


class SelectionChanged(Struct, frozen=True):
    """The selection or the cursor has moved. This is debounced, and never sent for special buffers (terminals, help,
    views of proposals). While they have the focus, the last selection remains the current one."""

    selection: Selection


class Mentioned(Struct, frozen=True):
    """The user wants an agent to look at ``path``. ``lines``: (first, last), 0-based and inclusive; None for the whole
    file."""

    path: str
    lines: tuple[int, int] | None


class FoldersChanged(Struct, frozen=True):
    folders: tuple[str, ...]


class TerminalsChanged(Struct, frozen=True):
    """The editor's terminals in which an agent accepts prompts by ``type_prompt`` have changed. ``pids``: the process
    that was started in each of them."""

    pids: tuple[int, ...]


class ReviewWanted(Struct, frozen=True):
    """The user wants to see what runs changed in a directory that contains the file ``path`` (empty without a file) or,
    if nothing is found there, in the directory ``folder``. ``only_new``: only the changes since the last visit."""

    folder: str
    path: str
    only_new: bool = False


class ReviewOutdated(Struct, frozen=True):
    """The user has saved a file in the review that is shown."""


class ReviewSeen(Struct, frozen=True):
    """These ``hunks`` (by their ids) of the review have been on the screen, from their first to their last row."""

    hunks: tuple[str, ...]


class ReviewDecided(Struct, frozen=True):
    """The user has decided on a hunk (by its id), on a whole file (by its name) or on ``all`` files in this ``version``
    of the review."""

    decision: Literal["keep", "undo"]
    version: str
    hunk: str | None = None
    file: str | None = None
    all: bool = False


class ReviewCommented(Struct, frozen=True):
    """The user has commented on the lines ``line`` to ``end_line`` (from 1) of a file (by its name). ``quote``: the
    text of these lines; ``text``: the comment. ``suggestion``: the text that the user suggests instead of these lines, if
    any; ``window``: the id of the window in which the user wrote it, for ``Editor.suggested``; ``id``: the id of the
    request, which is the same if the user sends the suggestion again.
    """

    file: str
    line: int
    end_line: int
    quote: str
    text: str
    suggestion: str | None = None
    window: int | None = None
    id: str | None = None


class ReviewCommentRemoved(Struct, frozen=True):
    """The user has removed a draft."""

    comment: str


class ReviewCommentResolved(Struct, frozen=True):
    """The user has resolved a comment that was sent, or reopened it (``resolved`` false)."""

    comment: str
    resolved: bool


class ReviewSubmitted(Struct, frozen=True):
    """The user sends the drafts to the agent. ``drafts``: the version of the drafts that the user has seen; ``text``:
    the beginning of the prompt."""

    drafts: str
    text: str


ReviewEvent: TypeAlias = (
    ReviewWanted
    | ReviewOutdated
    | ReviewSeen
    | ReviewDecided
    | ReviewCommented
    | ReviewCommentRemoved
    | ReviewCommentResolved
    | ReviewSubmitted
)


class Decided(Struct, frozen=True):
    """The user has decided on a proposal in this editor. This is sent at most once for each proposal. Its view is then
    closed."""

    proposal_id: str
    decision: Accepted | Rejected


class Gone(Struct, frozen=True):
    """The editor has ended, or its connection was lost. No event follows."""


EditorEvent: TypeAlias = SelectionChanged | Mentioned | FoldersChanged | TerminalsChanged | Decided | ReviewEvent | Gone
Listener: TypeAlias = Callable[[EditorEvent], None]

SELECTION_LIMIT = 262_144
"""The maximum number of characters of a selection's text that an editor reports. Agents use far less, and a selection
of 5 MB must not be sent with each cursor movement.
"""


class Editor(Protocol):
    """A running editor. Calls raise ``EditorGone``, or ``EditorHung`` after 5 s without an answer (later calls may
    succeed).

    Events go to the ``listener`` given to ``start``, in the order in which they happened, from the event loop's thread.
    """

    @property
    def name(self) -> str:
        """The name that agents and users see, for example "Neovim"."""
        ...

    @property
    def pid(self) -> int:
        """The editor's process id; the bridge's own without an editor."""
        ...

    async def start(self, listener: Listener) -> None: ...

    async def close(self) -> None:
        """Closes all of Drawbridge's views and disconnects from the editor. Idempotent."""
        ...

    async def announce(self, state: BridgeState) -> None:
        """Shows the state of the bridge, for example in a status line or a message. Called after each change."""
        ...

    async def folders(self) -> tuple[str, ...]:
        """The directories that the user works in, the main one first."""
        ...

    async def selection(self) -> Selection | None:
        """The selection or cursor of the active file; None if no file is active."""
        ...

    async def tabs(self) -> Sequence[Tab]: ...

    async def diagnostics(self, path: str | None) -> Sequence[FileDiagnostics]:
        """The diagnostics of the file ``path`` (one entry, which may be empty) or, if ``path`` is None, of all files
        that have any. At most ``DIAGNOSTICS_LIMIT`` in total."""
        ...

    async def status(self, path: str) -> BufferStatus | None:
        """The status of the file; None if it is not open."""
        ...

    async def unsaved_text(self, path: str) -> str | None:
        """The whole text of a file that is open with unsaved changes, in the form that saving would write; otherwise
        None."""
        ...

    async def save(self, path: str) -> None:
        """Saves an open file. Raises ``Refused`` with the editor's reason if it is not open or can't be written."""
        ...

    async def open_file(self, request: OpenRequest) -> OpenedFile: ...

    async def show(self, proposal: Proposal) -> None:
        """Shows a proposal and returns. The decision follows as ``Decided``. The file itself is never changed."""
        ...

    async def proposed_text(self, proposal_id: str) -> str | None:
        """The text of an open proposal as the user has edited it so far; None for one that is not shown."""
        ...

    async def withdraw(self, proposal_id: str) -> None:
        """Closes the view of a proposal without a decision, and nothing else. Unknown ids are ignored."""
        ...

    async def written(self, path: str, text: str, proposal_id: str) -> None:
        """Shows a file as it is on disk (``text``) after the agent has written it. ``proposal_id``: the proposal that
        was accepted with this text; "" if the agent has written something else.

        An unmodified buffer is reloaded. A buffer with unsaved changes receives ``text`` only if a proposal was
        accepted that contained those changes: the buffer has not changed since ``unsaved_text`` or, if that was not
        called for the proposal, ``show``. Otherwise, it is left unchanged.
        """
        ...

    async def overwritten(self, path: str) -> Overwritten | None:
        """Shows ``path`` as it is on disk, unless it has unsaved changes, after an agent has written it without a
        proposal.

        Returns what was done; None if the file is not open, or the editor has already shown exactly this text.
        """
        ...

    async def reload(self, directory: str) -> None:
        """Shows the open files below ``directory``, a path with links resolved, as they are on disk, except those with
        unsaved changes."""
        ...

    async def type_prompt(self, terminal: int, text: str) -> None:
        """Sends a prompt to the agent in the terminal with the process ``terminal``, as if the user had typed it. The
        focus and the mode do not change.

        Control characters are removed, except line endings and tabs. Raises ``Refused`` if nothing was sent, for
        example because the terminal no longer exists, shows no prompt box, or the user has begun to type in it.
        """
        ...

    async def show_review(self, review: Review | None, *, is_wanted: bool) -> None:
        """Replaces the previous review with this one, and reloads the files of both from disk, except those with
        unsaved changes. ``review``: None to show no review and reload no files. ``is_wanted``: whether the user asked
        for the review.
        """
        ...

    async def suggested(self, window: int, *, is_added: bool) -> None:
        """Closes the window of a suggestion after its comment was added; otherwise shows the window with the text again,
        so that the text is not lost. ``window``: see ``ReviewCommented``. Unknown windows are ignored."""
        ...

    async def copy(self, text: str) -> str:
        """Copies a text, so that the user can paste it. Returns where it is now, in a few words; empty if this editor
        can't copy."""
        ...

    async def notify(self, message: str, level: Level = "info") -> None:
        """Shows a notice that needs no answer. Returns without waiting for the user."""
        ...


DIAGNOSTICS_LIMIT = 1_000
"""The maximum number of diagnostics in one answer. Thousands of them froze the agent's screen."""
