"""The rig for the tests of the web UI."""

from __future__ import annotations

import pytest

from .rig import Browser

pytestmark = pytest.mark.thorough


def test_an_unread_answer_does_not_reach_the_next_command(browser: Browser, address: str) -> None:
    """A test that is stopped because it takes too long leaves an answer unread, too."""
    with browser.person(address) as person:
        person.begins("run", code="'late'")
        assert person.runs("'next'") == "next"
