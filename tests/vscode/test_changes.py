"""The changes of runs in a real VS Code with a real ``drawbridge serve``: the list, the diff and the decisions."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from drawbridge.core.review_memory import ReviewMemory
from tests.chaos.rig import StoppingGit
from tests.server.reviews.rig import POEM, make_repository
from tests.waiting import PATIENCE

from .agent_server import AgentServer, agent_server
from .rig import VSCode, wait_until
from .workstation import Workstation

pytestmark = pytest.mark.thorough

PICTURES = os.environ.get("DRAWBRIDGE_TEST_PICTURES")
"""The directory into which screenshots of the window are written; None for no screenshots."""

LIST = ".pane:has(> [aria-label^='Drawbridge: Changes'])"
ROWS = f"{LIST} .monaco-list-row"
MEMORY = Path("state", "drawbridge", "reviews.json")
"""The file with what the user has seen, in the rig's directory."""

NOTICES = ".notifications-toasts .notification-list-item-message"
MOVED = "the list has just changed, or no change is selected. Select a change, then try again"
CHANGED = POEM.replace("line 3\n", "LINE 3\n").replace("line 17\n", "LINE 17\nand more\n")
ALL = ("old.txt", "poem.txt", "Line 3", "Lines 17–18")
SIDES = """
const { input } = vscode.window.tabGroups.activeTabGroup.activeTab ?? {};
const document = (uri) => vscode.workspace.textDocuments.find((one) => String(one.uri) === String(uri));
const editor = vscode.window.visibleTextEditors.find((one) => String(one.document.uri) === String(input?.modified));
return input?.original && editor
  ? [document(input.original)?.getText(), document(input.modified)?.getText(), editor.selection.active.line]
  : null;
"""
CURSOR = """
const row = new vscode.Position(argument, 0);
vscode.window.activeTextEditor.selection = new vscode.Selection(row, row);
"""


