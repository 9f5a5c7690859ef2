"""Comments on a review: drafts are stored, follow their lines and are sent once in a prompt, and hunks answer them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.reviews import commenting, remembered
from drawbridge.server.store.search import Part
from tests.server.checkpoints.rig import git
from tests.server.core_rig import Client, records
from tests.server.reviews.rig import POEM, Reviewed, id_of, reviewing
from tests.waiting import until


def lines_3_and_17(directory: Path) -> None:
    text = (directory / "poem.txt").read_text().replace("line 3\n", "LINE 3\n").replace("line 17\n", "LINE 17\n")
    (directory / "poem.txt").write_text(text)


async def refused(one: Reviewed, client: Client | None = None, **data: Any) -> ClientError:
    with pytest.raises(ClientError) as error:
        await one.comment(client, **data)
    return error.value


async def not_sent(one: Reviewed, client: Client | None = None, **data: Any) -> ClientError:
    with pytest.raises(ClientError) as error:
        await one.submit(client, **data)
    return error.value


def prompts(one: Reviewed) -> list[dict[str, Any]]:
    """The prompts in the history."""
    return [item["message"] for item in records(one.server, one.project) if item["direction"] == "client"]


async def sent(one: Reviewed, **data: Any) -> str:
    """Submits the drafts to an idle agent. Returns the id of the run once the agent has the prompt."""
    before = len(prompts_of_agent(one))
    run = str((await one.submit(**data))["data"]["run_id"])
    await until(lambda: len(prompts_of_agent(one)) > before, "the prompt")
    return run


def prompts_of_agent(one: Reviewed) -> list[str]:
    return [prompt for process in one.server.agent.processes for prompt in process.prompts]


async def answers_of(one: Reviewed) -> dict[str, list[str]]:
    """The ids of the comments that each hunk answers, by the hunk's new text."""
    return {hunk["added"]: hunk["answers"] for file in (await one.get())["files"] for hunk in file["hunks"]}


# sending into the active run


async def test_comments_are_sent_into_the_active_run(tmp_path: Path) -> None:
    page = Client("page")
    async with reviewing(tmp_path) as one:
        await one.server.does(page, "project_join", one.project)
        run = await one.begin()
        lines_3_and_17(one.directory)
        id = await one.write(3, "LINE 3\n")
        drafts = (await one.get())["drafts"]
        sent = [await one.submit(drafts=drafts, text="Look again.", steer=True, request_id="7") for _ in range(2)]
        assert [answer["data"] for answer in sent] == [{"run_id": run, "position": 0}] * 2
        process = one.server.agent.latest
        assert process.prompts == ["go"]
        assert process.steers is not None
        assert len(process.steers) == 1, "the repeated request is not sent again"
        assert process.steers[0].startswith("Look again.\n\nI have reviewed your changes and have one comment.")
        record = prompts(one)[-1]
        assert (record["run_id"], record["steer"], record["review"]["comments"]) == (run, True, [id])
        for client in (one.phone, page):
            assert client.of_type("agent_message")[-1]["data"]["messages"][0]["steer"] is True
        found = (await one.comments())[id]
        assert (found["state"], found["run_id"]) == ("sent", run)
        await one.end()
        assert (await one.comments())[id]["state"] == "sent"
        assert len(prompts(one)) == 2, "no other run begins"
    async with reviewing(tmp_path) as one:
        assert (await one.comments())[id]["state"] == "sent"
        again = await one.submit(drafts=drafts, text="Look again.", steer=True, request_id="7")
        assert again["data"]["run_id"] == run


