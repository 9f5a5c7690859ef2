"""``drawbridge setup claude|gemini|codex``: what it adds to an agent's settings, and what it removes."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.gemini.hook_settings import OR_ONE
from drawbridge.guard import calls
from drawbridge.setup import installed
from drawbridge.setup.agents import AGENTS
from tests.setup.conftest import Setup, everything_below, stub, without_backups
from tests.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("guard")

AGENT_NAMES = sorted(AGENTS)
THEIRS = {"type": "command", "command": "my-own-hook", "timeout": 9}


def settings_file(agent: str, scope: str = "user") -> Path:
    path = AGENTS[agent].settings_file(Path.cwd() if scope == "project" else None)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def handlers(agent: str, scope: str = "user") -> dict[str, list[dict[str, Any]]]:
    """All handlers in the settings file, by event."""
    events = json.loads(settings_file(agent, scope).read_text("utf-8-sig"))["hooks"]
    return {event: [handler for group in groups for handler in group["hooks"]] for event, groups in events.items()}


def indented(value: object, indent: int | str | None = 2) -> str:
    return json.dumps(value, indent=indent)


PERSONS = {
    "two spaces": indented({"model": "opus", "env": {"A": "ü"}}) + "\n",
    "four spaces, no final newline": indented({"model": "opus", "list": [1, 2]}, 4),
    "tabs": indented({"model": "opus"}, "\t") + "\n\n",
    "one line": '{"model":"opus","env":{"A":"1"}}',
    "Windows line endings": indented({"model": "opus", "env": {}}).replace("\n", "\r\n") + "\r\n",
    "hooks for the same event": indented({"hooks": {"PreToolUse": [{"matcher": "X", "hooks": [THEIRS]}]}, "z": 1}),
    "hooks for another event": indented({"hooks": {"Stop": [{"hooks": [THEIRS]}]}}),
    "empty hooks": indented({"a": 1, "hooks": {}}),
    "empty lists": '{\n  "hooks": {"PreToolUse": [ ], "SessionStart": []}\n}\n',
    "an empty object": "{}",
    "an empty object on two lines": "{\n}\n",
    "nothing at all": "",
    "an empty line": "\n",
}


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("agent", AGENT_NAMES)
def test_setup_creates_what_it_needs_and_removes_it_again(agent: str, scope: str, setup: Setup) -> None:
    home = Path.home()
    before = everything_below(home)
    path = AGENTS[agent].settings_file(Path.cwd() if scope == "project" else None)
    output = setup(agent, "--scope", scope)
    assert output.code == 0
    assert f"  Create {path}: {len(AGENTS[agent].events)} hooks that call the guard, and report" in output.output
    assert set(handlers(agent, scope)) == set(AGENTS[agent].events)
    assert path.stat().st_mode & 0o777 == 0o600
    output = setup(agent, "--scope", scope, "--remove")
    assert output.code == 0
    assert f"  Delete {path}: it contains only what setup added" in output.output
    left = everything_below(home)
    assert {name: left[name] for name in left if name not in (".local", ".local/share")} == before


@pytest.mark.parametrize(
    "agent", ["claude", *(pytest.param(agent, marks=pytest.mark.thorough) for agent in ("codex", "gemini"))]
)
@pytest.mark.parametrize("text", PERSONS.values(), ids=PERSONS.keys())
def test_the_users_settings_are_kept_byte_for_byte(agent: str, text: str, setup: Setup) -> None:
    path = settings_file(agent)
    path.write_bytes(text.encode())
    assert setup(agent).code == 0
    now = json.loads(path.read_bytes())
    then = json.loads(text or "{}") if text.strip() else {}
    assert {key: now[key] for key in then if key != "hooks"} == {key: then[key] for key in then if key != "hooks"}
    for event, groups in then.get("hooks", {}).items():
        assert now["hooks"][event][: len(groups)] == groups
    assert setup(agent, "--remove").code == 0
    assert path.read_bytes() == text.encode()


@pytest.mark.parametrize("agent", AGENT_NAMES)
def test_a_second_setup_changes_nothing(agent: str, setup: Setup) -> None:
    """The second setup reports that the agent is already set up. A second removal reports that there is nothing to
    remove."""
    settings_file(agent).write_text(PERSONS["two spaces"])
    setup(agent)
    before = {name: Path.home() / name for name in everything_below(Path.home())}
    times = {name: path.lstat().st_mtime_ns for name, path in before.items()}
    output = setup(agent)
    assert output.code == 0
    assert output.output == f"Already set up: {settings_file(agent)} contains the guard's hooks.\n"
    assert {name: (Path.home() / name).lstat().st_mtime_ns for name in everything_below(Path.home())} == times
    setup(agent, "--remove")
    assert setup(agent, "--remove").output.startswith("Nothing to remove: ")


@pytest.mark.parametrize("agent", AGENT_NAMES)
def test_a_dry_run_shows_every_line_and_does_nothing(agent: str, setup: Setup) -> None:
    settings_file(agent).write_text(PERSONS["tabs"])
    before = everything_below(Path.home())
    shown = setup(agent, "--dry-run")
    assert everything_below(Path.home()) == before
    assert shown.code == 0
    assert shown.output.endswith("No changes were made.\n")
    diff = "".join(step["diff"] + "\n" for step in setup(agent, "--json").facts["files"])
    assert shown.output == diff.replace("\t", "    ") + "No changes were made.\n"


@pytest.mark.parametrize("agent", AGENT_NAMES)
def test_the_command_in_the_agents_settings_starts_the_guard(
    agent: str, setup: Setup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard's path contains quotes and spaces, and the environment is empty."""
    log = tmp_path / "log of guard"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / 'it\'s "here" & there'))
    setup(agent, "--policy", "any", "--log-file", log)
    for event, (handler,) in handlers(agent).items():
        line = handler["command"] if "args" not in handler else shlex.join([handler["command"], *handler["args"]])
        python, *words = shlex.split(line)
        assert os.path.realpath(python) == python
        assert words[:5] == ["-I", "-S", "-c", installed.LOADER, str(stub(agent))]
        assert " ".join(words[5:]) == (OR_ONE if agent == "gemini" else "")
        command = ["/bin/sh", "-c", line]
        subprocess.run(
            command, input=event, text=True, check=True, timeout=PATIENCE, cwd="/", env={}, capture_output=True
        )
    calls = [json.loads(line) for line in log.read_text().splitlines()]
    assert [call["input"] for call in calls] == list(AGENTS[agent].events)
    assert {(call["settings"]["agent"], call["settings"]["policy"]) for call in calls} == {(agent, "any")}


