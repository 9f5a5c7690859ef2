"""``drawbridge nvim``: starts Neovim with the plugin, on a socket that is named after the current directory.

The socket is ``<blake3(directory)>-<pid>.sock`` in ``/tmp`` or in ``$DRAWBRIDGE_SOCKET_DIR``
(docs/internals/protocols/guard.md). This process becomes Neovim, so the pid in the name, the exit code, signals and the
terminal are Neovim's own. The user's arguments reach Neovim unchanged, after the two options that are added. If
``--listen`` is given twice, Neovim uses the last one (0.7.2 to 0.12.4).
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
"""The environment variable that is set while a program is asked for its version, because a script called ``nvim`` may
start ``drawbridge nvim``."""

OURSELVES: Final = "Drawbridge"
"""The text that ``drawbridge nvim`` prints instead of starting Neovim if ``PROBE`` is set."""

OLDEST: Final = (0, 7, 2)
PROBE_SECONDS: Final = 5.0
CONNECT_SECONDS: Final = 1.0

LONGEST_PATH: Final = 107 if sys.platform == "linux" else 103
"""The maximum length of a socket's path in bytes: ``sun_path`` without its terminating zero."""

UNQUOTED: Final = re.compile(rb"[^A-Za-z0-9/._ -]")


def launch(arguments: Sequence[str]) -> int:
    """Replaces this process with Neovim. Returns 0 if another ``drawbridge`` command asks for the version. Otherwise,
    does not return. Raises ``BadSetting``, ``NoProgram``, ``NotPrivate`` or ``Refused`` if Neovim can't be started.
    """
    if os.environ.get(PROBE):
        sys.stdout.write(f"{OURSELVES}\n")
        return 0
    program = find_neovim()
    path = socket_path(_here(), os.getpid())
    make_way(path)
    command = [program, "--listen", path, "--cmd", _first_command(path), *arguments]
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and Neovim's children would inherit that
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execv(program, command)
    except OSError as error:
        raise NoProgram(f"Neovim was not started: {program} can't be run: {_why(error)}.") from None


def socket_directory(environ: Mapping[str, str] = os.environ) -> str:
    return environ.get(DIRECTORY) or "/tmp"  # noqa: S108 - specified; /tmp is sticky, and owner and type are checked


def socket_prefix(directory: str, environ: Mapping[str, str] = os.environ) -> str:
    """The beginning of the socket paths of the editors in ``directory``; ``<pid>.sock`` or ``vscode-<pid>.sock``
    follows.

    Symbolic links in ``directory`` are resolved. Bytes of its name that are not UTF-8 are replaced by U+FFFD.
    """
    canonical = os.fsencode(os.path.realpath(directory)).decode(errors="replace").encode()
    return os.path.join(socket_directory(environ), f"{blake3(canonical).hexdigest()}-")


def socket_path(directory: str, pid: int, environ: Mapping[str, str] = os.environ) -> str:
    """The path at which the Neovim process ``pid`` in ``directory`` listens. Raises ``BadSetting`` if the directory of
    the sockets does not exist, or if the path is too long for a socket."""
    path = os.path.abspath(f"{socket_prefix(directory, environ)}{pid}.sock")
    place = os.path.dirname(path)
    problem = ""
    if not os.path.isdir(place):
        problem = f"{place} is not a directory. Set {DIRECTORY} to an existing directory."
    elif len(os.fsencode(path)) > LONGEST_PATH:
        problem = (
            f"the path of its socket, {path}, is longer than {LONGEST_PATH} bytes. "
            f"Set {DIRECTORY} to a directory with a shorter path."
        )
    if problem:
        raise BadSetting(f"Neovim was not started: {problem}")
    return path


def make_way(path: str) -> None:
    """Removes this user's dead socket at ``path``. Raises ``NotPrivate`` or ``Refused`` if anything else is there, and
    leaves it unchanged."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    failed = "Neovim was not started:"
    other = f"Try again (each start uses a different name), or set {DIRECTORY} to your own directory."
    if found.st_uid != os.geteuid():
        raise NotPrivate(f"{failed} {path} belongs to another user. {other}")
    if not stat.S_ISSOCK(found.st_mode):
        raise Refused(f"{failed} {path} is not a socket. It was not changed. {other}")
    if _is_live(path):
        raise Refused(f"{failed} another program seems to be listening on {path}. {other}")
    os.unlink(path)


def find_neovim(environ: Mapping[str, str] = os.environ) -> str:
    """The program that ``DRAWBRIDGE_NVIM_PROGRAM`` names, otherwise the first ``nvim`` on PATH that is Neovim, is new
    enough and not Drawbridge. Raises ``NoProgram`` if no Neovim is found or all are too old, and ``BadSetting`` if the
    named program can't be used for another reason."""
    named = environ.get(PROGRAM)
    passed_over, too_old = [], ""
    for candidate in [named] if named else _on_path("nvim", environ):
        version = _version(os.path.expanduser(candidate), environ)
        if isinstance(version, str):
            passed_over.append(f"{candidate} {version}")
        elif version < OLDEST:
            too_old = too_old or f"{candidate} can't be used: it is Neovim {'.'.join(map(str, version))}"
        else:
            return shutil.which(os.path.expanduser(candidate), path=environ.get("PATH")) or candidate
    if too_old:
        remedy = f"Install a newer version, or set {PROGRAM} to its path."
        raise NoProgram(f"{too_old}, and 0.7.2 or newer is required. {remedy}")
    if named:
        raise BadSetting(f"{PROGRAM} can't be used: {passed_over[0]}. Set it to the path of Neovim 0.7.2 or newer.")
    why = "; ".join(passed_over) or "nvim is not on PATH"
    raise NoProgram(f"Neovim was not found: {why}. Install Neovim 0.7.2 or newer, or set {PROGRAM} to its path.")


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise BadSetting(
            "Neovim was not started: the current directory was deleted. Change to another directory."
        ) from None


def _first_command(path: str) -> str:
    """The command that Neovim runs before it reads the user's configuration. It loads lua/drawbridge/launched.lua."""
    runtime = plugin.directory()
    script = runtime / "lua" / "drawbridge" / "launched.lua"
    words = ", ".join(_lua_text(word) for word in (path, str(runtime), sys.executable))
    return f"lua dofile({_lua_text(str(script))})({words})"


def _lua_text(text: str) -> str:
    """A Lua literal that is safe in an Ex command, whatever the text contains."""
    escaped = UNQUOTED.sub(lambda byte: b"\\%03d" % byte[0][0], os.fsencode(text))
    return f"'{escaped.decode()}'"


def _is_live(path: str) -> bool:
    """Whether a program listens on the socket; also True if that is unknown (busy, no answer)."""
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


def _version(program: str, environ: Mapping[str, str]) -> tuple[int, ...] | str:
    """The version, such as (0, 12, 4); or the problem with the program, worded to follow its name in a sentence."""
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
        return f"did not print its version within {PROBE_SECONDS:g} seconds"
    except (OSError, ValueError) as error:
        return f"can't be run: {_why(error)}"
    found = re.match(rb"NVIM v(\d+)\.(\d+)\.(\d+)", answer)
    if found is None:
        return "starts Drawbridge" if answer.startswith(OURSELVES.encode()) else "does not print Neovim's version"
    return tuple(map(int, found.groups()))


def _why(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
