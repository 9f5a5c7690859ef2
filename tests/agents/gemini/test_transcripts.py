"""Replays recorded sessions of Gemini CLI: our lines must be the same, and the turns must end the same way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from drawbridge.agents.acp.conversation import AcpConversation
from drawbridge.agents.acp.questions import outcome
from drawbridge.agents.base import AgentLine, Broken, Decision, Launch, Options, Output, Question, TurnEnded
from tests.agents.acp.peers import said
from tests.agents.recording import read

from .recording import load

POEM = "one\ntwo\n"
DECISIONS = [Decision(allow=allow, remember=remember) for allow in (True, False) for remember in (False, True)]


class Played:
    """A recorded session. User actions are reconstructed from the lines that Drawbridge sent."""

    def __init__(self, name: str) -> None:
        self.said: list[Output] = []
        self._questions: list[Question] = []
        lines = load(name)
        for entry, rest in ((entry, lines[number:]) for number, entry in enumerate(lines)):
            if entry["from"] == "gemini":
                new = [read(one) for one in self._conversation.received(json.dumps(entry["line"]).encode())]
                self._questions += [one for one in new if isinstance(one, Question)]
                self.said += new
            else:
                self._tell(entry["line"], rest)

    def _tell(self, line: dict[str, Any], rest: list[dict[str, Any]]) -> None:
        if line.get("method") == "initialize":
            version = line["params"]["clientInfo"]["version"]
            self._conversation = AcpConversation("Gemini CLI", _launch(rest), lambda path: POEM, version)
            self._sent = _lines(self._conversation)
        sent = next(self._sent, None)
        if sent is None:
            self._do(line)
            sent = next(self._sent, None)
        assert sent == line

    def _do(self, line: dict[str, Any]) -> None:
        match line.get("method"):
            case "session/prompt":
                self.said += self._conversation.prompt(line["params"]["prompt"][-1]["text"])
            case "session/cancel":
                self._conversation.interrupt()
            case "session/set_mode":
                self._conversation.set_mode(line["params"]["modeId"])
            case None:
                question = self._questions.pop()
                decision = next(one for one in DECISIONS if outcome(question.suggestions, one) == line["result"])
                self._conversation.answer(question.question_id, decision)

    @property
    def ends(self) -> list[str | None]:
        turns = [one for one in self.said if isinstance(one, TurnEnded)]
        return ["ok" if turn.ok else "interrupted" if turn.interrupted else turn.code for turn in turns]


def _lines(conversation: AcpConversation) -> Iterator[dict[str, Any] | None]:
    """Yields the lines that are sent, one by one, and None while no line is waiting."""
    waiting: list[bytes] = []
    while True:
        waiting += conversation.outgoing().splitlines()
        yield json.loads(waiting.pop(0)) if waiting else None


def _launch(rest: list[dict[str, Any]]) -> Launch:
    """Reconstructs the launch of this process from the lines before its first prompt."""
    sent = [one["line"] for one in rest if one["from"] == "drawbridge"]
    before = sent[: next((number for number, line in enumerate(sent) if line.get("method") == "session/prompt"), None)]
    params = {line["method"]: line["params"] for line in before}
    loaded = params.get("session/load", {}).get("sessionId", "")
    mode = {"autoEdit": "acceptEdits"}.get(params.get("session/set_mode", {}).get("modeId", ""))
    options = Options(permission_mode=mode, model=params.get("session/set_model", {}).get("modelId"))
    return Launch("/project", loaded, resume=bool(loaded), options=options)


@pytest.mark.parametrize(
    ("name", "ends", "words"),
    [
        ("a-prompt", ["ok"], ["Hello there."]),
        ("questions", ["ok"] * 4, ["Pity.", "Done.", "Made.", "Again."]),
        ("interrupts", ["interrupted", "interrupted", "ok"], ["Here I am."]),
        ("a-resumed-conversation", ["ok", "ok"], ["I am Ada.", "Ada, as I said."]),
    ],
)
def test_a_replayed_session_has_the_recorded_ends_and_texts(name: str, ends: list[str], words: list[str]) -> None:
    played = Played(name)
    assert played.ends == ends
    assert said(one for one in played.said if isinstance(one, AgentLine)) == words


@pytest.mark.parametrize("name", ["a-missing-login", "a-lost-conversation"])
def test_a_session_that_cannot_begin_is_reported(name: str) -> None:
    [broken] = [one for one in Played(name).said if isinstance(one, Broken)]
    assert "Gemini CLI" in broken.fault