@pytest.mark.parametrize("agent", AGENT_NAMES)
def test_the_guard_knows_every_tool_and_event_that_setup_hooks(agent: str) -> None:
    assert set(AGENTS[agent].events) == set(calls.dialect(agent).EVENTS)
    tools = {tool for matcher in AGENTS[agent].events.values() for tool in (matcher or "").strip("^()$").split("|")}
    assert tools - {""} <= set(calls.dialect(agent).TOOLS)


@pytest.mark.parametrize(("agent", "unit"), [("claude", 1), ("gemini", 1000), ("codex", 1)])
def test_an_agent_waits_as_long_as_the_guard_may_take(agent: str, unit: int, setup: Setup) -> None:
    """The timeout is in the agent's own unit: milliseconds for Gemini CLI, seconds for the others."""

    def timeouts() -> list[int]:
        return [handler["timeout"] for event, (handler,) in handlers(agent).items() if event != "PermissionRequest"]

    setup(agent, "--answer", "wait", "--wait", "60")
    first, *others = timeouts()
    assert first == 65 * unit
    assert set(others) == {5 * unit}
    setup(agent, "--deadline", "4000")
    assert set(timeouts()) == {9 * unit}, "a guard that waits for a hung editor must not be ended by its agent"
    setup(agent)
    assert set(timeouts()) == {5 * unit}


