"""Fetches the real programs that the tests use, once for each user, and shares them among all of the user's checkouts.

Each has a directory in the user's cache, named after the program, its version and a checksum of how it is installed.
Programs contain their own path, so each is installed directly in its final place. It counts as installed only with its
seal, a checksum of every file, which is written last. A program that was fetched only partly, or whose files have
changed since, is fetched again.

In each checkout, ``.cache/programs`` contains links to them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import bootstrap
from bootstrap import CACHE, ROOT, SetupError, Unavailable, log

TOOLS = ROOT / "tools"
LINKS = CACHE / "programs"
SEAL = ".drawbridge-seal"
MCP_CLIENT = "2.3.0"
TRIES = 3
PAUSE = 5.0
"""Seconds before the second attempt. The wait before the third is twice as long."""

Install = Callable[[Path], None]


class Program(NamedTuple):
    name: str
    version: str
    recipe: str
    """Everything that the installed files depend on. Each recipe has its own directory."""
    install: Install
    """Installs the program into a directory. Raises ``SetupError`` if that fails."""

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def link(self) -> str:
        """The program's name in ``.cache/programs``."""
        return f"nvim-{self.version}" if self.name == "nvim" else self.name

    @property
    def directory(self) -> Path:
        checksum = hashlib.sha256(self.recipe.encode()).hexdigest()[:12]
        return store() / f"{self.name}-{self.version}-{checksum}"


def store() -> Path:
    """The directory of all programs, which all checkouts of this user share."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "drawbridge" / "programs"


def fetch_all() -> None:
    for program in wanted():
        fetch(program)


def wanted() -> Iterator[Program]:
    for suite in ("trixie", "forky"):
        yield _scripted("nvim", suite, version=suite)
    for name in ("claude", "codex"):
        yield _scripted(name)
    node = _scripted("node")
    yield node
    yield _scripted("ws")
    for name in ("gemini", "acp", "mcp-conformance"):
        yield _scripted(name, str(node.directory / "node"))
    yield Program("mcp-client", MCP_CLIENT, os.path.realpath(sys.executable), _install_mcp_client)
    for name in ("browser", "code-server"):
        yield _scripted(name)
    yield _scripted(
        "checkers", version="pinned", recipe=(TOOLS / "checkers" / "package.json").read_text(encoding="utf-8")
    )


def _scripted(name: str, *arguments: str, version: str = "", recipe: str = "") -> Program:
    """The program that ``tools/install-NAME.sh DIR ARGUMENTS…`` installs. ``version``: by default, the first version
    number that the script assigns to a variable."""
    file = TOOLS / f"install-{name}.sh"
    text = file.read_text(encoding="utf-8")

    def install(directory: Path) -> None:
        bootstrap.run(["bash", str(file), str(directory), *arguments])

    versions = re.findall(r"^\w+=(\d[\w.]+)", text, re.MULTILINE)
    return Program(name, version or versions[0], "\0".join((text, *arguments, recipe)), install)


def _install_mcp_client(directory: Path) -> None:
    """Installs the official MCP client for Python, in its own environment, because it needs about thirty packages."""
    bootstrap.make_venv(directory)
    bootstrap.run([str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", f"mcp=={MCP_CLIENT}"])


def fetch(program: Program) -> None:
    """Installs ``program`` unless it is already installed completely, and links this checkout to it.

    Raises ``Unavailable`` after the last try, or if the cache can't be written, without leaving a partial installation.
    """
    try:
        with _only_one(program):
            if _is_whole(program.directory):
                log(f"{program.title} is in the cache")
            else:
                log(f"fetching {program.title} (once for all checkouts)")
                _install(program)
        _link(LINKS / program.link, program.directory)
    except OSError as error:
        raise Unavailable(
            f"Can't store {program.title}: {error.strerror or error} ({error.filename or store()}). Make room or correct "
            "the permissions there, or set XDG_CACHE_HOME to another directory. Then run this again."
        ) from error


def _install(program: Program) -> None:
    for number in range(1, TRIES + 1):
        if number > 1:
            log(f"fetching {program.title} failed ({number - 1} of {TRIES}); trying again")
            time.sleep(PAUSE * (number - 1))
        try:
            with _nothing_half_made(program.directory):
                program.install(program.directory)
                _seal(program.directory)
            return
        except SetupError as error:
            reason = error
    raise Unavailable(
        f"Can't fetch {program.title} (tried {TRIES} times): {reason} "
        "Check the network and the free disk space, then run this again."
    )


@contextlib.contextmanager
def _nothing_half_made(directory: Path) -> Iterator[None]:
    shutil.rmtree(directory, ignore_errors=True)
    try:
        directory.mkdir(parents=True)
        yield
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


@contextlib.contextmanager
def _only_one(program: Program) -> Iterator[None]:
    """Allows this user one fetch of a program at a time. A second one waits, and finds the program installed."""
    store().mkdir(parents=True, exist_ok=True)
    with (store() / f"{program.directory.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_whole(directory: Path) -> bool:
    try:
        return (directory / SEAL).read_text(encoding="ascii") == _checksum(directory)
    except OSError:
        return False


def _seal(directory: Path) -> None:
    fresh = directory / f"{SEAL}.new"
    fresh.write_text(_checksum(directory), encoding="ascii")
    fresh.replace(directory / SEAL)


def _checksum(directory: Path) -> str:
    """A checksum of the names, links and contents of all files, except the seal and the bytecode that Python writes."""
    files = sorted(
        Path(folder) / name
        for folder, _, names in os.walk(directory)
        if not folder.endswith("__pycache__")
        for name in names
        if not name.startswith(SEAL)
    )
    whole = hashlib.blake2b()
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for file, content in zip(files, threads.map(_content, files), strict=True):
            whole.update(f"{file.relative_to(directory)}\0{content}\0".encode(errors="surrogateescape"))
    return whole.hexdigest()


def _content(file: Path) -> str:
    if file.is_symlink():
        return os.readlink(file)
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "blake2b").hexdigest()


def _link(link: Path, directory: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_dir() and not link.is_symlink():
        shutil.rmtree(link)  # an earlier version installed programs here
    fresh = link.with_name(f"{link.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(directory)
    fresh.replace(link)
