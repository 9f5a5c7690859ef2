"""The review of proposals that were accepted in an editor while no server has a review."""

from __future__ import annotations

import asyncio
import logging
import resource
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from drawbridge.core.tasks import BackgroundTasks
from drawbridge.editors.port import (
    Accepted,
    Decided,
    EditorEvent,
    Rejected,
    Review,
    ReviewCommented,
    ReviewDecided,
    ReviewedFile,
    ReviewOutdated,
    ReviewWanted,
)
from drawbridge.ide import accepted_review, review, server_link
from drawbridge.ide.accepted_files import AcceptedFile, after_write
from drawbridge.protocols import local_ipc as wire
from tests.waiting import PATIENCE, until

from .test_changes import FILE, ReviewRig, Served, answer

POEM = "".join(f"line {number}\n" for number in range(1, 13))
WRITTEN = POEM.replace("line 3\n", "LINE 3\n").replace("line 11\n", "line 11\nline 11b\n")
NO_SERVER = "No agent server is running. Start one with: drawbridge serve"


class AcceptedRig(ReviewRig):
    """A bridge in ``directory``, in which the file ``poem`` is open in the editor."""

    def __init__(self, memory: Path, directory: Path) -> None:
        super().__init__(memory)
        self.directory = directory
        self.poem = directory / "poem.txt"
        self.poem.write_text(POEM)
        self.editor.open(str(self.poem))

    def on_event(self, event: EditorEvent) -> None:
        if isinstance(event, Decided):
            self.reviews.decided(event)
        else:
            self.changes.on_event(event)  # type: ignore[arg-type]  # nothing else is reported here

    async def accept(self, path: Path, text: str, *, written: str | None = None) -> None:
        """Accepts a proposal, and waits until the bridge has noticed that the agent has written ``written``, by default
        the accepted text."""
        known = self.accepted.all()
        await self.decide(path, text, accept=True)
        path.write_bytes((text if written is None else written).encode())
        await until(lambda: self.accepted.all() != known, "the write")

    async def decide(self, path: Path, text: str, *, accept: bool) -> None:
        task = asyncio.create_task(self.reviews.review("claude", "Claude Code", str(path), text, "tab"))
        await until(lambda: len(self.editor.shown) == 1, "a proposal")
        [id] = self.editor.shown
        self.editor.decide(id, Accepted(text) if accept else Rejected())
        await task

    async def is_alone(self) -> None:
        """Waits until the bridge knows that the server has ended."""
        await until(lambda: not self.link._welcome.is_set(), "the end of the server")

    def want(self, *, only_new: bool = False) -> None:
        self.editor.report(ReviewWanted(str(self.directory), "", only_new))

    async def shows_texts(self, *texts: str) -> Review:
        """Waits until a review with these changes is shown, and returns it."""

        def is_shown() -> bool:
            last = self.editor.reviews[-1] if self.editor.reviews else None
            return last is not None and [hunk.text for file in last.files for hunk in file.hunks] == list(texts)

        await until(is_shown, f"{texts}")
        last = self.editor.reviews[-1]
        assert last is not None
        return last

    async def wanted(self, *texts: str) -> ReviewedFile:
        """Asks for the review, and returns its first file once these changes are shown."""
        self.want()
        return (await self.shows_texts(*texts)).files[0]

    def undo(self, file: ReviewedFile, number: int | None = None) -> None:
        """Undoes a change to the file (by its index), or all of them."""
        shown = self.editor.reviews[-1]
        assert shown is not None
        if number is None:
            self.editor.report(ReviewDecided("undo", shown.version, file=file.name))
        else:
            self.editor.report(ReviewDecided("undo", shown.version, hunk=file.hunks[number].id))


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_link, "SEARCH_SECONDS", 0.02)
    monkeypatch.setattr(review, "SETTLED_SECONDS", 0.05)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[AcceptedRig]:
    directory = tmp_path / "code"
    directory.mkdir()
    rig = AcceptedRig(tmp_path / "state" / "reviews.json", directory)
    await rig.editor.start(rig.on_event)
    tasks = BackgroundTasks(logging.getLogger("tests.link"))
    failures: list[Exception] = []
    rig.link.start(tasks, failures.append)
    yield rig
    await rig.changes.close()
    await tasks.close()
    await rig.reviews.stop()
    assert failures == []
    await rig.editor.close()


CHANGES = ("+1 −1  LINE 3", "+1 −0  line 11b")


async def test_accepted_changes_are_shown_without_a_server(rig: AcceptedRig) -> None:
    await rig.accept(rig.poem, WRITTEN)
    file = await rig.wanted(*CHANGES)
    await rig.is_notified("1 file +2 −1 to review, from proposals accepted here.")
    assert (file.path, file.shown, [hunk.row for hunk in file.hunks]) == (str(rig.poem), "poem.txt", [2, 11])


