"""All terminal sessions in a directory share the comments on its review, and one agent gets them."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.core.errors import NotPrivate
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.options.limits import Limits
from drawbridge.server.terminal_sessions import shared_comments
from tests.server.core_rig import Client
from tests.server.reviews.rig import make_repository

from .socket_rig import Message, Session, SocketRig, socket_rig
from .test_prompts import CLAUDE, Neovim, neovim
from .test_reviewed_directories import At
from .test_sessions import prompt, said

OTHER = os.getppid()
"""Another agent's process id. The test uses its parent's, since the process must be running."""

TWO_COMMENTS = (
    "I have reviewed your changes and have 2 comments. Address each one.\n\n"
    "### 1. `poem.txt`, line 3\n```\nLINE 3\n```\n\nWhy?\n\n"
    "### 2. `poem.txt`, line 17\n```\nLINE 17\n```\n\nShorter.\n\n"
    "Replace these lines with:\n```suggestion\n17\n```"
)


class Commented(At):
    """A session in a directory whose review has comments."""

    def __init__(self, rig: SocketRig, place: Path, pid: int = CLAUDE) -> None:
        super().__init__(rig, place)
        self.session = Session(rig, place, pid)

    async def comment(self, client: Client | None = None, **data: Any) -> Message:
        """Sends ``review_comment``. Returns the data of the update that answers it."""
        answer = await self.rig.server.does(client or self.rig.client, "review_comment", self.session.project, **data)
        found: Message = answer["data"]["data"]
        return found

    async def write(self, line: int, quote: str, text: str = "Why?", **more: Any) -> str:
        """Writes a draft about a line of the poem. Returns its id."""
        given: Message = {"path": "poem.txt", "line": line, "quote": quote, "text": text}
        return str((await self.comment(**(given | more)))["comment_id"])

    async def submit(self, **data: Any) -> Message:
        """Sends ``review_submit``, by default with all drafts. Returns the whole reply."""
        drafts = data.pop("drafts", None) or (await self.get())["drafts"]
        return await self.rig.does("review_submit", self.session.project, drafts=drafts, **data)

    async def not_sent(self, **data: Any) -> ClientError:
        with pytest.raises(ClientError) as refused:
            await self.submit(**data)
        return refused.value

    async def states(self) -> dict[str, str]:
        """The states of the comments, by id."""
        return {one["comment_id"]: one.get("state", "draft") for one in (await self.get())["comments"]}

    async def answers(self) -> dict[str, list[str]]:
        """The ids of the comments that each hunk answers, by the hunk's new text."""
        return {one["added"]: one["answers"] for file in (await self.get())["files"] for one in file["hunks"]}

    async def starts(self, editor: Neovim, turn: str = "turn-2") -> str:
        """Confirms as the editor that the prompt was typed, and reports that the agent began the run. Returns the
        prompt's text.
        """
        asked = await editor.asked()
        assert asked["pid"] == self.session.pid
        editor.line.send(type="typed", id=asked["id"])
        await self.begins(asked["text"], turn)
        return str(asked["text"])

    async def prompts(self) -> list[Message]:
        """The prompts in the history."""
        answer = await self.rig.does("get_messages", self.session.project, after_seq=0)
        return [one["message"] for one in answer["data"]["messages"] if one["direction"] == "client"]


async def changed(rig: SocketRig, pid: int = CLAUDE) -> Commented:
    """A session whose agent has changed two lines of the poem."""
    place = rig.folder / "one"
    if not place.exists():
        make_repository(place)
    at = Commented(rig, place, pid)
    await at.begins()
    at.replace("line 3\n", "LINE 3\n")
    at.replace("line 17\n", "LINE 17\n")
    await at.stops()
    return at


async def second_session(rig: SocketRig, pid: int = OTHER) -> Commented:
    """Another session in the same directory, which has done nothing yet."""
    at = Commented(rig, rig.folder / "one", pid)
    await at.session.reports("SessionStart", source="startup")
    return at


@contextlib.asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[SocketRig]:
    async with socket_rig(folder, Limits()) as rig:
        yield rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[SocketRig]:
    async with serving(tmp_path) as rig:
        yield rig


async def test_drafts_are_typed_as_one_prompt_and_answered(rig: SocketRig) -> None:
    at = await changed(rig)
    async with neovim(rig, CLAUDE) as editor:
        third = await at.write(3, "LINE 3\n")
        other = await at.write(17, "LINE 17\n", "Shorter.", suggestion="17")
        sending = asyncio.create_task(at.submit(request_id="submit-1"))
        assert await at.starts(editor) == TWO_COMMENTS
        assert (await sending)["data"] == {"run_id": "turn-2", "position": 0}
        assert await at.states() == {third: "sent", other: "sent"}
        assert [one["comment"]["state"] for one in rig.client.updates("review_commented")[-2:]] == ["sent", "sent"]
        at.replace("LINE 3\n", "Line three\n")
        at.session.writes(prompt(TWO_COMMENTS), said("Done."))
        await at.stops(last_assistant_message="Done.")
        assert await at.answers() == {"Line three\n": [third], "LINE 17\n": []}
        (recorded,) = await at.prompts()
        assert (recorded["message"]["prompt"], recorded["by"], recorded["run_id"]) == (TWO_COMMENTS, "phone", "turn-2")
        assert recorded["review"]["comments"] == [third, other]
        await at.comment(comment_id=third, resolved=True)
        assert await at.states() == {third: "resolved", other: "sent"}
        await at.comment(comment_id=third, resolved=False)
        assert await at.states() == {third: "sent", other: "sent"}


