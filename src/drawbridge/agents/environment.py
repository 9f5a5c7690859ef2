"""The program and the environment with which an agent is started."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from typing import Final

from drawbridge.agents import catalog
from drawbridge.agents.base import AgentUnusable

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


async def program(name: str, path: str, environment: Mapping[str, str], install: str = "") -> str:
    """The absolute path of an agent's program. ``path``: its name or path. ``install``: what to install if it is
    missing, for an agent whose program ``--agent-path`` can set.

    Raises ``AgentUnusable`` (AGENT_NOT_FOUND).
    """
    found = await asyncio.to_thread(_found, path, environment.get("PATH"))
    if found is None:
        where = f"at {path}" if os.sep in path else f"as `{path}` on PATH"
        text = f"The `{name}` agent can't run: its program was not found {where} on the server's machine."
        remedy = f"Install {install} there, or start the server with --agent-path {name}=PATH."
        raise AgentUnusable("AGENT_NOT_FOUND", f"{text} {remedy if install else 'Install it there.'}")
    return found


def _found(path: str, places: str | None) -> str | None:
    found = shutil.which(path, path=places)
    return None if found is None else os.path.abspath(found)
