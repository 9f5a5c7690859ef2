"""The bridge as a job of Neovim: how it is started, restarted with the same port and token, and stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import programs

from .plugin_rig import Neovim, bridge_options, is_alive, neovim, starts, wait_until


@pytest.fixture(params=programs.each_nvim())
def editor(request: pytest.FixtureRequest) -> Iterator[Neovim]:
    with neovim(request.param) as started:
        yield started


@pytest.fixture
def newest() -> Iterator[Neovim]:
    """Only the newest version of Neovim, for tests that take several seconds."""
    with neovim(programs.nvim()) as started:
        yield started


def wait_for_state(editor: Neovim, state: str) -> None:
    editor.wait("return require('drawbridge').status().state == ...", state, why=f"the bridge is {state}")


def wait_until_attached(editor: Neovim) -> None:
    editor.wait("return (require('drawbridge.link').state() or {}).token ~= nil", why="the bridge has announced itself")


def start(editor: Neovim, *manner: str, more: str = "") -> None:
    assert editor.setup(bridge_options(*manner, more=more))
    wait_for_state(editor, "listening")
    wait_until_attached(editor)


class TestStarting:
    def test_setup_starts_one_bridge_however_often_it_is_called(self, editor: Neovim) -> None:
        start(editor)
        start(editor)
        editor.command("DrawbridgeStart")
        editor.shows_message(":DrawbridgeStart: the bridge is already running (listening)")
        assert [bridge["argv"][:3] for bridge in starts()] == [["ide", "--nvim", "stdio"]]

    def test_setup_in_a_config_starts_the_bridge_after_startup(self) -> None:
        init = f"require('drawbridge').setup({bridge_options()}); early = require('drawbridge').status().state"
        with neovim(programs.nvim(), init=init) as editor:
            wait_for_state(editor, "listening")
            assert editor.lua("return early") == "stopped"

    def test_without_auto_start_only_the_command_starts_the_bridge(self, editor: Neovim) -> None:
        assert editor.setup(bridge_options(more="auto_start = false"))
        assert editor.status()["state"] == "stopped"
        editor.command("DrawbridgeStart")
        editor.shows_message(":DrawbridgeStart: the bridge listens on port")
        assert len(starts()) == 1

    def test_the_options_reach_the_bridge(self, editor: Neovim, tmp_path: Path) -> None:
        server = (
            f"server = {{ port = 41999, workspace = [[{tmp_path}/]], agent = {{ 'claude', 'gemini' }}, "
            "host = 'host.docker.internal', single_client = true, "
            "mention = 'all', reject = '1008', log_file = '~/bridge.log', execute_code = true, context = false, "
            "ignore = { '*.pem', 'my secrets/*' } }"
        )
        start(editor, more=f"log_level = 'info', {server}")
        assert starts()[0]["argv"] == [
            *("ide", "--nvim", "stdio", "--workspace", str(tmp_path), "--port", "41999"),
            *("--agent", "claude", "--agent", "gemini", "--host", "host.docker.internal"),
            *("--mention", "all", "--reject", "1008", "--log-level", "info"),
            *("--log-file", f"{os.environ['HOME']}/bridge.log", "--ignore", "*.pem", "--ignore", "my secrets/*"),
            *("--single-client", "--execute-code", "--no-context"),
        ]

    def test_unset_options_are_left_to_the_bridges_settings(self, editor: Neovim) -> None:
        start(editor)
        assert starts()[0]["argv"] == ["ide", "--nvim", "stdio"]
        assert starts()[0]["environment"].keys() <= os.environ.keys()

    def test_options_that_are_false_are_passed_to_the_bridge(self, editor: Neovim) -> None:
        """Otherwise, the bridge's settings file could turn them on."""
        start(editor, more="server = { execute_code = false, single_client = false, context = true }")
        environment = starts()[0]["environment"]
        assert environment["DRAWBRIDGE_EXECUTE_CODE"] == "false"
        assert environment["DRAWBRIDGE_SINGLE_CLIENT"] == "false"
        assert environment["DRAWBRIDGE_CONTEXT"] == "true"

    def test_the_bridge_works_in_neovims_directory(self, editor: Neovim, tmp_path: Path) -> None:
        editor.lua("vim.cmd('cd ' .. ...)", str(tmp_path))
        start(editor)
        assert starts()[0]["cwd"] == str(tmp_path)


