"""What stands behind the bridge's door: Claude Code at the WebSocket, Gemini CLI at everything else."""

from __future__ import annotations

from drawbridge.agents import catalog
from drawbridge.ide.claude import ClaudeClients
from drawbridge.ide.gemini_site import GeminiSessions
from drawbridge.protocols.gate import Head, Refusal
from drawbridge.transport.http_server import Exchange, Peer, WebSocket

NOT_SERVED = Refusal(404, "This agent is not served here.")


class Agents:
    """The site of both. ``served``: the names of the agents that may connect."""

    def __init__(self, claude: ClaudeClients, gemini: GeminiSessions, served: tuple[str, ...]) -> None:
        self.claude = claude
        self.gemini = gemini
        self._served = {catalog.AGENTS[name].bridge for name in served}

    def admit(self, head: Head, upgrade: bool) -> Refusal | None:
        refusal = self.claude.admit(head) if upgrade else self.gemini.admit(head)
        if refusal is None and (catalog.WEBSOCKET if upgrade else catalog.HTTP) not in self._served:
            return NOT_SERVED
        return refusal

    def subprotocol(self, head: Head) -> str | None:
        return self.claude.subprotocol(head)

    def opened(self, head: Head, websocket: WebSocket) -> Peer:
        return self.claude.opened(head, websocket)

    def requested(self, head: Head, body: bytes, exchange: Exchange) -> None:
        self.gemini.requested(head, body, exchange)

    @property
    def names(self) -> tuple[str, ...]:
        return self.claude.names + self.gemini.names
