"""The settings of the web UI: devices, pairing with a QR code, appearance, and usage."""

from __future__ import annotations

import json
import socket
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.auth.devices import Devices, new_code, redeem
from tests import programs
from tests.server.processes import Server

from .conftest import page_of, project_in
from .rig import Browser, Person
from .test_approving import ACCEPT, asks, edit
from .test_noticed import ENDPOINT, SUBSCRIBE

pytestmark = pytest.mark.thorough


def opens_settings(person: Person) -> None:
    person.sees(".side")
    person.goes_to("#/settings")
    person.sees(".settings")


async def test_s3_34_a_phone_is_paired_from_the_web_ui(browser: Browser, own_server: Server, directory: Path) -> None:
    await project_in(own_server, directory)
    with browser.person(f"{page_of(own_server)}#token={own_server.token}", width=1440, height=900) as person:
        opens_settings(person)
        person.clicks("button:has-text('Pair a device')")
        person.clicks("dialog label:has-text('View only')")
        person.clicks("button:has-text('Create code')")
        person.sees(".qr")
        fills = "['light', 'dark'].map((one) => getComputedStyle(document.querySelector(`.qr .${one}`)).fill)"
        assert person.runs(fills) == ["rgb(255, 255, 255)", "rgb(0, 0, 0)"]
        assert person("axe", file=str(programs.axe())) == []
        code = person.reads(".pair-code code")[0].replace("-", "")
        with browser.person(f"{page_of(own_server)}#pair={code}", width=390, height=844) as phone:
            phone.fills("#device", "Ada's phone")
            phone.clicks("text=Pair this device")
            phone.sees(".side", "blog")
            person.clicks("dialog button:has-text('Done')")
            person.sees(".devices li", "Ada's phone")
            person.sees(".devices small", "View only · connected")
            person.clicks(".devices button:has-text('Revoke')")
            person.sees("dialog", "Revoke “Ada's phone”?")
            person.clicks("dialog button:has-text('Revoke')")
            person.sees(".settings", "No devices are paired")
            phone.sees(".connect", "")
        assert [device.revoked is None for device in Devices(own_server.data)] == [False]


def test_what_a_revoked_device_paired_can_be_revoked(browser: Browser, own_server: Server) -> None:
    """Whoever stole a phone for a minute may have paired another device with it."""
    devices = Devices(own_server.data)
    stolen, _ = devices.add("stolen", "admin")
    redeem(devices, new_code(devices, "admin", maker=stolen.identity), "laptop")
    with browser.person(f"{page_of(own_server)}#token={own_server.token}") as person:
        opens_settings(person)
        person.sees(".devices li:last-child small", "paired by stolen")
        person.clicks(".devices li:first-child button")
        person.sees("dialog", "Revoke “stolen”?")
        person.clicks("dialog button:has-text('Revoke')")
        person.sees("dialog", "Devices that it paired still have access: “laptop”.")
        person.clicks("dialog button:has-text('Revoke')")
        person.sees(".settings", "No devices are paired")
    assert [device.revoked is None for device in devices] == [False, False]


def test_a_device_with_a_limited_scope_cannot_manage_others(browser: Browser, own_server: Server) -> None:
    token = Devices(own_server.data).add("Ada's phone", "run")[1]
    with browser.person(f"{page_of(own_server)}#token={token}") as person:
        opens_settings(person)
        person.sees(".settings", "This device is “Ada's phone”. Run agents.")
        assert person("visible", css=".devices") is False
        assert person("visible", css="button:has-text('Pair a device')") is False


