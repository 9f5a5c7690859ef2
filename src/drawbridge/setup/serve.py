"""``drawbridge setup serve``: runs the agent server as a user service (a systemd unit or, on macOS, a launchd agent).

The service runs ``drawbridge serve`` with the settings file, and with the environment variables that ``passed_on``
selects from this command's environment. Secrets are never written into the service's file. With systemd, an API key
belongs in ``serve.env`` next to the settings file, unless the agent itself is logged in. launchd does not read
``serve.env``.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import plistlib
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from drawbridge import settings
from drawbridge.core.errors import NoProgram
from drawbridge.core.own_command import own_command
from drawbridge.settings.serve import LAUNCHD_LABEL
from drawbridge.setup import copies, files, record
from drawbridge.setup.files import Change, Step
from drawbridge.setup.interpreter import is_passing
from drawbridge.setup.plan import Plan
from drawbridge.setup.programs import output_of, succeeds
from drawbridge.setup.record import Record

NAME: Final = "drawbridge"

SECRETS: Final = ("DRAWBRIDGE_SERVE_WEBHOOK",)
"""Variables that are never written to the service's file, which other users may be able to read."""

PASSED_ON: Final = (
    "DRAWBRIDGE_CONFIG",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "GEMINI_CLI_HOME",
    "LANG",
)
"""Variables that are passed on to the service, in addition to PATH and the server's settings, because a service does
not inherit the shell's environment. Hooks in terminals look for the server in XDG_STATE_HOME, and the server reads the
files of the agents in their own directories."""

UNIT: Final = """\
[Unit]
Description=Drawbridge: coding agents on this machine, controlled from anywhere
StartLimitIntervalSec=5min
StartLimitBurst=5

[Service]
Type=exec
ExecStart={command}
{environment}
EnvironmentFile=-{secrets}
# Restart after a crash, but not if the settings can't be used (exit code 2): they must be corrected first.
Restart=on-failure
RestartSec=2
RestartPreventExitStatus=2
# The server gets SIGTERM and ends its agents cleanly; what is left after that is killed.
KillMode=mixed
TimeoutStopSec=30
# If an agent uses too much memory, only its own process is killed, not the server or the other agents.
OOMPolicy=continue
# No core dump of the server, which would contain the token, is left on the disk.
LimitCORE=0:infinity
# Nothing here hides /home, /tmp or system calls from the service: its agents build, test and debug your projects. The
# server itself limits them (drawbridge serve --help: --restricted, --max-memory, --unconfined).

[Install]
WantedBy=default.target
"""


RESTART: Final = (
    "The server reads its settings only when it starts. If they or Drawbridge have changed since then, run:"
)


class Service(Protocol):
    """The user service, as one platform's service manager runs it."""

    path: Path

    def content(self) -> bytes: ...

    def available(self) -> bool:
        """Whether the service manager answers."""
        ...

    def runs(self) -> bool: ...

    def start(self, *, reinstalled: bool) -> list[list[str]]:
        """The commands to run after the file is written. ``reinstalled``: whether the file existed before."""
        ...

    def restart(self) -> list[str]:
        """The command with which the user restarts the running server, so that it reads its settings again."""
        ...

    def stop(self) -> list[list[str]]:
        """The commands to run before the file is removed."""
        ...

    def forget(self) -> list[list[str]]:
        """The commands to run after the file is removed."""
        ...

    notes: tuple[str, ...]
    manager: str
    """The name of the service manager."""