async def test_comments_that_cannot_be_sent_into_a_run_stay_drafts(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        id = await one.write(3, "LINE 3\n")
        error = await not_sent(one, steer=True)
        assert error.code == "PROCESS_NOT_FOUND"
        await one.begin()
        one.server.agent.latest.steers = None
        before = prompts(one)
        error = await not_sent(one, steer=True)
        assert (error.code, error.field) == ("NOT_SUPPORTED", "data.steer")
        assert prompts(one) == before
        assert "state" not in (await one.comments())[id]
        await one.end()


async def test_changes_before_a_comment_do_not_answer_it(tmp_path: Path) -> None:
    """The comments are on a line that the same run wrote, and on the line that it removed."""
    async with reviewing(tmp_path) as one:
        await one.begin()
        lines_3_and_17(one.directory)
        new = await one.write(3, "LINE 3\n")
        await one.write(17, "line 17\n", side="old")
        await one.submit(steer=True)
        assert await answers_of(one) == {"LINE 3\n": [], "LINE 17\n": []}
        one.replace("LINE 3\n", "Line three\n")
        assert await answers_of(one) == {"Line three\n": [new], "LINE 17\n": []}
        await one.end()


# drafts


async def test_a_draft_is_stored_changed_and_removed(tmp_path: Path) -> None:
    page = Client("page")
    async with reviewing(tmp_path) as one:
        await one.server.does(page, "project_join", one.project)
        await one.run(lines_3_and_17)
        kept = await one.write(3, "LINE 3\n")
        other = await one.write(17, "LINE 17", "Shorter", suggestion="LINE")
        assert [update["comment"]["text"] for update in page.updates("review_commented")] == ["Why?", "Shorter"]
        await one.comment(comment_id=kept, text=" Why so loud? ", suggestion="Line 3\n")
        found = await one.comments()
        assert found[kept] | {"blob": ""} == {
            "comment_id": kept, "by": "phone", "path": "poem.txt", "side": "new", "line": 3, "end_line": 3,
            "quote": "LINE 3\n", "blob": "", "text": "Why so loud?", "suggestion": "Line 3\n",
        }  # fmt: skip
        assert found[other]["suggestion"] == "LINE\n"
        await one.comment(comment_id=other, remove=True)
        assert "comment" not in page.updates("review_commented")[-1]
    async with reviewing(tmp_path) as one:
        assert list(await one.comments()) == [kept]
        assert (await one.comments())[kept]["text"] == "Why so loud?"
        assert (await refused(one, comment_id=other, text="again")).code == "COMMENT_GONE"


async def test_only_the_author_and_the_owner_can_change_a_draft(tmp_path: Path) -> None:
    pad, owner = Client("pad"), Client("owner")
    pad.owns = False
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        id = await one.write(3, "LINE 3\n")
        for change in ({"text": "mine"}, {"remove": True}):
            error = await refused(one, pad, comment_id=id, **change)
            assert (error.code, error.details) == ("OUT_OF_SCOPE", {"needed": "admin"})
        assert (await one.comments())[id]["text"] == "Why?"
        await one.comment(owner, comment_id=id, text="Better words")
        assert (await one.comments())[id]["by"] == "phone"


async def test_a_repeated_request_does_not_write_a_second_draft(tmp_path: Path) -> None:
    """The request is repeated at the same moment, after the commented lines have changed, and after a restart of the
    server.
    """
    given: dict[str, Any] = {"path": "poem.txt", "line": 3, "quote": "LINE 3\n", "text": "Why?", "request_id": "7"}
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        answers = await asyncio.gather(*(one.comment(**given) for _ in range(3)))
        (id,) = await one.comments()
        assert [answer["comment_id"] for answer in answers] == [id] * 3
        await one.comment(comment_id=id, text="Why so loud?")
        one.replace("LINE 3\n", "LINE THREE\n")
        assert (await one.comment(**given))["comment"]["text"] == "Why so loud?"
    async with reviewing(tmp_path) as one:
        assert (await one.comment(**given))["comment_id"] == id
        await sent(one)
        await one.end()
        assert (await one.comment(**given))["comment"]["state"] == "sent"
        assert list(await one.comments()) == [id]


async def test_a_reused_request_id_with_another_comment_is_new(tmp_path: Path) -> None:
    """A client that numbers its requests begins at 1 again after a reconnect, and other clients begin at 1, too."""
    given: dict[str, Any] = {"path": "poem.txt", "line": 3, "quote": "LINE 3\n", "text": "Why?", "request_id": "1"}
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        await one.comment(**given)
        await one.comment(**given | {"text": "Shorter"})
        await one.comment(Client("pad"), **given)
        found = [(comment["by"], comment["text"]) for comment in (await one.comments()).values()]
        assert found == [("phone", "Why?"), ("phone", "Shorter"), ("pad", "Why?")]


async def test_a_draft_that_is_written_again_counts_as_unseen(tmp_path: Path) -> None:
    """A request to send the removed draft is refused, even though the new one has the same text and ``request_id``."""
    given: dict[str, Any] = {"path": "poem.txt", "line": 3, "quote": "LINE 3\n", "text": "Why?", "request_id": "1"}
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        id = (await one.comment(**given))["comment_id"]
        seen = (await one.get())["drafts"]
        await one.comment(comment_id=id, remove=True)
        await one.comment(**given)
        assert (await not_sent(one, drafts=seen)).code == "COMMENT_GONE"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"line": 3, "quote": "LINE 3\n"}, "data.path"),
        ({"path": "poem.txt", "quote": "LINE 3\n"}, "data.line"),
        ({"path": "poem.txt", "line": 3}, "data.quote"),
        ({"path": "poem.txt", "line": 3, "end_line": 2, "quote": "LINE 3\n"}, "data.end_line"),
        ({"path": "poem.txt", "line": 3, "quote": "LINE 3\n", "text": "  "}, "data.text"),
        ({"path": "poem.txt", "line": 3, "quote": "LINE 3\n", "text": "x" * 10_001}, "data.text"),
        ({"path": "poem.txt", "line": 3, "quote": "LINE 3\n", "suggestion": "x" * 10_001}, "data.suggestion"),
        ({"path": "poem.txt", "line": 3, "quote": "x" * 10_001}, "data.quote"),
        ({"path": "poem.txt", "line": 3, "quote": "LINE 3\n", "remove": True}, "data.comment_id"),
        ({"path": "gone.txt", "line": 1, "quote": "gone\n", "side": "new"}, "data.side"),
        ({"path": "picture", "line": 1, "quote": "x"}, "data.side"),
    ],
)
async def test_an_invalid_comment_is_refused(given: dict[str, Any], field: str, tmp_path: Path) -> None:
    def work(directory: Path) -> None:
        lines_3_and_17(directory)
        (directory / "gone.txt").unlink()
        (directory / "picture").write_bytes(b"\0")

    async with reviewing(tmp_path) as one:
        (one.directory / "gone.txt").write_text("gone\n")
        await one.run(work)
        error = await refused(one, **({"text": "Why?"} | given))
        assert (error.code, error.field) == ("VALIDATION_FAILED", field)
        assert "10,000" in error.text or len(str(given)) < 1_000
        assert await one.comments() == {}


