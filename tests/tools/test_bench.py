"""The parts of ``make bench`` also start outside pytest, which adds directories to ``sys.path``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bench.__main__ import PARTS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("part", PARTS)
def test_each_part_starts_in_a_plain_interpreter(part: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", f"import bench.{part}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
