"""The ``drawbridge`` command: what each command takes, and who does it. A job is imported only when it is chosen."""

from __future__ import annotations

import argparse
import difflib
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from drawbridge import settings
from drawbridge.agents import catalog
from drawbridge.core.errors import BadSetting, DrawbridgeError

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code: 0 done, 1 a fault of ours, 2 asked wrongly or no editor, 3 the world failed."""
    try:
        try:
            return _main(list(sys.argv[1:] if arguments is None else arguments))
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # `drawbridge … | head`: the reader has closed its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def _main(given: list[str]) -> int:
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
    everything: argparse.ArgumentParser = _Parser(
        prog="drawbridge",
        description="Coding agents propose changes; you decide, wherever you are.",
        epilog="`drawbridge help COMMAND` describes a command.",
    )
    everything.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    everything.set_defaults(run=lambda chosen: _help_of_all(everything))
    commands = everything.add_subparsers(dest="command", metavar="COMMAND")
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
    _add_help(commands)
    return everything


def _help_of_all(everything: argparse.ArgumentParser) -> int:
    everything.print_help(sys.stderr)
    return 2


def _add_help(commands: Commands) -> None:
    text = "describe a command"
    command = commands.add_parser("help", help=text, description=_sentence(text))
    command.add_argument("about", nargs="?", metavar="COMMAND", choices=[*commands.choices], help="the command")

    def show(chosen: argparse.Namespace) -> int:
        parser().parse_args([chosen.about, "--help"] if chosen.about not in (None, "nvim", "neovim") else ["--help"])
        return 0

    def run(chosen: argparse.Namespace) -> int:
        if chosen.about in ("nvim", "neovim"):
            print(NVIM_HELP)
            return 0
        return show(chosen)

    command.set_defaults(run=run)


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
    text = "show running editors, agent servers and bridges, and whether the guard is active"
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
    if not chosen.print_command and sys.stdin is not None and sys.stdin.isatty():
        raise BadSetting(
            "The hook is started by an agent, with JSON at its input. `drawbridge setup AGENT` installs it."
        )
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
    text = "connect Drawbridge to an agent or editor, or undo it"
    more = " What would change is shown first, and you are asked; without a terminal nothing is changed unless --yes is given."
    command = commands.add_parser("setup", help=text, description=_sentence(text) + more)
    targets = command.add_subparsers(dest="target", required=True, metavar="TARGET")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--remove", action="store_true", help="undo what was set up, and nothing else")
    common.add_argument("--dry-run", action="store_true", help="only show every line that would change")
    common.add_argument("--yes", action="store_true", help="do not ask")
    common.add_argument(
        "--json", action="store_true", help="report in one JSON object, without asking; --yes applies the changes"
    )
    guarding = argparse.ArgumentParser(add_help=False)
    where = "for all you do (default), or in this directory"
    guarding.add_argument("--scope", choices=("user", "project"), default="user", help=where)
    settings.add_flags(guarding, tuple(setting for setting in settings.HOOK if setting.name != "agent"))
    for row in (row for row in catalog.ROWS if row.hooks):
        what = f"guard your unsaved work from {row.title}"
        target = targets.add_parser(row.name, parents=[common, guarding], help=what, description=_sentence(what) + more)
        if row.ask_mode:
            help = f"make {row.title} ask before it writes: set permissions.defaultMode, and disableAutoMode so that it stays"
            target.add_argument("--ask-mode", action=argparse.BooleanOptionalAction, default=None, help=help)
    what = "install the plugin in Neovim without a plugin manager"
    targets.add_parser("nvim", parents=[common], help=what, description=_sentence(what) + more)
    what = "run the agent server as a service of yours, started with your session"
    targets.add_parser("serve", parents=[common], help=what, description=_sentence(what) + more)
    what = "install the extension in VS Code or an editor based on it"
    target = targets.add_parser("vscode", parents=[common], help=what, description=_sentence(what) + more)
    target.add_argument("--program", metavar="PATH", help="the editor's command (default: code, or the like, on PATH)")
    command.set_defaults(run=_setup)


def _setup(chosen: argparse.Namespace) -> int:
    from drawbridge.setup.command import run

    return run(chosen)


def _add_completion(commands: Commands) -> None:
    text = "print the shell completion script"
    command = commands.add_parser("completion", help=text, description=_sentence(text))
    command.add_argument("shell", choices=("bash", "zsh", "fish"))
    command.set_defaults(run=_completion)


def _completion(chosen: argparse.Namespace) -> int:
    from drawbridge.completion import script

    print(script(chosen.shell, parser()), end="")
    return 0


def _add_serve(commands: Commands) -> None:
    text = "run coding agents on this machine, steered from anywhere"
    command = commands.add_parser(
        "serve",
        usage="drawbridge serve [OPTION ...]",
        help=text,
        description=_sentence(text),
        epilog=SERVE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help="the settings file to read")
    settings.add_flags(command, settings.SERVE, settings.SERVE_GROUPS)
    command.set_defaults(run=_serve)


SERVE_EXAMPLES = """\
examples:
  drawbridge serve                                      on this machine only
  drawbridge serve --host 0.0.0.0 --allow ~/src         for the network, projects in ~/src only
  drawbridge serve --acp-agent "goose=goose acp"        with another agent

