"""Other commands find this user's running servers by what the servers have announced."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import psutil
import pytest

from drawbridge.core.process_start import StartTime, started_at
from drawbridge.transport import private_socket, running


def of(pid: int, began: StartTime | None) -> bytes:
    found = running.Running(
        pid=pid, began=began, url="wss://x", pages=(), loopback=True, fingerprint=None, data_dir="/srv/data"
    )
    return msgspec.json.encode(found)


def test_announcements_of_killed_servers_are_ignored_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    place = Path(private_socket.directory())
    place.mkdir(parents=True, mode=0o700)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (place / f"{ended.pid}.json").write_bytes(of(ended.pid, 0.0))
    parent = psutil.Process(os.getppid())
    (place / f"{parent.pid}.json").write_bytes(of(parent.pid, started_at(parent.pid)))
    assert [one.pid for one in running.announcements()] == [parent.pid]
    with running.announced(tmp_path, "wss://y", (), None, loopback=True):
        assert {path.name for path in place.iterdir()} == {f"{parent.pid}.json", f"{os.getpid()}.json"}
        assert {one.pid for one in running.announcements()} == {parent.pid, os.getpid()}
