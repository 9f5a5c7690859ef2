"""A person at a terminal with ``drawbridge attach``: Textual's own pilot presses the keys and looks at the screen."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from drawbridge.attach.app import AttachApp
from drawbridge.attach.approval_view import ApprovalView
from drawbridge.attach.client import Client
from drawbridge.attach.colours import DARK, Palette
from drawbridge.attach.command import begin
from drawbridge.attach.fields import PromptBox
from drawbridge.attach.history import History
from drawbridge.attach.place import Finder
from drawbridge.attach.screen_conversation import ConversationScreen
from tests.server.processes import Server
from tests.waiting import until


class Person:
    """What a person sees and does."""

    def __init__(self, app: AttachApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def screen(self) -> str:
        """All that is on the screen now."""
        return "\n".join(line.rstrip() for line in shown(self.app))

    @property
    def history(self) -> str:
        """All of the conversation that is here, on the screen or not."""
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

    async def sees(self, *words: str) -> None:
        try:
            await until(lambda: all(word in self.screen for word in words), f"{words} on the screen")
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{self.screen}") from None

    async def hears(self, *words: str) -> None:
        """It is in the conversation."""
        await until(lambda: all(word in self.history for word in words), f"{words} in the conversation")

    async def loses(self, *words: str) -> None:
        await until(lambda: not any(word in self.screen for word in words), f"{words} going")

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
        """A question is there, and a key would answer it."""
        await until(
            lambda: self.card is not None and self.card.is_ready and words in self.screen, f"a question {words}"
        )
        card = self.card
        assert card is not None
        if self.prompt.has_focus:
            await self.pilot.press("escape")
        return card


def shown(app: AttachApp) -> list[str]:
    compositor = app.screen._compositor
    return [strip.text for strip in compositor.render_strips()]


@contextlib.asynccontextmanager
async def attached(
    server: Server,
    project: str | None = "blog",
    *,
    name: str = "Ada",
    size: tuple[int, int] = (100, 30),
    palette: Palette = DARK,
    **how: Any,
) -> AsyncIterator[Person]:
    """In front of ``server``, as the command would be with its flags."""
    ca = str(server.data / "tls" / "cert.pem") if server.url.startswith("wss") else None
    finder = Finder(how.get("url", server.url), how.get("token_file", str(server.data / "token")), ca)
    client = Client(finder.find, name)
    chosen = await begin(client, project, str(Path.cwd() / (project or "")))
    app = AttachApp(client, palette, chosen)
    async with app.run_test(size=size) as pilot:
        person = Person(app, pilot)
        await person.sees("Connected")
        if project is not None:
            await until(lambda: client.conversation is not None and client.conversation.joined, "the project")
        yield person
