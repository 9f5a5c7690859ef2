"""The cost of a turn, computed from the totals that an agent reports."""

from __future__ import annotations

import pytest

from drawbridge.agents.results import MOST_USD, Costs


def test_the_cost_of_a_turn_is_the_difference_of_totals() -> None:
    costs = Costs(1.0)
    costs.add(1.5)
    costs.add(1.75)
    assert costs.since_last_call() == 0.75
    assert costs.since_last_call() is None, "nothing was reported since"


@pytest.mark.parametrize("total", [MOST_USD * 2, 1e300])
def test_a_cost_that_is_not_plausible_counts_as_unknown(total: float) -> None:
    costs = Costs(0.0)
    costs.add(total)
    assert costs.since_last_call() is None
    costs.add(total)
    assert costs.since_last_call() == 0.0
