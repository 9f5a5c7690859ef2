"""A client can request less than the owner allows, but never more."""

from __future__ import annotations

import fnmatch
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from drawbridge.agents import registry
from drawbridge.agents.base import Decision, Form, ModeChanged, Options
from drawbridge.agents.claude.suggestions import remembered
from drawbridge.agents.modes import BYPASS
from drawbridge.server.approvals.editors import Person
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.options import ceilings as rules
from drawbridge.server.sessions.options.ceilings import COVERED, HARMLESS, Ceilings, check_allowed
from drawbridge.settings.serve import CLIENT_MODES as MODES
from tests.server.core_rig import Client, serving, settled
from tests.waiting import until

NOON = datetime(2026, 11, 21, 12, 0)


def inside(path: str) -> bool:
    return path.startswith("/desk/")


def within(ceilings: Ceilings, asked: Options, now: datetime) -> Options:
    return rules.within(ceilings, asked, now, inside)


def test_every_option_has_a_ceiling_or_a_reason_for_none() -> None:
    assert set(Options.__struct_fields__) == COVERED | set(HARMLESS)
    assert not COVERED & set(HARMLESS)
    assert set(COVERED) == {name for _, _, name in ABOVE} | {"restricted", "add_dirs"}


ABOVE: list[tuple[Ceilings, dict[str, Any], str]] = [
    (Ceilings(), {"dangerously_skip_permissions": True}, "dangerously_skip_permissions"),
    (Ceilings(), {"permission_mode": BYPASS}, "permission_mode"),
    (Ceilings(), {"permission_mode": "something new"}, "permission_mode"),
    (Ceilings(modes=("plan",)), {"permission_mode": "default"}, "permission_mode"),
    (Ceilings(), {"mcp_config": "{}"}, "mcp_config"),
    (Ceilings(tools=("Bash(git *)",)), {"allowed_tools": ("Bash(git log)", "Bash(rm *)")}, "allowed_tools"),
    (Ceilings(tools=("Bash(git *)",)), {"allowed_tools": ("Bash(git log) Bash(rm *)",)}, "allowed_tools"),
    (Ceilings(tools=("Bash(git *)",)), {"allowed_tools": ("Bash(git log),Bash(rm *)",)}, "allowed_tools"),
    (Ceilings(tools=("Bash(git *)",)), {"allowed_tools": ("Bash",)}, "allowed_tools"),
    (Ceilings(tools=("Read(?.py)", "Read([ab])")), {"allowed_tools": ("Read(*.py)",)}, "allowed_tools"),
    (Ceilings(models=("*sonnet*",)), {"model": "opus"}, "model"),
    (Ceilings(models=("*sonnet*",)), {}, "model"),
    (Ceilings(models=("*sonnet*", "haiku")), {"fallback_model": "opus"}, "fallback_model"),
    (Ceilings(models=("*sonnet*", "haiku")), {"fallback_model": "opus,sonnet"}, "fallback_model"),
    (Ceilings(max_turns=5), {"max_turns": 6}, "max_turns"),
    (Ceilings(max_budget_usd=1.0), {"max_budget_usd": 1.01}, "max_budget_usd"),
    (Ceilings(max_turns=5), {"max_turns": -1}, "max_turns"),
    (Ceilings(max_budget_usd=1.0), {"max_budget_usd": float("nan")}, "max_budget_usd"),
    (Ceilings(max_budget_usd=1.0), {"max_budget_usd": 0.0}, "max_budget_usd"),
]


@pytest.mark.parametrize(("ceilings", "asked", "name"), ABOVE, ids=lambda value: str(value)[:40])
def test_an_option_above_its_ceiling_is_named_and_refused(ceilings: Ceilings, asked: dict[str, Any], name: str) -> None:
    with pytest.raises(ClientError) as refused:
        within(ceilings, Options(**asked), NOON)
    assert (refused.value.code, refused.value.field) == ("PERMISSION_DENIED", f"data.options.{name}")


def test_missing_options_get_the_ceiling() -> None:
    ceilings = Ceilings(max_turns=5, max_budget_usd=2.5, restricted=True)
    assert within(ceilings, Options(), NOON) == Options(max_turns=5, max_budget_usd=2.5, restricted=True)


def test_options_below_the_ceiling_are_unchanged() -> None:
    asked = Options(permission_mode="plan", max_turns=3, allowed_tools=("Read",))
    assert within(Ceilings(max_turns=5), asked, NOON) == asked


@pytest.mark.parametrize(("hours", "hour", "open"), [((8, 18), 12, True), ((8, 18), 18, False), ((22, 6), 23, True),
                                                      ((22, 6), 5, True), ((22, 6), 6, False)])  # fmt: skip
