"""A user comments on the changes made by an agent that runs in a terminal. The tests act as the hook and the bridge."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.reviews import POEM, comments_of, poem
from tests.server.checkpoints.rig import git
from tests.server.processes import serving
from tests.server.terminal_sessions.reported_rig import CLAUDE, ReportedSession
from tests.server.terminal_sessions.socket_rig import Line

from .rig import Browser, Person
from .test_commenting import adds, begins
from .test_prompting_a_terminal import asked
from .test_reviewing import address_of, in_hunk, opens

PROMPT = (
    "I have reviewed your changes and have one comment. Address each one.\n\n"
    "### 1. `poem.txt`, line 5\n```\nLINE 5\n```\n\nWhy capitals?"
)

SENDS = "dialog button.yes:has-text('1 comment')"
"""The button that sends the comment, or leaves it for an agent that is working."""

COPIED = "window.copied = ''; navigator.clipboard.writeText = async (text) => { window.copied = text; }"


@pytest.fixture
async def session(browser: Browser, home: Path) -> AsyncIterator[ReportedSession]:
    """A terminal session after a run that has changed two lines."""
    directory = home / "blog"
    directory.mkdir()
    (directory / "poem.txt").write_text(POEM)
    git(directory, "init", "-q")
    git(directory, "add", ".")
    git(directory, "commit", "-q", "-m", "first")
    async with serving(home / "data", "--no-tls", "--allow", home, "--allow-commit") as server:
        session = ReportedSession(server, directory)
        await session.runs("t1", "Shout", poem(line_5="LINE 5", line_30="LINE 30"))
        yield session


@pytest.mark.slow_for("1440-900")
@pytest.mark.thorough
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
async def test_withdrawn_comments_can_be_typed_into_the_terminal(
    width: int, height: int, browser: Browser, session: ReportedSession
) -> None:
    """The comment then shows where the agent answered it, and can be resolved."""
    server, project = session.server, session.project
    with browser.person(address_of(server, project), width=width, height=height) as person:
        leaves_a_comment(person, project)
        person.sees("dialog .handover", "Waiting. The agent will get the comments when it next stops")
        person.sees("dialog .remark.waiting", "Waiting")
        assert [one["state"] for one in await comments_of(server, project)] == ["waiting"]
        person.runs(COPIED)
        person.clicks("dialog button:has-text('Copy as a prompt')")
        person.until(f"window.copied === {json.dumps(PROMPT)}")
        person.clicks("dialog button:has-text('Withdraw')")
        person.sees("dialog .remark.draft", "Draft")
        person.loses("dialog .handover")
        async with Line.open() as bridge:
            bridge.send(type="bridge", editor="Neovim", folders=[], terminals=[CLAUDE])
            person.until("document.querySelector('dialog button.yes:not(:disabled)')")
            async with server.client() as client:
                await until_prompts(client, project)
            person.clicks(SENDS)
            typed = await asked(bridge)
            assert typed["text"] == PROMPT
            bridge.send(type="typed", id=typed["id"])
            await session.begins("t2", PROMPT)
            person.loses(SENDS)
            person.loses("dialog .notice")
            person.sees("dialog .remark.sent", "Sent")
        (session.directory / "poem.txt").write_text(poem(line_5="Line five", line_30="LINE 30"))
        await session.reports("Stop", prompt_id="t2")
        person.sees("dialog .remark.sent", "Answered by:")
        person.clicks("dialog .remark.sent .hint button")
        person.sees(in_hunk("Line five", ".answering"), "Why capitals?")
        person.clicks(in_hunk("Line five", ".answering button"))
        person.clicks("dialog .remark button:has-text('Resolve')")
        person.sees("dialog .remark.resolved")
        assert [one["state"] for one in await comments_of(server, project)] == ["resolved"]
        assert person.complaints() == []


@pytest.mark.slow
async def test_waiting_comments_reach_the_agent_when_it_stops(browser: Browser, session: ReportedSession) -> None:
    """The web UI shows that the comments are waiting, were sent, and were answered."""
    server, project = session.server, session.project
    transcript = Path(os.environ["CLAUDE_CONFIG_DIR"]) / "projects" / "-blog" / f"{session.id}.jsonl"
    transcript.parent.mkdir(parents=True)
    await session.reports("UserPromptSubmit", prompt_id="t2", prompt="Continue", transcript_path=str(transcript))
    with browser.person(address_of(server, project), width=390, height=844) as person:
        leaves_a_comment(person, project)
        person.sees("dialog .handover", "Waiting. The agent will get the comments when it next stops")
        assert await receives(session, "Stop", prompt_id="t2", transcript_path=str(transcript)) == PROMPT
        attachment = {"type": "hook_additional_context", "content": [PROMPT], "hookEvent": "Stop"}
        line = {"type": "attachment", "uuid": "a1", "promptId": "t2", "attachment": attachment}
        transcript.write_text(json.dumps(line) + "\n")
        person.sees("dialog .remark.sent", "Sent")
        person.loses("dialog .handover")
        await session.reports("PreToolUse", prompt_id="t2", tool_name="Edit")
        (session.directory / "poem.txt").write_text(poem(line_5="Line five", line_30="LINE 30"))
        await session.reports("Stop", prompt_id="t2")
        person.sees("dialog .remark.sent", "Answered by:")
        assert person.complaints() == []


@pytest.mark.slow
async def test_waiting_comments_become_drafts_if_the_session_ends(browser: Browser, session: ReportedSession) -> None:
    server, project = session.server, session.project
    with browser.person(address_of(server, project), width=1440, height=900) as person:
        leaves_a_comment(person, project)
        person.sees("dialog .handover", "Waiting.")
        await session.reports("SessionEnd", reason="prompt_input_exit")
        person.sees(
            "dialog .handover", "The session ended before the agent received the comments. They are drafts again."
        )
        person.sees("dialog .remark.draft", "Why capitals?")
        assert person.complaints() == []


@pytest.mark.slow_for("1440-900")
@pytest.mark.thorough
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
async def test_a_review_is_reachable_if_the_web_ui_opens_after_the_run(
    width: int, height: int, browser: Browser, session: ReportedSession
) -> None:
    """The web UI has received no update about the review."""
    server, project = session.server, session.project
    with browser.person(address_of(server, project), width=width, height=height) as person:
        person.sees(".to-review", "1 file")
        person.sees(".finished button:has-text('Review changes')")
        person.clicks(".to-review")
        person.sees(in_hunk("Line 5", ".line.added"), "LINE 5")
        await session.reports("SessionEnd", reason="prompt_input_exit")
        person.goes_to(f"#/p/{project}")
        person.sees(".project-head .state", "Ended")
        person("reload")
        person.sees(".to-review", "1 file")
        person.clicks(".to-review")
        person.sees(in_hunk("Line 5", ".line.added"), "LINE 5")
        person.goes_to("#/")
        person.sees(".project .state", "1 file to review")
        assert person.complaints() == []


@pytest.mark.slow
async def test_the_list_does_not_count_files_in_a_missing_directory(browser: Browser, session: ReportedSession) -> None:
    server, project = session.server, session.project
    with browser.person(address_of(server, project), width=1440, height=900) as person:
        person.sees(".project .state", "1 file to review")
        opens(person, project)
        session.directory.rename(session.directory.with_name("elsewhere"))
        person("reload")
        person.sees(".review > .notice", "The session's directory does not exist.")
        person.sees(".project .state", "Idle in terminal")
        person.clicks(".project-head .back")
        person.sees(".project-head .state", "Idle in terminal")
        assert not person("visible", css=".to-review")


def leaves_a_comment(person: Person, project: str) -> None:
    opens(person, project)
    begins(person, "Line 5", "5")
    adds(person, "Why capitals?")
    person.clicks("button.comments")
    person.clicks(SENDS)


async def receives(session: ReportedSession, event: str, **more: Any) -> str:
    """Acts as a hook that receives what waits for its agent. Returns the text for the agent."""
    payload = {"session_id": session.id, "cwd": str(session.directory), "hook_event_name": event, **more}
    async with Line.open() as line:
        line.send(type="hook", pid=CLAUDE, payload=payload, takes=True)
        answer = await line.receive()
        assert answer is not None
        line.send_bytes(b"\n")
        line.end()
        assert await line.receive() is None
    return str(answer["context"])


async def until_prompts(client: Any, project: str) -> None:
    """Waits until the server can type prompts into the terminal."""
    while True:
        projects = (await client.ask("project_list"))["data"]["projects"]
        if next(one for one in projects if one["id"] == project)["desk"].get("prompts"):
            return


@pytest.mark.thorough
async def test_kept_changes_are_committed(browser: Browser, session: ReportedSession) -> None:
    git(session.directory, "config", "user.name", "Ada")
    git(session.directory, "config", "user.email", "ada@example.org")
    with browser.person(address_of(session.server, session.project), width=1280, height=900) as person:
        opens(person, session.project)
        person.clicks(in_hunk("LINE 5", "button:has-text('Keep')"))
        person.clicks(".review-bar button:has-text('Commit…')")
        person.fills("dialog textarea", "Shout")
        person.clicks("dialog button:has-text('Commit 1 file')")
        person.sees("dialog [role=status]", "Committed 1 file on")
        person.clicks("dialog footer button:has-text('Close')")
        person.loses("button:has-text('Commit…')")
        assert person.complaints() == []
    assert git(session.directory, "show", "--format=%s", "-s", "HEAD").strip() == "Shout"
    assert git(session.directory, "show", "HEAD:poem.txt") == poem(line_5="LINE 5")
