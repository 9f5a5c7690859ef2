"""A ``gemini`` in a terminal, as its hooks and the file of its conversation report it."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.gemini import hook
from tests.waiting import until

from .socket_rig import Message, Session, SocketRig, socket_rig
from .test_bridges import bridge, proposed
from .test_subagents import standing

NAMES = {
    "UserPromptSubmit": "BeforeAgent",
    "Stop": "AfterAgent",
    "PreToolUse": "BeforeTool",
    "PostToolUse": "AfterTool",
}
CANCELED = [{"functionResponse": {"response": {"error": "[Operation Cancelled] Reason: User denied execution."}}}]


@pytest.fixture
async def rig(tmp_path: Path, home: Path) -> AsyncIterator[SocketRig]:
    async with socket_rig(tmp_path) as rig:
        yield rig


class Gemini(Session):
    """A session of Gemini CLI, with the file of its conversation."""

    def __init__(self, rig: SocketRig, cwd: Path | None = None, pid: int | None = None) -> None:
        super().__init__(rig, cwd, pid)
        self.agent = {"agent": "gemini"}
        folder = Path.home() / ".gemini" / "tmp" / "blog" / "chats"
        folder.mkdir(parents=True, exist_ok=True)
        self.transcript = folder / f"session-2026-11-28T23-00-{self.id[:8]}.jsonl"
        self._hooks = 0

    def payload(self, event: str, **more: Any) -> Message:
        self._hooks += 1
        known = {"session_id": self.id, "cwd": str(self.cwd), "transcript_path": str(self.transcript)}
        return {**known, "timestamp": f"{self._hooks}", "hook_event_name": NAMES.get(event, event), **more}

    def records(self, **line: Any) -> None:
        """Appends a line to the file."""
        with self.transcript.open("a") as file:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def says(self, type: str, text: str, id: str = "", **more: Any) -> str:
        """Records a message. Returns its id."""
        id = id or str(uuid.uuid4())
        content = [{"text": text}] if type == "user" else text
        self.records(id=id, timestamp="2026-11-28T23:00:00.000Z", type=type, content=content, **more)
        return id

    def withdraws(self) -> None:
        """Records that the last prompt was removed, because the user has interrupted the request to the model."""
        self.records(**{"$set": {"messages": [], "lastUpdated": "2026-11-28T23:00:00.000Z"}})

    async def starts(self) -> None:
        self.records(sessionId=self.id, projectHash="ab", kind="main")
        await self.reports("SessionStart", source="startup")

    async def begins(self, words: str = "Go") -> None:
        """Begins a turn. The CLI waits for its hook before it records the prompt."""
        await self.reports("UserPromptSubmit", prompt=words)
        self.says("user", words)

    async def stops(self, words: str = "Done.") -> None:
        self.says("gemini", words)
        await self.reports("Stop", prompt="Go", prompt_response=words, stop_hook_active=False)


async def shown(rig: SocketRig, session: Gemini) -> list[str]:
    """The conversation: prompts, the agent's texts, the kinds of its other messages, and the ends of runs."""
    lines = (await rig.does("get_messages", session.project, after_seq=0))["data"]["messages"]
    found = []
    for line in (one["message"] for one in lines):
        match line:
            case {"message": {"prompt": str(words)}}:
                found.append(f"> {words}")
            case {"message": {"outcome": str(outcome)}}:
                found.append(outcome)
            case {"message": {"content": [{"type": "text", "text": text}]}}:
                found.append(text)
            case {"message": {"content": [{"type": "tool_use" | "tool_result" as type}]}}:
                found.append(type)
    return found


async def outcomes(rig: SocketRig, count: int = 1) -> list[str]:
    """Waits until so many runs have ended. Returns their outcomes."""
    await until(lambda: len(rig.client.updates("run_finished")) >= count, "the end of a run")
    return [one["outcome"] for one in rig.client.updates("run_finished")]


async def test_a_prompt_is_not_accepted_and_no_fork_is_suggested(rig: SocketRig) -> None:
    session = Gemini(rig)
    await session.starts()
    error = await rig.refusal("execute", session.project, prompt="Go")
    assert (error.code, "fork" in error.text) == ("NOT_SUPPORTED", False)


async def test_a_session_is_listed_with_its_title(rig: SocketRig) -> None:
    session = Gemini(rig)
    await session.starts()
    info = await rig.info(session)
    assert (info["agent"], info["path"], info["desk"]) == ("gemini", str(session.cwd), {"state": "finished"})
    await session.begins("Translate the poem.")
    await session.stops()
    assert (await rig.info(session))["title"] == "Translate the poem."
    await session.reports("SessionEnd", reason="exit")
    assert standing(rig, session) == {"state": "ended"}


async def test_each_prompt_is_a_run(rig: SocketRig) -> None:
    session = Gemini(rig)
    await session.starts()
    for number in (1, 2):
        await session.begins()
        assert standing(rig, session) == {"state": "working"}
        id = session.says("gemini", "I will.")
        session.says("gemini", "I will.", id, toolCalls=[{"id": f"c{number}", "name": "replace", "status": "success"}])
        await session.stops()
        assert standing(rig, session) == {"state": "finished"}
    run = ["> Go", "I will.", "tool_use", "tool_result", "Done.", "completed"]
    assert await shown(rig, session) == [*run, *run]
    assert await outcomes(rig, 2) == ["completed", "completed"]


