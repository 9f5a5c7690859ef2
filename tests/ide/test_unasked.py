"""A file that a connected agent writes without a proposal is reloaded, and a notice shows why no diff opened."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from drawbridge.editors.port import Accepted, Rejected
from tests.ide.rig import Agent, Desk
from tests.waiting import until

OLD, NEW = "one\n", "ONE, two\n"


async def write_unasked(desk: Desk, path: Path, text: str, agent: Agent | None = None) -> None:
    """As Claude Code does in auto mode: it asks for diagnostics, then writes."""
    await (agent or desk.agent()).texts("getDiagnostics", uri=path.as_uri())
    path.write_text(text)


async def test_it_is_reloaded_and_reported_once(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text(OLD)
    async with Desk(tmp_path) as desk:
        desk.editor.open(str(path))
        agent = desk.agent()
        await write_unasked(desk, path, NEW, agent)
        await until(lambda: desk.editor.told)
        [(message, level)] = desk.editor.told
        assert "wrote app.py without asking" in message
        assert "Shift+Tab" in message
        assert "reloaded" in message
        assert level == "warn"
        assert desk.editor.buffers[str(path)].text == NEW
        assert desk.clients.unasked == ("Claude Code",)
        await until(lambda: not desk.workspace.unasked._watched)
        await write_unasked(desk, path, "again\n", agent)
        await until(lambda: desk.editor.buffers[str(path)].text == "again\n")
        assert len(desk.editor.told) == 1


async def test_unsaved_work_stays(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text(OLD)
    async with Desk(tmp_path) as desk:
        desk.editor.open(str(path))
        desk.editor.type(str(path), "mine\n")
        await write_unasked(desk, path, NEW)
        await until(lambda: desk.editor.told)
        assert "unsaved changes are kept" in desk.editor.told[0][0]
        assert desk.editor.buffers[str(path)].text == "mine\n"


async def test_a_file_that_is_not_open_is_not_reported(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text(OLD)
    async with Desk(tmp_path) as desk:
        await write_unasked(desk, path, NEW)
        await until(lambda: not desk.workspace.unasked._watched)
        assert desk.editor.told == []


async def test_a_proposed_write_is_not_reported(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text(OLD)
    async with Desk(tmp_path) as desk:
        desk.editor.open(str(path))
        agent = desk.agent()
        call = agent.ask(
            "openDiff", old_file_path=str(path), new_file_path=str(path), new_file_contents=NEW, tab_name="t"
        )
        [proposal] = await desk.proposals()
        desk.editor.decide(proposal, Accepted(NEW))
        await agent.answer(call)
        await write_unasked(desk, path, NEW, agent)
        await until(lambda: desk.editor.buffers[str(path)].text == NEW)
        assert desk.editor.told == []
        assert desk.clients.unasked == ()


@pytest.mark.parametrize("answer", ["editor", "agent"])
async def test_a_write_after_a_rejection_is_reported(tmp_path: Path, answer: str) -> None:
    path = tmp_path / "app.py"
    path.write_text(OLD)
    async with Desk(tmp_path) as desk:
        desk.editor.open(str(path))
        agent = desk.agent()
        call = agent.ask(
            "openDiff", old_file_path=str(path), new_file_path=str(path), new_file_contents=NEW, tab_name="t"
        )
        [proposal] = await desk.proposals()
        if answer == "editor":
            desk.editor.decide(proposal, Rejected())
        else:
            await agent.texts("closeAllDiffTabs")
        await agent.answer(call)
        await write_unasked(desk, path, NEW, agent)
        await until(lambda: desk.editor.told)
        assert "wrote app.py without asking" in desk.editor.told[0][0]
        assert desk.editor.buffers[str(path)].text == NEW


async def test_a_rejection_leaves_the_next_proposal_alone(tmp_path: Path) -> None:
    """Two agents propose changes of one file: the first is rejected, the second accepted and written."""
    path = tmp_path / "app.py"
    path.write_text(OLD)
    async with Desk(tmp_path) as desk:
        desk.editor.open(str(path))
        agents = [desk.agent(), desk.agent()]

        def propose(agent: Agent) -> int:
            return agent.ask(
                "openDiff", old_file_path=str(path), new_file_path=str(path), new_file_contents=NEW, tab_name="t"
            )

        calls = [propose(agents[0])]
        [first] = await desk.proposals()
        calls.append(propose(agents[1]))
        desk.editor.decide(first, Rejected())
        await agents[0].answer(calls[0])
        [second] = await desk.proposals()
        desk.editor.decide(second, Accepted(NEW))
        await agents[1].answer(calls[1])
        await write_unasked(desk, path, NEW, agents[1])
        await until(lambda: desk.editor.buffers[str(path)].text == NEW)
        assert desk.editor.told == []


async def test_a_proposal_ends_the_warning(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text(OLD)
    async with Desk(tmp_path) as desk:
        desk.editor.open(str(path))
        agent = desk.agent()
        await write_unasked(desk, path, NEW, agent)
        await until(lambda: desk.clients.unasked)
        agent.ask("openDiff", old_file_path=str(path), new_file_path=str(path), new_file_contents=OLD, tab_name="t")
        await desk.proposals()
        assert desk.clients.unasked == ()


@pytest.mark.parametrize("uri", ["", 5, None, "file:///", "\0"])
async def test_odd_paths_do_no_harm(tmp_path: Path, uri: object) -> None:
    async with Desk(tmp_path) as desk:
        agent = desk.agent()
        agent.ask("getDiagnostics", uri=uri)
        await asyncio.sleep(0)
        assert (await agent.texts("getDiagnostics"))[0] == "[]"
