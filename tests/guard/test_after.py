"""After a call, editors show what is on disk and keep unsaved text, and the agent and the user are notified of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from drawbridge.guard import after, state

from . import editors
from .conftest import Guard
from .payloads import KEPT, A, Payload, bash, edit, edited, recorded

STILL: dict[str, Any] = {"success": True, "reloaded": [], "kept": [{"name": A, "lines": 3}]}


def context(answer: dict[str, Any]) -> str:
    """Returns the context that the answer gives to the agent; "" if the answer is empty."""
    text: str = answer["hookSpecificOutput"]["additionalContext"] if answer else ""
    return text


def test_after_an_edit_every_editor_reloads_that_file(guard: Guard) -> None:
    asked = [guard.neovim({A: {}}, pid=1), guard.neovim({}, pid=2), guard.vscode({A: {}}, pid=3)]
    assert guard.run(edited()) == {}
    place = os.environ["XDG_STATE_HOME"]
    for editor in asked:
        assert editor.params_of("refresh_buffer") == [{"file_path": A, "backups": f"{place}/drawbridge/guard/copies"}]
        assert editor.notices == []
    copies = Path(place, "drawbridge", "guard", "copies")
    assert copies.stat().st_mode & 0o777 == 0o700
    assert guard.log == []


@pytest.mark.parametrize(
    "payload",
    [
        recorded("claude", "PostToolUse", "Bash"),
        recorded("claude", "PostToolUseFailure", "Bash"),
        recorded("claude", "FileChanged"),
    ],
    ids=["a command", "a command that failed", "a watched file"],
)
def test_after_a_command_every_changed_file_is_reloaded(guard: Guard, payload: Payload) -> None:
    """The request names no file, so the editor reports a file that it did not reload only once."""
    neovim = guard.neovim({A: {}})
    assert guard.run(payload) == {}
    [params] = neovim.params_of("refresh_buffer")
    assert set(params) == {"backups"} | ({"watched"} if payload["hook_event_name"] == "FileChanged" else set())


def test_after_a_read_no_editor_is_asked(guard: Guard) -> None:
    neovim = guard.neovim({A: {}})
    assert guard.run(recorded("claude", "PostToolUse", "Read")) == {}
    assert neovim.asked == []


def test_unsaved_changes_made_during_a_call_are_reported(guard: Guard) -> None:
    """Both the agent and the user are notified."""
    neovim = guard.neovim({A: KEPT}, answers={"refresh_buffer": STILL})
    added = context(guard.run(edited()))
    assert added == (
        "/ws/a.py is on disk as you wrote it, but has unsaved changes in Neovim, which were not touched. "
        "If the user saves the file in the editor, the editor's text replaces the text on disk; the user has been notified."
    )
    assert neovim.notices == ["Claude Code changed a.py on disk; your text was not touched"]
    assert guard.log == ["claude: PostToolUse: /ws/a.py changed on disk, unsaved in Neovim."]


def test_a_command_is_not_reported_as_the_writer_of_a_file(guard: Guard) -> None:
    guard.neovim({A: KEPT}, answers={"refresh_buffer": STILL})
    added = context(guard.run(recorded("claude", "PostToolUse", "Bash")))
    assert added.startswith("/ws/a.py has changed on disk, but has unsaved changes in Neovim, which were not touched.")


def test_the_notice_about_a_watched_file_names_no_agent(guard: Guard) -> None:
    neovim = guard.neovim({A: KEPT}, answers={"refresh_buffer": STILL})
    assert guard.run(recorded("claude", "FileChanged")) == {}
    assert neovim.notices == ["a.py changed on disk; your text was not touched"]


def test_after_a_command_the_agent_gets_an_earlier_notice(guard: Guard) -> None:
    """The event of a watched file may arrive before the event at the end of the command."""
    noticed = STILL["kept"][0] | {"notified": True}
    neovim = guard.neovim({A: KEPT}, answers={"refresh_buffer": STILL | {"kept": [noticed]}})
    added = context(guard.run(recorded("claude", "PostToolUse", "Bash")))
    assert added.startswith("/ws/a.py has changed on disk, but has unsaved changes in Neovim, which were not touched.")
    assert neovim.notices == []


def test_a_vs_code_with_two_folders_is_reported_once(guard: Guard) -> None:
    path = guard.socket("vscode-")
    other = path.with_name("f" * 64 + path.name[64:])
    both = [
        guard.enter_context(editors.Editor(socket, {A: KEPT}, pid=5, answers={"refresh_buffer": STILL}))
        for socket in (path, other)
    ]
    assert context(guard.run(edited())).count("unsaved changes in VS Code") == 1
    assert len(both[0].notices + both[1].notices) == 1


def test_a_file_that_cannot_be_shown_is_reported_to_the_user(guard: Guard) -> None:
    kept = {"name": A, "lines": 3, "reason": "it is larger than 16 MB"}
    neovim = guard.neovim({A: {}}, answers={"refresh_buffer": STILL | {"kept": [kept]}})
    assert guard.run(edited()) == {}
    assert neovim.notices == ["Claude Code changed a.py on disk, but it can't be reloaded: it is larger than 16 MB"]
    assert guard.log == ["claude: PostToolUse: /ws/a.py changed on disk, not shown: it is larger than 16 MB"]


@pytest.mark.parametrize("nonsense", [None, 17, [], {}, {"kept": 17}, {"kept": [17, {}, {"name": 17}, None]}])
def test_invalid_answers_after_an_edit_are_ignored(guard: Guard, nonsense: Any) -> None:
    guard.neovim({A: {}}, answers={"refresh_buffer": nonsense, "diagnostics": nonsense})
    assert guard.run(edited()) == {}
    assert guard.log == []


# Diagnostics.

ERROR = {"line": 3, "severity": "error", "message": "no\n  such  name", "source": "pyright", "code": "x"}


def test_new_diagnostics_after_an_edit_are_reported(guard: Guard) -> None:
    neovim = guard.neovim({A: {}}, answers={"diagnostics": {"new": [ERROR, ERROR], "pending": True}})
    guard.run(edit())
    assert context(guard.run(edited())) == (
        "New diagnostics since this edit:\n/ws/a.py:3: error: no such name [pyright]"
    )
    assert neovim.params_of("snapshot")[0]["remember"] is True


def test_the_guard_waits_for_a_language_server(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(after, "DIAGNOSTICS_SECONDS", 3)
    asked = []

    def soon(_params: dict[str, Any]) -> dict[str, Any]:
        asked.append(1)
        return {"new": [ERROR] if len(asked) == 3 else [], "pending": len(asked) < 3}

    guard.neovim({A: {}}, answers={"diagnostics": soon})
    assert "no such name" in context(guard.run(edited()))
    assert len(asked) == 3


def test_the_wait_for_a_language_server_is_limited(guard: Guard) -> None:
    neovim = guard.neovim({A: {}}, answers={"diagnostics": {"new": [], "pending": True}})
    assert guard.run(edited()) == {}
    assert 2 <= neovim.methods.count("diagnostics") <= 14


def test_diagnostics_are_sent_only_after_edits_and_if_enabled(guard: Guard) -> None:
    neovim = guard.neovim({A: {}}, answers={"diagnostics": {"new": [ERROR], "pending": False}})
    assert guard.run(recorded("claude", "PostToolUse", "Bash")) == {}
    assert guard.run(edited(), diagnostics=False) == {}
    guard.run(edit(), diagnostics=False)
    assert "diagnostics" not in neovim.methods
    assert neovim.params_of("snapshot")[0]["remember"] is False


def test_an_agent_connected_to_the_editor_gets_no_diagnostics(guard: Guard) -> None:
    connected = {"editor": "Neovim 0.12.4", "pid": 1, "files": [], "connected": [os.getppid(), "x", None]}
    answers = {"diagnostics": {"new": [ERROR], "pending": False}}
    guard.neovim({A: {}}, answers=answers | {"snapshot": connected})
    assert guard.run(edited()) == {}


def test_a_long_list_of_diagnostics_is_truncated(guard: Guard) -> None:
    many = [ERROR | {"line": line, "message": "x" * 5_000} for line in range(100)]
    guard.neovim({A: {}}, answers={"diagnostics": {"new": many, "pending": False}})
    added = context(guard.run(edited()))
    assert added.endswith("\nand 60 more")
    assert max(map(len, added.splitlines())) < 600


# Merging.


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("one\ntwo\nthree\nfour\nfive\n")
    return tmp_path


class Merging:
    """A buffer with unsaved changes to project/a.py, in an editor that can merge."""

    def __init__(self, project: Path, text: str, *, refuses: str = "", typed: str = "") -> None:
        self.file = project / "a.py"
        self.text = text
        self.version = 7
        self.refuses = refuses
        self.typed = typed
        self.edits: list[dict[str, Any]] = []
        self.answers = {
            "buffer_text": lambda _: {"text": self.text, "version": self.version},
            "merge_buffer": self.merge,
            "refresh_buffer": {"success": True, "reloaded": [], "kept": [{"name": str(self.file), "lines": 5}]},
        }

    def merge(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.typed:
            self.text, self.typed, self.version = self.typed, "", self.version + 1
        if self.refuses or params["version"] != self.version:
            return {"merged": False, "reason": self.refuses or "the unsaved text has changed in the meantime"}
        lines = self.text.splitlines()
        for change in reversed(params["edits"]):
            lines[change["start"] : change["end"]] = change["lines"]
        self.text = "".join(f"{line}\n" for line in lines)
        return {"merged": True}


def bases() -> list[Path]:
    return list(Path(os.environ["XDG_STATE_HOME"], "drawbridge", "guard", "bases").glob("*"))


def call_and_write(guard: Guard, file: Path, written: str, **settings: Any) -> dict[str, Any]:
    """Acts as an agent: calls the hook, writes, and calls the hook again. Returns the answer to the last call."""
    assert guard.run(edit(str(file)), answer="merge", **settings) == {}
    [base] = bases()
    assert base.stat().st_mode & 0o777 == 0o600
    assert base.read_bytes() == file.read_bytes()
    file.write_text(written)
    answer = guard.run(edited(str(file)), answer="merge", **settings)
    assert bases() == []
    return answer


def test_a_change_is_merged_into_the_unsaved_text(guard: Guard, project: Path) -> None:
    buffer = Merging(project, "one\ntwo\nthree\nfour\nFIVE\nsix\n")
    neovim = guard.neovim({str(buffer.file): {"modified": True}}, answers=buffer.answers)
    added = context(call_and_write(guard, buffer.file, "ONE\ntwo\nthree\nfour\nfive\n"))
    assert buffer.text == "ONE\ntwo\nthree\nfour\nFIVE\nsix\n"
    assert "This change was merged into them in the editor; the user has not saved yet." in added
    assert neovim.notices == ["Claude Code's change to a.py was merged into yours: u undoes it"]


def test_a_merge_conflict_leaves_the_unsaved_text_untouched(guard: Guard, project: Path) -> None:
    """Both changed the same line. The agent and the user are notified."""
    buffer = Merging(project, "one\nmine\nthree\nfour\nfive\n")
    neovim = guard.neovim({str(buffer.file): KEPT}, answers=buffer.answers)
    added = context(call_and_write(guard, buffer.file, "one\ntheirs\nthree\nfour\nfive\n"))
    assert buffer.text == "one\nmine\nthree\nfour\nfive\n"
    assert "were not touched. The change could not be merged: the user and the agent both changed line 2." in added
    assert neovim.notices == ["Claude Code's change to a.py can't be merged; your text was not touched"]


def test_text_typed_during_a_merge_is_kept(guard: Guard, project: Path) -> None:
    buffer = Merging(project, "one\ntwo\nthree\nfour\nfive5\n", typed="one\ntwo\nthree\nfour\nfive56\n")
    guard.neovim({str(buffer.file): KEPT}, answers=buffer.answers)
    added = context(call_and_write(guard, buffer.file, "ONE\ntwo\nthree\nfour\nfive\n"))
    assert buffer.text == "ONE\ntwo\nthree\nfour\nfive56\n"
    assert "was merged" in added


def test_a_refused_merge_is_reported_with_the_reason(guard: Guard, project: Path) -> None:
    buffer = Merging(
        project, "one\ntwo\nthree\nfour\nfive5\n", refuses="a plugin, not Neovim, reads or writes the file"
    )
    guard.neovim({str(buffer.file): KEPT}, answers=buffer.answers)
    added = context(call_and_write(guard, buffer.file, "ONE\ntwo\nthree\nfour\nfive\n"))
    assert "The change could not be merged: a plugin, not Neovim, reads or writes the file." in added


def test_a_change_is_merged_in_every_editor_with_the_file_open(guard: Guard, project: Path) -> None:
    buffers = [Merging(project, f"one\ntwo\nthree\nfour\nfive{number}\n") for number in (1, 2)]
    for pid, buffer in enumerate(buffers, 1):
        guard.neovim({str(buffer.file): KEPT}, answers=buffer.answers, pid=pid)
    call_and_write(guard, buffers[0].file, "ONE\ntwo\nthree\nfour\nfive\n")
    assert [buffer.text for buffer in buffers] == [f"ONE\ntwo\nthree\nfour\nfive{number}\n" for number in (1, 2)]


@pytest.mark.parametrize(
    "content",
    [None, b"", b"x" * (4 * 1024 * 1024 + 1), b"caf\xe9\n"],
    ids=["missing", "empty", "too large", "another encoding"],
)
def test_an_edit_that_cannot_be_merged_later_is_denied(guard: Guard, project: Path, content: bytes | None) -> None:
    file = project / "a.py"
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    guard.neovim({str(file): KEPT}, answers={"buffer_text": {"text": "mine\n", "version": 1}})
    assert "The change can't be merged automatically." in guard.denial(edit(str(file)), answer="merge")
    assert bases() == []


def test_an_edit_of_a_file_not_open_as_text_is_denied(guard: Guard, project: Path) -> None:
    """For example, a notebook in VS Code."""
    vscode = guard.vscode({str(project / "a.py"): KEPT}, answers={"buffer_text": {"text": None}})
    assert "The change can't be merged automatically." in guard.denial(edit(str(project / "a.py")), answer="merge")
    assert len(vscode.notices) == 1


def test_an_unmergeable_edit_of_a_file_not_in_front_passes(guard: Guard, project: Path) -> None:
    file = project / "a.py"
    file.write_bytes(b"")
    guard.neovim({str(file): {"modified": True}})
    assert guard.run(edit(str(file)), answer="merge") == {}
    assert "The change can't be merged automatically." in guard.denial(edit(str(file)), answer="merge", policy="any")


def test_without_the_previous_text_nothing_is_merged(guard: Guard, project: Path) -> None:
    """For example, the hook was not called before the edit."""
    buffer = Merging(project, "mine\n")
    guard.neovim({str(buffer.file): KEPT}, answers=buffer.answers)
    added = context(guard.run(edited(str(buffer.file)), answer="merge"))
    assert "The change could not be merged: the file's text before the edit is not known." in added
    assert buffer.text == "mine\n"


def test_each_call_has_its_own_base(guard: Guard, project: Path) -> None:
    buffer = Merging(project, "mine\n")
    guard.neovim({str(buffer.file): KEPT}, answers=buffer.answers)
    assert guard.run(edit(str(buffer.file)), answer="merge") == {}
    assert guard.run(edit(str(buffer.file)) | {"session_id": "another"}, answer="merge") == {}
    assert guard.run(edit(str(buffer.file)) | {"tool_use_id": "another"}, answer="merge") == {}
    assert len(bases()) == 3


def test_the_base_of_an_unfinished_call_is_deleted_after_a_day(guard: Guard, project: Path) -> None:
    buffer = Merging(project, "mine\n")
    guard.neovim({str(buffer.file): KEPT}, answers=buffer.answers)
    guard.run(edit(str(buffer.file)), answer="merge")
    [old] = bases()
    os.utime(old, (0, 0))
    guard.run(edit(str(buffer.file)) | {"session_id": "another"}, answer="merge")
    assert old not in bases()
    assert len(bases()) == 1


def test_answer_merge_still_asks_about_a_command(guard: Guard) -> None:
    guard.neovim({A: KEPT})
    asked = guard.run(bash("rm a.py"), answer="merge")
    assert asked["hookSpecificOutput"]["permissionDecision"] == "ask"


def test_directories_above_the_copies_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = Path(state.directory({b"HOME": os.fsencode(tmp_path)}, "guard", "copies"))
        assert os.umask(0) == 0, "the umask has changed"
    finally:
        os.umask(before)
    while made != tmp_path:
        assert made.stat().st_mode & 0o777 == 0o700, made
        made = made.parent
