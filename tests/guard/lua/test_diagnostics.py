"""`diagnostics`: new problems after an agent's edit, as the language servers in the user's own Neovim report them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.guard.lua.rig import Workstation, eventually, reloaded

SERVER = Path(__file__).with_name("language_server.py")

ATTACH = """
  local command = ...
  local config = { name = 'words', cmd = command, root_dir = vim.fn.getcwd() }
  if vim.lsp.start then
    vim.lsp.start(config)
  else
    vim.lsp.buf_attach_client(0, vim.lsp.start_client(config))
  end
"""


async def reports(at: Workstation, *problems: tuple[int, int, str], name: str = "linter") -> None:
    """Reports problems as a linter in the user's Neovim would: row (from 0), severity (1 is an error), message."""
    found = [{"lnum": row, "col": 0, "severity": severity, "message": text} for row, severity, text in problems]
    await at.person.lua(
        "local name, found = ... vim.diagnostic.set(vim.api.nvim_create_namespace(name), 0, found)", name, found
    )


async def remembers(at: Workstation, path: Path) -> None:
    """Sends what the guard sends before an edit, so that Neovim remembers the current problems."""
    await at.asks("snapshot", paths=[str(path)], remember=True)


async def new(at: Workstation, path: Path) -> list[tuple[int, str, str]]:
    answer = await at.asks("diagnostics", file_path=path)
    return [(found["line"], found["severity"], found["message"]) for found in answer["new"]]


async def test_earlier_diagnostics_are_not_new(at: Workstation) -> None:
    path = await at.opened("a.py")
    await reports(at, (0, 1, "old error"))
    await remembers(at, path)
    await reports(at, (0, 1, "old error"), (2, 1, "new error"), (1, 2, "new warning"))

    assert await new(at, path) == [(3, "error", "new error"), (2, "warning", "new warning")]


async def test_hints_and_information_are_not_reported(at: Workstation) -> None:
    path = await at.opened("a.py")
    await remembers(at, path)
    await reports(at, (0, 3, "information"), (1, 4, "hint"))

    assert await new(at, path) == []


async def test_diagnostics_that_only_moved_are_not_new(at: Workstation) -> None:
    path = await at.opened("a.py")
    await reports(at, (0, 1, "undefined x"), (1, 1, "undefined y"))
    await remembers(at, path)
    await reports(at, (1, 1, "undefined x"), (2, 1, "undefined y"))

    assert await new(at, path) == []


async def test_the_same_message_on_another_line_is_new(at: Workstation) -> None:
    path = await at.opened("a.py")
    await reports(at, (1, 1, "undefined x"))
    await remembers(at, path)
    await reports(at, (0, 1, "undefined x"), (1, 1, "undefined x"))

    assert await new(at, path) == [(1, "error", "undefined x")]


async def test_at_most_twenty_are_returned_errors_first(at: Workstation) -> None:
    path = await at.opened("a.py", "x\n" * 60)
    await remembers(at, path)
    await reports(at, *((row, 2, f"warning {row}") for row in range(30)), (50, 1, "error"))

    found = await new(at, path)

    assert len(found) == 20
    assert found[0] == (51, "error", "error")
    assert found[-1] == (19, "warning", "warning 18")


async def test_the_source_and_the_code_are_returned(at: Workstation) -> None:
    path = await at.opened("a.py")
    await remembers(at, path)
    await at.person.lua(
        "vim.diagnostic.set(vim.api.nvim_create_namespace('x'), 0, { { lnum = 0, col = 0, severity = 1, message = 'm', "
        "source = 'ruff', code = 401, user_data = { lsp = { code = 401 } } } })"
    )

    assert (await at.asks("diagnostics", file_path=path))["new"] == [
        {"line": 1, "severity": "error", "message": "m", "source": "ruff", "code": "401"}
    ]


async def test_without_remember_nothing_is_new(at: Workstation) -> None:
    path = await at.opened("a.py")
    await at.asks("snapshot", paths=[str(path)])
    await reports(at, (0, 1, "error"))

    assert await at.asks("diagnostics", file_path=path) == {"new": [], "pending": False}
    assert await at.asks("diagnostics", file_path=at.file("closed.py")) == {"new": [], "pending": False}


async def test_lsp_modules_are_not_loaded_without_language_servers(at: Workstation) -> None:
    path = await at.opened("a.py")
    await remembers(at, path)
    path.write_text("new\n")
    await at.asks("refresh_buffer", file_path=path)

    assert await at.asks("diagnostics", file_path=path) == {"new": [], "pending": False}
    assert await at.person.lua(
        "return { package.loaded['vim.lsp'] ~= nil, package.loaded['vim.diagnostic'] ~= nil }"
    ) == [
        False,
        False,
    ]


# With a language server.


@pytest.fixture
async def served(at: Workstation) -> Any:
    """An open file to which a language server is attached, with one problem reported."""
    path = await at.opened("a.py", "fine\nbad\n")
    await at.person.lua(ATTACH, [sys.executable, str(SERVER), str(at.folder / "release")])
    await at.person.until("return #vim.diagnostic.get(0) == 1")
    return path


async def answer_at_last(at: Workstation, path: Path) -> Any:
    """Asks, as the guard does, until nothing is pending. Returns the last answer."""
    return await eventually(lambda: at.asks("diagnostics", file_path=path), lambda answer: not answer["pending"])


async def test_new_problems_from_the_language_server_are_returned(at: Workstation, served: Path) -> None:
    await remembers(at, served)
    served.write_text("new\nfine\nbad\nodd hint\nbad\n")
    await at.asks("refresh_buffer", file_path=served)

    answer = await answer_at_last(at, served)

    assert answer["new"] == [
        {"line": 5, "severity": "error", "message": "bad here", "source": "words", "code": "BAD"},
        {"line": 4, "severity": "warning", "message": "odd here", "source": "words", "code": "ODD"},
    ]


async def test_a_slow_language_server_is_pending_until_it_has_reported(at: Workstation, served: Path) -> None:
    await remembers(at, served)
    served.write_text("slow\nbad\nodd\n")
    await at.asks("refresh_buffer", file_path=served)

    assert await at.asks("diagnostics", file_path=served) == {"new": [], "pending": True}
    (at.folder / "release").touch()

    answer = await answer_at_last(at, served)
    assert [found["line"] for found in answer["new"]] == [3]


async def test_a_report_from_before_the_edit_does_not_count(at: Workstation, served: Path) -> None:
    """The diagnostics of the edited text are still pending."""
    await remembers(at, served)
    await reports(at, (0, 1, "of an earlier text"))
    served.write_text("slow\nbad\n")
    await at.asks("refresh_buffer", file_path=served)

    assert (await at.asks("diagnostics", file_path=served))["pending"] is True


async def test_diagnostics_are_pending_after_a_reload_by_neovim(at: Workstation, served: Path) -> None:
    await remembers(at, served)
    await reports(at, (0, 1, "of an earlier text"))
    await remembers(at, served)
    served.write_text("slow\nbad\n")
    await at.ex("set autoread | checktime")
    assert reloaded(await at.asks("refresh_buffer", file_path=served)) == []

    assert (await at.asks("diagnostics", file_path=served))["pending"] is True


async def test_an_edit_without_new_problems_returns_nothing(at: Workstation, served: Path) -> None:
    await remembers(at, served)
    served.write_text("fine\nfine\nbad\n")
    await at.asks("refresh_buffer", file_path=served)

    assert await answer_at_last(at, served) == {"new": [], "pending": False}
