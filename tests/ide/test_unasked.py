"""If a connected agent writes an open file without a proposal, the editor shows why no diff opened. It reloads the
file, unless the file has unsaved changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from drawbridge.editors.port import Accepted, Rejected
from tests.ide.rig import Agent, ClaudeRig
from tests.waiting import until

OLD, NEW = "one\n", "ONE, two\n"


async def write_unasked(rig: ClaudeRig, path: Path, text: str, agent: Agent | None = None) -> None:
    """Writes a file as Claude Code does in auto mode, after a request for diagnostics."""
    await (agent or rig.agent()).texts("getDiagnostics", uri=path.as_uri())
    path.write_text(text)


async def test_an_unproposed_write_is_reloaded_and_reported_once(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text(OLD)
    async with ClaudeRig(tmp_path) as rig:
        rig.editor.open(str(path))
        agent = rig.agent()
        await write_unasked(rig, path, NEW, agent)
        await until(lambda: rig.editor.notices)
        [(message, level)] = rig.editor.notices
        assert "wrote app.py without asking" in message
        assert "Shift+Tab" in message
        assert "reloaded" in message
        assert level == "warn"
        assert rig.editor.buffers[str(path)].text == NEW
        assert rig.clients.unasked == ("Claude Code",)
        await until(lambda: not rig.clients.unasked_writes._watched)
        await write_unasked(rig, path, "again\n", agent)
        await until(lambda: rig.editor.buffers[str(path)].text == "again\n")
        assert len(rig.editor.notices) == 1


async def test_unsaved_changes_are_not_overwritten_by_a_reload(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text(OLD)
    async with ClaudeRig(tmp_path) as rig:
        rig.editor.open(str(path))
        rig.editor.type(str(path), "mine\n")
        await write_unasked(rig, path, NEW)
        await until(lambda: rig.editor.notices)
        assert "unsaved changes are kept" in rig.editor.notices[0][0]
        assert rig.editor.buffers[str(path)].text == "mine\n"


async def test_a_file_that_is_not_open_is_not_reported(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text(OLD)
    async with ClaudeRig(tmp_path) as rig:
        await write_unasked(rig, path, NEW)
        await until(lambda: not rig.clients.unasked_writes._watched)
        assert rig.editor.notices == []


async def test_a_proposed_write_is_not_reported(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text(OLD)
    async with ClaudeRig(tmp_path) as rig:
        rig.editor.open(str(path))
        agent = rig.agent()
        call = agent.ask(
            "openDiff", old_file_path=str(path), new_file_path=str(path), new_file_contents=NEW, tab_name="t"
        )
        [proposal] = await rig.proposals()
        rig.editor.decide(proposal, Accepted(NEW))
        await agent.answer(call)
        await write_unasked(rig, path, NEW, agent)
        await until(lambda: rig.editor.buffers[str(path)].text == NEW)
        assert rig.editor.notices == []
        assert rig.clients.unasked == ()


@pytest.mark.parametrize("answer", ["editor", "agent"])
async def test_a_write_after_a_rejection_is_reported(tmp_path: Path, answer: str) -> None:
    path = tmp_path / "app.py"
    path.write_text(OLD)
    async with ClaudeRig(tmp_path) as rig:
        rig.editor.open(str(path))
        agent = rig.agent()
        call = agent.ask(
            "openDiff", old_file_path=str(path), new_file_path=str(path), new_file_contents=NEW, tab_name="t"
        )
        [proposal] = await rig.proposals()
        if answer == "editor":
            rig.editor.decide(proposal, Rejected())
        else:
            await agent.texts("closeAllDiffTabs")
        await agent.answer(call)
        await write_unasked(rig, path, NEW, agent)
        await until(lambda: rig.editor.notices)
        assert "wrote app.py without asking" in rig.editor.notices[0][0]
        assert rig.editor.buffers[str(path)].text == NEW


async def test_a_rejection_does_not_affect_the_next_proposal(tmp_path: Path) -> None:
    """Two agents propose changes to one file. The first is rejected, and the second is accepted and written."""
    path = tmp_path / "app.py"
    path.write_text(OLD)
    async with ClaudeRig(tmp_path) as rig:
        rig.editor.open(str(path))
        agents = [rig.agent(), rig.agent()]

        def propose(agent: Agent) -> int:
            return agent.ask(
                "openDiff", old_file_path=str(path), new_file_path=str(path), new_file_contents=NEW, tab_name="t"
            )

        calls = [propose(agents[0])]
        [first] = await rig.proposals()
        calls.append(propose(agents[1]))
        rig.editor.decide(first, Rejected())
        await agents[0].answer(calls[0])
        [second] = await rig.proposals()
        rig.editor.decide(second, Accepted(NEW))
        await agents[1].answer(calls[1])
        await write_unasked(rig, path, NEW, agents[1])
        await until(lambda: rig.editor.buffers[str(path)].text == NEW)
        assert rig.editor.notices == []


async def test_a_proposal_ends_the_warning(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text(OLD)
    async with ClaudeRig(tmp_path) as rig:
        rig.editor.open(str(path))
        agent = rig.agent()
        await write_unasked(rig, path, NEW, agent)
        await until(lambda: rig.clients.unasked)
        agent.ask("openDiff", old_file_path=str(path), new_file_path=str(path), new_file_contents=OLD, tab_name="t")
        await rig.proposals()
        assert rig.clients.unasked == ()


@pytest.mark.parametrize("uri", ["", 5, None, "file:///", "\0"])
async def test_invalid_paths_are_harmless(tmp_path: Path, uri: object) -> None:
    async with ClaudeRig(tmp_path) as rig:
        agent = rig.agent()
        agent.ask("getDiagnostics", uri=uri)
        await asyncio.sleep(0)
        assert (await agent.texts("getDiagnostics"))[0] == "[]"
