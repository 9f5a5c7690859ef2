"""The form that ``drawbridge setup`` installs: an isolated interpreter without ``site`` and without any package."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from drawbridge.guard import hook
from tests.waiting import PATIENCE

from . import editors, processes
from .conftest import Guard, decision
from .payloads import KEPT, A, Payload, all_recorded, bash, edit, edited, recorded

STARTED = {"drawbridge", "drawbridge.guard", "drawbridge.agents", "_json"}
WITHOUT_EDITOR = STARTED | {f"drawbridge.guard.{name}" for name in ("calls", "find", "hook", "json_text")}
WITHOUT_EDITOR |= {"drawbridge.agents.claude", "drawbridge.agents.claude.hook"}
WITH_EDITOR = WITHOUT_EDITOR | {"_socket", "select", "time"}
WITH_EDITOR |= {f"drawbridge.guard.{name}" for name in ("ask", "neovim", "rule", "vscode")}
HEAVY = {"asyncio", "re", "typing", "argparse", "os", "json", "socket", "enum", "dataclasses", "collections"}


def imported(words: list[str], data: Payload) -> set[str]:
    """Returns the modules that a process loads beyond those of a bare interpreter."""

    def names(words: list[str]) -> set[str]:
        ended = processes.run([words[0], "-X", "importtime", *words[1:]], data)
        lines = [line for line in ended.errors.splitlines() if line.startswith("import time:")]
        return {line.rpartition("|")[2].strip() for line in lines[1:]}

    return names(words) - names([sys.executable, "-I", "-S", "-c", "pass"])


@pytest.mark.parametrize("payload", [edit(), bash("ls"), edited(), recorded("claude", "UserPromptSubmit")])
def test_without_an_editor_only_the_listed_modules_are_loaded(guard: Guard, home: Path, payload: Payload) -> None:
    assert imported(processes.fast_form(home, guard.settings), payload) == WITHOUT_EDITOR


@pytest.mark.parametrize("files", [{}, {A: {}}, {A: {"modified": True}}, {A: {"current": True}}])
def test_with_editors_only_known_modules_are_loaded(guard: Guard, home: Path, files: dict[str, editors.File]) -> None:
    guard.neovim(files)
    guard.vscode(files)
    guard.neovim(files, fresh=True)
    loaded = imported(processes.fast_form(home, guard.settings), edit())
    assert loaded <= WITH_EDITOR
    assert not loaded & HEAVY


def test_a_command_without_unsaved_files_loads_one_more_module(guard: Guard, home: Path) -> None:
    guard.neovim({A: {}})
    loaded = imported(processes.fast_form(home, guard.settings), bash("rm a.py"))
    assert loaded <= WITH_EDITOR | {"drawbridge.guard.events"}


SLOW = HEAVY - {"os"}


@pytest.mark.parametrize(
    "payload", [edited(), recorded("claude", "PostToolUse", "Bash"), recorded("claude", "FileChanged")]
)
def test_no_slow_module_is_loaded_after_a_call(guard: Guard, home: Path, payload: Payload) -> None:
    guard.neovim({A: {}})
    assert not imported(processes.fast_form(home, guard.settings), payload) & SLOW


@pytest.mark.parametrize("unknown", ["allow", "deny"])
def test_no_slow_module_is_loaded_for_a_silent_editor(guard: Guard, home: Path, unknown: str) -> None:
    """The call has already taken as long as the deadline allows."""
    guard.neovim({A: KEPT}, manner=editors.silent)
    words = processes.fast_form(home, guard.settings | {"deadline": 50, "unknown": unknown})
    assert not imported(words, edit()) & SLOW


def test_no_answer_of_the_guard_needs_a_package(guard: Guard, home: Path) -> None:
    """The installed form can't import packages. The test triggers every kind of answer once."""
    unsaved = {"buffer_text": {"text": "mine\n", "version": 1}, "save_buffer": {"saved": True}}
    kept = {"success": True, "reloaded": [], "kept": [{"name": A, "lines": 3}]}
    new = {"new": [{"line": 1, "severity": "error", "message": "no"}], "pending": False}
    guard.neovim({A: KEPT}, answers=unsaved | {"refresh_buffer": kept, "diagnostics": new}, folders=("/ws",))
    for answer in ("deny", "ask", "save", "merge"):
        words = processes.fast_form(home, guard.settings | {"answer": answer})
        for payload in (edit(), edited(), bash("rm a.py"), recorded("claude", "PreToolUse", "Read")):
            assert processes.run(words, payload).answer
    for event in ("UserPromptSubmit", "SessionStart"):
        assert processes.run(words, recorded("claude", event)).answer
    words = processes.fast_form(home, guard.settings | {"answer": "wait", "wait": 0.1})
    assert processes.run(words, edit()).answer
    assert [line for line in guard.log if "failed" in line] == []


