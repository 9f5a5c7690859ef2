"""Settings: defaults < file < environment < flags. One table for each command; ``--help`` and the docs come from it.

The file is ``$DRAWBRIDGE_CONFIG``, else ``drawbridge/config.toml`` in the platform's configuration directory; a table in it
carries the command's name. Environment variables are the names in capitals behind ``DRAWBRIDGE_`` for the bridge, behind
``DRAWBRIDGE_HOOK_`` for the guard and so on. Light: nothing heavy is imported unless it is needed, since the bridge's lock
file waits for this.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from drawbridge.agents import catalog
from drawbridge.core.errors import BadSetting
from drawbridge.settings_serve import CLIENT_MODES as CLIENT_MODES
from drawbridge.settings_serve import SERVE as SERVE
from drawbridge.settings_serve import SERVE_GROUPS as SERVE_GROUPS
from drawbridge.settings_serve import SPEC_VARIABLES as SPEC_VARIABLES
from drawbridge.settings_table import LEVELS as LEVELS
from drawbridge.settings_table import Setting as Setting

AGENTS: Final = tuple(row.name for row in catalog.ROWS if row.bridge)
"""Those that connect to an editor's bridge."""

STARTING: Final = ("ide", "serve")
"""Commands that start a long-running process."""

IDE: Final = (
    Setting("nvim", "text", None, "the Neovim to serve: its socket, host:port, or stdio", metavar="ADDRESS"),
    Setting("folder", "text", None, "no editor: a directory, proposals are shown in this terminal", metavar="DIR"),
    Setting("decide", "choice", None, "with --folder: decide every proposal without asking", ("accept", "reject")),
    Setting("workspace", "list", (), "a folder the agents may take as theirs (default: the editor's)", metavar="DIR"),
    Setting(
        "port", "number", None, "the port to listen on; the next one if it is taken", metavar="N", range=(1, 65_535)
    ),
    Setting("agent", "list", AGENTS, "an agent to serve (default: all)", AGENTS),
    Setting(
        "host",
        "list",
        (),
        "another name by which agents reach this machine, such as host.docker.internal",
        metavar="NAME",
    ),
    Setting("single_client", "switch", False, "one agent at a time: a new connection ends the one before"),
    Setting("mention", "choice", "recent", "who gets what you send: the agent active last, or all", ("recent", "all")),
    Setting(
        "reject",
        "choice",
        "upgrade",
        "how a bad token is refused: HTTP 401 before the upgrade, or WebSocket close 1008",
        ("upgrade", "1008"),
    ),
    Setting("context", "switch", True, "tell agents nothing of their own accord", flag="--no-context"),
    Setting("ignore", "list", None, "a file pattern kept from agents, instead of the built-in ones", metavar="PATTERN"),
    Setting("execute_code", "switch", False, "offer executeCode; you are asked each time"),
    Setting("json", "switch", False, "print the ready line on a terminal too, as JSON"),
    Setting("log_level", "choice", "warning", "how much is logged", LEVELS),
    Setting("log_file", "text", None, "log here instead of stderr", metavar="FILE"),
)
"""What ``drawbridge ide`` can be told."""

HOOK_AGENTS: Final = tuple(row.name for row in catalog.ROWS if row.hooks)

