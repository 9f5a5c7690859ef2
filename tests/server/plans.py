"""Plans of servers for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drawbridge.server.plan import Plan
from drawbridge.settings.serve import ServeSettings


def plan_of(data: Path, root: Path, **planned: Any) -> Plan:
    """The plan of a server with its data in ``data`` and its projects in ``root``, which writes without ``fsync``.
    ``planned``: attributes to set on the plan."""
    plan = Plan(ServeSettings(data_dir=str(data), allow=(str(root),), fsync="off"))
    for name, value in planned.items():
        assert hasattr(plan, name), name
        setattr(plan, name, value)
    return plan
