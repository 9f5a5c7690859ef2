"""Users are notified that an agent waits for them or has finished. A notification contains none of the agent's text,
except a short command that the user can allow or deny in the notification.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
import unicodedata
from collections.abc import Iterator
from email.header import decode_header, make_header
from pathlib import Path
from typing import Any

import http_ece
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from drawbridge.agents import registry
from drawbridge.agents.base import AgentLine, Proposal
from drawbridge.server.approvals.pending import with_call
from drawbridge.server.auth.devices import Devices
from drawbridge.server.auth.scopes import Identity, owner
from drawbridge.server.events import (
    Announced,
    ApprovalRequested,
    ApprovalResolved,
    Event,
    Outcome,
    PermissionWithdrawn,
    ReviewChanged,
    Risk,
    RunFinished,
    StateChanged,
)
from drawbridge.server.notifications import answer_tokens, send, web_push
from drawbridge.server.notifications.answer_tokens import Answerable, AnswerTokens
from drawbridge.server.notifications.notices import Notice, notice, push_payload, webhook_request
from drawbridge.server.notifications.send import Notifier, Sender
from drawbridge.server.notifications.web_push import OF_ONE_DEVICE, Subscription, Subscriptions, packed, unpacked
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import IN_TERMINAL
from tests.server.app.rig import summary
from tests.server.notifications.service import Service
from tests.waiting import PATIENCE, until

BLOG = Path("/home/ada/blog")
SECRET = "sk-ant-a-secret"
URGENT = Notice("proj_1", "blog needs you", "Use Edit", "appr_1")


def at_blog(event: Event, *, quiet: bool = False) -> Announced:
    return Announced("proj_1", BLOG, event, quiet=quiet)


def question(tool: str = "Edit", id: str = "appr_1") -> Announced:
    given = Raw(json.dumps({"file_path": f"/home/{SECRET}"}).encode())
    proposal = Proposal("/a", SECRET, SECRET)
    return at_blog(
        with_call(ApprovalRequested(id, "run_1", tool, given, Raw(b"[]"), proposal), registry.tools("claude"))
    )


def run_finished(outcome: Outcome) -> Announced:
    return at_blog(RunFinished(run_id="r", outcome=outcome, duration_ms=1, error=SECRET))


def review(files: int, by: str | None = None, *, added: int = 120, removed: int = 34) -> ReviewChanged:
    return ReviewChanged(
        state="open" if files else "decided", files=files, hunks=files, added=added, removed=removed, by=by
    )


def notice_of(announced: Announced, to_review: ReviewChanged | None = None) -> Notice | None:
    return notice(announced.event, announced.project_id or "", announced.path, to_review)


# the texts


def test_a_notification_shows_only_project_and_tool() -> None:
    assert notice_of(question()) == URGENT


@pytest.mark.parametrize(
    ("outcome", "expected"), [("completed", "Run finished"), ("failed", "Run failed"), ("interrupted", None)]
)
def test_users_are_notified_of_a_runs_end_unless_interrupted(outcome: Outcome, expected: str | None) -> None:
    notification = notice_of(run_finished(outcome))
    assert (notification.body if notification else None) == expected


@pytest.mark.parametrize(
    ("outcome", "changed", "expected"),
    [
        ("completed", review(7), ("blog: 7 files to review", "Run finished · +120 −34")),
        ("completed", review(1, added=0, removed=0), ("blog: 1 file to review", "Run finished")),
        ("completed", review(2000), ("blog: 2,000 files to review", "Run finished · +120 −34")),
        ("failed", review(7), ("blog", "Run failed · 7 files to review · +120 −34")),
        ("timeout", review(1), ("blog", "Run timed out · 1 file to review · +120 −34")),
        ("interrupted", review(7), None),
    ],
)
def test_a_notification_contains_the_size_of_the_review(
    outcome: Outcome, changed: ReviewChanged, expected: tuple[str, str] | None
) -> None:
    notification = notice_of(run_finished(outcome), changed)
    assert ((notification.title, notification.body) if notification else None) == expected
    if notification:
        assert json.loads(push_payload(notification))["review"] is True
        assert SECRET not in push_payload(notification).decode()


@pytest.mark.parametrize(
    "event",
    [
        StateChanged(summary("proj_1", "/code")),
        ApprovalResolved("appr_1", "Bob", "allow"),
        PermissionWithdrawn("appr_1", "the run was stopped"),
        AgentLine(b"{}"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_other_events_cause_no_notification(event: Event) -> None:
    assert notice_of(at_blog(event)) is None


def test_a_request_in_the_terminal_causes_a_notification() -> None:
    notification = notice_of(at_blog(PermissionWithdrawn("a", IN_TERMINAL)))
    assert notification is not None
    assert (notification.title, notification.body, notification.urgent) == (
        "blog needs you",
        "Answer in the agent's terminal",
        False,
    )


async def test_old_events_cause_no_notification(tmp_path: Path, sender: Sender) -> None:
    with Service().up() as ntfy:
        notifier = new_notifier(tmp_path, sender, ntfy.url)
        notifier.published(at_blog(run_finished("completed").event, quiet=True))
        notifier.published(run_finished("failed"))
        await until(lambda: bool(ntfy.posted))
    assert [body for _, body in ntfy.posted] == [b"Run failed"]


def test_names_in_notifications_are_made_safe_and_short() -> None:
    asked = question("Ba\r\nX-Evil: 1\u202e" + "h" * 500).event
    notification = notice(asked, "proj_1", Path("/home/ada/böses\r\nTags: skull"))
    assert notification is not None
    headers, body = webhook_request(notification)
    assert all(value.isascii() and value.isprintable() for value in headers.values())
    assert str(make_header(decode_header(headers["Title"]))).startswith("böses")
    assert len(body) < 200
    assert set(json.loads(push_payload(notification))) == {"title", "body", "project"}


# the owner's webhook


@pytest.fixture
def sender() -> Iterator[Sender]:
    sender = Sender(pauses=(0.01, 0.01))
    yield sender
    sender.end()
    sender.join(PATIENCE)


def new_notifier(
    data: Path,
    sender: Sender,
    webhook: str | None = None,
    patience: float = 0.0,
    host: str = "me.example",
    review_seconds: float = 0.0,
) -> Notifier:
    return Notifier(
        Subscriptions(data),
        Devices(data),
        Path,
        webhook,
        [],
        host,
        sender,
        lambda: sender,
        patience,
        review_seconds,
    )


async def test_webhook_requests_use_the_format_of_ntfy(tmp_path: Path, sender: Sender) -> None:
    with Service().up() as ntfy:
        notifier = new_notifier(tmp_path, sender, ntfy.url)
        notifier.published(question())
        await until(lambda: bool(ntfy.posted))
        notifier.published(run_finished("completed"))
        await until(lambda: len(ntfy.posted) == 2)
    (first, words), (second, _) = ntfy.posted
    assert (first["title"], first["priority"], words) == ("blog needs you", "high", b"Use Edit")
    assert (second["title"], second["priority"]) == ("blog", "default")
    assert SECRET not in str(ntfy.posted)


@pytest.mark.parametrize(
    "answered",
    [ApprovalResolved("appr_1", "Ada", "allow"), PermissionWithdrawn("appr_1", "")],
    ids=["resolved", "withdrawn"],
)
async def test_a_request_decided_quickly_causes_no_notification(
    tmp_path: Path, sender: Sender, answered: Event
) -> None:
    with Service().up() as ntfy:
        notifier = new_notifier(tmp_path, sender, ntfy.url, patience=0.05)
        notifier.published(question())
        notifier.published(question("Bash", "appr_2"))
        notifier.published(at_blog(answered))
        await until(lambda: bool(ntfy.posted))
        notifier.published(run_finished("completed"))
        await until(lambda: len(ntfy.posted) == 2)
    assert [body for _, body in ntfy.posted] == [b"Use Bash", b"Run finished"]


async def test_a_failing_service_is_retried_and_a_refusal_is_not(
    tmp_path: Path, sender: Sender, caplog: pytest.LogCaptureFixture
) -> None:
    with Service(503, 429, 200, 500, 500, 500, 403, 302, 200).up() as ntfy:
        notifier = new_notifier(tmp_path, sender, f"{ntfy.url}?auth={SECRET}")
        for number in range(5):
            notifier.published(question(id=f"appr_{number}"))
        await until(lambda: len(ntfy.posted) == 9)
        assert ntfy.answers == [200], "3 to the first, 3 to the second, 1 to each of the others"
        assert ntfy.fetched == []
    assert "the webhook was not notified: the service responded with HTTP 500" in caplog.text
    assert "the webhook was not notified: the service responded with HTTP 403" in caplog.text
    assert "the webhook was not notified: the service responded with HTTP 302" in caplog.text, (
        "notifications are not sent to another address"
    )
    assert SECRET not in caplog.text


async def test_a_service_that_hangs_does_not_block_the_server(
    tmp_path: Path, sender: Sender, caplog: pytest.LogCaptureFixture
) -> None:
    hangs, going = threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        going.wait(PATIENCE)

    sender.do("a service", "one that hangs", hang)
    assert hangs.wait(PATIENCE)
    began = time.monotonic()
    for number in range(150):
        sender.do("a service", f"number {number}", lambda: None)
    assert time.monotonic() - began < PATIENCE / 2
    assert "number 149 was not notified: too many notifications are waiting" in caplog.text
    going.set()


# the review after a run

LONG = 600.0
"""Longer than any test waits, in seconds."""


def titles(service: Service) -> list[str]:
    return [headers["title"] for headers, _ in service.posted]


async def test_the_end_of_a_run_waits_for_the_review(tmp_path: Path, sender: Sender) -> None:
    """One notification reports the end and the review. A review of another project is not included."""
    with Service().up() as ntfy:
        notifier = new_notifier(tmp_path, sender, ntfy.url, review_seconds=LONG)
        notifier.published(run_finished("completed"))
        notifier.published(Announced("proj_2", BLOG, review(3)))
        notifier.published(at_blog(review(7)))
        notifier.published(at_blog(review(8)))  # the files were compared again
        notifier.published(question())
        await until(lambda: len(ntfy.posted) == 2)
    assert titles(ntfy) == ["blog: 7 files to review", "blog needs you"]
    assert ntfy.posted[0][1].decode() == "Run finished · +120 −34"


async def test_without_a_review_the_notification_is_sent_anyway(tmp_path: Path, sender: Sender) -> None:
    """For example, git is not installed, or the checkpoint takes too long."""
    with Service().up() as ntfy:
        notifier = new_notifier(tmp_path, sender, ntfy.url, review_seconds=0.05)
        notifier.published(run_finished("completed"))
        await until(lambda: bool(ntfy.posted))
        notifier.published(at_blog(review(7)))
        notifier.published(question())
        await until(lambda: len(ntfy.posted) == 2)
    assert titles(ntfy) == ["blog", "blog needs you"]
    assert ntfy.posted[0][1] == b"Run finished"


async def test_an_unchanged_review_is_in_the_notification(tmp_path: Path, sender: Sender) -> None:
    with Service().up() as ntfy:
        notifier = new_notifier(tmp_path, sender, ntfy.url, review_seconds=0.05)
        notifier.published(at_blog(review(7)))
        notifier.published(at_blog(review(2, by="Ada")))
        notifier.published(run_finished("completed"))
        await until(lambda: bool(ntfy.posted))
    assert titles(ntfy) == ["blog: 2 files to review"]


async def test_a_decided_review_is_not_in_the_notification(tmp_path: Path, sender: Sender) -> None:
    """A decision does not end the wait for the review, since the run may have left more changes."""
    with Service().up() as ntfy:
        notifier = new_notifier(tmp_path, sender, ntfy.url, review_seconds=0.05)
        notifier.published(at_blog(review(7)))
        notifier.published(run_finished("completed"))
        notifier.published(at_blog(review(0, by="Ada")))
        await until(lambda: bool(ntfy.posted))
        notifier.published(run_finished("failed"))
        notifier.published(at_blog(review(0, by="Ada")))
        notifier.published(at_blog(review(1)))
        await until(lambda: len(ntfy.posted) == 2)
    assert [(headers["title"], body.decode()) for headers, body in ntfy.posted] == [
        ("blog", "Run finished"),
        ("blog", "Run failed · 1 file to review · +120 −34"),
    ]


async def test_two_runs_before_a_review_cause_two_notifications(tmp_path: Path, sender: Sender) -> None:
    """The notification of the second run contains the review."""
    with Service().up() as ntfy:
        notifier = new_notifier(tmp_path, sender, ntfy.url, review_seconds=LONG)
        notifier.published(run_finished("failed"))
        notifier.published(run_finished("completed"))
        notifier.published(at_blog(review(7)))
        await until(lambda: len(ntfy.posted) == 2)
    assert titles(ntfy) == ["blog", "blog: 7 files to review"]


async def test_only_devices_that_see_the_project_get_its_review(tmp_path: Path, sender: Sender) -> None:
    devices, notifier = Devices(tmp_path), new_notifier(tmp_path, sender, review_seconds=LONG)
    for name, project in (("confined", "/home/ada/blog"), ("elsewhere", "/srv")):
        devices.add(name, "view", [project])
    ids = {device.name: device.id for device in devices}
    seeing, other = Browser(), Browser()
    with Service(201).up() as service:
        subscribed(notifier, other, f"{service.url}/elsewhere", ids["elsewhere"])
        subscribed(notifier, seeing, f"{service.url}/confined", ids["confined"])
        notifier.published(run_finished("completed"))
        notifier.published(at_blog(review(7)))
        notifier.published(question())
        await until(lambda: len(service.posted) == 2)
    assert seeing.reads(service.posted[0][1]) == {
        "title": "blog: 7 files to review",
        "body": "Run finished · +120 −34",
        "project": "proj_1",
        "review": True,
    }
    assert seeing.reads(service.posted[1][1])["title"] == URGENT.title


# Web Push


class Browser:
    """A browser with the keys of its subscription."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.auth = b"0123456789abcdef"

    def subscription(self, endpoint: str, device_id: str | None = None) -> Subscription:
        point = self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return Subscription(endpoint, packed(point), packed(self.auth), device_id)

    def reads(self, body: bytes) -> Any:
        return json.loads(http_ece.decrypt(body, private_key=self.key, auth_secret=self.auth))


