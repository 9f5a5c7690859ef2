"""In the web UI, a user decides on what runs changed: hunk by hunk, by file, and all at once."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from drawbridge.server.auth.devices import Devices
from drawbridge.server.auth.scopes import Scope
from tests import programs
from tests.rigs.reviews import MISSING, POEM, WORK, decides, make_repository, misses_the_first_checkpoint, poem
from tests.server.checkpoints.rig import git
from tests.server.processes import Server

from .conftest import page_of, project_in
from .rig import Browser, Person
from .test_frame import WIDER
from .test_looks import box

HUNK = ".hunk:not([data-gone])"
CURRENT = ".hunk.current"
KEYED = ".hunk.keyed"

Work = Mapping[str, str | int | None]


@pytest.fixture
def repository(directory: Path) -> Path:
    return make_repository(directory)


async def runs(server: Server, project: str, work: Work) -> None:
    """Starts a run that writes these files, and waits for its review."""
    async with server.client() as client:
        await client.ask("project_join", project_id=project)
        await client.ask("execute", {"prompt": f"/write {json.dumps(work)}"}, project)
        await client.receive("update", "review_changed")


async def ids(server: Server, project: str) -> list[str]:
    """Returns the ids of the hunks, in the order of the review."""
    async with server.client() as client:
        review = (await client.ask("review_get", project_id=project))["data"]
        return [hunk["id"] for file in review["files"] for hunk in file["hunks"]]


def address_of(server: Server, project: str, token: str | None = None) -> str:
    return f"{page_of(server)}#token={token or server.token}&project={project}"


@pytest.fixture
async def project(server: Server, repository: Path) -> str:
    """The id of a project after a run that has changed three files."""
    project = await project_in(server, repository)
    await runs(server, project, WORK)
    return project


def opens(person: Person, project: str) -> None:
    person.sees("h2", "blog")
    person.goes_to(f"#/p/{project}/review")
    person.sees(HUNK)


def in_hunk(words: str, css: str) -> str:
    """Returns a selector for ``css`` in the hunk that contains these words."""
    return f"{HUNK}:has-text('{words}') {css}"


def readies_keys(person: Person) -> None:
    person.presses("j")
    person.presses("k")
    person.sees(KEYED)


async def test_a_run_is_decided_hunk_by_hunk(browser: Browser, server: Server, project: str, repository: Path) -> None:
    with browser.person(address_of(server, project), width=1440, height=900) as person:
        person.sees(".to-review", "3 files")
        person.sees(".to-review", "+4 −3")
        person.sees(".project .state", "3 files to review")
        dot, words = (
            f"document.querySelector('.project .state > {part}').getBoundingClientRect()" for part in ("i", "span")
        )
        assert person.runs(f"{dot}.bottom < {words}.bottom && {dot}.right < {words}.left"), "the state is one line"
        assert "Ready" in person.reads(".project-head .state"), "the button beside it has the numbers"
        person.clicks(".finished button:has-text('Review changes')")
        person.sees(".review-bar", "3 files · 4 changes")
        person.sees("h2", "Review of blog")
        assert len(person.reads(".review-files li")) == 3
        person.sees(in_hunk("Line 5", ".line.added"), "LINE 5")
        person.sees(in_hunk("Line 5", ".line"), "line 2")
        person.clicks(in_hunk("Line 5", ".yes"))
        person.loses(in_hunk("Line 5", "header"))
        person.until("document.activeElement.matches('.hunk.current')")
        person.clicks(in_hunk("Line 30", "button:has-text('Undo')"))
        person.loses(".review-files", "poem.txt")
        person.sees(".project .state", "2 files to review")
        assert (repository / "poem.txt").read_text() == poem(line_5="LINE 5")
        person.clicks(in_hunk("def open_bridge", "button:has-text('Edit')"))
        person.fills(".hunk textarea", "def close_bridge() -> bool:\n    return True")
        person.clicks(".hunk button:has-text('Keep edited version')")
        person.loses(".review-files", "src/new.py")
        assert (repository / "src" / "new.py").read_text() == "def close_bridge() -> bool:\n    return True\n"
        person.sees(".about", "This file was deleted.")
        person.clicks(f"{HUNK} button:has-text('Undo')")
        person.sees(".empty", "Nothing to review")
        person.until("document.activeElement.matches('.empty a')")
        assert (repository / "old.txt").read_text() == "old\n"
        person.clicks(".empty a")
        person.clicks(".decided summary:has-text('You undid 1 change in poem.txt')")
        person.sees(".decided .diff", "LINE 30")
        person.loses(".to-review")
        person.sees(".project .state", "Ready")
        assert person.complaints() == []


async def test_the_notice_about_missing_git_can_be_dismissed(browser: Browser, server: Server, directory: Path) -> None:
    project = await project_in(server, directory)
    await runs(server, project, {"notes.md": "# Notes\n\nThe bridge is down.\n"})
    with browser.person(address_of(server, project), width=390, height=844) as person:
        opens(person, project)
        person.sees(".about-all", "in its own repository")
        person.clicks(".about-all button:has-text('Dismiss')")
        person.loses(".about-all", "in its own repository")
        person("reload")
        person.sees(HUNK)
        assert not person("visible", css=".about-all:has-text('in its own repository')")


async def test_changes_that_may_be_missing_are_pointed_out(browser: Browser, server: Server, repository: Path) -> None:
    """This can't be dismissed, and is shown until the next run."""
    project = await project_in(server, repository)
    misses_the_first_checkpoint(server, project)
    await runs(server, project, WORK)
    with browser.person(address_of(server, project), width=390, height=844) as person:
        opens(person, project)
        person.sees(".review > .notice", MISSING)
        await runs(server, project, {"new.txt": "new\n"})
        person.loses(".review > .notice")


