"""A demo agent for tests that answers almost without delay and understands additional commands.

``/limit SECONDS``: ends the turn as if the account had reached its limit. The limit resets at this time, in seconds
since 1970.
``/calls JSON``, a list of {name, input, [suggestions], [padding]}: requests approval of these tool calls at the same
time, and replies with the answers. "acp:" before a name marks an Agent Client Protocol call. The padding is the length
of a text that is added to the input.
``/say JSON``: replies with this text.
``/stream JSON``, [seconds, characters]: streams a text of this length in this time.
``/write JSON``, {path: content}: writes these files without asking. null deletes a file, a number is its new mode, and
"base64:" precedes binary content.
``/emit JSON``: writes these lines to the stream unchanged. The line {"hold": true} waits for up to ten minutes until a
user interrupts, {"deaf": true} waits for ten minutes and ignores an interrupt, and {"fail": text} ends the turn with
this error.
Comments on a review: replies that it has read them.

The agent's list of sessions for a directory is the directory's ``.sessions.json``, a list of {session_id, title,
last_active}.
"""

from __future__ import annotations

import base64
import json
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from drawbridge.agents import registry
from drawbridge.agents.acp import tools as acp
from drawbridge.agents.base import Event, Form, Launch, Question, StoredConversation
from drawbridge.agents.claude import tools as claude
from drawbridge.agents.demo import driver, script
from drawbridge.agents.tool_calls import ToolCall

PARAGRAPH = """A paragraph with **bold** and `code` and a [link](https://example.org), long enough to be one of many.

- an item
- another item with *emphasis*

```python
def is_open(self):
    return self.angle < 3  # degrees
```

| a | b |
|---|---|
| c | d |

"""

COMMAND = [sys.executable, "-c", "import sys; from tests.page import agent; sys.exit(agent.serve())", "serve"]
"""``drawbridge serve`` with this agent in place of the demo agent."""


def wake_up(seconds: float) -> list[dict[str, Any]]:
    """Returns lines for ``/emit``: the agent schedules a wake-up for this time, in seconds since 1970."""
    call = {"type": "tool_use", "id": "toolu_wake_up", "name": "ScheduleWakeup", "input": {"reason": "CI"}}
    done = {"type": "tool_result", "tool_use_id": "toolu_wake_up", "content": "Next wakeup scheduled"}
    message = {"type": "assistant", "message": {"role": "assistant", "content": [call]}, "parent_tool_use_id": None}
    result = {"scheduledFor": int(seconds * 1000), "wasClamped": False}
    return [message, {"type": "user", "message": {"role": "user", "content": [done]}, "tool_use_result": result}]


def enters_worktree(directory: str) -> list[dict[str, Any]]:
    """Returns lines for ``/emit``: the agent enters a git worktree that Claude Code created."""
    call = {"type": "tool_use", "id": "toolu_worktree", "name": "EnterWorktree", "input": {}}
    done = {"type": "tool_result", "tool_use_id": "toolu_worktree", "content": "Created"}
    message = {"type": "assistant", "message": {"role": "assistant", "content": [call]}, "parent_tool_use_id": None}
    result = {"worktreePath": directory}
    return [message, {"type": "user", "message": {"role": "user", "content": [done]}, "tool_use_result": result}]


TASK = {"type": "system", "subtype": "task_started", "task_id": "t1", "description": "A build", "is_backgrounded": True}
"""A line for ``/emit``: the agent has started a command in the background."""


