"""Gives every test its own home directory, and checks that nothing is left running or open afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import TypeAlias

import hypothesis
import pytest
import pytest_asyncio

from tests import selection, turns, used_nvims
from tests.leftovers import GRACE, Snapshot
from tests.waiting import TEST_PATIENCE

FOREIGN_PREFIXES = ("ANTHROPIC_", "CLAUDE", "DRAWBRIDGE_", "GEMINI_", "GIT_", "MCP_", "NVIM", "TMUX", "VIM", "XDG_")
FOREIGN = {"EDITOR", "MYVIMRC", "PAGER", "VISUAL", "ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}
KEPT_PREFIXES = ("DRAWBRIDGE_TEST_", "DRAWBRIDGE_REQUIRE_PROGRAMS")

Made: TypeAlias = pytest.Item | pytest.Collector | list[pytest.Item | pytest.Collector] | None

# Without bytecode files, each of the hundreds of programs that the tests start would compile all of its modules, and each
# process of pytest would compile all tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Textual reads this variable when it is imported. The pilot waits until the process has been idle for longer than one
# frame, so shorter frames shorten that wait (see `_quick_pilot` in tests/tui/conftest.py).
os.environ["TEXTUAL_FPS"] = "240"

hypothesis.settings.register_profile("here", deadline=None, max_examples=25)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=25, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if "CI" in os.environ else "here")
hypothesis.settings.register_profile(
    "thorough", max_examples=100
)  # for `make slow`; everything else is as loaded above


for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    # A shell that starts pytest in the background may have it ignore these signals, and every program that a test
    # starts would inherit that.
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--only-nvim", action="store_true", help="of a folder, only the test files that use a Neovim")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if not config.getoption("--only-nvim") or not collection_path.match("test_*.py"):
        return None
    return not selection.uses_nvim(collection_path) or None


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem() -> Generator[None, Made, Made]:
    """Checks the markers of a test here, because a selection on the command line hasn't yet removed parameters."""
    made = yield
    if isinstance(made, list):
        selection.check_slow_for([item for item in made if isinstance(item, pytest.Function)])
    return made


@pytest.hookimpl(tryfirst=True)  # before pytest selects tests by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and selection.is_slow_with_these_parameters(item):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_PATIENCE))
        if isinstance(item, pytest.Function) and pytest_asyncio.is_async_test(item):
            # Right after `home`, so that it checks after the test's own fixtures are closed, while the loop still runs.
            item.fixturenames.insert(item.fixturenames.index("home") + 1, "_no_task_stays")
    items.sort(key=_places(items).__getitem__)


def _places(items: list[pytest.Item]) -> dict[pytest.Item, int]:
    """The place of each test in the order. Every process of one run starts with a part of this order. The tests that run
    alone come first, so that no process waits at the end for a test that waits for it. Half of the other tests that
    take turns come last, so that the other processes start with tests that need not wait for those.
    """
    sharing = [item for item in items if turns.takes_turns(item) and not turns.runs_alone(item)]
    places = dict.fromkeys(items, 2)
    places |= {item: 0 for item in items if turns.runs_alone(item)}
    places |= dict.fromkeys(sharing[: len(sharing) // 2], 1)
    places |= dict.fromkeys(sharing[len(sharing) // 2 :], 3)
    return places


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    used_nvims.begin(item)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
    with used_nvims.observed(fixturedef):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    if call.when == "call" and used_nvims.used(item):
        item.user_properties.append(used_nvims.PROPERTY)  # for tools/passed.py


@pytest.fixture(scope="session", autouse=True)
def _no_real_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hides the user's own files, even from programs that a fixture starts before the first test has its ``home``."""
    tmp_path_factory.getbasetemp()  # created now, so that it is not inside the TMPDIR of one test
    with pytest.MonkeyPatch.context() as patch, _private_directory() as directory:
        for name in list(os.environ):
            foreign = name.startswith(FOREIGN_PREFIXES) or name.upper() in FOREIGN
            if foreign and not name.startswith(KEPT_PREFIXES):
                patch.delenv(name)
        _live_in(directory, patch)
        yield


@pytest.fixture(autouse=True)
def _turn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    if not turns.takes_turns(request.node):
        yield
        return
    alone = turns.runs_alone(request.node)
    with turns.turn(tmp_path_factory.getbasetemp().parent, alone=alone):  # shared by the processes of one run
        yield


@pytest.fixture(autouse=True)
def home(_turn: None, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The test's own empty HOME, with TMPDIR and XDG_RUNTIME_DIR next to it. The path is short enough for sockets.
    Fails the test if it leaves threads, processes or open files behind, or SIGINT ignored.
    """
    before = Snapshot()
    with _private_directory() as directory:
        _live_in(directory, monkeypatch)
        yield directory / "home"
        left = before.new(places=(str(directory), str(tmp_path_factory.getbasetemp())))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        left.append("SIGINT is ignored, also by every program that a later test starts")
    if left:
        pytest.fail("the test left behind: " + "; ".join(left), pytrace=False)


@pytest.fixture
async def _no_task_stays() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:
        _, left = await asyncio.wait(left, timeout=GRACE)
    if left:
        pytest.fail("the test left behind: " + "; ".join(map(repr, left)), pytrace=False)


@contextlib.contextmanager
def _private_directory() -> Iterator[Path]:
    # A socket's path is limited to 107 bytes, on macOS to 103.
    directory = Path(tempfile.mkdtemp(prefix="db-", dir="/tmp"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def _live_in(directory: Path, patch: pytest.MonkeyPatch) -> None:
    """Sets up ``directory`` like a new machine: HOME, TMPDIR and XDG_RUNTIME_DIR exist, but are empty."""
    there = {"HOME": "home", "TMPDIR": "tmp", "XDG_RUNTIME_DIR": "run"}
    absent = {"CLAUDE_CONFIG_DIR": "home/.claude", "XDG_CONFIG_HOME": "home/.config", "XDG_CACHE_HOME": "home/.cache"}
    absent |= {"XDG_DATA_HOME": "home/.local/share", "XDG_STATE_HOME": "home/.local/state"}
    for variable, place in (there | absent).items():
        patch.setenv(variable, str(directory / place))
    for place in there.values():
        (directory / place).mkdir(mode=0o700)
    patch.setattr(tempfile, "tempdir", str(directory / "tmp"))
