"""`:checkhealth drawbridge`: every link of the chain from Neovim to the agent, and what to do if one is broken."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.waiting import PATIENCE

from .plugin_rig import Neovim, bridge_options, neovim, starts


@pytest.fixture(params=programs.each_nvim())
def editor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Neovim]:
    with in_a_project(request.param, tmp_path) as started:
        yield started


@contextmanager
def in_a_project(nvim: Path, project: Path) -> Iterator[Neovim]:
    """A Neovim in an empty project, with a `claude` and a `gemini` on PATH."""
    program(project / "bin" / "claude", "echo '9.8.7 (Claude Code)'")
    program(project / "bin" / "gemini", "echo 0.61.0")
    with neovim(nvim, cwd=project, environment={"PATH": f"{project}/bin:{os.environ['PATH']}"}) as started:
        yield started


def program(path: Path, script: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def settings(path: Path, mode: str) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(json.dumps({"permissions": {"defaultMode": mode}}))


def gemini_settings(content: str) -> Path:
    path = Path(os.environ["HOME"]) / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text(content)
    return path


def start(editor: Neovim) -> None:
    assert editor.setup(bridge_options())
    editor.wait("return (require('drawbridge.link').state() or {}).token ~= nil")


INHERITED = ("SSH_CONNECTION", "REMOTE_CONTAINERS", "VSCODE_REMOTE_CONTAINERS_SESSION")


def health(editor: Neovim) -> str:
    """The text of the report, with single spaces between words."""
    editor.command("checkhealth drawbridge")
    editor.wait("return vim.bo.filetype == 'checkhealth' and vim.fn.search('defaultMode', 'nw') > 0")
    assert not editor.is_stuck
    lines = editor.lua("return vim.api.nvim_buf_get_lines(0, 0, -1, false)")
    return "\n".join(" ".join(line.split()) for line in lines)


def test_no_problems_are_reported_if_everything_works(editor: Neovim, tmp_path: Path) -> None:
    settings(tmp_path / ".claude" / "settings.json", "default")
    gemini_settings('{"ide": {"enabled": true}}')
    start(editor)
    editor.lua("require('drawbridge.link').handle('announce', { port = 1, token = 'x', agents = { 'claude-code' } })")
    report = health(editor)
    assert "OK Neovim" in report.replace("OK: ", "OK ")
    assert "(drawbridge 0.0.0 (a fake))" in report
    assert "The bridge listens on 127.0.0.1:" in report
    assert f"(process {starts()[0]['pid']})" in report
    assert "Lock file ~/.claude/ide/" in report
    assert re.search(r"Discovery file \S+/gemini/ide/gemini-ide-server-\d+-\d+\.json", report)
    assert report.count("(mode 600)") == 2
    assert report.count("(mode 700)") == 2
    assert "Connected: claude-code" in report
    assert "Your unsaved work is protected from Claude Code (/claude)" in report
    assert "claude: 9.8.7 (Claude Code)" in report
    assert "gemini: 0.61.0" in report
    assert "Gemini CLI looks for an editor (ide.enabled in ~/.gemini/settings.json)" in report
    assert 'Claude Code asks before it writes (defaultMode "default" in ' in report
    assert "WARNING" not in report
    assert "ERROR" not in report


def test_a_missing_drawbridge_command_is_reported_with_the_fix(editor: Neovim) -> None:
    editor.setup("{ command = '/nowhere/drawbridge' }")
    report = health(editor)
    assert "ERROR" in report
    assert "command: /nowhere/drawbridge can't be run" in report
    assert "Correct the `command` option of setup{}, or remove it" in report
    assert "The bridge is not running: command: /nowhere/drawbridge can't be run" in report


def test_a_stopped_bridge_is_reported(editor: Neovim) -> None:
    assert "The bridge is stopped" in health(editor)


def test_a_lock_file_that_others_can_read_is_reported(editor: Neovim) -> None:
    start(editor)
    lock = Path(editor.status()["lock_file"])
    lock.chmod(0o644)
    lock.parent.chmod(0o755)
    report = health(editor)
    assert "is accessible to other users (mode 644)" in report
    assert f"chmod 600 {lock}" in report
    assert f"chmod 700 {lock.parent}" in report


def test_another_editor_in_the_folder_is_mentioned(editor: Neovim, tmp_path: Path) -> None:
    start(editor)
    own = Path(editor.status()["lock_file"])
    content: dict[str, Any] = {"workspaceFolders": [str(tmp_path)], "ideName": "Neovim", "pid": os.getpid()}
    own.write_text(json.dumps(content | {"ideName": "Neovim (app.py)"}))
    elsewhere = {"workspaceFolders": ["/elsewhere"], "ideName": "Elsewhere"}
    others: list[dict[str, Any]] = [
        {"ideName": "VS Code"},
        elsewhere,
        {"pid": 2**22 + 1, "ideName": "Ended"},
        {"pid": "5", "ideName": "Odd"},
    ]
    for port, other in enumerate(others, 30_001):
        own.with_name(f"{port}.lock").write_text(json.dumps(content | other))
    own.with_name("30009.lock").write_text("[")
    report = health(editor)
    expected = (
        f'VS Code (process {os.getpid()}) serves this folder too; in the /ide list, this Neovim is "Neovim (app.py)"'
    )
    assert expected in report
    assert report.count("serves this folder too") == 1


def test_a_config_directory_that_is_not_the_default_is_reported(editor: Neovim, tmp_path: Path) -> None:
    editor.lua("vim.env.CLAUDE_CONFIG_DIR = vim.fn.expand('~/.claude')")
    assert "CLAUDE_CONFIG_DIR" not in health(editor)
    editor.command("bwipeout!")
    editor.lua("vim.env.CLAUDE_CONFIG_DIR = ...", str(tmp_path / "other"))
    report = health(editor)
    assert "CLAUDE_CONFIG_DIR is " in report
    assert "here, not the default ~/.claude. Claude Code in another terminal finds this Neovim only if" in report


def test_a_missing_lock_file_is_an_error(editor: Neovim) -> None:
    start(editor)
    Path(editor.status()["lock_file"]).unlink()
    report = health(editor)
    assert "is missing" in report
    assert ":DrawbridgeRestart creates it again" in report


@pytest.mark.slow
def test_programs_that_hang_do_not_delay_the_report(tmp_path: Path) -> None:
    with in_a_project(programs.nvim(), tmp_path) as editor:
        program(tmp_path / "bin" / "claude", "exec sleep 600")
        program(tmp_path / "bin" / "slow", "exec sleep 600")
        editor.lua("require('drawbridge.config').apply({ command = ... })", str(tmp_path / "bin" / "slow"))
        before = time.monotonic()
        report = health(editor)
        assert time.monotonic() - before < PATIENCE / 2, "it waited for a program that hangs"
        assert report.count("it did not answer within 2 seconds") == 2


def test_a_missing_agent_shows_what_to_install(editor: Neovim) -> None:
    editor.lua("vim.env.PATH = '/nowhere'")
    report = health(editor)
    assert "claude can't be run" in report
    assert "Install it: npm install -g @anthropic-ai/claude-code" in report
    assert "gemini can't be run: to use Gemini CLI, run npm install -g @google/gemini-cli" in report


def test_a_command_of_an_agent_that_does_not_exist_is_reported(editor: Neovim) -> None:
    editor.lua(
        "require('drawbridge.config').apply({ terminal = { command = 'claude-of-nowhere' }, "
        "gemini = { command = 'gemini-of-nowhere' } })"
    )
    report = health(editor)
    assert "claude-of-nowhere can't be run" in report
    assert "Correct terminal.command in setup{}." in report
    assert "gemini-of-nowhere can't be run: correct gemini.command in setup{}" in report


class TestGuard:
    """The report contains what `drawbridge info` finds, and what to do. If that command fails, the rest is still
    reported."""

    @pytest.fixture(autouse=True)
    def program_of_codex(self, tmp_path: Path) -> None:
        program(tmp_path / "bin" / "codex", "echo 0.1")

    def test_an_agent_without_a_guard_is_a_warning(self, editor: Neovim) -> None:
        """The plugin shows the title that ``drawbridge info`` reports, so it does not have to know the agent."""
        set_info(guard=[{"agent": "codex", "title": "Codex 2", "state": "absent", "file": "/codex", "problem": ""}])
        start(editor)
        report = health(editor)
        assert "Codex 2 may overwrite your unsaved work: it has no guard" in report
        assert "`drawbridge setup codex` installs it." in report

    def test_a_problem_to_fix_is_an_error(self, editor: Neovim) -> None:
        broken = {"agent": "claude", "state": "broken", "file": "/claude", "problem": "/python is gone"}
        set_info(guard=[broken], problems=["The guard for Claude Code does not work: /python is gone. Do this."])
        start(editor)
        report = health(editor)
        assert re.search("ERROR:? The guard for Claude Code does not work: /python is gone. Do this.", report)
        assert "Your unsaved work is protected" not in report

    def test_a_neovim_that_the_guard_does_not_find_is_a_warning(self, editor: Neovim) -> None:
        set_info(editors=[{"pid": 1}])
        start(editor)
        assert "The guard can't find this Neovim instance: agents may overwrite" in health(editor)

    def test_an_unreadable_guard_report_is_shown_as_unknown(self, editor: Neovim) -> None:
        set_info(guard="nonsense")
        start(editor)
        assert "The guard's state can't be determined: `drawbridge info` did not print a readable report" in health(
            editor
        )

    def test_output_of_the_real_info_command_is_understood(self, editor: Neovim) -> None:
        report = health(editor)
        assert "Claude Code may overwrite your unsaved work: it has no guard" in report
        assert "can't be determined" not in report
        assert "find this Neovim" not in report


def set_info(**keys: Any) -> None:
    (Path(os.environ["TMPDIR"]) / "info.json").write_text(json.dumps(keys))


class TestGemini:
    def test_a_gemini_that_is_too_old_is_reported(self, editor: Neovim, tmp_path: Path) -> None:
        program(tmp_path / "bin" / "gemini", "echo 0.30.1")
        assert "gemini: 0.30.1 supports only VS Code as its editor" in health(editor)

    def test_a_discovery_file_that_others_can_read_is_reported(self, editor: Neovim) -> None:
        start(editor)
        file = Path(editor.status()["discovery_file"])
        file.chmod(0o644)
        report = health(editor)
        assert f"chmod 600 {file}" in report

    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            (
                '{"ide": {"enabled": false}}',
                "ide.enabled is false in ~/.gemini/settings.json, so Gemini CLI does not look for an editor",
            ),
            ('{"general": {}}', "ide.enabled is not set in ~/.gemini/settings.json: :DrawbridgeGemini asks"),
            ('{"ide": // mine', "settings.json can't be read here as JSON"),
        ],
    )
    def test_disabled_missing_or_invalid_ide_settings_are_reported(
        self, editor: Neovim, content: str, expected: str
    ) -> None:
        gemini_settings(content)
        assert expected in health(editor)

    def test_missing_settings_show_how_to_turn_on_the_ide_mode(self, editor: Neovim) -> None:
        report = health(editor)
        assert ":DrawbridgeGemini asks whether to set it" in report
        assert "In another terminal, type /ide enable in Gemini CLI once." in report

    def test_system_defaults_are_not_overridden(self, editor: Neovim) -> None:
        editor.lua("vim.env.GEMINI_CLI_SYSTEM_DEFAULTS_PATH = '/defaults.json'")
        assert "ide.enabled is not set in ~/.gemini/settings.json: the Gemini defaults on this machine" in health(
            editor
        )

    @pytest.mark.parametrize(("settings", "expected"), [({}, True), ({"hasSeenNudge": True}, False)])
    def test_geminis_question_is_explained_until_it_is_answered(
        self, editor: Neovim, settings: dict[str, bool], expected: bool
    ) -> None:
        gemini_settings(json.dumps({"ide": settings}))
        assert ("press Esc first: if you choose Yes, it looks for an installer" in health(editor)) is expected

    def test_in_a_container_the_needed_variable_is_shown(self, editor: Neovim) -> None:
        editor.lua("for _, name in ipairs({ ... }) do vim.env[name] = nil end", *INHERITED)
        editor.lua("require('drawbridge.cli').CONTAINER_FILES = { '/' }")
        assert "export REMOTE_CONTAINERS=true" in health(editor)


@pytest.mark.parametrize(
    ("environment", "warned"),
    [
        ({"http_proxy": "http://proxy:3128"}, True),
        ({"ALL_PROXY": "socks5://proxy", "no_proxy": "intern.example"}, True),
        ({"http_proxy": "http://proxy:3128", "NO_PROXY": "localhost,127.0.0.1"}, False),
        ({"http_proxy": "http://proxy:3128", "no_proxy": "*"}, False),
        ({}, False),
    ],
)
def test_a_proxy_between_agent_and_bridge_is_reported(environment: dict[str, str], warned: bool) -> None:
    with neovim(programs.nvim(), environment=environment) as editor:
        report = health(editor)
    assert ("no_proxy does not include 127.0.0.1" in report) is warned
    assert ("No proxy is used between" in report) is not warned


class TestPermissionMode:
    def test_the_report_explains_that_auto_mode_shows_no_diffs(self, editor: Neovim) -> None:
        report = health(editor)
        assert (
            "permissions.defaultMode is not set: newer versions of Claude Code start in auto mode, which shows no diffs"
            in report
        )
        assert 'put {"permissions": {"defaultMode": "default"}} into .claude/settings.json' in report

    def test_the_projects_settings_override_the_users(self, editor: Neovim, tmp_path: Path) -> None:
        settings(Path(os.environ["CLAUDE_CONFIG_DIR"]) / "settings.json", "default")
        settings(tmp_path / ".claude" / "settings.json", "acceptEdits")
        assert 'defaultMode is "acceptEdits" in' in health(editor)

    def test_the_users_settings_apply_if_the_project_has_none(self, editor: Neovim) -> None:
        settings(Path(os.environ["CLAUDE_CONFIG_DIR"]) / "settings.json", "default")
        assert "Claude Code asks before it writes" in health(editor)

    def test_settings_with_invalid_json_are_reported(self, editor: Neovim, tmp_path: Path) -> None:
        (tmp_path / ".claude").mkdir()
        (tmp_path / ".claude" / "settings.json").write_text("{ permissions: ")
        assert ".claude/settings.json is not a valid JSON object" in health(editor)
