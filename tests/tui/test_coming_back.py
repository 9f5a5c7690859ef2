"""If the network or the server fails, the terminal client reports it, reconnects, and keeps what was typed."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from drawbridge.tui import connection
from drawbridge.tui.fields import PlainTextArea
from tests.server.processes import serving

from .conftest import make_directory, make_project
from .rig import Person, attached


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The project's directory. These tests do not share a server, because they kill their server or its connections."""
    return make_directory(tmp_path / "work" / "blog")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def is_cut_off(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks the connection. The client reconnects only when the test tells it to."""
    monkeypatch.setattr(connection, "PAUSES", (3600.0,))
    socket = person.app.client.connection._socket
    assert socket is not None
    socket.transport.abort()
    await person.waits_for(lambda: person.app.client.connection.state == "waiting", "the end of the connection")


@pytest.mark.thorough
async def test_the_client_resumes_where_it_was_after_a_server_crash(tmp_path: Path, directory: Path) -> None:
    """What the user wrote stays, a queued prompt is sent once, and nothing is shown twice."""
    arguments = (tmp_path / "data", "--no-tls", "--allow", directory.parent, "--port", str(free_port()))
    async with serving(*arguments) as first:
        await make_project(first, directory)
        async with attached(first, directory) as person:
            await person.prompts("Something")
            card = await person.is_asked("Something")
            await person.presses("e", *"Mine ")
            await first.end(signal.SIGKILL)
            await person.sees("Not connected to the server: ", "Retrying… What you write is kept.")
            await person.presses("ctrl+s")
            await person.prompts("/quick meanwhile")
            await person.sees("Will be sent when you reconnect  /quick meanwhile")
            person.prompt.text = "half a thought"
            async with serving(*arguments):
                person.app.client.connection.retry_now()
                await person.sees("Connected")
                await person.reads("/quick meanwhile", "Done.", "Finished")
                await person.sees("Withdrawn: ")
                assert "Mine" in card.query_one(PlainTextArea).text, "what was written for it stays in view"
                assert person.prompt.text == "half a thought"
                assert person.history.count("Something") == 2, "nothing is shown twice"
                assert person.history.count("/quick meanwhile") == 1
    assert "Mine" not in (directory / "notes.md").read_text()


@pytest.mark.thorough
async def test_a_lost_connection_resumes_at_the_cursor(tmp_path: Path, directory: Path) -> None:
    async with serving(tmp_path / "data", "--no-tls", "--allow", directory.parent) as server:
        project = await make_project(server, directory)
        async with attached(server, directory) as person, server.client() as other:
            await person.prompts("/quick one")
            await person.reads("Finished")
            conversation = person.app.client.conversation
            assert conversation is not None
            known = list(conversation.items)
            socket = person.app.client.connection._socket
            assert socket is not None
            socket.transport.abort()
            await person.loses("Connected")
            await other.send("project_join", project_id=project)
            await other.send("execute", {"prompt": "/quick two"}, project)
            await other.receive("update", "run_finished")
            person.app.client.connection.retry_now()
            await person.reads("/quick two")
            await person.reads_times(2, "Finished")
            assert person.history.count("Done.") == 2
            assert conversation.items[: len(known)] == known, "what was here was not asked for again"


@pytest.mark.slow
async def test_a_prompt_removed_during_a_disconnect_is_reported(tmp_path: Path, directory: Path) -> None:
    async with serving(tmp_path / "data", "--no-tls", "--allow", directory.parent) as server:
        project = await make_project(server, directory)
        async with attached(server, directory) as person, server.client() as other:
            await person.prompts("/slow 600")
            await person.sees("Working")
            await person.prompts("a fine idea")
            await person.sees("1 queued")
            socket = person.app.client.connection._socket
            assert socket is not None
            socket.transport.abort()
            await person.loses("Connected")
            [queued] = (await other.ask("project_join", project_id=project))["data"]["data"]["queue"]
            await other.ask("queue_remove", {"run_id": queued["run_id"]}, project)
            person.app.client.connection.retry_now()
            await person.sees("removed your prompt from the queue")
            await other.ask("agent_interrupt", project_id=project)
            await person.sees("Ready")


@pytest.mark.thorough
async def test_a_prompt_removed_while_another_project_is_shown(tmp_path: Path, directory: Path) -> None:
    async with serving(tmp_path / "data", "--no-tls", "--allow", directory.parent) as server:
        project = await make_project(server, directory)
        async with attached(server, directory) as person, server.client() as other:
            await person.prompts("/slow 600")
            await person.sees("Working")
            await person.prompts("a fine idea")
            await person.sees("1 queued")
            await person.presses("escape", "p")
            await person.waits_for(lambda: not person.in_project, "the list")
            [queued] = (await other.ask("project_join", project_id=project))["data"]["data"]["queue"]
            await other.ask("queue_remove", {"run_id": queued["run_id"]}, project)
            assert not any("removed your prompt" in notice for notice in person.notices)
            await person.presses("enter")
            await person.is_notified("removed your prompt from the queue: a fine idea")
            await other.ask("agent_interrupt", project_id=project)
            await person.sees("Ready")
        assert len([notice for notice in person.notices if "removed your prompt" in notice]) == 1


@pytest.mark.thorough
async def test_an_answer_in_flight_during_a_disconnect_counts_once(tmp_path: Path, directory: Path) -> None:
    async with serving(tmp_path / "data", "--no-tls", "--allow", directory.parent) as server:
        await make_project(server, directory)
        async with attached(server, directory) as person:
            await person.prompts("Something")
            await person.is_asked("Something")
            socket = person.app.client.connection._socket
            assert socket is not None
            await person.presses("a")
            socket.transport.abort()
            await person.reads("✓ Accepted by you", "Finished")
            assert person.card is None
    assert (directory / "notes.md").read_text().count("Something") == 1


@pytest.mark.slow
async def test_a_rejected_token_is_reported_and_typed_text_is_kept(tmp_path: Path, directory: Path) -> None:
    """The token is replaced by an invalid one before the client reconnects."""
    async with serving(tmp_path / "data", "--no-tls", "--allow", directory.parent) as server:
        await make_project(server, directory)
        token = tmp_path / "token"
        token.write_text(server.token)
        async with attached(server, directory, token_file=str(token)) as person:
            await person.types("half a thought")
            token.write_text("x" * 43)
            socket = person.app.client.connection._socket
            assert socket is not None
            socket.transport.abort()
            await person.sees(
                "Disconnected: The token is missing or wrong. To use another token, quit", "half a thought"
            )
            assert person.app.client.connection.state == "refused"


@pytest.mark.thorough
async def test_what_was_sent_offline_arrives_after_the_project_is_left(
    tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path / "data", "--no-tls", "--allow", directory.parent) as server:
        await make_project(server, directory)
        async with attached(server, directory) as person:
            await person.prompts("Something")
            await person.is_asked("Something")
            await is_cut_off(person, monkeypatch)
            await person.presses("a")
            await person.prompts("/quick meanwhile")
            await person.sees("Will be sent when you reconnect  /quick meanwhile")
            await person.presses("escape", "p")
            await person.waits_for(lambda: not person.in_project, "the list")
            person.app.client.connection.retry_now()
            await person.sees("Connected")
            await person.presses("enter")
            await person.reads("✓ Accepted by you", "/quick meanwhile", "Done.")
            await person.reads_times(2, "Finished")
            assert person.history.count("/quick meanwhile") == 1
    assert (directory / "notes.md").read_text().count("Something") == 1


@pytest.mark.thorough
async def test_a_request_stays_open_if_its_end_cannot_be_loaded(
    tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier part of the history is shown, and there is no connection when the user returns to the end."""
    async with serving(tmp_path / "data", "--no-tls", "--allow", directory.parent) as server:
        await make_project(server, directory)
        async with attached(server, directory) as person:
            await person.prompts("Something")
            card = await person.is_asked("Something")
            await person.presses("e")
            card.query_one(PlainTextArea).text = "My own words\n"
            await is_cut_off(person, monkeypatch)
            conversation = person.app.client.conversation
            assert conversation is not None
            conversation.jump(1)
            await person.presses("escape", "G")
            await person.is_notified("You’re disconnected. Try again once you’re back online.")
            person.app.client.connection.retry_now()
            await person.sees("Connected", "Needs you")
            await person.reads("Something")
            assert person.card is card
            assert not card.is_settled
            await person.presses("e", "ctrl+s")
            await person.reads("Finished")
    assert (directory / "notes.md").read_text() == "My own words\n"
