"""Gemini proposes a change, the user decides in Neovim, and the CLI does exactly that. All programs are real."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests import programs
from tests.rigs.gemini_rig import EDIT_DIALOG
from tests.rigs.gemini_stub import replace, text, write_file

from .workstation import Workstation

POEM = "one\ntwo\nthree\n"


@pytest.mark.slow
def test_w_accepts_the_proposal_unchanged(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    gemini = rig.gemini(recorded_as=("accept", "A replace, accepted as it is with :w in Neovim."))
    before = neovim.layout
    rig.model.will_say(replace(poem, "two", "TWO"), text("It is done."))
    gemini.prompt("Shout the second line.")
    neovim.wait_for_proposal()
    neovim.pane.wait_for("two", "TWO")
    assert poem.read_text() == POEM, "nothing is written before the user has decided"

    neovim.command("w")

    gemini.pane.wait_for("It is done")
    assert poem.read_bytes() == b"one\nTWO\nthree\n"
    [result] = rig.model.requests[-1].tool_results
    assert "Successfully modified file" in result
    neovim.wait_until_closed()
    neovim.wait_for_buffer(poem, ["one", "TWO", "three"])
    assert neovim.layout == before


def test_an_edited_line_is_written_and_reported_to_the_model(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    gemini = rig.gemini(recorded_as=("accept-edited", "A replace, accepted with :w after the person changed a line."))
    rig.model.will_say(replace(poem, "two", "TWO"), text("It is done."))
    gemini.prompt("Shout the second line.")
    neovim.wait_for_proposal()

    neovim.command("2s/TWO/zwei/")
    neovim.pane.wait_for("zwei")
    neovim.command("w")

    gemini.pane.wait_for("It is done")
    assert poem.read_bytes() == b"one\nzwei\nthree\n"
    [result] = rig.model.requests[-1].tool_results
    assert "confirmation step modified the `new_string` content to be: one\nzwei\nthree\n" in result
    neovim.wait_for_buffer(poem, ["one", "zwei", "three"])


@pytest.mark.slow_for("q-close")
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "name"), [("DrawbridgeReject", "reject"), pytest.param("q", "close", marks=pytest.mark.thorough)]
)
def test_a_refused_proposal_is_not_written(rig: Workstation, words: str, name: str) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    gemini = rig.gemini(recorded_as=(name, f"A replace, rejected with :{words} in Neovim."))
    before = neovim.layout
    rig.model.will_say(replace(poem, "two", "TWO"), text("I leave it."))
    gemini.prompt("Shout the second line.")
    neovim.wait_for_proposal()
    gemini.pane.wait_for(EDIT_DIALOG)

    neovim.command(words)

    gemini.pane.wait_for("Request cancelled")
    assert poem.read_text() == POEM
    neovim.wait_until_closed()
    assert neovim.layout == before
    assert neovim.buffer(poem) == ["one", "two", "three"]
    gemini.prompt("Go on then.")
    gemini.pane.wait_for("I leave it")
    assert len(rig.model.requests) == 2, "the rejection alone sends no request to the model"


@pytest.mark.slow
def test_a_new_file_is_shown_and_written(rig: Workstation) -> None:
    song = rig.project / "song.txt"
    neovim = rig.neovim(rig.file("poem.txt", POEM))
    gemini = rig.gemini(recorded_as=("new-file", "A write_file of a file that did not exist, accepted with :w."))
    rig.model.will_say(write_file(song, "la\nla la\n"), text("It is sung."))
    gemini.prompt("Write a song.")
    neovim.wait_for_proposal()
    neovim.pane.wait_for("la la")
    assert not song.exists()

    neovim.command("w")

    gemini.pane.wait_for("It is sung")
    assert song.read_bytes() == b"la\nla la\n"


@pytest.mark.slow
def test_two_changes_in_one_answer_are_proposed_in_turn(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    gemini = rig.gemini(
        recorded_as=("two-changes", "Two replaces in one answer: the first accepted, the second rejected.")
    )
    rig.model.will_say([replace(poem, "one", "ONE"), replace(poem, "three", "THREE")], text("One of two."))
    gemini.prompt("Shout the outer lines.")

    neovim.wait_for_proposal(1)
    neovim.command("w")
    neovim.wait_for_proposal(2)
    neovim.pane.wait_for("THREE")
    assert poem.read_text() == "ONE\ntwo\nthree\n", "the first one is written before the second one is shown"
    neovim.command("DrawbridgeReject")

    gemini.pane.wait_for("One of two")
    neovim.wait_until_closed(2)
    assert poem.read_text() == "ONE\ntwo\nthree\n"
    first, second = rig.model.requests[-1].tool_results
    assert "Successfully modified file" in first
    assert "User denied execution" in second


@pytest.mark.slow
def test_an_emptied_proposal_is_rejected_and_the_user_notified(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    gemini = rig.gemini()
    rig.model.will_say(replace(poem, "two", "TWO"), text("It is done."))
    gemini.prompt("Shout the second line.")
    neovim.wait_for_proposal()

    neovim.command("%d")
    neovim.wait_for("return vim.fn.wordcount().chars == 0", what="did not empty the proposal")
    neovim.command("w")

    gemini.pane.wait_for("Request cancelled")
    neovim.pane.wait_for("Gemini CLI can't write an empty file")
    assert poem.read_text() == POEM
    assert neovim.buffer(poem) == ["one", "two", "three"]


@pytest.mark.thorough
def test_a_change_to_unsaved_lines_is_decided_in_the_cli(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    neovim.command("2s/two/deux/")
    neovim.pane.wait_for("deux")
    gemini = rig.gemini()
    rig.model.will_say(replace(poem, "two", "TWO"), text("It is done."))
    gemini.prompt("Shout the second line.")

    gemini.pane.wait_for(EDIT_DIALOG)
    neovim.pane.wait_for(r"No diff: Gemini CLI's change to poem\.txt")
    assert poem.read_text() == POEM
    gemini.pane.press("1")

    gemini.pane.wait_for("It is done")
    assert poem.read_text() == "one\nTWO\nthree\n"
    assert neovim.buffer(poem) == ["one", "deux", "three"], "what the user has typed stays"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(b"one\r\ntwo\r\nthree\r\n", b"one\r\nTWO\r\nthree\r\n", id="crlf"),
        pytest.param("ä\ttwo\n😀 e\u0301".encode(), "ä\tTWO\n😀 e\u0301".encode(), id="not-ascii-no-final-newline"),
    ],
)
def test_line_endings_and_a_missing_final_newline_are_kept(rig: Workstation, before: bytes, after: bytes) -> None:
    poem = rig.file("poem.txt", before)
    neovim = rig.neovim(poem)
    gemini = rig.gemini()
    rig.model.will_say(replace(poem, "two", "TWO"), text("It is done."))
    gemini.prompt("Shout the second line.")
    neovim.wait_for_proposal()
    neovim.command("w")

    gemini.pane.wait_for("It is done")
    assert poem.read_bytes() == after
    neovim.wait_until_closed()
    assert not neovim.modified(poem)


def nvim_of_another_user(home: Path) -> Path:
    """Creates a script that starts Neovim as user 1000, to whom the test's files appear to belong. Its umask and the
    mode of ``home`` let the group write. Returns the script's path.
    """
    user = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    if subprocess.run([*user, "true"], capture_output=True, check=False).returncode:
        programs.missing("this machine allows no user namespaces")
    program = home / "nvim-of-somebody"
    program.write_text(f'#!/bin/sh\numask 002\nexec {" ".join(user)} {programs.nvim()} "$@"\n')
    program.chmod(0o755)
    home.chmod(0o775)
    return program


@pytest.mark.slow_for("n-root", "n-somebody", "y-root")
@pytest.mark.thorough
@pytest.mark.parametrize("user", ["root", "somebody"])
@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_first_start_in_neovim_asks_once_and_connects(rig: Workstation, answer: str, user: str) -> None:
    """A Yes to Gemini CLI's own question about connecting would fail, because it looks for an installer that does not
    exist for Neovim."""
    home = Path(os.environ["HOME"])
    settings = home / ".gemini" / "settings.json"
    first = json.loads(settings.read_text())
    del first["ide"]
    settings.write_text(json.dumps(first))
    poem = rig.file("poem.txt", POEM)
    program = nvim_of_another_user(home) if user == "somebody" else None
    neovim = rig.neovim(poem, options=f"{{ gemini = {{ command = '{programs.gemini()}' }} }}", program=program)

    neovim.pane.type(":DrawbridgeGemini")
    neovim.pane.press("Enter")
    neovim.pane.wait_for("Let Gemini CLI connect to this Neovim")
    neovim.pane.type(answer)

    if answer == "y":
        neovim.wait_for_agents(timeout=120)
        neovim.pane.wait_until_gone("Do you want to connect")
        neovim.pane.wait_for("Type your message")
        assert json.loads(settings.read_text())["ide"]["enabled"] is True
    else:
        neovim.pane.wait_for("Do you want to connect")
        assert "ide" not in json.loads(settings.read_text()), "the user's own settings are left alone"
    assert "Security Warning" not in neovim.pane.screen
