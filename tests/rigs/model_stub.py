"""The common part of the stubs for the models' APIs: an HTTP server on 127.0.0.1 and a script of the model's answers."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Generic, Self, TypeVar

from tests.waiting import PATIENCE


class Handler(BaseHTTPRequestHandler):
    """Answers with HTTP/1.0 unless a subclass overrides it. HTTP/1.0 uses one connection for each request, so that no
    connection is left when the test ends.
    """

    def do_POST(self) -> None:
        self.post(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def post(self, body: dict[str, Any]) -> None:
        """Replies to a POST request. ``body``: the request's JSON content."""
        raise NotImplementedError

    def reply(self, content_type: str, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Logs nothing, because the stub records the requests."""


class StubServer:
    """An HTTP server in its own thread. ``handler`` answers its requests. A context manager."""

    def __init__(self, handler: type[Handler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="model-stub"
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"


Request = TypeVar("Request")


class ScriptedModel(StubServer, Generic[Request]):
    """The base class of stubs that answer each request of a conversation with the next scripted turn (a list of blocks)
    and record the requests.
    """

    def __init__(self, handler: type[Handler]) -> None:
        super().__init__(handler)
        self.requests: list[Request] = []
        self._turns: list[list[dict[str, Any]]] = []
        self._changed = threading.Condition()

    def will_say(self, *turns: dict[str, Any] | list[dict[str, Any]]) -> None:
        """Scripts the model's next turns. A turn is one block or a list of blocks."""
        with self._changed:
            self._turns += listed(turns)

    def wait_for_request(self, number: int, *, timeout: float = PATIENCE) -> Request:
        """Waits for the ``number``-th recorded request, counted from 1, and returns it. ``timeout`` is in seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.requests) >= number, timeout):
                raise AssertionError(f"no request {number} to the model in {timeout} s, only {len(self.requests)}")
            return self.requests[number - 1]


def listed(turns: tuple[dict[str, Any] | list[dict[str, Any]], ...]) -> list[list[dict[str, Any]]]:
    """Returns the turns, with each single block wrapped in a list."""
    return [turn if isinstance(turn, list) else [turn] for turn in turns]
