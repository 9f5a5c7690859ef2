"""The socket for a server's own programs is accessible only to the user."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from drawbridge.transport import private_socket


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sets the socket directory and returns it. Its path is short, because a socket's path is limited to about 100
    bytes."""
    short = Path(os.environ["TMPDIR"]) / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(short))
    return short / "drawbridge" / "serve"


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_socket_and_directory_are_private_to_the_user(place: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with private_socket.listening():
            [address] = private_socket.addresses()
            assert stat.S_ISSOCK(os.stat(address).st_mode)
            assert stat.S_IMODE(os.stat(address).st_mode) == 0o600
            assert stat.S_IMODE(place.stat().st_mode) == 0o700
    finally:
        os.umask(before)
    assert private_socket.addresses() == []


def test_sockets_of_killed_servers_are_removed_and_nothing_else(place: Path) -> None:
    place.mkdir(parents=True, mode=0o700)
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(place / "0000000000001-4711.sock"))
    others = {"4711.json", "session-4711.waiting"}
    for name in others:
        (place / name).touch()
    with private_socket.listening():
        assert len(private_socket.addresses()) == 1
    assert set(os.listdir(place)) == others


def test_a_directory_that_others_can_write_to_is_ignored(place: Path) -> None:
    with private_socket.listening():
        assert len(private_socket.addresses()) == 1
        place.chmod(0o770)
        assert private_socket.addresses() == []
        place.chmod(0o700)
