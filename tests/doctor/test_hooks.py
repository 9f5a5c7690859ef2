"""The hooks that ``drawbridge setup`` installs, broken in every way that doctor detects."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from drawbridge.cli import main
from drawbridge.core.own_command import own_command
from drawbridge.doctor import hooks
from drawbridge.info import guards
from drawbridge.setup import installed
from drawbridge.setup.agents import AGENTS
from tests.doctor.conftest import Doctor

Agent = Callable[..., Path]


@pytest.fixture
def set_up(project: Path, programs_on_path: Path) -> Callable[..., Path]:
    """Returns a function: ``set_up("claude")`` runs setup, and returns the path of the stub that the hooks start."""

    def run(name: str) -> Path:
        assert main(["setup", name, "--yes"]) == 0
        return installed.stub_path(name)

    return run


def settings_file(name: str) -> Path:
    return AGENTS[name].settings_file(None)


def replace_program(name: str, script: str, file: Path | None = None) -> None:
    """Makes every hook run this shell script. The stub's path stays an argument, because it identifies the hook."""
    file = file or settings_file(name)
    content = json.loads(file.read_text())
    for groups in content["hooks"].values():
        handler = groups[0]["hooks"][0]
        handler["command"], handler["args"] = "/bin/sh", ["-c", script, str(installed.stub_path(name))]
    file.write_text(json.dumps(content))


@pytest.mark.parametrize("name", AGENTS)
def test_installed_hooks_work(doctor: Doctor, set_up: Callable[..., Path], agent: Agent, name: str) -> None:
    agent(name, "echo " + ".".join(map(str, AGENTS[name].blocks_since or (1, 0, 0))))
    assert AGENTS[name].title in doctor().one("hook-absent")["title"]
    set_up(name)
    output = doctor()
    assert str(settings_file(name)) in output.one("hook-works")["title"]
    assert "hook-absent" not in output.ids()


def test_a_missing_stub_is_reported(doctor: Doctor, set_up: Callable[..., Path]) -> None:
    stub = set_up("claude")
    stub.unlink()
    output = doctor()
    assert output.one("hook-gone")["title"] == f"Claude Code's hooks do not run: {stub} is gone."
    assert "setup claude`" in output.one("hook-gone")["todo"]
    assert output.code == 3


def test_a_missing_copy_of_the_package_is_reported(doctor: Doctor, set_up: Callable[..., Path]) -> None:
    set_up("codex")
    shutil.rmtree(installed.copy_path())
    assert str(installed.copy_path()) in doctor().one("hook-gone")["title"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo oh dear >&2; exit 7", "the hook exited with code 7: oh dear"),
        ("echo hello", "the hook's answer is not JSON"),
        ("echo 5", "the hook's answer is not a JSON object"),
        ("sleep 60 | cat", "the hook did not answer within 0.5 seconds"),
    ],
)
def test_a_failing_command_is_reported(
    doctor: Doctor, set_up: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    """The processes of ``sleep 60 | cat`` keep the hook's output open, and are ended as well."""
    if "sleep" in script:
        monkeypatch.setattr(guards, "RUN_SECONDS", 0.5)
    set_up("claude")
    replace_program("claude", script)
    output = doctor()
    assert output.one("hook-broken")["title"] == f"Claude Code's hooks do not work: {reason}."
    assert output.code == 3


def test_a_slow_hook_is_reported(doctor: Doctor, set_up: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "SLOW_MILLISECONDS", 200)
    set_up("claude")
    replace_program("claude", "sleep 0.3; echo '{}'")
    assert "Claude Code's hooks answer slowly" in doctor().one("hook-slow")["title"]


def test_hooks_with_missing_events_are_reported(doctor: Doctor, set_up: Callable[..., Path]) -> None:
    set_up("claude")
    content = json.loads(settings_file("claude").read_text())
    del content["hooks"]["Stop"]
    settings_file("claude").write_text(json.dumps(content))
    assert "the guard is not called for Stop" in doctor().one("hook-outdated")["title"]


def test_hooks_in_a_shared_file_have_to_be_removed_by_hand(
    doctor: Doctor, set_up: Callable[..., Path], project: Path
) -> None:
    """Setup writes the user's own ``settings.local.json`` in a project, but not ``settings.json``."""
    stub, shared = set_up("claude"), project / ".claude" / "settings.json"
    shared.parent.mkdir()
    settings_file("claude").rename(shared)
    remedy = f"emove the guard's hooks from {shared}, then run `{own_command()} setup claude --scope project`"
    content = json.loads(shared.read_text())
    del content["hooks"]["Stop"]
    shared.write_text(json.dumps(content))
    output = doctor()
    assert output.one("hook-outdated")["todo"] == f"R{remedy}."
    assert output.one("agent-missing")["todo"].endswith(f"instead, remove the guard's hooks from {shared}.")
    stub.unlink()
    assert doctor().one("hook-gone")["todo"] == f"R{remedy}."
    set_up("claude")
    settings_file("claude").unlink()
    shared.write_text(json.dumps(content | {"hooks": content["hooks"] | {"Stop": content["hooks"]["PreToolUse"]}}))
    replace_program("claude", "true", shared)
    assert doctor().one("hook-untested")["todo"] == f"If you don't recognize that command, r{remedy}."


def test_a_setting_that_disables_hooks_is_reported(doctor: Doctor, set_up: Callable[..., Path]) -> None:
    settings_file("claude").parent.mkdir(exist_ok=True)
    settings_file("claude").write_text('{"disableAllHooks": true}')
    output = doctor()
    assert (output.code, "hooks-forbidden" in output.ids()) == (0, True)
    set_up("claude")
    output = doctor()
    assert "disableAllHooks" in output.one("hooks-off")["title"]
    assert output.code == 3


def test_managed_settings_that_forbid_hooks_are_reported(
    doctor: Doctor, set_up: Callable[..., Path], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    managed = home / "managed-settings.json"
    managed.write_text('{"allowManagedHooksOnly": true}')
    changed = AGENTS["claude"]._replace(managed=(str(managed), str(managed)))
    monkeypatch.setitem(AGENTS, "claude", changed)
    set_up("claude")
    found = doctor().one("hooks-off")
    assert found["title"] == f"allowManagedHooksOnly in {managed} turns off hooks in Claude Code."


def test_an_invalid_settings_file_is_reported(doctor: Doctor) -> None:
    settings_file("gemini").parent.mkdir()
    settings_file("gemini").write_text('{"hooks": }')
    assert (
        f"{settings_file('gemini')} can't be read: line 1, column 11"
        in doctor().one("hook-settings-unreadable")["title"]
    )


def test_a_recent_failure_of_the_guard_is_reported(doctor: Doctor) -> None:
    ended = subprocess.run([sys.executable, "-m", "drawbridge", "hook"], input=b"{nonsense", capture_output=True)
    assert ended.stdout == b"{}\n"
    assert "The guard failed once in the last day" in doctor().one("guard-failed")["title"]
