"""A device with the ``admin`` scope that is not confined to projects can list, revoke and pair devices, as the owner's
commands do.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
import segno

from drawbridge.server import device_commands
from drawbridge.server.auth import devices as devices_module
from drawbridge.server.auth.devices import Device, Devices, now, pairing_link, qr_modules
from drawbridge.server.auth.scopes import Identity
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.commands import PairCreate, parse
from tests.server.auth.rig import Server, code_of, serving
from tests.server.auth.test_audit import events
from tests.server.wire_client import WireClient, connected


async def listed(client: WireClient) -> dict[str, dict[str, object]]:
    return {device["name"]: device for device in (await client.ask("device_list"))["data"]["devices"]}


async def test_devices_are_listed_with_scope_and_last_use(server: Server, owner: WireClient) -> None:
    projects = [str(server.roots)]
    server.token("tv", "view", projects=projects, lifetime=timedelta(days=1))
    server.devices.revoke("tv")
    phone = server.token("phone", "run")
    pad = server.token("pad", "admin")
    async with server.client(phone), server.client(pad) as on_pad:
        found = await listed(on_pad)
    assert found["tv"]["state"] == "revoked"
    assert found["tv"]["projects"] == projects
    assert found["tv"]["expires"] is not None
    assert "last_used" not in found["tv"]
    assert (found["phone"]["scope"], found["phone"]["state"]) == ("run", "valid")
    assert found["phone"]["connected"] is found["pad"]["connected"] is found["pad"]["mine"] is True
    assert "mine" not in found["phone"]
    assert found["phone"]["last_used"] is not None
    assert not any("mine" in device for device in (await listed(owner)).values())
    assert "hash" not in str(found)


async def test_a_damaged_file_of_devices_is_reported(server: Server, owner: WireClient) -> None:
    (server.data / "devices.json").write_text("{")
    for type, data in (("device_list", {}), ("pair_create", {"scope": "view"}), ("device_revoke", {"device_id": "x"})):
        assert code_of(await owner.ask(type, data)) == "FILE_OPERATION"


async def test_a_revoked_device_is_disconnected(server: Server, owner: WireClient) -> None:
    async with server.client(server.token("phone")) as phone:
        id = str((await listed(owner))["phone"]["id"])
        answer = await owner.ask("device_revoke", {"device_id": id})
        assert answer["data"] == {"device_id": id, "name": "phone"}
        await phone.connection.wait_closed()
        assert phone.connection.close_code == 4403
    assert (await listed(owner))["phone"]["state"] == "revoked"
    [line] = events(server.data, "token_revoked")
    assert (line["device"], line["revoked"]) == ("phone", id)


async def test_only_the_id_of_a_valid_device_is_revoked(server: Server, owner: WireClient) -> None:
    """A name is not accepted as an id, because the name of one device may be the id of another."""
    server.token("phone")
    [device] = server.devices
    for which in ("phone", "none"):
        assert code_of(await owner.ask("device_revoke", {"device_id": which})) == "DEVICE_NOT_FOUND"
    assert code_of(await owner.ask("device_revoke", {"device_id": device.id})) == "device_revoked"
    assert code_of(await owner.ask("device_revoke", {"device_id": device.id})) == "DEVICE_NOT_FOUND"


async def test_a_code_pairs_a_device(server: Server, owner: WireClient) -> None:
    made = (await owner.ask("pair_create", {"scope": "approve", "name": "Ada's phone"}))["data"]
    async with connected(server.url) as phone:
        paired = (await phone.ask("pair", {"code": made["code"]}))["data"]
    assert paired["device"] == {"name": "Ada's phone", "scope": "approve", "projects": None}
    [line] = events(server.data, "pairing_code_made")
    assert (line["device"], line["scope"]) == ("Ada's phone", "approve")
    assert made["code"] not in str(line)


async def test_the_link_has_the_address_that_the_client_uses(server: Server, owner: WireClient) -> None:
    made = (await owner.ask("pair_create", {"scope": "view"}))["data"]
    code = made["code"].replace("-", "")
    assert made["link"] == f"http://127.0.0.1:{server.port}/#pair={code}"
    assert made["loopback"] is True
    at = {"scope": "view", "origin": "https://agents.example:8443/"}
    made = (await owner.ask("pair_create", at))["data"]
    assert made["link"] == f"https://agents.example:8443/#pair={made['code'].replace('-', '')}"
    assert "loopback" not in made
    assert made["qr"] == qr_modules(made["link"])


@pytest.mark.parametrize(
    "origin", ["javascript:alert(1)", "https://a b", "https://a/path", "https://a#b", "https://u@h", "", "https://"]
)
def test_an_origin_consists_of_a_scheme_and_a_host(origin: str) -> None:
    message = json.dumps({"type": "pair_create", "data": {"scope": "view", "origin": origin}})
    with pytest.raises(ClientError) as refused:
        parse(message, {"pair_create": PairCreate})
    assert (refused.value.code, refused.value.field) == ("VALIDATION_FAILED", "data.origin")


async def test_a_name_that_is_not_printable_is_refused(owner: WireClient) -> None:
    answer = await owner.ask("pair_create", {"scope": "view", "name": "a\nb"})
    assert (answer["data"]["code"], answer["data"]["field"]) == ("VALIDATION_FAILED", "data.name")


@pytest.mark.parametrize(
    ("command", "data"),
    [("device_list", {}), ("device_revoke", {"device_id": "none"}), ("pair_create", {"scope": "view"})],
)
async def test_a_confined_device_cannot_manage_devices(server: Server, command: str, data: dict[str, str]) -> None:
    """Otherwise, the device could pair another one without confinement."""
    token = server.token("pad", "admin", projects=[str(server.roots)])
    async with server.client(token) as confined:
        assert code_of(await confined.ask(command, data)) == "PERMISSION_DENIED"


async def test_a_device_expires_with_the_one_that_paired_it(server: Server) -> None:
    async with server.client(server.token("pad", "admin", lifetime=timedelta(hours=1))) as pad:
        code = (await pad.ask("pair_create", {"scope": "admin"}))["data"]["code"]
    async with connected(server.url) as phone:
        await phone.ask("pair", {"code": code, "name": "phone"})
    device = next(one for one in server.devices if one.name == "phone")
    assert device.expires is not None
    assert device.expires <= now() + timedelta(hours=1)


async def redeemed(server: Server, code: str, name: str = "phone") -> dict[str, object]:
    """Pairs a new client with the code. Returns the reply."""
    async with connected(server.url) as stranger:
        return await stranger.ask("pair", {"code": code, "name": name})


async def test_pairing_late_does_not_extend_the_lifetime(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, access would never expire for a device that keeps pairing a successor at the last moment."""
    async with server.client(server.token("pad", "admin", lifetime=timedelta(hours=1))) as pad:
        code = (await pad.ask("pair_create", {"scope": "admin"}))["data"]["code"]
    [pad_device] = server.devices
    later = now() + timedelta(minutes=9)
    monkeypatch.setattr(devices_module, "now", lambda: later)
    assert code_of(await redeemed(server, code)) == "paired"
    assert {device.expires for device in server.devices} == {pad_device.expires}


