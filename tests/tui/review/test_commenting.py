"""In the terminal client, a person comments on lines of a review, sends the comments, and commits what was kept."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.widgets import Static

from drawbridge.server.auth.devices import Devices
from drawbridge.server.auth.scopes import Scope
from drawbridge.text.review_words import HANDOVERS
from drawbridge.tui.client import Client
from drawbridge.tui.fields import PlainTextArea
from drawbridge.tui.review import comments as review_comments
from drawbridge.tui.review.comment_dialogs import CommentDialog, CommentsDialog
from drawbridge.tui.review.commenting import Commenting
from drawbridge.tui.review.comments import stepped, stretched
from drawbridge.tui.review.commit_dialog import CommitDialog
from drawbridge.tui.review.parts import Context, Part
from drawbridge.tui.review.view import ReviewView
from drawbridge.tui.screens import review as screen_review
from drawbridge.tui.screens.review import ReviewScreen
from drawbridge.tui.server_address import ServerAddress
from tests.rigs.reviews import WORK, comments_of, decides, make_repository, poem, prompts_of
from tests.server.checkpoints.rig import git
from tests.server.processes import Server, serving
from tests.server.terminal_sessions.reported_rig import ReportedSession
from tests.tui.conftest import make_directory, make_project
from tests.tui.review.test_reviewing import (
    EVIL,
    Work,
    current,
    hunks,
    is_at,
    is_told,
    opens,
    repository,
    reviewing,
    runs,
    view,
)
from tests.tui.rig import Person, attached
from tests.tui.test_coming_back import free_port, is_cut_off

__all__ = ["repository"]  # imported as a fixture


@pytest.fixture(autouse=True)
def _quick_decider(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys decide on a change as soon as it is the current one."""
    monkeypatch.setattr(screen_review, "READING_SECONDS", 0.0)


def field(person: Person, id: str = "text") -> PlainTextArea:
    return person.app.screen.query_one(f"#{id}", PlainTextArea)


async def is_open(person: Person, kind: type) -> None:
    await person.waits_for(lambda: isinstance(person.app.screen, kind), kind.__name__)


async def is_noted(person: Person, words: str) -> None:
    """Waits until the dialog's notice contains ``words``, before wrapping, and is completely on the screen."""

    def is_there() -> bool:
        note = person.app.screen.query_one(".notice", Static)
        is_seen = note.display and person.app.screen.region.contains_region(note.region)
        return is_seen and words in str(note.content)

    await person.waits_for(is_there, words)


def unwrapped(person: Person) -> str:
    """The text of the review, without the borders of comments and without whitespace."""
    return "".join(view(person).text().replace("▎", "").split())


def test_the_agent_of_another_session_is_named() -> None:
    """Sessions in a directory share a review, so the comments may have been left with another session's agent."""

    def nowhere() -> ServerAddress:
        raise AssertionError("nothing connects here")

    commenting = Commenting(Client(nowhere, "Ada"), "p", lambda: None, lambda: None)
    for state in HANDOVERS:
        own, elsewhere = ({"handover": {"state": state, "project_id": id}} for id in ("p", "q"))
        assert commenting.update(own)
        assert "another session" not in commenting.handover_words
        assert commenting.update(elsewhere), "only the session is another one"
        assert "he agent of another session in this directory" in commenting.handover_words
        assert not commenting.update(elsewhere)
    assert commenting.handover_words[0].isupper()


async def begins(person: Person, *keys: str) -> None:
    """Begins a comment on the current change. ``keys`` choose its lines."""
    await person.presses("c")
    await is_told(person, "Enter starts writing.")
    await person.presses(*keys, "enter")
    await is_open(person, CommentDialog)
    await person.waits_for(lambda: field(person).has_focus, "the field")


async def adds(person: Person, text: str) -> None:
    """Completes the comment that is being written, and waits until it is a draft."""
    field(person).insert(text)
    await person.presses("ctrl+s")
    await is_open(person, ReviewScreen)
    await person.waits_for(lambda: f"{text}" in view(person).text() and "Not added" not in view(person).text(), text)


async def test_a_key_right_after_the_text_saves_all_of_it(server: Server, repository: Path) -> None:
    """The key may be handled before the event about the text."""
    async with reviewing(server, repository) as (person, _):
        await person.presses("j")
        await begins(person)
        dialog = person.app.screen
        assert isinstance(dialog, CommentDialog)
        field(person).insert("Why capitals?")
        dialog.call_later(dialog.action_save)
        await is_open(person, ReviewScreen)
        await person.waits_for(lambda: "Why capitals?" in view(person).text(), "the comment")


