"""Each device has its own token, which is shown only once, is not stored in readable form, and is valid until it is
revoked or expires.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hmac
import http.client
import json
import os
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from drawbridge.core.errors import BadArgument, BadSetting, NotPrivate
from drawbridge.server.app.clients import DISMISSED
from drawbridge.server.auth import devices as devices_module
from drawbridge.server.auth.access import Access, OwnNames
from drawbridge.server.auth.devices import COPY, FILE, TOKEN, Devices, new_code
from drawbridge.server.auth.entrance import FAILURES
from drawbridge.server.notifications.answer_tokens import Answerable, AnswerTokens
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import TERMINAL_NAME
from tests.server.auth.rig import OWNER, Server, code_of, serving
from tests.server.wire_client import WireClient, connected
from tests.waiting import PATIENCE, until

LONG_AGO = timedelta(days=-1)


def changed(token: str) -> str:
    """The token with a different last character."""
    return token[:-1] + ("A" if token[-1] != "A" else "B")


async def refusal(server: Server, token: str) -> tuple[str, int | None]:
    """Tries to sign in with this token in the first message. Returns the error code and the close code."""
    async with connect(server.url, proxy=None) as stranger:
        await stranger.send(json.dumps({"type": "auth", "data": {"token": token}}))
        message = json.loads(await stranger.recv())
        with pytest.raises(ConnectionClosed):
            await stranger.recv()
        return code_of(message), stranger.close_code


def handshake(server: Server, token: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.request("GET", "/health", headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


# accepted


async def test_a_device_signs_in_and_gets_its_name_and_scope(server: Server) -> None:
    token = server.token("Ada's phone", "approve")
    async with server.client(token) as by_header, server.client("") as by_message:
        assert (await by_message.ask("auth", {"token": token}))["type"] == "auth"
        for client in (by_header, by_message):
            device = (await client.ask("hello", {"client": "the owner"}))["data"]["device"]
            assert device == {"name": "Ada's phone", "scope": "approve", "projects": None}


async def test_the_owners_token_may_do_everything(server: Server) -> None:
    server.token()
    async with server.client() as owner:
        hello = (await owner.ask("hello", {"client": "desk"}))["data"]
        assert hello["device"] == {"name": "desk", "scope": "admin", "projects": None}


async def test_a_new_devices_token_is_valid_immediately(server: Server) -> None:
    async with server.client(server.token("one")), server.client(server.token("two")):
        assert {client.name for client in server.clients} == {"one", "two"}


async def test_a_connection_keeps_its_device(server: Server) -> None:
    mine, other = server.token("mine", "view"), server.token("other", "run")
    async with server.client(mine) as client:
        for token in (other, OWNER, changed(mine)):
            assert code_of(await client.ask("auth", {"token": token})) == "UNAUTHORIZED"
        assert (await client.ask("auth", {"token": mine}))["data"]["client"] == "mine"
        assert (await client.ask("hello"))["data"]["device"]["scope"] == "view"


# refused


@pytest.mark.parametrize(
    "token", ["drawbridge_", "drawbridge_00000000_" + "A" * 43, "drawbridge_é", "x" * 60, "drawbridge__" + "A" * 43]
)
async def test_an_unknown_token_is_refused(server: Server, token: str) -> None:
    server.token()
    assert await refusal(server, token) == ("UNAUTHORIZED", 4401)


async def test_a_wrong_secret_is_refused_like_an_unknown_device(server: Server) -> None:
    token = server.token()
    assert await refusal(server, changed(token)) == ("UNAUTHORIZED", 4401)
    server.devices.revoke("phone")
    assert await refusal(server, changed(token)) == ("UNAUTHORIZED", 4401), (
        "only a client that knows the secret learns that it is revoked"
    )


async def test_revoked_and_expired_tokens_have_different_codes(server: Server) -> None:
    revoked, expired = server.token("lost"), server.token("old", lifetime=LONG_AGO)
    server.devices.revoke("lost")
    assert await refusal(server, revoked) == ("TOKEN_REVOKED", 4401)
    assert await refusal(server, expired) == ("TOKEN_EXPIRED", 4401)
    assert (await asyncio.to_thread(handshake, server, revoked))[0] == 401
    assert "TOKEN_REVOKED" in (await asyncio.to_thread(handshake, server, revoked))[1]
    assert "TOKEN_EXPIRED" in (await asyncio.to_thread(handshake, server, expired))[1]
    assert not list(server.clients)


async def dismissed(client: WireClient, code: str) -> None:
    message = await client.receive("error")
    assert message["data"]["code"] == code
    assert await client.close_code() == DISMISSED == 4403


async def test_revoking_a_token_ends_only_its_connections(server: Server) -> None:
    lost, kept = server.token("lost"), server.token("kept")
    async with server.client(lost) as one, server.client(lost) as two, server.client(kept) as other:
        await asyncio.to_thread(Devices(server.data).revoke, "lost")
        await dismissed(one, "TOKEN_REVOKED")
        await dismissed(two, "TOKEN_REVOKED")
        assert (await other.ask("hello"))["data"]["device"]["name"] == "kept"


async def test_an_expired_token_ends_its_connections(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async with server.client(server.token(lifetime=timedelta(hours=1))) as client:
        assert (await client.ask("hello"))["type"] == "hello"
        monkeypatch.setattr(devices_module, "now", lambda: datetime.now(UTC) + timedelta(hours=2))
        await dismissed(client, "TOKEN_EXPIRED")


async def test_the_name_of_a_revoked_device_can_be_reused(server: Server) -> None:
    first = server.token("phone")
    with pytest.raises(BadArgument, match="already"):
        server.token("phone")
    server.devices.revoke("phone")
    async with server.client(server.token("phone")) as client:
        assert (await client.ask("hello"))["type"] == "hello"
    assert (await refusal(server, first))[0] == "TOKEN_REVOKED"


# secrets


def test_the_file_is_private_and_contains_no_secret(tmp_path: Path) -> None:
    devices = Devices(tmp_path / "data")
    device, token = devices.add("phone", "view")
    path = tmp_path / "data" / FILE
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    parts = TOKEN.fullmatch(token)
    assert parts is not None
    assert parts[1] == device.id
    assert parts[2] not in path.read_text()
    assert token not in path.read_text()


def test_secrets_are_compared_in_constant_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def counted(left: Any, right: Any) -> bool:
        compared.append((left, right))
        return real(left, right)

    devices = Devices(tmp_path / "data")
    device, token = devices.add("phone", "view")
    monkeypatch.setattr(hmac, "compare_digest", counted)
    devices.identify(token)
    assert compared[0] == (device.hash.encode(), device.hash.encode())
    for wrong in (changed(token), "drawbridge_00000000_" + "A" * 43, "nonsense"):
        compared.clear()
        with pytest.raises(ClientError):
            devices.identify(wrong)
        assert [len(left) == len(right) == 64 for left, right in compared] == [True], wrong
    access = Access(OWNER, OwnNames(), secure=True, devices=devices)
    for wrong in (changed(OWNER), changed(token)):
        compared.clear()
        with pytest.raises(ClientError):
            access.identify(wrong)
        assert compared[0] == (wrong.encode(), OWNER.encode()), "the owner's token, too, and nothing is compared before"


@pytest.mark.parametrize(
    "wrong", ["", "\udcbe", "drawbridge_answer_\udcbe", "drawbridge_00000000_\udcbe", "\0", "é" * 43]
)
def test_any_text_may_be_sent_as_a_token(tmp_path: Path, wrong: str) -> None:
    devices = Devices(tmp_path / "data")
    devices.add("phone", "view")
    tokens = AnswerTokens()
    tokens.issue(Answerable("proj_1", "appr_1", "https://push.example", None))
    assert tokens.find(wrong) is None
    access = Access(OWNER, OwnNames(), secure=True, devices=devices)
    with pytest.raises(ClientError) as refused:
        access.identify(wrong)
    assert refused.value.code == "UNAUTHORIZED"


async def test_no_token_is_ever_logged_or_sent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with serving(tmp_path) as server:
        token = server.token()
        async with server.client(token) as client:
            await client.ask("hello")
        for wrong in (changed(token), "a-guess-" * 5):
            await refusal(server, wrong)
            await asyncio.to_thread(handshake, server, wrong)
        async with connect(server.url, proxy=None) as client:
            await client.send(json.dumps({"type": "auth", "data": {"token": token}}))
            await client.recv()
        logged = [record.getMessage() for record in caplog.records if record.name != "websockets.client"]
        assert any("refused" in line for line in logged)
        for secret in (token, token[-20:], token[11:35], OWNER, changed(token)[-20:], "a-guess-"):
            assert [line for line in logged if secret in line] == []


# the file


async def test_the_last_use_of_a_device_is_stored(server: Server) -> None:
    token = server.token("phone")
    assert [one.last_used for one in server.devices] == [None]
    async with server.client(token) as client:
        await client.ask("hello")
        [device] = server.devices
        assert device.last_used is not None
        assert datetime.now(UTC) - device.last_used < timedelta(minutes=1)


async def test_a_damaged_devices_file_affects_only_new_connections(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """The token is not reported as wrong, because a browser would delete it."""
    token = server.token()
    whole = (server.data / FILE).read_bytes()
    async with server.client(token) as there:
        damaged = (server.data / FILE).read_bytes()[:40]
        (server.data / FILE).write_bytes(damaged)
        for _ in range(FAILURES[0] + 1):
            assert await refusal(server, token) == ("RESOURCE_LIMIT", 1013), "it does not count as a failed attempt"
        status, body = await asyncio.to_thread(handshake, server, token)
        assert (status, body.partition(":")[0]) == (503, "RESOURCE_LIMIT")
        assert await refusal(server, "x" * 60) == ("UNAUTHORIZED", 4401)
        async with server.client() as owner:
            assert (await owner.ask("hello"))["type"] == "hello"
        with pytest.raises(BadSetting, match="damaged"):
            server.token("another")
        await until(lambda: "device tokens are not accepted" in caplog.text)
        assert (await there.ask("hello"))["type"] == "hello"
        assert caplog.text.count("device tokens are not accepted") == 1
        assert (server.data / FILE).read_bytes() == damaged, "a damaged file is left as it is"
        (server.data / FILE).write_bytes(whole)
        async with server.client(token) as client:
            assert (await client.ask("hello"))["type"] == "hello"


@pytest.mark.parametrize("left", [b"", b"\0" * 400, b'{\n "devices": [' + b"\0" * 400], ids=["empty", "zeros", "cut"])
def test_a_power_failure_loses_no_device(tmp_path: Path, left: bytes) -> None:
    """The time of a device's last use is stored without a sync, and some file systems then leave an empty file. A
    revoked device stays revoked."""
    devices = Devices(tmp_path)
    _, token = devices.add("phone", "run")
    devices.add("lost", "run")
    devices.revoke("lost")
    devices.identify(token)
    (tmp_path / FILE).write_bytes(left)
    restarted = Devices(tmp_path)
    assert [(one.name, one.revoked is None) for one in restarted] == [("phone", True), ("lost", False)]
    assert restarted.identify(token).name == "phone"
    assert json.loads((tmp_path / FILE).read_bytes())["devices"], "the file is restored"


def test_devices_of_an_earlier_version_survive_a_power_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An earlier version made no copy. A server that can't make one starts nevertheless."""

    def full(path: str, *_: Any, **__: Any) -> None:
        raise NotPrivate(f"{path} can't be written: no space left on device.")

    Devices(tmp_path).add("phone", "run")
    (tmp_path / COPY).unlink()
    with monkeypatch.context() as patch:
        patch.setattr(devices_module, "write_private", full)
        Devices(tmp_path).open()
    assert "the list of devices could not be copied: " in caplog.text
    Devices(tmp_path).open()
    (tmp_path / FILE).write_bytes(b"")
    assert [one.name for one in Devices(tmp_path)] == ["phone"]


