"""A user comments on lines of a review, sends the comments to the agent, and commits what was kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.auth.devices import Devices
from drawbridge.server.auth.scopes import Scope
from tests import programs
from tests.rigs.reviews import WORK, comments_of, decides, poem, prompts_of
from tests.server.checkpoints.rig import git
from tests.server.processes import Server

from .conftest import project_in, serving
from .rig import Browser, Person
from .test_frame import WIDER
from .test_looks import box
from .test_reviewing import (
    CURRENT,
    HUNK,
    address_of,
    ids,
    in_hunk,
    opens,
    project,
    readies_keys,
    repository,
    runs,
)

__all__ = ["project", "repository"]  # fixtures

REMARK = ".hunk .remark"
FIELD = ".hunk .writing"


def begins(person: Person, words: str, line: str) -> None:
    """Begins a comment on a line of the hunk that contains these words, with a click on the line's number."""
    person.clicks_until(in_hunk(words, f".comment[data-line='{line}']"), FIELD)


def adds(person: Person, text: str) -> None:
    """Writes the text of the new comment, and adds it."""
    person.fills(f"{FIELD} textarea", text)
    person.clicks(f"{FIELD} button:has-text('Add comment')")
    person.loses(FIELD)
    person.sees(f"{REMARK}.draft .remark-text", text)


@pytest.mark.thorough
async def test_comments_are_written_changed_removed_and_sent(browser: Browser, server: Server, project: str) -> None:
    with browser.person(address_of(server, project), width=1440, height=900) as person:
        opens(person, project)
        begins(person, "Line 5", "5")
        adds(person, "Why capitals?")
        person.sees(in_hunk("Line 5", ".remark.draft"), "Draft")
        person.until("document.activeElement.matches('.comment[data-line=\"5\"]')")
        begins(person, "Line 30", "−30")
        adds(person, "This was better.")
        begins(person, "def open_bridge", "1")
        adds(person, "Not this one.")
        person.clicks(in_hunk("def open_bridge", ".remark button:has-text('Remove')"))
        person.clicks("dialog footer .no")
        person.loses(REMARK, "Not this one.")
        person.clicks(in_hunk("Line 5", ".remark button:has-text('Edit')"))
        person.fills(f"{FIELD} textarea", "Why these capitals?")
        person.clicks(f"{FIELD} button:has-text('Save')")
        person.sees(f"{REMARK} .remark-text", "Why these capitals?")
        person.clicks(".review-bar button:has-text('Send 2 comments')")
        person.sees(".review .news", "Sent 2 comments.")
        person.loses(f"{REMARK}.draft")
        person.sees(f"{REMARK}.sent", "Why these capitals?")
        person.goes_to(f"#/p/{project}")
        person.sees(".prompt", "I have reviewed your changes and have 2 comments.")
        person.until("document.querySelectorAll('.finished').length === 2")
        assert person.complaints() == []
    (prompt,) = await prompts_of(server, project)
    assert "I have reviewed your changes and have 2 comments." in prompt
    assert "`poem.txt`, line 5\n```\nLINE 5\n```\n\nWhy these capitals?" in prompt
    assert "`poem.txt`, line 30 before your changes\n```\nline 30\n```\n\nThis was better." in prompt
    assert "Not this one." not in prompt


WORKING = [
    {"type": "system", "subtype": "init", "capabilities": ["interrupt_cancel_queued_v1"]},
    {"type": "system", "subtype": "session_state_changed", "state": "running"},
    {"hold": True},
]
"""What an agent reports that accepts messages during its run. The run ends when a person interrupts it."""


