"""``drawbridge setup vscode`` installs and removes the extension with the editor's own command."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zipfile
from pathlib import Path

import pytest

from drawbridge.setup import copies, vscode
from tests import programs
from tests.setup.conftest import Setup

EDITOR = """\
#!/usr/bin/env python3
import shutil, sys
from pathlib import Path
here = Path(__file__).parent
with (here / "calls").open("a") as calls:
    print(*sys.argv[1:], file=calls)
if sys.argv[1] == "--list-extensions":
    print("someone.else@2.0.0")
    print((here / "has").read_text() if (here / "has").exists() else "")
elif sys.argv[1] == "--install-extension":
    shutil.copy(sys.argv[2], here / "installed.vsix")
    (here / "has").write_text("Drawbridge.drawbridge@{version}")
else:
    (here / "has").unlink()
"""


@pytest.fixture
def version() -> str:
    return str(json.loads((vscode.extension_directory() / "package.json").read_text())["version"])


def editor(folder: Path, name: str, text: str) -> Path:
    program = folder / name
    folder.mkdir(exist_ok=True)
    program.write_text(text)
    program.chmod(0o755)
    return program


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> Path:
    """Puts a fake ``codium`` on ``PATH``, and hides ``code``, which setup would prefer. Returns the program."""
    program = editor(tmp_path / "bin", "codium", EDITOR.replace("{version}", version))
    others = [place for place in os.environ["PATH"].split(os.pathsep) if not (Path(place) / "code").exists()]
    monkeypatch.setenv("PATH", os.pathsep.join([str(program.parent), *others]))
    return program


def test_the_extension_is_packed_and_installed_once(code: Path, setup: Setup, version: str) -> None:
    output = setup("vscode")
    assert output.code == 0
    assert output.output.startswith(f"+ {code} --install-extension drawbridge.drawbridge.vsix\n")
    with zipfile.ZipFile(code.parent / "installed.vsix") as packed:
        assert "extension/package.json" in packed.namelist()
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
    assert setup("vscode").output == f"Nothing to change: drawbridge.drawbridge {version} is installed in {code}.\n"
    assert (code.parent / "calls").read_text().count("--install-extension") == 1


def test_an_older_extension_is_updated(code: Path, setup: Setup) -> None:
    (code.parent / "has").write_text("drawbridge.drawbridge@0.0.1")
    assert setup("vscode").code == 0
    assert "--install-extension" in (code.parent / "calls").read_text()


def test_an_extension_of_the_same_version_is_updated(
    code: Path, setup: Setup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between releases, the files change and the version stays the same."""
    extension = tmp_path / "extension"
    shutil.copytree(vscode.extension_directory(), extension)
    monkeypatch.setattr(vscode, "extension_directory", lambda: extension)
    setup("vscode")
    with (extension / "extension.js").open("a") as source:
        source.write("// changed\n")
    assert setup("vscode").output.startswith(f"+ {code} --install-extension drawbridge.drawbridge.vsix\n")
    with zipfile.ZipFile(code.parent / "installed.vsix") as packed:
        assert packed.read("extension/extension.js").endswith(b"// changed\n")
    assert setup("vscode").output.startswith("Nothing to change: ")


def test_the_extension_is_removed(code: Path, setup: Setup) -> None:
    assert setup("vscode", "--remove").output.startswith("Nothing to remove: ")
    setup("vscode")
    assert setup("vscode", "--remove").code == 0
    assert (code.parent / "calls").read_text().endswith("--uninstall-extension drawbridge.drawbridge\n")
    assert not (code.parent / "has").exists()
    assert not copies.data_directory().exists(), "it contained only the record of the extension"


def test_a_dry_run_only_lists_the_extensions(code: Path, setup: Setup) -> None:
    assert setup("vscode", "--dry-run").output.endswith("No changes were made.\n")
    assert (code.parent / "calls").read_text() == "--list-extensions --show-versions\n"


def test_the_editors_program_can_be_chosen(code: Path, setup: Setup, tmp_path: Path) -> None:
    other = editor(tmp_path / "other", "my-code", code.read_text())
    assert str(other) in setup("vscode", "--program", other).output
    assert not (code.parent / "calls").exists()
    output = setup("vscode", "--program", tmp_path / "none")
    assert output.code == 3
    assert output.errors.startswith(f"drawbridge setup: {tmp_path / 'none'} does not exist or is not executable. ")


def test_without_an_editor_the_missing_programs_are_listed(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setenv("PATH", str(home))
    output = setup("vscode")
    assert output.code == 3
    assert "None of code, code-insiders, codium, cursor, windsurf, code-server is on PATH" in output.errors


def test_the_error_of_a_failing_editor_is_shown(setup: Setup, tmp_path: Path) -> None:
    script = """\
#!/bin/sh
[ "$1" = --list-extensions ] && exit 0
echo first >&2
echo "Extension is not compatible" >&2
exit 1
"""
    refusing = editor(tmp_path / "bin", "refusing", script)
    output = setup("vscode", "--program", refusing)
    assert output.code == 3
    assert "failed with exit code 1: Extension is not compatible." in output.errors


def test_a_missing_extension_is_reported(
    code: Path, setup: Setup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vscode, "extension_directory", lambda: tmp_path / "none")
    output = setup("vscode")
    assert output.code == 2
    package = tmp_path / "none" / "package.json"
    assert output.errors == f"drawbridge setup: {package} can't be read: no such file or directory.\n"


@pytest.mark.thorough
def test_a_real_vs_code_installs_and_removes_the_extension(setup: Setup, version: str) -> None:
    server = programs.code_server()
    assert setup("vscode", "--program", server).code == 0
    assert (
        setup("vscode", "--program", server).output
        == f"Nothing to change: drawbridge.drawbridge {version} is installed in {server}.\n"
    )
    assert setup("vscode", "--program", server, "--remove").code == 0
    assert setup("vscode", "--program", server, "--remove").output.startswith("Nothing to remove")
