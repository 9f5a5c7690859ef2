"""Devices: sign-in links, pairing, revoking, and scopes. A device has no controls for what its scope does not allow;
the server would refuse it anyway."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from drawbridge.server.auth import devices as devices_module
from drawbridge.server.auth.devices import Devices, new_code, redeem
from drawbridge.server.auth.scopes import Scope
from tests.server.processes import Server

from .conftest import page_of, project_in, serving
from .rig import Browser
from .test_frame import WIDER

CONTROLS = {
    "the prompt box": "#prompt",
    "stop": ".stop",
    "accept": ".approval footer .yes",
    "edit": ".approval button:has-text('Edit')",
    "reject": ".approval footer .no",
    "always": ".approval .always",
    "mode": ".chip.mode",
    "new session": ".group-head button",
    "add": ".side .add",
}
APPROVE = {"stop", "accept", "edit", "reject"}
RUN = APPROVE | {"the prompt box", "always", "mode", "new session"}
THERE: dict[Scope, set[str]] = {"view": set(), "run": RUN, "admin": RUN | {"add"}, "approve": APPROVE}
LAST: Scope = "approve"
"""The scope that is tested last. Its device answers the request, which the others only see."""


TOKEN = "localStorage.getItem('drawbridge.token')"


def given(server: Server, name: str, scope: Scope) -> str:
    """Adds a device, as the owner does. Returns its token."""
    return Devices(server.data).add(name, scope)[1]


@pytest.mark.thorough
async def test_a_device_has_only_the_controls_its_scope_allows(
    browser: Browser, own_server: Server, directory: Path
) -> None:
    project = await project_in(own_server, directory)
    async with own_server.client() as owner:
        await owner.ask("project_join", project_id=project)
        await owner.ask("execute", {"prompt": "Something"}, project)
        await owner.receive("permission_request")
        for scope, there in THERE.items():
            address = f"{page_of(own_server)}#token={given(own_server, f'the {scope} pad', scope)}&project={project}"
            with browser.person(address) as person:
                person.sees(".approval .line.added", "You said: Something")
                person.until("localStorage.getItem('drawbridge.features') !== null")
                assert {name for name, css in CONTROLS.items() if person("visible", css=css)} == there, scope
                person.clicks("button[aria-label='Session menu']")
                removes = any("Remove project" in item for item in person.reads("[role=menuitem]"))
                assert removes == (scope == "admin"), scope
                # Without the chips of the message box, the line below the conversation shows the mode.
                assert ("Ask first" in person.reads(".run .used > span")) == ("mode" not in there), scope
                person.presses("Escape")
                person.runs("document.activeElement.blur()")
                if scope == "view":
                    person.sees(".approval .hint", "View only")
                    for key in "are":
                        person.presses(key)
                    person.sees(".approval .hint", "View only")
                if scope == LAST:
                    person.readies_keys()
                    person.presses("e")
                    person.edits("by a phone\n")
                    person.accepts_edited()
                    person.sees(".settled-line", "Accepted with your edits")
        await owner.receive("update", "run_finished")
    assert (directory / "notes.md").read_text() == "by a phone\n"


def test_the_link_that_serve_prints_signs_a_browser_in(browser: Browser, own_server: Server) -> None:
    """The link works only once, and its code does not stay in the address."""
    address = f"{page_of(own_server)}#sign-in={new_code(Devices(own_server.data), 'admin').replace('-', '')}"
    with browser.person(address) as person:
        person.sees(".start h2", "New session")
        assert person.runs("location.hash") == "#/"
        with browser.person(address) as other:
            other.sees(".problem", "already been used")
    assert [device.scope for device in Devices(own_server.data)] == ["admin"]


def sign_in(server: Server) -> str:
    """Returns the address fragment of a new sign-in link, as ``serve`` prints it."""
    return f"#sign-in={new_code(Devices(server.data), 'admin').replace('-', '')}"


def test_the_link_from_serve_replaces_an_invalid_token(browser: Browser, own_server: Server) -> None:
    with browser.person(page_of(own_server)) as person:
        person.sees("#token")
        person.runs("localStorage.setItem('drawbridge.token', 'drawbridge_revoked')")
        person.runs(f"location.hash = '{sign_in(own_server)}'")
        person.sees(".start h2", "New session")


def test_a_sign_in_link_asks_before_it_grants_more_access(browser: Browser, own_server: Server) -> None:
    """Any website can link to the web UI with a code in the address."""
    token = given(own_server, "mine", "run")
    with browser.person(f"{page_of(own_server)}#token={token}") as person:
        person.until(f"{TOKEN} === '{token}'")
        for choice in ("Keep this device’s access", "Use the link"):
            person.runs(f"location.hash = '{sign_in(own_server)}'")
            person.sees("dialog", "This link gives full access")
            assert person.runs(TOKEN) == token
            person.clicks(f"dialog button:has-text('{choice}')")
            person.loses("dialog")
        person.sees(".start h2", "New session")
        person.runs(f"location.hash = '{sign_in(own_server)}'")
        person.until("location.hash === '#/'")
        assert person("visible", css="dialog") is False, "it allows as much already"


async def test_a_revoked_device_shows_why_and_forgets_its_token(
    browser: Browser, own_server: Server, directory: Path
) -> None:
    """After the user signs in again, the text in the message box is still there."""
    token = given(own_server, "a lost phone", "run")
    project = await project_in(own_server, directory)
    with browser.person(f"{page_of(own_server)}#token={token}&project={project}") as person:
        person.sees("h2", "blog")
        person.fills("#prompt", "a thought")
        Devices(own_server.data).revoke("a lost phone")
        person.sees(".connect .problem", "was revoked")
        assert person.runs("localStorage.getItem('drawbridge.token')") is None
        person.fills("#token", own_server.token)
        person.clicks("text=Connect")
        person.sees("h2", "blog")
        assert person("value", css="#prompt") == "a thought"


def test_a_window_takes_over_the_new_token_of_another(browser: Browser, own_server: Server) -> None:
    old, new = (given(own_server, name, "run") for name in ("old phone", "new phone"))
    page = page_of(own_server)
    with browser.person(f"{page}#token={old}") as person, browser.person(page, beside=person) as other:
        other.goes_to("#/settings")
        other.sees(".settings", "This device is “old phone”.")
        person.runs(f"location.hash = '#token={new}'")
        person.clicks("dialog button:has-text('Use the link’s token')")
        other.sees(".settings", "This device is “new phone”.")


def test_a_refused_token_does_not_delete_a_newer_one(browser: Browser, own_server: Server) -> None:
    """The window has missed that another one has stored it."""
    old, new = (given(own_server, name, "run") for name in ("old phone", "new phone"))
    with browser.person(f"{page_of(own_server)}#token={old}") as person:
        person.goes_to("#/settings")
        person.sees(".settings", "This device is “old phone”.")
        person.runs(f"localStorage.setItem('drawbridge.token', '{new}')")  # only other windows get an event
        Devices(own_server.data).revoke("old phone")
        person.sees(".settings", "This device is “new phone”.")
        assert person.runs(TOKEN) == new


def test_a_link_with_a_wrong_token_changes_nothing(browser: Browser, own_server: Server) -> None:
    """Any website can link to the web UI with a token in the address."""
    page = page_of(own_server)
    token = given(own_server, "Ada's phone", "run")
    with browser.person(f"{page}#token={token}") as person:
        person.sees(".side .empty", "No projects yet")
        for choice in ("Keep this device’s access", "Use the link’s token"):
            person.runs("location.hash = '#token=drawbridge_wrong'")
            person.sees("dialog", "Replace this device’s access?")
            assert "wrong" not in person.runs("location.href")
            person.clicks(f"dialog button:has-text('{choice}')")
            person.loses("dialog")
            assert person.runs(TOKEN) == token
        person.sees(".toast", "stays signed in")
        person.until("document.documentElement.dataset.connection === 'open'")
        person("reload")
        person.sees(".side .empty", "No projects yet")
        assert person.runs(TOKEN) == token


def test_a_link_with_another_token_asks_before_replacing(browser: Browser, own_server: Server) -> None:
    page = page_of(own_server)
    mine, other = (given(own_server, name, "run") for name in ("mine", "other"))
    with browser.person(f"{page}#token={mine}") as person:
        person.sees(".side .empty", "No projects yet")
        person.runs(f"location.hash = '#token={other}'")
        person.clicks("dialog button:has-text('Use the link’s token')")
        person.until(f"{TOKEN} === '{other}'")
        person.sees(".side .empty", "No projects yet")


def test_a_token_in_a_link_is_kept_once_accepted(browser: Browser, own_server: Server) -> None:
    with browser.person(f"{page_of(own_server)}#token=wrong") as person:
        person.sees(".connect .problem", "isn’t valid")
        assert person.runs(TOKEN) is None


def test_a_token_in_a_link_survives_a_reload_while_connecting(browser: Browser, own_server: Server) -> None:
    """During the reload, the token is no longer in the address."""
    token = given(own_server, "Ada's phone", "run")
    with browser.person(page_of(own_server)) as person:
        person.sees("#token")
        person.runs("window.WebSocket = class { send() {} close() {} }")
        person.runs(f"location.hash = '#token={token}'")
        person.loses("#token")
        assert "token" not in person.runs("location.href")
        person("reload")
        person.until(f"{TOKEN} === '{token}'")
        person.sees(".side .empty", "No projects yet")
        assert person.runs("sessionStorage.length") == 0


async def test_a_pairing_link_gives_the_browser_its_own_token(
    browser: Browser, own_server: Server, directory: Path
) -> None:
    """The code does not stay in the address, and the device has the name that the user entered."""
    await project_in(own_server, directory)
    code = new_code(Devices(own_server.data), "approve").replace("-", "")
    with browser.person(f"{page_of(own_server)}#pair={code}&fp=ab01") as person:
        assert person("value", css="#token") == f"{code[:4]}-{code[4:]}"
        person.clicks("summary:has-text('Is this the right server?')")
        person.sees(".fingerprint", "AB:01")
        assert code not in person.runs("location.href")
        person.fills("#device", "Ada's phone")
        person.clicks("text=Pair this device")
        person.sees(".side", "blog")
        assert person("visible", css=".side .add") is False
        [device] = Devices(own_server.data)
        assert (device.name, device.scope) == ("Ada's phone", "approve")
        token = person.runs("localStorage.getItem('drawbridge.token')")
        assert token.startswith(f"drawbridge_{device.id}_")
        person("reload")
        person.sees(".side", "blog")
        person.clicks(".side footer button:has-text('Settings')")
        person.sees(".settings", "This device is “Ada's phone”. Approve and stop.")


def test_a_pairing_link_asks_before_it_replaces_valid_access(browser: Browser, own_server: Server) -> None:
    """The code may be meant for another device."""
    devices = Devices(own_server.data)
    token = given(own_server, "mine", "admin")
    link = f"#pair={new_code(devices, 'view', 'theirs').replace('-', '')}"
    with browser.person(f"{page_of(own_server)}#token={token}") as person:
        person.until(f"{TOKEN} === '{token}'")
        person.sees(".side")
        person.runs(f"location.hash = '{link}'")
        person.sees("dialog", "This link contains a pairing code")
        person.clicks("dialog button:has-text('Keep this device’s access')")
        person.loses("dialog")
        assert (person("visible", css=".side"), person.runs(TOKEN)) == (True, token)
        assert [device.name for device in devices] == ["mine"], "the code was not used"
        person.runs(f"location.hash = '{link}'")
        person.clicks("dialog button:has-text('Use the code')")
        person.clicks("text=Pair this device")
        person.until(f"{TOKEN} !== '{token}'")
        person.sees(".side .empty", "This device can’t add projects.")
    assert [device.name for device in devices] == ["mine", "theirs"]


def test_a_pairing_link_replaces_a_token_that_is_not_valid(browser: Browser, own_server: Server) -> None:
    code = new_code(Devices(own_server.data), "view").replace("-", "")
    with browser.person(page_of(own_server)) as person:
        person.sees("#token")
        person.runs("localStorage.setItem('drawbridge.token', 'drawbridge_revoked')")
        person.runs(f"history.replaceState(null, '', '#pair={code}')")
        person("reload")
        person.clicks("text=Pair this device")
        person.sees(".side .empty", "No projects yet")


def test_two_devices_with_the_same_name_are_distinguished(browser: Browser, own_server: Server) -> None:
    """The web UI suggests a name for the device, and the server adds a number to a name that is in use."""
    devices = Devices(own_server.data)
    for _ in range(2):
        with browser.person(f"{page_of(own_server)}#pair={new_code(devices, 'view').replace('-', '')}") as person:
            assert person("value", css="#device") == "Chrome on Linux"
            person.clicks("text=Pair this device")
            person.sees(".side .empty", "This device can’t add projects.")
            for command in ("drawbridge attach .", "drawbridge pair --scope admin"):
                person.sees(f"main .empty code:text-is('{command}')")
    assert [device.name for device in devices] == ["Chrome on Linux", "Chrome on Linux 2"]


@pytest.mark.parametrize(("width", "height"), [(280, 653), (390, 844), (844, 390)])
def test_a_phone_without_a_project_shows_how_to_add_one(
    browser: Browser, own_server: Server, width: int, height: int
) -> None:
    """A phone shows only the list of sessions, not the view next to it."""
    address = f"{page_of(own_server)}#token={given(own_server, 'phone', 'approve')}"
    with browser.person(address, width=width, height=height) as person:
        person.sees(".empty", "This device can’t add projects. On the server’s machine, run drawbridge attach .")
        for command in ("drawbridge attach .", "drawbridge pair --scope admin"):
            person.sees(f".empty code:text-is('{command}')")
        assert person.runs(WIDER) == []


async def test_a_bad_pairing_code_is_reported_and_a_good_one_works(
    browser: Browser, own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong, used and expired codes each have their own message."""
    devices = Devices(own_server.data)
    good = new_code(devices, "view")
    used = new_code(devices, "view")
    redeem(devices, used, "another one")
    monkeypatch.setattr(devices_module, "CODE_LIFETIME", timedelta(seconds=-1))
    old = new_code(devices, "view")
    with browser.person(page_of(own_server)) as person:
        for code, expected in (("AAAA AAAA", "not valid"), (used, "already been used"), (old, "expired")):
            person.fills("#token", code.lower())
            person.clicks("text=Pair this device")
            person.sees(".connect .problem", expected)
            assert person.runs("localStorage.getItem('drawbridge.token')") is None
        person.fills("#token", good)
        person.clicks("text=Pair this device")
        person.sees(".side .empty", "No projects yet")
    assert next(iter(Devices(own_server.data))).name == "another one"
    assert len(list(Devices(own_server.data))) == 2


@pytest.mark.thorough
async def test_over_tls_a_device_can_download_the_root_certificate(
    browser: Browser, tmp_path: Path, directory: Path
) -> None:
    """A device that does not trust the certificate yet can be paired, but it cannot turn on push notifications."""
    async with serving(tmp_path / "data", "--allow", directory.parent) as server:
        code = new_code(Devices(server.data), "run")
        address = server.url.replace("wss://", "https://").removesuffix("ws")
        with browser.person(f"{address}#pair={code}", untrusting=True) as person:
            person.sees(".connect a")
            authority = person.runs("fetch(document.querySelector('.connect a').href).then((answer) => answer.text())")
            assert authority.startswith("-----BEGIN CERTIFICATE-----")
            person.clicks("text=Pair this device")
            person.sees(".side .empty", "No projects yet")
            person.clicks(".side footer button:has-text('Settings')")
            person.clicks(".switch:has-text('Even when Drawbridge is closed')")
            person.sees(".settings .problem")
            assert person.runs("localStorage.getItem('drawbridge.push')") is None
