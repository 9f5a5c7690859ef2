"""The frame of the web UI: first steps, layout on every screen, the command palette, keys, the first view.

docs/internals/page.md lists the findings that the docstrings name, such as S3-36.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests import programs
from tests.server.processes import Server
from tests.server.wire_client import deleted
from tests.waiting import PATIENCE

from .conftest import page_of, project_in, serving
from .rig import Browser, Person

pytestmark = pytest.mark.thorough

WIDER = (
    "[...document.querySelectorAll('body *')]"
    ".filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.diff, pre, .table'))"
    ".filter((one) => getComputedStyle(one).visibility !== 'hidden')"
    ".map((one) => one.outerHTML.slice(0, 80))"
)
IN_VIEW = (
    "(() => { const box = document.querySelector('{css}').getBoundingClientRect(); const at ="
    " document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);"
    " return box.top >= 0 && box.bottom <= innerHeight && at.closest('button') === document.querySelector('{css}') })()"
)


def shows(css: str) -> str:
    """Returns code that checks whether a button is within the height of the window and nothing covers its center."""
    return IN_VIEW.replace("{css}", css)


# First start.


def presses_until(person: Person, key: str, code: str) -> None:
    """Presses the key until the code is true, because its target may appear only after the first presses."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if person.runs(code):
            return
        person.presses(key)
    raise AssertionError(f"{key} never led to {code}")


def test_the_keyboard_is_enough_to_start_the_first_session(
    browser: Browser, own_server: Server, directory: Path
) -> None:
    """Findings S3-25, S3-32, S3-33: keys alone lead from an empty list of sessions to an accepted change."""
    subprocess.run(["git", "init", "-q", str(directory)], check=True)
    with browser.person(f"{page_of(own_server)}#token={own_server.token}") as person:
        person.sees(".start h2", "New session")
        person.sees("#folders [role=option]", "Git")
        person.sees(".agent-choice.missing", "Install Codex")
        person.sees(".agent-choice:has(:checked)", "Installed")
        person.until("document.activeElement.id === 'path'")
        person.presses("ArrowDown")
        person.sees("#folders [aria-selected=true]", str(directory))
        person.presses("Enter")
        assert person("value", css="#path") == str(directory)
        person.presses("Tab")
        presses_until(person, "Tab", "document.activeElement.name === 'agent'")
        presses_until(person, "ArrowDown", "document.activeElement.value === 'demo'")
        presses_until(person, "Tab", "document.activeElement.id === 'first'")
        person("type", text="Say that it rains")
        person.presses("Control+Enter")
        person.sees(".approval .line.added", "Say that it rains")
        person.readies_keys()
        person.presses("Control+Enter")
        person.sees(".finished")
    assert "rains" in (directory / "notes.md").read_text()


def test_folders_are_found_by_typing_and_by_arrow_keys(browser: Browser, own_server: Server, directory: Path) -> None:
    (directory.parent / "books").mkdir()
    with browser.person(f"{page_of(own_server)}#token={own_server.token}") as person:
        person.sees("#folders [role=option]")
        person.fills("#path", f"{directory.parent}/b")
        person.until("document.querySelectorAll('#folders [role=option]').length === 2")
        person.presses("ArrowDown")
        person.presses("ArrowUp")
        person.presses("ArrowUp")
        person.sees("#folders [aria-selected=true]", "books")
        person.presses("ArrowUp")
        person.presses("Enter")
        assert person("value", css="#path") == f"{directory}/"
        person.fills("#path", "/nowhere/at/all")
        person.sees(".start section .problem", "The directory was not found, or this server does not allow it.")
        assert person("value", css="#path") == "/nowhere/at/all"


def test_the_no_match_hint_disappears_once_a_folder_matches(
    browser: Browser, own_server: Server, directory: Path
) -> None:
    """It also disappears when the user creates a folder."""
    hint = ".start section [role=status]"
    with browser.person(f"{page_of(own_server)}#token={own_server.token}") as person:
        person.sees("#folders [role=option]")
        person.fills("#path", f"{directory.parent}/none")
        person.sees(hint, "No matching folders.")
        person.fills("#path", f"{directory.parent}/b")
        person.sees("#folders [role=option]", "blog")
        person.loses(hint, "No matching folders.")
        person.fills("#path", f"{directory.parent}/none")
        person.sees(hint, "No matching folders.")
        person.clicks("button:has-text('New folder')")
        person.fills("#folder-name", "toll house")
        person.presses("Enter")
        person.sees("#folders [role=option]", "toll house")
        person.loses(hint, "No matching folders.")
        person.fills("#path", f"{directory.parent}/toll house/")
        person.sees(hint, "No subfolders to choose from. You can start the session in this folder.")


