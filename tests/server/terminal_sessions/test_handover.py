"""If no editor can type into an agent's terminal, one of the agent's hooks hands over the comments on a review, exactly
once.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.claude import hook as claude
from drawbridge.agents.terminal import HookEvent
from drawbridge.core.errors import NotPrivate
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.terminal_sessions import handover, shared_comments
from drawbridge.server.terminal_sessions import prompts as prompts_module
from drawbridge.server.terminal_sessions.session import NO_MODE
from drawbridge.transport import private_socket

from .socket_rig import Line, SocketRig
from .test_codex import Codex
from .test_gemini import Gemini
from .test_prompts import CLAUDE, neovim
from .test_review_comments import OTHER, TWO_COMMENTS, Commented, changed, second_session, serving
from .test_sessions import prompt, said


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[SocketRig]:
    async with serving(tmp_path) as rig:
        yield rig


async def receives_by_hook(at: Commented, event: str, *, receives: bool = True, **more: Any) -> str:
    """Opens a hook that receives waiting comments. Returns their text, empty if the hook gets none. ``receives`` is
    whether the hook confirms that it received them.
    """
    async with Line.open() as line:
        payload = at.session.payload(event, **more)
        line.send(type="hook", pid=at.session.pid, payload=payload, takes=True, **at.session.agent)
        answer = await line.receive()
        assert answer is not None
        if "context" in answer and receives:
            line.send_bytes(b"\n")
        line.end()
        assert await line.receive() is None
    await at.rig.idle()
    return str(answer.get("context", ""))


def has(at: Commented, event: str, text: str) -> None:
    """Adds a line to the agent's file that shows that a hook handed over this text."""
    attachment = {"type": "hook_additional_context", "content": [text], "hookEvent": event}
    at.session.writes({"type": "attachment", "attachment": attachment})


def mark(at: Commented) -> Path:
    """The file that makes the session's hooks wait for comments, and that the agent watches."""
    return Path(private_socket.directory()) / f"{at.session.id}.waiting"


def is_marked(at: Commented) -> bool:
    return mark(at).exists()


async def state(at: Commented) -> str | None:
    found = (await at.get())["handover"]
    return found["state"] if found else None


async def leaves(at: Commented, *lines: int, **data: Any) -> list[str]:
    """Writes and submits drafts about these lines, by default line 3. Checks that they wait. Returns their ids."""
    ids = [await at.write(line, f"LINE {line}\n") for line in lines or (3,)]
    assert (await at.submit(**data))["data"] == {"run_id": "", "position": 0, "waiting": True}
    assert await at.states() == dict.fromkeys(ids, "waiting")
    return ids


async def at_work(rig: SocketRig) -> Commented:
    """A session whose agent works on its second prompt."""
    at = await changed(rig)
    at.session.writes(prompt("Go"), said("Done."))
    await at.begins("Continue")
    at.session.writes(prompt("Continue"))
    return at


async def test_an_agent_at_work_gets_the_comments_when_it_stops(rig: SocketRig) -> None:
    """The comments begin a new run, which answers them."""
    at = await at_work(rig)
    third = await at.write(3, "LINE 3\n")
    other = await at.write(17, "LINE 17\n", "Shorter.", suggestion="17")
    drafts = (await at.get())["drafts"]
    assert not is_marked(at), "no hook waits for an answer"
    assert (await at.submit(drafts=drafts, request_id="submit-1"))["data"]["waiting"]
    assert is_marked(at)
    assert (await at.submit(drafts=drafts, request_id="submit-1"))["data"]["waiting"], "it is the same request"
    text = await receives_by_hook(at, "Stop")
    assert text == TWO_COMMENTS
    assert not is_marked(at)
    assert (await rig.info(at.session))["desk"]["state"] == "working"
    has(at, "Stop", text)
    await at.may_write()
    assert await at.states() == {third: "sent", other: "sent"}
    at.replace("LINE 3\n", "Line three\n")
    at.session.writes(said("Done."))
    assert await receives_by_hook(at, "Stop", last_assistant_message="Done.") == ""
    await at.settled()
    assert await state(at) is None
    assert await at.answers() == {"Line three\n": [third], "LINE 17\n": []}
    recorded = (await at.prompts())[-1]
    assert (recorded["message"]["prompt"], recorded["by"]) == (TWO_COMMENTS, "phone")
    assert recorded["client_id"] == rig.client.id
    assert recorded["review"]["comments"] == [third, other]
    assert (await rig.info(at.session))["desk"]["state"] == "finished"
    again = await at.submit(drafts=drafts, request_id="submit-1")
    assert again["data"] == {"run_id": recorded["run_id"], "position": 0}