def subscribed(
    notifier: Notifier, browser: Browser, url: str, device_id: str | None = None, *, actions: bool = False
) -> None:
    """Adds a subscription without checking its address, since the tests' service is a plain HTTP service on this
    machine.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(notifier.subscriptions, "_checked", lambda new: new)
        notifier.subscriptions.add(replace(browser.subscription(url, device_id), actions=actions))


async def test_a_push_is_encrypted_for_its_browser_and_signed(tmp_path: Path, sender: Sender) -> None:
    browser, notifier = Browser(), new_notifier(tmp_path, sender)
    with Service(201).up() as service:
        subscribed(notifier, browser, service.url)
        notifier.published(question())
        await until(lambda: bool(service.posted))
    [(headers, body)] = service.posted
    assert browser.reads(body) == {"title": URGENT.title, "body": URGENT.body, "project": "proj_1"}
    assert headers["urgency"] == "high"
    assert 60 <= int(headers["ttl"]) <= 86_400
    [claims, key] = headers["authorization"].removeprefix("vapid t=").split(",k=")
    assert key == notifier.subscriptions.public_key
    assert json.loads(unpacked(claims.split(".")[1]))["sub"] == "https://me.example"


@pytest.mark.parametrize(
    ("public", "host", "expected"),
    [
        ([], "vm", "vm.invalid"),
        ([], "localhost", "localhost.invalid"),
        ([], "Ada's laptop", "Ada-s-laptop.invalid"),
        ([], "my_box", "my-box.invalid"),
        ([], "böx", "b-x.invalid"),
        ([], "", "drawbridge.invalid"),
        ([], "box.example", "box.example"),
        (["box", "::1", "agents.example"], "vm", "agents.example"),
        (["192.168.1.7"], "vm", "192.168.1.7"),
    ],
)
def test_the_contact_is_accepted_by_py_vapid(public: list[str], host: str, expected: str) -> None:
    """py-vapid refuses names without a dot, and most host names have none."""
    contact = web_push.contact(public, host)
    assert contact == expected
    key = packed(ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value.to_bytes(32, "big"))
    browser = Browser().subscription("https://fcm.googleapis.com/x")
    headers, _ = web_push.request(browser, b"{}", urgent=True, key=key, contact=contact)
    claims = json.loads(unpacked(headers["Authorization"].partition("t=")[2].split(".")[1]))
    assert claims["sub"] == f"https://{expected}"
    assert claims["aud"] == "https://fcm.googleapis.com"
    assert time.time() < claims["exp"] <= time.time() + 86_400


async def test_pushes_work_if_the_host_name_has_no_dot(tmp_path: Path, sender: Sender) -> None:
    browser, notifier = Browser(), new_notifier(tmp_path, sender, host="vm")
    with Service(201).up() as service:
        subscribed(notifier, browser, service.url)
        notifier.published(question())
        await until(lambda: bool(service.posted))
    assert browser.reads(service.posted[0][1])["title"] == URGENT.title


async def test_a_push_service_that_refuses_is_reported_as_a_problem(tmp_path: Path, sender: Sender) -> None:
    """For example, Apple's service may refuse a private host name. The problem ends when the subscription expires."""
    notifier = new_notifier(tmp_path, sender)
    with Service(403, 410, 201).up() as service:
        subscribed(notifier, Browser(), service.url)
        notifier.published(question())
        await until(lambda: bool(notifier.problems()))
        [problem] = notifier.problems()
        assert "the service responded with HTTP 403" in problem
        assert "--public-host" in problem
        assert "a-topic" not in problem, "the address is the browser's"
        notifier.published(question())
        await until(lambda: not list(notifier.subscriptions))
        await until(lambda: notifier.problems() == [])


