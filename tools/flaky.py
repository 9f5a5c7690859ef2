"""Tests that fail now and then: found on purpose, and kept apart in CI from those that fail always.

In CI a failed test is run again, alone, after all the others. What passes then is listed as FLAKY, and does not fail the run:
it has a defect that is to be mended, but it does not hold back what is whole.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from bootstrap import ROOT, log

LIST = "DRAWBRIDGE_FLAKY"
"""The environment variable with the file that tests are added to which failed and then passed; CI sets it."""

MOST = 10
"""Tests that may be run again, of all runs that add to the same file. One more, and the run fails at once."""

BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
"""A program that uses a processor until it is ended, or its parent has ended."""

FAILED = 1
"""Pytest's exit code where tests failed; every other one but 0 means that not all of them ran."""


def run(pytest: Sequence[str], file: Path, root: Path = ROOT) -> int:
    """The exit code of the command ``pytest``, after what failed in it was run again, one test at a time.

    Adds the tests that passed then to ``file``, one a line. Node ids begin at ``root``.
    """
    left = MOST - len(listed(file))
    code, failed = _pytest(pytest, f"--maxfail={left + 1}")
    if code != FAILED or len(failed) > left:
        return code
    log(f"running what failed again, one at a time: {', '.join(failed)}")
    code, failed_again = _pytest(pytest, "--numprocesses=0", *(f"{root}/{test}" for test in failed))
    if code in (0, FAILED):
        with file.open("a", encoding="utf-8") as opened:
            opened.writelines(f"{test}\n" for test in failed if test not in failed_again)
    return code


def listed(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def campaign(pytest: Sequence[str], arguments: Sequence[str]) -> int:
    """Runs a selection many times, and prints each test that failed, how often, and its first output.

    ``arguments``: ``--rounds N``, ``--load L`` (busy processes beside it), and what is for pytest. 1 if a test failed.
    """
    parser = argparse.ArgumentParser(prog="tools/dev.py flaky", description=campaign.__doc__, add_help=False)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--load", type=int, default=0)
    options, selection = parser.parse_known_args(arguments)
    times: Counter[str] = Counter()
    first: dict[str, str] = {}
    with busy(options.load):
        for number in range(1, options.rounds + 1):
            log(f"round {number} of {options.rounds}, beside {options.load} busy processes")
            code, failed = _pytest(pytest, *selection)
            if code not in (0, FAILED):
                return code
            times.update(failed.keys())
            first = failed | first
    for test, count in times.most_common():
        print(f"\n== {test}: failed {count} of {options.rounds}\n{first[test]}")
    print(f"\n{len(times)} tests failed at least once in {options.rounds} rounds.")
    for test, count in times.most_common():
        print(f"{count:4} {test}")
    return FAILED if times else 0


@contextlib.contextmanager
def busy(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """That many processes which each use a processor."""
    with contextlib.ExitStack() as stack:
        processes = []
        for _ in range(count):
            processes.append(stack.enter_context(subprocess.Popen([sys.executable, "-c", BUSY])))
            stack.callback(processes[-1].kill)
        yield processes


def _pytest(command: Sequence[str], *arguments: str) -> tuple[int, dict[str, str]]:
    """The exit code, and the first output of each test that failed, by its node id."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "failures"
        file.touch()
        recorded = ["-p", "tools.failures", f"--failures-to={file}"]
        code = subprocess.run([*command, *recorded, *arguments], cwd=ROOT, check=False).returncode
        failed: dict[str, str] = {}
        for line in file.read_text(encoding="utf-8").splitlines():
            failure = json.loads(line)
            failed.setdefault(failure["test"], failure["output"])
        return code, failed