async def test_home_and_recent_folders_are_offered(browser: Browser, tmp_path: Path, directory: Path) -> None:
    """Finding S3-33: "~" in the path field means the home directory, and folders that were used before come first."""
    home = directory.parent
    (home / "books").mkdir()
    (home / "carts" / ".git").mkdir(parents=True)
    async with serving(tmp_path / "data", "--no-tls", "--allow", home, HOME=str(home)) as server:
        async with server.client() as client:
            made = await client.ask("project_create", {"path": str(home / "books"), "agent": "demo"})
            await deleted(client, made["project_id"])
        with browser.person(f"{page_of(server)}#token={server.token}") as person:
            person.sees("#folders [role=option]:first-child", "books")
            person.sees("#folders [role=option]:first-child .tag", "recent")
            person.sees("#folders [role=option]:has-text('carts') .tag", "Git")
            person.fills("#path", "~")
            names = "[...document.querySelectorAll('#folders .label')].map((one) => one.innerText).join()"
            person.until(f"{names} === 'blog,books,carts'")
            person.fills("#path", "~/blog")
            person.sees("#folders [role=option]", "blog")
            person.clicks(".agent-choice:has-text('Demo')")
            person.clicks("button:has-text('Start session')")
            person.sees(".path", str(directory))


def test_starting_without_a_folder_shows_a_problem(browser: Browser, own_server: Server) -> None:
    with browser.person(f"{page_of(own_server)}#token={own_server.token}") as person:
        person.sees(".agent-choice:has(:checked)")
        person.clicks(".start button[type=submit]")
        person.sees(".start > .problem", "No folder is selected.")


async def test_the_view_without_a_session_shows_the_latest(browser: Browser, server: Server, directory: Path) -> None:
    """Finding S3-25: the first view was empty."""
    await project_in(server, directory)
    with browser.person(f"{page_of(server)}#token={server.token}") as person:
        person.sees(".welcome .lead", "Select a session, or start a new one.")
        person.clicks(".latest a")
        person.sees("h2", "blog")


def test_a_new_folder_is_created_and_used(browser: Browser, own_server: Server, directory: Path) -> None:
    (directory.parent / "taken").mkdir()
    with browser.person(f"{page_of(own_server)}#token={own_server.token}") as person:
        person.sees("#folders [role=option]")
        person.clicks("button:has-text('New folder')")
        assert person("value", css="#folder-place") == str(directory.parent)
        person.until("document.activeElement.id === 'folder-name'")
        person("type", text="taken")
        person.presses("Enter")
        person.sees("dialog .problem", "already exists")
        person.fills("#folder-name", "toll house")
        person.presses("Enter")
        person.loses("dialog")
        assert person("value", css="#path") == str(directory.parent / "toll house")
        assert (directory.parent / "toll house").is_dir()
        person.clicks(".agent-choice:has-text('Demo')")
        person.clicks("button:has-text('Start session')")
        person.sees(".project-head h2", "toll house")


# Layout.


def test_an_approval_can_be_answered_on_a_phone_in_landscape(browser: Browser, address: str) -> None:
    """Finding S2-24: requests could not be answered on a phone in landscape orientation."""
    with browser.person(address, width=844, height=390) as person:
        person.fills("#prompt", "Something")
        person.clicks(".composer .yes")
        person.sees(".approval .line.added")
        person.until(shows(".approval footer .yes"))
        assert person.runs("document.querySelector('.scroller').clientHeight") >= 180, "it was 120"
        assert not person("visible", css=".side")
        assert person.runs(WIDER) == []
        person.clicks(".approval footer .yes")
        person.sees(".finished")


def test_an_approval_can_be_answered_above_the_keyboard(browser: Browser, address: str) -> None:
    """Finding S2-24: the window is as tall as on a phone whose keyboard is open."""
    with browser.person(address, width=390, height=480) as person:
        person.fills("#prompt", "Something")
        person.clicks(".composer .yes")
        person.sees(".approval .line.added")
        person.until(shows(".approval footer .yes"))
        person.until(shows(".approval footer .no"))


