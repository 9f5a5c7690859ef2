"""What an editor shows of a review, and what the user learns about their decisions."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from drawbridge.core.errors import Refused
from drawbridge.core.review_memory import ReviewMemory
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.editors.port import (
    Review,
    ReviewCommented,
    ReviewCommentRemoved,
    ReviewCommentResolved,
    ReviewDecided,
    ReviewOutdated,
    ReviewSeen,
    ReviewSubmitted,
    ReviewWanted,
)
from drawbridge.ide import server_link
from drawbridge.ide.changes import Changes, read
from drawbridge.ide.review import Reviews
from drawbridge.ide.server_link import ServerLink
from drawbridge.protocols import local_ipc as wire
from tests.editors.memory import MemoryEditor
from tests.waiting import until

from .test_server_link import ABOUT, Server

HUNK: dict[str, Any] = {
    "id": "h1", "kind": "lines", "old_start": 2, "new_start": 2, "removed": "two\n", "added": "TWO\n", "answers": []
}  # fmt: skip
FILE: dict[str, Any] = {
    "path": "a.py", "change": "changed", "old_mode": "100644", "new_mode": "100644", "added": 1, "removed": 1,
    "hunks": [HUNK],
}  # fmt: skip


def answer(
    *files: dict[str, Any],
    id: str = "",
    version: str = "v1",
    more: int = 0,
    comments: Sequence[dict[str, Any]] = (),
    repository: str = "project",
    missing: str = "",
) -> wire.ReviewAnswer:
    review = {"version": version, "files": files, "more": more, "comments": comments, "drafts": "d1"}
    review |= {"repository": repository, "missing": missing}
    return wire.ReviewAnswer(id=id, project="p1", directory="/ws", review=Raw(msgspec.json.encode(review)))


def test_a_removal_is_shown_at_the_next_line() -> None:
    """A hunk with added lines is shown at the first of them."""
    removed = HUNK | {"id": "h2", "old_start": 5, "new_start": 4, "removed": "five\n", "added": ""}
    review, _ = read(answer(FILE | {"hunks": [HUNK, removed]}))
    [file] = review.files
    assert (file.path, file.name) == ("/ws/a.py", "a.py")
    assert [(hunk.row, hunk.text) for hunk in file.hunks] == [(1, "+1 −1  TWO"), (4, "+0 −1  five")]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"hunks": [], "too_large": True}, "The changes to this file are too large to show here."),
        ({"hunks": [], "change": "deleted"}, "deleted  The changes to this file are too large to show here."),
    ],
)
def test_a_file_without_hunks_has_a_description(more: dict[str, Any], text: str) -> None:
    review, _ = read(answer(FILE | more))
    assert review.files[0].text == text


@pytest.mark.parametrize("modes", [("120000", "120000"), ("100644", "120000"), (None, "160000")])
def test_links_and_submodules_have_no_lines_to_show(modes: tuple[str | None, str]) -> None:
    review, _ = read(answer(FILE | {"old_mode": modes[0], "new_mode": modes[1]}))
    assert not review.files[0].has_lines


def test_control_characters_in_names_and_lines_are_not_shown() -> None:
    review, _ = read(answer(FILE | {"path": "a\x1b.py", "hunks": [HUNK | {"added": "\x1b[31m\u202ered\n"}]}))
    [file] = review.files
    assert (file.path, file.name) == ("/ws/a\x1b.py", "a\x1b.py")
    assert not set("\x1b\u202e").intersection(file.shown + file.hunks[0].text)


def test_a_missing_final_newline_is_reported() -> None:
    review, _ = read(answer(FILE | {"hunks": [HUNK | {"added": "two"}]}))
    assert review.files[0].hunks[0].words == "No newline at end of file."


def test_files_that_did_not_fit_are_counted() -> None:
    assert read(answer(FILE))[1] == ""
    assert read(answer(FILE, more=1))[1] == "1 more file will be shown after these."


def test_changes_that_may_be_missing_are_pointed_out() -> None:
    given = answer(FILE, more=1, missing="Changes may be missing: it was\x1b late.")
    assert read(given)[1] == "1 more file will be shown after these. Changes may be missing: it was\\x1b late."


def comment(**fields: Any) -> dict[str, Any]:
    found = {"comment_id": "c1", "by": "phone", "path": "a.py", "side": "new", "line": 2, "end_line": 3, "text": "Why?"}
    return found | fields


@pytest.mark.parametrize(
    ("fields", "text", "has_place"),
    [
        ({}, "Draft by phone: Why?", True),
        ({"text": "Why\x1b[2J\nso?", "suggestion": "x\n"}, "Draft by phone: Why\\x1b[2J so? (with a suggestion)", True),
        ({"text": "", "suggestion": ""}, "Draft by phone: (with a suggestion)", True),
        ({"state": "sent"}, "phone: Why?", True),
        ({"outdated": True}, "Draft by phone: Why?", False),
        ({"side": "old"}, "Draft by phone: Why?", False),
    ],
)
def test_a_comment_is_one_line_without_control_characters(fields: dict[str, Any], text: str, has_place: bool) -> None:
    review, _ = read(answer(FILE, comments=[comment(**fields)]))
    [shown] = review.comments
    assert (shown.path, shown.first, shown.last) == ("/ws/a.py", 1, 2)
    assert (shown.text, shown.has_place) == (text, has_place)


def test_a_change_names_the_comments_that_it_answers() -> None:
    """Even those that are resolved. A comment that no longer exists is not named."""
    answering = HUNK | {"answers": ["c1", "c2", "c3"]}
    comments = [comment(text="Why\x1b?\nso"), comment(comment_id="c2", text="And this?", state="resolved")]
    review, _ = read(answer(FILE | {"hunks": [answering]}, comments=comments))
    [hunk] = review.files[0].hunks
    assert hunk.words == "In answer to: Why\\x1b? · And this?"
    assert hunk.text == f"+1 −1  TWO  {hunk.words}"


def test_a_resolved_comment_is_shown_as_resolved() -> None:
    [shown] = read(answer(FILE, comments=[comment(state="resolved")]))[0].comments
    assert (shown.text, shown.is_resolved) == ("Resolved · phone: Why?", True)


class Served(Server):
    """A fake server with one review. It answers requests with ``answers``, one after another, and then repeats the last
    one. ``welcomes``: whether it supports reviews; ``suggests``: whether it supports suggestions and resolves comments.
    """

    welcomes = True
    suggests = True

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[wire.ReviewAnswer] = []

    def received(self, line: wire.FromPeer) -> None:
        if isinstance(line, wire.Bridge) and line.reviews and self.welcomes:
            self.sends(wire.Welcome(suggests=self.suggests))
        if isinstance(line, wire.ReviewLine) and self.answers:
            found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            self.sends(msgspec.structs.replace(found, id=line.id))


class ReviewRig:
    """An editor whose bridge is connected to a server. ``memory`` is the file that stores what the user has seen."""

    def __init__(self, memory: Path) -> None:
        self.memory = ReviewMemory(str(memory))
        self.editor = MemoryEditor()
        self.reviews = Reviews(self.editor)
        self.accepted = self.reviews.accepted
        self.link = ServerLink(
            self.reviews, lambda: msgspec.structs.replace(ABOUT, reviews=True),
            lambda _: (None, ""), self.editor.type_prompt,
            lambda message, level: self.editor.notices.append((message, level)),
        )  # fmt: skip
        self.changes = Changes(self.editor, self.link, self.memory, self.accepted)

    @property
    def title(self) -> str:
        """The title of the review that is shown, or "" if none is."""
        last = self.editor.reviews[-1] if self.editor.reviews else None
        return last.title if last is not None else ""

    async def is_notified(self, text: str) -> None:
        await until(lambda: any(text in one for one, _ in self.editor.notices), text)

    async def shows(self, *ids: str) -> Review:
        def is_shown() -> bool:
            last = self.editor.reviews[-1] if self.editor.reviews else None
            return last is not None and [hunk.id for file in last.files for hunk in file.hunks] == list(ids)

        await until(is_shown, f"{ids}")
        last = self.editor.reviews[-1]
        assert last is not None
        return last


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_link, "SEARCH_SECONDS", 0.02)


@contextlib.asynccontextmanager
async def bridge(memory: Path) -> AsyncIterator[ReviewRig]:
    rig = ReviewRig(memory)
    await rig.editor.start(rig.changes.on_event)  # type: ignore[arg-type]  # nothing else is reported here
    tasks = BackgroundTasks(logging.getLogger("tests.link"))
    failures: list[Exception] = []
    rig.link.start(tasks, failures.append)
    yield rig
    await rig.changes.close()
    await tasks.close()
    assert failures == []
    await rig.editor.close()


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ReviewRig]:
    async with bridge(tmp_path / "state" / "reviews.json") as rig:
        yield rig


WANTED = ReviewWanted("/ws", "")
ONLY_NEW = ReviewWanted("/ws", "", only_new=True)
KEEP = ReviewDecided("keep", "v1", hunk="h1")


async def test_without_a_server_the_user_sees_how_to_start_one(rig: ReviewRig) -> None:
    rig.editor.report(WANTED)
    await rig.is_notified("No agent server is running. Start one with: drawbridge serve")


async def test_an_older_server_gets_no_review_requests(rig: ReviewRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_link, "WELCOME_SECONDS", 0.1)
    server = Served()
    server.welcomes = False
    async with server.listening():
        await server.receives(wire.Bridge)
        rig.editor.report(WANTED)
        await rig.is_notified("too old for reviews in editors. Update and restart it.")
        assert server.connections == 1
        assert not any(isinstance(one, wire.ReviewRequest) for one in server.messages)


async def test_a_request_to_a_server_that_does_not_answer_ends(rig: ReviewRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_link, "REVIEW_SECONDS", 0.1)
    async with Served().listening():
        rig.editor.report(WANTED)
        await rig.is_notified("The agent server did not answer in time.")


async def test_a_request_ends_when_the_server_ends(rig: ReviewRig) -> None:
    server = Served()
    async with server.listening():
        rig.editor.report(WANTED)
        await server.receives(wire.ReviewRequest)
    await rig.is_notified("The connection to the agent server was lost.")


async def test_a_directory_without_git_is_mentioned_once(rig: ReviewRig, tmp_path: Path) -> None:
    server, notice = Served(), "Without git, reviews omit dependencies, caches and large files."
    assert len(notice) <= 66, "it fits on the last line of a narrow editor"
    server.answers = [
        answer(repository="private"),
        answer(FILE, repository="private"),
        answer(FILE, version="v2", repository="private"),
    ]
    async with server.listening():
        rig.editor.report(WANTED)
        await rig.is_notified("Nothing to review")
        rig.editor.report(WANTED)
        await rig.is_notified(notice)
        rig.editor.report(WANTED)
        await until(lambda: len(rig.editor.notices) == 4, "the third message about a review")
        assert [text for text, _ in rig.editor.notices].count(notice) == 1
        assert rig.editor.notices[-1][0] == "1 file +1 −1 to review."
    restarted = Served()
    restarted.answers = [answer(FILE, repository="private"), answer(repository="private")]
    async with restarted.listening(), bridge(tmp_path / "state" / "reviews.json") as other:
        other.editor.report(WANTED)
        await other.is_notified("1 file +1 −1 to review.")
        other.editor.report(WANTED)
        await other.is_notified("Nothing to review")
        assert notice not in [text for text, _ in other.editor.notices], "it is said once, not once for each bridge"


async def test_a_decision_is_sent_again_after_a_restart_of_the_server(rig: ReviewRig) -> None:
    killed, restarted = Served(), Served()
    killed.answers = [answer(FILE)]
    restarted.answers = [answer(version="v2")]
    async with killed.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1")
        killed.answers = []
        rig.editor.report(KEEP)
        await killed.receives(wire.ReviewDecision)
    async with restarted.listening():
        await rig.is_notified("Kept: 1 change in a.py. Nothing is left to review.")
        [first] = [one for one in killed.messages if isinstance(one, wire.ReviewDecision)]
        [again] = [one for one in restarted.messages if isinstance(one, wire.ReviewDecision)]
        assert again == first


async def test_a_decision_is_not_sent_again_later(rig: ReviewRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_link, "RESTART_SECONDS", 0.1)
    server = Served()
    server.answers = [answer(FILE)]
    async with server.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1")
        server.answers = []
        rig.editor.report(KEEP)
        await server.receives(wire.ReviewDecision)
    await rig.is_notified("The connection to the agent server was lost.")


async def test_only_changes_to_the_shown_review_are_followed(rig: ReviewRig) -> None:
    server = Served()
    server.answers = [answer(FILE), answer(version="v2")]
    async with server.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1")
        server.sends(wire.ReviewChanged("p2", "tablet"))
        server.sends(wire.ReviewChanged("p1", "phone"))
        await rig.shows()
        await rig.is_notified("phone made decisions in this review.")
        requests = [one for one in server.messages if isinstance(one, wire.ReviewRequest)]
        assert [one.project for one in requests] == ["", "p1"]


@pytest.mark.parametrize("by", ["phone", ""], ids=["a decision", "a revert"])
async def test_a_change_reloads_files_even_if_no_review_is_shown(by: str, rig: ReviewRig, tmp_path: Path) -> None:
    inside, unsaved, outside = (tmp_path / name for name in ("one/a.py", "one/b.py", "two/a.py"))
    for file in (inside, unsaved, outside):
        file.parent.mkdir(exist_ok=True)
        file.write_text("theirs\n")
        rig.editor.open(str(file))
    rig.editor.type(str(unsaved), "unsaved\n")
    server = Served()
    async with server.listening():
        await server.receives(wire.Bridge)
        for file in (inside, unsaved, outside):
            file.write_text("undone\n")
        server.sends(wire.ReviewChanged("p1", by, str(tmp_path / "one")))
        await until(lambda: rig.editor.buffers[str(inside)].text == "undone\n", "the file as it is now")
    assert rig.editor.buffers[str(unsaved)].text == "unsaved\n"
    assert rig.editor.buffers[str(outside)].text == "theirs\n"
    assert rig.editor.reviews == []


async def test_the_review_is_requested_again_from_the_next_server(rig: ReviewRig) -> None:
    server = Served()
    server.answers = [answer(FILE)]
    async with server.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1")
    other = Served()
    other.answers = [answer(FILE | {"hunks": [HUNK | {"id": "h9"}]}, version="v2")]
    async with other.listening():
        await rig.shows("h9")


async def test_an_interrupted_decision_is_shown(rig: ReviewRig) -> None:
    """After a restart of the server, the review is the same: nothing was changed."""
    notice = "phone wanted to undo 1 change in 1 file, but the server was restarted. Nothing was changed."
    server = Served()
    server.answers = [answer(FILE)]
    async with server.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1")
    other = Served()
    other.answers = [msgspec.structs.replace(answer(FILE), notice=notice)]
    async with other.listening():
        await rig.is_notified(notice)
        other.answers = [answer(version="v2")]
        other.sends(wire.ReviewChanged("p1", "tablet"))
        await rig.is_notified("tablet made decisions in this review.")
        assert [one for one, _ in rig.editor.notices].count(notice) == 1


async def test_a_late_decision_shows_who_decided_first(rig: ReviewRig) -> None:
    server = Served()
    details = Raw(b'{"gone": "h1", "by": "phone", "decision": "undo"}')
    refused = wire.ReviewAnswer(id="", code="HUNK_GONE", text="gone", details=details)
    server.answers = [answer(FILE), refused, answer(version="v2")]
    async with server.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1")
        rig.editor.report(KEEP)
        await rig.is_notified("phone already undid this change.")
        await rig.shows()


async def test_a_late_decision_does_not_hide_an_interrupted_one(rig: ReviewRig) -> None:
    """The server was killed during the other decision, and sends the notice about it only with the next review."""
    notice = "phone undid 5 changes in 3 files (the server was restarted in the meantime)."
    server = Served()
    refused = wire.ReviewAnswer(id="", code="HUNK_GONE", text="gone")
    again = msgspec.structs.replace(answer(version="v2"), notice=notice)
    server.answers = [answer(FILE), refused, again, answer(version="v2")]
    async with server.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1")
        rig.editor.report(KEEP)
        await rig.is_notified(notice)
        await rig.shows()


async def test_a_decision_on_a_file_names_the_version_shown(rig: ReviewRig) -> None:
    server = Served()
    server.answers = [answer(FILE), answer(version="v2")]
    async with server.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1")
        rig.editor.report(ReviewDecided("undo", "v1", file="a.py"))
        asked = await server.receives(wire.ReviewDecision)
        assert (asked.decision, asked.file, asked.hunk, asked.version) == ("undo", "a.py", None, "v1")
        await rig.is_notified("Undone: 1 change in a.py. Nothing is left to review.")


async def test_all_changes_are_kept_in_the_version_shown(rig: ReviewRig) -> None:
    server = Served()
    server.answers = [answer(FILE, LATER), wire.ReviewAnswer(id="", code="HUNK_GONE", text="gone"), answer(FILE, LATER)]
    async with server.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1", "h2")
        rig.editor.report(ReviewDecided("keep", "v1", all=True))
        asked = await server.receives(wire.ReviewDecision)
        assert (asked.decision, asked.all, asked.version) == ("keep", True, "v1")
        await rig.is_notified("The review has changed since you saw it, so your decision was not applied.")
        server.answers = [answer(version="v2")]
        rig.editor.report(ReviewDecided("keep", "v1", all=True))
        await rig.is_notified("Kept: 2 changes in 2 files. Nothing is left to review.")


async def test_a_comment_that_another_client_writes_is_shown(rig: ReviewRig) -> None:
    server = Served()
    server.answers = [answer(FILE), answer(FILE, comments=[comment()])]
    async with server.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1")
        server.sends(wire.ReviewChanged("p1"))
        await until(lambda: any(review is not None and review.comments for review in rig.editor.reviews), "a comment")
        assert [text for text, _ in rig.editor.notices] == ["1 file +1 −1 to review."]


async def test_comments_are_written_removed_and_sent(rig: ReviewRig) -> None:
    server = Served()
    one = answer(FILE, comments=[comment()])
    server.answers = [answer(FILE), one, answer(FILE, comments=[comment(), comment(comment_id="c2")]), one]
    async with server.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1")
        rig.editor.report(ReviewCommented("a.py", 2, 3, "TWO\nthree\n", "Why?"))
        written = await server.receives(wire.ReviewComment)
        assert (written.path, written.line, written.end_line) == ("a.py", 2, 3)
        assert (written.quote, written.text, written.comment) == ("TWO\nthree\n", "Why?", None)
        await rig.is_notified("Draft added. 1 draft to send.")
        rig.editor.report(ReviewCommentRemoved("c3"))
        await rig.is_notified("Draft removed. 2 drafts to send.")
        rig.editor.report(ReviewSubmitted("d1", "Please"))
        sent = await server.receives(wire.ReviewSubmission)
        assert (sent.drafts, sent.text) == ("d1", "Please")
        await rig.is_notified("Sent to the agent: 2 comments.")


async def test_a_suggestion_stays_in_its_window_until_it_is_added(rig: ReviewRig) -> None:
    server = Served()
    refused = wire.ReviewAnswer(id="", code="HUNK_GONE", text="The lines have changed since they were shown.")
    server.answers = [answer(FILE), refused, answer(FILE), answer(FILE, comments=[comment(suggestion="2\n")])]
    async with server.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1")
        suggested = ReviewCommented("a.py", 2, 2, "TWO\n", "", suggestion="2\n", window=7)
        rig.editor.report(suggested)
        await until(lambda: rig.editor.suggestions == [(7, False)], "the refusal")
        rig.editor.report(suggested)
        await until(lambda: rig.editor.suggestions == [(7, False), (7, True)], "the draft")
        assert (await server.receives(wire.ReviewComment)).suggestion == "2\n"


async def test_a_suggestion_that_is_sent_again_keeps_its_id(rig: ReviewRig) -> None:
    """So a server that has stored it, but did not answer in time, does not store it twice."""
    server = Served()
    server.answers = [answer(FILE), wire.ReviewAnswer(id="", code="INTERNAL", text="An error."), answer(FILE)]
    suggested = ReviewCommented("a.py", 2, 2, "TWO\n", "", suggestion="2\n", window=7, id="one")
    async with server.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1")
        rig.editor.report(suggested)
        await until(lambda: rig.editor.suggestions == [(7, False)], "the refusal")
        rig.editor.report(suggested)
        await until(lambda: rig.editor.suggestions == [(7, False), (7, True)], "the draft")
        sent = [one for one in server.messages if isinstance(one, wire.ReviewComment)]
        assert [one.id for one in sent] == ["one", "one"]


async def test_a_comment_is_sent_again_after_a_restart_of_the_server(rig: ReviewRig) -> None:
    killed, restarted = Served(), Served()
    killed.answers = [answer(FILE)]
    restarted.answers = [answer(FILE, comments=[comment(suggestion="2\n")])]
    async with killed.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1")
        killed.answers = []
        rig.editor.report(ReviewCommented("a.py", 2, 2, "TWO\n", "", suggestion="2\n", window=7))
        await killed.receives(wire.ReviewComment)
    async with restarted.listening():
        await rig.is_notified("Draft added. 1 draft to send.")
        [first] = [one for one in killed.messages if isinstance(one, wire.ReviewComment)]
        [again] = [one for one in restarted.messages if isinstance(one, wire.ReviewComment)]
        assert again == first
        assert rig.editor.suggestions == [(7, True)]


async def test_a_comment_is_resolved_and_reopened(rig: ReviewRig) -> None:
    server = Served()
    server.answers = [
        answer(FILE, comments=[comment(state="sent")]),
        answer(FILE, comments=[comment(state="resolved")]),
    ]
    async with server.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1")
        rig.editor.report(ReviewCommentResolved("c1", True))
        asked = await server.receives(wire.ReviewComment)
        assert (asked.comment, asked.resolved) == ("c1", True)
        await rig.is_notified("Comment resolved.")
        rig.editor.report(ReviewCommentResolved("c1", False))
        await rig.is_notified("Comment reopened.")


async def test_an_older_server_gets_no_suggestions(rig: ReviewRig) -> None:
    """It would ignore the suggestion, and remove a comment instead of resolving it."""
    server = Served()
    server.suggests = False
    server.answers = [answer(FILE)]
    async with server.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1")
        rig.editor.report(ReviewCommentResolved("c1", True))
        await rig.is_notified("This needs a newer agent server. Update and restart it.")
        rig.editor.report(ReviewCommented("a.py", 2, 2, "TWO\n", "Why?", suggestion="2\n", window=7))
        await until(lambda: rig.editor.suggestions == [(7, False)], "the refusal")
        assert not any(isinstance(one, wire.ReviewComment) for one in server.messages)


async def test_a_prompt_that_was_not_sent_is_copied(rig: ReviewRig) -> None:
    server = Served()
    details = Raw(b'{"prompt": "1. a.py, line 2: Why?"}')
    refused = wire.ReviewAnswer(id="", code="NOT_SUPPORTED", text="The session has ended.", details=details)
    shown = answer(FILE, comments=[comment()])
    server.answers = [shown, refused, shown]
    async with server.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1")
        rig.editor.report(ReviewSubmitted("d1", ""))
        await rig.is_notified("The prompt was copied to clipboard.")
        assert rig.editor.copied == "1. a.py, line 2: Why?"
        assert [text for text, _ in rig.editor.notices][1] == "The session has ended."


async def test_a_refused_comment_shows_the_servers_reason(rig: ReviewRig) -> None:
    server = Served()
    refused = wire.ReviewAnswer(id="", code="HUNK_GONE", text="The lines have changed since they were shown.")
    server.answers = [answer(FILE), refused, answer(version="v2")]
    async with server.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1")
        rig.editor.report(ReviewCommented("a.py", 2, 2, "TWO\n", "Why?"))
        await rig.is_notified("The lines have changed since they were shown.")
        await rig.shows()


async def test_adding_a_comment_is_confirmed_if_the_review_fails(rig: ReviewRig) -> None:
    """The server has stored the comment, but can't read the review at that moment. The next request succeeds."""
    server = Served()
    unread = wire.ReviewAnswer(id="", code="CHECKPOINT_NOT_FOUND", text="git failed.", done=True)
    server.answers = [answer(FILE), unread, answer(FILE, comments=[comment()])]
    async with server.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1")
        rig.editor.report(ReviewCommented("a.py", 2, 2, "TWO\n", "Why?"))
        await rig.is_notified("Draft added.")
        await until(lambda: any(review is not None and review.comments for review in rig.editor.reviews), "a comment")
        assert [text for text, _ in rig.editor.notices] == ["1 file +1 −1 to review.", "Draft added."]


