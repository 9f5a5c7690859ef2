"""Claude Code's side of the bridge: MCP over a WebSocket, and notifications. The protocol is described in
docs/internals/protocols/claude-ide.md."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from drawbridge.core.errors import BadArgument, DrawbridgeError
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.editors.files import to_uri
from drawbridge.editors.port import Mentioned, Selection
from drawbridge.ide.review import Reviews
from drawbridge.ide.tool_context import ClientContext
from drawbridge.ide.tools import Tool, Toolbox
from drawbridge.ide.unasked import UnaskedWrites
from drawbridge.ide.workspace import Workspace
from drawbridge.protocols import jsonrpc, mcp
from drawbridge.protocols.gate import BAD_TOKEN, LOOPBACK_HOSTS, Gate, Head, Refusal
from drawbridge.transport.http_server import WebSocket

TOKEN_HEADER: Final = "x-claude-code-ide-authorization"
PROBE_HEADER: Final = "x-drawbridge-probe"
"""The header with which ``drawbridge doctor`` tests the connection. A client that sends it does not replace another
client."""

SUBPROTOCOL: Final = "mcp"
"""The subprotocol that must be confirmed if the client offers it. Otherwise, the real CLI closes the socket
(2.1.81)."""

LISTENS_AFTER_SECONDS: Final = 1.0
"""Seconds after the handshake during which the CLI may silently drop notifications. On an idle machine, it did so for
0.05 to 0.1 s (2.1.329).
"""

CALL_LIMIT: Final = 128
"""The maximum number of calls from one client that may be unanswered at the same time."""

MENTION_LIMIT: Final = 50
"""The maximum number of mentions that are stored until a client reads notifications. The oldest are dropped first."""

logger = logging.getLogger("drawbridge.claude")


class ClaudeClients:
    """All connected CLIs: the WebSocket half of the bridge's HTTP application, and notifications to one or all of
    them."""

    def __init__(
        self,
        workspace: Workspace,
        reviews: Reviews,
        toolbox: Toolbox,
        token: str,
        version: str,
        *,
        hosts: frozenset[str] = LOOPBACK_HOSTS,
        single_client: bool = False,
        mention: Literal["recent", "all"] = "recent",
        reject: Literal["upgrade", "1008"] = "upgrade",
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.workspace = workspace
        self.reviews = reviews
        self.unasked_writes = UnaskedWrites(workspace.editor, reviews)
        self.toolbox = toolbox
        self.version = version
        self._gate = Gate(token, TOKEN_HEADER, hosts=hosts)
        self._single_client = single_client
        self._mention_all = mention == "all"
        self._late_rejection = reject == "1008"
        self._clients: list[ClaudeClient] = []
        self._mentions: deque[Mentioned] = deque(maxlen=MENTION_LIMIT)
        self.tasks = BackgroundTasks(logger)
        self.on_change = on_change

    async def close(self) -> None:
        """Cancels the calls of all clients, and stops watching files."""
        await self.tasks.close()
        await self.unasked_writes.close()

    # HTTP application

    def admit(self, head: Head) -> Refusal | None:
        refusal = self._gate.check(head)
        if refusal is BAD_TOKEN and self._late_rejection:
            return (
                None  # ``opened`` closes the socket with 1008, as required by AUTH-02 of the connection specification.
            )
        return refusal

    def subprotocol(self, head: Head) -> str | None:
        return SUBPROTOCOL if SUBPROTOCOL in head.tokens("sec-websocket-protocol") else None

    def opened(self, head: Head, websocket: WebSocket) -> _Unauthorized | ClaudeClient:
        if self._gate.check(head) is not None:
            logger.warning("refused a request: %s", BAD_TOKEN.reason)
            websocket.limit_unfinished(0)
            websocket.close(1008, "Unauthorized")
            return _Unauthorized()
        if self._single_client and head.one(PROBE_HEADER) is None:
            for other in list(self._clients):
                other.websocket.close(1000, "replaced by a newer connection")
                other.closed(1000)  # closed immediately, so that the editor's next event goes to the new client
        client = ClaudeClient(self, websocket)
        self._clients.append(client)
        return client

    # notifications

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(client.name for client in self._clients if client.ready)

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(client.pid for client in self._clients if client.ready and client.pid is not None)

    @property
    def unasked(self) -> tuple[str, ...]:
        return tuple(client.name for client in self._clients if client.ready and client.unasked)

    def select(self, selection: Selection) -> None:
        for client in self._clients:
            client.select(selection)

    def mention(self, mentioned: Mentioned) -> bool:
        """Sends the mention to the most recently active client, or to all. While no client reads notifications, stores
        it for the next one that does. Returns False if no client is connected.
        """
        listening = [client for client in self._clients if client.listens]
        for client in listening if self._mention_all else listening[-1:]:
            client.mention(mentioned)
        if not listening:
            self._mentions.append(mentioned)
        return bool(self.names)

    # reports from a client

    def started_listening(self, client: ClaudeClient) -> None:
        while self._mentions:
            client.mention(self._mentions.popleft())

    def became_active(self, client: ClaudeClient) -> None:
        """Moves the client to the end of the list, which is sorted by activity."""
        if self._clients and self._clients[-1] is not client and client in self._clients:
            self._clients.remove(client)
            self._clients.append(client)

    def disconnected(self, client: ClaudeClient) -> None:
        if client in self._clients:
            self._clients.remove(client)
            self.on_change()


class _Unauthorized:
    """A peer with a WebSocket that was accepted only so that it can be closed with a reason."""

    def received(self, text: str) -> None:
        pass

    def drained(self) -> None:
        pass

    def closed(self, code: int) -> None:
        pass


class ClaudeClient:
    """One connected CLI."""

    def __init__(self, clients: ClaudeClients, websocket: WebSocket) -> None:
        self.websocket = websocket
        self.name = "Claude Code"
        self.pid: int | None = None
        self.ready = False
        self.listens = False
        self.unasked = False
        self._clients = clients
        self._mcp = mcp.McpServer("drawbridge", clients.version, clients.toolbox.listing)
        self._context = ClientContext(clients.workspace, clients.reviews, self, self.name)
        self._calls: dict[jsonrpc.Id, asyncio.Task[None]] = {}
        self._pending_selection: Selection | None = None
        self._sent_selection: Selection | None = None

    # WebSocket

    def received(self, text: str) -> None:
        self._clients.became_active(self)
        output = self._mcp.receive(text)
        match output:
            case mcp.Reply(data):
                self.websocket.send(data)
            case mcp.Call():
                self._begin(output)
            case mcp.Cancelled(id):
                if id in self._calls:
                    self._calls[id].cancel()
            case mcp.Initialized():
                self._become_ready()
            case mcp.Notified("ide_connected", params):
                self._connected(params)

    def drained(self) -> None:
        pending, self._pending_selection = self._pending_selection, None
        if pending is not None:
            self.select(pending)

    def closed(self, code: int) -> None:
        """Cancels the client's calls, which withdraws its proposals."""
        self.ready = self.listens = False
        for task in list(self._calls.values()):
            task.cancel()
        self._clients.disconnected(self)
        logger.info("%s disconnected (%d)", self.name, code)

    # notifications

    def select(self, selection: Selection) -> None:
        self._pending_selection = selection if self.websocket.congested else None
        if self.ready and self._pending_selection is None and selection != self._sent_selection:
            self._sent_selection = selection
            self._notify("selection_changed", selection_changed(selection))

    def mention(self, mentioned: Mentioned) -> None:
        self._notify("at_mentioned", at_mentioned(mentioned))

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        self.websocket.send(jsonrpc.notification(method, params))

    # handshake

    def _become_ready(self) -> None:
        if not self.ready:
            self.ready = True
            logger.info("%s connected", self.name)
            self._clients.on_change()
            asyncio.get_running_loop().call_later(LISTENS_AFTER_SECONDS, self.start_listening)

    def start_listening(self) -> None:
        """Marks the CLI as reading notifications, and sends what it may have missed: the selection and the stored
        mentions."""
        if self.ready and not self.listens:
            self.listens = True
            self._sent_selection = None
            self._send_selection()
            self._clients.started_listening(self)

    def _send_selection(self) -> None:
        selection = self._clients.workspace.selection
        if selection is not None:
            self.select(selection)

    def _connected(self, params: dict[str, Any]) -> None:
        pid = params.get("pid")
        self.pid = pid if isinstance(pid, int) else None
        if self.ready and self.pid is not None:
            self._clients.on_change()
        self._become_ready()
        self._sent_selection = None
        self._send_selection()

    # calls

    def _begin(self, call: mcp.Call) -> None:
        tool = self._clients.toolbox.find(call.tool)
        if tool is None:
            self._fail(call, jsonrpc.INVALID_PARAMS, f"Unknown tool: {call.tool}")
        elif call.id in self._calls:
            self._fail(call, jsonrpc.INVALID_REQUEST, "This ID is still in use by an unanswered call.")
        elif len(self._calls) >= CALL_LIMIT:
            self._fail(call, jsonrpc.INTERNAL_ERROR, f"This client already has {CALL_LIMIT} unanswered calls.")
        else:
            self._note_mode(call)
            message = f"{tool.name} failed inside Drawbridge. Its log has the reason."
            task = self._calls[call.id] = self._clients.tasks.start(
                self._run(tool, call), tool.name, lambda _: self._fail(call, jsonrpc.INTERNAL_ERROR, message)
            )
            # This is not done in ``_run``, which never runs if the task is canceled before it begins.
            task.add_done_callback(lambda _: self._calls.pop(call.id))

    def _note_mode(self, call: mcp.Call) -> None:
        """Records whether the CLI asks before it writes, as its calls show."""
        uri = call.arguments.get("uri") if isinstance(call.arguments, dict) else None
        if call.tool == "openDiff":
            self._set_unasked(False)
        elif call.tool == "getDiagnostics" and isinstance(uri, str) and uri:
            # A URI that is not a path does not name a file that the agent could write.
            with contextlib.suppress(DrawbridgeError, ValueError):
                path = self._clients.workspace.resolve(uri)
                self._clients.unasked_writes.may_write(path, self.name, lambda: self._set_unasked(True))

    def _set_unasked(self, unasked: bool) -> bool:
        """Sets whether the CLI writes without asking. Returns whether that has changed."""
        if self.unasked == unasked:
            return False
        self.unasked = unasked
        self._clients.on_change()
        return True

    async def _run(self, tool: Tool, call: mcp.Call) -> None:
        """Runs a call and answers it. A ``BadArgument`` becomes a JSON-RPC error, any other ``DrawbridgeError`` an MCP
        result. A canceled call is not answered, because its client no longer waits."""
        try:
            content = await tool.run(self._context, tool.parse(call.arguments))
            self.websocket.send(mcp.tool_result(call.id, [mcp.text_item(text) for text in content]))
        except BadArgument as error:
            self._fail(call, jsonrpc.INVALID_PARAMS, str(error))
        except DrawbridgeError as error:
            logger.info("%s: %s", tool.name, error)
            self.websocket.send(mcp.tool_result(call.id, [mcp.text_item(str(error))], is_error=True))

    def _fail(self, call: mcp.Call, code: int, message: str) -> None:
        self.websocket.send(jsonrpc.error(call.id, code, message))


def selection_changed(selection: Selection) -> dict[str, Any]:
    """The parameters of ``selection_changed``. Lines and columns are 0-based, columns in UTF-16 code units. The CLI
    shows them 1-based."""
    return {
        "text": selection.text,
        "filePath": selection.path,
        "fileUrl": to_uri(selection.path),
        "selection": {**msgspec.to_builtins(selection.range), "isEmpty": selection.range.is_empty},
    }


def at_mentioned(mentioned: Mentioned) -> dict[str, Any]:
    """The parameters of ``at_mentioned``. Lines are 0-based and inclusive. They are left out for a whole file (the CLI
    does not accept null)."""
    params: dict[str, Any] = {"filePath": mentioned.path}
    if mentioned.lines is not None:
        params["lineStart"], params["lineEnd"] = mentioned.lines
    return params
