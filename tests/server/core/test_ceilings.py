"""A client can ask for less than the owner allows, never for more."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.server.agents.port import Options
from drawbridge.server.ceilings import BYPASS, Ceilings, within
from drawbridge.server.client_errors import ClientError
from drawbridge.settings import CLIENT_MODES as MODES

NOON = datetime(2026, 11, 21, 12, 0)

ABOVE: list[tuple[Ceilings, dict[str, Any], str]] = [
    (Ceilings(), {"dangerously_skip_permissions": True}, "dangerously_skip_permissions"),
    (Ceilings(), {"permission_mode": BYPASS}, "permission_mode"),
    (Ceilings(), {"permission_mode": "something new"}, "permission_mode"),
    (Ceilings(modes=("plan",)), {"permission_mode": "default"}, "permission_mode"),
    (Ceilings(), {"mcp_config": "{}"}, "mcp_config"),
    (Ceilings(tools=("Bash(git *)",)), {"allowed_tools": ("Bash(git log)", "Bash(rm *)")}, "allowed_tools"),
    (Ceilings(models=("*sonnet*",)), {"model": "opus"}, "model"),
    (Ceilings(models=("*sonnet*",)), {"fallback_model": "opus"}, "fallback_model"),
    (Ceilings(max_turns=5), {"max_turns": 6}, "max_turns"),
    (Ceilings(max_budget_usd=1.0), {"max_budget_usd": 1.01}, "max_budget_usd"),
    (Ceilings(max_budget_usd=1.0), {"max_budget_usd": float("nan")}, "max_budget_usd"),
]


@pytest.mark.parametrize(("ceilings", "asked", "name"), ABOVE, ids=lambda value: str(value)[:40])
def test_what_is_above_its_ceiling_is_refused_by_name(ceilings: Ceilings, asked: dict[str, Any], name: str) -> None:
    with pytest.raises(ClientError) as refused:
        within(ceilings, Options(**asked), NOON)
    assert (refused.value.code, refused.value.field) == ("PERMISSION_DENIED", f"data.options.{name}")


def test_what_is_left_open_is_filled_with_the_ceiling() -> None:
    ceilings = Ceilings(max_turns=5, max_budget_usd=2.5, restricted=True)
    assert within(ceilings, Options(), NOON) == Options(max_turns=5, max_budget_usd=2.5, restricted=True)


def test_what_is_below_stays_as_it_was_asked() -> None:
    asked = Options(permission_mode="plan", max_turns=3, allowed_tools=("Read",))
    assert within(Ceilings(max_turns=5), asked, NOON) == asked


@pytest.mark.parametrize(("hours", "hour", "open"), [((8, 18), 12, True), ((8, 18), 18, False), ((22, 6), 23, True),
                                                      ((22, 6), 5, True), ((22, 6), 6, False)])  # fmt: skip
def test_agents_run_in_the_owners_hours_only(hours: tuple[int, int], hour: int, open: bool) -> None:
    def ask() -> Options:
        return within(Ceilings(hours=hours), Options(), NOON.replace(hour=hour))

    if open:
        assert ask() == Options()
    else:
        with pytest.raises(ClientError):
            ask()


limits = st.one_of(st.none(), st.integers(1, 50))


@given(
    ceilings=st.builds(
        Ceilings,
        modes=st.sets(st.sampled_from(MODES), min_size=1).map(tuple),
        skip_permissions=st.booleans(),
        max_turns=limits,
        max_budget_usd=st.one_of(st.none(), st.floats(0.01, 50)),
        restricted=st.booleans(),
    ),
    asked=st.builds(
        Options,
        permission_mode=st.one_of(st.none(), st.sampled_from([*MODES, BYPASS])),
        dangerously_skip_permissions=st.booleans(),
        max_turns=limits,
        max_budget_usd=st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True)),
        restricted=st.booleans(),
    ),
)
def test_nothing_gets_above_a_ceiling(ceilings: Ceilings, asked: Options) -> None:
    try:
        found = within(ceilings, asked, NOON)
    except ClientError:
        return
    assert ceilings.skip_permissions or not found.dangerously_skip_permissions
    assert ceilings.skip_permissions or found.permission_mode != BYPASS
    assert found.permission_mode in (None, BYPASS, *ceilings.modes)
    assert ceilings.max_turns is None or (found.max_turns is not None and found.max_turns <= ceilings.max_turns)
    assert ceilings.max_budget_usd is None or (
        found.max_budget_usd is not None and found.max_budget_usd <= ceilings.max_budget_usd
    )
    assert found.restricted >= ceilings.restricted