async def test_submitting_is_confirmed_even_if_the_review_fails(rig: ReviewRig) -> None:
    """The server has submitted the comments, but can no longer read the review. The user then sees the reason."""
    server = Served()
    unread = wire.ReviewAnswer(id="", code="CHECKPOINT_NOT_FOUND", text="git failed.", done=True)
    still = wire.ReviewAnswer(id="", code="CHECKPOINT_NOT_FOUND", text="git failed.")
    server.answers = [answer(FILE, comments=[comment()]), unread, still]
    async with server.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1")
        rig.editor.report(ReviewSubmitted("d1", ""))
        await rig.is_notified("git failed.")
        assert [text for text, _ in rig.editor.notices][1:] == ["Sent: 1 comment.", "git failed."]
        assert rig.editor.reviews[-1] is None


async def test_a_missing_directory_closes_the_review_with_a_reason(rig: ReviewRig) -> None:
    server = Served()
    gone = wire.ReviewAnswer(id="", code="INVALID_PATH", text="The directory is missing.")
    server.answers = [answer(FILE), gone]
    async with server.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1")
        rig.editor.report(ReviewOutdated())
        await rig.is_notified("The directory is missing.")
        assert rig.editor.reviews[-1] is None


LATER = FILE | {"path": "b.py", "hunks": [HUNK | {"id": "h2", "added": "later\n"}]}