class Changes:
    """The list of changes in a repository where an agent has changed ``poem.txt`` in two places and removed ``old.txt``."""

    def __init__(self, rig: Workstation, server: AgentServer) -> None:
        self.rig = rig
        self.server = server
        self.directory = rig.folder / "work"
        self.poem, self.old = self.directory / "poem.txt", self.directory / "old.txt"
        make_repository(self.directory)
        # The changes of the previous test, whose server has ended, may still be listed.
        wait_until(lambda: "3" not in rig.window.sees(".activitybar .badge"), "that nothing is listed")
        server.run(self.directory, self._work)
        wait_until(lambda: "3" in rig.window.sees(".activitybar .badge"), "the number of changes at the icon")
        rig.does("drawbridge.showChanges")
        self.shows(*ALL)

    def _work(self) -> None:
        self.poem.write_text(CHANGED)
        self.old.unlink()

    def rows(self) -> list[str]:
        return self.rig.window.sees(ROWS)

    def marked(self) -> list[bool]:
        """For each line of the list, whether it is marked as new."""
        return ["●" in row for row in self.rows()]

    def shows(self, *beginnings: str) -> None:
        """Waits until the list consists of lines with exactly these beginnings."""

        def is_shown() -> bool:
            rows = self.rows()
            return len(rows) == len(beginnings) and all(map(str.startswith, rows, beginnings))

        try:
            wait_until(is_shown, f"a list of {beginnings}")
        except AssertionError as error:
            error.add_note(f"shown: {self.rows()}, with the notices {self.rig.window.sees(NOTICES)}")
            raise

    def opens(self, line: str) -> None:
        """Clicks a line of the list, and clicks again if VS Code was redrawing the list at that moment."""
        selected = f"{ROWS}.selected:has-text('{line}')"

        def is_selected() -> bool:
            self.rig.window.clicks(self._line(line))
            with contextlib.suppress(AssertionError):
                return bool(wait_until(lambda: self.rig.window.sees(selected), "the selected line", timeout=10))
            return False

        wait_until(is_selected, f"the selected line {line}")

    def does(self, action: str, line: str) -> None:
        """Clicks a button that removes a line from the list, and clicks again if VS Code was reloading the list at that
        moment. Returns when the line is gone, or a notice is shown."""

        def has_an_effect() -> bool:
            return not any(line in row for row in self.rows()) or bool(self.rig.window.sees(NOTICES))

        self.rig.does("notifications.clearAll")

        def is_done() -> bool:
            self.clicks(action, line)
            with contextlib.suppress(AssertionError):
                wait_until(has_an_effect, f"an effect of {action}", timeout=10)
            was_reading = any(MOVED in notice for notice in self.rig.window.sees(NOTICES))
            if was_reading:
                self.rig.does("notifications.clearAll")
            return has_an_effect() and not was_reading

        wait_until(is_done, action)

    def clicks(self, action: str, line: str) -> None:
        """Clicks a button of a line in the list."""
        self.rig.window.browser.send(page=self.rig.window.name, hover=self._line(line))
        self.rig.window.clicks(f"{self._line(line)} .action-label[aria-label='{action}']")

    def _line(self, text: str) -> str:
        return f"{ROWS}:has-text('{text}')"

    def compares(self, before: str, after: str, row: int | None = None) -> None:
        """Waits for a diff of these texts, with the cursor in row ``row`` (from 0) unless that is None."""

        def is_shown() -> bool:
            found = self.rig.window.run(SIDES)
            return found is not None and found[:2] == [before, after] and row in (None, found[2])

        wait_until(is_shown, "the diff")

    def header(self) -> str:
        return text_of(self, f"{LIST} .pane-header")

    def switches(self, label: str) -> None:
        """Clicks a button at the top of the list."""
        self.rig.window.browser.send(page=self.rig.window.name, hover=f"{LIST} .pane-header")
        self.rig.window.clicks(f"{LIST} .pane-header .action-label[aria-label='{label}']")

    @property
    def _memory(self) -> ReviewMemory:
        return ReviewMemory(str(self.rig.vscode.directory / MEMORY))

    def remembered(self) -> tuple[str, ...]:
        """The ids of the changes that the user has seen."""
        return self._memory.of(str(self.directory)).seen

    def opened_elsewhere(self) -> None:
        """Records that the user has seen all changes in the terminal client."""
        hunks = self.server.hunks(self.directory)
        self._memory.saw(str(self.directory), hunks, hunks)

    def warns(self, text: str) -> None:
        wait_until(lambda: any(text in notice for notice in self.rig.notices()), text)

    def picture(self, name: str) -> None:
        if PICTURES:
            self.rig.window.browser.send(page=self.rig.window.name, shot=str(Path(PICTURES) / f"{name}.png"))


@pytest.fixture
def server(vscode: VSCode) -> Iterator[AgentServer]:
    with agent_server(vscode) as server:
        yield server


@pytest.fixture
def changes(rig: Workstation, server: AgentServer) -> Iterator[Changes]:
    yield Changes(rig, server)
    rig.does("workbench.view.explorer")


def test_a_run_fills_the_list_and_an_entry_opens_its_diff(changes: Changes) -> None:
    """The cursor is at the changed line."""
    assert [row.split("+")[0].strip() for row in changes.rows()] == list(ALL)
    assert "deleted" in changes.rows()[0]
    assert "3 −2" in changes.rows()[1]
    assert "LINE 17" in changes.rows()[3]
    changes.opens("Lines 17")
    changes.compares(POEM, CHANGED, 16)
    changes.picture("changes")
    changes.opens("old.txt")
    changes.compares("old\n", "", 0)
    new = changes.directory / "new.txt"
    changes.server.run(changes.directory, lambda: new.write_text("new\n"))
    changes.shows("new.txt", *ALL)
    changes.opens("new.txt")
    changes.compares("", "new\n", 0)


