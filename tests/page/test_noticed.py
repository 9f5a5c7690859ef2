"""Getting noticed: the number in the title, notices and a sound where a person wants them, pushes while the page is closed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.server.notifications.test_serving import POINT
from tests.server.processes import Server

from .conftest import page_of, project_in
from .rig import Browser, Person

HIDE = "Object.defineProperty(document, 'hidden', { configurable: true, get: () => true })"
NOTICES = "navigator.serviceWorker.ready.then((worker) => worker.getNotifications())"
ENDPOINT = "https://fcm.googleapis.com/fcm/send/of-this-test"
SUBSCRIBE = f"""(() => {{
  let made;
  PushManager.prototype.subscribe = async function ({{ applicationServerKey, userVisibleOnly }}) {{
    if (!userVisibleOnly || applicationServerKey.length !== 87) throw new TypeError('not like this');
    made = {{ endpoint: '{ENDPOINT}', options: {{}}, unsubscribe: async () => (made = null, true),
      toJSON: () => ({{ endpoint: '{ENDPOINT}', keys: {{ p256dh: '{POINT}', auth: 'A'.repeat(22) }} }}) }};
    return made;
  }};
  PushManager.prototype.getSubscription = async () => made ?? null;
}})()"""
"""Chromium's own service is not to be had in a test; what the page and the server make of it is."""

NO_SERVICE = "PushManager.prototype.subscribe = async () => { throw new DOMException('no service', 'AbortError') };"

REMEMBER_NOTICES = """(() => {
  self.told = [];
  const show = ServiceWorkerRegistration.prototype.showNotification;
  ServiceWorkerRegistration.prototype.showNotification = function (title, options) {
    self.told.push([title, options.body, options.tag, options.data]);
    return show.call(this, title, options);
  };
})()"""

COUNT_SOUNDS = """(() => {
  window.sounds = 0;
  const begin = OscillatorNode.prototype.start;
  navigator.setAppBadge = async (number) => { window.badge = number; };
  OscillatorNode.prototype.start = function (...when) { window.sounds++; return begin.apply(this, when); };
})()"""


def switches(person: Person, text: str) -> None:
    person.presses("Escape")
    person.runs("document.activeElement.blur()")
    person.presses("?")
    person.clicks(f".switch:has-text('{text}')")


async def has_a_question(server: Server, project: str) -> None:
    async with server.client() as other:
        await other.ask("project_join", project_id=project)
        await other.ask("execute", {"prompt": "Something"}, project)
        await other.hear("permission_request")


async def test_a_page_that_nobody_looks_at_tells_and_rings(browser: Browser, server: Server, directory: Path) -> None:
    project = await project_in(server, directory)
    with browser.person(f"{page_of(server)}#token={server.token}") as person:
        person.sees(".project", "blog")
        switches(person, "Notify me")
        person.sees("dialog .problem", "does not allow it")
        assert person.runs("localStorage.getItem('drawbridge.notices')") is None
        person("allow", what=["notifications"], url=page_of(server))
        switches(person, "Notify me")
        person.until("localStorage.getItem('drawbridge.notices') === 'yes'")
        switches(person, "With a sound")
        person.until("localStorage.getItem('drawbridge.sound') === 'yes'")
        person.runs(f"navigator.serviceWorker.ready.then(() => {{ {HIDE}; {COUNT_SOUNDS}; {REMEMBER_NOTICES} }})")
        await has_a_question(server, project)
        person.until("document.title === '(1) Drawbridge'")
        person.until("window.badge === 1")
        person.until("window.sounds === 2")
        person.until("self.told.length > 0")
        assert person.runs("self.told") == [["blog waits for you", "A question about Edit", project, f"/#/p/{project}"]]


@pytest.mark.thorough
async def test_a_browser_asks_to_be_told_while_the_page_is_closed_and_takes_it_back_or_says_that_it_can_not(
    browser: Browser, server: Server
) -> None:
    with browser.person(page_of(server) + f"#token={server.token}") as person:
        person.sees(".side .empty", "No project yet")
        person("allow", what=["notifications"], url=page_of(server))
        person.runs("navigator.serviceWorker.ready.then(() => true)")
        person.runs(NO_SERVICE)
        switches(person, "while this page is closed")
        person.sees("dialog .problem", "no service")
        assert person.runs("localStorage.getItem('drawbridge.push')") is None
        assert person.runs("document.querySelectorAll('dialog input:checked').length") == 0
        person.runs(SUBSCRIBE)
        switches(person, "while this page is closed")
        person.until("localStorage.getItem('drawbridge.push') === 'yes'")
        [kept] = json.loads((server.data / "push.json").read_text())["subscriptions"]
        assert kept["endpoint"] == ENDPOINT
        switches(person, "while this page is closed")
        person.until("localStorage.getItem('drawbridge.push') === null")
        person.until("!document.querySelector('dialog input:disabled')")
        assert json.loads((server.data / "push.json").read_text())["subscriptions"] == []


async def test_a_push_becomes_a_notice_that_leads_to_its_project(browser: Browser, server: Server) -> None:
    said = {"title": "blog waits for you", "body": "A question about Edit", "project": "proj_1"}
    with browser.person(page_of(server)) as person:
        person("allow", what=["notifications"], url=page_of(server))
        person.runs("navigator.serviceWorker.ready.then(() => true)")
        person("worker", code=REMEMBER_NOTICES)
        person("push", data=json.dumps(said))
        while not (told := person("worker", code="self.told")):
            person.runs("new Promise((later) => setTimeout(later, 20))")
        assert told == [[said["title"], said["body"], "proj_1", "/#/p/proj_1"]]
        person.until(f"{NOTICES}.then((all) => all.length === 0)")  # it is looked at


@pytest.mark.thorough
async def test_what_is_new_is_counted_until_it_is_looked_at(browser: Browser, server: Server, directory: Path) -> None:
    project = await project_in(server, directory)
    async with server.client() as other:
        await other.ask("project_join", project_id=project)
        await other.ask("execute", {"prompt": "/quick"}, project)
        await other.hear("update", "run_finished")
        with browser.person(f"{page_of(server)}#token={server.token}") as person:
            person.sees(".project", "blog")
            assert person.reads(".unread") == [], "what was before this browser came is not new to it"
            await other.ask("execute", {"prompt": "/lines 200"}, project)
            finished = await other.hear("update", "run_finished")
            person.sees(".unread", "99+")
            person("reload")
            person.sees(".unread", "99+")
            person.clicks(".project")
            person.sees(".finished")
            person.loses(".unread")
            person.until(f"JSON.parse(localStorage.getItem('drawbridge.seen'))['{project}'] === {finished['seq']}")
