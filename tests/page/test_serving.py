"""The files of the web UI over HTTP, without a browser."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest

from drawbridge.protocols.gate import Head
from drawbridge.server.app.site import Page
from tests import programs
from tests.server.processes import Server
from tests.waiting import PATIENCE

SOURCES = Path(__file__).resolve().parent.parent.parent / "web"

POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "img-src": "'self' blob:",
    "connect-src": "'self'",
    "manifest-src": "'self'",
    "worker-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "drawbridge",
}
"""The content security policy without the style sheet: no resources from other hosts, no inline scripts, no embedding in
other pages, no HTML from strings."""


@pytest.fixture(scope="session")
def built() -> Path:
    """The folder with the built web UI."""
    return programs.page()


@pytest.fixture
def server(built: Path, lasting: Server) -> Server:
    """The shared server. Does not depend on ``browser``, so that these tests also run without one."""
    return lasting


def ask(server: Server, path: str, method: str = "GET", **headers: str) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection(server.url.split("/")[2], timeout=PATIENCE)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


async def test_every_file_is_served_with_its_type_and_the_policy(server: Server, built: Path) -> None:
    [style] = re.findall(rb"<style>(.*?)</style>", (built / "index.html").read_bytes(), re.DOTALL)
    policy = {**POLICY, "style-src": f"'sha256-{base64.b64encode(hashlib.sha256(style).digest()).decode()}'"}
    for file in built.iterdir():
        if file.suffix == ".br":
            assert ask(server, f"/{file.name}")[0].status == 404
            continue
        answer, body = ask(server, "/" if file.name == "index.html" else f"/{file.name}")
        assert (answer.status, body) == (200, file.read_bytes()), file.name
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        directives = [one.strip().partition(" ") for one in answer.headers["Content-Security-Policy"].split(";")]
        assert {name: value for name, _, value in directives} == policy, file.name
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"


async def test_a_cached_file_is_not_sent_again(server: Server) -> None:
    first, _ = ask(server, "/sw.js")
    again, body = ask(server, "/sw.js", If_None_Match=first.headers["ETag"])
    assert (again.status, body) == (304, b"")
    other, body = ask(server, "/sw.js", If_None_Match='"another"')
    assert other.status == 200
    assert body


@pytest.mark.parametrize(
    ("accepted", "chosen"),
    [
        ("br, gzip", "br"),
        ("gzip, deflate, BR;q=0.5", "br"),
        ("gzip;q=0.8", "gzip"),
        ("br;q=0, gzip", "gzip"),
        ("gzip; q=0.000", None),
        ("identity", None),
    ],
)
async def test_files_are_compressed_as_browsers_accept(
    server: Server, built: Path, accepted: str, chosen: str | None
) -> None:
    answer, body = ask(server, "/sw.js", Accept_Encoding=accepted)
    assert answer.headers["Content-Encoding"] == chosen
    if chosen == "br":  # tests with a browser show that it is the same file
        assert body == (built / "sw.js.br").read_bytes()
    else:
        assert (gzip.decompress(body) if chosen else body) == (built / "sw.js").read_bytes()


@pytest.mark.parametrize(
    "path", ["/index.html", "/../pyproject.toml", "/%2e%2e/page.py", "/page.py", "//", "/sw.js/", "/web/sw.js"]
)
async def test_other_paths_are_not_found(server: Server, path: str) -> None:
    assert ask(server, path)[0].status == 404


async def test_other_methods_origins_and_hosts_are_refused(server: Server) -> None:
    assert ask(server, "/", "POST")[0].status == 404
    assert ask(server, "/", Origin="https://evil.example")[0].status == 403
    assert ask(server, "/", Host="evil.example")[0].status == 403
    head, body = ask(server, "/", "HEAD")
    assert (head.status, body) == (200, b"")


def test_the_sources_create_no_html_and_name_no_other_server() -> None:
    for file in [*SOURCES.glob("src/**/*.ts*"), *SOURCES.glob("worker/*.ts")]:
        text = file.read_text()
        ways = (
            r"innerHTML|outerHTML\s*=|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\(|new Function"
        )
        assert re.findall(ways, text) == [], file.name
        assert re.findall(r"https?://(?!www\.w3\.org)", text) == [], file.name


def test_the_web_ui_can_be_installed(built: Path) -> None:
    manifest = json.loads((built / "manifest.webmanifest").read_text())
    assert manifest["display"] == "standalone"
    assert {icon["sizes"] for icon in manifest["icons"]} == {"any", "192x192", "512x512"}
    for icon in manifest["icons"]:
        data = (built / icon["src"].removeprefix("/")).read_bytes()
        if icon["type"] == "image/png":
            size = "x".join(str(int.from_bytes(data[place : place + 4])) for place in (16, 20))
            assert (data[:8], size) == (b"\x89PNG\r\n\x1a\n", icon["sizes"])
    names = set(re.findall(r'(?:href|src)="([^"#]+)"', (built / "index.html").read_text()))
    assert names <= {file.name for file in built.iterdir()}


def test_without_a_build_the_server_shows_how_to_create_one(tmp_path: Path) -> None:
    page = Page(tmp_path / "not-there")
    answer = page.answer(Head("GET", "/", ()))
    assert answer.status == 200
    assert b"make page" in answer.body


def test_the_licenses_of_bundled_packages_are_served(server: Server) -> None:
    answer, body = ask(server, "/licenses.txt")
    assert answer.status == 200
    assert body.startswith(b"The web UI contains these packages.")
