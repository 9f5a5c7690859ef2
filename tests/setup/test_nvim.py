"""``drawbridge setup nvim``: an ordinary Neovim finds the plugin and starts it once. Removing it leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drawbridge.core import plugin
from drawbridge.setup import nvim as setup_nvim
from tests import programs
from tests.nvim.plugin_rig import ROOT
from tests.setup.conftest import Setup, everything_below
from tests.waiting import PATIENCE

REPORT = """\
vim.defer_fn(function() -- after startup: commands in `-c` run during it
  local seen = {}
  vim.wait(60000, function()
    local ok, status = pcall(function() return require('drawbridge').status() end)
    seen = ok and status or { problem = status }
    return not ok or seen.state == 'listening' or not WAIT
  end, 20)
  local config = package.loaded['drawbridge.config']
  io.stdout:write(vim.fn.json_encode({
    problem = seen.problem, state = seen.state, program = seen.program,
    commands = vim.fn.exists(':DrawbridgeStart'),
    timeout = config and config.get().idle_ms,
    help = pcall(vim.cmd, 'help drawbridge'),
    locks = #vim.fn.glob(vim.env.CLAUDE_CONFIG_DIR .. '/ide/*.lock', 0, 1),
  }))
  vim.cmd('qall!')
end, 0)
"""


@pytest.fixture(params=programs.each_nvim())
def nvim(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each installed version of Neovim, with this checkout regarded as permanent even in a temporary directory."""
    monkeypatch.setenv("DRAWBRIDGE_NVIM_PROGRAM", str(request.param))
    monkeypatch.setattr(setup_nvim, "is_passing", lambda path: False)
    return Path(request.param)


@pytest.fixture
def newest(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRAWBRIDGE_NVIM_PROGRAM", str(programs.nvim()))
    monkeypatch.setattr(setup_nvim, "is_passing", lambda path: False)
    return programs.nvim()


def start(nvim: Path, *, wait: bool = True) -> dict[str, Any]:
    """Starts a Neovim with the user's own configuration, and returns what ``REPORT`` reports about it."""
    script = Path(os.environ["TMPDIR"]) / "look.lua"
    script.write_text(REPORT.replace("WAIT", str(wait).lower()))
    command = [str(nvim), "--headless", "-n", "-i", "NONE", "-c", f"luafile {script}"]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=True, stdin=subprocess.DEVNULL
    )
    seen: dict[str, Any] = json.loads(ended.stdout)
    return seen


def packages(home: Path) -> Path:
    return home / ".local" / "share" / "nvim" / "site" / "pack" / "drawbridge" / "start"


def ours(home: Path) -> set[str]:
    """The names of everything in Neovim's ``site`` directory and in Drawbridge's data directory."""
    data = home / ".local" / "share"
    names = everything_below(data) if data.exists() else {}
    return {name for name in names if name.startswith(("nvim/site", "drawbridge"))}


def init(home: Path, text: str) -> Path:
    path = home / ".config" / "nvim" / "init.lua"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed Drawbridge with the plugin's files inside the package, and without a ``drawbridge`` on ``PATH``."""
    runtime = tmp_path / "site-packages" / "drawbridge" / "runtime"
    for part in setup_nvim.PARTS:
        shutil.copytree(ROOT / part, runtime / part)
    monkeypatch.setattr(plugin, "directory", lambda: runtime)
    path = [place for place in os.environ["PATH"].split(os.pathsep) if not (Path(place) / "drawbridge").exists()]
    monkeypatch.setenv("PATH", os.pathsep.join(path))
    return runtime


def test_a_plain_neovim_has_the_plugin_and_one_bridge(nvim: Path, setup: Setup, home: Path) -> None:
    output = setup("nvim")
    assert output.code == 0
    assert f"+{packages(home) / 'drawbridge'} -> {ROOT}\n" in output.output
    seen = start(nvim)
    assert seen["state"] == "listening"
    assert seen["commands"] == 2
    assert seen["locks"] == 1
    assert setup("nvim").output.startswith("Nothing to change in ")
    assert setup("nvim", "--remove").code == 0
    assert ours(home) == set()
    assert start(nvim, wait=False)["commands"] == 0
    assert setup("nvim", "--remove").output.startswith("Nothing to remove: ")


def test_a_copy_from_a_wheel_stays_and_uses_its_python(nvim: Path, wheel: Path, setup: Setup, home: Path) -> None:
    assert setup("nvim").code == 0
    shutil.rmtree(wheel)
    seen = start(nvim)
    assert seen["state"] == "listening"
    assert seen["program"][0] == sys.executable
    assert seen["help"] is True
    assert Path(os.readlink(packages(home) / "drawbridge")).is_relative_to(home / ".local" / "share" / "drawbridge")