INSTALLER = f"""
import os
import shutil
os.makedirs('.venv/bin')
with open('.venv/bin/drawbridge', 'w') as program:
    program.write('#!/bin/sh\\nexec {sys.executable} -m drawbridge "$@"\\n')
os.chmod('.venv/bin/drawbridge', 0o755)
"""
"""A stand-in for the real installation script."""


def plugin_alone(editor: Neovim, folder: Path, installer: str) -> None:
    """Makes Neovim use a copy of the plugin without a .venv, and a PATH with only Python."""
    root = Path(__file__).resolve().parents[2]
    shutil.copytree(root / "lua", folder / "lua")
    for part in ("tools", "bin"):
        (folder / part).mkdir(parents=True)
    (folder / "tools" / "dev.py").write_text(installer)
    (folder / "bin" / "python3").symlink_to(sys.executable)
    editor.lua("vim.opt.runtimepath:prepend(...) vim.env.PATH = ... .. '/bin'", str(folder))


class TestWithoutThePythonSide:
    def test_a_missing_command_is_reported_once(self, editor: Neovim) -> None:
        assert editor.setup("{ command = '/nowhere/drawbridge' }")
        editor.shows_message("drawbridge: command: /nowhere/drawbridge can't be run")
        assert editor.status()["state"] == "failed"
        editor.command("DrawbridgeStart")
        editor.shows_message(":DrawbridgeStart: command: /nowhere/drawbridge can't be run")

    def test_install_reports_a_command_that_cannot_be_run(self, editor: Neovim) -> None:
        """An installation would not help, because the option takes precedence."""
        editor.setup("{ command = '/nowhere/drawbridge', auto_start = false }")
        editor.command("DrawbridgeInstall")
        editor.shows_message(":DrawbridgeInstall: correct or remove the `command` option")

    def test_a_missing_python_side_shows_what_to_run(self, editor: Neovim, tmp_path: Path) -> None:
        plugin_alone(editor, tmp_path, "")
        assert editor.setup("{}")
        editor.shows_message("drawbridge: the bridge is not installed (:DrawbridgeInstall)")
        editor.command("DrawbridgeStart")
        editor.shows_message(":DrawbridgeStart: the bridge is not installed (:DrawbridgeInstall)")
        remedy = f"run :DrawbridgeInstall, or in a shell: python3 {tmp_path}/tools/dev.py setup"
        assert editor.lua("return require('drawbridge.program').remedy()") == remedy
        (tmp_path / "tools" / "dev.py").unlink()
        assert editor.lua("return require('drawbridge.program').remedy()") == "make `drawbridge` available on PATH"

    def test_install_asks_and_then_starts_the_bridge(self, editor: Neovim, tmp_path: Path) -> None:
        plugin_alone(editor, tmp_path, INSTALLER)
        assert editor.setup("{ auto_start = false }")
        editor.keys(":DrawbridgeInstall<CR>")
        wait_until(lambda: editor.is_stuck, "the question")
        editor.keys("n")
        editor.shows_message(":DrawbridgeInstall: canceled")
        assert not (tmp_path / ".venv").exists()
        editor.keys(":DrawbridgeInstall<CR>")
        wait_until(lambda: editor.is_stuck, "the question")
        editor.keys("y")
        editor.shows_message(":DrawbridgeInstall: installed")
        editor.shows_message(":DrawbridgeStart: the bridge listens on port")
        editor.command("DrawbridgeInstall")
        editor.shows_message(":DrawbridgeInstall: the bridge is already installed")

    def test_two_simultaneous_messages_do_not_stop_neovim(self, editor: Neovim) -> None:
        """For example, an installation that fails immediately causes two messages."""
        editor.lua("local m = require('drawbridge.message') for n = 1, 3 do m.answer(('x'):rep(60) .. n, 'error') end")
        editor.shows_message("x3")

    def test_a_failed_installation_shows_why(self, editor: Neovim, tmp_path: Path) -> None:
        plugin_alone(editor, tmp_path, "raise SystemExit('needs Python 3.11')")
        editor.lua("vim.fn.confirm = function() return 1 end")
        editor.command("DrawbridgeInstall")
        editor.shows_message(":DrawbridgeInstall: not installed: needs Python 3.11")

    def test_a_bridge_that_refuses_its_options_is_not_restarted(self, editor: Neovim) -> None:
        editor.setup(bridge_options("refuses"))
        editor.shows_message("drawbridge: bridge not started: --port must be")
        assert editor.status()["state"] == "failed"
        assert len(starts()) == 1


