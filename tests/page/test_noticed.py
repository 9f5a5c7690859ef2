"""Notifications: the number in the title, notifications and sounds if the user wants them, and push notifications."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from drawbridge.server.auth.scopes import Identity
from drawbridge.server.auth.scopes import owner as identity
from drawbridge.server.notifications.send import Notifier
from tests.server.auth import rig as access_rig
from tests.server.notifications.test_serving import POINT
from tests.server.processes import Server
from tests.server.wire_client import WireClient
from tests.waiting import PATIENCE

from .conftest import page_of, project_in
from .rig import Browser, Person

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser that shows notifications."""
    browser = Browser(whole=True)
    yield browser
    browser.close()


HIDE = """(() => {
  Object.defineProperty(document, 'hidden', { configurable: true, get: () => true });
  window.requestAnimationFrame = () => 0;
})()"""
"""Simulates a tab in the background, which draws no frames."""

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
"""Replaces the browser's push service, which tests can't use."""

NO_SERVICE = "PushManager.prototype.subscribe = async () => { throw new DOMException('no service', 'AbortError') };"

REMEMBER_NOTICES = """(() => {
  self.shown = [];
  self.displayed = [];
  const show = ServiceWorkerRegistration.prototype.showNotification;
  ServiceWorkerRegistration.prototype.showNotification = function (title, options) {
    self.shown.push([title, options.body, options.tag, options.data.address]);
    self.buttons = (options.actions ?? []).map(({ title }) => title);
    return show.call(this, title, options).then(() => void self.displayed.push(options.data.answer?.token));
  };
})()"""

COUNT_SOUNDS = """(() => {
  window.sounds = 0;
  const begin = OscillatorNode.prototype.start;
  navigator.setAppBadge = async (number) => { window.badge = number; };
  OscillatorNode.prototype.start = function (...when) { window.sounds++; return begin.apply(this, when); };
})()"""


def switches(person: Person, text: str) -> None:
    person.runs("location.hash = '#/settings'")
    person.clicks(f".switch:has-text('{text}')")


async def has_a_question(server: Server, project: str) -> None:
    async with server.client() as other:
        await other.ask("project_join", project_id=project)
        await other.ask("execute", {"prompt": "Something"}, project)
        await other.receive("permission_request")


async def test_a_hidden_web_ui_notifies_and_plays_a_sound(browser: Browser, server: Server, directory: Path) -> None:
    project = await project_in(server, directory)
    with browser.person(f"{page_of(server)}#token={server.token}", worker=True) as person:
        person.sees(".side", "blog")
        switches(person, "When an agent needs you")
        person.sees(".settings .problem", "blocked for this site")
        assert person.runs("localStorage.getItem('drawbridge.notices')") is None
        person("allow", what=["notifications"], url=page_of(server))
        switches(person, "When an agent needs you")
        person.until("localStorage.getItem('drawbridge.notices') === 'yes'")
        switches(person, "Play a sound")
        person.until("localStorage.getItem('drawbridge.sound') === 'yes'")
        person.runs(f"navigator.serviceWorker.ready.then(() => {{ {HIDE}; {COUNT_SOUNDS}; {REMEMBER_NOTICES} }})")
        await has_a_question(server, project)
        person.until("document.title === '(1) Drawbridge'")
        person.until("window.badge === 1")
        person.until("window.sounds === 2")
        person.until("self.shown.length > 0")
        assert person.runs("self.shown") == [["blog needs you", "Edit a file", project, f"/#/p/{project}"]]


@pytest.mark.thorough
async def test_push_notifications_can_be_turned_on_and_off(browser: Browser, server: Server) -> None:
    """If the browser cannot subscribe, the settings show the reason and the switch stays off."""
    with browser.person(page_of(server) + f"#token={server.token}", worker=True) as person:
        person.sees(".side .empty", "No projects yet")
        person("allow", what=["notifications"], url=page_of(server))
        person.runs("navigator.serviceWorker.ready.then(() => true)")
        person.runs(NO_SERVICE)
        switches(person, "Even when Drawbridge is closed")
        person.sees(".settings .problem", "no service")
        assert person.runs("localStorage.getItem('drawbridge.push')") is None
        assert person.runs("document.querySelectorAll('.settings section:first-child input:checked').length") == 0
        person.runs(SUBSCRIBE)
        switches(person, "Even when Drawbridge is closed")
        person.until("localStorage.getItem('drawbridge.push') === 'yes'")
        [kept] = json.loads((server.data / "push.json").read_text())["subscriptions"]
        assert kept["endpoint"] == ENDPOINT
        switches(person, "Even when Drawbridge is closed")
        person.until("localStorage.getItem('drawbridge.push') === null")
        person.until("!document.querySelector('.settings input:disabled')")
        assert json.loads((server.data / "push.json").read_text())["subscriptions"] == []