def test_claudes_permission_hook_may_wait_for_a_day(setup: Setup) -> None:
    setup("claude")
    (handler,) = handlers("claude")["PermissionRequest"]
    assert handler["timeout"] == 24 * 60 * 60


def test_claude_blocks_edits_if_a_fail_closed_guard_cannot_start(
    setup: Setup, claude_says: Callable[[str], None]
) -> None:
    claude_says("2.1.295")
    setup("claude", "--fail", "closed")
    found = {event: handler.get("onFailure") for event, (handler,) in handlers("claude").items()}
    assert found.pop("PreToolUse") == "block"
    assert set(found.values()) == {None}
    setup("claude")
    assert "onFailure" not in settings_file("claude").read_text()


def test_codex_denies_calls_if_a_fail_closed_guard_cannot_start(setup: Setup) -> None:
    setup("codex", "--fail", "closed")
    found = {event: handler["command"].endswith(" || exit 2") for event, (handler,) in handlers("codex").items()}
    assert found.pop("PreToolUse")
    assert not any(found.values()), "no prompt may be denied"
    setup("codex")
    assert "exit 2" not in settings_file("codex").read_text()


def test_an_older_claude_gets_no_unknown_setting(setup: Setup, claude_says: Callable[[str], None]) -> None:
    claude_says("2.1.294")
    output = setup("claude", "--fail", "closed")
    assert "onFailure" not in settings_file("claude").read_text()
    assert "Claude Code 2.1.295 or newer can also block an edit" in output.errors
    assert "Your version is 2.1.294." in output.errors


def around(path: Path) -> dict[str, Any]:
    """Edits the settings as a user may: adds a hook next to ours and more groups, and changes the order and white space.
    Returns what must be left once our hooks are removed."""
    settings: dict[str, Any] = json.loads(path.read_text())
    event, groups = next(iter(settings["hooks"].items()))
    groups[0]["hooks"].insert(0, THEIRS)
    groups.insert(0, {"matcher": "Mine", "hooks": [THEIRS]})
    settings["hooks"]["Stop"] = [{"hooks": [THEIRS]}]
    path.write_text(indented({"last": True, **settings}, 1))
    return {"last": True, "hooks": {event: [groups[0], groups[1] | {"hooks": [THEIRS]}], "Stop": [{"hooks": [THEIRS]}]}}


@pytest.mark.parametrize("agent", AGENT_NAMES)
@pytest.mark.parametrize("record", ["kept", "lost", "damaged"])
def test_the_users_changes_around_our_hooks_stay(agent: str, record: str, setup: Setup) -> None:
    setup(agent)
    wanted = around(settings_file(agent))
    notes = stub(agent).parent.parent / "setup.json"
    if record == "lost":
        notes.unlink()
    elif record == "damaged":
        notes.write_text("[")
    assert setup(agent, "--remove").code == 0
    assert json.loads(settings_file(agent).read_text()) == wanted


def test_a_second_setup_keeps_the_users_hooks_and_matchers(setup: Setup) -> None:
    setup("claude")
    around(settings_file("claude"))
    setup("claude", "--answer", "wait")
    theirs, group = json.loads(settings_file("claude").read_text())["hooks"]["PreToolUse"]
    assert theirs == {"matcher": "Mine", "hooks": [THEIRS]}
    assert group["hooks"][0] == THEIRS
    assert group["hooks"][1]["timeout"] == 35


def test_duplicate_hooks_are_removed(setup: Setup) -> None:
    setup("claude")
    path = settings_file("claude")
    settings = json.loads(path.read_text())
    settings["hooks"]["PreToolUse"] *= 2
    settings["hooks"]["PreCompact"] = settings["hooks"]["CwdChanged"]
    path.write_text(indented(settings))
    setup("claude")
    found = {event: len(there) for event, there in handlers("claude").items()}
    assert found == dict.fromkeys(AGENTS["claude"].events, 1) | {"PreCompact": 0}


