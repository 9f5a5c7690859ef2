"""The real programs that the tests use, and what to do if one is missing.

The environment can name some of them (``DRAWBRIDGE_TEST_NVIMS``: paths, separated by colons;
``DRAWBRIDGE_TEST_CLAUDE``, ``DRAWBRIDGE_TEST_GEMINI`` and ``DRAWBRIDGE_TEST_CODEX``: one path;
``DRAWBRIDGE_TEST_ACP``: a folder). A program that it does not name is looked up in ``.cache/programs`` (``make
programs``), on PATH, or in both. A test whose program is missing is skipped with a message that names it; with
``DRAWBRIDGE_REQUIRE_PROGRAMS=1``, as in CI, it fails.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest

import page as web_page
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parent.parent
FETCHED = ROOT / ".cache" / "programs"
FETCH = "get it with `make programs`"
NO_PAGE = os.environ.get(web_page.FAILED, "")
WITHOUT_PYTHON = ("--cmd", "let [g:loaded_python_provider, g:loaded_python3_provider] = [0, 0]")
"""Arguments for a Neovim that opens ``*.py``. Without them, its file type plugin tries every Python on PATH, for up to 8 s."""
NO_NVIM = f"Neovim is missing: install it, or {FETCH}"

_nvim_lookups = 0


def nvim_lookups() -> int:
    """Returns how often a Neovim has been looked up here. Every test that starts one does so, itself or in a fixture."""
    return _nvim_lookups


def nvims() -> list[Path]:
    """Returns every Neovim that was found, oldest first, each version once. Empty if none was found."""
    global _nvim_lookups
    _nvim_lookups += 1
    named = os.environ.get("DRAWBRIDGE_TEST_NVIMS", "")
    found = [Path(path) for path in named.split(":")] if named else [*_on_path("nvim"), *FETCHED.glob("nvim-*/nvim")]
    by_version = {nvim_version(path): path for path in reversed(found)}
    return [path for _, path in sorted(by_version.items())]


def nvim(oldest: tuple[int, ...] = ()) -> Path:
    """Returns the newest Neovim, for tests that do not depend on the version. It counts as missing if it is older than
    ``oldest``.
    """
    found = nvims()
    if not found:
        missing(NO_NVIM)
    if nvim_version(found[-1]) < oldest:
        missing(f"Neovim {'.'.join(map(str, oldest))} or newer is missing: {FETCH}")
    return found[-1]


def each_nvim() -> list[Any]:
    """Returns one parameter for each Neovim, for ``pytest.mark.parametrize`` or ``pytest.fixture(params=…)``.

    The newest Neovim is tested in every run, the oldest with ``make thorough``, and those between with ``make slow``. If
    none was found, the only parameter skips the test or, if the real programs are required, the call fails.
    """
    found = nvims()
    parameters = [
        pytest.param(path, id="nvim-" + ".".join(map(str, nvim_version(path))), marks=_marks(path, found))
        for path in found
    ]
    if not found and _required():
        missing(NO_NVIM)
    return parameters or [pytest.param(None, id="no-nvim", marks=pytest.mark.skip(NO_NVIM))]


def _marks(path: Path, found: list[Path]) -> list[pytest.MarkDecorator]:
    if path == found[-1]:
        return []
    return [pytest.mark.thorough if path == found[0] else pytest.mark.slow]


@functools.cache
def nvim_version(path: Path) -> tuple[int, ...]:
    """Returns the version of the Neovim at ``path``, such as (0, 10, 4)."""
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
    numbers = re.match(r"NVIM v(\d+)\.(\d+)\.(\d+)", answer)
    assert numbers, f"{path} --version printed {answer[:80]!r}"
    return tuple(map(int, numbers.groups()))


def claude() -> Path:
    """Returns the path of Claude Code's CLI."""
    named = os.environ.get("DRAWBRIDGE_TEST_CLAUDE")
    candidates = [Path(named)] if named else [FETCHED / "claude" / "claude", *_on_path("claude")]
    return next(filter(Path.exists, candidates), None) or missing(f"Claude Code's `claude` is missing: {FETCH}")


def gemini() -> Path:
    """Returns the path of Gemini CLI."""
    named = os.environ.get("DRAWBRIDGE_TEST_GEMINI")
    candidates = [Path(named)] if named else [FETCHED / "gemini" / "gemini", *_on_path("gemini")]
    return next(filter(Path.exists, candidates), None) or missing(f"Gemini CLI (`gemini`) is missing: {FETCH}")


