"""What happens between a client's decision at the socket and the agent's standard input: which functions decode JSON,
and, with ``-s``, which modules are called.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

from tests.server.auth.rig import serving
from tests.server.auth.test_scopes import asking

STDIN = "agents.supervisor_pipe"
"""The module that writes to the agent's standard input."""


class Trace:
    """``modules``: the names of the modules that are called, relative to ``drawbridge``, in order. ``decodes``: the
    functions that decode JSON. Both end when the agent's standard input is written to."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        self.decodes: list[str] = []

    @property
    def report(self) -> str:
        numbers = f"{len(self.modules)} modules are called, and {len(self.decodes)} functions decode JSON"
        return f"{numbers}: {', '.join(self.modules)}; {', '.join(self.decodes)}\n"

    @property
    def is_done(self) -> bool:
        return STDIN in self.modules


@contextmanager
def observed() -> Iterator[Trace]:
    seen, decode = Trace(), msgspec.json.decode

    def name(frame: FrameType) -> str:
        package, _, module = frame.f_globals.get("__name__", "").partition(".")
        return module if package == "drawbridge" else ""

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        module = name(frame)
        if not module or seen.is_done:
            return
        if event == "call" and module not in seen.modules:
            seen.modules.append(module)
        if event == "c_call" and isinstance(getattr(argument, "__self__", None), msgspec.json.Decoder):
            seen.decodes.append(frame.f_code.co_qualname)

    def counted(*given: Any, **options: Any) -> Any:
        frame = sys._getframe(1)
        if name(frame) and not seen.is_done:
            seen.decodes.append(frame.f_code.co_qualname)
        return decode(*given, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(msgspec.json, "decode", counted)
        sys.setprofile(profile)
        try:
            yield seen
        finally:
            sys.setprofile(None)


async def test_a_decision_is_decoded_in_two_steps(tmp_path: Path) -> None:
    """The message is decoded in two steps, its envelope and then its data. The record is checked before it is
    written."""
    async with serving(tmp_path) as server, server.client() as owner, asking(server, owner) as question:
        answer = {"approval_id": question["data"]["approval_id"], "decision": "allow"}
        with observed() as seen:
            await owner.ask("permission_response", answer, question["project_id"])
        sys.stdout.write(seen.report)
        assert seen.is_done, "the agent received the decision before the client received the reply"
        assert seen.decodes == ["parse", "parse", "_check"]


async def test_an_edited_input_is_decoded_once_more_for_each_purpose(tmp_path: Path) -> None:
    """It is checked for agents and histories (``json_object``), compared with the agent's own input, and checked by the
    driver."""
    async with serving(tmp_path) as server, server.client() as owner, asking(server, owner) as question:
        instead = {**question["data"]["input"], "content": "Something else\n"}
        answer = {"approval_id": question["data"]["approval_id"], "decision": "allow", "updated_input": instead}
        with observed() as seen:
            await owner.ask("permission_response", answer, question["project_id"])
        sys.stdout.write(seen.report)
        assert seen.is_done
        assert seen.decodes.count("_decoded") == 1, "the approval compares the edit and looks for answers"
        assert "ApprovalRequested.given" not in seen.decodes, "the agent's input was decoded when it asked"
