"""Runs the real agents without a terminal, for one prompt."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests import programs
from tests.rigs import claude_rig, gemini_rig
from tests.rigs.gemini_stub import GeminiStub
from tests.rigs.messages_stub import MessagesStub
from tests.rigs.responses_stub import ResponsesStub

TRUSTED = "--dangerously-bypass-hook-trust"
"""The flag that replaces the user's consent, which Codex requires once before it runs a hook."""


def claude_command(*flags: str, prompt: str = "Go.") -> list[str]:
    return [str(programs.claude()), "-p", prompt, "--permission-mode", "acceptEdits", *flags]


def claude(model: MessagesStub, project: Path, *flags: str, complains: str = "") -> None:
    """Runs the ``claude`` CLI for one prompt. Its stderr must contain ``complains``; by default, it must be empty."""
    ended = _run(claude_command(*flags), project, claude_rig.environment(model))
    assert complains in ended.stderr if complains else ended.stderr == "", ended.stderr


def gemini(model: GeminiStub, project: Path) -> None:
    _run([str(programs.gemini()), "-p", "Go.", "--approval-mode", "yolo"], project, gemini_rig.environment(model))


def settings_of_gemini(home: Path) -> Path:
    """Writes the rig's settings with a user's comment and with the IDE connection disabled. Returns the file."""
    gemini_rig.prepare_home()
    path = home / ".gemini" / "settings.json"
    settings: dict[str, Any] = json.loads(path.read_text()) | {"ide": {"enabled": False}}
    path.write_text("// mine\n" + json.dumps(settings, indent=2))
    return path


def codex(model: ResponsesStub, home: Path, *flags: str) -> str:
    """Runs Codex for one prompt and returns its stderr. The model is one for which Codex offers its patch tool."""
    provider = f'model_providers.stub={{name="stub",base_url="{model.url}",wire_api="responses",env_key="KEY"}}'
    settings = [
        'model_provider="stub"',
        provider,
        'model="gpt-5.5"',
        'approval_policy="never"',
        "analytics.enabled=false",
    ]
    command = [str(programs.codex()), "exec", "--skip-git-repo-check", "-s", "danger-full-access", *flags]
    command += [word for setting in settings for word in ("-c", setting)]
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "KEY": "for-nobody", "SHELL": "/bin/sh"}
    return _run([*command, "Go."], home / "project", environment).stderr


def _run(command: list[str], project: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, timeout=120, stdin=subprocess.DEVNULL, text=True
    )
    assert ended.returncode == 0, ended.stderr
    return ended