@pytest.mark.thorough
async def test_a_notice_does_not_cover_the_controls_in_landscape(
    browser: Browser, server: Server, directory: Path
) -> None:
    project = await project_in(server, directory)
    await runs(server, project, {"notes.md": "# Notes\n\nThe bridge is down.\n"})
    with browser.person(address_of(server, project), width=812, height=375) as person:
        opens(person, project)
        assert box(person, ".pager")["bottom"] <= box(person, ".about-all")["top"]


@pytest.mark.thorough
async def test_the_review_stays_open_after_a_reload(browser: Browser, server: Server, project: str) -> None:
    with browser.person(address_of(server, project), width=1440, height=900) as person:
        person.sees(".to-review", "3 files")
        person.presses("Control+k")
        person.fills(".palette input", "review")
        person.sees(".palette [role=option]", "3 files +4 −3")
        person.presses("Enter")
        person.sees(HUNK)
        person("reload")
        person.sees(HUNK)
        person.clicks(".project-head .back")
        person.sees("#prompt")


@pytest.mark.thorough
async def test_one_file_or_all_files_can_be_kept_at_once(
    browser: Browser, server: Server, project: str, repository: Path
) -> None:
    with browser.person(address_of(server, project), width=1280, height=1800) as person:
        opens(person, project)
        person.until(f"document.querySelectorAll({json.dumps(HUNK)}).length === 4")
        readies_keys(person)
        person.clicks(".review-file:has-text('poem.txt') button:has-text('Keep file')")
        person.loses(".review-files", "poem.txt")
        person.sees(".review-bar", "2 files · 2 changes")
        person.clicks(".review-bar button:has-text('Keep all')")
        person.sees(".empty", "Nothing to review")
        assert not person("visible", css="dialog[open]"), "all of it has been in view"
    assert (repository / "poem.txt").read_text() == WORK["poem.txt"]
    assert (repository / "src" / "new.py").exists()
    assert not (repository / "old.txt").exists()
    async with server.client() as client:
        assert (await client.ask("review_get", project_id=project))["data"]["state"] == "none"


@pytest.mark.thorough
async def test_keeping_unseen_changes_asks_for_confirmation(browser: Browser, server: Server, project: str) -> None:
    with browser.person(address_of(server, project), width=1280, height=560) as person:
        opens(person, project)
        person.clicks(".review-bar button:has-text('Keep all')")
        person.sees("dialog h2", "Keep 4 changes in 3 files?")
        person.sees("dialog p", "You have not fully seen")
        person.clicks("dialog button:has-text('Cancel')")
        person.sees(".review-bar", "3 files · 4 changes")
        person.clicks(".review-bar button:has-text('Keep all')")
        person.clicks("dialog footer .yes")
        person.sees(".empty", "Nothing to review")


@pytest.mark.thorough
async def test_a_change_made_during_the_question_is_not_decided_on(
    browser: Browser, server: Server, project: str, repository: Path
) -> None:
    """The user has been asked about fewer changes, and has not seen it."""
    with browser.person(address_of(server, project), width=1280, height=560) as person:
        opens(person, project)
        person.clicks(".review-bar button:has-text('Keep all')")
        person.sees("dialog h2", "Keep 4 changes in 3 files?")
        await runs(server, project, {"late.txt": "late\n"})
        person.sees(".review-bar", "4 files · 5 changes")
        person.clicks("dialog footer .yes")
        person.sees(".review-bar .notice", "The review has changed since you saw it, so your decision was not applied.")
        person.sees(".review-bar .notice", "Read what is new in late.txt, then decide again.")
        assert len(await ids(server, project)) == 5
        later = poem(line_5="LINE 5", line_18="LINE 18", line_30="LINE 30")
        person.clicks("[aria-label='poem.txt'] .review-file-head button:has-text('Undo file')")
        person.sees("dialog h2", "Undo 2 changes in poem.txt?")
        await runs(server, project, {"poem.txt": later})
        person.sees(".review-bar", "4 files · 6 changes")
        person.loses(".review-bar .hint", "The agent is working")
        person.clicks("dialog footer .no")
        person.sees("[aria-label='poem.txt'] .review-file-head .notice", "your decision was not applied.")
        assert (repository / "poem.txt").read_text() == later


