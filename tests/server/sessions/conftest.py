from __future__ import annotations

import time
from collections.abc import Iterator

import pytest


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sets the local time zone to that of New York, which is UTC−5 in November."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
