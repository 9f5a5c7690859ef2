"""The installed guard: a copy that is independent of the environment it came from, and a stub for each agent.

::

    <data directory>/drawbridge/guard/
        0f3a9c1b2d4e/drawbridge/…    a copy of the guard's modules, named by their content, with their bytecode
        claude.py                    the stub that Claude Code's hooks run; it names the copy and contains the settings
        claude-5e1f….py              the stub for the hooks of one project

Agents start ``PYTHON -I -S -c LOADER …/guard/claude.py``: an isolated interpreter, and a stub that is short because a
script, unlike its imports, is compiled at each start.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import drawbridge
from drawbridge.agents import catalog
from drawbridge.core.errors import ProgramFailed
from drawbridge.core.own_command import own_command
from drawbridge.core.private_files import write_private
from drawbridge.guard import calls
from drawbridge.settings import of as settings_of
from drawbridge.settings.hook import HookSettings
from drawbridge.setup import copies
from drawbridge.setup.interpreter import Interpreter, choose

CORE = tuple(f"core/{name}.py" for name in ("__init__", "errors", "privacy", "terminal_text"))
DIALECTS = tuple(f"agents/{row.name}/{name}.py" for row in catalog.ROWS if row.hooks for name in ("__init__", "hook"))
PARTS = ("__init__.py", "agents/__init__.py", "agents/catalog.py", *DIALECTS, *CORE, "guard", "text")
"""The parts of the package that the guard consists of. Apart from these, it imports only the standard library."""

TRY = """\
import sys
sys.path.insert(0, sys.argv[1])
import compileall, importlib, os, py_compile
unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
compileall.compile_dir(sys.argv[1], quiet=1, invalidation_mode=unchecked)
for place in ("guard", "agents"):
    for folder, _, names in os.walk(os.path.join(sys.argv[1], "drawbridge", place)):
        for name in names:
            if name.endswith(".py"):
                path = os.path.relpath(os.path.join(folder, name[:-3]), sys.argv[1])
                importlib.import_module(path.replace(os.sep, ".").removesuffix(".__init__"))
from drawbridge.guard.hook import run
"""
"""The code that compiles the bytecode, which later runs use unchecked (a copy never changes), and imports everything
that a call may use."""

LOADER = (
    "import posix, sys; p = sys.argv[1]; "
    'posix.access(p, 4) or sys.exit(p + " is gone: run drawbridge setup again"); exec(open(p, "rb").read())'
)
"""The code that runs a stub. Python itself would exit with code 2 if the file were missing, which agents treat as a
denial of every action, even of prompts (Claude Code 2.1.329, Gemini CLI 0.61.0, Codex 0.169.0).
"""

STUB = '''\
"""Drawbridge's guard for {title}, with its settings. `drawbridge setup {agent}` wrote this file. Run that command again
to update or change the file, or with --remove to remove it. Changes that you make here will be lost.
"""

import sys

sys.path.insert(0, {copy!r})
try:
    from drawbridge.guard.hook import run
except Exception as problem:
    exec({damaged!r})

run({settings})
'''

DAMAGED = """\
import os
import time

given = sys.stdin.buffer.read()
said = f"the guard can't be loaded: {{problem}}"
base = os.environ.get("XDG_STATE_HOME", "")
base = base if base.startswith("/") else os.path.expanduser("~/.local/state")
path = {log_file!r} or base + "/drawbridge/guard.log"
try:
    os.write(2, f"{{said}}\\n".encode(errors="replace"))
    if b'"drawbridge-info"' not in given:  # `drawbridge info` reports this failure itself
        os.umask(0o077)
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o600)
        line = f"{{time.strftime('%Y-%m-%d %H:%M:%S')}} {agent}: failed ({fail}): {{said}}\\n"
        os.write(log, line.encode(errors="replace"))
except OSError:
    pass
if {closed} and b'"{before}"' in given:
    sys.exit(2)
print("{{}}")
sys.exit()
"""
"""The code that a stub runs if its copy of the guard is damaged. It writes one line to stderr and to the log instead of
a traceback and, if the guard fails closed, denies the tool call. The stub contains it as a string, so that it is not
compiled with the stub at each call."""


def directory() -> Path:
    return copies.data_directory() / "guard"


def stub_path(agent: str, project: Path | None = None) -> Path:
    """The path of an agent's stub: the one for the user's settings or, with ``project``, for that directory's."""
    mark = f"-{hashlib.blake2b(os.fsencode(os.path.realpath(project)), digest_size=6).hexdigest()}" if project else ""
    return directory() / f"{agent}{mark}.py"


def fast_command(agent: str, project: Path | None = None) -> list[str]:
    """The command with which an agent starts the installed guard."""
    return [choose().path, "-I", "-S", "-c", LOADER, str(stub_path(agent, project))]