async def test_all_sessions_in_a_directory_share_the_comments(rig: SocketRig) -> None:
    one = await changed(rig)
    two = await second_session(rig)
    id = await one.write(3, "LINE 3\n")
    assert await two.states() == {id: "draft"}
    page = Client("page")
    rig.server.core.follow(["projects"], page)
    await two.comment(comment_id=id, text="Why?!")
    received = [one["project_id"] for one in page.of_type("update") if one["data"]["update_type"] == "review_commented"]
    assert sorted(received) == sorted([one.session.project, two.session.project])
    await two.comment(comment_id=id, text="Why so loud?")
    async with neovim(rig, OTHER) as editor:
        sending = asyncio.create_task(two.submit())
        assert "Why so loud?" in await two.starts(editor)
        await sending
    assert await one.states() == await two.states() == {id: "sent"}
    two.replace("LINE 3\n", "Line three\n")
    await two.stops()
    assert (await one.answers())["Line three\n"] == [id]
    await rig.does("project_delete", one.session.project)
    assert await two.states() == {id: "sent"}, "they belong to the directory"


@pytest.mark.thorough
async def test_a_prompt_that_the_editor_does_not_type_can_be_copied(rig: SocketRig) -> None:
    at = await changed(rig)
    ids = [await at.write(3, "LINE 3\n"), await at.write(17, "LINE 17\n", "Shorter.", suggestion="17")]
    async with neovim(rig, CLAUDE) as editor:
        sending = asyncio.create_task(at.not_sent(request_id="submit-1"))
        asked = await editor.asked()
        editor.line.send(type="untyped", id=asked["id"], reason="Somebody has started typing there.")
        error = await sending
        assert (error.text, (error.details or {})["prompt"]) == ("Somebody has started typing there.", TWO_COMMENTS)
        assert await at.states() == dict.fromkeys(ids, "draft")
        sending_again = asyncio.create_task(at.submit(request_id="submit-1"))
        await at.starts(editor)
        await sending_again
        assert await at.states() == dict.fromkeys(ids, "sent")


async def test_a_submission_that_would_be_a_command_is_refused(rig: SocketRig) -> None:
    at = await changed(rig)
    await at.write(3, "LINE 3\n")
    async with neovim(rig, CLAUDE):
        error = await at.not_sent(text="/clear")
        assert (error.code, error.field) == ("NOT_SUPPORTED", "data.text")
        assert "draft" in (await at.states()).values()


async def test_comments_cannot_be_sent_into_a_run_in_a_terminal(rig: SocketRig) -> None:
    at = await changed(rig)
    id = await at.write(3, "LINE 3\n")
    async with neovim(rig, CLAUDE):
        error = await at.not_sent(steer=True)
        assert (error.code, error.field) == ("NOT_SUPPORTED", "data.steer")
        assert await at.states() == {id: "draft"}


async def test_drafts_that_two_clients_submit_are_typed_once(rig: SocketRig) -> None:
    """The drafts are typed once even if they are submitted to two sessions, or twice with the same request id. A prompt
    that is being typed does not change.
    """
    one = await changed(rig)
    two = await second_session(rig)
    async with neovim(rig, CLAUDE, OTHER) as editor:
        id = await one.write(3, "LINE 3\n")
        drafts = (await one.get())["drafts"]
        first = asyncio.create_task(one.submit(drafts=drafts, request_id="submit-1"))
        asked = await editor.asked()
        again = asyncio.create_task(one.submit(drafts=drafts, request_id="submit-1"))
        other = asyncio.create_task(two.not_sent(drafts=drafts, request_id="submit-2"))
        late = asyncio.create_task(one.comment(comment_id=id, text="Not this"))
        editor.line.send(type="typed", id=asked["id"])
        await one.begins(asked["text"], "turn-2")
        assert (await first)["data"]["run_id"] == (await again)["data"]["run_id"] == "turn-2"
        error = await other
        assert (error.code, error.details) == ("COMMENT_GONE", {"run_id": "turn-2"})
        with pytest.raises(ClientError) as refused:
            await late
        assert refused.value.code == "COMMENT_GONE"
        assert await editor.line.receives_nothing()