@pytest.mark.thorough
async def test_comments_are_written_changed_removed_and_sent(server: Server, repository: Path) -> None:
    async with reviewing(server, repository) as (person, project):
        await person.presses("j")
        await is_at(person, "poem.txt: LINE 5")
        await begins(person)
        await person.sees("Comment on line 5 of poem.txt", "LINE 5")
        await adds(person, "Why capitals?")
        await person.sees("▎ You  Draft", "▎ Why capitals?", "1 draft")
        lines = view(person).text().splitlines()
        at = next(n for n, line in enumerate(lines) if "+ LINE 5" in line)
        assert "You  Draft" in lines[at + 1], "it is at its line"
        await person.presses("j")
        await begins(person, "j", "k")
        await person.sees("Comment on line 30 (removed) of poem.txt")
        await adds(person, "This was better.")
        await person.presses("j")
        await begins(person)
        await person.sees("Comment on lines 1–2 of src/new.py")
        await adds(person, "Not this one.")
        await person.presses("C")
        await is_open(person, CommentsDialog)
        await person.sees("Not this one.", "e edit · d remove")
        await person.presses("d")
        await person.sees("Remove this comment?", "It can’t be restored.")
        await person.presses("y")
        await person.loses("Not this one.")
        await person.presses("k", "e")
        await is_open(person, CommentDialog)
        await person.types(" Really?")
        await person.presses("ctrl+s")
        await is_open(person, CommentsDialog)
        await person.sees("Why capitals? Really?")
        await person.presses("escape", "S")
        await person.sees("Send 2 comments?")
        assert await prompts_of(server, project) == []
        await person.presses("y")
        await is_told(person, "Sent 2 comments.")
        await person.sees("▎ You  Sent")
        await person.loses("Draft")
        (prompt,) = await prompts_of(server, project)
        assert "`poem.txt`, line 5\n```\nLINE 5\n```\n\nWhy capitals? Really?" in prompt
        assert "`poem.txt`, line 30 before your changes\n```\nline 30\n```\n\nThis was better." in prompt
        assert "Not this one." not in prompt
        await person.presses("escape")
        await person.reads("I have reviewed your changes and have 2 comments.")


WORKING = [
    {"type": "system", "subtype": "init", "capabilities": ["interrupt_cancel_queued_v1"]},
    {"type": "system", "subtype": "session_state_changed", "state": "running"},
    {"hold": True},
]
"""What an agent reports that accepts messages during its run. The run ends when a person interrupts it."""


async def test_comments_are_added_to_the_current_run(server: Server, repository: Path) -> None:
    async with reviewing(server, repository) as (person, project), server.client() as owner:
        await person.presses("j")
        await begins(person)
        await adds(person, "Why capitals?")
        await person.presses("S")
        await person.sees("Send 1 comment?", "y Send · Esc Cancel")
        run = (await owner.ask("execute", {"prompt": f"/emit {json.dumps(WORKING)}"}, project))["data"]["run_id"]
        await person.sees("The agent is working: you can", "queue the prompt, or add it to the current run.")
        await person.sees("y Queue · a Add to the current run · Esc Cancel")
        await person.presses("a")
        await is_told(person, "Added 1 comment to the current run.")
        await person.sees("▎ You  Sent")
        (comment,) = await comments_of(server, project)
        assert (comment["state"], comment["run_id"]) == ("sent", run)
        await owner.ask("agent_interrupt", {}, project)


async def test_comments_that_another_client_sent_are_shown_as_sent(server: Server, repository: Path) -> None:
    async with reviewing(server, repository) as (person, project), server.client() as owner:
        await person.presses("j")
        await begins(person)
        await adds(person, "Why capitals?")
        await person.sees("1 draft")
        await owner.ask("execute", {"prompt": f"/emit {json.dumps(WORKING)}"}, project)
        await person.presses("S")
        await person.sees("a Add to the current run")
        await person.presses("escape")
        drafts = (await owner.ask("review_get", project_id=project))["data"]["drafts"]
        accepted = await owner.ask("review_submit", {"drafts": drafts, "steer": True}, project)
        assert accepted["type"] == "accepted", accepted
        await person.sees("▎ You  Sent")
        await owner.ask("agent_interrupt", {}, project)