def install(agent: str, settings: HookSettings, project: Path | None = None) -> list[str]:
    """Installs the guard for ``agent`` with these settings, and returns the command that starts it."""
    copy = install_copy()
    stub = stub_path(agent, project)
    write_private(str(stub), stub_text(agent, settings, copy))
    remove_old()
    return fast_command(agent, project)


def print_command(settings: HookSettings) -> int:
    """Runs ``drawbridge hook --print-command``: prints the command of the installed guard. Installs the guard if it is
    missing. The settings of an installed one are not changed."""
    agent = settings.agent
    stub = stub_path(agent)
    if not stub.exists():
        install(agent, settings)
    elif stub.read_bytes() != stub_text(agent, settings, copy_path()):
        note = (
            "Note: the installed guard has different settings, or is a different version. "
            f"`{own_command()} setup {agent}` updates it."
        )
        sys.stderr.write(note + "\n")
    sys.stdout.write(shlex.join(fast_command(agent)) + "\n")
    return 0


def copy_path() -> Path:
    """The path of the copy of this package's guard, which may not exist."""
    return directory() / copies.digest(_package(), PARTS)


def stub_text(agent: str, settings: HookSettings, copy: Path) -> bytes:
    """The text of a stub. Paths in the settings are made absolute, since a hook may start in any directory."""
    paths = [setting.name for setting in settings_of(HookSettings) if setting.spec.metavar in ("DIR", "FILE")]
    absolute: dict[str, Any] = {name: _absolute(getattr(settings, name)) for name in paths if getattr(settings, name)}
    settings = settings._replace(**absolute)
    lines = "".join(f"    {name!r}: {value!r},\n" for name, value in settings._asdict().items())
    damaged = DAMAGED.format(
        agent=agent,
        before=next(name for name, event in calls.dialect(agent).EVENTS.items() if event == calls.BEFORE),
        fail=settings.fail,
        closed=settings.fail == "closed",
        log_file=settings.log_file,
    )
    return STUB.format(
        title=catalog.title(agent), agent=agent, copy=str(copy), damaged=damaged, settings=f"{{\n{lines}}}"
    ).encode()


def settings_in(stub: Path) -> HookSettings | None:
    """The settings that a stub contains; None if the stub does not exist, or this version does not know its
    settings."""
    try:
        values = ast.literal_eval(stub.read_text("utf-8").rpartition("\nrun(")[2].rstrip().removesuffix(")"))
        return HookSettings(**values)
    except (OSError, ValueError, SyntaxError, TypeError):
        return None


def is_whole(copy: Path) -> bool:
    """Whether the copy is complete and unchanged."""
    return copies.digest(copy / "drawbridge", PARTS) == copy.name


def install_copy() -> Path:
    """Copies the guard's modules unless a complete copy exists, and compiles them for the chosen interpreter. Returns
    the copy's path.

    Raises ``NoProgram`` if no interpreter can be used, ``NotPrivate`` if the copy can't be written, ``ProgramFailed``
    if it does not run.
    """
    interpreter, place = choose(), copy_path()
    if is_whole(place):
        _compile(place, interpreter)
    else:
        copies.install(_package(), PARTS, place, "drawbridge", lambda copy: _compile(copy, interpreter))
    return place


def remove_old() -> None:
    """Removes the copies that no stub uses."""
    stubs = [stub.read_text("utf-8", "replace") for stub in directory().glob("*.py")]
    copies.remove_unused(directory(), lambda copy: any(copy.name in stub for stub in stubs))


def _absolute(given: str | tuple[str, ...]) -> str | tuple[str, ...]:
    if isinstance(given, tuple):
        return tuple(os.path.abspath(os.path.expanduser(path)) for path in given)
    return os.path.abspath(os.path.expanduser(given))


def _package() -> Path:
    return Path(drawbridge.__file__).parent


def _compile(copy: Path, interpreter: Interpreter) -> None:
    """Compiles the copy for this interpreter and tests whether it runs, unless both have been done. Raises
    ``ProgramFailed`` if it does not run, or if this takes longer than a minute."""
    root = copy / "drawbridge"
    if (root / "__pycache__" / f"__init__.{interpreter.tag}.pyc").exists():
        return
    command = [interpreter.path, "-I", "-S", "-c", TRY, str(copy)]
    try:
        subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=True)
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or [f"exit code {error.returncode}"])[-1].removesuffix(".")
        raise ProgramFailed(f"The guard's copy does not run with {interpreter.path}: {last}.") from None
    except subprocess.TimeoutExpired:
        raise ProgramFailed(
            f"The guard's copy could not be tested: {interpreter.path} did not finish within a minute. Run this again."
        ) from None
