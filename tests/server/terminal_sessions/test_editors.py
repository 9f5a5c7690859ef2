"""An approval request is open in an editor and on a client of the server. The first answer counts, and the other side
sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests import programs
from tests.e2e.gemini import workstation as gemini_workstation
from tests.e2e.guard.workstation import wait_for_text
from tests.rigs.claude_rig import EDIT_DIALOG, YES, Claude
from tests.rigs.gemini_stub import GeminiStub, replace
from tests.rigs.gemini_stub import text as gemini_text
from tests.rigs.messages_stub import edit, read, text
from tests.rigs.neovim_rig import Neovim
from tests.rigs.tmux import Tmux
from tests.server.processes import Server, serving
from tests.server.wire_client import WireClient

from .rig import Message, Phone, ServedWorkstation, following

POEM = "one\ntwo\nthree\n"
SHOUTED = "one\nTWO\nthree\n"


async def resolved(client: WireClient, question: Message) -> tuple[str, str]:
    """Waits until the question is resolved. Returns who answered, and with which decision."""
    received = await client.receive("update", "permission_resolved", approval_id=question["approval_id"])
    data = received["data"]["data"]
    return data["by"], data["decision"]


# an agent of the server, with its directory open in Neovim


@pytest.fixture
async def with_demo(rig: ServedWorkstation, home: Path) -> AsyncIterator[Server]:
    async with serving(home / "data", "--no-tls", "--allow", rig.project) as server:
        yield server


@asynccontextmanager
async def proposing(rig: ServedWorkstation, server: Server) -> AsyncIterator[tuple[Neovim, Phone, Message]]:
    """The demo agent proposes to add a line, and Neovim shows the proposal."""
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    async with server.client() as client:
        created = await client.ask("project_create", {"path": str(rig.project), "agent": "demo", "join": True})
        phone = Phone(client)
        phone.project = created["project_id"]
        await client.ask("execute", {"prompt": "More"}, phone.project)
        question = await phone.question("Edit")
        neovim.wait_for_proposal()
        yield neovim, phone, question


async def test_an_agent_of_the_server_is_answered_in_neovim(rig: ServedWorkstation, with_demo: Server) -> None:
    async with proposing(rig, with_demo) as (neovim, phone, question):
        neovim.pane.wait_for("You said: More")
        neovim.command("2s/two/zwei/")
        neovim.pane.wait_for("zwei")
        neovim.command("w")
        assert await resolved(phone.client, question) == ("Neovim", "allow")
        wait_for_text(rig.project / "poem.txt", "one\nzwei\nthree\nYou said: More\n")
        neovim.wait_until_closed()
        await phone.client.receive("update", "run_finished", outcome="completed")
        neovim.wait_for_buffer(rig.project / "poem.txt", ["one", "zwei", "three", "You said: More"])


@pytest.mark.thorough
async def test_an_answer_of_a_client_closes_the_view_in_neovim(rig: ServedWorkstation, with_demo: Server) -> None:
    async with proposing(rig, with_demo) as (neovim, phone, question):
        await phone.answer(question, "deny", message="no")
        neovim.wait_until_closed()
        await phone.client.receive("update", "run_finished")
        assert (rig.project / "poem.txt").read_text() == POEM


# a claude in a terminal that is connected to Neovim, whose hook and diff are one approval request


@asynccontextmanager
async def shown_twice(
    rig: ServedWorkstation, server: Server
) -> AsyncIterator[tuple[Neovim, Claude, Phone, Message, Path]]:
    poem = rig.file("poem.txt", POEM)
    rig.set_up()
    neovim = rig.neovim(poem)
    rig.model.will_say(read(poem), edit(poem, "two", "TWO"), text("It is done."))
    async with following(server) as phone:
        claude = rig.claude()
        await phone.session()
        claude.prompt("Shout")
        question = await phone.question("Edit")
        neovim.wait_for_proposal()
        claude.pane.wait_for(EDIT_DIALOG)
        yield neovim, claude, phone, question, poem
        claude.pane.wait_for("It is done")
        projects = (await phone.client.ask("project_list"))["data"]["projects"]
        assert [(one["agent"], one["approvals"]) for one in projects] == [("claude", [])]
        asked = [one["data"]["approval_id"] for one in phone.client.received if one["type"] == "permission_request"]
        assert asked == [question["approval_id"]]


@pytest.mark.slow
async def test_claude_in_neovim_is_answered_by_a_client(rig: ServedWorkstation, server: Server) -> None:
    async with shown_twice(rig, server) as (neovim, _, phone, question, poem):
        given = question["input"] | {"old_string": POEM, "new_string": "one\nzwei\n", "replace_all": False}
        await phone.answer(question, "allow", updated_input=given)
        neovim.wait_until_closed()
        wait_for_text(poem, "one\nzwei\n")
        neovim.wait_for_buffer(poem, ["one", "zwei"])


@pytest.mark.slow
async def test_claude_in_neovim_is_answered_in_the_editor(rig: ServedWorkstation, server: Server) -> None:
    """The client sees who decided, and the file gets the text that was edited in Neovim."""
    async with shown_twice(rig, server) as (neovim, _, phone, question, poem):
        neovim.command("2s/TWO/zwei/")
        neovim.pane.wait_for("zwei")
        neovim.command("w")
        assert await resolved(phone.client, question) == ("Neovim", "allow")
        wait_for_text(poem, "one\nzwei\nthree\n")


@pytest.mark.slow
async def test_claude_in_neovim_is_answered_in_its_own_dialog(rig: ServedWorkstation, server: Server) -> None:
    """Neovim closes the proposal, and the client learns that the request was answered elsewhere."""
    async with shown_twice(rig, server) as (neovim, claude, phone, question, poem):
        claude.answer_dialog(EDIT_DIALOG, YES)
        assert await phone.withdrawn(question) == "answered elsewhere"
        neovim.wait_until_closed()
        wait_for_text(poem, SHOUTED)


# a gemini in a terminal, whose only question is the proposal in the bridge


@pytest.fixture
def geminis(home: Path) -> Iterator[gemini_workstation.Workstation]:
    programs.tmux()
    with (
        GeminiStub() as model,
        Tmux.server() as tmux,
        gemini_workstation.Workstation(home / "project", model, tmux) as rig,
    ):
        yield rig


@pytest.mark.slow
@pytest.mark.parametrize("where", ["client", "Neovim"])
async def test_a_gemini_proposal_can_be_answered_anywhere(
    geminis: gemini_workstation.Workstation, server: Server, where: str
) -> None:
    poem = geminis.file("poem.txt", POEM)
    async with following(server) as phone:
        neovim = geminis.neovim(poem)
        gemini = geminis.gemini()
        geminis.model.will_say(replace(poem, "two", "TWO"), gemini_text("It is done."))
        gemini.prompt("Shout")
        session = await phone.session()
        assert (session["path"], session["agent"]) == (str(geminis.project), "gemini")
        question = await phone.question("Write")
        assert question["proposal"] == {"path": str(poem), "old_text": POEM, "new_text": SHOUTED}
        neovim.wait_for_proposal()
        if where == "client":
            given = {"file_path": str(poem), "content": "one\nzwei\n"}
            await phone.answer(question, "allow", updated_input=given)
            neovim.wait_until_closed()
            wait_for_text(poem, "one\nzwei\n")
        else:
            neovim.command("w")
            assert await resolved(phone.client, question) == ("Neovim", "allow")
            wait_for_text(poem, SHOUTED)
        gemini.pane.wait_for("It is done")


@pytest.mark.thorough
async def test_a_gemini_proposal_survives_a_killed_server(
    geminis: gemini_workstation.Workstation, server: Server, home: Path
) -> None:
    """Neovim's bridge connects to the next server."""
    poem = geminis.file("poem.txt", POEM)
    async with following(server) as phone:
        neovim = geminis.neovim(poem)
        gemini = geminis.gemini()
        geminis.model.will_say(replace(poem, "two", "TWO"), gemini_text("It is done."))
        gemini.prompt("Shout")
        await phone.session()
        question = await phone.question("Write")
        neovim.wait_for_proposal()
        server.process.kill()
        await server.ended()
    async with serving(home / "data", "--no-tls") as later, following(later) as at_later:
        joined = await at_later.client.ask("project_join", project_id=phone.project)
        assert joined["data"]["data"]["open_approvals"] == [question]
        at_later.project = phone.project
        await at_later.answer(question, "allow", updated_input={"file_path": str(poem), "content": "one\nzwei\n"})
        neovim.wait_until_closed()
        wait_for_text(poem, "one\nzwei\n")
        assert len((await at_later.client.ask("project_list"))["data"]["projects"]) == 1
