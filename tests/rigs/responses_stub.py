"""A stand-in for the Responses API on 127.0.0.1. It gives the answers that a test scripts, and records the requests.

It implements only what Codex requests from a custom model provider: ``POST /v1/responses``, streamed.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.rigs.model_stub import Handler, StubServer

Item = dict[str, Any]
"""An item of the API's output."""

WRITTEN = ("message", "agent_message")
"""The types of items that contain what a user or another agent has written."""

_numbers = itertools.count(1)


def text(words: str) -> Item:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": words}]}


def apply_patch(patch: str) -> Item:
    return {"type": "custom_tool_call", "call_id": f"call-{next(_numbers)}", "name": "apply_patch", "input": patch}


def shell(command: str, *, directory: str = "", reason: str = "") -> Item:
    """A call that runs a command. With ``reason``, the model asks Codex to run it outside the sandbox."""
    place = {"workdir": directory} if directory else {}
    escalated = {"sandbox_permissions": "require_escalated", "justification": reason} if reason else {}
    arguments = json.dumps({"cmd": command, **place, **escalated})
    return {
        "type": "function_call",
        "call_id": f"call-{next(_numbers)}",
        "name": "exec_command",
        "arguments": arguments,
    }


def spawn_agent(name: str, message: str) -> Item:
    """A call that starts a subagent. Codex offers this tool only with ``--enable multi_agent_v2``."""
    arguments = json.dumps({"task_name": name, "message": message})
    call = {"type": "function_call", "call_id": f"call-{next(_numbers)}", "name": "spawn_agent", "arguments": arguments}
    return {**call, "namespace": "collaboration"}


def failure(status: int, message: str) -> Item:
    """A turn for which the API sends an error."""
    return {"type": "error", "status": status, "message": message}


class ResponsesStub(StubServer):
    """Answers each request for a turn with the next scripted item, and records these requests. Answers any other
    request, such as one for a title, and those after the last item, with a fixed text. A context manager.
    """

    def __init__(self, *turns: Item) -> None:
        super().__init__(type("Handler", (_Handler,), {"stub": self}))
        self.requests: list[dict[str, Any]] = []
        self._turns: list[Item | Callable[[], Item]] = list(turns)
        self._of_subagents: dict[str, list[Item | Callable[[], Item]]] = {}

    @property
    def url(self) -> str:
        return f"{super().url}/v1"

    @property
    def tool_results(self) -> list[str]:
        """The tool results in the last request, in order."""
        kinds = ("custom_tool_call_output", "function_call_output")
        return [str(item["output"]) for item in self.requests[-1]["input"] if item["type"] in kinds]

    def will_say(self, *turns: Item | Callable[[], Item]) -> None:
        """A turn may be a function that returns the item. It is called when the turn is due, and may block."""
        self._turns += turns

    def subagent_will_say(self, task: str, *turns: Item | Callable[[], Item]) -> None:
        """Scripts the model for the subagent that is started with the message ``task``."""
        self._of_subagents[task] = list(turns)

    def answer(self, request: dict[str, Any]) -> Item:
        """The model's next item. Codex may request a title at any time after the first prompt: without tools, or with
        a required format for the answer."""
        is_turn = request.get("tools") and not (request.get("text") or {}).get("format")
        if is_turn:
            self.requests.append(request)
        items = [str(item) for item in request["input"] if item["type"] in WRITTEN and item.get("role") != "assistant"]
        turns = next((turns for task, turns in self._of_subagents.items() if items and task in items[-1]), self._turns)
        item = turns.pop(0) if turns and is_turn else text("Nothing more was scripted.")
        return item() if callable(item) else item


def _events(item: Item, id: str) -> Iterator[bytes]:
    usage = {"input_tokens": 1, "input_tokens_details": None, "output_tokens": 1, "output_tokens_details": None}
    for event in (
        {"type": "response.created", "response": {"id": id}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": id, "usage": usage | {"total_tokens": 2}}},
    ):
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


class _Handler(Handler):
    stub: ResponsesStub

    def post(self, body: dict[str, Any]) -> None:
        item = self.stub.answer(body)
        if item["type"] == "error":
            self.reply("application/json", json.dumps({"error": item}).encode(), item["status"])
        else:
            self.reply("text/event-stream", b"".join(_events(item, f"response-{next(_numbers)}")))
