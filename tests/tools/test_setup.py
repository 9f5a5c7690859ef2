"""The setup of a checkout records what is installed, and an error names what is missing on the machine."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import bootstrap
from tests import programs
from tests.waiting import PATIENCE

LOCKED = re.compile(r"^([a-z0-9-]+)==(\S+?) (?:;.*)?\\?$", re.MULTILINE)


def locked(kind: str) -> dict[str, str]:
    return dict(LOCKED.findall(bootstrap.LOCK_FILES[kind].read_text()))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with only the files that the setup reads, and nothing installed."""
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    monkeypatch.setattr(bootstrap, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(bootstrap, "PYTHON", tmp_path / ".venv" / "bin" / "python")
    monkeypatch.setattr(bootstrap, "CACHE", tmp_path / ".cache")
    monkeypatch.setattr(bootstrap, "LOCK_FILES", {kind: tmp_path / f"{kind}.lock" for kind in bootstrap.LOCK_FILES})
    for name in ("runtime.lock", "dev.lock", "pyproject.toml"):
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.fixture
def ran(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that the setup would run, as text. None of them runs, and a fake virtual environment is created."""
    commands: list[str] = []

    def run(command: list[str]) -> None:
        commands.append(" ".join(command))
        if "venv" in command:
            bootstrap.PYTHON.parent.mkdir(parents=True)
            bootstrap.PYTHON.write_text("#!/bin/sh\nexit 0")
            bootstrap.PYTHON.chmod(0o755)
            (checkout / ".venv" / "pyvenv.cfg").write_text("version = 3")

    monkeypatch.setattr(bootstrap, "run", run)
    return commands


def test_the_lock_files_contain_every_requirement() -> None:
    project = tomllib.loads((bootstrap.ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"]
    runtime = {re.split("[><=]", line)[0] for line in [*project["project"]["dependencies"], *groups["build"]]}
    dev = {re.split("[><=]", line)[0] for line in groups["dev"] if isinstance(line, str)}
    assert runtime <= set(locked("runtime"))
    assert runtime | dev <= set(locked("dev"))


def test_the_tests_use_the_locked_runtime_versions() -> None:
    assert locked("runtime").items() <= locked("dev").items()


@pytest.mark.parametrize("kind", ["runtime", "dev"])
def test_every_locked_package_has_a_hash_and_no_url(kind: str) -> None:
    entries = re.split(r"^(?=[a-z])", bootstrap.LOCK_FILES[kind].read_text(), flags=re.MULTILINE)[1:]
    assert len(entries) == len(locked(kind))
    assert [entry for entry in entries if "--hash=sha256:" not in entry or "://" in entry] == []


def test_a_second_setup_does_nothing(ran: list[str]) -> None:
    bootstrap.ensure("dev")
    assert len(ran) == 3
    bootstrap.ensure("dev")
    bootstrap.ensure("runtime")
    assert len(ran) == 3, "the tests' packages include the program's"


def test_test_packages_are_installed_only_when_needed(ran: list[str]) -> None:
    bootstrap.ensure("runtime")
    assert not any("dev.lock" in command for command in ran)
    bootstrap.ensure("dev")
    assert any("dev.lock" in command for command in ran)


@pytest.mark.parametrize("changed", ["dev.lock", "pyproject.toml", ".venv/pyvenv.cfg"])
def test_setup_runs_again_if_its_inputs_have_changed(changed: str, checkout: Path, ran: list[str]) -> None:
    bootstrap.ensure("dev")
    ran.clear()
    (checkout / changed).write_text("something else")
    bootstrap.ensure("dev")
    assert any("dev.lock" in command for command in ran)


def test_an_interrupted_setup_is_repeated(monkeypatch: pytest.MonkeyPatch, ran: list[str]) -> None:
    whole = bootstrap.run

    def interrupted(command: list[str]) -> None:
        if "--editable" in command:
            raise KeyboardInterrupt
        whole(command)

    monkeypatch.setattr(bootstrap, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bootstrap.ensure("runtime")
    monkeypatch.setattr(bootstrap, "run", whole)
    ran.clear()
    bootstrap.ensure("runtime")
    assert any("--editable" in command for command in ran)


def test_a_python_without_venv_names_the_missing_package(
    checkout: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "_has", lambda module: False)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/apt-get" if name == "apt-get" else None)
    with pytest.raises(
        bootstrap.SetupError, match=r"python3-venv is missing. Install it \(.*apt-get install python3-venv\)"
    ):
        bootstrap.ensure("runtime")
    assert ran == []
    assert not (checkout / ".venv").exists()


def test_unfetchable_packages_have_their_own_exit_code(ran: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    record = bootstrap.run

    def run(command: list[str]) -> None:
        record(command)
        if "--requirement" in command:
            raise bootstrap.SetupError("python -m pip install … exited with code 1; the reason is above.")

    monkeypatch.setattr(bootstrap, "run", run)
    with pytest.raises(bootstrap.Unavailable, match=r"pip install … exited with code 1; .* Check the network"):
        bootstrap.ensure("runtime")
    assert not any("--editable" in command for command in ran)
    assert not bootstrap._stamp().exists(), "the next setup tries again"


def test_a_failed_command_is_reported(checkout: Path) -> None:
    with pytest.raises(bootstrap.SetupError, match="exited with code 3"):
        bootstrap.run([sys.executable, "-c", "raise SystemExit(3)"])


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of all files in a freshly built wheel."""
    programs.page()
    directory = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)]
    subprocess.run(build, cwd=bootstrap.ROOT, check=True, capture_output=True, timeout=2 * PATIENCE)
    (wheel,) = directory.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_contains_the_whole_neovim_plugin(packed: set[str]) -> None:
    for folder in ("lua", "plugin"):
        files = [file.relative_to(bootstrap.ROOT) for file in (bootstrap.ROOT / folder).rglob("*.lua")]
        assert files
        assert {f"drawbridge/runtime/{file}" for file in files} <= packed
    assert "drawbridge/py.typed" in packed