@pytest.mark.thorough
async def test_undo_does_not_touch_a_file_changed_since_it_was_shown(
    browser: Browser, server: Server, project: str, repository: Path
) -> None:
    """If one file has changed, undoing all changes does not touch any file."""
    with browser.person(address_of(server, project), width=1280, height=1800) as person:
        opens(person, project)
        person.sees(in_hunk("Line 5", ".line.added"), "LINE 5")
        mine = poem(line_5="my line", line_30="LINE 30")
        (repository / "poem.txt").write_text(mine)
        person.clicks(in_hunk("Line 5", "button:has-text('Undo')"))
        person.sees(".hunk[data-gone] .notice", "poem.txt changed at line 5 since you looked.")
        assert (repository / "poem.txt").read_text() == mine
        person.clicks(".hunk[data-gone] button:has-text('Close')")
        person.loses(".hunk[data-gone]")
        (repository / "old.txt").write_text("another\n")
        person.clicks(".review-bar button:has-text('Undo all')")
        person.clicks("dialog footer .no")
        person.sees(".review-bar .notice", "The review has changed since you saw it, so your decision was not applied.")
        person.sees(".review-bar .notice", "Read what is new in old.txt, then decide again.")
        assert (repository / "poem.txt").read_text() == mine
        assert (repository / "old.txt").read_text() == "another\n"
        assert (repository / "src" / "new.py").exists()


@pytest.mark.slow
async def test_a_conflict_is_reported_at_its_hunk(
    browser: Browser, server: Server, project: str, repository: Path
) -> None:
    """The agent has replaced a file with a directory, so the file can't be restored without losing the directory."""
    await runs(server, project, {"old.txt/inside.txt": "inside\n"})
    with browser.person(address_of(server, project), width=1280, height=1800) as person:
        opens(person, project)
        person.clicks(in_hunk("This file was deleted", "button:has-text('Undo')"))
        person.sees(
            in_hunk("This file was deleted", ".notice"), "conflicts with the current state of old.txt/inside.txt"
        )
        assert (repository / "old.txt" / "inside.txt").read_text() == "inside\n"
        person.clicks("[aria-label='old.txt/inside.txt'] button:has-text('Undo')")
        person.loses(".review-files", "inside.txt")
        person.clicks(in_hunk("This file was deleted", "button:has-text('Undo')"))
        person.loses(".review-files", "deleted")
    assert (repository / "old.txt").read_text() == "old\n"


HOSTILE = {
    "<img src=x onerror=window.hurt=1>.txt": "<script>window.hurt=1</script>\n",
    "gnp\u202etxt.js": "const a = 1; // \u202e } ;sselmrah\n",
    "a\tb\nc.txt": "\x1b[31mred\x1b[0m\x07\n",
    "\u200b": "nothing \u200b\u2066to\u2069 see\n",
    "constructor": "{{hurt}} ${hurt}\n",
}


@pytest.mark.thorough
async def test_hostile_names_and_texts_are_shown_as_plain_text(
    browser: Browser, server: Server, repository: Path
) -> None:
    project = await project_in(server, repository)
    await runs(server, project, dict(HOSTILE))
    with browser.person(address_of(server, project), width=1280, height=1800) as person:
        opens(person, project)
        person.until(f"document.querySelectorAll({json.dumps(HUNK)}).length === {len(HOSTILE)}")
        shown = person.runs("document.querySelector('.review').innerText")
        assert not set(shown) & set("\u202e\u2066\u2069\u200b\x1b\x07"), "they are written out"
        assert "<img src=x onerror" in shown
        assert "<script>window.hurt=1</script>" in shown
        # Line breaks in names do not begin new lines in the list.
        names = person.runs("[...document.querySelectorAll('.review-files code')].map((one) => one.textContent)")
        assert len(names) == len(HOSTILE)
        assert not any("\n" in name for name in names)
        assert person.runs("document.querySelectorAll('.review :is(script, img, [onerror])').length") == 0
        person.clicks(".review-bar button:has-text('Undo all')")
        person.clicks("dialog button:has-text('Cancel')")
        for left in range(len(HOSTILE) - 1, -1, -1):
            person.clicks(f"{HUNK} .yes")
            person.until(f"document.querySelectorAll({json.dumps(HUNK)}).length === {left}")
        person.sees(".empty", "Nothing to review")
        assert person.runs("window.hurt") is None
        assert person.complaints() == []


@pytest.mark.thorough
async def test_an_empty_review_closes(browser: Browser, server: Server, repository: Path) -> None:
    project = await project_in(server, repository)
    with browser.person(address_of(server, project)) as person:
        person.sees("h2", "blog")
        assert not person("visible", css=".to-review")
        person.goes_to(f"#/p/{project}/review")
        person.sees(".empty", "Nothing to review")
        person.clicks(".empty a")
        person.sees("#prompt")


@pytest.mark.slow_for("1280-500")
@pytest.mark.thorough
@pytest.mark.parametrize(("width", "height"), [(1280, 500), (375, 500)])
async def test_a_click_on_a_partly_seen_change_asks_for_confirmation(
    browser: Browser, server: Server, repository: Path, width: int, height: int
) -> None:
    """Its buttons stay in view while it is read. A key does nothing before the end."""
    project = await project_in(server, repository)
    await runs(server, project, {"long.txt": "".join(f"Line {number}\n" for number in range(1, 41))})
    with browser.person(address_of(server, project), width=width, height=height) as person:
        opens(person, project)
        person.sees(f"{CURRENT} footer button:has-text('Undo'):not(.moved)")
        for button in ("Undo", "Keep"):
            person.clicks(f"{CURRENT} footer button:has-text('{button}')")
            person.sees("dialog h2", f"{button} 1 change in long.txt?")
            person.sees("dialog p", "You have not seen all of it.")
            person.clicks("dialog button:has-text('Cancel')")
            person.loses("dialog[open]")
        person.clicks(f"{CURRENT} footer button:has-text('Edit')")
        person.fills(f"{CURRENT} textarea", "Mine\n")
        person.clicks(f"{CURRENT} footer .edited")
        person.sees("dialog p", "You have not seen all of it.")
        person.clicks("dialog button:has-text('Cancel')")
        person.loses("dialog[open]")
        person.clicks(f"{CURRENT} footer button:has-text('Back')")
        assert (repository / "long.txt").read_text().endswith("Line 40\n")
        person.sees(f"{CURRENT} footer button:has-text('Keep')")
        person.runs(READ)
        person.clicks(f"{CURRENT} footer button:has-text('Keep')")
        person.sees(".empty", "Nothing to review")


