"""The socket through which this user's programs reach the user's agent servers, without a setting, a token or a port.

::

    $XDG_STATE_HOME/drawbridge/serve/          0700, for this user only (or in ~/.local/state/…)
        1795252621992-4711.sock                0600; its server's start (milliseconds since 1970) and process id
        4711.json                              0600; what that server announced (``transport.running``)
        <session>.waiting                      comments wait for this agent session: its next prompt or stop hook
                                               receives them. If it contains "wake", a hook that watches it
                                               wakes the agent

A program connects to the newest socket that has a listener. If several servers are running, that socket belongs to the
one that started last or, once it has ended, to the one before it. ``guard.find.servers`` does the same without this
module.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator, Mapping

from drawbridge.core.errors import NotPrivate
from drawbridge.core.private_files import (
    PRIVATE_FILE,
    make_private_directory,
    process_alive,
    remove_quietly,
    state_directory,
)

ENDING = ".sock"
NEW_ENDING = f"{ENDING}.new"


def directory(environ: Mapping[str, str] = os.environ) -> str:
    return os.path.join(state_directory(environ), "serve")


@contextlib.contextmanager
def listening() -> Iterator[socket.socket]:
    """A listening socket of this process. It is removed at the end of the block. Raises ``NotPrivate``."""
    place = directory()
    make_private_directory(place)
    _sweep(place)
    path = os.path.join(place, f"{time.time_ns() // 1_000_000:013d}-{os.getpid()}{ENDING}")
    unfinished = path.removesuffix(ENDING) + NEW_ENDING
    listener = socket.socket(socket.AF_UNIX)
    try:
        try:
            listener.bind(unfinished)
            os.chmod(unfinished, PRIVATE_FILE)
            listener.listen(128)
            os.rename(unfinished, path)  # clients can't find it until it listens
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None)
            if why is None:  # Python itself refused the path, which is longer than a socket's address may be
                raise NotPrivate(
                    f"{path} can't be created: the path is too long for a socket. Set XDG_STATE_HOME to a shorter path."
                ) from None
            raise NotPrivate(f"{path} can't be created: {why.lower()}.") from None
        listener.setblocking(False)
        yield listener
    finally:
        listener.close()
        remove_quietly(unfinished)
        remove_quietly(path)


def addresses() -> list[str]:
    """The paths where a server may listen, newest first; empty if the directory is missing, belongs to another user, or
    is open to other users."""
    place = directory()
    try:
        names = [name for name in os.listdir(place) if name.endswith(ENDING)]
        status = os.stat(place)
    except OSError:
        return []
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        return []
    return [os.path.join(place, name) for name in sorted(names, reverse=True)]


def _sweep(place: str) -> None:
    """Removes the sockets of servers that were killed."""
    for name in os.listdir(place):
        if not name.endswith((ENDING, NEW_ENDING)):
            continue
        path = os.path.join(place, name)
        with contextlib.suppress(OSError, ValueError), socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                # The socket of a server that is starting still has its temporary name, and may be about to listen.
                if name.endswith(ENDING) or not process_alive(int(name.partition("-")[2].partition(".")[0])):
                    os.unlink(path)
