"""Loads settings. Flags override environment variables, which override the settings file, which overrides the defaults.

Each command that has settings declares them in one class, a ``NamedTuple`` in a module of this package. A field's type
and default, with the ``Spec`` in its annotation, define the setting completely. The flags, the keys of the file, the
names of the environment variables, the tables in the documentation and the completion are derived from them.

The file is ``$DRAWBRIDGE_CONFIG``, otherwise ``drawbridge/config.toml`` in the platform's configuration directory. A
command reads the table with its own name, or with the name of another command if it shares that command's settings
(``review`` reads the table of ``attach``). Environment variables are the fields' names in capitals, prefixed with
``DRAWBRIDGE_`` for the bridge, ``DRAWBRIDGE_HOOK_`` for the guard and so on.

Agents wait for the bridge's lock file, which is written after the settings are loaded. The classes are named tuples
because dataclasses and msgspec would import 17 and 25 more modules before the bridge listens.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args, get_origin

from drawbridge.core.errors import BadSetting

Kind: TypeAlias = Literal["text", "number", "amount", "switch", "list", "choice"]
Level: TypeAlias = Literal["debug", "info", "warning", "error"]

Settings = TypeVar("Settings", bound=NamedTuple)

TABLES = ("ide", "hook", "serve", "attach")
"""The tables of the settings file: the commands that have settings."""


class Spec(NamedTuple):
    """The properties of a setting besides its type and default."""

    help: str
    metavar: str = ""
    """The placeholder for the value in the help: its name or its unit."""
    flag: str = ""
    """For a switch that is on by default: the flag that turns it off. Other flags are named after their field."""
    range: tuple[float, float] | None = None
    """The smallest and the largest number allowed."""
    pattern: str = ""
    """A regular expression for the text, or for each item of a list. ``form`` describes it to the user."""
    form: str = ""
    """What ``pattern`` matches, for the error message; by default ``metavar``."""
    heading: str = ""
    """The heading of a group of flags in the help. The group begins here and ends at the next heading."""
    choices: tuple[str, ...] = ()
    """The allowed values, such as the agents in the catalog, if the type is not a ``Literal``."""
    separator: str = os.pathsep
    """The separator of a list's values in the environment variable. Values that may contain a colon need another
    separator, such as a comma."""
    key: str = ""
    """For a list of NAME=VALUE: a regular expression for NAME."""
    bare: str = ""
    """A second environment variable, with a name that has no prefix. It is read only with the ``spec_env`` setting,
    because many shells set PORT for a web project."""


class Setting(NamedTuple):
    """One field of a settings class. ``kind`` "list": the flag may be repeated. The values in an environment variable
    are separated by ``spec.separator``."""

    name: str
    kind: Kind
    default: Any
    choices: tuple[str, ...]
    spec: Spec

    @property
    def flag(self) -> str:
        return self.spec.flag or f"--{self.name.replace('_', '-')}"

    @property
    def shown_default(self) -> str:
        """The default for the help; empty for a switch, a list, or a setting without a default value."""
        return "" if self.kind in ("switch", "list") or self.default is None else str(self.default)


def of(settings: type[NamedTuple]) -> tuple[Setting, ...]:
    """The settings of a class, in the order of its fields."""
    return tuple(
        _setting(name, annotation, settings._field_defaults[name])
        for name, annotation in settings.__annotations__.items()
    )


def _setting(name: str, annotation: Any, default: Any) -> Setting:
    value, (spec,) = annotation.__origin__, annotation.__metadata__
    if type(None) in get_args(value):
        value = get_args(value)[0]
    if get_origin(value) is tuple:
        item = get_args(value)[0]
        return Setting(name, "list", default, get_args(item) or spec.choices, spec)
    if choices := spec.choices or (get_args(value) if get_origin(value) is Literal else ()):
        return Setting(name, "choice", default, choices, spec)
    kinds: dict[type, Kind] = {bool: "switch", int: "number", float: "amount", str: "text"}
    return Setting(name, kinds[value], default, (), spec)


def add_flags(parser: argparse.ArgumentParser, table: tuple[Setting, ...]) -> None:
    """Adds the flags of ``table``. A flag that is not given is not in the parsed namespace.

    Values stay text, except for switches, because ``load`` checks them together with the file and the environment, and
    reports all problems together.
    """
    group: argparse._ActionsContainer = parser
    for setting in table:
        if setting.spec.heading:
            group = parser.add_argument_group(setting.spec.heading)
        options: dict[str, Any] = {"dest": setting.name, "default": argparse.SUPPRESS, "help": _help(setting)}
        if setting.kind == "switch":
            options["action"] = "store_false" if setting.default else "store_true"
        elif setting.kind == "list":
            options["action"] = "append"
        if setting.choices:
            options["metavar"] = f"{{{','.join(setting.choices)}}}"
        elif setting.spec.metavar:
            options["metavar"] = setting.spec.metavar
        group.add_argument(setting.flag, **options)


def load(
    command: str,
    settings: type[Settings],
    flags: Mapping[str, Any],
    environ: Mapping[str, str] = os.environ,
    check: Callable[[Settings], list[str]] | None = None,
) -> Settings:
    """The settings of ``command``, from all sources. Raises ``BadSetting``, which lists all problems.

    ``flags["config"]`` names the file, if the command has such a flag. ``check`` returns the problems that only the
    command itself can find. ``check`` gets the default in place of each invalid value.
    """
    if flags.get("config"):
        environ = {**environ, "DRAWBRIDGE_CONFIG": flags["config"]}
    problems: list[str] = []
    known = {setting.name: setting for setting in of(settings)}
    values = dict(settings._field_defaults)
    path = config_file(environ)
    for name, value in _read_file(path, command, environ, problems).items():
        if name not in known:
            problems.append(f"{path}: [{command}] unknown setting {name}")
        else:
            values[name] = _checked(known[name], value, f"{path}: [{command}] {name}", problems)
    for setting in sorted(known.values(), key=lambda setting: setting.name != "spec_env"):  # others depend on spec_env
        bare = setting.spec.bare if values.get("spec_env") is True else ""
        for variable in (bare, variable_name(command, setting)):
            if environ.get(variable):
                values[setting.name] = _checked(setting, _parse(setting, environ[variable]), variable, problems)
        if setting.name in flags:
            given = flags[setting.name]
            value = _parse(setting, given) if isinstance(given, str) else given
            values[setting.name] = _checked(setting, value, setting.flag, problems)
    loaded = settings._make(values.values())
    problems += check(loaded) if check is not None else []
    if problems:
        raise BadSetting("; ".join(problems) + ".")
    return loaded


def variable_name(command: str, setting: Setting) -> str:
    """The environment variable of a setting. The bridge's variables do not name their command."""
    return f"DRAWBRIDGE_{'' if command == 'ide' else f'{command.upper()}_'}{setting.name.upper()}"


