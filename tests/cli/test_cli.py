"""The help of the ``drawbridge`` command, and its answers to invalid calls."""

from __future__ import annotations

import os
import pty
import re
import shlex
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from drawbridge.cli import COMMANDS
from tests import programs
from tests.ide.processes import run
from tests.rigs.tmux import Tmux
from tests.waiting import PATIENCE


def lock_files() -> list[Path]:
    return list(Path(os.environ["CLAUDE_CONFIG_DIR"]).rglob("*"))


async def refused(*arguments: str | Path, **variables: str) -> str:
    """Runs ``drawbridge ide``, which must refuse to start, and returns its one-line error."""
    code, output, errors = await run("ide", *arguments, **variables)
    assert code == 2, errors
    assert output == ""
    assert errors.startswith("drawbridge ide: ")
    assert errors.count("\n") == 1
    assert lock_files() == []
    return errors


async def test_it_prints_its_version_and_help() -> None:
    assert await run("--version") == (0, f"drawbridge {version('drawbridge')}\n", "")
    code, output, _ = await run("ide", "--help")
    assert code == 0
    assert "--folder DIR" in output


def test_advice_can_be_run_without_drawbridge_on_path(tmp_path: Path) -> None:
    """In a clone, ``drawbridge`` is only in ``.venv/bin``."""

    def output_of(command: list[str]) -> str:
        environment = {**os.environ, "PATH": str(tmp_path)}
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment)
        return ended.stdout + ended.stderr

    shown = output_of([sys.executable, "-m", "drawbridge", "pair", "--data-dir", str(tmp_path / "data")])
    [advised] = re.findall("Start `(.+) serve` first", shown)
    assert output_of([*shlex.split(advised), "--version"]) == f"drawbridge {version('drawbridge')}\n"


@pytest.mark.parametrize("arguments", [[], ["idea"], ["ide", "--unknown"], ["ide", "extra"], ["ide", "--port"]])
async def test_invalid_arguments_are_answered_with_the_usage(arguments: list[str]) -> None:
    code, output, errors = await run(*arguments)
    assert code == 2
    assert output == ""
    assert errors.startswith("usage: ")
    assert lock_files() == []


async def test_an_editor_or_a_folder_is_required_but_not_both(tmp_path: Path) -> None:
    assert "either --nvim ADDRESS or --folder DIR" in await refused()
    assert "can't be combined" in await refused("--nvim", "/nowhere.sock", "--folder", tmp_path)
    assert "--decide requires --folder" in await refused("--nvim", "/nowhere.sock", "--decide", "accept")