@asynccontextmanager
async def unreported_run(rig: ReviewRig) -> AsyncIterator[Served]:
    """A server with a review that was seen, and was then extended by another run, which it has not reported yet."""
    server = Served()
    server.answers = [answer(FILE), answer(FILE, LATER, version="v2")]
    async with server.listening():
        rig.editor.report(WANTED)
        await rig.shows("h1")
        rig.editor.report(ReviewSeen(("h1",)))
        await until(lambda: rig.memory.of("p1").seen == ("h1",), "what was seen")
        yield server


@asynccontextmanager
async def later_run(rig: ReviewRig) -> AsyncIterator[Served]:
    """A server with a review that was seen, and was then extended by another run."""
    async with unreported_run(rig) as server:
        server.sends(wire.ReviewChanged("p1"))
        await rig.shows("h1", "h2")
        yield server


async def test_changes_of_a_later_run_are_marked(rig: ReviewRig) -> None:
    async with later_run(rig):
        review = await rig.shows("h1", "h2")
        assert review.title == "2 files +2 −2 · 1 since your last visit"
        shown = [(hunk.text, hunk.is_new) for file in review.files for hunk in file.hunks]
        assert shown == [("+1 −1  TWO", False), ("since your last visit  +1 −1  later", True)]
        assert not review.only_new
        # On the next visit, the change is still new, because it was not seen.
        rig.editor.report(WANTED)
        await rig.is_notified("2 files +2 −2 · 1 since your last visit.")
        rig.editor.report(ReviewSeen(("h2", "elsewhere")))
        await until(lambda: rig.memory.of("p1").seen == ("h1", "h2"), "what was seen")
        rig.editor.report(WANTED)
        await until(lambda: rig.title == "2 files +2 −2", "a review without new changes")


