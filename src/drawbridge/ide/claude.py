"""Claude Code's dialect: MCP over a WebSocket, and its notifications. See docs/internals/protocols/claude-ide.md."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from drawbridge.core.errors import BadArgument, DrawbridgeError
from drawbridge.editors.files import to_uri
from drawbridge.editors.port import Mentioned, Selection
from drawbridge.ide.desk import AgentDesk, Workspace
from drawbridge.ide.tools import Tool, Toolbox
from drawbridge.protocols import jsonrpc, mcp
from drawbridge.protocols.gate import BAD_TOKEN, LOOPBACK_HOSTS, Gate, Head, Refusal
from drawbridge.transport.http_server import WebSocket

TOKEN_HEADER: Final = "x-claude-code-ide-authorization"
SUBPROTOCOL: Final = "mcp"
"""Must be confirmed when offered: the real CLI drops the socket otherwise (2.1.81)."""

HEARS_AFTER_SECONDS: Final = 1.0
"""From the end of the handshake until the CLI surely takes notice of what it is told: measured 0.05 to 0.1 s on 2.1.329
on an idle machine; what came sooner was lost without a sign.
"""

CALL_LIMIT: Final = 128
"""Calls of one client that may wait at once."""

MENTION_LIMIT: Final = 50
"""Mentions kept for a client that is still to come; the oldest give way."""

logger = logging.getLogger("drawbridge.claude")


class ClaudeClients:
    """All connected CLIs: the WebSocket half of the bridge's site, and what is said to all or one of them."""

    def __init__(
        self,
        workspace: Workspace,
        toolbox: Toolbox,
        token: str,
        version: str,
        *,
        hosts: frozenset[str] = LOOPBACK_HOSTS,
        single_client: bool = False,
        mention: Literal["recent", "all"] = "recent",
        reject: Literal["upgrade", "1008"] = "upgrade",
    ) -> None:
        self.workspace = workspace
        self.toolbox = toolbox
        self.version = version
        self._gate = Gate(token, TOKEN_HEADER, hosts=hosts)
        self._single_client = single_client
        self._mention_all = mention == "all"
        self._late_rejection = reject == "1008"
        self._clients: list[ClaudeClient] = []
        self._mentions: deque[Mentioned] = deque(maxlen=MENTION_LIMIT)
        self.on_change: Callable[[], None] = lambda: None

    # the site behind the door

    def admit(self, head: Head) -> Refusal | None:
        refusal = self._gate.check(head)
        if refusal is BAD_TOKEN and self._late_rejection:
            return None  # ``opened`` closes it with 1008, as AUTH-02 of the connection spec has it.
        return refusal

    def subprotocol(self, head: Head) -> str | None:
        return SUBPROTOCOL if SUBPROTOCOL in head.tokens("sec-websocket-protocol") else None

    def opened(self, head: Head, websocket: WebSocket) -> _Stranger | ClaudeClient:
        if self._gate.check(head) is not None:
            logger.warning("refused a request: %s", BAD_TOKEN.reason)
            websocket.limit_unfinished(0)
            websocket.close(1008, "Unauthorized")
            return _Stranger()
        if self._single_client:
            for other in list(self._clients):
                other.websocket.close(1000, "replaced by a newer connection")
                other.closed(1000)  # at once: what the editor sends next is for the new one
        client = ClaudeClient(self, websocket)
        self._clients.append(client)
        return client

    # what the bridge tells them

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
        """To the client that was active last (or all). False: nobody is there yet, it is kept until somebody is."""
        hearing = [client for client in self._clients if client.hears]
        for client in hearing if self._mention_all else hearing[-1:]:
            client.mention(mentioned)
        if not hearing:
            self._mentions.append(mentioned)
        return bool(self.names)

    # what a client tells us

    def began_to_hear(self, client: ClaudeClient) -> None:
        while self._mentions:
            client.mention(self._mentions.popleft())

    def became_active(self, client: ClaudeClient) -> None:
        """The list is in the order of activity, the latest last."""
        if self._clients and self._clients[-1] is not client and client in self._clients:
            self._clients.remove(client)
            self._clients.append(client)

    def went(self, client: ClaudeClient) -> None:
        if client in self._clients:
            self._clients.remove(client)
            self.on_change()


