"""What the verbs of ``tools/dev.py`` start."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import hypothesis
import pytest

import bootstrap
import checks
import flaky
import verbs
from tests import programs
from tests.waiting import PATIENCE


def test_make_slow_uses_more_hypothesis_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """``make slow`` runs the Hypothesis tests with more examples than ``make test`` has time for."""
    started: list[list[str]] = []
    monkeypatch.setattr(verbs, "replace_process", started.append)
    monkeypatch.setattr(verbs, "try_page", lambda: None)
    monkeypatch.setattr(bootstrap, "ensure", lambda _kind: "python")
    verbs.slow([])
    [command] = started
    assert "hypothesis" in command[command.index("-m", 3) + 1]
    [profile] = [word.partition("=")[2] for word in command if word.startswith("--hypothesis-profile=")]
    fewer = [hypothesis.settings.get_profile(name).max_examples for name in ("here", "ci")]
    assert hypothesis.settings.get_profile(profile).max_examples > max(fewer)


def test_more_thorough_tests_run_at_once_than_there_are_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.delenv(flaky.LIST, raising=False)
    monkeypatch.setattr(verbs, "replace_process", started.append)
    monkeypatch.setattr(verbs, "try_page", lambda: None)
    monkeypatch.setattr(bootstrap, "ensure", lambda _kind: "python")
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    verbs.thorough([])
    [command] = started
    assert command[command.index("--numprocesses") + 1] == "3"


def test_a_missing_extension_is_reported_by_make_vsix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verbs, "ROOT", tmp_path)
    assert verbs.main(["vsix"]) == 1
    assert "package.json can't be read: no such file or directory." in capsys.readouterr().err


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records how tests would be started, and starts none: "once", or "again" if failed tests would run again."""
    started: list[str] = []

    def run(_command: list[str], _file: Path) -> int:
        started.append("again")
        return 0

    monkeypatch.setattr(verbs, "replace_process", lambda _command: started.append("once"))
    monkeypatch.setattr(flaky, "run", run)
    monkeypatch.setattr(verbs, "try_page", lambda: None)
    monkeypatch.setattr(bootstrap, "ensure", lambda _kind: "python")
    return started


def test_failed_tests_run_only_once_outside_ci(started: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(flaky.LIST, raising=False)
    verbs.pytest_in_parallel([])
    assert started == ["once"]


def test_failed_tests_run_again_in_ci(started: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(flaky.LIST, str(tmp_path / "flaky"))
    with pytest.raises(SystemExit, match=r"^0$"):
        verbs.thorough([])
    assert started == ["again"]


PYTHON = """#!/bin/sh
mkdir -p tests/__pycache__
echo "$@" >>started
"""


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A checkout whose Python only records its arguments in the file ``started``."""
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    monkeypatch.setattr(verbs, "ROOT", tmp_path)
    monkeypatch.setattr(bootstrap, "ensure", lambda _kind: python)
    return tmp_path


def test_a_new_checkout_compiles_its_tests_once(checkout: Path) -> None:
    for _ in range(2):
        with verbs.compiling_the_tests():
            pass
    [command] = (checkout / "started").read_text().splitlines()
    assert "--collect-only" in command


def test_failed_checks_do_not_wait_for_the_tests(checkout: Path) -> None:
    (checkout / "python").write_text(f"#!/bin/sh\nexec sleep {PATIENCE * 2}\n")
    began = time.monotonic()
    with pytest.raises(SystemExit), verbs.compiling_the_tests():
        raise SystemExit(1)
    assert time.monotonic() - began < PATIENCE / 2


@pytest.mark.skipif(not (bootstrap.ROOT / ".git").exists(), reason="needs the clone's list of files")
def test_every_script_in_javascript_or_typescript_is_checked() -> None:
    patterns = [f"*.{suffix}" for suffix in ("js", "mjs", "cjs", "ts", "tsx")]
    listed = subprocess.check_output([programs.git(), "ls-files", "-z", *patterns], cwd=bootstrap.ROOT, text=True)
    files = listed.removesuffix("\0").split("\0")
    unchecked = [file for file in files if not any(Path(file).is_relative_to(part) for part in checks.JAVASCRIPT)]
    assert len(files) > 100
    assert unchecked == ["tools/checkers/lua.mjs"], (
        "Biome would take the directory of its configuration for another project"
    )