HOOK: Final = (
    Setting("agent", "choice", "claude", "the agent whose hook this is", HOOK_AGENTS),
    Setting(
        "policy",
        "choice",
        "current",
        "which files with unsaved changes are kept: the one you work on, those on the screen, all",
        ("current", "visible", "any"),
    ),
    Setting(
        "policy_for",
        "list",
        (),
        "another policy for one tool, such as Write=any or NotebookEdit=visible",
        metavar="TOOL={current,visible,any}",
        pattern=r"\w+=(current|visible|any)",
    ),
    Setting(
        "answer",
        "choice",
        "deny",
        "to an edit of such a file: deny it, ask you, wait for your save, save for you, or merge afterwards",
        ("deny", "ask", "wait", "save", "merge"),
    ),
    Setting("wait", "number", 30, "with answer = wait: seconds to wait for your save", metavar="S", range=(1, 300)),
    Setting(
        "unknown",
        "choice",
        "allow",
        "when an editor does not answer in time: let the edit through, ask you, or deny it",
        ("allow", "ask", "deny"),
    ),
    Setting(
        "fail", "choice", "open", "when the guard itself fails: let the edit through, or deny it", ("open", "closed")
    ),
    Setting("deadline", "number", 300, "milliseconds that all editors together have", metavar="MS", range=(20, 5_000)),
    Setting(
        "socket_dir",
        "list",
        None,
        "look for editors here, instead of in /tmp, the temporary directory and the runtime directory",
        metavar="DIR",
    ),
    Setting("selection", "switch", True, "do not add your selection to a prompt", flag="--no-selection"),
    Setting("diagnostics", "switch", True, "do not tell the agent what its edit made worse", flag="--no-diagnostics"),
    Setting("ignore", "list", None, "a file pattern kept from agents, instead of the built-in ones", metavar="PATTERN"),
    Setting("log_file", "text", None, "log here instead of guard.log in the state directory", metavar="FILE"),
)
"""What ``drawbridge hook`` can be told; ``drawbridge setup`` writes it into the installed form."""

ATTACH: Final = (
    Setting("url", "text", None, "the server's address (default: the server of this machine)", metavar="URL"),
    Setting("token_file", "text", None, "the file with the token (default: the one of that server)", metavar="FILE"),
    Setting("ca", "text", None, "the certificate to trust (default: the one of that server)", metavar="FILE"),
    Setting("fingerprint", "text", None, "the certificate's SHA-256 instead, as serve shows it", metavar="SHA256"),
)
"""What ``drawbridge attach`` can be told."""


def add_flags(
    parser: argparse.ArgumentParser, table: tuple[Setting, ...], groups: Mapping[str, tuple[str, ...]] | None = None
) -> None:
    """The flags of a table; one that is not given stays out of the parsed namespace. ``groups``: headings of the help →
    names of their settings.

    Values stay text: ``load`` checks them with those of the file and the environment, to say all problems at once.
    """
    places = {
        name: place
        for title, names in (groups or {}).items()
        for place in (parser.add_argument_group(title),)
        for name in names
    }
    for setting in table:
        flag = setting.flag or f"--{setting.name.replace('_', '-')}"
        options: dict[str, Any] = {"dest": setting.name, "default": argparse.SUPPRESS, "help": _help(setting)}
        if setting.kind == "switch":
            options["action"] = "store_false" if setting.default else "store_true"
        elif setting.kind == "list":
            options["action"] = "append"
        if setting.choices:
            options["metavar"] = f"{{{','.join(setting.choices)}}}"
        elif setting.metavar:
            options["metavar"] = setting.metavar
        places.get(setting.name, parser).add_argument(flag, **options)


def defaults(table: tuple[Setting, ...]) -> dict[str, Any]:
    """What is in force where nothing was set, by name."""
    return {setting.name: setting.default for setting in table}


def load(
    command: str,
    table: tuple[Setting, ...],
    flags: Mapping[str, Any],
    environ: Mapping[str, str] = os.environ,
    more_problems: Callable[[Mapping[str, Any]], list[str]] | None = None,
) -> dict[str, Any]:
    """The settings in force, by name. Raises ``BadSetting`` with all problems at once; nothing is half-applied.

    ``flags["config"]`` names the file, where the command has such a flag. ``more_problems`` sees what the table can't.
    """
    if flags.get("config"):
        environ = {**environ, "DRAWBRIDGE_CONFIG": flags["config"]}
    problems: list[str] = []
    values = defaults(table)
    known = {setting.name: setting for setting in table}
    path = config_file(environ)
    for name, value in _read_file(path, command, environ, problems).items():
        if name not in known:
            problems.append(f"{path}: [{command}] unknown setting {name}")
        else:
            values[name] = _checked(known[name], value, f"{path}: [{command}] {name}", problems)
    for setting in table:
        bare = SPEC_VARIABLES.get(setting.name, "") if values.get("spec_env") is True else ""
        for variable in (bare, f"{_prefix(command)}{setting.name.upper()}"):
            if environ.get(variable):
                values[setting.name] = _checked(setting, _parse(setting, environ[variable]), variable, problems)
        if setting.name in flags:
            name = setting.flag or f"--{setting.name.replace('_', '-')}"
            given = flags[setting.name]
            value = _parse(setting, given) if isinstance(given, str) else given
            values[setting.name] = _checked(setting, value, name, problems)
    problems += more_problems(values) if more_problems is not None else []
    if problems:
        nothing = "Nothing was started. " if command in STARTING else ""
        raise BadSetting(f"{nothing}{'; '.join(problems)}.")
    return values


