"""The first milliseconds of a bridge: listen, write the discovery files, then load the rest.

An agent that finds its discovery file before the bridge is ready waits in the socket's backlog.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable

from drawbridge.core.errors import BadSetting, EditorGone
from drawbridge.ide.discovery import gemini_directory, lock_directory, sweep
from drawbridge.ide.launched import SIGNALS, Launched
from drawbridge.settings.ide import IdeSettings


def launch(settings: IdeSettings) -> int:
    """Runs a bridge until its editor or a signal ends it. Returns the exit code."""
    _on_signal(lambda: os._exit(0))  # there is nothing to remove yet
    folder = _folder(settings)
    address = settings.nvim
    if address and address != "stdio":
        _check_address(address)
    launched = Launched(settings)
    # The handler must not raise, because during an import, Python ignores exceptions in some places, and the bridge
    # would continue.
    _on_signal(launched.end)
    try:
        sweep(lock_directory())
        sweep(gemini_directory())
        # If Neovim's jobstart() has started the bridge, the parent process is the editor, in the same directory. The
        # bridge corrects the process id and the folders once it has asked the editor.
        editor_pid = os.getppid() if address == "stdio" else os.getpid()
        folders = [os.path.realpath(path) for path in settings.workspace] or [folder or os.getcwd()]
        launched.write_files(editor_pid, "Neovim" if address else "Terminal", folders)
        launched.announce()
        if launched.is_ending:
            return 0

        from drawbridge.ide.bridge import run

        return run(launched, folders, folder)
    finally:
        launched.remove_files()
        launched.listener.close()


def _folder(settings: IdeSettings) -> str | None:
    """The real path of the ``folder`` setting; None if it is not set. Raises ``BadSetting`` with the problems of all
    paths among the settings."""
    problems = [
        f"{path} is not a directory"
        for path in [*settings.workspace, settings.folder]
        if path and not os.path.isdir(path)
    ]
    if settings.log_file:
        try:
            open(settings.log_file, "a").close()
        except OSError as error:
            problems.append(f"{settings.log_file} can't be written: {(error.strerror or str(error)).lower()}")
    if problems:
        raise BadSetting("; ".join(problems) + ".")
    return os.path.realpath(settings.folder) if settings.folder else None


def _check_address(address: str) -> None:
    """Raises ``EditorGone`` if nothing accepts a connection at ``address``. Called before anything is announced."""
    host, separator, port = address.rpartition(":")
    try:
        if "/" not in address and separator and port.isdigit():
            socket.create_connection((host, int(port)), timeout=5).close()
        else:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(5)
                probe.connect(address)
    except (OSError, ValueError, OverflowError) as error:  # the last two mean that the host or port is invalid
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        is_missing = isinstance(error, FileNotFoundError | ConnectionRefusedError)
        advice = f" Start it with nvim --listen {address}." if is_missing else ""
        raise EditorGone(f"Can't connect to Neovim at {address}: {reason}.{advice}") from None


def _on_signal(act: Callable[[], None]) -> None:
    for number in SIGNALS:
        signal.signal(number, lambda *_: act())
