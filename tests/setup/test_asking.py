"""What setup asks the user before it writes, and its notes about Claude Code's mode and settings that disable hooks."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drawbridge.agents.claude.hook_settings import ASK_MODE
from drawbridge.core.errors import NotWritable
from drawbridge.setup import files, installed
from drawbridge.setup.agents import AGENTS
from tests.setup.conftest import Setup, everything_below
from tests.waiting import PATIENCE

DEFAULT = {"permissions": {"defaultMode": "default"}}
LASTING = {"defaultMode": "default", "disableAutoMode": "disable"}


def put(path: Path, settings: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings))
    return path


@pytest.fixture
def user(home: Path) -> Path:
    return home / ".claude" / "settings.json"


class Terminal:
    """The command on its own terminal, which the test reads and types into."""

    def __init__(self, *words: str) -> None:
        self._terminal, theirs = pty.openpty()
        command = [sys.executable, "-m", "drawbridge", "setup", *words]
        self._process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self.screen = ""

    def wait_for(self, words: str) -> None:
        end = time.monotonic() + PATIENCE
        while not re.search(words, self.screen):
            ready, _, _ = select.select([self._terminal], [], [], max(0, end - time.monotonic()))
            assert ready, f"no {words!r} on the screen:\n{self.screen}"
            self.screen += os.read(self._terminal, 65_536).decode()

    def type(self, words: str) -> None:
        self.screen = ""
        os.write(self._terminal, words.encode())

    def interrupt(self) -> None:
        """Interrupts the command as Ctrl+C does, repeatedly until it ends, for at most ``PATIENCE`` seconds."""
        end = time.monotonic() + PATIENCE
        while self._process.poll() is None and time.monotonic() < end:
            self._process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.2)

    def end(self) -> int:
        code = self._process.wait(PATIENCE)
        while select.select([self._terminal], [], [], 0)[0]:
            try:
                self.screen += os.read(self._terminal, 65_536).decode()
            except OSError:  # the command has closed its side
                break
        return code

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)


@pytest.fixture
def terminal(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Terminal]]:
    monkeypatch.chdir(home)
    opened: list[Terminal] = []

    def start(*words: str) -> Terminal:
        opened.append(Terminal(*words))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def test_on_a_terminal_the_user_sees_the_change_and_is_asked(terminal: Callable[..., Terminal], home: Path) -> None:
    path = put(home / ".gemini" / "settings.json", {"a": 1})
    before = everything_below(home)
    setup = terminal("gemini")
    setup.wait_for(r"Change .*settings.json:\s+\d+\s+hooks(.|\n)*BeforeTool(.|\n)*Do this\? \[y/d/N\]")
    assert "@@" not in setup.screen, "the diff is shown only on request"
    setup.type("d\r")
    setup.wait_for(r"\x1b\[32m\+.*BeforeTool(.|\n)*Do this\? \[y/d/N\]")
    assert everything_below(home) == before, "nothing is done before the answer"
    setup.type("n\r")
    setup.wait_for("No changes were made")
    assert setup.end() == 0
    assert everything_below(home) == before
    setup = terminal("gemini")
    setup.wait_for(r"Do this\?")
    setup.type("y\r")
    setup.wait_for("the guard is set up for Gemini CLI")
    assert setup.end() == 0
    assert "BeforeTool" in path.read_text()


def test_control_characters_in_settings_are_escaped(terminal: Callable[..., Terminal], home: Path) -> None:
    path = home / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text('{\n\t// \x1b[2J\u202e\n\t"a": 1\n}')
    setup = terminal("gemini")
    setup.wait_for(r"Do this\?")
    setup.type("d\r")
    setup.wait_for(r"// (.|\n)*Do this\?")
    assert r"     // \x1b[2J\u202e" in re.sub(r"\x1b\[[0-9;]*m", "", setup.screen)
    assert "\x1b[2J" not in setup.screen


def test_no_answer_means_no_and_the_yes_flag_skips_the_question(terminal: Callable[..., Terminal], home: Path) -> None:
    setup = terminal("gemini")
    setup.wait_for(r"Do this\?")
    setup.type("\x04")
    assert setup.end() == 0
    assert not (home / ".gemini").exists()
    setup = terminal("gemini", "--yes")
    setup.wait_for("the guard is set up for Gemini CLI")
    assert setup.end() == 0
    assert "Do this?" not in setup.screen


def test_setup_can_be_interrupted_at_the_question(terminal: Callable[..., Terminal], home: Path) -> None:
    setup = terminal("codex")
    setup.wait_for(r"Do this\?")
    setup.interrupt()
    assert setup.end() == 130
    assert not (home / ".codex").exists()


def test_the_mode_of_claude_is_asked_about_once(terminal: Callable[..., Terminal], user: Path) -> None:
    setup = terminal("claude")
    setup.wait_for(r"writes\s+without\s+asking(.|\n)*Do this\? \[y/a/d/N\]")
    setup.type("y\r")
    assert setup.end() == 0
    assert "writes without asking" not in setup.screen, "it is not shown a second time"
    assert "defaultMode" not in user.read_text()
    setup = terminal("claude")
    setup.wait_for(r"Already set up(.|\n)*setup claude --ask-mode` makes it ask")
    assert setup.end() == 0
    setup = terminal("claude", "--remove", "--yes")
    assert setup.end() == 0
    setup = terminal("claude")
    setup.wait_for(r"Do this\?")
    setup.type("a\r")
    assert setup.end() == 0
    assert json.loads(user.read_text())["permissions"] == LASTING
    setup = terminal("claude")
    setup.wait_for("Already set up")
    assert setup.end() == 0


@pytest.mark.usefixtures("guard")
@pytest.mark.parametrize("target", ["claude", "codex"])
@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["plain", "json"])
@pytest.mark.parametrize("piped", ["n\n", "y\n"], ids=["n", "y"])
def test_without_a_terminal_nothing_is_changed(
    target: str, flags: tuple[str, ...], piped: str, setup: Setup, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(piped))
    before = everything_below(home)
    output = setup(target, *flags, yes=False)
    assert everything_below(home) == before
    assert output.code == 2
    assert output.errors.startswith("The changes were not confirmed, so none were made. Run this again with --yes.\n")
    if flags:
        assert (output.facts["changed"], output.facts["applied"]) == (True, False)
    else:
        assert "  Create " in output.output


@pytest.mark.usefixtures("guard")
@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '{\n  "permissions": {\n    "allow": []\n  }\n}\n',
        '{"permissions": {"defaultMode": "acceptEdits"}, "b": 2}',
        '{"permissions": {"disableAutoMode": "no", "allow": []}}',
    ],
)
def test_removing_the_mode_restores_the_file_exactly(text: str, setup: Setup, user: Path) -> None:
    user.parent.mkdir()
    user.write_text(text)
    output = setup("claude", "--yes")
    assert "defaultMode" not in user.read_text() or "acceptEdits" in user.read_text()
    assert f"Note: {ASK_MODE.unasked}" in output.errors
    output = setup("claude", "--ask-mode")
    assert LASTING.items() <= json.loads(user.read_text())["permissions"].items()
    assert output.errors == ""
    assert setup("claude").output.startswith("Already set up"), "a later run does not change it"
    assert setup("claude", "--no-ask-mode").code == 0
    assert json.loads(user.read_text()).get("permissions") == json.loads(text).get("permissions")
    setup("claude", "--ask-mode")
    setup("claude", "--remove")
    assert user.read_text() == text


def fail(*_: object) -> None:
    raise NotWritable("The disk is full.")


@pytest.mark.usefixtures("guard")
@pytest.mark.parametrize("text", [None, '{"permissions": {"defaultMode": "acceptEdits"}, "b": 2}'])
def test_a_setup_that_failed_halfway_can_be_undone(
    text: str | None, setup: Setup, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Setup fails after it has changed the settings. When it is run again, it finds nothing left to do."""
    setup("codex")  # installs the copy of the guard
    user.parent.mkdir()
    if text is not None:
        user.write_text(text)
    with monkeypatch.context() as patch:
        patch.setattr(installed, "install_copy", fail)
        assert setup("claude", "--ask-mode").code == 3
    assert LASTING.items() <= json.loads(user.read_text())["permissions"].items()
    assert setup("claude", "--ask-mode").output.startswith("Already set up")
    assert setup("claude", "--remove").code == 0
    assert (user.read_text() if user.exists() else None) == text


