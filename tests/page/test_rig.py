"""The rig for the tests of the web UI."""

from __future__ import annotations

import pytest

from .rig import Browser

pytestmark = pytest.mark.thorough


def test_an_answer_that_nobody_waited_for_is_not_that_of_the_next_command(browser: Browser, address: str) -> None:
    """An answer is also left unread by a test that was stopped because it took too long."""
    with browser.person(address) as person:
        person.begins("run", code="'late'")
        assert person.runs("'next'") == "next"