READ = """(async () => {
  const box = document.querySelector('.review-scroller');
  const drawn = () =>
    new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve))));
  box.dispatchEvent(new WheelEvent('wheel'));
  box.scrollTop = 0;
  for (let at = -1; box.scrollTop > at; ) { at = box.scrollTop; await drawn(); box.scrollBy(0, 80) }
  await drawn();
})()"""
"""Scrolls from the start to the end as a user who reads does, so that each part is drawn."""


SCROLL = (
    "(() => { const scroller = document.querySelector('.review-scroller');"
    " scroller.dispatchEvent(new WheelEvent('wheel')); scroller.scrollTop = 1e6 })()"
)
"""Scrolls to the end, as a user does with a mouse wheel."""


@pytest.mark.thorough
async def test_keys_decide_only_what_is_in_view(
    browser: Browser, server: Server, project: str, repository: Path
) -> None:
    with browser.person(address_of(server, project), width=1280, height=800) as person:
        opens(person, project)
        readies_keys(person)
        assert "old.txt" in person.reads(CURRENT)[0]
        person.presses("a")
        person.loses(".review-files", "old.txt")
        person.sees(f"{CURRENT} h4", "Line 5")
        person.sees(KEYED)
        person.presses("e")
        person.fills(".hunk textarea", "au")
        person("type", text="au")
        person.presses("Escape")
        person.sees(".notice.draft", "kept as a draft")
        assert (repository / "poem.txt").read_text() == WORK["poem.txt"], "typing decides nothing"
        person.clicks(".notice.draft button:has-text('Discard')")
        readies_keys(person)
        person.runs(SCROLL)
        person.loses(KEYED)
        person.presses("u")
        assert (repository / "poem.txt").read_text() == WORK["poem.txt"], "it is out of view"
        person.presses("k")
        person.presses("j")
        person.sees(KEYED)
        current = person.reads(f"{CURRENT} h4")[0]
        person.presses("u")
        person.until(f"document.querySelector('{CURRENT} h4')?.innerText !== {json.dumps(current)}")
        person.sees(".review-bar", "2 changes")
        person.runs("localStorage.setItem('drawbridge.setting.keys', 'off')")
        person.presses("a")
        person.presses("Escape")
        person.sees("#prompt")
        opens(person, project)
        person.sees(".review-bar", "2 changes")


@pytest.mark.slow
async def test_esc_returns_to_the_session(browser: Browser, server: Server, project: str) -> None:
    with browser.person(address_of(server, project)) as person:
        opens(person, project)
        person.clicks(f"{HUNK} button:has-text('Edit')")
        person.presses("Escape")
        person.loses(".hunk textarea")
        person.presses("Escape")
        person.sees("#prompt")


@pytest.mark.thorough
async def test_another_users_decision_keeps_an_unfinished_edit(
    browser: Browser, server: Server, project: str, repository: Path
) -> None:
    with browser.person(address_of(server, project), width=1280, height=800) as person:
        opens(person, project)
        deleted, first, second, _ = await ids(server, project)
        person.clicks(in_hunk("Line 30", "button:has-text('Edit')"))
        person.fills(".hunk textarea", "my line")
        await decides(server, project, hunks=[deleted, first], decision="keep")
        person.loses(in_hunk("Line 5", "header"))
        person.sees(".review .news", "decided on 2 changes.")
        assert person.runs("document.activeElement.matches('.hunk textarea')")
        await decides(server, project, hunks=[second], decision="undo")
        person.sees(".hunk[data-gone] .notice", "decided on this change")
        assert person("value", css=".hunk[data-gone] textarea") == "my line"
        person.clicks(".hunk[data-gone] button:has-text('Close')")
        person.loses(".hunk[data-gone]")
        assert (repository / "poem.txt").read_text() == poem(line_5="LINE 5")


@pytest.mark.thorough
async def test_an_error_stays_after_a_decision_on_changes(browser: Browser, server: Server, project: str) -> None:
    with browser.person(address_of(server, project), width=1280, height=800) as person:
        person.prompts("/fail")
        person.sees(".error-card", "The run failed")
        await decides(server, project, hunks=(await ids(server, project))[:1], decision="undo")
        person.sees(".items", "undid 1 change in old.txt")
        assert person.reads(".error-card strong") == ["The run failed."]
        person.clicks(".error-card button:has-text('New session')")
        person.loses(".error-card")


