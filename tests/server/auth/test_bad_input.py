"""Each kind of bad input has its own error code and is recorded in the log and the audit log with its sender, and the
server stays available.

``BAD`` has one row for each kind. No secret that a client sent appears in the log or in the audit log.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from drawbridge.protocols.gate import Head
from drawbridge.server.auth import entrance
from drawbridge.server.auth.access import Access, OwnNames
from drawbridge.server.auth.audit import AuditLog
from drawbridge.server.auth.entrance import DENIALS, ClientLimits, Entrance
from drawbridge.server.auth.scopes import Identity
from drawbridge.server.auth.ssh_keys import Keys, challenge
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.disk import Sizes
from drawbridge.server.sessions.options.ceilings import Budgets
from tests.server.auth.rig import OWNER, Server, code_of, serving
from tests.server.auth.test_audit import events
from tests.server.auth.test_limits import SOMEWHERE, Clock, auth, first_words, many, status
from tests.server.auth.test_ssh_keys import ADA, line, signature
from tests.server.wire_client import WireClient, connected
from tests.waiting import until

PHONE = "Ada's phone"

Shown = tuple[str, set[str]]
"""The code of the answer, and the secrets that the client sent."""


class Guest:
    """A client of a server with one project. It connects from the address SOMEWHERE."""

    def __init__(self, server: Server, project: str) -> None:
        self.server = server
        self.project = project

    @contextlib.asynccontextmanager
    async def phone(self, **more: Any) -> AsyncIterator[tuple[WireClient, str]]:
        token = self.server.token(PHONE, "run", **more)
        async with connected(self.server.url, token, headers={"X-Forwarded-For": SOMEWHERE}) as client:
            yield client, token

    async def execute(self, **data: Any) -> Shown:
        async with self.phone() as (client, token):
            message = {"type": "execute", "project_id": self.project, "request_id": "bad"}
            await client.connection.send(json.dumps(message | {"data": {"prompt": "go"} | data}))
            return code_of(await client._find(lambda one: one.get("request_id") == "bad", "an answer", 0)), {token}


async def wrong_token(guest: Guest) -> Shown:
    return (await first_words(guest.server, SOMEWHERE, auth("wrong" * 10)))[0], {"wrong" * 10}


async def revoked_token(guest: Guest) -> Shown:
    token = guest.server.token(PHONE)
    guest.server.devices.revoke(PHONE)
    return (await first_words(guest.server, SOMEWHERE, auth(token)))[0], {token}


async def expired_token(guest: Guest) -> Shown:
    token = guest.server.token(PHONE, lifetime=timedelta(seconds=-1))
    return (await first_words(guest.server, SOMEWHERE, auth(token)))[0], {token}


async def token_out_of_scope(guest: Guest) -> Shown:
    token = guest.server.token(PHONE, "view")
    async with connected(guest.server.url, token, headers={"X-Forwarded-For": SOMEWHERE}) as client:
        return code_of(await client.ask("execute", {"prompt": "/quick"}, guest.project)), {token}


async def signed(guest: Guest, host: str = "", nonce: str = "") -> Shown:
    async with connected(guest.server.url, headers={"X-Forwarded-For": SOMEWHERE}) as client:
        asked = (await client.ask("ssh_challenge"))["data"]
        host, nonce = host or asked["host"], nonce or asked["nonce"]
        text = signature(ADA, challenge(host, None, nonce))
        reply = await client.ask("ssh_auth", {"nonce": nonce, "host": host, "signature": text})
        return code_of(reply), {nonce, *text.splitlines()[1:-1]}


async def replayed_signature(guest: Guest) -> Shown:
    return await signed(guest, nonce="of-another-connection-which-was-recorded")


async def foreign_signature(guest: Guest) -> Shown:
    return await signed(guest, host="evil.example")


async def unknown_option(guest: Guest) -> Shown:
    return await guest.execute(options={"sudo": True})


async def option_above_its_ceiling(guest: Guest) -> Shown:
    return await guest.execute(options={"dangerously_skip_permissions": True})


async def budget_used_up(guest: Guest) -> Shown:
    guest.server.core.grants.budgets = Budgets(day=0.001)
    return await guest.execute()


async def room_used_up(guest: Guest) -> Shown:
    guest.server.core.disk._sizes = Sizes(0, 0)
    return await guest.execute()


async def too_many_prompts(guest: Guest) -> Shown:
    async with guest.phone() as (client, token):
        codes = [code_of(await client.ask("execute", {"prompt": "/quick"}, guest.project)) for _ in range(2)]
        await client.ask("project_join", project_id=guest.project)
        if guest.server.core.projects.get(guest.project).controller.busy:
            await client.receive("update", "run_finished")
        return codes[-1], {token}


async def knocking(guest: Guest, *addresses: str) -> Shown:
    token = guest.server.token(PHONE)
    async with many(guest.server, *addresses):
        answered, _, body = await status(guest.server, SOMEWHERE, token)
        assert answered in (429, 503)
        return body.partition(":")[0], {token}


async def too_many_clients(guest: Guest) -> Shown:
    return await knocking(guest, "198.51.100.1", "198.51.100.2", "198.51.100.3")


async def too_many_from_one_address(guest: Guest) -> Shown:
    return await knocking(guest, SOMEWHERE, SOMEWHERE)


NOBODY = None

BAD: list[tuple[Callable[[Guest], Awaitable[Shown]], str, str, str | None]] = [
    (wrong_token, "UNAUTHORIZED", "refused", NOBODY),
    (revoked_token, "TOKEN_REVOKED", "refused", PHONE),
    (expired_token, "TOKEN_EXPIRED", "refused", PHONE),
    (token_out_of_scope, "OUT_OF_SCOPE", "denied", PHONE),
    (replayed_signature, "SIGNATURE_REPLAYED", "refused", NOBODY),
    (foreign_signature, "SIGNATURE_FOREIGN", "refused", NOBODY),
    (unknown_option, "UNKNOWN_OPTION", "denied", PHONE),
    (option_above_its_ceiling, "PERMISSION_DENIED", "denied", PHONE),
    (budget_used_up, "BUDGET_EXCEEDED", "denied", PHONE),
    (room_used_up, "DISK_LIMIT", "denied", PHONE),
    (too_many_prompts, "RATE_LIMITED", "limited", PHONE),
    (too_many_clients, "TOO_MANY_CLIENTS", "refused", PHONE),
    (too_many_from_one_address, "TOO_MANY_FROM_ADDRESS", "refused", PHONE),
]


@pytest.mark.parametrize(("does", "code", "event", "who"), BAD, ids=lambda value: getattr(value, "__name__", ""))
async def test_each_kind_of_bad_input_has_a_code_and_is_recorded(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    does: Callable[[Guest], Awaitable[Shown]],
    code: str,
    event: str,
    who: str | None,
) -> None:
    """The log and the audit log contain it without any secret, and the server stays available."""
    caplog.set_level("DEBUG", "drawbridge")
    keys = tmp_path / "authorized_keys"
    keys.write_text(line(ADA))
    keys.chmod(0o600)
    crowd = ClientLimits(clients=4, per_address=2, prompts=1)
    async with serving(tmp_path, crowd=crowd, proxies=["127.0.0.1"], keys=Keys(keys)) as server:
        async with server.client() as owner:
            guest = Guest(server, await server.project(owner))
            before = len(events(server.data, event))
            answered, secrets = await does(guest)
            assert answered == code

            [written] = events(server.data, event)[before:]
            assert written.get("code", code) == code
            assert written["address"] == SOMEWHERE
            assert (written.get("device") or written.get("by")) == who
            warned = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
            assert any(SOMEWHERE in text and (who or "") in text for text in warned), warned

            assert (await owner.ask("health_check"))["type"] == "health"
        await until(lambda: not list(server.clients), "the end of all clients")
        async with server.client() as newcomer:
            assert (await newcomer.ask("project_list"))["type"] == "project_list"
        kept = (server.data / "audit.jsonl").read_text() + "".join(
            one.getMessage() for one in caplog.records if not one.name.startswith("websockets")
        )
        assert [secret for secret in secrets | {OWNER} if secret in kept] == []


async def test_refusals_do_not_push_out_older_audit_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entrance, "now", Clock())
    async with serving(tmp_path) as server, server.client(server.token(PHONE, "view")) as phone:
        for _ in range(DENIALS[0] + 50):
            assert code_of(await phone.ask("project_create", {"path": "/x"})) == "OUT_OF_SCOPE"
        assert len(events(server.data, "denied")) == DENIALS[0]
        [limited] = events(server.data, "limited")
        assert (limited["what"], limited["device"]) == ("denials", PHONE)


async def test_allowed_commands_do_not_push_out_older_audit_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entrance, "now", Clock())
    monkeypatch.setattr(entrance, "CHANGES", (20, 2.0))
    async with serving(tmp_path) as server, server.client() as owner:
        project = await server.project(owner)
        async with server.client(server.token(PHONE, "run")) as phone:
            codes = [code_of(await phone.ask("set_mode", {"mode": "plan"}, project)) for _ in range(30)]
            assert codes[20:] == ["RATE_LIMITED"] * 10
            assert code_of(await phone.ask("agent_interrupt", {"all": True}, project)) == "RATE_LIMITED"
            assert (await phone.ask("project_list"))["type"] == "project_list"
        written = [one for one in events(server.data, "mode_set") if one["by"] == PHONE]
        assert len(written) == 20
        [limited] = events(server.data, "limited")
        assert (limited["what"], limited["device"]) == ("commands", PHONE)
        for _ in range(30):
            assert code_of(await owner.ask("set_mode", {"mode": "plan"}, project)) == "ok"


async def test_connecting_does_not_push_out_older_audit_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(entrance, "now", clock)
    monkeypatch.setattr(entrance, "CONNECTS", (5, 1.0))
    async with serving(tmp_path) as server:
        token = server.token(PHONE, "view")
        for _ in range(5):
            async with server.client(token):
                pass
        assert (await status(server, "127.0.0.1", token))[0] == 429
        assert (await first_words(server, "127.0.0.1", auth(token)))[0] == "RESOURCE_LIMIT"
        assert len([one for one in events(server.data, "connected") if one["by"] == PHONE]) == 5
        async with server.client():  # the owner
            pass
        clock.time += 1
        async with server.client(token):
            pass


async def test_refusals_of_many_addresses_are_counted_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entrance, "now", Clock())
    monkeypatch.setattr(entrance, "REFUSALS", (5, 1.0))
    async with serving(tmp_path, proxies=["127.0.0.1"]) as server:
        for at in range(10):
            assert (await status(server, f"198.51.100.{at}", "wrong"))[0] == 401
        assert len(events(server.data, "refused")) == 5
        [limited] = events(server.data, "limited")
        assert limited["what"] == "refusals"


async def test_many_refused_connections_cause_one_audit_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(entrance, "now", clock)
    async with (
        serving(tmp_path, crowd=ClientLimits(clients=1), proxies=["127.0.0.1"]) as server,
        many(server, SOMEWHERE),
    ):
        for _ in range(5):
            assert (await status(server, SOMEWHERE, OWNER))[0] == 503
        assert len(events(server.data, "refused")) == 1
        clock.time += 30
        await status(server, SOMEWHERE, OWNER)
        assert len(events(server.data, "refused")) == 2


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Host": "evil.example"}])
async def test_a_foreign_origin_or_host_is_audited(tmp_path: Path, headers: dict[str, str]) -> None:
    async with serving(tmp_path) as server:
        assert (await status(server, SOMEWHERE, OWNER, **headers))[0] == 403
        [refused] = events(server.data, "refused")
        assert (refused["code"], refused["address"]) == ("FOREIGN_REQUEST", "127.0.0.1")
        async with connect(server.url, proxy=None, additional_headers={"Authorization": f"Bearer {OWNER}"}):
            pass


def at_a_server(tmp_path: Path) -> Entrance:
    return Entrance(Access(OWNER, OwnNames(), secure=False), audit=AuditLog(tmp_path))


def test_addresses_above_a_limit_cause_few_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts that are allowed in between do not cause another line about the next refusal."""
    clock = Clock()
    monkeypatch.setattr(entrance, "now", clock)
    monkeypatch.setattr(entrance, "REQUESTS", (5, 1.0))
    monkeypatch.setattr(entrance, "HANDSHAKES", (5, 1.0))
    gate = at_a_server(tmp_path)
    addresses = [f"198.51.100.{number}" for number in range(10)]
    for _ in range(2 * 600):
        clock.time += 0.5
        for address in addresses:
            for upgrade in (False, True):
                gate.refusal(Head("GET", "/", (("host", "localhost"),), address), upgrade)
    lines = events(tmp_path, "limited")
    assert {(line["what"], line["address"]) for line in lines} == {
        (what, address) for what in ("requests", "handshakes") for address in addresses
    }
    assert len(lines) <= 2 * 2 * len(addresses)