@pytest.mark.parametrize(("width", "height"), [(280, 653), (320, 640), (768, 1024), (2560, 1200)])
async def test_nothing_is_cut_off_at_any_width(
    browser: Browser, server: Server, address: str, width: int, height: int
) -> None:
    with browser.person(page_of(server), width=width, height=height) as person:
        person.sees("#token")
        assert person.runs(WIDER) == []
    with browser.person(address, width=width, height=height) as person:
        person.sees("h2", "blog")
        assert person.runs(WIDER) == []
        person.clicks("button[aria-label='Session menu']")
        person.sees("[role=menuitem]", "Settings")
        assert person.runs(WIDER) == []
        person.presses("Escape")
        person.runs("location.hash = '#/new'")
        person.sees(".start .agent-choice")
        assert person.runs(WIDER) == []
        person.runs("location.hash = '#/'")
        person.sees(".group h3", "blog")
        assert person.runs(WIDER) == []


def test_on_a_tablet_the_list_is_a_drawer(browser: Browser, address: str) -> None:
    """Finding S3-36: on a tablet, the list of sessions could not be hidden."""
    with browser.person(address, width=768, height=1024) as person:
        person.sees("h2", "blog")
        person.sees(".conversation")
        assert not person("visible", css=".side .project")
        assert person.runs("document.querySelector('.conversation').clientWidth") == 768
        person.clicks(".unfold")
        person.sees(".side .project")
        person.until("document.activeElement.closest('.side') !== null")
        person.presses("Escape")
        person.loses(".side .project")
        person.until("document.activeElement.matches('.unfold')")


def test_on_a_phone_a_new_session_has_a_back_button(browser: Browser, address: str) -> None:
    with browser.person(address, width=390, height=844) as person:
        person.sees(".project-head h2", "blog")
        person.goes_to("#/new")
        person.sees(".start .agent-choice")
        assert not person("visible", css="main .unfold")
        person.clicks("main .back")
        person.sees(".side .project")


@pytest.mark.parametrize(("width", "height"), [(390, 844), (768, 1024)])
def test_settings_can_be_opened_before_the_first_session(
    browser: Browser, own_server: Server, width: int, height: int
) -> None:
    with browser.person(f"{page_of(own_server)}#token={own_server.token}", width=width, height=height) as person:
        person.sees(".start h2", "New session")
        person.clicks("main .unfold")
        person.clicks(".side footer button:has-text('Settings')")
        person.sees(".settings h3", "Notifications")


