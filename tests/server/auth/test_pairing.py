"""A one-time code pairs one device, is valid for ten minutes, and can't be guessed."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import fcntl
import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from drawbridge.core.errors import BadArgument
from drawbridge.server.app.clients import UNFINISHED_BYTES
from drawbridge.server.auth import devices as devices_module
from drawbridge.server.auth.access import of_this_machine, served
from drawbridge.server.auth.devices import Devices, new_code
from drawbridge.server.device_commands import link
from drawbridge.server.protocol.messages import TERMINAL_NAME
from drawbridge.transport import running
from drawbridge.transport.running import Running
from tests.server.auth.rig import Server, code_of
from tests.server.auth.test_command import drawbridge
from tests.server.processes import serving
from tests.server.schema import check_request, check_sent
from tests.server.wire_client import WireClient, connected
from tests.waiting import PATIENCE


async def pair(server: Server, code: str, **more: str) -> tuple[dict[str, Any], int | None]:
    """Pairs a new client with this code. Returns the answer, and the close code if the connection was closed."""
    async with connect(server.url, proxy=None) as stranger:
        asked = {"type": "pair", "data": {"code": code, **more}}
        check_request(asked)
        await stranger.send(json.dumps(asked))
        answer = json.loads(await stranger.recv())
        check_sent(answer)
        if answer["type"] == "error":
            await stranger.wait_closed()
        return answer, stranger.close_code


async def test_a_code_is_exchanged_for_a_token_and_signs_in(server: Server) -> None:
    code = new_code(server.devices, "approve", projects=[str(server.roots)], lifetime=timedelta(days=30))
    async with connected(server.url) as phone:
        paired = (await phone.ask("pair", {"code": code, "name": "Ada's phone"}))["data"]
        assert paired["device"] == {"name": "Ada's phone", "scope": "approve", "projects": [str(server.roots)]}
        assert (await phone.ask("hello"))["data"]["device"] == paired["device"]
    async with server.client(paired["token"]) as again:
        assert (await again.ask("hello"))["data"]["device"] == paired["device"]
    [device] = server.devices
    assert device.expires is not None
    assert device.expires - device.created == timedelta(days=30)


@pytest.mark.parametrize(
    "written", [str, str.lower, lambda code: code.replace("-", " "), lambda code: code[:4] + code[5:]]
)
async def test_a_code_may_be_typed_in_any_format(server: Server, written: Any) -> None:
    answer, _ = await pair(server, written(new_code(server.devices, "view")))
    assert answer["type"] == "paired"


async def test_the_owners_name_for_a_device_takes_precedence(server: Server) -> None:
    code = new_code(server.devices, "view", name="kitchen")
    assert (await pair(server, code, name="owner"))[0]["data"]["client"] == "kitchen"
    names = []
    for _ in range(3):
        code = new_code(server.devices, "view")
        names.append((await pair(server, code, name="kitchen"))[0]["data"]["client"])
    assert names == ["kitchen 2", "kitchen 3", "kitchen 4"]


async def test_a_reserved_name_gets_a_number(server: Server) -> None:
    answer, _ = await pair(server, new_code(server.devices, "view"), name=TERMINAL_NAME)
    assert answer["data"]["client"] == f"{TERMINAL_NAME} 2"


async def test_wrong_used_and_expired_codes_have_different_errors(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    used, old = (new_code(server.devices, "admin") for _ in range(2))
    assert (await pair(server, used))[0]["type"] == "paired"
    after = devices_module.now() + timedelta(minutes=10)
    monkeypatch.setattr(devices_module, "now", lambda: after)
    for code, expected in (("AAAA-AAAA", "PAIRING_WRONG"), (used, "PAIRING_USED"), (old, "PAIRING_EXPIRED")):
        answer, closed = await pair(server, code)
        assert (code_of(answer), closed) == (expected, 4401)
    assert len(list(server.devices)) == 1, "no other device was made"


async def test_an_unprintable_name_does_not_use_up_the_code(server: Server) -> None:
    code = new_code(server.devices, "view")
    assert code_of((await pair(server, code, name="a\x1b[2J"))[0]) == "VALIDATION_FAILED"
    assert (await pair(server, code, name="fine"))[0]["type"] == "paired"
    with pytest.raises(BadArgument, match="1 to 60"):
        new_code(server.devices, "view", name="\n")


async def test_two_simultaneous_pairings_create_one_device(server: Server) -> None:
    code = new_code(server.devices, "view")
    async with connected(server.url) as one, connected(server.url) as two:
        for client in (one, two):
            await client.send("pair", {"code": code}, request_id="r")
        types = sorted([(await client.next())["type"] for client in (one, two)])
    assert types == ["error", "paired"]
    assert len(list(server.devices)) == 1


@contextlib.contextmanager
def devices_locked(server: Server) -> Iterator[None]:
    """Locks the devices file, as another process does while it changes the devices."""
    with (server.data / "devices.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


async def test_a_pairing_that_waits_does_not_delay_other_clients(
    server: Server, owner: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = new_code(server.devices, "view")
    waits = threading.Event()
    sleep = time.sleep

    def waiting(seconds: float) -> None:
        waits.set()
        sleep(seconds)

    monkeypatch.setattr("time.sleep", waiting)
    lock = Devices._lock
    monkeypatch.setattr(Devices, "_lock", lambda devices, file, patience: lock(devices, file, PATIENCE))
    with devices_locked(server):
        pairing = asyncio.create_task(pair(server, code))
        await asyncio.to_thread(waits.wait, PATIENCE)
        assert (await owner.ask("hello"))["type"] == "hello"
        assert not pairing.done()
    assert (await pairing)[0]["type"] == "paired"


async def test_a_pairing_fails_if_the_devices_file_stays_locked(server: Server) -> None:
    code = new_code(server.devices, "view")
    with devices_locked(server):
        assert code_of((await pair(server, code))[0]) == "FILE_OPERATION"
    assert (await pair(server, code))[0]["type"] == "paired", "the code was not used up"


async def test_requests_sent_right_after_a_code_wait_for_the_pairing(server: Server) -> None:
    """One of the requests is larger than a client without a token may send."""
    code = new_code(server.devices, "approve")
    piece = base64.b64encode(bytes(4 * UNFINISHED_BYTES)).decode()
    blob = {"blob_id": "b", "offset": 0, "data": piece, "last": True}
    async with connected(server.url) as phone:
        await phone.send("pair", {"code": code})
        await phone.send("blob_put", blob, request_id="blob")
        await phone.send("hello", request_id="hello")
        assert [(await phone.next())["type"] for _ in range(3)] == ["paired", "blob_stored", "hello"]


async def test_requests_sent_right_after_a_wrong_code_are_not_executed(server: Server) -> None:
    async with connect(server.url, proxy=None) as stranger:
        for message in (
            {"type": "pair", "data": {"code": "AAAA-AAAA"}},
            {"type": "hello"},
            {"type": "auth", "data": {}},
        ):
            await stranger.send(json.dumps(message))
        answers = [json.loads(await stranger.recv())]
        with pytest.raises(ConnectionClosed):
            await stranger.recv()
    assert [code_of(answer) for answer in answers] == ["PAIRING_WRONG"]
    assert stranger.close_code == 4401


async def test_a_client_that_is_signed_in_does_not_use_up_a_code(server: Server, owner: WireClient) -> None:
    """The code is for another device."""
    code = new_code(server.devices, "view")
    assert code_of(await owner.ask("pair", {"code": code, "name": "tv"})) == "UNAUTHORIZED"
    assert (await owner.ask("hello"))["data"]["device"]["scope"] == "admin"
    assert (await pair(server, code, name="tv"))[0]["data"]["client"] == "tv"


async def test_neither_code_nor_token_is_logged_or_kept(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    code = new_code(server.devices, "view")
    token = (await pair(server, code))[0]["data"]["token"]
    await pair(server, code)
    kept = (server.data / "devices.json").read_text()
    logged = "\n".join(record.getMessage() for record in caplog.records if record.name != "websockets.client")
    for secret in (code, code.replace("-", ""), token, token.split("_", 2)[2]):
        assert secret not in kept
        assert secret not in logged


# the command


def test_pairing_needs_a_running_server(tmp_path: Path) -> None:
    done = drawbridge("pair", "--data-dir", tmp_path / "data")
    assert done.returncode == 3
    assert "No server is running with the data" in done.stderr
    assert " serve` first" in done.stderr
    assert not (tmp_path / "data").exists()


async def shown(server: Any, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(drawbridge, "pair", "--data-dir", server.data, *arguments)


async def test_the_command_shows_a_code_that_pairs_one_device(tmp_path: Path) -> None:
    host = next(str(one) for one in of_this_machine() if one.version == 4 and not one.is_loopback)
    async with serving(tmp_path / "data", "--host", "0.0.0.0", "--public-host", "agents.example") as server:
        done = await shown(server, "--name", "phone")
        assert done.returncode == 0, done.stderr
        port = server.url.rpartition(":")[2].partition("/")[0]
        assert f"https://agents.example:{port}/" in done.stdout
        assert f"https://{host}:{port}/" in done.stdout
        assert "▀" in done.stdout
        assert (
            "The device can answer requests and stop runs, but not send prompts: for that, pair it with --scope run."
            in done.stdout
        )
        assert server.ready["fingerprint"][:47] in done.stdout
        found = re.search(r"[A-Z2-9]{4}-[A-Z2-9]{4}", done.stdout)
        assert found is not None
        async with connected(f"wss://127.0.0.1:{port}/ws", tls=server.tls) as phone:
            paired = (await phone.ask("pair", {"code": found[0], "name": "me"}))["data"]
            assert paired["device"] == {"name": "phone", "scope": "approve", "projects": None}
        await server.end()
        assert found[0] not in server.errors
        assert paired["token"] not in server.errors
        assert (await shown(server)).returncode == 3, "the server has ended, and its address is no longer stored"


async def test_the_command_reports_that_no_phone_can_connect(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as server:
        assert (server.data / running.FILE).stat().st_mode & 0o777 == 0o600
        done = await shown(server, "--scope", "run")
        assert done.returncode == 0
        assert "listens on this machine only" in done.stdout
        assert "The device can use projects, but not add or remove them" in done.stdout
        assert "--host 0.0.0.0" in done.stdout
        assert "--public-host NAME" in done.stdout
        assert re.search(r"[A-Z2-9]{4}-[A-Z2-9]{4}", done.stdout)
        assert "▀" not in done.stdout, "a QR code would not work"
        assert "The device can only watch." in (await shown(server, "--scope", "view")).stdout


def test_a_file_left_by_a_killed_server_is_ignored(tmp_path: Path) -> None:
    with running.announced(tmp_path, "wss://x/ws", ("https://x/",), None, loopback=True):
        assert running.find(tmp_path) is not None
        left = (tmp_path / running.FILE).read_bytes()
    assert running.find(tmp_path) is None
    for content in (left.replace(b'"began":"', b'"began":"1'), b"", b"[]", b'{"pid":-1}'):
        (tmp_path / running.FILE).write_bytes(content)
        assert running.find(tmp_path) is None


def test_the_qr_code_contains_the_link_with_the_code() -> None:
    server = Running(
        pid=1, began=0, url="wss://h:1/ws", pages=("https://h:1/", "https://i:1/"), loopback=False, fingerprint="AB:CD"
    )
    assert link(server, "ABCD-2345") == "https://h:1/#pair=ABCD2345&fp=abcd"


def test_link_local_and_loopback_addresses_are_not_offered() -> None:
    assert served("127.0.0.1", []) == ()
    assert served("localhost", ["agents.example"]) == ("agents.example",)
    assert served("192.0.2.7", ["agents.example"]) == ("agents.example", "192.0.2.7")
    everywhere = served("0.0.0.0", [])
    assert everywhere == tuple(one for one in everywhere if not one.startswith(("127.", "169.254.")))