async def test_comments_are_added_to_the_current_run(browser: Browser, server: Server, project: str) -> None:
    async with server.client() as owner:
        with browser.person(address_of(server, project), width=1440, height=900) as person:
            opens(person, project)
            begins(person, "Line 5", "5")
            adds(person, "Why capitals?")
            person.sees(".review-bar button", "Send 1 comment")
            assert not person("visible", css=".review-bar button:has-text('Add to the current run')")
            run = (await owner.ask("execute", {"prompt": f"/emit {json.dumps(WORKING)}"}, project))["data"]["run_id"]
            person.sees(".review-bar button", "Queue 1 comment")
            summary, decisions, hint, sends = (
                box(person, f".review-bar {css}") for css in ("> p", "> .acts:has(.no)", "> .about-all", ".sends .acts")
            )
            assert decisions["top"] < summary["bottom"] <= hint["top"], "the decisions are in the first line"
            assert sends["top"] < (hint["top"] + hint["bottom"]) / 2 < sends["bottom"], (
                "the two buttons are beside the hint"
            )
            person.clicks(".review-bar button:has-text('Add to the current run')")
            person.sees(".review .news", "Added 1 comment to the current run.")
            person.sees(f"{REMARK}.sent", "Why capitals?")
            assert person.complaints() == []
        (comment,) = await comments_of(server, project)
        assert (comment["state"], comment["run_id"]) == ("sent", run)
        await owner.ask("agent_interrupt", {}, project)


@pytest.mark.thorough
async def test_a_comment_can_be_about_a_range_of_lines(browser: Browser, server: Server, project: str) -> None:
    with browser.person(address_of(server, project), width=1440, height=1000) as person:
        opens(person, project)
        person.sees(in_hunk("Line 5", ".line"), "line 2")
        begins(person, "Line 5", "4")
        person.fills(f"{FIELD} textarea", "These three.")
        person("select", css=f"{FIELD} select", value="6")
        person.sees("fieldset[aria-label='Comment on lines 4–6']")
        person.until("document.activeElement.matches('.writing select')")
        assert person("value", css=f"{FIELD} textarea") == "These three."
        assert len(person.reads(".hunk .marked")) >= 3, "the lines are marked"
        person.clicks(f"{FIELD} button:has-text('Add comment')")
        person.sees(f"{REMARK}.draft", "lines 4–6")
        begins(person, "def open_bridge", "2")
        person.runs(
            "document.querySelector(`[aria-label='src/new.py'] .comment[data-line='1']`)"
            ".dispatchEvent(new MouseEvent('click', { bubbles: true, shiftKey: true }))"
        )
        person.sees("fieldset[aria-label='Comment on lines 1–2']")
    (comment,) = await comments_of(server, project)
    assert (comment["line"], comment["end_line"], comment["quote"]) == (4, 6, "line 4\nLINE 5\nline 6\n")


@pytest.mark.thorough
async def test_a_suggestion_starts_with_the_commented_lines(browser: Browser, server: Server, project: str) -> None:
    with browser.person(address_of(server, project), width=1280, height=1000) as person:
        opens(person, project)
        begins(person, "Line 5", "5")
        person.clicks(f"{FIELD} button:has-text('Suggest a change')")
        person.until("document.activeElement.matches('.growing textarea')")
        assert person("value", css=f"{FIELD} .growing textarea") == "LINE 5"
        assert person.runs("document.querySelector('.writing .yes').disabled"), "it says nothing yet"
        person.fills(f"{FIELD} .growing textarea", "Line five")
        person.clicks(f"{FIELD} button:has-text('Add comment')")
        person.sees(f"{REMARK}.draft", "Suggested instead:")
        person.sees(f"{REMARK}.draft .remark-lines", "Line five")
        person.clicks(".review-bar button:has-text('Send 1 comment')")
        person.sees(f"{REMARK}.sent")
    (prompt,) = await prompts_of(server, project)
    assert "Replace these lines with:\n```suggestion\nLine five\n```" in prompt


