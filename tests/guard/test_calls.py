"""Each agent's format: what it sends to its hooks, and the form that the answer must have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.agents import catalog
from drawbridge.agents.claude import hook as claude
from drawbridge.agents.codex import hook as codex
from drawbridge.agents.gemini import hook as gemini
from drawbridge.guard import calls, json_text

from .conftest import Guard
from .payloads import KEPT, A, Payload, all_recorded, bash, edit, recorded

AGENTS = [row.name for row in catalog.ROWS if row.hooks]
B, E, R, S = calls.BEFORE, calls.EDIT, calls.READ, calls.SHELL
PATCHED = ["/ws/a.py", "/ws/sub/new.py", "/ws/b.py", "/ws/c.py", "/ws/sub/d.py"]
NOTEBOOK = ["/ws/n.ipynb"]
NEW = ["/ws/new.py"]

# (agent, its event, its tool) → how the guard parses the first such payload: event, kind, paths, command.
RECORDED: dict[tuple[str, str, str | None], tuple[str, str, list[str], str]] = {
    ("claude", "SessionStart", None): ("start", "", [], ""),
    ("claude", "UserPromptSubmit", None): ("prompt", "", [], ""),
    ("claude", "PreToolUse", "Read"): ("before", R, [A], ""),
    ("claude", "PostToolUse", "Read"): ("after", R, [A], ""),
    ("claude", "PreToolUse", "Edit"): ("before", E, [A], ""),
    ("claude", "PostToolUse", "Edit"): ("after", E, [A], ""),
    ("claude", "PreToolUse", "Write"): ("before", E, NEW, ""),
    ("claude", "PostToolUse", "Write"): ("after", E, NEW, ""),
    ("claude", "PreToolUse", "NotebookEdit"): ("before", E, NOTEBOOK, ""),
    ("claude", "PostToolUse", "NotebookEdit"): ("after", E, NOTEBOOK, ""),
    ("claude", "PreToolUse", "Bash"): ("before", S, [], "echo three = 3 >> a.py"),
    ("claude", "PostToolUse", "Bash"): ("after", S, [], "echo three = 3 >> a.py"),
    ("claude", "PostToolUseFailure", "Bash"): ("failed", S, [], "false"),
    ("claude", "CwdChanged", None): ("moved", "", [], ""),
    ("claude", "FileChanged", None): ("changed", "", [A], ""),
    ("claude", "PermissionRequest", "Bash"): ("asks", "", [], ""),
    ("claude", "PermissionRequest", "AskUserQuestion"): ("asks", "", [], ""),
    ("claude", "PostToolUse", "AskUserQuestion"): ("after", calls.OTHER, [], ""),
    ("claude", "Notification", None): ("notice", "", [], ""),
    ("claude", "Stop", None): ("stop", "", [], ""),
    ("claude", "StopFailure", None): ("stop", "", [], ""),
    ("claude", "SubagentStop", None): ("stop", "", [], ""),
    ("claude", "SessionEnd", None): ("end", "", [], ""),
    ("gemini", "SessionStart", None): ("start", "", [], ""),
    ("gemini", "BeforeAgent", None): ("prompt", "", [], ""),
    ("gemini", "BeforeTool", "read_file"): ("before", R, [A], ""),
    ("gemini", "AfterTool", "read_file"): ("after", R, [A], ""),
    ("gemini", "BeforeTool", "replace"): ("before", E, [A], ""),
    ("gemini", "AfterTool", "replace"): ("after", E, [A], ""),
    ("gemini", "BeforeTool", "write_file"): ("before", E, NEW, ""),
    ("gemini", "AfterTool", "write_file"): ("after", E, NEW, ""),
    ("gemini", "BeforeTool", "run_shell_command"): ("before", S, [], "echo three = 3 >> a.py"),
    ("gemini", "AfterTool", "run_shell_command"): ("after", S, [], "echo three = 3 >> a.py"),
    ("gemini", "Notification", None): ("notice", "", [], ""),
    ("gemini", "AfterAgent", None): ("stop", "", [], ""),
    ("gemini", "SessionEnd", None): ("end", "", [], ""),
    ("codex", "SessionStart", None): ("start", "", [], ""),
    ("codex", "UserPromptSubmit", None): ("prompt", "", [], ""),
    ("codex", "PreToolUse", "apply_patch"): ("before", E, PATCHED, ""),
    ("codex", "PostToolUse", "apply_patch"): ("after", E, PATCHED, ""),
    ("codex", "PreToolUse", "Bash"): ("before", S, [], "echo three = 3 >> a.py"),
    ("codex", "PostToolUse", "Bash"): ("after", S, [], "echo three = 3 >> a.py"),
    ("codex", "PermissionRequest", "Bash"): ("asks", "", [], ""),
    ("codex", "SubagentStart", None): ("notice", "", [], ""),
    ("codex", "SubagentStop", None): ("stop", "", [], ""),
    ("codex", "Stop", None): ("stop", "", [], ""),
    ("codex", "Interrupt", None): ("stop", "", [], ""),
    ("codex", "SessionEnd", None): ("end", "", [], ""),
}


def dialects() -> list[calls.Dialect]:
    """Returns all dialects. The return type lets mypy check that each module has everything that a dialect needs."""
    return [claude, gemini, codex]


def test_a_dialect_uses_the_guards_own_words() -> None:
    """The dialects' modules contain these words as literals, because an import would make every call slower."""
    events = {calls.BEFORE, calls.AFTER, calls.FAILED, calls.PROMPT, calls.START, calls.MOVED, calls.CHANGED}
    events |= set(calls.FOR_SERVER)
    for one in dialects():
        assert set(one.EVENTS.values()) <= events
        assert set(one.NO_CONTEXT) <= events
        assert {does for does, _ in one.TOOLS.values()} <= {calls.EDIT, calls.READ, calls.SHELL, calls.OTHER}


