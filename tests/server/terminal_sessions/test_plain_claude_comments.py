"""Comments on the changes of a plain ``claude`` reach it when it next stops or, if it is idle, immediately."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rigs.messages_stub import HOLD, edit, read, text
from tests.server.processes import Server
from tests.server.reviews.rig import POEM, hunks, id_of

from .rig import Message, Phone, ServedWorkstation, following
from .test_plain_claude_reviews import begin, finished, project, review

pytestmark = pytest.mark.thorough


async def comment(phone: Phone) -> str:
    """Writes a draft on the changed line. Returns its id."""
    given = {"path": "poem.txt", "line": 3, "quote": "LINE 3\n", "text": "Why?"}
    answer = await phone.client.ask("review_comment", given, phone.project)
    return str(answer["data"]["data"]["comment_id"])


async def undo(phone: Phone, part: str) -> None:
    """Undoes the hunk that contains ``part``."""
    wish = {"hunks": [id_of(await review(phone), part)], "decision": "undo"}
    assert (await phone.client.ask("review_decide", wish, phone.project))["type"] == "review"


async def send(phone: Phone) -> Message:
    drafts = (await review(phone))["drafts"]
    answer = await phone.client.ask("review_submit", {"drafts": drafts}, phone.project)
    data: Message = answer["data"]
    return data


async def prompts(phone: Phone) -> list[Message]:
    """The prompts in the history."""
    answer = await phone.client.ask("get_messages", {"after_seq": 0}, phone.project)
    return [one["message"] for one in answer["data"]["messages"] if one["direction"] == "client"]


async def answers(phone: Phone) -> dict[str, Any]:
    """The ids of the comments that each hunk answers, by the hunk's new text."""
    return {one["added"]: one["answers"] for file in (await review(phone))["files"] for one in file["hunks"]}


async def stopped(phone: Phone) -> None:
    """Returns once the next run has completed."""
    await phone.client.receive("update", "run_finished", outcome="completed")


def occurrences(rig: ServedWorkstation) -> int:
    """How often the comment is in the new text of the requests that the model received."""
    return sum(request.new_text.count("additional context: I have reviewed") for request in rig.model.requests)


async def test_a_comment_reaches_the_agent_when_it_stops(rig: ServedWorkstation, server: Server) -> None:
    """The agent is at work when the comment is sent. When it stops, it gets the comment and continues. Its next changes
    are the answer.
    """
    project(rig, "git")
    poem = rig.project / "poem.txt"
    rig.model.will_say(
        read(poem),
        edit(poem, "line 3\n", "LINE 3\n"),
        [text("Let me see"), HOLD, text("…")],
        edit(poem, "LINE 3\n", "Line three\n"),
        text("Done."),
    )
    async with following(server) as phone:
        claude = begin(rig)
        await phone.session()
        claude.prompt("Do it")
        claude.pane.wait_for("Let me see")
        id = await comment(phone)
        assert (await send(phone)) == {"run_id": "", "position": 0, "waiting": True}
        waiting = (await review(phone))["handover"]
        assert (waiting["project_id"], waiting["state"]) == (phone.project, "waiting")
        rig.model.go_on()
        await stopped(phone)
        await finished(phone)
        claude.pane.wait_for("Stop hook says: I have reviewed")
        assert occurrences(rig) == 1
        assert poem.read_text().splitlines()[2] == "Line three"
        found = await review(phone)
        assert [one["state"] for one in found["comments"]] == ["sent"]
        assert found["handover"] is None
        assert await answers(phone) == {"Line three\n": [id]}
        first, second = await prompts(phone)
        assert second["by"] == waiting["by"]
        assert second["review"]["comments"] == [id]
        assert second["run_id"] != first["run_id"]
        rig.model.will_say(text("Nothing more."))
        claude.prompt("Continue")
        await stopped(phone)
        assert occurrences(rig) == 1


async def test_a_comment_wakes_the_idle_agent(rig: ServedWorkstation, server: Server) -> None:
    """One hunk is undone, and a comment on another one is sent. The agent, which was idle, changes the lines of the
    comment. Nobody presses a key, and what the user has begun to type stays in the prompt box.
    """
    project(rig, "git")
    poem = rig.project / "poem.txt"
    changes = (edit(poem, "line 3\n", "LINE 3\n"), edit(poem, "line 17\n", "LINE 17\n"))
    rig.model.will_say(read(poem), *changes, text("Done."))
    async with following(server) as phone:
        claude = begin(rig)
        await phone.session()
        claude.prompt("Do it")
        await finished(phone)
        await undo(phone, "LINE 17\n")
        id = await comment(phone)
        claude.pane.type("half a thought")
        rig.model.will_say(read(poem), edit(poem, "LINE 3\n", "Line three\n"), text("Changed."))
        await send(phone)
        await finished(phone)
        screen = claude.pane.wait_for("Comments on the changes")
        assert "half a thought" in screen
        assert "error" not in screen
        assert occurrences(rig) == 1
        assert await answers(phone) == {"Line three\n": [id]}
        first, second = [one for one in await prompts(phone) if "prompt" in one["message"]]
        assert (first["message"]["prompt"], second["review"]["comments"]) == ("Do it", [id])
        assert second["message"]["prompt"].startswith("I have reviewed")
        assert hunks(await review(phone)) == [("poem.txt", "line 3\n", "Line three\n")]
    assert poem.read_text() == POEM.replace("line 3\n", "Line three\n")
