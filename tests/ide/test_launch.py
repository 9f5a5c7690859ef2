"""The bridge as a process is ready immediately, is found by its lock file, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from drawbridge.core.errors import BadSetting, NoPort
from drawbridge.ide import launched
from drawbridge.ide.launched import _token, listen
from tests.ide.processes import bridge, run
from tests.waiting import PATIENCE, until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "a project"
    folder.mkdir()
    (folder / "poem.txt").write_text("one\ntwo\n")
    return folder


@pytest.fixture
def locks() -> Path:
    return Path(os.environ["CLAUDE_CONFIG_DIR"]) / "ide"


async def call(client: Any, tool: str, **arguments: Any) -> list[str]:
    request = {"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    await client.send(json.dumps(request))
    async with asyncio.timeout(PATIENCE):
        while "result" not in (answer := json.loads(await client.recv())):
            pass
    return [item["text"] for item in answer["result"]["content"]]


async def introduce(client: Any) -> None:
    """Sends the handshake, after which the bridge lists the client as an agent."""
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    for message in (hello, {"jsonrpc": "2.0", "method": "notifications/initialized"}):
        await client.send(json.dumps(message))


# ready


async def test_the_ready_line_contains_port_pid_and_files(folder: Path, locks: Path) -> None:
    async with bridge("--folder", folder) as running:
        assert list(running.ready) == ["event", "port", "pid", "lock_file", "discovery_file"]
        assert running.ready["event"] == "ready"
        assert running.ready["pid"] == running.process.pid
        assert running.lock == locks / f"{running.port}.lock"
        assert running.port in launched.PORTS


async def test_the_lock_file_exists_once_the_ready_line_is_printed(folder: Path, locks: Path) -> None:
    async with bridge("--folder", folder) as running:
        assert running.content == {
            "pid": running.process.pid,
            "workspaceFolders": [str(folder)],
            "ideName": "Terminal",
            "transport": "ws",
            "runningInWindows": False,
            "authToken": running.token,
            "drawbridgePid": running.process.pid,
        }
        assert uuid.UUID(running.token).version == 4
        assert stat.S_IMODE(running.lock.stat().st_mode) == 0o600
        assert stat.S_IMODE(locks.stat().st_mode) == 0o700
        assert os.listdir(locks) == [running.lock.name]


async def test_a_client_can_connect_once_the_ready_line_is_printed(folder: Path) -> None:
    """The socket already listens. The client's messages wait until the bridge has loaded the rest."""
    async with bridge("--folder", folder) as running, running.dial() as client:
        assert client.subprotocol == "mcp"
        [text] = await call(client, "getWorkspaceFolders")
        assert json.loads(text)["rootPath"] == str(folder)