@pytest.mark.slow
async def test_the_hunk_is_replaced_by_a_note_about_who_decided_first(
    browser: Browser, server: Server, project: str, repository: Path
) -> None:
    with browser.person(address_of(server, project), width=1280, height=800) as person:
        opens(person, project)
        first = (await ids(server, project))[0]
        person("offline", on=True)
        person.clicks(in_hunk("old.txt", "button:has-text('Undo')"))
        person.sees(in_hunk("old.txt", ".yes"), "Sending")
        await decides(server, project, hunks=[first], decision="keep")
        person("offline", on=False)
        person.sees(".hunk[data-gone] .notice", "already kept this change.")
        assert not (repository / "old.txt").exists()
        person.clicks(".hunk[data-gone] button:has-text('Close')")
        person.loses(".review-files", "old.txt")
        person.sees(HUNK)


@pytest.mark.slow
async def test_two_devices_decide_the_same_hunk_simultaneously(
    browser: Browser, server: Server, project: str, repository: Path
) -> None:
    """Only one decision is accepted, and the file matches it."""
    undo = f"document.querySelector({json.dumps(HUNK + ' .no')})?.click()"
    with browser.person(address_of(server, project), width=1280, height=800) as person:
        person.sees("h2", "blog")
        async with server.client() as phone:
            review = (await phone.ask("review_get", project_id=project))["data"]
            keep = {"all": True, "version": review["version"], "decision": "keep"}
            await phone.ask("review_decide", keep, project)
            for number in range(5):
                before, after = (repository / "poem.txt").read_text(), poem(line_5=f"round {number}", line_30="LINE 30")
                await runs(server, project, {"poem.txt": after})
                [hunk] = await ids(server, project)
                person.goes_to(f"#/p/{project}/review")
                person.sees(HUNK, f"round {number}")
                keep = {"hunks": [hunk], "decision": "keep"}
                click = asyncio.create_task(asyncio.to_thread(person.runs, undo))
                if number % 2:  # lets the browser be the first in every other round
                    await click
                reply = await phone.ask("review_decide", keep, project)
                await click
                person.loses(HUNK)
                if reply["type"] == "review":
                    assert (repository / "poem.txt").read_text() == after
                else:
                    assert reply["data"]["code"] == "HUNK_GONE"
                    assert reply["data"]["details"]["decision"] == "undo"
                    assert (repository / "poem.txt").read_text() == before
                assert await ids(server, project) == []
                person.goes_to(f"#/p/{project}")
                person.sees("#prompt")


@pytest.mark.thorough
async def test_undoing_several_hunks_asks_once(
    browser: Browser, server: Server, project: str, repository: Path
) -> None:
    with browser.person(address_of(server, project), width=1280, height=800) as person:
        opens(person, project)
        person.clicks(".review-file:has-text('poem.txt') button:has-text('Undo file')")
        person.sees("dialog h2", "Undo 2 changes in poem.txt?")
        person.clicks("dialog button:has-text('Cancel')")
        person.clicks(".review-bar button:has-text('Undo all')")
        person.sees("dialog h2", "Undo 4 changes in 3 files?")
        person.clicks("dialog footer .no")
        person.sees(".empty", "Nothing to review")
    assert (repository / "poem.txt").read_text() == POEM
    assert not (repository / "src").exists() or not list((repository / "src").iterdir())


@pytest.mark.slow
async def test_a_shortened_change_must_be_expanded_before_deciding(
    browser: Browser, server: Server, project: str, repository: Path
) -> None:
    await runs(server, project, {"long.txt": "".join(f"a line {number}\n" for number in range(600))})
    with browser.person(address_of(server, project), width=1280, height=800) as person:
        opens(person, project)
        person.sees(".review-bar .hint", "first expand the collapsed change")
        person.clicks(".review-files button:has-text('long.txt')")
        person.sees(in_hunk("long.txt", ".unopened"))
        assert person.runs("[...document.querySelectorAll('.hunk')].at(0).querySelector('.yes').disabled")
        person.clicks(in_hunk("long.txt", "button.must"))
        person.loses(in_hunk("long.txt", ".unopened"))
        person.loses(".review-bar .hint")
        person.clicks(in_hunk("long.txt", ".yes"))
        person.sees("dialog p", "You have not seen all of it.")
        person.clicks("dialog footer .yes")
        person.loses(".review-files", "long.txt")


@pytest.mark.slow
async def test_changes_without_lines_are_described_in_words(
    browser: Browser, server: Server, project: str, repository: Path
) -> None:
    await runs(server, project, {"notes.md": 0o755, "logo.bin": "\0\1\2"})
    with browser.person(address_of(server, project), width=1280, height=1600) as person:
        opens(person, project)
        person.sees(in_hunk("notes.md", ".about"), "The file was made executable.")
        person.sees(in_hunk("logo.bin", ".about"), "This is a new file. Its content is not shown")
        person.clicks(in_hunk("notes.md", "button:has-text('Undo')"))
        person.loses(".review-files", "notes.md")
    assert not (repository / "notes.md").stat().st_mode & 0o111


@pytest.mark.thorough
async def test_during_a_run_hunks_can_only_be_kept(browser: Browser, server: Server, project: str) -> None:
    with browser.person(address_of(server, project), width=1280, height=800) as person:
        opens(person, project)
        async with server.client() as client:
            await client.ask("project_join", project_id=project)
            await client.ask("execute", {"prompt": '/emit [{"hold": true}]'}, project)
            person.sees(".about-all", "The agent is working")
            assert person.runs("document.querySelector('.hunk footer .no').disabled")
            person.clicks(f"{HUNK} .yes")
            person.sees(".review-bar", "2 files")
            await client.ask("agent_interrupt", project_id=project)
            await client.receive("update", "run_finished")
        person.loses(".about-all", "The agent is working")