def test_agents_run_only_during_the_owners_hours(hours: tuple[int, int], hour: int, open: bool) -> None:
    def ask() -> Options:
        return within(Ceilings(hours=hours), Options(), NOON.replace(hour=hour))

    if open:
        assert ask() == Options()
    else:
        with pytest.raises(ClientError):
            ask()


def test_a_directory_outside_the_roots_is_named_and_refused() -> None:
    with pytest.raises(ClientError) as refused:
        within(Ceilings(), Options(add_dirs=("/desk/a", "/etc")), NOON)
    assert (refused.value.code, refused.value.field) == ("INVALID_PATH", "data.options.add_dirs[1]")


@pytest.mark.parametrize(("modes", "mode"), [(("plan", "default"), "default"), (("plan",), "plan"), (MODES, None)])
def test_the_default_mode_is_one_that_is_allowed(modes: tuple[str, ...], mode: str | None) -> None:
    assert within(Ceilings(modes=modes), Options(), NOON).permission_mode == mode


def test_an_invalid_model_name_is_refused_with_an_example() -> None:
    with pytest.raises(ClientError) as refused:
        within(Ceilings(), Options(model="--opus"), NOON)
    assert refused.value.text == 'data.options.model: it must be a model name, such as "opus".'


def test_the_model_is_required_if_only_patterns_are_allowed() -> None:
    with pytest.raises(ClientError) as refused:
        within(Ceilings(models=("*sonnet*", "*haiku*")), Options(), NOON)
    assert refused.value.text == "model is required, and must match one of *sonnet*, *haiku*."


def test_the_default_model_is_the_first_without_a_wildcard() -> None:
    assert within(Ceilings(models=("*sonnet*", "haiku", "opus")), Options(), NOON).model == "haiku"


# what the agent may remember after an approval

REMEMBERED: list[tuple[Ceilings, dict[str, Any], bool]] = [
    (Ceilings(), {"type": "setMode", "mode": "acceptEdits", "destination": "session"}, True),
    (Ceilings(), {"type": "setMode", "mode": BYPASS, "destination": "session"}, False),
    (Ceilings(skip_permissions=True), {"type": "setMode", "mode": BYPASS}, True),
    (Ceilings(modes=("default", "plan")), {"type": "setMode", "mode": "acceptEdits"}, False),
    (Ceilings(), {"type": "addRules", "behavior": "allow", "rules": [{"toolName": "Bash"}]}, True),
    (
        Ceilings(tools=("Bash(git *)",)),
        {"type": "addRules", "behavior": "allow", "rules": [{"toolName": "Bash"}]},
        False,
    ),
    (
        Ceilings(tools=("Bash(git *)",)),
        {"type": "addRules", "behavior": "allow", "rules": [{"toolName": "Bash", "ruleContent": "git log:*"}]},
        True,
    ),
    (Ceilings(tools=("Read",)), {"type": "addRules", "behavior": "deny", "rules": [{"toolName": "Bash"}]}, True),
    (Ceilings(), {"type": "addDirectories", "directories": ["/desk/b"]}, True),
    (Ceilings(), {"type": "addDirectories", "directories": ["/desk/b", "/etc"]}, False),
    (Ceilings(), {"type": "something new"}, True),
    (Ceilings(tools=("Read",)), {"type": "something new"}, False),
    (Ceilings(tools=("Read",)), {"type": "addRules", "behavior": "allow", "rules": "all"}, False),
    (Ceilings(tools=("Read",)), {"type": "addRules", "behavior": "allow", "rules": ["Bash"]}, False),
    (Ceilings(tools=("Read",)), {"type": "addRules", "behavior": "moon", "rules": [{"toolName": "Read"}]}, False),
    (Ceilings(tools=("Read",)), {"type": "addRules", "behavior": "ask", "rules": [{"toolName": "Bash"}]}, True),
    (Ceilings(tools=("Read",)), {"type": "removeRules", "behavior": "allow"}, True),
    (Ceilings(tools=("Read",)), {"type": "removeRules", "behavior": "deny"}, False),
    (Ceilings(), {"type": "addDirectories", "directories": ["/desk/b", 3]}, False),
    (Ceilings(tools=("Read",)), {"type": "addDirectories", "directories": "/desk/b"}, False),
    (Ceilings(modes=("default",)), {"type": "setMode", "mode": 3}, False),
]


def check(
    ceilings: Ceilings, suggestions: Any, *, tool: str = "Bash", agent: str = "claude", remember: bool = True
) -> None:
    """Checks whether a call of an agent's ``tool``, with these suggestions, may be allowed."""
    form: Form = "acp" if agent == "gemini" else "fields"
    call = registry.tools(agent).call(tool, {}, Raw(json.dumps(suggestions).encode()), form)
    check_allowed(ceilings, call, remember=remember, usable=inside)


