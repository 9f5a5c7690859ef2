"""The possible findings of the doctor. Each id is stable and always has the same severity. The table in docs/cli.md is
generated from ``CAUSES``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

Severity: TypeAlias = Literal["ok", "note", "warning", "problem"]


class Cause(NamedTuple):
    """A kind of finding. ``text``: what was found, for the documentation."""

    severity: Severity
    text: str


CAUSES: Final = {
    "agent-works": Cause("ok", "an agent's program runs"),
    "agent-none": Cause("note", "no agent is installed"),
    "agent-missing": Cause("warning", "an agent is set up to call the guard, but its program was not found"),
    "agent-fails": Cause("problem", "an agent's program does not run, or does not print its version"),
    "agent-too-old": Cause("warning", "an agent is older than the oldest version that works with Drawbridge"),
    "agent-newer": Cause("note", "an agent is newer than the newest version that Drawbridge was tested with"),
    "agent-does-not-ask": Cause("note", "an agent is not set to ask before it writes"),
    "hook-works": Cause("ok", "the hook command in an agent's settings answers a sample call"),
    "hook-absent": Cause("note", "an agent is installed, but nothing is set up for it"),
    "hook-gone": Cause("problem", "a hook command needs a file that is missing or can't be used"),
    "hook-broken": Cause("problem", "a hook command fails, does not answer in time, or sends an invalid answer"),
    "hook-slow": Cause("warning", "a hook command takes longer than a second"),
    "hook-outdated": Cause(
        "warning", "the guard is not called for some events, for example because its hooks are from another version"
    ),
    "hook-untested": Cause("note", "a hook command in a project's settings is not the one that setup installs"),
    "hooks-off": Cause("problem", "a setting turns off the hooks that were set up"),
    "hooks-forbidden": Cause("note", "a setting turns off hooks, but no hooks were set up"),
    "hook-settings-unreadable": Cause("problem", "an agent's settings file is not valid, or can't be read"),
    "guard-failed": Cause("warning", "the guard has failed in the last day"),
    "bridge-works": Cause("ok", "a bridge accepts an agent's connection"),
    "bridge-none": Cause("note", "no bridge is running"),
    "bridge-dead": Cause("warning", "a discovery file names a process that has ended"),
    "bridge-foreign-dead": Cause(
        "note", "a discovery file was left behind by another program that is no longer running"
    ),
    "bridge-refused": Cause("problem", "a bridge's process runs, but its port refuses connections"),
    "bridge-silent": Cause("problem", "the port of a bridge accepts connections, but does not answer"),
    "bridge-token": Cause("problem", "a bridge refuses the token in its discovery file"),
    "bridge-invalid": Cause(
        "problem", "the answer on a bridge's port is not valid, for example because another program uses that port"
    ),
    "bridge-unreadable": Cause("warning", "a discovery file can't be read as JSON"),
    "bridge-outside": Cause("note", "bridges are running, but none for this directory"),
    "bridge-ambiguous": Cause("warning", "several bridges serve this directory"),
    "bridge-other-config": Cause("warning", "a bridge announces itself where agents started here do not look"),
    "proxy": Cause("warning", "a proxy is set for connections to this machine"),
    "editor-works": Cause("ok", "an editor answers the guard"),
    "editor-silent": Cause("warning", "an editor does not give the guard a valid answer in time"),
    "editor-unseen": Cause("warning", "editors listen where the guard does not look"),
    "server-works": Cause("ok", "a server answers at an address, and its certificate is valid for that address"),
    "server-none": Cause("note", "no server is running"),
    "server-silent": Cause("problem", "a server does not answer on this machine"),
    "server-unreachable": Cause("problem", "a server does not answer at an address that it names for other devices"),
    "server-host": Cause("problem", "a server refuses the name or address that is used to reach it"),
    "server-loopback": Cause("note", "a server listens on this machine only"),
    "server-certificate-expired": Cause("problem", "a server's certificate has expired"),
    "server-certificate-early": Cause("problem", "a server's certificate is not valid yet"),
    "server-certificate-name": Cause("problem", "a server's certificate is for other addresses"),
    "server-certificate-untrusted": Cause("warning", "a server's certificate is not trusted on this machine"),
    "server-token": Cause("problem", "a server refuses the owner's token"),
    "server-socket": Cause("problem", "a server's private socket does not accept connections"),
    "clock": Cause("warning", "a server's files are dated in the future, so the clock is or was wrong"),
    "machine-works": Cause("ok", "Python and git run, and enough disk space is free"),
    "settings-invalid": Cause("problem", "Drawbridge's settings can't be used"),
    "git-missing": Cause("warning", "git was not found, or does not run"),
    "disk-full": Cause("problem", "less than 500 MB of disk space is free"),
    "other-drawbridge": Cause("warning", "`drawbridge` on `PATH` is a different version from this one"),
    "check-late": Cause("warning", "a check did not finish in time"),
    "check-failed": Cause("warning", "a check failed with an internal error"),
}


@dataclass(frozen=True)
class Finding:
    """A finding. ``title``: what was found. ``why``: why it matters. ``todo``: what to do, with each command in
    backticks. ``why`` and ``todo`` are empty if nothing is wrong."""

    id: str
    severity: Severity
    title: str
    why: str = ""
    todo: str = ""


class Check(NamedTuple):
    """A check. ``name``: what it tests, as shown to the user. ``run`` blocks, and is called in its own thread."""

    name: str
    run: Callable[[], list[Finding]]


def finding(id: str, title: str, why: str = "", todo: str = "") -> Finding:
    return Finding(id, CAUSES[id].severity, title, why, todo)
