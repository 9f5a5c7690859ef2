"""A command with its own server fails with the error of that server, under the same code."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from drawbridge.cli.own_server import NotStarted, own_server


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """The command ignores SIGINT once its server ends."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def fails(*arguments: str) -> NotStarted:
    with (
        pytest.raises(NotStarted) as caught,
        own_server(*arguments, failure="The review can't be shown", quiet=True),
    ):
        pass
    return caught.value


def test_a_setting_that_cannot_be_used(home: Path) -> None:
    error = fails("--idle-timeout", "never")
    assert (error.code, error.exit_code) == ("BAD_SETTING", 2)
    assert str(error).startswith("The review can't be shown: --idle-timeout must be")


def test_data_that_cannot_be_used(home: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    error = fails("--data-dir", str(tmp_path / "file"))
    assert (error.code, error.exit_code) == ("NOT_PRIVATE", 3)
    assert "NOT_PRIVATE" not in str(error), "the command adds it"


def test_an_error_that_the_server_has_printed_is_not_repeated(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop, own_server("--idle-timeout", "never", failure="The demo did not start"):
        pass
    assert stop.value.code == 2
    assert capfd.readouterr().err.startswith("drawbridge serve: --idle-timeout must be")