async def test_only_this_machine_can_reach_it(folder: Path) -> None:
    async with bridge("--folder", folder) as running:
        wanted = f"{running.port:04X}"
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            rows = [row.split() for row in Path(table).read_text().splitlines()[1:]]
            listening = [row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{wanted}")]
            assert listening == ([f"0100007F:{wanted}"] if table == "/proc/net/tcp" else [])


async def test_a_directory_readable_by_others_is_made_private(folder: Path, locks: Path) -> None:
    locks.mkdir(parents=True)
    locks.chmod(0o755)
    async with bridge("--folder", folder):
        assert stat.S_IMODE(locks.stat().st_mode) == 0o700


async def test_claudes_own_directory_may_be_elsewhere(folder: Path, tmp_path: Path, home: Path) -> None:
    async with bridge("--folder", folder, CLAUDE_CONFIG_DIR=str(tmp_path / "else where")) as running:
        assert running.lock.parent == tmp_path / "else where" / "ide"
    async with bridge("--folder", folder, CLAUDE_CONFIG_DIR="") as running:
        assert running.lock.parent == home / ".claude" / "ide"


async def test_folders_are_reported_with_links_resolved(folder: Path, tmp_path: Path) -> None:
    """The real CLI compares the folders with its own directory, in which every link is resolved."""
    (tmp_path / "link").symlink_to(folder)
    async with bridge("--folder", tmp_path / "link") as running:
        assert running.content["workspaceFolders"] == [str(folder)]
    async with bridge("--folder", folder, "--workspace", tmp_path, "--workspace", tmp_path / "link") as running:
        assert running.content["workspaceFolders"] == [str(tmp_path), str(folder)]


async def test_every_session_has_its_own_token_and_port(folder: Path) -> None:
    async with bridge("--folder", folder) as one, bridge("--folder", folder) as two:
        assert one.token != two.token
        assert one.port != two.port


async def test_a_restarted_bridge_can_keep_port_and_token(folder: Path) -> None:
    token = "0123456789abcdef0123456789abcdef"
    async with bridge("--folder", folder) as running:
        port = running.port
        client = await running.dial()
    async with bridge("--folder", folder, "--port", str(port), DRAWBRIDGE_TOKEN=token) as running:
        assert (running.port, running.token) == (port, token)
        async with running.dial():
            pass
    await client.close()


async def test_the_next_port_is_used_if_one_is_in_use(folder: Path) -> None:
    async with bridge("--folder", folder) as one:
        async with bridge("--folder", folder, "--port", str(one.port)) as two:
            assert two.port > one.port or one.port == launched.PORTS[-1]
        assert one.lock.exists()


# the bridge can't start


async def test_an_unusable_lock_directory_is_reported_on_one_line(folder: Path, tmp_path: Path) -> None:
    """The line contains the reason, and the exit code is 3."""
    (tmp_path / "file").write_text("x")
    code, output, errors = await run("ide", "--folder", folder, CLAUDE_CONFIG_DIR=str(tmp_path / "file"))
    assert code == 3
    assert output == ""
    assert errors.startswith(f"drawbridge ide: {tmp_path}/file/ide can't be made a private directory: not a directory")
    assert errors.count("\n") == 1


async def test_without_geminis_directory_claude_is_still_served(folder: Path, tmp_path: Path) -> None:
    """The directory is in a temporary directory, by default /tmp, where any user can create it first."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "gemini").write_text("mine")
    variables = {"TMPDIR": str(tmp_path / "tmp")}
    async with bridge("--folder", folder, **variables) as running, running.dial() as client:
        assert "discovery_file" not in running.ready
        await call(client, "getWorkspaceFolders")
        code, errors = await running.end()
        assert code == 0
        assert "gemini/ide can't be made a private directory" in errors
    code, output, errors = await run("ide", "--folder", folder, "--agent", "gemini", **variables)
    assert (code, output) == (3, "")
    assert "gemini/ide can't be made a private directory" in errors


# the bridge ends


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
async def test_a_signal_ends_the_bridge_and_its_connections_with_1001(folder: Path, locks: Path, number: int) -> None:
    async with bridge("--folder", folder, "--log-level", "info") as running, running.dial() as client:
        await call(client, "getWorkspaceFolders")
        code, errors = await running.end(number)
        assert code == 0
        assert "Traceback" not in errors
        with pytest.raises(ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001
        assert os.listdir(locks) == []


async def test_the_bridges_end_is_not_reported_as_a_disconnect(folder: Path) -> None:
    async with bridge("--folder", folder) as running:
        async with running.dial() as leaving:
            await introduce(leaving)
            await until(lambda: running.errors.count("Claude Code is connected.") == 1)
        await until(lambda: "Claude Code disconnected." in running.errors)
        async with running.dial() as staying:
            await introduce(staying)
            await until(lambda: running.errors.count("Claude Code is connected.") == 2)
            code, errors = await running.end(signal.SIGINT)
        assert code == 0
        assert errors.count("Claude Code disconnected.") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
async def test_a_signal_right_after_the_ready_line_leaves_no_lock_file(folder: Path, locks: Path, number: int) -> None:
    async with bridge("--folder", folder) as running:
        code, errors = await running.end(number)
        assert code == 0
        assert "Traceback" not in errors
        assert os.listdir(locks) == []


SIGNAL_WHILE_IMPORTING = """
import os, signal, sys, weakref

class Callback:
    pass

class Importing:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["SIGNAL_WHILE_IMPORTING"]:
            thing = Callback()
            reference = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGTERM))
            del thing

sys.meta_path.insert(0, Importing())
"""


@pytest.mark.parametrize("module", ["drawbridge.ide.bridge", "drawbridge.editors.folder.folder"])
async def test_a_signal_in_a_callback_of_an_import_ends_the_bridge(
    module: str, folder: Path, locks: Path, tmp_path: Path
) -> None:
    """Python ignores exceptions that are raised in such a callback."""
    (tmp_path / "sitecustomize.py").write_text(SIGNAL_WHILE_IMPORTING)
    variables = {"PYTHONPATH": str(tmp_path), "SIGNAL_WHILE_IMPORTING": module}
    code, _, errors = await run("ide", "--folder", folder, **variables)
    assert code == 0
    for word in ("Traceback", "never awaited", "destroyed"):
        assert word not in errors
    assert os.listdir(locks) == []


async def test_a_signal_during_an_open_proposal_ends_the_bridge(folder: Path, locks: Path) -> None:
    async with bridge("--folder", folder) as running, running.dial() as client:
        path = str(folder / "poem.txt")
        arguments = {"old_file_path": path, "new_file_path": path, "new_file_contents": "x\n", "tab_name": "t"}
        params = {"name": "openDiff", "arguments": arguments}
        await client.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
        await call(client, "getWorkspaceFolders")
        code, errors = await running.end()
        assert code == 0
        for word in ("Traceback", "never awaited", "destroyed"):
            assert word not in errors
        assert os.listdir(locks) == []


async def test_a_second_signal_changes_nothing(folder: Path, locks: Path) -> None:
    async with bridge("--folder", folder) as running, running.dial() as client:
        await call(client, "getWorkspaceFolders")
        running.process.terminate()
        code, errors = await running.end(signal.SIGINT)
        assert code == 0
        assert "Traceback" not in errors
        assert os.listdir(locks) == []


async def test_a_new_bridge_sweeps_only_what_a_killed_one_left(folder: Path, locks: Path) -> None:
    async with bridge("--folder", folder) as living:
        async with bridge("--folder", folder) as killed:
            await killed.end(signal.SIGKILL)
            assert killed.lock.exists()
        foreign = locks / "12345.lock"
        foreign.write_text('{"pid": 1, "ideName": "Visual Studio Code"}')
        async with bridge("--folder", folder) as next_one:
            assert sorted(os.listdir(locks)) == sorted([living.lock.name, foreign.name, next_one.lock.name])
        assert living.lock.exists()
        assert foreign.exists()


@pytest.fixture
def hung_editor(tmp_path: Path) -> Iterator[Path]:
    """A socket that accepts connections but never answers."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "hung.sock"))
        listener.listen()
        yield tmp_path / "hung.sock"


