"""A Claude Code conversation without a process."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from drawbridge.agents.base import Attachment, Output, TurnEnded
from drawbridge.agents.claude.conversation import ClaudeConversation
from tests.agents.recording import read

Kind = TypeVar("Kind")


class Stream:
    """Passes lines to a conversation and collects the events that it returns."""

    def __init__(
        self, *, resumed: bool = False, files: dict[str, str] | None = None, jobs: dict[str, float] | None = None
    ) -> None:
        self.conversation = ClaudeConversation("The agent", (files or {}).get, resumed=resumed, jobs=jobs)
        self.events: list[Output] = []

    def receives(self, **message: Any) -> list[Output]:
        return self.raw(json.dumps(message).encode())

    def raw(self, line: bytes) -> list[Output]:
        output = [read(one) for one in self.conversation.received(line)]
        self.events += output
        return output

    def prompt(self, text: str = "Go", *attachments: Attachment) -> None:
        self.events += self.conversation.prompt(text, attachments)

    @property
    def busy(self) -> bool:
        return self.conversation.busy

    def written(self) -> list[dict[str, Any]]:
        """Returns the messages that were written to the agent since the last call."""
        return [json.loads(line) for line in self.conversation.outgoing().splitlines()]

    def result(self, **fields: Any) -> list[Output]:
        return self.receives(**({"type": "result", "subtype": "success", "is_error": False} | fields))

    def ask(self, tool: str = "Bash", **request: Any) -> list[Output]:
        given = {"subtype": "can_use_tool", "tool_name": tool, "input": {"command": "ls"}, "permission_suggestions": []}
        return self.receives(type="control_request", request_id="q1", request=given | request)

    def all(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in self.events if isinstance(event, kind)]

    def ended(self, **fields: Any) -> TurnEnded:
        """Runs a turn that ends with this ``result`` and returns its end."""
        self.prompt()
        self.result(**fields)
        return self.all(TurnEnded)[-1]