def test_undoing_one_change_restores_its_lines_on_disk(changes: Changes) -> None:
    changes.opens("Line 3")
    changes.compares(POEM, CHANGED, 2)
    changes.does("Undo Change", "Line 3")
    changes.shows("old.txt", "poem.txt", "Lines 17–18")
    left = CHANGED.replace("LINE 3\n", "line 3\n")
    assert changes.poem.read_text() == left
    changes.compares(POEM, left)
    changes.does("Undo Changes in File", "old.txt")
    changes.shows("poem.txt", "Lines 17–18")
    assert changes.old.read_text() == "old\n"
    changes.opens("Lines 17")
    changes.compares(POEM, left, 16)
    changes.rig.does("drawbridge.undoChangeAtCursor")
    changes.shows()
    assert changes.poem.read_text() == POEM


def test_the_change_at_the_cursor_is_found_after_lines_moved(changes: Changes) -> None:
    """Another program adds lines, so that the first change is where the second one was when the list was read."""
    above = "".join(f"above {number}\n" for number in range(14))
    changes.rig.opens(changes.poem)
    changes.poem.write_text(above + CHANGED)
    changes.rig.shows(changes.poem, above + CHANGED)
    changes.rig.window.run(CURSOR, 16)
    changes.rig.does("drawbridge.undoChangeAtCursor")
    changes.warns("poem.txt has changed since the list was read. Try again.")
    assert changes.poem.read_text() == above + CHANGED
    changes.shows("old.txt", "poem.txt", "Line 17", "Lines 31–32")
    changes.rig.does("drawbridge.undoChangeAtCursor")
    changes.shows("old.txt", "poem.txt", "Lines 31–32")
    assert changes.poem.read_text() == above + CHANGED.replace("LINE 3\n", "line 3\n")


@pytest.mark.slow
def test_an_action_without_its_list_entry_changes_nothing(changes: Changes) -> None:
    """VS Code passes no entry while it reads the list again."""
    changes.opens("Line 3")
    changes.compares(POEM, CHANGED, 2)
    for action in ("undoChange", "undoFile", "keepChange", "keepFile"):
        changes.rig.does(f"drawbridge.{action}")
        changes.warns(MOVED)
        changes.rig.does("notifications.clearAll")
    assert len(changes.rows()) == len(ALL)
    assert changes.poem.read_text() == CHANGED


def test_undo_is_refused_in_a_file_with_unsaved_changes(changes: Changes) -> None:
    changes.rig.opens(changes.poem)
    changes.rig.types("mine ")
    for action, line in (("Undo Change", "Line 3"), ("Undo Changes in File", "poem.txt")):
        changes.does(action, line)
        changes.warns("poem.txt has unsaved changes here. Save or discard them first.")
        changes.rig.does("notifications.clearAll")
    assert changes.poem.read_text() == CHANGED
    assert changes.rig.document(changes.poem) == {"text": f"mine {CHANGED}", "dirty": True}
    assert len(changes.rows()) == len(ALL)
    changes.rig.does("workbench.action.focusActiveEditorGroup")
    changes.rig.window.presses("Control+s")
    wait_until(lambda: not changes.rig.document(changes.poem)["dirty"], "the save")
    assert changes.poem.read_text().startswith("mine ")
    changes.does("Undo Change", "Line 3")
    changes.shows("old.txt", "poem.txt", "Lines 17–18")
    assert changes.poem.read_text() == f"mine {CHANGED}".replace("LINE 3\n", "line 3\n")


def test_nobody_else_can_undo_in_a_file_with_unsaved_changes(changes: Changes) -> None:
    changes.server.end()
    changes.server.start(DRAWBRIDGE_HOOK_SOCKET_DIR=str(changes.rig.vscode.sockets), DRAWBRIDGE_HOOK_DEADLINE="3000")
    changes.rig.opens(changes.poem)
    changes.rig.types("mine ")
    reason = changes.server.refused_elsewhere(changes.directory, decision="undo")
    assert "poem.txt has unsaved changes in code-server" in reason
    assert changes.poem.read_text() == CHANGED
    assert not changes.old.exists()
    assert changes.rig.document(changes.poem) == {"text": f"mine {CHANGED}", "dirty": True}