@pytest.mark.parametrize(("ceilings", "suggestion", "fits"), REMEMBERED, ids=lambda value: str(value)[:40])
def test_an_answer_never_remembers_more_than_is_allowed(
    ceilings: Ceilings, suggestion: dict[str, Any], fits: bool
) -> None:
    check(ceilings, [suggestion], remember=False)
    if fits:
        check(ceilings, [suggestion])
        return
    with pytest.raises(ClientError) as refused:
        check(ceilings, [suggestion])
    assert (refused.value.code, refused.value.field) == ("PERMISSION_DENIED", "data.remember")


@pytest.mark.parametrize("ceilings", [Ceilings(tools=("Read",)), Ceilings(modes=("default", "plan"))])
@pytest.mark.parametrize(
    ("agent", "suggestion"),
    [
        ("gemini", {"optionId": "always", "kind": "allow_always", "name": "Always allow"}),
        ("gemini", {"optionId": "always", "kind": "something new"}),
        ("gemini", {"optionId": "once", "kind": "allow_once"}),
        ("codex", {"type": "something new"}),
        ("an ACP agent", {"optionId": "always", "kind": "allow_always"}),
    ],
)
def test_a_suggestion_of_unknown_form_exceeds_any_ceiling(
    agent: str, suggestion: dict[str, Any], ceilings: Ceilings
) -> None:
    check(Ceilings(), [suggestion], tool="execute", agent=agent)
    with pytest.raises(ClientError, match="a suggestion that it does not understand"):
        check(ceilings, [suggestion], tool="execute", agent=agent)


def test_a_suggested_mode_that_is_not_remembered_is_allowed() -> None:
    """If a suggested mode accompanies a rule, the agent gets only the rule. A mode alone would be remembered, so it is
    refused if the owner does not allow it.
    """
    mode = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
    rule = {"type": "addRules", "behavior": "allow", "rules": [{"toolName": "Bash"}]}
    ceilings = Ceilings(modes=("default", "plan"))
    assert remembered(Raw(json.dumps([rule, mode]).encode())) == [rule]
    check(ceilings, [rule, mode])
    with pytest.raises(ClientError, match="the acceptEdits mode"):
        check(ceilings, [mode])


@pytest.mark.parametrize("agent", ["claude", "demo", "gemini"])
def test_plan_mode_cannot_be_left_if_it_is_the_only_mode(agent: str) -> None:
    check(Ceilings(), [], tool="ExitPlanMode", agent=agent, remember=False)
    with pytest.raises(ClientError, match="leave plan mode"):
        check(Ceilings(modes=("plan",)), [], tool="ExitPlanMode", agent=agent, remember=False)