@contextlib.asynccontextmanager
async def commented_terminal(home: Path, *, ended: bool = False) -> AsyncIterator[Person]:
    """A person has sent a comment on what a terminal session changed. ``ended``: whether the agent has ended before."""
    (home / "blog").mkdir()
    directory = make_repository(home / "blog")
    async with serving(home / "data", "--no-tls", "--allow", home) as server:
        session = ReportedSession(server, directory)
        await session.runs("t1", "Shout", poem(line_5="LINE 5"))
        if ended:
            await session.reports("SessionEnd", reason="prompt_input_exit")
        async with attached(server, session.project) as person:
            await opens(person)
            await begins(person)
            await adds(person, "Why capitals?")
            await person.presses("S")
            await person.sees("Send 1 comment?")
            await person.presses("y")
            yield person


@pytest.mark.slow
async def test_comments_on_a_terminal_session_can_be_withdrawn(home: Path) -> None:
    """The comments wait until the agent stops, and are drafts again once they are withdrawn."""
    async with commented_terminal(home) as person:
        await is_told(person, "Waiting: 1 comment. The agent will get the comments when it next stops")
        await person.sees("▎ You  Waiting")
        await person.presses("C")
        await is_open(person, CommentsDialog)
        await person.sees("The agent will get the comments when it next stops", "w withdraw")
        await person.presses("w")
        await person.loses("w withdraw")
        await person.sees("S send 1")
        await person.presses("escape")
        await person.sees("▎ You  Draft")


async def test_comments_that_cannot_be_sent_can_be_copied(home: Path) -> None:
    async with commented_terminal(home, ended=True) as person:
        await is_told(person, "Press y to copy the comments as a prompt.")
        assert person.app.clipboard == ""
        await person.presses("y")
        await is_told(person, "The prompt was copied, if your terminal allows that.")
        assert "Why capitals?" in person.app.clipboard
        assert "LINE 5" in person.app.clipboard
        await person.sees("▎ You  Draft")


@pytest.mark.slow
async def test_a_comment_is_about_the_chosen_lines_with_a_suggestion(server: Server, repository: Path) -> None:
    async with reviewing(server, repository) as (person, project):
        await person.presses("j")
        await person.sees("▌   4   line 4")
        await person.presses("c")
        await is_told(person, "Comment on line 5: Enter starts writing.")
        await person.sees("▌▸  5 + LINE 5", "▌   5 − line 5")
        await person.presses("a", "u", "X")  # while lines are being chosen, these keys have no effect
        await person.presses("j", "K", "J", "J")
        await is_told(person, "Comment on lines 5–6: Enter starts writing.")
        await person.sees("▌▸  6   line 6")
        await person.presses("escape")
        await person.loses("▸")
        await begins(person, "J")
        await person.sees("Comment on lines 5–6 of poem.txt", "Ctrl-T suggest a change")
        await person.presses("ctrl+t")
        await person.sees("The agent will be asked to write these lines instead:")
        assert field(person, "suggestion").text == "LINE 5\nline 6"
        await person.presses("ctrl+s")
        assert isinstance(person.app.screen, CommentDialog), "a suggestion of the same lines says nothing"
        await person.types("!")
        await person.presses("ctrl+s")
        await is_open(person, ReviewScreen)
        await person.sees("▎ You  Draft · lines 5–6", "Suggested instead:", "line 6!")
        await person.sees("4 changes")
        await person.presses("S")
        await person.sees("Send 1 comment?")
        await person.presses("y")
        await is_told(person, "Sent 1 comment.")
    (prompt,) = await prompts_of(server, project)
    assert "Replace these lines with:\n```suggestion\nLINE 5\nline 6!\n```" in prompt


@pytest.mark.slow
async def test_a_comment_that_is_refused_stays_in_its_field(server: Server, repository: Path) -> None:
    async with reviewing(server, repository) as (person, project):
        await person.presses("j")
        await begins(person)
        await person.types("About this line")
        (repository / "poem.txt").write_text(poem(line_5="another", line_30="LINE 30"))
        await person.presses("ctrl+s")
        await person.sees("These lines have changed or are no longer in the review")
        assert field(person).text == "About this line"
        await person.presses("escape")
        await is_told(person, "Your comment is kept here")
        await person.sees("Your comment", "▎ You  Not added yet · line 5", "About this line")
        await person.presses("d")
        await person.loses("About this line")
        await begins(person)
        await person.types("x" * 30)
        field(person).text = "y" * 10_001
        await person.presses("ctrl+s")
        await person.sees("10,000")
        assert len(field(person).text) == 10_001
    assert await comments_of(server, project) == []