def test_kept_changes_leave_the_list_and_stay_on_disk(changes: Changes) -> None:
    changes.does("Keep Change", "Line 3")
    changes.shows("old.txt", "poem.txt", "Lines 17–18")
    changes.does("Keep Changes in File", "poem.txt")
    wait_until(lambda: "Kept: 1 change in poem.txt. 1 change left." in status_bar(changes), "what was done")
    changes.shows("old.txt")
    changes.server.decides_elsewhere(changes.directory, decision="undo")
    wait_until(lambda: "Neovim made decisions in this review." in status_bar(changes), "who decided")
    changes.shows()
    assert (changes.poem.read_text(), changes.old.read_text()) == (CHANGED, "old\n")


def test_everything_is_kept_after_one_question(changes: Changes) -> None:
    button = f"{LIST} .pane-header .action-label[aria-label='Keep All Changes']"
    changes.rig.window.browser.send(page=changes.rig.window.name, hover=f"{LIST} .pane-header")
    changes.rig.window.clicks(button)
    question = ".monaco-dialog-box"
    wait_until(lambda: "Keep 3 changes in 2 files?" in "".join(changes.rig.window.sees(question)), "the question")
    changes.picture("question")
    assert len(changes.rows()) == len(ALL)
    changes.rig.window.clicks(f"{question} .monaco-button:has-text('Keep All')")
    changes.shows()
    assert changes.poem.read_text() == CHANGED
    assert not changes.old.exists()


@pytest.mark.slow
def test_only_new_changes_are_listed(changes: Changes) -> None:
    """A change that has been in view in the diff, here or in a terminal, is not new on the next visit."""
    changes.opens("Line 3")
    changes.compares(POEM, CHANGED, 2)
    wait_until(lambda: len(changes.remembered()) == 2, "the changes to the poem to be remembered")
    new = changes.directory / "new.txt"
    changes.server.run(changes.directory, lambda: new.write_text("new\n"))
    changes.shows("new.txt", *ALL)
    wait_until(lambda: changes.marked() == [True, True, False, False, False], "marks at the new changes")
    wait_until(lambda: "3 files +4 −3 · 2 since your last visit" in changes.header(), "the number of new changes")
    changes.picture("new-changes")
    changes.switches("Show Only Changes Since Your Last Visit")
    changes.shows("new.txt", "old.txt")
    wait_until(lambda: "2 of 4 changes · only since your last visit" in text_of(changes, LIST), "what is listed")
    assert "2 files +1 −1" in changes.header()
    changes.picture("only-new-changes")
    changes.rig.does("drawbridge.keepAllChanges")
    changes.warns("To decide on all changes at once, show the others too.")
    changes.rig.does("notifications.clearAll")
    changes.does("Keep Changes in File", "new.txt")
    changes.shows("old.txt")
    changes.switches("Show All Changes")
    changes.shows(*ALL)
    wait_until(lambda: changes.marked() == [True, False, False, False], "a mark at the new change")
    changes.rig.does("workbench.view.explorer")
    changes.opened_elsewhere()
    changes.rig.does("drawbridge.showChanges")
    wait_until(lambda: changes.marked() == [False] * len(ALL), "that nothing is new")
    changes.rig.does("drawbridge.showOnlyNewChanges")
    wait_until(lambda: "Nothing is new since your last visit." in text_of(changes, LIST), "why all are listed")
    assert len(changes.rows()) == len(ALL)
    changes.rig.does("drawbridge.showAllChanges")


