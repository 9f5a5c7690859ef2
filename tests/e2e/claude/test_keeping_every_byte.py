"""The file on disk is what was accepted, byte for byte, and unsaved work is never lost."""

from __future__ import annotations

import pytest

from tests.rigs.claude_rig import EDIT_DIALOG, NO
from tests.rigs.messages_stub import edit, read, text

from .workstation import Workstation

POEM = "one\ntwo\nthree\n"


@pytest.mark.slow_for("crlf", "no-final-newline", "not-ascii")
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(b"one\r\ntwo\r\nthree\r\n", b"one\r\nTWO\r\nthree\r\n", id="crlf"),
        pytest.param(
            b"\xef\xbb\xbfone\r\ntwo\r\nthree", b"\xef\xbb\xbfone\r\nTWO\r\nthree", id="crlf-bom-no-final-newline"
        ),
        pytest.param(b"one\ntwo\nthree", b"one\nTWO\nthree", id="no-final-newline"),
        pytest.param("ä\ttwo\n😀 e\u0301\n".encode(), "ä\tTWO\n😀 e\u0301\n".encode(), id="not-ascii"),
    ],
)
def test_line_endings_bom_and_final_newline_are_kept(rig: Workstation, before: bytes, after: bytes) -> None:
    poem = rig.file("poem.txt", before)
    neovim = rig.neovim(poem)
    claude = rig.claude()
    rig.model.will_say(read(poem), edit(poem, "two", "TWO"), text("It is done."))
    claude.prompt("Shout the second line.")
    neovim.wait_for_proposal()
    neovim.command("w")

    claude.pane.wait_for("It is done")
    assert poem.read_bytes() == after
    assert "user modified" not in rig.model.requests[-1].new_text
    neovim.wait_until_closed()
    assert not neovim.modified(poem)


@pytest.mark.slow_for("crlf")
@pytest.mark.thorough
@pytest.mark.parametrize("eol", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_unsaved_work_is_part_of_what_is_accepted(rig: Workstation, eol: str) -> None:
    poem = rig.file("poem.txt", POEM.replace("\n", eol))
    neovim = rig.neovim(poem)
    neovim.command("1s/one/eins/")
    claude = rig.claude()
    rig.model.will_say(read(poem), edit(poem, "three", "THREE"), text("It is done."))
    claude.prompt("Shout the third line.")
    neovim.wait_for_proposal()
    neovim.pane.wait_for("eins", "THREE")
    assert poem.read_bytes() == POEM.replace("\n", eol).encode()

    neovim.command("w")

    claude.pane.wait_for("It is done")
    assert poem.read_bytes() == f"eins{eol}two{eol}THREE{eol}".encode()
    neovim.wait_for_buffer(poem, ["eins", "two", "THREE"])


@pytest.mark.thorough
def test_a_proposal_for_unsaved_lines_is_left_to_the_cli(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    neovim.command("2s/two/zwei/")
    before = neovim.layout
    claude = rig.claude()
    rig.model.will_say(read(poem), edit(poem, "two", "TWO"), text("It is done."))

    claude.prompt("Shout the second line.")

    claude.pane.wait_for(EDIT_DIALOG)
    neovim.pane.wait_for("No diff: Claude Code's change to poem.txt")
    assert neovim.layout == before
    assert neovim.buffer(poem) == ["one", "zwei", "three"]
    claude.answer_dialog(EDIT_DIALOG, NO)
    claude.pane.wait_for("Rejected update to poem.txt")
    assert poem.read_text() == POEM