async def test_a_push_is_not_redirected(tmp_path: Path, sender: Sender, caplog: pytest.LogCaptureFixture) -> None:
    notifier = new_notifier(tmp_path, sender)
    with Service(302).up() as service:
        subscribed(notifier, Browser(), service.url)
        notifier.published(question())
        await until(lambda: "was not notified: the service responded with HTTP 302" in caplog.text)
    assert len(service.posted) == 1
    assert service.fetched == []


async def test_a_silent_push_service_does_not_delay_the_webhook(tmp_path: Path) -> None:
    """Ten subscriptions use a service that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as deaf, Service().up() as ntfy:
        notifier = Notifier(
            Subscriptions(tmp_path), Devices(tmp_path), Path, ntfy.url, [], "vm", patience=0.0, review_seconds=0.0
        )
        try:
            for number in range(10):
                subscribed(notifier, Browser(), f"http://127.0.0.1:{deaf.getsockname()[1]}/{number}")
            notifier.published(run_finished("completed"))
            notifier.published(run_finished("failed"))
            await until(lambda: len(ntfy.posted) == 2)
        finally:
            notifier.end()


async def test_a_silent_push_service_delays_no_other_device(tmp_path: Path) -> None:
    """Otherwise, a device with the `view` scope could subscribe with such addresses, so that the owner is not notified
    in time."""
    tv, _ = Devices(tmp_path).add("tv", "view")
    with socket.create_server(("127.0.0.1", 0)) as deaf, Service(201).up() as service:
        notifier = Notifier(
            Subscriptions(tmp_path), Devices(tmp_path), Path, None, [], "vm", patience=0.0, review_seconds=0.0
        )
        try:
            for number in range(OF_ONE_DEVICE):
                subscribed(notifier, Browser(), f"http://127.0.0.1:{deaf.getsockname()[1]}/{number}", tv.id)
            subscribed(notifier, Browser(), service.url)
            notifier.published(question())
            await until(lambda: bool(service.posted))
        finally:
            notifier.end()


async def test_a_failing_push_service_delays_no_other_browser(tmp_path: Path) -> None:
    """The browsers belong to the same device. The one whose service fails gets its notifications in order, so its
    second one waits until the first was tried again."""
    sender = Sender(pauses=(LONG,))
    notifier = new_notifier(tmp_path, sender)
    with Service(503, 201).up() as failing, Service(201, 201).up() as working:
        try:
            subscribed(notifier, Browser(), failing.url)
            subscribed(notifier, Browser(), working.url)
            notifier.published(question())
            await until(lambda: bool(working.posted))
            notifier.published(question(id="appr_2"))
            await until(lambda: len(working.posted) == 2)
            assert len(failing.posted) == 1
        finally:
            sender.end()
            sender.join(PATIENCE)


async def test_a_device_without_a_thread_affects_no_other(
    tmp_path: Path, sender: Sender, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Agents that start many processes may use up the system's limit of threads. Once there is room again, the device is
    notified, too."""
    tv, _ = Devices(tmp_path).add("tv", "view")
    new = Sender()
    sender.do("another", "another", lambda: None)  # starts its thread
    notifier = Notifier(
        Subscriptions(tmp_path),
        Devices(tmp_path),
        Path,
        None,
        [],
        "vm",
        new_sender=iter([new, sender]).__next__,
        patience=0.0,
    )

    def full(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def notify() -> None:
        notifier.published(at_blog(PermissionWithdrawn("a", IN_TERMINAL)))

    with Service(201).up() as first, Service(201).up() as second:
        subscribed(notifier, Browser(), first.url, tv.id)
        subscribed(notifier, Browser(), second.url)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", full)
            notify()
        await until(lambda: bool(second.posted))
        assert first.posted == []
        assert "was not notified: can't start new thread" in caplog.text
        notify()
        await until(lambda: bool(first.posted))
    new.end()
    new.join(PATIENCE)


async def test_an_expired_subscription_is_removed(tmp_path: Path, sender: Sender) -> None:
    notifier = new_notifier(tmp_path, sender)
    with Service(410).up() as service:
        subscribed(notifier, Browser(), service.url)
        notifier.published(question())
        await until(lambda: not list(notifier.subscriptions))
    assert len(service.posted) == 1
    assert list(Subscriptions(tmp_path)) == []


def test_subscriptions_are_synced_before_they_replace_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, an empty file could replace the list of browsers and the server's key in a power failure."""
    calls: list[str] = []
    fsync, replace_file = os.fsync, os.replace

    def synced(file: int) -> None:
        calls.append("sync")
        fsync(file)

    def replaced(old: str, new: str) -> None:
        calls.append(Path(new).name)
        replace_file(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    Subscriptions(tmp_path).add(Browser().subscription("https://fcm.googleapis.com/owner"))
    assert calls == ["sync", web_push.FILE]


def test_the_owners_subscriptions_end_with_the_token(tmp_path: Path) -> None:
    """Otherwise, a lost phone on which the owner had signed in would still get each notification, and could decide. The
    subscriptions of devices are kept, because their own tokens are still valid."""
    subscriptions = Subscriptions(tmp_path, "hash of the first token")
    subscriptions.add(Browser().subscription("https://fcm.googleapis.com/owner"))
    subscriptions.add(Browser().subscription("https://fcm.googleapis.com/phone", "phone"))
    restarted = Subscriptions(tmp_path, "hash of the first token")
    assert [one.device_id for one in restarted] == [None, "phone"]
    for _ in range(2):
        assert [one.device_id for one in Subscriptions(tmp_path, "hash of the second token")] == ["phone"]


def test_the_owners_subscriptions_survive_an_upgrade(tmp_path: Path) -> None:
    """An earlier version did not store the token's hash. It is stored at the first start of this version."""
    Subscriptions(tmp_path).add(Browser().subscription("https://fcm.googleapis.com/owner"))
    file = tmp_path / web_push.FILE
    stored = json.loads(file.read_text())
    del stored["owner"]
    file.write_text(json.dumps(stored))
    assert len(list(Subscriptions(tmp_path, "hash of the first token"))) == 1
    assert len(list(Subscriptions(tmp_path, "hash of the first token"))) == 1
    assert list(Subscriptions(tmp_path, "hash of the second token")) == []


async def test_only_devices_with_access_are_notified(tmp_path: Path, sender: Sender) -> None:
    devices, notifier = Devices(tmp_path), new_notifier(tmp_path, sender)
    for name, projects in (("confined", ["/home/ada/blog"]), ("elsewhere", ["/srv"]), ("lost", None)):
        devices.add(name, "view", projects)
    ids = {device.name: device.id for device in devices}
    devices.revoke("lost")
    with Service(201).up() as service:
        for name, id in ids.items():
            subscribed(notifier, Browser(), f"{service.url}/{name}", id)
        notifier.published(question())
        notifier.published(run_finished("completed"))
        await until(lambda: len(service.posted) == 2)
        devices.revoke("confined")
        notifier.published(run_finished("failed"))
        notifier.published(at_blog(review(0)))  # nothing to review, so the notification is sent immediately
        subscribed(notifier, Browser(), f"{service.url}/owner")
        notifier.published(run_finished("failed"))
        await until(lambda: len(service.posted) == 3)
        assert service.answers == [201]


@pytest.mark.parametrize("how", ["revoked", "unsubscribed"])
async def test_a_push_that_waits_is_dropped_with_its_access(tmp_path: Path, sender: Sender, how: str) -> None:
    """A push waits for minutes if the device's push service does not respond."""
    devices, notifier = Devices(tmp_path), new_notifier(tmp_path, sender)
    phone, _ = devices.add("phone", "view")
    is_busy, may_end, is_over = threading.Event(), threading.Event(), threading.Event()

    def busy() -> None:
        is_busy.set()
        may_end.wait(PATIENCE)

    with Service(201).up() as service:
        subscribed(notifier, Browser(), f"{service.url}/phone", phone.id)
        sender.do(f"{service.url}/phone", "the phone", busy)
        await until(is_busy.is_set)
        notifier.published(at_blog(PermissionWithdrawn("a", IN_TERMINAL)))
        if how == "revoked":
            devices.revoke("phone")
        else:
            notifier.subscriptions.remove(f"{service.url}/phone")
        sender.do(f"{service.url}/phone", "the phone", is_over.set)
        may_end.set()
        await until(is_over.is_set)
    assert service.posted == []


async def test_a_damaged_device_file_does_not_stop_notifications(tmp_path: Path, sender: Sender) -> None:
    devices, notifier = Devices(tmp_path), new_notifier(tmp_path, sender)
    device, _ = devices.add("phone", "view")
    with Service(201).up() as service:
        subscribed(notifier, Browser(), service.url, device.id)
        notifier.published(run_finished("completed"))
        notifier.published(at_blog(review(0)))  # nothing to review, so the notification is sent immediately
        (tmp_path / "devices.json").write_text("{")
        notifier.published(run_finished("failed"))
        await until(lambda: len(service.posted) == 2)


def test_the_key_is_created_on_first_use_and_is_private(tmp_path: Path) -> None:
    subscriptions = Subscriptions(tmp_path)
    assert not (tmp_path / "push.json").exists()
    key = subscriptions.public_key
    assert (tmp_path / "push.json").stat().st_mode & 0o777 == 0o600
    assert Subscriptions(tmp_path).public_key == key
    assert len(unpacked(key)) == 65


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://fcm.googleapis.com/fcm/send/x",
        "https://127.0.0.1/x",
        "https://fcm.googleapis.com.evil.example/x",
        "https://evilfcm.googleapis.com@10.0.0.1/x",
        "https://fcm.googleapis.com:22/x",
        "https://xfcm.googleapis.com/x",
        "https://[::1",
        "",
        "https://fcm.googleapis.com/" + "x" * 3000,
        "https://127.0.0.77\\.fcm.googleapis.com/admin/delete?x=1",
        "https://127.0.0.77/\\.fcm.googleapis.com/",
        "https:\\\\127.0.0.77\\fcm.googleapis.com/",
        "https://127.0.0.77#.fcm.googleapis.com/x",
        "https://127.0.0.77?.fcm.googleapis.com/x",
        "https://127.0.0.77%2f.fcm.googleapis.com/x",
        "https://ada:secret@fcm.googleapis.com/x",
        "https://@fcm.googleapis.com/x",
        "https://fcm.googleapis.com./x",
        "https://.fcm.googleapis.com/x",
        "https://a..fcm.googleapis.com/x",
        "https://fcm.googleapis.com:/x",
        "https://fcm.googleapis.com:0443/x",
        "https://fcm.googleapis.com:443:22/x",
        "https://fcm.googleapis.com\t/x",
        "https://fcm.goo\ngleapis.com/x",
        "https://fcm.googleapis.com/x\r\nHost: 127.0.0.1",
        "https://fcm.googleapis.com/x\n",
        " https://fcm.googleapis.com/x",
        "https://fcm.googleapis.com/x y",
        "https://fcm.googleapis.com/\x00",
        "https://fcm.googleapis.com/x#y",
        "https://fcm.googleapis.com",
        "https:///fcm.googleapis.com/x",
        "https://2130706433/x",
        "https://0x7f.1/x",
        "https://[::ffff:127.0.0.1]/x",
        "https://[fcm.googleapis.com]/x",
        "https://\uff46cm.googleapis.com/x",
        "https://fcm\u3002googleapis.com/x",
        "https://x_y.fcm.googleapis.com/x",
        "HTTPS://fcm.googleapis.com/x",
        "https://FCM.googleapis.com/x",
        "//fcm.googleapis.com/x",
        "file:///fcm.googleapis.com/x",
    ],
)
def test_only_addresses_of_push_services_are_accepted(tmp_path: Path, endpoint: str) -> None:
    subscriptions = Subscriptions(tmp_path)
    with pytest.raises(ClientError, match="endpoint"):
        subscriptions.add(Browser().subscription(endpoint))
    assert list(subscriptions) == []
    assert not (tmp_path / "push.json").exists()


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://fcm.googleapis.com/fcm/send/c4Zk:APA91b_x-Y~=%3D?a=1&b=2",
        "https://updates.push.services.mozilla.com/wpush/v2/gAAAAABk",
        "https://web.push.apple.com/QGuQyavXutnMH5",
        "https://db5p.notify.windows.com/w/?token=BQYAAAD%2bk",
    ],
)
def test_the_four_push_services_are_accepted(tmp_path: Path, endpoint: str) -> None:
    subscriptions = Subscriptions(tmp_path)
    subscriptions.add(Browser().subscription(endpoint))
    assert [one.endpoint for one in Subscriptions(tmp_path)] == [endpoint]


