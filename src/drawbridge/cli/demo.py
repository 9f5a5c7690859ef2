"""``drawbridge demo``: a server to try, with a sample project."""

from __future__ import annotations

import argparse
from typing import Final

from drawbridge.cli import sentence

SUMMARY: Final = "try Drawbridge in the browser, with a sample project and a scripted agent"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = f"{sentence(SUMMARY)} Ctrl-C stops the demo and deletes its project and its data."
    parser.add_argument(
        "--agent", choices=("demo", "claude"), default="demo", help="the agent: a scripted one, or Claude Code"
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address of the web UI without opening it")


def run(chosen: argparse.Namespace) -> int:
    from drawbridge.cli import demo_server

    return demo_server.run(chosen.agent, browse=not chosen.no_browser)