def parse(payload: Payload, agent: str = "claude") -> calls.Call:
    return calls.parse(json_text.dump(payload).encode(), agent)


@pytest.mark.parametrize(("kind", "expected"), RECORDED.items(), ids=lambda value: " ".join(map(str, value))[:50])
def test_messages_of_the_real_agents_are_understood(
    kind: tuple[str, str, str | None], expected: tuple[str, str, list[str], str]
) -> None:
    payload = recorded(*kind)
    call = parse(payload, kind[0])
    assert (call.event, call.kind, call.paths, call.command) == expected
    assert call.cwd == payload["cwd"]
    assert call.session == payload["session_id"]
    assert call.event_name == kind[1]


def test_every_recorded_payload_is_in_the_table_and_parsed() -> None:
    kinds = {(agent, payload["hook_event_name"], payload.get("tool_name")) for agent, payload in all_recorded()}
    assert kinds == set(RECORDED)
    for agent, payload in all_recorded():
        parse(payload, agent)


def test_every_event_was_recorded() -> None:
    for agent in AGENTS:
        seen = {event for recorded_of, event, _ in RECORDED if recorded_of == agent}
        assert seen == set(calls.dialect(agent).EVENTS)


def test_the_directory_of_a_command_is_where_it_runs() -> None:
    """Gemini CLI sends a directory with the command, relative to the session's. Codex sends the command's directory as
    ``cwd``.
    """
    moved = [payload for agent, payload in all_recorded() if agent == "gemini" and "dir_path" in str(payload)]
    assert {os.path.normpath(parse(payload, "gemini").cwd) for payload in moved} == {"/ws/sub"}
    after_cd = [payload for agent, payload in all_recorded() if agent == "codex" and payload["cwd"] == "/ws/sub"]
    assert {parse(payload, "codex").cwd for payload in after_cd} == {"/ws/sub"}
    elsewhere = recorded("gemini", "BeforeTool", "run_shell_command", dir_path="/elsewhere")
    assert parse(elsewhere, "gemini").cwd == "/elsewhere"


# Input that the recorded agents no longer send or do not send yet: agent and tool → the input, and how the guard parses
# it.
OTHERS: dict[tuple[str, str], tuple[dict[str, Any], str, str]] = {
    ("claude", "MultiEdit"): ({"file_path": A, "edits": []}, E, A),
    ("claude", "NotebookEdit"): ({"file_path": A}, E, A),
    ("gemini", "read_file"): ({"absolute_path": A}, R, A),
    ("codex", "shell"): ({"command": ["bash", "-lc", "rm a.py"]}, S, "bash -lc rm a.py"),
    ("codex", "apply_patch"): ({"input": "*** Delete File: a.py"}, E, A),
}


