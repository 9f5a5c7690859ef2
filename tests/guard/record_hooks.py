"""Records what the real agents send to a hook, into ``tests/transcripts/hooks``::

    python -m tests.guard.record_hooks claude gemini codex

Each agent has its own directory and home. Its model is a stub on 127.0.0.1 that calls a few tools, and its hooks append
what they read to a file. The first line of a transcript contains the agent, its version and the date. Every other line
is one payload, in the order of the calls. The directory is replaced by ``/ws``, the home directory by ``/home/person``,
and the path of the agent's own transcript by a made-up one.

The agents come from ``tests/programs.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from drawbridge.agents.codex import hook
from drawbridge.agents.gemini import hook as gemini_hook
from tests import programs
from tests.guard.payloads import TRANSCRIPTS
from tests.rigs import claude_rig, codex_rig, gemini_rig, gemini_stub, messages_stub, responses_stub
from tests.rigs.responses_stub import ResponsesStub
from tests.rigs.tmux import Tmux, wait_until
from tests.setup.headless import TRUSTED

PROMPT = "Change things, please."
PATCH = """\
*** Begin Patch
*** Update File: a.py
@@
-one = 1
+one = 11
 two = 2
*** Add File: sub/new.py
+new = 1
*** Delete File: b.py
*** Update File: c.py
*** Move to: sub/d.py
@@
-c = 1
+d = 1
*** End Patch
"""
NOTEBOOK = {
    "cells": [{"cell_type": "code", "id": "c1", "execution_count": None, "metadata": {}, "outputs": [], "source": "1"}],
    "metadata": {"language_info": {"name": "python"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


class Place:
    """An agent's home and working directory, and the command that its hooks run."""

    def __init__(self, base: Path) -> None:
        self.base, self.home, self.folder = base, base / "home", base / "ws"
        self.heard = base / "heard.jsonl"
        for directory in (self.home, self.folder / "sub", base / "tmp"):
            directory.mkdir(parents=True)
        for name, content in {"a.py": "one = 1\ntwo = 2\n", "b.py": "b = 1\n", "c.py": "c = 1\n"}.items():
            (self.folder / name).write_text(content)
        (self.folder / "n.ipynb").write_text(json.dumps(NOTEBOOK))
        watch = json.dumps({"hookSpecificOutput": {"hookEventName": "SessionStart", "watchPaths": [self.file("a.py")]}})
        self.command = str(base / "hook")
        Path(self.command).write_text(
            f"#!/bin/sh\ninput=$(cat)\nprintf '%s\\n' \"$input\" >> {self.heard}\n"
            f"case $input in *'\"SessionStart\"'*) echo '{watch}' ;; *) echo '{{}}' ;; esac\n"
        )
        Path(self.command).chmod(0o755)
        for name in [name for name in os.environ if name.startswith("XDG_")]:
            del os.environ[name]
        os.environ |= {"HOME": str(self.home), "TMPDIR": str(base / "tmp")}
        os.environ["CLAUDE_CONFIG_DIR"] = str(self.home / ".claude")
        tempfile.tempdir = str(base / "tmp")

    def file(self, name: str) -> str:
        return str(self.folder / name)

    def hooks(self, *events: str, timeout: int = 10) -> dict[str, Any]:
        handler = {"type": "command", "command": self.command, "timeout": timeout}
        return {event: [{"hooks": [handler]}] for event in events}

    def payloads(self) -> list[dict[str, Any]]:
        text = self.heard.read_text().replace(str(self.home), "/home/person") if self.heard.exists() else ""
        found = [json.loads(line) for line in text.replace(str(self.folder), "/ws").splitlines()]
        return [payload | {"transcript_path": "/home/person/session.jsonl"} for payload in found]

    def run(self, command: list[str], environment: Mapping[str, str]) -> None:
        subprocess.run(command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, check=True, timeout=120)


