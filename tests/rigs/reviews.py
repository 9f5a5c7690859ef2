"""A repository, what a run changes in it, and what other clients see of its review, for the tests of all clients."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drawbridge.server.reviews import gaps
from tests.server.checkpoints.rig import git
from tests.server.processes import Server

LINES = [f"line {number}\n" for number in range(1, 41)]
POEM = "".join(LINES)


def poem(**changed: str) -> str:
    """The poem with some lines replaced, for example with ``line_5="LINE 5"``. "" removes a line."""
    lines = list(LINES)
    for name, text in changed.items():
        lines[int(name.removeprefix("line_")) - 1] = text and f"{text}\n"
    return "".join(lines)


WORK: Mapping[str, str | None] = {
    "poem.txt": poem(line_5="LINE 5", line_30="LINE 30"),
    "src/new.py": "def open_bridge() -> bool:\n    return True\n",
    "old.txt": None,
}
"""The files that a run writes, with their content; None: the run removes the file."""


def make_repository(directory: Path) -> Path:
    """Makes the directory a repository that contains the poem and ``old.txt``. Returns it."""
    (directory / "poem.txt").write_text(POEM)
    (directory / "old.txt").write_text("old\n")
    git(directory, "init", "-q")
    git(directory, "add", ".")
    git(directory, "commit", "-q", "-m", "first")
    return directory


async def decides(server: Server, project: str, **data: Any) -> None:
    """Decides as another client."""
    async with server.client() as client:
        reply = await client.ask("review_decide", data, project)
        assert reply["type"] == "review", reply


async def comments_of(server: Server, project: str) -> list[dict[str, Any]]:
    async with server.client() as client:
        found: list[dict[str, Any]] = (await client.ask("review_get", project_id=project))["data"].get("comments", [])
        return found


async def prompts_of(server: Server, project: str) -> list[str]:
    """The project's prompts that consist of review comments."""
    async with server.client() as client:
        page = await client.ask("get_messages", {"after_seq": 0, "limit": 1000}, project)
        messages = [item["message"] for item in page["data"]["messages"]]
        return [one["message"]["prompt"] for one in messages if one.get("review")]


MISSING = "Changes of the latest run may be missing here, because no checkpoint was taken in time before it: "
"""The beginning of what clients show after ``misses_the_first_checkpoint``."""


def misses_the_first_checkpoint(server: Server, project: str) -> None:
    """Makes the server believe that the checkpoint before the project's first run, which follows, was late."""
    [folder] = server.data.rglob(project)
    (folder / gaps.NAME).write_text('{"missed": "git took longer than 5 s."}')
