"""If a client accepts a plan of a plain ``claude``, it is accepted in the terminal, too, with the chosen mode."""

from __future__ import annotations

import pytest

from tests.rigs.messages_stub import edit, read, text
from tests.server.processes import Server

from .rig import ServedWorkstation, following

pytestmark = pytest.mark.thorough

PLAN = "# Plan\n\n1. Write it.\n"


@pytest.mark.slow_for("acceptEdits-as it is", "plan-as it is", "plan-with accept edits")
@pytest.mark.parametrize(
    ("before", "change"),
    [
        ("plan", "as it is"),
        ("plan", "edited"),
        ("plan", "with accept edits"),
        ("acceptEdits", "as it is"),
    ],
)
async def test_an_accepted_plan_reaches_the_agent(
    rig: ServedWorkstation, server: Server, before: str, change: str
) -> None:
    """Unless edits are accepted together with the plan, the agent asks about them, even if it did not ask before the
    plan.
    """
    notes = rig.file("notes.txt", "one\n")
    rig.model.will_plan(PLAN, read(notes), edit(notes, "one", "two"), text("It is carried out."))
    async with following(server) as phone:
        claude = rig.plain_claude("--permission-mode", before)
        await phone.session()
        if before != "plan":
            claude.pane.press("BTab")
        claude.pane.wait_for("plan mode on")
        claude.prompt("Plan it")
        question = await phone.question("ExitPlanMode")
        assert question["input"]["plan"] == PLAN
        assert question["suggestions"] == [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]
        if change == "edited":
            edited = question["input"] | {"plan": f"{PLAN}2. Test it.\n"}
            await phone.answer(question, "allow", updated_input=edited)
        else:
            await phone.answer(question, "allow", remember=change == "with accept edits")
        if change != "with accept edits":
            await phone.answer(await phone.question("Edit"), "allow")
        claude.pane.wait_for("It is carried out.")
        await phone.state("finished")
        records = (await phone.client.ask("get_messages", {"after_seq": 0}, phone.project))["data"]["messages"]
        assert "permission_withdrawn" not in [one["message"].get("subtype") for one in records]
    assert notes.read_text() == "two\n"
    received = "\n".join(request.new_text for request in rig.model.requests)
    assert ("2. Test it." in received) == (change == "edited")