async def test_the_review_can_be_limited_to_new_changes(rig: ReviewRig) -> None:
    async with later_run(rig) as server:
        rig.editor.report(ONLY_NEW)
        await rig.is_notified("1 of 2 changes · only since your last visit.")
        review = await rig.shows("h1", "h2")
        assert (review.only_new, review.title) == (True, "1 of 2 changes · only since your last visit")
        assert [hunk.text for file in review.files for hunk in file.hunks if hunk.is_new] == ["+1 −1  later"]
        # The other changes are shown again, and new ones are still marked, because it is the same visit.
        rig.editor.report(ReviewSeen(("h2",)))
        rig.editor.report(WANTED)
        await until(lambda: rig.title == "2 files +2 −2 · 1 since your last visit", "all changes")
        assert not (await rig.shows("h1", "h2")).only_new
        assert not any(isinstance(one, wire.ReviewDecision) for one in server.messages)


async def test_changes_are_new_before_their_run_is_reported(rig: ReviewRig) -> None:
    async with unreported_run(rig) as server:
        rig.editor.report(ONLY_NEW)
        await rig.is_notified("1 of 2 changes · only since your last visit.")
        server.answers = [answer(FILE, LATER | {"hunks": [*LATER["hunks"], HUNK | {"id": "h3"}]}, version="v3")]
        server.sends(wire.ReviewChanged("p1", "phone"))
        await rig.shows("h1", "h2", "h3")
        assert rig.title == "2 of 3 changes · only since your last visit"


