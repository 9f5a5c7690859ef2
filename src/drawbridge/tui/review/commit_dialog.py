"""The dialog that commits what was kept in a review."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static, TextArea
from textual.widgets.option_list import Option

from drawbridge.text import review_words
from drawbridge.text.counts import counted
from drawbridge.tui.client import Client
from drawbridge.tui.connection import Message, RequestError
from drawbridge.tui.fields import PlainTextArea, pasted
from drawbridge.tui.review.push_dialog import Pushing
from drawbridge.tui.review.reviews import Commit
from drawbridge.tui.wording import block, one_line

BRANCHES: Final = ("The current branch", "A new branch (will be checked out)")

LOW: Final = 24
"""The height in lines below which the dialog shows only what is needed."""


class Committing:
    """The commit of one review, which continues when its dialog is closed. ``changed``: called after every change.
    ``load``: requests the review as it is now. Neither may block."""

    def __init__(self, client: Client, project: str, changed: Callable[[], None], load: Callable[[], None]) -> None:
        self._client = client
        self._project = project
        self._changed = changed
        self._load = load
        self.kept: Sequence[str] = ()
        """The paths of the files that can be committed and that the server has listed."""
        self.offer: Mapping[str, Any] = {}
        """The server's offer to commit; empty if it offers nothing."""

    @property
    def state(self) -> Commit:
        return self._client.reviews.commits[self._project]

    @property
    def is_allowed(self) -> bool:
        """Whether this device may commit. By default, servers do not allow commits."""
        return self._client.features is not None and self._client.may("review_commit")

    @property
    def is_working(self) -> bool:
        return (self._client.projects.all.get(self._project) or {}).get("state") == "EXECUTING"

    @property
    def chosen(self) -> list[str]:
        return [path for path in self.kept if path not in self.state.without]

    def update(self, review: Message) -> None:
        self.kept = review.get("kept", [])
        self.offer = review.get("commit") or {}

    def lines(self, path: str) -> str:
        """The numbers of a file's added and removed lines, as text; empty if they are not known."""
        found = self.offer.get("lines", {}).get(path)
        return f" +{found['added']} −{found['removed']}" if found else ""

    @property
    def obstacle(self) -> str:
        """The reason why commits are not possible in this directory; empty if they are."""
        return str(self.offer.get("problem", ""))

    def begin(self) -> None:
        """Prepares the dialog that is being opened: clears the result of the last commit, and suggests a message unless
        the user has written one."""
        if self.state.done is not None:
            self._client.reviews.clear_commit(self._project)
        state = self.state
        state.problem = state.output = ""
        state.message = state.message or pasted(self.offer.get("message", ""))

    @property
    def why_not(self) -> str:
        """The reason why the user can't commit now; empty if the user can."""
        state = self.state
        if self.is_working:
            return review_words.COMMIT_WORKING
        if not self.kept:
            return review_words.NOTHING_LEFT
        if self.obstacle:
            return self.obstacle
        if not state.message.strip():
            return "Write a message first."
        if not self.chosen:
            return "Choose a file first."
        return "Name the new branch first." if state.is_new_branch and not state.branch.strip() else ""

    async def run(self) -> None:
        state = self.state
        if state.is_busy or self.why_not:
            return
        wish: Message = {"message": state.message}
        wish |= {"branch": state.branch.strip()} if state.is_new_branch else {}
        wish |= {"files": self.chosen} if len(self.chosen) < len(self.kept) else {}
        state.is_busy, state.problem, state.output = True, "", ""
        is_sent = self._client.connection.state == "open"
        self._changed()
        try:
            done = await self._client.commit(self._project, wish)
        except RequestError as error:
            words = review_words.not_committed_words(str(error), error.details)
            state.problem = review_words.COMMIT_LOST if error.code == "OFFLINE" and is_sent else words
            state.output = str(error.details.get("output") or "")
        else:
            self._client.reviews.committed(self._project, done)
        finally:
            state.is_busy = False
            self._load()
            self._changed()


PARTS: Final = ".draft, .path, #branches, #files, .count, .notice, .output, .identity, .hint"
"""All widgets that ``CommitDialog.show`` needs."""


