"""The event loops of the bridge and the server never wait for a file or a process. Both run in asyncio's debug mode.

The tests do not measure times. Instead, ``watched_program`` reports each call in the loop's thread that may wait. The
exceptions are listed below, each with its reason.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
import urllib.request
import uuid
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.auth.devices import Devices, new_code
from tests import programs
from tests.ide import processes
from tests.ide.gemini_rig import Cli
from tests.server.processes import serving
from tests.server.terminal_sessions.socket_rig import Line
from tests.server.wire_client import connected
from tests.waiting import until

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "drawbridge"

WATCHED = [sys.executable, str(ROOT / "tests" / "watched_program.py")]

DEBUG_MODE = {"PYTHONASYNCIODEBUG": "1"}

BRIDGE_MAY = {
    "core.subprocesses": "asyncio starts a process on its own thread; only executeCode does, after a person has agreed",
    "ide.bridge": "reads the version of the package once, before the editor is connected",
    "ide.review": "the state of a file at the moment of the decision: the agent writes the file once it is notified",
    "ide.unasked": "the state of a file that an agent may write: the agent writes it as soon as its hook has ended",
    "ide.discovery": "two small files, when folders change: a write in a thread could come after their removal",
}
"""The bridge's modules that may use files on the loop's thread, each with the reason."""

SERVER_MAY = {
    "server.auth.audit": "appends a line to a small file before the answer is sent: what was done is never missing",
    "server.auth.devices": "a small file: a revoked token is refused at once; the last use of a token, once a minute, no lock",
    "server.sessions.processes": "notes a process before it runs, so that no crash leaves one behind",
    "server.sessions.metadata": "a small file, before clients see the state: a crash does not restore a cancelled plan",
    "server.checkpoints.shell": "asyncio opens /dev/null on its own thread when it starts a process",
    "server.store.index": "locks a new file of the log, which the next record is written into",
    "server.store.log": "appends to the log, and makes a new file and its link: clients see only what is in the log",
    "server.app.stats": "the free space on the server's own disk, for which the kernel does not wait",
    "server.approvals.editors": "where a proposed file is: an editor shows it before the agent's next lines are handled",
    "server.approvals.service": "where an agent's paths lead: clients are asked before the agent's next lines are handled",
    "server.sessions.disk": "the free space on the server's own disk, for which the kernel does not wait",
    "server.sessions.work_trees": "where an agent works: its next line may end the run, whose result says so",
    "server.terminal_sessions.approval_requests": "whether a process is alive, for which the kernel does not wait",
    "server.terminal_sessions.processes": "when a process began, for which the kernel does not wait",
    "server.terminal_sessions.session": "a small file, at the end of a turn and around a prompt: a prompt is typed once",
    "server.terminal_sessions.sessions": "makes the empty history of a new session before its next hook is read",
    "editors.files": "at most 2 MB of a file that an agent asks to change: the approval comes before the agent's next lines",
}
"""The server's modules that may use files on the loop's thread while clients are connected, each with the reason."""


@pytest.fixture
def report(tmp_path: Path) -> Path:
    return tmp_path / "blocking"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work" / "project"
    folder.mkdir(parents=True)
    (folder / "poem.txt").write_text("one\ntwo\n")
    subprocess.run([programs.git(), "init", "-q"], cwd=folder, check=True)
    return folder


def findings(report: Path) -> list[str]:
    return report.read_text().splitlines() if report.exists() else []


def beyond(found: set[str], allowed: dict[str, str]) -> set[str]:
    """Returns the findings in modules that are not in ``allowed``. A finding has the form "EVENT MODULE:FUNCTION"."""
    return {finding for finding in found if finding.split()[1].partition(":")[0] not in allowed}


@pytest.mark.parametrize("module", sorted({*BRIDGE_MAY, *SERVER_MAY}))
def test_an_allowed_module_exists(module: str) -> None:
    assert (SOURCES / f"{module.replace('.', '/')}.py").is_file()


def test_a_blocking_call_is_found_only_on_the_loops_thread(tmp_path: Path) -> None:
    """Both calls use the same helper module, so only the thread makes the difference."""
    report = tmp_path / "report"
    code = f"""
import asyncio, os, sys
sys.path.insert(0, {str(ROOT)!r})
from drawbridge.core import private_files
from tests import watched_program

watched_program.install(os.open({str(report)!r}, os.O_WRONLY | os.O_CREAT))
watched_program.PASSING_ON = ()

