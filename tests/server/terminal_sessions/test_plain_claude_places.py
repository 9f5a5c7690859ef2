"""A plain ``claude`` whose conversation moves to a worktree, or to a second terminal."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.claude_rig import TOOL_DIALOG
from tests.rigs.messages_stub import HOLD, text, tool_use
from tests.server.processes import Server

from .rig import Phone, ServedWorkstation
from .test_plain_claude import asked, kind, touch


def commit_all(directory: Path) -> None:
    git = ["git", "-C", str(directory), "-c", "user.name=Ada", "-c", "user.email=ada@localhost"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "--allow-empty", "-m", "all"]):
        subprocess.run([*git, *words], check=True)


async def records_of(phone: Phone) -> list[dict[str, Any]]:
    answer = await phone.client.ask("get_messages", {"after_seq": 0}, phone.project)
    found: list[dict[str, Any]] = answer["data"]["messages"]
    return found


@pytest.mark.slow
async def test_a_conversation_continues_in_a_worktree(rig: ServedWorkstation, server: Server) -> None:
    """The CLI moves the conversation's file when it enters the worktree."""
    commit_all(rig.project)
    turns: list[Any] = [
        {**tool_use("EnterWorktree"), "input": {"name": "trial"}},
        text("In the worktree."),
        text("Second answer."),
        [text("Third answer."), HOLD],
    ]
    async with asked(rig, server, *turns) as (claude, phone):
        claude.pane.wait_for("In the worktree.")
        await phone.state("finished")
        review = (await phone.client.ask("review_get", project_id=phone.project))["data"]
        assert review["missing"].startswith("The agent worked in .claude/worktrees/trial.")
        claude.prompt("And now")
        claude.pane.wait_for("Second answer.")
        await phone.state("finished")
        claude.prompt("And then")
        await phone.state("working")
        claude.pane.wait_for("Third answer.")
        claude.pane.press("Escape")
        await phone.client.receive("update", "run_finished", outcome="interrupted")
        await phone.state("finished")
        kinds = [kind(record) for record in await records_of(phone)]
        run = ["run_started", "text", "run_finished"]
        assert [one for one in kinds if one in run][:6] == run * 2
        assert kinds.count("run_started") == kinds.count("prompt") == kinds.count("run_finished") == 3


@pytest.mark.slow
async def test_a_second_terminal_leaves_the_firsts_question_open(rig: ServedWorkstation, server: Server) -> None:
    async with asked(rig, server, touch("made"), text("All done.")) as (claude, phone):
        question = await phone.question("Bash")
        claude.pane.wait_for(TOOL_DIALOG)
        second = rig.plain_claude("--continue")
        second.pane.wait_for("Do it")
        second.prompt("/exit")
        assert second.pane.wait_for_exit() == 0
        assert (await phone.answer(question, "allow"))["type"] != "error"
        claude.pane.wait_for("All done.")
        await phone.state("finished")
        assert (rig.project / "made").exists()
        assert "permission_withdrawn" not in [kind(record) for record in await records_of(phone)]
