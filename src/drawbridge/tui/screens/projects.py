"""The list of all projects, those that wait for a person first."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from drawbridge.tui import wording
from drawbridge.tui.bar import Bar
from drawbridge.tui.client import Client
from drawbridge.tui.connection import RequestError
from drawbridge.tui.dialogs import NewProject, ProjectDialog
from drawbridge.tui.key_hints import KeyHints
from drawbridge.tui.requests import complain
from drawbridge.tui.store import Project

NOTHING = "No projects yet. A project is a directory on the server where an agent works."
ADD = "\n\nPress n to add one."
HOW_TO_ADD = (
    "On the server's machine, run `drawbridge attach .` in the project's directory, or create a token with `drawbridge "
    "token new NAME --scope admin`, save it in a file, and pass that file with --token-file."
)
ASK = f"\n\nThis device can't add one. {HOW_TO_ADD}"


class ProjectList(OptionList):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select", "open")]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "select" or self.option_count > 0


class ProjectScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "move('down')", show=False),
        Binding("k", "move('up')", show=False),
        Binding("n", "new_project", "new project"),
        Binding("question_mark", "help", "help"),
        Binding("q,ctrl+q", "app.quit", "quit"),
    ]

    class Chosen(Message):
        def __init__(self, id: str) -> None:
            super().__init__()
            self.id = id

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._shown: list[tuple[str, str]] = []

    def compose(self) -> ComposeResult:
        yield Bar()
        yield ProjectList(id="projects")
        yield Static(id="nothing")
        yield KeyHints()

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()
        self.show()

    def show(self) -> None:
        """Draws the projects in their current state."""
        if len(self.query("Bar, #projects, #nothing")) < 3:  # the screen is being closed
            return
        projects = self._client.projects
        waiting = f"{projects.waiting} waiting" if projects.waiting else ""
        self.query_one(Bar).show("Projects", waiting, self._client.connection)
        nothing = self.query_one("#nothing", Static)
        nothing.display = projects.known and not projects.all
        nothing.update(Content(NOTHING + (ADD if self._client.may("project_create") else ASK)))
        self.query_one(OptionList).display = not nothing.display
        self.refresh_bindings()
        labeled = [(project, self._client.agent_label(project["agent"])) for project in projects.sorted()]
        rows = [(project["id"], _row(project, agent)) for project, agent in labeled]
        shown = [(id, row.markup) for id, row in rows]
        if shown == self._shown:
            return
        options = self.query_one(OptionList)
        before = options.highlighted
        chosen = self._shown[before][0] if before is not None and before < len(self._shown) else None
        self._shown = shown
        options.clear_options()
        options.add_options(Option(row, id=id) for id, row in rows)
        if rows:
            if self.focused is None:
                options.focus()
            options.highlighted = next((at for at, (id, _) in enumerate(rows) if id == chosen), 0)

    def action_move(self, where: str) -> None:
        options = self.query_one(OptionList)
        options.action_cursor_down() if where == "down" else options.action_cursor_up()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "new_project" or self._client.may("project_create")

    async def action_help(self) -> None:
        await self.run_action("app.list_keys")

    def action_new_project(self, path: str = "", why: str = "") -> None:
        self.app.push_screen(ProjectDialog(path or os.getcwd(), self._client, why), self._add)

    def _add(self, wanted: NewProject | None) -> None:
        async def add() -> None:
            try:
                id = await self._client.add_project(*wanted) if wanted is not None else ""
            except RequestError as error:
                complain(self, error)
                if wanted is not None:
                    self.action_new_project(wanted.path)
            else:
                self.post_message(self.Chosen(id))

        if wanted is not None:
            self.run_worker(add())

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option.id is not None:
            self.post_message(self.Chosen(event.option.id))


def _row(project: Project, agent: str) -> Content:
    """A project in the list. ``agent``: its agent's display name."""
    waiting = bool(project["approvals"])
    color = "$wait" if waiting else {"EXECUTING": "$accent", "ERROR": "$no"}.get(project["state"], "$soft")
    cost = wording.money(project["cost_usd"]) if project.get("cost_usd") else ""
    terminal = "in a terminal" if project.get("desk") else ""
    facts = [agent, terminal, cost, wording.ago(project["last_active"], datetime.now(UTC)), project["path"]]
    title = project.get("title")
    return Content.assemble(
        (wording.one_line(wording.base_name(project["path"])), "bold"),
        (f"  ● {wording.listed_state(project)}", color),
        f"  {wording.one_line(title)}" if title else "",
        (f"\n{wording.one_line(' · '.join(filter(None, facts)))}", "$soft"),
    )
