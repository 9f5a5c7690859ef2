"""The dialogs for comments on a review: one to write a comment, and one that lists all comments."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static, TextArea
from textual.widgets.option_list import Option

from drawbridge.text import review_words
from drawbridge.text.counts import counted
from drawbridge.text.review_words import Comment, lines_of
from drawbridge.tui import answers
from drawbridge.tui.dialogs import ConfirmDialog
from drawbridge.tui.fields import PlainTextArea
from drawbridge.tui.requests import do_lasting
from drawbridge.tui.review.commenting import Commenting
from drawbridge.tui.review.comments import Card, Writing
from drawbridge.tui.wording import block, one_line

CAN_RESOLVE: Final = ("sent", "resolved")
"""The states of comments that were sent to the agent."""

LOW: Final = 24
"""The height in lines below which the empty lines between the parts of a dialog are left out."""

QUOTED: Final = 4
"""The maximum number of lines of code that are shown above the field. The review shows all of them."""

UNSHOWABLE: Final = "The lines contain characters that a terminal can’t show: write the suggestion in the web UI."


class CommentDialog(ModalScreen[None]):
    """The dialog in which the user writes the comment ``one``. Everything that is typed is stored in ``one``
    immediately, so that it is kept when the dialog is closed and when the server refuses the comment.

    ``save``: saves ``one`` on the server, in the background. ``show`` must be called after every change.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", show=False, priority=True),
        Binding("ctrl+t", "suggest", show=False, priority=True),
        Binding("escape", "back", show=False),
    ]

    def __init__(self, one: Writing, commenting: Commenting, save: Callable[[Writing], None]) -> None:
        super().__init__()
        self._one = one
        self._commenting = commenting
        self._save = save

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide comment"):
            yield Static(classes="title")
            yield Static(Content(_beginning(self._one.quote)), classes="quote")
            yield PlainTextArea(self._one.text, classes="draft", id="text", compact=True, placeholder="Write a comment")
            yield Static(classes="instead")
            field = PlainTextArea(self._one.suggestion or "", classes="draft", id="suggestion", compact=True)
            field.tab_behavior = "indent"
            yield field
            yield Static(classes="notice")
            yield Static(classes="hint")

    def on_mount(self) -> None:
        text = self.query_one("#text", PlainTextArea)
        text.move_cursor(text.document.end)
        text.focus()
        self.show()

    def show(self) -> None:
        one, commenting = self._one, self._commenting
        if len(self.query(".title, .notice, .hint")) != 3:
            return
        if one not in commenting.writings:
            self.dismiss()
            return
        draft = commenting.draft_of(one)
        has_suggestion = one.suggestion is not None
        title = f"Comment on {commenting.place_of(one).words} of {one.path}"
        self.query_one(".title", Static).update(Content(one_line(title)))
        for area in self.query(PlainTextArea):
            area.read_only = one.is_busy
        self.query_one("#suggestion").display = has_suggestion
        instead = self.query_one(".instead", Static)
        instead.display = has_suggestion
        instead.update(
            Content(
                "The agent will be asked to write these lines instead:"
                if one.suggestion
                else "The agent will be asked to remove the lines. To replace them, write the new ones:"
            )
        )
        gone = review_words.NOT_A_DRAFT if one.comment_id and draft is None else ""
        words = "Saving…" if one.is_busy else one.note or gone
        notice = self.query_one(".notice", Static)
        notice.display = bool(words)
        notice.update(Content(block(words)))
        toggle = "remove suggestion" if has_suggestion else "suggest a change"
        yes = "save" if draft is not None else "add"
        back = "keep for later" if commenting.is_unsaved(one) else "cancel"
        # The suggestion begins with the same lines.
        self.query_one(".quote").display = not has_suggestion
        self.query_one(".hint", Static).update(Content(f"Ctrl-S {yes} · Ctrl-T {toggle} · Esc {back}"))

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        self._read_fields()
        self.show()

    def _read_fields(self) -> None:
        """Stores what was typed. A key may be handled before the event about the text that was typed before it."""
        one = self._one
        one.text = self.query_one("#text", PlainTextArea).text
        if one.suggestion is not None:
            one.suggestion = self.query_one("#suggestion", PlainTextArea).text

    def action_save(self) -> None:
        self._read_fields()
        if self._one.is_complete and not self._one.is_busy:
            self._save(self._one)

    def action_suggest(self) -> None:
        """Begins a suggestion with the lines of the comment, or removes the suggestion."""
        one, field = self._one, self.query_one("#suggestion", PlainTextArea)
        if one.is_busy:
            return
        one.note = ""
        lines = review_words.suggested_field(one.quote)
        if one.suggestion is not None:
            one.suggestion = None
        elif answers.is_plain(lines):
            one.suggestion = lines
            field.indent_type = "tabs" if "\t" in lines else "spaces"
            field.load_text(lines)
            field.move_cursor(field.document.end)
        else:
            one.note = UNSHOWABLE
        self.show()
        (field if one.suggestion is not None else self.query_one("#text")).focus()

    def on_resize(self) -> None:
        self.set_class(self.size.height < LOW, "-low")

    def action_back(self) -> None:
        """Closes the dialog. What was typed is kept, but a comment without changes is discarded."""
        self._read_fields()
        if not self._commenting.is_unsaved(self._one) and not self._one.is_busy:
            self._commenting.discard(self._one)
        self.dismiss()


