"""A project shows the Claude Code conversations that were started in its directory."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.claude import earlier, sessions
from drawbridge.server.auth.devices import Devices
from tests.server.processes import serving
from tests.server.wire_client import connected

ONE = "1c839b3a-0719-4371-94a4-d94be3a5abca"
TWO = "2c839b3a-0719-4371-94a4-d94be3a5abca"
ALIKE = ("site-a", "site/a", "site.a", "site a")
"""Directories for which the CLI's own store uses the same folder."""


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    return tmp_path / "config"


def lines(directory: Path | str | None, prompt: Any = "hello") -> list[dict[str, Any]]:
    """Returns the lines of a conversation as Claude Code 2.1.329 writes them."""
    where = {} if directory is None else {"cwd": str(directory)}
    return [
        {"type": "queue-operation", "operation": "enqueue", "content": "not the title"},
        {"type": "user", "message": {"role": "user", "content": prompt}, **where},
        {"type": "assistant", "message": {"role": "assistant", "content": []}, **where},
    ]


def conversation(path: Path, id: str, written: list[dict[str, Any]]) -> None:
    folder = sessions.directory_of(path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{id}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in written))


def test_a_conversation_belongs_to_one_directory(tmp_path: Path) -> None:
    for name in ALIKE:
        (tmp_path / name).mkdir(parents=True)
    conversation(tmp_path / "site-a", ONE, lines(tmp_path / "site-a", "mine"))
    conversation(tmp_path / "site/a", TWO, lines(tmp_path / "site/a", "our merger, top secret"))
    assert [one.title for one in sessions.listed(tmp_path / "site-a", 10)] == ["mine"]
    assert [one.title for one in sessions.listed(tmp_path / "site/a", 10)] == ["our merger, top secret"]
    assert sessions.listed(tmp_path / "site.a", 10) == []
    found = {name: [sessions.known(tmp_path / name, id) for id in (ONE, TWO)] for name in ALIKE}
    assert found == {"site-a": [True, False], "site/a": [False, True], "site.a": [False] * 2, "site a": [False] * 2}


def test_other_directories_conversations_do_not_use_up_the_limit(tmp_path: Path) -> None:
    conversation(tmp_path / "site-a", ONE, lines(tmp_path / "site-a"))
    conversation(tmp_path / "site-a", TWO, lines(tmp_path / "site/a"))
    folder = sessions.directory_of(tmp_path / "site-a")
    os.utime(folder / f"{ONE}.jsonl", (1, 1))
    assert [one.session_id for one in sessions.listed(tmp_path / "site-a", 1)] == [ONE]


def test_a_later_change_of_directory_is_ignored(tmp_path: Path) -> None:
    written = [*lines(tmp_path / "site-a"), *lines(tmp_path / "site/a")]
    conversation(tmp_path / "site-a", ONE, written)
    assert sessions.known(tmp_path / "site-a", ONE)
    assert not sessions.known(tmp_path / "site/a", ONE)


@pytest.mark.parametrize("worktree", [".claude/worktrees/fix", "../fix"], ids=["created", "elsewhere"])
def test_a_conversation_that_moved_to_a_worktree_is_found(tmp_path: Path, worktree: str) -> None:
    """Claude Code moves the conversation's file to the folder for the worktree."""
    project = tmp_path / "project"
    conversation(Path(os.path.normpath(project / worktree)), ONE, [*lines(project, "Fix it"), *lines(worktree)])
    assert sessions.known(project, ONE)
    assert sessions.title(project, ONE) == "Fix it"
    assert not sessions.known(tmp_path / "another", ONE)
    listed = [one.session_id for one in sessions.listed(project, 10)]
    assert listed == ([ONE] if worktree.startswith(".claude") else []), (
        "files of unrelated directories are not searched"
    )


def test_directories_are_listed_by_their_latest_conversation(tmp_path: Path) -> None:
    for number, name in enumerate(("site", "blog", "poems", "site/.claude/worktrees/one"), 1):
        conversation(tmp_path / name, ONE, lines(tmp_path / name))
        os.utime(sessions.directory_of(tmp_path / name) / f"{ONE}.jsonl", (number, number))
    conversation(tmp_path / "nowhere", TWO, lines(None))
    os.utime(sessions.directory_of(tmp_path / "nowhere") / f"{TWO}.jsonl", (9, 9))
    assert sessions.directories(2) == [(tmp_path / "poems", 3), (tmp_path / "blog", 2)]
    assert sessions.directories(9) == [(tmp_path / "poems", 3), (tmp_path / "blog", 2), (tmp_path / "site", 1)]


def test_a_long_first_prompt_does_not_hide_the_directory(tmp_path: Path) -> None:
    """In the prompt's line, the directory comes after the text of the prompt."""
    conversation(tmp_path, ONE, lines(tmp_path, "x" * 500_000))
    assert sessions.known(tmp_path, ONE)
    [found] = sessions.listed(tmp_path, 10)
    assert found.title == "x" * sessions.LONGEST_TITLE


def test_a_directory_with_a_very_long_path_has_no_conversation(config: Path) -> None:
    """The CLI's folder name for it would be longer than file systems allow."""
    (config / "projects").mkdir(parents=True)
    path = Path("/", *["x" * 100] * 5)
    assert not sessions.known(path, ONE)
    assert sessions.title(path, ONE) is None
    now = datetime.now(UTC)
    assert earlier.messages(path, ONE, after=now, before=now, end=None, limit=1, size=1).messages == ()


def test_a_conversation_is_found_through_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    conversation(tmp_path / "real", ONE, lines(tmp_path / "link"))
    assert sessions.known(tmp_path / "real", ONE)


@pytest.mark.parametrize("written", [[], [{"cwd": 5}], [{"type": "user"}], lines(None), [{"cwd": ""}], [{"cwd": "\0"}]])
def test_a_conversation_without_a_directory_is_hidden(tmp_path: Path, written: list[dict[str, Any]]) -> None:
    conversation(tmp_path, ONE, written)
    assert not sessions.known(tmp_path, ONE)
    assert sessions.listed(tmp_path, 10) == []


async def test_a_confined_device_cannot_reach_conversations_elsewhere(tmp_path: Path, config: Path) -> None:
    """It can neither list, resume nor fork a conversation of a directory that it has no access to."""
    mine, other = tmp_path / "work" / "site-a", tmp_path / "work" / "site" / "a"
    for directory, id in ((mine, ONE), (other, TWO)):
        directory.mkdir(parents=True)
        conversation(directory, id, lines(directory, f"said in {directory.name}"))
    allowed = ("--no-tls", "--allow", tmp_path / "work")
    async with serving(tmp_path / "data", *allowed, CLAUDE_CONFIG_DIR=str(config)) as server:
        _, token = Devices(tmp_path / "data").add("pad", "admin", [str(mine)])
        async with connected(server.url, token) as device:
            project = (await device.ask("project_create", {"path": str(mine), "agent": "claude"}))["project_id"]
            [listed] = (await device.ask("session_list", project_id=project))["data"]["sessions"]
            assert listed["session_id"] == ONE
            for command in ("session_resume", "session_fork"):
                refused = await device.ask(command, {"session_id": TWO}, project)
                assert refused["data"]["code"] == "SESSION_NOT_FOUND"
                assert (await device.ask(command, {"session_id": ONE}, project))["type"] == "ok"
