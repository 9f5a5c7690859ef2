"""The real agents are set up with the guard. They call it for each of its events, and obey it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from drawbridge.setup import installed
from drawbridge.setup.interpreter import choose
from tests import programs
from tests.rigs import claude_rig, gemini_stub, messages_stub
from tests.rigs.gemini_stub import GeminiStub
from tests.rigs.messages_stub import MessagesStub
from tests.rigs.responses_stub import ResponsesStub, apply_patch, shell, text
from tests.setup.conftest import Setup
from tests.setup.headless import TRUSTED, claude, codex, gemini, settings_of_gemini
from tests.waiting import until

PATCH = "*** Begin Patch\n*** Update File: poem.txt\n@@\n-two\n+TWO\n*** End Patch\n"
POEM, NEW_POEM = "one\ntwo\n", "one\nTWO\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def poem(home: Path, setup: Setup) -> Path:
    """A file in the project, which the ``setup`` fixture has created."""
    path = home / "project" / "poem.txt"
    path.write_text(POEM)
    return path


def called(log: Path) -> list[tuple[str, str]]:
    """The event and tool of every call of the guard, from its log."""
    calls = [json.loads(json.loads(line)["input"]) for line in log.read_text().splitlines()]
    return [(call["hook_event_name"], call.get("tool_name", "")) for call in calls]


@pytest.mark.slow_for("project")
@pytest.mark.usefixtures("guard")
@pytest.mark.thorough
@pytest.mark.parametrize("scope", ["user", "project"])
def test_claude_calls_the_guard(scope: str, setup: Setup, poem: Path, log: Path) -> None:
    claude_rig.prepare_home(poem.parent)
    assert setup("claude", "--scope", scope, "--yes", "--log-file", log).code == 0
    with MessagesStub() as model:
        model.will_say(
            messages_stub.read(poem),
            messages_stub.edit(poem, "two", "TWO"),
            messages_stub.tool_use("Bash", command="false", description="Fails"),
            messages_stub.text("Done."),
        )
        claude(model, poem.parent, "--allowedTools", "Bash")
    assert poem.read_text() == NEW_POEM
    assert called(log) == [
        ("SessionStart", ""),
        ("UserPromptSubmit", ""),
        ("PreToolUse", "Read"),
        ("PreToolUse", "Edit"),
        ("PostToolUse", "Edit"),
        ("PreToolUse", "Bash"),
        ("PostToolUseFailure", "Bash"),
        ("Stop", ""),
        ("SessionEnd", ""),
    ]
    setup("claude", "--scope", scope, "--remove")
    log.unlink()
    with MessagesStub() as model:
        model.will_say(messages_stub.text("Done."))
        claude(model, poem.parent)
    assert not log.exists()


WATCHING = """
import json, posix
def run(settings):
    call = json.loads(posix.read(0, 65536))
    event = call["hook_event_name"]
    open(settings["log_file"] + "." + event, "w").close()
    watched = {"hookSpecificOutput": {"hookEventName": event, "watchPaths": [call["cwd"] + "/poem.txt"]}}
    posix.write(1, json.dumps(watched if event == "SessionStart" else {}).encode())
    posix._exit(0)