@pytest.mark.thorough
async def test_unfinished_text_survives_a_reload_and_an_update(browser: Browser, server: Server, project: str) -> None:
    with browser.person(address_of(server, project), width=1280, height=1000) as person:
        opens(person, project)
        begins(person, "Line 5", "5")
        adds(person, "A draft.")
        begins(person, "Line 30", "30")
        person.fills(f"{FIELD} textarea", "Half ty")
        deleted, first, *_ = await ids(server, project)
        await decides(server, project, hunks=[deleted], decision="keep")
        person.loses(".review-files", "old.txt")
        assert person.runs("document.activeElement.matches('.writing textarea')")
        person("type", text="ped")
        person("reload")
        person.sees(f"{REMARK}.draft", "A draft.")
        person.sees(in_hunk("Line 30", ".writing"))
        assert person("value", css=f"{FIELD} textarea") == "Half typed"
        # The commented hunk moves up on the screen, and the comment stays with it.
        await decides(server, project, hunks=[first], decision="undo")
        person.loses(".hunk h4:has-text('Line 5')")
        person.clicks(f"{FIELD} button:has-text('Add comment')")
        person.sees(in_hunk("Line 30", ".remark.draft"), "Half typed")
    texts = {one["text"]: one["line"] for one in await comments_of(server, project)}
    assert texts["Half typed"] == 30


@pytest.mark.slow
async def test_a_decision_elsewhere_keeps_a_half_written_comment(
    browser: Browser, server: Server, project: str
) -> None:
    with browser.person(address_of(server, project), width=1280, height=1000) as person:
        opens(person, project)
        begins(person, "Line 30", "30")
        person.fills(f"{FIELD} textarea", "Mine")
        second = (await ids(server, project))[2]
        await decides(server, project, hunks=[second], decision="keep")
        person.sees(".hunk[data-gone] .notice", "What you wrote is kept here until you close this.")
        assert person("value", css=f"{FIELD} textarea") == "Mine"
        assert person.runs("document.activeElement.matches('.writing textarea')")
        person.clicks(f"{FIELD} button:has-text('Add comment')")
        person.sees(".hunk .remark.draft", "Mine")


@pytest.mark.thorough
async def test_lines_that_have_changed_cannot_be_commented_on(
    browser: Browser, server: Server, project: str, repository: Path
) -> None:
    with browser.person(address_of(server, project), width=1280, height=1000) as person:
        opens(person, project)
        begins(person, "Line 5", "5")
        person.fills(f"{FIELD} textarea", "About this line")
        (repository / "poem.txt").write_text(poem(line_5="another", line_30="LINE 30"))
        person.clicks(f"{FIELD} button:has-text('Add comment')")
        person.sees(f"{FIELD} .notice", "These lines have changed or are no longer in the review")
        assert person("value", css=f"{FIELD} textarea") == "About this line"
        person.clicks(f"{FIELD} button:has-text('Discard')")
        person.loses(FIELD)
    assert await comments_of(server, project) == []


@pytest.mark.thorough
async def test_comments_are_sent_once(browser: Browser, server: Server, project: str) -> None:
    with browser.person(address_of(server, project), width=1440, height=900) as person:
        opens(person, project)
        begins(person, "Line 5", "5")
        adds(person, "Once.")
        person.runs(
            "(() => { const button = document.querySelector('.review-bar .beside .yes');"
            " for (let n = 0; n < 5; n++) button.click() })()"
        )
        person.sees(f"{REMARK}.sent", "Once.")
        begins(person, "Line 30", "30")
        adds(person, "After a break.")
        person.sees(".review-bar button:has-text('Send 1 comment')")
        person("offline", on=True)
        person.clicks(".review-bar button:has-text('Send 1 comment')")
        person.sees(".review-bar button:has-text('Sending')")
        person("offline", on=False)
        person.sees(in_hunk("Line 30", ".remark.sent"), "After a break.")
    prompts = await prompts_of(server, project)
    assert [("Once." in one, "After a break." in one) for one in prompts] == [(True, False), (False, True)]