@pytest.mark.slow
async def test_a_comment_is_kept_until_it_is_added_or_discarded(server: Server, repository: Path) -> None:
    async with reviewing(server, repository) as (person, project):
        await person.presses("j")
        await begins(person)
        await adds(person, "One.")
        await person.presses("j")
        await begins(person)
        await person.types("Two, not added.")
        await person.presses("escape")
        await is_told(person, "Your comment is kept here until you add it: c continues, d discards it.")
        await person.presses("g", "S")
        await is_told(person, "First save or discard the comment that you are writing.")
        assert current(person) == "poem.txt: LINE 30", "it leads to it"
        # The comment follows its lines when they move, and is kept when the review is closed.
        first = (await hunks(server, project))["poem.txt"][0]
        await decides(server, project, hunks=[first], text="LINE 5\nand another\n")
        await person.sees("+ LINE 30", "3 files · 3 changes")
        await person.presses("escape")
        await person.sees("Ready")
        await opens(person)
        await person.presses("j")
        await is_at(person, "poem.txt: LINE 30")
        await person.presses("c")
        await is_open(person, CommentDialog)
        await person.sees("Comment on line 31 of poem.txt")
        assert field(person).text == "Two, not added."
        await person.presses("ctrl+s")
        await is_open(person, ReviewScreen)
        await person.sees("2 drafts")
    places = {one["text"]: one["line"] for one in await comments_of(server, project)}
    assert places == {"One.": 5, "Two, not added.": 31}


@pytest.mark.thorough
async def test_someone_elses_decision_keeps_an_unfinished_comment(server: Server, repository: Path) -> None:
    async with reviewing(server, repository) as (person, project):
        await person.presses("j", "j")
        await is_at(person, "poem.txt: LINE 30")
        await begins(person)
        await person.types("Mi")
        await decides(server, project, hunks=(await hunks(server, project))["poem.txt"][1:], decision="keep")
        await person.waits_for(lambda: "Your comment" in behind(person), "the change going")
        await person.types("ne")
        assert field(person).text == "Mine"
        await person.presses("ctrl+s")
        await is_open(person, ReviewScreen)
        await person.waits_for(
            lambda: "Mine" in view(person).text() and "Your comment" not in view(person).text(), "it"
        )
    assert [one["text"] for one in await comments_of(server, project)] == ["Mine"]


def behind(person: Person) -> str:
    """The text of the whole review, even if a dialog is in front of it."""
    screen = next(one for one in person.app.screen_stack if isinstance(one, ReviewScreen))
    return screen.query_one(ReviewView).text()


async def is_answered(server: Server, directory: Path) -> str:
    """Sends a comment on line 5, which a later run then changes. Returns the project's id."""
    project = await runs(server, directory, WORK)
    async with server.client() as client:
        about = {"path": "poem.txt", "line": 5, "quote": "LINE 5\n", "text": "Why capitals?"}
        await client.ask("review_comment", about, project)
        drafts = (await client.ask("review_get", project_id=project))["data"]["drafts"]
        await client.ask("project_join", project_id=project)
        await client.ask("review_submit", {"drafts": drafts}, project)
        await client.receive("update", "run_finished")
        work = {"poem.txt": poem(line_5="Line five", line_30="LINE 30")}
        await client.ask("execute", {"prompt": f"/write {json.dumps(work)}"}, project)
        await client.receive("update", "run_finished")
    return project


@pytest.mark.slow
async def test_answers_are_shown_and_comments_resolved_and_reopened(server: Server, repository: Path) -> None:
    project = await is_answered(server, repository)
    async with attached(server, repository) as person:
        await opens(person)
        await person.presses("j")
        await person.sees("In answer to: Why capitals?", "Sent · Outdated · line 5", "Answered by: Line 5")
        await person.sees("These lines have changed or moved since the comment was written:")
        await person.presses("g", "C")
        await person.sees("r resolve", "Enter go to the change")
        await person.presses("r")
        await person.sees("r reopen")
        assert (await comments_of(server, project))[0]["state"] == "resolved"
        await person.presses("enter")
        await is_open(person, ReviewScreen)
        assert current(person) == "poem.txt: Line five"
        await person.sees("▎ Resolved by ", ": Why capitals?")
        await person.presses("C")
        await person.sees("r reopen")
        await person.presses("r")
        await person.sees("r resolve")
        await person.presses("escape")
        await person.sees("Sent · Outdated")
        await decides(server, project, files=["old.txt", "poem.txt", "src/new.py"], decision="keep",
                      version=await version_of(server, project))  # fmt: skip
        await person.sees("Nothing to review", "1 comment: C shows it.")
        await person.presses("C")
        await person.sees("Why capitals?", "Outdated")


