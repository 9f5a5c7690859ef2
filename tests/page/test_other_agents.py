"""How the web UI shows the text and the tool calls of agents other than Claude Code."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.server.processes import Server, serving

from .conftest import page_of
from .rig import Browser
from .test_approving import ACCEPTS, CARD, reads_all

OFFICIAL = Path(__file__).parent.parent / "agents" / "acp" / "official_agent.py"
LIMERICK = "import sys; print('# A limerick\\n\\nAbout', sys.stdin.read())"

pytestmark = pytest.mark.thorough


@pytest.fixture
async def serves_others(browser: Browser, tmp_path: Path, directory: Path) -> AsyncIterator[Server]:
    """A server with an ACP agent and a command agent."""
    poet = tmp_path / "poet.py"
    poet.write_text(LIMERICK)
    agents = (f"official={sys.executable} {OFFICIAL}", f"poet={sys.executable} {poet}")
    options = ("--acp-agent", agents[0], "--command-agent", agents[1])
    async with serving(tmp_path / "data", "--no-tls", "--allow", directory.parent, *options) as server:
        yield server


async def address(server: Server, directory: Path, agent: str) -> str:
    async with server.client() as client:
        made = await client.ask("project_create", {"path": str(directory), "agent": agent})
    return f"{page_of(server)}#token={server.token}&project={made['project_id']}"


@pytest.mark.slow
async def test_an_acp_agents_messages_are_shown(browser: Browser, serves_others: Server, directory: Path) -> None:
    with browser.person(await address(serves_others, directory, "official")) as person:
        person.prompts("say It is **open**|, I think.")
        person.sees(".said strong", "open")
        person.sees(".said", "It is open, I think.")
        person.sees(".finished")
        person("reload")
        person.sees(".said", "It is open, I think.")


async def test_an_acp_call_shows_its_approval_and_its_change(
    browser: Browser, serves_others: Server, directory: Path
) -> None:
    """The approval does not have its own row, because it is part of the row of its call."""
    with browser.person(await address(serves_others, directory, "official")) as person:
        person.prompts(f"change {directory / 'notes.md'}|# Notes|# Remarks")
        person.sees(CARD)
        person.sees(".tool-row", "Edit notes.md")
        reads_all(person)
        person.clicks(f"{ACCEPTS}:not(.moved)")
        person.sees(".finished")
        [row] = person.reads(".tool-row")
        assert row.splitlines()[:3] == ["Done", "Edited notes.md +1 −1", "Accepted by you"]
        person.clicks(".tool-row")
        person.sees(".tool .line.added", "# Remarks")
        assert person.runs("document.querySelectorAll('.item[data-kind=question]').length") == 0, (
            "the approval has no row beside its call"
        )
    assert (directory / "notes.md").read_text().startswith("# Remarks")


@pytest.mark.slow_for("Always-always", "Keep planning-no")
@pytest.mark.parametrize(("button", "expected"), [("Approve", "once"), ("Always", "always"), ("Keep planning", "no")])
async def test_an_acp_agents_plan_is_answered_with_the_agents_options(
    browser: Browser, serves_others: Server, directory: Path, button: str, expected: str
) -> None:
    with browser.person(await address(serves_others, directory, "official")) as person:
        person.prompts("leave 1. Close the **gate**.")
        person.sees(f"{CARD} .asked strong", "gate")
        person.clicks(f"{CARD} button:has-text('{button}'):not(.moved)")
        if expected == "no":
            person.clicks(f"{CARD} footer .yes:not(.moved), {CARD} footer .no:not(.moved)")
        person.sees(".said", f"I was told: {expected}")


async def test_the_output_of_a_command_is_shown(browser: Browser, serves_others: Server, directory: Path) -> None:
    with browser.person(await address(serves_others, directory, "poet")) as person:
        person.prompts("drawbridges")
        person.sees(".said [role=heading], .said :is(h1, h2, h3, h4)", "A limerick")
        person.sees(".said", "About drawbridges")