@pytest.mark.parametrize(("agent", "tool"), OTHERS)
def test_other_forms_of_the_tools_are_understood(agent: str, tool: str) -> None:
    given_input, kind, taken = OTHERS[agent, tool]
    before = next(name for name, event in calls.dialect(agent).EVENTS.items() if event == B)
    call = parse(edit() | {"hook_event_name": before, "tool_name": tool, "tool_input": given_input}, agent)
    assert (call.kind, call.command or call.paths[0]) == (kind, taken)


def test_every_tool_has_an_example() -> None:
    tried = {(agent, tool) for agent, _, tool in RECORDED} | set(OTHERS)
    tools = {(agent, tool): does for agent in AGENTS for tool, (does, _) in calls.dialect(agent).TOOLS.items()}
    assert {key for key, does in tools.items() if does != calls.OTHER} <= tried


@pytest.mark.parametrize(
    ("path", "cwd", "whole"),
    [
        ("/ws/a.py", "/ws", "/ws/a.py"),
        ("/ws/a.py", None, "/ws/a.py"),
        ("a.py", "/ws", "/ws/a.py"),
        ("a.py", "/ws/", "/ws/a.py"),
        ("a.py", "/", "/a.py"),
        ("./a.py", "/ws", "/ws/./a.py"),
        ("../a.py", "/ws/sub", "/ws/a.py"),
        ("./../a.py", "/ws/sub", "/ws/a.py"),
        ("../a.py", "/ws/sub/", "/ws/a.py"),
        ("/ws/sub//../a.py", "/ws", "/ws/a.py"),
        ("sub/.//../a.py", "/ws", "/ws/a.py"),
        ("/ws/link/../a.py", "/ws", "/ws/a.py"),
        ("gone/../../../../a.py", "/ws", "/a.py"),
        ("a..py", "/ws/..x", "/ws/..x/a..py"),
        ("a.py", "sub", "HERE/sub/a.py"),
        ("a.py", ".", "HERE/./a.py"),
        ("a.py", None, "HERE/a.py"),
        ("a.py", "", "HERE/a.py"),
        ("a.py", 17, "HERE/a.py"),
        ("~/a.py", "/ws", "/ws/~/a.py"),
        (" a.py ", "/ws", "/ws/ a.py "),
    ],
)
def test_a_path_is_absolute_but_otherwise_as_the_agent_reads_it(
    path: str, cwd: Any, whole: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The editor resolves links, since it may see a different file system than the agent."""
    monkeypatch.chdir(tmp_path)
    payload = edit(path) | {"cwd": cwd}
    assert parse(payload).paths == [whole.replace("HERE", str(tmp_path))]


def test_a_deleted_directory_does_not_matter_to_absolute_paths(
    guard: Guard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent may remove the directory that its hooks start in."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    guard.neovim({A: KEPT})
    assert guard.denial(edit())
    monkeypatch.chdir(tmp_path)


def test_codex_paths_are_not_normalized() -> None:
    """The kernel follows a link before it applies the "..", so removing both would name another file."""
    patch = "*** Begin Patch\n*** Delete File: link/../a.py\n*** End Patch"
    payload = {
        "hook_event_name": "PreToolUse",
        "tool_name": "apply_patch",
        "tool_input": {"command": patch},
        "cwd": "/ws",
    }
    assert parse(payload, "codex").paths == ["/ws/link/../a.py"]


patches = st.lists(
    st.tuples(
        st.sampled_from(["Add", "Update", "Delete", "Move"]),
        st.text("abc /._-é*+@", min_size=1, max_size=8).map(str.strip).filter(bool),
        st.lists(
            st.sampled_from([" one", "-two", "+three", "@@", "@@ def f():", "+*** Add File: x", "-*** Delete File: x"])
        ),
    ),
    min_size=1,
)


@given(patches, st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", " ", "\t"]))
def test_a_patch_touches_the_files_that_it_names(
    operations: list[tuple[str, str, list[str]]], eol: str, blank: str
) -> None:
    lines, paths = ["*** Begin Patch"], []
    for what, path, body in operations:
        mark = "*** Move to: " if what == "Move" else f"*** {what} File: "
        lines += [blank + mark + path + blank, *body]
        paths.append(path)
    text = eol.join([*lines, "*** End Patch", ""])
    assert codex.paths(text) == list(dict.fromkeys(paths))


@pytest.mark.parametrize("text", ["", "*** Begin Patch\n*** End Patch\n", "*** Update File: \n", "+*** Add File: a.py"])
def test_a_patch_without_a_file_name_is_rejected(text: str) -> None:
    with pytest.raises(calls.Unusable, match=r"does not name a file|is missing"):
        parse(recorded("codex", "PreToolUse", "apply_patch", command=text), "codex")
    assert codex.paths(text) == []


# The keys that an answer may have, by agent and event. Codex's schemas (0.169.0) forbid other keys, and Claude Code and
# Gemini CLI ignore them.
BEFORE_KEYS = {"permissionDecision", "permissionDecisionReason", "additionalContext"}
SPECIFIC = {
    ("claude", "PreToolUse"): BEFORE_KEYS,
    ("claude", "PostToolUse"): {"additionalContext"},
    ("claude", "PostToolUseFailure"): {"additionalContext"},
    ("claude", "UserPromptSubmit"): {"additionalContext"},
    ("claude", "SessionStart"): {"additionalContext", "watchPaths"},
    ("claude", "CwdChanged"): {"watchPaths"},
    ("claude", "FileChanged"): {"watchPaths"},
    ("codex", "PreToolUse"): BEFORE_KEYS,
    ("codex", "PostToolUse"): {"additionalContext"},
    ("codex", "UserPromptSubmit"): {"additionalContext"},
    ("codex", "SessionStart"): {"additionalContext"},
    ("gemini", "BeforeTool"): set(),
    ("gemini", "AfterTool"): {"additionalContext"},
    ("gemini", "BeforeAgent"): {"additionalContext"},
    ("gemini", "SessionStart"): {"additionalContext"},
}

SELECTION = {"file_path": A, "start_line": 1, "end_line": 1, "content": "one"}


@pytest.mark.parametrize("answer", ["deny", "ask", "merge"])
@pytest.mark.parametrize("agent", AGENTS)
def test_every_answer_has_the_form_that_its_agent_accepts(guard: Guard, agent: str, answer: str) -> None:
    """Each recorded payload is sent while an editor has unsaved work in all the files."""
    files = dict.fromkeys([*PATCHED, *NOTEBOOK, *NEW], KEPT)
    kept = {"success": True, "reloaded": [], "kept": [{"name": name, "lines": 3} for name in files]}
    new = {"new": [{"line": 1, "severity": "error", "message": "no"}], "pending": False}
    editor = guard.neovim(files, answers={"refresh_buffer": kept, "diagnostics": new}, folders=("/ws",))
    answered = set()
    for recorded_of, payload in all_recorded():
        if recorded_of != agent:
            continue
        output = guard.run(payload, agent=agent, answer=answer, policy="any")
        event = payload["hook_event_name"]
        specific = output.pop("hookSpecificOutput", {})
        if specific:
            assert specific.pop("hookEventName") == event
            assert set(specific) <= SPECIFIC[agent, event]
        assert set(output) <= ({"decision", "reason", "systemMessage"} if agent == "gemini" else set())
        assert specific.get("permissionDecision") in (None, "deny", "ask")
        assert output.get("decision") in (None, "deny", "ask")
        if specific or output:
            answered.add(event)
    assert guard.log == [line for line in guard.log if "failed" not in line]
    assert len(answered) >= 4
    assert "snapshot" in editor.methods


def test_a_lone_surrogate_never_reaches_an_agent(guard: Guard, tmp_path: Path) -> None:
    """Codex 0.169.0 rejects an answer with an unpaired surrogate as invalid JSON, and writes the file."""
    file = tmp_path / "a.txt"
    file.write_bytes(b"caf\xe9\n")
    unsaved = {"text": "caf\udce9 \ud83d!\n", "version": 3}
    guard.neovim({str(file): KEPT | {"lines": 1}}, answers={"buffer_text": unsaved})
    patch = recorded("codex", "PreToolUse", "apply_patch", command=f"*** Delete File: {file}")
    reason = guard.denial(patch, agent="codex")
    assert "-caf?\n+caf? ?!" in reason
    assert reason.isascii()


def test_codex_denies_a_command_that_claude_asks_about(guard: Guard) -> None:
    guard.neovim({A: KEPT})
    command = recorded("codex", "PreToolUse", "Bash")
    assert "This command names it; nothing was run." in guard.denial(command, agent="codex")
    asked = guard.run(bash("rm a.py"))
    assert asked["hookSpecificOutput"]["permissionDecision"] == "ask"
