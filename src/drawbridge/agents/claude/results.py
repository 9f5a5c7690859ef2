"""Interprets a ``result`` line of ``claude``: whether the turn failed, its cost and its tokens. Pure.

Its fields are misleading (2.1.329): a failed API request or a missing login has ``"subtype": "success"`` with
``"is_error": true``, and ``total_cost_usd`` is the cost of the whole conversation, across processes and forks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from drawbridge.agents.base import Tokens
from drawbridge.agents.output import readable, sentence
from drawbridge.agents.results import (
    FAILED,
    NO_SESSION,
    RATE_LIMITED,
    TOO_LONG,
    UNAVAILABLE,
    Costs,
    Failure,
    amount,
    not_logged_in,
    with_reason,
)
from drawbridge.core.json_text import UNDECODABLE

LONGEST_ERROR: Final = 2_000
"""The maximum number of characters of an agent's text that an error contains."""

_UNAVAILABLE: Final = ("overloaded", "server_error")
"""Values of ``error`` of an ``assistant`` line if the model's service failed (2.1.332)."""

PROMPT_TOO_LONG: Final = "Prompt is too long"
"""The beginning of the CLI's text if the conversation no longer fits in the context window (2.1.332)."""

YEAR_2100: Final = 4_102_444_800
"""The latest plausible time, in seconds since 1970."""

MOST_TOKENS: Final = 10**10
"""The largest plausible number of tokens of one kind in one turn."""

_NO_CONVERSATION: Final = "No conversation found"
_DIAGNOSTIC: Final = "[ede_diagnostic]"  # a note for the CLI's developers


def failure(
    name: str, result: Mapping[str, Any], api_error: str | None, limited: float | None = None
) -> Failure | None:
    """The failure of the turn; None if it did not fail. ``api_error``: the ``error`` of its last ``assistant`` line.
    ``limited``: the latest result of ``limited_until``.
    """
    is_error = result.get("is_error")
    if is_error is False or (not isinstance(is_error, bool) and result.get("subtype") == "success"):
        return None
    given, subtype = _reason(result), result.get("subtype")
    match subtype:
        case "error_max_turns":
            limit = given or "it reached its turn limit."
            return Failure(FAILED, f"{name} stopped: {limit} Send a prompt to continue.")
        case "error_max_budget_usd":
            limit = given or "it reached its budget."
            return Failure(FAILED, f"{name} stopped: {limit} Raise max_budget_usd to continue.")
    reason = given or f"{name} gave no reason ({readable(str(subtype))[:100]})."
    if api_error == "authentication_failed":
        return not_logged_in(name, given)
    if api_error == "rate_limit":
        return Failure(RATE_LIMITED, with_reason(f"{name} has reached its usage limit", given), limited)
    shown = reason if given else f"The run failed: {reason}"
    if api_error in _UNAVAILABLE:
        return Failure(UNAVAILABLE, shown)
    if reason.startswith(PROMPT_TOO_LONG):
        text = f"The conversation no longer fits in the context window: {reason}"
        return Failure(TOO_LONG, f"{text} Compact it with /compact, or start a new session.")
    return explained(name, reason) or Failure(FAILED, shown)


def explained(name: str, reason: str) -> Failure | None:
    """The failure if the agent's text reports that the agent does not have the conversation; otherwise None."""
    if _NO_CONVERSATION in reason:
        return Failure(
            NO_SESSION,
            f"{name} can't find this conversation: {sentence(reason)} It may have been deleted. Start a new session.",
        )
    return None


class _Limits(Struct):
    status: Any = None
    resetsAt: Any = None  # noqa: N815 - the CLI's own name


class _LimitEvent(Struct):
    rate_limit_info: _Limits


def limited_until(data: bytes) -> float | None:
    """The time at which the account's limit resets, in seconds since 1970, from a ``rate_limit_event``. None if no
    limit was reached or the time is unknown."""
    try:
        limits = msgspec.json.decode(data, type=_LimitEvent).rate_limit_info
    except UNDECODABLE:
        return None
    until = amount(limits.resetsAt)
    return until if limits.status == "rejected" and until is not None and until < YEAR_2100 else None


def was_aborted(result: Mapping[str, Any]) -> bool:
    reason = result.get("terminal_reason")
    return isinstance(reason, str) and reason.startswith("aborted")


def _reason(result: Mapping[str, Any]) -> str:
    """The agent's text about the failure, as one or more human-readable sentences; empty if it gave none."""
    errors = result.get("errors")
    words = [word for word in errors if isinstance(word, str)] if isinstance(errors, list) else []
    words = [word for word in words if not word.startswith(_DIAGNOSTIC)]
    if not words and isinstance(result.get("result"), str):
        words = [result["result"]]
    reason = readable("; ".join(words))[:LONGEST_ERROR]
    return sentence(reason) if reason else ""


def add_costs(costs: Costs, result: Mapping[str, Any]) -> None:
    """Adds the cost that a ``result`` reports. The result may belong to a turn that the agent began on its own."""
    costs.add(amount(result.get("total_cost_usd")), _usage(result.get("model_usage_since_last_result")))


def tokens(result: Mapping[str, Any]) -> Tokens | None:
    """The tokens used since the previous result: by all models (2.1.329) or by the main one (earlier versions). None if
    ``result`` reports none."""
    models = result.get("model_usage_since_last_result")
    if isinstance(models, dict):
        given = [usage for usage in models.values() if isinstance(usage, dict)]
        kinds = (("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"), ("outputTokens",))
    else:
        given = [usage] if isinstance(usage := result.get("usage"), dict) else []
        kinds = (("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"), ("output_tokens",))
    read, written = (sum(_count(usage.get(name)) for usage in given for name in names) for names in kinds)
    return Tokens(read, written) if read or written else None


def added(one: Tokens | None, other: Tokens | None) -> Tokens | None:
    if one is None or other is None:
        return one or other
    return Tokens(one.input + other.input, one.output + other.output)


def _count(value: object) -> int:
    """``value``, rounded down, if it is a plausible number of tokens; 0 for anything else."""
    found = amount(value)
    return int(found) if found is not None and found < MOST_TOKENS else 0


def _usage(models: object) -> float | None:
    """The cost since the previous result, in US dollars, summed over the models. 2.1.329 reports it for each model.
    None if it is not reported, as in older versions."""
    if not isinstance(models, dict):
        return None
    costs = [amount(usage.get("costUSD")) for usage in models.values() if isinstance(usage, dict)]
    return sum(cost for cost in costs if cost is not None)
