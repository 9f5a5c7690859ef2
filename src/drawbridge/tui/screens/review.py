"""The review of a project: what its runs have changed, and each way to decide on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static, TextArea
from textual.worker import Worker

from drawbridge.text import review_words
from drawbridge.text.counts import counted
from drawbridge.text.review_words import Comment, Decision
from drawbridge.tui import answers, wording
from drawbridge.tui.bar import Bar
from drawbridge.tui.client import Client
from drawbridge.tui.connection import Message, RequestError
from drawbridge.tui.dialogs import ConfirmDialog
from drawbridge.tui.drawing import Painter
from drawbridge.tui.fields import PlainTextArea
from drawbridge.tui.key_hints import KeyHints
from drawbridge.tui.requests import WARNING_SECONDS, do_lasting
from drawbridge.tui.review import parts as review_parts
from drawbridge.tui.review.comment_dialogs import CommentDialog, CommentsDialog, SendDialog
from drawbridge.tui.review.comments import Writing
from drawbridge.tui.review.commit_dialog import CommitDialog
from drawbridge.tui.review.contents import Events, ReviewContents
from drawbridge.tui.review.parts import Part
from drawbridge.tui.review.push_dialog import PushDialog
from drawbridge.tui.review.reviews import Commit, Push
from drawbridge.tui.review.status import about, status, ways_on
from drawbridge.tui.review.view import ReviewView

READING_SECONDS: Final = 0.5
"""The number of seconds for which keys decide nothing after another change has automatically become the current one,
because they may be meant for the previous change."""

REPEAT_SECONDS: Final = 0.15
"""The maximum number of seconds between two repeats of a key that is held down."""

EMPTY: Final = "Changes made by the agent’s runs are shown here until someone decides on them."
UNSEEN: Final = "You have not seen all of this change: scroll through it (Space, PgUp) before you decide on it."
UNSHOWABLE: Final = (
    "The lines contain characters that a terminal can’t show: edit them in the web UI, or edit the file in an editor."
)


class ReviewScreen(Screen[None]):
    """Draws the review as the server last sent it. Every decision is a request that runs in the background."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "decide('keep')", "keep"),
        Binding("u", "decide('undo')", "undo"),
        Binding("e", "edit", "edit"),
        Binding("ctrl+s", "save", "keep edited version", priority=True),
        Binding("enter", "write", show=False),
        Binding("d", "discard", show=False),
        Binding("question_mark", "help", "help"),
        Binding("escape", "back", "back"),
        Binding("c", "comment", "comment"),
        Binding("n", "switch", "only new or all"),
        Binding("S", "send_comments", "send"),
        Binding("M", "commit", "commit"),
        Binding("P", "push", "push"),
        Binding("C", "comments", "comments"),
        Binding("y", "copy", show=False),
        Binding("A", "decide_file('keep')", "keep file"),
        Binding("U", "decide_file('undo')", "undo file"),
        Binding("K", "decide_all('keep')", "keep all"),
        Binding("X", "decide_all('undo')", "undo all"),
        Binding("g", "end(False)", show=False),
        Binding("G", "end(True)", show=False),
        Binding("q", "app.quit", show=False),
        Binding("ctrl+q", "app.quit", show=False),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
    ]

    def __init__(self, client: Client, painter: Painter, project: str) -> None:
        super().__init__()
        self._client = client
        self._painter = painter
        self._project = project
        self._contents = ReviewContents(
            client,
            project,
            Events(self._run, self._arrived, self._comments_changed, self._texts_changed, self._redraw),
        )
        self._commenting = self._contents.commenting
        self._committing = self._contents.committing
        self._pushing = self._contents.pushing
        self._visiting = self._contents.visiting
        self._note = ""
        """The result of the last decision, or why a key has no effect."""
        self._editing: str | None = None
        """The key of the part with the lines that are being edited."""
        self._is_sending = False
        self._shown_at = 0.0

    def compose(self) -> ComposeResult:
        yield Bar()
        yield ReviewView(self._painter)
        yield Static(id="nothing")
        yield PlainTextArea(classes="draft", tab_behavior="indent", show_line_numbers=True, compact=True)
        yield Static(id="about")
        yield Static(id="status")
        yield KeyHints()

    def on_mount(self) -> None:
        self._view.focus()
        self._client.reviews.changes(self._project)
        self.load()
        self.show()

    def on_unmount(self) -> None:
        self._contents.end()

    def on_screen_resume(self) -> None:
        """Restarts the wait of ``READING_SECONDS`` when this screen is in front again."""
        self._shown_at = time.monotonic()
        for view in self.query(ReviewView):
            view.record_visible()

    @property
    def has_waiting_comments(self) -> bool:
        """Whether comments wait for the agent of a terminal session."""
        return self._commenting.handover == "waiting"

    @property
    def _view(self) -> ReviewView:
        return self.query_one(ReviewView)

    @property
    def _field(self) -> PlainTextArea:
        return self.query_one(PlainTextArea)

    @property
    def _is_there(self) -> bool:
        """Whether all widgets exist. They do not while the screen is being built or closed."""
        return self.is_attached and len(self.query_children("Bar, #review, #nothing, .draft, #about, #status")) == 6

    @property
    def _directory(self) -> str:
        project = self._client.projects.all.get(self._project)
        return wording.base_name(project["path"]) if project is not None else ""

    # Drawing.

    def show(self) -> None:
        """Draws the current state, and loads the review if it may have changed."""
        if not self._is_there:
            return
        self._contents.refresh()
        self.query_one(Bar).show(f"Review of {self._directory}", "", self._client.connection)
        self._draw()

    def _draw(self) -> None:
        view, part, contents = self._view, self._view.part, self._contents
        is_empty = contents.version is not None and not contents.parts
        view.display = not is_empty
        nothing = self.query_one("#nothing", Static)
        nothing.display = is_empty
        missing = f"{wording.one_line(contents.missing)}\n\n" if contents.missing else ""
        nothing.update(Content(f"{review_words.NOTHING}\n\n{missing}{EMPTY}\n\n{ways_on(contents)}Esc goes back."))
        field = self._field
        field.display = self._editing is not None
        field.read_only = self._is_sending or self._is_lost
        if (field.has_focus and not field.display) or self.focused is None:
            view.focus()
        line = self.query_one("#about", Static)
        words = "Sending…" if self._is_sending else self._note or contents.problem
        words = words or about(contents, part, view.choice, self._editing)
        line.update(Content(wording.one_line(words)))
        line.display = bool(words)
        conversation = self._client.conversation
        needs_user = conversation is not None and bool(conversation.open)
        self.query_one("#status", Static).update(status(contents, part, needs_user=needs_user))
        self.refresh_bindings()
        for dialog in self.app.screen_stack:
            if isinstance(dialog, CommentDialog | CommentsDialog | SendDialog | CommitDialog | PushDialog):
                dialog.show()

    @property
    def _is_lost(self) -> bool:
        """Whether the hunk that is being edited no longer needs a decision."""
        return self._editing is not None and all(
            part.key != self._editing or part.is_gone for part in self._contents.parts
        )

    # Loading the review.

    def load(self) -> None:
        """Requests the review as it is now. Calls during a request lead to only one more request."""
        self._contents.load()

    def _run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        _: Worker[None] = self.run_worker(work)

    def _arrived(self, number: int, found: Message | None, *, is_mine: bool = False) -> None:
        """Shows a review, unless a later one is already shown. ``found``: None if nothing is left to review;
        ``is_mine``: whether it is the reply to the user's own decision."""
        if not self._is_there:
            return
        if found is None:
            if self._contents.close(number):
                self._show_written()
            return
        change = self._contents.take(number, found, is_mine=is_mine)
        if change is None:
            return
        self._note = change.note or self._note
        if change.parts:
            self._show_parts()
        if change.words:
            self.notify(wording.block(change.words), markup=False)
        self._redraw()

    def _show_parts(self) -> None:
        """Shows all parts or, if the user wants to see only what is new, the new ones."""
        view, contents = self._view, self._contents
        current, hidden = view.current, contents.choose_parts(self._editing)
        view.show(contents.parts, contents.more_words, self._commenting.remarks(), self._visiting.new, hidden)
        if view.current != current:
            self._shown_at = time.monotonic()

    def on_review_view_changed(self, event: ReviewView.Changed) -> None:
        event.stop()
        self._visiting.saw(part.key for part in self._contents.parts if self._view.is_seen(part.key))
        self._contents.bring_texts(self._view.paths)
        self._redraw()

    def _redraw(self) -> None:
        if self._is_there:
            self._draw()
        else:
            self._client.on_change()  # the same review may be open again

    def _texts_changed(self) -> None:
        if self._is_there:
            self._view.put_texts(self._contents.texts)

    def _report(self, words: str, output: str = "") -> None:
        """Shows the result of a request below the review or, if the review was closed in the meantime, as a notice.
        ``output``: what a program has printed, which only the notice contains."""
        if self._is_there:
            self._note = words
        elif words:
            lines = [f"Review of {self._directory}: {words}", *filter(None, [output])]
            self.app.notify(wording.block("\n".join(lines)), timeout=WARNING_SECONDS, markup=False)

    # Decisions.

    @property
    def _may_decide(self) -> bool:
        return self._contents.may_decide and bool(self._contents.parts)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        view, is_editing = self._view if self._is_there else None, self._editing is not None
        part = view.part if view is not None else None
        is_choosing = view is not None and view.choice is not None
        match action:
            case "write":
                return is_choosing
            case "decide" | "decide_file" | "decide_all" | "edit" | "discard" if is_choosing:
                return False
            case "comment":
                return self._commenting.may_write and not is_editing and part is not None
            case "comments":
                return not is_editing and not is_choosing and bool(self._commenting.all)
            case "send_comments":
                has_some = bool(self._commenting.drafts or self._commenting.unsaved)
                return self._commenting.may_send and not is_editing and not is_choosing and has_some
            case "copy":
                return not is_editing and not is_choosing and bool(self._commenting.unsent)
            case "commit":
                return (
                    self._committing.is_allowed and not is_editing and not is_choosing and bool(self._committing.kept)
                )
            case "switch":
                return not is_editing and not is_choosing and bool(self._visiting.new)
            case "push":
                return not is_editing and not is_choosing and self._pushing.is_waiting
            case "decide" | "decide_file" | "decide_all":
                return self._may_decide and not is_editing
            case "edit":
                return self._may_decide and not is_editing and part is not None and review_parts.may_edit(part)
            case "save":
                return is_editing and not self._is_lost
            case "discard":
                has_words = part is not None and (
                    part.key in self._contents.drafts or self._commenting.at(part.key) is not None
                )
                return not is_editing and has_words
            case "help" | "end":
                return not is_editing
        return True

    @property
    def _is_ready(self) -> bool:
        """Whether keys decide now. A key that is held down decides on only one change."""
        now = time.monotonic()
        if self._is_sending or now - self._shown_at < READING_SECONDS:
            self._shown_at = max(self._shown_at, now - READING_SECONDS + REPEAT_SECONDS)
            return False
        return True

    def _is_shown(self, part: Part) -> bool:
        """Whether all of the current part has been on the screen and some of it is there now. If not, scrolls to the
        part or notifies the user."""
        view = self._view
        if not view.is_in_view:
            view.go(part.key)
            return False
        view.record_visible()
        if not view.is_seen(part.key):
            self._say(UNSEEN)
            return False
        return True

    def action_decide(self, decision: Decision) -> None:
        part = self._view.part
        if part is None or not self._is_ready or self._is_refused(decision):
            return
        if part.is_gone:
            self._say("This change no longer needs a decision: d discards what you wrote.")
        elif self._is_shown(part):
            if part.hunk is not None:
                self._send({"hunks": [part.hunk["id"]], "decision": decision}, part.key)
                return
            text = "They are too large to show here. Read them in an editor first."
            title = f"{review_words.VERBS[decision]} all changes in {part.path}?"
            self._ask(decision, title, text, {"files": [part.path], "decision": decision}, part.key)

    def action_decide_file(self, decision: Decision) -> None:
        part = self._view.part
        if self._visiting.hides_others:
            self._say(review_words.OTHERS_HIDDEN)
        elif part is not None:
            some = [one for one in self._contents.parts if one.path == part.path and not one.is_gone]
            wish = {"files": [part.path], "decision": decision}
            self._decide_some(decision, some, part.path, wish, what="the whole file")

    def action_decide_all(self, decision: Decision) -> None:
        some = [part for part in self._contents.parts if not part.is_gone]
        where = counted(len(self._contents.files), "file")
        if self._visiting.hides_others:
            self._say(review_words.OTHERS_HIDDEN)
        elif why_not := review_parts.why_not_all(some, self._contents.more, self._contents.drafts.keys()):
            self._say(why_not)
        else:
            self._decide_some(decision, some, where, {"all": True, "decision": decision})

    def _decide_some(
        self, decision: Decision, some: Sequence[Part], where: str, wish: Message, what: str = "all changes at once"
    ) -> None:
        """Asks the user once to confirm the decision on several changes, and shows their number. A single change is
        decided on as ``action_decide`` does. ``what``: as in ``review_parts.why_not_all``."""
        if not self._is_ready or self._is_refused(decision) or not some:
            return
        if len(some) == 1:
            self._view.go(some[0].key)
            self.action_decide(decision)
        elif why_not := review_parts.why_not_all(some, 0, self._contents.drafts.keys(), what):
            self._say(why_not)
        else:
            unseen = sum(not self._view.is_seen(part.key) for part in some)
            self._ask(decision, *review_words.question(decision, len(some), unseen, where), wish, None)

    def _ask(self, decision: Decision, title: str, text: str, wish: Message, key: str | None) -> None:
        wish = {**wish, "version": self._contents.version}

        def answered(yes: bool | None) -> None:
            if yes and not self._is_sending:
                self._send(wish, key)

        self.app.push_screen(ConfirmDialog(title, text, review_words.VERBS[decision]), answered)

    def _is_refused(self, decision: Decision | None) -> bool:
        """Whether the decision is refused because the agent is working. If so, the user is notified."""
        why_not = self._contents.why_not_written if decision != "keep" else ""
        if why_not:
            self._say(why_not)
        return bool(why_not)

    def _send(self, wish: Message, key: str | None) -> None:
        """Sends a decision. ``key``: the key of the part that it is about; None if it is about several."""
        self._is_sending, self._note = True, ""
        self._draw()
        do_lasting(self, self._decide(wish, key))

    async def _decide(self, wish: Message, key: str | None) -> None:
        number = self._contents.begin_request()
        try:
            left = await self._client.decide_review(self._project, wish)
        except RequestError as error:
            by = self._client.called(error.details) if error.details.get("by") else ""
            is_hunk = "hunks" in wish
            self._report(review_words.refused_words(error.code, error.details, str(error), by, is_hunk=is_hunk))
            self.load()
        else:
            self._contents.drafts.pop(key or "", None)
            if key is not None and key == self._editing:
                self._editing = None
            if self._contents.is_latest(number):
                self._arrived(number, left, is_mine=True)
            else:
                self.load()
        finally:
            self._is_sending = False
            self._redraw()

    def _say(self, words: str) -> None:
        self._note = words
        self._draw()

    def on_key(self) -> None:
        """Clears the message about the previous key."""
        if self._note and not self._is_sending:
            self._note = ""
            self._redraw()

    # Editing.

    def action_edit(self) -> None:
        part = self._view.part
        if (
            part is None
            or part.hunk is None
            or not self._is_ready
            or self._is_refused(None)
            or not self._is_shown(part)
        ):
            return
        draft = self._contents.drafts.get(part.key)
        text = review_parts.field_text(part.hunk)
        if not answers.is_plain(text):
            self._say(UNSHOWABLE)
            return
        self._editing = part.key
        field = self._field
        field.load_text(text if draft is None else draft.text)
        field.indent_type = "tabs" if "\t" in field.text else "spaces"
        self._note = ""
        self._draw()
        field.focus()
        self.call_after_refresh(partial(self._view.go, part.key))

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        self._keep_draft()

    def _keep_draft(self) -> None:
        part, text = self._edited, self._field.text
        if part is not None:
            self._contents.keep_draft(part, text)

    @property
    def _edited(self) -> Part | None:
        return next((part for part in self._contents.parts if part.key == self._editing), None)

    def action_save(self) -> None:
        part = self._edited
        if part is None or part.hunk is None or self._is_sending or self._is_refused(None):
            return
        self._keep_draft()
        draft = self._contents.drafts.get(part.key)
        if draft is None:
            self._say("You have not changed anything yet. Esc goes back.")
        else:
            self._send({"hunks": [part.hunk["id"]], "text": review_parts.edited_text(part.hunk, draft.text)}, part.key)

    def action_discard(self) -> None:
        """Discards the edit of the current change or, if it has not been edited, its unsaved comment."""
        part = self._view.part
        if part is None:
            return
        written = self._commenting.at(part.key)
        if self._contents.drafts.pop(part.key, None) is None:
            if written is None or written.is_busy:
                return
            self._commenting.writings.remove(written)
        self._show_written()

    # Comments and commits.

    def _show_written(self) -> None:
        """Updates the view after one of the user's texts was changed or removed."""
        self._contents.keep_written()
        self._show_parts()
        self._draw()

    def _comments_changed(self) -> None:
        if self._is_there:
            self._show_written()
        else:
            self._client.on_change()  # the same review may be open again

    def action_comment(self) -> None:
        """Continues a comment that was begun here. Otherwise begins to choose lines or, the second time, to write."""
        part = self._view.part
        if part is None:
            return
        if (begun := self._commenting.at(part.key)) is not None:
            self._open_comment(begun)
        elif self._view.choice is not None:
            self.action_write()
        elif not self._view.choose():
            self._say("This change has no lines that can be commented on.")
        else:
            self._note = ""
            self._draw()

    def action_write(self) -> None:
        view = self._view
        part, choice, quote = view.part, view.choice, view.quote
        if part is None or choice is None or quote is None:
            return
        view.end_choice()
        self._draw()
        self._open_comment(self._commenting.begin(part, choice.place, quote))

    def _open_comment(self, one: Writing) -> None:
        self.app.push_screen(
            CommentDialog(one, self._commenting, self._save_comment), lambda _: self._comments_changed()
        )

    def _save_comment(self, one: Writing) -> None:
        async def save() -> None:
            await self._commenting.save(one)
            if not self._is_there:
                self._report(one.note)

        do_lasting(self, save())

    def action_comments(self) -> None:
        """Shows all comments, with the first one of the current change selected."""
        part, commenting = self._view.part, self._commenting
        here = [one for one in commenting.sorted if part is not None and commenting.part_of(one) == part]
        first = str(here[0]["comment_id"]) if here else None
        dialog = CommentsDialog(commenting, first, self._edit_comment, self._go_to_comment, self.action_send_comments)
        self.app.push_screen(dialog)

    def _edit_comment(self, comment: Comment) -> None:
        texts = comment["text"], str(comment.get("suggestion") or "").replace("\r\n", "\n")
        if all(map(answers.is_plain, texts)):
            self._open_comment(self._commenting.edit(comment))
        else:
            self._commenting.report(comment, answers.UNSHOWABLE)

    def _go_to_comment(self, comment: Comment) -> None:
        if (part := self._commenting.part_of(comment)) is not None:
            if part not in self._contents.parts:
                self.action_switch()
            self._view.go(part.key)

    def action_send_comments(self) -> None:
        """Asks the user to confirm that all drafts are sent, and shows their number. If the drafts change in the
        meantime, none is sent. If the user has not finished a comment, goes to it instead."""
        commenting = self._commenting
        count, version = len(commenting.drafts), commenting.version
        if (unsaved := commenting.unsaved) is not None:
            if any(part.key == unsaved.part for part in self._contents.parts):
                self._view.go(unsaved.part)
            self._say(review_words.UNFINISHED)
        elif count and not self._is_sending:

            def answered(choice: Literal["send", "steer"] | None) -> None:
                if choice and not self._is_sending:
                    self._is_sending, self._note = True, ""
                    self._draw()
                    do_lasting(self, self._send_comments(version, count, steer=choice == "steer"))

            self.app.push_screen(SendDialog(commenting, count), answered)

    async def _send_comments(self, version: str, count: int, *, steer: bool) -> None:
        try:
            self._report(await self._commenting.send(version, count, steer=steer))
        finally:
            self._is_sending = False
            self._redraw()

    def action_copy(self) -> None:
        if self._commenting.unsent:
            self.app.copy_to_clipboard(self._commenting.unsent)
            self._say(review_words.COPIED)

    def action_commit(self) -> None:
        committing = self._committing
        committing.begin()
        self.app.push_screen(CommitDialog(committing, self._run_commit, self._pushing, self.action_push))

    def _run_commit(self) -> None:
        async def commit() -> None:
            await self._committing.run()
            self._report_result(self._committing.state, review_words.committed_words)

        self._pushing.forget()
        do_lasting(self, commit())

    def action_push(self) -> None:
        self._pushing.begin()
        self.app.push_screen(PushDialog(self._pushing, self._run_push))

    def _run_push(self) -> None:
        async def push() -> None:
            await self._pushing.run()
            self._report_result(self._pushing.state, review_words.pushed_words)

        do_lasting(self, push())

    def _report_result(self, state: Commit | Push, done_words: Callable[[Mapping[str, Any]], str]) -> None:
        """Shows the result of a commit or a push if the review, and with it the dialog that would show the result, was
        closed in the meantime."""
        if not self._is_there:
            words = done_words(state.done) if state.done is not None else state.problem
            self._report(words, str((state.done or {}).get("output") or state.output))

    # Filtering and moving.

    def action_switch(self) -> None:
        """Shows only what is new since the last visit, or everything again."""
        self._visiting.switch()
        self._note = ""
        self._show_parts()
        self._draw()

    def action_end(self, last: bool) -> None:
        self._view.go_to_end(last=last)

    def action_page(self, by: int) -> None:
        view = self._view
        (view.scroll_page_down if by > 0 else view.scroll_page_up)(animate=False)

    async def action_help(self) -> None:
        await self.run_action("app.list_keys(True)")

    def action_back(self) -> None:
        """Leaves the choice of lines, the field (but keeps its text), or the review."""
        if self._view.choice is not None:
            self._view.end_choice()
            self._draw()
            return
        if self._editing is None:
            self.dismiss()
            return
        self._keep_draft()
        self._editing = None
        self._draw()
        self._view.focus()
