"""The rig for the tests of the web UI."""

from __future__ import annotations

import pytest

from .rig import Browser

pytestmark = pytest.mark.thorough


def test_the_answer_to_one_command_is_not_used_for_another(browser: Browser, address: str) -> None:
    """An answer stays unread if, for example, a test is stopped because it takes too long."""
    with browser.person(address) as person:
        person.begins("run", code="'late'")
        assert person.runs("'next'") == "next"


def test_a_failure_says_what_the_window_shows(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.sees("h2", "blog")
        with pytest.raises(AssertionError, match=r"The window: drawn, \[\], shows: .*blog"):
            person.runs("null.failed")
