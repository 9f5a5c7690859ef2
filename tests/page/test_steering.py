"""What a user does besides deciding: sessions, stopping, the queue, modes, and removing projects."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.server.processes import Server

from .agent import TASK, enters_worktree, wake_up
from .conftest import page_of, project_in, serving
from .rig import Browser

pytestmark = pytest.mark.thorough

STATIC = Path(__file__).resolve().parent.parent.parent / "web" / "static"


def test_stopping_a_run_starts_the_next_queued_one(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("/slow 600")
        person.sees(".live .markdown", "I keep writing")
        person.prompts("/quick")
        person.sees(".queued", "Queued")
        person.sees(".run .state", "1 queued")
        person.runs("document.querySelector('.stop').dispatchEvent(new MouseEvent('click', { detail: 2 }))")
        person.clicks(".stop")  # the second click of a double click, above, does not stop the run
        person.sees(".finished", "Stopped")
        person.sees(".finished", "Finished")
        person.loses(".queued")
        person.loses(".stop")


@pytest.mark.slow
def test_a_lone_surrogate_does_not_block_a_prompt(browser: Browser, address: str) -> None:
    """The server can't read a lone surrogate, so its error would not contain the id of the request."""
    with browser.person(address) as person:
        person.until("document.documentElement.dataset.connection === 'open'")
        person.sees("#prompt")
        area = "document.querySelector('#prompt')"
        person.runs(f"{area}.value = '/say \"a\\ud800b\"'; {area}.dispatchEvent(new Event('input')); {area}.focus()")
        person.presses("Enter")
        person.sees(".toast", "Some characters in your message were invalid")
        person.sees(".said", "a\ufffdb")
        person.loses(".queued")


