"""The demo agent in a hurry. ``/limit SECONDS``, since 1970: its account may do no more until then."""

from __future__ import annotations

import sys
from typing import Any

from drawbridge.server.agents import demo, demo_agent

COMMAND = [sys.executable, "-c", "import sys; from tests.page import agent; sys.exit(agent.serve())", "serve"]
"""``drawbridge serve`` with this demo agent, which does not keep tests waiting."""


class Agent(demo_agent.Agent):
    def _answer(self, words: str) -> str:
        command, _, until = words.partition(" ")
        if command != "/limit":
            return super()._answer(words)
        self._say("rate_limit_event", rate_limit_info={"status": "rejected", "resetsAt": float(until)})
        said = "You have reached your limit."
        message: dict[str, Any] = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": said}]}
        self._say("assistant", message=message, error="rate_limit", parent_tool_use_id=None)
        raise demo_agent.Failed(said)


def serve() -> int:
    """``drawbridge``, whose demo agent is this one."""
    from drawbridge import cli

    demo.Demo.__init__.__defaults__ = ((sys.executable, "-P", __file__), *(demo.Demo.__init__.__defaults__ or ())[1:])
    return cli.main()


if __name__ == "__main__":
    demo_agent.WORD_SECONDS = 0.001  # type: ignore[misc]
    demo_agent.Agent = Agent  # type: ignore[misc]
    demo_agent.main()