async def version_of(server: Server, project: str) -> str:
    async with server.client() as client:
        return str((await client.ask("review_get", project_id=project))["data"]["version"])


@pytest.mark.slow_for("approve")
@pytest.mark.thorough
@pytest.mark.parametrize("scope", ["view", "approve"])
async def test_a_scope_limits_what_can_be_done_with_comments(
    server: Server, repository: Path, tmp_path: Path, scope: Scope
) -> None:
    project = await runs(server, repository, WORK)
    async with server.client() as client:
        about = {"path": "poem.txt", "line": 5, "quote": "LINE 5\n", "text": "By the owner."}
        await client.ask("review_comment", about, project)
    token = tmp_path / "token"
    token.write_text(Devices(server.data).add(f"{scope} {repository.name}", scope)[1])
    async with attached(server, repository, token_file=str(token)) as person:
        await person.sees("Review: 3 files")
        await person.presses("v")
        await person.sees("By the owner.", "1 draft")
        assert not {"S send", "M commit"} & {words for words in ("S send", "M commit") if words in person.screen}
        await person.presses("j", "S", "C")
        await is_open(person, CommentsDialog)
        await person.sees("By the owner.", "Enter go to the change · Esc close")
        await person.presses("d", "e", "r", "S")
        await is_open(person, CommentsDialog)
        if scope == "view":
            await person.presses("escape", "c")
            await is_told(person, "View only. Decide from another device.")
            assert "c comment" not in person.screen
            assert "▸" not in person.screen
            return
        await person.sees("This device can’t send comments. Use a device that can start runs.")
        await person.presses("escape")
        await is_told(person, "You can comment here. Decide from another device.")
        await begins(person)
        await adds(person, "By the pad.")
    assert len(await comments_of(server, project)) == 2


@pytest.mark.slow
async def test_two_users_comment_on_one_review(server: Server, repository: Path) -> None:
    """Each sees the other's comments, and comments can be sent only by a user who has seen all of them."""
    async with reviewing(server, repository) as (person, project), server.client() as client:
        await person.presses("j")
        await begins(person)
        await adds(person, "Mine.")
        await person.presses("S")
        await person.sees("Send 1 comment?")
        about = {"path": "poem.txt", "line": 30, "quote": "LINE 30\n", "text": "Theirs."}
        await client.ask("review_comment", about, project)
        await person.presses("y")
        await is_told(person, "The comments have changed since you saw them, so they were not sent.")
        await person.sees("2 drafts")
        await person.waits_for(lambda: "Theirs." in view(person).text(), "the other comment")
        assert await prompts_of(server, project) == []
        drafts = (await client.ask("review_get", project_id=project))["data"]["drafts"]
        await client.ask("review_submit", {"drafts": drafts}, project)
        await person.loses("2 drafts")
        await person.waits_for(lambda: view(person).text().count("  Sent") == 2, "both to be sent")


