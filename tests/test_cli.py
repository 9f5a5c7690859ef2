"""The command: what it says of itself, and what it says when it was asked wrongly."""

from __future__ import annotations

import os
import socket
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.ide.processes import run


def lock_files() -> list[Path]:
    return list(Path(os.environ["CLAUDE_CONFIG_DIR"]).rglob("*"))


async def refused(*arguments: str | Path, **variables: str) -> str:
    """The one line that says why nothing was started."""
    code, output, errors = await run("ide", *arguments, **variables)
    assert code == 2, errors
    assert output == ""
    assert errors.startswith("drawbridge ide: ")
    assert errors.count("\n") == 1
    assert lock_files() == []
    return errors


async def test_it_says_its_version_and_helps() -> None:
    assert await run("--version") == (0, f"drawbridge {version('drawbridge')}\n", "")
    code, output, _ = await run("ide", "--help")
    assert code == 0
    assert "--folder DIR" in output


@pytest.mark.parametrize("arguments", [[], ["idea"], ["ide", "--unknown"], ["ide", "extra"], ["ide", "--port"]])
async def test_what_it_does_not_know_is_said_with_its_usage(arguments: list[str]) -> None:
    code, output, errors = await run(*arguments)
    assert code == 2
    assert output == ""
    assert errors.startswith("usage: ")
    assert lock_files() == []


async def test_an_editor_or_a_folder_and_not_both(tmp_path: Path) -> None:
    assert "either --nvim ADDRESS or --folder DIR" in await refused()
    assert "either --nvim ADDRESS or --folder DIR" in await refused("--nvim", "/nowhere.sock", "--folder", tmp_path)
    assert "--decide goes with --folder" in await refused("--nvim", "/nowhere.sock", "--decide", "accept")


async def test_a_folder_that_is_none_is_said_with_all_others(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    said = await refused("--folder", tmp_path / "missing", "--workspace", tmp_path / "file", "--workspace", tmp_path)
    assert f"{tmp_path / 'missing'} is no directory" in said
    assert f"{tmp_path / 'file'} is no directory" in said
    assert f"{tmp_path} is" not in said


async def test_bad_settings_of_flags_environment_and_file_are_said_at_once(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[ide]\nlog_level = "loud"\n')
    variables = {"DRAWBRIDGE_MENTION": "nobody", "DRAWBRIDGE_CONFIG": str(config)}
    said = await refused("--folder", tmp_path, "--port", "none", **variables)
    for name in ("--port", "DRAWBRIDGE_MENTION", f"{config}: [ide] log_level"):
        assert f"{name} must" in said


async def test_a_log_file_that_can_not_be_written_is_said_before_anything_starts(tmp_path: Path) -> None:
    said = await refused("--folder", tmp_path, "--log-file", tmp_path / "missing" / "a.log")
    assert "a.log can't be written: no such file or directory" in said


async def test_a_token_that_is_too_weak_is_refused_and_not_repeated(tmp_path: Path) -> None:
    for token in ("short", "with space" * 4, "ü" * 40):
        said = await refused("--folder", tmp_path, DRAWBRIDGE_TOKEN=token)
        assert "DRAWBRIDGE_TOKEN must be" in said
        assert token not in said


async def test_without_a_neovim_at_the_address_one_line_says_so(tmp_path: Path) -> None:
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
            assert f"No Neovim answers at {address}: " in await refused("--nvim", address)