async def test_a_change_is_undone_on_disk_and_others_stay(rig: AcceptedRig) -> None:
    await rig.accept(rig.poem, WRITTEN)
    rig.poem.write_text(WRITTEN.replace("line 6\n", "mine\n"))
    rig.poem.chmod(0o754)
    file = await rig.wanted(*CHANGES)
    rig.undo(file, 0)
    await rig.is_notified("Undone: 1 change in poem.txt. 1 change left.")
    assert rig.poem.read_text() == WRITTEN.replace("LINE 3\n", "line 3\n").replace("line 6\n", "mine\n")
    assert rig.poem.stat().st_mode & 0o777 == 0o754
    file = (await rig.shows_texts(CHANGES[1])).files[0]
    rig.undo(file)
    await rig.is_notified("Undone: 1 change in poem.txt. Nothing is left to review.")
    assert rig.poem.read_text() == POEM.replace("line 6\n", "mine\n")


async def test_a_kept_change_is_not_shown_again(rig: AcceptedRig) -> None:
    await rig.accept(rig.poem, WRITTEN)
    file = await rig.wanted(*CHANGES)
    rig.editor.report(ReviewDecided("keep", "", hunk=file.hunks[0].id))
    await rig.is_notified("Kept: 1 change in poem.txt. 1 change left.")
    file = await rig.wanted(CHANGES[1])
    shown = rig.editor.reviews[-1]
    assert shown is not None
    rig.editor.report(ReviewDecided("keep", shown.version, file=file.name))
    await rig.is_notified("Nothing is left to review.")
    assert rig.poem.read_text() == WRITTEN
    rig.want()
    await rig.is_notified(NO_SERVER)


async def test_all_accepted_changes_are_kept_as_they_were_shown(rig: AcceptedRig) -> None:
    song = rig.directory / "song.txt"
    await rig.accept(rig.poem, WRITTEN)
    await rig.wanted(*CHANGES)
    shown = rig.editor.reviews[-1]
    assert shown is not None
    await rig.accept(song, "la\n")
    rig.editor.report(ReviewDecided("keep", shown.version, all=True))
    await rig.is_notified("The review has changed since you saw it")
    shown = await rig.shows_texts(*CHANGES, "+1 −0  This is a new file.")
    rig.editor.report(ReviewDecided("keep", shown.version, all=True))
    await rig.is_notified("Kept: 3 changes in 2 files. Nothing is left to review.")
    assert (rig.poem.read_text(), song.read_text()) == (WRITTEN, "la\n")
    assert rig.accepted.all() == ()


