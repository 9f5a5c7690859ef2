"""The bridge's only port: which agent's checks apply to a request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from drawbridge.ide.gemini.http import GeminiSessions
from drawbridge.ide.http_app import NOT_SERVED, BridgeApp
from drawbridge.protocols.gate import BAD_TOKEN, FOREIGN_HOST, FOREIGN_ORIGIN, Head
from tests.ide.rig import TOKEN, ClaudeRig, head


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ClaudeRig]:
    async with ClaudeRig(tmp_path) as rig:
        yield rig


def agents(rig: ClaudeRig, *served: str) -> BridgeApp:
    return BridgeApp(rig.clients, GeminiSessions(rig.workspace, rig.reviews, TOKEN, "1.2.3", lambda *_: None), served)


def plain(method: str = "POST", target: str = "/mcp", **headers: str) -> Head:
    given = {"host": "localhost", "authorization": f"Bearer {TOKEN}"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    return Head(method, target, tuple((name, value) for name, value in given.items() if value))


def test_each_agents_header_works_only_for_its_own_protocol(rig: ClaudeRig) -> None:
    site = agents(rig, "claude", "gemini")
    assert site.admit(head(), True) is None
    assert site.admit(plain(), False) is None
    assert site.admit(head(), False) is BAD_TOKEN
    assert site.admit(plain(), True) is BAD_TOKEN


def test_only_the_token_reveals_that_an_agent_is_not_served(rig: ClaudeRig) -> None:
    assert agents(rig, "gemini").admit(head(), True) is NOT_SERVED
    assert agents(rig, "claude").admit(plain(), False) is NOT_SERVED
    assert agents(rig, "gemini").admit(plain(), True) is BAD_TOKEN
    assert agents(rig, "claude").admit(plain(authorization=""), False) is BAD_TOKEN


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS", "HEAD"])
@pytest.mark.parametrize("target", ["/", "/mcp", "/mcp?token=x", "/events", "/nothing", "/health/", "*"])
@pytest.mark.parametrize("authorization", ["", TOKEN, f"Basic {TOKEN}", f"bearer {TOKEN}", f"Bearer {TOKEN}x"])
def test_without_the_exact_token_every_path_is_refused(
    rig: ClaudeRig, method: str, target: str, authorization: str
) -> None:
    site = agents(rig, "claude", "gemini")
    assert site.admit(plain(method, target, authorization=authorization), False) is BAD_TOKEN


def test_health_needs_no_token_but_is_closed_to_web_pages(rig: ClaudeRig) -> None:
    site = agents(rig, "claude", "gemini")
    assert site.admit(plain("GET", "/health", authorization=""), False) is None
    assert site.admit(plain("GET", "/health", authorization="", origin="https://evil.example"), False) is FOREIGN_ORIGIN
    assert site.admit(plain("GET", "/health", authorization="", host="evil.example"), False) is FOREIGN_HOST


@pytest.mark.parametrize(
    "headers", [{"content_length": "64000000"}, {"content_length": "0"}, {"transfer_encoding": "chunked"}]
)
def test_health_with_a_body_or_as_post_requires_the_token(rig: ClaudeRig, headers: dict[str, str]) -> None:
    site = agents(rig, "claude", "gemini")
    for method in ("GET", "POST"):
        assert site.admit(plain(method, "/health", authorization="", **headers), False) is BAD_TOKEN
    assert site.admit(plain("POST", "/health", authorization=""), False) is BAD_TOKEN
