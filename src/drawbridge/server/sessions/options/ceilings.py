"""Ceilings and budgets: the limits that the owner sets for what clients can request, and for what runs may cost. Pure.

A client can request less than the owner allows, never more. An option above its ceiling is refused with an error that
names the option, and an option that a client omits gets a value within its ceiling. The exception is the model. If the
owner allows models only by patterns, a client has to name one. The same ceilings apply to what a decision lets the
agent remember.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from drawbridge.agents.base import MODEL_NAME, Options
from drawbridge.agents.modes import BYPASS, word
from drawbridge.agents.tool_calls import Directories, Grant, Mode, Option, Other, Rules, ToolCall
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.settings.serve import CLIENT_MODES

COVERED: Final = frozenset(
    {
        "dangerously_skip_permissions",
        "permission_mode",
        "mcp_config",
        "allowed_tools",
        "add_dirs",
        "model",
        "fallback_model",
        "max_turns",
        "max_budget_usd",
        "restricted",
    }
)
"""The options with a ceiling."""

HARMLESS: Final[Mapping[str, str]] = {
    "disallowed_tools": "removes tools",
    "strict_mcp_config": "leaves servers out",
    "append_system_prompt": "text for the model, like a prompt",
    "system_prompt": "text for the model, like a prompt",
    "effort": "affects the cost, which the budgets limit",
    "partial_messages": "what is reported, not what is done",
}
"""Maps each option without a ceiling to the reason. A test requires each option to be either in ``COVERED`` or here."""


LEAST_USD: Final = 0.01
"""The US dollars that must be left of a budget before a run is started."""

DAYS_KEPT: Final = 3
"""The number of days for which costs are kept, so that setting the clock back, or traveling west, does not grant a
day's budget twice."""

_LENIENCE: Final[Mapping[str, int]] = {
    "plan": 0,
    "dontAsk": 1,
    "default": 1,
    "manual": 1,
    "acceptEdits": 2,
    "auto": 3,
    BYPASS: 4,
}
"""The modes, each with a number for how much an agent does in it without asking. A higher number means more."""


class Ceilings(Struct, frozen=True):
    """The owner's limits. ``None`` and empty tuples mean no limit. By default, clients can request everything except
    skipped permissions, commits, pushes and MCP servers."""

    modes: tuple[str, ...] = CLIENT_MODES
    """The modes that clients may choose. Unless these include all of ``CLIENT_MODES``, a client that chooses none gets
    "default" if it is among them, and otherwise the first."""
    skip_permissions: bool = False
    commits: bool = False
    """Whether a client may commit, which runs the user's git hooks and signs commits as the user's git does."""
    pushes: bool = False
    """Whether a client may push and create pull requests, which uses the user's access to their remotes."""
    mcp_config: bool = False
    """Whether a client may set MCP servers, which are programs that the agent starts."""
    tools: tuple[str, ...] = ()
    """Patterns for the rules in ``allowed_tools``, with ``*`` for anything, such as ``Bash(git *)``."""
    models: tuple[str, ...] = ()
    """Names of models, with ``*`` for anything. A client that chooses none gets the first name without ``*``. If all
    names contain ``*``, the client has to choose."""
    max_turns: int | None = None
    max_budget_usd: float | None = None
    project_budget_usd: float | None = None
    """US dollars for all runs of one project together."""
    day_budget_usd: float | None = None
    """US dollars for all runs on one day (local time) in all projects."""
    restricted: bool = False
    """Whether every run is ``restricted``, whatever the client requests."""
    hours: tuple[int, int] | None = None
    """The hours in which runs may begin, in local time, from the first up to the second. (22, 6) spans midnight."""