async def test_a_push_shows_a_notification_that_opens_its_project(browser: Browser, server: Server) -> None:
    notice = {"title": "blog needs you", "body": "Edit a file", "project": "proj_1"}
    with browser.person(page_of(server), worker=True) as person:
        person("allow", what=["notifications"], url=page_of(server))
        person.runs("navigator.serviceWorker.ready.then(() => true)")
        person("worker", code=REMEMBER_NOTICES)
        person("push", data=json.dumps(notice))
        until_worker(person, "self.shown.length > 0")
        assert person("worker", code="self.shown") == [[notice["title"], notice["body"], "proj_1", "/#/p/proj_1"]]
        assert person("worker", code="self.buttons") == []
        person.until(f"{NOTICES}.then((all) => all.length === 0)")  # closed, because the web UI is visible


async def test_a_push_about_a_review_opens_the_review(browser: Browser, server: Server) -> None:
    notice = {
        "title": "blog: 7 files to review",
        "body": "Run finished · +120 −34",
        "project": "proj_1",
        "review": True,
    }
    with browser.person(page_of(server), worker=True) as person:
        person("allow", what=["notifications"], url=page_of(server))
        person.runs("navigator.serviceWorker.ready.then(() => true)")
        person("worker", code=REMEMBER_NOTICES)
        person("push", data=json.dumps(notice))
        until_worker(person, "self.shown.length > 0")
        assert person("worker", code="self.shown") == [
            [notice["title"], notice["body"], "proj_1", "/#/p/proj_1/review"]
        ]


@pytest.mark.thorough
async def test_only_a_test_notification_stays_if_the_web_ui_is_open(browser: Browser, server: Server) -> None:
    with browser.person(page_of(server), worker=True) as person:
        person("allow", what=["notifications"], url=page_of(server))
        person.runs("navigator.serviceWorker.ready.then(() => true)")
        person("worker", code=REMEMBER_NOTICES)
        for project, title in (("test", "Drawbridge"), ("proj_1", "blog needs you")):
            person("push", data=json.dumps({"title": title, "body": "", "project": project}))
        until_worker(person, "self.shown.length > 1")
        person.until(f"{NOTICES}.then((shown) => shown.map(({{ title }}) => title).join() === 'Drawbridge')")
        assert [address for *_, address in person("worker", code="self.shown")] == ["/", "/#/p/proj_1"]


NOBODY_LOOKS = "self.clients.matchAll = async () => []; ExtendableEvent.prototype.waitUntil = () => {}"
"""Keeps notifications open although the web UI is visible. `waitUntil` would throw for events that a test creates."""

PRESS = """self.registration.getNotifications().then((shown) => {
  const notification = shown.find(({ data }) => data.answer?.token === 'TOKEN');
  if (!notification) return false;
  self.dispatchEvent(new NotificationEvent('notificationclick', { notification, action: 'ACTION' }));
  return true;
})"""


def until_worker(person: Person, code: str) -> None:
    """Waits until the code returns a true value in the service worker."""
    end = time.monotonic() + PATIENCE
    while not person("worker", code=code):
        assert time.monotonic() < end, person("worker", code="self.shown")
        person.runs("new Promise((later) => setTimeout(later, 20))")


def presses(person: Person, token: str, action: str) -> None:
    """Presses a button of the notification with this token once it is displayed, because Chromium ignores earlier
    presses."""
    until_worker(person, f"self.displayed.includes({token!r})")
    until_worker(person, PRESS.replace("TOKEN", token).replace("ACTION", action))


async def asks(owner: WireClient, server: access_rig.Server) -> tuple[str, str]:
    """Creates a project with an open approval request. Returns the ids of both."""
    project = await server.project(owner)
    await owner.ask("project_join", project_id=project)
    await owner.ask("execute", {"prompt": "please change"}, project)
    asked = await owner.receive("permission_request")
    return project, asked["data"]["approval_id"]


