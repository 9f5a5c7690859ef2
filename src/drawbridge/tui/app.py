"""The application, which determines which screen is shown and when it is redrawn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from textual.app import App

from drawbridge.tui.client import LONGEST_SHOWN, Client, Unsent
from drawbridge.tui.colors import Palette, theme
from drawbridge.tui.connection import RequestError
from drawbridge.tui.dialogs import KEYS, REVIEW_KEYS, ConfirmDialog, HelpDialog
from drawbridge.tui.drawing import Painter
from drawbridge.tui.queue_dialog import QueueDialog
from drawbridge.tui.requests import WARNING_SECONDS, complain
from drawbridge.tui.screens.conversation import ConversationScreen
from drawbridge.tui.screens.projects import HOW_TO_ADD, ProjectScreen
from drawbridge.tui.screens.review import ReviewScreen
from drawbridge.tui.wording import base_name, block

DRAWING_SECONDS: Final = 0.04
"""The delay in seconds between a change and the redraw, which shows everything that has arrived by then."""

SERVER_ENDS: Final = "The server that this command started will also stop."
COMMENTS_WAIT: Final = (
    "Comments are waiting for the agent in the terminal. It gets them only while a server is running."
)

LISTED: Final = 3
"""The maximum number of projects that the question before quitting names."""


class StartView(NamedTuple):
    """The view to start with: the project with the id ``project``, that project's review, or the offer to create a
    project in ``directory``. By default, the list of projects."""

    project: str | None = None
    directory: str | None = None
    review: bool = False


class QuitDialog(ConfirmDialog):
    """Asks before the user quits, which ends the server. ``working``: the names of the projects whose runs would be
    stopped. ``has_waiting``: whether comments wait for an agent in a terminal."""

    def __init__(self, working: Sequence[str], *, has_waiting: bool) -> None:
        names = ", ".join(working[:LISTED]) + (" and others" if len(working) > LISTED else "")
        text = [f"Still working: {names}."] if working else []
        text.append(SERVER_ENDS)
        if has_waiting:
            text.append(COMMENTS_WAIT)
        what = "the run" if len(working) == 1 else f"{len(working)} runs"
        super().__init__(f"Quit and stop {what}?" if working else "Quit?", " ".join(text), "Quit")


class AttachApp(App[None]):
    """The application. ``client``: a connected client. ``first``: the view to start with. ``ends_server``: whether the
    server, and with it every run, ends with the application."""

    CSS_PATH = "attach.tcss"
    TITLE = "Drawbridge"
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self, client: Client, palette: Palette, first: StartView | None = None, *, ends_server: bool = False
    ) -> None:
        super().__init__()
        self._ends_server = ends_server
        self.client = client
        self.painter = Painter(palette, client.is_mine)
        self.register_theme(theme(palette))
        self.theme = theme(palette).name
        self._first = first or StartView()
        self._projects = ProjectScreen(client)
        self._stale = False
        self._refused_prompts: dict[str, list[str]] = {}
        """Prompts that were refused after the user had left their project, by its id. They are in its prompt box when it
        is opened again."""
        client.report_to(
            on_change=self._changed,
            on_refused=self._refused,
            on_project_removed=partial(self._later, self._gone),
            on_warning=self._warn,
            on_open=partial(self._later, self._begin),
        )

    async def on_mount(self) -> None:
        self.push_screen(self._projects)
        if self._first.project is not None:
            self._enter(self._first.project)
            if self._first.review:
                self.push_screen(ReviewScreen(self.client, self.painter, self._first.project))
        self.run_worker(self.client.connection.run())

    def _later(self, act: Callable[[], object]) -> None:
        self.call_later(act)

    # Drawing.

    def _changed(self) -> None:
        """Limits redraws to one per ``DRAWING_SECONDS``, however many changes there are."""
        if not self._stale and self.is_running:
            self._stale = True
            self.call_later(self.set_timer, DRAWING_SECONDS, self._draw)

    def _draw(self) -> None:
        self._stale = False
        for screen in list(self.screen_stack):  # a dialog may close itself
            if isinstance(screen, ProjectScreen | ConversationScreen | ReviewScreen | QueueDialog):
                screen.show()

    # The connection.

    def _begin(self) -> None:
        async def begin() -> None:
            try:
                await self.client.begin()
                self._offer()
            except RequestError as error:
                if error.code == "PROJECT_NOT_FOUND":
                    await self._gone()
                elif error.code != "OFFLINE":  # ``begin`` is called again on the next connection
                    self.notify(block(str(error)), severity="error", markup=False)

        self.run_worker(begin())

    def _offer(self) -> None:
        """Offers, once, to create a project for the directory that the user named, or explains how to add one if this
        device can't."""
        path, self._first = self._first.directory, StartView()
        if path is None:
            return
        if self.client.may("project_create"):
            self._projects.action_new_project(path, "The server has no project in this directory yet.")
        else:
            words = f"The server has no project in {path}, and this device can't add one. {HOW_TO_ADD}"
            self.notify(block(words), severity="warning", markup=False)

    def action_help_quit(self) -> None:
        """Handles Ctrl-C outside text fields by showing the key that quits everywhere."""
        words = "The server also stops." if self._ends_server else "Agents keep working while the server runs."
        self.notify(f"Ctrl-Q quits. {words}", markup=False)

    def action_list_keys(self, in_review: bool = False) -> None:
        self.push_screen(HelpDialog(REVIEW_KEYS if in_review else KEYS, ends_server=self._ends_server))

    async def action_quit(self) -> None:
        """Quits. If that would stop a run, or leave comments for an agent undelivered, asks first."""
        projects = self.client.projects.all.values()
        working = [base_name(one["path"]) for one in projects if one["state"] == "EXECUTING" and not one.get("desk")]
        has_waiting = any(one.has_waiting_comments for one in self.screen_stack if isinstance(one, ReviewScreen))
        if not self._ends_server or not (working or has_waiting):
            self.exit()
        elif not any(isinstance(one, QuitDialog) for one in self.screen_stack):
            self.push_screen(QuitDialog(working, has_waiting=has_waiting), self._quit_answered)

    def _quit_answered(self, yes: bool | None) -> None:
        if yes:
            self.exit()

    def _refused(self, unsent: Unsent, error: RequestError) -> None:
        """Puts a prompt that was refused back into the prompt box, now or when its project is opened again. If the
        project no longer exists, the message about the error contains the beginning of the prompt."""
        conversation = self.client.conversation
        screens = [screen for screen in self.screen_stack if isinstance(screen, ConversationScreen)]
        if conversation is not None and conversation.id == unsent.project and screens:
            screens[0].put_back(unsent.prompt)
            complain(self, error)
            return
        project = self.client.projects.all.get(unsent.project)
        if project is None:
            words = f"Your prompt was not sent: {unsent.prompt[:LONGEST_SHOWN]}"
        else:
            self._refused_prompts.setdefault(unsent.project, []).append(unsent.prompt)
            words = f"Your prompt for {base_name(project['path'])} was not sent. To edit it or send it again, open the project."
        self.notify(block(f"{error} {words}"), severity="error", timeout=WARNING_SECONDS, markup=False)

    def _warn(self, words: str) -> None:
        self.notify(block(words), severity="warning", timeout=WARNING_SECONDS, markup=False)

    def on_app_focus(self) -> None:
        """Retries a lost connection now, since the user is looking, and reloads reviews, since files may have changed
        in the meantime.
        """
        self.client.connection.retry_now()
        for screen in list(self.screen_stack):  # a dialog may close itself
            if isinstance(screen, ReviewScreen):
                screen.load()

    # Projects.

    def on_project_screen_chosen(self, event: ProjectScreen.Chosen) -> None:
        self._enter(event.id)

    async def on_conversation_screen_left(self) -> None:
        await self._leave()

    def _enter(self, id: str) -> None:
        prompt = "\n\n".join(self._refused_prompts.pop(id, []))
        self.push_screen(ConversationScreen(self.client, self.painter, prompt))
        self.run_worker(self._choose(id))

    async def _leave(self) -> None:
        for _ in range(len(self.screen_stack)):
            if self.screen is self._projects:
                break
            await self.pop_screen()
        self.run_worker(self._choose(None))

    async def _choose(self, id: str | None) -> None:
        with contextlib.suppress(RequestError):  # without a connection, the project is joined later
            await self.client.choose(id)
        self._changed()

    async def _gone(self) -> None:
        if self.screen is not self._projects:
            await self._leave()
            words = "This project no longer exists, or this device no longer has access to it."
            self.notify(words, severity="error", markup=False)
