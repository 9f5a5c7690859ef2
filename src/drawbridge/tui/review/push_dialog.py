"""The dialog that pushes the current branch and, on request, creates a pull request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static, TextArea
from textual.widgets.option_list import Option

from drawbridge.text import review_words
from drawbridge.tui.client import Client
from drawbridge.tui.connection import Message, RequestError
from drawbridge.tui.fields import PlainTextArea, pasted
from drawbridge.tui.review.reviews import Push
from drawbridge.tui.wording import block, one_line

LOW: Final = 24
"""The height in lines below which the dialog shows only what is needed."""


class Pushing:
    """The push of one project's branch, which continues when its dialog is closed. ``changed``: called after every
    change. ``load``: requests the review as it is now. Neither may block."""

    def __init__(self, client: Client, project: str, changed: Callable[[], None], load: Callable[[], None]) -> None:
        self._client = client
        self._project = project
        self._changed = changed
        self._load = load
        self.offer: Mapping[str, Any] | None = None
        """The server's offer to push; None without a branch, a commit or a remote, if the server does not allow pushes,
        until a review has been received, and after ``forget``."""

    @property
    def state(self) -> Push:
        return self._client.reviews.pushes[self._project]

    @property
    def is_waiting(self) -> bool:
        """Whether this device may push, and either something can be pushed or a pull request could not be created. By
        default, servers do not allow pushes."""
        may = self._client.features is not None and self._client.may("review_push")
        if not may or self.offer is None or self.offer.get("problem"):
            return False
        return self.offer.get("ahead") != 0 or bool((self.state.done or {}).get("problem"))

    @property
    def problem(self) -> str:
        """The reason why the branch can't be pushed; empty if the server has reported none."""
        return str((self.offer or {}).get("problem", ""))

    @property
    def program(self) -> str:
        """The program that creates pull requests; empty if the server can't create them."""
        return str((self.offer or {}).get("pull_request") or "")

    @property
    def wants_request(self) -> bool:
        return self.state.is_pull_request and bool(self.program)

    def forget(self) -> None:
        """Drops the offer, since the commit in progress changes what can be pushed."""
        self.offer = None

    def update(self, review: Message) -> None:
        self.offer = review.get("push")

    def begin(self) -> None:
        """Prepares the dialog that is being opened: clears the result of the last push, and suggests a title and a body
        unless the user has written others."""
        state, offer = self.state, self.offer or {}
        state.done, state.problem, state.output = None, "", ""
        if (state.title, state.body) == state.proposed:
            state.title, state.body = pasted(offer.get("title", "")), pasted(offer.get("body", ""))
            state.proposed = state.title, state.body

    @property
    def why_not(self) -> str:
        """The reason why nothing can be pushed now; empty if the branch can be pushed."""
        if self.offer is None:
            return review_words.NOTHING_TO_PUSH
        if self.problem:
            return self.problem
        return "Write a title first." if self.wants_request and not self.state.title.strip() else ""

    async def run(self) -> None:
        state = self.state
        if state.is_busy or self.why_not or self.offer is None:
            return
        wish: Message = {"version": self.offer["version"]}
        if self.wants_request:
            wish["pull_request"] = {"title": state.title.strip(), "body": state.body.strip()}
        state.is_busy, state.problem, state.output, state.done = True, "", "", None
        is_sent = self._client.connection.state == "open"
        self._changed()
        try:
            state.done = await self._client.push(self._project, wish)
        except RequestError as error:
            state.problem = review_words.PUSH_LOST if error.code == "OFFLINE" and is_sent else str(error)
            state.output = str(error.details.get("output") or "")
        finally:
            state.is_busy = False
            self._load()
            self._changed()


PARTS: Final = ".where, #request, .path, .draft, .none, .notice, .output, .identity, .hint"
"""All widgets that ``PushDialog.show`` needs."""


