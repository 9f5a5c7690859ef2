"""The reason for a denial is enough to continue with, never too long, and contains nothing that is hidden from
agents."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drawbridge.guard import refusal
from drawbridge.guard import unsaved as unsaved_module

from .conftest import Guard
from .payloads import KEPT, A, bash, edit, edited, recorded

SECRET = "a-secret-word"


def unsaved(text: str) -> dict[str, Any]:
    return {"buffer_text": {"text": text, "version": 7}}


@pytest.fixture
def reason(guard: Guard, tmp_path: Path) -> Callable[..., str]:
    """Returns a function that returns the reason for a denial. File ``name`` contains ``saved`` on disk and ``text`` in
    the editor. If ``saved`` is None, the file on disk is not written."""

    def reason(saved: str | bytes | None, text: str, *, name: str = "a.py", **settings: Any) -> str:
        file = tmp_path / name
        if saved is not None:
            file.write_bytes(saved.encode() if isinstance(saved, str) else saved)
        with Guard(guard.sockets) as one:
            one.neovim({str(file): KEPT}, answers=unsaved(text))
            return one.denial(edit(str(file)), **settings).replace(str(tmp_path), "/ws")

    return reason


def test_the_unsaved_changes_are_shown_as_a_diff(reason: Callable[..., str]) -> None:
    message = reason("one\ntwo\nthree\n", "one\n2\n2b\nthree\n")
    assert message.partition("\n\n")[2] == (
        "The unsaved changes (2 lines):\n"
        "--- /ws/a.py (on disk)\n"
        "+++ /ws/a.py (in Neovim 0.12.4, unsaved)\n"
        "@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2b\n three"
    )


def test_a_file_that_is_not_on_disk_is_all_new(reason: Callable[..., str]) -> None:
    assert "The unsaved changes (1 line):" in reason(None, "new\n")
    assert reason(None, "new\n").endswith("@@ -0,0 +1 @@\n+new")


def test_no_diff_is_shown_without_changed_lines(reason: Callable[..., str]) -> None:
    for saved, text in (("one\n", "one\n"), ("one\n", "one\r\n")):
        assert "unsaved changes (" not in reason(saved, text)
        assert "has unsaved changes in Neovim" in reason(saved, text)


@pytest.mark.parametrize("lines", [1_000, 100_000])
def test_a_long_diff_is_cut_at_a_line(reason: Callable[..., str], lines: int) -> None:
    message = reason("", "".join(f"line {number}\n" for number in range(lines)))
    assert len(message) < 5_000
    *_, last, note = message.split("\n")
    assert last.startswith("+line ")
    assert last[6:].isdigit()
    assert note.endswith(" more characters of this diff are left out)")


def test_a_line_too_long_to_show_is_left_out(reason: Callable[..., str]) -> None:
    message = reason("x\n", "y" * 1_000_000)
    assert len(message) < 5_000
    assert "characters of this diff are left out" in message


def test_files_that_are_not_text_do_no_harm(reason: Callable[..., str]) -> None:
    message = reason(bytes(range(256)), "\0\x01\x1b[31m\ud800\udc80\n")
    assert "has unsaved changes" in message
    assert message.encode()


def test_files_too_large_or_unreadable_have_no_diff(reason: Callable[..., str], guard: Guard, tmp_path: Path) -> None:
    assert "unsaved changes (" not in reason("x" * (4 * 1024 * 1024 + 1), "y")
    (tmp_path / "folder").mkdir()
    assert "unsaved changes (" not in reason(None, "y", name="folder")
    os.mkfifo(tmp_path / "pipe")  # reading it would wait for a writer
    assert "has unsaved changes" in reason(None, "y", name="pipe")


@pytest.mark.parametrize("answer", [{"text": None}, {"text": "x"}, {"version": 1}, [], None, {"text": 1, "version": 1}])
def test_without_the_editors_text_the_denial_has_no_diff(guard: Guard, answer: Any) -> None:
    guard.neovim({A: KEPT}, answers={"buffer_text": answer})
    message = guard.denial(edit())
    assert "has unsaved changes" in message
    assert "unsaved changes (" not in message


@pytest.mark.parametrize("name", [".env", ".env.local", "server.pem", "id_rsa", "secrets.toml", "credentials"])
def test_secrets_are_not_shown(reason: Callable[..., str], name: str) -> None:
    message = reason("x\n", f"{SECRET}\n", name=name)
    assert f"/ws/{name} has unsaved changes" in message
    assert SECRET not in message


def test_the_users_patterns_replace_the_built_in_ones(reason: Callable[..., str]) -> None:
    assert SECRET in reason("x\n", f"{SECRET}\n", name=".env", ignore=("*.py",))
    assert SECRET not in reason("x\n", f"{SECRET}\n", ignore=("*.py",))


def test_slow_editors_do_not_delay_the_denial(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent ignores a denial that arrives after the agent's own deadline."""
    monkeypatch.setattr(unsaved_module, "TEXT_DEADLINE", 50)
    monkeypatch.setattr(refusal, "DIFFERENCE_SECONDS", 0.08)
    names = [f"/ws/{number}.py" for number in range(20)]
    asked = []
    neovim = guard.neovim(dict.fromkeys(names, KEPT))

    def slowly(params: Any) -> Any:
        asked.append(params)
        time.sleep(0.06)
        return {"text": None}

    neovim.answers["buffer_text"] = slowly
    patch = "\n".join(f"*** Update File: {name}" for name in names)
    assert "unsaved changes" in guard.denial(
        recorded("codex", "PreToolUse", "apply_patch", command=patch), agent="codex"
    )
    assert 0 < len(asked) < 5