class Killed(BaseException):
    """Ends setup like a signal: no code reacts to it."""


def killed(*_: object) -> None:
    raise Killed


@pytest.mark.usefixtures("guard")
def test_an_interrupted_change_back_can_be_undone(setup: Setup, user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Setup is interrupted before it has restored the mode."""
    text = '{"permissions": {"defaultMode": "acceptEdits"}, "b": 2}'
    put(user, json.loads(text))
    setup("claude", "--ask-mode")
    with monkeypatch.context() as patch:
        patch.setattr(files.Change, "apply", killed)
        with pytest.raises(Killed):
            setup("claude", "--no-ask-mode")
    assert setup("claude", "--remove").code == 0
    assert user.read_text() == text


@pytest.mark.usefixtures("guard")
def test_settings_that_were_not_written_are_not_recorded(
    setup: Setup, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user creates the file after setup has failed. It is not removed as a file that setup created."""
    replace = os.replace

    def full(source: str | Path, target: str | Path) -> None:
        if Path(target) == user:
            raise OSError(28, "No space left on device")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert setup("claude").code == 3
    user.write_text("{}\n")
    setup("claude")
    assert setup("claude", "--remove").code == 0
    assert user.read_text() == "{}\n"


@pytest.mark.usefixtures("guard")
def test_a_mode_that_the_user_has_set_is_not_removed(setup: Setup, user: Path) -> None:
    put(user, DEFAULT)
    output = setup("claude", "--ask-mode")
    assert output.errors == ""
    setup("claude", "--remove")
    assert json.loads(user.read_text()) == DEFAULT
    setup("claude", "--ask-mode")
    put(user, json.loads(user.read_text()) | {"permissions": {"defaultMode": "acceptEdits"}})
    setup("claude", "--remove")
    assert json.loads(user.read_text()) == {"permissions": {"defaultMode": "acceptEdits"}}


@pytest.mark.usefixtures("guard")
@pytest.mark.parametrize("where", ["disableAutoMode", "permissions"])
def test_a_mode_that_the_cli_would_change_is_mentioned(where: str, setup: Setup, user: Path) -> None:
    """The mode was set by an earlier version or by hand."""
    put(user, DEFAULT)
    assert f"Note: {ASK_MODE.not_kept}" in setup("claude").errors
    put(user, {"permissions": LASTING} if where == "permissions" else DEFAULT | {where: "disable"})
    assert setup("claude").errors == ""


@pytest.mark.usefixtures("guard")
def test_permissions_of_another_type_are_kept_and_reported(setup: Setup, user: Path) -> None:
    put(user, {"permissions": ["Bash"]})
    output = setup("claude", "--ask-mode")
    assert output.code == 2
    assert f"{user}: permissions is a list, not an object. The file was not changed" in output.errors
    assert json.loads(user.read_text()) == {"permissions": ["Bash"]}


@pytest.mark.usefixtures("guard")
@pytest.mark.parametrize("place", ["user", "project", "local", "managed"])
def test_disabled_hooks_of_claude_are_reported(
    place: str, setup: Setup, user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    managed = tmp_path / "managed.json"
    monkeypatch.setitem(AGENTS, "claude", AGENTS["claude"]._replace(managed=(str(managed), str(managed))))
    project = Path.cwd() / ".claude"
    files = {"user": user, "project": project / "settings.json", "local": project / "settings.local.json"}
    path = put((files | {"managed": managed})[place], {"disableAllHooks": True, **DEFAULT})
    output = setup("claude", "--ask-mode")
    assert (
        output.errors
        == f"Note: {path} sets disableAllHooks: no hooks run, and nothing is protected, until that setting is removed.\n"
    )


@pytest.mark.usefixtures("guard")
def test_disabled_hooks_of_other_agents_are_reported(setup: Setup, home: Path) -> None:
    gemini = put(home / ".gemini" / "settings.json", {"hooksConfig": {"enabled": False, "disabled": ["drawbridge"]}})
    output = setup("gemini").errors
    assert f"{gemini} sets hooksConfig.enabled = false" in output
    assert f"{gemini} lists drawbridge in hooksConfig.disabled" in output
    codex = home / ".codex" / "config.toml"
    codex.parent.mkdir()
    codex.write_text("[features]\nhooks = false\n")
    output = setup("codex").errors
    assert f"{codex} sets [features] hooks = false" in output
    codex.write_text("[features]\nhooks = ")
    assert setup("codex", "--json").facts["notes"] == [], "Codex itself reports a file that is not TOML"


@pytest.mark.usefixtures("guard")
@pytest.mark.parametrize("agent", ["gemini", "codex"])
def test_a_note_warns_about_a_file_that_others_share(agent: str, setup: Setup) -> None:
    output = setup(agent, "--scope", "project")
    assert f"{AGENTS[agent].settings_file(Path.cwd())} contains the path of a Python on this machine" in output.errors
    assert "the path of a Python" not in setup(agent).errors


@pytest.mark.usefixtures("guard")
def test_invalid_arguments_show_the_usage(setup: Setup) -> None:
    for words in ([], ["cursor"], ["claude", "--scope", "world"], ["claude", "--answer"], ["nvim", "--scope", "user"]):
        with pytest.raises(SystemExit) as stop:
            setup(*words)
        assert stop.value.code == 2
