"""A test that always fails makes the run fail, one that fails once is listed, and too many failures end the run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import flaky

ALWAYS = "def test_never_passes():\n    raise SystemError('broken for good')\n"
ONCE = """
from pathlib import Path

def test_passes_the_second_time():
    mark = Path(__file__).with_suffix(".failed")
    if not mark.exists():
        mark.touch()
        raise SystemError("broken this time")
"""
STEADY = "def test_passes():\n    pass\n"
CLEANUP = """
from pathlib import Path
import pytest

@pytest.fixture
def place():
    yield
    mark = Path(__file__).with_suffix(".failed")
    if not mark.exists():
        mark.touch()
        raise SystemError("left something behind")

def test_whose_cleanup_fails_once(place):
    pass
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """The command that runs pytest on the files that the test writes into its temporary directory."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    configuration = ["-c", str(tmp_path / "pytest.ini"), "--rootdir", str(tmp_path), "-p", "no:asyncio"]
    return [sys.executable, "-m", "pytest", *configuration, str(tmp_path)]


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    return tmp_path / "flaky"


def test_a_run_without_failures_passes(command: list[str], listed: Path, tmp_path: Path) -> None:
    (tmp_path / "test_steady.py").write_text(STEADY)
    assert flaky.run(command, listed, tmp_path) == 0
    assert flaky.listed(listed) == []


def test_a_test_that_fails_once_is_listed(
    command: list[str], listed: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_steady.py").write_text(STEADY)
    (tmp_path / "test_once.py").write_text(ONCE)
    in_parallel = [*command, "--numprocesses", "2", "--dist", "worksteal"]
    assert flaky.run(in_parallel, listed, tmp_path) == 0
    assert flaky.listed(listed) == ["test_once.py::test_passes_the_second_time"]
    assert "broken this time" in capfd.readouterr().out, "its first output is in the log"


def test_a_cleanup_that_fails_once_is_listed(command: list[str], listed: Path, tmp_path: Path) -> None:
    (tmp_path / "test_cleanup.py").write_text(CLEANUP)
    assert flaky.run(command, listed, tmp_path) == 0
    assert flaky.listed(listed) == ["test_cleanup.py::test_whose_cleanup_fails_once"]


def test_a_test_that_always_fails_fails_the_run(command: list[str], listed: Path, tmp_path: Path) -> None:
    (tmp_path / "test_always.py").write_text(ALWAYS)
    (tmp_path / "test_once.py").write_text(ONCE)
    assert flaky.run(command, listed, tmp_path) == flaky.FAILED
    assert flaky.listed(listed) == ["test_once.py::test_passes_the_second_time"]


def test_eleven_failures_end_the_run_immediately(
    command: list[str], listed: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for number in range(flaky.MOST + 1):
        (tmp_path / f"test_{number}.py").write_text(ONCE)
    assert flaky.run(command, listed, tmp_path) != 0
    assert flaky.listed(listed) == []
    assert "running the failed tests again" not in capfd.readouterr().err


def test_failures_of_earlier_runs_count_toward_the_limit(command: list[str], listed: Path, tmp_path: Path) -> None:
    listed.write_text("earlier\n" * flaky.MOST)
    (tmp_path / "test_once.py").write_text(ONCE)
    assert flaky.run(command, listed, tmp_path) != 0


def test_a_file_that_cannot_be_imported_fails_the_run(command: list[str], listed: Path, tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import nothing_of_that_name\n")
    (tmp_path / "test_steady.py").write_text(STEADY)
    assert flaky.run(command, listed, tmp_path) not in (0, flaky.FAILED)


def test_a_campaign_names_what_failed_and_how_often(
    command: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_always.py").write_text(ALWAYS)
    (tmp_path / "test_once.py").write_text(ONCE)
    (tmp_path / "test_steady.py").write_text(STEADY)
    assert flaky.campaign(command, ["--rounds", "2", "--load", "1"]) == flaky.FAILED
    summary = capfd.readouterr().out.rpartition("== test_always.py::test_never_passes: failed in 2 of 2 rounds")[2]
    assert "broken for good" in summary
    assert "== test_once.py::test_passes_the_second_time: failed in 1 of 2 rounds" in summary
    assert summary.endswith(
        "2 tests failed at least once in 2 rounds.\n"
        "   2 test_always.py::test_never_passes\n"
        "   1 test_once.py::test_passes_the_second_time\n"
    )


def test_a_campaign_passes_its_selection_to_pytest(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_always.py").write_text(ALWAYS)
    (tmp_path / "test_steady.py").write_text(STEADY)
    assert flaky.campaign(command, ["-k", "test_passes", "--rounds", "1"]) == 0


def test_busy_processes_end_with_the_campaign() -> None:
    with flaky.busy(2) as processes:
        assert [process.poll() for process in processes] == [None, None]
    assert None not in [process.poll() for process in processes]
