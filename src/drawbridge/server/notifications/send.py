"""Sends notifications: by Web Push to the browsers that subscribed, and to the owner's webhook.

The webhook and each device with browsers have their own thread, so that a service that does not answer delays only the
other browsers of the same device. A failed notification is retried at most twice, if that may help. Meanwhile, its
thread sends to the device's other browsers. If too many are waiting, further ones are dropped and logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

import msgspec

from drawbridge.server.auth.devices import Devices
from drawbridge.server.auth.scopes import DECIDES, Identity, owner
from drawbridge.server.events import Announced, ReviewChanged, RunFinished
from drawbridge.server.notifications.answer_tokens import Answerable, AnswerTokens
from drawbridge.server.notifications.notices import Notice, closed, notice, push_payload, webhook_request
from drawbridge.server.notifications.web_push import Subscription, Subscriptions, contact, request
from drawbridge.server.protocol.client_errors import ClientError

PAUSES: Final = (2.0, 10.0)
"""Seconds before the second and the third try."""

PATIENCE: Final = 3.0
"""Seconds that a user has to answer an approval request, for example in an open web UI, before notifications are
sent."""

REVIEW_SECONDS: Final = 3.0
"""The maximum number of seconds that the notification of a run's end waits for the review's counts, which follow
the checkpoint after the run."""

TIMEOUT: Final = 10.0
WAITING: Final = 100
"""The maximum number of notifications that wait for each recipient."""

TEST_SECONDS: Final = 15.0
"""The maximum number of seconds that a user waits for the result of a test."""

TEST_PAUSE: Final = 5.0
"""The minimum number of seconds between the end of a device's test and its next test."""

TEST: Final = "test"
"""Replaces the id of the project in a test notification. The web UI keeps such a notification although the user is
looking at it."""

GONE: Final = (404, 410)
"""HTTP statuses that mean that the subscription has ended."""

logger = logging.getLogger("drawbridge.server")


class Failed(Exception):
    """A service did not accept a notification. ``again``: whether a retry may help. ``status``: the status of the
    HTTP response; 0 without a response."""

    def __init__(self, text: str, *, again: bool, status: int = 0) -> None:
        super().__init__(text)
        self.again = again
        self.status = status


class _Line:
    """The notifications that wait for one recipient, in order, each with its description for the log. ``due``: when the
    first may be sent, on the monotonic clock. ``failed``: how many tries to send it have failed."""

    def __init__(self) -> None:
        self.due = time.monotonic()
        self.failed = 0
        self.waiting: deque[tuple[str, Callable[[], None]]] = deque()

    def hold(self, seconds: float) -> None:
        """Delays the first notification, which could not be sent."""
        self.due = time.monotonic() + seconds
        self.failed += 1

    def drop(self) -> None:
        """Removes the first notification, which was sent or will not be sent."""
        self.due = time.monotonic()
        self.failed = 0
        self.waiting.popleft()


