"""The bridge's HTTP application: Claude Code connects by WebSocket, Gemini CLI with plain requests."""

from __future__ import annotations

from collections.abc import Iterable

from drawbridge.agents import catalog
from drawbridge.ide.claude import ClaudeClients
from drawbridge.ide.gemini.http import GeminiSessions
from drawbridge.protocols.gate import Head, Refusal

NOT_SERVED = Refusal(404, "This bridge does not serve this agent.")


class BridgeApp:
    """The HTTP application of one bridge. ``served``: the names of the agents that may connect. A transport (WebSocket
    or HTTP) that none of them uses is refused, even with the right token."""

    def __init__(self, claude: ClaudeClients, gemini: GeminiSessions, served: Iterable[str]) -> None:
        self._claude = claude
        self._gemini = gemini
        self._served = {catalog.AGENTS[name].bridge for name in served}
        self.subprotocol = claude.subprotocol
        self.opened = claude.opened
        self.requested = gemini.requested

    def compresses(self, head: Head) -> bool:
        """Returns False, because agents run on this machine, where compression is of no benefit."""
        return False

    def admit(self, head: Head, upgrade: bool) -> Refusal | None:
        refusal = self._claude.admit(head) if upgrade else self._gemini.admit(head)
        if refusal is None and (catalog.WEBSOCKET if upgrade else catalog.HTTP) not in self._served:
            return NOT_SERVED
        return refusal