def _prefix(command: str) -> str:
    """The first command's variables have no name of a command in them; two commands may mean different things by a word."""
    return "DRAWBRIDGE_" if command == "ide" else f"DRAWBRIDGE_{command.upper()}_"


def config_file(environ: Mapping[str, str] = os.environ) -> str:
    named = environ.get("DRAWBRIDGE_CONFIG")
    if named:
        return named
    if sys.platform == "linux":  # as platformdirs has it, whose import takes a quarter of the time to the lock file
        base = os.path.join(environ.get("XDG_CONFIG_HOME", "").strip() or os.path.expanduser("~/.config"), "drawbridge")
    else:
        import platformdirs

        base = platformdirs.user_config_dir("drawbridge", appauthor=False)
    return os.path.join(base, "config.toml")


def _read_file(path: str, command: str, environ: Mapping[str, str], problems: list[str]) -> Mapping[str, Any]:
    if not os.path.exists(path) and path != environ.get("DRAWBRIDGE_CONFIG"):
        return {}
    import tomllib

    try:
        with open(path, "rb") as file:
            section = tomllib.load(file).get(command, {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        problems.append(f"{path}: {error}")
        return {}
    if not isinstance(section, dict):
        problems.append(f"{path}: [{command}] must be a table")
        return {}
    return section


def _parse(setting: Setting, text: str) -> Any:
    if setting.kind == "number":
        return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else text
    if setting.kind == "amount":
        return float(text) if re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]{1,9})?", text) else text
    if setting.kind == "switch":
        return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}.get(text.lower(), text)
    if setting.kind == "list":
        return text.split(os.pathsep)
    return text


def _checked(setting: Setting, value: Any, where: str, problems: list[str]) -> Any:
    expected = {
        "number": "a whole number",
        "amount": "an amount, such as 5 or 0.50",
        "switch": "true or false",
        "list": "a list of texts, none empty",
    }.get(setting.kind, "a text that is not empty")
    right = {
        "number": isinstance(value, int) and not isinstance(value, bool),
        "amount": isinstance(value, int | float) and not isinstance(value, bool),
        "switch": isinstance(value, bool),
        "list": isinstance(value, list | tuple) and all(isinstance(item, str) and item for item in value),
    }.get(setting.kind, isinstance(value, str) and value != "")
    if not right:
        problems.append(f"{where} must be {expected}")
        return setting.default
    for item in value if setting.kind == "list" else [value]:
        if setting.choices and item not in setting.choices:
            problems.append(f"{where} must be one of {', '.join(setting.choices)}, not {item}")
        if setting.pattern and right and not re.fullmatch(setting.pattern, item):
            problems.append(f"{where} must look like {setting.metavar}, not {item}")
    if setting.range and not setting.range[0] <= value <= setting.range[1]:
        problems.append(f"{where} must lie between {setting.range[0]} and {setting.range[1]}")
    return tuple(value) if setting.kind == "list" else value


def _help(setting: Setting) -> str:
    """argparse takes % for its own."""
    shown = "" if setting.kind == "switch" or not isinstance(setting.default, str) else f" (default: {setting.default})"
    return (setting.help + shown).replace("%", "%%")
