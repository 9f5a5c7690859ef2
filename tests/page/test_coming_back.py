"""After a reload, a lost connection or a killed server, the view is the same, and no message or draft is lost."""

from __future__ import annotations

import contextlib
import http.server
import signal
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests import programs
from tests.server.processes import Server

from .conftest import page_of, project_in, serving
from .rig import Browser, Person
from .test_frame import main_script
from .test_real_claude import PASTES_A_PICTURE

pytestmark = pytest.mark.thorough

SAID = "[...document.querySelectorAll('.said:not(.live) .markdown')].map((one) => one.innerText)"
LINES = [f"Line {number}" for number in range(1, 31)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.asynccontextmanager
async def serving_at(port: int, data: Path, root: Path) -> AsyncIterator[Server]:
    """Starts a server on this port. ``serving`` also passes ``--port``, but the last one applies."""
    async with serving(data, "--no-tls", "--port", str(port), "--allow", root) as server:
        yield server


def numbers(person: Person) -> list[int]:
    """Returns the record numbers of the items that are drawn, from top to bottom."""
    found: list[int] = person.runs(
        "[...document.querySelectorAll('.items > .item')].map((one) => Number(one.dataset.seq))"
    )
    return found


def test_a_reload_in_the_middle_of_an_answer_changes_nothing(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address) as person:
        person.prompts("Something")
        person.sees(".approval")
        person.readies_keys()
        # The second click of a double click and a key that is held down were both meant for an earlier request.
        person.runs("document.querySelector('.approval .yes').dispatchEvent(new MouseEvent('click', { detail: 2 }))")
        person.runs(
            "document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'a', repeat: true, bubbles: true }))"
        )
        person.presses("e")
        person.edits("half an ed")
        person.fills("#prompt", "a thought\nof two lines")
        person("reload")
        person.sees(".approval .cm-content")
        assert person.edited() == "half an ed"
        assert person("value", css="#prompt") == "a thought\nof two lines"
        person.sees(".prompt .words", "Something")
        assert len(person.reads(".prompt")) == 1
        person.accepts_edited()
        person.sees(".finished", "Finished")
    assert (directory / "notes.md").read_text() == "half an ed"


@pytest.mark.thorough
def test_a_reload_during_a_run_shows_the_rest_of_it_once(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.prompts("/slow 20")
        person.sees(".live .markdown", "I keep writing")
        person("reload")
        person.until(r"/^Working · [1-9]/.test(document.querySelector('.run .state')?.innerText ?? '')")
        person.sees(".finished", "Finished")
        assert len(person.reads(".said:not(.live) .markdown")) == 1
        assert len(set(numbers(person))) == len(numbers(person))


MODE = ".chip.mode > button"


def test_a_prompt_written_offline_is_sent_once_on_reconnect(browser: Browser, address: str) -> None:
    """The mode can't be changed while the browser is offline."""
    with browser.person(address) as person:
        person.sees("h2", "blog")
        person.until("document.documentElement.dataset.connection === 'open'")
        person("offline", on=True)
        person.sees(".connection", "offline")
        person.picks("mode", "plan")
        person.sees(".toast", "You’re disconnected")
        assert person.runs(f"document.querySelector('{MODE}').dataset.value") == "default", "it is as it was"
        person.prompts("/quick")
        person.sees(".queued", "Will be sent when you reconnect")
        person("offline", on=False)
        person.sees(".finished", "Finished")
        person.loses(".queued")
        assert person.reads(".prompt .words") == ["/quick"]
        person.until("document.querySelector('.connection').textContent === ''")


def test_directories_requested_offline_appear_on_reconnect(browser: Browser, address: str) -> None:
    with browser.person(address) as person:
        person.until("document.documentElement.dataset.connection === 'open'")
        person("offline", on=True)
        person.sees(".connection", "offline")
        person.clicks(".side .add")
        person("offline", on=False)
        person.sees(".choices [role=option]")
        assert person.reads(".start section .problem") == [""]


async def test_history_and_drafts_survive_a_killed_server(browser: Browser, tmp_path: Path, directory: Path) -> None:
    port, data = free_port(), tmp_path / "data"
    with contextlib.ExitStack() as stack:
        async with serving_at(port, data, directory.parent) as server:
            project = await project_in(server, directory)
            person = stack.enter_context(browser.person(f"{page_of(server)}#token={server.token}&project={project}"))
            person.prompts("/lines 30")
            person.sees(".finished")
            person.prompts("Something")
            person.sees(".approval")
            person.readies_keys()
            person.presses("r")
            person("type", text="because")
            person.fills("#prompt", "a draft")
            await server.end(signal.SIGKILL)
        person.sees(".connection", "Disconnected")
        assert person("value", css=".approval footer textarea") == "because"
        async with serving_at(port, data, directory.parent):
            person.sees(".approval .notice", "Withdrawn: the server")
            person.sees(".approval .notice", "What you entered wasn’t used.")
            person.sees(".approval .mine", "because")
            person.sees(".finished", "Stopped")
            person.until("document.querySelector('.connection').textContent === ''")
            assert person("value", css="#prompt") == "a draft"
            answers = [text for text in person.runs(SAID) if text.startswith("Line ")]
            assert answers == LINES
            assert numbers(person) == sorted(numbers(person))
            person.presses("Escape")
            person.prompts("/quick")
            person.sees(".said", "Done.")


@pytest.mark.slow
async def test_a_prompt_written_while_the_server_is_down_runs_once(
    browser: Browser, tmp_path: Path, directory: Path
) -> None:
    """The web UI is reloaded after the server has started again."""
    port, data = free_port(), tmp_path / "data"
    with contextlib.ExitStack() as stack:
        async with serving_at(port, data, directory.parent) as server:
            project = await project_in(server, directory)
            person = stack.enter_context(browser.person(f"{page_of(server)}#token={server.token}&project={project}"))
            person.sees("h2", "blog")
        person.sees(".connection", "Disconnected")
        person.prompts("/quick")
        person.sees(".queued", "/quick")
        async with serving_at(port, data, directory.parent):
            person("reload")
            person.sees(".finished", "Finished")
            assert person.reads(".prompt .words") == ["/quick"]


async def test_a_project_removed_by_another_client_disappears(
    browser: Browser, server: Server, directory: Path
) -> None:
    project = await project_in(server, directory)
    with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
        person.sees("h2", "blog")
        async with server.client() as other:
            await other.send("project_delete", {}, project)
            await other.receive("project_deleted")
        person.sees(".toast", "was removed")
        person.sees(".side .empty", "No projects yet")
        person.loses("h2:has-text('blog')")
    with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as late:
        late.sees(".toast", "was removed")
        late.until("location.hash === '#/'")


@pytest.mark.thorough
async def test_the_web_ui_opens_offline_and_shows_disconnected(
    browser: Browser, tmp_path: Path, directory: Path
) -> None:
    port, data = free_port(), tmp_path / "data"
    with contextlib.ExitStack() as stack:
        async with serving_at(port, data, directory.parent) as server:
            project = await project_in(server, directory)
            address = f"{page_of(server)}#token={server.token}&project={project}"
            person = stack.enter_context(browser.person(address, worker=True))
            person.sees("h2", "blog")
            person.runs("navigator.serviceWorker.ready.then(() => true)")
        person("reload")  # everything has been cached since the first visit, which installed the service worker
        person.sees(".connection", "Disconnected")
        person.runs(PASTES_A_PICTURE)
        person.sees(".pictures img")  # attached, because it is not yet known which files the agent accepts
        person.clicks("button[aria-label='Remove drawing.png']")
        person.fills("#prompt", "/quick")
        async with serving_at(port, data, directory.parent):
            person.sees("h2", "blog")
            person.presses("Enter")
            person.sees(".finished", "Finished")


class _Interrupted(http.server.BaseHTTPRequestHandler):
    """A server whose connection is lost after index.html, which names another main script than the cached one."""

    timeout = 1.0  # Chromium also opens connections that it does not use

    def do_GET(self) -> None:
        if self.path != "/":
            return
        index = (programs.page() / "index.html").read_text().replace(main_script(), "part-00000000.js").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(index)))
        self.end_headers()
        self.wfile.write(index)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def interrupted_update(port: int) -> Iterator[None]:
    """Runs a server with a newer web UI, of which only index.html arrives."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), _Interrupted) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


async def test_the_web_ui_opens_offline_after_half_an_update(browser: Browser, tmp_path: Path, directory: Path) -> None:
    port, data = free_port(), tmp_path / "data"
    with contextlib.ExitStack() as stack:
        async with serving_at(port, data, directory.parent) as server:
            project = await project_in(server, directory)
            address = f"{page_of(server)}#token={server.token}&project={project}"
            person = stack.enter_context(browser.person(address, worker=True))
            person.sees("h2", "blog")
            person.runs("navigator.serviceWorker.ready.then(() => true)")
            person.fills("#prompt", "a draft")
        with interrupted_update(port):
            person("reload")
            person.sees(".skeleton")
        person("reload")
        person.sees(".connection", "Disconnected")
        assert person("value", css="#prompt") == "a draft"
