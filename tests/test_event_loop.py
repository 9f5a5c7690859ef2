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
from tests.ide.gemini.rig import Cli
from tests.server.auth import test_ssh_keys as ssh_keys
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
    "appends a line to a small file before the answer is sent: what was done is never missing": {
        "open server.auth.audit:AuditLog._append",
        "os.stat server.auth.audit:AuditLog._is_current",
    },
    "a small file: a revoked token is refused at once; the last use of a token, once a minute": {
        "open server.auth.devices:Devices._read",
        "open server.auth.devices:Devices.changed",
        "os.remove server.auth.devices:Devices.changed",
        "os.rename server.auth.devices:Devices.changed",
        "os.stat server.auth.devices:Devices.changed",
        "os.stat server.auth.devices:Devices.reload",
    },
    "notes a process before it runs, so that no crash leaves one behind": {
        "open server.sessions.processes.processes:RunningProcesses._save",
        "open server.sessions.processes.processes:RunningProcesses.start",
        "os.remove server.sessions.processes.processes:RunningProcesses._save",
        "os.rename server.sessions.processes.processes:RunningProcesses._save",
    },
    "a small file, before clients see the state: a crash does not restore a cancelled plan": {
        "open server.sessions.metadata:save",
        "os.link server.sessions.metadata:save",
        "os.remove server.sessions.metadata:save",
        "os.rename server.sessions.metadata:save",
        "os.stat server.sessions.metadata:save",
    },
    "whether the compiled form of the supervisor still exists, beside the server's own modules": {
        "os.stat agents.supervisor_pipe:SupervisorPipe.command",
    },
    "appends to the log, and makes a new file and its link: clients see only what is in the log": {
        "open server.store.index:open_to_read",
        "open server.store.log:History._sync_directory",
        "open server.store.log:Tail.__init__",
        "os.remove server.store.log:History._point_to_latest",
        "os.rename server.store.log:History._point_to_latest",
        "os.symlink server.store.log:History._point_to_latest",
    },
    "the free space on the server's own disk, for which the kernel does not wait": {
        "os.statvfs server.app.stats:ServerMonitor.health",
        "os.statvfs server.sessions.disk:Disk._free",
    },
    "when a process began, whether it is alive, and the free memory, for which the kernel does not wait": {
        "open core.process_start:_boot",
        "open core.process_start:_ticks",
        "open server.sessions.processes.processes:available",
        "open server.terminal_sessions.approval_requests:ApprovalRequests.disconnect",
        "open server.terminal_sessions.processes:Processes.is_alive",
        "open server.terminal_sessions.processes:Processes.reported",
        "open server.terminal_sessions.processes:_process",
    },
    "a small file, at the end of a turn and around a prompt: a prompt is typed once": {
        "open server.terminal_sessions.session:TerminalSession.save",
        "os.remove server.terminal_sessions.session:TerminalSession.save",
        "os.rename server.terminal_sessions.session:TerminalSession.save",
    },
    "makes the empty history of a new session before its next hook is read": {
        "os.lstat server.store.log:History.open",
        "os.mkdir server.store.log:History.open",
        "os.mkdir server.terminal_sessions.sessions:TerminalSessions.begin",
        "os.scandir server.store.index:Catalogue._files",
        "os.stat server.store.log:History.open",
        "os.stat server.terminal_sessions.sessions:TerminalSessions.begin",
    },
}
"""The files that the server may use on the loop's thread while clients are connected: for each reason, the findings of
``watched_program``. All of them are on the server's own disk, in /proc or in /dev."""

SERVER_FINDINGS = {finding for findings in SERVER_MAY.values() for finding in findings}


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


@pytest.mark.parametrize("module", sorted(BRIDGE_MAY))
def test_an_allowed_module_exists(module: str) -> None:
    assert (SOURCES / f"{module.replace('.', '/')}.py").is_file()


@pytest.mark.parametrize("finding", sorted(SERVER_FINDINGS))
def test_an_allowed_function_exists(finding: str) -> None:
    module, _, function = finding.split()[1].partition(":")
    text = (SOURCES / f"{module.replace('.', '/')}.py").read_text()
    assert f"def {function.rpartition('.')[2]}(" in text


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


def test_calls_that_only_look_at_a_file_are_found(tmp_path: Path) -> None:
    """Python raises no audit event for them."""
    report = tmp_path / "report"
    (tmp_path / "link").symlink_to("target")
    code = f"""
import asyncio, os, sys
sys.path.insert(0, {str(ROOT)!r})
from drawbridge.core import plugin
from drawbridge.server.approvals import paths
from tests import watched_program

watched_program.install(os.open({str(report)!r}, os.O_WRONLY | os.O_CREAT))

async def main():
    plugin.directory()
    paths.real({str(tmp_path / "link")!r})

asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    real = "server.approvals.paths:real"
    assert set(findings(report)) == {"os.stat core.plugin:directory", f"os.lstat {real}", f"os.readlink {real}"}


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
    (tmp_path / "authorized_keys").write_text(ssh_keys.line(ssh_keys.ADA))
    (tmp_path / "authorized_keys").chmod(0o600)
    flags = ("--allow", tmp_path / "work", "--authorized-keys", tmp_path / "authorized_keys")
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
            async with connected(server.url, tls=server.tls) as laptop:
                assert await ssh_keys.log_in(laptop, ssh_keys.ADA) == "auth"
            # An agent in a terminal reports its start, asks for approval, and gets the decision.
            agent = {"session_id": str(uuid.uuid4()), "cwd": str(folder), "prompt_id": "p"}
            transcript = Path(os.environ["CLAUDE_CONFIG_DIR"]) / "projects" / "-ws" / f"{agent['session_id']}.jsonl"
            transcript.parent.mkdir(parents=True)
            said = {"content": [{"type": "text", "text": "hello"}]}
            transcript.write_text(json.dumps({"uuid": "u", "type": "assistant", "message": said}) + "\n")
            agent["transcript_path"] = str(transcript)
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
                assert await editor.receive() == {"type": "welcome", "remembers": True, "suggests": True}
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
            # The proposal of an agent without hooks begins a session.
            async with Line.open() as editor:
                editor.send(type="bridge", editor="Neovim", folders=[], pids=[])
                shown = {"agent": "Gemini CLI", "session": "s", "old_text": "", "new_text": "one\n"}
                editor.send(type="proposed", id="1", path=str(folder / "new" / "poem.txt"), **shown)
                asked = await client.receive("permission_request")
                answer = {"approval_id": asked["data"]["approval_id"], "decision": "allow"}
                await client.ask("permission_response", answer, asked["project_id"])
                assert (await editor.receive() or {})["type"] == "answer"
            await client.ask("project_delete", {"project_id": asked["project_id"]})
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
    assert not found - SERVER_FINDINGS, "\n".join(sorted(found - SERVER_FINDINGS))
    unneeded = [reason for reason, findings in SERVER_MAY.items() if not found & findings]
    assert not unneeded, "these exceptions are no longer needed"