@pytest.mark.thorough
@pytest.mark.parametrize("scope", ["view"])
async def test_a_view_only_device_cannot_decide(
    browser: Browser, own_server: Server, repository: Path, scope: Scope
) -> None:
    project = await project_in(own_server, repository)
    await runs(own_server, project, WORK)
    token = Devices(own_server.data).add("the pad", scope)[1]
    with browser.person(address_of(own_server, project, token)) as person:
        opens(person, project)
        person.sees(".review-bar .hint", "View only")
        assert person.runs("document.querySelectorAll('.hunk footer button').length") == 0
        readies_keys(person)
        person.presses("u")
        person.presses("a")
        person.presses("e")
        person.sees(".review-bar", "3 files")
        assert not person("visible", css=".hunk textarea")


SMALL = [(390, 844), (320, 640), (844, 390)]
REACHED = (
    "(() => { const box = document.querySelector('.hunk .yes').getBoundingClientRect();"
    " return box.bottom <= innerHeight && box.top > innerHeight / 2 })()"
)
"""Whether the "Keep" button is in the lower half of the screen."""


@pytest.mark.slow_for("320-640", "844-390")
@pytest.mark.thorough
@pytest.mark.parametrize(("width", "height"), SMALL)
async def test_a_phone_shows_one_hunk_per_screen(
    browser: Browser, server: Server, project: str, width: int, height: int
) -> None:
    with browser.person(address_of(server, project), width=width, height=height) as person:
        person.sees(".to-review")
        assert person.runs(WIDER) == []
        person.clicks(".to-review")
        person.sees(HUNK)
        assert len(person.reads(HUNK)) == 1
        assert person.runs(WIDER) == []
        person.sees(".pager", "1 of 4")
        person.until(REACHED)
        person.clicks("button[aria-label='Next change']")
        person.sees(".hunk h4", "Line 5")
        person.until(REACHED)
        person.clicks(".hunk .yes")
        person.sees(".hunk h4", "Line 30")
        person.sees(".pager", "2 of 3")
        person.until("document.activeElement.matches('.hunk')")
        await decides(server, project, hunks=[(await ids(server, project))[0]], decision="keep")
        person.sees(".review .news", "decided on 1 change.")
        person.sees(".pager", "1 of 2")
        person.sees(".hunk h4", "Line 30")
        person.until(REACHED)
        person.clicks(".pager button:has-text('Files')")
        person.sees(".review-files", "src/new.py")
        assert person.runs(WIDER) == []
        person.sees(".review-bar button:has-text('Keep all')")
        person.clicks(".review-files button:has-text('src/new.py')")
        person.sees(".hunk .line.added", "def open_bridge")
        assert person.complaints() == []


@pytest.mark.slow_for("1001-700", "2560-1200", "768-1024")
@pytest.mark.thorough
@pytest.mark.parametrize(("width", "height"), [(280, 653), (768, 1024), (1001, 700), (2560, 1200)])
async def test_a_review_fits_every_screen_width(
    browser: Browser, server: Server, project: str, width: int, height: int
) -> None:
    with browser.person(address_of(server, project), width=width, height=height) as person:
        opens(person, project)
        assert person.runs(WIDER) == []
        person.clicks(f"{HUNK} .yes")
        person.sees(f"{HUNK} h4", "Line 5")
        person.clicks(f"{HUNK} button:has-text('Edit')")
        person.sees(".hunk textarea")
        assert person.runs(WIDER) == []


OPEN_FIELD = (
    "(() => { const box = document.querySelector('.hunk textarea').getBoundingClientRect();"
    " const foot = document.querySelector('.hunk.current footer').getBoundingClientRect();"
    " return box.height > 0 && box.bottom <= foot.top + 1 && box.top > 0 })()"
)
"""Whether the whole field of an edit is in view, above the buttons."""


@pytest.mark.slow_for("1280-640", "844-390")
@pytest.mark.thorough
@pytest.mark.parametrize(("width", "height"), [(1280, 640), (390, 844), (844, 390)])
async def test_the_text_box_of_an_edit_is_in_view(
    browser: Browser, server: Server, project: str, width: int, height: int
) -> None:
    with browser.person(address_of(server, project), width=width, height=height) as person:
        opens(person, project)
        person.presses("j")
        person.sees(f"{CURRENT} h4", "Line 5")
        person.sees(f"{CURRENT} .line", "line 2")
        person.clicks(f"{CURRENT} button:has-text('Edit')")
        person.until(OPEN_FIELD)


@pytest.mark.slow
async def test_a_listed_file_stays_in_view_while_it_is_drawn(browser: Browser, server: Server, project: str) -> None:
    """The files above it are drawn, and its own lines are loaded, after it has been scrolled into view."""
    many = {f"a{number:02}.txt": "a line\n" * (1 + number % 7 * 9) for number in range(20)}
    await runs(server, project, {**many})
    with browser.person(address_of(server, project), width=1280, height=700) as person:
        opens(person, project)
        person.clicks(".review-files button:has-text('poem.txt')")
        person.sees(f"{CURRENT} .line", "line 2")
        person.sees(f"{KEYED} h4", "Line 5")


