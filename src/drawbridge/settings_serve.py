"""What ``drawbridge serve`` can be told; ``settings`` does the rest."""

from __future__ import annotations

from typing import Final

from drawbridge.settings_table import LEVELS, Setting

CLIENT_MODES: Final = ("default", "manual", "plan", "acceptEdits", "auto", "dontAsk")

DOLLARS: Final = (0.01, 100_000)
"""A run is not begun with less than a cent."""

SERVE_GROUPS: Final = {
    "where it listens": ("host", "port", "public_host", "allow_origin", "trusted_proxy", "metrics_port", "spec_env"),
    "certificate and access": ("cert", "key", "tls", "insecure_no_auth", "authorized_keys"),
    "projects and data": (
        "data_dir",
        "allow",
        "max_history",
        "max_data",
        "keep_days",
        "keep_mb",
        "checkpoints",
        "fsync",
    ),
    "agents": ("agent_path", "acp_agent", "command_agent", "warm", "warm_time"),
    "what clients may ask of agents": (
        "mode",
        "allow_skip_permissions",
        "allow_mcp_config",
        "allow_tool",
        "allow_model",
        "max_turns",
        "max_budget",
        "max_budget_project",
        "max_budget_day",
        "restricted",
        "hours",
    ),
    "limits": (
        "max_projects",
        "max_runs",
        "max_queue",
        "max_clients",
        "max_per_address",
        "max_prompts",
        "idle_timeout",
        "run_timeout",
        "max_memory",
        "max_open_files",
        "nice",
        "confined",
        "continue_limited",
    ),
    "notices and logs": ("webhook", "json", "log_level", "log_format", "log_file"),
}
"""Headings of ``drawbridge serve --help`` → the settings under them."""

