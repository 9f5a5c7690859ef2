"""The path of a hook's question and of its answer through the server: which functions decode JSON and, with ``-s``,
which modules are called. The numbers are in ``docs/internals/architecture.md``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.server.approvals.test_decision_path import observed
from tests.waiting import until

from .socket_rig import Line, Session, socket_rig
from .test_sessions import COMMAND


async def test_no_function_decodes_a_hooks_question_twice(tmp_path: Path) -> None:
    """The path leads from the private socket to the client. The agent's part of the message is decoded by the agent's
    module, because only that module knows what it means."""
    async with socket_rig(tmp_path) as rig:
        session = Session(rig)
        await session.reports("SessionStart", source="startup")
        await session.reports("UserPromptSubmit", prompt="List the files")
        async with Line.open() as line:
            payload = session.payload("PermissionRequest", tool_name="Bash", tool_input=COMMAND)
            with observed() as seen:
                line.send(type="hook", pid=session.pid, payload=payload)
                await until(lambda: bool(rig.questions), "the request at the client")
            sys.stdout.write(seen.report)
            assert seen.decodes[:2] == ["decode_from_peer", "ClaudeInTerminal.event"]
            assert len(seen.decodes) == len(set(seen.decodes))


async def test_the_answer_to_a_hook_is_decoded_in_two_steps(tmp_path: Path) -> None:
    """From the client's command to the private socket."""
    async with socket_rig(tmp_path) as rig, Session(rig).asks(**COMMAND) as (line, question):
        with observed() as seen:
            await rig.answers(question)
            answer = await line.receive()
        sys.stdout.write(seen.report)
        assert answer is not None
        assert answer["decision"]
        assert seen.decodes == ["parse", "parse"]
