"""Creates ``.venv`` with the locked packages and the project itself. This module needs only the standard library.

Setup is done once. Afterwards, ``ensure`` only compares a stamp. An interrupted setup leaves no stamp and is repeated.
pip's own configuration (a mirror, a proxy, a certificate) is honored but not required.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
CACHE = ROOT / ".cache"
LOCK_FILES = {"runtime": ROOT / "requirements.lock", "dev": ROOT / "requirements-dev.lock"}


OLDEST = (3, 11)


class SetupError(Exception):
    """Setup can't continue. The message is one line: what failed and, where that is known, what to do."""

    code = 1
    """The exit code of ``tools/dev.py``."""


class Unavailable(SetupError):
    """Something could not be fetched or stored. The exit code, from sysexits.h, differs from that of a failed test."""

    code = 69


def ensure(kind: str) -> Path:
    """Sets up ``.venv`` with at least the ``kind`` ("runtime" or "dev") packages, unless that has been done. Returns
    its interpreter."""
    if not _is_current(kind):
        with _only_one():
            if not _is_current(kind):
                _set_up(kind)
    return PYTHON


def make_venv(directory: Path) -> None:
    """Creates an empty virtual environment with pip, by whatever means this machine has. Replaces an existing one."""
    commands = _venv_commands(directory)
    shown = directory.relative_to(ROOT) if directory.is_relative_to(ROOT) else directory
    log(f"making {shown} with {sys.executable} (once)")
    for command in commands:
        run(command)


def _venv_commands(directory: Path) -> list[list[str]]:
    make = [sys.executable, "-m", "venv", "--clear", str(directory)]
    if _has("ensurepip"):
        return [make]
    if uv := shutil.which("uv"):
        return [[uv, "venv", "--quiet", "--clear", "--seed", "--python", sys.executable, str(directory)]]
    if _has("virtualenv"):
        return [[sys.executable, "-m", "virtualenv", "--quiet", "--clear", str(directory)]]
    if virtualenv := shutil.which("virtualenv"):
        return [[virtualenv, "--quiet", "--clear", "--python", sys.executable, str(directory)]]
    if _has("pip"):
        pip = [sys.executable, "-m", "pip", "--python", str(directory / "bin" / "python")]
        return [[*make, "--without-pip"], [*pip, "install", "--quiet", "pip"]]
    raise SetupError(_no_venv())


def run(command: list[str]) -> None:
    """Runs ``command`` in the root of the checkout and shows its output. Raises ``SetupError`` if it fails."""
    try:
        subprocess.run(command, cwd=ROOT, check=True, stdin=subprocess.DEVNULL)
    except subprocess.CalledProcessError as error:
        name = " ".join(Path(part).name if part.startswith("/") else part for part in command[:4])
        raise SetupError(f"{name} … exited with code {error.returncode}; the reason is above.") from error


def log(text: str) -> None:
    print(f"drawbridge: {text}", file=sys.stderr, flush=True)


def _set_up(kind: str) -> None:
    if not _venv_works():
        make_venv(VENV)
    lock = LOCK_FILES[kind]
    log(f"installing the packages of {lock.name} into .venv (once)")
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        run([*pip, "--require-hashes", "--requirement", str(lock)])
    except SetupError as error:
        raise Unavailable(f"{error} Check the network and the free disk space, then run this again.") from error
    run([*pip, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)])
    fresh = _stamp().with_suffix(".new")
    fresh.write_text(_fingerprint(kind))
    fresh.replace(_stamp())


def _venv_works() -> bool:
    """Whether ``.venv`` was created completely and its interpreter still exists and is new enough."""
    probe = f"import pip, sys; sys.exit(sys.version_info < {OLDEST})"
    with contextlib.suppress(OSError):
        return subprocess.run([PYTHON, "-c", probe], capture_output=True, check=False).returncode == 0
    return False


def _is_current(kind: str) -> bool:
    if not PYTHON.exists() or not _stamp().exists():
        return False
    enough = ("dev",) if kind == "dev" else ("runtime", "dev")
    return _stamp().read_text() in map(_fingerprint, enough)


def _stamp() -> Path:
    return VENV / "drawbridge-setup"


def _fingerprint(kind: str) -> str:
    """A checksum of what has to be installed, of the interpreter that ``.venv`` uses, and of the checkout's path."""
    inputs = (LOCK_FILES[kind], ROOT / "pyproject.toml", VENV / "pyvenv.cfg")
    digest = hashlib.sha256(f"{kind} {ROOT}".encode())
    for file in inputs:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


@contextlib.contextmanager
def _only_one() -> Iterator[None]:
    """Allows one setup at a time for this checkout. A second one waits for the first."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "setup.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _no_venv() -> str:
    missing = f"{sys.executable} can't make virtual environments: "
    if shutil.which("apt-get"):
        sudo = "" if os.geteuid() == 0 else "sudo "
        return (
            missing
            + f"the package python3-venv is missing. Install it ({sudo}apt-get install python3-venv), and run this again."
        )
    return missing + "its module ensurepip is missing. Install a complete Python, uv or virtualenv, and run this again."