def test_an_endpoint_is_stored_in_its_normalized_form(tmp_path: Path) -> None:
    subscriptions = Subscriptions(tmp_path)
    subscriptions.add(Browser().subscription("https://fcm.googleapis.com:443/x"))
    assert [one.endpoint for one in subscriptions] == ["https://fcm.googleapis.com/x"]


def test_an_endpoint_stored_by_an_earlier_version_is_checked(tmp_path: Path) -> None:
    good, bad = "https://fcm.googleapis.com/x", "https://127.0.0.77\\.fcm.googleapis.com/x"
    subscriptions = Subscriptions(tmp_path)
    subscriptions.add(Browser().subscription(good))
    subscriptions.add(Browser().subscription("https://fcm.googleapis.com/bad"))
    file = tmp_path / "push.json"
    file.write_text(file.read_text().replace("https://fcm.googleapis.com/bad", bad.replace("\\", "\\\\")))
    assert [one.endpoint for one in Subscriptions(tmp_path)] == [good]


@pytest.mark.parametrize("point", [b"", b"\4" + b"\0" * 64, b"\4" + b"\1" * 64, b"\4" * 64])
def test_an_unusable_push_key_is_refused(tmp_path: Path, point: bytes) -> None:
    subscriptions = Subscriptions(tmp_path)
    with pytest.raises(ClientError, match="p256dh"):
        subscriptions.add(Subscription("https://fcm.googleapis.com/x", packed(point), packed(b"0" * 16), None))
    assert list(subscriptions) == []


