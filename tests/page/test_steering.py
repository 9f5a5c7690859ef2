"""Sessions, stopping, queueing, modes and removing: what a person does beside deciding."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path

import pytest

from tests.server.processes import Server

from .conftest import page_of, project_in, serving
from .rig import Browser

WEB = Path(str(files("drawbridge") / "web"))


def test_a_run_is_stopped_and_what_waits_behind_it_goes_on(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("/slow 30")
        person.sees(".live .markdown", "On and on")
        person.prompts("/quick")
        person.sees(".queued", "Queued")
        person.sees(".run .state", "1 queued")
        person.runs("document.querySelector('.stop').dispatchEvent(new MouseEvent('click', { detail: 2 }))")
        person.clicks(".stop")  # once: the second click of a double one would stop what comes next
        person.sees(".finished", "Interrupted")
        person.sees(".finished", "Finished")
        person.loses(".queued")
        person.loses(".stop")


def test_half_a_character_does_not_block_a_prompt(browser: Browser, address: str) -> None:
    """A server can't read it, so its error would not name the request."""
    with browser.person(address) as person:
        person.until("document.documentElement.dataset.connection === 'open'")
        area = "document.querySelector('#prompt')"
        person.runs(f"{area}.value = '/say \"a\\ud800b\"'; {area}.dispatchEvent(new Event('input')); {area}.focus()")
        person.presses("Enter")
        person.sees(".toast", "incomplete characters")
        person.sees(".said", "a\ufffdb")
        person.loses(".queued")


