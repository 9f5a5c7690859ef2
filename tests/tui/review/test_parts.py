"""The lines and texts that show a review, and what the terminal client remembers about it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult

from drawbridge.core.terminal_text import harmless
from drawbridge.server.reviews.change_set import Version, changed
from drawbridge.server.reviews.messages import reply
from drawbridge.server.reviews.open_review import OpenReview
from drawbridge.text import review_words
from drawbridge.tui.colors import DARK
from drawbridge.tui.drawing import Painter
from drawbridge.tui.review import parts as review_parts
from drawbridge.tui.review.parts import Part
from drawbridge.tui.review.reviews import Reviews
from drawbridge.tui.review.view import ReviewView
from drawbridge.tui.store import Projects
from drawbridge.tui.wording import listed_state
from tests.tui.rig import shown
from tests.tui.test_hostile_words import EVIL
from tests.waiting import until


def hunk(**fields: Any) -> dict[str, Any]:
    return {"id": "h", "kind": "lines", "old_start": 5, "new_start": 5, "removed": "a\n", "added": "b\n", **fields}


def file(*hunks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    known = {"path": "src/a.py", "change": "changed", "old_mode": "100644", "new_mode": "100644"}
    return {**known, "added": 1, "removed": 1, "hunks": list(hunks), **fields}


def as_sent(old: str | None, new: str | None) -> dict[str, Any]:
    """A file with these texts as the server sends it in a review. None means that the file does not exist."""
    before, after = (None if text is None else Version("100644", str(hash(text)), text) for text in (old, new))
    data, _ = reply("project", OpenReview((changed("a.py", before, after),)))
    [found] = msgspec.to_builtins(data)["files"]
    return dict(found)


TEXTS = st.lists(st.sampled_from(["a", "b", "c", "\tdef", ""]), max_size=12)


@given(TEXTS, TEXTS, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_each_line_has_the_number_that_it_has_in_its_file(
    old: list[str], new: list[str], end: str, old_ends: bool, new_ends: bool
) -> None:
    texts = [end.join(lines) + (end if ends and lines else "") for lines, ends in ((old, old_ends), (new, new_ends))]
    if texts[0] == texts[1]:
        return
    found = as_sent(*texts)
    sides = [review_words.lines_of(text) for text in texts]
    around = review_parts.contexts(texts[1], found)
    for one in found["hunks"]:
        assert one["id"] in around
        lines = review_parts.hunk_lines(one, found, around[one["id"]])
        for line in lines.lines:
            number = line.number + lines.above[line.kind != "removed"] - 1
            assert sides[line.kind != "removed"][number].removesuffix("\r") == line.text.removesuffix("\r")
        count = sum(line.kind != "context" for line in lines.lines)
        assert count == sum(len(review_words.lines_of(one[side])) for side in ("removed", "added"))


@given(TEXTS, TEXTS, st.sampled_from(["\n", "\r\n"]))
def test_an_edit_that_changes_nothing_sends_the_same_lines(old: list[str], new: list[str], end: str) -> None:
    texts = ["".join(line + end for line in lines) for lines in (old, new)]
    if texts[0] != texts[1]:
        for one in as_sent(*texts)["hunks"]:
            if review_parts.field_text(one):
                assert review_parts.edited_text(one, review_parts.field_text(one)) == one["added"]


def test_lines_of_another_file_are_not_shown_around_a_hunk() -> None:
    text = "".join(f"line {number}\n" for number in range(1, 11))
    found = as_sent(text, text.replace("line 5", "LINE 5"))
    assert review_parts.contexts(text, found) == {}
    assert review_parts.contexts("", found) == {}


def test_a_line_end_is_shown_only_if_it_changes() -> None:
    plain = review_parts.hunk_lines(hunk(removed="a\r\n", added="b\r\n"), file())
    assert [line.text for line in plain.lines] == ["a", "b"]
    mixed = review_parts.hunk_lines(hunk(removed="a\r\n", added="a\n"), file())
    assert [line.text for line in mixed.lines] == ["a\r", "a"]
    assert review_parts.hunk_lines(hunk(removed="a\n", added="b"), file()).end == "No newline at end of file."
    assert review_parts.hunk_lines(hunk(removed="a", added="b\n"), file()).end == "Newline added at end of file."


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({}, "Line 5"),
        ({"added": "b\nc\n"}, "Lines 5–6"),
        ({"added": "", "removed": "a\nb\nc\n"}, "Lines 5–7 (removed)"),
        ({"kind": "file"}, "Whole file"),
        ({"kind": "mode"}, "File mode"),
    ],
)
def test_a_hunk_is_named_by_its_position(fields: dict[str, Any], title: str) -> None:
    assert review_words.title(hunk(**fields)) == title


WHOLE = hunk(kind="file", removed="")


@pytest.mark.parametrize(
    ("fields", "part", "words"),
    [
        ({}, hunk(), ""),
        ({}, None, "The changes to this file are too large to show here."),
        ({"new_mode": "100755"}, hunk(kind="mode"), "The file was made executable."),
        ({"old_mode": "100755"}, hunk(kind="mode"), "The file is no longer executable."),
        (
            {"new_mode": "120000"},
            hunk(kind="mode"),
            "The file was a regular file and is now a symbolic link.",
        ),
        ({"change": "added", "old_mode": None}, WHOLE, "This is a new file."),
        ({"change": "added", "old_mode": None}, {**WHOLE, "added": ""}, "This is a new file. It is empty."),
        ({"change": "deleted", "new_mode": None}, WHOLE, "This file was deleted."),
        ({"change": "deleted", "new_mode": None}, {**WHOLE, "added": ""}, "This file was deleted. It was empty."),
        (
            {"change": "added", "new_mode": "100755", "binary": True},
            WHOLE,
            "This is a new executable file. Its content is not shown: it is not UTF-8 text, or it is too large to compare.",
        ),
        (
            {"binary": True},
            WHOLE,
            "The content of this file was changed. "
            "Its content is not shown: it is not UTF-8 text, or it is too large to compare.",
        ),
        (
            {"binary": True, "new_mode": "100755"},
            WHOLE,
            "The content of this file was changed, and the file is now executable. "
            "Its content is not shown: it is not UTF-8 text, or it is too large to compare.",
        ),
        (
            {"binary": True, "new_mode": "120000"},
            WHOLE,
            "The file was a regular file and is now a symbolic link. Its content is not shown.",
        ),
    ],
)
def test_changes_that_lines_do_not_show_are_described(fields: dict[str, Any], part: Any, words: str) -> None:
    assert review_words.words(file(**fields), part) == words


def test_who_was_first_is_reported() -> None:
    def words(code: str, is_hunk: bool = True, by: str = "", **details: Any) -> str:
        return review_words.refused_words(code, details, "The server's words.", by, is_hunk=is_hunk)

    assert words("HUNK_GONE", by="Bob", decision="edit").startswith("Bob already edited this change.")
    assert words("HUNK_GONE", gone="h").startswith("This change no longer needs a decision")
    assert words("HUNK_GONE", gone="h", path="src/a.py", line=12) == "src/a.py changed at line 12 since you looked."
    assert words("HUNK_GONE", is_hunk=False).startswith("The review has changed since you saw it, so")
    assert words("HUNK_GONE", is_hunk=False, paths=["a.py", "b.py"], files=3).endswith(
        " Read what is new in a.py and 2 other files, then decide again."
    )
    assert words("REVIEW_CLASH", paths=["a.py", "b.py"]) == (
        "This conflicts with the current state of a.py, b.py. Nothing was changed."
    )
    assert words("PROCESS_ACTIVE") == "The server's words."


def test_an_unknown_interrupted_decision_is_described() -> None:
    decided = {"decision": "undo", "files": 1, "hunks": 2, "result": "unknown"}
    assert review_words.interrupted_words(decided) == (
        "wanted to undo 2 changes in 1 file, but the server was restarted in the meantime, and it is not known what was "
        "changed. Check the files."
    )
    assert review_words.interrupted_words(decided | {"changed": ["a.py"]}).endswith(
        "in the meantime, and a.py changed. Check the review."
    )


def test_deciding_on_all_reports_how_many_were_not_shown() -> None:
    assert review_words.question("keep", 3, 0, "a.py") == ("Keep 3 changes in a.py?", "")
    assert review_words.question("undo", 3, 1, "2 files") == (
        "Undo 3 changes in 2 files?",
        "You have not fully seen 1 of them. Other changes to the same files are not affected.",
    )
    assert review_words.question("keep", 3, 3, "a.py")[1] == "You have not fully seen any of them."
    assert review_words.question("keep", 1, 1, "a.py") == ("Keep 1 change in a.py?", "You have not seen all of it.")


def test_changes_that_are_not_shown_prevent_deciding_on_all() -> None:
    part = Part("h", file(hunk()), hunk())
    assert review_parts.why_not_all([part], 0, ()) == ""
    assert "not shown here" in review_parts.why_not_all([part], 1, ())
    assert "not shown here" in review_parts.why_not_all([Part("f", file(too_large=True))], 0, ())
    assert "your edit" in review_parts.why_not_all([part], 0, {"h"})
    assert review_parts.why_not_all([part], 0, {"h"}, "the whole file").endswith("to decide on the whole file.")


def test_the_next_change_becomes_current_when_one_is_removed() -> None:
    assert review_parts.follow(["a", "b", "c"], ["a", "b", "c"], "b") == "b"
    assert review_parts.follow(["a", "b", "c"], ["a", "c"], "b") == "c"
    assert review_parts.follow(["a", "b", "c"], ["a"], "b") == "a"
    assert review_parts.follow([], ["a"], None) == "a"
    assert review_parts.follow(["a"], [], "a") is None


def test_only_lines_and_new_texts_can_be_edited() -> None:
    assert review_parts.may_edit(Part("h", file(hunk()), hunk()))
    assert review_parts.may_edit(Part("h", file(change="added"), WHOLE))
    assert not review_parts.may_edit(Part("h", file(change="deleted"), WHOLE))
    assert not review_parts.may_edit(Part("h", file(change="added", binary=True), WHOLE))
    assert not review_parts.may_edit(Part("h", file(), hunk(kind="mode")))
    assert not review_parts.may_edit(Part("h", file()))
    assert not review_parts.may_edit(Part("h", file(), hunk(), "my text"))


def test_the_counts_of_a_review_come_from_the_last_message() -> None:
    reviews = Reviews()
    assert reviews.expect("p")
    assert not reviews.expect("p")
    assert reviews.open("p") is None
    sent = {"state": "open", "version": "v", "files": [file(hunk())], "more": 2}
    reviews.apply({"type": "review", "project_id": "p", "data": sent})
    found = reviews.open("p")
    assert found is not None
    assert found.words == "3 files +1 −1"
    decided = {"state": "decided", "files": 0, "hunks": 0, "added": 0, "removed": 0}
    message = {"type": "update", "project_id": "p", "data": {"update_type": "review_changed", "data": decided}}
    reviews.apply(message)
    assert reviews.open("p") is None
    assert reviews.changes("p") == [decided]
    assert reviews.changes("p") == []
    reviews.begin()
    assert reviews.expect("p"), "what happened before a new connection was not reported"


def shows(app: App[None], words: str) -> bool:
    return any(line.rstrip().endswith(words) for line in shown(app))


class Watched(ReviewView):
    recorded_at: int | None = None
    """The scroll position at which lines were last recorded; None before that. Tests wait for it before they scroll on:
    a page that is scrolled past immediately is never drawn."""

    def record_visible(self) -> None:
        super().record_visible()
        if not self.app.animator.is_being_animated(self, "scroll_y"):
            self.recorded_at = self.scroll_offset.y


class Alone(App[None]):
    """A screen that contains only the changes of a review."""

    def compose(self) -> ComposeResult:
        yield Watched(Painter(DARK))


@pytest.mark.parametrize("width", [100, 40, 16])
async def test_nothing_in_a_review_controls_the_terminal(width: int) -> None:
    evil = EVIL.replace("\n", " ")
    lines = hunk(removed=f"{evil}\n\t{evil}\n", added=f"{evil}{evil}")
    files = [
        file(lines, path=evil),
        file({**lines, "id": "w", "kind": "file"}, path=f"{evil}/{evil}", change="added", old_mode=evil, new_mode=evil),
        file(path=f"x{evil}", too_large=True),
    ]
    app = Alone()
    async with app.run_test(size=(width, 12)) as pilot:
        view = app.query_one(ReviewView)
        view.show([*review_parts.parts(files), Part("gone", file(path=evil), None, evil)], evil)
        view.put_texts({evil: f"{evil}\n" * 9})
        await pilot.pause()
        text = view.text().splitlines()
        assert [line for line in [*text, *shown(app)] if harmless(line) != line] == []
        assert "\\x1b" in "".join(line.strip() for line in text)


@pytest.mark.parametrize("animate", [False, True])
async def test_a_jump_over_lines_does_not_show_them(animate: bool) -> None:
    """Lines that an animation scrolls past do not count as seen, either."""
    long = hunk(kind="file", removed="", added="".join(f"line {number}\n" for number in range(100)))
    app = Alone()
    async with app.run_test(size=(60, 20)) as pilot:
        view = app.query_one(Watched)
        view.show(review_parts.parts([file(long, change="added")]))
        await pilot.pause()
        view.scroll_end(animate=animate)
        await until(lambda: shows(app, "line 99"))
        await until(lambda: view.recorded_at == view.max_scroll_y, "a record after the animation")
        assert view.is_in_view
        assert not view.is_seen("h")
        while (place := view.scroll_offset.y) > 0:
            view.scroll_page_up(animate=False)
            await until(lambda place=place: view.recorded_at == view.scroll_offset.y < place)  # type: ignore[misc]
        await until(lambda: view.is_seen("h"), "all of it, in any order")
        await pilot.resize_terminal(30, 10)
        await until(lambda: view.size.width <= 30)
        await pilot.pause()
        assert view.is_seen("h"), "what was seen stays seen at another width"


async def test_a_change_that_is_scrolled_away_is_not_the_current_one() -> None:
    hunks = [hunk(id=str(number), old_start=number * 9, new_start=number * 9) for number in range(1, 30)]
    app = Alone()
    async with app.run_test(size=(60, 10)) as pilot:
        view = app.query_one(ReviewView)
        view.show(review_parts.parts([file(*hunks)]))
        await pilot.pause()
        assert view.current == "1"
        view.scroll_end(animate=False)
        await until(lambda: view.is_in_view and int(view.current or 0) > 20, "another current change")


async def test_a_change_that_is_made_again_has_not_been_seen() -> None:
    """The agent undoes a change on which the user has begun a comment, and makes it again."""
    long = hunk(kind="file", removed="", added="".join(f"line {number}\n" for number in range(100)))
    files = [file(long, change="added")]
    app = Alone()
    async with app.run_test(size=(60, 20)) as pilot:
        view = app.query_one(ReviewView)
        view.show(review_parts.parts(files))
        await pilot.pause()
        assert not view.is_seen("h")
        view.show([Part("h", file(), None, "")])
        await until(lambda: view.is_seen("h"), "the line that remains")
        view.show(review_parts.parts(files))
        await until(lambda: shows(app, "line 9"), "the lines of the change")
        assert not view.is_seen("h")


def test_a_list_shows_how_much_there_is_to_review() -> None:
    projects = Projects()
    idle = {"id": "p", "state": "IDLE", "approvals": [], "last_seq": 1}
    projects.apply({"type": "project_list", "data": {"projects": [{**idle, "review": {"files": 7}}]}})

    def words(**fields: Any) -> str:
        return listed_state({**projects.all["p"], **fields})

    assert words() == "7 files to review"
    assert words(state="EXECUTING") == "Working"
    assert words(approvals=[{}]) == "Needs you"
    assert words(desk={"state": "finished"}) == "7 files to review"
    assert words(desk={"state": "ended"}) == "7 files to review"
    assert words(desk={"state": "ended", "continued_in": "b"}) == "Continued in the background"
    assert words(desk={"state": "ended"}, review={"files": 0}) == "Ended"
    assert words(scheduled_until="2040-03-04T12:30:00Z").endswith(" on 4 Mar")
    assert words(scheduled_until="2040-03-04T12:30:00Z", state="EXECUTING") == "Working"
    changed = {"update_type": "review_changed", "data": {"files": 1}}
    projects.apply({"type": "update", "project_id": "p", "data": changed})
    assert words() == "1 file to review"
    projects.apply({"type": "review", "project_id": "p", "data": {"files": [], "more": 0}})
    assert words() == "Ready"
