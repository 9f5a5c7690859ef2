"""A pytest plugin: ``-p tools.failures --failures-to FILE`` writes each failed test and its output, as JSON lines.

If both a test and its cleanup fail, the test has two lines. tools/flaky.py reads them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--failures-to", type=Path, metavar="FILE", help="write failed tests to FILE, one JSON object per line"
    )


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--failures-to")
    if file is not None and not hasattr(config, "workerinput"):  # pytest-xdist passes all reports to one process
        config.pluginmanager.register(_Recorder(file))


class _Recorder:
    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            sections = "".join(f"\n--- {title} ---\n{text}" for title, text in report.sections)
            failure = {"test": report.nodeid, "output": report.longreprtext + sections}
            with self._file.open("a", encoding="utf-8") as opened:
                opened.write(json.dumps(failure) + "\n")
