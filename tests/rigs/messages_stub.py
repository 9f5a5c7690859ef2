"""A stand-in for the Messages API on 127.0.0.1. It gives the answers that a test scripts, and records the requests.

It implements only what the ``claude`` CLI requests: ``POST /v1/messages`` (streamed if the request asks for it),
``POST /v1/messages/count_tokens`` and ``HEAD /``.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.rigs.model_stub import Handler, ScriptedModel, listed

Block = dict[str, Any]
"""A content block of the API (``{"type": "text", ...}`` or ``{"type": "tool_use", ...}``), ``HOLD``, or a ``failure``.
"""

HOLD: Block = {"type": "hold"}
"""The model pauses in the middle of its answer, until ``MessagesStub.go_on`` is called or the stub is closed."""

_numbers = itertools.count(1)


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def failure(status: int, kind: str, message: str) -> Block:
    """Returns a turn for which the API sends an error, such as 400 "invalid_request_error" or 429 "rate_limit_error".

    The failure lasts until ``MessagesStub.will_say`` scripts another turn, however often the CLI retries.
    """
    return {"type": "failure", "status": status, "error": {"type": kind, "message": message}}


def tool_use(name: str, **arguments: object) -> Block:
    """The model's request to call the tool ``name`` with ``arguments``."""
    return {"type": "tool_use", "id": f"toolu_{next(_numbers):024d}", "name": name, "input": arguments}


def read(file: Path) -> Block:
    """A call to the tool that reads a file. The CLI edits only files that the model has read."""
    return tool_use("Read", file_path=str(file))


def edit(file: Path, old: str, new: str) -> Block:
    return tool_use("Edit", file_path=str(file), old_string=old, new_string=new)


def write(file: Path, content: str) -> Block:
    return tool_use("Write", file_path=str(file), content=content)


@dataclass(frozen=True)
class ModelRequest:
    """One request to the model. ``news`` are the messages since the model's last answer."""

    body: dict[str, Any]

    @property
    def news(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.body["messages"]
        spoken = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
        return messages[spoken[-1] + 1 :] if spoken else messages

    @property
    def new_text(self) -> str:
        """All new text that the model receives: the user's prompt, tool results, reminders and the editor context."""
        return "\n".join(words for message in self.news for words in _words(message["content"]))

    @property
    def tool_results(self) -> list[str]:
        """The results of the tools that the model called in its last answer, as text, in order."""
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


class MessagesStub(ScriptedModel[ModelRequest]):
    """Answers each request of a conversation with the next scripted turn (a list of blocks). A context manager.

    The CLI's housekeeping requests (such as a title for the session) offer the model no tools. They get a plain answer,
    use up no turn and are not among ``requests``.
    """

    def __init__(self) -> None:
        super().__init__(type("Handler", (_Handler,), {"stub": self}))
        self._turns_of: dict[str, list[list[Block]]] = {}
        self._held = threading.Semaphore(0)
        self.checks = False
        """Whether answers report, for the CLI's auto mode, that each tool use was checked and not flagged."""

    def __exit__(self, *_: object) -> None:
        self.go_on(len(self.requests))
        super().__exit__()

    def will_say(self, *turns: Block | list[Block]) -> None:
        """Scripts the model's next turns. Ends a ``failure`` and discards the turns that were scripted after it."""
        with self._changed:
            if self._fails():
                self._turns.clear()
            super().will_say(*turns)

    def will_say_to(self, words: str, *turns: Block | list[Block]) -> None:
        """Scripts the next turns of conversations whose first message contains ``words``, such as a subagent's prompt.

        Does not end a ``failure``.
        """
        with self._changed:
            self._turns_of.setdefault(words, []).extend(listed(turns))

    def go_on(self, times: int = 1) -> None:
        """Ends ``times`` pauses of the model, including pauses that have not begun yet. 0 counts as 1."""
        self._held.release(times or 1)

    def hold(self) -> None:
        """Blocks until the model may continue. Called by the HTTP handler."""
        self._held.acquire()

    def answer(self, body: dict[str, Any]) -> list[Block]:
        """Returns the model's answer to a request. Called by the HTTP handler."""
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


class _Handler(Handler):
    stub: MessagesStub
    _checks = False

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:  # noqa: N802 - the library's name
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def post(self, body: dict[str, Any]) -> None:
        path = urlsplit(self.path).path
        if path == "/v1/messages/count_tokens":
            self.reply("application/json", b'{"input_tokens": 100}')
        elif path == "/v1/messages":
            self._checks = self.stub.checks and "safeguards" in body
            self._say(self.stub.answer(body), body["model"], streamed=bool(body.get("stream")))
        else:
            self.send_error(404)

    def _say(self, blocks: list[Block], model: str, *, streamed: bool) -> None:
        if blocks[0]["type"] == "failure":
            error = {"type": "error", "error": blocks[0]["error"]}
            self.reply("application/json", json.dumps(error).encode(), blocks[0]["status"])
        elif streamed:
            self._stream(blocks, model)
        else:
            message = _message(model) | {"content": blocks, "stop_reason": "end_turn"}
            self.reply("application/json", json.dumps(message).encode())

    def _stream(self, blocks: list[Block], model: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        with contextlib.suppress(OSError):  # the CLI disconnects if it was asked to interrupt the model
            for event in _events(blocks, model, self.stub.hold, checks=self._checks):
                self.wfile.write(event)
                self.wfile.flush()
        self.close_connection = True


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


def _events(blocks: list[Block], model: str, hold: Callable[[], None], *, checks: bool) -> Iterator[bytes]:
    """Yields the server-sent events of one streamed message."""
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
    if checks:
        verdict = {"type": "evaluated", "outcome": "not_flagged"}
        uses = {block["id"]: verdict for block in blocks if block["type"] == "tool_use"}
        status = {"type": "available", "tool_uses": uses}
        delta["safeguard_results"] = [{"type": "dangerous_tool_use", "status": status}]
    yield _event("message_delta", delta=delta, usage={"output_tokens": 10})
    yield _event("message_stop")


def _event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()
