"""``drawbridge setup`` in the test's own home, with a small guard that is quickly copied and only logs its calls."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from drawbridge.cli import main
from drawbridge.setup import copies, installed, interpreter, notes

HOOK = """\
import json, posix

def run(settings):
    data = b""
    while part := posix.read(0, 65536):
        data += part
    with open(settings["log_file"], "ab") as log:
        log.write(json.dumps({"settings": settings, "input": data.decode()}).encode() + b"\\n")
    posix.write(1, b"{}\\n")
    posix._exit(0)
"""


class Output(NamedTuple):
    code: int
    output: str
    errors: str

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads(self.output)
        return facts


Setup = Callable[..., Output]

_probed = functools.cache(interpreter._probe)
"""The cached probe: an interpreter does not change between tests, and probing it would take most of a test's time."""


@pytest.fixture
def setup(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path) -> Setup:
    """Returns a function that runs ``drawbridge setup`` in a project, as in ``setup("claude", "--remove")``, and returns its
    exit code and output. It adds ``--yes`` unless ``yes`` is False."""
    (home / "project").mkdir()
    monkeypatch.chdir(home / "project")
    notes.version.cache_clear()

    def run(*words: str | Path, yes: bool = True) -> Output:
        capsys.readouterr()
        consent = ["--yes"] if yes and "--yes" not in words else []
        code = main(["setup", *map(str, words), *consent])
        printed = capsys.readouterr()
        return Output(code, printed.out, printed.err)

    return run


@pytest.fixture
def guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replaces this package with a guard that appends its settings and input to the file that its ``log_file`` setting
    names. Returns the directory of the guard's package.
    """
    package = tmp_path / "package"
    for part in (
        "__init__.py",
        "core/errors.py",
        "core/privacy.py",
        "guard/__init__.py",
        "text/__init__.py",
        "guard/lua/ask.lua",
    ):
        (package / part).parent.mkdir(parents=True, exist_ok=True)
        (package / part).write_text(f"# {part}\n" if part.endswith(".py") else "-- nothing\n")
    (package / "guard" / "hook.py").write_text(HOOK)
    monkeypatch.setattr(installed, "_package", lambda: package)
    monkeypatch.setattr(interpreter, "_probe", _probed)
    return package


@pytest.fixture
def claude_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Returns a function that puts a ``claude`` of the given version on ``PATH``."""

    def put(version: str) -> None:
        program = tmp_path / "bin" / "claude"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\necho '{version} (Claude Code)'\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        notes.version.cache_clear()

    return put


def everything_below(folder: Path) -> dict[str, bytes | str]:
    """Every file, link and directory below ``folder``: relative path → content, target, or "directory"."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else "directory"
    return found


def without_backups(found: dict[str, bytes | str]) -> dict[str, bytes | str]:
    return {name: content for name, content in found.items() if not name.endswith(".bak")}


def stub(agent: str) -> Path:
    return copies.data_directory() / "guard" / f"{agent}.py"