@pytest.mark.thorough
async def test_a_comment_without_a_connection_is_kept_and_added_once(
    browser: Browser, server: Server, project: str
) -> None:
    with browser.person(address_of(server, project), width=1440, height=900) as person:
        opens(person, project)
        begins(person, "Line 5", "5")
        person.fills(f"{FIELD} textarea", "Not lost.")
        person("offline", on=True)
        person.clicks(f"{FIELD} button:has-text('Add comment')")
        person("offline", on=False)
        person.until("!document.querySelector('.writing') || document.querySelector('.writing .notice')")
        if person("visible", css=FIELD):
            assert person("value", css=f"{FIELD} textarea") == "Not lost."
            person.until(
                "document.querySelector('.remark.draft') || (document.querySelector('.writing .yes').click(), false)"
            )
        person.sees(f"{REMARK}.draft", "Not lost.")
    assert [one["text"] for one in await comments_of(server, project)] == ["Not lost."]


@pytest.mark.slow
async def test_comments_are_not_sent_while_another_is_being_written(
    browser: Browser, server: Server, project: str
) -> None:
    with browser.person(address_of(server, project), width=1440, height=900) as person:
        opens(person, project)
        begins(person, "Line 5", "5")
        adds(person, "One.")
        begins(person, "Line 30", "30")
        person.fills(f"{FIELD} textarea", "Two, not added.")
        person.clicks(".review-bar button:has-text('Send 1 comment')")
        person.sees(".review-bar .notice", "First save or discard the comment that you are writing.")
        assert await prompts_of(server, project) == []
        person.clicks(f"{FIELD} button:has-text('Discard')")
        person.loses(".review-bar .notice")
        person.clicks(".review-bar button:has-text('Send 1 comment')")
        person.sees(f"{REMARK}.sent")


async def is_answered(server: Server, project: str) -> None:
    """Sends a comment on line 5, and lets a later run change that line."""
    async with server.client() as client:
        about = {"path": "poem.txt", "line": 5, "quote": "LINE 5\n", "text": "Why capitals?"}
        await client.ask("review_comment", about, project)
        drafts = (await client.ask("review_get", project_id=project))["data"]["drafts"]
        await client.ask("project_join", project_id=project)
        await client.ask("review_submit", {"drafts": drafts}, project)
        await client.receive("update", "run_finished")
    await runs(server, project, {"poem.txt": poem(line_5="Line five", line_30="LINE 30")})


@pytest.mark.thorough
async def test_answers_and_comments_link_to_each_other(browser: Browser, server: Server, project: str) -> None:
    await is_answered(server, project)
    with browser.person(address_of(server, project), width=1440, height=900) as person:
        opens(person, project)
        person.sees(in_hunk("Line 5", ".remark.sent"), "Outdated")
        person.sees(in_hunk("Line 5", ".remark .remark-lines"), "LINE 5")
        person.clicks(in_hunk("Line 5", ".answering button:has-text('Why capitals?')"))
        person.sees("dialog .remark", "Why capitals?")
        person.clicks("dialog .remark button:has-text('Line 5')")
        person.loses("dialog")
        person.sees(f"{CURRENT} h4", "Line 5")
        person.clicks(in_hunk("Line 5", ".remark button:has-text('Resolve')"))
        person.sees(in_hunk("Line 5", "details.resolved summary"), "Why capitals?")
        assert (await comments_of(server, project))[0]["state"] == "resolved"
        person.clicks(in_hunk("Line 5", "details.resolved summary"))
        person.clicks(in_hunk("Line 5", ".remark button:has-text('Reopen')"))
        person.sees(in_hunk("Line 5", ".remark.sent"))


@pytest.mark.slow
async def test_comments_can_be_read_after_everything_is_decided(browser: Browser, server: Server, project: str) -> None:
    await is_answered(server, project)
    with browser.person(address_of(server, project), width=1280, height=1800) as person:
        opens(person, project)
        person.clicks(".review-bar button:has-text('Keep all')")
        person.sees(".empty", "Nothing to review")
        person.clicks(".empty button:has-text('1 comment')")
        person.sees("dialog .remark", "Why capitals?")
        person.presses("Escape")
        person.loses("dialog")
        person.until("document.activeElement.matches('.empty .comments')")