def config_file(environ: Mapping[str, str] = os.environ) -> str:
    """The path of the settings file, which may not exist."""
    named = environ.get("DRAWBRIDGE_CONFIG")
    if named:
        return named
    if sys.platform == "linux":  # as in platformdirs, which takes a quarter of the bridge's startup time to import
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
            found = tomllib.load(file)
    except OSError as error:
        problems.append(f"{path} can't be read: {(error.strerror or 'unknown reason').lower()}")
        return {}
    except UnicodeDecodeError:
        problems.append(f"{path} is not UTF-8")
        return {}
    except tomllib.TOMLDecodeError as error:
        problems.append(f"{path}: {error}")
        return {}
    if command != "hook":  # the guard still protects files if another command's table is misspelled
        tables = ", ".join(f"[{one}]" for one in TABLES)
        problems += [
            f"{path}: [{name}] is not a known table; the tables are {tables}"
            if isinstance(value, dict)
            else f"{path}: {name} is not in a table; the tables are {tables}"
            for name, value in found.items()
            if name not in TABLES
        ]
    section = found.get(command, {})
    if not isinstance(section, dict):
        problems.append(f"{path}: {command} must be a table")
        return {}
    return section


def _parse(setting: Setting, text: str) -> Any:
    """The value for the text of a flag or variable; the text itself if it is invalid, which ``_checked`` reports."""
    if setting.kind == "number":
        return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else text
    if setting.kind == "amount":
        return float(text) if re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]{1,9})?", text) else text
    if setting.kind == "switch":
        return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}.get(text.lower(), text)
    if setting.kind == "list":
        separator = setting.spec.separator
        # In a list of NAME=VALUE, a separator that no NAME= follows is part of the value, such as a URL.
        named = f"(?={setting.spec.key}=)" if setting.spec.key else ""
        items = re.split(re.escape(separator) + named, text)
        return items if separator == os.pathsep else [item.strip() for item in items]
    return text


def _checked(setting: Setting, value: Any, where: str, problems: list[str]) -> Any:
    """The value with its field's type. If the value is invalid, adds the reason, after ``where``, to ``problems``, and
    returns the default."""
    spec = setting.spec
    expected = {
        "number": "a whole number",
        "amount": "a number, such as 5 or 0.50",
        "switch": "true or false",
        "list": "a list of non-empty strings",
    }.get(setting.kind, "a non-empty string")
    right = {
        "number": isinstance(value, int) and not isinstance(value, bool),
        "amount": isinstance(value, int | float) and not isinstance(value, bool),
        "switch": isinstance(value, bool),
        "list": isinstance(value, list | tuple) and all(isinstance(item, str) and item for item in value),
    }.get(setting.kind, isinstance(value, str) and value != "")
    if not right:
        problems.append(f"{where} must be {expected}")
        return setting.default
    found = []
    for item in value if setting.kind == "list" else [value]:
        if setting.choices and item not in setting.choices:
            found.append(f"{where} must be one of {', '.join(setting.choices)}, not {item}")
        if spec.pattern and not re.fullmatch(spec.pattern, item):
            found.append(f"{where} must have the form {spec.form or spec.metavar}, not {item}")
    if spec.range and not spec.range[0] <= value <= spec.range[1]:
        found.append(f"{where} must be between {spec.range[0]} and {spec.range[1]}")
    problems += found
    if found:
        return setting.default
    if setting.kind == "amount":
        return float(value)
    return tuple(value) if setting.kind == "list" else value


def _help(setting: Setting) -> str:
    default = f" (default: {setting.shown_default})" if setting.shown_default else ""
    often = "; repeatable" if setting.kind == "list" else ""
    return f"{setting.spec.help}{default}{often}".replace("%", "%%")  # argparse formats it with the % operator