def within(
    ceilings: Ceilings, asked: Options, now: datetime, usable: Callable[[str], bool], *, own_modes: bool = False
) -> Options:
    """Applies the ceilings to the options that a client chose. Returns the options to run with. ``usable`` returns
    whether an additional directory is allowed. ``own_modes``: whether the agent has its own modes.

    Raises ``ClientError``: PERMISSION_DENIED outside the hours in which runs may begin. An option that is not
    allowed raises PERMISSION_DENIED, a directory INVALID_PATH, and a model name that is not valid VALIDATION_FAILED.
    The error names the option.
    """
    check_hours(ceilings, now)
    if asked.dangerously_skip_permissions and not ceilings.skip_permissions:
        raise _denied("dangerously_skip_permissions", "is not allowed by the owner")
    if asked.mcp_config is not None and not ceilings.mcp_config:
        raise _denied("mcp_config", "is not allowed by the owner")
    for rule in asked.allowed_tools:
        if not _rule_fits(ceilings, rule):
            raise _denied("allowed_tools", f"must not contain {rule[:100]}, which the owner does not allow")
    for index, given in enumerate(asked.add_dirs):
        if not usable(given):
            field = f"data.options.add_dirs[{index}]"
            raise ClientError(
                "INVALID_PATH", "The directory was not found, or this server does not allow it.", field=field
            )
    return msgspec.structs.replace(
        asked,
        permission_mode=_mode(ceilings, asked.permission_mode, own_modes=own_modes),
        model=_model(ceilings, asked.model),
        fallback_model=_fallback(ceilings, asked.fallback_model),
        max_turns=_lower("max_turns", asked.max_turns, ceilings.max_turns),
        max_budget_usd=_lower("max_budget_usd", asked.max_budget_usd, ceilings.max_budget_usd),
        restricted=asked.restricted or ceilings.restricted,
    )


def modes(ceilings: Ceilings) -> list[str]:
    """The modes that a client may choose for any agent. An agent's own modes are not included."""
    return [mode for mode in (*CLIENT_MODES, BYPASS) if mode_fits(ceilings, mode, own_modes=False)]


def checked_mode(
    ceilings: Ceilings, mode: str, field: str = "data.options.permission_mode", *, own_modes: bool = False
) -> str:
    """Returns ``mode``. Raises ``ClientError`` (PERMISSION_DENIED) if clients may not choose it."""
    if not mode_fits(ceilings, mode, own_modes=own_modes):
        own = ", or one of the agent's own modes" if own_modes and _all_modes(ceilings) else ""
        raise _denied(field.rpartition(".")[2], f"must be one of {', '.join(modes(ceilings))}{own}", field)
    return mode


def checked_model(ceilings: Ceilings, model: str, field: str = "data.options.model") -> str:
    """Returns ``model``. Raises ``ClientError``: VALIDATION_FAILED if the name is not valid, PERMISSION_DENIED if
    clients may not choose it."""
    if model and not MODEL_NAME.fullmatch(model):
        text = f'{field}: it must be a model name, such as "opus".'
        raise ClientError("VALIDATION_FAILED", text, field)
    if ceilings.models and not _fits(model, ceilings.models):
        raise _denied(field.rpartition(".")[2], f"must match one of {', '.join(ceilings.models)}", field)
    return model


def check_hours(ceilings: Ceilings, now: datetime) -> None:
    """Raises ``ClientError`` (PERMISSION_DENIED) outside the hours in which runs may begin."""
    if ceilings.hours is not None and not is_open(ceilings.hours, now.hour):
        first, last = ceilings.hours
        text = f"The owner allows runs to start only from {first}:00 to {last}:00, by the server's clock."
        raise ClientError("PERMISSION_DENIED", text)


def check_allowed(ceilings: Ceilings, call: ToolCall, remember: bool, usable: Callable[[str], bool]) -> None:
    """Checks that clients may allow this tool call and, with ``remember``, let the agent remember what it suggests.
    Otherwise raises ``ClientError`` (PERMISSION_DENIED), and the approval request stays open."""
    if call.kind == "plan" and not mode_fits(ceilings, "default"):
        text = (
            "The plan can't be accepted: the agent would leave plan mode for the default mode, which the owner does "
            "not allow. The request is still open."
        )
        raise ClientError("PERMISSION_DENIED", text, field="data.decision")
    for above in _above(ceilings, call.grants, usable) if remember else ():
        text = (
            f"This server does not allow agents to remember {above}. The request is still open: accept only this call, "
            "or reject it."
        )
        raise ClientError("PERMISSION_DENIED", text, field="data.remember")