def test_a_devices_oldest_subscription_is_replaced(tmp_path: Path) -> None:
    subscriptions = Subscriptions(tmp_path)
    others = Browser().subscription("https://updates.push.services.mozilla.com/other", "another")
    subscriptions.add(others)
    for number in [*range(OF_ONE_DEVICE + 2), OF_ONE_DEVICE]:
        subscriptions.add(Browser().subscription(f"https://fcm.googleapis.com/{number}"))
    kept = list(Subscriptions(tmp_path))
    assert kept[0] == others
    assert [one.endpoint.rpartition("/")[2] for one in kept[1:]] == [*map(str, range(2, 10)), "11", "10"]


def test_a_damaged_file_is_replaced_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "push.json").write_text("{")
    assert list(Subscriptions(tmp_path)) == []
    assert "browsers have to subscribe to notifications again" in caplog.text


def test_the_text_of_an_approval_is_its_summary() -> None:
    notification = notice_of(at_blog(replace(question().event, summary="Edit a file")))
    assert (notification and notification.body) == "Edit a file"


# decisions in notifications


def shell(given: Any, tool: str = "Bash", **more: Any) -> Announced:
    asked = ApprovalRequested("appr_1", "run_1", tool, Raw(json.dumps(given).encode()), Raw(b"[]"), **more)
    return at_blog(with_call(asked, registry.tools("claude")))


