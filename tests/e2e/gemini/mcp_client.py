"""Uses a bridge through the official MCP client and prints the results as one line of JSON.

It runs in the interpreter in which that client is installed: ``python mcp_client.py URL TOKEN FILE NEW_TEXT``.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import httpx2  # type: ignore[import-not-found]
from mcp.client.client import Client  # type: ignore[import-not-found]
from mcp.client.extension import NotificationBinding  # type: ignore[import-not-found]
from mcp.client.session import ClientSession  # type: ignore[import-not-found]
from mcp.client.streamable_http import streamable_http_client  # type: ignore[import-not-found]
from mcp.shared.exceptions import MCPError  # type: ignore[import-not-found]
from mcp.types import NotificationParams  # type: ignore[import-not-found]
from pydantic import ConfigDict

PATIENCE = 60  # the value in tests/waiting.py, which this program can't import
"""Seconds that the whole program may take."""


class Params(NotificationParams):  # type: ignore[misc]
    """The parameters of any kind of notification."""

    model_config = ConfigDict(extra="allow")


async def use(url: str, token: str, file: str, new_text: str) -> dict[str, Any]:
    notices: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()

    def listen(method: str) -> NotificationBinding:
        async def handle(params: Params) -> None:
            notices.put_nowait((method, params.model_dump(exclude_none=True)))

        return NotificationBinding(method=method, params_type=Params, handler=handle)

    bindings = [listen(f"ide/{name}") for name in ("contextUpdate", "diffAccepted", "diffRejected")]
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, trust_env=False)
    async with (
        http,
        streamable_http_client(url, http_client=http) as streams,
        ClientSession(*streams, notification_bindings=bindings) as session,
    ):
        initialized = await session.initialize()
        first_notice = await notices.get()
        await session.send_ping()
        tools = (await session.list_tools()).tools
        opened = await session.call_tool("openDiff", {"filePath": file, "newContent": new_text})
        decision = await notices.get()
        closed = await session.call_tool("closeDiff", {"filePath": file})
        try:
            await session.call_tool("openDof", {})
            refusal = 0
        except MCPError as error:
            refusal = error.error.code
    return {
        "protocol": initialized.protocol_version,
        "first_notice": first_notice[0],
        "tools": {tool.name: tool.input_schema for tool in tools},
        "opened": opened.is_error,
        "decision": decision,
        "closed": [item.text for item in closed.content],
        "unknown_tool": refusal,
        "found_out": await find_out(url, token),
    }


async def find_out(url: str, token: str) -> str:
    """Returns the protocol version that the client negotiates when it does not know what kind of server this is."""
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, trust_env=False)
    async with http, Client(streamable_http_client(url, http_client=http)) as client:
        await client.list_tools()
        return str(client.protocol_version)


async def main() -> None:
    async with asyncio.timeout(PATIENCE):
        sys.stdout.write(json.dumps(await use(*sys.argv[1:])) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
