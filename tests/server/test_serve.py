"""``drawbridge serve`` reports its address, refuses unsafe settings, stops cleanly, and leaves nothing that prevents
its next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import pty
import re
import signal
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from drawbridge.server.app import stats
from drawbridge.server.auth.access import of_this_machine
from drawbridge.server.auth.audit import FILE as AUDIT
from drawbridge.server.auth.tls import own_certificate
from drawbridge.server.protocol.messages import MESSAGE_BYTES
from tests.server.processes import COMMAND, Server, refused, serving, start
from tests.server.wire_client import connected
from tests.waiting import PATIENCE, until


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A directory for a project. Its parent is a root."""
    directory = tmp_path / "roots" / "code"
    directory.mkdir(parents=True)
    return directory


# ready


async def test_the_server_answers_at_the_address_that_it_reports(data: Path) -> None:
    async with serving(data) as server:
        assert set(server.ready) == {"event", "url", "token_file", "fingerprint", "pid", "metrics"}
        assert server.ready["event"] == "ready"
        assert re.fullmatch(r"wss://127\.0\.0\.1:\d+/ws", server.url)
        assert Path(server.ready["token_file"]) == data / "token"
        assert server.ready["pid"] == server.process.pid
        first, end, _ = (data / "tls" / "cert.pem").read_text().partition("-----END CERTIFICATE-----")
        der = ssl.PEM_cert_to_DER_cert(first + end)
        assert server.ready["fingerprint"].replace(":", "").lower() == hashlib.sha256(der).hexdigest()
        async with server.client() as client:
            hello = (await client.ask("hello", {"client": "test"}))["data"]
            assert hello["agents"] == ["claude", "gemini", "codex", "demo"]


async def test_the_startup_screen_is_short_and_contains_no_secrets(data: Path, code: Path) -> None:
    with tempfile.TemporaryFile() as errors:
        process = await start(errors, "--port", "0", "--data-dir", data, "--allow", code.parent)
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            shown = (await process.stdout.readuntil(b"Ctrl-C stops")).decode()
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            await process.communicate()
    for expected in (
        "is ready",
        "wss://127.0.0.1:",
        str(data / "token"),
        "SHA-256",
        str(code.parent),
        "demo",
        "pair --scope admin` connects your browser",
    ):
        assert expected in shown
    assert "#sign-in" not in shown, "the link is only for a person at a terminal"
    assert (data / "token").read_text().strip() not in shown
    assert max(map(len, shown.splitlines())) <= 100 + len(str(data))