@pytest.mark.parametrize("command", ["npm test", "git push && make deploy", "a" * 120, "echo ü"])
async def test_a_short_command_can_be_decided_in_its_notification(tmp_path: Path, sender: Sender, command: str) -> None:
    wants, plain = Browser(), Browser()
    notifier = new_notifier(tmp_path, sender)
    with Service(201).up() as one, Service(201).up() as two:
        subscribed(notifier, wants, one.url, actions=True)
        subscribed(notifier, plain, two.url)
        notifier.published(shell({"command": command, "description": "Runs it"}))
        await until(lambda: bool(one.posted and two.posted))
    shown = wants.reads(one.posted[0][1])
    assert identity_of(notifier, shown.pop("token")) == ("approve", ("proj_1", "appr_1"))
    assert shown == {
        "title": "blog needs you",
        "body": command,
        "project": "proj_1",
        "approval_id": "appr_1",
        "whole": True,
    }
    assert plain.reads(two.posted[0][1])["body"] == "Use Bash"


@pytest.mark.parametrize(
    "asked",
    [
        shell({"command": "a" * 121}),
        shell({"command": "ls\nrm -rf ~"}),
        shell({"command": "ls \u202e fr- mr"}),
        shell({"command": "ls \u200b"}),
        shell({"command": "ls\x1b[2K"}),
        shell({"command": "cp א/1/2/ב x && echo א -9 1234 5678 ב"}),
        shell({"command": "echo ع 1 2 3 ع"}),
        shell({"command": "echo ٣ - ٤"}),
        shell({"command": "echo a\u0301"}),
        shell({"command": "echo a\ufe0f"}),
        shell({"command": "echo \u2800 x"}),
        shell({"command": "echo \u3164x"}),
        shell({"command": "echo \ufffcx"}),
        shell({"command": f"ls{' ' * 90}; python evil.py"}),
        shell({"command": "ls  -l"}),
        shell({"command": " ls"}),
        shell({"command": ""}),
        shell({"command": ["ls"]}),
        shell({}),
        shell([]),
        shell({"command": "ls", "run_in_background": True}),
        shell({"command": "ls", "dangerouslyDisableSandbox": True}),
        shell({"command": "ls"}, tool="mcp__x__run"),
        shell({"command": "ls"}, tool="Monitor"),
        at_blog(ApprovalRequested("appr_1", "run_1", "Bash", Raw(b'{"command": "ls"}'), Raw(b"[]"))),
        shell({"command": "ls"}, link_targets={"a": "b"}),
        shell({"command": "ls"}, blocked_path="/etc"),
        shell({"command": "sudo ls"}, risks=(Risk("sudo", "Runs as root", "command"),)),
        question(),
    ],
)
def test_a_command_not_shown_completely_has_no_actions(asked: Announced) -> None:
    found = notice_of(asked)
    assert found is not None
    assert found.command == ""
    assert json.loads(push_payload(found)).keys() == {"title", "body", "project"}