class Sender:
    """A thread that sends notifications, one at a time. A recipient gets them in order. While one waits for its next
    try, the other recipients get theirs."""

    def __init__(self, pauses: tuple[float, ...] = PAUSES) -> None:
        self._pauses = pauses
        self._lines: dict[str, _Line] = {}
        """The recipients for which notifications wait."""
        self._changed = threading.Condition()
        """Protects ``_lines`` and ``_is_ended``, and is notified of their changes."""
        self._is_ended = False
        self._thread: threading.Thread | None = None

    def do(self, to: str, what: str, send: Callable[[], None]) -> bool:
        """Queues a call to ``send``, which raises ``Failed`` if it fails. If ``WAITING`` others wait for the same
        recipient ``to``, or the thread can't be started, drops the call and logs that. Returns whether it was queued.
        Never waits for a service. ``what``: the recipient, for the log. It must not contain secrets."""
        if self._thread is None:
            # This is not a thread of the event loop's executor, because the server waits for such threads when it ends.
            thread = threading.Thread(target=self._work, name="notices", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # The system's limit of threads is reached. Devices that already have a thread are still notified.
                logger.error("%s was not notified: %s", what, error)
                return False
            self._thread = thread
        with self._changed:
            line = self._lines.setdefault(to, _Line())
            is_full = len(line.waiting) >= WAITING
            if not is_full:
                line.waiting.append((what, send))
                self._changed.notify()
        if is_full:
            logger.error(
                "%s was not notified: too many notifications are waiting for a service that is slow or unreachable",
                what,
            )
        return not is_full

    def end(self) -> None:
        """Drops the queued notifications. A request in progress is not interrupted."""
        with self._changed:
            self._is_ended = True
            self._changed.notify()

    def join(self, seconds: float) -> None:
        """Waits until the thread has ended, at most this many seconds."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _work(self) -> None:
        while (to := self._next()) is not None:
            self._try(to)

    def _next(self) -> str | None:
        """Waits until a notification may be sent. Returns its recipient; None after the end."""
        with self._changed:
            while not self._is_ended:
                to = min(self._lines, key=lambda one: self._lines[one].due, default=None)
                seconds = self._lines[to].due - time.monotonic() if to is not None else None
                if seconds is not None and seconds <= 0:
                    return to
                self._changed.wait(seconds)
        return None

    def _try(self, to: str) -> None:
        """Sends the recipient's first notification. If that fails and a retry may help, the notification waits."""
        line = self._lines[to]  # only this thread removes it
        what, send = line.waiting[0]
        pause: float | None = None
        try:
            send()
        except Failed as error:
            pause = self._pauses[line.failed] if error.again and line.failed < len(self._pauses) else None
            if pause is None:
                logger.error("%s was not notified: %s", what, error)
        except Exception:
            logger.exception("internal error: %s was not notified", what)
        with self._changed:
            if pause is not None:
                line.hold(pause)
                return
            line.drop()
            if not line.waiting:
                del self._lines[to]


class Notifier:
    """Notifies users about approval requests and the ends of runs, with the changes to review. ``public`` and ``host``:
    names of this machine, for the contact address that push services receive. ``new_sender`` makes the sender for a
    device.
    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        devices: Devices,
        leads_to: Callable[[Path], Path],
        webhook: str | None,
        public: Sequence[str],
        host: str,
        sender: Sender | None = None,
        new_sender: Callable[[], Sender] = Sender,
        patience: float = PATIENCE,
        review_seconds: float = REVIEW_SECONDS,
    ) -> None:
        self.subscriptions = subscriptions
        self._devices = devices
        self._leads_to = leads_to
        self._webhook = webhook
        self._contact = contact(public, host)
        self._public = tuple(public)
        self._sender = sender or Sender()
        self._new_sender = new_sender
        self._push_senders: dict[str | None, Sender] = {}
        """The senders to the browsers of each device. The key None is the owner's."""
        self._is_ended = False
        self._patience = patience
        self._review_seconds = review_seconds
        self._tokens = AnswerTokens()
        self._refused: dict[str, str] = {}
        """The push services that permanently refused a push and have not accepted one since, with the reasons."""
        self._next_tests: dict[str | None, float] = {}
        """The times from which each device may send another test, on the monotonic clock; infinite during a test. The
        key None is the owner's."""
        self._questions: dict[str, asyncio.TimerHandle] = {}
        """The timers of approval requests that have not caused a notification yet, by approval id."""
        self._ends: dict[str, tuple[asyncio.TimerHandle, Announced]] = {}
        """The ends of runs that wait for the review's counts, by project."""
        self._reviews: dict[str, ReviewChanged] = {}
        """The latest counts of the open reviews, by project."""

    def published(self, announced: Announced) -> None:
        """The "notices" receiver of the event bus. Never blocks."""
        event, directory, project_id = announced.event, announced.path, announced.project_id or ""
        if isinstance(event, ReviewChanged):
            self._review_is(project_id, event)
        if announced.quiet or (not self._webhook and not any(True for _ in self.subscriptions)):
            return
        answered = self._questions.pop(closed(event) or "", None)
        if answered is not None:
            answered.cancel()
        notification = notice(event, project_id, directory)
        if notification is None:
            return
        if notification.urgent:
            later = asyncio.get_running_loop().call_later(self._patience, self._notify, notification, directory)
            self._questions[notification.approval_id] = later
        elif isinstance(event, RunFinished):
            self._run_ended(project_id, announced)
        else:
            self._notify(notification, directory)

    def _run_ended(self, project_id: str, announced: Announced) -> None:
        """Delays the notification of a run's end, because the checkpoint after the run is not complete yet. The
        notification is also delayed if the run has no checkpoint, since the review may be open because of earlier runs,
        or because somebody opened it during this one.
        """
        self._notify_of_end(project_id)  # the previous run's notification must not be lost
        loop = asyncio.get_running_loop()
        later = loop.call_later(self._review_seconds, self._notify_of_end, project_id)
        self._ends[project_id] = later, announced

    def _review_is(self, project_id: str, review: ReviewChanged) -> None:
        self._reviews.pop(project_id, None)
        if review.state == "open":
            self._reviews[project_id] = review
        if review.by is None:  # the counts are not from a decision, but from what the run has left to review
            self._notify_of_end(project_id)

    def _notify_of_end(self, project_id: str) -> None:
        """Sends the notification of a run's end, if one is waiting."""
        if project_id not in self._ends:
            return
        later, announced = self._ends.pop(project_id)
        later.cancel()
        notification = notice(announced.event, project_id, announced.path, self._reviews.get(project_id))
        if notification is not None:
            self._notify(notification, announced.path)

    def _notify(self, notification: Notice, directory: Path) -> None:
        self._questions.pop(notification.approval_id, None)
        if self._is_ended:
            return
        if self._webhook:
            send = partial(post, self._webhook, *webhook_request(notification))
            self._sender.do(self._webhook, "the webhook", send)
        for browser in self._wanting(directory):
            self._do(browser, partial(self._push, browser, notification, directory))

    def _do(self, browser: Subscription, send: Callable[[], None]) -> bool:
        """Queues a call to ``send`` in the thread of the browser's device, so that services that do not answer can't
        delay other devices: any device may subscribe with addresses of such services. Returns whether it was queued."""
        sender = self._push_senders.get(browser.device_id)
        if sender is None:
            sender = self._new_sender()
            self._push_senders[browser.device_id] = sender
        return sender.do(browser.endpoint, f"a browser through {browser.service}", send)

    async def test(self, browser: Subscription) -> str | None:
        """Sends a test notification, without retries. Returns the problem, as a human-readable sentence; None if the
        push service accepted the notification. Raises ``ClientError`` if the device sends tests too often.

        Any device may send a test, so a test that fails is not counted among the server's ``problems``.
        """
        wait = self._next_tests.get(browser.device_id, 0.0) - time.monotonic()
        if wait > 0:
            seconds = math.ceil(min(wait, TEST_SECONDS))
            text = f"A test was sent just now. Try again in {seconds} s."
            raise ClientError("RATE_LIMITED", text, details={"retry_after": seconds})
        self._next_tests[browser.device_id] = math.inf
        loop, result = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

        def report(problem: str | None) -> None:
            if not result.done():
                result.set_result(problem)

        def send() -> None:
            problem = self._tested(browser)
            with contextlib.suppress(RuntimeError):  # the event loop has ended
                loop.call_soon_threadsafe(report, problem)

        try:
            if not self._do(browser, send):
                return "Too many notifications are waiting for push services that are slow or unreachable. Try again later."
            return await asyncio.wait_for(result, TEST_SECONDS)
        except TimeoutError:
            return f"The push service {browser.service} has not responded yet. The notification may still arrive."
        finally:
            self._next_tests[browser.device_id] = time.monotonic() + TEST_PAUSE

    def _tested(self, browser: Subscription) -> str | None:
        """Sends the test notification, in the sender's thread. Returns the problem; None if the push service accepted
        the notification.
        """
        try:
            self._post(browser, Notice(TEST, "Drawbridge", "Notifications work."))
        except Failed as error:
            return f"The notification could not be sent through {browser.service}: {error}."
        except Exception:
            logger.exception("internal error: a test notification was not sent")
            return "The server could not send the notification. See the server's log for the reason."
        if browser not in list(self.subscriptions):
            return "This browser's push subscription has expired. Turn notifications off and on again."
        return None

    def identify(self, token: str) -> Identity | None:
        """The identity for a notification's token: its device's identity, limited to one approval request. None if the
        token is not valid, the browser has unsubscribed, its user has turned off actions in notifications, or its
        device may no longer decide.
        """
        found = self._tokens.find(token)
        if found is None or not any(one.endpoint == found.endpoint and one.actions for one in self.subscriptions):
            return None
        identity = owner("") if found.device_id is None else self._devices.identity_of(found.device_id)
        if identity is None or not identity.may(DECIDES):
            return None
        return msgspec.structs.replace(identity, scope=DECIDES, only=(found.project_id, found.approval_id))

    def problems(self) -> list[str]:
        """The push services that do not work and that a browser still uses, as human-readable sentences."""
        used = {one.service for one in self.subscriptions}
        refused = {service: why for service, why in dict(self._refused).items() if service in used}
        remedy = " Some push services refuse a server without a public name. Set one with --public-host."
        advice = "" if self._contact in self._public else remedy
        return [
            f"Notifications through {service} are not being delivered: {why}.{advice}"
            for service, why in sorted(refused.items())
        ]

    def end(self) -> None:
        self._is_ended = True
        for later in self._questions.values():
            later.cancel()
        for later, _ in self._ends.values():
            later.cancel()
        self._sender.end()
        for sender in self._push_senders.values():
            sender.end()

    def _wanting(self, directory: Path) -> Iterator[Subscription]:
        """The owner's subscriptions, and the subscriptions of devices with a valid token that may see the project in
        ``directory``."""
        return (one for one in self.subscriptions if self._wants(one, directory))

    def _wants(self, browser: Subscription, directory: Path) -> bool:
        return browser.device_id is None or self._sees(browser.device_id, directory)

    def _sees(self, device_id: str, directory: Path) -> bool:
        identity = self._devices.identity_of(device_id)
        return identity is not None and identity.sees(directory, self._leads_to)

    def _decides(self, device_id: str | None) -> bool:
        if device_id is None:
            return True
        identity = self._devices.identity_of(device_id)
        return identity is not None and identity.may(DECIDES)

    def _push(self, browser: Subscription, notification: Notice, directory: Path) -> None:
        """Sends one push, in the sender's thread, unless the browser has unsubscribed or its device has lost access
        since the push was queued: behind a service that fails, a push may wait for an hour. Raises the errors of
        ``_post``.
        """
        own = (browser.endpoint, browser.device_id)
        to = next((one for one in self.subscriptions if (one.endpoint, one.device_id) == own), None)
        if to is None or not self._wants(to, directory):
            return
        try:
            self._post(to, notification)
        except Failed as error:
            if not error.again:
                self._refused[to.service] = str(error)
            raise
        self._refused.pop(to.service, None)

    def _post(self, to: Subscription, notification: Notice) -> None:
        """Sends one push. Removes the subscription if it has ended. Raises ``Failed``, or ``NotPrivate`` if the file
        with the subscriptions can't be written."""
        key = self.subscriptions.private_key
        token = None
        if notification.command and to.actions and self._decides(to.device_id):
            about = Answerable(notification.project_id, notification.approval_id, to.endpoint, to.device_id)
            token = self._tokens.issue(about)
        payload = push_payload(notification, token)
        headers, body = request(to, payload, urgent=notification.urgent, key=key, contact=self._contact)
        try:
            post(to.endpoint, headers, body)
        except Failed as error:
            if error.status not in GONE:
                raise
            self.subscriptions.remove(to.endpoint)
            logger.info("removed a browser's subscription that has expired")


def post(url: str, headers: Mapping[str, str], body: bytes) -> None:
    """Sends one request. Raises ``Failed``. Its text never contains the address, which may include a secret."""
    request = urllib.request.Request(url, body, dict(headers), method="POST")  # noqa: S310 - only http(s) gets here
    try:
        with _opener.open(request, timeout=TIMEOUT):
            pass
    except urllib.error.HTTPError as error:
        error.close()
        again = error.code == 429 or error.code >= 500
        raise Failed(f"the service responded with HTTP {error.code}", again=again, status=error.code) from None
    except (OSError, HTTPException, ValueError) as error:
        what = type(getattr(error, "reason", error)).__name__
        raise Failed(f"the request failed ({what})", again=not isinstance(error, ValueError)) from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, because the request may only go to the given address."""

    def redirect_request(self, *args: Any) -> None:
        return None


_opener: Final = urllib.request.build_opener(_NoRedirect)
