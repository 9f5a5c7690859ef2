"""Runs the unit tests of the modules that do not need VS Code, with Node.js's own test runner."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests import programs

HERE = Path(__file__).resolve().parent


def test_the_unit_tests_of_modules_without_vs_code_pass() -> None:
    command = [str(programs.node()), "--test", "--test-reporter=dot", *map(str, sorted(HERE.glob("unit/*.test.js")))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stdout + done.stderr