def _above(ceilings: Ceilings, grants: Iterable[Grant], usable: Callable[[str], bool]) -> Iterator[str]:
    """Describes what an agent would remember although the owner does not allow it. Anything that the server does not
    understand exceeds every limit for tools and modes.
    """
    for grant in grants:
        match grant:
            case Rules(effect="allow", rules=rules):
                yield from (rule.text[:100] for rule in rules if not _rule_fits(ceilings, rule.text))
            case Rules() | Other(widens=False):
                pass
            case Mode(mode=mode):
                if not mode_fits(ceilings, mode):
                    yield f"the {mode[:100]} mode"
            case Directories(paths=paths, are_valid=are_valid):
                if not are_valid or not all(map(usable, paths)):
                    yield "access to these directories"
            case Option() | Other():
                if ceilings.tools or not _all_modes(ceilings):
                    yield "a suggestion that it does not understand"


def _rule_fits(ceilings: Ceilings, rule: str) -> bool:
    return not ceilings.tools or (_is_one_rule(rule) and _fits(rule, ceilings.tools))


def _is_one_rule(rule: str) -> bool:
    """Whether the text is a single rule. If it contained two, such as "Bash(git log) Bash(rm *)", a pattern for the
    first would also accept the second."""
    name, _, content = rule.partition("(")
    depth = 0
    for at, sign in enumerate(content):
        depth += (sign == "(") - (sign == ")")
        if depth < 0 and at != len(content) - 1:
            return False
    return re.fullmatch(r"[^\s,()]+", name) is not None and (depth == -1 if content else rule == name)


