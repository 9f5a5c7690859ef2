"""`:DrawbridgeClaude` and `:DrawbridgeGemini`: each CLI in a terminal of Neovim.

The fake CLIs of these tests record how they were started.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import programs

from .plugin_rig import Neovim, bridge_options, neovim, wait_until

CLI = """#!/bin/sh
{
  echo "argv=$(printf '%s|' "$@")"
  env
} > "$TMPDIR/cli.part"
mv "$TMPDIR/cli.part" "$TMPDIR/${0##*/}.started"
echo "the prompt of the agent"
while read -r line; do
  case "$line" in
    leave*) exit "${line#leave }" ;;
  esac
done
"""


def clis(directory: Path) -> None:
    """Puts a `claude` and a `gemini` into the directory's `bin`."""
    (directory / "bin").mkdir()
    for name in ("claude", "gemini"):
        program = directory / "bin" / name
        program.write_text(CLI)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)


def gemini_settings(content: str) -> None:
    path = Path(os.environ["HOME"]) / ".gemini" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)


@pytest.fixture(params=programs.each_nvim())
def editor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Neovim]:
    """A Neovim with `claude` and `gemini` on PATH, proxy exceptions in its environment, and one open file."""
    clis(tmp_path)
    gemini_settings('{"ide": {"enabled": true}}')
    file = tmp_path / "a.txt"
    file.write_text("one\n")
    path = {
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "no_proxy": "intern.example, localhost",
        "NO_PROXY": "10.0.0.1",
    }
    with neovim(request.param, file, environment=path) as started:
        yield started


def start(editor: Neovim, terminal: str = "", gemini: str = "") -> None:
    assert editor.setup(bridge_options(more=f"terminal = {{ {terminal} }}, gemini = {{ {gemini} }}"))


def record_of(agent: str) -> Path:
    return Path(os.environ["TMPDIR"]) / f"{agent}.started"


def started_with(agent: str = "claude") -> dict[str, str]:
    """Waits until the CLI is started. Returns its environment, and its arguments as ``argv``, with | after each one."""
    record = record_of(agent)
    wait_until(record.exists, "the CLI is started")
    found = dict(line.partition("=")[::2] for line in record.read_text().splitlines())
    record.unlink()
    return found


def wait_for_terminal(editor: Neovim) -> None:
    editor.wait("return vim.bo.buftype == 'terminal'")
    editor.wait(
        "return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false)):match('the prompt of the agent') ~= nil"
    )


class TestStarting:
    def test_the_terminal_has_a_readable_name(self, editor: Neovim) -> None:
        start(editor)
        editor.command("DrawbridgeClaude")
        wait_for_terminal(editor)
        assert editor.lua("return vim.fn.bufname()") == "Claude Code"
        names = editor.lua("return vim.tbl_map(vim.api.nvim_buf_get_name, vim.api.nvim_list_bufs())")
        assert [name for name in names if name.startswith("term://")] == []

    def test_the_cli_finds_the_bridge(self, editor: Neovim) -> None:
        start(editor)
        editor.command("DrawbridgeClaude")
        found = started_with()
        assert found["CLAUDE_CODE_SSE_PORT"] == str(editor.status()["port"])
        assert found["MCP_CONNECTION_NONBLOCKING"] == "true"
        assert found["no_proxy"] == found["NO_PROXY"] == "intern.example,localhost,10.0.0.1,127.0.0.1,::1"
        assert found["argv"] == "--permission-mode|default|"
        wait_for_terminal(editor)
        editor.wait("return vim.api.nvim_get_mode().mode == 't'")
        assert editor.messages == []

    def test_the_terminal_starts_the_bridge_if_none_runs(self, editor: Neovim) -> None:
        editor.setup(bridge_options(more="auto_start = false"))
        editor.command("DrawbridgeClaude")
        assert started_with()["CLAUDE_CODE_SSE_PORT"] == str(editor.status()["port"])

    @pytest.mark.parametrize(
        ("arguments", "argv"),
        [
            ("--continue", "--permission-mode|default|--continue|"),
            ("--permission-mode plan", "--permission-mode|plan|"),
            ("--permission-mode=plan", "--permission-mode=plan|"),
            ("--dangerously-skip-permissions", "--dangerously-skip-permissions|"),
            ("'fix the bug' now", "--permission-mode|default|fix the bug|now|"),
            ('--x "a \\" b" c\\ d ""', '--permission-mode|default|--x|a " b|c d||'),
            ("100% of # these", "--permission-mode|default|100%|of|#|these|"),
        ],
    )
    def test_arguments_are_split_as_in_a_shell(self, editor: Neovim, arguments: str, argv: str) -> None:
        start(editor)
        editor.command(f"DrawbridgeClaude {arguments}")
        assert started_with()["argv"] == argv

    def test_a_command_of_several_words_may_choose_the_mode(self, editor: Neovim) -> None:
        start(editor, "command = { 'env', 'claude', '--permission-mode', 'acceptEdits' }")
        editor.command("DrawbridgeClaude -c")
        assert started_with()["argv"] == "--permission-mode|acceptEdits|-c|"

    def test_flags_are_completed(self, editor: Neovim) -> None:
        def completions(line: str) -> list[str]:
            return list(editor.call("nvim_call_function", "getcompletion", [line, "cmdline"]))

        assert completions("DrawbridgeClaude --con") == ["--continue"]
        assert "plan" in completions("DrawbridgeClaude --permission-mode ")


