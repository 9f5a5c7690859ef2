"""A stand-in for the Messages API on 127.0.0.1: it says what a test scripted and remembers what it was told.

Only what the ``claude`` CLI asks for: ``POST /v1/messages`` (streamed), ``POST /v1/messages/count_tokens`` and ``HEAD /``.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Block = dict[str, Any]
"""A content block of the API: ``{"type": "text", ...}`` or ``{"type": "tool_use", ...}``, or one of the two below."""

HOLD: Block = {"type": "hold"}
"""The model is silent in the middle of its answer, until ``MessagesStub.go_on`` or the test's end."""

_numbers = itertools.count(1)


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def failure(status: int, kind: str, message: str) -> Block:
    """Every answer is an error from then on: 400 "invalid_request_error", 429 "rate_limit_error", and so on.

    It stays so however often the CLI tries again, until more is scripted.
    """
    return {"type": "failure", "status": status, "error": {"type": kind, "message": message}}


def tool_use(name: str, **arguments: object) -> Block:
    """The model wants the tool ``name`` called with ``arguments``."""
    return {"type": "tool_use", "id": f"toolu_{next(_numbers):024d}", "name": name, "input": arguments}


def read(file: Path) -> Block:
    """The CLI edits no file that the model has not read."""
    return tool_use("Read", file_path=str(file))


def edit(file: Path, old: str, new: str) -> Block:
    return tool_use("Edit", file_path=str(file), old_string=old, new_string=new)


def write(file: Path, content: str) -> Block:
    return tool_use("Write", file_path=str(file), content=content)


@dataclass(frozen=True)
class ModelRequest:
    """One request to the model. ``news`` are the messages since the model last spoke."""

    body: dict[str, Any]

    @property
    def news(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.body["messages"]
        spoken = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
        return messages[spoken[-1] + 1 :] if spoken else messages

    @property
    def told(self) -> str:
        """Everything the model is newly told: the person's words, tool results, reminders, the editor's context."""
        return "\n".join(words for message in self.news for words in _words(message["content"]))

    @property
    def tool_results(self) -> list[str]:
        """What the tools that the model called have answered, as text, in order."""
        return [
            "\n".join(_words(block.get("content", "")))
            for message in self.news
            if not isinstance(message["content"], str)
            for block in message["content"]
            if block["type"] == "tool_result"
        ]


def _words(content: str | list[Block]) -> Iterator[str]:
    if isinstance(content, str):
        yield content
        return
    for block in content:
        if block["type"] == "text":
            yield block["text"]
        elif block["type"] == "tool_result":
            yield from _words(block.get("content", ""))


class MessagesStub:
    """Answers each request of a conversation with the next scripted turn (a list of blocks). A context manager.

    Requests of the CLI's own housekeeping (a title for the session and the like: they offer the model no tools) are
    answered plainly, take no turn and are not among ``requests``.
    """

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []
        self._turns: list[list[Block]] = []
        self._turns_of: dict[str, list[list[Block]]] = {}
        self._changed = threading.Condition()
        self._held = threading.Semaphore(0)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="messages-stub"
        )

    def __enter__(self) -> MessagesStub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on(len(self.requests))
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def will_say(self, *turns: Block | list[Block]) -> None:
        """Script the next turns of the model; a turn is one block or a list of them."""
        with self._changed:
            if self._fails():
                self._turns.clear()
            self._turns += [turn if isinstance(turn, list) else [turn] for turn in turns]

    def will_say_to(self, words: str, *turns: Block | list[Block]) -> None:
        """As ``will_say``, for conversations whose first message contains ``words``, as a subagent's prompt."""
        with self._changed:
            self._turns_of.setdefault(words, []).extend(turn if isinstance(turn, list) else [turn] for turn in turns)

    def wait_for_request(self, number: int, *, timeout: float = 15) -> ModelRequest:
        """The ``number``-th request of the conversation, counted from 1."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.requests) >= number, timeout):
                raise AssertionError(f"no request {number} to the model in {timeout} s, only {len(self.requests)}")
            return self.requests[number - 1]

    def go_on(self, times: int = 1) -> None:
        """Let a model that holds, or is going to, say the rest."""
        self._held.release(times or 1)

    def hold(self) -> None:
        """Returns when the model may go on: called by the HTTP handler."""
        self._held.acquire()

    def answer(self, body: dict[str, Any]) -> list[Block]:
        """What the model says to a request: called by the HTTP handler."""
        if not body.get("tools"):
            return [text("A title")]
        with self._changed:
            self.requests.append(ModelRequest(body))
            self._changed.notify_all()
            first = json.dumps(body["messages"][0])
            for words, turns in self._turns_of.items():
                if words in first:
                    return turns.pop(0) if turns else [text("Nothing more was scripted for this agent.")]
            if self._fails():
                return self._turns[0]
            return self._turns.pop(0) if self._turns else [text("Nothing more was scripted.")]

    def _fails(self) -> bool:
        return bool(self._turns) and self._turns[0][0]["type"] == "failure"


def _handler_of(stub: MessagesStub) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"stub": stub})


class _Handler(BaseHTTPRequestHandler):
    stub: MessagesStub

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = urlsplit(self.path).path
        if path == "/v1/messages/count_tokens":
            self._reply("application/json", b'{"input_tokens": 100}')
        elif path == "/v1/messages":
            self._say(self.stub.answer(body), body["model"], streamed=bool(body.get("stream")))
        else:
            self.send_error(404)

    def _say(self, blocks: list[Block], model: str, *, streamed: bool) -> None:
        if blocks[0]["type"] == "failure":
            error = {"type": "error", "error": blocks[0]["error"]}
            self._reply("application/json", json.dumps(error).encode(), blocks[0]["status"])
        elif streamed:
            self._stream(blocks, model)
        else:
            message = _message(model) | {"content": blocks, "stop_reason": "end_turn"}
            self._reply("application/json", json.dumps(message).encode())

    def _stream(self, blocks: list[Block], model: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        with contextlib.suppress(OSError):  # the CLI may hang up on a model that it was told to interrupt
            for event in _events(blocks, model, self.stub.hold):
                self.wfile.write(event)
                self.wfile.flush()
        self.close_connection = True

    def _reply(self, content_type: str, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silent: what came in is in ``requests``."""


def _message(model: str) -> dict[str, Any]:
    return {
        "id": f"msg_{next(_numbers):024d}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": 1},
    }


def _events(blocks: list[Block], model: str, hold: Callable[[], None]) -> Iterator[bytes]:
    """The server-sent events of one streamed message."""
    yield _event("message_start", message=_message(model))
    for index, block in enumerate(blocks):
        if block is HOLD:
            hold()
            continue
        if block["type"] == "text":
            start, delta = block | {"text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            start = block | {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield _event("content_block_start", index=index, content_block=start)
        yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    reason = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield _event("message_delta", delta=delta, usage={"output_tokens": 10})
    yield _event("message_stop")


def _event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()
