"""Which agents a client can choose, and what to do about those that are not installed."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.server.processes import serving


async def test_missing_agents_are_listed_with_a_remedy(tmp_path: Path) -> None:
    """Runs the real server with Codex installed. Gemini CLI is installed while the server runs."""
    (tmp_path / "bin").mkdir()
    codex, gemini = tmp_path / "bin" / "codex", tmp_path / "bin" / "gemini"
    codex.write_text("#!/bin/sh\n")
    codex.chmod(0o755)
    (tmp_path / "bin" / "package.json").write_text('{"version": "1.2.3"}')
    flags = ("--no-tls", "--agent-path", f"codex={codex}", "--acp-agent", "goose=/bin/sh -c true")
    place = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    async with serving(tmp_path / "data", *flags, **place) as server, server.client() as client:
        listed = {agent["name"]: agent for agent in (await client.ask("agent_list"))["data"]["agents"]}
        hello = (await client.ask("hello"))["data"]
        assert list(listed) == hello["agents"]
        assert hello["forks"] == ["claude", "codex", "goose", "demo"]
        assert hello["machine"] == socket.gethostname()
        words = {one["name"]: one for one in hello["agent_words"]}
        assert words["claude"]["label"] == "Claude"
        assert words["codex"]["login"]["command"] == "codex login"
        assert words["goose"]["login"] is None, "nobody knows how its owner logs in"
        assert words["claude"]["tools"]["Bash"] == words["codex"]["tools"]["Bash"] == "command"
        assert words["claude"]["tasks"]["local_bash"] == "Command"
        assert (words["claude"]["compact"], words["goose"]["compact"]) == ("/compact", "")
        assert words.keys() >= set(hello["agents"])  # includes agents that the owner added
        assert [one["name"] for one in hello["effort_offers"]] == ["low", "medium", "high", "xhigh", "max"]
        assert listed["codex"] == {
            "name": "codex",
            "title": "Codex",
            "installed": True,
            "asks": False,
            "pictures": False,
            "version": "1.2.3",
        }
        assert listed["gemini"] == {
            "name": "gemini",
            "title": "Gemini CLI",
            "installed": False,
            "hint": "Install Gemini CLI on the server's machine, or start the server with --agent-path gemini=PATH.",
        }
        assert listed["goose"]["installed"] is listed["demo"]["installed"] is True
        gemini.symlink_to(codex)
        listed = {agent["name"]: agent for agent in (await client.ask("agent_list"))["data"]["agents"]}
        assert listed["gemini"]["installed"] is True
