"""The real ``claude`` behind the real server, as clients on the wire see it. Its model is a stub on this machine.

``agents/claude/test_real_claude.py`` tests the parts of the driver one by one. These tests go through the whole server.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import programs
from tests.rigs import claude_rig
from tests.rigs.messages_stub import HOLD, MessagesStub, edit, failure, read, text, tool_use, write
from tests.rigs.tmux import Tmux
from tests.server.processes import Server, serving
from tests.server.wire_client import WireClient
from tests.waiting import until

POEM = "one\ntwo\nthree\n"


@pytest.fixture
def poem(tmp_path: Path) -> Path:
    directory = tmp_path / "roots" / "poems"
    directory.mkdir(parents=True)
    claude_rig.prepare_home(directory)
    (directory / "poem.txt").write_text(POEM)
    return directory / "poem.txt"


@pytest.fixture
def model() -> Iterator[MessagesStub]:
    with MessagesStub() as stub:
        yield stub


@contextlib.asynccontextmanager
async def served(poem: Path, model: MessagesStub, *flags: str) -> AsyncIterator[Server]:
    options: tuple[str | Path, ...]
    options = ("--no-tls", "--allow", poem.parent.parent, "--agent-path", f"claude={programs.claude()}", *flags)
    async with serving(poem.parent.parent.parent / "data", *options, **claude_rig.environment(model)) as server:
        yield server


@contextlib.asynccontextmanager
async def at_work(poem: Path, model: MessagesStub, *flags: str) -> AsyncIterator[tuple[Server, WireClient, str]]:
    async with served(poem, model, *flags) as server, server.client() as client:
        created = await client.ask("project_create", {"path": str(poem.parent), "agent": "claude", "join": True})
        yield server, client, created["project_id"]


async def in_a_terminal(tmux: Tmux, poem: Path, model: MessagesStub, *arguments: str) -> claude_rig.Claude:
    """Starts a ``claude`` in a terminal, as a user would while the server is running."""
    return await asyncio.to_thread(
        claude_rig.Claude.start,
        tmux,
        programs.claude(),
        *arguments,
        project=poem.parent,
        environment=claude_rig.environment(model),
    )


async def asked_in_a_terminal(tmux: Tmux, poem: Path, model: MessagesStub) -> None:
    """Begins a conversation in a terminal. Its prompt is "Who are you?", and its answer "I am Ada"."""
    terminal = await in_a_terminal(tmux, poem, model)
    await asyncio.to_thread(terminal.prompt, "Who are you?")
    await asyncio.to_thread(terminal.pane.wait_for, "I am Ada")


async def finished(client: WireClient) -> dict[str, Any]:
    ended: dict[str, Any] = (await client.receive("update", "run_finished"))["data"]["data"]
    return ended


def words(client: WireClient) -> list[str]:
    messages = [message["data"]["messages"][0] for message in client.received if message["type"] == "agent_message"]
    parts = [part for line in messages if line["type"] == "assistant" for part in line["message"]["content"]]
    return [part["text"] for part in parts if part["type"] == "text"]


async def test_a_prompt_streams_and_its_conversation_survives_a_kill(poem: Path, model: MessagesStub) -> None:
    model.will_say([text("I am"), HOLD, text("Ada.")], text("Ada, as I said."))
    async with at_work(poem, model) as (server, client, project):
        await client.ask("execute", {"prompt": "Who are you?", "options": {"partial_messages": True}}, project)
        await until(lambda: any("stream_event" in str(message) for message in client.received), "partial text")
        assert not [message for message in client.received if "stream_event" in str(message) and "seq" in message]
        model.go_on()
        ended = await finished(client)
        assert ended["outcome"] == "completed"
        assert ended["cost_usd"] > 0
        assert (ended["input_tokens"], ended["output_tokens"]) == (100, 10), "as counted by the stub of the model"
        session = (await client.ask("project_list"))["data"]["projects"][0]["session_id"]
        await server.end(signal.SIGKILL)
    async with served(poem, model) as server, server.client() as client:
        await client.ask("project_join", project_id=project)
        await client.ask("execute", {"prompt": "Who?"}, project)
        assert (await finished(client))["outcome"] == "completed"
        assert words(client) == ["Ada, as I said."]
        [used] = (await client.ask("usage"))["data"]["rows"]
        assert (used["runs"], used["input_tokens"], used["output_tokens"]) == (2, 200, 20)
        assert "Ada." in str(model.requests[-1].body["messages"])
        [listed] = (await client.ask("session_list", project_id=project))["data"]["sessions"]
        assert (listed["session_id"], listed["current"], listed["title"]) == (session, True, "Who are you?")


async def sends_a_file(client: WireClient, project: str, data: bytes) -> None:
    """Sends a prompt with a file that ``claude`` can't read as part of the prompt."""
    piece = {"blob_id": f"of_{project}", "offset": 0, "data": base64.b64encode(data).decode(), "last": True}
    await client.ask("blob_put", piece)
    files = [{"blob_id": f"of_{project}", "media_type": "text/csv", "name": "my report.csv"}]
    await client.ask("execute", {"prompt": "Look", "attachments": files}, project)
    assert (await finished(client))["outcome"] == "completed"