@pytest.mark.thorough
async def test_nothing_typed_offline_is_lost_or_sent_twice(tmp_path: Path) -> None:
    directory = make_directory(tmp_path / "work" / "blog")
    make_repository(directory)
    git(directory, "config", "user.name", "Ada")
    git(directory, "config", "user.email", "ada@example.org")
    arguments = (
        tmp_path / "data",
        "--no-tls",
        "--allow",
        directory.parent,
        "--allow-commit",
        "--port",
        str(free_port()),
    )
    async with serving(*arguments) as first:
        await make_project(first, directory)
        project = await runs(first, directory, WORK)
        await decides(first, project, hunks=(await hunks(first, project))["old.txt"], decision="keep")
        async with attached(first, directory) as person:
            await opens(person)
            await is_at(person, "poem.txt: LINE 5")
            await begins(person)
            await person.types("Not lo")
            await first.end(signal.SIGKILL)
            await person.sees("Not connected to the server: ")
            await person.types("st.")
            await person.presses("ctrl+s")
            await person.sees("Saving…", "Not lost.")
            await person.presses("escape", "M")
            await is_open(person, CommitDialog)
            message(person).text = "Message"
            await person.sees("Message")
            await person.presses("ctrl+s")
            await person.sees("You’re disconnected. Try again once you’re back online.")
            await person.presses("escape")
            async with serving(*arguments) as second:
                person.app.client.connection.retry_now()
                await person.sees("Connected", "▎ You  Draft", "Not lost.")
                assert [one["text"] for one in await comments_of(second, project)] == ["Not lost."]
                await second.end(signal.SIGKILL)
                await person.sees("Not connected to the server: ")
                await person.presses("S")
                await person.sees("Send 1 comment?")
                await person.presses("y")
                await is_told(person, "Sending…")
                async with serving(*arguments) as third:
                    person.app.client.connection.retry_now()
                    await person.sees("▎ You  Sent")
                    assert len(await prompts_of(third, project)) == 1
                    await person.presses("M")
                    await is_open(person, CommitDialog)
                    assert person.app.screen.query_one(PlainTextArea).text == "Message"