@pytest.mark.parametrize("module", sorted(Path(hook.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_every_module_can_be_loaded_without_packages(module: Path) -> None:
    """The guard needs nothing but the standard library."""
    script = f"import sys; sys.path.insert(0, {processes.SOURCE!r}); import drawbridge.guard.{module.stem}"
    assert processes.run([sys.executable, "-I", "-S", "-c", script], b"") == (0, b"", "")


@pytest.mark.parametrize("agent", ["claude", "gemini", "codex"])
def test_every_recorded_payload_is_answered_by_a_process(guard: Guard, home: Path, agent: str) -> None:
    guard.neovim({A: KEPT})
    words = processes.fast_form(home, guard.settings | {"agent": agent})
    answers = [processes.run(words, payload).answer for of, payload in all_recorded() if of == agent]
    assert all(isinstance(answer, dict) for answer in answers)
    assert "deny" in str(answers)
    assert [line for line in guard.log if "failed" in line] == []


@pytest.mark.parametrize("agent", ["claude", "gemini"])
def test_the_command_answers_like_the_fast_form(guard: Guard, home: Path, agent: str) -> None:
    guard.neovim({A: KEPT})
    payload = edit() if agent == "claude" else recorded("gemini", "BeforeTool", "replace")
    fast = processes.run(processes.fast_form(home, guard.settings | {"agent": agent}), payload)
    slow = processes.run(
        processes.command("--socket-dir", str(guard.sockets), "--deadline=3000", "--agent", agent), payload
    )
    assert fast.answer == slow.answer != {}


def test_modules_in_the_working_directory_are_not_imported(guard: Guard, home: Path, tmp_path: Path) -> None:
    """An agent's working directory is full of other people's files, which the guard must not import."""
    for name in ("select", "_socket", "posix", "drawbridge", "re", "os"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(17)")
    guard.neovim({A: KEPT})
    ended = processes.run(processes.fast_form(home, guard.settings), edit(), cwd=tmp_path)
    assert "unsaved changes" in decision(ended.answer, "deny")


def test_ctrl_c_leaves_no_traceback(guard: Guard, home: Path) -> None:
    neovim = guard.neovim(manner=editors.silent)
    words = processes.fast_form(home, guard.settings | {"deadline": int(PATIENCE * 1000)})
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(processes.as_json(edit()))
        process.stdin.close()
        process.stdin = None
        end = time.monotonic() + PATIENCE
        while not neovim.asked:
            assert time.monotonic() < end, "it never asked"
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output, errors) == (130, b"", b"")


def test_an_answer_is_written_completely_to_a_full_pipe(guard: Guard, home: Path, tmp_path: Path) -> None:
    """The pipe is full when the process starts, and is read only afterwards."""
    names = [str(tmp_path / ("x" * 200 + str(number))) for number in range(100)]
    guard.neovim({name: {} for name in names}, folders=(str(tmp_path),))
    words = processes.fast_form(home, guard.settings)
    payload = recorded("claude", "SessionStart") | {"cwd": str(tmp_path)}
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b"\n" * 4096)  # until it is full
    except BlockingIOError:
        os.set_blocking(write, True)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=write) as process:
        os.close(write)
        assert process.stdin is not None
        process.stdin.write(processes.as_json(payload))
        process.stdin.close()
        with os.fdopen(read, "rb") as reader:
            answer = reader.read().strip()
    assert answer.startswith(b'{"hookSpecificOutput"')
    assert answer.endswith(b"}}")
    assert all(name.encode() in answer for name in names)
