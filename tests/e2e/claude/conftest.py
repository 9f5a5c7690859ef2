"""The desk that every end-to-end test sits at."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests import programs
from tests.rigs.messages_stub import MessagesStub
from tests.rigs.tmux import Tmux

from .desk import Desk


@pytest.fixture
def desk(home: Path) -> Iterator[Desk]:
    programs.tmux()
    with MessagesStub() as model, Tmux.server() as tmux, Desk(home / "project", model, tmux) as desk:
        yield desk


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Every terminal's last screen goes into the report of a test that failed."""
    report = yield
    desk = getattr(item, "funcargs", {}).get("desk")
    if call.when == "call" and report.failed and isinstance(desk, Desk):
        for pane in desk.tmux.panes:
            report.sections.append((f"screen of {pane.name}", pane.framed))
    return report
