"""The checks of JavaScript, TypeScript, CSS and Lua in ``make check``, if the programs for them are installed.

``make programs`` installs these programs, except luacheck, which is a Debian package. If one is missing, its checks are
skipped and a message names it. With DRAWBRIDGE_REQUIRE_PROGRAMS=1, as in CI, this is an error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

from bootstrap import CACHE, ROOT, SetupError, log

CHECKERS = CACHE / "programs" / "checkers" / "node_modules"
CONFIGURATION = ROOT / "tools" / "checkers"
JAVASCRIPT = (
    "bench/broadcast.js",
    "extensions/vscode",
    "tests/page",
    "tests/vscode",
    "web/build.mjs",
    "web/src",
    "web/static/old.js",
    "web/worker",
)
GUARD_LUA = ROOT / "src" / "drawbridge" / "guard" / "lua"


def check() -> None:
    """Runs the checks. Raises ``SystemExit`` with the exit code of the first program that finds something, and
    ``SetupError`` if a program is missing and DRAWBRIDGE_REQUIRE_PROGRAMS is 1.
    """
    if _has("the checkers of JavaScript and Lua", CHECKERS.exists(), "make programs"):
        for script in sorted((ROOT / "extensions").rglob("*.js")):
            _run([_node(), "--check", str(script)])
        _run([*_tool("tsc"), "--project", str(CONFIGURATION / "extension.json")])
        for folder in ("web", "web/worker"):
            if _has("the web UI's packages", (ROOT / "web" / "node_modules").exists(), "make page"):
                _run([*_tool("tsc"), "--project", str(ROOT / folder)])
        _run([*_tool("biome"), "check", "--error-on-warnings", f"--config-path={CONFIGURATION}", *JAVASCRIPT])
        _run(_stylua("check"))
    luacheck = shutil.which("luacheck")
    if _has("luacheck", luacheck is not None, "apt-get install lua-check") and luacheck is not None:
        _run_silently([luacheck, "--quiet", "--no-color", "lua", "plugin"])
        for name, chunk in _guard_chunks():
            # A chunk contains all helpers of its parts, but uses only some of them.
            _run_silently([luacheck, "--quiet", "--no-color", "--no-unused", "--filename", name, "-"], stdin=chunk)


def format_code() -> None:
    if _has("the checkers of JavaScript and Lua", CHECKERS.exists(), "make programs"):
        _run([*_tool("biome"), "format", "--write", f"--config-path={CONFIGURATION}", *JAVASCRIPT])
        _run(_stylua("write"))


def _guard_chunks() -> Iterator[tuple[str, str]]:
    """The name and text of each chunk that the guard sends to Neovim: a method's parts, joined as in the guard."""
    sys.path.insert(0, str(ROOT / "src"))
    from drawbridge.guard.ask import PARTS

    helpers = {"files", "selection", *(part for parts in PARTS.values() for part in parts)}
    for method in sorted(file.stem for file in GUARD_LUA.glob("*.lua")):
        if method not in helpers:
            selection = ("selection",) if method == "snapshot" else ()
            parts = ("files", *selection, *PARTS.get(method, ()), method)
            yield f"guard/lua/{method}", "".join((GUARD_LUA / f"{part}.lua").read_text() for part in parts)


def _stylua(verb: str) -> list[str]:
    files = sorted(file for folder in ("lua", "plugin", "src") for file in (ROOT / folder).rglob("*.lua"))
    script, package = CONFIGURATION / "lua.mjs", CHECKERS / "@johnnymorganz" / "stylua"
    return [_node(), str(script), str(package), verb, *(str(file.relative_to(ROOT)) for file in files)]


def _tool(name: str) -> list[str]:
    return [_node(), str((CHECKERS / ".bin" / name).resolve())]


def _node() -> str:
    """The Node.js that the tests use, even if the system has its own."""
    return str(CACHE / "programs" / "node" / "node")


def _has(what: str, there: bool, remedy: str) -> bool:
    if not there and os.environ.get("DRAWBRIDGE_REQUIRE_PROGRAMS") == "1":
        raise SetupError(f"Not installed: {what}, which DRAWBRIDGE_REQUIRE_PROGRAMS=1 requires. To install: {remedy}")
    if not there:
        log(f"skipped the checks that need {what}; to install: {remedy}")
    return there


def _run(command: list[str]) -> None:
    code = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode
    if code:
        raise SystemExit(code)


def _run_silently(command: list[str], stdin: str = "") -> None:
    """Shows what ``command`` prints only if it finds something, because luacheck prints the number of its warnings even
    if it is 0."""
    done = subprocess.run(command, cwd=ROOT, input=stdin, text=True, capture_output=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        raise SystemExit(done.returncode)
