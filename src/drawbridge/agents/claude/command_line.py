"""The command line and the environment with which ``claude`` is started. Pure.

Values are passed as ``--flag=value``, so that none is read as a flag. A flag with several values is repeated, so that
it does not consume the next argument (2.1.329). A prompt is never in a command line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from drawbridge.agents import catalog
from drawbridge.agents import environment as common
from drawbridge.agents.base import MODEL_NAME, AgentUnusable, Launch, Options
from drawbridge.agents.modes import BYPASS

OLDEST: Final = catalog.AGENTS["claude"].oldest
"""The first version with the stream format used here; also the oldest version that the official SDKs support."""

LONGEST_ARGUMENT: Final = 100_000
"""The maximum size of one value, in bytes. Linux accepts arguments of up to 131,072."""

STREAM: Final = (
    "--output-format=stream-json",
    "--verbose",
    "--input-format=stream-json",
    "--permission-prompt-tool=stdio",
)

STATES: Final = {"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1"}
"""Variables that make the CLI report ``session_state_changed``. Only the state "idle" means that all subagents have
ended (2.1.329)."""

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_PATTERN: Final = re.compile(r"[\x00-\x1f\x7f()*?!\[\]{}\\,]")
_CONTROL_IN_PROSE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def arguments(launch: Launch) -> list[str]:
    """The arguments for ``claude``. Raises ``AgentUnusable`` (VALIDATION_FAILED) for an invalid value. The text names
    the option."""
    return [*STREAM, *_session(launch), *_flags(launch.options), *_files(launch.files)]


def environment(base: Mapping[str, str], directory: str, mark: str) -> dict[str, str]:
    """Like ``agents.environment.environment``, plus the name of the program that starts the CLI, which the CLI reports
    to its vendor and to hooks."""
    return common.environment(base, directory, mark) | {"CLAUDE_CODE_ENTRYPOINT": "drawbridge"}


def version(answer: str) -> tuple[int, ...] | None:
    """The version in the output of ``claude --version``, such as "2.1.329 (Claude Code)"; None if the output does not
    begin with a version."""
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", answer)
    return tuple(map(int, numbers.groups())) if numbers else None


def _session(launch: Launch) -> Iterator[str]:
    for name, value in (("session_id", launch.session_id), ("fork_from", launch.fork_from)):
        if value is not None and not _UUID.fullmatch(value):
            raise _unusable(name, "it is not a UUID")
    if launch.fork_from is not None:
        yield from (f"--resume={launch.fork_from}", "--fork-session", f"--session-id={launch.session_id}")
    elif launch.resume:
        yield f"--resume={launch.session_id}"
    else:
        yield f"--session-id={launch.session_id}"


def _flags(options: Options) -> Iterator[str]:
    switches = {
        "--dangerously-skip-permissions": options.dangerously_skip_permissions,
        "--strict-mcp-config": options.strict_mcp_config,
        "--include-partial-messages": options.partial_messages,
        "--restricted": options.restricted,
    }
    yield from (flag for flag, wanted in switches.items() if wanted)
    # Without this flag, the owner's settings choose the mode, even one that never asks (2.1.329).
    mode = options.permission_mode or (BYPASS if options.dangerously_skip_permissions else "default")
    _check_word("options.permission_mode", mode)
    yield f"--permission-mode={mode}"
    for name, check in _VALUES.items():
        given = getattr(options, name)
        for value in (given,) if isinstance(given, str) and given else given or ():
            check(f"options.{name}", value)
            yield f"{_FLAGS.get(name) or '--' + name.replace('_', '-')}={value}"
    if options.max_turns is not None:
        if options.max_turns < 1:
            raise _unusable("options.max_turns", "it must be at least 1")
        yield f"--max-turns={options.max_turns}"
    if options.max_budget_usd is not None:
        if not (options.max_budget_usd > 0 and math.isfinite(options.max_budget_usd)):
            raise _unusable("options.max_budget_usd", "it must be a finite number greater than 0")
        yield f"--max-budget-usd={options.max_budget_usd:.10g}"


def _files(directory: str | None) -> Iterator[str]:
    """Yields the flag for a rule that lets the agent read files in ``directory`` without asking. With ``--add-dir``, it
    might also write there. The rule also applies to files that are added later, and to ``cat`` and similar commands
    (2.1.329). A path that the CLI would read as a pattern does not get a rule, so the agent asks.
    """
    if directory is not None and not _PATTERN.search(directory):
        yield f"--allowedTools=Read(/{directory}/**)"


def _check_text(name: str, value: str, strange: re.Pattern[str] = _CONTROL) -> None:
    found = strange.search(value)
    if found:
        raise _unusable(name, f"it contains the control character U+{ord(found[0]):04X}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise _unusable(name, "it is not valid Unicode") from None
    if size > LONGEST_ARGUMENT:
        raise _unusable(name, f"it is {size:,} bytes; the limit is {LONGEST_ARGUMENT:,}")


def _check_prose(name: str, value: str) -> None:
    _check_text(name, value, _CONTROL_IN_PROSE)


def _check_word(name: str, value: str) -> None:
    if not _WORD.fullmatch(value):
        raise _unusable(name, "it is not a valid name")


def _check_model(name: str, value: str) -> None:
    if not MODEL_NAME.fullmatch(value):
        raise _unusable(name, "it is not a valid model name")


def _check_rule(name: str, value: str) -> None:
    """Checks that the value is one rule, such as "Bash(git log *)", because the CLI splits at commas and spaces outside
    parentheses. Raises ``AgentUnusable``."""
    _check_text(name, value)
    depth, fits = 0, value[:1] not in ("", "-", "(")
    for at, sign in enumerate(value):
        depth += (sign == "(") - (sign == ")")
        inside = depth > 0 or (sign == ")" and at == len(value) - 1)
        fits = fits and (inside or sign not in " ,)")
    if depth or not fits:
        raise _unusable(name, f'{value[:80]!r} is not a single rule, such as "Bash(git log *)"')


def _check_directory(name: str, value: str) -> None:
    _check_text(name, value)
    if not value.startswith("/"):
        raise _unusable(name, "it is not an absolute path")


_VALUES: Final[dict[str, Callable[[str, str], None]]] = {
    "model": _check_model,
    "fallback_model": _check_model,
    "effort": _check_word,
    "system_prompt": _check_prose,
    "append_system_prompt": _check_prose,
    "mcp_config": _check_prose,
    "allowed_tools": _check_rule,
    "disallowed_tools": _check_rule,
    "add_dirs": _check_directory,
}
_FLAGS: Final = {"allowed_tools": "--allowedTools", "disallowed_tools": "--disallowedTools", "add_dirs": "--add-dir"}


def _unusable(name: str, problem: str) -> AgentUnusable:
    return AgentUnusable("VALIDATION_FAILED", f"{name}: {problem}. The agent was not started.")