def test_remove_leaves_no_empty_object_even_without_its_record(setup: Setup) -> None:
    path = settings_file("claude")
    path.write_text('{"a": 1}')
    setup("claude")
    (stub("claude").parent.parent / "setup.json").unlink()
    setup("claude", "--answer", "wait")
    setup("claude", "--remove")
    assert path.read_text() == '{"a": 1}'


BAD = {
    "a trailing comma": ('{\n  "a": 1,\n}', "line 3, column 1: a name in double quotes was expected"),
    "truncated": ('{"a": [1', "line 1, column 9: a comma or ] was expected"),
    "not an object": ("[]", "a JSON object was expected"),
    "not UTF-8": ('{\n "a": "\udcff"}', "line 2, column 8: a byte that is not UTF-8"),
    "hooks that are a list": ('{"hooks": []}', "hooks is a list, not an object"),
}


@pytest.mark.parametrize("agent", AGENT_NAMES)
@pytest.mark.parametrize(("text", "problem"), BAD.values(), ids=BAD.keys())
def test_invalid_settings_are_reported_and_left_unchanged(agent: str, text: str, problem: str, setup: Setup) -> None:
    """The error names the file and what is wrong in it."""
    path = settings_file(agent)
    path.write_text(text, errors="surrogateescape")
    before = everything_below(Path.home())
    output = setup(agent)
    assert output.code == 2
    assert output.output == ""
    assert (
        output.errors
        == f"drawbridge setup: {path}: {problem}. The file was not changed. Correct it and run this again.\n"
    )
    assert everything_below(Path.home()) == before


@pytest.mark.parametrize("words", [(), ("--remove",), ("--dry-run", "--answer", "wait")])
def test_a_read_only_file_is_reported_before_anything_is_done(words: tuple[str, ...], setup: Setup) -> None:
    path = settings_file("claude")
    path.write_text("{}")
    if words:
        setup("claude")
    path.chmod(0o444)
    before = everything_below(Path.home())
    output = setup("claude", *words)
    assert (output.code, output.output) == (3, "")
    assert f"{path} is read-only. No changes were made. Make it writable and run this again." in output.errors
    assert everything_below(Path.home()) == before


def test_an_event_that_is_not_a_list_is_reported(setup: Setup) -> None:
    settings_file("gemini").write_text('{"hooks": {"AfterTool": {}}}')
    output = setup("gemini")
    assert output.code == 2
    assert "hooks.AfterTool is an object, not a list" in output.errors
    assert not stub("gemini").exists()
    assert settings_file("gemini").read_text() == '{"hooks": {"AfterTool": {}}}'


COMMENTED = """\
// of mine
{
  /* which */ "model": "pro", // the large one
  "hooks": {
    // nothing here yet
  }
}
"""


def test_comments_are_kept_if_the_agent_allows_them(setup: Setup) -> None:
    path = settings_file("gemini")
    path.write_text(COMMENTED)
    assert setup("gemini").code == 0
    assert all(line in path.read_text() for line in COMMENTED.splitlines())
    setup("gemini", "--remove")
    assert path.read_text() == COMMENTED


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_comments_are_reported_if_the_agent_does_not_allow_them(agent: str, setup: Setup) -> None:
    """The agent would ignore a settings file with comments, so setup leaves it unchanged."""
    settings_file(agent).write_text(COMMENTED)
    output = setup(agent)
    assert output.code == 2
    assert "line 1, column 1: a comment, which is not allowed in this file" in output.errors
    assert settings_file(agent).read_text() == COMMENTED


def test_a_byte_order_mark_is_kept_if_the_agent_allows_it(setup: Setup) -> None:
    text = "\ufeff" + PERSONS["two spaces"]
    settings_file("claude").write_text(text)
    settings_file("gemini").write_text(text)
    assert setup("claude").code == 0
    assert settings_file("claude").read_text().startswith("\ufeff{")
    setup("claude", "--remove")
    assert settings_file("claude").read_text() == text
    assert "line 1, column 1: a byte order mark" in setup("gemini").errors