"""


@pytest.mark.thorough
def test_claude_reports_changes_of_files_the_guard_watches(setup: Setup, guard: Path, poem: Path, log: Path) -> None:
    (guard / "guard" / "hook.py").write_text(WATCHING)
    claude_rig.prepare_home(poem.parent)
    setup("claude", "--log-file", log)
    waits = f"echo three >> poem.txt; timeout 20 sh -c 'until [ -e {log}.FileChanged ]; do sleep 0.1; done'"
    with MessagesStub() as model:
        model.will_say(messages_stub.tool_use("Bash", command=waits, description="Writes"), messages_stub.text("Done."))
        claude(model, poem.parent, "--allowedTools", "Bash")
    assert log.with_name("log.FileChanged").exists()


@pytest.mark.slow
def test_without_its_fail_closed_guard_claude_writes_nothing(
    setup: Setup, guard: Path, poem: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "claude").symlink_to(programs.claude())
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    claude_rig.prepare_home(poem.parent)
    setup("claude", "--fail", "closed")
    installed.stub_path("claude").write_text("raise SystemExit(1)")
    with MessagesStub() as model:
        model.will_say(messages_stub.read(poem), messages_stub.edit(poem, "two", "TWO"), messages_stub.text("Done."))
        claude(model, poem.parent)
    assert poem.read_text() == POEM
    assert "onFailure" in model.requests[1].tool_results[0]


@pytest.fixture
async def unsaved(poem: Path) -> AsyncIterator[Path]:
    """Runs a real Neovim with unsaved changes to the poem. Returns the directory of its socket."""
    directory = Path(os.environ["XDG_RUNTIME_DIR"]) / "sockets"
    directory.mkdir(mode=0o700)
    socket = directory / f"{'0' * 64}-1.sock"
    command = [str(programs.nvim()), "--headless", "-n", "-i", "NONE", "--listen", str(socket), str(poem)]
    command += ["-c", "call setline(1, 'mine')"]
    editor = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL)
    try:
        await until(socket.exists, "Neovim's socket")
        yield directory
    finally:
        editor.kill()
        await editor.wait()


@pytest.mark.slow
async def test_claude_is_denied_writes_over_unsaved_work(setup: Setup, poem: Path, unsaved: Path) -> None:
    claude_rig.prepare_home(poem.parent)
    setup("claude", "--socket-dir", unsaved)
    with MessagesStub() as model:
        model.will_say(messages_stub.read(poem), messages_stub.edit(poem, "two", "TWO"), messages_stub.text("Done."))
        claude(model, poem.parent)
    assert poem.read_text() == POEM
    assert "unsaved" in model.requests[2].tool_results[0]


@pytest.mark.slow_for("project")
@pytest.mark.thorough
@pytest.mark.usefixtures("guard")
@pytest.mark.parametrize("scope", ["user", "project"])
def test_gemini_calls_the_guard(scope: str, setup: Setup, home: Path, poem: Path, log: Path) -> None:
    settings_of_gemini(home)
    assert setup("gemini", "--scope", scope, "--yes", "--log-file", log).code == 0
    with GeminiStub() as model:
        model.will_say(gemini_stub.replace(poem, "two", "TWO"), gemini_stub.text("Done."))
        gemini(model, poem.parent)
    assert poem.read_text() == NEW_POEM
    assert called(log) == [
        ("SessionStart", ""),
        ("BeforeAgent", ""),
        ("BeforeTool", "replace"),
        ("AfterTool", "replace"),
        ("AfterAgent", ""),
        ("SessionEnd", ""),
    ]


@pytest.mark.slow
async def test_gemini_is_denied_writes_over_unsaved_work(setup: Setup, home: Path, poem: Path, unsaved: Path) -> None:
    settings_of_gemini(home)
    setup("gemini", "--socket-dir", unsaved)
    with GeminiStub() as model:
        model.will_say(gemini_stub.replace(poem, "two", "TWO"), gemini_stub.text("Done."))
        gemini(model, poem.parent)
    assert poem.read_text() == POEM
    assert "unsaved" in model.requests[1].tool_results[0]


@pytest.mark.thorough
@pytest.mark.usefixtures("guard")
def test_codex_calls_the_guard(setup: Setup, home: Path, poem: Path, log: Path) -> None:
    programs.codex()
    assert setup("codex", "--yes", "--log-file", log).code == 0
    with ResponsesStub(apply_patch(PATCH), shell("echo hello"), text("Done.")) as model:
        output = codex(model, home, TRUSTED)
    assert "failed to parse hooks" not in output
    assert poem.read_text() == NEW_POEM
    assert called(log) == [
        ("SessionStart", ""),
        ("UserPromptSubmit", ""),
        ("PreToolUse", "apply_patch"),
        ("PostToolUse", "apply_patch"),
        ("PreToolUse", "Bash"),
        ("PostToolUse", "Bash"),
        ("Stop", ""),
        ("SessionEnd", ""),
    ]


async def test_codex_is_denied_writes_over_unsaved_work(setup: Setup, home: Path, poem: Path, unsaved: Path) -> None:
    programs.codex()
    setup("codex", "--socket-dir", unsaved)
    with ResponsesStub(apply_patch(PATCH), text("Done.")) as model:
        codex(model, home, TRUSTED)
    assert poem.read_text() == POEM
    assert "unsaved" in model.tool_results[0]


@pytest.mark.usefixtures("guard")
def test_codex_does_not_call_the_guard_before_it_is_trusted(setup: Setup, home: Path, poem: Path, log: Path) -> None:
    """The output of setup mentions this condition."""
    programs.codex()
    assert "only after you have trusted it" in setup("codex", "--log-file", log).output
    with ResponsesStub(apply_patch(PATCH), text("Done.")) as model:
        codex(model, home)
    assert not log.exists()
    assert poem.read_text() == NEW_POEM


def damage() -> None:
    for module in installed.directory().rglob("hook.*"):
        module.unlink()


def remove() -> None:
    """Removes the guard's stubs, as if only the agent's settings had been copied to another machine."""
    for file in installed.directory().glob("*.py"):
        file.unlink()


def lose_python() -> None:
    """Makes the agent's settings name a Python that does not exist, as after an upgrade of the system's Python."""
    for file in (".claude/settings.json", ".gemini/settings.json", ".codex/hooks.json"):
        path = Path.home() / file
        if path.exists():
            path.write_text(path.read_text().replace(choose().path, "/gone/python3"))


COMPLAINTS = {remove: "claude.py is gone: run drawbridge setup", lose_python: "/gone/python3"}
"""What Claude Code prints on stderr when it ends, for each way to break the guard that it notices."""

BROKEN = pytest.mark.parametrize(
    ("breaks", "fail", "left"),
    [
        (damage, "open", NEW_POEM),
        (damage, "closed", POEM),
        (remove, "open", NEW_POEM),
        (lose_python, "open", NEW_POEM),
    ],
)
"""Parameters: how the guard is broken, its ``fail`` setting, and the poem's content after the agent's edit."""


@pytest.mark.slow_for("damage-open-one\\nTWO\\n", "lose_python-open-one\\nTWO\\n")
@BROKEN
@pytest.mark.thorough
def test_a_broken_guard_blocks_claude_only_if_it_fails_closed(
    setup: Setup, poem: Path, breaks: Callable[[], None], fail: str, left: str
) -> None:
    claude_rig.prepare_home(poem.parent)
    setup("claude", "--fail", fail)
    breaks()
    with MessagesStub() as model:
        model.will_say(messages_stub.read(poem), messages_stub.edit(poem, "two", "TWO"), messages_stub.text("Done."))
        claude(model, poem.parent, complains=COMPLAINTS.get(breaks, ""))
    assert poem.read_text() == left
    assert not any("Traceback" in request.new_text for request in model.requests)


@pytest.mark.slow_for("damage-open-one\\nTWO\\n", "lose_python-open-one\\nTWO\\n", "remove-open-one\\nTWO\\n")
@BROKEN
@pytest.mark.thorough
def test_a_broken_guard_blocks_gemini_only_if_it_fails_closed(
    setup: Setup, home: Path, poem: Path, breaks: Callable[[], None], fail: str, left: str
) -> None:
    settings_of_gemini(home)
    setup("gemini", "--fail", fail)
    breaks()
    with GeminiStub() as model:
        model.will_say(gemini_stub.replace(poem, "two", "TWO"), gemini_stub.text("Done."))
        gemini(model, poem.parent)
    assert poem.read_text() == left


@BROKEN
@pytest.mark.thorough
def test_a_broken_guard_blocks_codex_only_if_it_fails_closed(
    setup: Setup, home: Path, poem: Path, breaks: Callable[[], None], fail: str, left: str
) -> None:
    programs.codex()
    setup("codex", "--fail", fail)
    breaks()
    with ResponsesStub(apply_patch(PATCH), text("Done.")) as model:
        codex(model, home, TRUSTED)
    assert poem.read_text() == left


@pytest.mark.thorough
@pytest.mark.parametrize("breaks", [remove, lose_python])
@pytest.mark.usefixtures("guard")
def test_without_its_fail_closed_guard_codex_writes_nothing(
    setup: Setup, home: Path, poem: Path, breaks: Callable[[], None]
) -> None:
    programs.codex()
    setup("codex", "--fail", "closed")
    breaks()
    with ResponsesStub(apply_patch(PATCH), text("Done.")) as model:
        codex(model, home, TRUSTED)
    assert poem.read_text() == POEM
