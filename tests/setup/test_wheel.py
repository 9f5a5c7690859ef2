"""Setup from an installed package, as with pipx and uvx. What it installs works without that package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import bootstrap
from tests import programs
from tests.waiting import PATIENCE


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    programs.page()
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=bootstrap.ROOT, check=True, capture_output=True, timeout=2 * PATIENCE)
    return next(folder.glob("*.whl"))


@pytest.fixture
def site(wheel: Path, tmp_path: Path) -> Path:
    """The directory with the unpacked wheel."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    return tmp_path / "site"


def setup(site: Path, *words: str) -> dict[str, Any]:
    command = [sys.executable, "-P", "-m", "drawbridge", "setup", *words, "--json", "--yes"]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True, env=environment)
    facts: dict[str, Any] = json.loads(ended.stdout)
    return facts


def test_the_guard_answers_after_the_package_is_removed(site: Path) -> None:
    command = setup(site, "claude")["command"]
    shutil.rmtree(site)
    call = {"hook_event_name": "PreToolUse", "tool_name": "Edit", "tool_input": {"file_path": "/a"}, "cwd": "/"}
    ended = subprocess.run(
        command, input=json.dumps(call), capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert (ended.stdout, ended.stderr) == ("{}\n", "")


def test_the_plugin_is_a_copy_with_everything_in_it(site: Path, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("DRAWBRIDGE_NVIM_PROGRAM", str(programs.nvim()))
    setup(site, "nvim")
    shutil.rmtree(site)
    link = home / ".local" / "share" / "nvim" / "site" / "pack" / "drawbridge" / "start" / "drawbridge"
    for part in ("lua", "plugin"):
        wanted = {file.relative_to(bootstrap.ROOT) for file in (bootstrap.ROOT / part).rglob("*.lua")}
        assert wanted == {file.relative_to(link) for file in (link / part).rglob("*.lua")}


def test_the_wheel_contains_the_extension(site: Path, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.write_text("#!/bin/sh\n[ $1 = --list-extensions ] || cp $2 $0.vsix\n")
    code.chmod(0o755)
    setup(site, "vscode", "--program", str(code))
    with zipfile.ZipFile(tmp_path / "code.vsix") as packed:
        assert "extension/extension.js" in packed.namelist()