def test_a_device_shows_when_it_was_last_seen(browser: Browser, own_server: Server) -> None:
    """Tested before the device has connected and after it has disconnected. The server's machine and version are shown,
    too.
    """
    devices = Devices(own_server.data)
    token = devices.add("Ada's phone", "view")[1]
    with browser.person(f"{page_of(own_server)}#token={own_server.token}") as person:
        opens_settings(person)
        person.sees(".devices small", "View only · never used")
        with browser.person(f"{page_of(own_server)}#token={token}") as phone:
            phone.sees(".side")
        while not any(
            "last seen" in text for text in person.reads(".devices small")
        ):  # the server may notice a closed connection only later
            person("reload")
            opens_settings(person)
            person.sees(".devices small", "View only")
        about = dict(zip(person.reads(".facts dt"), person.reads(".facts dd"), strict=True))
        assert about["Server"] == socket.gethostname()
        assert about["Address"] == page_of(own_server).split("/")[2]
        assert about["Version"] == version("drawbridge")


async def test_a_test_notification_has_the_chosen_buttons(browser: Browser, server: Server) -> None:
    """The push service's answer is shown. Buttons in notifications are off by default."""
    with browser.person(f"{page_of(server)}#token={server.token}", worker=True) as person:
        person("allow", what=["notifications"], url=page_of(server))
        opens_settings(person)
        person.runs("navigator.serviceWorker.ready.then(() => true)")
        assert not person("visible", css="button:has-text('Send a test notification')"), "no browser has subscribed"
        person.runs(SUBSCRIBE)
        person.clicks(".switch:has-text('Even when Drawbridge is closed')")
        person.sees("button:has-text('Send a test notification')")
        assert subscription(server)["actions"] is False
        person.sees(".switch-row:has-text('Accept or reject in the notification') .hint", "even on a locked screen")
        person.clicks(".switch:has-text('Accept or reject in the notification')")
        person.until("localStorage.getItem('drawbridge.actions') === 'yes'")
        assert subscription(server)["actions"] is True
        person.runs(ANSWERS.replace("ANSWER", "{ accepted: true }"))
        person.clicks("button:has-text('Send a test notification')")
        person.sees(".settings [role=status]", "Sent. It appears in a few seconds.")
        assert person.runs("self.asked") == {"endpoint": ENDPOINT}
        person.runs(ANSWERS.replace("ANSWER", "{ accepted: false, problem: 'The subscription has expired.' }"))
        person.clicks("button:has-text('Send a test notification')")
        person.sees(".settings .problem", "The subscription has expired.")
        person.loses(".settings [role=status]", "Sent.")


def subscription(server: Server) -> dict[str, Any]:
    [kept] = json.loads((server.data / "push.json").read_text())["subscriptions"]
    found: dict[str, Any] = kept
    return found


ANSWERS = """(() => {
  self.send ??= WebSocket.prototype.send;
  WebSocket.prototype.send = function (text) {
    const { type, request_id, data } = JSON.parse(text);
    if (type !== 'push_test') return self.send.call(this, text);
    self.asked = data;
    const answer = { type: 'push_tested', request_id, data: ANSWER };
    this.dispatchEvent(new MessageEvent('message', { data: JSON.stringify(answer) }));
  };
})()"""
"""Answers in place of the server, which would contact a push service on the internet."""


def test_the_theme_and_the_key_settings_are_kept(browser: Browser, server: Server) -> None:
    with browser.person(f"{page_of(server)}#token={server.token}") as person:
        opens_settings(person)
        person.clicks("label:has-text('Dark')")
        person.until("document.documentElement.dataset.theme === 'dark'")
        person.clicks(".switch:has-text('Single-key shortcuts')")
        person("reload")
        person.until("document.documentElement.dataset.theme === 'dark'")
        opens_settings(person)
        assert person.runs("localStorage.getItem('drawbridge.setting.keys')") == "off"
        person.clicks("label:has-text('System')")
        person.until("document.documentElement.dataset.theme === undefined")


