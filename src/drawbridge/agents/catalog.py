"""The agents that Drawbridge knows by name: one row each.

To add an agent, add a row here and a folder ``agents/NAME`` with

* ``driver.py``: ``agent(path)`` returns the ``base.Agent`` that the server runs; ``path``: its program, or None for the
  usual one;
* with ``hooks``: ``hook.py``, what its hooks send and how they are answered (see ``guard/calls.py``), and
  ``hook_settings.py``: ``SETTINGS``, which describes those hooks in its settings (see ``agents/hook_settings.py``);
* with ``terminal``: ``terminal.py``: ``agent()`` returns the ``agents.terminal.TerminalAgent`` for its sessions in
  terminals;
* with ``asks``, ``terminal`` or ``proposes``: ``tools.py``: ``TOOLS`` is the ``agents.tool_calls.Tools`` that describes
  the calls that it asks about.

Pure, and without imports, because the guard also reads it and has to start in milliseconds.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

WEBSOCKET, HTTP = "websocket", "http"


class Row:
    """The facts about one agent, for all parts of Drawbridge."""

    __slots__ = (
        "ask_mode",
        "asks",
        "bridge",
        "compact",
        "environment",
        "forks",
        "hooks",
        "label",
        "login",
        "name",
        "oldest",
        "own_modes",
        "own_variables",
        "places",
        "program",
        "proposes",
        "sees",
        "settings",
        "terminal",
        "tested",
        "title",
    )

    def __init__(
        self,
        name: str,
        title: str,
        label: str,
        *,
        program: str = "",
        places: tuple[str, ...] = (),
        asks: bool = True,
        own_modes: bool = False,
        sees: bool = True,
        forks: bool = True,
        settings: str = "",
        hooks: bool = False,
        terminal: bool = False,
        ask_mode: bool = False,
        bridge: str = "",
        proposes: bool = False,
        own_variables: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        oldest: tuple[int, ...] = (),
        tested: tuple[int, ...] = (),
        login: tuple[str, str] | None = None,
        compact: str = "",
    ) -> None:
        self.name = name
        """The name that is used in commands, settings, the client protocol and files."""
        self.title = title
        """The product's name, as users see it."""
        self.label = label
        """The name at the beginning of a sentence for users: "Claude wants to change …"."""
        self.program = program
        """The name of its program on PATH. Empty if it does not need a program, so that ``--agent-path`` can't set
        it."""
        self.places = places
        """The paths at which its installers put the program; "~" is the home directory. These places are searched after
        PATH, because a server that was started by a service manager often has a short PATH."""
        self.asks = asks
        """Whether it can ask for decisions in the server's runs. If not, it does whatever its mode allows."""
        self.own_modes = own_modes
        """Whether it may have permission modes that the client protocol does not define."""
        self.sees = sees
        """Whether a prompt may contain images."""
        self.forks = forks
        """Whether a copy of one of its conversations can be continued."""
        self.settings = settings
        """The directory in a project that contains its settings. A request that changes a file there is marked, since
        the settings decide what the agent may do. Empty if there is none."""
        self.hooks = hooks
        """Whether it calls hooks, so that the guard can be set up for it."""
        self.terminal = terminal
        """Whether its hooks report its terminal sessions to the server."""
        self.ask_mode = ask_mode
        """Whether it can start in a mode in which it writes without asking. If so, setup can make it ask."""
        self.bridge = bridge
        """The protocol with which it connects to an editor's bridge: ``WEBSOCKET`` or ``HTTP``. Empty if it does not
        connect to one."""
        self.proposes = proposes
        """Whether it has no hook for approval requests, so that those of its terminal sessions reach the server only as
        proposals from a bridge."""
        self.own_variables = own_variables
        """Variables that it sets for the processes that it starts, and variables that an editor sets for it in the
        editor's terminals. A name that ends with ``*`` matches every name that begins with the text before the ``*``.
        The agents that the server starts do not receive these variables."""
        self.environment = environment or {}
        """Variables for this agent. The server sets them for every agent, since one agent may start another."""
        self.oldest = oldest
        """The oldest version that works with Drawbridge; empty if it is not known."""
        self.tested = tested
        """The newest version that was tested. docs/agents.md lists it, too."""
        self.login = login
        """The command with which a user logs in to it on the server's machine, and what to do next; None if that is not
        known."""
        self.compact = compact
        """The prompt with which it replaces a conversation with a summary, also in a terminal; empty if that is not
        known."""


ROWS: Final = (
    Row(
        "claude",
        "Claude Code",
        "Claude",
        program="claude",
        places=("~/.local/bin/claude", "~/.claude/local/claude", "/usr/local/bin/claude", "/opt/homebrew/bin/claude"),
        settings=".claude",
        hooks=True,
        terminal=True,
        ask_mode=True,
        bridge=WEBSOCKET,
        own_variables=(
            "CLAUDECODE",
            "CLAUDE_PID",
            "CLAUDE_EFFORT",
            "CLAUDE_PROJECT_DIR",
            "AI_AGENT",
            "CLAUDE_CODE_CHILD_*",
            "CLAUDE_CODE_SESSION_*",
            "CLAUDE_CODE_MESSAGING_*",
            "CLAUDE_CODE_SSE_PORT*",
            "CLAUDE_CODE_ENTRYPOINT*",
        ),
        environment={"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        oldest=(2, 0, 0),
        tested=(2, 1, 332),
        compact="/compact",
        login=(
            "claude",
            "Type /login there and follow the steps. Or check the API key that the server was started with.",
        ),
    ),
    Row(
        "gemini",
        "Gemini CLI",
        "Gemini",
        program="gemini",
        own_modes=True,
        forks=False,
        settings=".gemini",
        hooks=True,
        terminal=True,
        bridge=HTTP,
        proposes=True,
        own_variables=("GEMINI_CLI", "GEMINI_CLI_IDE_*"),
        oldest=(0, 31, 0),
        tested=(0, 61, 0),
        login=("gemini", "Choose how to log in."),
    ),
    Row(
        "codex",
        "Codex",
        "Codex",
        program="codex",
        asks=False,
        sees=False,
        settings=".codex",
        hooks=True,
        terminal=True,
        tested=(0, 169, 0),
        login=("codex login", "Follow the steps."),
    ),
    Row("demo", "The demo agent", "The demo agent"),
)

FIRST: Final = ROWS[0].name
"""The agent of projects that were created when there was only one, and whose metadata names none."""

AGENTS: Final = {row.name: row for row in ROWS}


def label(name: str) -> str:
    """The agent's name for the beginning of a sentence; "The NAME agent" for an agent without a row."""
    row = AGENTS.get(name)
    return row.label if row is not None else f"The {name} agent"


def login(name: str) -> tuple[str, str] | None:
    """The command with which a user logs in to the agent on the server's machine, and what to do next; None if that is
    not known."""
    row = AGENTS.get(name)
    return row.login if row is not None else None


def compact(name: str) -> str:
    """The prompt with which the agent replaces a conversation with a summary; empty if that is not known."""
    row = AGENTS.get(name)
    return row.compact if row is not None else ""


def title(name: str) -> str:
    """The agent's display name; ``name`` itself for an agent without a row."""
    row = AGENTS.get(name)
    return row.title if row is not None else name
