"""One project: the conversation, partial text, open approval requests, and the prompt box."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input, Static, TextArea

from drawbridge.tui import wording
from drawbridge.tui.approval_view import READING_SECONDS, ApprovalView
from drawbridge.tui.bar import Bar
from drawbridge.tui.client import Client
from drawbridge.tui.connection import RequestError
from drawbridge.tui.conversation import Conversation, record_in, truncation
from drawbridge.tui.dialogs import ModeDialog
from drawbridge.tui.drawing import Painter
from drawbridge.tui.fields import PromptBox
from drawbridge.tui.history import History, Tail
from drawbridge.tui.key_hints import KeyHints
from drawbridge.tui.questions import Questions
from drawbridge.tui.queue_dialog import QueueDialog
from drawbridge.tui.requests import do, do_lasting
from drawbridge.tui.screens.review import ReviewScreen
from drawbridge.tui.search_dialog import SearchDialog
from drawbridge.tui.store import Project


class ConversationScreen(Screen[None]):
    """Draws the client's state. Requests to the server run in the background."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a,ctrl+s", "accept", show=False),
        Binding("e", "edit", show=False),
        Binding("r", "reject", show=False),
        Binding("w", "always", show=False),
        Binding("s", "stop", "stop"),
        Binding("S", "stop_all", show=False),
        Binding("t", "queue", show=False),
        Binding("f", "search", show=False),
        Binding("v", "review", show=False),
        Binding("m", "mode", "mode"),
        Binding("slash", "prompt", "prompt"),
        Binding("p", "projects", "projects"),
        Binding("g", "top", show=False),
        Binding("G", "latest", show=False),
        Binding("question_mark", "help", "help"),
        Binding("escape", "back", "back"),
        Binding("q", "leave", "quit"),
        Binding("ctrl+q", "app.quit", "quit", show=False),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
    ]

    class Left(Message):
        """The user went back to the projects."""

    def __init__(self, client: Client, painter: Painter, prompt: str = "") -> None:
        """``prompt``: the initial text of the prompt box."""
        super().__init__()
        self._client = client
        self._painter = painter
        self._prompt = prompt
        self._questions = Questions(client, painter)
        self._loading = False
        self._keys: object = None
        self._cancels_since: float | None = None
        """The time (``time.monotonic``) at which the stop key began to cancel what is scheduled; None if it stops the
        run."""

    def compose(self) -> ComposeResult:
        yield Bar()
        yield History(self._painter)
        yield self._questions
        yield Static(id="status")
        yield PromptBox()
        yield Static(id="rights")
        yield KeyHints()

    def on_mount(self) -> None:
        if self._prompt:
            self.put_back(self._prompt)
        self.query_one(PromptBox).focus()
        self.set_interval(1.0, self.tick)
        self.show()

    def on_screen_resume(self) -> None:
        """Restarts the wait of ``READING_SECONDS`` when this screen is in front again."""
        if self.card is not None:
            self.card.resume()

    @property
    def _is_there(self) -> bool:
        """Whether all widgets exist. They do not while the screen is being built or closed."""
        return len(self.query("Bar, History, #open, #status, #prompt, #rights")) == 6

    # Drawing.

    def show(self) -> None:
        """Draws the client's current state."""
        conversation, project = self._client.conversation, self._client.project
        if conversation is None or not self._is_there:
            return
        if not self._cancels:
            self._cancels_since = None
        elif self._cancels_since is None:
            self._cancels_since = time.monotonic()
        root = None if project is None else project["path"]
        self._painter.update(self._client.name, self._client.acts, root)
        if project is not None:
            facts = project.get("title"), self._client.agent_label(project["agent"]), project["path"]
            more = " · ".join(filter(None, facts))
            self.query_one(Bar).show(wording.base_name(project["path"]), more, self._client.connection)
        self.query_one(History).show(conversation.items, self._tail(conversation))
        prompts = [item.data["text"] for item in conversation.items if item.kind == "prompt"]
        prompt = self.query_one(PromptBox)
        prompt.remember(prompts)
        prompt.display = self._client.may_prompt
        self._show_rights()
        if not prompt.display and (prompt.has_focus or self.focused is None):
            self.query_one(History).focus()  # keys must not reach a hidden field, where their effect would be invisible
        self._questions.show(conversation, self.size.height * 7 // 10)
        self._expect_review(conversation)
        self.tick()
        card = self.card
        waits = wording.waits_until(self._client.project or {})
        steers = self._client.steers(conversation.id)
        self.query_one(PromptBox).may_steer(steers)
        keys = (
            conversation.run is None,
            steers,
            waits,
            card and (card.approval_id, card.is_begun),
            self._client.features,
        )
        if keys != self._keys:  # the footer is rebuilt only when the keys change
            self._keys = keys
            self.refresh_bindings()

    def _show_rights(self) -> None:
        """Shows the reason why the prompt box is missing, in its place."""
        client, line = self._client, self.query_one("#rights", Static)
        words = wording.rights(client.project or {}, may_answer=client.may("permission_response"))
        line.display = not client.may_prompt
        line.update(Content(words))

    def tick(self) -> None:
        """Updates the status line, which shows how long the run has taken."""
        conversation, project = self._client.conversation, self._client.project
        if conversation is None or project is None or not self._is_there:
            return
        run = conversation.run
        words, color = _status(conversation, project, may_stop=self._client.may("agent_interrupt"))
        parts = [
            "in a terminal" if project.get("desk") and "terminal" not in words else "",
            _since(run),
            _queued(conversation, may_change=self._client.may("queue_edit")),
        ]
        cost = project.get("cost_usd") or conversation.cost
        parts.append(wording.money(cost) if cost else "")
        parts.append(wording.context_words(conversation.agent))
        mode = wording.mode(project, _mode(project), self._client.mode_offers)
        below = "" if self.query_one(History).follows and conversation.at_end else "  ↓ G: latest"
        review = self._client.reviews.open(conversation.id)
        self.query_one("#status", Static).update(
            Content.assemble(
                (f"● {words}", color),
                (f" · Review: {review.words} (v: open)" if review else "", "$accent"),
                ("".join(f" · {part}" for part in parts if part), color),
                (
                    f"  {wording.one_line(mode)}",
                    "$no" if _mode(project) == "bypassPermissions" or project.get("asks") is False else "$soft",
                ),
                (below, "$accent"),
            )
        )

    def _expect_review(self, conversation: Conversation) -> None:
        """Requests the numbers of changes to review, once for each connection."""
        client = self._client
        if client.connection.state != "open" or not conversation.joined or not conversation.cursor:
            return
        if client.may("review_get") and client.reviews.expect(conversation.id):
            self.run_worker(self._request_review(conversation.id))

    async def _request_review(self, project: str) -> None:
        with contextlib.suppress(RequestError):  # without git, or if the directory is gone
            await self._client.review(project)

    def _tail(self, conversation: Conversation) -> list[Tail]:
        painter, found = self._painter, []
        if conversation.live:
            found.append(Tail(("live", conversation.live), partial(painter.markdown, conversation.live)))
        sent = self._client.connection.state == "open"
        queued = [("Queued", one["prompt"]) for one in conversation.waiting]
        unsent = [one.prompt for one in self._client.unsent if one.project == conversation.id]
        queued += [("Sending" if sent else "Will be sent when you reconnect", prompt) for prompt in unsent]
        for number, (tag, text) in enumerate(queued):
            found.append(Tail((number, tag, text), partial(painter.queued, tag, text)))
        return found

    # Approval requests.

    @property
    def card(self) -> ApprovalView | None:
        """The approval request that is shown, if any."""
        return self._questions.card

    def on_questions_settled(self) -> None:
        self.show()

    def on_key(self) -> None:
        self._questions.key_was_pressed()

    def on_text_area_changed(self) -> None:
        self._questions.key_was_pressed()

    # The conversation.

    def on_history_more_requested(self, event: History.MoreRequested) -> None:
        conversation = self._client.conversation
        if self._loading or conversation is None or not conversation.joined:
            return
        if conversation.has_older if event.older else not conversation.at_end:
            self._loading = True
            do(self, self._load(self._client.older if event.older else self._client.newer))

    async def _load(self, more: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await more()
            self.show()
        finally:
            self._loading = False

    def on_history_full_text_requested(self, event: History.FullTextRequested) -> None:
        async def bring() -> None:
            truncated = truncation(event.item)
            assert truncated is not None
            record = record_in(await self._client.whole(truncated["blob_id"]))
            self.query_one(History).put_whole(event.item, wording.whole_text(record.message))

        do(self, bring())

    def on_prompt_box_sent(self, event: PromptBox.Sent) -> None:
        self.query_one(History).to_end()
        self.tick()
        do_lasting(self, self._client.execute(event.text, steer=event.steer))

    def put_back(self, prompt: str) -> None:
        """Puts a prompt that was refused back into the prompt box, before what the user has written since."""
        box = self.query_one(PromptBox)
        box.put(f"{prompt}\n\n{box.text}" if box.text else prompt)

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        card, conversation, in_terminal = self.card, self._client.conversation, self._client.in_terminal
        match action:
            case "accept" | "reject" | "edit" | "always":
                return card is not None and card.may_answer and not card.is_settled
            case "stop":
                goes_on = conversation and (conversation.run or wording.waits_until(self._client.project or {}))
                return bool(goes_on) and self._client.may("agent_interrupt") and not in_terminal
            case "stop_all":
                running = conversation and (conversation.run or conversation.queue)
                return bool(running) and self._client.may("queue_remove") and not in_terminal
            case "queue":
                return bool(conversation and conversation.queue) and self._client.may("queue_edit")
            case "review":
                return self._client.may("review_get") and not self._in_field
            case "search":
                return self._client.may("search") and not self._in_field
            case "mode":
                return self._client.may("set_mode") and not in_terminal
            case "prompt":
                return self._client.may_prompt and not self._in_field
            case "projects" | "help" | "leave":
                return not self._in_field
            case "back":
                return self._in_field or (card is not None and card.is_begun)
        return True

    def action_accept(self) -> None:
        if self.card is not None:
            self.card.decide("accept")

    def action_always(self) -> None:
        if self.card is not None:
            self.card.decide("always")

    def action_edit(self) -> None:
        if self.card is not None:
            self.card.decide("edit")

    def action_reject(self) -> None:
        if self.card is not None:
            self.card.decide("reject")

    @property
    def _cancels(self) -> bool:
        """Whether the stop key cancels what is scheduled, which it does if no run is active."""
        is_running = self._client.conversation is not None and self._client.conversation.run
        return not is_running and wording.is_scheduled(self._client.project or {})

    @property
    def may_cancel(self) -> bool:
        """Whether the stop key has meant "cancel" for ``READING_SECONDS``. A key that is pressed sooner was meant for
        the run."""
        return self._cancels_since is not None and time.monotonic() - self._cancels_since >= READING_SECONDS

    def action_stop(self) -> None:
        """Stops the run. Without a run, cancels the automatic continuation after a rate limit or what is scheduled,
        because a stop alone would not end the schedule.
        """
        if self._cancels and not self.may_cancel:
            self.notify("The run has ended. Press s again to cancel what is scheduled.", markup=False)
            return
        do(self, self._client.command("agent_interrupt", {"schedule": True} if self._cancels else {}))

    def action_stop_all(self) -> None:
        """Stops the run, and removes all queued prompts."""
        do(self, self._client.command("agent_interrupt", {"all": True}))

    def action_queue(self) -> None:
        if self._client.conversation is not None and self._client.conversation.queue:
            self.app.push_screen(QueueDialog(self._client))

    def action_review(self) -> None:
        if self._client.conversation is not None:
            self.app.push_screen(ReviewScreen(self._client, self._painter, self._client.conversation.id))

    def action_search(self) -> None:
        self.app.push_screen(SearchDialog(self._client), self._found)

    def _found(self, seq: int | None) -> None:
        async def go(seq: int) -> None:
            await self._client.around(seq)
            history, conversation = self.query_one(History), self._client.conversation
            if conversation is not None:
                history.reveal(seq)
                self.show()
                history.focus()
                history.reveal(seq)

        if seq is not None:
            do(self, go(seq))

    def action_mode(self) -> None:
        project = self._client.project
        if project is not None:
            self.app.push_screen(
                ModeDialog(_mode(project), project, self._client.modes, self._client.mode_offers), self._set_mode
            )

    def _set_mode(self, mode: str | None) -> None:
        async def set_it() -> None:
            await self._client.command("set_mode", {"mode": mode})
            words = wording.mode(self._client.project or {}, mode or "", self._client.mode_offers)
            self.notify(f"Permission mode: {words}.", markup=False)
            self.tick()

        if mode is not None:
            do(self, set_it())

    def action_prompt(self) -> None:
        self.query_one(PromptBox).focus()

    def action_projects(self) -> None:
        self.post_message(self.Left())

    async def action_leave(self) -> None:
        await self.app.action_quit()

    async def action_help(self) -> None:
        await self.run_action("app.list_keys")

    def action_page(self, by: int) -> None:
        if self.card is not None and self.card.has_focus_within and self.card.page(by):
            return
        history = self.query_one(History)
        (history.scroll_page_down if by > 0 else history.scroll_page_up)(animate=False)

    def action_top(self) -> None:
        self.query_one(History).scroll_home(animate=False)

    def action_latest(self) -> None:
        async def go() -> None:
            await self._client.latest()
            self.show()
            self.query_one(History).to_end()
            self.tick()

        do(self, go())

    def action_back(self) -> None:
        """Goes back in the approval request, as in ``ApprovalView.back``. Otherwise, leaves the field."""
        if self.card is not None and self.card.back():
            return
        if not self._in_field:
            return
        if self.card is not None:
            self.card.focus_first()
        else:
            self.query_one(History).focus()

    @property
    def _in_field(self) -> bool:
        """Whether the focus is in a text field."""
        return isinstance(self.focused, TextArea | Input)


def _mode(project: Project) -> str:
    return str((project.get("desk") or project).get("permission_mode") or "default")


def _status(conversation: Conversation, project: Project, *, may_stop: bool) -> tuple[str, str]:
    """The project's current state in words, and its color. ``may_stop``: whether the device may cancel what would start
    later."""
    if conversation.open:
        return "Needs you", "$wait"
    if desk := project.get("desk"):
        words = wording.project_state(
            {**project, "approvals": ()}
        )  # the conversation may have received the answer before the list has
        if desk.get("in_terminal") or desk.get("state") == "waiting":
            return words, "$wait"
        return words, "$accent" if desk.get("state") == "working" else "$soft"
    if conversation.run and (words := wording.agent_words(conversation.agent)):
        return words, "$no" if conversation.agent.get("retry") else "$accent"
    if conversation.run:
        return "Thinking" if conversation.thinking else "Working", "$accent"
    if problem := project.get("problem"):
        return wording.one_line(problem), "$no"
    if waits := wording.waits_until(project):
        ends_tasks = wording.is_scheduled(project) and conversation.agent.get("tasks")
        key = f" (s: cancel{' schedule and tasks' if ends_tasks else ''})" if may_stop else ""
        return f"{waits}{key}", "$soft"
    if project["state"] == "ERROR":
        return "Last run failed", "$no"
    return "Ready", "$soft"


def _queued(conversation: Conversation, *, may_change: bool) -> str:
    count = len(conversation.queue)
    return f"{count} queued{' (t: change)' if may_change else ''}" if count else ""


def _since(run: Any) -> str:
    began = wording.when(run.get("started_at", "")) if run else None
    return wording.duration(max(0.0, (datetime.now(UTC) - began).total_seconds() * 1000)) if began else ""