async def test_a_file_is_not_decided_while_some_changes_are_hidden(rig: ReviewRig) -> None:
    async with later_run(rig) as server:
        rig.editor.report(ONLY_NEW)
        await until(lambda: rig.title == "1 of 2 changes · only since your last visit", "only what is new")
        rig.editor.report(ReviewDecided("undo", "v2", file="a.py"))
        rig.editor.report(ReviewDecided("keep", "v2", all=True))
        hidden = "To decide on all changes at once, show the others too."
        await until(lambda: [text for text, _ in rig.editor.notices].count(hidden) == 2, "two refusals")
        assert not any(isinstance(one, wire.ReviewDecision) for one in server.messages)
        # A decision on the last new change shows the others again.
        server.answers = [answer(FILE, version="v3")]
        rig.editor.report(ReviewDecided("keep", "v2", hunk="h2"))
        await rig.is_notified("Kept: 1 change in b.py. 1 change left.")
        assert not (await rig.shows("h1")).only_new


async def test_the_user_sees_why_everything_is_shown(rig: ReviewRig) -> None:
    server = Served()
    server.answers = [answer(FILE)]
    async with server.listening():
        rig.editor.report(ONLY_NEW)
        await rig.is_notified("All changes are new.")
        rig.editor.report(ReviewSeen(("h1",)))
        rig.editor.report(WANTED)
        await rig.is_notified("1 file +1 −1 to review.")
        rig.editor.report(ONLY_NEW)
        await rig.is_notified("Nothing is new since your last visit.")


