"""The demo agent in a hurry.

``/limit SECONDS``, since 1970: its account may do no more until then. ``/calls JSON``: asks about these tool calls, a list
of {name, input, [suggestions]}, all at once, and says what it was answered. ``/say JSON``: says this text.
"""

from __future__ import annotations

import json
import sys
import uuid
from typing import Any

from drawbridge.agents.demo import driver, script

COMMAND = [sys.executable, "-c", "import sys; from tests.page import agent; sys.exit(agent.serve())", "serve"]
"""``drawbridge serve`` with this demo agent, which does not keep tests waiting."""


class Agent(script.Agent):
    def _answer(self, words: str) -> str:
        command, _, until = words.partition(" ")
        if command == "/calls":
            return self._call(json.loads(until))
        if command == "/say":
            return self._tell(json.loads(until), pace=0)
        if command != "/limit":
            return super()._answer(words)
        self._say("rate_limit_event", rate_limit_info={"status": "rejected", "resetsAt": float(until)})
        said = "You have reached your limit."
        message: dict[str, Any] = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": said}]}
        self._say("assistant", message=message, error="rate_limit", parent_tool_use_id=None)
        raise script.Failed(said)

    def _call(self, calls: list[dict[str, Any]]) -> str:
        asked = {str(uuid.uuid4()): call for call in calls}
        for id, call in asked.items():
            block = {"type": "tool_use", "id": id, "name": call["name"], "input": call["input"]}
            self._assistant(block)
            question = {"subtype": "can_use_tool", "tool_name": call["name"], "input": call["input"], "tool_use_id": id}
            question["permission_suggestions"] = call.get("suggestions", [])
            self._write({"type": "control_request", "request_id": id, "request": question})
        while self._open and not asked.keys() <= self._answers.keys():
            self._take(None)
            if self._interrupted:
                raise script.Interrupted
        answers = [self._answers.pop(id, {}) for id in asked]
        return self._tell("Answers: " + json.dumps(answers), pace=0)


def serve() -> int:
    """``drawbridge``, whose demo agent is this one."""
    from drawbridge import cli

    driver.Demo.__init__.__defaults__ = (
        (sys.executable, "-P", __file__),
        *(driver.Demo.__init__.__defaults__ or ())[1:],
    )
    return cli.main()


if __name__ == "__main__":
    script.WORD_SECONDS = 0.001  # type: ignore[misc]
    script.Agent = Agent  # type: ignore[misc]
    script.main()
