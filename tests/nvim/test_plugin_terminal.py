"""`:DrawbridgeClaude`: the CLI in a terminal of Neovim. What stands for the CLI here writes down how it was started."""

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
  for name in CLAUDE_CODE_SSE_PORT MCP_CONNECTION_NONBLOCKING no_proxy NO_PROXY; do
    eval "echo $name=\\$$name"
  done
} > "$TMPDIR/cli.part"
mv "$TMPDIR/cli.part" "$TMPDIR/cli"
echo "the prompt of the agent"
while read -r line; do
  case "$line" in
    leave*) exit "${line#leave }" ;;
  esac
done
"""


def cli(directory: Path) -> None:
    """Puts a `claude` into the directory's `bin`."""
    program = directory / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(CLI)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


@pytest.fixture(params=programs.each_nvim())
def editor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Neovim]:
    """With `claude` on PATH, a bridge that starts on its own, and one file open."""
    cli(tmp_path)
    file = tmp_path / "a.txt"
    file.write_text("one\n")
    path = {
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "no_proxy": "intern.example, localhost",
        "NO_PROXY": "10.0.0.1",
    }
    with neovim(request.param, file, environment=path) as started:
        yield started


def start(editor: Neovim, terminal: str = "") -> None:
    assert editor.setup(bridge_options(more=f"terminal = {{ {terminal} }}"))


def started_with() -> dict[str, str]:
    """How the CLI was started: ``argv`` with | behind each word, and its environment."""
    record = Path(os.environ["TMPDIR"]) / "cli"
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

    def test_it_starts_a_bridge_that_does_not_run(self, editor: Neovim) -> None:
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
    def test_its_arguments_are_split_as_a_shell_does(self, editor: Neovim, arguments: str, argv: str) -> None:
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
    def test_it_opens_where_the_options_say(self, editor: Neovim, options: str, layout: dict[str, Any]) -> None:
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

    def test_the_command_again_goes_to_it(self, editor: Neovim) -> None:
        start(editor)
        editor.command("DrawbridgeClaude")
        wait_for_terminal(editor)
        started_with()
        editor.keys("<C-Bslash><C-N><C-w>p")
        editor.wait("return vim.bo.buftype == ''")
        editor.command("DrawbridgeClaude --continue")
        editor.says(":DrawbridgeClaude: it runs already")
        assert editor.lua("return vim.bo.buftype") == "terminal"
        assert not (Path(os.environ["TMPDIR"]) / "cli").exists(), "a second one was started"

    def test_a_hidden_one_is_shown_again(self, editor: Neovim) -> None:
        start(editor)
        editor.command("DrawbridgeClaude")
        wait_for_terminal(editor)
        editor.keys("<C-Bslash><C-N>:hide<CR>")
        editor.wait("return #vim.api.nvim_list_wins() == 1")
        editor.command("DrawbridgeClaude")
        wait_for_terminal(editor)
        assert editor.lua("return #vim.api.nvim_list_wins()") == 2
        assert editor.lua("return vim.api.nvim_win_get_width(0)") == 32

    def test_without_auto_insert_the_person_stays_in_normal_mode(self, editor: Neovim) -> None:
        start(editor, "auto_insert = false")
        editor.command("DrawbridgeClaude")
        wait_for_terminal(editor)
        assert editor.call("nvim_get_mode")["mode"] in ("n", "nt")

    def test_the_terminal_is_in_no_list_of_buffers(self, editor: Neovim) -> None:
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

    def test_a_good_end_closes_the_window(self, editor: Neovim) -> None:
        start(editor)
        editor.keys("G")
        self.end(editor, 0)
        editor.wait("return #vim.api.nvim_list_wins() == 1")
        assert editor.lua("return vim.fn.expand('%:t')") == "a.txt"
        editor.wait("return vim.api.nvim_get_mode().mode == 'n'")
        assert editor.lua("return vim.fn.len(vim.fn.getbufinfo())") == 1

    def test_a_bad_end_stays_on_the_screen(self, editor: Neovim) -> None:
        start(editor)
        self.end(editor, 3)
        editor.says(":DrawbridgeClaude: it ended with code 3")
        assert editor.lua("return #vim.api.nvim_list_wins()") == 2

    def test_after_a_bad_end_the_command_starts_a_new_one(self, editor: Neovim) -> None:
        start(editor)
        self.end(editor, 3)
        editor.says("it ended with code 3")
        started_with()
        editor.keys("<C-Bslash><C-N>")
        editor.command("DrawbridgeClaude -c")
        assert started_with()["argv"].endswith("-c|")

    def test_without_auto_close_a_good_end_stays_too(self, editor: Neovim) -> None:
        start(editor, "auto_close = false")
        self.end(editor, 0)
        editor.wait("return vim.fn.jobwait({ vim.b.terminal_job_id }, 0)[1] ~= -1")
        assert editor.lua("return #vim.api.nvim_list_wins()") == 2

    def test_in_the_last_window_an_empty_buffer_takes_its_place(self, editor: Neovim) -> None:
        start(editor)
        editor.command("DrawbridgeClaude")
        wait_for_terminal(editor)
        editor.keys("<C-Bslash><C-N>:only<CR>i")
        editor.wait("return #vim.api.nvim_list_wins() == 1 and vim.api.nvim_get_mode().mode == 't'")
        editor.keys("leave 0<CR>")
        editor.wait("return vim.bo.buftype == ''")
        assert not editor.is_stuck


class TestMissing:
    def test_no_cli_says_what_to_install(self, editor: Neovim) -> None:
        start(editor)
        editor.lua("vim.env.PATH = '/nowhere'")
        editor.command("DrawbridgeClaude")
        editor.says("drawbridge: no claude; npm install -g @anthropic-ai/claude-code")
        assert editor.lua("return #vim.api.nvim_list_wins()") == 1

    def test_another_command_is_named(self, editor: Neovim) -> None:
        start(editor, "command = '/opt/my claude'")
        editor.command("DrawbridgeClaude")
        editor.says("drawbridge: /opt/my claude can't be run (terminal.command)")

    def test_no_bridge_says_why_and_opens_nothing(self, editor: Neovim) -> None:
        editor.setup(bridge_options("refuses", more="auto_start = false"))
        editor.command("DrawbridgeClaude")
        editor.says(":DrawbridgeClaude: not started: --port must")
        assert editor.lua("return #vim.api.nvim_list_wins()") == 1
        assert len(editor.messages) == 1

    def test_a_bridge_that_never_gets_ready_is_not_waited_for_long(self, tmp_path: Path) -> None:
        cli(tmp_path)
        with neovim(programs.nvim(), environment={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}) as editor:
            editor.setup(bridge_options("silent"))
            editor.command("DrawbridgeClaude")
            editor.keys("ix")
            editor.wait("return vim.bo.modified", why="the person goes on typing")
            editor.says(":DrawbridgeClaude: not started: no bridge after 5 seconds")
            assert editor.lua("return #vim.api.nvim_list_wins()") == 1


def test_no_proxy_keeps_what_is_there_once(editor: Neovim) -> None:
    def merged(*given: str) -> str:
        return str(editor.lua("return require('drawbridge.terminal').no_proxy(...)", *given))

    assert merged("", "") == "localhost,127.0.0.1,::1"
    assert merged("a.example , ::1,,b", "b,c") == "a.example,::1,b,c,localhost,127.0.0.1"
    assert merged("*") == "*,localhost,127.0.0.1,::1"
