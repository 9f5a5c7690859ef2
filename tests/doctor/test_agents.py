"""Each finding about agents, with the programs on PATH that lead to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from drawbridge.agents import catalog
from drawbridge.core.own_command import own_command
from drawbridge.doctor import agents
from drawbridge.settings.hook import HookSettings
from drawbridge.setup import guard
from tests import programs
from tests.doctor.conftest import Doctor

Agent = Callable[..., Path]


def test_a_machine_without_agents_has_only_notes(doctor: Doctor) -> None:
    output = doctor()
    assert output.code == 0
    assert output.one("agent-none")["title"] == "No agent was found (claude, gemini, codex)."


def test_a_version_that_was_tested_works(doctor: Doctor, agent: Agent) -> None:
    path = agent("claude", "echo '2.1.329 (Claude Code)'")
    output = doctor()
    assert output.one("agent-works")["title"] == f"Claude Code 2.1.329 runs ({path})."
    assert output.ids() & {"agent-newer", "agent-too-old", "agent-none"} == set()


def test_the_real_claude_runs(doctor: Doctor, programs_on_path: Path) -> None:
    (programs_on_path / "claude").symlink_to(programs.claude())
    assert doctor().one("agent-works")["title"].startswith("Claude Code 2.")


@pytest.mark.parametrize(
    ("name", "version", "id"),
    [
        ("claude", "1.9.9", "agent-too-old"),
        ("gemini", "0.30.0", "agent-too-old"),
        ("claude", "99.0.0", "agent-newer"),
        ("codex", "codex-cli 99.0.0", "agent-newer"),
    ],
)
def test_another_version_is_reported(doctor: Doctor, agent: Agent, name: str, version: str, id: str) -> None:
    agent(name, f"echo '{version}'")
    output = doctor()
    found = output.one(id)
    assert version.split()[-1] in found["title"]
    assert found["todo"]
    assert output.code == (3 if id == "agent-too-old" else 0)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 127", "`--version` exited with code 127"),
        ("echo hello", "`--version` did not print a version"),
        ("sleep 60", "it did not print its version within 0.5 seconds"),
    ],
)
def test_a_program_that_does_not_run_is_reported(
    doctor: Doctor, agent: Agent, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    if "sleep" in script:
        monkeypatch.setattr(agents, "SECONDS", 0.5)
    path = agent("gemini", script)
    output = doctor()
    assert output.one("agent-fails")["title"] == f"Gemini CLI's program does not work: {reason}."
    assert f"`{path} --version`" in output.one("agent-fails")["todo"]
    assert output.code == 3


def test_an_agent_that_was_removed_after_setup_is_reported(doctor: Doctor, project: Path) -> None:
    guard.plan_setup("codex", None, HookSettings(agent="codex"), None).steps[-1].apply()
    found = doctor().one("agent-missing")
    assert found["title"] == "Codex is set up, but `codex` was not found."
    assert found["todo"].endswith(f"instead, run `{own_command()} setup codex --remove`.")


def test_a_claude_that_does_not_ask_is_reported_as_a_note(doctor: Doctor, agent: Agent, home: Path) -> None:
    agent("claude", "echo 2.1.329")
    found = doctor().one("agent-does-not-ask")
    assert "setup claude --ask-mode`" in found["todo"]
    (home / ".claude").mkdir(exist_ok=True)
    (home / ".claude" / "settings.json").write_text('{"permissions": {"defaultMode": "default"}}')
    assert "agent-does-not-ask" not in doctor().ids()


def test_the_catalog_knows_a_tested_version_of_each_program() -> None:
    assert [row.name for row in catalog.ROWS if row.program and not row.tested] == []
