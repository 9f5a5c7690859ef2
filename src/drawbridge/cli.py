"""The ``drawbridge`` command: what each command takes, and who does it. A job is imported only when it is chosen."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

from drawbridge import settings
from drawbridge.errors import BadSetting, DrawbridgeError

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code: 0 done, 1 a fault of ours, 2 asked wrongly or no editor, 3 the world failed."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] in (["nvim"], ["neovim"]):  # what follows is Neovim's, whatever it looks like
        chosen = argparse.Namespace(command=given[0], run=_nvim, arguments=given[1:])
    else:
        try:
            chosen = parser().parse_args(given)
        except SystemExit as stop:
            if given[:1] != ["hook"] or not stop.code:
                raise
            from drawbridge.guard import hook

            # Code 2 would tell the agent to stop all its work for a misspelt flag.
            hook.refuse_settings(f"wrong arguments: {' '.join(given[1:])}", settings.defaults(settings.HOOK))
    run: Callable[[argparse.Namespace], int] = chosen.run
    try:
        return run(chosen)
    except DrawbridgeError as error:
        print(f"drawbridge {chosen.command}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # one more would change how it ends
        return 130


def parser() -> argparse.ArgumentParser:
    """All commands. Each ``_add_…`` says what one takes; ``run`` in what was parsed does it."""
    everything = argparse.ArgumentParser(
        prog="drawbridge", description="Coding agents propose changes; you decide, wherever you are."
    )
    everything.add_argument("--version", action=_Version, nargs=0, help="show the version and end")
    commands = everything.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_ide(commands)
    _add_nvim(commands)
    _add_info(commands)
    _add_serve(commands)
    _add_token(commands)
    _add_pair(commands)
    _add_attach(commands)
    _add_demo(commands)
    _add_hook(commands)
    _add_setup(commands)
    _add_completion(commands)
    return everything


def _add_ide(commands: Commands) -> None:
    text = "make a running editor an IDE that coding agents see and propose changes to"
    command = commands.add_parser("ide", help=text, description=_sentence(text))
    settings.add_flags(command, settings.IDE)
    command.set_defaults(run=_ide)


def _ide(chosen: argparse.Namespace) -> int:
    values = settings.load("ide", settings.IDE, vars(chosen))
    if (values["nvim"] is None) == (values["folder"] is None):
        raise BadSetting("Give either --nvim ADDRESS or --folder DIR.")
    if values["decide"] and values["folder"] is None:
        raise BadSetting("--decide goes with --folder.")
    from drawbridge.ide.launch import launch

    return launch(values)


def _add_nvim(commands: Commands) -> None:
    """For the list of commands only: its arguments never come by here."""
    text = "start Neovim where the guard finds it, with the plugin; all arguments are Neovim's"
    commands.add_parser("nvim", aliases=["neovim"], help=text, add_help=False)


def _nvim(chosen: argparse.Namespace) -> int:
    from drawbridge.launcher import launch

    return launch(chosen.arguments)


def _add_info(commands: Commands) -> None:
    text = "show who is there, what they have open, and whether the guard stands"
    command = commands.add_parser("info", help=text, description=_sentence(text))
    command.add_argument("directory", nargs="?", metavar="DIR", help="look from here instead of the current directory")
    command.add_argument("--json", action="store_true", help="for scripts; docs/cli.md has the keys")
    command.add_argument("--sweep", action="store_true", help="remove what dead editors and bridges left behind")
    command.set_defaults(run=_info)


def _info(chosen: argparse.Namespace) -> int:
    from drawbridge import info

    return info.run(chosen.directory, as_json=chosen.json, sweep=chosen.sweep)


def _add_hook(commands: Commands) -> None:
    text = "answer an agent's hook: keep it from overwriting work that is not saved yet"
    command = commands.add_parser("hook", help=text, description=_sentence(text) + " JSON at stdin, JSON at stdout.")
    settings.add_flags(command, settings.HOOK)
    instead = command.add_mutually_exclusive_group()
    instead.add_argument(
        "--print-command", action="store_true", help="show the fast form, which `drawbridge setup` installs"
    )
    instead.add_argument(
        "--restore",
        nargs="?",
        const="",
        metavar="N|FILE",
        help="list the copies of what was replaced in editors; with N or FILE: put that one, or the newest of FILE, back",
    )
    command.set_defaults(run=_hook)


def _hook(chosen: argparse.Namespace) -> int:
    if chosen.restore is not None:
        from drawbridge.guard import restore

        return restore.run(chosen.restore, settings.load("hook", settings.HOOK, vars(chosen)))
    if chosen.print_command:
        from drawbridge.setup.installed import print_command

        return print_command(settings.load("hook", settings.HOOK, vars(chosen)))
    from drawbridge.guard import hook

    try:
        values = settings.load("hook", settings.HOOK, vars(chosen))
    except BadSetting as error:
        said = {name: value for name, value in vars(chosen).items() if name in ("agent", "fail", "log_file")}
        return hook.refuse_settings(str(error), settings.defaults(settings.HOOK) | said)
    return hook.run(values)


def _add_setup(commands: Commands) -> None:
    text = "make Drawbridge known to an agent or an editor, or take that back"
    more = " What is to be changed is shown first; on a terminal you are asked, elsewhere (and with --yes) it is done."
    command = commands.add_parser("setup", help=text, description=_sentence(text) + more)
    targets = command.add_subparsers(dest="target", required=True, metavar="TARGET")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--remove", action="store_true", help="take back what was set up, and nothing else")
    common.add_argument("--dry-run", action="store_true", help="only show what would be done")
    common.add_argument("--yes", action="store_true", help="do not ask")
    common.add_argument("--json", action="store_true", help="do not ask, and say in one JSON object what was done")
    guarding = argparse.ArgumentParser(add_help=False)
    where = "for all you do (default), or in this directory"
    guarding.add_argument("--scope", choices=("user", "project"), default="user", help=where)
    settings.add_flags(guarding, tuple(setting for setting in settings.HOOK if setting.name != "agent"))
    for name, title in {"claude": "Claude Code", "gemini": "Gemini CLI", "codex": "Codex"}.items():
        what = f"guard your unsaved work from {title}"
        target = targets.add_parser(name, parents=[common, guarding], help=what, description=_sentence(what) + more)
        if name == "claude":
            help = "have Claude Code ask before it writes: set permissions.defaultMode, and disableAutoMode, which keeps it so"
            target.add_argument("--ask-mode", action=argparse.BooleanOptionalAction, default=None, help=help)
    what = "have the plugin in a plain Neovim, without a plugin manager"
    targets.add_parser("nvim", parents=[common], help=what, description=_sentence(what) + more)
    what = "run the agent server as a service of yours, started with your session"
    targets.add_parser("serve", parents=[common], help=what, description=_sentence(what) + more)
    what = "install the extension in VS Code or one of its kin"
    target = targets.add_parser("vscode", parents=[common], help=what, description=_sentence(what) + more)
    target.add_argument("--program", metavar="PATH", help="the editor's command (default: code, or the like, on PATH)")
    command.set_defaults(run=_setup)


def _setup(chosen: argparse.Namespace) -> int:
    from drawbridge.setup.command import run

    return run(chosen)


def _add_completion(commands: Commands) -> None:
    text = "print what makes the Tab key know these commands"
    command = commands.add_parser("completion", help=text, description=_sentence(text))
    command.add_argument("shell", choices=("bash", "zsh", "fish"))
    command.set_defaults(run=_completion)


def _completion(chosen: argparse.Namespace) -> int:
    from drawbridge.completion import script

    print(script(chosen.shell, parser()), end="")
    return 0


def _add_serve(commands: Commands) -> None:
    text = "run coding agents on this machine, steered from anywhere"
    command = commands.add_parser("serve", help=text, description=_sentence(text))
    command.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help="the settings file to read")
    settings.add_flags(command, settings.SERVE)
    command.set_defaults(run=_serve)


def _serve(chosen: argparse.Namespace) -> int:
    from drawbridge.server import plan, serve

    return serve.run(settings.load("serve", settings.SERVE, vars(chosen), more_problems=plan.problems))


def _add_token(commands: Commands) -> None:
    text = "give devices a token each, and take it back"
    command = commands.add_parser("token", help=text, description=_sentence(text))
    targets = command.add_subparsers(dest="target", required=True, metavar="COMMAND")
    what = "make a token for a device, and show it this once"
    target = targets.add_parser("new", parents=[_data_flags()], help=what, description=_sentence(what))
    target.add_argument("name", metavar="NAME", help="what the device is called, in histories too")
    _add_rights(target, "run")
    what = "show which devices have a token"
    target = targets.add_parser("list", parents=[_data_flags()], help=what, description=_sentence(what))
    target.add_argument("--json", action="store_true", help="for scripts: an array, one object a device")
    what = "take a device's token back; where it is connected it is cut off"
    target = targets.add_parser("revoke", parents=[_data_flags()], help=what, description=_sentence(what))
    target.add_argument("name", metavar="NAME", help="the device's name, or its id as in the list")
    command.set_defaults(run=_token)


def _token(chosen: argparse.Namespace) -> int:
    from drawbridge.server import plan, tokens

    return tokens.run(chosen, plan.data_directory(settings.load("serve", settings.SERVE, vars(chosen))))


def _add_pair(commands: Commands) -> None:
    text = "show a code, and a picture for a phone's camera, that lets one device in"
    command = commands.add_parser("pair", parents=[_data_flags()], help=text, description=_sentence(text))
    what = "what the device is called, in histories too (default: as it calls itself)"
    command.add_argument("--name", metavar="NAME", help=what)
    _add_rights(command, "run")
    command.set_defaults(run=_pair)


def _pair(chosen: argparse.Namespace) -> int:
    from drawbridge.server import pair, plan

    return pair.run(chosen, plan.data_directory(settings.load("serve", settings.SERVE, vars(chosen))))


def _data_flags() -> argparse.ArgumentParser:
    """Of commands beside a server: whose data it is about."""
    flags = argparse.ArgumentParser(add_help=False)
    flags.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help="the settings file to read")
    settings.add_flags(flags, tuple(setting for setting in settings.SERVE if setting.name == "data_dir"))
    return flags


def _add_rights(command: argparse.ArgumentParser, scope: str) -> None:
    what = f"what it may do: read; answer questions; run agents; add and delete projects (default: {scope})"
    command.add_argument("--scope", choices=("view", "approve", "run", "admin"), default=scope, help=what)
    what = "it knows only of projects in this directory; repeatable"
    command.add_argument("--project", action="append", metavar="DIR", default=[], help=what)
    what = "it is good for so long, as 12h, 30d or 8w (default: until it is revoked)"
    command.add_argument("--expires", metavar="TIME", help=what)


def _add_attach(commands: Commands) -> None:
    text = "follow the agents of a server from this terminal, and answer what they ask"
    command = commands.add_parser("attach", help=text, description=_sentence(text))
    command.add_argument("project", nargs="?", metavar="PROJECT", help="its name, path or id (default: choose one)")
    settings.add_flags(command, settings.ATTACH)
    command.set_defaults(run=_attach)


def _attach(chosen: argparse.Namespace) -> int:
    from drawbridge.attach.command import run

    return run(chosen.project, settings.load("attach", settings.ATTACH, vars(chosen)))


def _add_demo(commands: Commands) -> None:
    text = "try it: a server with a sample project and an agent's first question, in the browser"
    command = commands.add_parser("demo", help=text, description=_sentence(text) + " Ctrl-C ends it; nothing is left.")
    agents = ("demo", "claude")
    command.add_argument("--agent", choices=agents, default="demo", help="who works: the scripted agent, or a real one")
    command.add_argument("--no-browser", action="store_true", help="print the page's address only")
    command.set_defaults(run=_demo)


def _demo(chosen: argparse.Namespace) -> int:
    from drawbridge import demo

    return demo.run(chosen.agent, browse=not chosen.no_browser)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


class _Version(argparse.Action):
    """Reading the installed version costs 20 ms; only who asks for it pays."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"drawbridge {version('drawbridge')}")
        parser.exit()