@pytest.mark.slow_for("approve")
@pytest.mark.thorough
@pytest.mark.parametrize("scope", ["view", "approve"])
async def test_a_scope_limits_what_can_be_done_with_comments(
    browser: Browser, own_server: Server, repository: Path, scope: Scope
) -> None:
    project = await project_in(own_server, repository)
    await runs(own_server, project, WORK)
    async with own_server.client() as client:
        about = {"path": "poem.txt", "line": 5, "quote": "LINE 5\n", "text": "By the owner."}
        await client.ask("review_comment", about, project)
    token = Devices(own_server.data).add("the pad", scope)[1]
    with browser.person(address_of(own_server, project, token), width=1440, height=900) as person:
        opens(person, project)
        person.sees(f"{REMARK}.draft", "By the owner.")
        assert person.reads(f"{REMARK} button") == [], "only its author changes a comment"
        assert not person("visible", css=".review-bar button:has-text('Send')")
        if scope == "view":
            assert person.runs("document.querySelectorAll('.hunk .comment').length") == 0
            return
        begins(person, "Line 30", "30")
        adds(person, "By the pad.")
        person.sees(".review-bar .hint", "This device can’t send comments. Use a device that can start runs.")


@pytest.mark.thorough
async def test_two_users_comment_on_one_review(browser: Browser, server: Server, project: str) -> None:
    """The web UI shows what the other user writes, removes and sends."""
    with browser.person(address_of(server, project), width=1440, height=900) as person:
        opens(person, project)
        begins(person, "Line 5", "5")
        adds(person, "Mine.")
        async with server.client() as client:
            about = {"path": "poem.txt", "line": 30, "quote": "LINE 30\n", "text": "Theirs."}
            written = await client.ask("review_comment", about, project)
            person.sees(in_hunk("Line 30", ".remark.draft"), "Theirs.")
            person.sees(".review-bar button:has-text('Send 2 comments')")
            id = written["data"]["data"]["comment_id"]
            await client.ask("review_comment", {"comment_id": id, "remove": True}, project)
            person.loses(REMARK, "Theirs.")
            drafts = (await client.ask("review_get", project_id=project))["data"]["drafts"]
            await client.ask("review_submit", {"drafts": drafts}, project)
        person.sees(f"{REMARK}.sent", "Mine.")
        person.loses(".review-bar button:has-text('Send')")


@pytest.mark.slow_for("320-640", "844-390")
@pytest.mark.thorough
@pytest.mark.parametrize(("width", "height"), [(390, 844), (320, 640), (844, 390)])
async def test_a_phone_writes_and_sends_a_comment(
    browser: Browser, server: Server, project: str, width: int, height: int
) -> None:
    with browser.person(address_of(server, project), width=width, height=height) as person:
        opens(person, project)
        person.clicks("button[aria-label='Next change']")
        person.sees(".hunk h4", "Line 5")
        begins(person, "Line 5", "5")
        assert person.runs(WIDER) == []
        adds(person, "From a phone.")
        assert len(person.reads(HUNK)) == 1
        assert person.runs(WIDER) == []
        person.clicks(".pager .comments")
        person.sees("dialog .remark.draft", "From a phone.")
        assert person.runs(WIDER) == []
        person.clicks("dialog button:has-text('Send 1 comment')")
        person.sees("dialog .remark.sent")
        person.presses("Escape")
        person.sees(f"{REMARK}.sent", "From a phone.")
        assert person.complaints() == []


