"""An editor that can't answer must not hold up an agent. The log records what the guard did instead."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import programs
from tests.rigs.messages_stub import edit, read, text
from tests.rigs.neovim_rig import Neovim
from tests.rigs.tmux import wait_until
from tests.waiting import PATIENCE

from .test_claude_edits import KEPT, MINE, NEW_POEM, POEM, type_a_line
from .workstation import STUCK, GuardedWorkstation, edit_call, is_notified_in_one_line

DEADLINE = ("--deadline", "300")
"""The default deadline, in milliseconds."""

SOON = PATIENCE / 2
"""The maximum number of seconds that a call may take, including the deadline and the start of Python on a busy
machine.
"""

State = Callable[[Neovim], None]


def at_a_hit_enter_prompt(neovim: Neovim) -> None:
    neovim.command("echo 'a' | echo 'b' | echo 'c'")
    neovim.pane.wait_for(STUCK)


def busy(neovim: Neovim) -> None:
    """Makes Neovim run an endless loop."""
    started = Path(os.environ["TMPDIR"]) / "busy"
    neovim.lua(
        "local path = ... vim.defer_fn(function() vim.fn.writefile({}, path) while true do end end, 0)", str(started)
    )
    wait_until(lambda: started.exists() or None)


def asleep(neovim: Neovim) -> None:
    neovim.command("sleep 30")
    neovim.pane.wait_for(":sleep 30")


def typing(neovim: Neovim) -> None:
    neovim.pane.type("A and")
    neovim.wait_for("return vim.fn.mode() == 'i'", what="did not come into insert mode")


@pytest.fixture
def poem(rig: GuardedWorkstation) -> Path:
    return rig.file("poem.txt", POEM)


@pytest.fixture(params=programs.each_nvim())
def neovim(request: pytest.FixtureRequest, rig: GuardedWorkstation, poem: Path) -> Iterator[Neovim]:
    """A Neovim with unsaved work in front of the user."""
    neovim = rig.nvim(poem, program=request.param)
    pid = neovim.lua("return vim.fn.getpid()")
    type_a_line(neovim)
    yield neovim
    os.kill(pid, signal.SIGKILL)  # in some of these states, Neovim does not end with its terminal


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (at_a_hit_enter_prompt, "is waiting at a prompt"),
        pytest.param(busy, "did not answer in time", marks=pytest.mark.thorough),
    ],
)
def test_a_silent_editor_costs_one_deadline_and_a_log_line(
    rig: GuardedWorkstation, poem: Path, neovim: Neovim, state: State, why: str
) -> None:
    """The guard neither denies nor approves the edit."""
    rig.set_up("claude", *DEADLINE)
    state(neovim)

    answer, seconds = rig.hook(**edit_call(poem))

    assert answer == {}, "even with unknown = allow, the guard has no opinion and does not approve"
    assert seconds < SOON
    [line] = rig.log.splitlines()
    assert line.endswith(f"{why} (unknown = allow)")


@pytest.mark.parametrize("state", [pytest.param(asleep, marks=pytest.mark.thorough), typing])
def test_an_editor_answers_while_asleep_or_in_use(
    rig: GuardedWorkstation, poem: Path, neovim: Neovim, state: State
) -> None:
    rig.set_up()
    state(neovim)

    answer, _ = rig.hook(**edit_call(poem))

    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"


@pytest.mark.thorough
def test_an_edit_passes_at_a_hit_enter_prompt(rig: GuardedWorkstation, poem: Path, neovim: Neovim) -> None:
    rig.set_up("claude", *DEADLINE)
    at_a_hit_enter_prompt(neovim)

    rig.ask_claude(read(poem), edit(poem, "two", "TWO"), text("It is done."))

    assert poem.read_text() == NEW_POEM
    neovim.pane.press("Enter")
    neovim.wait_for("return not vim.api.nvim_get_mode().blocking", what="waits for more")
    assert neovim.buffer(poem) == MINE
    assert neovim.modified(poem)


@pytest.mark.thorough
def test_unknown_deny_denies_an_edit_at_a_hit_enter_prompt(rig: GuardedWorkstation, poem: Path, neovim: Neovim) -> None:
    rig.set_up("claude", "--unknown", "deny", *DEADLINE)
    at_a_hit_enter_prompt(neovim)

    received = rig.ask_claude(read(poem), edit(poem, "two", "TWO"), text("Then not."))

    assert poem.read_text() == POEM
    assert "Drawbridge could not find out in time whether poem.txt has unsaved changes" in received
    neovim.pane.press("Enter")
    neovim.wait_for("return not vim.api.nvim_get_mode().blocking", what="waits for more")
    rig.set_up("claude", "--unknown", "deny", "--deadline", "5000")
    rig.ask_claude(read(poem), edit(poem, "two", "TWO"), text("Then not."))
    is_notified_in_one_line(neovim, KEPT)
