"""``drawbridge info``: whether the guard that agents call exists and answers, and whether Claude Code asks."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drawbridge.cli.hook import for_guard
from drawbridge.core.own_command import own_command
from drawbridge.guard import failure, state
from drawbridge.settings.hook import HookSettings
from drawbridge.setup import installed
from tests.ide.processes import run
from tests.info.test_info import report, screen, section


@pytest.fixture(autouse=True)
def no_editors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAWBRIDGE_HOOK_SOCKET_DIR", os.environ["XDG_RUNTIME_DIR"])
    monkeypatch.setenv("DRAWBRIDGE_SOCKET_DIR", os.environ["XDG_RUNTIME_DIR"])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project, which is the current directory, because ``setup --scope project`` works there."""
    made = tmp_path / "ws"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


async def set_up(agent: str, *arguments: str) -> None:
    code, output, errors = await run("setup", agent, "--yes", *arguments)
    assert code == 0, output + errors


async def guards(folder: Path, code: int = 0) -> dict[str, dict[str, Any]]:
    """What ``drawbridge info`` reports about the guards, by agent. ``code`` is the expected exit code."""
    return {guard["agent"]: guard for guard in (await report(folder, code=code))["guard"]}


def change(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Changes the content of a JSON file with the function ``edit``."""
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def add(path: Path, **keys: Any) -> None:
    """Adds keys to a JSON file, which is created if it does not exist."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | keys))


@pytest.mark.slow_for("codex-project", "gemini-project")
@pytest.mark.parametrize(
    ("agent", "scope"),
    [
        ("claude", "user"),
        ("claude", "project"),
        ("gemini", "user"),
        ("codex", "user"),
        *(pytest.param(agent, "project", marks=pytest.mark.thorough) for agent in ("gemini", "codex")),
    ],
)
async def test_a_guard_that_setup_installed_answers(folder: Path, agent: str, scope: str) -> None:
    assert {guard["state"] for guard in (await guards(folder)).values()} == {"absent"}
    await set_up(agent, "--scope", scope)
    found = await guards(folder)
    assert [name for name, guard in found.items() if guard["state"] == "works"] == [agent]
    assert (found[agent]["scope"], found[agent]["problem"]) == (scope, "")
    assert found[agent]["file"].startswith(str(folder if scope == "project" else Path.home()))
    assert 0 < found[agent]["milliseconds"] < 5000
    shown = section(await screen(folder), "Guard")
    assert [line.split()[0] for line in shown] == ["●" if name == agent else "○" for name in found]
    assert "answers in" in "".join(shown)


async def test_project_and_user_settings_may_both_have_a_guard(folder: Path) -> None:
    await set_up("claude")
    await set_up("claude", "--scope", "project")
    found = [guard for guard in (await report(folder))["guard"] if guard["agent"] == "claude"]
    assert [(guard["scope"], guard["state"]) for guard in found] == [("user", "works"), ("project", "works")]


def interpreter_gone(folder: Path) -> str:
    gone = folder / "old-python"

    def edit(settings: dict[str, Any]) -> None:
        for groups in settings["hooks"].values():
            groups[0]["hooks"][0]["command"] = str(gone)

    change(Path.home() / ".claude/settings.json", edit)
    return f"{gone} is gone"


def stub_gone(_folder: Path) -> str:
    stub = installed.stub_path("claude")
    stub.unlink()
    return f"{stub} is gone"


def copy_gone(_folder: Path) -> str:
    copy = installed.copy_path()
    copy.rename(copy.with_name("elsewhere"))
    return f"{copy} is gone"


def copy_damaged(_folder: Path) -> str:
    (installed.copy_path() / "drawbridge/guard/hook.py").unlink()
    for compiled in (installed.copy_path() / "drawbridge/guard/__pycache__").glob("hook.*"):
        compiled.unlink()
    return "the guard can't be loaded: No module named 'drawbridge.guard.hook'"


def stub_says_something_else(_folder: Path) -> str:
    installed.stub_path("claude").write_text("print('hello')\n")
    return "the hook's answer is not JSON"


@pytest.mark.slow_for("copy_gone", "stub_gone", "stub_says_something_else")
@pytest.mark.parametrize(
    "breaks",
    [
        interpreter_gone,
        copy_damaged,
        *(
            pytest.param(breaks, marks=pytest.mark.thorough)
            for breaks in (stub_gone, copy_gone, stub_says_something_else)
        ),
    ],
)
async def test_a_guard_that_cannot_run_is_reported_as_a_problem(folder: Path, breaks: Callable[[Path], str]) -> None:
    await set_up("claude")
    problem = breaks(folder)
    output = await report(folder, code=3)
    assert (output["guard"][0]["state"], output["guard"][0]["problem"]) == ("broken", problem)
    assert output["problems"] == [
        f"The guard for Claude Code does not work: {problem}. Run `{own_command()} setup claude`."
    ]
    shown = await screen(folder, code=3)
    assert section(shown, "Guard")[0].split() == ["✗", "claude", "~/.claude/settings.json", "BROKEN"]
    assert "The guard for Claude Code does not work" in section(shown, "To fix")[0]
    await set_up("claude")
    assert (await guards(folder))["claude"]["state"] == "works"


@pytest.mark.parametrize(
    ("agent", "file", "key"),
    [
        ("claude", ".claude/settings.json", {"disableAllHooks": True}),
        ("claude", ".claude/settings.local.json", {"disableAllHooks": True}),
        ("gemini", ".gemini/settings.json", {"hooksConfig": {"enabled": False}}),
        ("gemini", ".gemini/settings.json", {"hooksConfig": {"disabled": ["drawbridge"]}}),
    ],
)
async def test_hooks_turned_off_in_any_settings_file_are_reported(
    folder: Path, agent: str, file: str, key: dict[str, Any]
) -> None:
    """The problem names the switch and the file."""
    await set_up(agent)
    add(folder / file, **key)
    found = (await guards(folder, code=3))[agent]
    assert found["state"] == "off"
    assert f"{next(iter(key))}" in found["problem"]
    assert str(folder / file) in found["problem"]


async def test_hooks_turned_off_for_codex_are_reported(folder: Path) -> None:
    await set_up("codex")
    (Path.home() / ".codex/config.toml").write_text("[features]\nhooks = false\n")
    assert "features.hooks" in (await guards(folder, code=3))["codex"]["problem"]


async def test_invalid_settings_are_reported_with_line_and_column(folder: Path) -> None:
    (Path.home() / ".gemini").mkdir()
    (Path.home() / ".gemini/settings.json").write_text('{\n  // fine here\n  "a": }')
    (Path.home() / ".claude").mkdir()
    (Path.home() / ".claude/settings.json").write_text('{// not fine here\n"a": 1}')
    output = await report(folder, code=3)
    assert [guard["state"] for guard in output["guard"]] == ["unreadable", "unreadable", "absent"]
    assert [guard["problem"].partition(":")[0] for guard in output["guard"]] == [
        "line 1, column 2",
        "line 3, column 8",
        "",
    ]
    assert len(output["problems"]) == 2


async def test_settings_without_valid_hooks_are_ignored(folder: Path) -> None:
    oddities: list[Any] = [
        [],
        {"hooks": 1},
        {"hooks": {"PreToolUse": [1, {"hooks": [None, {"command": 5}]}]}},
        {"permissions": []},
    ]
    for odd in oddities:
        (folder / ".claude").mkdir(exist_ok=True)
        (folder / ".claude/settings.json").write_text(json.dumps(odd))
        assert (await guards(folder))["claude"]["state"] == "absent"


async def test_a_guard_from_a_different_version_is_reported(folder: Path) -> None:
    await set_up("claude")
    change(Path.home() / ".claude/settings.json", lambda settings: settings["hooks"].pop("FileChanged"))
    output = await report(folder, code=3)
    assert output["guard"][0]["problem"] == "the guard is not called for FileChanged"
    assert "incomplete hooks" in section(await screen(folder, code=3), "Guard")[0]


async def test_hooks_in_a_shared_file_have_to_be_removed_by_hand(folder: Path) -> None:
    await set_up("claude")
    shared = folder / ".claude/settings.json"
    shared.parent.mkdir()
    (Path.home() / ".claude/settings.json").rename(shared)
    change(shared, lambda settings: settings["hooks"].pop("FileChanged"))
    [problem] = (await report(folder, code=3))["problems"]
    remedy = f"Remove the guard's hooks from {shared}, then run `{own_command()} setup claude --scope project`."
    assert problem == f"The hooks of Claude Code are incomplete: the guard is not called for FileChanged. {remedy}"


async def test_commands_from_a_projects_settings_are_never_run(folder: Path) -> None:
    """Running this command in a project does not mean that the user trusts the project."""
    await set_up("claude")
    trap = folder / "drawbridge/guard/claude.py"
    trap.parent.mkdir(parents=True)
    trap.write_text("open('sprung', 'w')")
    stub = str(installed.stub_path("claude"))
    python = installed.fast_command("claude")[0]
    for words in (
        [python, str(trap)],
        ["/bin/sh", "-c", "touch sprung", stub],
        [python, "-c", "open('sprung', 'w')", stub],
    ):
        hook = {"type": "command", "command": words[0], "args": words[1:]}
        (folder / ".claude").mkdir(exist_ok=True)
        (folder / ".claude/settings.json").write_text(json.dumps({"hooks": {"PreToolUse": [{"hooks": [hook]}]}}))
        found = (await report(folder, code=3))["guard"]
        assert [(guard["scope"], guard["milliseconds"] > 0) for guard in found[:2]] == [
            ("user", True),
            ("project", False),
        ]
        assert not (folder / "sprung").exists()


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        ({}, ("", False)),
        ({"home": "default"}, ("default", True)),
        ({"home": "default", "settings.json": "acceptEdits"}, ("acceptEdits", False)),
        ({"settings.json": "auto", "settings.local.json": "default"}, ("default", True)),
        ({"home": "plan"}, ("plan", True)),
        ({"home": "manual"}, ("manual", True)),
    ],
)
async def test_the_nearest_settings_decide_whether_claude_asks(
    folder: Path, modes: dict[str, str], expected: tuple[str, bool]
) -> None:
    for place, mode in modes.items():
        path = Path.home() / ".claude/settings.json" if place == "home" else folder / ".claude" / place
        add(path, permissions={"defaultMode": mode})
    output = (await report(folder))["permissions"]
    assert (output["mode"], output["asks"]) == expected
    shown = section(await screen(folder), "Approval")
    assert ("asks before it writes" in shown[0]) is expected[1]
    assert ("--ask-mode" in "".join(shown)) is not expected[1]
    assert ("--scope project --ask-mode" in "".join(shown)) is (expected[0] == "acceptEdits")


