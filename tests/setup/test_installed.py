"""Agents call a copy of the guard that keeps working without its package and starts as fast as an interpreter can."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import drawbridge
from drawbridge.cli import main
from drawbridge.core.errors import NoProgram, NotPrivate, WorldError
from drawbridge.core.own_command import own_command
from drawbridge.setup import copies, installed, interpreter
from drawbridge.setup.interpreter import choose, is_passing
from tests.setup.conftest import Setup, everything_below, stub
from tests.test_house import modules, reached
from tests.waiting import PATIENCE


def copied() -> list[Path]:
    return [entry for entry in installed.directory().iterdir() if entry.is_dir()]


def run(command: list[str], payload: object) -> str:
    ended = subprocess.run(
        command, input=json.dumps(payload), text=True, capture_output=True, timeout=PATIENCE, check=True
    )
    assert ended.stderr == ""
    return ended.stdout


def test_everything_that_the_guard_imports_is_in_the_copy() -> None:
    guard = {name for name in modules() if name.startswith("guard")}
    needed = {module for name in guard for module in reached(name)} - {""}
    package = Path(drawbridge.__file__).parent
    in_copy = set(copies.files_of(package, installed.PARTS))
    assert {modules()[module].relative_to(package) for module in needed} <= in_copy


def test_the_real_guard_runs_only_from_its_copy(setup: Setup, tmp_path: Path) -> None:
    """Python runs without site packages and imports the guard from the copy, which contains bytecode."""
    setup("claude", "--socket-dir", tmp_path)
    payload = {"hook_event_name": "PreToolUse", "tool_name": "Edit", "tool_input": {"file_path": "/a"}, "cwd": "/"}
    assert run(installed.fast_command("claude"), payload) == "{}\n"
    (copy,) = copied()
    code = (
        f"import sys; sys.path.insert(0, {str(copy)!r}); import drawbridge.guard.hook as hook;"
        "print(hook.__file__, hook.__cached__)"
    )
    python = installed.fast_command("claude")[0]
    result = subprocess.run(
        [python, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    source, cached = result.stdout.split()
    assert Path(source).is_relative_to(copy)
    assert Path(cached).exists(), "the copy contains bytecode from the start"


def test_only_the_user_can_access_the_installed_files(setup: Setup, guard: Path) -> None:
    setup("claude")
    for path in installed.directory().rglob("*"):
        if "__pycache__" not in path.parts:
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    assert installed.directory().stat().st_mode & 0o777 == 0o700


def test_the_guard_works_after_its_package_is_deleted(setup: Setup, guard: Path, tmp_path: Path) -> None:
    setup("claude", "--log-file", tmp_path / "log")
    shutil.rmtree(guard)
    run(installed.fast_command("claude"), {"n": 1})
    assert json.loads(json.loads((tmp_path / "log").read_text())["input"]) == {"n": 1}


def test_a_newer_guard_replaces_the_old_one(setup: Setup, guard: Path, tmp_path: Path) -> None:
    setup("claude", "--log-file", tmp_path / "log")
    (old,) = copied()
    settings = Path(os.environ["CLAUDE_CONFIG_DIR"]) / "settings.json"
    before = settings.read_bytes()
    (guard / "guard" / "hook.py").write_text((guard / "guard" / "hook.py").read_text().replace('"input"', '"newer"'))
    setup("claude", "--log-file", tmp_path / "log")
    (new,) = copied()
    assert new != old
    assert settings.read_bytes() == before, "the agent's settings stay the same"
    run(installed.fast_command("claude"), {})
    assert "newer" in json.loads((tmp_path / "log").read_text())


def test_a_copy_that_another_stub_uses_is_kept(setup: Setup, guard: Path) -> None:
    setup("claude")
    (guard / "core" / "privacy.py").write_text("# other\n")
    setup("codex")
    assert len(copied()) == 2
    setup("claude")
    assert len(copied()) == 1
    setup("claude", "--remove")
    assert len(copied()) == 1
    setup("codex", "--remove")
    assert not copies.data_directory().exists()


@pytest.mark.parametrize("damage", ["a file is gone", "a file is changed", "bytecode is gone"])
def test_a_damaged_copy_is_repaired(damage: str, setup: Setup, guard: Path, tmp_path: Path) -> None:
    setup("claude", "--log-file", tmp_path / "log")
    (copy,) = copied()
    if damage == "a file is gone":
        (copy / "drawbridge" / "text" / "__init__.py").unlink()
    elif damage == "a file is changed":
        (copy / "drawbridge" / "guard" / "hook.py").write_text("raise SystemExit(1)")
    else:
        shutil.rmtree(copy / "drawbridge" / "__pycache__")
    installed.install_copy()
    assert copied() == [copy]
    assert installed.is_whole(copy)
    assert (copy / "drawbridge" / "__pycache__").is_dir()
    run(installed.fast_command("claude"), {})
    assert (tmp_path / "log").exists()


EDIT = {"hook_event_name": "PreToolUse", "tool_name": "Edit", "tool_input": {"file_path": "/a"}, "cwd": "/"}
PATCH = EDIT | {"tool_name": "apply_patch", "tool_input": {"command": "*** Delete File: /a"}}


@pytest.mark.parametrize(
    ("agent", "call"), [("claude", EDIT), ("gemini", EDIT | {"hook_event_name": "BeforeTool"}), ("codex", PATCH)]
)
def test_a_damaged_guard_answers_the_agent_without_a_traceback(
    agent: str, call: dict[str, object], setup: Setup, guard: Path
) -> None:
    """With ``fail = "closed"``, the exit code is 2. Each agent then denies the call, with stderr as the reason."""

    def answer_to(payload: dict[str, object]) -> tuple[int, str, str]:
        command = installed.fast_command(agent)
        ended = subprocess.run(command, input=json.dumps(payload), text=True, capture_output=True, timeout=PATIENCE)
        return ended.returncode, ended.stdout, ended.stderr

    later = call | {"hook_event_name": "SessionStart", "source": "startup"}
    for fail, code, output in (("open", 0, "{}\n"), ("closed", 2, "")):
        setup(agent, "--fail", fail)
        (copy,) = copied()
        shutil.rmtree(copy / "drawbridge" / "guard")
        assert answer_to(later)[:2] == (0, "{}\n")
        assert answer_to(call) == (code, output, "the guard can't be loaded: No module named 'drawbridge.guard'\n")
        log = Path(os.environ["XDG_STATE_HOME"], "drawbridge", "guard.log").read_text().splitlines()
        assert log[-1].endswith(
            f" {agent}: failed ({fail}): the guard can't be loaded: No module named 'drawbridge.guard'"
        )


@pytest.mark.parametrize("event", ["PreToolUse", "UserPromptSubmit", "Stop"])
def test_a_missing_guard_is_reported_and_blocks_nothing(setup: Setup, guard: Path, event: str) -> None:
    """The guard was removed while the agent ran, or only the agent's settings were copied to another machine. The exit code
    is not 2, which would deny every call and every prompt."""
    setup("claude")
    stub("claude").unlink()
    command = installed.fast_command("claude")
    ended = subprocess.run(
        command, input=json.dumps({"hook_event_name": event}), text=True, capture_output=True, timeout=PATIENCE
    )
    gone = f"{stub('claude')} is gone: run drawbridge setup again\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", gone)


def test_unfinished_copies_are_removed(setup: Setup, guard: Path) -> None:
    setup("claude")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = installed.directory() / f"0123456789ab.{ended.pid}.tmp"
    running = installed.directory() / f"0123456789ab.{os.getpid()}.tmp"
    left.mkdir()
    running.mkdir()
    installed.remove_old()
    assert not left.exists()
    assert running.exists(), "its process is still running"


@pytest.mark.parametrize("module", ["hook", "seldom_used"])
def test_a_guard_that_does_not_run_is_not_installed(module: str, setup: Setup, guard: Path) -> None:
    """Setup reports the reason and does not write the agent's settings."""
    (guard / "guard" / f"{module}.py").write_text("import nowhere\n")
    before = everything_below(Path.home())
    output = setup("claude")
    assert output.code == 3
    assert "does not run with" in output.errors
    assert "No module named 'nowhere'." in output.errors
    left = everything_below(Path.home())
    assert not stub("claude").exists()
    assert {name for name in left if "guard" not in name} - before.keys() <= {
        ".local",
        ".local/share",
        ".local/share/drawbridge",
    }
    with pytest.raises(WorldError):
        installed.install_copy()
    assert copied() == []


