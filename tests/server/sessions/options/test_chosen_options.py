"""The agent is in a mode that the owner does not allow, because of its own settings or its own decision."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from drawbridge.agents.base import AgentRefused, ModeChanged
from drawbridge.server.sessions.options import chosen_options
from tests.server.core_rig import Client, Process, serving, settled
from tests.waiting import until

FORBIDDEN = "bypassPermissions"


async def test_a_mode_that_is_not_allowed_is_reset(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        process = await server.running(phone, await server.project(phone))
        process.emit(ModeChanged(FORBIDDEN))
        assert phone.updates("project_state")[-1]["permission_mode"] == FORBIDDEN, "clients see what the agent is in"
        await until(lambda: process.modes == ["default"], "the reset")
        assert phone.updates("project_state")[-1].get("permission_mode", "default") == "default"
        process.ends()
        await until(lambda: phone.updates("run_finished"), "the end of the run")
        assert phone.updates("run_finished")[-1]["outcome"] == "completed"


async def refuse(mode: str) -> None:
    raise AgentRefused("not now")


async def test_a_run_in_a_mode_that_cannot_be_reset_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        process = await server.running(phone, await server.project(phone))
        monkeypatch.setattr(process, "set_mode", refuse)
        process.emit(ModeChanged(FORBIDDEN))
        await until(lambda: phone.updates("run_finished"), "the end of the run")
        [ended] = phone.updates("run_finished")
        assert (ended["outcome"], ended["code"]) == ("failed", "PERMISSION_DENIED")
        assert ended["error"].endswith("which the owner does not allow, and the mode could not be reset: not now.")
        await until(lambda: process.ended, "the end of the process")


async def test_an_idle_agent_in_a_mode_that_cannot_be_reset_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        process = await server.running(phone, await server.project(phone))
        process.ends()
        await settled()
        monkeypatch.setattr(process, "set_mode", refuse)
        process.emit(ModeChanged(FORBIDDEN))
        await until(lambda: process.ended, "the end of the process")
        assert [run["outcome"] for run in phone.updates("run_finished")] == ["completed"]


class Stubborn:
    """Makes a process return to a forbidden mode each time it is reset."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.resets = 0

    async def set_mode(self, mode: str) -> None:
        self.resets += 1
        await asyncio.sleep(0)
        self.process.emit(ModeChanged(FORBIDDEN))


async def test_an_agent_that_keeps_a_forbidden_mode_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    phone = Client()
    monkeypatch.setattr(chosen_options, "MOST_RESETS", 3)
    async with serving(tmp_path) as server:
        process = await server.running(phone, await server.project(phone))
        stubborn = Stubborn(process)
        monkeypatch.setattr(process, "set_mode", stubborn.set_mode)
        process.emit(ModeChanged(FORBIDDEN))
        await until(lambda: phone.updates("run_finished"), "the end of the run")
        assert phone.updates("run_finished")[-1]["error"].endswith("the agent changed it back too often.")
        assert stubborn.resets == 3
        await until(lambda: process.ended, "the end of the process")