STRANGE = st.sampled_from(list("\u202e\u200b\u0301\ufe0f\u2800\u3164\ufffc\u05d0\u0663\x1b\n\r\t\xa0\x85\u2028\ud800"))
TEXTS = st.text(st.sampled_from("ab /&-~") | STRANGE | st.characters(), max_size=130)
VALUES = TEXTS | st.lists(TEXTS, max_size=2) | st.booleans() | st.none()
FIELDS = st.sampled_from(["command", "description", "timeout", "run_in_background"]) | TEXTS


@given(
    given=st.fixed_dictionaries({"command": TEXTS}) | st.dictionaries(FIELDS, VALUES, max_size=4) | VALUES,
    tool=st.sampled_from(["Bash", "Bash", "Bash", "Edit", "mcp__x__run"]),
    blocked_path=st.none() | TEXTS,
    proposal=st.none() | st.just(Proposal("/a", "", "evil")),
)
@example({"command": "npm test", "description": "Runs it"}, "Bash", None, None)
@settings(max_examples=500)
def test_a_notification_can_only_decide_what_it_fully_shows(
    given: Any, tool: str, blocked_path: str | None, proposal: Proposal | None
) -> None:
    """It has actions only for a short shell command without characters that could hide a part of it."""
    found = notice_of(shell(given, tool, blocked_path=blocked_path, proposal=proposal))
    assert found is not None
    payload = json.loads(push_payload(found, "token" if found.command else None))
    if "token" in payload:
        body = payload["body"]
        assert (tool, blocked_path or None, proposal) == ("Bash", None, None)
        assert [value for field, value in given.items() if field != "description"] == [body]
        assert 0 < len(body) <= 120
        assert "  " not in f" {body} "  # blanks can't move a part of the command out of view
        assert {unicodedata.category(one)[0] for one in body} <= set("LNPSZ")
        assert {unicodedata.bidirectional(one) for one in body}.isdisjoint({"R", "AL", "AN"})


async def test_only_a_device_that_may_decide_gets_actions(tmp_path: Path, sender: Sender) -> None:
    """A device that may only view gets no actions, even if it asked for them. The webhook never gets the command."""
    notifier = new_notifier(tmp_path, sender)
    tv, _ = Devices(tmp_path).add("tv", "view")
    phone, _ = Devices(tmp_path).add("phone", "approve")
    on_tv, on_phone = Browser(), Browser()
    with Service(201).up() as one, Service(201).up() as two:
        subscribed(notifier, on_tv, one.url, tv.id, actions=True)
        subscribed(notifier, on_phone, two.url, phone.id, actions=True)
        notifier.published(shell({"command": SECRET}))
        await until(lambda: bool(one.posted and two.posted))
    assert "whole" not in on_tv.reads(one.posted[0][1])
    assert on_phone.reads(two.posted[0][1])["whole"] is True
    found = notice_of(shell({"command": SECRET}))
    assert found is not None
    assert SECRET not in str(webhook_request(found))


def identity_of(notifier: Notifier, token: str) -> tuple[str, tuple[str, str] | None] | None:
    found = notifier.identify(token)
    return (found.scope, found.only) if found is not None else None


async def token_of_push(notifier: Notifier, device_id: str | None) -> str:
    """Subscribes a browser of the device and sends it a notification. Returns the token in the notification."""
    browser = Browser()
    with Service(201).up() as service:
        subscribed(notifier, browser, service.url, device_id, actions=True)
        notifier.published(shell({"command": "npm test"}))
        await until(lambda: bool(service.posted))
    return str(browser.reads(service.posted[0][1])["token"])


async def test_a_notifications_token_is_revoked_with_its_device(tmp_path: Path, sender: Sender) -> None:
    notifier = new_notifier(tmp_path, sender)
    phone, _ = Devices(tmp_path).add("phone", "run")
    token = await token_of_push(notifier, phone.id)
    assert identity_of(notifier, token) == ("approve", ("proj_1", "appr_1"))
    assert identity_of(notifier, token + "x") is None
    Devices(tmp_path).revoke("phone")
    assert identity_of(notifier, token) is None


async def test_a_notifications_token_is_revoked_with_its_subscription(tmp_path: Path, sender: Sender) -> None:
    notifier = new_notifier(tmp_path, sender)
    token = await token_of_push(notifier, None)
    assert identity_of(notifier, token) == ("approve", ("proj_1", "appr_1"))
    [one] = notifier.subscriptions
    notifier.subscriptions.remove(one.endpoint)
    assert identity_of(notifier, token) is None


async def test_a_notifications_token_is_revoked_with_its_actions(tmp_path: Path, sender: Sender) -> None:
    notifier = new_notifier(tmp_path, sender)
    token = await token_of_push(notifier, None)
    [one] = notifier.subscriptions
    subscribed(notifier, Browser(), one.endpoint, actions=False)
    assert identity_of(notifier, token) is None


async def test_the_token_of_a_notification_expires(
    tmp_path: Path, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_tokens, "SECONDS", 0.0)
    notifier = new_notifier(tmp_path, sender)
    assert identity_of(notifier, await token_of_push(notifier, None)) is None