def test_a_data_directory_that_cannot_be_created_is_reported(
    setup: Setup, guard: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "file"))
    with pytest.raises(NotPrivate):
        installed.install_copy()
    output = setup("claude")
    assert output.code == 3
    assert not (home / ".claude" / "settings.json").exists()


def test_the_fast_form_is_printed_for_a_shell(
    setup: Setup, guard: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = ["--agent", "codex", "--log-file", str(tmp_path / "log")]
    assert main(["hook", "--print-command", *flags]) == 0
    printed = capsys.readouterr()
    assert shlex.split(printed.out) == installed.fast_command("codex")
    assert printed.err == ""
    run(shlex.split(printed.out), {})
    text = stub("codex").read_text()
    assert main(["hook", "--print-command", *flags, "--policy", "any"]) == 0
    printed = capsys.readouterr()
    assert shlex.split(printed.out) == installed.fast_command("codex")
    update = f"has different settings, or is a different version. `{own_command()} setup codex` updates it"
    assert update in printed.err
    assert stub("codex").read_text() == text, "printing the command changes nothing"


def test_the_interpreter_is_outside_virtual_environments() -> None:
    """The interpreter's path contains no symbolic links."""
    found = choose()
    assert os.path.realpath(found.path) == found.path
    assert "venv" not in found.path
    result = subprocess.run(
        [
            found.path,
            "-I",
            "-S",
            "-c",
            "import sys; print(sys.implementation.cache_tag, sys.prefix == sys.base_prefix)",
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert result.stdout.split() == [found.tag, "True"]


def fake_python(path: Path, version: tuple[int, int], base: str) -> None:
    """Creates a shim that claims to be ``version`` and to be based on the interpreter ``base``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\necho \'[[{version[0]}, {version[1]}], "{base}", "cpython-x"]\'\n')
    path.chmod(0o755)


def test_a_python_in_a_temporary_directory_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What uvx keeps in its cache may be deleted at any time, while the system's Python stays."""
    real = choose().path
    thrown = tmp_path / "archive" / "bin" / "python3.11"
    fake_python(thrown, (3, 11), str(thrown))
    monkeypatch.setattr(sys, "_base_executable", str(thrown))
    fake_python(tmp_path / "bin" / "python3", (3, 9), "/usr/bin/old")
    fake_python(tmp_path / "bin" / "python3.14", (3, 14), real)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert is_passing(str(thrown))
    assert choose().path == real, "behind the shim, and not the one that is too old"


def test_without_a_permanent_python_nothing_is_changed(
    monkeypatch: pytest.MonkeyPatch, setup: Setup, guard: Path, tmp_path: Path
) -> None:
    thrown = tmp_path / "python3"
    fake_python(thrown, (3, 12), str(thrown))
    monkeypatch.setattr(sys, "_base_executable", str(thrown))
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr(interpreter, "SYSTEM", ())
    with pytest.raises(NoProgram, match=r"No permanent Python 3\.11 or newer was found"):
        choose()
    before = everything_below(Path.home())
    assert setup("claude").code == 3
    assert everything_below(Path.home()) == before


@pytest.mark.parametrize(
    ("path", "passing"),
    [
        ("/tmp/x/bin/python3", True),
        ("/home/ada/.cache/uv/archive-v0/abc/bin/python3", True),
        ("/Users/ada/Library/Caches/pipx/1/bin/python3", True),
        ("/home/ada/.local/pipx/.cache/1/bin/python3", True),
        ("/usr/bin/python3.11", False),
        ("/home/ada/.local/share/uv/python/cpython-3.12/bin/python3.12", False),
    ],
)
def test_caches_and_temporary_directories_are_not_permanent(path: str, passing: bool) -> None:
    assert is_passing(path) == passing