async def test_an_attached_file_is_read_without_an_approval(poem: Path, model: MessagesStub) -> None:
    """Reading a file attached in another session needs an approval, and so does writing into the attachment's
    directory.
    """
    latin = "größe;stück\n".encode("latin-1")
    elsewhere = poem.parent.parent / "elsewhere"
    elsewhere.mkdir()
    model.will_say(text("I see."), text("I see."))
    async with at_work(poem, model) as (_, client, project):
        await sends_a_file(client, project, latin + b"mine\n")
        created = await client.ask("project_create", {"path": str(elsewhere), "agent": "claude", "join": True})
        await sends_a_file(client, created["project_id"], latin + b"theirs\n")
        received = "\n".join(request.new_text for request in model.requests)
        mine, theirs = (Path(found) for found in re.findall(r"Attached file: (.*) \(1 kB\)", received))
        assert mine.name == theirs.name == "my report.csv"

        cat = tool_use("Bash", command=f"cat '{mine}'", description="Show it")
        model.will_say(read(mine), cat, read(theirs), write(mine.parent / "more", "x"), text("Done."))
        await client.ask("execute", {"prompt": "Read them"}, project)
        for tool, path in (("Read", theirs), ("Write", mine.parent / "more")):
            asked = (await client.receive("permission_request"))["data"]
            assert (asked["tool_name"], asked["input"]["file_path"]) == (tool, str(path))
            answer = {"approval_id": asked["approval_id"], "decision": "deny", "message": "no"}
            await client.ask("permission_response", answer, project)
        assert (await finished(client))["outcome"] == "completed"
        results = [result for request in model.requests for result in request.tool_results]
        assert ["mine" in result for result in results] == [True, True, False, False]
        assert "theirs" not in str(results)


@pytest.mark.slow
async def test_allowed_denied_and_edited_answers_take_effect(poem: Path, model: MessagesStub) -> None:
    change = [read(poem), edit(poem, "two", "2")]
    command = tool_use("Bash", command="touch made", description="Make a file")
    model.will_say(*change, text("Done."), command, text("I see."), read(poem), edit(poem, "2", "zwei"), text("Fine."))
    async with at_work(poem, model) as (_, client, project):

        async def decide(prompt: str, **answer: Any) -> dict[str, Any]:
            await client.ask("execute", {"prompt": prompt}, project)
            asked: dict[str, Any] = (await client.receive("permission_request"))["data"]
            if "updated_input" in answer:
                answer["updated_input"] = {**asked["input"], **answer["updated_input"]}
            await client.ask("permission_response", {"approval_id": asked["approval_id"], **answer}, project)
            assert (await finished(client))["outcome"] == "completed"
            return asked

        asked = await decide("Change it", decision="allow")
        assert asked["proposal"] == {"path": str(poem), "old_text": POEM, "new_text": "one\n2\nthree\n"}
        assert poem.read_text() == "one\n2\nthree\n"

        await decide("Make a file", decision="deny", message="No files, please.")
        assert not (poem.parent / "made").exists()
        assert "No files, please." in model.requests[-1].tool_results

        whole = {"old_string": "one\n2\nthree\n", "new_string": "all mine\n"}
        await decide("Change it again", decision="allow", updated_input=whole)
        assert poem.read_text() == "all mine\n"


@pytest.mark.thorough
async def test_an_interrupt_keeps_the_session_and_a_kill_ends_it(poem: Path, model: MessagesStub) -> None:
    tail = tool_use("Bash", command="touch log; tail -f log", description="Watch")
    model.will_say([text("To begin with"), HOLD], text("Yes?"), tail)
    async with at_work(poem, model) as (_, client, project):
        await client.ask("execute", {"prompt": "Tell me everything"}, project)
        await asyncio.to_thread(model.wait_for_request, 1)
        await client.ask("agent_interrupt", project_id=project)
        assert (await finished(client))["outcome"] == "interrupted"
        await client.ask("execute", {"prompt": "And now?"}, project)
        assert (await finished(client))["outcome"] == "completed"

        await client.ask("execute", {"prompt": "Watch"}, project)
        asked = (await client.receive("permission_request"))["data"]
        await client.ask("permission_response", {"approval_id": asked["approval_id"], "decision": "allow"}, project)
        await until((poem.parent / "log").exists, "the command")
        killed = await client.ask("agent_kill", project_id=project)
        assert killed["data"]["update_type"] == "execution_killed"
        assert (await finished(client))["outcome"] == "killed"
    # tests/conftest.py checks that no process is left running


