"""In CI, what passes without a Neovim is not run again with Debian's, and what passes with Debian's, not in `make
thorough`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bootstrap import ROOT

TESTS = """
import pytest

def test_passes():
    pass

@pytest.mark.parametrize("word", ["one", "two words\\n"])
def test_takes_words(word):
    pass

def test_is_skipped():
    pytest.skip("no Neovim here")

def test_fails():
    raise SystemError
"""

LEAVES = """
import pytest

@pytest.fixture
def checked():
    yield
    pytest.fail("the test left behind: a thread")

def test_leaves_a_thread(checked):
    pass

def test_passes():
    pass
"""


def run(folder: Path, *arguments: str) -> str:
    plugins = ["-p", "no:asyncio", "-p", "tools.passed"]
    command = [sys.executable, "-m", "pytest", "-rA", "-c", f"{folder}/pytest.ini", "--rootdir", str(folder), *plugins]
    whole = [*command, *arguments, str(folder)]
    return subprocess.run(whole, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False).stdout


def test_only_what_has_not_passed_is_run_again(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_some.py").write_text(TESTS)
    passed = tmp_path / "passed"
    in_parallel = ("--numprocesses", "2", "--dist", "worksteal")
    assert "1 failed, 3 passed, 1 skipped" in run(tmp_path, f"--passed={passed}", *in_parallel)
    (tmp_path / "test_more.py").write_text("def test_passes():\n    pass\n")
    assert "1 failed, 1 passed, 1 skipped" in run(tmp_path, f"--passed={passed}", *in_parallel)
    assert "1 failed, 1 skipped" in run(tmp_path, f"--passed={passed}", *in_parallel)


def test_a_test_whose_teardown_fails_is_run_again(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_some.py").write_text(LEAVES)
    passed = tmp_path / "passed"
    assert "2 passed, 1 error" in run(tmp_path, f"--passed={passed}")
    assert passed.read_text() == "test_some.py::test_passes\n"
