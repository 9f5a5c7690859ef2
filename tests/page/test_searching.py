"""Search in all conversations, and the export of a session as a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import programs
from tests.server.processes import Server

from .conftest import page_of, project_in
from .rig import Browser

pytestmark = pytest.mark.thorough


async def has_said(server: Server, project: str, *prompts: str) -> None:
    async with server.client() as client:
        await client.ask("project_join", project_id=project)
        for prompt in prompts:
            await client.ask("execute", {"prompt": prompt}, project)
            await client.receive("update", "run_finished")


async def test_s2_16_a_conversation_is_found_by_its_words(browser: Browser, server: Server, directory: Path) -> None:
    project = await project_in(server, directory)
    await has_said(server, project, "/quick about drawbridges", "/quick <b>and</b> moats", "/quick nothing")
    with browser.person(f"{page_of(server)}#token={server.token}") as person:
        person.sees(".side", "blog")
        person.fills("#filter", "drawbridges")
        person.clicks(".search-all")
        person.sees(".results mark", "drawbridges")
        person.sees(".results .tag", "Message")
        person.fills("#search", "<b>and</b> moats")
        person.sees(".results p", "<b>and</b> moats")
        assert person("axe", file=str(programs.axe())) == []
        person.clicks(".results a")
        person.sees(".prompt .words", "moats")
        person.runs("location.hash = '#/search?q=zebra'")
        person.sees(".search .hint", "No results.")


# The web UI searches 250 ms after the last key. Timers with the same delay fire in the order in which they were
# started.
ASKED = "new Promise((later) => setTimeout(later, 250))"


@pytest.mark.slow
async def test_a_search_made_offline_runs_after_reconnecting(browser: Browser, server: Server, directory: Path) -> None:
    project = await project_in(server, directory)
    await has_said(server, project, "/quick about drawbridges")
    with browser.person(f"{page_of(server)}#token={server.token}") as person:
        person.sees(".side", "blog")
        person.goes_to("#/search?q=")
        person.sees("#search")
        person("offline", on=True)
        person.sees(".connection", "offline")
        person.fills("#search", "drawbridges")
        person.until("location.hash.includes('drawbridges')")
        person.runs(ASKED)
        person("offline", on=False)
        person.sees(".results mark", "drawbridges")
        assert person.reads(".search .problem") == []


TYPES_AT_ONCE = """new MutationObserver((_, watch) => {
  const field = document.querySelector('#search');
  if (!field) return;
  watch.disconnect();
  field.value = 'drawbridges';
  field.dispatchEvent(new InputEvent('input', { bubbles: true }));
}).observe(document.body, { childList: true, subtree: true })"""


@pytest.mark.slow
async def test_what_is_typed_as_soon_as_the_field_appears_is_searched(
    browser: Browser, server: Server, directory: Path
) -> None:
    """On a busy machine, the field appears some time before the browser draws it."""
    project = await project_in(server, directory)
    await has_said(server, project, "/quick about drawbridges")
    with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
        person.sees("#prompt")
        person.runs(TYPES_AT_ONCE)
        person.goes_to("#/search")
        person.sees(".results mark", "drawbridges")


async def test_the_search_of_one_project_can_be_widened(browser: Browser, server: Server, directory: Path) -> None:
    project = await project_in(server, directory)
    await has_said(server, project, "/quick about drawbridges")
    with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
        person.clicks("button[aria-label='Session menu']")
        person.clicks("[role=menuitem]:has-text('Search here')")
        person.sees(".search .only", "Only in blog")
        person.clicks("button:has-text('Search everywhere')")
        person.loses(".search .only")


KEEPS_EXPORTS = (
    "const make = URL.createObjectURL; URL.createObjectURL = (blob) => { blob.text().then((text) => "
    "{ window.exported = text; }); return make(blob); }"
)
"""Keeps the text of the last file that the web UI handed to the browser as a download."""


@pytest.mark.slow
async def test_a_session_is_exported(browser: Browser, server: Server, directory: Path) -> None:
    project = await project_in(server, directory)
    await has_said(server, project, "/quick about drawbridges")
    with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
        person.sees(".prompt .words", "drawbridges")
        person.runs(KEEPS_EXPORTS)
        for label, begins in {"Export as Markdown": "#", "Export as JSON Lines": "{"}.items():
            person.runs("window.exported = undefined")
            person.clicks("button[aria-label='Session menu']")
            person.clicks(f"[role=menuitem]:has-text('{label}')")
            person.until("window.exported !== undefined")
            text = person.runs("window.exported")
            assert text.startswith(begins), text[:80]
            assert "about drawbridges" in text
        person.clicks("button[aria-label='Session menu']")
        person.clicks("[role=menuitem]:has-text('New session')")
        person.loses("h2 .title", "drawbridges")
        person.clicks("button[aria-label='Session menu']")
        person.sees("[role=menuitem]", "Files")
        assert [text for text in person.reads("[role=menuitem]") if "Export" in text] == [], "nothing to export yet"
