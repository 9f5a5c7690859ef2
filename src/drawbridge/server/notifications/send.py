"""Sends notifications: by Web Push to the browsers that have subscribed, and to the owner's webhook.

Notifications are sent one after the other in each of two threads: one for the webhook, one for the browsers, so that a push
service that does not answer does not delay the webhook. A failed one is retried twice; above the limit they are
dropped and logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

from drawbridge.server.auth.devices import Devices
from drawbridge.server.events import Announced
from drawbridge.server.notifications.notices import Notice, closed, notice, push_payload, webhook_request
from drawbridge.server.notifications.web_push import Subscription, Subscriptions, contact, request

PAUSES: Final = (2.0, 10.0)
"""Seconds before the second and the third try."""

PATIENCE: Final = 3.0
"""Seconds that a person who has the page open has to answer an approval, before others are notified."""

TIMEOUT: Final = 10.0
WAITING: Final = 100
"""The maximum of notifications that wait."""

GONE: Final = (404, 410)
"""HTTP statuses that mean that the subscription has ended."""

logger = logging.getLogger("drawbridge.server")


class Failed(Exception):
    """The service did not accept it. ``again``: a retry may help. ``status``: of the HTTP response; 0 without one."""

    def __init__(self, text: str, *, again: bool, status: int = 0) -> None:
        super().__init__(text)
        self.again = again
        self.status = status


class Sender:
    """A thread with a queue of notifications to send."""

    def __init__(self, pauses: tuple[float, ...] = PAUSES) -> None:
        self._pauses = pauses
        self._tasks: queue.Queue[tuple[str, Callable[[], None]] | None] = queue.Queue(WAITING)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def do(self, what: str, send: Callable[[], None]) -> None:
        """Queues a call of ``send``, which raises ``Failed`` on failure. Never blocks. ``what`` is for the log: without
        secrets."""
        if self._thread is None:
            # Not a thread of the loop's executor: the server waits for those when it ends.
            self._thread = threading.Thread(target=self._work, name="notices", daemon=True)
            self._thread.start()
        try:
            self._tasks.put_nowait((what, send))
        except queue.Full:
            logger.error(
                "%s was not notified: too many notifications are waiting for a service that is slow or unreachable",
                what,
            )

    def end(self) -> None:
        """Drops what waits; a request in progress ends by itself."""
        self._ended.set()
        with contextlib.suppress(queue.Full):
            self._tasks.put_nowait(None)

    def join(self, seconds: float) -> None:
        """Waits until the thread has ended, at most this many seconds."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _work(self) -> None:
        while not self._ended.is_set():
            task = self._tasks.get()
            if task is not None:
                self._try(*task)

    def _try(self, what: str, send: Callable[[], None]) -> None:
        for pause in (*self._pauses, None):
            try:
                return send()
            except Failed as error:
                if pause is None or not error.again:
                    return logger.error("%s was not notified: %s", what, error)
            except Exception:
                return logger.exception("internal error: %s was not notified", what)
            if self._ended.wait(pause):
                return None
        return None


class Notifier:
    """``published`` receives the events about approvals and runs. ``public`` and ``host``: names of this machine, for
    the push services' complaints.
    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        devices: Devices,
        webhook: str | None,
        public: Sequence[str],
        host: str,
        sender: Sender | None = None,
        push_sender: Sender | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self.subscriptions = subscriptions
        self._devices = devices
        self._webhook = webhook
        self._contact = contact(public, host)
        self._sender = sender or Sender()
        self._push_sender = push_sender or Sender()
        self._patience = patience
        self._refused: dict[str, str] = {}
        """Push service → why it has refused the last push permanently."""
        self._questions: dict[str, asyncio.TimerHandle] = {}
        """Approvals of which nobody was notified yet."""

    def published(self, announced: Announced) -> None:
        """The receiver "notices" of the event bus. Never blocks."""
        if announced.quiet or (not self._webhook and not any(True for _ in self.subscriptions)):
            return
        event, directory = announced.event, announced.path
        answered = self._questions.pop(closed(event) or "", None)
        if answered is not None:
            answered.cancel()
        notification = notice(event, announced.project_id or "", directory)
        if notification is not None and notification.urgent:
            later = asyncio.get_running_loop().call_later(self._patience, self._notify, notification, directory)
            self._questions[notification.approval_id] = later
        elif notification is not None:
            self._notify(notification, directory)

    def _notify(self, notification: Notice, directory: Path) -> None:
        self._questions.pop(notification.approval_id, None)
        if self._webhook:
            self._sender.do("the webhook", partial(post, self._webhook, *webhook_request(notification)))
        for browser in self._wanting(directory):
            self._push_sender.do(f"a browser through {browser.service}", partial(self._push, browser, notification))

    def problems(self) -> list[str]:
        """The push services that do not work, as sentences for people."""
        refused = dict(self._refused)
        remedy = "The server's log has the details. Services may refuse a server without a public name: --public-host."
        return [
            f"Notifications through {service} do not arrive: {why}. {remedy}"
            for service, why in sorted(refused.items())
        ]

    def end(self) -> None:
        for later in self._questions.values():
            later.cancel()
        self._sender.end()
        self._push_sender.end()

    def _wanting(self, directory: Path) -> Iterator[Subscription]:
        """The subscriptions of devices that are still valid and may see that project."""
        return (one for one in self.subscriptions if one.device_id is None or self._sees(one.device_id, directory))

    def _sees(self, device_id: str, directory: Path) -> bool:
        identity = self._devices.identity_of(device_id)
        return identity is not None and identity.sees(directory)

    def _push(self, to: Subscription, notification: Notice) -> None:
        """Sends one push, in the thread. Raises ``Failed``."""
        key = self.subscriptions.private_key
        headers, body = request(
            to, push_payload(notification), urgent=notification.urgent, key=key, contact=self._contact
        )
        try:
            post(to.endpoint, headers, body)
        except Failed as error:
            if error.status not in GONE:
                if not error.again:
                    self._refused[to.service] = str(error)
                raise
            self.subscriptions.remove(to.endpoint)
            logger.info("a browser's subscription has ended and was removed")
        self._refused.pop(to.service, None)


def post(url: str, headers: Mapping[str, str], body: bytes) -> None:
    """Sends one request. Raises ``Failed``, whose text never contains the address: it may include a secret."""
    request = urllib.request.Request(url, body, dict(headers), method="POST")  # noqa: S310 - http(s) alone gets here
    try:
        with _opener.open(request, timeout=TIMEOUT):
            pass
    except urllib.error.HTTPError as error:
        error.close()
        again = error.code == 429 or error.code >= 500
        raise Failed(f"it responded with {error.code}", again=again, status=error.code) from None
    except (OSError, HTTPException, ValueError) as error:
        raise Failed(type(getattr(error, "reason", error)).__name__, again=not isinstance(error, ValueError)) from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the request may only go to the given address."""

    def redirect_request(self, *args: Any) -> None:
        return None


_opener: Final = urllib.request.build_opener(_NoRedirect)
