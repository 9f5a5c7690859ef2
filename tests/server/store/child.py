"""A process that appends to a history, either until it is killed or while writes fail. Run as a module.

With the arguments ``forever DIRECTORY``, it writes each record's number to stdout once ``append`` has returned. All
other commands print "ok" at the end. ``full``, ``full_at_a_new_day`` and ``read_only`` first mount a small disk on the
directory.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

from drawbridge.core.errors import HistoryNotWritten
from drawbridge.server.store import log as module
from tests.server.store.rig import all_seqs, fill, message, open_history, read_independently


def forever(directory: Path) -> None:
    module.MOST_RECORDS, module.CHECKPOINT_RECORDS = 300, 70  # type: ignore[misc]
    history = open_history(directory)
    while True:
        record = history.append("claude", message("x", size=history.last_seq % 9_000))
        os.write(1, b"%d\n" % record.seq)


def mount(directory: Path, *options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", directory], check=True)


def full(directory: Path) -> None:
    """The disk has 256 kB, and is enlarged to 1 MB once it is full."""
    mount(directory, "size=256k")
    logs = directory / "logs"
    history = open_history(logs)
    fill_up(history, logs)
    (directory / "filler").unlink(missing_ok=True)
    subprocess.run(["mount", "-o", "remount,size=1m", directory], check=True)
    continues(history, logs)


def refused(history: module.History, size: int) -> HistoryNotWritten | None:
    """Appends a record with ``size`` bytes of filler. Returns the error if the record was refused, otherwise None."""
    try:
        fill(history, 1, size=size)
    except HistoryNotWritten as error:
        return error
    return None


def fill_up(history: module.History, logs: Path) -> None:
    while not (error := refused(history, 1_000)):
        pass
    assert error.disk_full, error
    assert "It is unchanged" in str(error)
    assert history.last_seq > 50
    for size in (10_000, 100, 5_000):  # the disk is still full, but a small record may fit
        written = history.last_seq
        before = {path: path.read_bytes() for path in logs.glob("messages_*")}
        if refused(history, size):
            assert {path: path.read_bytes() for path in logs.glob("messages_*")} == before
        else:
            written += 1
        assert (history.last_seq, history.count) == (written, written)
        assert (
            [record["seq"] for record in read_independently(logs)] == list(range(1, written + 1)) == all_seqs(history)
        )


def continues(history: module.History, logs: Path) -> None:
    written = history.last_seq
    fill(history, 3, size=10_000)
    history.close()
    assert all_seqs(open_history(logs)) == list(range(1, written + 4))
    assert [record["seq"] for record in read_independently(logs)] == list(range(1, written + 4))


def full_at_a_new_day(directory: Path) -> None:
    """The disk has no space for the first line of a new file, so the file is not kept."""
    mount(directory, "size=256k")
    logs = directory / "logs"
    history = open_history(logs)
    fill(history, 1)
    used = sum(path.stat().st_size for path in logs.iterdir())
    (directory / "filler").write_bytes(b"x" * (256 * 1024 - used - 4096 * 8))
    module.MOST_RECORDS = 1  # type: ignore[misc]
    names = sorted(logs.glob("messages_*"))
    error = refused(history, 100_000)
    assert error is not None
    assert error.disk_full, error
    assert sorted(logs.glob("messages_*")) == names
    (directory / "filler").unlink()
    continues(history, logs)


def read_only(directory: Path) -> None:
    """A history that ends in a torn line is opened on a read-only disk, which becomes writable again later."""
    mount(directory, "size=1m")
    logs = directory / "logs"
    history = open_history(logs)
    fill(history, 5)
    [file] = logs.glob("messages_*")
    with file.open("ab") as torn:
        torn.write(b'{"seq":6,')
    history.close()
    del history
    subprocess.run(["mount", "-o", "remount,ro", directory], check=True)
    history = open_history(logs)
    before = file.read_bytes()
    for _ in range(2):
        error = refused(history, 1)
        assert error is not None
        assert "read-only file system" in str(error)
        assert not error.disk_full
    assert file.read_bytes() == before
    assert all_seqs(history) == [1, 2, 3, 4, 5]
    subprocess.run(["mount", "-o", "remount,rw", directory], check=True)
    continues(history, logs)


def limited(directory: Path) -> None:
    """Files are limited to about 100 kB. The system writes only a part of the record at the limit, and the next write
    fails.
    """
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_500, resource.RLIM_INFINITY))
    logs = directory / "logs"
    history = open_history(logs)
    fill_up(history, logs)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    continues(history, logs)


if __name__ == "__main__":
    {act.__name__: act for act in (forever, full, full_at_a_new_day, read_only, limited)}[sys.argv[1]](
        Path(sys.argv[2])
    )
    os.write(1, b"ok\n")