def claude(place: Place) -> str:
    """Records a one-shot run, a session in a terminal (only a session watches files), and a session that asks the user.
    Returns the version.
    """
    program, a = str(programs.claude()), place.folder / "a.py"
    events = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "SessionStart", "CwdChanged")
    settings = {"permissions": {"defaultMode": "acceptEdits", "allow": ["Bash"]}, "hooks": place.hooks(*events)}
    use = messages_stub.tool_use
    claude_rig.prepare_home(place.folder)
    with messages_stub.MessagesStub() as model:
        model.will_say(
            messages_stub.read(a),
            messages_stub.edit(a, "one = 1", "one = 11"),
            messages_stub.write(Path("new.py"), "new = 1\n"),
            messages_stub.read(place.folder / "n.ipynb"),
            use("NotebookEdit", notebook_path=place.file("n.ipynb"), cell_id="c1", new_source="2"),
            use("Bash", command="echo three = 3 >> a.py", description="Append a line"),
            use("Bash", command="false", description="Fail"),
            use("Bash", command="cd sub", description="Change the directory"),
            messages_stub.text("Done."),
        )
        place.run([program, "-p", PROMPT, "--settings", json.dumps(settings)], claude_rig.environment(model))
    with messages_stub.MessagesStub() as model, Tmux.server() as tmux:
        settings = {"hooks": place.hooks("SessionStart", "FileChanged")}
        (place.home / ".claude" / "settings.json").write_text(json.dumps(settings))
        environment = claude_rig.environment(model)
        claude_rig.Claude.start(tmux, Path(program), project=place.folder, environment=environment)

        def noticed() -> bool | None:
            if (
                time.time() - a.stat().st_mtime > 2
            ):  # the CLI begins to watch only after a moment, so the file is written again every 2 s until it notices
                a.write_text("one = 1\n")
            return any(payload["hook_event_name"] == "FileChanged" for payload in place.payloads()) or None

        wait_until(noticed, timeout=20)
    asking_claude(place)
    return _version(program)


def asking_claude(place: Place) -> None:
    """Records a session in a terminal that asks the user, who takes a while to answer the first question."""
    question = {"question": "Which?", "header": "One", "multiSelect": False}
    question["options"] = [{"label": label, "description": label} for label in ("Left", "Right")]
    events = ("PermissionRequest", "Notification", "Stop", "SessionEnd")
    groups = place.hooks(*events) | {
        "PostToolUse": [{"matcher": "AskUserQuestion", **place.hooks("PostToolUse")["PostToolUse"][0]}]
    }
    (place.home / ".claude" / "settings.json").write_text(json.dumps({"hooks": groups}))
    with messages_stub.MessagesStub() as model, Tmux.server() as tmux:
        model.will_say(
            messages_stub.tool_use("Bash", command="touch made", description="Make a file"),
            messages_stub.tool_use("AskUserQuestion", questions=[question]),
            messages_stub.text("Done."),
        )
        environment = claude_rig.environment(model)
        session = claude_rig.Claude.start(tmux, programs.claude(), project=place.folder, environment=environment)
        session.prompt(PROMPT)

        def heard(event: str) -> None:
            wait_until(lambda: _heard(place, event))

        heard("Notification")
        session.answer_dialog(claude_rig.TOOL_DIALOG, claude_rig.YES)
        session.answer_dialog(r"Which\?", "2")
        heard("Stop")
        session.pane.type("/exit")
        session.pane.press("Enter")
        heard("SessionEnd")