async def on_a_terminal(data: Path, *arguments: str | Path, until: bytes = b"Ctrl-C stops") -> str:
    """Starts the server in a terminal, and stops it once the terminal shows ``until``. Returns what the terminal shows,
    without colors."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen, tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            *map(str, ("--port", "0", "--data-dir", data, *arguments)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=theirs,
            stderr=errors,
        )
        os.close(theirs)

        def read() -> str:
            found = b""
            while until not in found:
                found += screen.read(65_536)
            return re.sub(r"\x1b\[[0-9;]*m", "", found.decode())

        async with asyncio.timeout(PATIENCE):
            shown = await asyncio.to_thread(read)
            process.send_signal(signal.SIGINT)
            await process.wait()
    return shown


async def test_a_terminal_gets_a_link_that_signs_a_browser_in(data: Path) -> None:
    shown = await on_a_terminal(data)
    assert re.search(r"sign in +https://127\.0\.0\.1:\d+/#sign-in=[A-Z2-9]{8}\r?\n", shown)
    assert "Next: open the link" in shown
    entries = [json.loads(line) for line in (data / AUDIT).read_text().splitlines()]
    made = [(one["event"], one["scope"]) for one in entries]
    assert made == [("pairing_code_made", "admin")]


@pytest.mark.parametrize("more", [("--public-host", "vm.example"), ("--no-tls", "--insecure-no-auth")])
async def test_no_link_is_printed_where_it_is_unsafe_or_not_needed(data: Path, more: tuple[str]) -> None:
    assert "#sign-in" not in await on_a_terminal(data, *more)


async def test_a_program_that_reads_json_gets_no_link(data: Path) -> None:
    """No code is created for a link either, not even if the output is a terminal."""
    assert "sign-in" not in await on_a_terminal(data, "--json", until=b"fingerprint")
    assert not (data / AUDIT).exists() or "pairing_code_made" not in (data / AUDIT).read_text()


def addresses_of_this_machine() -> list[str]:
    """The addresses at which other machines can reach this one. Skips the test if there are none."""
    found = [str(one) for one in of_this_machine() if one.version == 4 and not (one.is_loopback or one.is_link_local)]
    if not found:
        pytest.skip("this machine has only a loopback address")
    return found


async def test_no_link_is_printed_at_an_address_of_the_network(data: Path) -> None:
    """The link is for a browser on this machine, which could not reach the server at 127.0.0.1."""
    assert "#sign-in" not in await on_a_terminal(data, "--host", addresses_of_this_machine()[0])


async def test_the_address_for_a_phone_is_shown(data: Path) -> None:
    """The address is shown if the server can be reached from other machines."""
    addresses = addresses_of_this_machine()
    shown = await on_a_terminal(data, "--host", "0.0.0.0")
    for address in ("127.0.0.1", *addresses):
        assert re.search(rf"https://{re.escape(address)}:\d+/", shown), shown


async def test_the_default_limits_of_a_message_apply(data: Path) -> None:
    """``drawbridge serve`` accepts only text messages, of up to 1 MB."""
    async with serving(data, "--no-tls") as server:
        headers = {"Authorization": f"Bearer {server.token}"}
        wrong: list[tuple[str | bytes, int]] = [("x" * (MESSAGE_BYTES + 1), 1009), (b"{}", 1003)]
        for message, code in wrong:
            async with connect(server.url, proxy=None, additional_headers=headers) as client:
                await client.send(message)
                with pytest.raises(ConnectionClosed):
                    await client.recv()
                assert client.close_code == code
        async with connect(server.url, proxy=None, additional_headers=headers) as client:
            await client.send("x" * MESSAGE_BYTES)
            assert "JSON_PARSING" in str(await client.recv())


@pytest.mark.thorough
async def test_token_and_certificate_stay_the_same_after_a_restart(data: Path) -> None:
    async with serving(data) as server:
        before = server.token, server.ready["fingerprint"]
    async with serving(data) as server:
        assert (server.token, server.ready["fingerprint"]) == before


async def test_only_the_owner_can_access_the_data_directory(data: Path, code: Path) -> None:
    async with serving(data, "--allow", code.parent) as server, server.client() as client:
        project = (await client.ask("project_create", {"path": str(code), "agent": "demo"}))["project_id"]
        await client.ask("project_join", project_id=project)
        await client.ask("execute", {"prompt": "/quick"}, project)
        await client.receive("update", "run_finished")
        open_to_others = [path for path in data.rglob("*") if path.lstat().st_mode & 0o077 and not path.is_symlink()]
        assert open_to_others == []
        assert data.stat().st_mode & 0o777 == 0o700
        await client.ask("project_delete", project_id=project)


async def test_by_default_projects_in_the_home_directory_are_allowed(home: Path) -> None:
    """Projects in the home directory's hidden directories are refused. The data is in the platform's data directory."""
    (home / "code").mkdir()
    (home / ".config" / "x").mkdir(parents=True)
    place = home / ".local" / "share" / "drawbridge"
    with tempfile.TemporaryFile() as errors:
        process = await start(errors, "--json", "--port", "0")
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            ready = json.loads(await process.stdout.readline())
        assert ready["token_file"] == str(place / "token")
        tls = ssl.create_default_context(cafile=str(place / "tls" / "cert.pem"))
        async with connected(ready["url"], (place / "token").read_text().strip(), tls) as client:
            made = await client.ask("project_create", {"path": str(home / "code"), "agent": "demo"})
            assert made["type"] == "update"
            for path in (home / ".config" / "x", home.parent, Path("/etc")):
                answer = await client.ask("project_create", {"path": str(path), "agent": "demo"})
                assert answer["data"]["code"] == "INVALID_PATH"
        process.terminate()
        async with asyncio.timeout(PATIENCE):
            await process.communicate()


# settings


async def test_a_given_certificate_is_used(data: Path, tmp_path: Path) -> None:
    given = own_certificate(tmp_path / "given", ["localhost", "127.0.0.1"])
    async with serving(data, "--cert", given.certificate, "--key", given.key) as server:
        assert server.ready["fingerprint"] == given.fingerprint
        tls = ssl.create_default_context(cafile=str(given.certificate))
        async with connected(server.url, server.token, tls) as client:
            assert (await client.ask("health_check"))["data"]["status"] == "ok"
        assert not (data / "tls").exists()


async def test_on_loopback_tls_and_token_are_optional(data: Path) -> None:
    async with serving(data, "--no-tls", "--insecure-no-auth") as server:
        assert server.url.startswith("ws://127.0.0.1:")
        assert server.ready["token_file"] is None
        assert server.ready["fingerprint"] is None
        async with server.client() as client:
            assert (await client.ask("health_check"))["data"]["status"] == "ok"


async def test_all_problems_are_reported_together_and_nothing_starts(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[serve]\nlog_level = "loud"\nprot = 5\n')
    code, output = await refused(
        *("--config", config, "--data-dir", data, "--port", "70000", "--host", "0.0.0.0", "--no-tls"),
        *(
            "--insecure-no-auth",
            "--allow",
            tmp_path / "missing",
            "--allow",
            config,
            "--agent-path",
            "claude=/no/claude",
        ),
        *("--agent-path", "hal=/bin/sh", "--public-host", "not a name", "--cert", config, "--log-file", "/nowhere/x"),
        DRAWBRIDGE_SERVE_MAX_RUNS="many",
    )
    assert code == 2
    assert output.count("\n") == 1
    assert output.startswith("drawbridge serve: ")
    assert not re.search(r"\[[A-Z_]+\]$", output.rstrip()), "a code would have to be looked up"
    for expected in (
        f"{config}: [serve] log_level must be one of",
        f"{config}: [serve] unknown setting prot",
        "--port must be between 0 and 65535",
        "DRAWBRIDGE_SERVE_MAX_RUNS must be a whole number",
        "--no-tls requires a loopback address, not 0.0.0.0",
        "--insecure-no-auth requires a loopback address, not 0.0.0.0",
        f"--allow: {tmp_path / 'missing'} is not a directory",
        f"--allow: {config} is not a directory",
        "--agent-path: /no/claude was not found",
        "--agent-path: the program of hal can't be set",
        "--public-host: not a name is not a valid host name",
        "--cert and --key must be given together",
        "--log-file: /nowhere/x can't be written",
    ):
        assert expected in output, output
    assert not data.exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--host", "no-such-host.invalid"], "--host: no address was found for no-such-host.invalid"),
        (["--host", "203.0.113.1"], "Choose an address of this machine with --host."),
        (["--agent-path", "claude"], "--agent-path must have the form AGENT=PATH"),
        (["--acp-agent", "Goose=goose acp"], "NAME=COMMAND (NAME: a lowercase letter"),
        (["--mode", "bypassPermissions"], "--mode must be one of default, manual, plan, acceptEdits, auto, dontAsk"),
        pytest.param(
            ["--cert", "/nowhere/c.pem", "--key", "/nowhere/k.pem"],
            "can't be used: no such file",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            ["--cert", "c", "--key", "k", "--no-tls"],
            "--cert and --no-tls can't be combined",
            marks=pytest.mark.thorough,
        ),
        pytest.param(["--max-queue", "0"], "--max-queue must be between", marks=pytest.mark.thorough),
        pytest.param(["--hours", "9-9"], "--hours: 9-9 does not include any hours", marks=pytest.mark.thorough),
    ],
)
async def test_a_setting_that_cannot_be_used_is_reported(data: Path, arguments: list[str], expected: str) -> None:
    code, output = await refused("--data-dir", data, "--port", "0", *arguments)
    assert code in (2, 3)
    assert expected.lower() in output.lower()
    assert "Traceback" not in output


async def test_the_specs_variables_are_used_only_with_spec_env(data: Path, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    given = own_certificate(tmp_path / "given", ["127.0.0.1"])
    bare = {"PORT": str(port), "DATA_DIR": str(data), "CERT_FILE": str(given.certificate), "KEY_FILE": str(given.key)}
    with tempfile.TemporaryFile() as errors:
        process = await start(errors, "--json", "--spec-env", **bare)
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            ready = json.loads(await process.stdout.readline())
        process.terminate()
        await process.communicate()
    assert ready["url"] == f"wss://127.0.0.1:{port}/ws"
    assert ready["token_file"] == str(data / "token")
    assert ready["fingerprint"] == given.fingerprint
    other = tmp_path / "other"
    async with serving(other, **bare) as server:
        assert str(port) not in server.url
        assert server.ready["token_file"] == str(other / "token")


async def test_a_port_in_use_is_reported(data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, output = await refused("--data-dir", data, "--port", str(taken.getsockname()[1]))
    assert code == 3
    assert "is not available: address already in use. Stop the program" in output


async def test_a_data_directory_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, output = await refused("--data-dir", tmp_path / "file" / "data", "--port", "0")
    assert code == 3
    assert "can't be made a private directory" in output


async def test_a_server_on_all_addresses_accepts_its_public_host(data: Path) -> None:
    async with serving(data, "--host", "0.0.0.0", "--public-host", "my.example") as server:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        assert server.url == f"wss://my.example:{port}/ws"
        url = f"wss://127.0.0.1:{port}/ws"
        async with connected(url, server.token, server.tls, server_hostname="my.example") as client:
            assert (await client.ask("health_check"))["data"]["status"] == "ok"


# one server at a time


async def test_a_second_server_on_the_same_data_is_refused(data: Path) -> None:
    async with serving(data) as server:
        code, output = await refused("--data-dir", data, "--port", "0")
        assert code == 3
        assert f"(process {server.process.pid})" in output
        assert "Stop that one" in output
        assert "[SERVER_RUNNING]" in output
        async with server.client() as client:
            assert (await client.ask("health_check"))["data"]["status"] == "ok"


@pytest.mark.thorough
async def test_the_server_can_start_again_after_kill_9(data: Path, code: Path) -> None:
    async with serving(data, "--allow", code.parent) as server:
        async with server.client() as client:
            project = (await client.ask("project_create", {"path": str(code), "agent": "demo"}))["project_id"]
            await client.ask("execute", {"prompt": "/slow 60"}, project)
            await client.ask("project_join", project_id=project)
        await server.end(signal.SIGKILL)
    async with serving(data, "--allow", code.parent) as server, server.client() as client:
        [listed] = (await client.ask("project_list"))["data"]["projects"]
        assert (listed["id"], listed["state"]) == (project, "IDLE")
        history = (await client.ask("get_messages", {"limit": 1000}, project))["data"]["messages"]
        assert [record["seq"] for record in history] == list(range(1, len(history) + 1))
        assert history[-1]["message"]["subtype"] == "run_finished"
        assert history[-1]["message"]["message"]["outcome"] == "interrupted"


async def test_a_leftover_lock_file_does_not_prevent_a_start(data: Path) -> None:
    """This is true even if the file contains the id of a running process."""
    data.mkdir(mode=0o700)
    (data / "server.lock").write_text(str(os.getpid()))
    async with serving(data) as server:
        assert (data / "server.lock").read_text() == str(server.process.pid)


async def test_a_lock_file_that_cannot_be_written_is_named(data: Path) -> None:
    (data / "server.lock").mkdir(mode=0o700, parents=True)
    data.chmod(0o700)
    code, output = await refused("--data-dir", data, "--port", "0")
    assert code == 3
    assert f"{data / 'server.lock'} can't be written: is a directory." in output
    assert "[NOT_WRITABLE]" in output


# stopping


@contextlib.asynccontextmanager
async def at_work(data: Path, code: Path, prompt: str = "/slow 60") -> AsyncIterator[tuple[Server, Any, str]]:
    async with serving(data, "--allow", code.parent) as server, server.client() as client:
        project = (await client.ask("project_create", {"path": str(code), "agent": "demo"}))["project_id"]
        await client.ask("project_join", project_id=project)
        await client.ask("execute", {"prompt": prompt}, project)
        await client.receive("agent_message", direction="claude")
        yield server, client, project


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, *(pytest.param(one, marks=pytest.mark.thorough) for one in (signal.SIGINT, signal.SIGHUP))],
)
async def test_a_signal_ends_the_server_cleanly_within_ten_seconds(data: Path, code: Path, number: int) -> None:
    async with at_work(data, code) as (server, client, _):
        began = time.monotonic()
        server.process.send_signal(number)
        await client.receive("update", "run_finished", outcome="interrupted")
        assert await client.close_code() == 1001
        assert "shutting down" in (client.connection.close_reason or "")
        returned, output = await server.ended()
        assert returned == 0, output
        assert time.monotonic() - began < 10
        assert "Traceback" not in output


async def test_a_shutdown_withdraws_an_open_question(data: Path, code: Path) -> None:
    async with at_work(data, code, "change something") as (server, client, _):
        asked = await client.receive("permission_request")
        server.process.terminate()
        await client.receive("update", "permission_withdrawn", approval_id=asked["data"]["approval_id"])
        await client.receive("update", "run_finished", outcome="interrupted")
        assert await client.close_code() == 1001
        assert (await server.ended())[0] == 0


@pytest.mark.thorough
async def test_unresponsive_clients_do_not_delay_the_shutdown(data: Path) -> None:
    async with serving(data, "--no-tls") as server:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
        headers = {"Authorization": f"Bearer {server.token}"}
        connection = await connect(server.url, additional_headers=headers, proxy=None)
        connection.transport.pause_reading()
        returned, _ = await server.end()
        assert returned == 0
        connection.transport.abort()
        for one in silent:
            one.close()


NEVER_CLOSED = """
import asyncio
from drawbridge.cli import main
from drawbridge.server.app.core import Core

