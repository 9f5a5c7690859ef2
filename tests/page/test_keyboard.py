"""Each task can be done with the keyboard alone. After each step, the focus is where the work continues.

More such tests are in ``test_frame.py`` (first start, menus, palette), ``test_approving.py`` and ``test_drafts.py``
(accept, edit, reject, line comments) and ``test_message_box.py`` (completion).
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.auth.devices import Devices, new_code
from tests.server.checkpoints.rig import git
from tests.server.processes import Server

from .conftest import page_of, project_in
from .rig import Browser, Person
from .test_agent_state import bubbles
from .test_approvals import QUESTIONS
from .test_approving import CARD, OPEN, answers
from .test_commenting import committing, is_kept
from .test_frame import presses_until
from .test_reviewing import HUNK, address_of, repository
from .test_searching import KEEPS_EXPORTS

__all__ = ["committing", "repository"]  # fixtures

pytestmark = pytest.mark.thorough

SIZE: dict[str, Any] = {"width": 1440, "height": 900}
MENU = "[aria-label='Session menu']"
NO_DIALOG = "!document.querySelector('dialog')"
"""True once the web UI has removed a closed dialog. Until then, the key that opens it again has no effect."""

SETTLED = "!document.activeElement.matches('.moved')"
"""True once the focused button has stopped moving. Until then, it ignores keys and clicks."""

IN_DIALOG = "document.activeElement.closest('dialog') !== null"


def at(css: str) -> str:
    """Returns code that checks whether the focused element matches ``css``."""
    return f"document.activeElement.matches({json.dumps(css)})"


def named(text: str) -> str:
    """Returns code that checks whether the ``aria-label`` of the focused control, or its text if it has no
    ``aria-label``, begins with ``text``.
    """
    return (
        "((one) => (one.getAttribute('aria-label') ?? one.innerText).trim()"
        f".startsWith({json.dumps(text)}))(document.activeElement)"
    )


def sends(person: Person, text: str) -> None:
    person.until(at("#prompt"))
    person("insert", text=text)
    person.presses("Enter")


def asks(person: Person, call: dict[str, Any]) -> None:
    sends(person, f"/calls {json.dumps([call])}")
    person.until(OPEN.format(1))
    person.readies_keys()


def picks(person: Person, item: str) -> None:
    """Chooses an item in the menu of the session that is shown."""
    presses_until(person, "Shift+Tab", at(MENU))
    person.presses("Enter")
    person.until(at("[role=menuitem]"))
    presses_until(person, "ArrowDown", named(item))
    person.presses("Enter")


def test_questions_are_answered_with_the_keyboard(browser: Browser, address: str) -> None:
    with browser.person(address, **SIZE) as person:
        asks(person, QUESTIONS)
        presses_until(person, "2", "document.querySelector('[value=Black]').checked")  # a card that moves ignores keys
        person.presses("k")
        person.until(at(CARD))
        presses_until(person, "Tab", at("[value=Black]"))
        presses_until(person, "ArrowUp", at("[value=Oak]:checked"))
        presses_until(person, "Tab", at("[value=Sign]"))
        person.sees(f"{CARD}.keyed")
        presses_until(person, "2", "document.querySelector('[value=Rail]').checked")
        assert person.runs(at("[value=Sign]:not(:checked)"))
        presses_until(person, "Space", at("[value=Sign]:checked"))
        presses_until(person, "Tab", at(f"{CARD} .own"))
        person("type", text="A bell")
        person.presses("Enter")
        assert answers(person)[0]["updatedInput"]["answers"] == {
            "Which colour?": "Oak",
            "What else?": "Sign, Rail, A bell",
        }
        person.until(at("#prompt"))


def test_a_plan_is_sent_back_with_the_keyboard(browser: Browser, address: str) -> None:
    comment = f"{CARD} .comment-field textarea"
    with browser.person(address, **SIZE) as person:
        asks(
            person,
            {"name": "ExitPlanMode", "input": {"plan": "# Close on time\n\nFirst the code.\n\nThen the tests.\n"}},
        )
        person.presses("k")
        person.until(at(CARD))
        for number, words in ((2, "a slip"), (3, "Tests first")):
            presses_until(person, "Tab", named(f"Comment on part {number}"))
            person.presses("Enter")
            person.until(at(comment))
            person("type", text=words)
            if words == "a slip":
                person.presses("Tab")
                assert person.runs(named("Remove comment"))
                person.presses("Enter")
                person.until(named(f"Comment on part {number}"))
        presses_until(person, "Tab", named("Keep planning"))
        person.until(SETTLED)
        person.presses("Enter")
        person.until(at(f"{CARD} .rejecting textarea"))
        person.presses("Escape")
        person.until(at(CARD))
        person.sees(".approval.keyed")
        person.presses("r")
        person.until(at(f"{CARD} .rejecting textarea"))
        person("type", text="Shorter")
        person.presses("Enter")
        [answer] = answers(person)
        assert answer["behavior"] == "deny"
        assert "Shorter" in answer["message"]
        assert "Tests first" in answer["message"]
        assert "a slip" not in answer["message"]
        person.until(at("#prompt"))


def test_the_queue_is_changed_with_the_keyboard(browser: Browser, address: str) -> None:
    texts = "[...document.querySelectorAll('.queued-text')].map((one) => one.innerText).join()"
    with browser.person(address, **SIZE) as person:
        sends(person, "/slow 600")
        person.sees(".live .markdown")
        for text in ("first", "second", "third"):
            sends(person, text)
            person.sees(".queued", text)
        presses_until(person, "Shift+Tab", named("Edit “second”"))
        for key, text in (("Escape", "second"), ("Control+Enter", "/quick")):
            person.presses("Enter")
            person.until(at(".queued textarea"))
            person.presses("Control+a")
            person("type", text="/quick")
            person.presses(key)
            person.until(named(f"Edit “{text}”"))
        presses_until(person, "Tab", named("Move up “/quick”"))
        person.presses("Enter")
        person.until(f"{texts} === '/quick,first,third'")
        person.until(named("Edit “/quick”"))
        presses_until(person, "Tab", named("Move up “third”"))
        person.presses("Enter")
        person.until(f"{texts} === '/quick,third,first'")
        person.until(named("Move up “third”"))
        presses_until(person, "Tab", named("Remove “third”"))
        person.presses("Enter")
        person.until(named("Edit “first”"))
        presses_until(person, "Tab", named("Remove “first”"))
        person.presses("Enter")
        person.until(named("Edit “/quick”"))
        presses_until(person, "Tab", named("Stop the run and send “/quick” now"))
        person.presses("Enter")
        person.until("document.querySelectorAll('.finished').length === 2")
        assert bubbles(person) == ["/slow 600", "Stopped", "/quick", "Finished"]
        person.until(at("#prompt"))


def test_files_are_read_with_the_keyboard(browser: Browser, address: str, directory: Path) -> None:
    (directory / "src").mkdir()
    (directory / "src" / "bridge.py").write_text("SPEED = 1\n")
    with browser.person(address, **SIZE) as person:
        person.until(at("#prompt"))
        picks(person, "Files")
        person.until(at(".tree input"))
        person.sees(".tree", "src")
        presses_until(person, "Tab", named("src"))
        person.presses("Enter")
        person.sees(".tree", "bridge.py")
        assert person.runs(named("src"))
        person.presses("Tab")
        assert person.runs(named("bridge.py"))
        person.presses("Enter")
        person.sees(".viewer .cm-line", "SPEED = 1")
        assert person.runs(named("bridge.py"))
        presses_until(person, "Tab", at(".viewer"))
        presses_until(person, "Shift+Tab", at(".tree input"))
        person("type", text="nts")
        person.sees(".tree a", "notes.md")
        person.presses("Tab")
        person.presses("Enter")
        person.sees(".viewer .cm-line", "# Notes")
        assert person.runs(named("notes.md"))
        presses_until(person, "Shift+Tab", at(".side .project"))
        person.presses("Enter")
        person.until(at("#prompt"))


def test_on_a_narrow_screen_the_focus_follows_the_file(browser: Browser, address: str) -> None:
    """On a narrow screen, either the tree or the file is shown."""
    with browser.person(address, width=700, height=900) as person:
        person.until(at("#prompt"))
        picks(person, "Files")
        person.until(at(".tree input"))
        presses_until(person, "Tab", named("notes.md"))
        person.presses("Enter")
        person.until(at(".opened"))
        person.presses("Tab")
        assert person.runs(named("All files"))
        person.presses("Enter")
        person.until(at(".tree input"))
        presses_until(person, "Shift+Tab", named("Back to the session"))
        person.presses("Enter")
        person.until(at("#prompt"))


async def test_a_search_result_is_opened_with_the_keyboard(browser: Browser, server: Server, directory: Path) -> None:
    project = await project_in(server, directory)
    with browser.person(f"{page_of(server)}#token={server.token}&project={project}", **SIZE) as person:
        sends(person, "/quick about drawbridges")
        person.sees(".finished")
        picks(person, "Search here")
        person.until(at("#search"))
        presses_until(person, "Tab", named("Search everywhere"))
        person.presses("Enter")
        person.until(at("#search"))
        person("type", text="drawbridges")
        person.sees(".results mark", "drawbridges")
        person.until("document.querySelectorAll('.results a').length === 1")  # "d" alone also finds the answer, "Done."
        presses_until(person, "Tab", at(".results a"))
        person.presses("Enter")
        person.until(at(".item:has(.prompt)"))


def test_settings_are_changed_with_the_keyboard(browser: Browser, address: str) -> None:
    with browser.person(address, **SIZE) as person:
        person.until(at("#prompt"))
        picks(person, "Settings")
        person.until(at(".settings"))
        presses_until(person, "Tab", at("[name=theme]"))
        person.presses("ArrowDown")
        person.until("document.documentElement.dataset.theme === 'light'")
        person.presses("ArrowDown")
        person.until("document.documentElement.dataset.theme === 'dark'")
        assert person.runs(at("[name=theme]:checked"))
        presses_until(person, "Tab", "document.activeElement.parentElement.innerText.trim() === 'Wrap long lines'")
        person.presses("Space")
        person.until(at("[type=checkbox]:not(:checked)"))
        presses_until(person, "Tab", named("Pair a device"))
        for key in ("Escape", "Enter"):
            person.presses("Enter")
            person.until(IN_DIALOG)
            if key == "Enter":
                presses_until(person, "Tab", at("[name=scope]"))
                presses_until(
                    person, "ArrowUp", "document.activeElement.parentElement.innerText.trim() === 'View only'"
                )
                presses_until(person, "Tab", named("Create code"))
                person.presses("Enter")
                person.until(at(".pair-code"))
                presses_until(person, "Tab", named("Done"))
            person.presses(key)
            person.until(NO_DIALOG)
            person.until(named("Pair a device"))


def confirms(person: Person, button: str) -> None:
    """Presses this button in the open dialog."""
    person.until(IN_DIALOG)
    presses_until(person, "Tab", named(button))
    person.presses("Enter")


def test_a_device_is_revoked_with_the_keyboard(browser: Browser, own_server: Server) -> None:
    Devices(own_server.data).add("Ada's phone", "run")
    with browser.person(f"{page_of(own_server)}#token={own_server.token}", **SIZE) as person:
        person.sees(".side")
        person.goes_to("#/settings")
        person.until(at(".settings"))
        presses_until(person, "Tab", named("Revoke"))
        person.presses("Enter")
        confirms(person, "Revoke")
        person.sees(".settings", "No devices are paired")
        person.until(named("Pair a device"))


async def test_sessions_are_managed_with_the_keyboard(
    browser: Browser, server: Server, address: str, directory: Path
) -> None:
    """Sessions are resumed, renamed and removed, and then their project is removed."""
    other = directory.parent / "toll-house"
    other.mkdir()
    await project_in(server, other)
    with browser.person(address, **SIZE) as person:
        sends(person, '/say "The first one."')
        person.sees(".finished")
        picks(person, "New session")
        person.loses(".said", "The first one.")
        sends(person, '/say "The second one."')
        person.sees(".said", "The second one.")
        person.sees(".finished")

        person.sees(".side .session", "The first one")
        presses_until(person, "Shift+Tab", at(".side .session"))
        person.presses("Enter")
        person.sees(".said", "The first one.")
        presses_until(person, "Tab", named("Continue this session"))
        person.presses("Enter")
        person.sees(".toast", "Resumed.")
        person.until(at("#prompt"))

        picks(person, "Rename")
        person.until(at("#session-name"))
        person("type", text="Toll of the week")
        person.presses("Enter")
        person.sees(".project-head .title", "Toll of the week")
        person.until(at(MENU))

        presses_until(person, "Shift+Tab", named('Actions for “/say "The second'))
        person.presses("Enter")
        person.until(at("[role=menuitem]"))
        presses_until(person, "ArrowDown", named("Remove session"))
        person.presses("Enter")
        confirms(person, "Remove")
        person.loses(".side .session", "The second one")
        person.until(NO_DIALOG)
        person.until("document.activeElement.closest('.side .projects') !== null")

        presses_until(person, "Tab", at(MENU))
        person.presses("Enter")
        person.until(at("[role=menuitem]"))
        presses_until(person, "ArrowDown", named("Remove project"))
        person.presses("Enter")
        confirms(person, "Remove")
        person.until(at(".latest a"))


def test_a_run_is_undone_with_the_keyboard(browser: Browser, address: str, directory: Path) -> None:
    before = (directory / "notes.md").read_text()
    git = ["git", "-C", str(directory), "-c", "user.name=Ada", "-c", "user.email=ada@localhost"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    with browser.person(address, **SIZE) as person:
        sends(person, "Something")
        person.sees(CARD)
        person.readies_keys()
        person.presses("a")
        person.sees(".finished")
        person.until(at("#prompt"))
        presses_until(person, "Shift+Tab", named("View changes"))
        for _ in range(2):
            person.presses("Enter")
            person.until(at(".changes summary"))
            presses_until(person, "Shift+Tab", named("Close the changes"))
            person.presses("Enter")
            person.until(named("View changes"))
        person.presses("Enter")
        person.until(at(".changes summary"))
        presses_until(person, "Tab", named("Undo changes…"))
        person.presses("Enter")
        person.until(IN_DIALOG)
        person.presses("Escape")
        person.until(NO_DIALOG)
        person.until(named("Undo changes…"))
        person.presses("Enter")
        person.until(IN_DIALOG)
        presses_until(person, "Tab", named("Undo changes"))
        person.presses("Enter")
        person.sees(".changes", "Changes undone.")
        assert (directory / "notes.md").read_text() == before
        person.until(named("Close the changes"))


async def test_a_browser_signs_in_with_the_keyboard(browser: Browser, own_server: Server, directory: Path) -> None:
    """With a token that is not valid, then with a pairing code, under another name."""
    await project_in(own_server, directory)
    devices = Devices(own_server.data)
    code = new_code(devices, "run")
    with browser.person(page_of(own_server), **SIZE) as person:
        person.until(at("#token"))
        person("insert", text="drawbridge_almost_right")
        person.presses("Enter")
        person.sees(".problem", "That token isn’t valid. Check it and try again.")
        person.until(at("#token"))
        person.presses("Control+a")
        person("type", text=code.lower())
        person.sees("#device")
        person.presses("Tab")
        assert person.runs(at("#device"))
        person.presses("Control+a")
        person("type", text="Ada's desk")
        person.presses("Tab")
        assert person.runs(named("Pair this device"))
        person.presses("Space")
        person.until(at(".latest a"))
        person.presses("Enter")
        person.until(at("#prompt"))
    assert [device.name for device in devices] == ["Ada's desk"]


async def test_kept_changes_are_committed_with_the_keyboard(
    browser: Browser,
    committing: Server,
    repository: Path,
) -> None:
    project = await is_kept(committing, repository)
    with browser.person(address_of(committing, project), **SIZE) as person:
        person.until(at("#prompt"))
        person.sees(".to-review", "Review")
        presses_until(person, "Shift+Tab", at(".to-review"))
        person.presses("Enter")
        person.sees(HUNK)
        presses_until(person, "Tab", named("Commit…"))
        for key in ("Escape", "Enter"):
            person.presses("Enter")
            person.until(at("#commit-message"))
            if key == "Enter":
                person.presses("Control+a")
                person("type", text="A bridge")
                person.presses("Tab")
                assert person.runs(at("[name=branch]:checked"))
                presses_until(person, "ArrowDown", "document.querySelector('dialog input[type=text]') !== null")
                person.presses("Tab")
                assert person.runs(at("[aria-label='Name of the new branch']"))
                person("type", text="bridge")
                person.presses("Tab")
                assert person.runs(at("[type=checkbox]:checked"))
                person.presses("Space")
                assert person.runs(at("[type=checkbox]:not(:checked)"))
                presses_until(person, "Tab", named("Commit 1 file"))
                person.presses("Enter")
                person.sees("dialog [role=status]", "Committed 1 file on the new branch bridge")
                person.until(named("Close"))
            person.presses(key)
            person.until(NO_DIALOG)
            person.until(named("Commit…"))
    assert git(repository, "log", "--format=%s", "-1").strip() == "A bridge"
    assert git(repository, "show", "--name-only", "--format=", "HEAD").strip() == "src/new.py"
    assert git(repository, "branch", "--show-current").strip() == "bridge"


def test_files_are_attached_and_removed_with_the_keyboard(browser: Browser, address: str, tmp_path: Path) -> None:
    for name in ("first.txt", "second.txt"):
        (tmp_path / name).write_text(f"This is {name}.\n")
    with browser.person(address, **SIZE) as person:
        person.until(at("#prompt"))
        presses_until(person, "Tab", named("Attach files"))
        for key, name in (("Enter", "first.txt"), ("Space", "second.txt")):
            person("pressAndChoose", key=key, files=[str(tmp_path / name)])
            person.sees(".pictures", name)
            person.until(named("Attach files"))
        presses_until(person, "Shift+Tab", named("Remove first.txt"))
        person.presses("Enter")
        person.loses(".pictures", "first.txt")
        person.until("document.activeElement.closest('.composer') !== null")
        presses_until(person, "Tab", at("#prompt"))
        person("type", text="Read this")
        person.presses("Enter")
        person.sees(".prompt .words", "Read this")
        person.sees(".prompt .attached", "second.txt")
        assert person.runs("document.querySelectorAll('.prompt .attached .tag').length") == 1
        person.until(at("#prompt"))


def test_a_session_is_exported_with_the_keyboard(browser: Browser, address: str) -> None:
    with browser.person(address, **SIZE) as person:
        sends(person, "/quick about drawbridges")
        person.sees(".finished")
        person.runs(KEEPS_EXPORTS)
        for item in ("Export as Markdown", "Export as JSON Lines"):
            person.runs("window.exported = undefined")
            picks(person, item)
            person.until("window.exported?.includes('about drawbridges')")
            person.until(at(MENU))