async def test_a_code_expires_with_its_creator(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async with server.client(server.token("pad", "admin", lifetime=timedelta(minutes=1))) as pad:
        code = (await pad.ask("pair_create", {"scope": "admin"}))["data"]["code"]
        later = now() + timedelta(minutes=2)
        monkeypatch.setattr(devices_module, "now", lambda: later)
        assert code_of(await redeemed(server, code)) == "PAIRING_EXPIRED"


async def test_codes_are_revoked_with_their_creator(server: Server, owner: WireClient) -> None:
    async with server.client(server.token("stolen", "admin")) as stolen:
        code = (await stolen.ask("pair_create", {"scope": "admin"}))["data"]["code"]
        used = (await stolen.ask("pair_create", {"scope": "view"}))["data"]["code"]
        assert code_of(await redeemed(server, used, "tv")) == "paired"
        kept = (await owner.ask("pair_create", {"scope": "view"}))["data"]["code"]
        id = next(device.id for device in server.devices if device.name == "stolen")
        await owner.ask("device_revoke", {"device_id": id})
        assert code_of(await redeemed(server, code)) == "PAIRING_WRONG"
        assert code_of(await redeemed(server, used)) == "PAIRING_USED"
        assert code_of(await redeemed(server, kept)) == "paired"
    with server.devices.changed() as file:
        assert [code.made_by for code in file.codes] == [id, None], "used codes are remembered"
    assert [line["code"] for line in events(server.data, "refused")] == ["PAIRING_WRONG", "PAIRING_USED"]
    assert [line.get("made_by") for line in events(server.data, "paired")] == [id, None]


async def test_the_list_shows_who_paired_a_device(server: Server, owner: WireClient) -> None:
    """Whoever stole a phone for a minute may have paired another device with it."""
    async with server.client(server.token("stolen", "admin")) as stolen:
        code = (await stolen.ask("pair_create", {"scope": "admin"}))["data"]["code"]
        assert code_of(await redeemed(server, code, "laptop")) == "paired"
    devices = await listed(owner)
    assert devices["laptop"]["made_by"] == devices["stolen"]["id"]
    assert "made_by" not in devices["stolen"], "the owner added it"


def paired(devices: Devices, name: str, maker: Device) -> Device:
    """Pairs a device with a code that another device created."""
    code = devices_module.new_code(devices, "admin", maker=maker.identity)
    return devices_module.redeem(devices, code, name)[0]


def test_revoking_a_device_names_those_that_it_paired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The devices that were paired through a device that is already revoked are named, too."""
    devices = Devices(tmp_path)
    stolen, _ = devices.add("stolen", "admin")
    devices.add("tv", "view")
    laptop = paired(devices, "laptop", stolen)
    second = paired(devices, "second", laptop)
    devices.revoke("laptop")
    assert device_commands.show(tmp_path, as_json=False) == 0
    [line] = [one for one in capsys.readouterr().out.splitlines() if one.startswith("second ")]
    assert f"laptop ({laptop.id})" in line
    assert device_commands.revoke(tmp_path, "stolen") == 0
    text = capsys.readouterr().err
    assert f"still have access: second ({second.id})." in text
    assert f"token revoke {second.id}\n" in text
    assert laptop.id not in text
    assert device_commands.revoke(tmp_path, second.id) == 0
    assert "still have access" not in capsys.readouterr().err


async def test_a_device_that_was_just_revoked_cannot_create_a_code(server: Server) -> None:
    """The device is still connected when its request arrives."""
    server.token("stolen", "admin")
    [device] = server.devices
    server.devices.revoke("stolen")
    with pytest.raises(ClientError) as refused:
        devices_module.new_code(server.devices, "admin", maker=device.identity)
    assert refused.value.code == "TOKEN_REVOKED"
    with server.devices.changed() as file:
        assert file.codes == []


async def test_a_code_of_a_removed_ssh_key_is_not_valid(server: Server) -> None:
    by_key = Identity(name="laptop", scope="admin", key="SHA256:abc")
    code = devices_module.new_code(server.devices, "admin", maker=by_key)
    with pytest.raises(ClientError) as refused:
        devices_module.redeem(server.devices, code, None, ["SHA256:other"])
    assert refused.value.code == "PAIRING_WRONG"
    device, _ = devices_module.redeem(server.devices, code, None, ["SHA256:abc"])
    assert device.made_by == "SHA256:abc"


@pytest.mark.parametrize("origin", ["https://[", "https://[x]", "https://a:b", "https://a:99999"])
async def test_no_code_is_created_for_an_invalid_origin(server: Server, owner: WireClient, origin: str) -> None:
    answer = await owner.ask("pair_create", {"scope": "view", "origin": origin})
    assert (answer["data"]["code"], answer["data"]["field"]) == ("VALIDATION_FAILED", "data.origin")
    with server.devices.changed() as file:
        assert file.codes == []


async def test_a_loopback_address_in_a_link_is_replaced(tmp_path: Path) -> None:
    """The user pairs a phone from a browser on the server's own machine."""
    async with serving(tmp_path, public_hosts=("192.168.1.7",)) as server, server.client() as owner:
        made = (await owner.ask("pair_create", {"scope": "view"}))["data"]
        assert made["link"].startswith(f"http://192.168.1.7:{server.port}/#pair=")
        assert "loopback" not in made


def test_the_fingerprint_is_part_of_the_link() -> None:
    assert pairing_link("https://a:1", "ABCD-EFGH", "AB:CD") == "https://a:1/#pair=ABCDEFGH&fp=abcd"


def test_the_qr_code_contains_the_link() -> None:
    text = "https://192.168.178.20:8443/#pair=ABCDEFGH&fp=" + "ab" * 32
    rows = qr_modules(text)
    assert {len(row) for row in rows} == {len(rows)}
    assert (rows[0][:8], rows[0][-8:]) == ("11111110", "01111111"), "two of its corners"
    made = segno.make(text, error="l", micro=False)
    assert "\n".join(rows) == "\n".join("".join(map(str, row)) for row in made.matrix)