async def test_an_idle_agent_gets_the_comments_with_the_next_prompt(rig: SocketRig) -> None:
    at = await changed(rig)
    (id,) = await leaves(at)
    at.session.turn = str(uuid.uuid4())
    text = await receives_by_hook(at, "UserPromptSubmit", prompt="Continue")
    await at.may_write()
    at.session.writes(prompt("Continue"))
    has(at, "UserPromptSubmit", f"{text}\n\nSelected by the user in a file")
    at.replace("LINE 3\n", "Line three\n")
    at.session.writes(said("Done."))
    await at.stops(last_assistant_message="Done.")
    assert await at.states() == {id: "sent"}
    assert await at.answers() == {"Line three\n": [id], "LINE 17\n": []}
    assert [one["message"]["prompt"] for one in await at.prompts()] == ["Continue", text]
    assert {one["run_id"] for one in await at.prompts()} == {at.session.turn}


async def test_comments_wake_an_idle_agent(rig: SocketRig) -> None:
    """The hook that watches the mark's content wakes the agent with a prompt of its own program. The comments are that
    run's prompt."""
    at = await changed(rig)
    (id,) = await leaves(at)
    assert mark(at).read_bytes() == b"wake"
    at.session.turn = str(uuid.uuid4())
    woken = f"<task-notification>\n<summary>Comments</summary>\n</task-notification>\n{claude.WAKES}\n"
    text = await receives_by_hook(at, "UserPromptSubmit", prompt=woken)
    assert text
    assert not is_marked(at)
    has(at, "UserPromptSubmit", text)
    await at.may_write()
    at.replace("LINE 3\n", "Line three\n")
    at.session.writes(said("Done."))
    await at.stops(last_assistant_message="Done.")
    assert await at.states() == {id: "sent"}
    assert await at.answers() == {"Line three\n": [id], "LINE 17\n": []}
    assert [one["message"]["prompt"] for one in await at.prompts()] == [text]
    assert {one["run_id"] for one in await at.prompts()} == {at.session.turn}


async def test_an_agent_with_a_background_task_is_woken(rig: SocketRig) -> None:
    """Its run, which was waiting for the task, ends, and the comments begin another one."""
    at = await at_work(rig)
    task = {"id": "b1", "type": "shell", "status": "running", "description": "serve"}
    await at.session.reports("Stop", background_tasks=[task])
    first = at.session.turn
    await leaves(at)
    assert mark(at).read_bytes() == b"wake"
    at.session.turn = str(uuid.uuid4())
    assert await receives_by_hook(at, "UserPromptSubmit", prompt=f"<task-notification>\n{claude.WAKES}")
    snapshot = (await rig.does("project_join", at.session.project))["data"]["data"]
    assert snapshot["run"]["run_id"] not in ("", first)


async def test_an_agent_at_work_is_not_woken(rig: SocketRig) -> None:
    at = await at_work(rig)
    await leaves(at)
    assert mark(at).read_bytes() == b""


async def test_a_waiting_agent_gets_the_comments_when_it_stops(rig: SocketRig) -> None:
    at = await at_work(rig)
    async with neovim(rig, CLAUDE), at.session.asks(command="ls") as (_, question):
        await leaves(at)
        await rig.answers(question)
    assert await receives_by_hook(at, "Stop")


async def test_a_queued_prompt_does_not_deliver_the_comments(rig: SocketRig) -> None:
    """A notification about a background task does not deliver the comments either."""
    at = await at_work(rig)
    await leaves(at)
    assert await receives_by_hook(at, "UserPromptSubmit", prompt="And then that") == ""
    assert await receives_by_hook(at, "UserPromptSubmit", prompt="<task-notification>", prompt_id="other") == ""
    assert await receives_by_hook(at, "Stop")


async def test_waiting_comments_can_be_withdrawn(rig: SocketRig) -> None:
    at = await at_work(rig)
    (id,) = await leaves(at, request_id="submit-1")
    with pytest.raises(ClientError) as refused:
        await at.comment(comment_id=id, text="Not this")
    assert (refused.value.code, refused.value.text.partition(".")[0]) == (
        "COMMENT_GONE",
        "The comment is waiting for the agent",
    )
    answer = await rig.does("review_withdraw", at.session.project)
    assert [one.get("state", "draft") for one in answer["data"]["comments"]] == ["draft"]
    assert answer["data"]["handover"] is None
    assert await receives_by_hook(at, "Stop") == ""
    assert not is_marked(at)
    await at.comment(comment_id=id, text="Why so loud?")
    refusal = await rig.refusal("review_withdraw", at.session.project)
    assert refusal.code == "COMMENT_GONE"
    assert (await at.submit())["data"]["waiting"]


