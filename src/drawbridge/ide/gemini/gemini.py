"""Gemini CLI's side of the bridge: a session, its proposals, notifications. The protocol is described in
docs/internals/protocols/gemini-ide.md."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final, TypeAlias

from drawbridge.core.errors import BadArgument, DrawbridgeError, EditorHung
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.editors.port import Accepted, Decision, Level, Withdrawn
from drawbridge.ide.gemini import notices as gemini_notices
from drawbridge.ide.gemini.notices import DiffAccepted, DiffDecision, DiffRejected
from drawbridge.ide.gemini.stream import EventStream
from drawbridge.ide.review import Reviews
from drawbridge.ide.tools.gemini import TOOLS
from drawbridge.ide.workspace import Workspace
from drawbridge.protocols import jsonrpc, mcp
from drawbridge.transport.http_server import Exchange

AGENT: Final = "Gemini CLI"

GRACE_SECONDS: Final = 5.0
"""Seconds that a session remains after its stream has ended or after its last request, whichever is later. The real CLI
reconnects after 1 s and, if that fails, 1.5 s later."""

SILENT_SECONDS: Final = 600.0
"""Seconds without a request after which a session that has never had a stream ends."""

_TOOLS: Final = {tool.name: tool for tool in TOOLS}
_LISTING: Final = [tool.entry() for tool in TOOLS]

logger = logging.getLogger("drawbridge.gemini")

Notify: TypeAlias = Callable[[str, Level], None]
Copy: TypeAlias = Callable[[bytes, str], None]


class GeminiSession:
    """One connected CLI: its proposals and its stream. ``notify`` shows a notice to the user, and ``copy`` receives a
    copy of each decision.
    """

    def __init__(
        self,
        id: str,
        stream: EventStream,
        version: str,
        workspace: Workspace,
        reviews: Reviews,
        tasks: BackgroundTasks,
        notify: Notify,
        copy: Copy,
    ) -> None:
        self.id = id
        self.name = AGENT
        self.stream = stream
        self.mcp = mcp.McpServer("drawbridge", version, _LISTING)
        self._workspace = workspace
        self._reviews = reviews
        self._tasks = tasks
        self._notify = notify
        self._copy = copy
        self._ever_listened = False
        self.seen_at = time.monotonic()
        self._proposals: dict[str, asyncio.Task[None]] = {}

    def seen(self) -> None:
        self.seen_at = time.monotonic()

    def listen(self, exchange: Exchange, last_id: int) -> None:
        self._ever_listened = True
        self.stream.open(exchange, last_id)

    def is_gone(self, now: float) -> bool:
        """Whether the session's CLI must have ended, which it may do without announcing it."""
        if self.stream.has_reader:
            return False
        if self._ever_listened:
            return now - max(self.stream.left_at, self.seen_at) > GRACE_SECONDS
        return now - self.seen_at > SILENT_SECONDS

    def end(self, *, reject: bool = False) -> None:
        """Withdraws the session's proposals and closes its stream. With ``reject``, the CLI receives their rejection
        first, so that it closes its dialogs."""
        for file_path, task in list(self._proposals.items()):
            if reject:
                self._decided(DiffRejected(file_path))
            task.cancel()
        self.stream.close()

    def _decided(self, decision: DiffDecision) -> None:
        message = gemini_notices.encode(decision)
        self.stream.decided(message, decision.file_path)
        self._copy(message, decision.file_path)

    # tools

    def propose(self, file_path: str, new_content: str) -> None:
        former = self._proposals.pop(file_path, None)
        if former is not None:
            former.cancel()
        self.stream.forget(file_path)
        # The CLI's own dialog stays open, and the user can answer there.
        problem = f"The change to {file_path} can't be shown because of an error in Drawbridge. Answer in Gemini CLI."
        task = self._tasks.start(
            self._review(file_path, new_content), f"proposing {file_path}", lambda _: self._notify(problem, "warn")
        )
        self._proposals[file_path] = task
        task.add_done_callback(lambda done: self._forget(file_path, done))

    async def withdraw(self, file_path: str) -> str | None:
        task = self._proposals.get(file_path)
        self.stream.forget(file_path)
        try:
            text = await self._reviews.withdraw_with_text(self, file_path)
        except DrawbridgeError as error:
            # An error result would break the real CLI. Without a text, it writes its own, as it does without an editor.
            logger.warning("%s", error)
            text = None
        if text is None and task is not None:
            task.cancel()  # the proposal is not shown yet, or the editor could not answer
        return text

    async def decide(self, file_path: str, *, accept: bool) -> bool:
        return await self._reviews.answer_as_shown(self, file_path, accept=accept)

    def _forget(self, file_path: str, task: asyncio.Task[None]) -> None:
        if self._proposals.get(file_path) is task:
            del self._proposals[file_path]

    async def _review(self, file_path: str, new_content: str) -> None:
        try:
            path = self._workspace.resolve(file_path)
            decision = await self._reviews.review(self, AGENT, path, new_content, file_path)
        except EditorHung as error:
            logger.warning("%s", error)
            self._decided(DiffRejected(file_path))
        except DrawbridgeError as error:
            # An error result would break the real CLI (0.61.0). Its own dialog stays open, and the user sees a notice.
            logger.info("%s is not shown: %s", file_path, error)
        else:
            self._send_decision(file_path, new_content, decision)

    def _send_decision(self, file_path: str, new_content: str, decision: Decision) -> None:
        if isinstance(decision, Withdrawn):
            return
        if not isinstance(decision, Accepted):
            self._decided(DiffRejected(file_path))
        elif new_content and not decision.text:
            # The CLI treats empty text as "not edited", and would write its own text.
            self._notify(
                f"{AGENT} can't write an empty file, so its change was rejected. Empty or delete the file yourself.",
                "warn",
            )
            self._decided(DiffRejected(file_path))
        else:
            self._decided(DiffAccepted(file_path, decision.text))

    # calls

    async def call(self, call: mcp.Call) -> bytes:
        """The answer to a call: a JSON-RPC error for an unknown tool or invalid arguments. Any other error becomes an
        MCP result."""
        tool = _TOOLS.get(call.tool)
        if tool is None:
            return jsonrpc.error(call.id, jsonrpc.INVALID_PARAMS, f"Unknown tool: {call.tool}")
        try:
            content = await tool.run(self, tool.parse(call.arguments))
        except BadArgument as error:
            return jsonrpc.error(call.id, jsonrpc.INVALID_PARAMS, str(error))
        except DrawbridgeError as error:
            return mcp.tool_result(call.id, [mcp.text_item(str(error))], is_error=True)
        return mcp.tool_result(call.id, [mcp.text_item(text) for text in content])
