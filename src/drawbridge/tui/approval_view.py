"""An open approval request, and every way to answer it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Literal, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Button, Input, Static, TextArea

from drawbridge.tui import answers, wording
from drawbridge.tui.approval_words import (
    LONGEST_LABEL,
    WAYS,
    ApprovalState,
    always_words,
    circumstances,
    names_proposal,
    notice,
    offers_always,
    reason_hint,
    title,
    ways,
    why_not_accepted,
)
from drawbridge.tui.call_parts import Part, is_said, of_request
from drawbridge.tui.code import DiffLines
from drawbridge.tui.diff_view import Joined, Lines, LinesView, Notices, on_screen
from drawbridge.tui.difference import Difference, difference
from drawbridge.tui.drawing import Painter
from drawbridge.tui.fields import PlainTextArea
from drawbridge.tui.question_form import QuestionForm

READING_SECONDS: Final = 0.5
"""The number of seconds for which keys and buttons do not answer a request that has just appeared. A button that has
just moved does nothing for the same time. In both cases, the user may have aimed at what was there before."""

ROOMY: Final = 24
"""The minimum height, in lines, at which there is room for an empty line."""

BODIES: Final = "LinesView, QuestionForm, .draft"
FRAME_LINES: Final = 2
FEWEST_LINES: Final = 3
"""The minimum number of lines of the request that are shown, however small the terminal is."""


class Answer(NamedTuple):
    allow: bool
    message: str = ""
    input: dict[str, Any] | None = None
    remember: bool = False


class ApprovalView(Vertical, can_focus=True):
    """The view of one request. Posts ``Answered`` with the user's decision. Call ``settle`` when another client decides
    or the request is withdrawn.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "more", show=False),
        Binding("j,down", "scroll(1)", show=False),
        Binding("k,up", "scroll(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
    ]

    class Answered(Message):
        def __init__(self, view: ApprovalView, answer: Answer) -> None:
            super().__init__()
            self.view = view
            self.answer = answer

    class FullTextRequested(Message):
        """The request is a preview, and the user wants the whole text."""

        def __init__(self, view: ApprovalView) -> None:
            super().__init__()
            self.view = view

    class Closed(Message):
        """The user closed a request that was resolved by another client or withdrawn."""

        def __init__(self, view: ApprovalView) -> None:
            super().__init__()
            self.view = view

    def __init__(self, request: answers.Request, agent: str, painter: Painter, state: ApprovalState) -> None:
        super().__init__(classes="approval")
        self.request = request
        self._agent = agent
        self._painter = painter
        self._state = state._replace(
            next_question=len(answers.questions(request)) > 1, told_above=len(always_words(request)) > LONGEST_LABEL
        )
        self._text: str | None = None
        self._message = ""
        self._draft = ""
        self._found = self._difference()
        self._unseen_as_sent = 1
        """The number of lines of the agent's version that were still unseen when that version was last shown."""
        self._shown_at = time.monotonic()
        self._places: dict[str | None, tuple[Region, float]] = {}
        """Maps a button's name to its place on the screen and the time (``time.monotonic``) when it moved there."""
        self._waiting = 1
        self._height = FEWEST_LINES
        self._most = 0

    def compose(self) -> ComposeResult:
        yield Static(classes="title")
        asked = answers.questions(self.request)
        if asked:
            yield QuestionForm(asked, self.request["input"], circumstances(self.request))
        else:
            yield LinesView(self._lines)
            yield PlainTextArea(classes="draft", tab_behavior="indent", show_line_numbers=True, compact=True)
        yield Button("", name="more", classes="more", compact=True)
        yield Static(classes="notice")
        yield Input(placeholder=reason_hint(self.request, self._agent), compact=True, classes="why")
        yield Horizontal(*(Button("", name=name, classes=name, compact=True) for name in WAYS), classes="ways")
        yield Button("", name="always", classes="always", compact=True)

    def on_mount(self) -> None:
        self.screen.screen_layout_refresh_signal.subscribe(self, self._note_places)
        self.call_later(self._draw)

    @property
    def approval_id(self) -> str:
        return str(self.request["approval_id"])

    @property
    def is_dirty(self) -> bool:
        """Whether the user has edited the text or written a message."""
        return self._text is not None or bool(self._message)

    @property
    def is_busy(self) -> bool:
        """Whether an answer has been sent and is not confirmed yet."""
        return self._state.busy

    @property
    def is_settled(self) -> bool:
        return self._state.settled is not None

    @property
    def may_answer(self) -> bool:
        return self._state.may_answer

    @property
    def is_begun(self) -> bool:
        """Whether ``back`` would have an effect."""
        return self._state.mode != "read" or self.is_settled or self._is_at_later_question

    @property
    def is_ready(self) -> bool:
        """Whether keys answer the request now."""
        return self._can_be_answered and time.monotonic() - self._shown_at >= READING_SECONDS

    @property
    def _can_be_answered(self) -> bool:
        return self.may_answer and not self.is_busy and not self.is_settled

    @property
    def _body(self) -> LinesView | QuestionForm:
        """The widget with the content of the request, which must have been on the screen before the request can be
        accepted."""
        return self.query_one(QuestionForm) if answers.questions(self.request) else self.query_one(LinesView)

    # Called from outside.

    def count(self, waiting: int) -> None:
        """Shows how many requests are waiting, including this one."""
        if waiting != self._waiting:
            self._waiting = waiting
            self._draw()

    def uncover(self) -> None:
        """Moves the focus to the request although the user did not ask for it, and restarts the wait of
        ``READING_SECONDS``."""
        self._shown_at = time.monotonic()
        self.focus_first()

    def decide(self, how: Literal["accept", "always", "edit", "reject"]) -> None:
        """Performs the action of a key, unless the request has only just appeared or taken the focus. In that case, the
        key may have been meant for what was there before, and the user is notified instead."""
        if self.is_ready:
            getattr(self, how)()
        elif self._can_be_answered:
            self._say("That key was pressed too soon and was ignored. Read the request, then press the key again.")

    def resume(self) -> None:
        """Restarts the wait of ``READING_SECONDS`` when the screen is in front again."""
        self._shown_at = time.monotonic()
        self._body.record_visible()

    def focus_first(self) -> None:
        """Moves the focus to the request."""
        first = next(iter(self.query("RadioSet, Checkbox, .own, LinesView")), self)
        # Scrolling to a tall list of options would hide the beginning of the question.
        (first if first.display else self).focus(scroll_visible=not answers.questions(self.request))

    def fit(self, height: int) -> None:
        """Sets the maximum total height, in lines."""
        self._height = height
        self._fit()

    def _fit(self) -> None:
        """Gives the request the lines that the other widgets do not need."""
        self.set_class(self._height >= ROOMY, "-roomy")
        bodies = set(self.query(BODIES))
        shown = [child for child in self.children if child.display and child not in bodies]
        # A widget that does not fit has no size yet, so it counts as one line.
        others = sum(max(1, child.outer_size.height) + child.styles.margin.height for child in shown)
        most = max(FEWEST_LINES, self._height - others - FRAME_LINES)
        if self._height - others - FRAME_LINES < FEWEST_LINES and self.query_one("Button.always").display:
            self._tell_above()
        if most == self._most:
            return
        self._most = most
        self.call_after_refresh(self._fit)  # a widget that was cut off may turn out to be taller
        for body in bodies:
            body.styles.max_height = most
        for area in self.query(".draft"):
            area.styles.height = most

    def show_whole(self, request: answers.Request) -> None:
        """Replaces the preview with the whole request."""
        self.request = request
        told_above = self._state.told_above or len(always_words(request)) > LONGEST_LABEL
        self._state = self._state._replace(told_above=told_above)
        self._redraw()

    def settle(self, answer: Mapping[str, Any]) -> None:
        """Shows that another client decided, or that the request was withdrawn. What the user wrote stays readable."""
        self._set_state(settled=answer, busy=False)

    def failed(self) -> None:
        """Lets the user answer again after an answer could not be sent or was refused."""
        self._set_state(busy=False)

    # User actions.

    def accept(self) -> None:
        self._read_fields()
        if answers.questions(self.request):
            self._answer_questions()
        elif self._state.mode != "reject" and self._is_seen():
            changed = None if self._text is None else answers.edited_input(self.request, self._text)
            self._give(Answer(allow=True, input=changed))

    def always(self) -> None:
        if "always" not in ways(self.request, self._state):
            return
        if not self._state.told_above and not self._shows_always():
            self._tell_above()
        if self._is_seen():
            self._give(Answer(allow=True, remember=True))

    def _shows_always(self) -> bool:
        """Whether the button that describes what ``remember`` would change is completely visible."""
        button = self.query_one("Button.always")
        shown = on_screen(button, button.region)
        notices = Notices(self.screen)
        return bool(
            shown and shown == button.region and not any(notices.cover(shown, row) for row in range(shown.height))
        )

    def _tell_above(self) -> None:
        """Shows what ``remember`` would change as the last part of the request, if it is not there yet."""
        if not self._state.told_above and not answers.questions(self.request):
            self._set_state(told_above=True)
            self.query_one(LinesView).grow()
            self._note_seen()

    def _is_seen(self) -> bool:
        """Whether the whole request has been on the screen: only then can it be accepted."""
        self._body.record_visible()
        self._note_seen()
        if not why_not_accepted(self.request, self._state):
            return True
        self._set_state(hasty=True)
        if not self.has_focus_within:
            self.focus_first()  # the notice names keys that only work in the request
        return False

    def page(self, by: int) -> bool:
        """Scrolls by a page. Returns whether there was anything to scroll."""
        body = self._body
        if not body.display or body.max_scroll_y == 0:
            return False
        body.page(by)
        return True

    def action_more(self) -> None:
        if self.request.get("truncated"):
            self.post_message(self.FullTextRequested(self))
        else:
            self.page(1)

    def action_page(self, by: int) -> None:
        self.page(by)

    def action_scroll(self, by: int) -> None:
        self._body.scroll_relative(y=by, animate=False)

    def on_lines_view_seen(self, event: LinesView.Seen) -> None:
        event.stop()
        self._note_seen()

    def on_question_form_seen(self, event: QuestionForm.Seen) -> None:
        event.stop()
        self._note_seen()

    def _note_seen(self) -> None:
        unseen = self._body.unseen
        if self._state.mode == "edit":  # an undo or a paste may bring back any line of the agent's version
            unseen = self._unseen_as_sent
        elif self._text is None:
            self._unseen_as_sent = unseen
        if unseen != self._state.unseen:
            self._set_state(unseen=unseen)

    def edit(self) -> None:
        if self.is_busy or self.is_settled or answers.questions(self.request):
            return
        why_not = answers.why_not_edited(self.request, may_run=self._state.may_remember)
        if why_not:
            if not self.has_focus_within:
                self.focus_first()  # the notice may name a key that only works in the request
            self._say(why_not)
            return
        area = self.query_one(".draft", PlainTextArea)
        if self._text is None:
            self._draft = answers.draft(self.request)
            area.load_text(self._draft)
            area.indent_type = "tabs" if "\n\t" in area.text else "spaces"
            area.move_cursor((self._first_change(), 0), center=True)
        self._set_state(mode="edit")
        self._note_seen()
        area.focus()

    def reject(self) -> None:
        self._read_fields()
        if answers.questions(self.request):
            self._give(Answer(allow=False))
        elif self._state.mode == "reject":
            self._give(Answer(allow=False, message=self._message.strip()))
        elif not self.is_busy and not self.is_settled:
            self._set_state(mode="reject")
            self.query_one(".why", Input).focus()

    def back(self) -> bool:
        """Goes back to reading or to the previous question, without losing what the user wrote, or closes a request
        that is resolved or withdrawn. Returns whether there was anything to leave."""
        if self.is_settled:
            self.post_message(self.Closed(self))
        elif self._is_at_later_question:
            self._go(-1)
        elif self.is_begun:
            self._set_state(mode="read")
            self._redraw()
            self.focus_first()
        else:
            return False
        return True

    def undo(self) -> None:
        """Discards the user's edits."""
        self._text = None
        self._redraw()

    def _answer_questions(self) -> None:
        form = self.query_one(QuestionForm)
        if not form.is_answered:
            how = "Pick an option or type an answer" if form.has_options else "Type an answer"
            self._say(f"{how} for “{wording.one_line(form.question)}”.")
        elif not self._is_seen():
            return
        elif form.is_last:
            self._give(Answer(allow=True, input=answers.answered_input(self.request, form.answers())))
        else:
            self._go(1)

    def _go(self, by: int) -> None:
        """Goes to the agent's next question (1) or to the previous one (-1)."""
        form = self.query_one(QuestionForm)
        form.go(by)
        self._set_state(next_question=not form.is_last, unseen=form.unseen, hasty=False)

    @property
    def _is_at_later_question(self) -> bool:
        return any(not form.is_first for form in self.query(QuestionForm))

    def _give(self, answer: Answer) -> None:
        if not self.is_busy and not self.is_settled:
            self._set_state(busy=True)
            self.post_message(self.Answered(self, answer))

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        self._read_fields()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._read_fields()

    def _read_fields(self) -> None:
        """Stores what was typed. A key may be handled before the event about the text that was typed before it."""
        if self._state.mode == "edit" and not self.is_settled:
            text = self.query_one(".draft", PlainTextArea).text
            self._text = text if text != self._draft else None
        self._message = self.query_one(".why", Input).value

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.input.has_class("why"):
            self.reject()
        else:
            self._answer_questions()

    def _note_places(self, _: Screen[Any]) -> None:
        """Records where each button is, and since when."""
        for button in self.query(Button):
            place, name = button.region, button.name
            if name not in self._places or self._places[name][0] != place:
                self._places[name] = place, time.monotonic()

    def _has_just_moved(self, button: Button) -> bool:
        since = self._places.get(button.name, (None, 0.0))[1]
        return time.monotonic() - since < READING_SECONDS

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        if event.button.name not in ("back", "more") and (not self.is_ready or self._has_just_moved(event.button)):
            return  # the click may have been meant for what was there before
        acts: dict[str | None, Callable[[], object]] = {
            "accept": self.accept,
            "always": self.always,
            "edit": self.edit,
            "reject": self.reject,
            "undo": self.undo,
            "back": self.back,
            "more": self.action_more,
        }
        acts[event.button.name]()

    # Drawing.

    def _set_state(self, **changes: Any) -> None:
        self._state = self._state._replace(**changes)
        self._draw()

    def _redraw(self) -> None:
        """Draws the request again after it, or the user's edited text, has changed."""
        self._found = self._difference()
        self.query_one(LinesView).redraw(self._lines)
        self._note_seen()
        self._draw()

    def _draw(self) -> None:
        """Shows the buttons and fields of the current state."""
        if not self.is_mounted:
            return
        self._state = state = self._state._replace(edited=self._text is not None)
        self.query_one(".title", Static).update(
            title(self.request, self._agent, self._painter.root, self._found, self._waiting)
        )
        shown = ways(self.request, state)
        for button in self.query(Button):
            button.display = button.name in shown
            unread = button.name in ("accept", "always") and why_not_accepted(self.request, state)
            button.disabled = state.busy or bool(unread)
            button.label = shown.get(button.name or "", Content())
            button.refresh(layout=True)
        why = self.query_one(".why", Input)
        why.display = state.mode == "reject"
        why.disabled = state.busy or self.is_settled
        if not answers.questions(self.request):
            self.query_one(LinesView).display = state.mode != "edit"
            area = self.query_one(".draft", PlainTextArea)
            area.display = state.mode == "edit"
            area.read_only = state.busy or self.is_settled
        self._say(notice(self.request, state, self._found))

    def _say(self, words: str) -> None:
        line = self.query_one(".notice", Static)
        line.update(Content(words))
        line.display = bool(words)
        self.call_after_refresh(self._fit)

    def _difference(self) -> Difference | None:
        """The diff, including the user's edits. What is shown is what will be written. None without a proposal."""
        proposal = self.request.get("proposal")
        return difference(proposal["old_text"], self._new_text()) if proposal else None

    def _first_change(self) -> int:
        """The number, from 0, of the first added line in the new text; also 0 if no line is added."""
        lines = self._found.lines if self._found is not None else []
        return next((line.number - 1 for line in lines if line.kind == "added"), 0)

    def _new_text(self) -> str:
        proposed: str = self.request["proposal"]["new_text"]
        return proposed if self._text is None else answers.edited_text(self.request, self._text)

    def _lines(self, width: int) -> Lines:
        painter, found, request = self._painter, self._found, self.request
        proposal = request.get("proposal")
        name, given = answers.field(request), request["input"]
        if name is not None and self._text is not None:
            given = {**given, name: self._text}
        above = of_request(request, given)
        said = [part for part in above if is_said(part)]
        head = painter.call([*circumstances(request), *(part for part in above if not is_said(part))], width)
        state = self._state._replace(edited=self._text is not None)
        shows_always = state.told_above and offers_always(request, state)
        rule = [Part("field", always_words(request), "Always (w)")] if shows_always else []
        tail = painter.call([*said, *rule], width)
        if found is None or proposal is None:
            return [*head, *tail]
        if not names_proposal(request, painter.root):
            head += painter.path(str(proposal["path"]), width)
        if not found.lines:
            words = "No changes." if self._new_text() else "The file is empty."
            words = "No lines change." if found.notes else words
            return [*head, *painter.plain(words, width, painter.palette.soft), *tail]
        texts = str(proposal["path"]), proposal["old_text"], self._new_text()
        return Joined(head, DiffLines(found, texts, painter.palette, width), tail)
