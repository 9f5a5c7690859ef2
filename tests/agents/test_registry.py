"""Which agents a server has, and what is said about settings that can't be."""

from __future__ import annotations

import shlex
import sys

from drawbridge.agents.registry import Named, agents, missing, problems

PYTHON = shlex.quote(sys.executable)


def test_agents_of_a_persons_own_stand_beside_the_built_in_ones() -> None:
    named = Named((), (f"goose={PYTHON} acp",), (f"notes={PYTHON} 'ask my notes' --brief",))
    assert problems(named) == []
    assert list(agents(named)) == ["claude", "gemini", "codex", "goose", "notes", "demo"]


def test_all_problems_are_found_at_once() -> None:
    named = Named(
        ("hal=/bin/sh", "gemini=/no/gemini"),
        (f"claude={PYTHON}", f"goose={PYTHON}", "one='x", "two=/no/such"),
        (f"goose={PYTHON}", "three=  "),
    )
    assert problems(named) == [
        "--agent-path: the program of hal can't be set, only those of claude, gemini, codex",
        "--agent-path: /no/gemini is not a program",
        "--acp-agent: an agent named claude already exists",
        "--acp-agent: 'x has an unclosed quotation mark",
        "--command-agent: an agent named goose already exists",
        "--command-agent: the command is empty",
    ]


def test_a_missing_program_of_another_agent_is_named() -> None:
    named = Named((), (f"goose={PYTHON}", "two=/no/such --acp"), ("three=/no/third",))
    assert problems(named) == []
    assert missing(named).items() >= {"two": "/no/such", "three": "/no/third"}.items()
    assert "goose" not in missing(named)