class Agent(script.Agent):
    def _answer(self, words: str) -> str:
        command, _, until = words.partition(" ")
        if words.startswith("I have reviewed"):
            return self._tell("I have read the comments.", pace=0)
        if command == "/calls":
            return self._call(json.loads(until))
        if command == "/say":
            return self._tell(json.loads(until), pace=0)
        if command == "/stream":
            seconds, length = json.loads(until)
            return self._stream(float(seconds), int(length))
        if command == "/write":
            return self._work(json.loads(until))
        if command == "/emit":
            return self._emit(json.loads(until))
        if command != "/limit":
            return super()._answer(words)
        self._say("rate_limit_event", rate_limit_info={"status": "rejected", "resetsAt": float(until)})
        reply = "You have reached your limit."
        message: dict[str, Any] = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": reply}]}
        self._say("assistant", message=message, error="rate_limit", parent_tool_use_id=None)
        raise script.Failed(reply)

    def _work(self, files: dict[str, str | int | None]) -> str:
        for name, content in files.items():
            path = Path(name)
            if content is None:
                path.unlink()
            elif isinstance(content, int):
                path.chmod(content)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                data = content.encode()
                path.write_bytes(base64.b64decode(data[7:]) if content.startswith("base64:") else data)
        return self._tell("Written.", pace=0)

    def _stream(self, seconds: float, length: int) -> str:
        """Streams a text of ``length`` characters in about this time, a hundred characters at a time."""
        text = (PARAGRAPH * (length // len(PARAGRAPH) + 1))[:length]
        self._event(type="content_block_start", index=0, content_block={"type": "text", "text": ""})
        for start in range(0, length, 100):
            delta = {"type": "text_delta", "text": text[start : start + 100]}
            self._event(type="content_block_delta", index=0, delta=delta)
            self._wait(seconds * 100 / length)
        self._event(type="content_block_stop", index=0)
        self._assistant({"type": "text", "text": text})
        return text

    def _emit(self, lines: list[dict[str, Any]]) -> str:
        for line in lines:
            if "hold" in line:
                self._wait(600)
            elif "deaf" in line:
                time.sleep(600)
            elif "fail" in line:
                raise script.Failed(line["fail"])
            else:
                self._write(line)
        return "Emitted."

    def _call(self, calls: list[dict[str, Any]]) -> str:
        asked = {str(uuid.uuid4()): call for call in calls}
        for id, call in asked.items():
            if "padding" in call:
                call["input"]["padding"] = "x" * call["padding"]
            block = {"type": "tool_use", "id": id, "name": call["name"], "input": call["input"]}
            self._assistant(block)
            question = {"subtype": "can_use_tool", "tool_name": call["name"], "input": call["input"], "tool_use_id": id}
            question["permission_suggestions"] = call.get("suggestions", [])
            self._write({"type": "control_request", "request_id": id, "request": question})
        while self._open and not asked.keys() <= self._answers.keys():
            self._handle_next(None)
            if self._interrupted:
                raise script.Interrupted
        answers = [self._answers.pop(id, {}) for id in asked]
        return self._tell("Answers: " + json.dumps(answers), pace=0)


EventT = TypeVar("EventT")

_start = driver.Demo.start


async def _starting(demo: driver.Demo, launch: Launch, emit: Callable[[Event], None]) -> Any:
    """Starts the demo agent. Reports a call "acp:NAME" as an Agent Client Protocol call with the name NAME."""

    def meant(event: EventT) -> EventT:
        if isinstance(event, Question) and event.tool_name.startswith("acp:"):
            return msgspec.structs.replace(event, tool_name=event.tool_name.removeprefix("acp:"), form="acp")
        return event

    look = launch.look
    if look is not None:
        launch = msgspec.structs.replace(launch, look=lambda event: look(meant(event)))
    return await _start(demo, launch, lambda event: emit(meant(event)))


async def _list_conversations(_: driver.Demo, path: Path, limit: int) -> list[StoredConversation]:
    file = path / ".sessions.json"
    return msgspec.json.decode(file.read_bytes(), type=list[StoredConversation])[:limit] if file.exists() else []


class _Tools(claude.ClaudeTools):
    """The demo agent's tools, and those of an Agent Client Protocol call."""

    def call(self, name: str, given: Mapping[str, Any], suggestions: Raw, form: Form) -> ToolCall:
        if form == "acp":
            return acp.TOOLS.call(name, given, suggestions, form)
        return super().call(name, given, suggestions, form)


def serve() -> int:
    """Runs the ``drawbridge`` command with this agent in place of the demo agent. Returns its exit status."""
    from drawbridge import cli

    driver.Demo.list_conversations = _list_conversations  # type: ignore[attr-defined]
    registry._TOOLS["demo"] = _Tools()  # type: ignore[index]
    driver.Demo.start = _starting  # type: ignore[assignment, method-assign]
    driver.Demo.__init__.__defaults__ = (
        (sys.executable, "-P", __file__),
        *(driver.Demo.__init__.__defaults__ or ())[1:],
    )
    return cli.main()


if __name__ == "__main__":
    script.WORD_SECONDS = 0.001  # type: ignore[misc]
    script.Agent = Agent  # type: ignore[misc]
    script.main()
