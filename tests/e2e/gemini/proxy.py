"""A proxy between a client and a bridge. It can cut the event stream, record messages, and add the token to requests."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE

from .transcript import Transcript, shown_headers

LONGEST_GAP = 10
"""The longest time that a new event stream is held, in seconds."""

HOP_BY_HOP = {"connection", "content-length", "keep-alive", "transfer-encoding"}


class CuttingProxy(contextlib.AbstractContextManager["CuttingProxy"]):
    """Announces itself with a discovery file next to the bridge's. A CLI that is given the proxy's port finds it."""

    def __init__(self, discovery: Path, *, transcript: Transcript | None = None, lends_token: bool = False) -> None:
        """``discovery``: the bridge's own discovery file. ``transcript``: records the messages, if given.
        ``lends_token``: whether requests without a token get the bridge's token.
        """
        content = json.loads(discovery.read_text())
        self.streams = 0
        """The number of event streams opened through the proxy."""
        self.events: list[Any] = []
        """The messages that have been sent on event streams."""
        self.lent = {"Authorization": f"Bearer {content['authToken']}"} if lends_token else {}
        self._bridge_port = int(content["port"])
        self._exchanges = 0
        self._stream: socket.socket | None = None
        self._changed = threading.Condition()
        self._passable = threading.Event()
        self._passable.set()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="proxy")
        pid = discovery.stem.split("-")[3]
        self._discovery = discovery.with_name(f"gemini-ide-server-{pid}-{self.port}.json")
        self._discovery.touch(mode=0o600)
        self._discovery.write_text(json.dumps(content | {"port": self.port}))
        self._transcript = transcript
        if transcript:
            transcript.hide(content["authToken"], "TOKEN")
            transcript.hide(f"127.0.0.1:{self.port}", "127.0.0.1:PORT")

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def __enter__(self) -> CuttingProxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._discovery.unlink()
        self._passable.set()
        self._cut_stream()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @contextlib.contextmanager
    def gap(self) -> Iterator[None]:
        """Closes only the event stream's connection. Holds a new stream until the context ends, but no longer than
        ``LONGEST_GAP``.
        """
        self._passable.clear()
        self._cut_stream()
        yield
        self._passable.set()

    def wait_until_passable(self) -> None:
        self._passable.wait(LONGEST_GAP)

    def _cut_stream(self) -> None:
        with self._changed:
            if self._stream is not None:
                with contextlib.suppress(OSError):
                    self._stream.shutdown(socket.SHUT_RDWR)
                self._stream = None

    def wait_for_event(self, fits: Callable[[Any], bool], *, timeout: float = PATIENCE) -> None:
        """Waits until a message for which ``fits`` is true has been sent on an event stream. ``timeout`` is in seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: any(map(fits, self.events)), timeout):
                raise AssertionError(f"no such event in {timeout} s: {self.events}")

    def event_passed(self, message: Any) -> None:
        with self._changed:
            self.events.append(message)
            self._changed.notify_all()

    def stream_opened(self, connection: socket.socket) -> None:
        with self._changed:
            self._stream = connection
            self.streams += 1

    def next_exchange(self) -> int:
        with self._changed:
            self._exchanges += 1
            return self._exchanges

    def note(self, sender: str, exchange: int, **said: object) -> None:
        if self._transcript:
            self._transcript.add(sender, exchange, **said)

    def learn_session(self, session: str | None) -> None:
        if self._transcript and session:
            self._transcript.hide(session, "SESSION")

    def bridge(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._bridge_port)


class _Server(ThreadingHTTPServer):
    def __init__(self, proxy: CuttingProxy) -> None:
        self.proxy = proxy
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    # HTTP/1.0 uses one connection for each request, so cutting the event stream does not affect other requests.
    server: _Server

    @property
    def proxy(self) -> CuttingProxy:
        return self.server.proxy

    def do_POST(self) -> None:
        with contextlib.closing(self.proxy.bridge()) as bridge:
            response = self._ask(bridge)
            body = response.read()
            is_json = body and response.headers.get_content_type() == "application/json"
            shown = json.loads(body) if is_json else body.decode() or None
            self.proxy.note("bridge", self.exchange, answer=_answer(response) | {"body": shown})
            self._begin(response)
            self.wfile.write(body)

    do_DELETE = do_POST  # noqa: N815 - the library looks for this name

    def do_GET(self) -> None:
        self.proxy.wait_until_passable()
        with contextlib.closing(self.proxy.bridge()) as bridge:
            response = self._ask(bridge)
            self.proxy.note("bridge", self.exchange, answer=_answer(response))
            self._begin(response)
            self.proxy.stream_opened(self.connection)
            with contextlib.suppress(OSError, http.client.HTTPException):
                self._pass_events_on(response)
            self.proxy.note("bridge", self.exchange, closed=True)

    def _ask(self, bridge: http.client.HTTPConnection) -> http.client.HTTPResponse:
        self.exchange = self.proxy.next_exchange()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        shown: dict[str, Any] = {"method": self.command, "path": self.path}
        shown["headers"] = shown_headers(self.headers.items())
        if body:
            shown["body"] = json.loads(body)
        self.proxy.note("gemini", self.exchange, request=shown)
        bridge.request(self.command, self.path, body or None, self.proxy.lent | dict(self.headers))
        response = bridge.getresponse()
        self.proxy.learn_session(response.headers["mcp-session-id"])
        return response

    def _begin(self, response: http.client.HTTPResponse) -> None:
        self.send_response(response.status)
        for name, value in response.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.end_headers()

    def _pass_events_on(self, response: http.client.HTTPResponse) -> None:
        event: dict[str, Any] = {}
        while line := response.readline():
            self.wfile.write(line)
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name in ("id", "data"):
                event[name] = json.loads(value)
            elif not name and event:
                self.proxy.event_passed(event["data"])
                self.proxy.note("bridge", self.exchange, event=event)
                event = {}

    def log_message(self, *_: object) -> None:
        """Logs nothing, since a transcript can record the requests."""


def _answer(response: http.client.HTTPResponse) -> dict[str, Any]:
    return {"status": response.status, "headers": shown_headers(response.getheaders())}