async def test_a_prompt_that_is_recorded_early_belongs_to_its_run(rig: SocketRig) -> None:
    """The server is slow, so the prompt is in the file before the report of the hook is processed."""
    session = Gemini(rig)
    await session.starts()
    session.says("user", "Go")
    await session.reports("UserPromptSubmit", prompt="Go")
    await session.stops()
    assert await shown(rig, session) == ["> Go", "Done.", "completed"]


async def test_a_canceled_request_to_the_model_ends_the_run(rig: SocketRig) -> None:
    """The hook that reports the end does not report the interruption."""
    session = Gemini(rig)
    await session.starts()
    await session.begins()
    await session.reports("PostToolUse", tool_name="replace", tool_input={})
    session.withdraws()
    await session.reports("Stop", prompt="Go", prompt_response="[no response text]")
    assert await outcomes(rig) == ["interrupted"]
    await session.begins("Go on")
    await session.stops()
    assert await outcomes(rig, 2) == ["interrupted", "completed"]


async def test_a_rejected_call_ends_the_run(rig: SocketRig) -> None:
    """No hook reports that."""
    session = Gemini(rig)
    await session.starts()
    await session.begins()
    id = session.says("gemini", "I will.")
    await session.reports("Notification", notification_type="ToolPermission", message="…", details={"type": "edit"})
    assert standing(rig, session) == {"state": "waiting", "in_terminal": True}
    session.says(
        "gemini", "I will.", id, toolCalls=[{"id": "c1", "name": "replace", "status": "cancelled", "result": CANCELED}]
    )
    assert await outcomes(rig) == ["interrupted"]
    assert standing(rig, session) == {"state": "finished"}


async def test_a_dialog_is_closed_when_the_call_has_run(rig: SocketRig) -> None:
    """Not every call is reported by a hook."""
    session = Gemini(rig)
    await session.starts()
    await session.begins()
    id = session.says("gemini", "I will.")
    await session.reports("Notification", notification_type="ToolPermission", message="…", details={"type": "mcp"})
    session.says("gemini", "I will.", id, toolCalls=[{"id": "c1", "name": "mcp_a_b", "status": "success"}])
    await until(lambda: standing(rig, session) == {"state": "working"}, "the end of the dialog")


async def test_reading_continues_after_a_restart(tmp_path: Path, home: Path) -> None:
    async with socket_rig(tmp_path) as rig:
        session = Gemini(rig)
        await session.starts()
        await session.begins()
        id = session.says("gemini", "I will.")
        await session.reports("PreToolUse", tool_name="replace")
    session.says("gemini", "I will.", id, toolCalls=[{"id": "c1", "name": "replace", "status": "success"}])
    async with socket_rig(tmp_path) as later:
        session.at(later)
        await session.stops()
        found = await shown(later, session)
    assert found == ["> Go", "I will.", "tool_use", "tool_result", "Done.", "completed"]


async def test_comments_that_continue_a_turn_are_not_a_prompt(rig: SocketRig) -> None:
    """The CLI calls the hook of a prompt for them, too."""
    session = Gemini(rig)
    await session.starts()
    await session.begins()
    sent = hook.continue_with("AfterAgent", "I have reviewed it.")["reason"]
    await session.reports("UserPromptSubmit", prompt=sent)
    session.says("user", sent)
    await session.stops()
    assert await shown(rig, session) == ["> Go", "Done.", "completed"]


# With an editor.


async def test_a_proposal_belongs_to_the_session_that_the_hooks_report(rig: SocketRig) -> None:
    session = Gemini(rig)
    file = rig.folder / "a.py"
    await session.starts()
    await session.begins()
    async with bridge(rig) as neovim:
        proposed(neovim, file, agent="Gemini CLI")
        await until(lambda: rig.questions, "the question")
        await session.reports("Notification", notification_type="ToolPermission", message="…", details={})
        assert standing(rig, session) == {"state": "waiting"}
        await rig.answers(rig.questions[0])
        answer = await neovim.receive()
        assert answer is not None
        assert answer["type"] == "answer"
        await session.stops()
    assert [one["id"] for one in (await rig.does("project_list"))["data"]["projects"]] == [session.project]
    assert await outcomes(rig) == ["completed"]
    assert standing(rig, session) == {"state": "finished"}, "the session does not end with the bridge"


async def test_a_proposal_in_another_directory_gets_its_own_session(rig: SocketRig, tmp_path: Path) -> None:
    session = Gemini(rig)
    await session.starts()
    await session.begins()
    elsewhere = tmp_path / "elsewhere"
    async with bridge(rig, elsewhere) as neovim:
        proposed(neovim, elsewhere / "a.py", agent="Gemini CLI")
        await until(lambda: rig.questions, "the question")
        assert len((await rig.does("project_list"))["data"]["projects"]) == 2
        assert standing(rig, session) == {"state": "working"}
