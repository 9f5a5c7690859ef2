"""The life of a proposal: shown, decided once or withdrawn, and then written by the agent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from drawbridge.core.errors import EditorHung, Refused, UnusableFile
from drawbridge.editors.files import FILE_LIMIT
from drawbridge.editors.port import Accepted, Decided, Decision, Proposal, Rejected, Withdrawn
from drawbridge.ide import review
from drawbridge.ide.draft import CHANGED_NOTE
from drawbridge.ide.review import IN_ITS_DIALOG, OPEN_LIMIT, Reviews
from drawbridge.text import BOM
from tests.editors.memory import MemoryEditor
from tests.waiting import until

TEXT = "one\ntwo\nthree\nfour\nfive\n"
PROPOSED = "one\nTWO\nthree\nfour\nfive\n"


class Watched(MemoryEditor):
    """An editor that records which writes are reported to it."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[tuple[str, str]] = []

    async def written(self, path: str, text: str, proposal_id: str) -> None:
        self.writes.append((text, proposal_id))
        await super().written(path, text, proposal_id)


@pytest.fixture
async def editor() -> AsyncIterator[Watched]:
    editor = Watched()
    yield editor
    await editor.close()


@pytest.fixture
async def reviews(editor: Watched) -> AsyncIterator[Reviews]:
    reviews = Reviews(editor)
    await editor.start(lambda event: reviews.decided(event) if isinstance(event, Decided) else None)
    yield reviews
    await reviews.stop()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "größe #1.txt"
    path.write_text(TEXT)
    return path


def propose(
    reviews: Reviews, path: Path, text: str = PROPOSED, *, title: str = "tab", owner: str = "claude"
) -> asyncio.Task[Decision]:
    return asyncio.create_task(reviews.review(owner, "Claude Code", str(path), text, title))


async def shown(editor: MemoryEditor, number: int = 1) -> Proposal:
    """Waits until ``number`` proposals are shown, and returns the newest."""
    await until(lambda: len(editor.shown) == number, f"{number} shown, {len(editor.shown)} are")
    return list(editor.shown.values())[-1]


async def test_the_editor_shows_the_change_and_its_agent(editor: Watched, reviews: Reviews, file: Path) -> None:
    task = propose(reviews, file)
    proposal = await shown(editor)
    assert (proposal.agent, proposal.title, proposal.path) == ("Claude Code", "tab", str(file))
    assert (proposal.old_text, proposal.new_text) == (TEXT, PROPOSED)
    [hunk] = proposal.hunks
    assert (hunk.old_start, hunk.old_count, hunk.new_start, hunk.new_count) == (1, 1, 1, 1)
    assert proposal.note is None
    assert not task.done()
    editor.decide(proposal.id, Rejected())
    await task


@pytest.mark.parametrize("linked", ["the file", "its directory"])
async def test_a_path_through_a_link_is_shown_with_its_target(
    editor: Watched, reviews: Reviews, tmp_path: Path, linked: str
) -> None:
    elsewhere = tmp_path.resolve() / "else\nwhere"
    elsewhere.mkdir()
    (elsewhere / "bashrc").write_text(TEXT)
    if linked == "the file":
        path = tmp_path / "README.md"
        path.symlink_to(elsewhere / "bashrc")
    else:
        (tmp_path / "docs").symlink_to(elsewhere)
        path = tmp_path / "docs" / "bashrc"
    task = propose(reviews, path)
    proposal = await shown(editor)
    where = str(elsewhere / "bashrc").replace("\n", "\\x0a")
    assert proposal.note == f"The path leads through a symbolic link to {where}."
    editor.decide(proposal.id, Rejected())
    await task