@pytest.mark.thorough
async def test_a_comment_can_be_written_using_only_the_keyboard(browser: Browser, server: Server, project: str) -> None:
    with browser.person(address_of(server, project), width=1440, height=900) as person:
        opens(person, project)
        person.presses("j")
        person.sees(f"{KEYED_LINE_5}")
        person.presses("c")
        person.until("document.activeElement.matches('.writing textarea')")
        person("type", text="j and k and u are letters here.")
        person.presses("Escape")
        person.until("document.activeElement.matches('.comment[data-line=\"5\"]')")
        person.presses("Enter")
        person.until("document.activeElement.matches('.writing textarea')")
        person.presses("Control+Enter")
        person.sees(f"{REMARK}.draft", "j and k and u are letters here.")
        person.until("document.activeElement.matches('.comment[data-line=\"5\"]')")
        person.presses("ArrowDown")
        person.until("document.activeElement.matches('.comment[data-line=\"6\"]')")
        person.runs("document.querySelector('.review-bar .beside .yes').focus()")
        person.presses("Enter")
        person.sees(f"{REMARK}.sent")
        person.until("document.activeElement.matches('button.comments')")
    assert len(await prompts_of(server, project)) == 1


KEYED_LINE_5 = ".hunk.keyed h4:has-text('Line 5')"

HOSTILE = "<img src=x onerror=window.hurt=1> \u202e gnp \x1b[31m {{hurt}} " + "w" * 3000


@pytest.mark.thorough
async def test_hostile_comments_are_shown_as_plain_text(browser: Browser, server: Server, repository: Path) -> None:
    project = await project_in(server, repository)
    await runs(server, project, {"constructor": f"{HOSTILE}\n"})
    async with server.client() as client:
        about = {"path": "constructor", "line": 1, "quote": f"{HOSTILE}\n", "text": HOSTILE, "suggestion": HOSTILE}
        answer = await client.ask("review_comment", about, project)
        assert answer["type"] == "update", answer
    for width in (1280, 280):
        with browser.person(address_of(server, project), width=width, height=800) as person:
            opens(person, project)
            person.sees(REMARK, "<img src=x onerror")
            assert person.runs(WIDER) == []
            person.clicks("button.comments")
            person.sees("dialog .remark")
            assert person.runs(WIDER) == []
            shown = person.runs("document.body.innerText")
            assert not set(shown) & set("\u202e\x1b")
            assert person.runs("document.querySelectorAll('.remark :is(img, script)').length") == 0
            assert person.runs("window.hurt") is None
            assert person.complaints() == []


@pytest.mark.slow_for("1440-900")
@pytest.mark.thorough
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
async def test_axe_finds_nothing_in_comments_and_commits(
    browser: Browser, committing: Server, repository: Path, width: int, height: int
) -> None:
    project = await project_in(committing, repository)
    await runs(committing, project, WORK)
    await is_answered(committing, project)
    await decides(committing, project, hunks=(await ids(committing, project))[:1], decision="keep")
    address = address_of(committing, project)
    with browser.person(address, width=width, height=height) as person:
        opens(person, project)
        person.sees(REMARK)
        begins(person, "Line 5", "5")
        person.clicks(f"{FIELD} button:has-text('Suggest a change')")
        assert person("axe", file=str(programs.axe())) == []
        person.clicks("button.comments")
        person.sees("dialog .remark")
        assert person("axe", file=str(programs.axe())) == []
        person.presses("Escape")
        person.loses("dialog")
        if width < 500:
            person.clicks(".pager button:has-text('Files')")
        person.clicks("button:has-text('Commit…')")
        person.sees("dialog form")
        assert person("axe", file=str(programs.axe())) == []


@pytest.mark.slow_for("1001-700", "2560-1200", "768-1024")
@pytest.mark.thorough
@pytest.mark.parametrize(("width", "height"), [(280, 653), (768, 1024), (1001, 700), (2560, 1200)])
async def test_comments_fit_every_screen_width(
    browser: Browser, server: Server, project: str, width: int, height: int
) -> None:
    await is_answered(server, project)
    with browser.person(address_of(server, project), width=width, height=height) as person:
        opens(person, project)
        person.presses("j")
        person.sees(in_hunk("Line 5", ".remark"))
        begins(person, "Line 5", "5")
        person.clicks(f"{FIELD} button:has-text('Suggest a change')")
        assert person.runs(WIDER) == []
        person.clicks("button.comments")
        person.sees("dialog .remark")
        assert person.runs(WIDER) == []


# Commits