def _beginning(quote: str) -> str:
    lines = lines_of(quote)
    more = len(lines) - QUOTED
    shown = "\n".join(line.removesuffix("\r") for line in (lines if more <= 0 else lines[: QUOTED - 1]))
    return block(shown if more <= 0 else f"{shown}\n⋯ {more + 1} more lines")


class CommentsDialog(ModalScreen[None]):
    """The dialog that lists all comments of the review. ``first``: the id of the comment that is selected first.
    ``edit``: opens a draft for editing. ``go``: goes to the comment's change. ``send``: asks whether to send all
    drafts."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", show=False),
        Binding("j", "step(1)", show=False),
        Binding("k", "step(-1)", show=False),
        Binding("e", "edit", show=False),
        Binding("d,delete", "remove", show=False),
        Binding("r", "resolve", show=False),
        Binding("S", "send", show=False),
        Binding("w", "withdraw", show=False),
        Binding("space,pagedown", "page(1)", show=False, priority=True),
        Binding("pageup", "page(-1)", show=False, priority=True),
    ]

    def __init__(
        self,
        commenting: Commenting,
        first: str | None,
        edit: Callable[[Comment], None],
        go: Callable[[Comment], None],
        send: Callable[[], None],
    ) -> None:
        super().__init__()
        self._commenting = commenting
        self._first = first
        self._edit = edit
        self._go = go
        self._send = send
        self._shown: list[Comment] = []

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide comments"):
            yield Static(Content("Comments"), classes="title")
            yield OptionList()
            with VerticalScroll(can_focus=False):
                yield Static(classes="whole")
            yield Static(classes="notice")
            yield Static(classes="hint")

    def on_mount(self) -> None:
        self.show()

    @property
    def current(self) -> Comment | None:
        at = self.query_one(OptionList).highlighted
        return self._shown[at] if at is not None and at < len(self._shown) else None

    def show(self) -> None:
        """Shows the comments as they are now. The same one stays selected."""
        if len(self.query(".whole, .notice, .hint")) != 3:
            return
        before = self.current["comment_id"] if self.current is not None else self._first
        now, options = self._commenting.sorted, self.query_one(OptionList)
        if now != self._shown:
            last = options.highlighted or 0
            self._shown = now
            options.clear_options()
            options.add_options([Option(_line(one, self._commenting)) for one in now])
            same = [at for at, one in enumerate(now) if one["comment_id"] == before]
            options.highlighted = (same[0] if same else min(last, len(now) - 1)) if now else None
            options.focus()
        self._draw()

    def _draw(self) -> None:
        current, commenting = self.current, self._commenting
        whole = _content(commenting.card(current)) if current is not None else Content(review_words.NO_COMMENTS)
        self.query_one(".whole", Static).update(whole)
        notice, words = self.query_one(".notice", Static), ""
        if current is not None:
            id = str(current["comment_id"])
            words = "Saving…" if id in commenting.busy else commenting.notes.get(id, "")
        if not words and commenting.drafts and commenting.may_write and not commenting.may_send:
            words = review_words.MAY_NOT_SEND
        words = words or commenting.problem or commenting.handover_words
        notice.display = bool(words)
        notice.update(Content(block(words)))
        self.query_one(".hint", Static).update(Content(" · ".join([*self._keys(current), "Esc close"])))

    def _keys(self, current: Comment | None) -> list[str]:
        commenting = self._commenting
        found = ["Enter go to the change"] if current is not None and commenting.part_of(current) is not None else []
        if current is not None and review_words.is_draft(current):
            found += ["e edit", "d remove"] if commenting.may_change(current) else []
        elif current is not None and review_words.state_of(current) in CAN_RESOLVE and commenting.may_write:
            found.append("r resolve" if review_words.state_of(current) == "sent" else "r reopen")
        if commenting.may_withdraw:
            found.append("w withdraw")
        return found + ([f"S send {len(commenting.drafts)}"] if commenting.drafts and commenting.may_send else [])

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self._draw()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        current = self.current
        if current is not None and self._commenting.part_of(current) is not None:
            self.dismiss()
            self._go(current)

    def on_resize(self) -> None:
        self.set_class(self.size.height < LOW, "-low")

    def action_step(self, by: int) -> None:
        options = self.query_one(OptionList)
        (options.action_cursor_down if by > 0 else options.action_cursor_up)()

    def action_page(self, by: int) -> None:
        whole = self.query_one(VerticalScroll)
        (whole.scroll_page_down if by > 0 else whole.scroll_page_up)(animate=False)

    @property
    def _draft(self) -> Comment | None:
        """The current comment, if it is a draft that this client may change; otherwise None."""
        current = self.current
        is_mine = current is not None and review_words.is_draft(current) and self._commenting.may_change(current)
        return current if is_mine else None

    def action_edit(self) -> None:
        if (draft := self._draft) is not None:
            self._edit(draft)

    def action_remove(self) -> None:
        draft = self._draft
        if draft is None:
            return

        def answered(yes: bool | None) -> None:
            if yes:
                do_lasting(self, self._commenting.remove(draft))

        words = "It has not been sent. It can’t be restored."
        self.app.push_screen(ConfirmDialog("Remove this comment?", words, "Remove"), answered)

    def action_resolve(self) -> None:
        current = self.current
        can = current is not None and review_words.state_of(current) in CAN_RESOLVE
        if current is not None and can and self._commenting.may_write:
            do_lasting(self, self._commenting.resolve(current))

    def action_withdraw(self) -> None:
        if self._commenting.may_withdraw:
            do_lasting(self, self._commenting.withdraw())

    def action_send(self) -> None:
        if self._commenting.drafts and self._commenting.may_send:
            self.dismiss()
            self._send()


class SendDialog(ModalScreen[Literal["send", "steer"] | None]):
    """Asks whether to send ``count`` drafts. Returns "steer" to add them to the active run, which is offered as long as
    that is possible, and None if the dialog is canceled. ``show`` must be called after every change."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss('send')", show=False),
        Binding("a", "steer", show=False),
        Binding("n,escape", "dismiss(None)", show=False),
    ]

    def __init__(self, commenting: Commenting, count: int) -> None:
        super().__init__()
        self._commenting = commenting
        self._count = count

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide"):
            yield Static(Content(f"Send {counted(self._count, 'comment')}?"), classes="title")
            yield Static(classes="words")
            yield Static(classes="hint")

    def on_mount(self) -> None:
        self.show()

    def show(self) -> None:
        if len(self.query(".words, .hint")) != 2:
            return
        what = "them together, as one prompt" if self._count > 1 else "it as a prompt"
        words, keys = f"The agent will get {what}.", "y Send"
        if self._commenting.steers:
            words = f"{words} The agent is working: you can queue the prompt, or add it to the current run."
            keys = f"y {review_words.QUEUE} · a {review_words.STEER}"
        elif self._commenting.is_working:
            keys = f"y {review_words.QUEUE}"
        self.query_one(".words", Static).update(Content(words))
        self.query_one(".hint", Static).update(Content(f"{keys} · Esc Cancel"))

    def action_steer(self) -> None:
        if self._commenting.steers:
            self.dismiss("steer")


def _line(one: Comment, commenting: Commenting) -> Content:
    state = review_words.STATES[review_words.state_of(one)]
    name = str(one["path"]).rpartition("/")[2]
    words = f"  {name} {one['line']}  {review_words.short_words(one)}"
    return Content.assemble((state, "$wait" if review_words.is_draft(one) else "$soft"), one_line(words))


def _content(card: Card) -> Content:
    pieces: list[tuple[str, str] | str] = [(one_line(card.who), "bold"), (f"  {one_line(card.tags)}", "$soft")]
    for kind, text in card.body:
        style = {"text": "$ink", "hint": "$soft", "code": "$accent"}[kind]
        pieces.append((f"\n{block(text.removesuffix(chr(10)).removesuffix(chr(13)))}", style))
    return Content.assemble(*pieces)
