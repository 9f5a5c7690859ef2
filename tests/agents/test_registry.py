"""Which agents a server has, and how invalid agent settings are reported."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from drawbridge.agents import catalog
from drawbridge.agents.registry import AgentPrograms, Program, agents, missing, problems, programs, version_of

PYTHON = shlex.quote(sys.executable)


def test_configured_agents_are_added_to_the_built_in_ones() -> None:
    named = AgentPrograms((), (f"goose={PYTHON} acp",), (f"notes={PYTHON} 'ask my notes' --brief",))
    assert problems(named) == []
    assert list(agents(named)) == ["claude", "gemini", "codex", "goose", "notes", "demo"]


def test_all_problems_are_reported_together() -> None:
    named = AgentPrograms(
        ("hal=/bin/sh", "gemini=/no/gemini"),
        (f"claude={PYTHON}", f"goose={PYTHON}", "one='x", "two=/no/such"),
        (f"goose={PYTHON}", "three=  "),
    )
    assert problems(named) == [
        "--agent-path: the program of hal can't be set; it can be set for claude, gemini, codex",
        "--agent-path: /no/gemini was not found",
        "--acp-agent: an agent named claude already exists",
        "--acp-agent: 'x has an unclosed quotation mark",
        "--command-agent: an agent named goose already exists",
        "--command-agent: the command is empty",
    ]


def test_a_missing_program_of_a_configured_agent_is_reported() -> None:
    named = AgentPrograms((), (f"goose={PYTHON}", "two=/no/such --acp"), ("three=/no/third",))
    assert problems(named) == []
    assert missing(named).items() >= {"two": "/no/such", "three": "/no/third"}.items()
    assert "goose" not in missing(named)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sets a home directory without files and a PATH without programs. Returns the home directory."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(catalog.AGENTS["claude"], "places", ("~/.local/bin/claude",))
    return tmp_path


def install(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_programs_are_found_on_path_and_in_install_directories(alone: Path) -> None:
    assert programs(AgentPrograms()) == {name: Program(None) for name in ("claude", "gemini", "codex")}
    assert missing(AgentPrograms()) == {name: name for name in ("claude", "gemini", "codex")}
    in_path, in_place = install(alone / "bin" / "codex"), install(alone / ".local" / "bin" / "claude")
    found = programs(AgentPrograms())
    assert (found["codex"].path, found["claude"].path, found["gemini"].path) == (str(in_path), str(in_place), None)
    assert missing(AgentPrograms()) == {"gemini": "gemini"}


def test_only_the_configured_path_is_searched(alone: Path) -> None:
    install(alone / ".local" / "bin" / "claude")
    assert programs(AgentPrograms(paths=("claude=/no/claude",)))["claude"] == Program(None)


def test_the_version_is_read_from_the_programs_files(alone: Path) -> None:
    """The files are those that Claude Code's installer and npm create. The program is not started."""
    native = install(alone / "share" / "versions" / "2.1.329")
    (alone / "claude").symlink_to(native)
    assert version_of(str(alone / "claude")) == "2.1.329"
    script = install(alone / "lib" / "node_modules" / "@google" / "gemini-cli" / "dist" / "index.js")
    (script.parent.parent / "package.json").write_text('{"name": "x", "version": "0.18.0-nightly.1"}')
    (alone / "gemini").symlink_to(script)
    assert version_of(str(alone / "gemini")) == "0.18.0-nightly.1"


@pytest.mark.parametrize(
    "package", [None, "", "[]", '{"version": 1}', '{"version": "a b"}', '{"version": "1.2"}', "\udcff"]
)
def test_an_unknown_version_is_left_out(alone: Path, package: str | None) -> None:
    program = install(alone / "bin" / "codex")
    if package is not None:
        (alone / "package.json").write_text(package, errors="surrogateescape")
    assert version_of(str(program)) is None
    assert programs(AgentPrograms())["codex"] == Program(str(program))