async def test_comments_being_handed_over_cannot_be_withdrawn(rig: SocketRig) -> None:
    at = await at_work(rig)
    (id,) = await leaves(at)
    async with Line.open() as line:
        line.send(type="hook", pid=at.session.pid, payload=at.session.payload("Stop"), takes=True)
        assert (await line.receive() or {})["context"]
        assert await state(at) == "given"
        assert (await rig.refusal("review_withdraw", at.session.project)).code == "COMMENT_GONE"
        line.send_bytes(b"\n")
        assert await line.receive() is None
    await rig.idle()
    has(at, "Stop", "I have reviewed your changes and have one comment. Address each one.")
    await at.may_write()
    assert await at.states() == {id: "waiting"}, "another text does not confirm that they were received"
    found = rig.server.core.terminal_sessions.find(at.session.project)
    assert found is not None
    has(at, "Stop", found.reviewed.comments.left.text)  # type: ignore[union-attr]
    await at.may_write()
    assert await at.states() == {id: "sent"}


async def test_comments_survive_a_hook_that_ends_too_early(rig: SocketRig) -> None:
    at = await at_work(rig)
    (id,) = await leaves(at)
    assert await receives_by_hook(at, "Stop", receives=False)
    assert await at.states() == {id: "waiting"}
    assert (await rig.info(at.session))["desk"]["state"] == "finished"
    assert not at.directory.busy
    assert is_marked(at), "the next hook waits for them"
    at.session.turn = str(uuid.uuid4())
    assert await receives_by_hook(at, "UserPromptSubmit", prompt="Continue")


async def test_unconfirmed_comments_are_marked_as_unsure(rig: SocketRig) -> None:
    """The comments become drafts again, so that the user decides whether to resend them. If the agent's file shows them
    later, they count as sent.
    """
    at = await at_work(rig)
    (id,) = await leaves(at)
    text = await receives_by_hook(at, "Stop")
    at.session.writes(said("Done."))
    assert await receives_by_hook(at, "Stop", last_assistant_message="Done.") == ""
    assert (await at.states(), await state(at)) == ({id: "draft"}, "unsure")
    has(at, "Stop", text)
    await at.begins("Continue")
    assert (await at.states(), await state(at)) == ({id: "sent"}, None)


async def test_waiting_comments_become_drafts_when_the_session_ends(rig: SocketRig) -> None:
    at = await at_work(rig)
    (id,) = await leaves(at)
    await at.session.reports("SessionEnd", reason="prompt_input_exit")
    assert (await at.states(), await state(at)) == ({id: "draft"}, "ended")
    assert rig.client.updates("review_commented")[-1]["comment"].get("state", "draft") == "draft"
    assert not is_marked(at)
    error = await at.not_sent()
    assert (error.code, error.text) == ("NOT_SUPPORTED", prompts_module.HAS_ENDED)
    assert (error.details or {})["prompt"].startswith("I have reviewed")
    two = await second_session(rig)
    assert (await two.submit())["data"]["waiting"]
    await rig.does("project_delete", two.session.project)
    assert await at.states() == {id: "draft"}, "the session was removed from the list"


async def test_waiting_comments_survive_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as rig:
        at = await at_work(rig)
        drafts_of = await at.write(3, "LINE 3\n")
        drafts = (await at.get())["drafts"]
        await at.submit(drafts=drafts, request_id="submit-1")
    async with serving(tmp_path) as rig:
        at.session.at(rig)
        at.rig = rig
        assert (await at.states(), await state(at)) == ({drafts_of: "waiting"}, "waiting")
        assert (await at.submit(drafts=drafts, request_id="submit-1"))["data"]["waiting"]
        text = await receives_by_hook(at, "Stop")
        assert text
    async with serving(tmp_path) as rig:
        at.session.at(rig)
        at.rig = rig
        assert await state(at) == "given"
        has(at, "Stop", text)
        await at.may_write()
        at.replace("LINE 3\n", "Line three\n")
        at.session.writes(said("Done."))
        assert await receives_by_hook(at, "Stop", last_assistant_message="Done.") == "", "they are handed over once"
        await at.settled()
        assert (await at.states(), await state(at)) == ({drafts_of: "sent"}, None)
        assert (await at.answers())["Line three\n"] == [drafts_of]
        assert [one["review"]["comments"] for one in await at.prompts() if "review" in one] == [[drafts_of]]