def test_the_wheel_contains_the_whole_vs_code_extension(packed: set[str]) -> None:
    folder = bootstrap.ROOT / "extensions" / "vscode"
    files = [file.relative_to(folder) for file in folder.rglob("*") if file.is_file()]
    assert files
    assert {f"drawbridge/runtime/vscode/{file}" for file in files} <= packed


def test_an_unknown_verb_shows_the_verbs() -> None:
    script = bootstrap.ROOT / "tools" / "dev.py"
    answer = subprocess.run(
        [sys.executable, script, "fly"], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert answer.returncode == 2
    assert "serve     run the agent server" in answer.stderr


OLD_PYTHONS = [name for name in ("python2.7", "python3.6", "python3.8") if shutil.which(name)]


@pytest.mark.parametrize("name", OLD_PYTHONS)
def test_an_old_python_reports_what_is_missing(name: str, tmp_path: Path) -> None:
    """Runs only where such a Python is on ``PATH`` and starts."""
    python = shutil.which(name) or ""
    found = subprocess.run(
        [python, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.skip(f"{name} does not run here")
    script = bootstrap.ROOT / "tools" / "dev.py"
    answer = subprocess.run(
        [found.stdout.strip(), script, "setup"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": str(tmp_path)},
    )
    assert answer.returncode == 1
    assert answer.stderr.startswith("drawbridge: needs Python 3.11 or newer, and ")
    assert answer.stderr.count("\n") == 1


def test_the_entry_script_uses_no_newer_python_features() -> None:
    """``tools/dev.py`` uses nothing that Python 2.7 or 3.6 lacks: annotations, f-strings, ``:=`` or newer modules."""
    tree = ast.parse((bootstrap.ROOT / "tools" / "dev.py").read_text(), feature_version=(3, 4))
    new = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.AsyncFunctionDef, ast.Starred)
    assert [node for node in ast.walk(tree) if isinstance(node, new)] == []
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert all(function.returns is None and not function.args.kwonlyargs for function in functions)
    assert [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names] == [
        "os",
        "subprocess",
        "sys",
    ]
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(tree))