def codex() -> Path:
    """Returns the path of the Codex CLI."""
    named = os.environ.get("DRAWBRIDGE_TEST_CODEX")
    candidates = [Path(named)] if named else [FETCHED / "codex" / "codex", *_on_path("codex")]
    return next(filter(Path.exists, candidates), None) or missing(f"Codex (`codex`) is missing: {FETCH}")


def acp_adapter(name: str) -> Path:
    """Returns the path of an Agent Client Protocol adapter: ``claude-agent-acp`` or ``codex-acp``."""
    named = os.environ.get("DRAWBRIDGE_TEST_ACP")
    candidates = [Path(named) / name] if named else [FETCHED / "acp" / name]
    return next(filter(Path.exists, candidates), None) or missing(f"The ACP adapter `{name}` is missing: {FETCH}")


def mcp_conformance() -> Path:
    """Returns the path of the MCP conformance suite."""
    suite = FETCHED / "mcp-conformance" / "conformance"
    return suite if suite.exists() else missing(f"The MCP conformance suite is missing: {FETCH}")


def mcp_client() -> Path:
    """Returns the path of a Python interpreter that has the official MCP client."""
    python = FETCHED / "mcp-client" / "bin" / "python"
    return python if python.exists() else missing(f"The official MCP client is missing: {FETCH}")


def code_server() -> Path:
    """Returns the path of code-server, which runs VS Code in a browser."""
    program = FETCHED / "code-server" / "code-server"
    return program if program.exists() else missing(f"code-server (a real VS Code) is missing: {FETCH}")


def chromium(*, whole: bool = False) -> Path:
    """Returns the path of Chromium. Unless the ``whole`` browser is needed, this is chromium-headless-shell if it is
    installed. That program is made for machines without a screen. It has the same engine and opens a page in half the
    time, but does not show notifications.
    """
    names = ["chromium"] if whole else ["chromium-headless-shell", "chromium"]
    found = next((one for name in names for one in _on_path(name)), None)
    return found or missing("Chromium is missing: install the `chromium` package")


def playwright() -> Path:
    """Returns the folder of playwright-core, the package that controls Chromium."""
    package = FETCHED / "browser" / "node_modules" / "playwright-core"
    return package if package.exists() else missing(f"playwright-core is missing: {FETCH}")


def axe() -> Path:
    """Returns the path of axe-core, a script that finds accessibility problems in the page that it runs in."""
    script = FETCHED / "browser" / "node_modules" / "axe-core" / "axe.min.js"
    return script if script.exists() else missing(f"axe-core is missing: {FETCH}")


def node() -> Path:
    """Returns the path of the Node.js that ``make programs`` installs, even if the system has its own."""
    program = FETCHED / "node" / "node"
    return program if program.exists() else missing(f"Node.js is missing: {FETCH}")


def page() -> Path:
    """Builds the web UI and returns its folder."""
    _require_a_build()
    try:
        web_page.build()
    except web_page.PageError as error:
        missing(str(error))
    return web_page.PAGE


def page_units() -> Path:
    """Builds the unit tests of the web UI as modules for Node.js, with the code they test, and returns their folder."""
    _require_a_build()
    try:
        return web_page.units((ROOT / "tests" / "page" / "unit").glob("*.mjs"))
    except web_page.PageError as error:
        missing(str(error))


def _require_a_build() -> None:
    """Skips or fails the test if `make test` could not build the web UI. Without a network, each attempt takes a minute."""
    if NO_PAGE:
        missing(NO_PAGE)


def tmux() -> Path:
    return next(iter(_on_path("tmux")), None) or missing("tmux is missing: install the package tmux")


def git() -> Path:
    return next(iter(_on_path("git")), None) or missing("git is missing: install the package git")


def uvloop() -> ModuleType:
    """Returns the event loop that the server uses. Only some platforms have it (see ``pyproject.toml``)."""
    try:
        return importlib.import_module("uvloop")
    except ImportError:
        missing("uvloop is missing: it needs CPython, and not Windows")


def missing(reason: str) -> NoReturn:
    """Skips the test, or fails it if the real programs are required."""
    if _required():
        pytest.fail(f"{reason} (DRAWBRIDGE_REQUIRE_PROGRAMS is set)", pytrace=False)
    pytest.skip(reason)


def _required() -> bool:
    return os.environ.get("DRAWBRIDGE_REQUIRE_PROGRAMS") == "1"


def _on_path(name: str) -> list[Path]:
    found = shutil.which(name)
    return [Path(found)] if found else []