@pytest.mark.thorough
async def test_offline_comments_arrive_after_the_review_closes(
    server: Server, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reviewing(server, repository) as (person, project):
        await person.presses("j")
        await is_at(person, "poem.txt: LINE 5")
        await begins(person)
        await adds(person, "Not this one.")
        await person.presses("j")
        await is_at(person, "poem.txt: LINE 30")
        await begins(person)
        field(person).insert("Not lost.")
        await is_cut_off(person, monkeypatch)
        await person.presses("ctrl+s")
        await person.sees("Saving…")
        await person.presses("escape", "C")
        await is_open(person, CommentsDialog)
        await person.presses("d")
        await person.sees("Remove this comment?")
        await person.presses("y", "escape", "escape")
        await person.waits_for(lambda: person.in_project, "the conversation")
        person.app.client.connection.retry_now()
        await person.presses("escape", "v")
        await person.sees("▎ You  Draft", "Not lost.")
        assert [one["text"] for one in await comments_of(server, project)] == ["Not lost."]


@pytest.mark.slow_for("40x20")
@pytest.mark.thorough
@pytest.mark.parametrize("size", [(100, 30), (40, 20)], ids=lambda size: "x".join(map(str, size)))
async def test_hostile_comments_are_only_text(server: Server, repository: Path, size: tuple[int, int]) -> None:
    hostile = EVIL.replace("\r", "")
    name = hostile.replace("/", "-")
    async with reviewing(server, repository, {name: f"{hostile}\n"}, size=size) as (person, project):
        async with server.client() as client:
            path = next(iter(await hunks(server, project)))
            about = {"path": path, "line": 1, "quote": f"{hostile}\n", "text": hostile, "suggestion": hostile}
            answer = await client.ask("review_comment", about, project)
            assert answer["type"] == "update", answer
        await person.sees("1 draft" if size[0] > 60 else "Draft")
        assert "\\x1b[2J" in view(person).text().replace("\n", "")

        def is_harmless() -> bool:
            return not any(character in person.screen for character in "\x1b\x07\u202e\u202c\u200b\r")

        assert is_harmless()
        await person.presses("C")
        await is_open(person, CommentsDialog)
        await person.sees("[red]x[/]")
        assert is_harmless()
        await person.presses("e")
        await is_noted(person, "characters that a terminal can't show: edit it in the web UI")
        await person.presses("escape", "c", "enter")
        await is_open(person, CommentDialog)
        await person.sees("[red]x[/]")
        assert is_harmless()
        await person.presses("ctrl+t")
        await is_noted(person, "characters that a terminal can’t show: write the suggestion in the web UI")
        assert is_harmless()


async def fits(person: Person, width: int) -> None:
    """Waits until no line is wider than ``width``. After a resize, the screen is redrawn part by part."""
    await person.waits_for(lambda: all(len(line) <= width for line in person.screen.splitlines()), f"{width} columns")


@pytest.mark.slow
async def test_a_small_screen_has_room_for_a_comment(server: Server, repository: Path) -> None:
    long: Work = {"poem.txt": poem(line_5="LINE 5 " + "and so on " * 12)}
    async with reviewing(server, repository, long, size=(40, 20)) as (person, _):
        await begins(person, "J")
        await person.presses("ctrl+t")
        await person.types(" A long suggestion in addition to the lines.")
        await person.presses("shift+tab")
        await person.types("A text that is longer than a line of this screen has room for.")
        await person.sees("Ctrl-S add", "keep for later")
        for width, height in ((100, 30), (30, 18), (40, 20)):
            await person.pilot.resize_terminal(width, height)
            await person.sees("Ctrl-S add")
            await fits(person, width)
            assert field(person).text.startswith("A text"), "what is typed stays"
        await person.presses("ctrl+s")
        await is_open(person, ReviewScreen)
        await person.waits_for(lambda: "Suggested instead:" in view(person).text(), "the draft")
        for width in (100, 30):
            await person.pilot.resize_terminal(width, 16)
            await person.waits_for(lambda: "Atextthatislongerthan" in unwrapped(person), "the comment")
            await fits(person, width)
        await person.presses("C")
        await person.sees("e edit")


# Commits


async def is_kept(server: Server, directory: Path) -> str:
    """Keeps one of two changes to the poem, and a new file. Returns the project's id."""
    git(directory, "config", "user.name", "Ada")
    git(directory, "config", "user.email", "ada@example.org")
    project = await runs(server, directory, WORK)
    ids = await hunks(server, project)
    await decides(server, project, hunks=[ids["poem.txt"][0], *ids["src/new.py"]], decision="keep")
    return project


async def opens_commit(person: Person) -> None:
    await person.presses("M")
    await is_open(person, CommitDialog)
    await person.waits_for(lambda: message(person).has_focus and message(person).text, "a proposed message")


def message(person: Person) -> PlainTextArea:
    return person.app.screen.query_one(PlainTextArea)


@pytest.mark.slow
async def test_kept_changes_are_committed(server: Server, repository: Path) -> None:
    await is_kept(server, repository)
    async with attached(server, repository) as person:
        await opens(person)
        await opens_commit(person)
        await person.sees("● The current branch", "[×] poem.txt", "[×] src/new.py", "Ctrl-S commit 2 files")
        assert message(person).text == "Something", "the prompt of the last run"
        message(person).text = "Capitals\n\nOnly in line 5."
        await person.presses("tab", "tab", "down", "space")
        await person.sees("[ ] src/new.py", "Ctrl-S commit 1 file")
        await person.presses("ctrl+s")
        await person.sees("Committed 1 file on ", "Output of git", "1 file changed")
        await person.presses("escape")
        await person.sees("M commit")
        await opens_commit(person)
        await person.loses("[×] poem.txt")
        message(person).text = "A bridge"
        await person.presses("tab", "down", "space")
        await person.sees("● A new branch (will be checked out)")
        await person.types("bridge")
        await person.presses("enter")
        await person.sees("Committed 1 file on the new branch bridge as ")
        await person.presses("escape")
        await person.loses("M commit")
    assert git(repository, "log", "--format=%s|%an|%b", "-2").split("\n")[:2] == [
        "A bridge|Ada|",
        "Capitals|Ada|Only in line 5.",
    ]
    assert git(repository, "show", "HEAD~1:poem.txt") == poem(line_5="LINE 5")
    assert git(repository, "branch", "--show-current").strip() == "bridge"


@pytest.mark.slow
async def test_a_commit_that_a_hook_refuses_keeps_the_message(server: Server, repository: Path) -> None:
    await is_kept(server, repository)
    hook = repository / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nprintf '\\033[31mNo capitals\\033[0m [red]please[/red]\\n'\nexit 1\n")
    hook.chmod(0o755)
    before = git(repository, "rev-parse", "HEAD")
    async with attached(server, repository, size=(40, 20)) as person:
        await opens(person)
        await opens_commit(person)
        message(person).text = ""
        await person.presses("ctrl+s")
        await person.sees("Write a message first.")
        message(person).text = "Capitals"
        await person.presses("ctrl+s")
        await is_noted(person, "The commit failed: git or one of its hooks refused it, or it took too long.")
        await person.sees("Output of git", "No capitals [red]please[/red]")
        assert git(repository, "rev-parse", "HEAD") == before
        await person.presses("escape")
        await opens_commit(person)
        assert message(person).text == "Capitals"
        hook.unlink()
        await person.presses("tab", "down", "enter")
        await person.types("not..valid")
        await person.presses("ctrl+s")
        await is_noted(person, "This is not a valid branch name.")
        await person.presses("shift+tab", "up", "space", "ctrl+s")
        await person.sees("Committed 2 files on")
    assert git(repository, "rev-parse", "HEAD~1") == before


@pytest.mark.thorough
async def test_a_commit_is_reported_after_the_review_closes(server: Server, repository: Path) -> None:
    """The user closes the review while one of git's hooks is running, which then refuses the commit."""
    await is_kept(server, repository)
    hook, go = repository / ".git" / "hooks" / "pre-commit", repository / ".git" / "go"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        "#!/bin/sh\nfor n in $(seq 600); do [ -e .git/go ] && break; sleep 0.1; done\necho No capitals\nexit 1\n"
    )
    hook.chmod(0o755)
    async with attached(server, repository) as person:
        await opens(person)
        await opens_commit(person)
        message(person).text = "Capitals"
        await person.presses("ctrl+s")
        await person.sees("Committing…")
        await person.presses("escape", "escape")
        await person.waits_for(lambda: person.in_project, "the conversation")
        go.touch()
        await person.is_notified(f"Review of {repository.name}: The commit failed: git or one of its hooks refused it")
        assert "No capitals" in person.notices[-1]