def test_only_the_latest_tokens_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_tokens, "MOST", 2)
    tokens, about = AnswerTokens(), Answerable("proj_1", "appr_1", "https://x", None)
    first, second, third = (tokens.issue(about) for _ in range(3))
    assert [tokens.find(one) for one in (first, second, third)] == [None, about, about]


def test_a_subscription_of_an_earlier_version_has_no_actions(tmp_path: Path) -> None:
    subscriptions = Subscriptions(tmp_path)
    subscriptions.add(Browser().subscription("https://fcm.googleapis.com/x"))
    file = tmp_path / web_push.FILE
    kept = json.loads(file.read_text())
    del kept["subscriptions"][0]["actions"]
    file.write_text(json.dumps(kept))
    [found] = Subscriptions(tmp_path)
    assert found.actions is False


# a test notification


async def test_a_test_notification_reports_the_services_response(
    tmp_path: Path, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send, "TEST_PAUSE", 0.0)
    browser, notifier = Browser(), new_notifier(tmp_path, sender)
    with Service(201, 403, 410).up() as service:
        subscribed(notifier, browser, service.url)
        [own] = notifier.subscriptions
        assert await notifier.test(own) is None
        assert browser.reads(service.posted[0][1])["body"] == "Notifications work."
        problem = await notifier.test(own) or ""
        assert problem.endswith(": the service responded with HTTP 403.")
        assert "a-topic" not in problem, "the address is the browser's"
        assert "has expired" in (await notifier.test(own) or "")
    assert list(notifier.subscriptions) == []


async def test_a_failed_test_notification_is_not_a_server_problem(tmp_path: Path, sender: Sender) -> None:
    """Otherwise, any device with the `view` scope could cause a problem by subscribing with an address that a push
    service refuses, and testing it.
    """
    notifier = new_notifier(tmp_path, sender)
    with Service(403).up() as service:
        subscribed(notifier, Browser(), service.url, "tv")
        [own] = notifier.subscriptions
        assert "403" in (await notifier.test(own) or "")
    assert notifier.problems() == []


async def test_a_service_that_is_no_longer_used_is_not_a_problem(tmp_path: Path, sender: Sender) -> None:
    notifier = new_notifier(tmp_path, sender)
    with Service(403).up() as service:
        subscribed(notifier, Browser(), service.url)
        notifier.published(run_finished("completed"))
        await until(lambda: bool(notifier.problems()))
        [own] = notifier.subscriptions
        notifier.subscriptions.remove(own.endpoint)
    assert notifier.problems() == []


async def test_a_device_sends_one_test_notification_at_a_time(
    tmp_path: Path, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send, "TEST_PAUSE", 10 * PATIENCE)
    notifier = new_notifier(tmp_path, sender)
    with Service(201).up() as service:
        subscribed(notifier, Browser(), service.url, "tv")
        subscribed(notifier, Browser(), service.url + "2", "phone")
        on_tv, on_phone = notifier.subscriptions
        results = await asyncio.gather(
            *(notifier.test(on_tv) for _ in range(5)), notifier.test(on_phone), return_exceptions=True
        )
        assert [one for one in results if one is None] == [None, None]
        refused = [one for one in results if isinstance(one, ClientError)]
        assert [one.code for one in refused] == ["RATE_LIMITED"] * 4
        with pytest.raises(ClientError, match="Try again in 15 s"):
            await notifier.test(on_tv)
    assert len(service.posted) == 2


async def test_test_notifications_use_their_own_thread(
    tmp_path: Path, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Test notifications are sent in the thread for notifications, because the server's other threads are shared by
    everything that reads files, and a push service may take many seconds.
    """
    notifier, names = new_notifier(tmp_path, sender), []
    monkeypatch.setattr(send, "post", lambda *_: names.append(threading.current_thread().name))
    subscribed(notifier, Browser(), "http://127.0.0.1:1/a-topic")
    [own] = notifier.subscriptions
    assert await notifier.test(own) is None
    assert names == ["notices"]


async def test_a_test_notification_that_waits_too_long_is_reported(
    tmp_path: Path, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send, "TEST_SECONDS", 0.01)
    notifier, may_end = new_notifier(tmp_path, sender), threading.Event()

    def busy() -> None:
        may_end.wait(PATIENCE)

    sender.do("another", "another", busy)
    with Service(201).up() as service:
        subscribed(notifier, Browser(), service.url)
        [own] = notifier.subscriptions
        assert "has not responded yet" in (await notifier.test(own) or "")
        may_end.set()
        await until(lambda: bool(service.posted))


async def test_a_test_notification_fails_if_too_many_are_waiting(
    tmp_path: Path, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    notifier, may_end = new_notifier(tmp_path, sender), threading.Event()
    is_busy = threading.Event()

    def busy() -> None:
        is_busy.set()
        may_end.wait(PATIENCE)

    sender.do("another", "another", busy)
    await until(is_busy.is_set)
    subscribed(notifier, Browser(), "http://127.0.0.1:1/a-topic")
    [own] = notifier.subscriptions
    while sender.do(own.endpoint, "another", busy):
        pass
    assert "Too many notifications are waiting" in (await notifier.test(own) or "")
    may_end.set()


def test_a_device_can_test_only_its_own_subscription(tmp_path: Path) -> None:
    subscriptions, url = Subscriptions(tmp_path), "https://fcm.googleapis.com/x"
    subscriptions.add(Browser().subscription(url, "phone"))
    phone = Identity(name="phone", scope="view", device_id="phone")
    assert subscriptions.own(url, phone) is not None
    assert subscriptions.own(url, owner("ada")) is None
    assert subscriptions.own(url, replace(phone, device_id="tv")) is None
    assert subscriptions.own(url, replace(phone, device_id=None, key="SHA256:x")) is None
    assert subscriptions.own(url + "y", phone) is None
    assert subscriptions.own("http://127.0.0.1/", phone) is None
