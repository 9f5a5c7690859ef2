"""One project: what was said, what is being said, what waits for an answer, and the prompt box."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer, Input, Static, TextArea

from drawbridge.attach import wording
from drawbridge.attach.approval_view import ApprovalView
from drawbridge.attach.approval_words import Standing
from drawbridge.attach.bar import Bar
from drawbridge.attach.client import Client, question_of
from drawbridge.attach.connection import RequestError
from drawbridge.attach.conversation import Conversation, record_in
from drawbridge.attach.dialogs import HelpDialog, ModeDialog
from drawbridge.attach.drawing import Painter
from drawbridge.attach.fields import PromptBox
from drawbridge.attach.history import History, Tail

STILL_SECONDS: Final = 1.0
"""Without a key, after which a question takes the focus from an empty prompt box."""


BEGAN_ANEW: Final = {"reason": "the server began anew"}


class ConversationScreen(Screen[None]):
    """Draws what the client knows; every act of a person is a request, done beside."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a,ctrl+s", "accept", show=False),
        Binding("e", "edit", show=False),
        Binding("r", "reject", show=False),
        Binding("w", "always", show=False),
        Binding("s", "stop", "stop"),
        Binding("m", "mode", "mode"),
        Binding("slash", "prompt", "prompt"),
        Binding("p", "projects", "projects"),
        Binding("g", "top", show=False),
        Binding("G", "latest", show=False),
        Binding("question_mark", "help", "help"),
        Binding("escape", "back", "back"),
        Binding("ctrl+q", "app.quit", "leave", show=False),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
    ]

    class Left(Message):
        """Back to the projects."""

    def __init__(self, client: Client, painter: Painter) -> None:
        super().__init__()
        self._client = client
        self._painter = painter
        self._card: ApprovalView | None = None
        self._loading = False
        self._last_key = 0.0
        self._keys: object = None

    def compose(self) -> ComposeResult:
        yield Bar()
        yield History(self._painter)
        yield Vertical(id="open")
        yield Static(id="status")
        yield PromptBox()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one(PromptBox).focus()
        self.set_interval(1.0, self.tick)
        self.show()

    @property
    def card(self) -> ApprovalView | None:
        """The question that is shown."""
        return self._card

    @property
    def _is_there(self) -> bool:
        """Not any more while the window is being closed, nor before all is in it."""
        return len(self.query("Bar, History, #open, #status, #prompt")) == 5

    # What is seen.

    def show(self) -> None:
        """What is known now."""
        conversation, project = self._client.conversation, self._client.project
        if conversation is None or not self._is_there:
            return
        self._painter.me = self._client.name
        if project is not None:
            self._painter.root = project["path"]
            more = f"{project['agent']} · {project['path']}"
            self.query_one(Bar).show(wording.base_name(project["path"]), more, self._client.connection)
        self.query_one(History).show(conversation.items, self._tail(conversation))
        prompts = [item.data["text"] for item in conversation.items if item.kind == "prompt"]
        prompt = self.query_one(PromptBox)
        prompt.remember(prompts)
        prompt.display = self._client.may_steer
        self._show_card(conversation)
        self.tick()
        card = self._card
        keys = (conversation.run is None, card and (card.approval_id, card.is_begun), self._client.features)
        if keys != self._keys:  # the line of keys is made anew: not for every word
            self._keys = keys
            self.refresh_bindings()

    def tick(self) -> None:
        """What goes on with time."""
        conversation, project = self._client.conversation, self._client.project
        if conversation is None or project is None or not self._is_there:
            return
        run, waiting = conversation.run, len(conversation.open)
        if waiting:
            words, colour = "Waits for you", "$wait"
        elif run:
            words, colour = "Thinking" if conversation.thinking else "Working", "$accent"
        elif project["state"] == "ERROR":
            words, colour = "The last run failed", "$no"
        else:
            words, colour = "Ready", "$soft"
        parts = [words, _since(run), f"{len(conversation.queue)} queued" if conversation.queue else ""]
        cost = project.get("cost_usd") or conversation.cost
        parts.append(wording.money(cost) if cost else "")
        mode = wording.MODES.get(conversation.mode or "default", conversation.mode)
        below = "" if self.query_one(History).follows and conversation.at_end else "  ↓ G: latest"
        self.query_one("#status", Static).update(
            Content.assemble(
                (f"● {' · '.join(filter(None, parts))}", colour),
                (f"  {wording.one_line(mode)}", "$no" if mode == "Never ask" else "$soft"),
                (below, "$accent"),
            )
        )

    def _tail(self, conversation: Conversation) -> list[Tail]:
        painter, found = self._painter, []
        if conversation.live:
            found.append(Tail(("live", conversation.live), partial(painter.markdown, conversation.live)))
        sent = self._client.connection.state == "open"
        queued = [("Queued", one["prompt"]) for one in conversation.queue if one["position"] > 0]
        unsent = [one.prompt for one in self._client.unsent if one.project == conversation.id]
        queued += [("Sending" if sent else "Waits for the server", prompt) for prompt in unsent]
        for number, (tag, text) in enumerate(queued):
            found.append(Tail((number, tag, text), partial(painter.queued, tag, text)))
        return found

    # Questions.

    def _show_card(self, conversation: Conversation) -> None:
        card = self._card
        gone = card is not None and card.approval_id not in conversation.open
        if card is not None and gone and not card.is_busy and not card.is_settled:
            answer = conversation.answers.get(card.approval_id) or BEGAN_ANEW
            if answer.get("by"):
                verb = "accepted" if answer["decision"] == "allow" else "rejected"
                self.notify(f"{wording.one_line(answer['by'])} {verb} it.", markup=False)
            self._settled(card, answer)
        if self._card is None and conversation.open:
            self._open(next(iter(conversation.open.values())))
        if self._card is not None:
            self._card.count(len(conversation.open))
            self._card.fit(self.size.height * 7 // 10)

    def _settled(self, card: ApprovalView, answer: Mapping[str, Any]) -> None:
        """By somebody else."""
        if card.is_dirty:
            card.settle(answer)
        else:
            self._close(card)

    def _open(self, request: Any) -> None:
        project = self._client.project
        agent = wording.agent_title(project["agent"] if project else "agent")
        may_answer, may_remember = self._client.may("permission_response"), self._client.may("set_mode")
        standing = Standing(may_answer=may_answer, may_remember=may_remember)
        self._card = ApprovalView(request, agent, self._painter, standing)
        self.query_one("#open").mount(self._card)
        self.set_timer(0.05, self._focus_card)

    def _close(self, card: ApprovalView) -> None:
        if card is not self._card:
            return
        had_focus = card.has_focus_within
        card.remove()
        self._card = None
        if had_focus:
            self.query_one(PromptBox).focus()

    def _focus_card(self) -> None:
        """Not from under a person's hands: what they type next is meant for the field that they are in."""
        card, prompt = self._card, self.query_one(PromptBox)
        if card is None or card.has_focus_within or not prompt.has_focus or prompt.text:
            return
        left = STILL_SECONDS - (time.monotonic() - self._last_key)
        if left > 0:
            self.set_timer(left + 0.01, self._focus_card)
        else:
            card.uncover()

    def on_key(self, event: events.Key) -> None:
        self._last_key = time.monotonic()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        self._last_key = time.monotonic()

    def on_approval_view_given(self, event: ApprovalView.Given) -> None:
        self._do(self._answer(event))

    async def _answer(self, event: ApprovalView.Given) -> None:
        view = event.view
        try:
            await self._client.answer(view.approval_id, **event.answer._asdict())
        except RequestError as error:
            self._complain(error)
            if error.code in ("APPROVAL_RESOLVED", "APPROVAL_NOT_FOUND"):
                self._settled(view, error.details if error.details.get("by") else BEGAN_ANEW)
            else:
                view.failed()
        else:
            self._close(view)
        self.show()

    def on_approval_view_whole_wanted(self, event: ApprovalView.WholeWanted) -> None:
        async def bring() -> None:
            record = await self._client.whole(event.view.request["truncated"]["blob_id"])
            request = {**event.view.request, **question_of(record)}
            request.pop("truncated", None)
            event.view.show_whole(request)

        self._do(bring())

    def on_approval_view_closed(self, event: ApprovalView.Closed) -> None:
        self._close(event.view)
        self.show()

    # The conversation.

    def on_history_wanted(self, event: History.Wanted) -> None:
        conversation = self._client.conversation
        if self._loading or conversation is None or not conversation.joined:
            return
        if conversation.has_older if event.older else not conversation.at_end:
            self._loading = True
            self._do(self._load(self._client.older if event.older else self._client.newer))

    async def _load(self, more: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await more()
            self.show()
        finally:
            self._loading = False

    def on_history_whole_wanted(self, event: History.WholeWanted) -> None:
        async def bring() -> None:
            assert event.item.truncated is not None
            record = record_in(await self._client.whole(event.item.truncated["blob_id"]))
            self.query_one(History).put_whole(event.item, wording.whole_text(record.message))

        self._do(bring())

    def on_prompt_box_sent(self, event: PromptBox.Sent) -> None:
        self.query_one(History).to_end()
        self._do(self._client.execute(event.text))

    def put_back(self, prompt: str) -> None:
        """A prompt that was not taken."""
        box = self.query_one(PromptBox)
        if not box.text:
            box.put(prompt)

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        card, conversation, desk = self._card, self._client.conversation, self._client.at_desk
        match action:
            case "accept" | "reject" | "edit" | "always":
                return card is not None and card.may_answer and not card.is_settled
            case "stop":
                return bool(conversation and conversation.run) and self._client.may("agent_interrupt") and not desk
            case "mode":
                return self._client.may("set_mode") and not desk
            case "prompt":
                return self._client.may_steer and not self._in_field
            case "projects" | "help":
                return not self._in_field
            case "back":
                return self._in_field or (card is not None and card.is_begun)
        return True

    def action_accept(self) -> None:
        self._decide("accept")

    def action_always(self) -> None:
        self._decide("always")

    def action_edit(self) -> None:
        self._decide("edit")

    def action_reject(self) -> None:
        self._decide("reject")

    def _decide(self, how: str) -> None:
        if self._card is not None and self._card.is_ready:
            getattr(self._card, how)()

    def action_stop(self) -> None:
        self._do(self._client.command("agent_interrupt"))

    def action_mode(self) -> None:
        conversation = self._client.conversation
        if conversation is not None:
            self.app.push_screen(ModeDialog(conversation.mode), self._set_mode)

    def _set_mode(self, mode: str | None) -> None:
        async def set_it() -> None:
            await self._client.command("set_mode", {"mode": mode})
            if self._client.conversation is not None:
                self._client.conversation.mode = mode or ""
            self.notify(f"From now on: {wording.MODES.get(mode or '', mode)}.", markup=False)
            self.tick()

        if mode is not None:
            self._do(set_it())

    def action_prompt(self) -> None:
        self.query_one(PromptBox).focus()

    def action_projects(self) -> None:
        self.post_message(self.Left())

    def action_help(self) -> None:
        self.app.push_screen(HelpDialog())

    def action_page(self, by: int) -> None:
        history = self.query_one(History)
        (history.scroll_page_down if by > 0 else history.scroll_page_up)(animate=False)

    def action_top(self) -> None:
        self.query_one(History).scroll_home(animate=False)

    def action_latest(self) -> None:
        async def go() -> None:
            await self._client.latest()
            self.show()
            self.query_one(History).to_end()

        self._do(go())

    def action_back(self) -> None:
        """Out of the field; of a question back to reading it."""
        if self._card is not None and self._card.back():
            return
        if not self._in_field:
            return
        if self._card is not None:
            self._card.look()
        else:
            self.query_one(History).focus()

    @property
    def _in_field(self) -> bool:
        """Keys are text there."""
        return isinstance(self.focused, TextArea | Input)

    # Beside.

    def _do(self, work: Coroutine[Any, Any, Any]) -> None:
        async def done() -> None:
            try:
                await work
            except RequestError as error:
                self._complain(error)

        self.run_worker(done(), exit_on_error=True)

    def _complain(self, error: RequestError) -> None:
        self.notify(wording.block(str(error)), severity="error", markup=False)


def _since(run: Any) -> str:
    began = wording.when(run.get("started_at", "")) if run else None
    return wording.duration(max(0.0, (datetime.now(UTC) - began).total_seconds() * 1000)) if began else ""
