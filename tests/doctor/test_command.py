"""The output, exit codes and time limit of ``drawbridge doctor``, and what ``--fix`` changes."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from drawbridge.cli import main
from drawbridge.core.terminal_text import Terminal
from drawbridge.doctor import report, screen
from drawbridge.doctor.finding import CAUSES, Check, Finding, finding
from drawbridge.setup import installed
from drawbridge.setup.agents import AGENTS
from tests import programs
from tests.doctor.conftest import Doctor, Output
from tests.doctor.test_bridges import closed_port, lock_file
from tests.doctor.test_hooks import replace_program
from tests.ide.processes import run
from tests.info.test_info import gone_pid
from tests.rigs.tmux import Tmux
from tests.server.processes import serving
from tests.waiting import PATIENCE

Agent = Callable[..., Path]


def dead_lock() -> Path:
    gone = gone_pid()
    return lock_file(closed_port(), pid=gone, drawbridgePid=gone)


def everything(home: Path) -> dict[str, bytes]:
    """The content of each file below the home directory, except bytecode and the programs in ``bin``."""
    files = (file for file in home.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return {str(file): file.read_bytes() for file in files if "bin" not in file.parts}


# Output


def test_every_finding_has_the_same_keys_and_a_known_id(doctor: Doctor, agent: Agent) -> None:
    agent("claude", "exit 1")
    dead_lock()
    output = doctor()
    assert [set(one) for one in output.findings] == [{"id", "severity", "title", "why", "todo"}] * len(output.findings)
    for one in output.findings:
        assert one["severity"] == CAUSES[one["id"]].severity
        assert one["severity"] == "ok" or (one["why"] and one["todo"]), one
    severities = [one["severity"] for one in output.findings]
    assert severities == sorted(severities, key=report.SEVERITIES.index)


def test_every_cause_has_a_test_that_names_it() -> None:
    tests = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    assert [id for id in CAUSES if f'"{id}"' not in tests] == []


def test_problems_and_remedies_are_shown_first(doctor: Doctor) -> None:
    path = dead_lock()
    output = doctor("--fix")
    first, *rest = output.output.splitlines()
    assert first.startswith(f"! {path} names process")
    assert rest[1].startswith("  → `")
    assert "1 warning, 2 notes. 3 checks passed." in output.output
    assert "\x1b" not in output.output


@pytest.mark.parametrize(("columns", "variables"), [(80, {}), (40, {}), (80, {"NO_COLOR": "1"})])
def test_text_is_wrapped_for_the_terminal(project: Path, columns: int, variables: dict[str, str]) -> None:
    programs.tmux()
    command = [sys.executable, "-m", "drawbridge", "doctor"]
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    with Tmux.server(columns=columns, rows=60) as tmux:
        pane = tmux.start("doctor", command, cwd=project, environment=environment | variables)
        pane.wait_for("passed")
        screen, painted = pane.screen, pane.colored
        pane.wait_for_exit()
    why = "    An agent in a terminal has no editor"
    assert f"{why} to show its changes in.\n" in screen if columns == 80 else f"{why}\n    to show" in screen
    assert ("\x1b[" in painted) is not bool(variables)


def test_a_command_is_never_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user copies it from the terminal, and a line break would become part of it."""
    command = "`a command with many words that does not fit in forty columns at all`"
    terminal = Terminal(io.StringIO())
    terminal.is_terminal = True
    monkeypatch.setattr(terminal, "width", lambda: 40)
    drawn = screen.draw([finding("disk-full", "word " * 30, "word " * 30, f"Run {command}, then try again.")], terminal)
    [line] = [line for line in drawn.splitlines() if "`" in line]
    assert command in line
    assert max(len(other) for other in drawn.splitlines() if other != line) <= 40


def test_yes_without_fix_is_an_error(doctor: Doctor) -> None:
    output = doctor("--yes")
    assert (output.code, output.output) == (2, "")
    assert output.errors == "drawbridge doctor: --yes requires --fix.\n"


# Time


def test_a_check_that_hangs_is_reported_and_the_others_finish() -> None:
    over, works = threading.Event(), finding("machine-works", "git works.")

    def hangs() -> list[Finding]:
        over.wait(PATIENCE)
        return []

    late, other = report.run([Check("a thing", hangs), Check("another", lambda: [works])], 0.5)
    over.set()
    assert (late.id, late.title) == ("check-late", "Could not check a thing within 0.5 seconds.")
    assert other == works


def test_a_check_that_fails_is_reported_without_its_data() -> None:
    def fails() -> list[Finding]:
        raise RuntimeError("secret-token")

    [found] = report.run([Check("a thing", fails)], 30)
    assert (found.id, found.title) == ("check-failed", "Could not check a thing: RuntimeError.")


