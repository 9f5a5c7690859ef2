"""Runs all checks in parallel, for a limited time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from drawbridge.core import beside
from drawbridge.core.errors import BadSetting
from drawbridge.core.own_command import own_command
from drawbridge.doctor import agents, bridges, editors, hooks, machine, servers
from drawbridge.doctor.finding import Check, Finding, finding

SECONDS: Final = 9.0
"""The time limit for all checks together, in seconds. Each check has its own, shorter limits."""

SEVERITIES: Final = ("problem", "warning", "note", "ok")


def report() -> list[Finding]:
    """All findings for the current directory, most severe first."""
    directory = os.path.realpath(os.curdir)
    checks = [
        *agents.checks(directory),
        *hooks.checks(directory),
        *bridges.checks(directory),
        *editors.checks(directory),
        *servers.checks(),
        *machine.checks(),
    ]
    found = run(checks, SECONDS)
    return sorted(found, key=lambda one: SEVERITIES.index(one.severity))


def run(checks: Sequence[Check], seconds: float) -> list[Finding]:
    """The findings in the order of the checks. A check that does not end in time is reported."""
    results = beside.each(_safely, checks, seconds)
    named = ([_late(check, seconds)] if found is None else found for check, found in zip(checks, results, strict=True))
    return [one for findings in named for one in findings]


def _safely(check: Check) -> list[Finding]:
    try:
        return check.run()
    except BadSetting:
        return []  # the check of the settings reports this problem
    except Exception as error:  # the results of the other checks are more useful than a traceback
        why = "The check itself failed, so it is not known whether anything is wrong."
        title = f"Could not check {check.name}: {type(error).__name__}."
        return [finding("check-failed", title, why, f"Report this, with the output of `{own_command()} info`.")]


def _late(check: Check, seconds: float) -> Finding:
    title = f"Could not check {check.name} within {seconds:g} seconds."
    return finding(
        "check-late",
        title,
        "The check is stuck, or the machine is very busy.",
        "Try again when the machine is less busy.",
    )