@pytest.mark.thorough
async def test_errors_are_reported_and_the_next_prompt_is_accepted(poem: Path, model: MessagesStub) -> None:
    model.will_say(failure(400, "invalid_request_error", "no such thing"))
    async with at_work(poem, model) as (_, client, project):
        await client.ask("execute", {"prompt": "Hello"}, project)
        ended = await finished(client)
        assert ended["outcome"] == "failed"
        assert "no such thing" in ended["error"]
        await client.receive("update", "project_state", state="ERROR")
        model.will_say(text("Here I am."))
        strange = "-p --version\n\"quoted\" 'and' $(touch made) `id`\u2028" + "x" * 200_000
        await client.ask("execute", {"prompt": strange}, project)
        assert (await finished(client))["outcome"] == "completed"
        assert strange in model.requests[-1].new_text
        assert not (poem.parent / "made").exists()

        refused = await client.ask("session_resume", {"session_id": "3f2b8a54-0000-4000-8000-000000000000"}, project)
        assert refused["data"]["code"] == "SESSION_NOT_FOUND"
        assert (await client.ask("session_resume", {"session_id": "no id"}, project))["type"] == "error"


@pytest.mark.slow
async def test_a_conversation_from_a_terminal_is_resumed_and_forked(poem: Path, model: MessagesStub) -> None:
    model.will_say(text("I am Ada."), text("Ada still."), text("Another Ada."))
    begun = await asyncio.create_subprocess_exec(
        *(str(programs.claude()), "-p", "--output-format=text"),
        cwd=poem.parent,
        env=claude_rig.environment(model),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert b"Ada" in (await begun.communicate(b"Who are you?"))[0]
    async with at_work(poem, model) as (_, client, project):
        [session] = (await client.ask("session_list", project_id=project))["data"]["sessions"]
        assert (session["title"], session.get("current")) == ("Who are you?", None)
        for how, words_of_it in (("session_resume", "Ada still."), ("session_fork", "Another Ada.")):
            assert (await client.ask(how, {"session_id": session["session_id"]}, project))["type"] == "ok"
            await client.ask("execute", {"prompt": "Who?"}, project)
            assert (await finished(client))["outcome"] == "completed"
            assert words(client)[-1] == words_of_it
            assert "I am Ada." in str(model.requests[-1].body["messages"])
            current = (await client.ask("project_list"))["data"]["projects"][0]["session_id"]
            assert (current == session["session_id"]) == (how == "session_resume")


def agent_processes(server: Server) -> list[psutil.Process]:
    """The agent processes that the server started for conversations, without their supervisors."""
    found = []
    for process in psutil.Process(server.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any(word.startswith(("--session-id=", "--resume=")) for word in process.cmdline()[:20]):
                found.append(process)
    return [process for process in found if "supervisor." not in " ".join(process.cmdline()[:5])]


@pytest.mark.slow_for("message", "start")
@pytest.mark.thorough
@pytest.mark.parametrize("moment", ["start", "session", "message"])
async def test_a_prompt_after_an_agent_was_killed_at_its_start(moment: str, poem: Path, model: MessagesStub) -> None:
    """The project accepts the next prompt, whether or not the CLI had stored the conversation."""
    model.will_say([text("To begin with"), HOLD], text("Here I am."))
    async with at_work(poem, model) as (server, client, project):
        await client.ask("execute", {"prompt": "Hello"}, project)
        await until(lambda: agent_processes(server), "the agent's start")
        if moment == "session":
            await client.receive("update", "session_changed")
        elif moment == "message":
            await client.receive("agent_message")
        for process in agent_processes(server):
            process.kill()
        assert (await finished(client))["outcome"] == "failed"
        model.go_on()
        model.will_say(text("Here I am."))
        await client.ask("execute", {"prompt": "And now?"}, project)
        ended = await finished(client)
        assert (ended["outcome"], ended.get("error")) == ("completed", None)


@pytest.mark.slow
async def test_a_prompt_after_the_server_was_killed_at_agent_start(poem: Path, model: MessagesStub) -> None:
    model.will_say(text("Here I am."))
    async with at_work(poem, model) as (server, client, project):
        await client.ask("execute", {"prompt": "Hello"}, project)
        await until(lambda: agent_processes(server), "the agent's start")
        await server.end(signal.SIGKILL)
    async with served(poem, model) as server, server.client() as client:
        await client.ask("project_join", project_id=project)
        await client.ask("execute", {"prompt": "And now?"}, project)
        ended = await finished(client)
        assert (ended["outcome"], ended.get("error")) == ("completed", None)
