"""A plain ``claude`` in a terminal: its questions are answered by a client of the server, or at the desk; who is first decides."""

from __future__ import annotations

from tests.e2e import claude_rig
from tests.e2e.messages_stub import edit, read, text, tool_use, write
from tests.server.processes import Server

from .rig import Phone, ServedDesk

QUESTION = {
    "question": "Which one?",
    "header": "Choice",
    "multiSelect": False,
    "options": [{"label": "Left", "description": "l"}, {"label": "Right", "description": "r"}],
}


async def test_a_command_is_allowed_by_a_client(desk: ServedDesk, server: Server) -> None:
    desk.model.will_say(tool_use("Bash", command="touch made", description="Make a file"), text("Done."))
    async with server.client() as client:
        phone = Phone(client)
        await phone.follow()
        claude = desk.plain_claude()
        session = await phone.session()
        assert (session["path"], session["agent"]) == (str(desk.project), "claude")
        claude.prompt("Make it")
        question = await phone.question("Bash")
        assert question["input"]["command"] == "touch made"
        claude.pane.wait_for(claude_rig.TOOL_DIALOG)
        answer = await phone.answer(question, "allow")
        assert answer["data"]["update_type"] == "permission_resolved", answer
        claude.pane.wait_for("Done.")
        assert (desk.project / "made").exists()
        await phone.state("finished")