class CommitDialog(ModalScreen[None]):
    """The dialog that commits what was kept. ``run``: commits in the background. ``push``: opens the push dialog.
    ``show`` must be called after every change. Input is kept when the dialog is closed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "commit", show=False, priority=True),
        Binding("space", "choose", show=False),
        Binding("P", "push", show=False),
        Binding("escape", "dismiss(None)", show=False),
    ]

    def __init__(
        self, committing: Committing, run: Callable[[], None], pushing: Pushing, push: Callable[[], None]
    ) -> None:
        super().__init__()
        self._committing = committing
        self._run = run
        self._pushing = pushing
        self._push = push
        self._listed: dict[str, list[str]] = {}

    def compose(self) -> ComposeResult:
        state = self._committing.state
        with VerticalScroll(classes="dialog wide commit", can_focus=False):
            yield Static(Content("Commit"), classes="title")
            with Vertical(classes="form"):
                yield PlainTextArea(state.message, classes="draft", compact=True, placeholder="Message")
                yield OptionList(id="branches")
                yield Input(state.branch, placeholder="Name of the new branch", compact=True, classes="path")
                yield Static(classes="count")
                yield OptionList(id="files")
            yield Static(classes="notice")
            yield Static(classes="output")
            yield Static(classes="identity")
            yield Static(classes="hint")

    def on_mount(self) -> None:
        area = self.query_one(PlainTextArea)
        area.move_cursor(area.document.end)
        area.focus()
        self.show()

    def show(self) -> None:
        committing, state = self._committing, self._committing.state
        if len(self.query(PARTS)) != PARTS.count(",") + 1:  # the dialog is being opened or closed
            return
        self.query_one(".form").display = state.done is None
        area, branch = self.query_one(PlainTextArea), self.query_one(Input)
        area.read_only = state.is_busy
        branch.display = state.is_new_branch
        self._list()
        self.query_one(".count", Static).update(Content(f"What was kept: {counted(len(committing.kept), 'file')}"))
        self._tell()

    def _list(self) -> None:
        """Lists the branches and the files, with a mark for the chosen ones that does not need color."""
        state, files = self._committing.state, self._committing.kept
        branches = [f"{'●' if at == int(state.is_new_branch) else '○'} {words}" for at, words in enumerate(BRANCHES)]
        paths = [
            f"{' ' if path in state.without else '×'} {one_line(path)}{self._committing.lines(path)}" for path in files
        ]
        for id, lines in (("branches", branches), ("files", [f"[{line[0]}]{line[1:]}" for line in paths])):
            if self._listed.get(id) != lines:
                self._listed[id] = lines
                options = self.query_one(f"#{id}", OptionList)
                at = options.highlighted or 0
                options.clear_options()
                options.add_options([Option(Content(line)) for line in lines])
                options.highlighted = min(at, len(lines) - 1) if lines else None

    def _tell(self) -> None:
        committing, state = self._committing, self._committing.state
        done = state.done
        problem = state.problem or (review_words.COMMIT_WORKING if committing.is_working else committing.obstacle)
        words = review_words.committed_words(done) if done is not None else "Committing…" if state.is_busy else problem
        notice = self.query_one(".notice", Static)
        notice.set_class(done is not None, "-done")
        notice.display = bool(words)
        notice.update(Content(block(words)))
        output = str(done.get("output") or "") if done is not None else state.output
        shown = self.query_one(".output", Static)
        shown.display = bool(output)
        shown.update(Content.assemble(("Output of git", "$soft"), f"\n{block(output)}"))
        keys = f"Ctrl-S commit {counted(len(committing.chosen), 'file')} · Tab next field · Space choose · Esc close"
        after = "P push · Esc close" if self._pushing.is_waiting else "Esc close"
        self.query_one(".hint", Static).update(Content(keys if done is None else after))
        author = str(committing.offer.get("author", ""))
        about = [f"Author: {one_line(author)}"] if author else []
        self.query_one(".identity", Static).update(Content("\n".join([*about, review_words.COMMIT_HINT])))
        self.query_one(".identity").display = done is None and not words and self.size.height >= LOW
        if done is not None or problem:
            self.call_after_refresh(notice.scroll_visible, animate=False)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        self._committing.state.message = event.text_area.text

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._committing.state.branch = event.value

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_commit()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        committing, state = self._committing, self._committing.state
        if state.is_busy:
            return
        if event.option_list.id == "branches":
            state.is_new_branch = event.option_index == 1
        elif event.option_index < len(committing.kept):
            state.without ^= {committing.kept[event.option_index]}
        self.show()
        if event.option_list.id == "branches" and state.is_new_branch:
            self.query_one(Input).focus()

    def action_choose(self) -> None:
        """Selects the option with the space bar, except in text fields, where it types a space."""
        if isinstance(self.focused, OptionList):
            self.focused.action_select()

    def action_push(self) -> None:
        if self._committing.state.done is not None and self._pushing.is_waiting:
            self.dismiss(None)
            self._push()

    def on_resize(self) -> None:
        self.set_class(self.size.height < LOW, "-low")

    def action_commit(self) -> None:
        state = self._committing.state
        if state.done is not None or state.is_busy:
            return
        # The key may be handled before the event about the text that was typed before it.
        state.message, state.branch = self.query_one(PlainTextArea).text, self.query_one(Input).value
        why_not, is_working = self._committing.why_not, self._committing.is_working
        # While the agent works, the dialog shows that anyway.
        state.problem, state.output = "" if is_working else why_not, ""
        self.show()
        if not why_not:
            self._run()
