"""Tells people who look at no page: by Web Push to the browsers that asked for it, and to the owner's webhook.

What is told goes out in a thread of its own, one after the other: neither a slow service nor a large library is in anybody's
way. What fails is tried again twice; what is too much is left out, and said in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from drawbridge.server.access.devices import Devices
from drawbridge.server.notify.notices import Notice, notice, push_payload, settled, webhook_request
from drawbridge.server.notify.push import Subscription, Subscriptions
from drawbridge.server.protocol.subscriber import Frame

PAUSES: Final = (2.0, 10.0)
"""Seconds before the second and the third try."""

PATIENCE: Final = 3.0
"""Seconds for which a question waits for who sits before it, before others are called."""

TIMEOUT: Final = 10.0
WAITING: Final = 100
"""Notices that wait, at most."""

LIFETIME: Final = {True: 3_600, False: 600}
"""Of a push that is urgent or not: seconds for which a service keeps it for a phone that is off."""

GONE: Final = (404, 410)
"""The browser does not want it any more."""

logger = logging.getLogger("drawbridge.server")


class Failed(Exception):
    """It was not taken. ``again``: another try may help."""

    def __init__(self, text: str, *, again: bool) -> None:
        super().__init__(text)
        self.again = again


class Sender:
    """A thread with a list of things to do."""

    def __init__(self, pauses: tuple[float, ...] = PAUSES) -> None:
        self._pauses = pauses
        self._tasks: queue.Queue[tuple[str, Callable[[], None]] | None] = queue.Queue(WAITING)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def do(self, what: str, send: Callable[[], None]) -> None:
        """Never waits. ``send`` raises ``Failed`` where it did not work; ``what`` is for the log, and holds no secret."""
        if self._thread is None:
            # Not one of the loop's: the end of the server waits for those.
            self._thread = threading.Thread(target=self._work, name="notices", daemon=True)
            self._thread.start()
        try:
            self._tasks.put_nowait((what, send))
        except queue.Full:
            logger.error("%s was not told: too much waits for a service that is slow or away", what)

    def end(self) -> None:
        """What waits is left undone; what is on its way ends by itself."""
        self._ended.set()
        with contextlib.suppress(queue.Full):
            self._tasks.put_nowait(None)

    def join(self, seconds: float) -> None:
        """Until the thread has ended, so long at most."""
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
                    return logger.error("%s was not told: %s", what, error)
            except Exception:
                return logger.exception("a fault of ours: %s was not told", what)
            if self._ended.wait(pause):
                return None
        return None


class Notifier:
    """``heard`` gets what clients are told about questions and runs. ``contact``: the host by which services may complain of
    this server; they refuse a local one.
    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        devices: Devices,
        webhook: str | None,
        contact: str,
        sender: Sender | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self.subscriptions = subscriptions
        self._devices = devices
        self._webhook = webhook
        self._contact = contact
        self._sender = sender or Sender()
        self._patience = patience
        self._questions: dict[str, asyncio.TimerHandle] = {}
        """Those of which nobody was told yet."""

    def heard(self, frame: Frame, directory: Path) -> None:
        """Of the project in ``directory``. Never waits."""
        if not self._webhook and not any(True for _ in self.subscriptions):
            return
        answered = self._questions.pop(settled(frame.data) or "", None)
        if answered is not None:
            answered.cancel()
        said = notice(frame.data, directory)
        if said is not None and said.urgent:
            later = asyncio.get_running_loop().call_later(self._patience, self._tell, said, directory)
            self._questions[said.approval_id] = later
        elif said is not None:
            self._tell(said, directory)

    def _tell(self, said: Notice, directory: Path) -> None:
        self._questions.pop(said.approval_id, None)
        if self._webhook:
            self._sender.do("the webhook", partial(post, self._webhook, said))
        for browser in self._wanting(directory):
            service = urlsplit(browser.endpoint).hostname
            self._sender.do(f"a browser by {service}", partial(self._push, browser, said))

    def end(self) -> None:
        for later in self._questions.values():
            later.cancel()
        self._sender.end()

    def _wanting(self, directory: Path) -> Iterator[Subscription]:
        """Those whose device may still come in, and see that project."""
        return (one for one in self.subscriptions if one.device_id is None or self._sees(one.device_id, directory))

    def _sees(self, device_id: str, directory: Path) -> bool:
        identity = self._devices.may_come(device_id)
        return identity is not None and identity.sees(directory)

    def _push(self, to: Subscription, said: Notice) -> None:
        """In the thread: what is imported here takes a quarter of a second and 20 MB, and most servers never need it."""
        import requests
        from pywebpush import WebPushException, webpush  # type: ignore[import-untyped]

        with requests.Session() as session:
            session.max_redirects = 0
            keys = {"p256dh": to.p256dh, "auth": to.auth}
            try:
                webpush(
                    {"endpoint": to.endpoint, "keys": keys},
                    push_payload(said).decode(),
                    vapid_private_key=self.subscriptions.private_key,
                    vapid_claims={"sub": f"https://{self._contact}"},
                    headers={"Urgency": "high" if said.urgent else "normal"},
                    ttl=LIFETIME[said.urgent],
                    timeout=TIMEOUT,
                    requests_session=session,
                )
            except WebPushException as error:
                self._refused(to, error.response)
            except requests.RequestException as error:
                raise Failed(type(error).__name__, again=True) from None

    def _refused(self, to: Subscription, response: Any) -> None:
        status = response.status_code if response is not None else 0
        if status in GONE:
            self.subscriptions.remove(to.endpoint)
            logger.info("a browser wants no more notices: its subscription was dropped")
        else:
            raise Failed(f"the service answered {status}", again=status == 429 or status >= 500)


def post(url: str, said: Notice) -> None:
    """One request to the owner's webhook. Raises ``Failed``; the address, which may hold a secret, is in no text."""
    headers, body = webhook_request(said)
    request = urllib.request.Request(url, body, headers, method="POST")  # noqa: S310  the setting lets http(s) through only
    try:
        with _opener.open(request, timeout=TIMEOUT):
            pass
    except urllib.error.HTTPError as error:
        error.close()
        raise Failed(f"it answered {error.code}", again=error.code == 429 or error.code >= 500) from None
    except (OSError, HTTPException, ValueError) as error:
        raise Failed(type(getattr(error, "reason", error)).__name__, again=not isinstance(error, ValueError)) from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """What is posted goes to nobody else than was said."""

    def redirect_request(self, *args: Any) -> None:
        return None


_opener: Final = urllib.request.build_opener(_NoRedirect)
