"""The list of sessions: their titles and states, those that wait for a user, and the chosen conversation.

docs/internals/page.md lists the findings that the docstrings name, such as S1-8.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drawbridge.server.events import SessionReset
from tests.server.processes import Server

from .conftest import page_of, project_in
from .history import serving_history
from .rig import Browser, Person

pytestmark = pytest.mark.thorough

MENU = "button[aria-label='Session menu']"


def answers(person: Person) -> list[str]:
    """Returns the first line of each of the agent's answers."""
    return [text.split("\n")[0] for text in person.reads(".said:not(.live)")]


def picks(person: Person, item: str) -> None:
    """Chooses an item in the menu of the session that is shown."""
    person.clicks(MENU)
    person.clicks(f"[role=menuitem]:has-text('{item}')")


def has_two_sessions(person: Person) -> None:
    """Creates two sessions with different answers. The second one is shown."""
    person.prompts('/say "The first one."')
    person.sees(".said", "The first one.")
    person.sees(".finished")
    picks(person, "New session")
    person.loses(".said", "The first one.")
    person.sees(".project strong", "New session")
    person.prompts('/say "The second one."')
    person.sees(".said", "The second one.")
    person.sees(".finished")


def test_sessions_are_grouped_by_folder_with_their_last_line(browser: Browser, address: str) -> None:
    """Each session also shows its title and its state."""
    with browser.person(address) as person:
        person.prompts('/say "All the carts have crossed."')
        person.sees(".finished")
        person.sees(".group h3", "blog")
        person.sees(".project strong", '/say "All the carts have crossed."')
        person.sees(".project .state", "Ready")
        person.sees(".project .last-line", "All the carts have crossed.")
        person.sees(".project-head h2", "blog")
        person.sees(".project-head .title", "All the carts")


@pytest.mark.slow
def test_changed_lines_are_counted(browser: Browser, address: str, directory: Path) -> None:
    call = {
        "type": "tool_use",
        "id": "1",
        "name": "Edit",
        "input": {"file_path": str(directory / "notes.md"), "old_string": "up", "new_string": "open"},
    }
    patch = [{"oldStart": 3, "oldLines": 1, "newStart": 3, "newLines": 2, "lines": ["-It is up.", "+It is", "+open."]}]
    done = {"type": "tool_result", "tool_use_id": "1", "content": "updated"}
    lines = [
        {"type": "assistant", "message": {"role": "assistant", "content": [call]}, "parent_tool_use_id": None},
        {
            "type": "user",
            "message": {"role": "user", "content": [done]},
            "parent_tool_use_id": None,
            "tool_use_result": {"structuredPatch": patch},
        },
    ]
    with browser.person(address) as person:
        person.prompts("/quick")
        person.sees(".finished")
        assert person.reads(".project .lines") == []
        person.prompts(f"/emit {json.dumps(lines)}")
        person.sees(".project .lines", "+2 −1")


