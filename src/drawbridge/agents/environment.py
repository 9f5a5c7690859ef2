"""The environment in which an agent is started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from drawbridge.agents import catalog

MARK: Final = "DRAWBRIDGE_AGENT"
"""The environment variable that marks an agent process of the server and everything that the agent starts. Its value is
a different id for each agent process."""

SECRET: Final = ("DRAWBRIDGE_TOKEN", "DRAWBRIDGE_SERVE_*")
"""Drawbridge's own variables, in the form of ``Row.own_variables``: a bridge's token and the server's settings. They
are removed because they include secrets, such as that token and the webhook's address."""


def environment(base: Mapping[str, str], directory: str, mark: str) -> dict[str, str]:
    """The environment for an agent: ``base``, the server's environment, without the variables in ``SECRET`` and
    ``Row.own_variables``, but with those in ``Row.environment``, ``NO_COLOR``, ``PWD`` and the mark."""
    removed = [*SECRET, *(name for row in catalog.ROWS for name in row.own_variables)]
    names = {name for name in removed if not name.endswith("*")}
    prefixes = tuple(name[:-1] for name in removed if name.endswith("*"))
    passed_on = {name: value for name, value in base.items() if name not in names and not name.startswith(prefixes)}
    for row in catalog.ROWS:
        passed_on |= row.environment
    return passed_on | {"NO_COLOR": "1", "PWD": directory, MARK: mark}
