"""The ``drawbridge token`` command, and a real server that notices its changes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from drawbridge.server.auth.devices import TOKEN
from tests.server.processes import serving
from tests.server.wire_client import connected
from tests.waiting import PATIENCE


def drawbridge(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "drawbridge", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def made(data: Path, name: str, *arguments: str | Path) -> str:
    done = drawbridge("token", "new", name, "--data-dir", data, *arguments)
    assert done.returncode == 0, done.stderr
    token = done.stdout.strip()
    assert TOKEN.fullmatch(token)
    return token


def listed(data: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(drawbridge("token", "list", "--json", "--data-dir", data).stdout)
    return found


def test_a_token_is_created_shown_once_listed_and_revoked(data: Path, tmp_path: Path) -> None:
    assert "No device has a token" in drawbridge("token", "list", "--data-dir", data).stderr
    token = made(data, "Ada's phone", "--scope", "approve", "--project", tmp_path, "--expires", "30d")
    [device] = listed(data)
    assert (device["name"], device["scope"], device["state"]) == ("Ada's phone", "approve", "valid")
    assert device["projects"] == [str(tmp_path)]
    assert device["expires"] is not None
    shown = drawbridge("token", "list", "--data-dir", data)
    assert "Ada's phone" in shown.stdout
    for text in (shown.stdout, json.dumps(device), (data / "devices.json").read_text()):
        assert token.split("_", 2)[2] not in text
    assert drawbridge("token", "revoke", "Ada's phone", "--data-dir", data).returncode == 0
    assert [one["state"] for one in listed(data)] == ["revoked"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["new", "x\ny"], "NAME: must be 1 to 60 printable characters"),
        (["new", "x", "--expires", "soon"], "--expires: must be a number from 1 to 99999 followed by m, h, d or w"),
        (["new", "x", "--expires", "0d"], "--expires: must be a number"),
        (["new", "x", "--project", "/nowhere/at/all"], "--project: /nowhere/at/all is not a directory"),
        (["new", "x", "--scope", "root"], "unknown scope: root"),
        (["revoke", "nobody"], "NAME: no device with the name or ID 'nobody' has a token"),
    ],
)
def test_invalid_arguments_are_reported_and_change_nothing(data: Path, arguments: list[str], expected: str) -> None:
    done = drawbridge("token", *arguments, "--data-dir", data)
    assert done.returncode == 2
    assert expected in done.stderr
    assert done.stdout == ""
    assert not (data / "devices.json").exists()


async def test_a_running_server_notices_new_and_revoked_devices(data: Path, tmp_path: Path) -> None:
    async with serving(data, "--allow", tmp_path) as server:
        token = await asyncio.to_thread(made, data, "phone", "--scope", "view")
        async with connected(server.url, token, server.tls) as phone:
            assert (await phone.ask("hello"))["data"]["device"]["name"] == "phone"
            done = await asyncio.to_thread(drawbridge, "token", "revoke", "phone", "--data-dir", data)
            assert done.returncode == 0, done.stderr
            began = time.monotonic()
            assert (await phone.receive("error"))["data"]["code"] == "TOKEN_REVOKED"
            assert await phone.close_code() == 4403
            assert time.monotonic() - began < 5
        await server.end()
        assert token not in server.errors
        assert token.split("_", 2)[2] not in server.errors