def test_a_newer_plugin_replaces_the_old_copy(newest: Path, wheel: Path, setup: Setup, home: Path) -> None:
    setup("nvim")
    link = packages(home) / "drawbridge"
    old = os.readlink(link)
    (wheel / "lua" / "drawbridge" / "init.lua").write_text("return { is_new = true }\n")
    output = setup("nvim")
    assert output.code == 0
    assert (link / "lua" / "drawbridge" / "init.lua").read_text() == "return { is_new = true }\n"
    assert not Path(old).exists()
    setup("nvim", "--remove")
    assert ours(home) == set()


def test_a_dry_run_changes_nothing(newest: Path, wheel: Path, setup: Setup, home: Path) -> None:
    output = setup("nvim", "--dry-run")
    assert "a copy of the plugin" in output.output
    assert ours(home) == set()


OWN = f"{{ idle_ms = 777, command = {{ '{sys.executable}', '-P', '-m', 'drawbridge' }} }}\n"


@pytest.mark.parametrize(
    "text",
    [
        f"require('drawbridge').setup{OWN}",
        f"local it = require('drawbridge')\nit.setup{OWN}",
        f"vim.schedule(function() require 'drawbridge'.setup {OWN} end)\n",
    ],
    ids=["at once", "where setup does not see it", "later"],
)
def test_the_users_own_call_to_setup_takes_effect(text: str, newest: Path, setup: Setup, home: Path) -> None:
    init(home, text)
    setup("nvim")
    seen = start(newest)
    assert seen["timeout"] == 777
    assert seen["locks"] == 1


def test_no_starter_is_added_if_the_configuration_calls_setup(newest: Path, setup: Setup, home: Path) -> None:
    starter = packages(home) / "drawbridge-setup"
    path = init(home, "-- require('drawbridge').setup{}\n")
    setup("nvim")
    assert starter.exists(), "a comment starts nothing"
    path.write_text("require('drawbridge').setup{}\n")
    output = setup("nvim")
    assert f"{path} mentions the plugin, so Drawbridge assumes that your configuration calls setup{{}}" in output.errors
    assert not starter.exists()
    assert (packages(home) / "drawbridge").is_symlink()


def test_a_manager_that_ignores_packages_is_reported(newest: Path, setup: Setup, home: Path) -> None:
    path = init(home, 'require("lazy").setup({ "someone/else" })\n')
    assert f"{path} uses lazy.nvim, which loads only its own plugins" in setup("nvim").errors
    for spec in ('"drawbridge/drawbridge.nvim"', 'dir = "/path/to/drawbridge"', "dir = '~/src/drawbridge/'"):
        path.write_text(f'require("lazy").setup({{ {{ {spec}, opts = {{}} }} }})\n')
        assert f"{path} mentions the plugin" in setup("nvim").errors, spec


def test_a_plugin_that_the_user_has_installed_stays(newest: Path, setup: Setup, home: Path, tmp_path: Path) -> None:
    own = packages(home) / "drawbridge"
    (own / "lua").mkdir(parents=True)
    output = setup("nvim")
    assert f"{own} already exists and was not changed" in output.errors
    setup("nvim", "--remove")
    assert (own / "lua").is_dir()
    shutil.rmtree(own)
    (tmp_path / "clone").mkdir()
    own.symlink_to(tmp_path / "clone")
    for _ in range(2):
        assert f"{own} points to {tmp_path / 'clone'} and was not changed" in setup("nvim").errors
    setup("nvim", "--remove")
    assert os.readlink(own) == str(tmp_path / "clone")


def test_a_broken_link_is_repaired(newest: Path, setup: Setup, home: Path, tmp_path: Path) -> None:
    link = packages(home) / "drawbridge"
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "gone")
    output = setup("nvim", "--json").facts
    assert [file["change"] for file in output["files"]] == ["modify", "create"]
    assert os.readlink(link) == str(ROOT)


def test_a_temporary_environment_without_a_bridge_is_reported(
    newest: Path, wheel: Path, setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup_nvim, "is_passing", lambda path: True)
    assert "`drawbridge` is not installed permanently" in setup("nvim").errors


def test_without_a_neovim_nothing_is_changed(setup: Setup, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home))
    output = setup("nvim")
    assert output.code == 3
    assert "nvim is not on PATH" in output.errors
    assert ours(home) == set()