def test_the_notice_about_missing_git_is_shown_once(rig: Workstation, server: AgentServer) -> None:
    directory = rig.folder / "plain"
    directory.mkdir()
    (directory / "poem.txt").write_text(POEM)
    server.run(directory, lambda: (directory / "poem.txt").write_text(CHANGED))
    wait_until(lambda: "2" in rig.window.sees(".activitybar .badge"), "the number of changes at the icon")
    assert rig.notices() == []
    rig.does("drawbridge.showChanges")
    wait_until(lambda: any("plain: The server stores the versions" in one for one in rig.notices()), "the notice")
    rig.does("notifications.clearAll")
    rig.does("workbench.view.explorer")
    rig.does("drawbridge.showChanges")
    wait_until(lambda: len(rig.window.sees(ROWS)) == 3, "the list")
    assert rig.notices() == []
    assert ReviewMemory(str(rig.vscode.directory / MEMORY)).of(str(directory)).notice
    rig.does("workbench.view.explorer")


def test_a_decision_is_carried_out_after_the_server_was_killed(changes: Changes) -> None:
    """Progress is shown from the click on, even while the decision waits for another request."""
    changes.rig.does("workbench.view.explorer")
    changes.server.stop()
    changes.rig.does("drawbridge.showChanges")  # the extension sends what the user has seen, and waits for the answer
    changes.shows(*ALL)
    changes.clicks("Undo Change", "Line 3")
    progress = ".monaco-progress-container.active"
    wait_until(lambda: changes.rig.window.sees(progress), "the progress of the decision", timeout=PATIENCE / 2)
    changes.server.kill()
    changes.server.start()
    wait_until(lambda: "Undone: 1 change in poem.txt. 2 changes left." in status_bar(changes), "what was done")
    changes.shows("old.txt", "poem.txt", "Lines 17–18")
    assert changes.poem.read_text() == CHANGED.replace("LINE 3\n", "line 3\n")
    assert changes.rig.notices() == []


@pytest.mark.slow
def test_somebody_elses_interrupted_decision_is_shown(changes: Changes, tmp_path: Path) -> None:
    git = StoppingGit(tmp_path, "apply", "sleep 600")
    changes.server.end()
    changes.server.start(PATH=git.path)
    git.armed.touch()
    with changes.server.deciding_elsewhere(changes.directory, decision="undo"):
        wait_until(git.reached.exists, "git")
        changes.server.kill()
    changes.server.start()
    changes.warns("Neovim wanted to undo 3 changes in 2 files, but the server was restarted. Nothing was changed.")
    changes.shows(*ALL)
    assert changes.poem.read_text() == CHANGED


@pytest.mark.slow
def test_the_list_reconnects_to_a_restarted_server(changes: Changes) -> None:
    body = f"{LIST} .pane-body"
    changes.server.end()
    wait_until(
        lambda: "The connection to the agent server was lost." in text_of(changes, body), "that the server is gone"
    )
    changes.picture("no-server")
    changes.does("Undo Change", "Line 3")
    changes.warns("No agent server is running. Start one with: drawbridge serve")
    assert changes.poem.read_text() == CHANGED
    changes.server.start()
    wait_until(lambda: "The connection to the agent server was lost." not in text_of(changes, body), "the next server")
    changes.shows(*ALL)
    changes.does("Undo Change", "Line 3")
    changes.shows("old.txt", "poem.txt", "Lines 17–18")
    assert changes.poem.read_text() == CHANGED.replace("LINE 3\n", "line 3\n")


def test_the_reason_for_an_unreadable_review_is_shown(changes: Changes) -> None:
    """The server notices that the directory was moved when it receives the decision, or before that."""
    changes.rig.opens(changes.poem)
    shutil.move(changes.directory, changes.directory.with_name("moved"))
    changes.rig.does("drawbridge.keepThisFile")  # a row of the list may already be gone
    changes.shows()
    changes.rig.does("notifications.clearAll")
    changes.rig.does("drawbridge.showChanges")
    changes.warns("work: The session's directory does not exist.")


def text_of(changes: Changes, css: str) -> str:
    return "".join(changes.rig.window.sees(css)).replace("\u00a0", " ")


def status_bar(changes: Changes) -> str:
    return text_of(changes, ".part.statusbar")
