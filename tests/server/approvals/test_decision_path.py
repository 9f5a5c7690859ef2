"""What happens between a client's decision at the socket and the agent's standard input: which functions decode JSON,
how often the request and the blob of an edited input are looked up, and, with ``-s``, which modules are called.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import msgspec
import pytest

from drawbridge.agents.process import Process
from tests.server.auth.rig import serving
from tests.server.auth.test_scopes import asking

READS = ("Approvals.find", "Approvals.get", "Blobs._used")
"""The functions that look up an approval request or a blob."""


class Trace:
    """``modules``: the names of the modules that are called, relative to ``drawbridge``, in order. ``moves``: the number
    of times that a call or a return led to another module. ``decodes``: the functions that decode JSON. ``reads``: the
    functions that look up an approval request or a blob. ``is_done``: whether an agent's standard input has been
    written to; nothing is noted after that."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        self.moves = 0
        self.decodes: list[str] = []
        self.reads: list[str] = []
        self.is_done = False
        self._in = ""

    @property
    def report(self) -> str:
        numbers = f"{len(self.modules)} modules are called, with {self.moves} moves between them, "
        numbers += f"and {len(self.decodes)} functions decode JSON"
        return f"{numbers}: {', '.join(self.modules)}; {', '.join(self.decodes)}\n"

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        """Notes a call, as ``sys.setprofile`` reports it."""
        if self.is_done or _writes_to_agent(frame, event, argument):
            self.is_done = True
            return
        module = _module(frame)
        if event == "call" and module:
            if module not in self.modules:
                self.modules.append(module)
            if frame.f_code.co_qualname in READS:
                self.reads.append(frame.f_code.co_qualname)
        self._move(module if event != "return" or frame.f_back is None else _module(frame.f_back))
        if event == "c_call" and module and isinstance(getattr(argument, "__self__", None), msgspec.json.Decoder):
            self.decodes.append(frame.f_code.co_qualname)

    def _move(self, module: str) -> None:
        if module and module != self._in:
            self.moves += bool(self._in)
            self._in = module

    def counted(self, decode: Callable[..., Any]) -> Callable[..., Any]:
        """Returns ``decode`` wrapped so that each call adds the calling function to ``decodes``."""

        def decoded(*given: Any, **options: Any) -> Any:
            frame = sys._getframe(1)
            if _module(frame) and not self.is_done:
                self.decodes.append(frame.f_code.co_qualname)
            return decode(*given, **options)

        return decoded


def _module(frame: FrameType) -> str:
    package, _, module = frame.f_globals.get("__name__", "").partition(".")
    return module if package == "drawbridge" else ""


def _writes_to_agent(frame: FrameType, event: str, argument: Any) -> bool:
    """Whether this is the call with which the server writes to an agent's standard input. ``write`` is in Python or in
    C, depending on the event loop."""
    if event == "c_call":
        return frame.f_code is Process._flush.__code__ and getattr(argument, "__name__", "") == "write"
    caller = frame.f_back
    return caller is not None and caller.f_code is Process._flush.__code__ and frame.f_code.co_name == "write"


@contextmanager
def observed() -> Iterator[Trace]:
    seen = Trace()
    functions: list[tuple[ModuleType, str]] = [(msgspec.json, "decode"), (json, "loads")]
    with pytest.MonkeyPatch.context() as patch:
        for module, name in functions:
            patch.setattr(module, name, seen.counted(getattr(module, name)))
        sys.setprofile(seen.profile)
        try:
            yield seen
        finally:
            sys.setprofile(None)


async def test_a_decision_is_decoded_in_two_steps(tmp_path: Path) -> None:
    """The message's envelope is decoded first, and then its data: the envelope contains the name of the command, which
    determines the type of the data."""
    async with serving(tmp_path) as server, server.client() as owner, asking(server, owner) as question:
        answer = {"approval_id": question["data"]["approval_id"], "decision": "allow"}
        with observed() as seen:
            await owner.ask("permission_response", answer, question["project_id"])
        sys.stdout.write(seen.report)
        assert seen.is_done, "the agent received the decision before the client received the reply"
        assert seen.decodes == ["parse", "parse"]
        assert seen.reads == ["Approvals.get"]


async def test_an_edited_input_is_decoded_with_the_decision_only(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.client() as owner, asking(server, owner) as question:
        instead = {**question["data"]["input"], "content": "Something else\n"}
        answer = {"approval_id": question["data"]["approval_id"], "decision": "allow", "updated_input": instead}
        with observed() as seen:
            await owner.ask("permission_response", answer, question["project_id"])
        sys.stdout.write(seen.report)
        assert seen.is_done
        assert seen.decodes == ["parse", "parse"]


async def test_an_edited_input_in_a_blob_is_read_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.client() as owner, asking(server, owner) as question:
        instead = {**question["data"]["input"], "content": "Something else\n"}
        await server.built.blobs.put("input", 0, json.dumps(instead).encode(), last=True)
        answer = {"approval_id": question["data"]["approval_id"], "decision": "allow", "updated_input_blob": "input"}
        with observed() as seen:
            await owner.ask("permission_response", answer, question["project_id"])
        assert seen.is_done
        assert seen.reads == ["Blobs._used", "Approvals.get"]
        assert seen.decodes == ["parse", "parse", "json_object"]
