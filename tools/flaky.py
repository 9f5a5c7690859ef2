"""Finds tests that fail only sometimes and, in CI, separates them from those that always fail.

In CI a failed test is run again, alone, after all the others. A test that passes then is listed as FLAKY and does not
fail the run. It has a defect that must be fixed, but it does not block a change that works.
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
"""The environment variable that names the file to which tests that failed and then passed are added. CI sets it."""

MOST = 10
"""The maximum number of tests that are run again. The tests that earlier runs have added to the same file count toward
it. If more fail, the run stops and fails, and no test is run again."""

BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
"""A program that keeps a processor busy until it is killed or its parent ends."""

FAILED = 1
"""Pytest's exit code if tests failed. Any other code except 0 means that not all of them ran."""


def run(pytest: Sequence[str], file: Path, root: Path = ROOT) -> int:
    """Runs the command ``pytest``, and then each failed test again, one at a time. Returns the exit code.

    Adds the tests that passed the second time to ``file``, one per line. Node ids are relative to ``root``.
    """
    left = MOST - len(listed(file))
    code, failed = _pytest(pytest, f"--maxfail={left + 1}")
    if code != FAILED or len(failed) > left:
        return code
    log(f"running the failed tests again, one at a time: {', '.join(failed)}")
    code, failed_again = _pytest(pytest, "--numprocesses=0", *(f"{root}/{test}" for test in failed))
    if code in (0, FAILED):
        with file.open("a", encoding="utf-8") as opened:
            opened.writelines(f"{test}\n" for test in failed if test not in failed_again)
    return code


def listed(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def campaign(pytest: Sequence[str], arguments: Sequence[str]) -> int:
    """Runs a selection many times, and prints each test that failed, with its number of failures and its first output.

    ``arguments``: ``--rounds N``, ``--load L`` (busy processes alongside it) and arguments for pytest. Returns 0 if no
    test failed, 1 if one did, or pytest's exit code if not all tests ran.
    """
    parser = argparse.ArgumentParser(prog="tools/dev.py flaky", description=campaign.__doc__, add_help=False)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--load", type=int, default=0)
    options, selection = parser.parse_known_args(arguments)
    times: Counter[str] = Counter()
    first: dict[str, str] = {}
    with busy(options.load):
        for number in range(1, options.rounds + 1):
            log(f"round {number} of {options.rounds}, alongside {options.load} busy processes")
            code, failed = _pytest(pytest, *selection)
            if code not in (0, FAILED):
                return code
            times.update(failed.keys())
            first = failed | first
    for test, count in times.most_common():
        print(f"\n== {test}: failed in {count} of {options.rounds} rounds\n{first[test]}")
    tests = "1 test" if len(times) == 1 else f"{len(times)} tests"
    print(f"\n{tests} failed at least once in {options.rounds} rounds.")
    for test, count in times.most_common():
        print(f"{count:4} {test}")
    return FAILED if times else 0


@contextlib.contextmanager
def busy(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Runs ``count`` processes that each keep a processor busy."""
    with contextlib.ExitStack() as stack:
        processes = []
        for _ in range(count):
            processes.append(stack.enter_context(subprocess.Popen([sys.executable, "-c", BUSY])))
            stack.callback(processes[-1].kill)
        yield processes


def _pytest(command: Sequence[str], *arguments: str) -> tuple[int, dict[str, str]]:
    """Runs pytest. Returns the exit code, and the first output of each test that failed, by its node ID."""
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