def test_a_device_above_a_limit_causes_few_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(entrance, "now", clock)
    gate = at_a_server(tmp_path)
    phone = Identity(name=PHONE, scope="run", device_id="phone")
    for _ in range(8 * 600):
        clock.time += 0.125
        for count in (gate.count_change, gate.count_prompt):
            with contextlib.suppress(ClientError):
                count(phone, SOMEWHERE)
        gate.denied(phone, by=PHONE, address=SOMEWHERE, code="OUT_OF_SCOPE")
    lines = events(tmp_path, "limited")
    assert {line["what"] for line in lines} == {"commands", "prompts", "denials"}
    assert len(lines) <= 2 * 3


async def test_very_many_addresses_cause_few_log_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One more line reports how many refusals were not logged."""
    monkeypatch.setattr(entrance, "now", Clock())
    monkeypatch.setattr(entrance, "REFUSALS", (5, 1.0))
    monkeypatch.setattr(entrance, "LIMITED_SECONDS", 0.05)
    gate = at_a_server(tmp_path)
    for number in range(20):
        headers = ("host", "localhost"), ("authorization", "Bearer wrong")
        assert gate.refusal(Head("GET", "/", headers, f"198.51.100.{number}"), False) is not None
    await until(lambda: len(caplog.messages) > 6, "the number of the other refusals")
    *refused, many, rest = caplog.messages
    assert refused == [f"refused 198.51.100.{number}: UNAUTHORIZED" for number in range(5)]
    assert "a large number of addresses" in many
    assert rest.endswith("not logged: 15")


async def test_limits_of_very_many_addresses_are_counted_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entrance, "now", Clock())
    monkeypatch.setattr(entrance, "REQUESTS", (1, 1.0))
    monkeypatch.setattr(entrance, "REFUSALS", (5, 1.0))
    gate = at_a_server(tmp_path)
    for number in range(20):
        for _ in range(2):
            gate.refusal(Head("GET", "/", (("host", "localhost"),), f"198.51.100.{number}"), False)
    assert [line["what"] for line in events(tmp_path, "limited")] == ["requests"] * 5 + ["refusals"]
