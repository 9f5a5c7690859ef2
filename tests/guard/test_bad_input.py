"""Whatever an agent sends, it gets JSON and exit code 0. The log gets one line, and no other file is written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.guard import hook

from . import processes
from .conftest import Guard, decision
from .payloads import KEPT, A, edit, edited, recorded

LARGE = b'{"hook_event_name": "PreToolUse", "tool_name": "' + b"x" * 10_000_000 + b'"}'


def changed(**changes: Any) -> dict[str, Any]:
    """Returns the payload of an edit with some values changed. None removes a value."""
    payload = edit() | changes
    return {key: value for key, value in payload.items() if value is not None}


BAD: dict[str, tuple[bytes | dict[str, Any], str]] = {
    "no JSON": (b"hello", "not JSON: invalid syntax"),
    "half of it": (b'{"hook_event_name": "PreToolUse"', "not JSON"),
    "two": (b"{} {}", "not JSON: more than one JSON text"),
    "a list": (b"[]", "not a JSON object"),
    "a text": (b'"PreToolUse"', "not a JSON object"),
    "null": (b"null", "not a JSON object"),
    "no event": (b"{}", "unknown event (none)"),
    "an event of no text": (changed(hook_event_name=17), "unknown event (none)"),
    "another event": (changed(hook_event_name="PreCompact"), 'unknown event "PreCompact"'),
    "an event of another agent": (changed(hook_event_name="BeforeTool"), 'unknown event "BeforeTool"'),
    "no tool": (changed(tool_name=None), "unknown tool (none)"),
    "another tool": (changed(tool_name="mcp__x__y"), 'unknown tool "mcp__x__y"'),
    "a tool name that is not text": (changed(tool_name=["Edit"]), "unknown tool (none)"),
    "no input": (changed(tool_input=None), "tool_input is not an object"),
    "an input that is not an object": (changed(tool_input=["/ws/a.py"]), "tool_input is not an object"),
    "no path": (changed(tool_input={}), "file_path is missing"),
    "an empty path": (changed(tool_input={"file_path": ""}), "file_path is missing"),
    "a path that is not text": (changed(tool_input={"file_path": 17}), "file_path is missing"),
    "no command": (changed(tool_name="Bash", tool_input={}), "command is missing"),
    "another agent's tool": (
        changed(tool_name="apply_patch", tool_input={"command": "x"}),
        'unknown tool "apply_patch"',
    ),
    "too much": (LARGE, "the input is larger than 8 MB"),
    "nested": (b'{"a":' * 50_000, "not JSON: nested too deeply"),
    "no UTF-8": (b'{"hook_event_name": "\xff"}', "not JSON: 'utf-8' codec"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "not JSON: 'utf-8' codec"),
    "a long name": (changed(tool_name="x" * 10_000), 'unknown tool "xxxxxxxx'),
}


@pytest.fixture
def nothing_else_is_written(home: Path) -> Iterator[None]:
    """Fails if the test has written anything but the log in its home directory."""
    yield
    written = [path for path in home.rglob("*") if not path.is_dir()]
    assert [path for path in written if path.name != "guard.log"] == []


@pytest.mark.parametrize(("data", "problem"), BAD.values(), ids=BAD.keys())
@pytest.mark.usefixtures("nothing_else_is_written")
def test_bad_input_gets_no_opinion_and_one_line_in_the_log(
    guard: Guard, data: bytes | dict[str, Any], problem: str
) -> None:
    neovim = guard.neovim({A: KEPT})
    assert guard.run(data) == {}
    [line] = guard.log
    assert line.startswith("claude: failed (open): ")
    assert problem in line
    assert len(line) < 400
    assert neovim.asked == []


def test_a_patch_without_a_file_gets_no_opinion(guard: Guard) -> None:
    guard.neovim({A: KEPT})
    assert guard.run(recorded("codex", "PreToolUse", "apply_patch", command="x"), agent="codex") == {}
    [line] = guard.log
    assert line.startswith("codex: failed (open): the patch does not name a file")


@pytest.mark.parametrize(("data", "problem"), BAD.values(), ids=BAD.keys())
def test_fail_closed_denies_input_that_cannot_be_checked(
    guard: Guard, data: bytes | dict[str, Any], problem: str
) -> None:
    """``PreCompact`` is the exception, because nothing can be denied at this event."""
    answer = guard.run(data, fail="closed")
    if data == BAD["another event"][0]:
        assert answer == {}
    else:
        reason = decision(answer, "deny")
        assert "could not check whether this would overwrite unsaved changes" in reason
        assert 'fail = "closed"' in reason
    assert guard.log[0].startswith("claude: failed (closed): ")


@pytest.mark.parametrize(
    "data",
    [
        edited() | {"tool_name": "another"},
        edited() | {"tool_input": 17},
        recorded("claude", "FileChanged") | {"file_path": 17},
        b'{"hook_event_name":"UserPromptSubmit","prompt":',
        b'{"hook_event_name": "SessionStart"' + b" " * hook.LARGEST_INPUT,
    ],
    ids=["after", "after with no input", "changed", "a prompt cut short", "too large a start"],
)
def test_only_events_before_a_call_are_denied(guard: Guard, data: bytes | dict[str, Any]) -> None:
    assert guard.run(data, fail="closed") == {}


def test_an_event_name_in_the_new_text_does_not_affect_the_event(guard: Guard) -> None:
    data = changed(tool_input={"new_string": 'hooks: {"PostToolUse": []}'})
    assert "file_path is missing" in guard.denial(data, fail="closed")


@pytest.mark.parametrize("path", ["/ws/a\0.py", "/ws/a\n.py", "a\0.py", "\n", "/ws/\ud800.py"])
def test_an_invalid_path_is_denied_with_the_reason(guard: Guard, path: str) -> None:
    neovim = guard.neovim({A: KEPT})
    assert "incomplete character. Nothing was written; use a path without any of these" in guard.denial(edit(path))
    assert guard.run(edited(path)) == {}
    assert neovim.asked == []


@pytest.mark.parametrize(
    ("agent", "payload"),
    [
        ("claude", recorded("claude", "PreToolUse", "Write", file_path="/ws/\0")),
        ("claude", recorded("claude", "PreToolUse", "NotebookEdit", notebook_path="/ws/\n.ipynb")),
        (
            "codex",
            recorded("codex", "PreToolUse", "apply_patch", command="*** Add File: b.py\n*** Delete File: a\0.py"),
        ),
        ("gemini", recorded("gemini", "BeforeTool", "write_file", file_path="a\n.py")),
        ("gemini", recorded("gemini", "BeforeTool", "replace", file_path="a\0.py")),
    ],
    ids=lambda value: value if isinstance(value, str) else value["tool_name"],
)
def test_an_invalid_path_is_denied_for_every_agent_and_tool(guard: Guard, agent: str, payload: dict[str, Any]) -> None:
    neovim = guard.neovim({A: KEPT})
    answer = guard.run(payload, agent=agent)
    reason = answer["reason"] if agent == "gemini" else decision(answer, "deny")
    assert "a line break, a NUL byte or an incomplete" in reason
    assert neovim.asked == []


def test_an_internal_error_causes_no_opinion_or_a_denial(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("something\n\x1b[31m\ud800")

    monkeypatch.setattr("drawbridge.guard.find.sockets", broken)
    assert guard.run(edit()) == {}
    assert "an internal error" in guard.denial(edit(), fail="closed")
    assert guard.run(edited(), fail="closed") == {}
    assert guard.log[0].startswith("claude: failed (open): RuntimeError: something")
    assert all(line.isprintable() for line in guard.log)


def test_only_internal_errors_are_reported_to_the_user(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("something")

    neovim = guard.neovim({A: {}})
    guard.run(b"{")
    assert neovim.notices == []
    monkeypatch.setattr("drawbridge.guard.rule.snapshot", broken)
    assert guard.run(edit()) == {}
    assert neovim.notices == ["Drawbridge's guard failed: see `drawbridge info`"]


@pytest.mark.parametrize(
    "broken", ["refusal.shown_difference", "protect.notify_editors", "state.log", "protect.protected_in"]
)
def test_a_known_overwrite_is_denied_despite_internal_errors(
    guard: Guard, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise MemoryError

    guard.neovim({A: KEPT})
    monkeypatch.setattr(f"drawbridge.guard.{broken}", fails)
    assert guard.denial(edit()) == hook.KEPT


def test_fail_closed_denies_even_if_the_failure_handler_fails(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a call, or if ``fail`` is not ``closed``, the guard has no opinion."""

    def broken(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("drawbridge.guard.find.sockets", broken)
    monkeypatch.setattr("drawbridge.guard.failure.answer", broken)
    assert guard.run(edit()) == {}
    assert guard.denial(edit(), fail="closed") == hook.UNCHECKED
    assert guard.run(edited(), fail="closed") == {}


# The guard as a process.


@pytest.fixture(params=["fast", "command"])
def words(request: pytest.FixtureRequest, guard: Guard, home: Path) -> Callable[..., list[str]]:
    """Returns a function that returns the command of the guard, in each of its two forms, with the given settings."""

    def words(**settings: str) -> list[str]:
        if request.param == "fast":
            return processes.fast_form(home.parent, guard.settings | settings)
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
        return processes.command("--socket-dir", str(guard.sockets), "--deadline=3000", *flags)

    return words


@pytest.mark.parametrize("name", ["no JSON", "a list", "too much", "nested", "no UTF-8", "another tool"])
def test_the_guard_as_a_process_handles_bad_input(guard: Guard, words: Callable[..., list[str]], name: str) -> None:
    data, problem = BAD[name]
    assert processes.run(words(), data).answer == {}
    [line] = guard.log
    assert problem in line


def test_a_closed_stdin_is_logged_and_gets_no_opinion(guard: Guard, words: Callable[..., list[str]]) -> None:
    assert processes.run(["/bin/sh", "-c", 'exec "$@" <&-', "-", *words()], b"").answer == {}
    assert "started without input: nothing was checked" in guard.log[0]


def test_missing_input_is_not_a_failure_of_the_guard(guard: Guard) -> None:
    """A user or a script may have started the hook. With ``fail = "closed"``, empty input still counts as a failure."""
    assert guard.run(b"") == {}
    assert "failed" not in "".join(guard.log)
    decision(guard.run(b"", fail="closed"), "deny")
    assert guard.log[1].startswith("claude: failed (closed): ")


def test_a_closed_stdout_is_not_an_error(guard: Guard, words: Callable[..., list[str]]) -> None:
    guard.neovim({A: KEPT})
    for closed in (">&-", "| true"):
        ended = processes.run(["/bin/sh", "-c", f'"$@" {closed}', "-", *words()], edit())
        assert (ended.code, ended.output, ended.errors) == (0, b"", "")


def test_input_that_is_too_large_is_read_to_its_end(words: Callable[..., list[str]]) -> None:
    """Claude Code ignores the answer of a hook that stops reading, so a denial would be lost."""
    with subprocess.Popen(words(fail="closed"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(10):
            process.stdin.write(LARGE)  # a broken pipe would raise
        process.stdin.close()
        assert b'"deny"' in process.stdout.read()
    assert process.returncode == 0


def test_without_a_writable_state_directory_only_the_log_is_lost(guard: Guard, words: Callable[..., list[str]]) -> None:
    Path(os.environ["XDG_STATE_HOME"]).parent.mkdir(parents=True)
    Path(os.environ["XDG_STATE_HOME"]).write_text("a file")
    guard.neovim({A: KEPT})
    assert "unsaved changes" in decision(processes.run(words(), edit()).answer, "deny")
    assert processes.run(words(), b"hello").answer == {}
    assert "not JSON" in decision(processes.run(words(fail="closed"), b"hello").answer, "deny")
    assert processes.run(words(), edited()).answer == {}
    assert Path(os.environ["XDG_STATE_HOME"]).read_text() == "a file"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_another_users_state_directory_is_left_alone(guard: Guard) -> None:
    state = Path(os.environ["XDG_STATE_HOME"], "drawbridge")
    state.mkdir(parents=True)
    os.chown(state, 12_345, 12_345)
    guard.neovim({A: KEPT})
    assert guard.denial(edit(), answer="merge").count("The change can't be merged automatically.") == 1
    assert guard.run(b"hello") == {}
    assert guard.run(edited()) == {}
    assert list(state.iterdir()) == []


@pytest.mark.parametrize("log_file", ["/missing/directory/guard.log", "/", "/dev/full", "a\0b"])
def test_fail_closed_works_without_a_writable_log_file(guard: Guard, log_file: str) -> None:
    assert "not JSON" in guard.denial(b"hello", fail="closed", log_file=log_file)


def test_the_log_never_waits_for_a_reader(guard: Guard, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    words = processes.fast_form(tmp_path, guard.settings | {"log_file": str(tmp_path / "log")})
    assert processes.run(words, b"hello").answer == {}


WRONG_FLAGS = {
    "unknown": (["--unknown"], "wrong arguments: --unknown"),
    "no value": (["--deadline"], "wrong arguments: --deadline"),
    "too much": (["extra"], "wrong arguments: extra"),
    "a bad value": (["--deadline", "soon"], "--deadline must be a whole number"),
    "another agent": (["--agent", "other"], "--agent must be one of claude, gemini, codex, not other"),
    "a bad policy": (["--policy-for", "Write=all"], "--policy-for must have the form TOOL="),
}


@pytest.mark.parametrize(("flags", "problem"), WRONG_FLAGS.values(), ids=WRONG_FLAGS.keys())
def test_wrong_flags_never_stop_an_agent(guard: Guard, flags: list[str], problem: str) -> None:
    ended = processes.run(processes.command(*flags), edit())
    assert (ended.code, ended.output) == (0, b"{}\n")
    assert "Traceback" not in ended.errors
    [line] = guard.log
    assert problem in line


def test_a_bad_settings_file_never_stops_an_agent(guard: Guard, home: Path) -> None:
    file = home / ".config" / "drawbridge" / "config.toml"
    file.parent.mkdir(parents=True)
    for text, problem in {"[hook]\nfial = 1\n": "[hook] unknown setting fial", "[hook\n": "config.toml"}.items():
        file.write_text(text)
        assert processes.run(processes.command(), edit()).answer == {}
        assert problem in guard.log[-1]


def test_fail_closed_applies_despite_another_invalid_setting(guard: Guard) -> None:
    ended = processes.run(processes.command("--fail", "closed", "--deadline", "soon"), edit())
    assert "--deadline must be" in decision(ended.answer, "deny")


def test_an_invalid_setting_in_the_environment_is_reported(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log names the valid values, and the edit is not denied."""
    monkeypatch.setenv("DRAWBRIDGE_HOOK_POLICY", "all")
    assert processes.run(processes.command(), edit()).answer == {}
    assert "DRAWBRIDGE_HOOK_POLICY must be one of current, visible, any, not all" in guard.log[0]
