"""Gemini CLI's dialect: one session's conversation, and what it is told. Facts: docs/protocols/gemini-ide.md."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final, TypeAlias

from drawbridge.core.errors import BadArgument, DrawbridgeError, EditorHung
from drawbridge.editors.port import Accepted, Decision, Level, Withdrawn
from drawbridge.ide import gemini_notices
from drawbridge.ide.desk import Workspace
from drawbridge.ide.gemini_notices import DiffAccepted, DiffRejected, Verdict
from drawbridge.ide.gemini_stream import EventStream
from drawbridge.ide.tools.gemini import TOOLS
from drawbridge.protocols import jsonrpc, mcp
from drawbridge.transport.http_server import Exchange

AGENT: Final = "Gemini CLI"

GRACE_SECONDS: Final = 5.0
"""How long a session lives without its stream; the real CLI is back after 1 s, or after 1.5 s more."""

SILENT_SECONDS: Final = 600.0
"""How long a session lives that never opened a stream."""

_TOOLS: Final = {tool.name: tool for tool in TOOLS}
_LISTING: Final = [tool.entry() for tool in TOOLS]

logger = logging.getLogger("drawbridge.gemini")

Tell: TypeAlias = Callable[[str, Level], None]
Overhear: TypeAlias = Callable[[bytes, str], None]


class GeminiSession:
    """One CLI: its proposals, its stream. ``tell`` shows the person a notice, ``overhear`` is given each verdict too."""

    def __init__(
        self, id: str, stream: EventStream, version: str, workspace: Workspace, tell: Tell, overhear: Overhear
    ) -> None:
        self.id = id
        self.name = AGENT
        self.stream = stream
        self.mcp = mcp.McpServer("drawbridge", version, _LISTING)
        self._workspace = workspace
        self._tell = tell
        self._overhear = overhear
        self._ever_listened = False
        self.seen_at = time.monotonic()
        self._proposals: dict[str, asyncio.Task[None]] = {}

    def seen(self) -> None:
        self.seen_at = time.monotonic()

    def listen(self, exchange: Exchange, last_id: int) -> None:
        self._ever_listened = True
        self.stream.open(exchange, last_id)

    def is_gone(self, now: float) -> bool:
        """Whether its CLI must have ended: it sends no goodbye."""
        if self.stream.has_reader:
            return False
        if self._ever_listened:
            return now - max(self.stream.left_at, self.seen_at) > GRACE_SECONDS
        return now - self.seen_at > SILENT_SECONDS

    def end(self, *, reject: bool = False) -> None:
        """Its proposals go with it; with ``reject`` it is told so first, lest its dialogs wait for ever."""
        for file_path, task in list(self._proposals.items()):
            if reject:
                self._verdict(DiffRejected(file_path))
            task.cancel()
        self.stream.close()

    def _verdict(self, verdict: Verdict) -> None:
        message = gemini_notices.encode(verdict)
        self.stream.verdict(message, verdict.file_path)
        self._overhear(message, verdict.file_path)

    # the tools' desk

    def propose(self, file_path: str, new_content: str) -> None:
        former = self._proposals.pop(file_path, None)
        if former is not None:
            former.cancel()
        self.stream.forget(file_path)
        task = asyncio.get_running_loop().create_task(self._review(file_path, new_content))
        self._proposals[file_path] = task
        task.add_done_callback(lambda done: self._forget(file_path, done))

    async def take_back(self, file_path: str) -> str | None:
        task = self._proposals.get(file_path)
        self.stream.forget(file_path)
        try:
            text = await self._workspace.reviews.withdraw_with_text(self, file_path)
        except EditorHung as error:
            logger.warning("%s", error)
            text = None  # the CLI writes its own text, as it does without an editor
        if text is None and task is not None:
            task.cancel()  # not shown yet, or nobody can see what has become of it
        return text

    async def decide(self, file_path: str, *, accept: bool) -> bool:
        return await self._workspace.reviews.answer_as_shown(self, file_path, accept=accept)

    def _forget(self, file_path: str, task: asyncio.Task[None]) -> None:
        if self._proposals.get(file_path) is task:
            del self._proposals[file_path]
        if not task.cancelled() and (error := task.exception()):
            logger.error("the proposal for %s failed", file_path, exc_info=error)

    async def _review(self, file_path: str, new_content: str) -> None:
        try:
            path = self._workspace.resolve(file_path)
            decision = await self._workspace.reviews.review(self, AGENT, path, new_content, file_path)
        except EditorHung as error:
            logger.warning("%s", error)
            self._verdict(DiffRejected(file_path))
        except DrawbridgeError as error:
            # An error result would break the real CLI (0.61.0); its own dialog is open and stays, the person is told.
            logger.info("%s is not shown: %s", file_path, error)
        else:
            self._tell_decision(file_path, new_content, decision)

    def _tell_decision(self, file_path: str, new_content: str, decision: Decision) -> None:
        if isinstance(decision, Withdrawn):
            return
        if not isinstance(decision, Accepted):
            self._verdict(DiffRejected(file_path))
        elif new_content and not decision.text:
            # The CLI takes an empty text for "not edited" and would write its own.
            self._tell(
                f"{AGENT} can't be given an emptied file, so its change was rejected. Empty or delete it yourself.",
                "warn",
            )
            self._verdict(DiffRejected(file_path))
        else:
            self._verdict(DiffAccepted(file_path, decision.text))

    # calls

    async def call(self, call: mcp.Call) -> bytes:
        """The one boundary between errors and the wire."""
        tool = _TOOLS.get(call.tool)
        if tool is None:
            return jsonrpc.error(call.id, jsonrpc.INVALID_PARAMS, f"Unknown tool: {call.tool}")
        try:
            content = await tool.run(self, tool.parse(call.arguments))
        except BadArgument as error:
            return jsonrpc.error(call.id, jsonrpc.INVALID_PARAMS, str(error))
        except DrawbridgeError as error:
            return mcp.tool_result(call.id, [mcp.text_item(str(error))], is_error=True)
        except Exception:
            logger.exception("%s failed", tool.name)
            message = f"{tool.name} failed inside Drawbridge; its log says why."
            return jsonrpc.error(call.id, jsonrpc.INTERNAL_ERROR, message)
        return mcp.tool_result(call.id, [mcp.text_item(text) for text in content])