@pytest.mark.slow
async def test_hung_peers_cost_ten_seconds_in_total(doctor: Doctor, agent: Agent, home: Path) -> None:
    """The command runs as a process, with its normal limits. The ``doctor`` fixture only prepares the environment."""
    assert main(["setup", "claude", "--yes"]) == 0
    agent("claude", "sleep 60")
    replace_program("claude", "sleep 60")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        lock_file(listener.getsockname()[1])
        async with serving(home / "data") as server:
            server.process.send_signal(signal.SIGSTOP)
            began = time.monotonic()
            code, output, _ = await run("doctor", "--json")
            took = time.monotonic() - began
            server.process.send_signal(signal.SIGCONT)
    assert took < 15  # the machine may be busy
    printed = Output(code or 0, output, "")
    assert {"agent-fails", "hook-broken", "bridge-silent", "server-silent"} <= set(printed.wrong)


# Fixes


def test_nothing_is_changed_without_a_terminal_or_yes_flag(doctor: Doctor, home: Path) -> None:
    path = dead_lock()
    before = everything(home)
    output = doctor("--fix")
    assert output.code == 2
    assert f"delete {path}" in output.output
    nobody = "The changes were not confirmed, so none were made. Run this again with --yes.\n"
    assert output.errors == nobody
    assert everything(home) == before


def test_doctor_without_fix_changes_nothing(doctor: Doctor, home: Path) -> None:
    dead_lock()
    assert main(["setup", "claude", "--yes"]) == 0
    installed.stub_path("claude").unlink()
    before = everything(home)
    doctor()
    doctor("--json", "--fix")
    assert everything(home) == before


def test_fix_removes_only_the_files_of_our_dead_bridges(doctor: Doctor, home: Path) -> None:
    ours, foreign = dead_lock(), lock_file(closed_port(), pid=gone_pid(), drawbridgePid=None)
    before = everything(home)
    output = doctor("--json", "--fix", "--yes")
    assert before.keys() - everything(home).keys() == {str(ours)}
    assert foreign.exists()
    assert json.loads(output.output)["fixes"] == [
        {"title": "Delete the files of bridges that have ended", "changes": [f"delete {ours}"], "done": True}
    ]
    assert (output.code, output.wrong) == (0, [])


def test_fix_repairs_hooks_whose_program_is_missing(doctor: Doctor) -> None:
    for name in AGENTS:
        assert main(["setup", name, "--yes"]) == 0
        installed.stub_path(name).unlink()
    assert doctor().wrong.count("hook-gone") == len(AGENTS)
    output = doctor("--json", "--fix", "--yes")
    assert "hook-gone" not in output.ids()
    assert [one["id"] for one in output.findings].count("hook-works") == len(AGENTS)


def test_fix_keeps_the_settings_of_the_hooks(doctor: Doctor) -> None:
    """The interpreter is missing, as after an update of Python, but the stub with the settings still exists."""
    assert main(["setup", "codex", "--policy", "any", "--yes"]) == 0
    file = AGENTS["codex"].settings_file(None)
    python = installed.fast_command("codex")[0]
    file.write_text(file.read_text().replace(python, "/nonexistent/python"))
    assert doctor().one("hook-gone")["title"] == "Codex's hooks do not run: /nonexistent/python is gone."
    doctor("--fix", "--yes")
    kept = installed.settings_in(installed.stub_path("codex"))
    assert kept is not None
    assert kept.policy == "any"
    assert python in file.read_text()


def test_the_command_in_a_projects_settings_is_not_run(doctor: Doctor, project: Path) -> None:
    assert main(["setup", "codex", "--scope", "project", "--yes"]) == 0
    file = AGENTS["codex"].settings_file(project)
    stub = installed.stub_path("codex", project)
    file.write_text(file.read_text().replace(installed.fast_command("codex")[0], f"/bin/sh -c 'touch {project}/ran'"))
    assert stub.exists()
    assert "hook-untested" in doctor().ids()
    assert not (project / "ran").exists()


def test_fix_asks_at_a_terminal(project: Path) -> None:
    programs.tmux()
    path = dead_lock()
    command = [sys.executable, "-m", "drawbridge", "doctor", "--fix"]
    with Tmux.server(columns=100, rows=50) as tmux:
        for answer, outcome in (("n", "No changes were made."), ("y", "Done. Now:")):
            pane = tmux.start(f"doctor-{answer}", command, cwd=project, environment=os.environ)
            pane.wait_for(r"Do this\? \[y/N\]")
            assert path.exists()
            pane.press(answer, "Enter")
            pane.wait_for(outcome)
            pane.wait_for_exit()
    assert not path.exists()


def test_fix_without_problems_changes_nothing(doctor: Doctor) -> None:
    output = doctor("--fix")
    assert output.code == 0
    assert output.output.endswith("There is nothing that --fix can do.\n")