class TestDying:
    def test_a_killed_bridge_restarts_with_its_port_and_token(self, editor: Neovim) -> None:
        start(editor)
        first = starts()[0]
        port, token = editor.status()["port"], f"token-of-{first['pid']}"
        os.kill(first["pid"], signal.SIGKILL)
        wait_until(lambda: len(starts()) == 2, "a second bridge is started")
        wait_until_attached(editor)
        assert starts()[1]["argv"][3:5] == ["--port", str(port)]
        assert starts()[1]["environment"]["DRAWBRIDGE_TOKEN"] == token
        assert editor.status()["port"] == port
        assert not editor.is_stuck
        assert editor.messages == [], "what mends itself is no news"

    @pytest.mark.slow
    def test_a_bridge_that_keeps_exiting_is_not_restarted_forever(self, newest: Neovim) -> None:
        """It is started six times at most. After that, ``:DrawbridgeStart`` starts it again."""
        assert newest.setup(bridge_options("dies"))
        newest.shows_message("drawbridge: the bridge keeps exiting: the chains broke")
        assert newest.status()["state"] == "failed"
        assert len(starts()) == 6
        assert sum("keeps exiting" in line for line in newest.messages) == 1
        newest.setup(bridge_options(more="auto_start = false"))
        newest.command("DrawbridgeStart")
        newest.shows_message(":DrawbridgeStart: the bridge listens on port")

    def test_the_bridges_last_output_is_in_the_log(self, editor: Neovim) -> None:
        editor.setup(bridge_options("refuses"))
        editor.shows_message("drawbridge: bridge not started")
        editor.command("DrawbridgeLog")
        editor.wait("return vim.api.nvim_buf_get_name(0):match('drawbridge://log') ~= nil")
        shown = editor.lua("return vim.api.nvim_buf_get_lines(0, 0, -1, false)")
        assert "drawbridge ide: --port must be between 1 and 65535." in shown
        editor.keys("q")
        editor.wait("return #vim.api.nvim_list_wins() == 1")


class TestStopping:
    def test_a_stopped_bridge_is_not_restarted(self, editor: Neovim) -> None:
        start(editor)
        lock = Path(editor.status()["lock_file"])
        editor.command("DrawbridgeStop")
        editor.shows_message(":DrawbridgeStop: the bridge is stopping")
        wait_for_state(editor, "stopped")
        wait_until(lambda: not lock.exists(), "the lock file is gone")
        assert not editor.lua("return require('drawbridge.link').attached()")
        assert len(starts()) == 1

    def test_stopping_without_a_running_bridge_is_reported(self, editor: Neovim) -> None:
        editor.command("DrawbridgeStop")
        editor.shows_message(":DrawbridgeStop: the bridge is not running")

    def test_a_stopped_bridge_starts_with_the_same_port_and_token(self, editor: Neovim) -> None:
        start(editor)
        port = editor.status()["port"]
        editor.command("DrawbridgeStop")
        wait_for_state(editor, "stopped")
        editor.command("DrawbridgeStart")
        editor.shows_message(f":DrawbridgeStart: the bridge listens on port {port}")
        assert starts()[1]["environment"]["DRAWBRIDGE_TOKEN"] == f"token-of-{starts()[0]['pid']}"

    def test_restart_waits_for_the_old_one_to_free_the_port(self, editor: Neovim) -> None:
        start(editor)
        first = starts()[0]["pid"]
        port = editor.status()["port"]
        editor.command("DrawbridgeRestart")
        editor.shows_message(f":DrawbridgeRestart: the bridge listens on port {port}")
        assert not is_alive(first)
        assert len(starts()) == 2

    def test_a_new_port_in_the_options_replaces_the_old_one(self, editor: Neovim) -> None:
        start(editor)
        editor.setup(bridge_options(more="server = { port = 41998 }"))
        editor.command("DrawbridgeRestart")
        editor.shows_message(":DrawbridgeRestart: the bridge listens on port 41998")

    def test_stop_ends_a_bridge_that_ignores_its_closed_stdin(self, newest: Neovim) -> None:
        """The plugin ends it with a signal."""
        start(newest, "deaf")
        pid = starts()[0]["pid"]
        newest.command("DrawbridgeStop")
        wait_until(lambda: not is_alive(pid), "the deaf bridge has ended")
        wait_for_state(newest, "stopped")

    def test_stop_cancels_the_restart_of_a_dying_bridge(self, editor: Neovim) -> None:
        assert editor.setup(bridge_options("crashes"))
        wait_until(lambda: len(starts()) >= 2, "it is restarted")
        editor.command("DrawbridgeStop")
        editor.shows_message(":DrawbridgeStop: the bridge")
        wait_for_state(editor, "stopped")
        count = len(starts())
        editor.command("DrawbridgeStop")
        editor.shows_message(":DrawbridgeStop: the bridge is not running")
        assert len(starts()) == count


