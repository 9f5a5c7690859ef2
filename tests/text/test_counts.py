"""The unit after a number is singular or plural."""

from __future__ import annotations

import pytest

from drawbridge.text.counts import counted


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 seconds"),
        (1, "1 second"),
        (1.0, "1 second"),
        (0.5, "0.5 seconds"),
        (300.0, "300 seconds"),
        (2000, "2,000 seconds"),
    ],
)
def test_only_one_is_singular(number: float, text: str) -> None:
    assert counted(number, "second") == text