def test_one_line_and_one_file_are_counted_in_the_singular(guard: Guard) -> None:
    names = [f"/ws/{number}.py" for number in range(9)]
    patch = "".join(f"*** Update File: {name}\n" for name in names)
    guard.neovim({name: {**KEPT, "lines": 1} for name in names}, answers=unsaved("x\n"))
    message = guard.denial(recorded("codex", "PreToolUse", "apply_patch", command=patch), agent="codex")
    assert "; the unsaved version has 1 line." in message
    assert "1 more file has unsaved changes too." in message


def test_only_some_of_very_many_files_are_named(guard: Guard) -> None:
    names = [f"/ws/{'directory/' * 10}{number}.py" for number in range(60)]
    patch = "".join(f"*** Update File: {name}\n" for name in names)
    neovim = guard.neovim(dict.fromkeys(names, KEPT), answers=unsaved("x\n" * 3_000))
    message = guard.denial(recorded("codex", "PreToolUse", "apply_patch", command=patch), agent="codex")
    assert len(message) < 10_000
    assert "52 more files have unsaved changes too." in message
    assert "and 52 more, the same call goes through" in message
    assert neovim.methods.count("buffer_text") < 5  # no more than are shown
    assert len(neovim.notices) == 1


def test_a_read_of_older_text_is_allowed_and_reported(guard: Guard) -> None:
    guard.neovim({A: {"modified": True}})
    added = guard.run(recorded("claude", "PreToolUse", "Read"))["hookSpecificOutput"]
    assert added["additionalContext"] == (
        "/ws/a.py has unsaved changes in Neovim 0.12.4. What was read is the older version on disk."
    )
    assert "permissionDecision" not in added
    assert guard.run(recorded("gemini", "BeforeTool", "read_file"), agent="gemini") == {}
    assert guard.run(recorded("claude", "PostToolUse", "Read")) == {}


def test_no_secret_is_in_any_answer(guard: Guard, tmp_path: Path) -> None:
    """Each event is sent while an editor offers the secret in every answer."""
    (tmp_path / ".git").mkdir()
    env, a = str(tmp_path / ".env"), str(tmp_path / "a.py")
    (tmp_path / "a.py").write_text("one\n")

    def kept(params: dict[str, Any]) -> dict[str, Any]:
        return {"success": True, "reloaded": [], "kept": [] if "file_path" in params else [{"name": env, "lines": 3}]}

    selection = {"file_path": env, "start_line": 1, "end_line": 1, "content": SECRET}
    guard.neovim(
        {env: KEPT, a: {}},
        folders=(str(tmp_path),),
        answers=unsaved(SECRET)
        | {"refresh_buffer": kept}
        | {"snapshot": lambda params: neovim_says(env, a, selection, params)},
    )
    for payload in (
        recorded("claude", "SessionStart"),
        recorded("claude", "UserPromptSubmit"),
        recorded("claude", "CwdChanged"),
        recorded("claude", "PostToolUse", "Bash"),
        edited(a),
        edit(a),
        bash("ls"),
    ):
        output = str(guard.run(payload | {"cwd": str(tmp_path)}))
        assert SECRET not in output
        assert ".env" not in output, payload["hook_event_name"]


def neovim_says(env: str, a: str, selection: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    clean = {"name": a, "modified": False, "current": False, "visible": False, "lines": 1}
    return {
        "editor": "Neovim 0.12.4",
        "pid": 1,
        "files": [clean for _ in params["paths"]],
        "unsaved": [{**clean, "name": env, "modified": True, "current": True}],
        "open": [env, a],
        "folders": [os.path.dirname(a)],
        "selection": selection,
        "connected": [],
    }