class TestLeaving:
    @pytest.mark.parametrize("nvim", programs.each_nvim())
    def test_leaving_neovim_ends_the_bridge(self, nvim: Path) -> None:
        with neovim(nvim) as editor:
            start(editor)
            pid, lock = starts()[0]["pid"], Path(editor.status()["lock_file"])
            editor.close()
        wait_until(lambda: not is_alive(pid), "the bridge has ended")
        assert not lock.exists()

    @pytest.mark.parametrize("nvim", programs.each_nvim())
    def test_leaving_does_not_wait_for_a_bridge_that_hangs(self, nvim: Path) -> None:
        def took() -> float:
            with neovim(nvim) as editor:
                start(editor, "deaf")
                pid = starts()[-1]["pid"]
                before = time.monotonic()
                editor.close()
                took = time.monotonic() - before
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: not is_alive(pid), "the deaf bridge has ended")
            return took

        assert any(took() < 1.9 for _ in range(3)), "Neovim's own patience with a child is 2 seconds"

    @pytest.mark.parametrize("nvim", programs.each_nvim())
    def test_the_bridge_ends_when_neovim_is_killed(self, nvim: Path) -> None:
        with neovim(nvim) as editor:
            start(editor)
            pid = starts()[0]["pid"]
            editor.kill()
            wait_until(lambda: not is_alive(pid), "the bridge has ended")


class TestTheRealOne:
    """`drawbridge ide`, as the plugin finds it: in its own .venv or on PATH."""

    @staticmethod
    def lock(editor: Neovim) -> dict[str, object]:
        return dict(json.loads(Path(editor.status()["lock_file"]).read_text()))

    def test_the_real_bridge_is_found_and_restarted_with_its_port(self, editor: Neovim, tmp_path: Path) -> None:
        editor.lua("vim.cmd('cd ' .. ...)", str(tmp_path))
        assert editor.setup("{}")
        wait_until_attached(editor)
        before = editor.status()
        lock = self.lock(editor)
        assert lock["workspaceFolders"] == [str(tmp_path)]
        assert lock["pid"] == editor.lua("return vim.fn.getpid()")

        os.kill(before["pid"], signal.SIGKILL)
        wait_until(lambda: editor.status().get("pid") not in (None, before["pid"]), "another process serves")
        wait_until_attached(editor)

        assert editor.status()["port"] == before["port"]
        assert self.lock(editor)["authToken"] == lock["authToken"]
        assert editor.messages == []

    def test_stop_removes_the_lock_file(self, editor: Neovim) -> None:
        assert editor.setup("{}")
        wait_until_attached(editor)
        lock, pid = Path(editor.status()["lock_file"]), editor.status()["pid"]
        assert lock.exists()
        editor.command("DrawbridgeStop")
        editor.shows_message(":DrawbridgeStop: the bridge is stopping")
        wait_until(lambda: not is_alive(pid) and not lock.exists(), "process and lock file are gone")
        assert editor.log[-1].endswith(":DrawbridgeStop: the bridge is stopping"), "it went without a complaint"

    def test_the_real_bridge_accepts_the_plugins_options(self, editor: Neovim, tmp_path: Path) -> None:
        server = (
            f"{{ port = 42123, workspace = [[{tmp_path}]], agent = 'claude', single_client = false, mention = 'all', "
            f"reject = '1008', log_level = 'warn', log_file = [[{tmp_path}/log]], execute_code = false, context = true, "
            "ignore = { '*.pem' } }"
        )
        assert editor.setup(f"{{ server = {server} }}")
        wait_until_attached(editor)
        assert self.lock(editor)["workspaceFolders"] == [str(tmp_path)]

    def test_options_that_the_bridge_refuses_are_reported(self, editor: Neovim) -> None:
        assert editor.setup("{ server = { workspace = '/nowhere' } }")
        editor.shows_message("drawbridge: bridge not started: /nowhere is not a directory")
