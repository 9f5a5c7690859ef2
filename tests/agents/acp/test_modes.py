"""The current mode of an Agent Client Protocol agent is shown, and the modes that it offers can be chosen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from drawbridge.agents import modes
from drawbridge.agents.acp.conversation import AcpConversation
from drawbridge.agents.base import Broken, Launch, ModeChanged, ModeOffer, Options, Output, Replied, TurnEnded


class Stream:
    """A conversation with an agent that offers these modes and begins in the first one."""

    def __init__(self, *offered: str, options: Options = Options(), as_option: bool = False) -> None:  # noqa: B008
        self.events: list[Output] = []
        self.chosen: list[str] = []
        self.reply: dict[str, Any] = {"result": {}}
        """The agent's reply to the choice of a mode."""
        self._offered = offered
        self._as_option = as_option
        self._conversation = AcpConversation("The agent", Launch("/p", "", options=options), lambda path: None, "1")
        self.answers()

    def answers(self) -> None:
        for request in self._requests():
            self.says(id=request["id"], **self._answer(request))

    def says(self, **message: Any) -> None:
        self.events += self._conversation.received(json.dumps({"jsonrpc": "2.0", **message}).encode())
        self.answers()

    def updates(self, **update: Any) -> None:
        self.says(method="session/update", params={"sessionId": "s", "update": update})

    def sets(self, mode: str) -> None:
        self._conversation.set_mode(mode)
        self.answers()

    @property
    def known(self) -> list[str]:
        return [event.mode for event in self.events if isinstance(event, ModeChanged)]

    @property
    def fault(self) -> str:
        return "".join(event.fault for event in self.events if isinstance(event, Broken))

    def _requests(self) -> Iterator[dict[str, Any]]:
        while lines := self._conversation.outgoing().splitlines():
            yield from map(json.loads, lines)

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        params = request["params"]
        match request["method"]:
            case "initialize":
                return {"result": {"protocolVersion": 1, "agentCapabilities": {}}}
            case "session/new" if self._as_option:
                values = [{"value": mode, "name": mode.title(), "description": "…"} for mode in self._offered]
                option = {"id": "mode", "category": "mode", "currentValue": self._offered[0], "options": values}
                return {"result": {"sessionId": "s", "configOptions": [option]}}
            case "session/new":
                listed = [{"id": mode, "name": mode.title(), "description": "…"} for mode in self._offered]
                found = {"currentModeId": self._offered[0], "availableModes": listed} if listed else None
                return {"result": {"sessionId": "s", "modes": found}}
            case "session/set_mode" | "session/set_config_option":
                self.chosen.append(params.get("modeId") or params.get("value"))
                return self.reply
        return {"error": {"code": -32601, "message": "no"}}


CODEX = ("agent", "read-only", "workspace-write", "agent-full-access")


@pytest.mark.parametrize("as_option", [False, True])
def test_the_agents_own_mode_is_shown(as_option: bool) -> None:
    stream = Stream(*CODEX, as_option=as_option)
    [known] = [event for event in stream.events if isinstance(event, ModeChanged)]
    own = (ModeOffer("agent", "Agent", "…"), ModeOffer("workspace-write", "Workspace-Write", "…"))
    assert known == ModeChanged("agent", ("agent", "plan", "workspace-write", "bypassPermissions"), own)
    assert stream.chosen == []


@pytest.mark.parametrize("as_option", [False, True])
def test_a_mode_that_only_the_agent_has_can_be_chosen(as_option: bool) -> None:
    stream = Stream(*CODEX, options=Options(permission_mode="workspace-write"), as_option=as_option)
    assert (stream.chosen, stream.known) == (["workspace-write"], ["workspace-write"])
    stream.sets("plan")
    assert stream.chosen == ["workspace-write", "read-only"]


@pytest.mark.parametrize(
    ("message", "reason"),
    [("", "The agent gave no reason."), ("not now", "not now."), ("it gave no reason", "it gave no reason.")],
)
def test_a_refused_mode_is_reported_with_its_reason(message: str, reason: str) -> None:
    stream = Stream("ask", "code")
    stream.reply = {"error": {"code": -32603, "message": message}}
    stream.sets("code")
    assert [event.error for event in stream.events if isinstance(event, Replied)] == [reason]
    assert stream.known[-1:] != ["code"]


def test_an_agent_with_a_default_mode_begins_in_it() -> None:
    """The owner's settings may make the agent start in another mode."""
    stream = Stream("acceptEdits", "ask", "plan")
    assert (stream.chosen, stream.known) == (["ask"], ["default"])
    assert Stream("default", "plan").chosen == []


def test_an_agent_does_not_begin_in_a_mode_that_asks_nothing() -> None:
    stream = Stream("YOLO mode", "careful")
    assert (stream.chosen, stream.known) == (["careful"], ["careful"])
    refused = Stream("yolo")
    assert "has only modes that never ask, such as yolo. Choose one of them" in refused.fault
    assert Stream("yolo", options=Options(dangerously_skip_permissions=True)).known == ["bypassPermissions"]


def test_an_error_about_the_mode_names_the_option_that_chose_it() -> None:
    skipping = Stream("default", "plan", options=Options(dangerously_skip_permissions=True))
    assert skipping.fault.startswith("options.dangerously_skip_permissions: The agent does not offer the ")
    chosen = Stream("default", options=Options(permission_mode="plan"))
    assert chosen.fault.startswith("options.permission_mode: The agent does not offer the plan mode.")
    assert chosen.fault.endswith(" The prompt was not sent.")


def test_a_mode_that_the_agent_changes_is_reported() -> None:
    stream = Stream("default", "plan", "auto-edit")
    stream.updates(sessionUpdate="current_mode_update", currentModeId="auto-edit")
    assert stream.known == ["default", "acceptEdits"]
    for option in (Stream(*CODEX, as_option=True), Stream(*CODEX)):
        option_changes(option)


def option_changes(option: Stream) -> None:
    changed = {"id": "mode", "category": "mode", "currentValue": "agent-full-access", "options": []}
    option.updates(sessionUpdate="config_option_update", configOptions=[changed])
    assert option.known == ["agent", "bypassPermissions"]


@pytest.mark.parametrize("nonsense", [None, 7, "", "x" * 300, {}])
def test_an_unusable_mode_name_is_ignored(nonsense: Any) -> None:
    stream = Stream("default", "plan")
    stream.updates(sessionUpdate="current_mode_update", currentModeId=nonsense)
    stream.updates(sessionUpdate="config_option_update", configOptions=nonsense)
    assert stream.known == ["default"]
    assert not any(isinstance(event, Broken | TurnEnded) for event in stream.events)


def test_an_agent_without_modes_offers_no_modes() -> None:
    assert Stream().known == []


@pytest.mark.parametrize("name", ["yolo", "Full Access", "agent-full-access", "danger-full-access", "skip_permissions"])
def test_names_of_modes_that_skip_approvals_are_recognized(name: str) -> None:
    assert modes.word(name) == modes.BYPASS
    assert modes.chosen(name, [name]) is None
    assert modes.chosen(modes.BYPASS, [name]) == name