@pytest.mark.thorough
async def test_the_list_of_files_stays_open_when_somebody_else_decides(
    browser: Browser, server: Server, project: str
) -> None:
    with browser.person(address_of(server, project), width=390, height=844) as person:
        opens(person, project)
        person.clicks(".pager button:has-text('Files')")
        person.sees(".review-files", "old.txt")
        await decides(server, project, hunks=[(await ids(server, project))[0]], decision="keep")
        person.sees(".review-bar", "2 files · 3 changes")
        assert person("visible", css=".review-files")


@pytest.mark.slow_for("1440-900")
@pytest.mark.thorough
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
async def test_axe_finds_nothing_in_a_review(
    browser: Browser, server: Server, project: str, width: int, height: int
) -> None:
    with browser.person(address_of(server, project), width=width, height=height) as person:
        opens(person, project)
        assert person("axe", file=str(programs.axe())) == []
        person.clicks("button[aria-label='Next change']" if width < 500 else in_hunk("Line 5", "h4"))
        person.clicks(in_hunk("Line 5", "button:has-text('Edit')"))
        person.sees(".hunk textarea")
        assert person("axe", file=str(programs.axe())) == []
        await decides(server, project, hunks=[(await ids(server, project))[1]], decision="keep")
        if width < 500:
            person.clicks(".pager button:has-text('Files')")
            person.sees(".review-files")
        assert person("axe", file=str(programs.axe())) == []


@pytest.mark.thorough
async def test_forced_colors_show_the_current_hunk(browser: Browser, server: Server, project: str) -> None:
    with browser.person(address_of(server, project), forced=True) as person:
        opens(person, project)
        person.presses("j")
        outline = "getComputedStyle(document.querySelector('.hunk.current')).outlineStyle"
        person.until(f"{outline} === 'solid'")
        assert (
            person.runs("getComputedStyle(document.querySelector('.review-files [aria-current]')).outlineStyle")
            != "none"
        )


@pytest.mark.thorough
async def test_the_title_of_a_hunk_is_visible_first(browser: Browser, server: Server, project: str) -> None:
    """The buttons, which stay in view, do not cover the title of a hunk of which only the top is in view."""
    with browser.person(address_of(server, project), width=1280, height=640) as person:
        opens(person, project)
        person.clicks(in_hunk("open_bridge", "h4"))
        person.sees(CURRENT, "open_bridge")
        left, is_visible = person.runs(
            "(() => { const box = document.querySelector('.review-scroller');"
            f" const card = document.querySelector('{CURRENT}'); const title = card.querySelector('h4');"
            " const left = () => box.getBoundingClientRect().bottom - card.getBoundingClientRect().top;"
            " box.scrollTop -= left() - 50; const place = title.getBoundingClientRect();"
            " return [left(), title.contains(document.elementFromPoint(place.left + 5, place.top + 8))] })()"
        )
        assert 45 < left < 55
        assert is_visible


@pytest.mark.thorough
async def test_a_click_right_after_scrolling_makes_the_hunk_current(
    browser: Browser, server: Server, project: str
) -> None:
    """On a busy machine, a click can arrive before the browser reports what has been scrolled into view."""
    with browser.person(address_of(server, project), width=1280, height=520) as person:
        opens(person, project)
        person.sees(in_hunk("open_bridge", "h4"))
        person.runs(
            "(() => { const title = [...document.querySelectorAll('.hunk h4')].at(-1);"
            " title.scrollIntoView(); title.click() })()"
        )
        person.sees(CURRENT, "open_bridge")


@pytest.mark.slow
async def test_the_scroll_position_in_a_review_is_kept(browser: Browser, server: Server, project: str) -> None:
    """When another device decides on a hunk above, the hunk that is being read stays in place."""
    with browser.person(address_of(server, project), width=1280, height=640) as person:
        opens(person, project)
        deleted = (await ids(server, project))[0]
        person.presses("j")
        person.presses("j")
        person.sees(f"{CURRENT} h4", "Line 30")
        person.sees(f"{CURRENT} .line", "line 27")
        top = f"document.querySelector('{CURRENT}').getBoundingClientRect().top"
        person.until(f"{top} > 0 && document.activeElement.matches('{CURRENT}')")
        before = person.runs(top)
        await decides(server, project, hunks=[deleted], decision="keep")
        person.loses(".review-files", "old.txt")
        assert abs(person.runs(top) - before) < 3


@pytest.mark.thorough
async def test_a_review_of_a_missing_directory_shows_the_reason(
    browser: Browser, server: Server, project: str, repository: Path
) -> None:
    """When the directory exists again, the review can be loaded again, and an unfinished edit is kept as a draft."""
    away = repository.with_name("blog elsewhere")
    with browser.person(address_of(server, project), width=1280, height=800) as person:
        opens(person, project)
        person.clicks(in_hunk("Line 30", "button:has-text('Edit')"))
        person.fills(".hunk textarea", "my line")
        repository.rename(away)
        # The review may have been read again before, so that there is nothing to click on any more.
        person.runs("document.querySelector('.hunk:not([data-gone]) footer .yes')?.click()")
        person.sees(".review > .notice", "The session's directory does not exist.")
        person.loses(".review-body .hunk")
        person.loses(".review-bar")
        assert not person("visible", css=".empty"), "it is not known what there is to review"
        person.loses(".project .state", "to review")
        away.rename(repository)
        person.clicks(".review > .notice button:has-text('Try again')")
        person.loses(".review > .notice")
        person.sees(in_hunk("Line 30", ".notice.draft"), "kept as a draft")
        person.sees(".project .state", "3 files to review")
        assert person.complaints() == []


