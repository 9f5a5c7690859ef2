"""The permission mode in which Claude Code starts, from its command line and its settings files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psutil
import pytest

from drawbridge.agents.claude import start_mode as start_mode_module
from drawbridge.agents.claude.start_mode import of_process, start_mode


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    for folder in (tmp_path / "config", tmp_path / "project" / ".claude"):
        folder.mkdir(parents=True)
    return tmp_path / "project"


def settings(path: Path, mode: str) -> None:
    path.write_text(json.dumps({"permissions": {"defaultMode": mode}}))


@pytest.mark.parametrize(
    ("words", "mode"),
    [
        (["--permission-mode", "plan"], "plan"),
        (["--permission-mode=acceptEdits", "--resume"], "acceptEdits"),
        (["--dangerously-skip-permissions"], "bypassPermissions"),
        (["--permission-mode", "plan", "--allow-dangerously-skip-permissions"], "plan"),
        (["--allow-dangerously-skip-permissions"], "auto"),
        (["--permission-mode", "plan", "--dangerously-skip-permissions"], "bypassPermissions"),
        (["--permission-mode"], None),
        (["--permission-mode", "default", "--permission-mode", "bypassPermissions"], "bypassPermissions"),
        (["--permission-mode", "manual"], "default"),
        (["--settings", "{}"], None),
        (["--resume", "a prompt"], "auto"),
    ],
)
def test_the_command_line_names_the_mode(project: Path, words: list[str], mode: str | None) -> None:
    assert start_mode(words, project) == mode


def test_the_nearest_settings_file_names_the_mode(project: Path) -> None:
    settings(project.parent / "config" / "settings.json", "bypassPermissions")
    assert start_mode([], project) == "bypassPermissions"
    settings(project / ".claude" / "settings.local.json", "plan")
    assert start_mode([], project) == "plan"
    assert start_mode(["--permission-mode", "default"], project) == "default"


def test_with_unreadable_settings_the_mode_is_unknown(project: Path) -> None:
    (project / ".claude" / "settings.json").write_text("{ // no JSON\n}")
    assert start_mode([], project) is None


def test_the_mode_of_a_process_that_has_ended_is_unknown(project: Path) -> None:
    assert of_process(2**22, project) is None
    assert of_process(os.getpid(), project) == "auto"


def test_the_mode_of_a_script_is_unknown(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process may have replaced its command line with a title that has no flags."""
    monkeypatch.setattr(start_mode_module, "RUNTIMES", (Path(psutil.Process().exe()).name,))
    assert of_process(os.getpid(), project) is None
