"""A guard with its own state directory and its own directory for editors' sockets."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from drawbridge.guard import hook, unsaved
from drawbridge.guard.settings import Settings
from drawbridge.settings.hook import HookSettings

from .editors import Editor, File

HASH = "0123456789abcdef" * 4
PATIENCE = 3_000
"""How long editors have to answer, in milliseconds. It is long because other tests may keep the machine busy."""


class Guard(contextlib.ExitStack):
    """``drawbridge hook``, run in the test's own process, and the editors that it finds."""

    def __init__(self, sockets: Path) -> None:
        super().__init__()
        self.sockets = sockets
        self.settings = HookSettings(socket_dir=(str(sockets),), deadline=PATIENCE)._asdict()
        self._editors = 0

    def neovim(self, files: dict[str, File] | None = None, **options: Any) -> Editor:
        return self.enter_context(Editor(self.socket(), files, **options))

    def vscode(self, files: dict[str, File] | None = None, **options: Any) -> Editor:
        return self.enter_context(Editor(self.socket("vscode-"), files, **options))

    def socket(self, kind: str = "") -> Path:
        """Returns a path for another editor's socket. The process ID in its path belongs to no process."""
        self._editors += 1
        return self.sockets / f"{HASH}-{kind}{2**22 + self._editors}.sock"

    def run(self, payload: dict[str, Any] | bytes, **settings: Any) -> dict[str, Any]:
        """Runs the hook with ``payload`` as its input. Returns its answer to the agent."""
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        answer: dict[str, Any] = json.loads(hook.answer(data, cast("Settings", self.settings | settings), os.environb))
        return answer

    def denial(self, payload: dict[str, Any] | bytes, **settings: Any) -> str:
        """Returns the reason for the hook's denial, or "" if it has no opinion. Any other answer fails the test."""
        return decision(self.run(payload, **settings), "deny")

    @property
    def log(self) -> list[str]:
        """The lines of the log, without their times."""
        file = Path(os.environ["XDG_STATE_HOME"], "drawbridge", "guard.log")
        return [line[20:] for line in file.read_text().splitlines()] if file.exists() else []


def decision(answer: dict[str, Any], expected: str) -> str:
    """Returns the reason given with the ``expected`` decision, in the format of Claude Code and Codex; "" if the hook
    has no opinion. Any other answer fails the test.
    """
    if answer == {}:
        return ""
    output = answer["hookSpecificOutput"]
    assert output["permissionDecision"] == expected, answer
    assert set(output) == {"hookEventName", "permissionDecision", "permissionDecisionReason"}
    reason: str = output["permissionDecisionReason"]
    assert reason
    return reason


@pytest.fixture
def guard(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guard]:
    for name in ("TEXT_DEADLINE", "NOTICE_DEADLINE"):
        monkeypatch.setattr(unsaved, name, PATIENCE)
    sockets = home.parent / "s"  # short, because a socket's path may be at most 103 bytes long
    sockets.mkdir()
    with Guard(sockets) as guard:
        yield guard
