"""The command line and environment of ``claude``: every option is passed on, and nothing else is."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from drawbridge.agents import environment as common
from drawbridge.agents.base import MODEL_NAME, AgentUnusable, Launch, Options
from drawbridge.agents.claude.command_line import STREAM, arguments, environment, version
from drawbridge.agents.environment import MARK
from drawbridge.settings import of
from drawbridge.settings.serve import ServeSettings

ID = "08445e35-194e-42db-84a7-b7a55484f1b6"
OTHER_ID = "f29b472b-f1b1-4f7c-bc75-762ac50f3c4b"
DEFAULT = "--permission-mode=default"
"""Passed unless another mode is chosen. Without it, the owner's settings would choose the mode."""


def flags(**options: Any) -> list[str]:
    """Returns the flags that the options add to the command line."""
    found = arguments(Launch("/project", ID, options=Options(**options)))
    assert found[: len(STREAM) + 1] == [*STREAM, f"--session-id={ID}"]
    return found[len(STREAM) + 1 :]


def test_it_streams_json_and_asks_over_stdio() -> None:
    assert arguments(Launch("/project", ID)) == [
        "--output-format=stream-json",
        "--verbose",
        "--input-format=stream-json",
        "--permission-prompt-tool=stdio",
        f"--session-id={ID}",
        DEFAULT,
    ]


def test_a_conversation_is_resumed_by_its_id() -> None:
    assert arguments(Launch("/project", ID, resume=True))[4:] == [f"--resume={ID}", DEFAULT]


def test_a_fork_gets_the_given_id() -> None:
    launch = Launch("/project", ID, fork_from=OTHER_ID)
    assert arguments(launch)[4:] == [f"--resume={OTHER_ID}", "--fork-session", f"--session-id={ID}", DEFAULT]


def test_the_files_of_prompts_can_be_read() -> None:
    """A path that the CLI would read as a pattern or as two rules is left out."""
    read = ["--allowedTools=Read(//data/my files/**)"]
    assert arguments(Launch("/project", ID, files="/data/my files"))[5:] == [DEFAULT, *read]
    for path in ("/data/a*b", "/data/(a)", "/data/a,b", "/data/[a]", "/data/a\nb"):
        assert arguments(Launch("/project", ID, files=path))[5:] == [DEFAULT]


def test_a_mode_is_always_named() -> None:
    assert flags() == [DEFAULT]
    assert flags(permission_mode="plan") == ["--permission-mode=plan"]
    skipping = ["--dangerously-skip-permissions", "--permission-mode=bypassPermissions"]
    assert flags(dangerously_skip_permissions=True) == skipping


def test_every_option_has_its_flag() -> None:
    assert flags(
        dangerously_skip_permissions=True,
        allowed_tools=("Read", "Bash(git log *)"),
        disallowed_tools=("mcp__web__*", "Bash(rm -rf (a), b)"),
        mcp_config='{"mcpServers": {}}',
        strict_mcp_config=True,
        append_system_prompt="Be kind.\nAnd brief.",
        system_prompt="--version",
        permission_mode="acceptEdits",
        model="claude-opus-5[1m]",
        fallback_model="arn:aws:bedrock:eu-1:1:profile/x,claude@2026",
        add_dirs=("/srv/a b", "/tmp/-c"),
        effort="high",
        max_turns=7,
        max_budget_usd=0.25,
        partial_messages=True,
        restricted=True,
    ) == [
        "--dangerously-skip-permissions",
        "--strict-mcp-config",
        "--include-partial-messages",
        "--restricted",
        "--permission-mode=acceptEdits",
        "--model=claude-opus-5[1m]",
        "--fallback-model=arn:aws:bedrock:eu-1:1:profile/x,claude@2026",
        "--effort=high",
        "--system-prompt=--version",
        "--append-system-prompt=Be kind.\nAnd brief.",
        '--mcp-config={"mcpServers": {}}',
        "--allowedTools=Read",
        "--allowedTools=Bash(git log *)",
        "--disallowedTools=mcp__web__*",
        "--disallowedTools=Bash(rm -rf (a), b)",
        "--add-dir=/srv/a b",
        "--add-dir=/tmp/-c",
        "--max-turns=7",
        "--max-budget-usd=0.25",
    ]


def test_empty_options_are_left_out() -> None:
    assert flags(model="", system_prompt="", allowed_tools=(), mcp_config=None) == [DEFAULT]


BAD: list[tuple[str, Any]] = [
    *(("model", bad) for bad in ("-model", "two words", "a\nb", "a\0b", "mo\u0308del", "x" * 201)),
    *(("permission_mode", bad) for bad in ("-p", "plan --restricted", "plan\n", "a" * 65)),
    *(("effort", bad) for bad in ("--version", "hi gh")),
    *(("system_prompt", bad) for bad in ("a\0b", "a\x1bb", "a\rb", "lone \ud800", "x" * 100_001)),
    ("mcp_config", "a\0b"),
    *(("allowed_tools", (bad,)) for bad in ("", " ", "-p", "--model", "Read,Write", "Read Write", "Bash(a) Write")),
    *(("allowed_tools", (bad,)) for bad in ("Bash(a", "Bash(a))", "Bash(a)b", "(a)", "Bash(a\nb)", "Bash(a),Edit(b)")),
    *(("add_dirs", (bad,)) for bad in ("relative", "~", "-x", "", "/a\0b", "/a\nb", "/\udcff")),
    ("disallowed_tools", ("Read", "a b")),
    *(("max_turns", bad) for bad in (0, -1)),
    *(("max_budget_usd", bad) for bad in (0.0, -1.0, float("inf"), float("nan"))),
]


