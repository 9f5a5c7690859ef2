"""An HTTP service on this machine that notifications are posted to."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator
from typing import Any


class Service:
    """Records what is posted. It responds with the given status codes in turn, and repeats the last one. The default is
    200.
    """

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers) or [200]
        self.posted: list[tuple[dict[str, str], bytes]] = []
        self.fetched: list[str] = []
        """The paths of GET requests. A client that follows a redirect sends one."""
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                service.posted.append(({name.lower(): value for name, value in self.headers.items()}, body))
                status = service.answers.pop(0) if len(service.answers) > 1 else service.answers[0]
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            def do_GET(self) -> None:
                service.fetched.append(self.path)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *words: Any) -> None:
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/a-topic"

    @contextlib.contextmanager
    def up(self) -> Iterator[Service]:
        thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self.server.shutdown()
            thread.join()
            self.server.server_close()