async def test_changes_seen_in_a_terminal_are_not_new(rig: ReviewRig) -> None:
    rig.memory.saw("p1", ["h1"], ["h1"])
    server = Served()
    server.answers = [answer(FILE, LATER)]
    async with server.listening():
        rig.editor.report(WANTED)
        await until(lambda: rig.title == "2 files +2 −2 · 1 since your last visit", "what is new")


async def test_a_comment_or_a_decision_does_not_begin_a_visit(rig: ReviewRig) -> None:
    async with later_run(rig) as server:
        rig.editor.report(ReviewSeen(("h2",)))
        server.answers = [answer(FILE, LATER, comments=[comment()], version="v3")]
        server.sends(wire.ReviewChanged("p1"))
        await until(lambda: any(review is not None and review.comments for review in rig.editor.reviews), "a comment")
        assert rig.title == "2 files +2 −2 · 1 since your last visit"
        server.answers = [answer(FILE, LATER | {"hunks": [*LATER["hunks"], HUNK | {"id": "h3"}]}, version="v4")]
        server.sends(wire.ReviewChanged("p1", "phone"))
        await rig.shows("h1", "h2", "h3")
        assert rig.title == "2 files +2 −2 · 2 since your last visit"


def test_a_refusal_keeps_the_servers_reason() -> None:
    error = server_link.ReviewRefused("REVIEW_CLASH", "text", None)
    assert isinstance(error, Refused)
    assert (error.reason, error.details) == ("REVIEW_CLASH", {})