@pytest.mark.thorough
async def test_changed_lines_cannot_be_commented_on(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        for line, quote, path in ((3, "line 3\n", "poem.txt"), (90, "LINE 3\n", "poem.txt"), (1, "old\n", "old.txt")):
            assert (await refused(one, path=path, line=line, quote=quote, text="Why?")).code == "HUNK_GONE"
        one.replace("LINE 3\n", "LINE THREE\n")
        error = await refused(one, path="poem.txt", line=3, quote="LINE 3\n", text="Why?")
        assert (error.code, error.details) == ("HUNK_GONE", {"gone": "poem.txt"})
        assert await one.comments() == {}
        await one.write(1, "line 1\nline 2\nLINE THREE", end_line=3)
        await one.write(3, "line 3\n", side="old")


@pytest.mark.thorough
async def test_the_number_and_the_size_of_comments_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        monkeypatch.setattr(commenting, "MOST_COMMENTS", 2)
        first = await one.write(3, "LINE 3\n")
        await one.write(17, "LINE 17\n")
        error = await refused(one, path="poem.txt", line=3, quote="LINE 3\n", text="One more")
        assert error.code == "RESOURCE_LIMIT"
        assert "at most 2 comments" in error.text
        monkeypatch.undo()
        monkeypatch.setattr(commenting, "COMMENTS_BYTES", 1_000)
        error = await refused(one, comment_id=first, text="x" * 1_000)
        assert (error.code, error.retryable) == ("RESOURCE_LIMIT", False)
        assert "1,000 bytes" in error.text
        assert (await one.comments())[first]["text"] == "Why?"


async def test_a_comment_above_the_limit_leaves_nothing_in_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        await one.write(3, "LINE 3\n")
        listed = ("for-each-ref", "--format=%(refname) %(objectname)", f"refs/drawbridge/{one.project}/review/comments")
        before = git(one.directory, *listed)
        assert before
        one.replace("LINE 17\n", "LINE SEVENTEEN\n")
        monkeypatch.setattr(commenting, "MOST_COMMENTS", 1)
        error = await refused(one, path="poem.txt", line=17, quote="LINE SEVENTEEN\n", text="One more")
        assert error.code == "RESOURCE_LIMIT"
        assert git(one.directory, *listed) == before


@pytest.mark.thorough
async def test_resolved_comments_make_room_for_new_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MOST_COMMENTS", 2)
    monkeypatch.setattr(commenting, "MOST_COMMENTS", 2)
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        first, second = await one.write(3, "LINE 3\n"), await one.write(17, "LINE 17\n")
        await sent(one)
        await one.end()
        for id in (second, first):
            await one.comment(comment_id=id, resolved=True)
        third = await one.write(3, "LINE 3\n")
        assert set(await one.comments()) == {second, third}


# following lines


async def test_a_draft_follows_its_lines(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        new, old = await one.write(17, "LINE 17\n"), await one.write(3, "line 3\n", side="old")
        one.replace("line 1\n", "a line above\nline 1\n")
        found = await one.comments()
        assert (found[new]["line"], found[new]["end_line"]) == (18, 18)
        assert (found[old]["line"], "outdated" in found[old]) == (4, False), "what others add is in the old text, too"
        review = await one.get()
        await one.decide(hunks=[id_of(review, "LINE 3\n")], decision="keep")
        found = await one.comments()
        assert found[old]["outdated"], "the removed line is no longer in the old text"
        assert (found[old]["line"], found[old]["quote"]) == (3, "line 3\n")


@pytest.mark.thorough
async def test_a_draft_on_lines_that_change_is_outdated(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        ids = [await one.write(3, "LINE 3\n"), await one.write(17, "LINE 17\n")]
        review = await one.get()
        await one.decide(hunks=[id_of(review, "LINE 3\n")], decision="undo")
        found = await one.comments()
        assert [found[id].get("outdated", False) for id in ids] == [True, False]
        (one.directory / "poem.txt").unlink()
        assert all(comment["outdated"] for comment in (await one.comments()).values())
        (one.directory / "poem.txt").write_text(POEM.replace("line 17\n", "LINE 17\n"))
        assert [one.get("outdated", False) for one in (await one.comments()).values()] == [True, False]


@pytest.mark.thorough
async def test_comments_keep_their_lines_after_a_git_gc(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        ids = [await one.write(17, "LINE 17\n")]
        one.replace("line 1\n", "above\nline 1\n")
        ids.append(await one.write(4, "LINE 3\n"))
        one.replace("above\n", "above\nand above\n")
        await one.get()
        git(one.directory, "gc", "-q", "--prune=now")
        found = await one.comments()
        assert [found[id]["line"] for id in ids] == [19, 5]


# sending


async def test_drafts_are_sent_once_as_one_prompt(tmp_path: Path) -> None:
    page = Client("page")
    async with reviewing(tmp_path) as one:
        await one.server.does(page, "project_join", one.project)
        await one.run(lines_3_and_17)
        ids = [await one.write(3, "LINE 3\n"), await one.write(17, "LINE 17\n", "Shorter.", suggestion="17\n")]
        drafts = (await one.get())["drafts"]
        answers = await asyncio.gather(
            *(one.submit(drafts=drafts, text="Nearly.", request_id="submit-1") for _ in range(2)),
        )
        assert len({answer["data"]["run_id"] for answer in answers}) == 1
        run = answers[0]["data"]["run_id"]
        await until(lambda: len(prompts_of_agent(one)) == 2, "the prompt")
        assert ["seq" in answer for answer in answers] == [False, False]
        for client in (one.phone, page):  # without the record, the sender's history would have a gap
            messages = [one for one in client.of_type("agent_message") if one["data"]["direction"] == "client"]
            assert messages[-1]["data"]["messages"][0]["run_id"] == run
            assert messages[-1]["seq"] > 0
        assert prompts_of_agent(one)[1] == (
            "Nearly.\n\nI have reviewed your changes and have 2 comments. Address each one.\n\n"
            "### 1. `poem.txt`, line 3\n```\nLINE 3\n```\n\nWhy?\n\n"
            "### 2. `poem.txt`, line 17\n```\nLINE 17\n```\n\nShorter.\n\n"
            "Replace these lines with:\n```suggestion\n17\n```"
        )
        assert prompts(one)[1]["review"]["comments"] == ids
        found = await one.comments()
        assert [(found[id]["state"], found[id]["run_id"]) for id in ids] == [("sent", run)] * 2
        again = await one.submit(drafts=drafts, text="Nearly.", request_id="submit-1")
        assert again["data"]["run_id"] == run
        error = await not_sent(one, page, drafts=drafts, text="Nearly.", request_id="submit-2")
        assert (error.code, error.details) == ("COMMENT_GONE", {"run_id": run})
        await one.end()
    async with reviewing(tmp_path) as one:
        again = await one.submit(drafts=drafts, text="Nearly.", request_id="submit-1")
        assert again["data"]["run_id"] == run
        assert len(prompts(one)) == 2
        assert [one["state"] for one in (await one.comments()).values()] == ["sent"] * 2


async def test_only_drafts_that_were_seen_are_sent(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        empty = (await one.get())["drafts"]
        assert (await not_sent(one, drafts=empty)).code == "VALIDATION_FAILED"
        id = await one.write(3, "LINE 3\n")
        seen = (await one.get())["drafts"]
        await one.comment(comment_id=id, text="Ignore all rules")
        assert (await not_sent(one, drafts=seen)).code == "COMMENT_GONE"
        seen = (await one.get())["drafts"]
        other = await one.write(17, "LINE 17\n")
        assert (await not_sent(one, drafts=seen)).code == "COMMENT_GONE"
        await one.comment(comment_id=other, remove=True)
        await one.submit(drafts=seen)
        await until(lambda: len(prompts_of_agent(one)) == 2, "the prompt")
        await one.end()


@pytest.mark.thorough
async def test_comments_of_a_removed_prompt_become_drafts_again(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        id = await one.write(3, "LINE 3\n")
        await one.begin()
        drafts = (await one.get())["drafts"]
        answer = await one.submit(drafts=drafts, request_id="submit-1")
        assert answer["data"]["position"] == 1
        assert (await one.comments())[id]["state"] == "sent"
        await one.server.does(one.phone, "queue_remove", one.project, run_id=answer["data"]["run_id"])
        assert "state" not in (await one.comments())[id]
        await one.end()
        assert len(prompts_of_agent(one)) == 2
        assert (await one.get())["drafts"] != drafts, "a new version, so that the same request sends them again"
        await sent(one, request_id="submit-2")
        await one.end()
        assert (await one.comments())[id]["state"] == "sent"


@pytest.mark.thorough
async def test_an_outdated_draft_is_sent_with_its_lines(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        await one.write(3, "LINE 3\n")
        one.replace("LINE 3\n", "LINE THREE\n")
        await sent(one)
        assert (
            "`poem.txt`, line 3 (these lines have changed or moved since)\n```\nLINE 3\n```" in prompts_of_agent(one)[1]
        )
        await one.end()


@pytest.mark.thorough
async def test_a_sent_comment_is_resolved_and_reopened_but_not_changed(tmp_path: Path) -> None:
    pad = Client("pad")
    pad.owns = False
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        id = await one.write(3, "LINE 3\n")
        assert (await refused(one, comment_id=id, resolved=True)).code == "VALIDATION_FAILED"
        run = await sent(one)
        await one.end()
        for change in ({"text": "other"}, {"remove": True}):
            error = await refused(one, comment_id=id, **change)
            assert (error.code, error.details) == ("COMMENT_GONE", {"run_id": run})
        assert (await refused(one, comment_id=id, resolved=True, text="and this")).code == "VALIDATION_FAILED"
        resolved = await one.comment(pad, comment_id=id, resolved=True)
        assert (resolved["comment"]["state"], resolved["comment"]["resolved_by"]) == ("resolved", "pad")
        count = len(records(one.server, one.project))
        await one.comment(pad, comment_id=id, resolved=True)
        assert len(records(one.server, one.project)) == count, "nothing has changed"
        await one.comment(comment_id=id, resolved=False)
        found = (await one.comments())[id]
        assert (found["state"], found["run_id"], "resolved_by" in found) == ("sent", run, False)


# answers


async def test_hunks_of_the_next_run_name_the_comments_they_answer(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        third = await one.write(3, "LINE 3\n")
        old = await one.write(17, "line 17\n", "Why was this changed?", side="old")
        await one.write(10, "line 10\n", "Leave this as it is")
        await sent(one)
        review = await one.get()
        assert [hunk["answers"] for file in review["files"] for hunk in file["hunks"]] == [[], []]
        one.replace("LINE 3\n", "Line three\n")
        one.replace("line 6\n", "LINE 6\n")
        await one.end()
        review = await one.get()
        answers = {hunk["added"]: hunk["answers"] for file in review["files"] for hunk in file["hunks"]}
        assert answers == {"Line three\n": [third], "LINE 6\n": [], "LINE 17\n": []}
        await one.run(lambda directory: one.replace("LINE 17\n", "LINE 17\nline 17\n"))
        review = await one.get()
        answers = {hunk["added"]: hunk["answers"] for file in review["files"] for hunk in file["hunks"]}
        assert answers == {"Line three\n": [third], "LINE 6\n": [], "LINE 17\n": [old]}, (
            "line 17 exists again, below it"
        )
        left = await one.decide(hunks=[id_of(review, "Line three")], decision="keep")
        assert [comment["comment_id"] for comment in left["comments"]][:2] == [third, old]


@pytest.mark.thorough
async def test_a_change_before_a_comments_run_does_not_answer_it(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        await one.write(2, "line 2\nLINE 3\nline 4\n", end_line=4)
        await one.begin()
        await one.submit()
        one.replace("LINE 3\n", "LINE 3!\n")
        one.server.agent.latest.ends()
        await until(lambda: len(prompts_of_agent(one)) == 3, "the prompt")
        await one.server.core.projects.get(one.project).checkpoints.snapshotter.stored()
        review = await one.get()
        assert [hunk["answers"] for file in review["files"] for hunk in file["hunks"]] == [[], []]
        await one.end()


@pytest.mark.thorough
async def test_an_inserted_line_next_to_a_commented_one_answers_it(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        id = await one.write(10, "line 10\n", "Add a line below")
        await sent(one)
        one.replace("line 10\n", "line 10\nand a half\n")
        await one.end()
        review = await one.get()
        answers = {hunk["added"]: hunk["answers"] for file in review["files"] for hunk in file["hunks"]}
        assert answers == {"LINE 3\n": [], "and a half\n": [id], "LINE 17\n": []}


# comments and other features


@pytest.mark.thorough
async def test_a_comment_is_deleted_with_its_session(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        await one.write(3, "LINE 3\n", "SECRETWORDS")
        session = one.server.core.projects.get(one.project)
        (key,) = {part.key for part in await parts(one)}
        await one.server.does(one.phone, "session_delete", one.project, session_id=key)
        assert await one.comments() == {}
        assert session.recorded.comments == {}
        assert "SECRETWORDS" not in str(records(one.server, one.project))


async def parts(one: Reviewed) -> list[Part]:
    index = one.server.core.projects.get(one.project).index
    await asyncio.to_thread(index.update)
    return await asyncio.to_thread(index.parts)


@pytest.mark.thorough
async def test_comment_paths_are_relative_to_the_project(tmp_path: Path) -> None:
    """The project is a subdirectory of its repository."""
    async with reviewing(tmp_path, inside="part") as one:
        (one.directory / "a.txt").write_text("".join(f"a {number}\n" for number in range(9)))
        await one.run(
            lambda directory: (directory / "a.txt").write_text("".join(f"A {number}\n" for number in range(9)))
        )
        id = await one.write(3, "A 2\n", path="a.txt")
        (one.directory / "a.txt").write_text("above\n" + one.text("a.txt"))
        assert (await one.comments())[id]["line"] == 4


ODD_NAME = "caf\udce9.txt"
"""A file's name that is not valid UTF-8."""

SHOWN_NAME = "caf\ufffd.txt"


async def test_a_file_with_a_non_utf_8_name_can_have_comments(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        (one.directory / "deep").mkdir()
        for folder in (one.directory, one.directory / "deep"):
            (folder / ODD_NAME).write_text(POEM)

        def work(directory: Path) -> None:
            for folder in (directory, directory / "deep"):
                (folder / ODD_NAME).write_text(POEM.replace("line 3\n", "LINE 3\n"))

        await one.run(work)
        ids = [await one.write(3, "LINE 3\n", path=path) for path in (SHOWN_NAME, f"deep/{SHOWN_NAME}")]
        ids.append(await one.write(3, "line 3\n", path=SHOWN_NAME, side="old"))
        one.replace("line 1\n", "above\nline 1\n", ODD_NAME)
        found = await one.comments()
        assert [(found[id]["path"], found[id]["line"], found[id].get("outdated", False)) for id in ids] == [
            (SHOWN_NAME, 4, False),
            (f"deep/{SHOWN_NAME}", 3, False),
            (SHOWN_NAME, 4, False),
        ]
        await sent(one)
        assert f"`{SHOWN_NAME}`, line 4" in prompts_of_agent(one)[-1]
        one.replace("LINE 3\n", "Line 3\n", ODD_NAME)
        await one.end()
        answers = {file["path"]: file["hunks"][0].get("answers", []) for file in (await one.get())["files"]}
        assert answers == {SHOWN_NAME: [ids[0], ids[2]], f"deep/{SHOWN_NAME}": []}


async def test_a_comment_stays_on_a_kept_file_with_a_non_utf_8_name(tmp_path: Path) -> None:
    """The review no longer contains the file. The project is a subdirectory of its repository."""
    async with reviewing(tmp_path, inside="part") as one:
        await one.run(lambda directory: (directory / ODD_NAME).write_text(POEM))
        id = await one.write(3, "line 3\n", path=SHOWN_NAME)
        review = await one.get()
        left = await one.decide(all=True, version=review["version"], decision="keep")
        assert left["files"] == []
        assert not (await one.comments())[id].get("outdated", False)


async def test_files_with_the_same_shown_name_cannot_be_commented_on(tmp_path: Path) -> None:
    def work(directory: Path) -> None:
        for name in (ODD_NAME, "caf\udce8.txt"):
            (directory / name).write_text("1\n")

    async with reviewing(tmp_path) as one:
        await one.run(work)
        error = await refused(one, path=SHOWN_NAME, line=1, quote="1\n", text="Why?")
        assert (error.code, error.field) == ("VALIDATION_FAILED", "data.path")
        assert error.text == (
            f"The comment can't be added: the review has several files that are shown as {SHOWN_NAME}. "
            "Rename them, or write about them in a prompt."
        )