@pytest.fixture
async def committing(browser: Browser, tmp_path: Path, directory: Path) -> Any:
    """A server that allows commits."""
    options = ("--no-tls", "--allow", directory.parent, "--allow-commit")
    async with serving(tmp_path / "data", *options) as server:
        yield server


async def is_kept(server: Server, repository: Path) -> str:
    """Creates a project with a review in which one of two changes to the poem and a new file were kept. Returns the
    project's id.
    """
    git(repository, "config", "user.name", "Ada")
    git(repository, "config", "user.email", "ada@example.org")
    project = await project_in(server, repository)
    await runs(server, project, WORK)
    _, first, _, fresh = await ids(server, project)
    await decides(server, project, hunks=[first, fresh], decision="keep")
    return project


def opens_commit(person: Person, project: str) -> None:
    opens(person, project)
    person.clicks(".review-bar button:has-text('Commit…')")
    person.sees("dialog form")


@pytest.mark.slow
async def test_kept_changes_are_committed(browser: Browser, committing: Server, repository: Path) -> None:
    project = await is_kept(committing, repository)
    with browser.person(address_of(committing, project), width=1280, height=900) as person:
        opens_commit(person, project)
        assert person.reads("dialog li code") == ["poem.txt", "src/new.py"]
        person.until("document.querySelector('dialog textarea').value.startsWith('/write')")
        person.fills("dialog textarea", "Capitals\n\nOnly in line 5.")
        person.clicks("dialog li:has-text('src/new.py') input")
        person.clicks("dialog button:has-text('Commit 1 file')")
        person.sees("dialog [role=status]", "Committed 1 file on")
        person.sees("dialog .remark-lines", "Capitals")
        person.clicks("dialog footer button:has-text('Close')")
        person.loses("dialog")
        person.until("document.activeElement.matches('button') && document.activeElement.innerText.includes('Commit')")
        person.clicks(".review-bar button:has-text('Commit…')")
        person.loses("dialog li code:has-text('poem.txt')")
        assert person.reads("dialog li code") == ["src/new.py"]
        person.fills("dialog textarea", "A bridge")
        person.clicks("dialog label:has-text('A new branch') input")
        person.fills("dialog input[type=text]", "bridge")
        person.presses("Enter")
        person.sees("dialog [role=status]", "Committed 1 file on the new branch bridge")
        person.clicks("dialog footer button:has-text('Close')")
        person.loses("button:has-text('Commit…')")
        assert person.complaints() == []
    log = git(repository, "log", "--format=%s|%an|%b", "-2").split()
    assert " ".join(log) == "A bridge|Ada| Capitals|Ada|Only in line 5."
    assert git(repository, "show", "HEAD~1:poem.txt") == poem(line_5="LINE 5")
    assert git(repository, "branch", "--show-current").strip() == "bridge"


@pytest.mark.slow
async def test_the_commit_dialog_is_reachable_after_keeping_everything(
    browser: Browser, committing: Server, repository: Path
) -> None:
    project = await is_kept(committing, repository)
    with browser.person(address_of(committing, project), width=1280, height=1800) as person:
        person.clicks(".to-review:has-text('Review')")
        person.until(f"document.querySelectorAll({json.dumps(HUNK)}).length === 2")
        readies_keys(person)
        person.clicks(".review-bar button:has-text('Keep all')")
        person.sees(".empty button", "Commit…")
        person.clicks(".empty a")
        person.sees(".to-review", "Commit 3 files")
        person("reload")
        person.clicks(".to-review:has-text('Commit 3 files')")
        person.clicks(".empty button:has-text('Commit…')")
        person.sees("dialog form")
        async with committing.client() as client:
            answer = await client.ask("review_commit", {"message": "Capitals"}, project)
            assert answer["type"] == "update", answer
        person.presses("Escape")
        person.loses("dialog")
        person.clicks(".empty a")
        person.sees("#prompt")
        person.loses(".to-review")
        assert person.complaints() == []


