"""A pytest plugin, so that CI runs no test twice where the second machine makes no difference to it.

``-p tools.passed --passed FILE`` leaves out the tests in FILE, and adds those that pass, one per line. Of these, it adds
those that used a Neovim to FILE.nvim, too: with another Neovim, they may fail.
"""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--passed", type=Path, metavar="FILE", help="leave out the tests in FILE, and add those that pass to it"
    )


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--passed")
    if file is not None and not hasattr(config, "workerinput"):  # pytest-xdist passes all reports to one process
        config.pluginmanager.register(_Recorder(file))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    file = config.getoption("--passed")
    if file is None or not file.exists():
        return
    passed = set(file.read_text(encoding="utf-8").splitlines())
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]


class _Recorder:
    """Writes the file at the end, because a process of pytest-xdist that is replaced has to find the same tests."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._passed: dict[str, bool] = {}
        """The tests that passed, and whether they used a Neovim (see tests/used_nvims.py)."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._passed[report.nodeid] = ("uses", "nvim") in map(tuple, report.user_properties)
        elif report.failed:  # the teardown of a test that passed, too: it may have found what the test left behind
            self._passed.pop(report.nodeid, None)

    def pytest_sessionfinish(self) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.writelines(f"{test}\n" for test in self._passed)
        with self._file.with_name(f"{self._file.name}.nvim").open("a", encoding="utf-8") as file:
            file.writelines(f"{test}\n" for test, nvim in self._passed.items() if nvim)
