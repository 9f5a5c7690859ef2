"""``drawbridge setup`` in the test's own home, with a guard that is quickly copied and only writes down that it was called."""

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


class Said(NamedTuple):
    code: int
    output: str
    errors: str

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads(self.output)
        return facts


Setup = Callable[..., Said]

_probed = functools.cache(interpreter._probe)
"""What an interpreter can do does not change between tests, and asking it takes most of a test's time."""


@pytest.fixture
def setup(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path) -> Setup:
    """``setup("claude", "--remove")``: the output of the command, and its exit code, with ``--yes`` unless ``yes`` is False. It
    runs in a project."""
    (home / "project").mkdir()
    monkeypatch.chdir(home / "project")
    notes.version.cache_clear()

    def run(*words: str | Path, yes: bool = True) -> Said:
        capsys.readouterr()
        consent = ["--yes"] if yes and "--yes" not in words else []
        code = main(["setup", *map(str, words), *consent])
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return run


@pytest.fixture
def guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for this package: a guard that notes what it is called with in its setting ``log_file``."""
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
    """Puts a ``claude`` of a version on PATH."""

    def put(version: str) -> None:
        program = tmp_path / "bin" / "claude"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\necho '{version} (Claude Code)'\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        notes.version.cache_clear()

    return put


def everything_below(folder: Path) -> dict[str, bytes | str]:
    """Each file, link and directory below, by its name, with what is in it."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else "directory"
    return found


def without_backups(found: dict[str, bytes | str]) -> dict[str, bytes | str]:
    return {name: content for name, content in found.items() if not name.endswith(".bak")}


def stub(agent: str) -> Path:
    return copies.data_directory() / "guard" / f"{agent}.py"