@pytest.mark.slow
async def test_the_commit_link_updates_after_other_users_actions(
    browser: Browser, committing: Server, repository: Path
) -> None:
    """Somebody else keeps the remaining changes, and then commits everything that was kept."""
    project = await is_kept(committing, repository)
    with browser.person(address_of(committing, project), width=1280, height=900) as person:
        person.sees(".to-review", "Review 2 files")
        await decides(committing, project, hunks=await ids(committing, project), decision="keep")
        person.sees(".to-review", "Commit 3 files")
        async with committing.client() as client:
            answer = await client.ask("review_commit", {"message": "Capitals"}, project)
            assert answer["type"] == "update", answer
        person.loses(".to-review")


@pytest.mark.slow
async def test_comments_are_reachable_in_a_review_without_changes(
    browser: Browser, server: Server, project: str
) -> None:
    await is_answered(server, project)
    async with server.client() as client:
        version = (await client.ask("review_get", project_id=project))["data"]["version"]
    await decides(server, project, all=True, version=version, decision="keep")
    with browser.person(address_of(server, project), width=1280, height=900) as person:
        person.sees("h2", "blog")
        person.clicks("button[aria-label='Session menu']")
        person.clicks("[role=menuitem]:has-text('Review')")
        person.sees(".empty button", "1 comment")
        person.clicks(".project-head .back")
        person.sees("#prompt")
        person.presses("Control+k")
        person.fills(".palette input", "review changes")
        person.presses("Enter")
        person.sees(".empty button", "1 comment")


@pytest.mark.slow
async def test_a_commit_that_a_hook_refuses_keeps_the_message(
    browser: Browser, committing: Server, repository: Path
) -> None:
    project = await is_kept(committing, repository)
    hook = repository / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nprintf '\\033[31mNo capitals\\033[0m <b>please</b>\\n'\nexit 1\n")
    hook.chmod(0o755)
    before = git(repository, "rev-parse", "HEAD")
    with browser.person(address_of(committing, project), width=1280, height=900) as person:
        opens_commit(person, project)
        person.fills("dialog textarea", "Capitals")
        person.clicks("dialog button:has-text('Commit 2 files')")
        person.sees("dialog .notice", "The commit failed: git or one of its hooks refused it, or it took too long.")
        person.sees("dialog .remark-lines", "No capitals <b>please</b>")
        assert person("value", css="dialog textarea") == "Capitals"
        assert git(repository, "rev-parse", "HEAD") == before
        person.presses("Escape")
        person.loses("dialog")
        person.clicks(".review-bar button:has-text('Commit…')")
        assert person("value", css="dialog textarea") == "Capitals"
        hook.unlink()
        person.clicks("dialog label:has-text('A new branch') input")
        person.fills("dialog input[type=text]", "not..valid")
        person.clicks("dialog button:has-text('Commit 2 files')")
        person.sees("dialog .notice", "This is not a valid branch name.")
        person.clicks("dialog label:has-text('The current branch') input")
        person.clicks("dialog button:has-text('Commit 2 files')")
        person.sees("dialog [role=status]", "Committed 2 files")
    assert git(repository, "rev-parse", "HEAD~1") == before


@pytest.mark.thorough
async def test_commits_are_offered_only_where_they_are_allowed(
    browser: Browser, own_server: Server, repository: Path
) -> None:
    project = await is_kept(own_server, repository)
    async with own_server.client() as client:
        assert "review_commit" not in (await client.ask("hello"))["data"]["features"]
    with browser.person(address_of(own_server, project), width=1280, height=900) as person:
        opens(person, project)
        assert not person("visible", css="button:has-text('Commit…')")


@pytest.mark.slow
async def test_a_device_without_the_admin_scope_cannot_commit(
    browser: Browser, committing: Server, repository: Path
) -> None:
    project = await is_kept(committing, repository)
    token = Devices(committing.data).add("the phone", "run")[1]
    with browser.person(address_of(committing, project, token), width=1280, height=900) as person:
        opens(person, project)
        assert not person("visible", css="button:has-text('Commit…')")