class Systemd:
    notes: tuple[str, ...] = (
        "Unless lingering is enabled, the server stops when you log out. To enable it, run: loginctl enable-linger",
    )
    manager: str = "systemd"

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        base = Path(environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        self.path = base / "systemd" / "user" / f"{NAME}.service"

    def content(self) -> bytes:
        command = " ".join(_quoted(word).replace("$", "$$") for word in command_line())
        kept = passed_on(self._environ).items()
        environment = "\n".join(f"Environment={_quoted(f'{name}={value}')}" for name, value in kept)
        secrets = str(secrets_file(self._environ)).replace("%", "%%")
        return UNIT.format(command=command, environment=environment, secrets=secrets).encode()

    def available(self) -> bool:
        return succeeds("systemctl", "--user", "show-environment")

    def runs(self) -> bool:
        return succeeds("systemctl", "--user", "is-enabled", "--quiet", self.path.name) and succeeds(
            "systemctl", "--user", "is-active", "--quiet", self.path.name
        )

    def start(self, *, reinstalled: bool) -> list[list[str]]:
        reload, enable = ["systemctl", "--user", "daemon-reload"], ["systemctl", "--user", "enable", self.path.name]
        return [reload, enable, ["systemctl", "--user", "restart" if reinstalled else "start", self.path.name]]

    def restart(self) -> list[str]:
        return ["systemctl", "--user", "restart", self.path.name]

    def stop(self) -> list[list[str]]:
        return [["systemctl", "--user", "disable", "--now", self.path.name]]

    def forget(self) -> list[list[str]]:
        return [["systemctl", "--user", "daemon-reload"]]


class Launchd:
    notes: tuple[str, ...] = ()
    manager: str = "launchd"

    def __init__(self, environ: Mapping[str, str], uid: int) -> None:
        self._environ = environ
        self._domain = f"gui/{uid}"
        self.path = Path.home() / "Library" / "LaunchAgents" / f"{LAUNCHD_LABEL}.plist"

    def content(self) -> bytes:
        # The server rotates this file, because launchd does not rotate logs.
        log = Path.home() / "Library" / "Logs" / f"{NAME}.log"
        return plistlib.dumps(
            {
                "Label": self.path.stem,
                "ProgramArguments": [*command_line(), "--log-file", str(log)],
                "EnvironmentVariables": passed_on(self._environ),
                "RunAtLoad": True,
                "KeepAlive": {"SuccessfulExit": False},
                "ProcessType": "Interactive",  # otherwise, launchd throttles the server's agents like background work
                "ExitTimeOut": 30,
                "HardResourceLimits": {"Core": 0},
            }
        )

    def available(self) -> bool:
        return succeeds("launchctl", "print", self._domain)

    def runs(self) -> bool:
        return succeeds("launchctl", "print", f"{self._domain}/{self.path.stem}")

    def start(self, *, reinstalled: bool) -> list[list[str]]:
        return [*(self.stop() if reinstalled else []), ["launchctl", "bootstrap", self._domain, str(self.path)]]

    def restart(self) -> list[str]:
        return ["launchctl", "kickstart", "-k", f"{self._domain}/{self.path.stem}"]

    def stop(self) -> list[list[str]]:
        return [["launchctl", "bootout", f"{self._domain}/{self.path.stem}"]] if self.runs() else []

    def forget(self) -> list[list[str]]:
        return []


@dataclass(frozen=True)
class Run:
    """The step that runs commands of the service manager. ``path``: the service's file."""

    path: Path
    commands: tuple[tuple[str, ...], ...]
    kind: str = "modify"

    def lines(self) -> list[str]:
        return [f"{'-' if self.kind == 'delete' else '+'} {shlex.join(command)}" for command in self.commands]

    def apply(self) -> None:
        for command in self.commands:
            output_of(*command)


def service(platform: str = sys.platform, environ: Mapping[str, str] = os.environ, uid: int | None = None) -> Service:
    """The service for this machine's service manager. Raises ``NoProgram`` if the platform is not supported."""
    if platform.startswith("linux"):
        return Systemd(environ)
    if platform == "darwin":
        return Launchd(environ, os.getuid() if uid is None else uid)
    raise NoProgram(
        f"The service can't be installed: only systemd and launchd are supported, and {platform} has neither. Start "
        f"`{own_command()} serve` yourself."
    )


def plan_setup(chosen: Service | None = None) -> Plan:
    target = chosen or service()
    if is_passing(sys.executable):
        raise NoProgram(
            f"This drawbridge runs with {sys.executable}, which is in a temporary or cache directory. Install "
            "Drawbridge permanently, for example with pipx, and run this again with that installation."
        )
    before, after = files.read(target.path), _marked(target.content())
    if before is not None and not is_written_by_setup(before):
        nothing = f"The service was not installed: {target.path} was not written by `drawbridge setup`."
        return Plan([], "", nothing, ["To install the service, move that file elsewhere, then run this again."])
    change = Change(target.path, before, after, keep=before is not None and not is_unchanged(before))
    steps: list[Step] = []
    if before != after:
        change.check()
        steps.append(change)
    commands, notes = (
        target.start(reinstalled=before is not None),
        [*target.notes, *left_out(os.environ, target.manager)],
    )
    if not target.available():
        lines = "; ".join(shlex.join(command) for command in commands)
        notes.insert(
            0, f"{target.manager} can't be reached from this shell. In a login session of this user, run: {lines}"
        )
    elif steps or not target.runs():
        steps.append(Run(target.path, tuple(map(tuple, commands))))
    else:
        # A restart ends the agents' runs, so it is left to the user.
        notes.append(f"{RESTART} {shlex.join(target.restart())}")
    made = record.load(target.path)
    directories = made.directories if made else tuple(map(str, files.missing_directories(target.path)))
    return Plan(
        steps,
        done=f"Done: {target.path} is installed. `{own_command()} info` shows whether the server is running.",
        nothing=f"Nothing to change: {target.path} is up to date.",
        notes=notes,
        finish=lambda: record.save(target.path, Record(created=True, directories=directories)),
        command=command_line(),
    )


def plan_removal(chosen: Service | None = None) -> Plan:
    target = chosen or service()
    before, made = files.read(target.path), record.load(target.path)
    if before is None:
        return Plan([], "", f"Nothing to remove: {target.path} does not exist.")
    if not is_written_by_setup(before):
        return Plan([], "", f"Nothing to remove: {target.path} was not written by `drawbridge setup`.")
    steps: list[Step] = [Change(target.path, before, None, keep=not is_unchanged(before))]
    if target.available():
        around = [
            Run(target.path, tuple(map(tuple, commands)), "delete") for commands in (target.stop(), target.forget())
        ]
        steps = [step for step in (around[0], *steps, around[1]) if not isinstance(step, Run) or step.commands]

    def finish() -> None:
        record.save(target.path, None)
        for directory in [*map(Path, made.directories if made else ()), copies.data_directory()]:
            with contextlib.suppress(OSError):
                directory.rmdir()

    done = "Done: the service was removed. Projects, histories and settings were kept."
    if not target.available():
        done = (
            f"Done: {target.path} was removed. {target.manager} can't be reached from this shell, so if the "
            "server is running, it was not stopped."
        )
    return Plan(steps, done, "", finish=finish)


def command_line() -> list[str]:
    """The service's command. With -P, no file in the working directory is imported as a module."""
    return [os.path.abspath(sys.executable), "-P", "-m", "drawbridge", "serve"]


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    path = [
        place for place in environ.get("PATH", "").split(os.pathsep) if place.startswith("/") and not is_passing(place)
    ]
    kept = {"PATH": os.pathsep.join(dict.fromkeys(path))}
    for name in sorted(environ):
        wanted = name in PASSED_ON or (name.startswith("DRAWBRIDGE_SERVE_") and name not in SECRETS)
        if wanted and environ[name] and environ[name].isprintable():
            kept[name] = environ[name]
    return kept


def left_out(environ: Mapping[str, str], manager: str) -> list[str]:
    """Notes about secrets in the environment that are not passed on to the service. ``manager``: see ``Service``."""
    why = "was left out of the service's file, because it is a secret and other users may be able to read that file."
    return [f"{name} {why} {_remedy(name, environ, manager)}" for name in SECRETS if environ.get(name)]


def _remedy(name: str, environ: Mapping[str, str], manager: str) -> str:
    if manager == "systemd":
        return f"Put it into {secrets_file(environ)} (mode 0600)."
    key = name.removeprefix("DRAWBRIDGE_SERVE_").lower()
    return f"Set {key} under [serve] in {settings.config_file(environ)} (mode 0600)."


def secrets_file(environ: Mapping[str, str]) -> Path:
    return Path(settings.config_file(environ)).absolute().with_name("serve.env")


def _marked(content: bytes) -> bytes:
    """Adds a line at the beginning (in XML, after the first line) that identifies setup as the author and makes later
    changes detectable.
    """
    digest = hashlib.sha256(content).hexdigest()[:12]
    text = f"Written by `drawbridge setup serve` ({digest}), which also renews and removes it."
    if content.startswith(b"<?xml"):
        first, _, rest = content.partition(b"\n")
        return first + f"\n<!-- {text} -->\n".encode() + rest
    return f"# {text}\n".encode() + content


def _mark(content: bytes) -> re.Match[bytes] | None:
    return re.search(rb"^(?:#|<!--) Written by `drawbridge setup serve` \(([0-9a-f]{12})\).*\n", content, re.MULTILINE)


def is_written_by_setup(content: bytes) -> bool:
    return _mark(content) is not None


def is_unchanged(content: bytes) -> bool:
    """Whether the file is unchanged since setup wrote it."""
    mark = _mark(content)
    if mark is None:
        return False
    rest = content[: mark.start()] + content[mark.end() :]
    return hashlib.sha256(rest).hexdigest()[:12] == mark[1].decode()


def _quoted(word: str) -> str:
    """Quotes a value for systemd, where % begins a specifier everywhere."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
