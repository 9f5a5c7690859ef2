"""Findings about the machine: git, Python, disk, settings, and another ``drawbridge`` on PATH."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from drawbridge.doctor import machine
from drawbridge.server.sessions.disk import LOW_FREE
from tests.doctor.conftest import Doctor


def test_git_python_and_disk_are_shown(doctor: Doctor) -> None:
    titles = [one["title"] for one in doctor().findings if one["id"] == "machine-works"]
    assert [title.split()[0] for title in titles][:2] == ["git", "Python"]
    assert "GB is free" in titles[2]


@pytest.mark.parametrize("script", [None, "exit 1"], ids=["missing", "broken"])
def test_a_git_that_does_not_run_is_reported(doctor: Doctor, programs_on_path: Path, script: str | None) -> None:
    git = programs_on_path / "git"
    git.unlink()
    if script:
        git.write_text(f"#!/bin/sh\n{script}\n")
        git.chmod(0o755)
    output = doctor()
    assert "git" in output.one("git-missing")["title"]
    assert output.code == 3


def test_a_full_disk_is_reported(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "disk-full" not in doctor().ids()
    [found] = machine.disk(low=10**18)
    assert found.id == "disk-full"
    assert "MB is free" in found.title


def test_doctor_and_the_server_agree_on_a_nearly_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both report it when less than 500 MB is free. In a server's settings and messages, 1 MB is 1,048,576 bytes."""
    free = [LOW_FREE, LOW_FREE - 1]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free.pop(0)))
    assert [found.id for found in machine.disk_of(tmp_path)] == ["machine-works"]
    [low] = machine.disk_of(tmp_path)
    assert (low.id, low.title) == ("disk-full", f"Only 499 MB is free for {tmp_path}.")


def test_settings_that_are_not_valid_are_reported_once(
    doctor: Doctor, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = home / "config.toml"
    config.write_text("[hook]\nanswr = 1\n")
    monkeypatch.setenv("DRAWBRIDGE_CONFIG", str(config))
    output = doctor()
    assert output.wrong == ["settings-invalid"]
    title = f"The settings of `drawbridge hook` can't be used: {config}: [hook] unknown setting answr."
    assert output.one("settings-invalid")["title"] == title


def test_another_drawbridge_on_path_is_reported(doctor: Doctor, agent: Callable[..., Path]) -> None:
    path = agent("drawbridge", "echo drawbridge 0.0.1")
    title = doctor().one("other-drawbridge")["title"]
    assert title.startswith(f"`drawbridge` on PATH ({path}) is not this one (drawbridge ")
    assert title.endswith("): it is drawbridge 0.0.1.")
