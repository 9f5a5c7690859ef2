"""A server whose web UI could not be built still runs, and shows the reason instead of the web UI."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from drawbridge.protocols.gate import Head
from drawbridge.server.app import site
from tests.server.processes import serving
from tests.waiting import PATIENCE

REASON = "The web UI was not built: npm ci exited with code 7. See <its> message, then run `make page`."

WITHOUT_A_PAGE = [
    sys.executable,
    "-c",
    "import sys, pathlib; from drawbridge.server.app import site; site.files = lambda _: pathlib.Path('/nowhere');"
    "from drawbridge import cli; sys.exit(cli.main())",
    "serve",
]


def shown(folder: Path) -> str:
    answer = site.Page(folder / "not-there").answer(Head("GET", "/", ()))
    assert answer.status == 200
    return answer.body.decode()


def test_a_web_ui_that_could_not_be_built_shows_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(site.FAILED, raising=False)
    assert "make page" in shown(tmp_path)
    assert "npm ci" not in shown(tmp_path)
    monkeypatch.setenv(site.FAILED, REASON)
    assert "npm ci exited with code 7. See &lt;its&gt; message" in shown(tmp_path)


def test_an_older_build_is_not_served_after_a_failed_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an update, the older web UI might not work with the server."""
    (tmp_path / "index.html").write_text("an older web UI")
    monkeypatch.delenv(site.FAILED, raising=False)
    head = Head("GET", "/", ())
    assert site.Page(tmp_path).answer(head).body == b"an older web UI"
    monkeypatch.setenv(site.FAILED, REASON)
    assert b"npm ci exited with code 7" in site.Page(tmp_path).answer(head).body


async def test_a_server_without_a_web_ui_runs(tmp_path: Path) -> None:
    environment = {site.FAILED: REASON}
    async with serving(tmp_path / "data", "--no-tls", command=WITHOUT_A_PAGE, **environment) as server:

        def fetch() -> str:
            with urlopen(server.url.replace("ws://", "http://").removesuffix("ws"), timeout=PATIENCE) as answer:
                return str(answer.read().decode())

        assert "npm ci exited with code 7" in await asyncio.to_thread(fetch)
        async with server.client() as client:
            assert (await client.ask("project_list"))["data"]["projects"] == []