def test_a_change_is_synced_before_it_replaces_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, an empty file could replace the list of devices in a power failure."""
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(file: int) -> None:
        calls.append("sync")
        fsync(file)

    def replaced(old: str, new: str) -> None:
        calls.append(Path(new).name)
        replace(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    Devices(tmp_path).add("phone", "run")
    assert calls[:4] == ["sync", COPY, "sync", FILE]


async def test_a_device_signs_in_although_its_last_use_is_not_stored(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """For example, the disk has become read-only."""
    token = server.token()
    real = os.open

    def failing(path: Any, *rest: Any, **more: Any) -> int:
        if str(path).endswith("devices.lock"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", failing)
    async with server.client(token) as by_header, server.client("") as by_message:
        assert (await by_message.ask("auth", {"token": token}))["type"] == "auth"
        for client in (by_header, by_message):
            assert (await client.ask("hello"))["type"] == "hello"
    assert "the time of a device's last use could not be stored" in caplog.text
    assert [one.last_used for one in server.devices] == [None]


async def test_a_locked_devices_file_does_not_delay_the_server(server: Server) -> None:
    token = server.token()
    code = new_code(server.devices, "view")
    with (server.data / "devices.lock").open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        began = time.monotonic()
        async with server.client(token) as client:
            assert (await client.ask("hello"))["type"] == "hello"
        assert time.monotonic() - began < 10
        async with connected(server.url) as new:
            assert code_of(await new.ask("pair", {"code": code})) == "FILE_OPERATION"
    async with connected(server.url) as new:
        assert code_of(await new.ask("pair", {"code": code})) == "paired"


def test_two_processes_that_add_devices_lose_none(tmp_path: Path) -> None:
    one, two = Devices(tmp_path), Devices(tmp_path)
    for number in range(5):
        one.add(f"one {number}", "view")
        two.add(f"two {number}", "view")
    assert {device.name for device in one} == {f"{who} {n}" for who in ("one", "two") for n in range(5)}


def test_a_revoked_device_is_forgotten_after_a_while(tmp_path: Path) -> None:
    devices = Devices(tmp_path)
    devices.add("old", "view")
    devices.revoke("old")
    path = tmp_path / FILE
    file = json.loads(path.read_bytes())
    file["devices"][0]["revoked"] = (datetime.now(UTC) - timedelta(days=91)).isoformat()
    path.write_bytes(msgspec.json.encode(file))
    devices.add("new", "view")
    assert [device.name for device in devices] == ["new"]


@pytest.mark.parametrize("name", ["", " x", "x ", "a\nb", "x" * 61, "\x1b[2J"])
def test_a_name_that_cannot_be_shown_is_refused(tmp_path: Path, name: str) -> None:
    devices = Devices(tmp_path)
    with pytest.raises(BadArgument, match="1 to 60"):
        devices.add(name, "view")
    assert list(devices) == []


def test_no_device_can_be_named_like_the_user_in_the_terminal(tmp_path: Path) -> None:
    """Clients show this name as "You, in the terminal"."""
    devices = Devices(tmp_path)
    with pytest.raises(BadArgument, match="Choose another name"):
        devices.add(TERMINAL_NAME, "run")
    assert list(devices) == []


def test_only_an_existing_device_can_be_revoked(tmp_path: Path) -> None:
    devices = Devices(tmp_path)
    device, _ = devices.add("phone", "view")
    with pytest.raises(BadArgument, match=re.escape("no device with the name or ID 'pad' has a token")):
        devices.revoke("pad")
    assert devices.revoke(device.id).revoked is not None
    with pytest.raises(BadArgument):
        devices.revoke("phone")