@pytest.mark.slow
async def test_no_commit_is_made_while_the_agent_works(server: Server, repository: Path) -> None:
    project = await is_kept(server, repository)
    before = git(repository, "rev-parse", "HEAD")
    async with attached(server, repository) as person, server.client() as owner:
        await opens(person)
        await opens_commit(person)
        await owner.ask("execute", {"prompt": "/slow 600"}, project)
        await person.sees("The agent is working. Until it has finished, nothing can be", "committed.")
        await person.presses("ctrl+s")
        assert git(repository, "rev-parse", "HEAD") == before
        await owner.ask("agent_interrupt", {"all": True}, project)
        await person.loses("The agent is working.")
        await person.presses("ctrl+s")
        await person.sees("Committed 2 files on")


@pytest.mark.slow
async def test_commits_are_offered_only_where_they_are_allowed(tmp_path: Path, directory: Path) -> None:
    make_repository(directory)
    async with serving(tmp_path / "data", "--no-tls", "--allow", directory.parent) as server:
        await make_project(server, directory)
        await is_kept(server, directory)
        async with attached(server, directory) as person:
            await opens(person)
            assert "M commit" not in person.screen
            await person.presses("M")
            assert isinstance(person.app.screen, ReviewScreen)


# Without a server


PART = Part(
    "h",
    {"path": "a", "hunks": ()},
    {"kind": "lines", "old_start": 5, "new_start": 5, "removed": "x\r\ny\r\n", "added": "z\r\n"},
)
AROUND = Context(("b\r",), ("c\r",))


def test_a_line_selection_follows_the_order_on_the_screen() -> None:
    assert PART.hunk is not None
    shown = review_comments.rows(PART.hunk, AROUND)
    assert [(row.side, row.number) for row in shown] == [("new", 4), ("old", 5), ("old", 6), ("new", 5), ("new", 6)]
    choice = review_comments.chosen(PART)
    assert choice is not None
    assert choice.place.words == "line 5"
    places = []
    for act, by in ((stepped, -1), (stepped, -1), (stepped, -1), (stretched, 1), (stretched, -1), (stretched, -1)):
        choice = act(choice, shown, by)
        places.append(choice.place.words)
    assert places == [
        *("line 5", "line 6 (removed)", "line 5 (removed)"),
        *("lines 5–6 (removed)", "line 5 (removed)", "line 5 (removed)"),
    ]
    whole = review_comments.Place("new", 4, 6)
    assert review_comments.quote_of(shown, whole) == "b\r\nz\r\nc\r\n", "line ends are part of the lines"
    assert review_comments.quote_of(shown, review_comments.Place("new", 3, 4)) is None


def test_a_comment_keeps_its_request_id_until_its_text_changes() -> None:
    one = review_comments.begun(PART, review_comments.Place("new", 5, 5), "z\r\n")
    one.text = "Why?"
    wish = one.wish(one.place(PART.hunk), None)
    assert one.request_id(wish) == one.request_id(one.wish(one.place(PART.hunk), None))
    assert one.request_id(wish) != one.request_id({**wish, "text": "Why not?"})
    one.suggestion = "a\nb"
    assert one.wish(one.place(PART.hunk), None)["suggestion"] == "a\r\nb\r\n"