def test_the_diff_settings_apply_immediately(browser: Browser, address: str, directory: Path) -> None:
    """They also apply to diffs in the history, without a reload."""
    with browser.person(address, width=1440, height=900) as person:
        asks(person, edit(directory / "notes.md", "up", "down"))
        person.clicks(ACCEPT)
        person.sees(".finished")
        here = person.runs("location.hash")
        for shown, changed in (("split", "One column"), ("unified", "Side by side")):
            person.clicks(".tool > summary:has-text('Edited')")
            person.sees(f".tool-body .diff{':not(.unwrapped)' if shown == 'split' else '.unwrapped'} table.{shown}")
            opens_settings(person)
            person.clicks(f"label:has-text('{changed}')")
            person.clicks(".switch:has-text('Wrap long lines')")
            person.goes_to(here)
            person.sees("#prompt")
        person.clicks(".tool > summary:has-text('Edited')")
        person.sees(".tool-body .diff:not(.unwrapped) table.split")


@pytest.mark.slow
async def test_usage_is_shown_by_project_and_day(browser: Browser, server: Server, directory: Path) -> None:
    project = await project_in(server, directory)
    async with server.client() as client:
        await client.ask("project_join", project_id=project)
        for _ in range(2):
            await client.ask("execute", {"prompt": "/quick"}, project)
            await client.receive("update", "run_finished")
        used = (await client.ask("usage"))["data"]["rows"]
    tokens = sum(row["input_tokens"] + row["output_tokens"] for row in used)
    cost = sum(row["cost_usd"] for row in used)
    for width, height in ((1440, 900), (320, 640)):
        with browser.person(f"{page_of(server)}#token={server.token}", width=width, height=height) as person:
            opens_settings(person)
            person.sees(".usage caption", "By project")
            person.sees(".usage tbody th", "blog")
            person.sees(".usage caption", "By day")
            assert person.reads(".usage tr:has(th:has-text('blog')) td") == ["2", f"{tokens}", f"${cost:.4f}"]
            runs = person.reads(".usage:has(caption:has-text('By day')) td:nth-child(2)")
            assert sum(map(int, runs)) == 2
            assert person("axe", file=str(programs.axe())) == []


def test_signing_out_forgets_the_token(browser: Browser, server: Server) -> None:
    with browser.person(f"{page_of(server)}#token={server.token}") as person:
        opens_settings(person)
        person.clicks("button:has-text('Sign out')")
        person.clicks("dialog button:has-text('Sign out')")
        person.sees("#token")
        assert person.runs("localStorage.getItem('drawbridge.token')") is None


def test_signing_out_signs_out_the_other_windows(
    browser: Browser, server: Server, address: str, directory: Path
) -> None:
    """Nothing that they have loaded can be reached. Signing in again in one of them signs in the others, too."""
    with browser.person(address) as person, browser.person(page_of(server), beside=person) as other:
        asks(person, edit(directory / "notes.md", "up", "down"))
        other.until("document.title === '(1) Drawbridge'")
        opens_settings(other)
        other.clicks("button:has-text('Sign out')")
        other.sees("dialog", "Sign out?")
        opens_settings(person)
        person.clicks("button:has-text('Sign out')")
        person.clicks("dialog button:has-text('Sign out')")
        other.sees(".connect .problem", "This browser was signed out in another window.")
        other.until("document.documentElement.dataset.connection === 'idle'")
        other.until("document.title === 'Drawbridge'")
        assert not other("visible", css="dialog")
        other.presses("Control+k")
        person.fills("#token", server.token)
        person.clicks("text=Connect")
        other.sees(".settings")
        assert not other("visible", css="dialog"), "the list of sessions is not open"


def test_a_window_that_was_frozen_is_signed_out(browser: Browser, server: Server) -> None:
    """Meanwhile, it got no events from the others."""
    with browser.person(f"{page_of(server)}#token={server.token}") as person:
        opens_settings(person)
        person.runs("localStorage.removeItem('drawbridge.token')")  # only other windows get an event
        person.runs("void document.dispatchEvent(new Event('visibilitychange'))")
        person.sees(".connect .problem", "This browser was signed out in another window.")