class TestGemini:
    def test_gemini_finds_the_bridge(self, editor: Neovim, tmp_path: Path) -> None:
        start(editor)
        (tmp_path / "link").symlink_to(tmp_path)
        editor.command(f"silent cd {tmp_path}/link")
        editor.command("DrawbridgeGemini")
        found = started_with("gemini")
        assert found["GEMINI_CLI_IDE_PID"] == str(editor.lua("return vim.fn.getpid()"))
        assert found["GEMINI_CLI_IDE_SERVER_PORT"] == str(editor.status()["port"])
        assert found["GEMINI_CLI_IDE_AUTH_TOKEN"] == editor.lua("return require('drawbridge.link').state().token")
        assert found["GEMINI_CLI_IDE_WORKSPACE_PATH"] == str(tmp_path.resolve())
        assert found["no_proxy"] == found["NO_PROXY"] == "intern.example,localhost,10.0.0.1,127.0.0.1,::1"
        assert "CLAUDE_CODE_SSE_PORT" not in found
        assert found["argv"] == "|"
        wait_for_terminal(editor)
        assert editor.messages == []

    @pytest.mark.parametrize(
        ("files", "inherited", "looks_outside"),
        [
            ("'/'", {}, True),
            ("'/nowhere'", {}, False),
            ("'/'", {"SSH_CONNECTION": "10.0.0.1 22"}, False),
        ],
    )
    def test_in_a_container_gemini_searches_for_the_editor_inside(
        self, tmp_path: Path, files: str, inherited: dict[str, str], looks_outside: bool
    ) -> None:
        clis(tmp_path)
        none = dict.fromkeys(("SSH_CONNECTION", "REMOTE_CONTAINERS", "VSCODE_REMOTE_CONTAINERS_SESSION"), "")
        environment = {**none, **inherited, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
        with neovim(programs.nvim(), environment=environment) as editor:
            editor.lua(f"require('drawbridge.cli').CONTAINER_FILES = {{ {files} }}")
            gemini_settings('{"ide": {"enabled": true}}')
            start(editor)
            editor.command("DrawbridgeGemini")
            assert started_with("gemini")["REMOTE_CONTAINERS"] == ("true" if looks_outside else "")

    def test_the_users_command_and_arguments_are_passed_on(self, editor: Neovim) -> None:
        start(editor, gemini="command = { 'env', 'gemini', '--model', 'flash' }")
        editor.command("DrawbridgeGemini 'fix the bug' now")
        assert started_with("gemini")["argv"] == "--model|flash|fix the bug|now|"

    @pytest.mark.parametrize(("answer", "argv"), [("1", "--prompt-interactive|/ide enable|"), ("2", "|"), ("0", "|")])
    def test_the_first_start_asks_whether_gemini_may_connect(self, editor: Neovim, answer: str, argv: str) -> None:
        gemini_settings("{}")
        start(editor)
        editor.lua(f"vim.fn.confirm = function(question) vim.g.asked = question return {answer} end")
        editor.command("DrawbridgeGemini")
        assert started_with("gemini")["argv"] == argv
        assert "sets ide.enabled in ~/.gemini/settings.json" in editor.lua("return vim.g.asked")

    @pytest.mark.parametrize(("answer", "again"), [("2", False), ("0", True)])
    def test_never_as_the_answer_is_remembered(self, editor: Neovim, answer: str, again: bool) -> None:
        gemini_settings("{}")
        start(editor)
        editor.lua(f"vim.fn.confirm = function() return {answer} end")
        editor.command("DrawbridgeGemini")
        started_with("gemini")
        assert editor.lua("return require('drawbridge.gemini_settings').is_undecided()") is again

    @pytest.mark.parametrize(
        ("arguments", "asks"),
        [
            ("--model flash", True),
            ("--model=flash --debug", True),
            ("--resume --sandbox", True),
            ("--debug fix", False),
            ("--model flash fix", False),
            ("fix", False),
            ("-i fix", False),
            ("mcp list", False),
            ("--version", False),
        ],
    )
    def test_the_user_is_asked_unless_a_prompt_is_given(self, editor: Neovim, arguments: str, asks: bool) -> None:
        gemini_settings("{}")
        start(editor)
        editor.lua("vim.fn.confirm = function() return 1 end")
        editor.command(f"DrawbridgeGemini {arguments}")
        argv = "|".join([*arguments.split(), *(["--prompt-interactive", "/ide enable"] if asks else []), ""])
        assert started_with("gemini")["argv"] == argv

    @pytest.mark.parametrize(
        ("settings", "defaults"),
        [
            ('{"ide": {"enabled": true}}', ""),
            ('{"ide": {"enabled": false}}', ""),
            ('{"ide": {"hasSeenNudge": true}}', ""),
            ('{"ide": // mine', ""),
            ("{}", "/defaults.json"),
        ],
    )
    def test_the_user_is_not_asked_if_the_settings_answer(self, editor: Neovim, settings: str, defaults: str) -> None:
        gemini_settings(settings)
        start(editor)
        editor.lua("vim.env.GEMINI_CLI_SYSTEM_DEFAULTS_PATH = ...", defaults)
        editor.lua("vim.fn.confirm = function() vim.g.asked = true return 1 end")
        editor.command("DrawbridgeGemini")
        assert started_with("gemini")["argv"] == "|"
        assert not editor.lua("return vim.g.asked")

    def test_arguments_of_the_first_start_are_unchanged(self, editor: Neovim) -> None:
        gemini_settings("{}")
        start(editor)
        editor.lua("vim.fn.confirm = function() return 1 end")
        editor.command("DrawbridgeGemini 'fix the bug'")
        assert started_with("gemini")["argv"] == "fix the bug|"

    def test_flags_are_completed(self, editor: Neovim) -> None:
        def completions(line: str) -> list[str]:
            return list(editor.call("nvim_call_function", "getcompletion", [line, "cmdline"]))

        assert completions("DrawbridgeGemini --app") == ["--approval-mode"]
        assert completions("DrawbridgeGemini --approval-mode de") == ["default"]

    def test_without_the_cli_it_shows_what_to_install(self, editor: Neovim) -> None:
        start(editor)
        editor.lua("vim.env.PATH = '/nowhere'")
        editor.command("DrawbridgeGemini")
        editor.shows_message("gemini not found; run npm install -g @google/gemini-cli")

    def test_a_custom_command_that_cannot_run_is_reported(self, editor: Neovim) -> None:
        start(editor, gemini="command = '/opt/my gemini'")
        editor.command("DrawbridgeGemini")
        editor.shows_message("drawbridge: /opt/my gemini can't be run (gemini.command)")

    def test_a_failure_of_gemini_is_reported_under_its_name(self, editor: Neovim) -> None:
        start(editor)
        editor.command("DrawbridgeGemini")
        wait_for_terminal(editor)
        editor.wait("return vim.api.nvim_get_mode().mode == 't'")
        editor.keys("leave 3<CR>")
        editor.shows_message(":DrawbridgeGemini: exited with code 3")


class TestBoth:
    def both(self, editor: Neovim) -> None:
        """Opens both terminals. Gemini's is then the current window."""
        editor.command("DrawbridgeClaude")
        wait_for_terminal(editor)
        started_with("claude")
        editor.keys("<C-Bslash><C-N>")
        editor.command("DrawbridgeGemini")
        started_with("gemini")
        editor.wait("return vim.fn.bufname():match('Gemini') ~= nil")
        wait_for_terminal(editor)

    @pytest.mark.parametrize(
        ("options", "positions"),
        [
            ("", [[0, 0], [0, 48], [12, 48]]),
            ("position = 'bottom', size = 8", [[0, 0], [14, 0], [14, 40]]),
        ],
    )
    def test_two_terminals_share_the_space_of_one(
        self, editor: Neovim, options: str, positions: list[list[int]]
    ) -> None:
        start(editor, options)
        self.both(editor)
        found = editor.lua("return vim.tbl_map(vim.api.nvim_win_get_position, vim.api.nvim_tabpage_list_wins(0))")
        assert [column for _, column in found] == [column for _, column in positions]
        assert all(abs(row - wanted) <= 2 for (row, _), (wanted, _) in zip(found, positions, strict=True))

    def test_each_terminal_has_its_own_tab_page(self, editor: Neovim) -> None:
        start(editor, "position = 'tab'")
        self.both(editor)
        assert editor.lua("return #vim.api.nvim_list_tabpages()") == 3

    def test_each_command_opens_its_own_terminal(self, editor: Neovim) -> None:
        start(editor)
        self.both(editor)
        editor.keys("<C-Bslash><C-N>")
        editor.command("DrawbridgeClaude")
        editor.wait("return vim.fn.bufname():match('Claude') ~= nil")
        assert not record_of("claude").exists(), "a second one was started"
        assert editor.lua("return #vim.api.nvim_list_wins()") == 3

    def test_one_terminal_stays_open_when_the_other_ends(self, editor: Neovim) -> None:
        start(editor)
        self.both(editor)
        editor.wait("return vim.api.nvim_get_mode().mode == 't'")
        editor.keys("leave 0<CR>")
        editor.wait("return #vim.api.nvim_list_wins() == 2")
        editor.command("DrawbridgeClaude --continue")
        editor.shows_message(":DrawbridgeClaude: already running")


class TestWindow:
    @pytest.mark.parametrize(
        ("options", "layout"),
        [
            ("", {"col": 48, "width": 32, "windows": 2, "tabs": 1}),
            ("position = 'left', size = 30", {"col": 0, "width": 30, "windows": 2, "tabs": 1}),
            ("position = 'bottom', size = 0.5", {"col": 0, "height": 12, "windows": 2, "tabs": 1}),
            ("position = 'top', size = 5", {"row": 0, "height": 5, "windows": 2, "tabs": 1}),
            ("position = 'tab'", {"windows": 1, "tabs": 2}),
            ("position = 'float', size = 0.5", {"float": True, "windows": 2, "tabs": 1}),
        ],
    )
    def test_the_terminal_opens_where_the_options_specify(
        self, editor: Neovim, options: str, layout: dict[str, Any]
    ) -> None:
        start(editor, options)
        editor.command("DrawbridgeClaude")
        wait_for_terminal(editor)
        found = editor.lua("""
          local at = vim.api.nvim_win_get_position(0)
          return {
            row = at[1], col = at[2], width = vim.api.nvim_win_get_width(0), height = vim.api.nvim_win_get_height(0),
            float = vim.api.nvim_win_get_config(0).relative ~= '',
            windows = #vim.api.nvim_tabpage_list_wins(0), tabs = #vim.api.nvim_list_tabpages(),
          }
        """)
        assert {name: found[name] for name in layout} == layout

    def test_repeating_the_command_focuses_the_terminal(self, editor: Neovim) -> None:
        start(editor)
        editor.command("DrawbridgeClaude")
        wait_for_terminal(editor)
        started_with()
        editor.keys("<C-Bslash><C-N><C-w>p")
        editor.wait("return vim.bo.buftype == ''")
        editor.command("DrawbridgeClaude --continue")
        editor.shows_message(":DrawbridgeClaude: already running")
        assert editor.lua("return vim.bo.buftype") == "terminal"
        assert not record_of("claude").exists(), "a second one was started"

    def test_a_hidden_terminal_is_shown_again(self, editor: Neovim) -> None:
        start(editor)
        editor.command("DrawbridgeClaude")
        wait_for_terminal(editor)
        editor.keys("<C-Bslash><C-N>:hide<CR>")
        editor.wait("return #vim.api.nvim_list_wins() == 1")
        editor.command("DrawbridgeClaude")
        wait_for_terminal(editor)
        assert editor.lua("return #vim.api.nvim_list_wins()") == 2
        assert editor.lua("return vim.api.nvim_win_get_width(0)") == 32

    def test_without_auto_insert_the_user_stays_in_normal_mode(self, editor: Neovim) -> None:
        start(editor, "auto_insert = false")
        editor.command("DrawbridgeClaude")
        wait_for_terminal(editor)
        assert editor.call("nvim_get_mode")["mode"] in ("n", "nt")

    def test_the_terminal_is_not_in_the_buffer_list(self, editor: Neovim) -> None:
        start(editor)
        editor.command("DrawbridgeClaude")
        wait_for_terminal(editor)
        assert not editor.lua("return vim.bo.buflisted")


class TestEnding:
    def end(self, editor: Neovim, code: int) -> None:
        editor.command("DrawbridgeClaude")
        wait_for_terminal(editor)
        editor.wait("return vim.api.nvim_get_mode().mode == 't'")
        editor.keys(f"leave {code}<CR>")

    def test_a_successful_exit_closes_the_window(self, editor: Neovim) -> None:
        start(editor)
        editor.keys("G")
        self.end(editor, 0)
        editor.wait("return #vim.api.nvim_list_wins() == 1")
        assert editor.lua("return vim.fn.expand('%:t')") == "a.txt"
        editor.wait("return vim.api.nvim_get_mode().mode == 'n'")
        assert editor.lua("return vim.fn.len(vim.fn.getbufinfo())") == 1

    def test_after_a_failure_the_window_stays_open(self, editor: Neovim) -> None:
        start(editor)
        self.end(editor, 3)
        editor.shows_message(":DrawbridgeClaude: exited with code 3")
        assert editor.lua("return #vim.api.nvim_list_wins()") == 2

    def test_after_a_failure_the_command_starts_a_new_terminal(self, editor: Neovim) -> None:
        start(editor)
        self.end(editor, 3)
        editor.shows_message("exited with code 3")
        started_with()
        editor.keys("<C-Bslash><C-N>")
        editor.command("DrawbridgeClaude -c")
        assert started_with()["argv"].endswith("-c|")

    def test_without_auto_close_the_window_always_stays_open(self, editor: Neovim) -> None:
        start(editor, "auto_close = false")
        self.end(editor, 0)
        editor.wait("return vim.fn.jobwait({ vim.b.terminal_job_id }, 0)[1] ~= -1")
        assert editor.lua("return #vim.api.nvim_list_wins()") == 2

    def test_in_the_last_window_an_empty_buffer_replaces_it(self, editor: Neovim) -> None:
        start(editor)
        editor.command("DrawbridgeClaude")
        wait_for_terminal(editor)
        editor.keys("<C-Bslash><C-N>:only<CR>i")
        editor.wait("return #vim.api.nvim_list_wins() == 1 and vim.api.nvim_get_mode().mode == 't'")
        editor.keys("leave 0<CR>")
        editor.wait("return vim.bo.buftype == ''")
        assert not editor.is_stuck


class TestMissing:
    def test_without_the_cli_it_shows_what_to_install(self, editor: Neovim) -> None:
        start(editor)
        editor.lua("vim.env.PATH = '/nowhere'")
        editor.command("DrawbridgeClaude")
        editor.shows_message("claude not found; run npm install -g @anthropic-ai/claude-code")
        assert editor.lua("return #vim.api.nvim_list_wins()") == 1

    def test_a_custom_command_that_cannot_run_is_reported(self, editor: Neovim) -> None:
        start(editor, "command = '/opt/my claude'")
        editor.command("DrawbridgeClaude")
        editor.shows_message("drawbridge: /opt/my claude can't be run (terminal.command)")

    def test_without_a_bridge_it_reports_why_and_opens_nothing(self, editor: Neovim) -> None:
        editor.setup(bridge_options("refuses", more="auto_start = false"))
        editor.command("DrawbridgeClaude")
        editor.shows_message(":DrawbridgeClaude: not started: --port must")
        assert editor.lua("return #vim.api.nvim_list_wins()") == 1
        assert len(editor.messages) == 1

    @pytest.mark.slow
    def test_it_gives_up_on_a_bridge_that_never_becomes_ready(self, tmp_path: Path) -> None:
        clis(tmp_path)
        with neovim(programs.nvim(), environment={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}) as editor:
            editor.setup(bridge_options("silent"))
            editor.command("DrawbridgeClaude")
            editor.keys("ix")
            editor.wait("return vim.bo.modified", why="the user continues to type")
            editor.shows_message(":DrawbridgeClaude: not started: the bridge did not start in 5 s")
            assert editor.lua("return #vim.api.nvim_list_wins()") == 1


def test_no_proxy_keeps_its_entries_without_duplicates(editor: Neovim) -> None:
    def merged(*given: str) -> str:
        return str(editor.lua("return require('drawbridge.cli').no_proxy(...)", *given))

    assert merged("", "") == "localhost,127.0.0.1,::1"
    assert merged("a.example , ::1,,b", "b,c") == "a.example,::1,b,c,localhost,127.0.0.1"
    assert merged("*") == "*,localhost,127.0.0.1,::1"