class _Stranger:
    """A peer that was let in only to be told that it may not enter."""

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
        self.hears = False
        self.unasked = False
        self._clients = clients
        self._mcp = mcp.McpServer("drawbridge", clients.version, clients.toolbox.listing)
        self._desk = AgentDesk(clients.workspace, self, self.name)
        self._calls: dict[jsonrpc.Id, asyncio.Task[None]] = {}
        self._held_selection: Selection | None = None
        self._said_selection: Selection | None = None

    # the peer of the door

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
        held, self._held_selection = self._held_selection, None
        if held is not None:
            self.select(held)

    def closed(self, code: int) -> None:
        """Its own proposals go with it."""
        self.ready = self.hears = False
        for task in list(self._calls.values()):
            task.cancel()
        self._clients.went(self)
        logger.info("%s disconnected (%d)", self.name, code)

    # what it is told

    def select(self, selection: Selection) -> None:
        self._held_selection = selection if self.websocket.congested else None
        if self.ready and self._held_selection is None and selection != self._said_selection:
            self._said_selection = selection
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
            asyncio.get_running_loop().call_later(HEARS_AFTER_SECONDS, self.begin_to_hear)

    def begin_to_hear(self) -> None:
        """It takes notice from now on; what it may have missed is said again."""
        if self.ready and not self.hears:
            self.hears = True
            self._said_selection = None
            self._say_selection()
            self._clients.began_to_hear(self)

    def _say_selection(self) -> None:
        selection = self._clients.workspace.selection
        if selection is not None:
            self.select(selection)

    def _connected(self, params: dict[str, Any]) -> None:
        pid = params.get("pid")
        self.pid = pid if isinstance(pid, int) else None
        if self.ready and self.pid is not None:
            self._clients.on_change()
        self._become_ready()
        self._said_selection = None
        self._say_selection()

    # calls

    def _begin(self, call: mcp.Call) -> None:
        tool = self._clients.toolbox.find(call.tool)
        if tool is None:
            self._fail(call, jsonrpc.INVALID_PARAMS, f"Unknown tool: {call.tool}")
        elif call.id in self._calls:
            self._fail(call, jsonrpc.INVALID_REQUEST, "This id is still in use by an unanswered call.")
        elif len(self._calls) >= CALL_LIMIT:
            self._fail(call, jsonrpc.INTERNAL_ERROR, f"{CALL_LIMIT} calls of this client are unanswered already.")
        else:
            self._note_mode(call)
            task = self._calls[call.id] = asyncio.get_running_loop().create_task(self._run(tool, call))
            # Not at the end of ``_run``: a call that is cancelled in the same breath never begins.
            task.add_done_callback(lambda _: self._calls.pop(call.id))

    def _note_mode(self, call: mcp.Call) -> None:
        """The calls of the CLI show whether it asks before it writes."""
        uri = call.arguments.get("uri") if isinstance(call.arguments, dict) else None
        if call.tool == "openDiff":
            self._set_unasked(False)
        elif call.tool == "getDiagnostics" and isinstance(uri, str) and uri:
            workspace = self._clients.workspace
            with contextlib.suppress(DrawbridgeError, ValueError):  # what is not a path is not written either
                workspace.unasked.may_write(workspace.resolve(uri), self.name, lambda: self._set_unasked(True))

    def _set_unasked(self, unasked: bool) -> bool:
        """Returns whether the state is new."""
        if self.unasked == unasked:
            return False
        self.unasked = unasked
        self._clients.on_change()
        return True

    async def _run(self, tool: Tool, call: mcp.Call) -> None:
        """The one boundary between errors and the wire."""
        try:
            content = await tool.run(self._desk, tool.parse(call.arguments))
            self.websocket.send(mcp.tool_result(call.id, [mcp.text_item(text) for text in content]))
        except BadArgument as error:
            self._fail(call, jsonrpc.INVALID_PARAMS, str(error))
        except DrawbridgeError as error:
            logger.info("%s: %s", tool.name, error)
            self.websocket.send(mcp.tool_result(call.id, [mcp.text_item(str(error))], is_error=True))
        except asyncio.CancelledError:
            pass  # Nobody waits for the answer any more.
        except Exception:
            logger.exception("%s failed", tool.name)
            self._fail(call, jsonrpc.INTERNAL_ERROR, f"{tool.name} failed inside Drawbridge; its log says why.")

    def _fail(self, call: mcp.Call, code: int, message: str) -> None:
        self.websocket.send(jsonrpc.error(call.id, code, message))


def selection_changed(selection: Selection) -> dict[str, Any]:
    """Lines and columns 0-based, columns in UTF-16; the CLI shows them 1-based."""
    return {
        "text": selection.text,
        "filePath": selection.path,
        "fileUrl": to_uri(selection.path),
        "selection": {**msgspec.to_builtins(selection.range), "isEmpty": selection.range.is_empty},
    }


def at_mentioned(mentioned: Mentioned) -> dict[str, Any]:
    """Lines 0-based and inclusive; left out for a whole file (null is no number to the CLI)."""
    params: dict[str, Any] = {"filePath": mentioned.path}
    if mentioned.lines is not None:
        params["lineStart"], params["lineEnd"] = mentioned.lines
    return params