@pytest.mark.slow
async def test_the_bridge_gives_up_on_an_editor_that_hangs_at_start(hung_editor: Path, locks: Path) -> None:
    """It exits with code 3, reports the limit of 5 seconds, and leaves no lock file behind."""
    code, output, errors = await run("ide", "--nvim", hung_editor)
    assert code == 3
    assert json.loads(output)["event"] == "ready"
    assert errors.count("\n") == 1
    assert "did not answer within 5 seconds" in errors
    assert os.listdir(locks) == []


async def test_a_signal_ends_the_bridge_while_the_editor_hangs(hung_editor: Path, locks: Path) -> None:
    async with bridge("--nvim", hung_editor) as running:
        assert await running.end() == (0, ""), "it does not wait until it gives up on the editor"
        assert os.listdir(locks) == []


# the bridge works


@pytest.mark.parametrize(
    ("decision", "answer"), [("accept", ["FILE_SAVED", "new\r\n"]), ("reject", ["DIFF_REJECTED", "t"])]
)
async def test_without_an_editor_the_decide_option_decides(folder: Path, decision: str, answer: list[str]) -> None:
    async with bridge("--folder", folder, "--decide", decision) as running, running.dial() as client:
        path = str(folder / "poem.txt")
        arguments = {"old_file_path": path, "new_file_path": path, "new_file_contents": "new\r\n", "tab_name": "t"}
        assert await call(client, "openDiff", **arguments) == answer
        assert (folder / "poem.txt").read_text() == "one\ntwo\n"


async def test_a_bad_token_is_refused_with_1008_if_so_configured(folder: Path) -> None:
    async with bridge("--folder", folder, "--reject", "1008") as running:
        running.token = "wrong"
        async with running.dial() as client:
            with pytest.raises(ConnectionClosed) as closed:
                await client.recv()
            assert closed.value.rcvd is not None
            assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "Unauthorized")


async def test_the_log_contains_the_refusal_but_never_the_token(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "bridge.log"
    async with bridge("--folder", folder, "--log-level", "debug", "--log-file", log) as running:
        async with running.dial() as client:
            await call(client, "getWorkspaceFolders")
        token, running.token = running.token, "wrong-token"
        with pytest.raises(InvalidStatus):
            await running.dial()
        await until(lambda: "the token is missing or wrong" in log.read_text())
        code, errors = await running.end()
        assert code == 0
    for text in (log.read_text(), errors):
        assert token not in text
        assert "wrong-token" not in text


# parts of the bridge


def test_a_port_is_chosen_from_the_range_in_the_specification() -> None:
    with listen(None) as listener:
        host, port = listener.getsockname()
        assert host == "127.0.0.1"
        assert port in launched.PORTS


def test_an_error_is_raised_when_all_ports_are_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    with listen(None) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(launched, "PORTS", range(port, port + 1))
        for wanted in (None, port):
            with pytest.raises(NoPort, match=r"No port on 127\.0\.0\.1"):
                listen(wanted)


def test_after_the_last_port_the_first_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with listen(None) as taken:
        port = taken.getsockname()[1]
        # Other programs may use some of the fifty ports below, but not all of them.
        monkeypatch.setattr(launched, "PORTS", range(port - 50, port + 1))
        with listen(port) as listener:
            assert port - 50 <= listener.getsockname()[1] < port


def test_child_processes_do_not_inherit_the_given_token(monkeypatch: pytest.MonkeyPatch) -> None:
    given = "0123456789abcdef0123456789abcdef"
    monkeypatch.setenv("DRAWBRIDGE_TOKEN", given)
    assert _token() == given
    assert "DRAWBRIDGE_TOKEN" not in os.environ
    assert uuid.UUID(_token()).version == 4


@pytest.mark.parametrize("token", ["", "short", "x" * 31, "y" * 31 + " ", "ü" * 32, "z" * 40 + "\n"])
def test_a_token_that_no_header_could_carry_is_refused(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv("DRAWBRIDGE_TOKEN", token)
    with pytest.raises(BadSetting, match="DRAWBRIDGE_TOKEN"):
        _token()