def test_a_prompt_that_is_too_long_is_not_sent(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.until("document.documentElement.dataset.connection === 'open'")
        area = "document.querySelector('#prompt')"
        person.runs(f"{area}.value = 'long '.repeat(250_000); {area}.dispatchEvent(new Event('input')); {area}.focus()")
        person.presses("Enter")
        person.sees(".toast.problem", "This message is too long: 1.2 MB")
        person.loses(".queued")
        person.until(f"{area}.value.length > 1e6")


def test_a_run_that_fails_says_why(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("/fail")
        person.sees(".finished .problem", "The demo agent failed, as it was told to.")
        person.sees(".project .state", "Last run failed")


@pytest.mark.thorough
def test_a_run_that_its_account_s_limit_has_stopped_goes_on_by_itself_unless_a_person_says_no(
    browser: Browser, address: str
) -> None:
    lifted = datetime.now(UTC) + timedelta(hours=2)
    with browser.person(address) as person:
        person.prompts(f"/limit {lifted.timestamp()}")
        person.sees(".finished .problem", f"{lifted:%H:%M}.")
        person.sees(".project .state", "Goes on at")
        person.sees(".run .state", f"{lifted:%H:%M}")
        person.clicks("button:has-text('Do not go on')")
        person.sees(".project .state", "Last run failed")
        person.loses("button:has-text('Do not go on')")


@pytest.mark.thorough
def test_with_another_mode_nothing_is_asked(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address) as person:
        person.until("document.documentElement.dataset.connection === 'open'")
        person("select", css=".tools select", value="acceptEdits")
        person.sees(".toast", "From now on: Accept edits.")
        person.prompts("unasked")
        person.sees(".finished")
        person("select", css=".tools select", value="plan")
        person.sees(".toast", "From now on: Plan only.")
    with browser.person(address) as other:
        other.until("document.querySelector('.tools select')?.value === 'plan'")
    assert "unasked" in (directory / "notes.md").read_text()


def test_no_mode_is_offered_that_is_refused(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.until("document.documentElement.dataset.connection === 'open'")
        person.until("document.querySelectorAll('.tools select option').length > 1")
        offered = person.runs("[...document.querySelectorAll('.tools select option')].map((option) => option.value)")
        assert offered == ["default", "acceptEdits", "plan", "auto"], (
            "without --skip-permissions there is no bypassPermissions"
        )


@pytest.mark.thorough
def test_a_new_session_begins(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("/quick")
        person.sees(".finished")
        person.clicks("button[aria-label=Sessions]")
        person.sees("dialog .sessions", "The agent remembers none.")
        person.runs("location.hash = '#/'")  # back, on a phone: what is asked is about this project still
        person.loses("#prompt")
        person.clicks("dialog button:has-text('New session')")
        person.loses("dialog")
        person.clicks(".project")
        person.sees(".divider", "A new session begins here")


def test_a_removed_project_leaves_its_directory(
    browser: Browser, server: Server, address: str, directory: Path
) -> None:
    with browser.person(address) as person:
        person.clicks("button[aria-label='Remove this project']")
        person.clicks("dialog button:has-text('Remove')")
        person.sees(".side .empty", "No project yet.")
        person.loses(".project")
        assert person.reads(".toast") == [], "nobody else has removed it"
    assert (directory / "notes.md").exists()


def test_a_directory_that_can_not_be_a_project_is_said_and_the_dialog_stays(
    browser: Browser, server: Server, address: str
) -> None:
    with browser.person(address) as person:
        person.sees("h2", "blog")
        person.clicks("text=Add project")
        person.fills("#path", "/etc")
        person.clicks("dialog button[type=submit]")
        person.until("document.querySelector('dialog .problem').textContent !== ''")
        assert person("value", css="#path") == "/etc"
        assert len(person.reads(".project")) == 1


def test_what_a_run_changed_is_shown_and_taken_back(browser: Browser, address: str, directory: Path) -> None:
    before = (directory / "notes.md").read_text()
    git = ["git", "-C", str(directory), "-c", "user.name=Ada", "-c", "user.email=ada@localhost"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    with browser.person(address) as person:
        person.prompts("Something")
        person.clicks(".approval .yes")
        person.clicks("text=What it changed")
        person.sees(".files summary", "notes.md")
        person.sees(".files .line.added", "> You said: Something")
        person.clicks("text=Take it back…")
        assert (directory / "notes.md").read_text() != before
        person.clicks(".changes footer .no")
        person.sees(".divider", "took back what a run had changed in 1 file")
        assert (directory / "notes.md").read_text() == before
        person.prompts("Again")
        person.clicks(".approval .yes")
        person.until("document.querySelectorAll('.finished').length === 2")
        person.clicks(".finished:last-of-type button:has-text('What it changed')")
        person.sees(".files .line.added", "> You said: Again")
        (directory / "notes.md").write_text("mine\n")
        person.clicks("text=Take it back…")
        person.clicks(".changes footer .no")
        person.sees(".changes .problem", "Nothing was reverted")
    assert (directory / "notes.md").read_text() == "mine\n"


@pytest.mark.thorough
def test_where_there_is_no_git_the_page_says_why_a_run_can_not_be_looked_at(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("/quick")
        person.clicks("text=What it changed")
        person.sees(".changes .hint", "git work tree")


@pytest.mark.thorough
async def test_an_agent_that_sees_nothing_is_offered_no_picture(
    browser: Browser, tmp_path: Path, directory: Path
) -> None:
    options = ("--no-tls", "--allow", directory.parent, "--command-agent", "blind=cat")
    async with serving(tmp_path / "data", *options) as server:
        async with server.client() as client:
            made = await client.ask("project_create", {"path": str(directory), "agent": "blind"})
        with browser.person(f"{page_of(server)}#token={server.token}&project={made['project_id']}") as person:
            person.until("localStorage.getItem('drawbridge.features') !== null")
            person.sees("#prompt")
            assert not person("visible", css="button[aria-label='Add a picture']")


@pytest.mark.thorough
def test_pictures_are_chosen_left_out_and_shown_by_their_names(browser: Browser, address: str, tmp_path: Path) -> None:
    file, other = tmp_path / "cat.png", tmp_path / "text.png"
    file.write_bytes((WEB / "icon-192.png").read_bytes())
    other.write_text("no picture at all")
    with browser.person(address) as person:
        person.sees("button[aria-label='Add a picture']")
        person("choose", css=".composer input[type=file]", files=[str(file), str(file), str(other)])
        person.sees(".toast", "text.png is no picture")
        person.until("document.querySelectorAll('.pictures img').length === 2")
        person.clicks("button[aria-label='Leave out cat.png']")
        person.prompts("/quick")
        person.sees(".finished")
        person.loses(".pictures")
        assert person.reads(".attached") == ["cat.png"]
        assert person.complaints() == []
        person("reload")
        person.sees(".attached", "cat.png")


@pytest.mark.thorough
async def test_a_prompt_that_the_server_does_not_take_comes_back_into_the_box(
    browser: Browser, tmp_path: Path, directory: Path
) -> None:
    async with serving(tmp_path / "data", "--no-tls", "--allow", directory.parent, "--max-queue", "1") as server:
        project = await project_in(server, directory)
        with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
            person.prompts("/slow 30")
            person.sees(".live .markdown")
            person.prompts("/quick")
            person.sees(".queued", "Queued")
            person.prompts("one too many")
            person.sees(".toast.problem", "Too many prompts are queued")
            assert person("value", css="#prompt") == "one too many"
            assert len(person.reads(".queued")) == 1


async def test_the_page_shows_that_an_agent_never_asks(browser: Browser, server: Server, directory: Path) -> None:
    async with server.client() as client:
        made = await client.ask("project_create", {"path": str(directory), "agent": "codex"})
        [listed] = [
            one for one in (await client.ask("project_list"))["data"]["projects"] if one["id"] == made["project_id"]
        ]
        assert listed["asks"] is False
    with browser.person(f"{page_of(server)}#token={server.token}&project={made['project_id']}") as person:
        person.sees(".empty .hint", "It changes files without asking")
        person.sees(".tools select", "default: never asks")
