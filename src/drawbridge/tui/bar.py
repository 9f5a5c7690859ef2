"""The bar at the top: what the screen shows, and the state of the connection in words. A second line describes a
problem with the connection."""

from __future__ import annotations

from typing import Final

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from drawbridge.tui.connection import Connection, refused_words
from drawbridge.tui.wording import one_line

ROOMY: Final = 60
"""The minimum width, in columns, at which ``more`` is shown."""


class Bar(Vertical):
    def compose(self) -> ComposeResult:
        yield Static(id="name")
        yield Static(id="trouble")

    def show(self, name: str, more: str, connection: Connection) -> None:
        connected = "  Connected" if connection.state == "open" else ""
        parts = [(one_line(name), "bold"), (connected, "$yes")]
        if more and self.size.width >= ROOMY:
            parts.append((f"  {one_line(more)}", "$soft"))
        self.query_one("#name", Static).update(Content.assemble(*parts))
        trouble = _trouble(connection)
        line = self.query_one("#trouble", Static)
        line.update(Content(trouble))
        line.display = bool(trouble)


def _trouble(connection: Connection) -> str:
    """Describes what is wrong with the connection; empty if it is open."""
    problem = one_line(connection.problem)
    if problem and not problem.endswith("."):
        problem = f"{problem}."
    match connection.state:
        case "connecting":
            return "Connecting…"
        case "waiting":
            why = f": {problem}" if problem else "."
            return f"Not connected to the server{why} Retrying… What you write is kept."
        case "refused":
            return refused_words(problem)
    return ""
