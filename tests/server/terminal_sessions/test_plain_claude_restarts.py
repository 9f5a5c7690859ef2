"""The server is killed while a plain ``claude`` in a terminal waits for an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.rigs.claude_rig import TOOL_DIALOG, YES
from tests.rigs.messages_stub import text
from tests.server.processes import Server, serving

from .rig import Message, Phone, ServedWorkstation
from .test_plain_claude import asked, touch


@asynccontextmanager
async def started_again(home: Path, project: str) -> AsyncIterator[tuple[Phone, list[Message]]]:
    """Starts the next server, and kills it afterwards. Yields a client that is connected to it, and the open approval
    requests.
    """
    async with serving(home / "data", "--no-tls") as server, server.client() as client:
        phone = Phone(client)
        await phone.follow()
        phone.project = project
        joined = await client.ask("project_join", project_id=project)
        yield phone, joined["data"]["data"]["open_approvals"]
        server.process.kill()
        await server.ended()


async def killed(server: Server) -> None:
    server.process.kill()
    await server.ended()


@pytest.mark.thorough
async def test_a_claude_question_survives_a_killed_server(rig: ServedWorkstation, server: Server, home: Path) -> None:
    """The question is answered from the phone after a restart. The next one is answered in the terminal while no server
    runs.
    """
    made, another = rig.project / "made", rig.project / "another"
    async with asked(rig, server, touch("made"), touch("another"), text("All done.")) as (claude, phone):
        question = await phone.question("Bash")
        claude.pane.wait_for(TOOL_DIALOG)
        await killed(server)
    async with started_again(home, phone.project) as (phone, still_open):
        assert still_open == [question]
        assert not made.exists()
        await phone.answer(question, "allow")
        question = await phone.question("Bash")
        assert made.exists()
        assert question["input"]["command"] == "touch another"
    claude.answer_dialog(TOOL_DIALOG, YES)
    claude.pane.wait_for("All done.")
    assert another.exists()
    async with started_again(home, phone.project) as (phone, still_open):
        if still_open:  # the request is still open if the conversation has not been read yet
            assert [one["approval_id"] for one in still_open] == [question["approval_id"]]
            assert await phone.withdrawn(question) == "answered elsewhere"

        async def info() -> Message:
            found: Message = (await phone.client.ask("project_list"))["data"]["projects"][0]
            return found

        while (await info())["desk"]["state"] != "finished":  # the agent's Stop hook found no server
            await phone.state("finished")
        assert (await info())["approvals"] == []
        records = (await phone.client.ask("get_messages", {"after_seq": 0}, phone.project))["data"]["messages"]
        ends = [one["message"]["message"] for one in records if one["message"].get("subtype") == "run_finished"]
        assert [one["outcome"] for one in ends] == ["completed"]