async def test_all_missing_folders_are_reported_together(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    output = await refused("--folder", tmp_path / "missing", "--workspace", tmp_path / "file", "--workspace", tmp_path)
    assert f"{tmp_path / 'missing'} is not a directory" in output
    assert f"{tmp_path / 'file'} is not a directory" in output
    assert f"{tmp_path} is" not in output


async def test_all_invalid_settings_are_reported_together(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[ide]\nlog_level = "loud"\n')
    variables = {"DRAWBRIDGE_MENTION": "nobody", "DRAWBRIDGE_CONFIG": str(config)}
    output = await refused("--folder", tmp_path, "--port", "none", **variables)
    for name in ("--port", "DRAWBRIDGE_MENTION", f"{config}: [ide] log_level"):
        assert f"{name} must" in output


async def test_an_unwritable_log_file_is_reported_before_the_start(tmp_path: Path) -> None:
    output = await refused("--folder", tmp_path, "--log-file", tmp_path / "missing" / "a.log")
    assert "a.log can't be written: no such file or directory" in output


async def test_a_token_that_is_too_weak_is_refused_and_not_repeated(tmp_path: Path) -> None:
    for token in ("short", "with space" * 4, "ü" * 40):
        output = await refused("--folder", tmp_path, DRAWBRIDGE_TOKEN=token)
        assert "DRAWBRIDGE_TOKEN must be" in output
        assert token not in output


async def test_without_a_neovim_at_the_address_the_error_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        (tmp_path / "file").write_text("x")
        for address in [
            str(tmp_path / "nowhere.sock"),
            str(tmp_path / "file"),
            "x" * 300,
            f"127.0.0.1:{port}",
            "localhost:99999",
            f"{'a' * 100}:80",
        ]:
            assert f"Can't connect to Neovim at {address}: " in await refused("--nvim", address)


async def test_without_a_command_all_commands_are_described() -> None:
    code, output, errors = await run()
    assert (code, output) == (2, "")
    assert "attach" in errors
    assert "drawbridge help COMMAND" in errors


async def test_help_describes_a_command() -> None:
    for about, words in {
        "info": "--sweep",
        "serve": "examples:",
        "nvim": "Start Neovim with the plugin and a socket that the guard finds",
    }.items():
        code, output, _ = await run("help", about)
        assert code == 0
        assert output.startswith(f"usage: drawbridge {about}")
        assert words in output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["atach"], "drawbridge: error: unknown command: atach. Did you mean attach?"),
        (["info", "--jsn"], "drawbridge info: error: unrecognized arguments: --jsn. Did you mean --json?"),
        (["setup", "claud"], "drawbridge setup: error: unknown target: claud. Did you mean claude?"),
        (
            ["setup", "claude", "--dryrun"],
            "drawbridge setup claude: error: unrecognized arguments: --dryrun. Did you mean",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
async def test_a_wrong_argument_is_explained_by_its_command(arguments: list[str], words: str) -> None:
    code, _, errors = await run(*arguments)
    assert code == 2
    assert words in errors


@pytest.mark.parametrize(
    "command", ["completion bash", "--help", "help serve", "info", "setup claude --dry-run", "setup codex --json"]
)
def test_a_closed_pipe_is_not_a_failure(command: str) -> None:
    program = subprocess.Popen(
        [sys.executable, "-m", "drawbridge", *command.split()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    assert program.stderr is not None
    program.stdout.close()
    assert "BrokenPipe" not in program.stderr.read()
    program.stderr.close()
    program.wait(PATIENCE)


def test_a_hook_run_by_hand_is_explained() -> None:
    ours, theirs = pty.openpty()
    try:
        result = subprocess.run(
            [sys.executable, "-m", "drawbridge", "hook"],
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert result.returncode == 2
    assert "stdin is a terminal. An agent runs this hook" in result.stderr


async def test_a_hook_without_input_is_not_a_failure() -> None:
    for _ in range(3):
        assert await run("hook") == (0, "{}\n", "")
    code, output, _ = await run("info")
    assert "failed" not in output
    assert code == 0


async def test_info_reports_a_bad_setting_under_its_own_name(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[hook]\nanswr = 1\n")
    _, _, errors = await run("info", DRAWBRIDGE_CONFIG=str(config))
    assert errors == f"drawbridge info: {config}: [hook] unknown setting answr.\n"


def test_a_folder_bridge_prints_text_at_a_terminal(tmp_path: Path) -> None:
    programs.tmux()
    command = [sys.executable, "-m", "drawbridge", "ide", "--folder", "."]
    with Tmux.server(columns=100, rows=24) as tmux:
        pane = tmux.start("ide", command, cwd=tmp_path, environment=os.environ)
        pane.wait_for("can connect")
        assert '"event"' not in pane.screen
        pane.press("C-c")
        pane.wait_for_exit()


@pytest.mark.parametrize("command", ["ide", "hook"])
def test_only_the_chosen_command_is_imported(command: str) -> None:
    """Agents wait for these two commands to start. What a command imports later is covered by other tests."""
    look = (
        "import sys; from drawbridge import cli; cli.command_parser(sys.argv[1]).parse_args([]);"
        "print(*(name for name in sys.modules if name.startswith('drawbridge') or name in ('dataclasses', 'msgspec')))"
    )
    ended = subprocess.run([sys.executable, "-c", look, command], capture_output=True, text=True, check=True)
    assert set(ended.stdout.split()) == {
        "drawbridge",
        "drawbridge.agents",
        "drawbridge.agents.catalog",
        "drawbridge.core",
        "drawbridge.core.errors",
        "drawbridge.cli",
        f"drawbridge.cli.{command}",
        "drawbridge.settings",
        f"drawbridge.settings.{command}",
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_does_not_import_what_commands_run(command: str) -> None:
    jobs = ("ide", "guard", "server", "tui", "setup", "info", "doctor")
    look = (
        f"import sys; from drawbridge import cli; cli.command_parser({command!r});"
        f"print(*(job for job in {jobs!r} if f'drawbridge.{{job}}' in sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == []
