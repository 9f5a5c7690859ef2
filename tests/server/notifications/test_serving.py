"""``drawbridge serve`` notifies the webhook, and accepts subscriptions from browsers."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from drawbridge.server.notifications import send
from drawbridge.server.notifications.web_push import packed
from tests.server.checkpoints.rig import make_project
from tests.server.notifications.service import Service
from tests.server.processes import refused, serving
from tests.server.reviews.test_real_server import a_run
from tests.server.wire_client import WireClient
from tests.waiting import PATIENCE, until

UNCOMPRESSED = PublicFormat.UncompressedPoint
POINT = packed(ec.generate_private_key(ec.SECP256R1()).public_key().public_bytes(Encoding.X962, UNCOMPRESSED))
GOOD = {"endpoint": "https://fcm.googleapis.com/fcm/send/x", "p256dh": POINT, "auth": "A" * 22}


async def runs(client: WireClient, directory: Path, prompt: str) -> None:
    made = await client.ask("project_create", {"path": str(directory), "agent": "demo", "join": True})
    await client.ask("execute", {"prompt": prompt}, made["project_id"])


@pytest.mark.thorough
async def test_the_webhook_gets_no_text_from_the_agent(tmp_path: Path) -> None:
    (tmp_path / "blog").mkdir()
    with Service().up() as ntfy:
        options = ("--no-tls", "--allow", tmp_path, "--webhook", f"{ntfy.url}?auth=hidden")
        async with serving(tmp_path / "data", *options) as server, server.client() as client:
            await runs(client, tmp_path / "blog", "a secret plan")
            await until(lambda: bool(ntfy.posted))
            assert "hidden" not in server.errors
    [(headers, words)] = ntfy.posted
    assert headers["title"] == "blog needs you"
    assert words == b"Create a file"
    assert "secret" not in str(ntfy.posted)


@pytest.mark.slow
async def test_the_webhook_gets_the_size_of_the_review(tmp_path: Path) -> None:
    """The number of files is part of the notification about the end of the run. On a busy machine, the first run's
    notification may be sent before the checkpoint is taken, so the test checks the notification of a second run, which
    changes nothing.
    """
    directory = make_project(tmp_path / "blog")
    with Service().up() as ntfy:

        def ends() -> list[tuple[str, str]]:
            return [(headers["title"], words.decode()) for headers, words in ntfy.posted if b"Run finished" in words]

        options = ("--no-tls", "--allow", tmp_path, "--webhook", ntfy.url)
        async with serving(tmp_path / "data", *options) as server, server.client() as client:
            made = await client.ask("project_create", {"path": str(directory), "agent": "demo", "join": True})
            await a_run(client, made["project_id"])
            await until(lambda: len(ends()) == 1)
            await client.ask("execute", {"prompt": "/quick"}, made["project_id"])
            await until(lambda: len(ends()) == 2)
    _, (title, words) = ends()
    assert title == "blog: 1 file to review"
    assert re.fullmatch(r"Run finished · \+[1-9]\d* −\d+", words)


@pytest.mark.slow
async def test_a_webhook_that_hangs_delays_neither_runs_nor_shutdown(tmp_path: Path) -> None:
    (tmp_path / "blog").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/"
        async with serving(tmp_path / "data", "--no-tls", "--allow", tmp_path, "--webhook", url) as server:
            async with server.client() as client:
                await runs(client, tmp_path / "blog", "/quick")
                await client.receive("update", "run_finished")
                deaf.settimeout(PATIENCE)
                posting, _ = await asyncio.to_thread(deaf.accept)
                assert (await client.ask("health_check"))["type"] == "health"
            with posting:
                began = time.monotonic()
                assert (await server.end())[0] == 0
                assert time.monotonic() - began < send.TIMEOUT


@pytest.mark.thorough
async def test_an_agent_does_not_see_the_webhook(tmp_path: Path) -> None:
    """The webhook's address is in the server's environment, and the agent prints its entire environment."""
    (tmp_path / "blog").mkdir()
    with Service().up() as ntfy:
        options = ("--no-tls", "--allow", tmp_path, "--command-agent", "printer=env")
        settings = {"DRAWBRIDGE_SERVE_WEBHOOK": f"{ntfy.url}?auth=hidden"}
        async with serving(tmp_path / "data", *options, **settings) as server, server.client() as client:
            path = str(tmp_path / "blog")
            made = await client.ask("project_create", {"path": path, "agent": "printer", "join": True})
            await client.ask("execute", {"prompt": "go"}, made["project_id"])
            await client.receive("update", "run_finished")
            assert "DRAWBRIDGE_AGENT=" in str(client.received)
            assert "hidden" not in str(client.received)
            await until(lambda: bool(ntfy.posted))


async def test_an_invalid_webhook_address_is_reported(tmp_path: Path) -> None:
    code, output = await refused("--data-dir", tmp_path / "data", "--webhook", "file:///etc/passwd")
    assert code == 2
    assert "--webhook" in output
    assert not (tmp_path / "data").exists()


async def test_a_browser_subscribes_and_unsubscribes(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", "--no-tls", "--allow", tmp_path) as server, server.client() as client:
        key = (await client.ask("push_key"))["data"]["key"]
        assert (await client.ask("push_key"))["data"]["key"] == key
        kept = tmp_path / "data" / "push.json"
        assert (await client.ask("push_subscribe", GOOD))["type"] == "ok"
        assert GOOD["endpoint"] in kept.read_text()
        for bad in ({"endpoint": "https://127.0.0.1\\.fcm.googleapis.com/"}, {"p256dh": "A"}, {"auth": "%"}):
            answer = await client.ask("push_subscribe", {**GOOD, **bad})
            assert answer["data"]["code"] == "VALIDATION_FAILED"
            assert answer["data"]["field"] == f"data.{next(iter(bad))}"
        assert kept.read_text().count("endpoint") == 1
        assert (await client.ask("push_unsubscribe", {"endpoint": GOOD["endpoint"]}))["type"] == "ok"
        assert GOOD["endpoint"] not in kept.read_text()


async def test_a_new_owners_token_ends_the_owners_notifications(tmp_path: Path) -> None:
    """A browser that had signed in with the previous token gets no more notifications. Its user can subscribe again
    with the new token."""
    options, stored = ("--no-tls", "--allow", tmp_path), tmp_path / "data" / "push.json"
    async with serving(tmp_path / "data", *options) as server, server.client() as client:
        assert (await client.ask("push_subscribe", GOOD))["type"] == "ok"
    async with serving(tmp_path / "data", *options):
        assert GOOD["endpoint"] in stored.read_text(), "a restart ends nothing"
    (tmp_path / "data" / "token").unlink()
    async with serving(tmp_path / "data", *options) as server, server.client() as client:
        assert GOOD["endpoint"] not in stored.read_text()
        assert (await client.ask("push_subscribe", GOOD))["type"] == "ok"
    assert GOOD["endpoint"] in stored.read_text()