def gemini(place: Place) -> str:
    """Records a one-shot run, and a session in a terminal that asks the user. Returns the version."""
    program = str(programs.gemini())
    call = gemini_stub.function_call
    hooks = place.hooks(*gemini_hook.EVENTS, timeout=10_000)
    gemini_rig.SETTINGS.update(hooks=hooks, ide={"enabled": False})
    gemini_rig.prepare_home()
    with gemini_stub.GeminiStub() as model:
        model.will_say(
            call("read_file", file_path="a.py"),
            gemini_stub.replace(Path("a.py"), "one = 1", "one = 11"),
            gemini_stub.write_file(place.folder / "new.py", "new = 1\n"),
            call("run_shell_command", command="echo three = 3 >> a.py", description="Append a line"),
            call("run_shell_command", command="pwd; false", description="Fail in sub", dir_path="sub"),
            gemini_stub.text("Done."),
        )
        place.run([program, "--approval-mode", "yolo", "-p", PROMPT], gemini_rig.environment(model))
        with Tmux.server() as tmux:
            environment = gemini_rig.environment(model)
            session = gemini_rig.Gemini.start(tmux, Path(program), project=place.folder, environment=environment)
            model.will_say(gemini_stub.write_file(place.folder / "new.py", "new = 2\n"), gemini_stub.text("Done."))
            session.prompt(PROMPT)
            session.pane.wait_for(gemini_rig.EDIT_DIALOG)
            session.pane.press("1")
            session.pane.wait_for("Done")
            session.leave()
    return _version(program)


def codex(place: Place) -> str:
    """Records a one-shot run, and a session in a terminal whose subagent asks the user and whose second run is
    interrupted. Returns the version.
    """
    program = str(programs.codex())
    with ResponsesStub() as model:
        codex_rig.prepare_home(model, place.folder)
        groups = place.hooks(*hook.EVENTS)
        for event in ("PreToolUse", "PostToolUse"):
            groups[event][0]["matcher"] = "apply_patch|Bash"
        (place.home / ".codex" / "hooks.json").write_text(json.dumps({"hooks": groups}))
        model.will_say(
            responses_stub.apply_patch(PATCH),
            responses_stub.shell("echo three = 3 >> a.py"),
            responses_stub.shell("pwd; false", directory="sub"),
            responses_stub.text("Done."),
        )
        settings = ("-c", 'approval_policy="never"', "-s", "danger-full-access", "--skip-git-repo-check", TRUSTED)
        place.run([program, "exec", *settings, PROMPT], codex_rig.environment())
        with Tmux.server() as tmux:
            session = codex_rig.Codex.start(tmux, "--enable", "multi_agent_v2", project=place.folder)
            model.subagent_will_say("Make a file", responses_stub.shell("touch made", reason="I need it"))
            model.will_say(responses_stub.spawn_agent("making", "Make a file"), responses_stub.text("Done."))
            session.prompt("Begin.")
            session.pane.wait_for(codex_rig.DIALOG)
            session.pane.press("y")
            wait_until(lambda: _heard(place, "SubagentStop"))
            model.will_say(responses_stub.shell("touch another", reason="And this"))
            session.prompt("Go on.")
            session.pane.wait_for(codex_rig.DIALOG)
            session.pane.press("Escape")
            wait_until(lambda: _heard(place, "Interrupt"))
            session.leave()
            wait_until(lambda: _heard(place, "SessionEnd"))
    return _version(program)


def _heard(place: Place, event: str) -> bool | None:
    return event in [one["hook_event_name"] for one in place.payloads()] or None


def _version(program: str) -> str:
    output = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, timeout=20).stdout
    return next(word for word in output.split() if word[0].isdigit())


AGENTS: dict[str, Callable[[Place], str]] = {"claude": claude, "gemini": gemini, "codex": codex}


def record(agent: str) -> Path:
    with tempfile.TemporaryDirectory(prefix="db-record-", dir="/tmp", ignore_cleanup_errors=True) as base:
        place = Place(Path(base))
        version = AGENTS[agent](place)
        head = {"agent": agent, "version": version, "recorded": time.strftime("%Y-%m-%d")}
        transcript = TRANSCRIPTS / f"{agent}-{version}.jsonl"
        transcript.write_text("".join(json.dumps(line) + "\n" for line in [head, *place.payloads()]))
    return transcript


if __name__ == "__main__":
    for name in sys.argv[1:]:
        sys.stdout.write(f"{record(name)}\n")