@pytest.mark.parametrize(("name", "bad"), BAD)
def test_an_invalid_option_is_named_and_starts_nothing(name: str, bad: Any) -> None:
    with pytest.raises(AgentUnusable, match=rf"^options\.{name}: .*\. The agent was not started\.$") as caught:
        flags(**{name: bad})
    assert caught.value.code == "VALIDATION_FAILED"


@pytest.mark.parametrize("bad", ["", "sess_abc", "-c", ID + "\n", ID + " --model=x"])
@pytest.mark.parametrize("field", ["session_id", "fork_from"])
def test_only_a_uuid_is_accepted_as_an_id(field: str, bad: str) -> None:
    with pytest.raises(AgentUnusable, match=rf"^{field}: it is not a UUID"):
        arguments(Launch("/project", **{"session_id": ID, field: bad}))  # type: ignore[arg-type]


class Parser(argparse.ArgumentParser):
    """Parses a command line like the real CLI, including ``--flag=value`` and variadic flags, and rejects a prompt."""

    def __init__(self) -> None:
        super().__init__(allow_abbrev=False, exit_on_error=False)
        for flag in (
            "output-format",
            "input-format",
            "permission-prompt-tool",
            "session-id",
            "model",
            "system-prompt",
            "permission-mode",
        ):
            self.add_argument(f"--{flag}", action="append")
        for flag in ("allowedTools", "add-dir", "mcp-config"):
            self.add_argument(f"--{flag}", action="append", nargs="*")
        self.add_argument("--verbose", action="store_true")


@given(
    some.fixed_dictionaries(
        {},
        optional={
            "model": some.from_regex(MODEL_NAME, fullmatch=True) | some.text(),
            "system_prompt": some.text(),
            "mcp_config": some.text(),
            "allowed_tools": some.lists(some.text()).map(tuple),
            "add_dirs": some.lists(some.text().map("/".__add__)).map(tuple),
        },
    )
)
@example({"system_prompt": "--dangerously-skip-permissions", "mcp_config": "-p", "add_dirs": ("/", "/--")})
@example({"allowed_tools": ("Bash(--dangerously-skip-permissions)", "A")})
def test_no_value_becomes_a_flag_or_a_prompt(options: dict[str, Any]) -> None:
    try:
        command = arguments(Launch("/project", ID, options=Options(**options)))
    except AgentUnusable:
        return  # refused, so nothing is started

    read = Parser().parse_args(command)

    assert read.model == ([options["model"]] if options.get("model") else None)
    assert read.system_prompt == ([options["system_prompt"]] if options.get("system_prompt") else None)
    assert read.mcp_config == ([[options["mcp_config"]]] if options.get("mcp_config") else None)
    assert read.allowedTools == ([[rule] for rule in options.get("allowed_tools", ())] or None)
    assert read.add_dir == ([[path] for path in options.get("add_dirs", ())] or None)
    assert not any("\0" in argument for argument in command)


def test_no_agent_is_given_the_servers_settings() -> None:
    """The server's settings contain the webhook's address, which is a secret."""
    secrets = {"DRAWBRIDGE_SERVE_WEBHOOK": "https://ntfy.example/secret", "DRAWBRIDGE_TOKEN": "secret"}
    for seen in (environment(secrets, "/project", "mark"), common.environment(secrets, "/project", "mark")):
        assert "secret" not in str(seen)


def test_an_agent_sees_the_users_account_but_not_the_terminal() -> None:
    account = {"PATH": "/bin", "HOME": "/home/p", "ANTHROPIC_API_KEY": "k", "CLAUDE_CODE_OAUTH_TOKEN": "t"}
    account |= {"CLAUDE_CONFIG_DIR": "/c", "CLAUDE_CODE_USE_BEDROCK": "1", "CLAUDE_CODE_MAX_RETRIES": "2"}
    terminal = {"CLAUDECODE": "1", "CLAUDE_CODE_SSE_PORT": "4711", "CLAUDE_CODE_SESSION_ID": ID, "AI_AGENT": "x"}
    terminal |= {"CLAUDE_CODE_ENTRYPOINT": "cli", "CLAUDE_CODE_CHILD_SESSION": "1", "CLAUDE_PROJECT_DIR": "/old"}
    ours = {"PWD": "/old", "NO_COLOR": "", "DISABLE_AUTOUPDATER": "0", "DRAWBRIDGE_TOKEN": "secret", MARK: "other"}
    ours |= {f"DRAWBRIDGE_SERVE_{setting.name.upper()}": "secret" for setting in of(ServeSettings)}

    assert environment(account | terminal | ours, "/project", "mark-1") == account | {
        "PWD": "/project",
        "NO_COLOR": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_ENTRYPOINT": "drawbridge",
        MARK: "mark-1",
    }


@pytest.mark.parametrize(
    ("answer", "numbers"),
    [("2.1.329 (Claude Code)\n", (2, 1, 329)), ("10.0.0", (10, 0, 0)), ("v2.1.3", None), ("", None), ("2.1", None)],
)
def test_the_version_is_read_from_the_output(answer: str, numbers: tuple[int, ...] | None) -> None:
    assert version(answer) == numbers
