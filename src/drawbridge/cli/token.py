"""``drawbridge token``: creates, lists and revokes device tokens."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from drawbridge import settings
from drawbridge.cli import sentence
from drawbridge.settings.serve import ServeSettings

if TYPE_CHECKING:
    from drawbridge.server.auth.scopes import Scope
    from drawbridge.server.device_commands import Rights

SUMMARY: Final = "create, list and revoke device tokens"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    targets = parser.add_subparsers(title="commands", dest="target", required=True, metavar="COMMAND")
    text = "create a token for a device, and print it once"
    target = targets.add_parser("new", help=text, description=sentence(text))
    add_data_flags(target)
    target.add_argument("name", metavar="NAME", help="the device's name, as shown in histories")
    add_rights(target, "run")
    text = "list the devices that have a token"
    target = targets.add_parser("list", help=text, description=sentence(text))
    add_data_flags(target)
    target.add_argument("--json", action="store_true", help="print a JSON array with one object for each device")
    text = "revoke a device's token and disconnect the device"
    target = targets.add_parser("revoke", help=text, description=sentence(text))
    add_data_flags(target)
    target.add_argument("name", metavar="NAME", help="the device's name, or its ID from the list")


def run(chosen: argparse.Namespace) -> int:
    from drawbridge.server import device_commands

    data = data_directory(chosen)
    if chosen.target == "new":
        return device_commands.create(data, chosen.name, rights(chosen))
    if chosen.target == "revoke":
        return device_commands.revoke(data, chosen.name)
    return device_commands.show(data, as_json=chosen.json)


def add_data_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that select a server's data, for commands that work alongside a running server."""
    parser.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help="the settings file to read")
    (data_dir,) = (setting for setting in settings.of(ServeSettings) if setting.name == "data_dir")
    settings.add_flags(parser, (data_dir._replace(spec=data_dir.spec._replace(heading="")),))


def data_directory(chosen: argparse.Namespace) -> Path:
    from drawbridge.server import data_directory as directory

    return directory.data_directory(settings.load("serve", ServeSettings, vars(chosen)))


def add_rights(parser: argparse.ArgumentParser, scope: Scope) -> None:
    """Adds the flags that limit what a device may do. ``scope``: the default scope."""
    text = (
        "what the device may do, from least to most: read, answer requests, run agents, manage projects "
        f"(default: {scope})"
    )
    parser.add_argument("--scope", choices=("view", "approve", "run", "admin"), default=scope, help=text)
    text = "a directory whose projects the device may see (default: all projects); repeatable"
    parser.add_argument("--project", action="append", metavar="DIR", default=[], help=text)
    text = "how long the token is valid, such as 12h, 30d or 8w (default: until it is revoked)"
    parser.add_argument("--expires", metavar="TIME", help=text)


def rights(chosen: argparse.Namespace) -> Rights:
    from drawbridge.server import device_commands

    return device_commands.rights(chosen.scope, chosen.project, chosen.expires)
