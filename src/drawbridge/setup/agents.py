"""The agents that the guard can be set up for, in the catalog's order, each with the description of its hooks."""

from __future__ import annotations

import importlib
from typing import Final

from drawbridge.agents import catalog
from drawbridge.agents.hook_settings import AgentHooks

AGENTS: Final[dict[str, AgentHooks]] = {
    row.name: importlib.import_module(f"drawbridge.agents.{row.name}.hook_settings").SETTINGS
    for row in catalog.ROWS
    if row.hooks
}
