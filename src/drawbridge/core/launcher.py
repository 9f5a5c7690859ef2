"""``drawbridge nvim``: Neovim on a socket whose name says where it was started, and with the plugin.

The socket is ``/tmp/<blake3(directory)>-<pid>.sock`` (docs/protocols/guard.md). This process becomes Neovim: the pid
in the name, the exit code, signals and the terminal are Neovim's own. What the person gives goes to Neovim untouched; our two
options come before it, and where ``--listen`` is given twice Neovim takes the last (0.7.2 to 0.12.4).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from blake3 import blake3

from drawbridge.core import plugin
from drawbridge.core.errors import BadSetting, NoProgram, NotPrivate, Refused

PROGRAM: Final = "DRAWBRIDGE_NVIM_PROGRAM"
DIRECTORY: Final = "DRAWBRIDGE_SOCKET_DIR"

PROBE: Final = "DRAWBRIDGE_NVIM_PROBE"
"""Set while a program is asked for its version: a script called ``nvim`` may well be one that starts us."""

OURSELVES: Final = "Drawbridge"
"""What we answer then."""

OLDEST: Final = (0, 7)
PROBE_SECONDS: Final = 5.0
CONNECT_SECONDS: Final = 1.0

LONGEST_PATH: Final = 107 if sys.platform == "linux" else 103
"""Bytes that the path of a socket may have: ``sun_path`` without the zero at its end."""

UNQUOTED: Final = re.compile(rb"[^A-Za-z0-9/._ -]")


def launch(arguments: Sequence[str]) -> int:
    """Become Neovim. Returns only from a probe of ourselves; raises where Neovim was not started."""
    if os.environ.get(PROBE):
        sys.stdout.write(f"{OURSELVES}\n")
        return 0
    program = find_neovim()
    path = socket_path(_here(), os.getpid())
    make_way(path)
    command = [program, "--listen", path, "--cmd", _first_command(path), *arguments]
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python; Neovim's children would inherit it
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execv(program, command)
    except OSError as error:
        raise NoProgram(f"{program} can't be run: {_why(error)}. Nothing was started.") from None


def socket_directory(environ: Mapping[str, str] = os.environ) -> str:
    return environ.get(DIRECTORY) or "/tmp"  # noqa: S108 - the specification's; sticky, and owner and type are checked


def socket_prefix(directory: str, environ: Mapping[str, str] = os.environ) -> str:
    """What the sockets of the editors in ``directory`` begin with: ``<pid>.sock`` or ``vscode-<pid>.sock`` follows.

    The directory's links are resolved; of a name that is no UTF-8, U+FFFD stands for what can't be read.
    """
    canonical = os.fsencode(os.path.realpath(directory)).decode(errors="replace").encode()
    return os.path.join(socket_directory(environ), f"{blake3(canonical).hexdigest()}-")


def socket_path(directory: str, pid: int, environ: Mapping[str, str] = os.environ) -> str:
    """Where Neovim ``pid`` in ``directory`` listens. Raises ``BadSetting`` where no socket can be."""
    path = os.path.abspath(f"{socket_prefix(directory, environ)}{pid}.sock")
    place = os.path.dirname(path)
    problem = ""
    if not os.path.isdir(place):
        problem = f"{place} is no directory. Make it, or name another one"
    elif len(os.fsencode(path)) > LONGEST_PATH:
        problem = (
            f"{path} has more than {LONGEST_PATH} bytes, which no socket's name may have. Name a shorter directory"
        )
    if problem:
        raise BadSetting(f"{problem} in {DIRECTORY}. Neovim was not started.")
    return path


def make_way(path: str) -> None:
    """Remove a dead socket of ours. Raises where anything else is there, which is left alone."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    other = (
        f"Neovim was not started. Try again (each start has another name), or name a directory of yours in {DIRECTORY}."
    )
    if found.st_uid != os.geteuid():
        raise NotPrivate(f"{path} belongs to another user. {other}")
    if not stat.S_ISSOCK(found.st_mode):
        raise Refused(f"{path} is no socket and was left alone. {other}")
    if _is_live(path):
        raise Refused(f"Somebody listens at {path} already. {other}")
    os.unlink(path)


def find_neovim(environ: Mapping[str, str] = os.environ) -> str:
    """The program that ``DRAWBRIDGE_NVIM_PROGRAM`` names, else the first ``nvim`` on PATH that is Neovim and not ourselves."""
    named = environ.get(PROGRAM)
    passed_over = []
    for candidate in [named] if named else _on_path("nvim", environ):
        said = _version(os.path.expanduser(candidate), environ)
        if isinstance(said, str):
            passed_over.append(f"{candidate} {said}")
        elif said < OLDEST:
            raise NoProgram(
                f"{candidate} is Neovim {said[0]}.{said[1]}; 0.7 or newer is needed. Nothing was started. "
                f"Install a newer one, or name one in {PROGRAM}."
            )
        else:
            return shutil.which(os.path.expanduser(candidate), path=environ.get("PATH")) or candidate
    if named:
        raise BadSetting(f"{PROGRAM}: {passed_over[0]}. Nothing was started.")
    found = f" ({'; '.join(passed_over)})" if passed_over else ""
    raise NoProgram(
        f"There is no nvim on PATH{found}. Nothing was started. Install Neovim 0.7 or newer, or name its program in {PROGRAM}."
    )


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise BadSetting("The current directory was removed. Nothing was started; go to another one.") from None


def _first_command(path: str) -> str:
    """What Neovim does before it reads the person's configuration; lua/drawbridge/launched.lua says what that is."""
    runtime = plugin.directory()
    script = runtime / "lua" / "drawbridge" / "launched.lua"
    words = ", ".join(_lua_text(word) for word in (path, str(runtime), sys.executable))
    return f"lua dofile({_lua_text(str(script))})({words})"


def _lua_text(text: str) -> str:
    """As a Lua literal that an Ex command can hold, whatever is in it."""
    escaped = UNQUOTED.sub(lambda byte: b"\\%03d" % byte[0][0], os.fsencode(text))
    return f"'{escaped.decode()}'"


def _is_live(path: str) -> bool:
    """Whether somebody listens at the socket. In doubt (busy, no answer): yes."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(CONNECT_SECONDS)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
    return True


def _on_path(name: str, environ: Mapping[str, str]) -> Iterator[str]:
    for directory in environ.get("PATH", os.defpath).split(os.pathsep):
        if found := shutil.which(name, path=directory or os.curdir):
            yield found


def _version(program: str, environ: Mapping[str, str]) -> tuple[int, int] | str:
    """(0, 12); or what is wrong with the program, to be read after its name."""
    try:
        answer = subprocess.run(
            [program, "--version"],
            env={**environ, PROBE: "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PROBE_SECONDS,
            check=False,
        ).stdout
    except subprocess.TimeoutExpired:
        return f"gave no version in {PROBE_SECONDS:g} seconds"
    except (OSError, ValueError) as error:
        return f"can't be run: {_why(error)}"
    said = re.match(rb"NVIM v(\d+)\.(\d+)", answer)
    if said is None:
        return "starts Drawbridge" if answer.startswith(OURSELVES.encode()) else "is not Neovim"
    return int(said[1]), int(said[2])


def _why(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
