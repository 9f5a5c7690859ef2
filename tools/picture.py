"""Updates the screenshots in the documentation: a real Neovim with the real Claude Code next to it.

    python tools/picture.py [diff] [guard] [review]

The images are written to docs/images. This needs the programs that the end-to-end tests need (tests/programs.py defines
where it looks for them), and uses a temporary home directory.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.e2e.claude.workstation import Workstation  # noqa: E402
from tests.e2e.guard.workstation import GuardedWorkstation  # noqa: E402
from tests.rigs.claude_rig import EDIT_DIALOG  # noqa: E402
from tests.rigs.messages_stub import MessagesStub, edit, read, text  # noqa: E402
from tests.rigs.tmux import Pane, Tmux  # noqa: E402
from tests.server.checkpoints.rig import git  # noqa: E402
from tests.server.processes import serving  # noqa: E402

import terminal_svg  # noqa: E402

ROWS = 26
EDITOR_COLUMNS = 93
CLAUDE_COLUMNS = 48
NARROW, WIDE = 76, 65
REVIEW_COLUMNS, AUTO_COLUMNS = 84, 57

LOOK = """
vim.o.laststatus = 3
vim.o.showtabline = 0
vim.o.number = true
vim.cmd('highlight WinSeparator guifg=#4f5258')
vim.o.statusline = " %f %m%=%{v:lua.require'drawbridge'.statusline()}  %l,%c "
"""
"""Settings that a user may have. The status line is the one in docs/neovim.md, with more space around its parts."""

CONSTANTS = """\
from datetime import time

OPENS = time(6)
CLOSES = time(22)


"""
OLD = """\
def is_open(now):
    return OPENS < now < CLOSES


def next_opening(now):
    if now < OPENS:
        return "today at six"
    return "tomorrow at six"
"""
NEW = '''\
def is_open(now):
    """From six sharp until ten."""
    return OPENS <= now < CLOSES


def next_opening(now):
    if is_open(now):
        return "it is down now"
    if now < OPENS:
        return "today at six"
    return "tomorrow at six"
'''
REST = """\


if __name__ == "__main__":
    print(next_opening(time(6)))
"""
AT_REST = "▐▛███▛█   Claude Code"
"""The CLI's animated logo while it does not move."""

PROMPT = "At six sharp is_open says no. Fix it."
ANSWER = "The comparison leaves out the opening minute. I'll include it:"

DESCRIPTION = (
    "A terminal with Neovim on the left and Claude Code on the right. Neovim shows a file and, beside it, the change that "
    "Claude Code proposes; Claude Code says that it has opened the changes in Neovim and asks whether to make this edit."
)


MINE = "CLOSES = time(23)  # from May on"
EXCUSE = (
    "You are editing hours.py and have not saved it yet, so I left it alone. Save it, say go, and I'll make the change."
)
DENIAL = (
    "A terminal with Neovim on the left and Claude Code on the right. Neovim shows a file with an unsaved line and, "
    "below, the notice that Claude Code was kept from changing the file. Claude Code shows that its edit was denied and says "
    "that it is waiting for the file to be saved."
)

DONE = "The tower is open from six on, and next_opening says so."
REVIEW = (
    "A terminal with Neovim on the left and Claude Code on the right. Claude Code has changed a file without asking. "
    "Neovim marks the changed lines of the file, shows the removed lines between them, and lists the changes below."
)


def diff(home: Path) -> str:
    """Claude proposes a change, and Neovim shows it."""
    with MessagesStub() as model, Tmux.server() as tmux, Workstation(home / "drawbridge", model, tmux) as rig:
        file = rig.file("hours.py", CONSTANTS + OLD + REST)
        neovim = rig.neovim(file)
        neovim.lua(LOOK)
        resize(tmux, neovim.pane, EDITOR_COLUMNS)
        claude = rig.claude()
        resize(tmux, claude.pane, CLAUDE_COLUMNS)
        model.will_say([text(ANSWER), read(file)], edit(file, OLD, NEW))
        claude.prompt(PROMPT)
        neovim.wait_for_proposal()
        neovim.pane.wait_for("From six sharp")
        claude.pane.wait_for("Opened changes in Neovim", EDIT_DIALOG, AT_REST)
        shown = terminal_svg.beside(grid(tmux, neovim.pane, EDITOR_COLUMNS), grid(tmux, claude.pane, CLAUDE_COLUMNS))
        return terminal_svg.picture(shown, "Claude proposes, you decide", DESCRIPTION)


