"""`setup{}`: options with defaults, checked as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import programs

from .plugin_rig import Neovim, neovim


@pytest.fixture(scope="module", params=programs.each_nvim())
def editor(request: pytest.FixtureRequest) -> Iterator[Neovim]:
    with neovim(request.param) as started:
        yield started


def options(editor: Neovim) -> Any:
    return editor.lua("return require('drawbridge.config').get()")


def problems(editor: Neovim, given: str) -> list[str]:
    return list(editor.lua(f"return require('drawbridge.config').apply({given})"))


def test_without_setup_the_defaults_apply(editor: Neovim) -> None:
    assert problems(editor, "nil") == []
    found = options(editor)
    assert found["debounce_ms"] == 50
    assert found["idle_ms"] == 500
    assert found["allow_w_to_accept"] is True
    assert found["diff"] == {"layout": "vertical", "open_in": "tab"}
    assert found["terminal"]["command"] == "claude"
    assert found["gemini"] == {"command": "gemini", "aliases": True}
    assert not found["server"], "what is not set is up to the bridge"


def test_options_override_the_defaults(editor: Neovim) -> None:
    given = "{ debounce_ms = 0, diff = { layout = 'inline' }, server = { port = 40000, ignore = { '*.pem', '.env' } } }"
    assert problems(editor, given) == []
    found = options(editor)
    assert found["debounce_ms"] == 0
    assert found["diff"] == {"layout": "inline", "open_in": "tab"}
    assert found["server"] == {"port": 40000, "ignore": ["*.pem", ".env"]}


def test_a_second_setup_starts_from_the_defaults_again(editor: Neovim) -> None:
    problems(editor, "{ debounce_ms = 7 }")
    problems(editor, "{ idle_ms = 8 }")
    assert (options(editor)["debounce_ms"], options(editor)["idle_ms"]) == (50, 8)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("{ debounce_ms = 'fast' }", 'debounce_ms must be a whole number from 0 to 10000, not "fast"'),
        ("{ debounce_ms = 1.5 }", "debounce_ms must be a whole number from 0 to 10000, not 1.5"),
        ("{ idle_ms = 0/0 }", "idle_ms must be a whole number"),
        ("{ auto_start = 'yes' }", 'auto_start must be true or false, not "yes"'),
        ("{ log_level = 'loud' }", "log_level must be 'debug', 'info', 'warn' or 'error', not \"loud\""),
        ("{ command = {} }", "command must be a non-empty string, or a non-empty list of them, not {}"),
        ("{ command = { 'a', 2 } }", "command must be a non-empty string, or a non-empty list"),
        ("{ command = '' }", "command must be a non-empty string, or a non-empty list"),
        (
            "{ terminal = { size = 0 } }",
            "terminal.size must be a fraction between 0 and 1, or a whole number of columns",
        ),
        ("{ terminal = { size = 1.5 } }", "terminal.size must be"),
        ("{ terminal = { position = 'up' } }", "terminal.position must be 'right'"),
        ("{ diff = 'inline' }", 'diff must be a table, not "inline"'),
        ("{ server = { port = 70000 } }", "server.port must be a whole number from 1 to 65535, not 70000"),
        (
            "{ server = { workspace = { a = 'b' } } }",
            "server.workspace must be a non-empty string, or a non-empty list",
        ),
        (
            "{ server = { agent = 'gpt' } }",
            "server.agent must be 'claude' or 'gemini', or a non-empty list of them, not \"gpt\"",
        ),
        (
            "{ server = { agent = { 'claude', 'gpt' } } }",
            "server.agent must be 'claude' or 'gemini', or a non-empty list of them",
        ),
        ("{ server = { agent = {} } }", "server.agent must be 'claude' or 'gemini', or a non-empty list of them"),
        ("{ gemini = { aliases = 'no' } }", 'gemini.aliases must be true or false, not "no"'),
        ("{ layuot = 1 }", "layuot is unknown; did you mean diff.layout?"),
        ("{ diff = { layuot = 'inline' } }", "diff.layuot is unknown; did you mean diff.layout?"),
        ("{ terminl = {} }", "terminl is unknown; did you mean terminal?"),
        ("{ port = 1 }", "port is unknown; did you mean server.port?"),
        ("{ server = { auto_close = true } }", "server.auto_close is unknown; did you mean terminal.auto_close?"),
        ("{ server = { prot = 1 } }", "server.prot is unknown; did you mean server.port?"),
        ("{ debounce = 1 }", "debounce is unknown; did you mean debounce_ms?"),
        ("{ zzzzzz = 1 }", "zzzzzz is unknown"),
        ("{ 'auto_start' }", "1 is unknown"),
        ("'vertical'", 'the argument must be a table, not "vertical"'),
        ("{ debounce_ms = ('x'):rep(500) }", '"xxxxxxxx'),
    ],
)
def test_invalid_options_are_named_and_nothing_changes(editor: Neovim, given: str, expected: str) -> None:
    problems(editor, "{ debounce_ms = 9 }")
    found = problems(editor, given)
    assert len(found) == 1
    assert expected in found[0]
    assert len(found[0]) < 150
    assert options(editor)["debounce_ms"] == 9


def test_all_problems_are_named_together(editor: Neovim) -> None:
    found = problems(editor, "{ debounce_ms = -1, diff = { layout = 'x', foo = 1 }, idle_ms = 3 }")
    assert [problem.split(" ")[0] for problem in found] == ["debounce_ms", "diff.foo", "diff.layout"]
    assert options(editor)["idle_ms"] == 500


@pytest.mark.parametrize("nvim", programs.each_nvim())
def test_invalid_options_in_the_config_do_not_stop_neovim(nvim: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\n")
    wrong = "require('drawbridge').setup{ debounce_ms = 'fast', diff = { layuot = 'inline' }, log_level = 'loud' }"
    with neovim(nvim, file, init=wrong) as editor:
        editor.shows_message("drawbridge: setup{}: can't use debounce_ms, d")
        assert editor.status()["state"] == "stopped"
        assert any("setup{}: diff.layuot is unknown; did you mean diff.layout?" in line for line in editor.log)