def test_the_json_output_describes_the_changes(setup: Setup) -> None:
    path = settings_file("claude")
    path.write_text("{}")
    would = setup("claude", "--json", "--dry-run").facts
    assert (would["changed"], would["applied"]) == (True, False)
    assert path.read_text() == "{}"
    did = setup("claude", "--json").facts
    assert did | {"files": [], "applied": False} == would | {"files": []}
    assert (did["target"], did["action"], did["applied"]) == ("claude", "setup", True)
    assert did["command"][1:] == ["-I", "-S", "-c", installed.LOADER, str(stub("claude"))]
    (change,) = [file for file in did["files"] if file["path"] == str(path)]
    assert change["change"] == "modify"
    assert change["diff"].startswith(f"--- {path}\n+++ {path}\n")
    assert Path(change["backup"]).read_text() == "{}"
    nothing = setup("claude", "--json").facts
    assert (nothing["changed"], nothing["applied"], nothing["files"]) == (False, False, [])


def test_two_scopes_can_be_set_up_and_are_reported(setup: Setup) -> None:
    setup("claude", "--policy", "any")
    output = setup("claude", "--scope", "project", "--policy", "visible")
    assert f"{settings_file('claude')} also contains the guard's hooks" in output.errors
    guards = {file.name: file.read_text() for file in stub("claude").parent.glob("*.py")}
    assert len(guards) == 2
    assert "'any'" in guards.pop("claude.py")
    assert "'visible'" in guards.popitem()[1]
    setup("claude", "--scope", "project", "--remove")
    assert [file.name for file in stub("claude").parent.glob("*.py")] == ["claude.py"]
    assert handlers("claude")


def test_the_guard_is_set_up_with_settings_from_all_sources(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    """The sources are the configuration file, the environment and flags. An invalid value changes nothing."""
    config = home / "config.toml"
    config.write_text('[hook]\nanswer = "ask"\nsocket_dir = ["sockets"]\n')
    monkeypatch.setenv("DRAWBRIDGE_CONFIG", str(config))
    monkeypatch.setenv("DRAWBRIDGE_HOOK_POLICY", "any")
    setup("gemini", "--unknown", "deny")
    text = stub("gemini").read_text()
    assert all(
        pair in text for pair in ("'answer': 'ask'", "'policy': 'any'", "'unknown': 'deny'", "'agent': 'gemini'")
    )
    assert f"'socket_dir': ('{Path.cwd() / 'sockets'}',)" in text
    config.write_text("[hook]\nanswer = 3\n")
    output = setup("gemini")
    assert output.code == 2
    assert f"{config}: [hook] answer must be" in output.errors
    assert stub("gemini").read_text() == text


def test_the_agents_own_directory_variable_is_used(setup: Setup, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    for agent, variable, file in (
        ("claude", "CLAUDE_CONFIG_DIR", "settings.json"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("codex", "CODEX_HOME", "hooks.json"),
    ):
        monkeypatch.setenv(variable, str(home / "elsewhere" / agent))
        assert setup(agent).code == 0
        assert "hooks" in json.loads((home / "elsewhere" / agent / file).read_text())


def test_a_deleted_current_directory_is_reported(setup: Setup) -> None:
    Path.cwd().rmdir()
    output = setup("claude")
    assert (output.code, output.output) == (2, "")
    assert "The current directory was deleted." in output.errors
    assert not stub("claude").exists()


def test_each_change_of_a_settings_file_leaves_a_backup(setup: Setup) -> None:
    path = settings_file("claude")
    path.write_text("{}")
    setup("claude")
    setup("claude", "--remove")
    assert without_backups(everything_below(path.parent)) == {"settings.json": b"{}"}
    assert len(list(path.parent.glob("settings.json.drawbridge-*.bak"))) == 2


def test_nothing_is_written_to_the_temporary_directory(setup: Setup) -> None:
    setup("claude")
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