@pytest.mark.slow
async def test_a_review_of_2000_hunks_can_be_opened_and_decided(
    browser: Browser, server: Server, repository: Path
) -> None:
    """The hunks are in 200 files. ``bench/reviews.py`` measures how long opening and deciding take."""
    for number in range(200):
        (repository / f"file{number:03}.txt").write_text(POEM * 5)
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "many")
    project = await project_in(server, repository)
    changed = poem(line_10="LINE 10", line_30="LINE 30") * 5
    await runs(server, project, {f"file{number:03}.txt": changed for number in range(200)})
    with browser.person(address_of(server, project), width=1280, height=800) as person:
        opens(person, project)
        person.sees(".review-bar", "200 files · 2,000 changes")
        person.clicks(f"{HUNK} .yes")
        person.sees(".review-bar", "1,999 changes")


@pytest.mark.slow
async def test_a_rename_and_an_edit_of_a_file_are_decided_separately(
    browser: Browser, server: Server, repository: Path
) -> None:
    """The review lists the renamed file only once."""
    project = await project_in(server, repository)
    await runs(server, project, {"poem.txt": None, "verses/song.txt": poem(line_5="LINE 5")})
    with browser.person(address_of(server, project), width=1440, height=900) as person:
        opens(person, project)
        person.sees(".review-files .entry", "renamed")
        assert len(person.reads(".review-files .entry")) == 1
        person.sees(in_hunk("File name", ".about"), "The file was renamed from poem.txt.")
        person.clicks(in_hunk("File name", ".no"))
        person.loses(HUNK, "File name")
        person.sees(".review-files .entry", "poem.txt")
        person.clicks(in_hunk("Line 5", ".yes"))
        person.sees(".empty", "Nothing to review")
        assert person.complaints() == []
    assert (repository / "poem.txt").read_text() == poem(line_5="LINE 5")
    assert not (repository / "verses" / "song.txt").exists()


def png(width: int, height: int, color: tuple[int, int, int]) -> bytes:
    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes(color) * width) * height)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", rows) + part(b"IEND", b"")


def given(data: bytes) -> str:
    return f"base64:{base64.b64encode(data).decode()}"


SIZE = "[...document.querySelectorAll('.hunk img')].map((image) => image.complete && image.naturalWidth).join()"


@pytest.mark.thorough
async def test_both_versions_of_an_image_are_seen_before_it_is_decided(
    browser: Browser, server: Server, repository: Path
) -> None:
    (repository / "icon.png").write_bytes(png(320, 200, (200, 60, 60)))
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "icon")
    project = await project_in(server, repository)
    work = {"icon.png": given(png(480, 300, (40, 110, 90))), "torn.png": given(png(9, 9, (0, 0, 0))[:40])}
    await runs(server, project, {**work, "words.png": given(b"\0no image")})
    with browser.person(address_of(server, project), width=1440, height=900) as person:
        opens(person, project)
        changed, torn, words = (f"{HUNK}:has-text('{name}')" for name in ("icon.png", "torn.png", "words.png"))
        person.sees(f"{changed} figure:first-child figcaption", "320 × 200")
        person.sees(f"{changed} figure:last-child figcaption", "480 × 300")
        person.sees(f"{changed} .about", "The content of this file was changed.")
        person.sees(f"{torn} figure", "it is damaged")
        assert person.runs(SIZE) == "320,480"
        person.sees(f"{words} figure", "it has an image's file extension but is not an image")
        person.clicks(f"{words} .no")
        person.loses(words)
        person.clicks(f"{changed} .yes")
        person.loses(changed)
        assert person.complaints() == []
    assert not (repository / "words.png").exists()


@pytest.mark.thorough
async def test_only_changes_since_the_last_visit_can_be_shown(
    browser: Browser, server: Server, project: str, repository: Path
) -> None:
    switch, marked = (
        "button:has-text('Only since your last visit (1)')",
        f"{HUNK}:has(.tag:has-text('your last visit'))",
    )
    with browser.person(address_of(server, project), width=1280, height=2400) as person:
        opens(person, project)
        person.until(f"document.querySelectorAll('{HUNK}').length === 4")
        person.sees(".hunk.current")
        assert not person("visible", css=".tag:has-text('your last visit')")
        assert not person("visible", css="button:has-text('your last visit')")
        person.goes_to(f"#/p/{project}")
        person.sees("#prompt")
        await runs(server, project, {"src/later.py": "later = True\n"})
        opens(person, project)
        person.sees(marked, "later.py")
        assert person.reads(f"{marked} h4 code") == ["later.py"]
        person.clicks(switch)
        person.until(f"document.querySelectorAll('{HUNK}').length === 1")
        person.sees(".about-all", "To decide on all changes at once, show the others too.")
        assert person("visible", css="button:has-text('Keep all'):disabled")
        person.clicks(in_hunk("later.py", ".yes"))
        person.until(f"document.querySelectorAll('{HUNK}').length === 4")
        person.loses("button:has-text('your last visit')")
        person.clicks("button:has-text('Keep all')")
        person.sees(".empty", "Nothing to review")
        assert person.complaints() == []
    assert (repository / "src" / "later.py").exists()
