"""The rig for the tests of the web UI."""

from __future__ import annotations

import pytest

from .rig import Browser

pytestmark = pytest.mark.thorough


def test_an_answer_to_an_earlier_command_is_not_used(browser: Browser, address: str) -> None:
    """An answer stays unread if, for example, a test is stopped because it takes too long."""
    with browser.person(address) as person:
        person.begins("run", code="'late'")
        assert person.runs("'next'") == "next"
