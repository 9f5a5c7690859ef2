"""A stand-in for the Gemini API on 127.0.0.1. It gives the answers that a test scripts, and records the requests.

It implements only what Gemini CLI requests, ``POST /v1beta/models/<model>:<method>``: a streamed answer for each turn of
the conversation, and plain answers for its housekeeping (which model to use, a title for the last session).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.rigs.model_stub import Handler, ScriptedModel

Part = dict[str, Any]
"""A part of the API's content: ``{"text": ...}`` or ``{"functionCall": ...}``."""

HOUSEKEEPING = json.dumps({"reasoning": "It is plain.", "model_choice": "flash", "title": "A title"})
"""One answer that matches the schemas of all the CLI's housekeeping requests."""


def text(words: str) -> Part:
    return {"text": words}


def function_call(name: str, **arguments: object) -> Part:
    """The model's request to call the tool ``name`` with ``arguments``."""
    return {"functionCall": {"name": name, "args": arguments}}


def replace(file: Path, old: str, new: str) -> Part:
    return function_call("replace", file_path=str(file), instruction="As asked.", old_string=old, new_string=new)


def write_file(file: Path, content: str) -> Part:
    return function_call("write_file", file_path=str(file), content=content)


@dataclass(frozen=True)
class ModelRequest:
    """One request to the model. ``news`` are the parts that were sent since the model's last answer."""

    body: dict[str, Any]

    @property
    def news(self) -> list[Part]:
        contents: list[dict[str, Any]] = self.body["contents"]
        spoken = [number for number, content in enumerate(contents) if content["role"] == "model"]
        return [part for content in contents[spoken[-1] + 1 if spoken else 0 :] for part in content["parts"]]

    @property
    def new_text(self) -> str:
        """All new text that the model receives: from the user, from the CLI, and about the editor."""
        return "\n".join(part["text"] for part in self.news if "text" in part)

    @property
    def tool_results(self) -> list[str]:
        """The results of the tools that the model called in its last answer, in order."""
        responses = [part["functionResponse"]["response"] for part in self.news if "functionResponse" in part]
        return [response.get("output") or response.get("error", "") for response in responses]

    @property
    def editor(self) -> dict[str, Any] | None:
        """The latest editor context in ``news``, full or only ``{"changes": ...}``; None if ``news`` has none."""
        for part in reversed(self.news):
            words = part.get("text", "")
            if "editor context" in words and "```json" in words:
                context: dict[str, Any] = json.loads(words.partition("```json")[2].partition("```")[0])
                return context
        return None


class GeminiStub(ScriptedModel[ModelRequest]):
    """Answers each request of a conversation with the next scripted turn (a list of parts). A context manager.

    The CLI's housekeeping requests are not streamed, use up no turn and are not among ``requests``.
    """

    def __init__(self) -> None:
        super().__init__(type("Handler", (_Handler,), {"stub": self}))
        self._said: list[Part] = []

    def answer(self, body: dict[str, Any]) -> list[Part]:
        """Returns the model's answer to a request of the conversation. Called by the HTTP handler."""
        with self._changed:
            if self.requests and self.requests[-1].body["contents"] == body["contents"]:
                return self._said  # the CLI retries after a failed connection, so the script does not advance
            self.requests.append(ModelRequest(body))
            self._changed.notify_all()
            self._said = self._turns.pop(0) if self._turns else [text("Nothing more was scripted.")]
            return self._said


class _Handler(Handler):
    stub: GeminiStub

    def post(self, body: dict[str, Any]) -> None:
        method = urlsplit(self.path).path.rpartition(":")[2]
        if method == "streamGenerateContent":
            event = json.dumps(_response(self.stub.answer(body)))
            self.reply("text/event-stream", f"data: {event}\n\n".encode())
        elif method == "generateContent":
            self.reply("application/json", json.dumps(_response([text(HOUSEKEEPING)])).encode())
        else:
            self.send_error(404)


def _response(parts: list[Part]) -> dict[str, Any]:
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110},
    }
