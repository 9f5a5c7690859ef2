"""A real server never runs a program that its agent names in the repository's configuration."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from tests.agents.rig import BAD_AGENT
from tests.server.checkpoints.rig import make_project
from tests.server.processes import serving


async def test_git_runs_no_program_that_an_agent_configured(tmp_path: Path) -> None:
    """The agent writes ``.git/config`` and ``.gitattributes``. The server then runs git for the checkpoint after the
    run, and for a client that asks for the changes.
    """
    project, ran, program = make_project(tmp_path / "code"), tmp_path / "ran", tmp_path / "bad-claude"
    spy = tmp_path / "spy"
    spy.write_text(f"#!/bin/sh\ncat /proc/self/status >{ran}\ncat\n")
    spy.chmod(0o755)
    run = shlex.join([sys.executable, str(BAD_AGENT), "as-told"])
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "2.1.329 (Claude Code)" && exit\n'
        f'printf "[filter \\"x\\"]\\n\\tclean = {spy}\\n" >>.git/config\n'
        f'echo "* filter=x" >.gitattributes\nexec {run} "$@"\n'
    )
    program.chmod(0o755)
    options = ("--allow", project, "--agent-path", f"claude={program}", "--no-tls")
    async with serving(tmp_path / "data", *options) as server, server.client() as client:
        created = await client.ask("project_create", {"path": str(project), "agent": "claude", "join": True})
        begun = await client.ask("execute", {"prompt": "say done"}, created["project_id"])
        assert (await client.receive("update", "run_finished"))["data"]["data"]["outcome"] == "completed"
        changes = await client.ask("run_changes", {"run_id": begun["data"]["run_id"]}, created["project_id"])
        assert changes["data"]["files"] == [{"path": ".gitattributes", "change": "added"}]
    assert not ran.exists(), ran.read_text()
