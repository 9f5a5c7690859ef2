"""The settings of ``drawbridge ide``."""

# No `from __future__ import annotations`: it would turn the annotations, which `settings.of` reads, into strings.

from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from drawbridge.agents import catalog
from drawbridge.settings import Level, Spec

AGENTS: Final = tuple(row.name for row in catalog.ROWS if row.bridge)
"""The agents that connect to an editor's bridge."""

Mention: TypeAlias = Literal["recent", "all"]
Reject: TypeAlias = Literal["upgrade", "1008"]
Decide: TypeAlias = Literal["accept", "reject"]


class IdeSettings(NamedTuple):
    """The settings of one bridge: its editor, the agents that it serves, and what they may see."""

    nvim: Annotated[
        str | None, Spec("the Neovim to connect to: its socket, HOST:PORT, or stdio", metavar="ADDRESS")
    ] = None
    folder: Annotated[
        str | None, Spec("serve a directory without an editor; proposals are shown in this terminal", metavar="DIR")
    ] = None
    decide: Annotated[Decide | None, Spec("with --folder: accept or reject every proposal without asking")] = None
    workspace: Annotated[
        tuple[str, ...], Spec("a folder that agents see as the workspace (default: the editor's)", metavar="DIR")
    ] = ()
    port: Annotated[
        int | None,
        Spec(
            "the port to listen on, or the next free one if it is taken (default: a random free port)",
            metavar="N",
            range=(1, 65_535),
        ),
    ] = None
    agent: Annotated[tuple[str, ...], Spec("an agent to serve (default: all)", choices=AGENTS)] = AGENTS
    host: Annotated[
        tuple[str, ...],
        Spec("another host name that agents use for this machine, such as host.docker.internal", metavar="NAME"),
    ] = ()
    single_client: Annotated[
        bool, Spec("serve one Claude Code at a time; a new one closes the connection of the previous one")
    ] = False
    mention: Annotated[Mention, Spec("which agents receive what you send: the most recently active one, or all")] = (
        "recent"
    )
    reject: Annotated[
        Reject, Spec("how to reject Claude Code with a wrong token: HTTP 401, or WebSocket close code 1008")
    ] = "upgrade"
    context: Annotated[
        bool, Spec("hide your selection, open files and diagnostics from agents", flag="--no-context")
    ] = True
    ignore: Annotated[
        tuple[str, ...] | None,
        Spec("a pattern for files to hide from agents, instead of the built-in patterns", metavar="PATTERN"),
    ] = None
    execute_code: Annotated[bool, Spec("offer the executeCode tool; each call asks you first")] = False
    json: Annotated[bool, Spec("print the ready line as JSON even on a terminal")] = False
    log_level: Annotated[Level, Spec("the least severe messages to log")] = "warning"
    log_file: Annotated[str | None, Spec("log to this file instead of stderr", metavar="FILE")] = None