async def test_a_link_is_reported_together_with_a_change_of_its_file(
    editor: Watched, reviews: Reviews, file: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(file)
    editor.open(str(link))
    editor.type(str(link), TEXT.replace("five", "unsaved"))
    task = propose(reviews, link)
    note = (await shown(editor)).note or ""
    assert note.startswith(f"The path leads through a symbolic link to {file.resolve()}. ")
    assert "unsaved changes" in note
    editor.decide("1", Rejected())
    await task


async def test_the_note_about_a_link_with_a_long_target_is_short(
    editor: Watched, reviews: Reviews, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to("/".join([*["d" * 200] * 4, "end"]))
    task = propose(reviews, tmp_path / "link")
    note = (await shown(editor)).note or ""
    assert len(note) < 400
    assert "…" in note
    assert note.endswith("d/end.")
    editor.decide("1", Rejected())
    await task


@pytest.mark.parametrize("decision", [Accepted(PROPOSED), Accepted("one\nmine\n"), Accepted(""), Rejected()])
async def test_the_decision_reaches_the_agent_as_it_was_made(
    editor: Watched, reviews: Reviews, file: Path, decision: Accepted | Rejected
) -> None:
    task = propose(reviews, file)
    editor.decide((await shown(editor)).id, decision)
    assert await task == decision
    assert file.read_text() == TEXT, "the agent writes the file, not the bridge"


async def test_a_second_decision_is_refused(editor: Watched, reviews: Reviews, file: Path) -> None:
    task = propose(reviews, file)
    proposal = await shown(editor)
    editor.decide(proposal.id, Rejected())
    reviews.decided(Decided(proposal.id, Accepted(PROPOSED)))
    assert await task == Rejected()
    reviews.decided(Decided(proposal.id, Accepted(PROPOSED)))
    reviews.decided(Decided("no such id", Rejected()))


async def test_a_new_file_is_compared_with_an_empty_text(editor: Watched, reviews: Reviews, tmp_path: Path) -> None:
    task = propose(reviews, tmp_path / "new" / "file.txt", "hello\n")
    proposal = await shown(editor)
    assert (proposal.old_text, proposal.new_text) == ("", "hello\n")
    editor.decide(proposal.id, Accepted("hello\n"))
    assert await task == Accepted("hello\n")
    assert not (tmp_path / "new").exists()


# withdrawn


async def test_close_removes_the_view_and_answers_the_call(editor: Watched, reviews: Reviews, file: Path) -> None:
    task = propose(reviews, file)
    proposal = await shown(editor)
    reviews.withdraw("claude", "tab", IN_ITS_DIALOG)
    assert isinstance(await task, Withdrawn)
    await until(lambda: not editor.shown)
    reviews.decided(Decided(proposal.id, Accepted(PROPOSED)))


async def test_close_only_finds_the_agents_own_proposals_by_name(editor: Watched, reviews: Reviews, file: Path) -> None:
    task = propose(reviews, file)
    await shown(editor)
    reviews.withdraw("claude", "another tab", IN_ITS_DIALOG)
    reviews.withdraw("another claude", "tab", IN_ITS_DIALOG)
    reviews.withdraw("claude", str(file), IN_ITS_DIALOG)
    assert reviews.withdraw_all("another claude") == 0
    assert not task.done()
    assert len(editor.shown) == 1
    reviews.withdraw("claude", "tab", IN_ITS_DIALOG)
    await task


async def test_close_right_after_the_proposal_withdraws_it(editor: Watched, reviews: Reviews, file: Path) -> None:
    """The user said yes in the terminal while the file was still being read."""
    task = propose(reviews, file)
    await asyncio.sleep(0)
    reviews.withdraw("claude", "tab", IN_ITS_DIALOG)
    assert isinstance(await task, Withdrawn)
    assert editor.shown == {}


async def test_close_all_closes_only_this_agents_proposals(editor: Watched, reviews: Reviews, file: Path) -> None:
    mine = [propose(reviews, file.with_name(f"{number}.txt"), title=f"tab {number}") for number in range(3)]
    theirs = propose(reviews, file, owner="another claude")
    await shown(editor, 4)
    assert reviews.withdraw_all("claude") == 3
    assert all(isinstance(decision, Withdrawn) for decision in await asyncio.gather(*mine))
    await shown(editor, 1)
    assert reviews.withdraw_all("claude") == 0
    assert not theirs.done()
    assert reviews.withdraw_all("another claude") == 1
    await theirs


async def test_a_second_proposal_of_the_same_name_replaces_the_first(
    editor: Watched, reviews: Reviews, file: Path
) -> None:
    first = propose(reviews, file, "first\n")
    old = await shown(editor)
    second = propose(reviews, file, "second\n")
    assert isinstance(await first, Withdrawn)
    await until(lambda: [each.new_text for each in editor.shown.values()] == ["second\n"])
    reviews.decided(Decided(old.id, Accepted("first\n")))
    assert not second.done()
    editor.decide((await shown(editor)).id, Accepted("second\n"))
    assert await second == Accepted("second\n")


async def test_withdrawing_leaves_the_proposal_that_replaced_it(editor: Watched, reviews: Reviews, file: Path) -> None:
    proposed_text = editor.proposed_text

    async def proposed_slowly(proposal_id: str) -> str | None:
        text = await proposed_text(proposal_id)
        await asyncio.sleep(0.01)
        return text

    editor.proposed_text = proposed_slowly  # type: ignore[method-assign]
    first = propose(reviews, file, "first\n")
    await shown(editor)
    taking = asyncio.create_task(reviews.withdraw_with_text("claude", "tab"))
    await asyncio.sleep(0)
    second = propose(reviews, file, "second\n")
    await first
    await taking
    await until(lambda: [each.new_text for each in editor.shown.values()] == ["second\n"])
    assert not second.done()
    assert await reviews.withdraw_with_text("claude", "tab") == "second\n"
    await second


async def test_the_later_of_two_quick_proposals_stays(
    editor: Watched, reviews: Reviews, file: Path, tmp_path: Path
) -> None:
    """This is true even if the file of the earlier proposal takes longer to read."""
    (tmp_path / "large.txt").write_text("x\n" * 2_000_000)
    first = propose(reviews, tmp_path / "large.txt", "first\n")
    await asyncio.sleep(0)
    second = propose(reviews, file, "second\n")
    assert isinstance(await first, Withdrawn)
    assert (await shown(editor)).new_text == "second\n"
    assert not second.done()
    reviews.withdraw("claude", "tab", IN_ITS_DIALOG)
    await second


async def test_proposals_of_two_agents_may_have_the_same_name(editor: Watched, reviews: Reviews, file: Path) -> None:
    tasks = [propose(reviews, file.with_name(owner), owner=owner) for owner in ("one", "two")]
    await shown(editor, 2)
    reviews.withdraw("one", "tab", IN_ITS_DIALOG)
    await tasks[0]
    assert not tasks[1].done()
    reviews.withdraw("two", "tab", IN_ITS_DIALOG)
    await tasks[1]


async def test_proposals_of_two_agents_for_one_file_are_shown_in_turn(
    editor: Watched, reviews: Reviews, file: Path
) -> None:
    first = propose(reviews, file, owner="claude")
    proposal = await shown(editor)
    second = propose(reviews, file, TEXT.replace("five", "FIVE"), owner="gemini")
    await until(lambda: len(reviews._turns[str(file)]._waiters or ()) == 1)
    third = propose(reviews, file, TEXT.replace("two", "zwei"), owner="another claude")
    await until(lambda: len(reviews._turns[str(file)]._waiters or ()) == 2)
    editor.decide(proposal.id, Accepted(PROPOSED))
    assert await first == Accepted(PROPOSED)
    assert not editor.shown, "not before the first one is written"
    file.write_text(PROPOSED)
    proposal = await shown(editor)
    assert (proposal.old_text, proposal.new_text) == (PROPOSED, PROPOSED.replace("five", "FIVE"))
    assert proposal.note == CHANGED_NOTE
    assert not third.done()
    editor.decide(proposal.id, Rejected())
    assert await second == Rejected()
    with pytest.raises(Refused, match="a change that was made to the file in the meantime"):
        await third


async def test_a_proposal_that_waits_for_its_turn_can_be_withdrawn(
    editor: Watched, reviews: Reviews, file: Path
) -> None:
    first = propose(reviews, file, owner="claude")
    proposal = await shown(editor)
    waiting, going = (propose(reviews, file, owner=owner) for owner in ("gemini", "another claude"))
    await until(lambda: len(reviews._open) == 3)
    reviews.withdraw("gemini", "tab", IN_ITS_DIALOG)
    assert isinstance(await waiting, Withdrawn)
    going.cancel()
    await asyncio.wait([going])
    editor.decide(proposal.id, Rejected())
    assert await first == Rejected()
    last = propose(reviews, file)
    editor.decide((await shown(editor)).id, Accepted(PROPOSED))
    assert await last == Accepted(PROPOSED)


async def test_an_unwritten_proposal_delays_the_next_one_only_briefly(
    editor: Watched, reviews: Reviews, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(review, "WRITE_SECONDS", 0.05)
    first = propose(reviews, file, owner="claude")
    editor.decide((await shown(editor)).id, Accepted(PROPOSED))
    await first
    second = propose(reviews, file, owner="gemini")
    assert (await shown(editor)).old_text == TEXT
    reviews.withdraw("gemini", "tab", IN_ITS_DIALOG)
    await second


@pytest.mark.parametrize("turns", range(6))
async def test_a_canceled_proposal_closes_its_view_at_any_moment(
    editor: Watched, reviews: Reviews, file: Path, turns: int
) -> None:
    """A proposal from another agent stays open."""
    task = propose(reviews, file)
    staying = propose(reviews, file, owner="staying")
    for _ in range(turns):
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await shown(editor)).id
    await until(lambda: not reviews._tasks._tasks)
    assert len(editor.shown) == 1
    assert not staying.done()
    assert reviews.withdraw_all("claude") == 0
    reviews.withdraw("staying", "tab", IN_ITS_DIALOG)
    await staying


@pytest.mark.parametrize("moment", ["at once", "later"])
@pytest.mark.parametrize("where", ["in the editor", "elsewhere"])
async def test_a_decision_after_the_agent_left_has_no_effect(
    editor: Watched, reviews: Reviews, file: Path, moment: str, where: str
) -> None:
    """Nobody is notified that it counts, nothing waits for the agent's write, and the next proposal is shown."""
    task = propose(reviews, file)
    proposal = await shown(editor)
    task.cancel()
    if moment == "later":
        with pytest.raises(asyncio.CancelledError):
            await task
    if where == "elsewhere":
        assert not reviews.answer(proposal.id, "phone", Accepted(PROPOSED))
    else:
        reviews.decided(Decided(proposal.id, Accepted(PROPOSED)))
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not reviews._tasks._tasks)
    assert editor.shown == {}
    assert file.read_text() == TEXT
    following = propose(reviews, file, "one\n")
    assert (await shown(editor)).new_text == "one\n"
    assert not following.done()
    editor.decide((await shown(editor)).id, Rejected())
    assert await following == Rejected()


async def test_an_agent_can_open_only_so_many_proposals(editor: Watched, reviews: Reviews, file: Path) -> None:
    tasks = [propose(reviews, file.with_name(str(number)), title=str(number)) for number in range(OPEN_LIMIT)]
    with pytest.raises(Refused, match="are already open"):
        await propose(reviews, file, title="one more")
    other = propose(reviews, file, owner="another claude")
    await shown(editor, OPEN_LIMIT + 1)
    replaced = propose(reviews, file, title="0")
    assert isinstance(await tasks[0], Withdrawn)
    reviews.withdraw_all("claude")
    reviews.withdraw_all("another claude")
    await asyncio.gather(*tasks, replaced, other)


# what can't be shown


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a\0b", "NUL"),
        ("half \ud83c", "not valid Unicode"),
        ("x" * (FILE_LIMIT + 1), "16,777,217 bytes"),
        ("é" * (FILE_LIMIT // 2 + 1), "16,777,218 bytes"),
    ],
)
async def test_a_text_that_a_file_cannot_contain_is_refused(
    editor: Watched, reviews: Reviews, file: Path, text: str, why: str
) -> None:
    with pytest.raises(UnusableFile, match=why):
        await propose(reviews, file, text)
    assert editor.shown == {}


async def test_a_file_that_is_not_text_is_refused(editor: Watched, reviews: Reviews, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\x7fELF\0")
    (tmp_path / "latin").write_bytes(b"gr\xf6\xdfe\n")
    with (tmp_path / "large").open("wb") as large:
        large.truncate(FILE_LIMIT + 1)
    for name, why in [("binary", "binary"), ("latin", "not UTF-8"), ("large", "bytes"), (".", "a directory")]:
        with pytest.raises(UnusableFile, match=why):
            await propose(reviews, tmp_path / name)
    assert editor.shown == {}
    assert reviews.withdraw_all("claude") == 0


async def test_a_hung_editor_causes_an_error_and_can_recover(editor: Watched, reviews: Reviews, file: Path) -> None:
    editor.hung = True
    with pytest.raises(EditorHung):
        await propose(reviews, file)
    editor.hung = False
    task = propose(reviews, file)
    editor.decide((await shown(editor)).id, Rejected())
    assert await task == Rejected()


async def test_a_view_that_opens_after_the_timeout_is_closed(editor: Watched, reviews: Reviews, file: Path) -> None:
    """The editor shows the proposal, but does not answer in time."""
    show = editor.show

    async def show_and_hang(proposal: Proposal) -> None:
        await show(proposal)
        raise EditorHung("no answer")

    editor.show = show_and_hang  # type: ignore[method-assign]
    with pytest.raises(EditorHung):
        await propose(reviews, file)
    await until(lambda: not editor.shown)


async def test_a_decision_counts_even_before_the_show_call_ends(editor: Watched, reviews: Reviews, file: Path) -> None:
    show = editor.show

    async def show_slowly(proposal: Proposal) -> None:
        await show(proposal)
        editor.decide(proposal.id, Accepted("quick\n"))
        await asyncio.sleep(0.01)

    editor.show = show_slowly  # type: ignore[method-assign]
    assert await propose(reviews, file) == Accepted("quick\n")


# unsaved work


async def test_unsaved_work_in_other_lines_is_kept_with_a_note(editor: Watched, reviews: Reviews, file: Path) -> None:
    editor.open(str(file))
    editor.type(str(file), TEXT.replace("five", "FIVE, unsaved"))
    task = propose(reviews, file)
    proposal = await shown(editor)
    assert proposal.old_text == "one\ntwo\nthree\nfour\nFIVE, unsaved\n"
    assert proposal.new_text == "one\nTWO\nthree\nfour\nFIVE, unsaved\n"
    assert len(proposal.hunks) == 1
    assert proposal.note is not None
    assert "unsaved" in proposal.note
    editor.decide(proposal.id, Accepted(proposal.new_text))
    assert await task == Accepted(proposal.new_text)


async def test_unsaved_work_on_the_same_line_is_never_overwritten(
    editor: Watched, reviews: Reviews, file: Path
) -> None:
    editor.open(str(file))
    editor.type(str(file), TEXT.replace("two", "zwei, unsaved"))
    with pytest.raises(Refused, match=r"unsaved changes in the editor \(line 2 of the saved file\)"):
        await propose(reviews, file)
    assert editor.shown == {}
    assert editor.buffers[str(file)].text == TEXT.replace("two", "zwei, unsaved")
    assert file.read_text() == TEXT


async def test_the_same_change_on_both_sides_is_not_a_conflict(editor: Watched, reviews: Reviews, file: Path) -> None:
    editor.open(str(file))
    editor.type(str(file), PROPOSED)
    task = propose(reviews, file)
    proposal = await shown(editor)
    assert (proposal.old_text, proposal.new_text, proposal.hunks) == (PROPOSED, PROPOSED, ())
    editor.decide(proposal.id, Rejected())
    await task


@pytest.mark.parametrize(
    ("disk", "unsaved", "proposed", "merged"),
    [
        ("a\r\nb\r\nc\r\n", "a\r\nb\r\nC\r\n", "A\r\nb\r\nc\r\n", "A\r\nb\r\nC\r\n"),
        ("a\nb\nc", "a\nb\nC", "A\nb\nc", "A\nb\nC"),
        (BOM + "a\nb\nc\n", BOM + "a\nb\nC\n", BOM + "A\nb\nc\n", BOM + "A\nb\nC\n"),
        ("a\nb\nc\n", "a\r\nb\r\nc\r\n", "A\nb\nc\n", "A\r\nb\r\nc\r\n"),  # the user changed the line endings
        ("a\nb\nc\n", "a\nb\nC\n", "A\r\nb\r\nc\r\n", "A\r\nb\r\nC\r\n"),  # the agent changed them
    ],
)
async def test_a_merge_keeps_line_endings_bom_and_final_newline(
    editor: Watched, reviews: Reviews, file: Path, disk: str, unsaved: str, proposed: str, merged: str
) -> None:
    file.write_bytes(disk.encode())
    editor.open(str(file))
    editor.type(str(file), unsaved)
    task = propose(reviews, file, proposed)
    assert (await shown(editor)).new_text == merged
    reviews.withdraw("claude", "tab", IN_ITS_DIALOG)
    await task


# what the agent writes


async def test_the_editor_shows_the_accepted_text_once_it_is_written(
    editor: Watched, reviews: Reviews, file: Path
) -> None:
    editor.open(str(file))
    task = propose(reviews, file)
    proposal = await shown(editor)
    editor.decide(proposal.id, Accepted("mine\n"))
    await task
    assert editor.writes == []
    file.write_text("mine\n")
    await until(lambda: editor.writes == [("mine\n", proposal.id)])
    assert editor.buffers[str(file)].text == "mine\n"


async def test_a_partly_written_file_is_not_reported_as_the_result(
    editor: Watched, reviews: Reviews, file: Path
) -> None:
    text = "€uro\n" * 1_000
    task = propose(reviews, file, text)
    proposal = await shown(editor)
    editor.decide(proposal.id, Accepted(text))
    await task
    data = text.encode()
    with file.open("wb", buffering=0) as slow:
        for at in range(0, len(data), 701):  # some cuts go through the middle of a character
            slow.write(data[at : at + 701])
            await asyncio.sleep(0.02)
    await until(lambda: editor.writes)
    assert editor.writes == [(text, proposal.id)]


async def test_the_editor_shows_what_the_agent_wrote_instead(editor: Watched, reviews: Reviews, file: Path) -> None:
    """The agent has written a text that differs from the one that the user accepted."""
    editor.open(str(file))
    task = propose(reviews, file)
    editor.decide((await shown(editor)).id, Accepted(PROPOSED))
    await task
    file.write_text("something else\n")
    await until(lambda: editor.writes == [("something else\n", "")])
    assert editor.buffers[str(file)].text == "something else\n"


async def test_a_change_accepted_in_the_terminal_is_shown(editor: Watched, reviews: Reviews, file: Path) -> None:
    editor.open(str(file))
    task = propose(reviews, file)
    await shown(editor)
    reviews.withdraw("claude", "tab", IN_ITS_DIALOG)
    await task
    file.write_text(PROPOSED)
    await until(lambda: editor.buffers[str(file)].text == PROPOSED)


async def test_after_a_rejection_the_file_is_not_watched(editor: Watched, reviews: Reviews, file: Path) -> None:
    task = propose(reviews, file)
    editor.decide((await shown(editor)).id, Rejected())
    await task
    assert not reviews._tasks._tasks


async def test_the_wait_for_an_agent_that_never_writes_is_limited(
    editor: Watched, reviews: Reviews, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(review, "FOLLOW_SECONDS", 0.05)
    task = propose(reviews, file)
    editor.decide((await shown(editor)).id, Accepted(PROPOSED))
    await task
    await until(lambda: not reviews._tasks._tasks)
    assert editor.writes == []


async def test_an_editor_that_exits_before_the_write_is_only_logged(
    editor: Watched, reviews: Reviews, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    task = propose(reviews, file)
    editor.decide((await shown(editor)).id, Accepted(PROPOSED))
    await task
    editor.leave()
    with caplog.at_level(logging.WARNING):
        file.write_text(PROPOSED)
        await until(lambda: not reviews._tasks._tasks)
    assert "The editor is gone" in caplog.text


# code


async def test_code_is_shown_as_code_and_can_be_edited(editor: Watched, reviews: Reviews) -> None:
    task = asyncio.create_task(reviews.review_code("claude", "Claude Code", "print(1)\n"))
    proposal = await shown(editor)
    assert (proposal.kind, proposal.path, proposal.old_text, proposal.new_text) == ("code", "", "", "print(1)\n")
    editor.decide(proposal.id, Accepted("print(2)\n"))
    assert await task == Accepted("print(2)\n")
    assert not reviews._tasks._tasks


async def test_code_that_is_rejected_or_withdrawn_is_not_allowed(editor: Watched, reviews: Reviews) -> None:
    task = asyncio.create_task(reviews.review_code("claude", "Claude Code", "print(1)\n"))
    editor.decide((await shown(editor)).id, Rejected())
    assert await task is None
    task = asyncio.create_task(reviews.review_code("claude", "Claude Code", "print(1)\n"))
    await shown(editor)
    assert reviews.withdraw_all("claude") == 1
    assert await task is None


async def test_two_pieces_of_code_are_reviewed_separately(editor: Watched, reviews: Reviews) -> None:
    tasks = [asyncio.create_task(reviews.review_code("claude", "Claude Code", f"{n}\n")) for n in range(2)]
    await shown(editor, 2)
    for proposal in list(editor.shown.values()):
        editor.decide(proposal.id, Accepted(proposal.new_text))
    assert await asyncio.gather(*tasks) == [Accepted("0\n"), Accepted("1\n")]