class PushDialog(ModalScreen[None]):
    """The dialog that pushes the branch. ``run``: pushes in the background. ``show`` must be called after every change.
    Input is kept when the dialog is closed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "push", show=False, priority=True),
        Binding("space", "choose", show=False),
        Binding("escape", "dismiss(None)", show=False),
    ]

    def __init__(self, pushing: Pushing, run: Callable[[], None]) -> None:
        super().__init__()
        self._pushing = pushing
        self._run = run
        self._listed = ""

    def compose(self) -> ComposeResult:
        state = self._pushing.state
        with VerticalScroll(classes="dialog wide commit", can_focus=False):
            yield Static(Content("Push"), classes="title")
            yield Static(classes="where")
            with Vertical(classes="form"):
                yield OptionList(id="request")
                yield Input(state.title, placeholder="Title", compact=True, classes="path")
                yield PlainTextArea(state.body, classes="draft", compact=True, placeholder="Description")
                yield Static(classes="none")
            yield Static(classes="notice")
            yield Static(classes="output")
            yield Static(Content(review_words.PUSH_HINT), classes="identity")
            yield Static(classes="hint")

    def on_mount(self) -> None:
        self.show()
        self.query_one(OptionList).focus()

    @property
    def _is_over(self) -> bool:
        done = self._pushing.state.done
        return done is not None and not done.get("problem")

    def show(self) -> None:
        pushing, state = self._pushing, self._pushing.state
        if len(self.query(PARTS)) != PARTS.count(",") + 1:  # the dialog is being opened or closed
            return
        offer, done = pushing.offer or {}, state.done
        where = self.query_one(".where", Static)
        where.display = done is None and not pushing.problem
        where.update(Content(one_line(review_words.push_words(offer) if offer else review_words.NOTHING_TO_PUSH)))
        self.query_one(".form").display = not self._is_over
        self._list()
        for field in (self.query_one(Input), self.query_one(PlainTextArea)):
            field.display = pushing.wants_request
        self.query_one(PlainTextArea).read_only = state.is_busy
        reason = str(offer.get("no_pull_request", ""))
        none = self.query_one(".none", Static)
        none.display = bool(reason)
        none.update(Content(block(review_words.no_request_words(reason))))
        words = review_words.pushed_words(done) if done is not None else "Pushing…" if state.is_busy else ""
        words = words or state.problem or pushing.problem
        notice = self.query_one(".notice", Static)
        notice.set_class(self._is_over, "-done")
        notice.display = bool(words)
        notice.update(Content(block(words)))
        output = str(done.get("output") or "") if done is not None else state.output
        shown = self.query_one(".output", Static)
        shown.display = bool(output)
        shown.update(Content.assemble(("Output", "$soft"), f"\n{block(output)}"))
        act = "push" if done is None else ""
        if pushing.wants_request:
            act = f"{act}{' and ' if act else ''}create {review_words.request_name(pushing.program)}"
        fields = "Tab next field · Space choose · " if pushing.program else ""
        keys = f"Ctrl-S {act or 'push'} · {fields}Esc close"
        self.query_one(".hint", Static).update(Content("Esc close" if self._is_over else keys))
        self.query_one(".identity").display = not words and self.size.height >= LOW
        if words:
            self.call_after_refresh(notice.scroll_visible, animate=False)

    def _list(self) -> None:
        """Shows the option to create a pull request, with a mark that does not need color."""
        pushing, options = self._pushing, self.query_one("#request", OptionList)
        options.display = bool(pushing.program)
        line = f"[{'×' if pushing.wants_request else ' '}] {review_words.create_words(pushing.program)}"
        if self._listed != line:
            self._listed = line
            options.clear_options()
            options.add_option(Option(Content(line)))
            options.highlighted = 0

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        self._pushing.state.body = event.text_area.text

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._pushing.state.title = event.value

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_push()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        state = self._pushing.state
        if not state.is_busy:
            state.is_pull_request = not state.is_pull_request
            self.show()

    def action_choose(self) -> None:
        """Selects the option with the space bar, except in text fields, where it types a space."""
        if isinstance(self.focused, OptionList):
            self.focused.action_select()

    def on_resize(self) -> None:
        self.set_class(self.size.height < LOW, "-low")
        self.show()

    def action_push(self) -> None:
        state = self._pushing.state
        if self._is_over or state.is_busy:
            return
        # The key may be handled before the event about the text that was typed before it.
        state.title, state.body = self.query_one(Input).value, self.query_one(PlainTextArea).text
        state.problem, state.output = self._pushing.why_not, ""
        self.show()
        if not state.problem:
            self._run()