SERVE: Final = (
    Setting("spec_env", "switch", False, "read the variables PORT, CERT_FILE, KEY_FILE and DATA_DIR too"),
    Setting("host", "text", "127.0.0.1", "the address to listen at; 0.0.0.0 or :: for all", metavar="ADDRESS"),
    Setting("port", "number", 8443, "the port to listen on (default: 8443); 0: any", metavar="N", range=(0, 65_535)),
    Setting(
        "data_dir",
        "text",
        None,
        "where projects and histories are stored (default: the platform's data directory)",
        metavar="D",
    ),
    Setting(
        "allow",
        "list",
        None,
        "a directory that may contain projects (default: your home without hidden folders)",
        metavar="DIR",
    ),
    Setting(
        "agent_path",
        "list",
        (),
        "the program of an agent, such as claude=/opt/claude/bin/claude (default: on PATH)",
        metavar="AGENT=PATH",
        pattern=r"[a-z][a-z0-9_-]*=.+",
    ),
    Setting(
        "acp_agent",
        "list",
        (),
        "another agent that speaks the Agent Client Protocol, and its command, such as goose=goose acp",
        metavar="NAME=COMMAND",
        pattern=r"[a-z][a-z0-9_-]{0,31}=.+",
    ),
    Setting(
        "command_agent",
        "list",
        (),
        "another agent: a command that reads a prompt and prints its answer, and never asks",
        metavar="NAME=COMMAND",
        pattern=r"[a-z][a-z0-9_-]{0,31}=.+",
    ),
    Setting("public_host", "list", (), "another name or address that clients use", metavar="NAME"),
    Setting("cert", "text", None, "a certificate (PEM, with its chain) instead of the one made here", metavar="FILE"),
    Setting("key", "text", None, "the key of --cert", metavar="FILE"),
    Setting("tls", "switch", True, "no TLS; on a loopback address only", flag="--no-tls"),
    Setting("insecure_no_auth", "switch", False, "ask for no token; on a loopback address only"),
    Setting("max_projects", "number", 100, "projects, at most (default: 100)", metavar="N", range=(1, 10_000)),
    Setting("max_runs", "number", 4, "runs at once, over all projects (default: 4)", metavar="N", range=(1, 1_000)),
    Setting("max_queue", "number", 20, "prompts that wait in one project (default: 20)", metavar="N", range=(1, 1_000)),
    Setting("max_clients", "number", 256, "clients at once (default: 256)", metavar="N", range=(1, 10_000)),
    Setting(
        "authorized_keys",
        "text",
        None,
        "an OpenSSH authorized_keys file: each of its keys may log in, with all rights",
        metavar="FILE",
    ),
    Setting(
        "max_per_address",
        "number",
        64,
        "clients at once of one address that is not this machine's (default: 64)",
        metavar="N",
        range=(1, 10_000),
    ),
    Setting(
        "max_prompts", "number", 120, "prompts of one device in a minute (default: 120)", metavar="N", range=(1, 10_000)
    ),
    Setting(
        "trusted_proxy",
        "list",
        (),
        "an address or network of proxies that say in X-Forwarded-For whom they bring",
        metavar="ADDRESS",
    ),
    Setting(
        "allow_origin",
        "list",
        (),
        "a web page elsewhere that may connect, such as https://agents.example",
        metavar="ORIGIN",
        pattern=r"https?://[^/\s]+/?",
    ),
    Setting(
        "idle_timeout",
        "number",
        300,
        "seconds after which a run without any output is ended, while nobody is asked (default: 300)",
        metavar="S",
        range=(1, 86_400),
    ),
    Setting("run_timeout", "number", None, "seconds that a run may take in all", metavar="S", range=(1, 864_000)),
    Setting(
        "max_memory",
        "number",
        None,
        "megabytes for an agent and all that it starts (default: three quarters of the machine's)",
        metavar="MB",
        range=(64, 100_000_000),
    ),
    Setting(
        "max_open_files",
        "number",
        None,
        "files that each process of an agent may have open (default: as many as the server)",
        metavar="N",
        range=(64, 10_000_000),
    ),
    Setting("nice", "number", 0, "niceness of agents: 0 to 19", metavar="N", range=(0, 19)),
    Setting("confined", "switch", True, "agents may use sudo and other setuid programs", flag="--unconfined"),
    Setting("warm", "number", 4, "agents kept ready between prompts (default: 4)", metavar="N", range=(0, 100)),
    Setting("warm_time", "number", 1_800, "seconds they are kept (default: 1800)", metavar="S", range=(1, 86_400)),
    Setting(
        "mode",
        "list",
        CLIENT_MODES,
        "a permission mode that clients may ask for (default: all that ask)",
        metavar="MODE",
    ),
    Setting("allow_skip_permissions", "switch", False, "clients may have an agent ask for nothing at all"),
    Setting("allow_mcp_config", "switch", False, "clients may name MCP servers, which are programs that are started"),
    Setting(
        "allow_tool",
        "list",
        (),
        "what clients may allow beforehand, such as Bash(git *) (default: all)",
        metavar="RULE",
    ),
    Setting(
        "allow_model",
        "list",
        (),
        "a model that clients may ask for, such as *sonnet* (default: all); the first without * is the default",
        metavar="MODEL",
    ),
    Setting("max_turns", "number", None, "turns of an agent in one run, at most", metavar="N", range=(1, 100_000)),
    Setting("max_budget", "amount", None, "US dollars that one run may cost", metavar="USD", range=DOLLARS),
    Setting(
        "max_budget_project",
        "amount",
        None,
        "US dollars that one project may cost in all",
        metavar="USD",
        range=DOLLARS,
    ),
    Setting(
        "max_budget_day",
        "amount",
        None,
        "US dollars that all runs of a day may cost, from local midnight on",
        metavar="USD",
        range=DOLLARS,
    ),
    Setting("restricted", "switch", False, "every run without shell, code tools and the repository's settings"),
    Setting(
        "hours",
        "text",
        None,
        "when agents may be started, such as 8-22 (local time)",
        metavar="FROM-TO",
        pattern=r"([01]?\d|2[0-4])-([01]?\d|2[0-4])",
    ),
    Setting(
        "max_history",
        "number",
        2_000,
        "megabytes that the history of a project may take (default: 2000)",
        metavar="MB",
        range=(1, 100_000_000),
    ),
    Setting(
        "max_data",
        "number",
        20_000,
        "megabytes that all that the server keeps may take (default: 20000)",
        metavar="MB",
        range=(1, 100_000_000),
    ),
    Setting(
        "keep_days", "number", None, "drop history older than that (default: never)", metavar="N", range=(1, 36_500)
    ),
    Setting(
        "keep_mb",
        "number",
        None,
        "drop the oldest history of a project beyond so many megabytes (default: never)",
        metavar="MB",
        range=(1, 100_000_000),
    ),
    Setting(
        "continue_limited", "switch", False, "what a limit of an agent's account stops goes on when that is lifted"
    ),
    Setting("checkpoints", "switch", True, "keep no checkpoints of git work trees", flag="--no-checkpoints"),
    Setting("fsync", "choice", "second", "when a message is on the disk itself", ("always", "second", "off")),
    Setting(
        "metrics_port",
        "number",
        None,
        "numbers for Prometheus at this port of 127.0.0.1; 0: any",
        metavar="N",
        range=(0, 65_535),
    ),
    Setting(
        "webhook",
        "text",
        None,
        "a URL, such as one of ntfy's, to which a notice is posted when an agent waits for you or a run ends",
        metavar="URL",
        pattern=r"https?://[^\s/]+\S*",
    ),
    Setting("json", "switch", False, "print the ready line as JSON"),
    Setting("log_level", "choice", "info", "how much is logged", LEVELS),
    Setting("log_format", "choice", "console", "how it is logged", ("console", "json")),
    Setting("log_file", "text", None, "log here instead of stderr; five files of 10 MB are kept", metavar="FILE"),
)
"""What ``drawbridge serve`` can be told."""

SPEC_VARIABLES: Final = {"port": "PORT", "cert": "CERT_FILE", "key": "KEY_FILE", "data_dir": "DATA_DIR"}
"""Of the agent server's specification. Read on demand only: every web project's shell sets PORT."""