async def close(core, reason):
    await asyncio.Event().wait()

Core.close = close
main()
"""


@pytest.mark.parametrize("again", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_the_server_immediately(data: Path, again: int) -> None:
    """The first signal has begun a shutdown that never ends."""
    async with serving(data, command=(sys.executable, "-c", NEVER_CLOSED, "serve")) as server:
        server.process.terminate()
        await until(lambda: "received SIGTERM: shutting down" in server.errors)
        returned, output = await server.end(again)
        assert returned == 128 + again
        assert "Traceback" not in output


# the log


async def test_the_json_log_has_correlation_ids_and_no_secrets(data: Path, code: Path) -> None:
    arguments = ("--allow", code.parent, "--log-format", "json", "--log-level", "debug")
    async with serving(data, *arguments) as server:
        async with server.client() as client:
            answer = await client.ask("project_create", {"path": "/etc"})
            project = (await client.ask("project_create", {"path": str(code), "agent": "demo"}))["project_id"]
            await client.ask("project_join", project_id=project)
            await client.ask("execute", {"prompt": "/quick my secret prompt"}, project)
            await client.receive("update", "run_finished")
        await server.end()
        lines = [json.loads(line) for line in server.errors.splitlines()]
        assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)
        correlation_id = answer["data"]["correlation_id"]
        assert any(line.get("correlation_id") == correlation_id for line in lines)
        assert server.token not in server.errors
        assert "my secret prompt" not in server.errors


async def test_a_clients_name_cannot_forge_a_line_of_the_log(data: Path) -> None:
    async with serving(data) as server:
        async with server.client() as client:
            await client.ask("hello", {"client": "x\n12:00:00 info    server: all is well\x1b[2J"})
        await server.end()
        assert "\x1b" not in server.errors
        assert not any(line.startswith("12:00:00 info    server: all is well") for line in server.errors.splitlines())


async def test_log_settings_are_read_from_file_environment_and_flags(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[serve]\nlog_file = "{tmp_path / "server.log"}"\nlog_level = "error"\nmax_projects = 7\n')
    given = {"DRAWBRIDGE_SERVE_LOG_LEVEL": "info", "DRAWBRIDGE_SERVE_LOG_FORMAT": "console"}
    async with serving(data, "--config", config, "--log-format", "json", **given) as server:
        async with server.client() as client:
            await client.ask("hello")
        await server.end()
        assert server.errors == ""
    lines = [json.loads(line) for line in (tmp_path / "server.log").read_text().splitlines()]
    assert any(" connected from " in line["message"] for line in lines)


# stats


OFTEN = """
from drawbridge.cli import main
from drawbridge.server.app import stats
from drawbridge.server.protocol.messages import MESSAGE_BYTES
stats.EVERY_SECONDS = 0.05
main()
"""
QUICK = (sys.executable, "-c", OFTEN, "serve")


async def test_statistics_are_sent_until_a_client_declines_them(data: Path, code: Path) -> None:
    async with serving(data, "--allow", code.parent, command=QUICK) as server, server.client() as client:
        assert stats.EVERY_SECONDS == 10
        project = (await client.ask("project_create", {"path": str(code), "agent": "demo"}))["project_id"]
        update = (await client.receive("update", "stats", projects=1))["data"]["data"]
        assert update["active_sessions"] == 1
        assert update["project_states"] == {project: "IDLE"}
        assert update["memory_mb"] > 10
        assert update["cpu_percent"] >= 0
        await client.ask("unsubscribe", {"topics": ["stats"]})
        client.passed()
        await client.ask("health_check")
        await asyncio.sleep(0.2)  # four times the interval of statistics
        assert [message["type"] for message in client.passed()] == ["health"]


async def test_a_silent_client_gets_no_statistics(data: Path) -> None:
    async with serving(data, command=QUICK) as server, server.client() as silent, server.client() as other:
        await other.send("hello")
        for _ in range(3):
            await other.receive("update", "stats")
        assert silent.received == []
        await silent.send("hello")
        await silent.receive("update", "stats")


async def test_an_unknown_flag_is_reported_with_the_usage() -> None:
    code, output = await refused("--unknown")
    assert code == 2
    assert output.startswith("usage: ")


async def test_the_token_file_may_be_replaced_between_starts(data: Path) -> None:
    data.mkdir(mode=0o700)
    (data / "token").write_text("t" * 40)
    async with serving(data) as server, server.client() as client:
        assert server.token == "t" * 40
        assert (await client.ask("health_check"))["data"]["status"] == "ok"
    (data / "token").write_text("short")
    code, output = await refused("--data-dir", data, "--port", "0")
    assert (code, "does not contain a valid token" in output) == (2, True)
