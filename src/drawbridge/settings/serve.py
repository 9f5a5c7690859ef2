"""The settings of ``drawbridge serve``."""

# No `from __future__ import annotations`: it would turn the annotations, which `settings.of` reads, into strings.

from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from drawbridge.settings import Level, Spec

Fsync: TypeAlias = Literal["always", "second", "off"]
LogFormat: TypeAlias = Literal["console", "json"]

CLIENT_MODES: Final = ("default", "manual", "plan", "acceptEdits", "auto", "dontAsk")
"""All permission modes except bypassPermissions."""

AGENT_NAME: Final = r"[a-z][a-z0-9_-]{0,31}"
AGENT_FORM: Final = "NAME=COMMAND (NAME: a lowercase letter, then up to 31 lowercase letters, digits, - or _)"
LAUNCHD_LABEL: Final = "drawbridge.serve"
"""The name of the service on macOS."""
MEGABYTES: Final = (1, 100_000_000)

DOLLARS: Final = (0.01, 100_000)
"""The smallest and the largest budget, in US dollars. A run does not start if less than a cent of a budget is left."""


class ServeSettings(NamedTuple):
    """The settings of one agent server. ``server.plan`` checks the values against this machine."""

    host: Annotated[
        str, Spec("the address to listen on; 0.0.0.0 or :: for all", metavar="ADDRESS", heading="where it listens")
    ] = "127.0.0.1"
    port: Annotated[
        int, Spec("the port to listen on; 0 for any free port", metavar="N", range=(0, 65_535), bare="PORT")
    ] = 8443
    public_host: Annotated[
        tuple[str, ...],
        Spec("another host name or address that clients use for this server", metavar="NAME", separator=","),
    ] = ()
    allow_origin: Annotated[
        tuple[str, ...],
        Spec(
            "the origin of another web page that may connect, such as https://agents.example",
            metavar="https://NAME",
            separator=",",
            pattern=r"https?://[^/\s]+/?",
            form="https://NAME or http://NAME, without a path",
        ),
    ] = ()
    trusted_proxy: Annotated[
        tuple[str, ...],
        Spec(
            "the address or network of proxies whose X-Forwarded-For header is trusted",
            metavar="ADDRESS",
            separator=",",
        ),
    ] = ()
    metrics_port: Annotated[
        int | None,
        Spec(
            "serve Prometheus metrics on this port of the loopback interface; 0 for any free port",
            metavar="N",
            range=(0, 65_535),
        ),
    ] = None
    spec_env: Annotated[bool, Spec("also read the variables PORT, CERT_FILE, KEY_FILE and DATA_DIR")] = False

    cert: Annotated[
        str | None,
        Spec(
            "the certificate to use, with its chain (PEM), instead of a generated one",
            metavar="FILE",
            heading="certificate and access",
            bare="CERT_FILE",
        ),
    ] = None
    key: Annotated[str | None, Spec("the private key for --cert", metavar="FILE", bare="KEY_FILE")] = None
    tls: Annotated[bool, Spec("turn off TLS; requires a loopback address", flag="--no-tls")] = True
    insecure_no_auth: Annotated[bool, Spec("do not require a token; requires a loopback address")] = False
    authorized_keys: Annotated[
        str | None,
        Spec("an OpenSSH authorized_keys file; each key in it may sign in, with full access", metavar="FILE"),
    ] = None

    data_dir: Annotated[
        str | None,
        Spec(
            "the directory for projects and histories (default: the platform's data directory)",
            metavar="DIR",
            heading="projects and data",
            bare="DATA_DIR",
        ),
    ] = None
    allow: Annotated[
        tuple[str, ...] | None,
        Spec(
            "a directory that may contain projects (default: your home directory, without hidden directories)",
            metavar="DIR",
        ),
    ] = None
    ignore: Annotated[
        tuple[str, ...] | None,
        Spec("a pattern for files to hide from clients, instead of the built-in patterns", metavar="PATTERN"),
    ] = None
    max_history: Annotated[
        int, Spec("maximum size of a project's history, in megabytes", metavar="MB", range=MEGABYTES)
    ] = 2_000
    max_data: Annotated[
        int, Spec("maximum size of all of the server's data, in megabytes", metavar="MB", range=MEGABYTES)
    ] = 20_000
    keep_days: Annotated[
        int | None, Spec("delete history older than this many days (default: never)", metavar="DAYS", range=(1, 36_500))
    ] = None
    keep_mb: Annotated[
        int | None,
        Spec(
            "delete a project's oldest history beyond this many megabytes (default: never)",
            metavar="MB",
            range=MEGABYTES,
        ),
    ] = None
    checkpoints: Annotated[bool, Spec("do not take checkpoints before and after runs", flag="--no-checkpoints")] = True
    checkpoint_files: Annotated[
        int,
        Spec(
            "maximum number of files in a directory outside git work trees; a directory with more gets no checkpoints",
            metavar="N",
            range=(1, 1_000_000),
        ),
    ] = 20_000
    checkpoint_mb: Annotated[
        int, Spec("maximum size of all files in such a directory, in megabytes", metavar="MB", range=MEGABYTES)
    ] = 300
    fsync: Annotated[
        Fsync, Spec("how often history is synced to the disk: after each message, every second, or never")
    ] = "second"

    agent_path: Annotated[
        tuple[str, ...],
        Spec(
            "the program of an agent, such as claude=/opt/claude/bin/claude (default: from PATH)",
            metavar="AGENT=PATH",
            pattern=r"[a-z][a-z0-9_-]*=.+",
            key=r"[a-z][a-z0-9_-]*",
            heading="agents",
        ),
    ] = ()
    acp_agent: Annotated[
        tuple[str, ...],
        Spec(
            "another agent that supports the Agent Client Protocol, and its command, such as goose=goose acp",
            metavar="NAME=COMMAND",
            pattern=f"{AGENT_NAME}=.+",
            key=AGENT_NAME,
            form=AGENT_FORM,
        ),
    ] = ()
    command_agent: Annotated[
        tuple[str, ...],
        Spec(
            "another agent: a command that reads a prompt from stdin, prints its answer and never asks",
            metavar="NAME=COMMAND",
            pattern=f"{AGENT_NAME}=.+",
            key=AGENT_NAME,
            form=AGENT_FORM,
        ),
    ] = ()
    warm: Annotated[
        int, Spec("number of idle agent processes to keep ready for the next prompt", metavar="N", range=(0, 100))
    ] = 4

    mode: Annotated[
        tuple[str, ...],
        Spec(
            "a permission mode that clients may choose (default: all of these)",
            heading="what clients may request",
            choices=CLIENT_MODES,
        ),
    ] = CLIENT_MODES
    allow_skip_permissions: Annotated[bool, Spec("let clients choose modes in which an agent never asks")] = False
    allow_commit: Annotated[
        bool,
        Spec("let clients with the admin scope commit what was kept in a review, with your git identity and hooks"),
    ] = False
    allow_push: Annotated[
        bool,
        Spec(
            "let clients with the admin scope push the current branch of a project and create pull requests, with your git, gh "
            "or glab"
        ),
    ] = False
    allow_mcp_config: Annotated[
        bool, Spec("let clients configure MCP servers, which run as programs on this machine")
    ] = False
    allow_tool: Annotated[
        tuple[str, ...],
        Spec(
            "a rule for calls that clients may allow in advance, such as Bash(git *) (default: any)",
            metavar="RULE",
            separator=",",
        ),
    ] = ()
    allow_model: Annotated[
        tuple[str, ...],
        Spec(
            "a model that clients may choose, such as *sonnet* (default: any); the first without * becomes the default",
            metavar="MODEL",
            separator=",",
        ),
    ] = ()
    max_turns: Annotated[
        int | None, Spec("maximum number of turns that an agent may take in one run", metavar="N", range=(1, 100_000))
    ] = None
    max_budget: Annotated[
        float | None, Spec("maximum cost of one run, in US dollars", metavar="USD", range=DOLLARS)
    ] = None
    max_budget_project: Annotated[
        float | None, Spec("maximum total cost of one project, in US dollars", metavar="USD", range=DOLLARS)
    ] = None
    max_budget_day: Annotated[
        float | None,
        Spec("maximum cost of all runs in a day, from local midnight, in US dollars", metavar="USD", range=DOLLARS),
    ] = None
    restricted: Annotated[
        bool, Spec("run every agent without a shell, code tools or the repository's own settings")
    ] = False
    hours: Annotated[
        str | None,
        Spec(
            "the hours in which runs may start, such as 8-22 (local time)",
            metavar="FROM-TO",
            pattern=r"([01]?\d|2[0-4])-([01]?\d|2[0-4])",
            form="FROM-TO, in hours from 0 to 24",
        ),
    ] = None

    max_projects: Annotated[
        int, Spec("maximum number of projects", metavar="N", range=(1, 10_000), heading="limits")
    ] = 100
    max_runs: Annotated[
        int, Spec("maximum number of runs at once, across all projects", metavar="N", range=(1, 1_000))
    ] = 4
    max_queue: Annotated[
        int, Spec("maximum number of queued prompts in one project", metavar="N", range=(1, 1_000))
    ] = 20
    max_clients: Annotated[int, Spec("maximum number of clients at once", metavar="N", range=(1, 10_000))] = 256
    max_per_address: Annotated[
        int, Spec("maximum number of clients at once from one remote address", metavar="N", range=(1, 10_000))
    ] = 64
    max_prompts: Annotated[
        int, Spec("maximum number of prompts per minute from one device", metavar="N", range=(1, 10_000))
    ] = 120
    idle_timeout: Annotated[
        int,
        Spec(
            "end a run after this many seconds without output, unless an approval request is open",
            metavar="SECONDS",
            range=(1, 86_400),
        ),
    ] = 300
    run_timeout: Annotated[
        int | None,
        Spec("end a run after this many seconds (default: never)", metavar="SECONDS", range=(1, 864_000)),
    ] = None
    max_memory: Annotated[
        int | None,
        Spec(
            "maximum memory of an agent and everything that it starts, in megabytes (default: three quarters of the machine's)",
            metavar="MB",
            range=(64, 100_000_000),
        ),
    ] = None
    max_open_files: Annotated[
        int | None,
        Spec(
            "maximum number of open files for each process of an agent (default: the server's own limit)",
            metavar="N",
            range=(64, 10_000_000),
        ),
    ] = None
    nice: Annotated[int, Spec("nice level of agent processes, from 0 to 19", metavar="N", range=(0, 19))] = 0
    confined: Annotated[bool, Spec("let agents use sudo and other setuid programs", flag="--unconfined")] = True
    continue_limited: Annotated[bool, Spec("resume runs automatically after an account's usage limit resets")] = False

    webhook: Annotated[
        str | None,
        Spec(
            "a URL, such as an ntfy topic, that receives a POST when an agent waits for you or a run ends",
            metavar="URL",
            pattern=r"https?://[^\s/]+\S*",
            form="https://… or http://…",
            heading="notifications and logs",
        ),
    ] = None
    json: Annotated[bool, Spec("print the ready line as JSON")] = False
    log_level: Annotated[Level, Spec("the least severe messages to log")] = "info"
    log_format: Annotated[LogFormat, Spec("the format of the log")] = "console"
    log_file: Annotated[
        str | None,
        Spec(
            "log to this file instead of stderr; it is rotated at 10 MB, and five old files are kept",
            metavar="FILE",
        ),
    ] = None
