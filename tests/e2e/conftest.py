"""Adds the last screen of each terminal to the report of a failed test."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.rigs.tmux import Tmux


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    rig = getattr(item, "funcargs", {}).get("rig")
    tmux = getattr(rig, "tmux", None)
    if call.when == "call" and report.failed and isinstance(tmux, Tmux):
        for pane in tmux.panes:
            report.sections.append((f"screen of {pane.name}", pane.framed))
    return report
