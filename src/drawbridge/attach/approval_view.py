"""An open approval: what is asked, and every way to answer it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.css.query import NoMatches
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Button, Input, Static, TextArea

from drawbridge.attach import answers, wording
from drawbridge.attach.code import DiffLines
from drawbridge.attach.diff_view import LinesView
from drawbridge.attach.difference import difference
from drawbridge.attach.drawing import Painter
from drawbridge.attach.fields import PlainTextArea
from drawbridge.attach.question_form import QuestionForm

READING_SECONDS: Final = 0.5
"""A key that was meant for something else when a question came does not answer it."""

Mode = Literal["read", "edit", "reject"]


class Answer(NamedTuple):
    allow: bool
    message: str = ""
    input: dict[str, Any] | None = None
    remember: bool = False


class ApprovalView(Vertical, can_focus=True):
    """One question. ``settle`` tells it that it is answered; ``Given`` is what the person decides."""

    class Given(Message):
        def __init__(self, view: ApprovalView, answer: Answer) -> None:
            super().__init__()
            self.view = view
            self.answer = answer

    class WholeWanted(Message):
        """The request is a preview."""

        def __init__(self, view: ApprovalView) -> None:
            super().__init__()
            self.view = view

    class Closed(Message):
        """Of a question that somebody else had settled."""

        def __init__(self, view: ApprovalView) -> None:
            super().__init__()
            self.view = view

    def __init__(self, request: answers.Request, agent: str, painter: Painter, *, may_remember: bool) -> None:
        super().__init__(classes="approval")
        self.request = request
        self.mode: Mode = "read"
        self.busy = False
        self.settled: dict[str, Any] | None = None
        self._agent = agent
        self._painter = painter
        self._may_remember = may_remember
        self._text: str | None = None
        self._message = ""
        self._shown_at = time.monotonic()
        self._waiting = 1

    # What it shows.

    def compose(self) -> ComposeResult:
        yield Static(self._title(), classes="title")
        asked = answers.questions(self.request)
        if asked:
            yield QuestionForm(asked)
        else:
            yield LinesView(self._lines)
            yield PlainTextArea(classes="draft", tab_behavior="indent", show_line_numbers=True, compact=True)
        yield Static(classes="notice")
        yield Input(placeholder="What should it do instead? (may be left empty)", compact=True, classes="why")
        yield Horizontal(*self._buttons(), classes="ways")
        always = wording.always_words(self.request.get("suggestions")) if self._may_remember else ""
        yield Button(
            _label("w", f"Always: {always}"), classes="always", compact=True, name="always" if always else None
        )

    def on_mount(self) -> None:
        self._draw()

    @property
    def id_of_question(self) -> str:
        return str(self.request["approval_id"])

    @property
    def is_question(self) -> bool:
        return bool(answers.questions(self.request))

    @property
    def is_dirty(self) -> bool:
        """Whether a person has put work into an answer."""
        return self._text is not None or bool(self._message)

    @property
    def is_ready(self) -> bool:
        """Whether a key answers it."""
        ready = time.monotonic() - self._shown_at >= READING_SECONDS
        return ready and not self.busy and self.settled is None

    def count(self, waiting: int) -> None:
        """So many questions wait."""
        if waiting != self._waiting:
            self._waiting = waiting
            self.query_one(".title", Static).update(self._title())

    def uncover(self) -> None:
        """It was not to be seen before."""
        self._shown_at = time.monotonic()

    def show_whole(self, request: answers.Request) -> None:
        """All of it, in the place of the preview."""
        self.request = request
        self.query_one(LinesView).redraw(self._lines)
        self._draw()

    def settle(self, answer: dict[str, Any]) -> None:
        """Somebody else answered while a person had work in it: it stays to be read."""
        self.settled = answer
        self._draw()

    # What a person does.

    def accept(self) -> None:
        if self.is_question:
            self._answer_questions()
        elif self._text is not None and self.mode != "reject":
            self._give(Answer(allow=True, input=answers.edited_input(self.request, self._text)))
        elif self.mode != "reject":
            self._give(Answer(allow=True))

    def always(self) -> None:
        if self.mode == "read" and self._has_always and self._text is None:
            self._give(Answer(allow=True, remember=True))

    def edit(self) -> None:
        if self.settled is not None or self.busy or self.is_question:
            return
        why_not = answers.why_not_edited(self.request)
        if why_not:
            self._notify(why_not)
            return
        self.mode = "edit"
        area = self.query_one(".draft", PlainTextArea)
        if self._text is None:
            area.load_text(answers.draft(self.request))
            area.indent_type = "tabs" if "\n\t" in area.text else "spaces"
        self._draw()
        area.focus()

    def reject(self) -> None:
        if self.settled is None and not self.busy and not self.is_question:
            self.mode = "reject"
            self._draw()
            self.query_one(".why", Input).focus()
        elif self.is_question:
            self._give(Answer(allow=False))

    def back(self) -> bool:
        """Back to reading; whether there was anything to go back from. What was edited stays, and is what is shown."""
        if self.settled is not None:
            self.post_message(self.Closed(self))
            return True
        if self.mode == "read":
            return False
        self.mode = "read"
        self._redraw_lines()
        self._draw()
        self.focus()
        return True

    def undo(self) -> None:
        """Without the person's own edits."""
        self._text = None
        self._redraw_lines()
        self._draw()

    def _give(self, answer: Answer) -> None:
        if not self.busy and self.settled is None:
            self.busy = True
            self._draw()
            self.post_message(self.Given(self, answer))

    def failed(self) -> None:
        """The answer was not taken, and nothing else has settled it: it can be given again."""
        self.busy = False
        self._draw()

    def _answer_questions(self) -> None:
        given = self.query_one(QuestionForm).answers()
        missing = next((question for question, chosen in given if not chosen), None)
        if missing is not None:
            self._notify(f"Choose an answer to “{wording.one_line(missing)}”, or write one.")
            return
        self._give(Answer(allow=True, input=answers.answered_input(self.request, given)))

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        if self.mode == "edit" and self.settled is None:
            changed = event.text_area.text != answers.draft(self.request)
            self._text = event.text_area.text if changed else None

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if "why" in event.input.classes:
            self._message = event.value

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self.is_question:
            self._answer_questions()
        elif self.mode == "reject":
            self._give(Answer(allow=False, message=self._message.strip()))

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        acts: dict[str, Callable[[], object]] = {
            "accept": self.accept,
            "edit": self.edit,
            "reject": self._reject_now if self.mode == "reject" else self.reject,
            "back": self.back,
            "undo": self.undo,
            "whole": lambda: self.post_message(self.WholeWanted(self)),
            "always": self.always,
        }
        acts.get(event.button.name or "", lambda: None)()

    def _reject_now(self) -> None:
        self._give(Answer(allow=False, message=self._message.strip()))

    # Inside.

    @property
    def _has_always(self) -> bool:
        return bool(self.query_one(".always", Button).name)

    def _buttons(self) -> Sequence[Button]:
        names = ("accept", "edit", "reject", "undo", "whole", "back")
        return [Button("", name=name, classes=name, compact=True) for name in names]

    def _draw(self) -> None:
        """Shows what belongs to the mode."""
        try:
            buttons = {str(button.name): button for button in self.query(".ways Button").results(Button)}
            notice = self.query_one(".notice", Static)
        except NoMatches:  # not mounted yet
            return
        for name, label in self._labels().items():
            buttons[name].label = label or Content("")
            buttons[name].display = label is not None
            buttons[name].disabled = self.busy
        self.query_one(".always").display = self._has_always and self.mode == "read" and not self._closed_or_edited
        self.query_one(".why").display = self.mode == "reject"
        self.query_one(".why", Input).disabled = self.busy or self.settled is not None
        words = self._notice()
        notice.update(Content(words))
        notice.display = bool(words)
        if not self.is_question:
            area = self.query_one(".draft", PlainTextArea)
            area.display = self.mode == "edit"
            area.read_only = self.busy or self.settled is not None
            self.query_one(LinesView).display = self.mode != "edit"

    def _labels(self) -> dict[str, Content | None]:
        """Of the buttons that belong to the mode; None: not to be seen."""
        found: dict[str, Content | None] = dict.fromkeys(("accept", "edit", "reject", "undo", "whole", "back"))
        if self.settled is not None:
            found["back"] = _label("Esc", "Close")
        elif self.busy:
            found["accept"] = Content("Sending…")
        elif self.is_question:
            found |= {"accept": _label("^s", "Answer"), "reject": Content("Do not answer")}
        elif self.mode == "edit":
            found |= {"accept": _label("^s", "Accept with my edits"), "back": _label("Esc", "Back")}
        elif self.mode == "reject":
            found |= {"reject": _label("Enter", "Reject"), "back": _label("Esc", "Back")}
        else:
            found |= {"accept": _label("a", "Accept" if self._text is None else "Accept with my edits")}
            found |= {"reject": _label("r", "Reject")}
            if answers.can_be_edited(self.request):
                found["edit"] = _label("e", "Edit")
            if self._text is not None:
                found["undo"] = Content("Without my edits")
            if self.request.get("truncated"):
                found["whole"] = Content(f"Show all ({wording.size(self.request['truncated']['bytes'])})")
        return found

    @property
    def _closed_or_edited(self) -> bool:
        return self.busy or self.settled is not None or self._text is not None

    def _title(self) -> Content:
        tool = str(self.request["tool_name"])
        words = wording.TITLES.get(tool, f"wants to use {wording.one_line(tool)}")
        parts: list[str | tuple[str, str]] = [(f"{wording.one_line(self._agent)} {words}", "bold")]
        proposal = self.request.get("proposal")
        given = self.request["input"]
        path = proposal["path"] if proposal else given.get("file_path") if isinstance(given, dict) else None
        if path:
            parts.append((f" {wording.one_line(wording.shown_path(str(path), self._painter.root))}", "$accent"))
        if proposal:
            found = difference(proposal["old_text"], proposal["new_text"])
            parts += [(f"  +{found.added}", "$yes"), (f" −{found.removed}", "$no")]
        if self._waiting > 1:
            parts.append((f"  1 of {self._waiting}", "$soft"))
        return Content.assemble(*parts)

    def _notice(self) -> str:
        if self.settled is not None:
            first = wording.first_words(self.settled)
            return f"{first} What you had written was not used; it stays here until you close this."
        if self.request.get("truncated"):
            return "This is too large for one message: long texts are cut."
        proposal = self.request.get("proposal")
        if proposal and self.mode == "read":
            notes = difference(proposal["old_text"], proposal["new_text"]).notes
            return "; ".join(notes).capitalize()
        return ""

    def _notify(self, words: str) -> None:
        notice = self.query_one(".notice", Static)
        notice.update(Content(words))
        notice.display = True

    def _redraw_lines(self) -> None:
        if not self.is_question:
            self.query_one(LinesView).redraw(self._lines)

    def _lines(self, width: int) -> Sequence[Strip] | DiffLines:
        """What is asked; with the person's own edits where there are some: what is seen is what will be written."""
        proposal = self.request.get("proposal")
        if not proposal:
            return self._asked(width)
        new = proposal["new_text"] if self._text is None else answers.edited_text(self.request, self._text)
        texts = str(proposal["path"]), proposal["old_text"], new
        found = difference(*texts[1:])
        if not found.lines:
            return self._painter.plain("No line is different.", width, self._painter.palette.soft)
        return DiffLines(found, texts, self._painter.palette, width)

    def _asked(self, width: int) -> Sequence[Strip]:
        given, tool = self.request["input"], self.request["tool_name"]
        described = given.get("description") if isinstance(given, dict) and tool == "Bash" else None
        words = self._painter.plain(described, width, self._painter.palette.soft) if isinstance(described, str) else []
        return [*words, *self._painter.asked(tool, given, width)]


def _label(key: str, words: str) -> Content:
    return Content.assemble((key, "$key"), f" {words}")