@pytest.mark.slow_for("deny")
@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_a_notification_accepts_or_rejects_once(
    browser: Browser, tmp_path: Path, decision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token in the push is enough. A second answer is refused, with the name of the device that answered first."""
    only: list[Identity] = []

    def notified(notifier: Notifier, token: str) -> Identity | None:
        return only[0] if token in ("first", "second") else None

    monkeypatch.setattr(Notifier, "identify", notified)
    async with access_rig.serving(tmp_path) as server, server.client() as owner:
        project, approval = await asks(owner, server)
        only.append(replace(identity(""), scope="approve", only=(project, approval)))
        push = {
            "title": "code needs you",
            "body": "npm test",
            "project": project,
            "approval_id": approval,
            "whole": True,
        }

        def answers() -> None:
            with browser.person(f"http://127.0.0.1:{server.port}/", worker=True) as person:
                person("allow", what=["notifications"], url=f"http://127.0.0.1:{server.port}/")
                person.runs("navigator.serviceWorker.ready.then(() => true)")
                person("worker", code=f"{REMEMBER_NOTICES}; {NOBODY_LOOKS}")
                for token, problem in (("first", ""), ("second", "has already answered"), ("wrong", "no longer work")):
                    person("push", data=json.dumps({**push, "token": token}))
                    presses(person, token, decision)
                    if not problem:
                        assert decided.wait(PATIENCE)
                        assert person("worker", code="self.buttons") == ["Accept", "Reject"]
                        continue
                    until_worker(person, f"self.shown.some(([, body]) => body.includes({problem!r}))")
                    assert person("worker", code="self.buttons") == []

        decided = threading.Event()
        walking = asyncio.create_task(asyncio.to_thread(answers))
        resolved = (await owner.receive("update", "permission_resolved"))["data"]["data"]
        decided.set()
        await walking
        assert (resolved["by"], resolved["decision"]) == ("Chrome on Linux", decision)


BREAKS = """(() => {
  const { send } = WebSocket.prototype;
  WebSocket.prototype.send = function (text) {
    send.call(this, text);
    if (JSON.parse(text).type === 'TYPE') this.close();
  };
})()"""


@pytest.mark.slow_for("before it")
@pytest.mark.parametrize(
    ("last", "title", "reason"),
    [
        ("auth", "Your answer was not recorded", "The server can’t be reached. Open Drawbridge to answer."),
        (
            "permission_response",
            "Your answer may not have been recorded",
            "The connection was lost. Open Drawbridge to see whether your answer arrived.",
        ),
    ],
    ids=["before it", "after it"],
)
def test_a_notification_reports_that_an_answer_may_be_lost(
    browser: Browser, server: Server, last: str, title: str, reason: str
) -> None:
    """The connection is lost before the answer is sent, or afterwards, before the result arrives."""
    push = {"title": "blog needs you", "body": "npm test", "project": "p", "approval_id": "a", "whole": True}
    with browser.person(page_of(server), worker=True) as person:
        person("allow", what=["notifications"], url=page_of(server))
        person.runs("navigator.serviceWorker.ready.then(() => true)")
        person("worker", code=f"{REMEMBER_NOTICES}; {NOBODY_LOOKS}; {BREAKS.replace('TYPE', last)}")
        person("push", data=json.dumps({**push, "token": server.token}))
        presses(person, server.token, "allow")
        until_worker(person, "self.shown.length > 1")
        notice = person("worker", code="self.shown")[-1]
        assert notice == [title, reason, "a", "/#/p/p"]
        assert person("worker", code="self.buttons") == []


@pytest.mark.slow
async def test_a_session_is_marked_unread_until_it_is_opened(browser: Browser, server: Server, directory: Path) -> None:
    project = await project_in(server, directory)
    async with server.client() as other:
        await other.ask("project_join", project_id=project)
        await other.ask("execute", {"prompt": "/quick"}, project)
        await other.receive("update", "run_finished")
        with browser.person(f"{page_of(server)}#token={server.token}", worker=True) as person:
            person.sees(".side", "blog")
            assert person.reads(".unread") == [], "what was before this browser came is not new to it"
            await other.ask("execute", {"prompt": "/lines 200"}, project)
            finished = await other.receive("update", "run_finished")
            person.sees(".unread")
            person("reload")
            person.sees(".unread")
            person.clicks(".project")
            person.sees(".finished")
            person.loses(".unread")
            person.until(f"JSON.parse(localStorage.getItem('drawbridge.seen'))['{project}'] === {finished['seq']}")