async def test_a_restart_never_hands_comments_over_twice(tmp_path: Path) -> None:
    """Before a hook receives comments, the server stores that they are being handed over. After a restart, the server
    can't know whether the hook received them.
    """
    async with serving(tmp_path) as rig:
        at = await at_work(rig)
        (id,) = await leaves(at)
        found = rig.server.core.terminal_sessions.find(at.session.project)
        assert found is not None
        assert found.handover.give(HookEvent("Stop", at.session.id, str(at.place))) is not None
    async with serving(tmp_path) as rig:
        at.session.at(rig)
        at.rig = rig
        assert await receives_by_hook(at, "Stop") == ""
        assert (await at.states(), await state(at)) == ({id: "draft"}, "unsure")


async def test_only_one_prompt_of_comments_waits_in_a_directory(rig: SocketRig) -> None:
    one = await at_work(rig)
    two = await second_session(rig)
    first = await one.write(3, "LINE 3\n")
    await one.submit()
    assert await two.states() == {first: "waiting"}
    error = await two.not_sent(drafts="seen before")
    assert (error.code, error.field) == ("COMMENT_GONE", "data.drafts")
    await two.write(17, "LINE 17\n")
    error = await two.not_sent()
    assert (error.code, error.text) == ("PROCESS_ACTIVE", handover.WAITS)
    assert await receives_by_hook(two, "Stop") == "", "they are for the other session"
    await rig.does("review_withdraw", two.session.project)
    assert set((await one.states()).values()) == {"draft"}


async def test_comments_that_are_too_long_to_send_remain_drafts(rig: SocketRig) -> None:
    """Sending them is refused with the reason."""
    at = await at_work(rig)
    id = await at.write(3, "LINE 3\n", "x" * handover.LONGEST)
    error = await at.not_sent()
    assert (error.code, error.text) == ("NOT_SUPPORTED", handover.TOO_LONG)
    assert id in await at.states()
    assert (await at.states())[id] == "draft"
    assert not is_marked(at)


async def test_an_agent_above_the_ceiling_gets_no_comments(tmp_path: Path) -> None:
    async with serving(tmp_path) as rig:
        at = await at_work(rig)
        await at.session.reports("PreToolUse", tool_name="Read", permission_mode="bypassPermissions")
        await at.write(3, "LINE 3\n")
        error = await at.not_sent()
        assert error.code == "PERMISSION_DENIED"
        await at.session.reports("PreToolUse", tool_name="Read", permission_mode="default")
        assert (await at.submit())["data"]["waiting"]
        assert await receives_by_hook(at, "Stop", permission_mode="bypassPermissions") == ""
        assert (set((await at.states()).values()), await state(at)) == ({"draft"}, "refused")


async def test_an_agent_that_never_reports_its_mode_gets_no_comments(tmp_path: Path, home: Path) -> None:
    """The reason is not that its mode is not known yet, so another prompt would not help."""
    async with serving(tmp_path) as rig:
        at = await changed(rig)
        gemini = at.session = Gemini(rig, at.session.cwd, OTHER)
        await gemini.starts()
        await at.write(3, "LINE 3\n")
        error = await at.not_sent()
        assert (error.code, error.text) == ("PERMISSION_DENIED", NO_MODE)
        assert set((await at.states()).values()) == {"draft"}


@pytest.mark.parametrize(
    ("settings", "outcome"), [({}, ("waiting", "given")), ({"approval_policy": "never"}, ("draft", "refused"))]
)
async def test_comments_are_checked_against_the_mode_of_their_turn(
    tmp_path: Path, home: Path, settings: dict[str, Any], outcome: tuple[str, str]
) -> None:
    """Codex's hooks do not report it. Codex records it before the prompt's hook starts."""
    async with serving(tmp_path) as rig:
        at = await changed(rig)
        codex = at.session = Codex(rig, at.session.cwd, OTHER)
        codex.is_set()
        await codex.begins()
        await codex.reports("Stop", last_assistant_message=None)
        await leaves(at)
        codex.turn = "another"
        codex.is_set(**settings)
        assert bool(await receives_by_hook(at, "UserPromptSubmit", prompt="Continue")) == (not settings)
        assert (*(await at.states()).values(), await state(at)) == outcome


async def test_comments_that_cannot_be_stored_are_not_handed_over(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: str, data: bytes, *, synced: bool = False) -> None:
        raise NotPrivate("the disk is full")

    at = await at_work(rig)
    id = await at.write(3, "LINE 3\n")
    with monkeypatch.context() as patch:
        patch.setattr(shared_comments, "write_private", fails)
        with pytest.raises(NotPrivate):
            await at.submit()
    assert await at.states() == {id: "draft"}
    await at.submit()
    with monkeypatch.context() as patch:
        patch.setattr(shared_comments, "write_private", fails)
        assert await receives_by_hook(at, "Stop") == ""
    assert await at.states() == {id: "waiting"}
