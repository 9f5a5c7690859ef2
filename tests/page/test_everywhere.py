"""Long histories, large messages, narrow screens, keyboards and accessibility."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from drawbridge.server.store import log as history
from tests import programs
from tests.server.processes import Server

from .conftest import page_of
from .history import serving_history
from .rig import Browser, Person

HERE = Path(__file__).resolve().parent

WIDER = (
    "[...document.querySelectorAll('body *')]"
    ".filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.diff, pre, .table'))"
    ".map((one) => one.outerHTML.slice(0, 80))"
)
SEQS = "[...document.querySelectorAll('.items > .item')].map((one) => Number(one.dataset.seq))"
IN_SIGHT = (
    "(() => { const box = document.querySelector('.scroller').getBoundingClientRect();"
    " return Number([...document.querySelectorAll('.items > .item')]"
    ".find((one) => one.getBoundingClientRect().bottom > box.top + 1)?.dataset.seq) })()"
)


FRAMES = """new Promise((done) => {
  const box = document.querySelector('.scroller');
  const took = [];
  let last = performance.now();
  const step = (now) => {
    took.push(now - last);
    last = now;
    box.scrollTop -= 400;
    took.length < 100 ? requestAnimationFrame(step) : done(took);
  };
  requestAnimationFrame(step);
})"""
"""The durations of 100 frames, in milliseconds, while a reader scrolls up."""


def test_the_javascript_unit_tests_pass() -> None:
    node = programs.node()  # first, because a machine without it need not build the tests
    units = sorted(programs.page_units().glob("*.test.mjs"))
    command = [str(node), "--test", "--test-reporter=dot", *map(str, units)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def says(number: int) -> dict[str, object]:
    text = f"Message {number}: " + "some words of it, " * (number % 17)
    return {"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}


def scrolls_up_to(person: Person, seq: int, *, steps: int = 200) -> None:
    for _ in range(steps):
        person.runs("document.querySelector('.scroller').scrollTop -= 1500")
        person.runs("new Promise((later) => requestAnimationFrame(() => requestAnimationFrame(later)))")
        if min(person.runs(SEQS)) <= seq:
            return
    raise AssertionError(f"{min(person.runs(SEQS))} is as far as one gets")


@pytest.mark.slow_for("500")
@pytest.mark.parametrize(
    "count", [pytest.param(500, marks=pytest.mark.thorough), pytest.param(100_000, marks=pytest.mark.slow)]
)
async def test_a_long_history_scrolls_with_only_part_of_it_rendered(
    browser: Browser, tmp_path: Path, directory: Path, count: int
) -> None:
    """The DOM contains at most 100 records, and new records below do not move what the user reads."""
    messages = (says(number) for number in range(1, count + 1))
    async with serving_history(tmp_path, directory, messages) as (server, project):
        with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
            person.sees(".said", f"Message {count}:")
            scrolls_up_to(person, count - 300)
            seqs = person.runs(SEQS)
            assert seqs == list(range(seqs[0], seqs[-1] + 1)), "in order, without a gap"
            assert len(seqs) <= 100, "the rest is not in the page"
            frames = sorted(person.runs(FRAMES))
            assert frames[len(frames) // 2] < 50, "half of the frames of a scroll come at once, on a busy machine too"
            before = person.runs(IN_SIGHT)
            async with server.client() as other:
                await other.send("project_join", project_id=project)
                await other.send("execute", {"prompt": "/quick"}, project)
                await other.receive("update", "run_finished")
            person.sees(".project .state", "Ready")
            assert abs(person.runs(IN_SIGHT) - before) <= 1, "what comes in below moves the reader nowhere"
            person.clicks(".jump")
            person.sees(".said", "Done.")
            person.loses(".jump")


@pytest.mark.slow
async def test_a_huge_message_is_shown_whole_on_demand(browser: Browser, tmp_path: Path, directory: Path) -> None:
    """A warning also appears when the history is near its size limit."""
    text = "a long text " * 100_000 + "and its end"
    another = {"type": "assistant", "message": {"content": [{"type": "text", "text": "x" * 450_000}]}}
    long = {"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}
    async with serving_history(tmp_path, directory, [another, long], "--max-history", "2") as (server, project):
        with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
            person.clicks("button:has-text('Show all (1.2 MB)')")
            person.sees("pre.whole")
            person.until(f"document.querySelector('pre.whole').textContent.length === {len(text)}")
            assert person.runs("document.querySelector('pre.whole').textContent") == text
            assert person.reads(".toast") == []
            person.prompts("/lines 100")
            person.sees(".toast.problem", "The history of blog uses 1 MB of 2 MB")
            person.clicks(".toast button")
            person.loses(".toast")


@pytest.mark.slow
async def test_a_divider_shows_that_earlier_messages_were_deleted(
    browser: Browser, tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MOST_RECORDS", 10)
    messages = (says(number) for number in range(1, 36))
    async with serving_history(tmp_path, directory, messages, kept=10_000) as (server, project):
        with browser.person(f"{page_of(server)}#token={server.token}&project={project}") as person:
            person.sees(".said", "Message 35:")
            person.runs("document.querySelector('.scroller').scrollTop = 0")
            person.sees(".divider", "Earlier history has been deleted")
            assert min(numbers := person.runs(SEQS)) > 1
            assert numbers == list(range(numbers[0], 36)), "what is left is all there"


@pytest.mark.slow
def test_on_the_narrowest_phone_nothing_is_cut_off(browser: Browser, server: Server, address: str) -> None:
    with browser.person(page_of(server), width=320, height=640) as person:
        person.sees("#token")
        assert person.runs(WIDER) == []
    with browser.person(address, width=320, height=640) as person:
        person.fills("#prompt", "Something")
        person.clicks(".composer .yes")  # Enter begins a new line on a phone
        person.sees(".approval .line.added")
        assert person.runs(WIDER) == []
        person.clicks_until(".approval button:has-text('Edit')", ".approval button:has-text('Back')")
        assert person.runs(WIDER) == []
        person.clicks_until(".approval button:has-text('Back')", ".approval button:has-text('Edit')")
        person.clicks(".back")
        person.sees(".project .state", "Needs you")
        assert person.runs(WIDER) == []
        person.clicks(".project")
        person.clicks(".approval button:has-text('Reject')")
        person.clicks(".rejecting button:has-text('Reject')")
        person.sees(".finished")


def test_axe_finds_no_violations(browser: Browser, server: Server, address: str) -> None:
    axe = str(programs.axe())
    with browser.person(page_of(server)) as person:
        person.sees("#token")
        assert person("axe", file=axe) == []
    with browser.person(address) as person:
        person.prompts("Something")
        person.sees(".approval")
        assert person("axe", file=axe) == []
        person.clicks(".approval button:has-text('Reject')")
        assert person("axe", file=axe) == []
        person.clicks(".rejecting button:has-text('Reject')")
        person.sees(".finished")
        person.clicks("details.tool summary")
        assert person("axe", file=axe) == []
        person.presses("Escape")
        person.runs("document.activeElement.blur()")
        person.presses("?")
        person.sees("dialog", "Accept the current change to a file")
        assert person("axe", file=axe) == []


def kinds_of_calls(directory: Path) -> list[dict[str, object]]:
    """Returns tool calls: a command with flags, a write through a link, a plan, several files, a long field.

    Creates the link.
    """
    (directory / "README.md").symlink_to(directory.parent / ".bashrc")
    diff = {"type": "diff", "path": str(directory / "a.py"), "oldText": "a\n", "newText": "b\n"}
    flagged = {
        "command": "npm test " + "x" * 80,
        "dangerouslyDisableSandbox": True,
        "run_in_background": True,
        "timeout": 5,
    }
    return [
        {"name": "Bash", "input": flagged},
        {"name": "Write", "input": {"file_path": str(directory / "README.md"), "content": "x\u202e\n"}},
        {"name": "ExitPlanMode", "input": {"plan": "# Plan\n\n| a | b |\n|---|---|\n| one | two |\n"}},
        {
            "name": "acp:edit",
            "input": {"toolCallId": "t", "title": "Rename", "content": [diff, {**diff, "path": "/b.py"}]},
        },
        {"name": "mcp__a_server_with_a_long_name__and_a_tool", "input": {"sql": "select 1;\n" * 200}},
    ]


def test_every_kind_of_approval_fits_and_is_readable(browser: Browser, address: str, directory: Path) -> None:
    """Tested on the narrowest phone. axe must find no violations."""
    with browser.person(address, width=320, height=640) as person:
        calls = kinds_of_calls(directory)
        person.fills("#prompt", "/calls " + json.dumps(calls))
        person.clicks(".composer .yes")
        person.until(f"document.querySelectorAll('.approval').length === {len(calls)}")
        assert person.runs(WIDER) == []
        assert person("axe", file=str(programs.axe())) == []


def test_everything_can_be_done_with_the_keyboard(browser: Browser, address: str, directory: Path) -> None:
    with browser.person(address) as person:
        person.until("document.documentElement.dataset.connection === 'open'")
        person.sees("#prompt")
        person.runs("document.activeElement.blur()")
        person.presses("/")
        person("type", text="first")
        person.presses("Shift+Enter")
        person("type", text="second line")
        person.presses("Enter")
        person.sees(".approval")
        person.readies_keys()
        person.presses("a")
        person.sees(".finished")
        assert person.reads(".prompt .words") == ["first\nsecond line"]
        assert person.runs("document.activeElement.id") == "prompt", "the work continues there"
        person.presses("ArrowUp")
        assert person("value", css="#prompt") == "first\nsecond line"
    assert "first second line" in (directory / "notes.md").read_text()


def test_the_first_view_loads_at_most_150_kb(browser: Browser, server: Server, address: str) -> None:
    for url, seen in ((page_of(server), "#token"), (address, "h2")):
        with browser.person(url) as person:
            person.sees(seen)
            assert 10_000 < person("bytes") <= 150_000, "over the wire, as it was sent"