def test_a_long_title_does_not_cut_off_the_name_of_the_folder(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("/quick " + "and explain every word of it, " * 8)
        person.sees(".project-head .title", "explain every word")
        for width, height in ((1024, 768), (768, 1024), (390, 844), (844, 390), (390, 480)):
            person("resize", width=width, height=height)
            person.until(f"innerWidth === {width} && innerHeight === {height}")
            for style, whole in ((".folder", True), (".title", False)):
                name = f"document.querySelector('.project-head {style}')"
                assert person.runs(f"{name}.scrollWidth <= {name}.clientWidth") is whole, (width, height, style)


@pytest.mark.slow
def test_on_a_wide_screen_the_list_folds_and_stays_folded(browser: Browser, address: str) -> None:
    """Finding S3-36: the list of sessions could not be folded."""
    with browser.person(address) as person:
        person.sees("h2", "blog")  # by then, the token from the address has been stored
        person.clicks(".fold")
        person.loses(".side")
        person("reload")
        person.sees("h2", "blog")
        assert not person("visible", css=".side")
        person.clicks(".unfold")
        person.sees(".side .project")
        person("reload")
        person.sees(".side .project")


def test_forced_colors_show_the_session_and_its_state(browser: Browser, address: str) -> None:
    """Finding S4: the current session and its state were invisible."""
    with browser.person(address, forced=True) as person:
        person.sees(".side [aria-current]")
        style = "getComputedStyle(document.querySelector('{}')).{}"
        assert person.runs(style.format(".side [aria-current]", "outlineStyle")) == "solid"
        dot, paper = (
            person.runs(style.format(css, "backgroundColor")) for css in (".side .state .dot", ".side .project")
        )
        assert dot != paper
        person.prompts("Something")
        person.sees(".side .state.waiting")
        assert "underline" in person.runs(style.format(".side .state.waiting", "textDecorationLine"))


def test_the_state_is_not_ready_while_disconnected(browser: Browser, address: str) -> None:
    """Finding S3-31: the state was "Ready" without a connection."""
    with browser.person(address) as person:
        person.sees(".project-head .state", "Ready")
        person("offline", on=True)
        person.sees(".connection", "You’re offline. Messages will be sent when you reconnect.")
        person.sees(".project-head .state", "Disconnected")
        person("offline", on=False)
        person.sees(".project-head .state", "Ready")


def test_opening_a_session_focuses_the_message_box(browser: Browser, server: Server, address: str) -> None:
    """Finding S3-27: the focus was lost."""
    with browser.person(address) as person:
        person.sees("h2", "blog")
        person.runs("location.hash = '#/'")
        person.sees(".welcome .lead")
        person.clicks(".side .project")
        person.until("document.activeElement.id === 'prompt'")


def test_a_phone_has_one_header_with_a_menu(browser: Browser, address: str) -> None:
    """Findings S3-34, S3-35: no button removes the session immediately, and the settings can be reached."""
    with browser.person(address, width=390, height=844) as person:
        person.sees(".project-head .state", "Ready")
        assert person.runs("document.querySelectorAll('header:not([hidden])').length - "
                           "document.querySelectorAll('.side header').length") == 1  # fmt: skip
        assert person.reads("button[aria-label*='emove']") == []
        person.clicks("button[aria-label='Session menu']")
        items = person.reads("[role=menuitem]")
        assert {"New session", "Settings", "Remove project…"} <= set(items)
        person.clicks("[role=menuitem]:has-text('Settings')")
        person.sees("h2", "Settings")


def test_going_back_to_the_list_moves_the_focus_there(browser: Browser, address: str) -> None:
    with browser.person(address, width=390, height=844) as person:
        person.sees(".project-head .state", "Ready")
        person.runs("document.querySelector('a.back').focus()")
        person.presses("Enter")
        person.sees(".side .project")
        person.until("document.activeElement.closest('.side') !== null")


def test_a_menu_works_with_the_keyboard(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.sees("h2", "blog")
        person.until("document.activeElement.id === 'prompt'")
        person.runs("document.querySelector('[aria-label=\"Session menu\"]').focus()")
        person.presses("Enter")
        person.until("document.activeElement.matches('[role=menuitem]')")
        first = person.runs("document.activeElement.innerText")
        person.presses("ArrowUp")
        assert person.runs("document.activeElement.innerText") == "Remove project…"
        person.presses("ArrowDown")
        assert person.runs("document.activeElement.innerText") == first
        person.presses("Escape")
        person.loses("[role=menu]")
        assert person.runs("document.activeElement.getAttribute('aria-label')") == "Session menu"


# Command palette, keys, notes.


def test_the_palette_changes_the_theme(browser: Browser, server: Server) -> None:
    with browser.person(f"{page_of(server)}#token={server.token}") as person:
        person.sees(".side .empty")
        person.runs("location.hash = '#/settings'")
        person.sees(".settings legend", "Theme")
        for name, theme in (("Dark", "'dark'"), ("Light", "'light'"), ("System", "undefined")):
            person.commands(f"theme {name}", f"Theme: {name}")
            person.until(f"document.documentElement.dataset.theme === {theme}")
            person.until(f"document.querySelector('[name=theme]:checked').parentElement.innerText.trim() === '{name}'")


async def test_the_palette_opens_sessions_and_runs_commands(
    browser: Browser, server: Server, address: str, directory: Path
) -> None:
    other = directory.parent / "toll-house"
    other.mkdir()
    await project_in(server, other)
    with browser.person(address) as person:
        person.sees("h2", "blog")
        person.commands("tlho", "toll-house")
        person.sees("h2", "toll-house")
        person.loses("dialog")
        person.commands("shortcuts", "Keyboard shortcuts")
        person.sees("dialog h2", "Keyboard shortcuts")
        person.presses("Escape")
        person.loses("dialog")
        person.presses("Control+k")
        person.sees(".palette input:focus")
        person("type", text="zzzz")
        person.sees(".palette .hint", "No matching sessions or commands.")
        person.presses("Escape")
        person.loses("dialog")


@pytest.mark.slow
def test_an_error_stays_until_it_is_closed(browser: Browser, address: str) -> None:
    """Finding S2-23: errors disappeared after six seconds."""
    with browser.person(address) as person:
        person.until("document.documentElement.dataset.connection === 'open'")
        person.runs("window.setTimeout = new Proxy(setTimeout, { apply: (real, self, [act]) => real(act, 0) })")
        person.sees("#prompt")
        area = "document.querySelector('#prompt')"
        person.runs(f"{area}.value = 'long '.repeat(250_000); {area}.dispatchEvent(new Event('input')); {area}.focus()")
        person.presses("Enter")
        person.sees(".toast.problem", "too long")
        person.runs("new Promise((later) => setTimeout(() => setTimeout(later)))")
        assert person("visible", css=".toast.problem")
        box = person.runs("document.querySelector('.toast').getBoundingClientRect().toJSON()")
        main = person.runs("document.querySelector('.conversation').getBoundingClientRect().toJSON()")
        foot = person.runs("document.querySelector('.foot').getBoundingClientRect().toJSON()")
        assert abs((box["left"] + box["right"]) - (main["left"] + main["right"])) < 4, "over the conversation"
        assert box["bottom"] < foot["top"], "not over the message box"
        person.clicks(".toast button")
        person.loses(".toast")


def test_the_skip_link_is_the_first_element(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.sees("h2", "blog")
        person.runs("document.activeElement.blur()")
        person.runs("document.querySelector('#app').tabIndex = -1; document.querySelector('#app').focus()")
        person.presses("Tab")
        person.sees(".skip:focus")
        person.presses("Enter")
        person.until("document.activeElement.id === 'prompt'")


# Sign-in and old browsers.


def test_a_wrong_token_stays_in_its_field(browser: Browser, own_server: Server) -> None:
    with browser.person(page_of(own_server)) as person:
        person.fills("#token", "drawbridge_almost_right")
        person.clicks("text=Connect")
        person.sees(".problem", "That token isn’t valid. Check it and try again.")
        assert person("value", css="#token") == "drawbridge_almost_right"
        person.until("document.activeElement.id === 'token'")


@pytest.mark.parametrize(
    "lacks",
    ["window.WebSocket = undefined", "CSS.supports = (one, more) => more !== undefined || !one.includes(':has')"],
)
def test_an_old_browser_shows_that_it_is_too_old(browser: Browser, server: Server, lacks: str) -> None:
    """A script that old browsers can run checks for the features that the web UI needs."""
    [old] = [
        text for text in map(Path.read_text, programs.page().glob("part-*.js")) if "too old for Drawbridge" in text
    ]
    with browser.person(page_of(server)) as person:
        person.sees("#token")
        person.runs(f"document.documentElement.removeAttribute('data-started'); {lacks};")
        person.runs(f"(() => {{ {old} }})()")
        person.sees(".outdated", "This browser is too old for Drawbridge.")
        assert not re.search(r"=>|`|\b(let|const|class|async)\b", re.sub(r"//.*", "", old)), "it runs in old browsers"


# The first view.


def main_script() -> str:
    """Returns the name of the script that draws the first view."""
    found = re.search(r'<script type="module" src="([^"]+)"', (programs.page() / "index.html").read_text())
    assert found
    return found[1]


def first_script() -> str:
    """Returns the name of the script that starts what is needed after the first view."""
    found = re.search(r'<script src="([^"]+)" async', (programs.page() / "index.html").read_text())
    assert found
    return found[1]


def test_the_first_view_takes_three_round_trips_and_100_kb(browser: Browser, server: Server, address: str) -> None:
    """A file that only another file names would be loaded one round trip later."""
    page = programs.page()
    index = (page / "index.html").read_text()
    named = set(re.findall(r'(?:href|src)="([^"#]+\.(?:js|css))"', index))
    scripts = {name for name in named if name.endswith(".js")}
    assert len(named) <= 5, "a browser fetches six at a time, one of them the icon"
    later = re.findall(r"part-\w+\.js", (page / first_script()).read_text())
    assert later
    assert not set(later) & named, "what draws a session comes after the first view"
    for name in scripts:
        imports = re.findall(r'(?:from|import)"\./([^"]+)"', (page / name).read_text())
        assert set(imports) <= named, f"{name} fetches a part that index.html does not name"
    sizes = [len(gzip.compress((page / name).read_bytes(), 9)) for name in {*named, "index.html"}]
    assert sum(sizes) <= 100_000
    with browser.person(address) as person:
        person.sees("h2", "blog")
        late = person.runs(
            "performance.getEntriesByType('resource').filter((one) => one.initiatorType !== 'other')"
            ".map((one) => [new URL(one.name).pathname, one.startTime])"
        )
        paint = person.runs("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        before = [name for name, at in late if at < paint]
        assert len(before) <= 8, json.dumps(before)


BARS = """[...document.querySelectorAll('.skeleton div')].map((bar) => {
  const { top, bottom, left, right } = bar.getBoundingClientRect();
  const [color, around] = [bar, document.body].map((one) => getComputedStyle(one).backgroundColor);
  const isInView = top >= 0 && bottom <= innerHeight && left >= 0 && right <= innerWidth;
  return isInView && bottom - top > 20 && right - left > 100 && color !== around && !color.endsWith(', 0)');
})"""


@pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
def test_a_skeleton_is_shown_until_the_script_has_loaded(
    browser: Browser, server: Server, address: str, width: int
) -> None:
    with browser.person(f"{page_of(server)}icon.svg", held=main_script(), width=width) as person:
        person.runs(f"void (location.href = {json.dumps(address)})")
        person.sees(".skeleton")
        assert person.runs(BARS) == [True, True, True]
        person.lets()
        person.sees("h2", "blog")
        person.until("document.querySelector('.skeleton') === null")


def test_the_connection_opens_while_the_script_loads(browser: Browser, server: Server, address: str) -> None:
    with browser.person(f"{page_of(server)}icon.svg", held=main_script()) as person:
        person.runs(f"void (location.href = {json.dumps(address)})")
        person.sees(".skeleton")
        person.until("window.early?.readyState === WebSocket.OPEN")
        person.lets()
        person.sees("h2", "blog")
        person.until("document.documentElement.dataset.connection === 'open'")
        assert person.runs("window.early === undefined"), "it is used, and only once"


def test_a_late_script_does_not_open_a_second_connection(browser: Browser, server: Server, address: str) -> None:
    with browser.person(f"{page_of(server)}icon.svg", held=first_script()) as person:
        person.runs(f"void (location.href = {json.dumps(address)})")
        person.sees("h2", "blog")
        person.until("document.documentElement.dataset.connection === 'open'")
        person.lets()
        person.until("document.querySelectorAll('head [rel=modulepreload]').length > 1")
        assert person.runs("window.early === undefined")


def test_the_worker_installs_after_the_session_has_loaded(browser: Browser, server: Server, address: str) -> None:
    """Its requests would slow down a first visit over a slow network."""
    [lexer] = [file.name for file in programs.page().glob("part-*.js") if "Infinite loop on byte" in file.read_text()]
    with browser.person(f"{page_of(server)}icon.svg", held=lexer, worker=True) as person:
        person.runs(f"void (location.href = {json.dumps(address)})")
        person.sees("h2", "blog")
        person.until("document.querySelector('#prompt')?.disabled === false")
        assert person.runs("navigator.serviceWorker.getRegistrations().then((all) => all.length)") == 0
        person.lets()
        person.runs("navigator.serviceWorker.ready.then(() => null)")


def test_index_html_has_no_inline_styles() -> None:
    assert "style=" not in (programs.page() / "index.html").read_text(), "the policy allows no style in markup"


@pytest.mark.slow_for("desktop")
@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)], ids=["desktop", "phone"])
def test_axe_finds_nothing_in_the_frame(
    browser: Browser, server: Server, address: str, width: int, height: int
) -> None:
    axe = str(programs.axe())
    with browser.person(address, width=width, height=height) as person:

        def is_clean(what: str) -> None:
            assert person("axe", file=axe) == [], what

        person.sees("h2", "blog")
        person.clicks("button[aria-label='Session menu']")
        person.sees("[role=menuitem]")
        is_clean("menu")
        person.presses("Escape")
        person.presses("Control+k")
        person.sees(".palette [role=option]")
        is_clean("palette")
        person.presses("Escape")
        person.runs("location.hash = '#/new'")
        person.sees(".start .agent-choice")
        person.sees("#folders [role=option]")
        is_clean("start")
        person.runs("location.hash = '#/'")
        person.sees(".group")
        is_clean("list")
