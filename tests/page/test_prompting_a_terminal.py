"""The web UI sends prompts to an agent in an editor's terminal. The tests act as the hook and the bridge."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.processes import Server, serving
from tests.server.terminal_sessions.socket_rig import Line, Message

from .conftest import page_of
from .rig import Browser

CLAUDE = os.getpid()
SESSION = str(uuid.uuid4())


@pytest.fixture
async def server(browser: Browser, home: Path) -> AsyncIterator[Server]:
    async with serving(home / "data", "--no-tls", "--allow", home) as server:
        yield server


async def sends_event(event: str, project: Path, **more: Any) -> None:
    """Sends an event to the server as the hook does."""
    known = {"session_id": SESSION, "cwd": str(project), "permission_mode": "default", "hook_event_name": event, **more}
    async with Line.open() as line:
        line.send(type="hook", pid=CLAUDE, payload=known)
        line._writer.write_eof()
        assert await line.receive() is None


async def asked(bridge: Line) -> Message:
    message = await bridge.receive()
    assert message is not None, "the server has closed the connection"
    return message


@pytest.mark.thorough
async def test_the_prompt_box_is_shown_while_prompts_are_accepted(browser: Browser, server: Server, home: Path) -> None:
    about = {"type": "bridge", "editor": "Neovim", "folders": [], "terminals": [CLAUDE]}
    with browser.person(f"{page_of(server)}#token={server.token}") as person:
        await sends_event("SessionStart", home)
        person.clicks(".project:has(.at-desk)")
        person.sees(".rights", "Send messages from the terminal")
        assert not person("visible", css="#prompt")
        async with Line.open() as bridge:
            bridge.send(**about)
            person.sees(".rights", "typed into the terminal")
            person.prompts("Not now")
            refused = await asked(bridge)
            bridge.send(type="untyped", id=refused["id"], reason="Somebody has started typing there.")
            person.sees("text=Somebody has started typing there.")
            person.until("document.querySelector('#prompt').value === 'Not now'")
            person.fills("#prompt", "")
            person.prompts("From the sofa")
            typed = await asked(bridge)
            assert typed["text"] == "From the sofa"
            bridge.send(type="typed", id=typed["id"])
            await sends_event("UserPromptSubmit", home, prompt="From the sofa", prompt_id="t1")
            person.sees(".project .state", "Working in terminal")
            person.loses(".queued")
        person.sees(".rights", "Send messages from the terminal")
        assert not person("visible", css="#prompt")
        assert not person.complaints(), json.dumps(person.complaints())


@pytest.mark.thorough
async def test_the_palette_removes_a_terminal_session_by_its_name(browser: Browser, server: Server, home: Path) -> None:
    with browser.person(f"{page_of(server)}#token={server.token}") as person:
        await sends_event("SessionStart", home)
        person.clicks(".project:has(.at-desk)")
        person.sees(".rights")
        person.commands("remove", "Remove session…")
        person.sees("dialog h2", "Remove this session?")