def test_a_prompt_that_is_too_long_is_not_sent(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.until("document.documentElement.dataset.connection === 'open'")
        person.sees("#prompt")
        area = "document.querySelector('#prompt')"
        person.runs(f"{area}.value = 'long '.repeat(250_000); {area}.dispatchEvent(new Event('input')); {area}.focus()")
        person.presses("Enter")
        person.sees(".toast.problem", "This message is too long: 1.2 MB")
        person.loses(".queued")
        person.until(f"{area}.value.length > 1e6")


def test_a_failed_run_shows_the_reason(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("/fail")
        person.sees(".finished .problem", "The demo agent failed, as it was told to.")
        person.sees(".project .state", "Last run failed")


@pytest.mark.thorough
def test_resuming_after_an_account_limit_can_be_canceled(browser: Browser, address: str) -> None:
    """Until then, the session shows the time at which its run resumes."""
    lifted = datetime.now(UTC) + timedelta(hours=2)
    with browser.person(address) as person:
        person.prompts(f"/limit {lifted.timestamp()}")
        person.sees(".finished .problem", f"{lifted:%H:%M}")
        person.sees(".project .state", "Resumes at")
        person.sees(".run .state", f"{lifted:%H:%M}")
        person.clicks("button:has-text('Cancel auto-resume')")
        person.sees(".project .state", "Last run failed")
        person.loses("button:has-text('Cancel auto-resume')")


@pytest.mark.thorough
def test_a_scheduled_alarm_is_shown_and_can_be_canceled(browser: Browser, address: str) -> None:
    alarm = datetime.now(UTC) + timedelta(minutes=30)
    with browser.person(address) as person:
        person.prompts(f"/emit {json.dumps(wake_up(alarm.timestamp()))}")
        person.sees(".project .state", "Scheduled until")
        person.sees(".run .state", "Scheduled until")
        person.clicks("button:has-text('Cancel schedule')")
        person.sees(".project .state", "Ready")
        person.loses("button:has-text('Cancel schedule')")


@pytest.mark.slow
def test_the_cancel_button_names_what_ends_with_the_schedule(browser: Browser, address: str) -> None:
    alarm = datetime.now(UTC) + timedelta(minutes=30)
    with browser.person(address) as person:
        person.prompts(f"/emit {json.dumps([*wake_up(alarm.timestamp()), TASK])}")
        person.sees(".run .state", "Scheduled until")
        person.sees(".tasks summary", "1 task is running")
        person.clicks("button:has-text('Cancel schedule and tasks')")
        person.sees(".project .state", "Ready")
        person.loses(".tasks summary")


@pytest.mark.thorough
def test_auto_accept_mode_changes_files_without_asking(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address) as person:
        person.until("document.documentElement.dataset.connection === 'open'")
        person.sees(".empty .hint", "It asks before changing files")
        person.picks("mode", "acceptEdits")
        person.sees(".toast", "Mode: Auto-accept edits")
        person.sees(".empty .hint", "It changes files without asking")
        person.prompts("unasked")
        person.sees(".finished")
        person.picks("mode", "plan")
        person.sees(".toast", "Mode: Plan")
    with browser.person(address) as other:
        other.sees(".chip.mode > button[data-value=plan]")
    assert "unasked" in (directory / "notes.md").read_text()


def test_only_permitted_modes_are_offered(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.until("document.documentElement.dataset.connection === 'open'")
        person.clicks(".chip.mode > button")
        person.sees(".chip-menu")
        offered = person.runs("[...document.querySelectorAll('.chip-menu button')].map((one) => one.dataset.value)")
        assert offered == ["default", "acceptEdits", "plan", "auto"], (
            "without --skip-permissions there is no bypassPermissions"
        )


@pytest.mark.slow
def test_a_new_session_can_be_started(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("/quick")
        person.sees(".finished")
        person.clicks("button[aria-label='Session menu']")
        person.clicks("[role=menuitem]:has-text('sessions in this folder')")
        person.sees("dialog .sessions", "No sessions yet.")
        person.runs("location.hash = '#/'")  # as Back does on a phone, while the dialog is still about this project
        person.loses("#prompt")
        person.clicks("dialog button:has-text('New session')")
        person.loses("dialog")
        person.clicks(".project")
        person.sees(".conversation .empty")
        person.loses(".prompt .words", "/quick")
        person.sees(".side .session", "/quick")


def test_removing_a_project_keeps_its_directory(
    browser: Browser, server: Server, address: str, directory: Path
) -> None:
    with browser.person(address) as person:
        person.clicks("button[aria-label='Session menu']")
        person.clicks("[role=menuitem]:has-text('Remove project')")
        person.clicks("dialog button:has-text('Remove')")
        person.sees(".side .empty", "No projects yet")
        person.loses(".project")
        assert person.reads(".toast") == [], "nobody else has removed it"
    assert (directory / "notes.md").exists()


def test_a_directory_that_cannot_be_a_project_is_reported(browser: Browser, server: Server, address: str) -> None:
    """The view for a new session stays open with the path in its field."""
    with browser.person(address) as person:
        person.sees("h2", "blog")
        person.clicks(".side .add")
        person.fills("#path", "/etc")
        person.clicks(".start button[type=submit]")
        person.until("document.querySelector('.start > .problem').textContent !== ''")
        assert person("value", css="#path") == "/etc"
        assert len(person.reads(".project")) == 1


def test_a_runs_changes_are_shown_and_undone(browser: Browser, address: str, directory: Path) -> None:
    before = (directory / "notes.md").read_text()
    git = ["git", "-C", str(directory), "-c", "user.name=Ada", "-c", "user.email=ada@localhost"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    with browser.person(address) as person:
        person.prompts("Something")
        person.clicks(".approval .yes")
        person.clicks("text=View changes")
        person.sees(".files summary", "notes.md")
        person.sees(".files .line.added", "> You said: Something")
        person.clicks("text=Undo changes…")
        assert (directory / "notes.md").read_text() != before
        person.clicks(".changes footer .no")
        person.sees(".divider", "You undid the changes to 1 file")
        assert (directory / "notes.md").read_text() == before
        person.prompts("Again")
        person.clicks(".approval .yes")
        person.until("document.querySelectorAll('.finished').length === 2")
        person.clicks(".finished:last-of-type button:has-text('View changes')")
        person.sees(".files .line.added", "> You said: Again")
        (directory / "notes.md").write_text("mine\n")
        person.clicks("text=Undo changes…")
        person.clicks(".changes footer .no")
        person.sees(".changes .problem", "Nothing was undone")
    assert (directory / "notes.md").read_text() == "mine\n"


@pytest.mark.slow
def test_a_runs_changes_show_where_its_agent_worked(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts(f"/emit {json.dumps(enters_worktree('/p/.claude/worktrees/wt'))}")
        person.clicks(".finished button:has-text('View changes')")
        person.sees(".changes", "The agent worked in /p/.claude/worktrees/wt. Changes there are not shown.")


@pytest.mark.thorough
def test_the_changes_of_a_run_without_a_git_repository_are_shown(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("Something")
        person.clicks(".approval .yes")
        person.clicks("text=View changes")
        person.sees(".files .line.added", "> You said: Something")


@pytest.mark.slow
def test_the_web_ui_shows_why_a_run_has_no_checkpoint(browser: Browser, address: str, directory: Path) -> None:
    for number in range(31):
        with (directory / f"{number}.bin").open("wb") as file:
            file.truncate(10 * 1024 * 1024)  # a sparse file takes up no disk space
    with browser.person(address) as person:
        person.prompts("/quick")
        person.clicks("text=View changes")
        person.sees(".changes .hint", "Too large to review")


@pytest.mark.slow
async def test_an_agent_without_image_support_gets_the_path(browser: Browser, tmp_path: Path, directory: Path) -> None:
    image = tmp_path / "cat.png"
    image.write_bytes((STATIC / "icon-192.png").read_bytes())
    options = ("--no-tls", "--allow", directory.parent, "--command-agent", "blind=cat")
    async with serving(tmp_path / "data", *options) as server:
        async with server.client() as client:
            made = await client.ask("project_create", {"path": str(directory), "agent": "blind"})
        with browser.person(f"{page_of(server)}#token={server.token}&project={made['project_id']}") as person:
            person.until("localStorage.getItem('drawbridge.features') !== null")
            person.sees("#prompt")
            person("choose", css=".composer input[type=file]", files=[str(image)])
            person.sees(".pictures .file", "cat.png")
            person.prompts("Look")
            person.sees(".finished")
            person.sees(".prompt .picture[title='cat.png'] img")
        async with server.client() as client:
            page = await client.ask("get_messages", {"after_seq": 0}, made["project_id"])
            assert "Look\\n\\nAttached file: /" in json.dumps(page["data"])


@pytest.mark.thorough
def test_images_are_attached_removed_and_shown(browser: Browser, address: str, tmp_path: Path) -> None:
    file, other = tmp_path / "cat.png", tmp_path / "text.png"
    file.write_bytes((STATIC / "icon-192.png").read_bytes())
    other.write_text("no picture at all")
    with browser.person(address) as person:
        person.sees("button[aria-label='Attach files']")
        person("choose", css=".composer input[type=file]", files=[str(file), str(file), str(other)])
        person.sees(".pictures .file", "text.png")
        person.until("document.querySelectorAll('.pictures img').length === 2")
        person.clicks("button[aria-label='Remove text.png']")
        person.clicks("button[aria-label='Remove cat.png']")
        person.prompts("/quick")
        person.sees(".finished")
        person.loses(".pictures")
        person.sees(".prompt .picture[title='cat.png'] img")
        assert person.runs("document.querySelectorAll('.prompt .picture').length") == 1
        assert person.complaints() == []
        person("reload")
        person.sees(".prompt .picture[title='cat.png'] img")


@pytest.mark.slow
async def test_a_refused_prompt_returns_to_the_message_box(browser: Browser, tmp_path: Path, directory: Path) -> None:
    """The server refuses it because the queue is full."""
    async with serving(tmp_path / "data", "--no-tls", "--allow", directory.parent, "--max-queue", "1") as server:
        project = await project_in(server, directory)
        with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
            person.prompts("/slow 600")
            person.sees(".live .markdown")
            person.prompts("/quick")
            person.sees(".queued", "Queued")
            person.prompts("one too many")
            person.sees(".toast.problem", "The queue of this project is full")
            assert person("value", css="#prompt") == "one too many"
            assert len(person.reads(".queued")) == 1


async def test_the_web_ui_shows_that_an_agent_never_asks(browser: Browser, server: Server, directory: Path) -> None:
    async with server.client() as client:
        made = await client.ask("project_create", {"path": str(directory), "agent": "codex"})
        [listed] = [
            one for one in (await client.ask("project_list"))["data"]["projects"] if one["id"] == made["project_id"]
        ]
        assert listed["asks"] is False
    with browser.person(f"{page_of(server)}#token={server.token}&project={made['project_id']}") as person:
        person.sees(".empty .hint", "It changes files without asking")
        person.clicks(".chip.mode > button")
        person.sees(".chip-menu .hint", "Codex can’t ask for approval.")
