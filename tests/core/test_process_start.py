"""A process is distinguished from a later one with the same PID, whatever happens to the clock."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import psutil
import pytest

from drawbridge.core import process_start
from drawbridge.core.process_start import is_same_process, started_at

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how long after its boot a process began")


def test_a_process_is_recognized() -> None:
    assert is_same_process(os.getpid(), started_at(os.getpid()))
    assert is_same_process(os.getpid(), None)


def test_a_later_process_with_the_same_id_is_another_one() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as later:
        assert not is_same_process(later.pid, started_at(os.getpid()))
        assert not is_same_process(later.pid, psutil.Process(later.pid).create_time() - 60)


@pytest.mark.parametrize("pid", [-1, 2**22 + 1, 2**80])
def test_a_process_that_does_not_exist_is_no_process(pid: int) -> None:
    assert started_at(pid) is None
    assert not is_same_process(pid, "a start")
    assert not is_same_process(pid, 5.0)


def test_times_of_earlier_versions_are_understood() -> None:
    assert is_same_process(os.getpid(), psutil.Process().create_time())


@ON_LINUX
def test_the_clock_may_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    began, boot = started_at(os.getpid()), psutil.boot_time()
    pslinux: Any = psutil._pslinux
    monkeypatch.setattr(pslinux, "boot_time", lambda: boot + 3_600)
    assert psutil.Process().create_time() > boot + 3_600
    assert is_same_process(os.getpid(), began)


@ON_LINUX
def test_a_process_of_an_earlier_boot_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    began = started_at(os.getpid())
    monkeypatch.setattr(process_start, "_boot", lambda: "another boot")
    assert not is_same_process(os.getpid(), began)


@ON_LINUX
def test_the_name_of_a_program_may_contain_anything(tmp_path: Any) -> None:
    program = tmp_path / ") R 1 2 ("
    program.symlink_to(sys.executable)
    with subprocess.Popen([program, "-c", "input()"], stdin=subprocess.PIPE) as running:
        began = started_at(running.pid)
    assert isinstance(began, str)
    assert int(began.split()[1]) > 0
