"""``drawbridge pair``: a code that connects one device."""

from __future__ import annotations

import argparse
from typing import Final

from drawbridge.cli.token import add_data_flags, add_rights, data_directory, rights

SUMMARY: Final = "show a code, as text and as a QR code, that connects one device"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_data_flags(parser)
    parser.add_argument(
        "--name", metavar="NAME", help="the device's name, as shown in histories (default: the name it reports)"
    )
    add_rights(parser, "approve")


def run(chosen: argparse.Namespace) -> int:
    from drawbridge.server import device_commands

    return device_commands.pair(data_directory(chosen), chosen.name, rights(chosen))