def guard(home: Path) -> str:
    """Claude is denied an edit of a file with unsaved changes."""
    with MessagesStub() as model, Tmux.server() as tmux, GuardedWorkstation(home / "drawbridge", model, tmux) as rig:
        file = rig.file("hours.py", CONSTANTS + OLD + REST)
        neovim = rig.nvim(file)
        neovim.lua(LOOK.replace("%{v:lua.require'drawbridge'.statusline()}", ""))
        neovim.pane.type(f"4Gcc{MINE}")
        neovim.pane.press("Escape")
        rig.set_up()
        claude = rig.unconnected_claude("--permission-mode", "acceptEdits")
        resize(tmux, neovim.pane, NARROW)
        resize(tmux, claude.pane, WIDE)
        model.will_say([text(ANSWER), read(file)], edit(file, OLD, NEW), text(EXCUSE))
        claude.prompt(PROMPT)
        neovim.pane.wait_for("can't change")
        claude.pane.wait_for(r"make\s+the\s+change")
        shown = terminal_svg.beside(grid(tmux, neovim.pane, NARROW), grid(tmux, claude.pane, WIDE))
        return terminal_svg.picture(shown, "Unsaved work is kept", DENIAL)


def review(home: Path) -> str:
    """Claude has changed a file without asking, and Neovim shows the review of its run."""
    with MessagesStub() as model, Tmux.server() as tmux, GuardedWorkstation(home / "drawbridge", model, tmux) as rig:
        model.checks = True
        file = rig.file("hours.py", CONSTANTS + OLD + REST)
        for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "first")):
            git(rig.project, *words)
        rig.set_up()
        return asyncio.run(_review(rig, home, file))


async def _review(rig: GuardedWorkstation, home: Path, file: Path) -> str:
    async with serving(home / "data", "--no-tls"):
        neovim = rig.nvim(file, plugin=True)
        neovim.lua(LOOK)
        resize(rig.tmux, neovim.pane, REVIEW_COLUMNS)
        claude = rig.unconnected_claude("--permission-mode", "auto", "--model", "opus")
        resize(rig.tmux, claude.pane, AUTO_COLUMNS)
        rig.model.will_say([text(ANSWER), read(file)], edit(file, OLD, NEW), text(DONE))
        claude.prompt(PROMPT)
        claude.pane.wait_for(r"from\s+six\s+on")
        neovim.pane.type(":DrawbridgeChanges")
        neovim.pane.press("Enter")
        neovim.pane.wait_for("hours.py.*From six sharp", "From six sharp")
        neovim.pane.type("]c")
        await asyncio.to_thread(neovim.pane.wait_for, "return OPENS < now")
        shown = terminal_svg.beside(
            grid(rig.tmux, neovim.pane, REVIEW_COLUMNS), grid(rig.tmux, claude.pane, AUTO_COLUMNS)
        )
        return terminal_svg.picture(shown, "The agent is done, you decide", REVIEW)


def resize(tmux: Tmux, pane: Pane, columns: int) -> None:
    tmux.run("resize-window", "-t", pane.id, "-x", str(columns), "-y", str(ROWS))


def grid(tmux: Tmux, pane: Pane, columns: int) -> terminal_svg.Grid:
    captured = tmux.run("capture-pane", "-e", "-N", "-p", "-t", pane.id)
    return terminal_svg.parse(captured, columns, ROWS)


def main() -> None:
    pictures = {picture.__name__: picture for picture in (diff, guard, review)}
    for name in sys.argv[1:] or pictures:
        target = ROOT / "docs" / "images" / f"{name}.svg"
        target.write_text(at_home(pictures[name]), encoding="utf-8")
        print(f"{target}: {target.stat().st_size / 1000:.0f} kB")


def at_home(take: Callable[[Path], str]) -> str:
    """Calls ``take`` with a temporary home directory, which is deleted afterwards. Returns the result."""
    with tempfile.TemporaryDirectory(prefix="db-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        os.environ |= {"HOME": folder, "CLAUDE_CONFIG_DIR": f"{folder}/.claude"}
        os.environ |= {
            f"XDG_{kind}": f"{folder}/{kind}" for kind in ("CONFIG_HOME", "DATA_HOME", "STATE_HOME", "CACHE_HOME")
        }
        os.environ["XDG_RUNTIME_DIR"] = folder
        return take(home)


if __name__ == "__main__":
    main()