Then `drawbridge pair` lets in a browser or a phone, and `drawbridge attach` works in a terminal."""


def _serve(chosen: argparse.Namespace) -> int:
    from drawbridge.server import plan, serve

    return serve.run(settings.load("serve", settings.SERVE, vars(chosen), more_problems=plan.problems))


def _add_token(commands: Commands) -> None:
    text = "create and revoke device tokens"
    command = commands.add_parser("token", help=text, description=_sentence(text))
    targets = command.add_subparsers(dest="target", required=True, metavar="COMMAND")
    what = "make a token for a device, and show it this once"
    target = targets.add_parser("new", parents=[_data_flags()], help=what, description=_sentence(what))
    target.add_argument("name", metavar="NAME", help="what the device is called, in histories too")
    _add_rights(target, "run")
    what = "show which devices have a token"
    target = targets.add_parser("list", parents=[_data_flags()], help=what, description=_sentence(what))
    target.add_argument("--json", action="store_true", help="for scripts: an array, one object a device")
    what = "revoke a device's token and disconnect the device"
    target = targets.add_parser("revoke", parents=[_data_flags()], help=what, description=_sentence(what))
    target.add_argument("name", metavar="NAME", help="the device's name, or its id as in the list")
    command.set_defaults(run=_token)


def _token(chosen: argparse.Namespace) -> int:
    from drawbridge.server import plan, tokens

    return tokens.run(chosen, plan.data_directory(settings.load("serve", settings.SERVE, vars(chosen))))


def _add_pair(commands: Commands) -> None:
    text = "show a code, also as a QR code, that lets one device in"
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
    what = "how long it is valid, e.g. 12h, 30d or 8w (default: until it is revoked)"
    command.add_argument("--expires", metavar="TIME", help=what)


def _add_attach(commands: Commands) -> None:
    text = "follow the agents of a server from this terminal, and answer what they ask"
    command = commands.add_parser("attach", help=text, description=_sentence(text))
    command.add_argument("project", nargs="?", metavar="PROJECT", help="its name, path or id (default: choose one)")
    settings.add_flags(command, settings.ATTACH)
    command.set_defaults(run=_attach)


def _attach(chosen: argparse.Namespace) -> int:
    from drawbridge.tui.command import run

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


NVIM_HELP = """\
usage: drawbridge nvim [ARGUMENT ...]

Start Neovim where the guard finds it, with the plugin. All arguments are Neovim's own, --help too."""


class _Parser(argparse.ArgumentParser):
    """Each command reports its own mistakes, with its own usage and the nearest name that it knows."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}{self._meant(rest[0], self._option_string_actions)}")
        return found, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            name = (action.metavar if isinstance(action.metavar, str) else action.dest).lower()
            hint = self._meant(str(value), choices) or f" (one of {', '.join(choices)})"
            raise argparse.ArgumentError(None, f"unknown {name}: {value}{hint}")

    def _meant(self, word: str, known: Iterable[str]) -> str:
        near = difflib.get_close_matches(word.partition("=")[0], known, 1)
        return f". Did you mean {near[0]}?" if near else ""


class _Version(argparse.Action):
    """Reading the installed version costs 20 ms; only `--version` pays for it."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"drawbridge {version('drawbridge')}")
        parser.exit()
