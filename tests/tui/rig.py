"""A simulated person who uses ``drawbridge attach``: Textual's pilot presses the keys, and tests read the screen."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os.path
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from msgspec import Raw
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.pilot import Pilot
from textual.screen import Screen

from drawbridge.agents import registry
from drawbridge.agents.base import Proposal
from drawbridge.agents.tool_calls import Tools
from drawbridge.server.approvals.pending import PendingApproval, with_call
from drawbridge.server.approvals.words import words
from drawbridge.server.events import ApprovalRequested
from drawbridge.tui import approval_view
from drawbridge.tui.app import AttachApp
from drawbridge.tui.approval_view import Answer, ApprovalView
from drawbridge.tui.approval_words import ApprovalState
from drawbridge.tui.client import Client
from drawbridge.tui.colors import DARK, Palette, theme
from drawbridge.tui.command import begin
from drawbridge.tui.drawing import Painter
from drawbridge.tui.fields import PromptBox
from drawbridge.tui.history import History
from drawbridge.tui.screens.conversation import ConversationScreen
from drawbridge.tui.server_address import Finder
from tests.server.processes import Server
from tests.waiting import PATIENCE


class Person:
    """A person who uses the terminal client. Methods that wait fail after ``PATIENCE`` seconds."""

    def __init__(self, app: AttachApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot
        self.notices: list[str] = []
        """The texts of all notices so far."""
        notify = app.notify

        def noted(message: str, **how: Any) -> None:
            self.notices.append(message)
            notify(message, **how)

        app.notify = noted  # type: ignore[method-assign]

    @property
    def screen(self) -> str:
        """The text that is on the screen now."""
        return "\n".join(line.rstrip() for line in shown(self.app))

    @property
    def history(self) -> str:
        """The text of the loaded part of the conversation, whether it is on the screen or not."""
        return self.app.screen.query_one(History).text() if self.in_project else ""

    @property
    def in_project(self) -> bool:
        return isinstance(self.app.screen, ConversationScreen)

    @property
    def card(self) -> ApprovalView | None:
        return self.app.screen.card if isinstance(self.app.screen, ConversationScreen) else None

    @property
    def prompt(self) -> PromptBox:
        return self.app.screen.query_one(PromptBox)

    async def waits_for(self, condition: Callable[[], Any], what: str) -> None:
        """Waits until ``condition`` is true. It is checked only every 30 ms, because reading a whole screen is slow.
        ``what`` describes it in the failure message."""
        end = asyncio.get_running_loop().time() + PATIENCE
        while not condition():
            assert asyncio.get_running_loop().time() < end, (
                f"{what} did not happen within {PATIENCE:g} s:\n{self.screen}"
            )
            await asyncio.sleep(0.03)

    async def sees(self, *words: str) -> None:
        await self.waits_for(
            lambda: (screen := self.screen) and all(word in screen for word in words), f"{words} to see"
        )

    async def is_notified(self, words: str) -> None:
        """Waits for a notice that may no longer be on the screen: on a slow machine, it may be gone before the screen
        is read."""
        await self.waits_for(lambda: any(words in notice for notice in self.notices), f"the notice {words!r}")

    async def loses(self, *words: str) -> None:
        await self.waits_for(lambda: not any(word in self.screen for word in words), f"{words} going")

    async def reads(self, *words: str) -> None:
        """Waits until the words are in the conversation."""
        await self.waits_for(
            lambda: (text := self.history) and all(word in text for word in words), f"{words} in the history"
        )

    async def reads_times(self, count: int, words: str) -> None:
        """Waits until the words are in the conversation this many times."""
        await self.waits_for(lambda: self.history.count(words) == count, f"{words} {count} times")

    async def presses(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def types(self, text: str) -> None:
        names = {" ": "space", "\n": "enter"}
        await self.pilot.press(*(names.get(one, one) for one in text))

    async def prompts(self, text: str) -> None:
        self.prompt.focus()
        self.prompt.text = text
        await self.pilot.press("enter")

    async def is_asked(self, words: str = "") -> ApprovalView:
        """Waits until an approval request that keys can answer is shown, with ``words`` on the screen. Leaves the
        prompt box, and returns the request's widget.
        """
        await self.waits_for(
            lambda: (card := self.card) and card.is_ready and words in self.screen, f"a question {words}"
        )
        card = self.card
        assert card is not None
        if self.prompt.has_focus:
            await self.pilot.press("escape")
        return card


def shown(app: App[None]) -> list[str]:
    compositor = app.screen._compositor
    return [strip.text for strip in compositor.render_strips()]


@contextlib.asynccontextmanager
async def attached(
    server: Server,
    project: str | Path | None,
    *,
    name: str = "Ada",
    size: tuple[int, int] = (100, 30),
    palette: Palette = DARK,
    ends_server: bool = False,
    **how: Any,
) -> AsyncIterator[Person]:
    """Yields a person whose terminal client is connected to ``server``, as if ``drawbridge attach`` had been started
    with its URL and token file, or ``drawbridge review`` if the client ``ends_server``. ``how`` may contain another
    ``url`` or ``token_file``."""
    ca = str(server.data / "tls" / "cert.pem") if server.url.startswith("wss") else None
    finder = Finder(how.get("url", server.url), how.get("token_file", str(server.data / "token")), ca)
    client = Client(finder.find, name)
    first = await begin(client, None if project is None else str(project), str(project))
    app = AttachApp(client, palette, first, ends_server=ends_server)
    async with app.run_test(size=size, notifications=True) as pilot:
        person = Person(app, pilot)
        await person.sees("Connected")
        if first.project is not None:
            await person.waits_for(
                lambda: (shown := client.conversation) and shown.joined and person.in_project, "the project"
            )
        yield person


def event(request: dict[str, Any]) -> ApprovalRequested:
    """The request as the server has it."""
    proposal = request.get("proposal")
    given, suggestions = (Raw(json.dumps(request.get(name, [])).encode()) for name in ("input", "suggestions"))
    asked = ApprovalRequested(
        "a",
        "run_1",
        request["tool_name"],
        given,
        suggestions,
        Proposal(**proposal) if proposal else None,
        request.get("changeable", True),
        form=request.get("form", "fields"),
    )
    return with_call(asked, tools_of(asked))


def tools_of(asked: ApprovalRequested) -> Tools:
    return registry.tools("gemini" if asked.form == "acp" else "claude")


def described(request: dict[str, Any], agent: str) -> dict[str, Any]:
    """The request with the texts that the server adds to it, for a project in ``/home/ada/blog``."""
    asked = event(request)
    assert asked.call is not None
    found = words(asked, asked.call, agent.lower(), "/home/ada/blog", os.path.normpath)
    approval = PendingApproval(asked, "", "")
    approval.interpret(tools_of(asked))
    fields: dict[str, Any] = json.loads(json.dumps(msgspec.to_builtins(found)))
    return {**fields, "shown_fields": [*approval.shown_fields()], **request}


class Alone(App[None]):
    """A screen that contains only one approval request. ``given`` contains the answers to it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("a,ctrl+s", "accept", "as the conversation has it"),
        ("e", "edit", "as the conversation has it"),
        ("w", "always", "as the conversation has it"),
        ("escape", "back", "as the conversation has it"),
    ]
    CSS_PATH = Path(approval_view.__file__).parent / "attach.tcss"

    def __init__(self, request: dict[str, Any], agent: str = "Claude", **state: Any) -> None:
        super().__init__()
        self.register_theme(theme(DARK))
        self.theme = theme(DARK).name
        self.given: list[Answer] = []
        self.full_text_requested = 0
        self.drawn: Callable[[], None] = lambda: None
        """Called after each frame that was drawn, except while something is animated."""
        self.view = ApprovalView(
            {"approval_id": "a", **described(request, agent)}, agent, Painter(DARK), ApprovalState(**state)
        )

    def compose(self) -> ComposeResult:
        yield self.view

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        super()._display(screen, renderable)
        if not self.animator._animations:
            self.drawn()

    def on_approval_view_answered(self, event: ApprovalView.Answered) -> None:
        self.given.append(event.answer)

    def on_approval_view_full_text_requested(self) -> None:
        self.full_text_requested += 1

    def action_accept(self) -> None:
        self.view.accept()

    def action_edit(self) -> None:
        self.view.edit()

    def action_always(self) -> None:
        self.view.always()

    async def action_back(self) -> None:
        if not self.view.back():
            self.view.focus_first()

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in shown(self))


@contextlib.asynccontextmanager
async def alone(app: Alone, width: int = 80, height: int = 24) -> AsyncIterator[Pilot[None]]:
    """Runs ``app`` on a screen of this size. The approval request has the focus, and may use the whole screen."""
    async with app.run_test(size=(width, height), notifications=True) as pilot:
        app.view.fit(height)
        app.view.focus_first()
        await pilot.pause()
        await pilot.pause()
        yield pilot