async def test_a_decision_is_not_lost_while_another_write_is_noticed(
    rig: AcceptedRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comparing the texts takes a while. Until then, the user can decide on the changes that are shown."""
    await rig.accept(rig.poem, WRITTEN)
    file = await rig.wanted(*CHANGES)
    compared, decided = threading.Event(), threading.Event()

    def slowly(known: AcceptedFile | None, path: str, before: str | None, written: str) -> AcceptedFile:
        found = after_write(known, path, before, written)
        compared.set()
        assert decided.wait(PATIENCE)
        return found

    monkeypatch.setattr(review, "after_write", slowly)
    second = WRITTEN.replace("line 6\n", "LINE 6\n")
    await rig.decide(rig.poem, second, accept=True)
    rig.poem.write_text(second)
    await until(compared.is_set, "the comparison")
    rig.editor.report(ReviewDecided("keep", "", hunk=file.hunks[0].id))
    await rig.is_notified("Kept: 1 change in poem.txt. 1 change left.")
    decided.set()
    await rig.shows_texts("+1 −1  LINE 6", CHANGES[1])


@pytest.mark.parametrize("accept", [True, False])
async def test_nothing_is_shown_without_an_accepted_write(
    rig: AcceptedRig, accept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(review, "FOLLOW_SECONDS", 0.05)
    await rig.decide(rig.poem, WRITTEN, accept=accept)
    rig.want()
    await rig.is_notified(NO_SERVER)
    assert rig.editor.reviews == [None]


async def test_what_the_agent_actually_wrote_is_shown(rig: AcceptedRig) -> None:
    """For example, a formatter has changed the file right after the agent."""
    await rig.accept(rig.poem, WRITTEN, written=WRITTEN.replace("line 11b", "Line 11b"))
    await rig.wanted(CHANGES[0], "+1 −0  Line 11b")


async def test_undoing_a_new_file_removes_it(rig: AcceptedRig) -> None:
    new = rig.directory / "new.txt"
    await rig.accept(new, "one\n")
    file = await rig.wanted("+1 −0  This is a new file.")
    rig.undo(file)
    await rig.is_notified("Undone: 1 change in new.txt. Nothing is left to review.")
    assert not new.exists()


async def test_a_decision_is_refused_if_the_lines_have_changed(rig: AcceptedRig) -> None:
    await rig.accept(rig.poem, WRITTEN)
    file = await rig.wanted(*CHANGES)
    now = WRITTEN.replace("LINE 3\n", "mine\n")
    rig.poem.write_text(now)
    rig.undo(file, 0)
    await rig.is_notified("This change no longer needs a decision: someone has decided on it, or the file has changed.")
    rig.undo((await rig.shows_texts("+1 −1  mine", CHANGES[1])).files[0], 1)
    await rig.is_notified("Undone: 1 change in poem.txt. 1 change left.")
    assert rig.poem.read_text() == now.replace("line 11b\n", "")


async def test_an_undo_sent_twice_does_not_undo_an_equal_change(rig: AcceptedRig) -> None:
    rig.poem.write_text("before\nold\nafter\n" * 3)
    now = "before\nold\nafter\n" + "before\nNEW\nafter\n" * 2
    await rig.accept(rig.poem, now)
    file = await rig.wanted("+1 −1  NEW", "+1 −1  NEW")
    rig.undo(file, 0)
    await rig.is_notified("Undone: 1 change in poem.txt. 1 change left.")
    rig.undo(file, 0)
    await rig.is_notified("This change no longer needs a decision: someone has decided on it, or the file has changed.")
    assert rig.poem.read_text() == "before\nold\nafter\n" * 2 + "before\nNEW\nafter\n"


async def test_a_decision_on_a_file_applies_only_to_the_shown_version(rig: AcceptedRig) -> None:
    await rig.accept(rig.poem, WRITTEN)
    file = await rig.wanted(*CHANGES)
    rig.poem.write_text(WRITTEN.replace("LINE 3\n", "mine\n"))
    rig.undo(file)
    await rig.is_notified("The review has changed since you saw it, so your decision was not applied.")
    assert "mine\n" in rig.poem.read_text()


async def test_a_file_that_changes_during_an_undo_is_not_overwritten(
    rig: AcceptedRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.accept(rig.poem, WRITTEN)
    file = await rig.wanted(*CHANGES)

    async def unsaved_text(path: str) -> None:
        rig.poem.write_text("theirs\n")

    monkeypatch.setattr(rig.editor, "unsaved_text", unsaved_text)
    rig.undo(file, 0)
    await rig.is_notified("This conflicts with the current state of poem.txt. Nothing was changed.")
    assert rig.poem.read_text() == "theirs\n"


async def test_a_file_that_could_not_be_written_is_unchanged(rig: AcceptedRig) -> None:
    long = "".join(f"line {number}\n" for number in range(10_000))
    rig.poem.write_text(long)
    await rig.accept(rig.poem, "new\n" + long[: len(long) // 2])
    rig.want()
    await until(lambda: rig.editor.reviews, "the review")
    shown = rig.editor.reviews[-1]
    assert shown is not None
    before, limits = rig.poem.read_text(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 5_000, limits[1]))  # like a full disk
    try:
        rig.undo(shown.files[0])
        await rig.is_notified(f"{rig.poem} can't be written: file too large.")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert rig.poem.read_text() == before


async def test_unsaved_changes_are_not_overwritten(rig: AcceptedRig) -> None:
    await rig.accept(rig.poem, WRITTEN)
    file = await rig.wanted(*CHANGES)
    rig.editor.type(str(rig.poem), "unsaved\n")
    rig.undo(file)
    await rig.is_notified("The file has unsaved changes. Save or discard them first.")
    assert rig.poem.read_text() == WRITTEN


async def test_unsaved_lines_in_a_proposal_are_not_undone(rig: AcceptedRig) -> None:
    """The proposal contains the user's unsaved line, which stays when the agent's change is undone."""
    mine = POEM.replace("line 8\n", "mine\n")
    rig.editor.type(str(rig.poem), mine)
    await rig.accept(rig.poem, mine.replace("line 3\n", "LINE 3\n"))
    rig.undo(await rig.wanted(CHANGES[0]))
    await rig.is_notified("Nothing is left to review.")
    assert rig.poem.read_text() == mine


@pytest.mark.parametrize("how", ["deleted", "renamed", "not text"])
async def test_a_deleted_file_is_not_shown(rig: AcceptedRig, how: str) -> None:
    await rig.accept(rig.poem, WRITTEN)
    if how == "not text":
        rig.poem.write_bytes(b"caf\xe9\n")
    else:
        rig.poem.rename(rig.directory / "other.txt")
        if how == "deleted":
            (rig.directory / "other.txt").unlink()
    rig.want()
    await rig.is_notified(NO_SERVER)
    rig.poem.write_text(WRITTEN)  # the file exists again, as after a checkout
    await rig.wanted(*CHANGES)


async def test_a_file_through_a_link_is_shown_once(rig: AcceptedRig) -> None:
    link = rig.directory / "link.txt"
    link.symlink_to(rig.poem)
    await rig.accept(rig.poem, WRITTEN.replace("line 11b\n", ""))
    await rig.accept(link, WRITTEN)
    file = await rig.wanted(*CHANGES)
    assert file.shown == "poem.txt"
    rig.undo(file)
    await rig.is_notified("Nothing is left to review.")
    assert link.is_symlink()
    assert rig.poem.read_text() == POEM


async def test_line_endings_are_restored(rig: AcceptedRig) -> None:
    """Claude Code proposes an edit of a CRLF file with LF, but writes CRLF."""
    before = b"one\r\ntwo\r\n"
    crlf = rig.directory / "crlf.txt"
    crlf.write_bytes(before)
    await rig.accept(crlf, "one\nTWO\n", written="one\r\nTWO\r\n")
    rig.undo(await rig.wanted("+1 −1  TWO"))
    await rig.is_notified("Nothing is left to review.")
    assert crlf.read_bytes() == before


async def test_large_changes_are_decided_by_file(rig: AcceptedRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepted_review, "MOST_CHARACTERS", 10)
    await rig.accept(rig.poem, WRITTEN)
    file = await rig.wanted()
    assert file.text == "The changes to this file are too large to show here."
    rig.undo(file)
    await rig.is_notified("Undone: 1 change in poem.txt. Nothing is left to review.")
    assert rig.poem.read_text() == POEM


async def test_the_review_follows_saved_edits_and_proposals(rig: AcceptedRig) -> None:
    await rig.accept(rig.poem, WRITTEN)
    await rig.wanted(*CHANGES)
    rig.poem.write_text(WRITTEN.replace("LINE 3\n", "mine\n"))
    rig.editor.report(ReviewOutdated())
    await rig.shows_texts("+1 −1  mine", CHANGES[1])
    await rig.accept(rig.directory / "new.txt", "one\n")
    await rig.shows_texts("+1 −1  mine", CHANGES[1], "+1 −0  This is a new file.")


async def test_comments_and_visits_need_a_server(rig: AcceptedRig) -> None:
    await rig.accept(rig.poem, WRITTEN)
    rig.want(only_new=True)
    await rig.is_notified("To show only new changes, start the agent server: drawbridge serve")
    await rig.shows_texts(*CHANGES)
    rig.editor.report(ReviewCommented("poem.txt", 3, 3, "LINE 3\n", "Why?"))
    await rig.is_notified("Can't comment: no server is running. Run: drawbridge serve")
    assert len(rig.editor.reviews) == 1


async def test_a_servers_review_takes_precedence(rig: AcceptedRig) -> None:
    await rig.accept(rig.poem, WRITTEN)
    server = Served()
    server.answers = [answer(FILE)]
    async with server.listening():
        rig.want()
        await rig.shows("h1")
        assert len(rig.editor.reviews) == 1
    await rig.is_alone()
    rig.want()
    await rig.shows_texts(*CHANGES)
    other = Served()
    other.answers = [answer(FILE)]
    async with other.listening():
        await rig.shows("h1")


async def test_a_server_without_a_session_in_the_folder_is_ignored(rig: AcceptedRig) -> None:
    await rig.accept(rig.poem, WRITTEN)
    server = Served()
    server.answers = [wire.ReviewAnswer(id="", code="PROJECT_NOT_FOUND", text="No agent has worked here.")]
    async with server.listening():
        await rig.wanted(*CHANGES)
        rig.editor.report(ReviewCommented("poem.txt", 3, 3, "LINE 3\n", "Why?"))
        await rig.is_notified("Can't comment: the server has no session here.")
        server.answers = [wire.ReviewAnswer(id="", code="CHECKPOINT_FAILED", text="git failed.")]
        rig.want()
        await rig.is_notified("git failed.")
        assert rig.editor.reviews[-1] is None


async def test_changes_decided_with_a_server_are_not_shown_again(rig: AcceptedRig) -> None:
    await rig.accept(rig.poem, WRITTEN)
    served = answer(FILE | {"path": "poem.txt"})
    server = Served()
    server.answers = [
        wire.ReviewAnswer(id="", project="p1", directory=str(rig.directory), review=one.review)
        for one in (served, answer(version="v2"))
    ]
    async with server.listening():
        rig.want()
        await rig.shows("h1")
        rig.editor.report(ReviewDecided("keep", "v1", hunk="h1"))
        await rig.is_notified("Nothing is left to review.")
    await rig.is_alone()
    rig.want()
    await rig.is_notified(NO_SERVER)
