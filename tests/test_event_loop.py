"""Bridge and server, as whole programs in asyncio's debug mode: their event loop never waits for a file or a process.

No time is measured. Whatever the thread of the loop opens, renames, removes or starts is reported by
``watched_program``; what may stay there is listed below, with its reason.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.ide import processes
from tests.ide.gemini_rig import Cli
from tests.server.processes import serving
from tests.waiting import until

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "drawbridge"

WATCHED = [sys.executable, str(ROOT / "tests" / "watched_program.py")]

DEBUG_MODE = {"PYTHONASYNCIODEBUG": "1"}

BRIDGE_MAY = {
    "core.subprocesses": "asyncio starts a process on its own thread; only executeCode does, after a person has agreed",
    "ide.bridge": "reads the version of the package once, before the editor is connected",
    "ide.discovery": "two small files, when folders change: a write in a thread could come after their removal",
}
"""The modules whose functions may use files on the thread of the loop, and why."""

SERVER_MAY = {
    "server.auth.audit": "appends a line to a small file before the answer is sent: what was done is never missing",
    "server.sessions.processes": "notes a process before it runs, so that no crash leaves one behind",
    "server.sessions.metadata": "a small file, before clients see the state: a crash does not restore a cancelled plan",
    "server.sessions.git": "asyncio opens /dev/null on its own thread when it starts a process",
    "server.store.index": "locks a new file of the log, which the next record is written into",
    "server.store.log": "appends to the log, and makes a new file and its link: clients see only what is in the log",
    "editors.files": "at most 2 MB of a file that an agent asks to change: the approval comes before the agent's next lines",
}
"""The same for the server, between its first client and its last."""


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
    """The findings in other modules than those that are allowed. A finding is "EVENT MODULE:FUNCTION"."""
    return {finding for finding in found if finding.split()[1].partition(":")[0] not in allowed}


@pytest.mark.parametrize("module", sorted({*BRIDGE_MAY, *SERVER_MAY}))
def test_an_allowed_module_exists(module: str) -> None:
    assert (SOURCES / f"{module.replace('.', '/')}.py").is_file()


def test_a_wait_of_the_loop_is_found_and_one_of_a_thread_is_not(tmp_path: Path) -> None:
    """Both go through the same helper, so only the thread makes the difference."""
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


async def test_the_bridges_loop_waits_for_no_file(
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
            await until(lambda: "is written" in bridge.errors)
            await call("openFile", filePath=poem)
            await call("executeCode", code="print('hello')")
            await call("getDiagnostics", uri=f"file://{poem}")
            Path(poem).write_text("TWO\n")
        cli = await Cli(bridge.port, bridge.token).greet()
        async with await cli.listen() as stream:
            await cli.open_diff(poem, "THREE\n")
            await stream.hear("ide/diffAccepted")
        found = set(findings(report))
        code, errors = await bridge.end()
    assert code == 0, errors
    assert "was never awaited" not in errors
    assert beyond(found, BRIDGE_MAY) == set()


async def test_the_servers_loop_waits_for_no_file(folder: Path, report: Path, tmp_path: Path) -> None:
    variables = {**DEBUG_MODE, "DRAWBRIDGE_TEST_BLOCKING": str(report)}
    flags = ("--allow", tmp_path / "work")
    async with serving(tmp_path / "data", *flags, command=[*WATCHED, "serve"], **variables) as server:
        started = len(findings(report))
        async with server.client() as client:
            made = await client.ask("project_create", {"path": str(folder), "agent": "demo"})
            project = made["project_id"]
            await client.ask("project_join", {"project_id": project})
            await client.ask("subscribe", {"topics": ["projects", "approvals", "stats"]})
            await client.tell("execute", {"prompt": "hello"}, project)
            asked = await client.hear("permission_request")
            answer = {"approval_id": asked["data"]["approval_id"], "decision": "allow"}
            await client.ask("permission_response", answer, project)
            finished = await client.hear("update", "run_finished")
            await client.ask("run_changes", {"run_id": finished["data"]["data"]["run_id"]}, project)
            await client.ask("get_messages", {}, project)
            await client.ask("session_list", {}, project)
            await client.ask("dir_list", {"path": str(tmp_path / "work")})
            await client.ask("push_key")
            await client.ask("agent_new_session", project_id=project)
            await client.ask("project_delete", {"project_id": project})
        # Before its first client and after its last nobody waits for the server.
        found = set(findings(report)[started:])
        code, errors = await server.end()
    assert code == 0, errors
    assert "was never awaited" not in errors
    assert beyond(found, SERVER_MAY) == set()
    assert [module for module in SERVER_MAY if beyond(found, {module: ""}) == found] == [], "no longer needed"
