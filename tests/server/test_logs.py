"""The server's log is limited in size, and records how long each run took."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from drawbridge.server import logs
from tests.server.core_rig import Client, serving


@pytest.fixture
def own_logging() -> Iterator[None]:
    """Restores the logging configuration that ``configure`` changes."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    for handler in handlers:
        root.removeHandler(handler)  # otherwise, ``configure`` would close them
    yield
    for handler in root.handlers[:]:
        root.removeHandler(handler)
        handler.close()
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)


def test_a_full_log_file_is_rotated_and_the_oldest_is_deleted(
    tmp_path: Path, own_logging: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "FILE_BYTES", 2_000)
    file = tmp_path / "server.log"
    logs.configure("info", "json", str(file))
    for number in range(300):
        logging.getLogger("drawbridge.server").info("line %d \N{SNOWMAN}", number)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["server.log", *(f"server.log.{number}" for number in range(1, logs.FILES_KEPT + 1))]
    assert all(path.stat().st_size <= 2_000 for path in tmp_path.iterdir())
    assert "line 299" in file.read_text()


@pytest.mark.parametrize("form", ["console", "json"])
def test_a_lone_surrogate_in_a_name_is_logged(
    tmp_path: Path, own_logging: None, capsys: pytest.CaptureFixture[str], form: Literal["console", "json"]
) -> None:
    file = tmp_path / "server.log"
    logs.configure("info", form, str(file))
    try:
        raise ValueError("\ud800")
    except ValueError:
        logging.getLogger("drawbridge.server").exception("%s failed", "/code/\ud800")
    assert "/code/\\ud800 failed" in file.read_text().replace("\\\\", "\\")
    assert capsys.readouterr().err == ""


async def test_the_duration_of_a_run_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "drawbridge.server")
    async with serving(tmp_path) as server:
        phone = Client()
        project = await server.project(phone)
        process = await server.running(phone, project, "a secret thought")
        process.ends()
    [logged] = [record.getMessage() for record in caplog.records if " ended after " in record.getMessage()]
    [finished] = phone.updates("run_finished")
    assert logged == f"{project}: {finished['run_id']} ended after {finished['duration_ms'] / 1000:.1f} s: completed"
    assert "secret" not in caplog.text