@pytest.mark.slow
def test_choosing_a_session_shows_its_conversation(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        has_two_sessions(person)
        person.clicks(".side .session:has-text('The first one')")
        person.sees(".said", "The first one.")
        assert person.reads(".said:not(.live) .markdown") == ["The first one."]
        assert not person("visible", css="#prompt")
        person("reload")
        person.sees(".said", "The first one.")
        person.clicks(".side .project")
        person.sees(".said", "The second one.")
        assert person.reads(".said:not(.live) .markdown") == ["The second one."]


@pytest.mark.slow
def test_a_resumed_session_shows_its_earlier_messages(browser: Browser, address: str) -> None:
    """Finding S1-8: the web UI showed the wrong conversation."""
    with browser.person(address) as person:
        has_two_sessions(person)
        person.clicks(".side .session:has-text('The first one')")
        person.clicks("button:has-text('Continue this session')")
        person.sees(".toast", "Resumed. Your next message continues that session.")
        person.sees(".said", "The first one.")
        person.sees("#prompt")
        person.prompts('/say "And one more."')
        person.sees(".said:not(.live)", "And one more.")
        assert person.reads(".said:not(.live) .markdown") == ["The first one.", "And one more."]
        person("reload")
        person.sees(".said", "And one more.")
        person.until("document.querySelectorAll('.said:not(.live)').length === 2")


async def test_a_fork_shows_the_conversation_that_was_copied(
    browser: Browser, server: Server, address: str, directory: Path
) -> None:
    """Finding S1-8: the fork shows the copied conversation, before and after its first prompt."""
    with browser.person(address) as person:
        has_two_sessions(person)
        async with server.client() as other:
            [project] = (await other.ask("project_list"))["data"]["projects"]
            known = (await other.ask("sessions", project_id=project["id"]))["data"]["sessions"]
            [first] = [one["session_id"] for one in known if "The first one" in one["title"]]
            await other.ask("session_fork", {"session_id": first}, project["id"])
        person.sees(".said", "The first one.")
        person.loses(".said", "The second one.")
        person.prompts('/say "And one more."')
        person.sees(".said:not(.live)", "And one more.")
        assert person.reads(".said:not(.live) .markdown") == ["The first one.", "And one more."]
        person("reload")
        person.sees(".said", "And one more.")
        person.until("document.querySelectorAll('.said:not(.live)').length === 2")
        person.clicks(".side .session:has-text('The second one')")
        person.sees(".said", "The second one.")
        assert person.reads(".said:not(.live) .markdown") == ["The second one."]


def test_an_address_with_a_record_opens_it(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("/lines 60")
        person.sees(".finished")
        here = person.leaves("#/")
        person.goes_to(f"{here}?seq=1")
        person.sees(".item.found")


@pytest.mark.slow
def test_a_session_is_renamed_and_removed(browser: Browser, server: Server, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("/quick")
        person.sees(".finished")
        person.sees(".project strong", "/quick")
        picks(person, "Rename")
        person.fills("#session-name", "Toll of the week")
        person.presses("Enter")
        person.loses("dialog")
        person.sees(".project strong", "Toll of the week")
        person.sees(".project-head .title", "Toll of the week")
        picks(person, "Remove session")
        person.sees("dialog", "Remove this session?")
        person.sees("dialog", "moved to the server’s trash for 7 days. Your files aren’t touched.")
        person.clicks("dialog button:has-text('Remove')")
        person.loses("dialog")
        person.sees(".project strong", "New session")
        person.loses(".said", "Done.")


async def test_the_list_is_filtered(browser: Browser, server: Server, directory: Path) -> None:
    other = directory.parent / "toll-house"
    other.mkdir()
    await project_in(server, directory)
    await project_in(server, other)
    with browser.person(f"{page_of(server)}#token={server.token}") as person:
        person.until("document.querySelectorAll('.group').length === 2")
        person.fills("#filter", "toll")
        person.until("document.querySelectorAll('.group').length === 1")
        person.sees(".group h3", "toll-house")
        person.fills("#filter", "nothing like it")
        person.sees(".side .no-match", "No matching sessions.")
        person("click", css="#filter")
        person.presses("Escape")
        person.until("document.querySelectorAll('.group').length === 2")


async def test_sessions_that_need_an_answer_come_first(browser: Browser, server: Server, directory: Path) -> None:
    others = [directory.parent / name for name in ("a", "b")]
    first = await project_in(server, directory)
    for other in others:
        other.mkdir()
        await project_in(server, other)
    async with server.client() as client:
        await client.ask("project_join", project_id=first)
        await client.ask("execute", {"prompt": "Something"}, first)
        await client.receive("permission_request")
        with browser.person(f"{page_of(server)}#token={server.token}") as person:
            person.until("document.querySelectorAll('.group').length === 3")
            assert person.reads(".group h3")[0] == "blog"
            person.sees(".project.waiting .state", "Needs you")
            person.sees(".project.waiting .last-line", "Edit a file")
            person.runs("document.activeElement.blur()")
            person.presses("n")
            person.sees(".approval")


@pytest.mark.thorough
@pytest.mark.parametrize("width", [390, 768, 1280])
async def test_without_the_list_a_link_leads_to_other_requests(
    browser: Browser, server: Server, directory: Path, width: int
) -> None:
    shown = await project_in(server, directory)
    (directory.parent / "other").mkdir()
    other = await project_in(server, directory.parent / "other")
    with browser.person(f"{page_of(server)}#token={server.token}&project={shown}", width=width, height=844) as person:
        person.sees("#prompt")
        if width > 1000:
            person.clicks(".side .fold")
        person.loses(".next-request")
        async with server.client() as client:
            await client.ask("project_join", project_id=other)
            await client.ask("execute", {"prompt": "Something"}, other)
            await client.receive("permission_request")
        person.sees(".next-request", "1")
        person.runs("location.hash = '#/settings'")
        person.sees(".project-head h2", "Settings")
        person.clicks(".next-request")
        person.sees(".approval")
        person.loses(".next-request")


async def test_an_unread_session_has_a_dot_and_no_count(browser: Browser, server: Server, address: str) -> None:
    """Finding S3-28: the count of unread messages counted records."""
    with browser.person(address) as person:
        person.sees("#prompt")
        person.runs("location.hash = '#/'")
        person.loses("#prompt")
        async with server.client() as other:
            [project] = [one["id"] for one in (await other.ask("project_list"))["data"]["projects"]]
            await other.send("project_join", project_id=project)
            await other.send("execute", {"prompt": "/quick"}, project)
            await other.receive("update", "run_finished")
        person.sees(".unread")
        assert person.reads(".unread") == ["Unread"], "only for screen readers"
        person.clicks(".side .project")
        person.loses(".unread")


@pytest.mark.slow
async def test_a_session_stays_unread_until_its_end_is_in_view(browser: Browser, server: Server, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("/lines 200")
        person.sees(".finished")
        person.until("document.querySelector('.scroller').scrollTop > 0")
        person.runs("document.querySelector('.scroller').scrollTop = 0")
        person.sees("button.jump")
        async with server.client() as other:
            [project] = [one["id"] for one in (await other.ask("project_list"))["data"]["projects"]]
            await other.ask("project_join", project_id=project)
            await other.ask("execute", {"prompt": '/say "News."'}, project)
            await other.receive("update", "run_finished")
        person.sees(".side .last-line", "News.")
        assert person("visible", css="button.jump")
        person.leaves()
        person.sees(".unread")
        person.clicks(".side .project")
        person.sees(".finished")
        person.loses(".unread")
        person.leaves()
        person.sees(".side .project")
        assert person.reads(".unread") == []


@pytest.mark.slow
async def test_more_than_200_sessions_are_listed_on_demand(browser: Browser, tmp_path: Path, directory: Path) -> None:
    listed = "document.querySelectorAll('.side .row').length"
    some = [one for number in range(205) for one in (f"Prompt {number}", SessionReset(f"s{number}", "", ""))]
    async with serving_history(tmp_path, directory, some) as (server, project):
        with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
            person.sees(".side .more summary", "earlier sessions")
            person.until(f"{listed} === 201")
            person.clicks(".side button:has-text('Show more sessions')")
            person.loses(".side button:has-text('Show more sessions')")
            person.until(f"{listed} === 206")