def _fits(text: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns matches the whole text. Only ``*`` is special in a pattern, because if ``?`` matched
    any character, it would also match a ``*`` in the text, which stands for more."""
    return any(re.fullmatch(".*".join(map(re.escape, one.split("*"))), text, re.DOTALL) for one in patterns)


def _all_modes(ceilings: Ceilings) -> bool:
    return set(CLIENT_MODES) <= set(ceilings.modes)


def mode_fits(ceilings: Ceilings, mode: str, *, own_modes: bool = False) -> bool:
    """Whether clients may choose the mode. ``own_modes``: whether the agent may have its own modes, which are allowed
    if the owner allows all of ``CLIENT_MODES``."""
    known = word(mode) if own_modes else mode
    if known == BYPASS:
        return ceilings.skip_permissions
    return known in ceilings.modes or (own_modes and known not in CLIENT_MODES and _all_modes(ceilings))


def reported_mode_fits(ceilings: Ceilings, mode: str, *, own_modes: bool) -> bool:
    """Whether a mode that an agent reports is allowed. A known mode other than ``BYPASS`` is allowed if it asks at
    least as much as one of the modes that clients may choose. Any other mode is allowed if clients may choose it."""
    known = word(mode)
    if known in _LENIENCE and known != BYPASS:
        return _LENIENCE[known] <= max(_LENIENCE[allowed] for allowed in ceilings.modes)
    return mode_fits(ceilings, mode, own_modes=own_modes)


def usual_mode(ceilings: Ceilings) -> str:
    """The mode of a run if nobody has chosen one."""
    return _mode(ceilings, None, own_modes=False) or "default"


def _mode(ceilings: Ceilings, asked: str | None, *, own_modes: bool) -> str | None:
    if asked is not None:
        return checked_mode(ceilings, asked, own_modes=own_modes)
    if _all_modes(ceilings):
        return None
    return "default" if "default" in ceilings.modes else ceilings.modes[0]


def _model(ceilings: Ceilings, asked: str | None) -> str | None:
    if asked is not None:
        return checked_model(ceilings, asked)
    if not ceilings.models:
        return None
    usual = next((one for one in ceilings.models if "*" not in one), None)
    if usual is None:
        raise _denied("model", f"is required, and must match one of {', '.join(ceilings.models)}")
    return usual


def _fallback(ceilings: Ceilings, asked: str | None) -> str | None:
    """Returns ``asked``: None if no model was chosen, or one or more names of models, separated by commas, as Claude
    Code accepts them (2.1.329). Raises ``ClientError`` as ``checked_model`` does, for the first name that fails."""
    for one in () if asked is None else asked.split(","):
        checked_model(ceilings, one.strip(), "data.options.fallback_model")
    return asked


def _lower(name: str, asked: float | None, ceiling: float | None) -> Any:
    if ceiling is None:
        return asked
    if asked is not None and not 0 < asked <= ceiling:
        raise _denied(name, f"must be greater than 0 and at most {ceiling:g}")
    return ceiling if asked is None else asked


def _denied(name: str, why: str, field: str = "") -> ClientError:
    return ClientError("PERMISSION_DENIED", f"{name} {why}.", field=field or f"data.options.{name}")


def is_open(hours: tuple[int, int], hour: int) -> bool:
    """Whether runs may begin at that hour of the day."""
    first, last = hours
    return first <= hour < last if first <= last else hour >= first or hour < last


class Budgets:
    """The budgets of projects and days in US dollars, and the costs of runs that agents have reported.

    A project's budget is for all its runs, and a day's budget is for the runs of all projects. A day begins at local
    midnight. The cost of a run is only known when it ends (Claude Code 2.1.329 does not report it sooner), so each run
    begins with what is left as its own budget. Simultaneous runs can each spend that amount, but not more.

    ``project``, ``day``: None for no limit. Spending is counted by directory: a project that is deleted and created
    again does not get a new budget, unless the deleted project is no longer in the trash when the server starts.
    """

    def __init__(self, project: float | None = None, day: float | None = None) -> None:
        self._project = project
        self._day = day
        self._of_projects: defaultdict[str, float] = defaultdict(float)
        self._of_days: defaultdict[str, float] = defaultdict(float)

    def spent_before(self, directory: str, total: float, days: Mapping[str, float]) -> None:
        """Adds what the runs of a stored project cost. Called when the project is loaded or found in the trash."""
        self._of_projects[directory] += total
        for day, amount in days.items():
            self._of_days[day] += amount

    def spend(self, directory: str, amount: float, now: datetime) -> None:
        self._of_projects[directory] += amount
        self._of_days[day_of(now)] += amount
        forget_old(self._of_days)

    def left(self, directory: str, now: datetime) -> float | None:
        """The amount that a run of this project may still cost, in US dollars; None for no limit. Raises
        ``ClientError`` (BUDGET_EXCEEDED) if less than ``LEAST_USD`` is left."""
        left = None
        for name, limit, spent in (
            ("project", self._project, self._of_projects.get(directory, 0.0)),
            ("day", self._day, self._of_days.get(day_of(now), 0.0)),
        ):
            if limit is None:
                continue
            if limit - spent < LEAST_USD:
                raise _exceeded(name, limit, spent)
            left = limit - spent if left is None else min(left, limit - spent)
        return left

    def today(self, now: datetime) -> float:
        return self._of_days.get(day_of(now), 0.0)


def day_of(moment: datetime) -> str:
    """The local date, such as "2026-11-21"."""
    return moment.astimezone().date().isoformat()


def forget_old(days: dict[str, float]) -> None:
    """Removes all but the latest ``DAYS_KEPT`` days."""
    for day in sorted(days)[:-DAYS_KEPT]:
        del days[day]


def _exceeded(name: str, limit: float, spent: float) -> ClientError:
    whose = "this project" if name == "project" else "today"
    again = "" if name == "project" else " Agents can run again after midnight, by the server's clock."
    return ClientError(
        "BUDGET_EXCEEDED",
        f"The owner's budget for {whose}, ${limit:g}, is used up.{again}",
        details={"budget": name, "limit_usd": limit, "spent_usd": round(spent, 6)},
    )