async def main():
    await asyncio.to_thread(private_files.write_private, {str(tmp_path / "one")!r}, b"one")
    private_files.remove_quietly({str(tmp_path / "one")!r})

asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert findings(report) == ["os.remove core.private_files:remove_quietly"]


async def test_the_bridges_loop_never_waits_for_a_file(
    folder: Path, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "COMMAND", WATCHED)
    variables = {**DEBUG_MODE, "DRAWBRIDGE_TEST_BLOCKING": str(report)}
    flags = ("--folder", folder, "--decide", "accept", "--execute-code")
    async with (
        serving(tmp_path / "data", "--allow", tmp_path / "work"),
        processes.bridge(*flags, **variables) as bridge,
    ):
        async with bridge.dial() as claude:
            await claude.send(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}))
            await claude.recv()
            await claude.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))

            async def call(tool: str, **arguments: Any) -> Any:
                message = {"id": tool, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
                await claude.send(json.dumps({"jsonrpc": "2.0", **message}))
                while (answer := json.loads(await claude.recv())).get("id") != tool:
                    pass
                return answer["result"]

            poem = str(folder / "poem.txt")
            changed = {"old_file_path": poem, "new_file_path": poem, "new_file_contents": "ONE\n", "tab_name": "poem"}
            assert (await call("openDiff", **changed))["content"][0]["text"] == "FILE_SAVED"
            Path(poem).write_text("ONE\n")
            await until(lambda: "was written" in bridge.errors)
            await call("openFile", filePath=poem)
            await call("executeCode", code="print('hello')")
            await call("getDiagnostics", uri=f"file://{poem}")
            Path(poem).write_text("TWO\n")
        cli = await Cli(bridge.port, bridge.token).greet()
        async with await cli.listen() as stream:
            await cli.open_diff(poem, "THREE\n")
            await stream.receive("ide/diffAccepted")
        found = set(findings(report))
        code, errors = await bridge.end()
    assert code == 0, errors
    assert "was never awaited" not in errors
    assert not beyond(found, BRIDGE_MAY), "\n".join(sorted(beyond(found, BRIDGE_MAY)))


async def test_the_servers_loop_never_waits_for_a_file(folder: Path, report: Path, tmp_path: Path) -> None:
    variables = {**DEBUG_MODE, "DRAWBRIDGE_TEST_BLOCKING": str(report)}
    flags = ("--allow", tmp_path / "work")
    async with serving(tmp_path / "data", *flags, command=[*WATCHED, "serve"], **variables) as server:
        started = len(findings(report))
        async with server.client() as client:
            poem = str(folder / "poem.txt")
            made = await client.ask("project_create", {"path": str(folder), "agent": "demo"})
            project = made["project_id"]
            await client.ask("project_join", {"project_id": project})
            await client.ask("subscribe", {"topics": ["projects", "approvals", "stats"]})
            await client.send("execute", {"prompt": "hello"}, project)
            asked = await client.receive("permission_request")
            given = base64.b64encode(json.dumps(asked["data"]["input"]).encode()).decode()
            await client.ask("blob_put", {"blob_id": "input", "offset": 0, "data": given, "last": True})
            answer = {"approval_id": asked["data"]["approval_id"], "decision": "allow", "updated_input_blob": "input"}
            decided = await client.ask("permission_response", answer, project)
            assert decided["data"]["update_type"] == "permission_resolved"
            finished = await client.receive("update", "run_finished")
            await client.ask("run_changes", {"run_id": finished["data"]["data"]["run_id"]}, project)
            review = (await client.ask("review_get", {}, project))["data"]
            wish = {"all": True, "version": review["version"], "decision": "undo"}
            assert (await client.ask("review_decide", wish, project))["type"] == "review"
            await client.ask("get_messages", {}, project)
            await client.ask("session_list", {}, project)
            await client.ask("dir_list", {"path": str(tmp_path / "work")})
            await client.ask("file_list", {}, project)
            await client.ask("file_list", {"query": "poem"}, project)
            await client.ask("file_read", {"path": "poem.txt"}, project)
            await client.ask("file_changes", {"path": "poem.txt"}, project)
            await client.ask("agent_list")
            await client.ask("place_list")
            await client.ask("usage")
            await client.ask("pair_create", {"scope": "view"})
            await client.ask("device_list")
            await client.ask("device_revoke", {"device_id": "none"})
            await client.ask("push_key")
            piece = base64.b64encode(b'{"command":"true"}').decode()
            await client.ask("blob_put", {"blob_id": "blob", "offset": 0, "data": piece, "last": True})
            await client.ask("blob_get", {"blob_id": "blob"})
            # A phone downloads the authority's certificate, is paired, and reconnects with its token.
            page = server.url.replace("wss:", "https:").removesuffix("/ws")
            await asyncio.to_thread(lambda: urllib.request.urlopen(f"{page}/ca.crt", context=server.tls).read())
            pairing_code = await asyncio.to_thread(new_code, Devices(server.data), "approve")
            async with connected(server.url, tls=server.tls) as phone:
                paired = await phone.ask("pair", {"code": pairing_code})
            async with connected(server.url, tls=server.tls) as phone:
                await phone.ask("auth", {"token": paired["data"]["token"]})
            # An agent in a terminal reports its start, asks for approval, and gets the decision.
            agent = {"session_id": str(uuid.uuid4()), "cwd": str(folder), "prompt_id": "p"}
            async with Line.open() as line:
                line.send(type="hook", pid=os.getpid(), payload=agent | {"hook_event_name": "SessionStart"})
                line.end()
                assert await line.receive() is None
            async with Line.open() as line:
                question = {
                    "hook_event_name": "PermissionRequest",
                    "tool_name": "Bash",
                    "tool_input": {"command": "ls"},
                }
                line.send(type="hook", pid=os.getpid(), payload=agent | question)
                asked = await client.receive("permission_request")
                answer = {"approval_id": asked["data"]["approval_id"], "decision": "allow"}
                await client.ask("permission_response", answer, asked["project_id"])
                assert await line.receive() is not None
            async with Line.open() as line:
                line.send(type="hook", pid=os.getpid(), payload=agent | {"hook_event_name": "Stop"})
                line.end()
                assert await line.receive() is None
            # Two editors show the next request. The agent's own editor answers it, and then requests the review.
            async with Line.open() as editor, Line.open() as other, Line.open() as line:
                editor.send(type="bridge", editor="Neovim", folders=[str(folder)], pids=[os.getpid()], reviews=True)
                assert await editor.receive() == {"type": "welcome", "remembers": True}
                other.send(type="bridge", editor="VS Code", folders=[str(folder)], pids=[])
                question = {
                    "hook_event_name": "PermissionRequest",
                    "tool_name": "Edit",
                    "tool_input": {"file_path": poem, "old_string": "one", "new_string": "ONE"},
                }
                line.send(type="hook", pid=os.getpid(), payload=agent | {"prompt_id": "p2"} | question)
                shown = {"agent": "Claude Code", "session": "s", "path": poem, "old_text": "one\n", "new_text": "ONE\n"}
                editor.send(type="proposed", id="1", pid=os.getpid(), **shown)
                await client.receive("permission_request")
                assert (await other.receive() or {})["type"] == "offer"
                editor.send(type="decided", id="1", text="ONE\n")
                while (await editor.receive() or {})["type"] != "ruling":
                    pass
                editor.send(type="review_get", id="2", directory=str(folder))
                while (await editor.receive() or {})["type"] != "review":
                    pass
            # A device that is confined to one project.
            confined = await asyncio.to_thread(new_code, Devices(server.data), "run", projects=[str(folder)])
            async with connected(server.url, tls=server.tls) as phone:
                await phone.ask("pair", {"code": confined})
                await phone.ask("subscribe", {"topics": ["projects", "approvals", "stats"]})
                assert (await phone.ask("project_join", {"project_id": project}))["type"] == "update"
                await phone.ask("health_check")
                await phone.ask("dir_list", {"path": ""})
                await phone.ask("search", {"query": "hello"})
                await phone.send("execute", {"prompt": "hello", "options": {"add_dirs": [str(folder)]}}, project)
                asked = await phone.receive("permission_request")
                answer = {"approval_id": asked["data"]["approval_id"], "decision": "allow"}
                await phone.ask("permission_response", answer, project)
                await phone.receive("update", "run_finished")
            await client.ask("agent_new_session", project_id=project)
            await client.ask("project_delete", {"project_id": project})
        # Before the first client and after the last one, nobody waits for the server.
        found = set(findings(report)[started:])
        code, errors = await server.end()
    assert code == 0, errors
    assert "was never awaited" not in errors
    assert not beyond(found, SERVER_MAY), "\n".join(sorted(beyond(found, SERVER_MAY)))
    assert [module for module in SERVER_MAY if beyond(found, {module: ""}) == found] == [], (
        "these exceptions are no longer needed"
    )