async def test_an_approval_above_a_ceiling_leaves_the_request_open(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        server.core.grants.ceilings = Ceilings(modes=("plan",))
        phone = Client()
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.asks("q1", "ExitPlanMode")
        [question] = phone.of_type("permission_request")
        answer = {"approval_id": question["data"]["approval_id"], "decision": "allow"}
        with pytest.raises(ClientError):
            await server.does(phone, "permission_response", project, **answer)
        assert process.answers == []
        await server.does(phone, "permission_response", project, **(answer | {"decision": "deny"}))
        assert [decision.allow for _, decision in process.answers] == [False]


async def test_the_ceilings_apply_to_a_decision_in_an_editor(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        server.core.grants.ceilings = Ceilings(modes=("plan",))
        phone = Client()
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.asks("q1", "ExitPlanMode")
        session = server.core.projects.get(project)
        [approval] = session.approvals
        with pytest.raises(ClientError, match="leave plan mode"):
            await session.decide(approval, Decision(allow=True), Person("Neovim"))
        assert process.answers == []
        await session.decide(approval, Decision(allow=False), Person("Neovim"))
        assert [decision.allow for _, decision in process.answers] == [False]


async def test_the_agents_options_are_within_the_ceilings(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        server.core.grants.ceilings = Ceilings(modes=("plan",), models=("haiku",), max_turns=3, restricted=True)
        phone = Client()
        project = await server.project(phone)
        process = await server.running(phone, project)
        assert process.launch.options == Options(permission_mode="plan", model="haiku", max_turns=3, restricted=True)
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "set_mode", project, mode="default")
        assert (refused.value.code, refused.value.field) == ("PERMISSION_DENIED", "data.mode")
        with pytest.raises(ClientError):
            await server.does(phone, "set_model", project, model="opus")
        assert process.modes == []


# any options

limits = st.one_of(st.none(), st.integers(1, 50))
some_rules = st.lists(st.text("Bash()git *,rm?[]", max_size=14), max_size=2).map(tuple)
some_models = st.lists(st.text("ab*?", min_size=1, max_size=4), max_size=3).map(tuple)


def covers(pattern: str, text: str) -> bool:
    """Whether the pattern, in which only ``*`` is special, matches the text. Implemented differently from the code
    under test.
    """
    return fnmatch.fnmatchcase(text, re.sub(r"[?\[]", lambda found: f"[{found[0]}]", pattern))


@given(
    ceilings=st.builds(
        Ceilings,
        modes=st.sets(st.sampled_from(MODES), min_size=1).map(tuple),
        skip_permissions=st.booleans(),
        mcp_config=st.booleans(),
        tools=some_rules,
        models=some_models,
        max_turns=limits,
        max_budget_usd=st.one_of(st.none(), st.floats(0.01, 50)),
        restricted=st.booleans(),
    ),
    asked=st.builds(
        Options,
        permission_mode=st.one_of(st.none(), st.sampled_from([*MODES, BYPASS])),
        dangerously_skip_permissions=st.booleans(),
        mcp_config=st.one_of(st.none(), st.just("{}")),
        allowed_tools=some_rules,
        add_dirs=st.lists(st.sampled_from(["/desk/a", "/etc"]), max_size=2).map(tuple),
        model=st.one_of(st.none(), st.text("ab", min_size=1, max_size=3)),
        fallback_model=st.one_of(st.none(), st.text("ab,", min_size=1, max_size=4)),
        max_turns=st.one_of(st.none(), st.integers(-5, 60)),
        max_budget_usd=st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True)),
        restricted=st.booleans(),
    ),
)
def test_no_option_exceeds_its_ceiling(ceilings: Ceilings, asked: Options) -> None:
    try:
        found = within(ceilings, asked, NOON)
    except ClientError:
        return
    assert ceilings.skip_permissions or not found.dangerously_skip_permissions
    assert found.permission_mode in ((BYPASS,) if ceilings.skip_permissions else ()) + ceilings.modes or (
        found.permission_mode is None and set(ceilings.modes) == set(MODES)
    )
    assert ceilings.mcp_config or found.mcp_config is None
    for rule in found.allowed_tools if ceilings.tools else ():
        assert any(covers(one, rule) for one in ceilings.tools)
    assert all(map(inside, found.add_dirs))
    for model in [found.model, *(found.fallback_model or "").split(",")] if ceilings.models else []:
        assert model == "" or (model is not None and any(covers(one, model) for one in ceilings.models))
    assert ceilings.max_turns is None or 0 < (found.max_turns or 0) <= ceilings.max_turns
    assert ceilings.max_budget_usd is None or 0 < (found.max_budget_usd or 0) <= ceilings.max_budget_usd
    assert found.restricted >= ceilings.restricted
    unchanged = {name: getattr(found, name) for name in HARMLESS}
    assert unchanged == {name: getattr(asked, name) for name in HARMLESS}


@pytest.mark.parametrize(
    ("ceiling", "mode", "allowed"),
    [
        (("default",), "default", True),
        (("manual",), "default", True),
        (("default",), "plan", True),
        (("acceptEdits",), "default", True),
        (("default",), "acceptEdits", False),
        (("plan",), "default", False),
        (MODES, "auto", True),
        (MODES, BYPASS, False),
        (MODES, "of-its-own", False),
    ],
)
async def test_a_forbidden_mode_set_by_the_agent_is_reset(
    tmp_path: Path, ceiling: tuple[str, ...], mode: str, allowed: bool
) -> None:
    async with serving(tmp_path) as server:
        server.core.grants.ceilings = Ceilings(modes=ceiling)
        phone = Client()
        process = await server.running(phone, await server.project(phone))
        process.emit(ModeChanged(mode))
        await settled()
        shown = phone.updates("project_state")[-1].get("permission_mode", "default")
        if allowed:
            assert (process.modes, shown) == ([], mode)
        else:
            usual = "plan" if ceiling == ("plan",) else "default"
            assert (process.modes, shown) == ([usual], usual)
        process.ends()


async def test_an_agent_that_stays_in_a_forbidden_mode_is_stopped(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        server.core.grants.ceilings = Ceilings(modes=("dontAsk",))  # the fake agent refuses this mode
        phone = Client()
        process = await server.running(phone, await server.project(phone))
        process.emit(ModeChanged("acceptEdits"))
        await until(lambda: process.ended)
        finished = phone.updates("run_finished")[-1]
        assert (finished["outcome"], finished["code"]) == ("failed", "PERMISSION_DENIED")


async def test_a_new_project_shows_the_mode_of_its_first_run(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        server.core.grants.ceilings = Ceilings(modes=("plan",))
        phone = Client()
        await server.project(phone)
        [project] = (await server.does(phone, "project_list"))["data"]["projects"]
        assert project["permission_mode"] == "plan"
