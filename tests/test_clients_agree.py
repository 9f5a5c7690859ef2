"""The page and the terminal client use the same words for the same thing. The page is loaded as it is, without a browser."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents import catalog
from drawbridge.server.protocol.messages import IN_TERMINAL
from drawbridge.server.terminal_sessions import dialog, session
from drawbridge.tui import wording
from tests import programs
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parent.parent

AGENTS = [*catalog.AGENTS, "goose"]
REASONS = [
    *(session.ELSEWHERE, session.GONE, session.ENDED, session.NOT_DELIVERED, session.NO_LONGER_WAITED, IN_TERMINAL),
    dialog.OVERRULED.format("allowed"),
]
ANSWERS: list[dict[str, Any]] = [
    *({"reason": reason} for reason in REASONS),
    {"decision": "allow", "by": "phone"},
    {"decision": "allow", "by": "phone", "edited": True},
    {"decision": "deny", "by": "phone"},
    {"decision": "deny", "by": "phone", "message": "not now"},
]
REQUEST: dict[str, Any] = {"tool_name": "Bash", "input": {"command": "make"}}

SCRIPT = """
await import(process.argv[1] + '/tests/page/unit/dom.mjs');
document.createElementNS = (_, name) => document.createElement(name);
const { agentName, MODES } = await import(process.argv[1] + '/src/drawbridge/web/project-words.js');
const { settledWords } = await import(process.argv[1] + '/src/drawbridge/web/view-settled.js');
const { agents, answers, request } = JSON.parse(process.argv[2]);
const words = { agents: agents.map(agentName), modes: MODES, answers: answers.map((one) => settledWords(one, request).words) };
console.log(JSON.stringify(words));
"""


@cache
def page() -> Any:
    """What the page says about ``AGENTS`` and ``ANSWERS``, and its names of modes."""
    given = json.dumps({"agents": AGENTS, "answers": ANSWERS, "request": REQUEST})
    command = [str(programs.node()), "--input-type=module", "--eval", SCRIPT, str(ROOT), given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_has_one_name(agent: str) -> None:
    assert page()["agents"][AGENTS.index(agent)] == wording.agent_title(agent)


def test_a_mode_has_one_name() -> None:
    assert page()["modes"] == wording.MODES


@pytest.mark.parametrize("number", range(len(ANSWERS)), ids=[str(one.get("reason", one)) for one in ANSWERS])
def test_a_settled_approval_has_one_sentence(number: int) -> None:
    assert page()["answers"][number] == wording.settled_words(ANSWERS[number], REQUEST)