class TestFailures:
    """Calls that the guard let through or denied because it failed. Agents do not show these failures."""

    async def test_failures_are_reported_as_a_problem_for_a_day(self, folder: Path) -> None:
        log = state_directory() / "guard.log"
        for number in range(3):
            failure.answer(b"{", None, ValueError(f"fault {number}"), for_guard(HookSettings()), os.environb)
        [problem] = (await report(folder, code=3))["problems"]
        assert problem.startswith("The guard failed 3 times in the last day, most recently at ")
        assert "for Claude Code: ValueError: fault 2. It let the call through." in problem
        assert problem.endswith(f"{log} has the details.")
        log.write_text(log.read_text().replace(time.strftime("%Y-"), "2001-"))
        assert (await report(folder))["problems"] == []

    async def test_other_lines_of_the_log_are_not_problems(self, folder: Path) -> None:
        state.log(for_guard(HookSettings()), os.environb, "Edit: protected /ws/a.py (deny)")
        state.log(for_guard(HookSettings()), os.environb, "Edit: /s.sock is waiting at a prompt (unknown = allow)")
        assert (await report(folder))["problems"] == []

    async def test_the_log_is_read_from_the_configured_path(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("DRAWBRIDGE_HOOK_LOG_FILE", str(tmp_path / "log"))
        (tmp_path / "log").write_bytes(
            b"\xff\n" + time.strftime("%Y-%m-%d %H:%M:%S").encode() + b" gemini: failed (closed): no\n"
        )
        [problem] = (await report(folder, code=3))["problems"]
        assert "The guard failed once in the last day, at " in problem
        assert "for Gemini CLI: no. It denied the call, if that was still possible." in problem


def state_directory() -> Path:
    return Path(os.environ["XDG_STATE_HOME"]) / "drawbridge"
