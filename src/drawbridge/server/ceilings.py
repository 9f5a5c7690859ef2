"""What the owner lets clients ask of an agent. Pure.

A client can ask for less than the owner allows, never for more: an option above its ceiling is refused by name, and
what a client leaves open is filled with the ceiling, so that leaving it open is no way around it.
"""

from __future__ import annotations

import fnmatch
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct

from drawbridge.server.agents.port import Options
from drawbridge.server.client_errors import ClientError
from drawbridge.settings import CLIENT_MODES

BYPASS: Final = "bypassPermissions"
"""Asks for nothing at all: no mode of a client."""


class Ceilings(Struct, frozen=True):
    """``None`` and empty tuples: no ceiling. The defaults let through what a person at the terminal would be asked about."""

    modes: tuple[str, ...] = CLIENT_MODES
    skip_permissions: bool = False
    mcp_config: bool = False
    """MCP servers are programs that are started: off unless the owner wants it."""
    tools: tuple[str, ...] = ()
    """Patterns of rules that ``allowed_tools`` may hold, as ``Bash(git *)``; a client may allow what fits one."""
    models: tuple[str, ...] = ()
    """Patterns of models."""
    max_turns: int | None = None
    max_budget_usd: float | None = None
    restricted: bool = False
    """Every run is ``restricted``, whatever the client asks."""
    hours: tuple[int, int] | None = None
    """From the first hour to before the second, local time; (22, 6) is over midnight."""


def within(ceilings: Ceilings, asked: Options, now: datetime) -> Options:
    """The options to run with. Raises ``ClientError`` (PERMISSION_DENIED) that names the option."""
    if ceilings.hours is not None and not _is_open(ceilings.hours, now.hour):
        first, last = ceilings.hours
        raise ClientError(
            "PERMISSION_DENIED", f"The owner lets agents run from {first}:00 to {last}:00. Nothing was started."
        )
    if asked.dangerously_skip_permissions and not ceilings.skip_permissions:
        raise _denied("dangerously_skip_permissions", "is not allowed here")
    mode = asked.permission_mode
    if mode is not None and mode not in (*ceilings.modes, *((BYPASS,) if ceilings.skip_permissions else ())):
        raise _denied("permission_mode", f"must be one of {', '.join(ceilings.modes)}")
    if asked.mcp_config is not None and not ceilings.mcp_config:
        raise _denied("mcp_config", "is not allowed here")
    for rule in asked.allowed_tools if ceilings.tools else ():
        if not any(fnmatch.fnmatchcase(rule, pattern) for pattern in ceilings.tools):
            raise _denied("allowed_tools", f"may not hold {rule[:100]}")
    for name in ("model", "fallback_model"):
        model = getattr(asked, name)
        if (
            model is not None
            and ceilings.models
            and not any(fnmatch.fnmatchcase(model, one) for one in ceilings.models)
        ):
            raise _denied(name, f"must be one of {', '.join(ceilings.models)}")
    return msgspec.structs.replace(
        asked,
        max_turns=_lower("max_turns", asked.max_turns, ceilings.max_turns),
        max_budget_usd=_lower("max_budget_usd", asked.max_budget_usd, ceilings.max_budget_usd),
        restricted=asked.restricted or ceilings.restricted,
    )


def _lower(name: str, asked: float | None, ceiling: float | None) -> float | None:
    if ceiling is None:
        return asked
    if asked is not None and not asked <= ceiling:
        raise _denied(name, f"may be {ceiling:g} at most")
    return ceiling if asked is None else asked


def _denied(name: str, why: str) -> ClientError:
    return ClientError("PERMISSION_DENIED", f"{name} {why}. Nothing was started.", field=f"data.options.{name}")


def _is_open(hours: tuple[int, int], hour: int) -> bool:
    first, last = hours
    return first <= hour < last if first <= last else hour >= first or hour < last