async def test_only_one_of_two_simultaneous_submissions_is_sent(rig: SocketRig) -> None:
    one = await changed(rig)
    two = await second_session(rig)
    async with neovim(rig, CLAUDE, OTHER) as editor:
        await one.write(3, "LINE 3\n")
        drafts = (await one.get())["drafts"]
        both = asyncio.gather(one.submit(drafts=drafts), two.submit(drafts=drafts), return_exceptions=True)
        asked = await editor.asked()
        await one.get()  # requests read the files one after another, so the other submission has read them by now
        editor.line.send(type="typed", id=asked["id"])
        await (one if asked["pid"] == CLAUDE else two).begins(asked["text"], "turn-2")
        results = await both
        (sent,) = [result for result in results if isinstance(result, dict)]
        (error,) = [result for result in results if isinstance(result, ClientError)]
        assert sent["data"]["run_id"] == "turn-2"
        assert (error.code, error.details) == ("COMMENT_GONE", {"run_id": "turn-2"})
        assert await editor.line.receives_nothing()


async def test_drafts_and_sent_comments_survive_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as rig:
        at = await changed(rig)
        sent = await at.write(3, "LINE 3\n")
        drafts = (await at.get())["drafts"]
        async with neovim(rig, CLAUDE) as editor:
            sending = asyncio.create_task(at.submit(drafts=drafts, request_id="submit-1"))
            text = await at.starts(editor)
            await sending
            at.session.writes(prompt(text), said("Done."))
            await at.stops(last_assistant_message="Done.")
        draft = await at.write(17, "LINE 17\n")
    async with serving(tmp_path) as rig:
        at.session.at(rig)
        at.rig = rig
        assert await at.states() == {sent: "sent", draft: "draft"}
        again = await at.submit(drafts=drafts, request_id="submit-1")
        assert again["data"]["run_id"] == "turn-2", "the request is known, and nothing is typed"


async def test_a_prompt_that_began_while_no_server_ran_is_sent_once(tmp_path: Path) -> None:
    """The prompt was typed, and the server ended before the agent reported that it had begun."""
    async with serving(tmp_path) as rig:
        at = await changed(rig)
        id = await at.write(3, "LINE 3\n")
        drafts = (await at.get())["drafts"]
        async with neovim(rig, CLAUDE) as editor:
            sending = asyncio.create_task(at.not_sent(drafts=drafts, request_id="submit-1"))
            asked = await editor.asked()
            rig.server.core.terminal_sessions.find(at.session.project).prompts.close()  # type: ignore[union-attr]
            assert (await sending).code in ("EXECUTION_FAILED", "SHUTTING_DOWN")
    async with serving(tmp_path) as rig:
        at.session.at(rig)
        at.rig = rig
        assert await at.states() == {id: "draft"}, "nothing shows yet that the draft was sent"
        error = await at.not_sent(drafts=drafts, request_id="submit-1")
        assert (error.code, error.details) == ("EXECUTION_FAILED", None)
        at.session.turn = "turn-2"
        at.session.writes(prompt(asked["text"]))
        await at.may_write()
        assert await at.states() == {id: "sent"}
        assert (await at.submit(drafts=drafts, request_id="submit-1"))["data"]["run_id"] == "turn-2"
        assert [one["review"]["comments"] for one in await at.prompts()] == [[id]]


async def test_a_repeated_request_does_not_write_a_second_draft(rig: SocketRig) -> None:
    at = await changed(rig)
    given: Message = {"path": "poem.txt", "line": 3, "quote": "LINE 3\n", "text": "Why?", "request_id": "7"}
    answers = await asyncio.gather(*(at.comment(**given) for _ in range(3)))
    (id,) = await at.states()
    assert [answer["comment_id"] for answer in answers] == [id] * 3


async def test_a_draft_that_was_rewritten_is_not_sent_unseen(rig: SocketRig) -> None:
    """The new draft has the same words as the removed one that the user saw."""
    at = await changed(rig)
    given: Message = {"path": "poem.txt", "line": 3, "quote": "LINE 3\n", "text": "Why?", "request_id": "7"}
    id = (await at.comment(**given))["comment_id"]
    seen = (await at.get())["drafts"]
    await at.comment(comment_id=id, remove=True)
    await at.comment(**given)
    assert (await at.not_sent(drafts=seen)).code == "COMMENT_GONE"


async def test_a_comment_that_cannot_be_stored_is_refused(rig: SocketRig, monkeypatch: pytest.MonkeyPatch) -> None:
    at = await changed(rig)

    def fails(path: str, data: bytes, *, synced: bool = False) -> None:
        raise NotPrivate("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(shared_comments, "write_private", fails)
        with pytest.raises(NotPrivate):
            await at.write(3, "LINE 3\n")
    assert await at.states() == {}


async def test_damaged_comments_do_not_damage_the_review(tmp_path: Path) -> None:
    async with serving(tmp_path) as rig:
        at = await changed(rig)
        await at.write(3, "LINE 3\n")
        file = at.directory.folder / shared_comments.NAME
    damaged = file.read_text()[:-10]
    file.write_text(damaged)
    async with serving(tmp_path) as rig:
        at.session.at(rig)
        at.rig = rig
        assert await at.states() == {}
        (kept,) = file.parent.glob("comments.damaged-*")
        assert kept.read_text() == damaged
        assert await at.added() == ["LINE 3\n", "LINE 17\n"]
        await at.write(3, "LINE 3\n")
