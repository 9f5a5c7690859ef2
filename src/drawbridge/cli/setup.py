"""``drawbridge setup``: connects Drawbridge to agents, editors and the service manager."""

from __future__ import annotations

import argparse
from typing import Final

from drawbridge import settings
from drawbridge.agents import catalog
from drawbridge.cli import sentence
from drawbridge.settings.hook import HookSettings

SUMMARY: Final = "connect Drawbridge to an agent or editor, or disconnect it"

MORE: Final = " Shows the changes and asks first; without a terminal, nothing is changed unless --yes is given."

AGENTS: Final = tuple(row for row in catalog.ROWS if row.hooks)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = sentence(SUMMARY) + MORE
    targets = parser.add_subparsers(title="targets", dest="target", required=True, metavar="TARGET")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--remove", action="store_true", help="undo what setup did, and change nothing else")
    common.add_argument("--dry-run", action="store_true", help="show every line that would change, and change nothing")
    common.add_argument("--yes", action="store_true", help="make the changes without asking")
    common.add_argument(
        "--json", action="store_true", help="print one JSON object instead of asking; with --yes, make the changes too"
    )
    guarding = argparse.ArgumentParser(add_help=False)
    where = "in your user settings (default), or in those of the current directory"
    guarding.add_argument("--scope", choices=("user", "project"), default="user", help=where)
    settings.add_flags(guarding, tuple(setting for setting in settings.of(HookSettings) if setting.name != "agent"))
    for row in AGENTS:
        text = f"protect your unsaved changes from {row.title}, and report its sessions to drawbridge serve"
        target = targets.add_parser(row.name, parents=[common, guarding], help=text, description=sentence(text) + MORE)
        if row.ask_mode:
            text = (
                f"make {row.title} ask before it writes: set permissions.defaultMode and permissions.disableAutoMode; "
                "--no-ask-mode restores the previous values"
            )
            target.add_argument("--ask-mode", action=argparse.BooleanOptionalAction, default=None, help=text)
    text = "install the plugin in Neovim without a plugin manager"
    targets.add_parser("nvim", parents=[common], help=text, description=sentence(text) + MORE)
    text = "run the agent server as a user service that starts when you log in"
    targets.add_parser("serve", parents=[common], help=text, description=sentence(text) + MORE)
    text = "install the extension in VS Code or a compatible editor"
    target = targets.add_parser("vscode", parents=[common], help=text, description=sentence(text) + MORE)
    target.add_argument(
        "--program", metavar="PATH", help="the editor's command (default: the first of code and its variants on PATH)"
    )


def run(chosen: argparse.Namespace) -> int:
    from drawbridge.setup import command

    guard = None
    if chosen.target in [row.name for row in AGENTS] and not chosen.remove:
        guard = settings.load("hook", HookSettings, {**vars(chosen), "agent": chosen.target})
    return command.run(
        command.SetupSettings(
            target=chosen.target,
            remove=chosen.remove,
            dry_run=chosen.dry_run,
            yes=chosen.yes,
            json=chosen.json,
            project=getattr(chosen, "scope", "user") == "project",
            guard=guard,
            ask_mode=getattr(chosen, "ask_mode", None),
            program=getattr(chosen, "program", None),
        )
    )
