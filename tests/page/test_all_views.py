"""Accessibility of every view: axe finds no violations, in either theme."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from drawbridge.server.auth.devices import Devices, new_code
from tests import programs
from tests.rigs.reviews import decides
from tests.server.processes import Server

from .conftest import page_of, project_in
from .rig import Browser, Person
from .test_agent_state import assistant, system
from .test_approvals import QUESTIONS
from .test_approving import CARD, asks, write
from .test_commenting import committing, is_answered, is_kept, opens_commit
from .test_files import changed, files
from .test_files import opens as opens_file
from .test_history import history
from .test_message_box import HOLD, INIT, emits
from .test_reviewing import address_of, ids, repository
from .test_searching import has_said

__all__ = ["changed", "committing", "files", "history", "repository"]  # fixtures

pytestmark = pytest.mark.thorough


def checks(person: Person) -> tuple[Callable[[str], None], dict[str, list[object]]]:
    """Returns a function that checks the open view with axe, and the violations found so far, by the view's name."""
    found: dict[str, list[object]] = {}

    def check(view: str) -> None:
        if problems := person("axe", file=str(programs.axe())):
            found[view] = problems

    return check, found


def test_axe_finds_nothing_in_a_session(browser: Browser, address: str, directory: Path) -> None:
    git = ["git", "-C", str(directory), "-c", "user.name=Ada", "-c", "user.email=ada@localhost"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    with browser.person(address, width=1440, height=900) as person:
        check, found = checks(person)
        person.prompts("Something")
        person.sees(".approval")
        person.clicks(".approval footer button:has-text('Edit')")
        person.sees(".approval .cm-content")
        check("editor beside the original")
        person.presses("Escape")
        person.prompts("next")
        person.sees(".queue", "next")
        check("queue")
        person.clicks(".queue button[aria-label='Edit “next”']")
        check("queued message that is edited")
        person.clicks(".queue button:has-text('Cancel')")
        person.clicks(".queue button[aria-label='Remove “next” from the queue']")
        person.loses(".queue")
        person.clicks(".approval footer .yes")
        person.sees(".finished")
        person.clicks("text=View changes")
        person.sees(".files .line.added")
        check("changes of a run")
        person.clicks("text=Undo changes…")
        person.sees("dialog", "Undo this run")
        check("undo of a run")
        person.presses("Escape")
        person.loses("dialog[open]")
        person.clicks(".finished button:has-text('Review changes')")
        person.sees(".hunk .line.added")
        check("review")
        person.clicks(".hunk button:has-text('Edit')")
        person.sees(".hunk textarea")
        check("edit in a review")
        person.clicks("main .back")
        for chip in ("mode", "agent"):
            person.clicks(f".chip.{chip} > button")
            person.sees(".chip-menu")
            check(f"menu for {chip}")
            person.presses("Escape")
        person.clicks(".outline-button")
        person.sees(".outline li")
        check("messages")
        person.presses("Escape")
        person.loses(".outline")
        for item, name in (("Rename", "rename"), ("Remove session", "remove")):
            person.clicks("button[aria-label='Session menu']")
            person.clicks(f"[role=menuitem]:has-text('{item}') >> nth=0")
            person.sees("dialog[open]")
            check(f"{name} dialog")
            person.presses("Escape")
            person.loses("dialog[open]")
        person.runs("location.hash = '#/settings'")
        person.sees(".settings .usage tbody th")
        check("settings")
        person.clicks("button:has-text('Pair a device')")
        person.clicks("button:has-text('Create code')")
        person.sees(".qr")
        check("pairing")
        person.clicks("dialog button:has-text('Done')")
        person.runs("location.hash = '#/search?q=Something'")
        person.sees(".results mark")
        check("search")
        person.runs("location.hash = '#/new'")
        person.clicks("button:has-text('New folder')")
        check("new folder")
        assert found == {}


def test_axe_finds_nothing_in_a_history(browser: Browser, history: str) -> None:
    with browser.person(history, width=1280, height=900) as person:
        check, found = checks(person)
        person.sees(".said", "I continue.")
        person.runs("document.querySelectorAll('.tool > summary').forEach((one) => one.click())")
        person.sees(".tool[open] .tool-body")
        check("calls")
        person.clicks(".panel summary >> nth=0")
        check("to-do list")
        person.clicks("button[aria-label='Session menu']")
        person.clicks("[role=menuitem]:has-text('Files')")
        person.sees(".tree")
        check("files")
        person.clicks(".tree a:has-text('notes.md')")
        person.sees(".viewer .cm-line", "The bridge is up.")
        check("open file")
        assert found == {}


def test_axe_finds_nothing_in_agent_reports(browser: Browser, address: str) -> None:
    tasks = [
        system("task_started", task_id="1", description="Wait for the build", task_type="local_bash"),
        system("task_started", task_id="2", description="Look for callers", task_type="local_agent"),
    ]
    error = "Failed to authenticate. API Error: 401 invalid x-api-key"
    with browser.person(address, width=1280, height=900) as person:
        check, found = checks(person)
        emits(person, INIT, tasks[0] | {"is_backgrounded": True}, tasks[1] | {"subagent_type": "explorer"}, HOLD)
        person.sees(".tasks[open] li", "Look for callers")
        check("background tasks")
        person.clicks(".stop")
        person.sees(".finished")
        person.fills("#prompt", "/")
        person.sees(".suggestions [role=option]", "/compact")
        check("suggestions")
        person.clicks(".suggestions [role=option]")
        person.fills("#prompt", "")
        emits(person, assistant({"type": "text", "text": error}) | {"error": "authentication_failed"}, {"fail": error})
        person.sees(".error-card", "isn’t logged in")
        check("failed run")
        person.clicks(".error-card button:has-text('How to log in')")
        person.sees(".error-card p", "Log in on the server")
        check("failed run, with how to log in")
        # The browser reports that it is online, so the server seems to be down.
        person.runs("Object.defineProperty(navigator, 'onLine', { value: true, configurable: true })")
        person("offline", on=True)
        person.sees(".box-notice", "Disconnected.")
        check("disconnected")
        person.runs("delete navigator.onLine")
        person.sees(".box-notice", "You’re offline.")
        check("offline")
        assert found == {}


def test_axe_finds_nothing_in_cards_and_sessions(browser: Browser, address: str, directory: Path) -> None:
    cell: dict[str, object] = {"cell_type": "code", "id": "a1", "metadata": {}, "outputs": [], "execution_count": None}
    before, after = (
        json.dumps({"cells": [{**cell, "source": [f"x = {x}\n"]}], "metadata": {}, "nbformat": 4}) for x in (1, 2)
    )
    (directory / "book.ipynb").write_text(before)
    (directory / "empty.txt").write_bytes(b"")
    content = [
        {"type": "diff", "path": str(directory / name), "oldText": "a\n", "newText": "b\n"} for name in ("a", "b")
    ]
    files = {"name": "acp:edit", "input": {"toolCallId": "t1", "title": "Rename", "kind": "edit", "content": content}}
    stored = [
        {"session_id": name, "title": f"About the {name}", "last_active": time.time()} for name in ("toll", "gate")
    ]
    (directory / ".sessions.json").write_text(json.dumps(stored))
    with browser.person(address, width=1280, height=1800) as person:
        check, found = checks(person)
        asks(person, write(directory / "book.ipynb", after), files)
        person.sees(f"{CARD} .cell .line.added", "x = 2")
        person.sees(f"{CARD} .file-list code", "b")
        check("cards of a notebook and of several files")
        person.clicks(".stop")
        person.sees(".finished")
        person.clicks("button[aria-label='Session menu']")
        person.clicks("[role=menuitem]:has-text('sessions in this folder')")
        person.sees("dialog .sessions strong", "About the gate")
        check("list of sessions")
        person("choose", css=".composer input[type=file]", files=[str(directory / "empty.txt")])
        person.clicks("dialog button:has-text('New session')")
        person.sees(".toast:not(.problem)", "New session.")
        person.sees(".toast.problem", "Can’t attach empty.txt: it is empty.")
        check("notes")
        person.clicks(".side .session")
        person.sees("button:has-text('Continue this session')")
        check("earlier session")
        assert found == {}


def test_axe_finds_nothing_in_sign_in_and_devices(browser: Browser, own_server: Server) -> None:
    devices = Devices(own_server.data)
    token = devices.add("Ada's phone", "view")[1]
    page = page_of(own_server)
    with browser.person(page, width=390, height=844) as phone:
        check, found = checks(phone)
        phone.fills("#token", "drawbridge_almost_right")
        phone.clicks("text=Connect")
        phone.sees(".problem", "That token isn’t valid.")
        check("wrong token")
        phone.goes_to(f"#pair={new_code(devices, 'view').replace('-', '')}&fp=ab01")
        phone.clicks("summary:has-text('Is this the right server?')")
        phone.sees("#device")
        check("pairing code")
        phone.goes_to(f"#token={token}")
        phone.sees(".side .empty", "This device can’t add projects. On the server’s machine")
        check("no project, on a phone")
        phone.goes_to(f"#sign-in={new_code(devices, 'admin').replace('-', '')}")
        phone.sees("dialog", "This link gives full access")
        check("link with more access")
        assert found == {}
    with browser.person(f"{page}#token={token}") as person:
        check, found = checks(person)
        person.sees("main .empty", "This device can’t add projects.")
        check("no project")
        assert found == {}
    with browser.person(f"{page}#token={own_server.token}") as person:
        check, found = checks(person)
        person.sees(".start h2", "New session")
        person.goes_to("#/settings")
        person.sees(".devices li", "Ada's phone")
        check("devices")
        person.clicks(".devices button:has-text('Revoke')")
        person.sees("dialog", "Revoke “Ada's phone”?")
        check("revoking")
        person.presses("Escape")
        person.loses("dialog")
        person.clicks("button:has-text('Sign out…')")
        person.sees("dialog", "Sign out?")
        check("signing out")
        assert found == {}


async def test_axe_finds_nothing_in_changed_files(
    browser: Browser,
    server: Server,
    changed: Path,
) -> None:
    module = changed / "src" / "bridge.py"
    module.write_text(module.read_text().replace("return 5050", 'return 5050 or "wide"  # a comment'))
    project = await project_in(server, changed)
    with browser.person(address_of(server, project), width=1280, height=900) as person:
        check, found = checks(person)
        person.sees("#prompt")
        opens_file(person, "src/bridge.py?changes")
        person.sees(".compared .line.added", "return 5050")
        check("changes of a file")
        opens_file(person, "old/gone.py?changes")
        person.sees(".compared", "Deleted since the last commit.")
        check("deleted file")
        opens_file(person, "logo.png")
        person.until("document.querySelector('.picture img')?.naturalWidth === 192")
        check("image")
        opens_file(person, "large.txt")
        person.sees(".opened .notice")
        check("large file")
        opens_file(person, ".env")
        person.sees(".opened .notice", "is private")
        check("private file")
        person.fills(".tree input", "zebra")
        person.loses(".tree a")
        check("no file found")
        assert found == {}


async def test_axe_finds_nothing_in_search_results(browser: Browser, server: Server, directory: Path) -> None:
    project = await project_in(server, directory)
    await has_said(server, project, "/quick about drawbridges")
    with browser.person(address_of(server, project)) as person:
        check, found = checks(person)
        person.clicks("button[aria-label='Session menu']")
        person.clicks("[role=menuitem]:has-text('Search here')")
        person.sees(".search .only", "Only in blog")
        person.fills("#search", "drawbridges")
        person.sees(".results mark", "drawbridges")
        check("results in one project")
        person.goes_to("#/search?q=zebra")
        person.sees(".search .hint", "No results.")
        check("no result")
        person.fills("#filter", "zebra")
        person.sees(".no-match", "No matching sessions.")
        check("no matching session")
        person.goes_to("#/")
        person.fills("#filter", "")
        person.sees(".latest a")
        check("latest sessions")
        assert found == {}


async def test_axe_finds_nothing_after_a_review(
    browser: Browser,
    committing: Server,
    repository: Path,
) -> None:
    project = await is_kept(committing, repository)
    hook = repository / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho No capitals\nexit 1\n")
    hook.chmod(0o755)
    with browser.person(address_of(committing, project), width=1280, height=900) as person:
        check, found = checks(person)
        opens_commit(person, project)
        person.clicks("dialog label:has-text('A new branch') input")
        person.fills("dialog input[type=text]", "bridge")
        person.fills("dialog textarea", "Capitals")
        check("commit dialog")
        person.clicks("dialog button:has-text('Commit 2 files')")
        person.sees("dialog .remark-lines", "No capitals")
        check("refused commit")
        hook.unlink()
        person.clicks("dialog button:has-text('Commit 2 files')")
        person.sees("dialog [role=status]", "Committed 2 files")
        check("commit")
        person.clicks("dialog footer button:has-text('Close')")
        person.loses("dialog")
        person.clicks(".review-bar button:has-text('Undo all…')")
        person.sees("dialog")
        check("undo of a review")
        person.presses("Escape")
        person.loses("dialog")
        await is_answered(committing, project)
        person.sees(".review .remark")
        await decides(committing, project, hunks=await ids(committing, project), decision="keep")
        person.sees(".empty button", "1 comment")
        check("decided review")
        person.clicks(".empty button:has-text('1 comment')")
        person.sees("dialog .remark")
        check("comments of a decided review")
        assert found == {}


def test_axe_finds_nothing_in_questions_and_plans(browser: Browser, address: str) -> None:
    plan = {"name": "ExitPlanMode", "input": {"plan": "# Close on time\n\nFirst the code.\n\nThen the tests.\n"}}
    with browser.person(address, width=1280, height=1800) as person:
        check, found = checks(person)
        asks(person, QUESTIONS, plan)
        person.clicks(".questions label:has-text('Oak')")
        person.sees(".preview.chosen", "oak")
        check("questions")
        person.clicks("button[aria-label^='Comment on part 2']")
        person.sees(".comment-field textarea")
        check("comment on a plan")
        person.clicks("button:has-text('Keep planning')")
        person.sees(".rejecting textarea")
        check("plan that is sent back")
        assert found == {}
