"""The bridge works as an MCP server for the official client and the conformance suite, which do not know it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.rigs.gemini_rig import wait_for_discovery
from tests.waiting import PATIENCE

from .proxy import CuttingProxy

NO_SUCH_TOOL = "it calls a tool of the suite's own server; ours are the four that the CLI knows"
NO_RESOURCES = "we declare no resources"
NO_PROMPTS = "we declare no prompts"

EXPECTED_FAILURES = {
    "completion-complete": "we declare no completions",
    "dns-rebinding-protection": "it wants pages of this machine let in; we refuse every Origin, as the official companion does",
    "elicitation-sep1034-defaults": NO_SUCH_TOOL,
    "elicitation-sep1330-enums": NO_SUCH_TOOL,
    "logging-set-level": "we declare no logging",
    "prompts-get-embedded-resource": NO_PROMPTS,
    "prompts-get-simple": NO_PROMPTS,
    "prompts-get-with-args": NO_PROMPTS,
    "prompts-get-with-image": NO_PROMPTS,
    "resources-read-binary": NO_RESOURCES,
    "resources-read-text": NO_RESOURCES,
    "resources-subscribe": NO_RESOURCES,
    "resources-templates-read": NO_RESOURCES,
    "resources-unsubscribe": NO_RESOURCES,
    "tools-call-audio": NO_SUCH_TOOL,
    "tools-call-elicitation": NO_SUCH_TOOL,
    "tools-call-embedded-resource": NO_SUCH_TOOL,
    "tools-call-error": NO_SUCH_TOOL,
    "tools-call-image": NO_SUCH_TOOL,
    "tools-call-mixed-content": NO_SUCH_TOOL,
    "tools-call-sampling": NO_SUCH_TOOL,
    "tools-call-simple-text": NO_SUCH_TOOL,
    "tools-call-with-logging": NO_SUCH_TOOL,
    "tools-call-with-progress": NO_SUCH_TOOL,
}
"""Each scenario of the suite that fails, and why it does not apply to this server."""


@pytest.fixture
def project(home: Path) -> Path:
    (home / "project").mkdir()
    return home / "project"


@pytest.fixture
def discovery(project: Path) -> Iterator[Path]:
    """Runs a bridge that has no editor and accepts every proposal. Yields the path of its discovery file."""
    command = [sys.executable, "-m", "drawbridge", "ide", "--folder", str(project), "--decide", "accept"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as bridge:
        try:
            yield wait_for_discovery()
        finally:
            bridge.terminate()


@pytest.mark.thorough
def test_the_official_python_client_reviews_a_file(discovery: Path, project: Path) -> None:
    bridge = json.loads(discovery.read_text())
    poem = project / "poem.txt"
    poem.write_text("one\n")
    script = str(Path(__file__).with_name("mcp_client.py"))
    url = f"http://127.0.0.1:{bridge['port']}/mcp"
    command = [str(programs.mcp_client()), script, url, bridge["authToken"], str(poem), "ONE\n"]

    result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert result.returncode == 0, result.stderr
    got: dict[str, Any] = json.loads(result.stdout)
    assert got["first_notice"] == "ide/contextUpdate"
    assert got["opened"] is False
    assert got["decision"] == ["ide/diffAccepted", {"filePath": str(poem), "content": "ONE\n"}]
    assert got["closed"] == ["{}"]
    assert got["unknown_tool"] == -32602
    assert got["tools"]["openDiff"]["required"] == ["filePath", "newContent"]
    assert got["found_out"] == got["protocol"]
    assert poem.read_text() == "one\n", "the client writes the file, not the bridge"


@pytest.mark.thorough
def test_the_conformance_suite_has_only_the_expected_failures(discovery: Path, tmp_path: Path) -> None:
    with CuttingProxy(discovery, lends_token=True) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/mcp"
        command = [str(programs.mcp_conformance()), "server", "--url", url, "--output-dir", str(tmp_path)]

        report = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stdout

    results = {name: mark == "✓" for mark, name in re.findall(r"^([✓✗]) ([\w-]+): ", report, re.MULTILINE)}
    assert {"server-initialize", "ping", "tools-list", "server-sse-multiple-streams"} <= results.keys(), report
    assert {name for name, passed in results.items() if not passed} == set(EXPECTED_FAILURES), report
    [rebinding] = tmp_path.glob("server-dns-rebinding-protection-*/checks.json")
    status = {check["id"]: check["status"] for check in json.loads(rebinding.read_text())}
    assert status["localhost-host-rebinding-rejected"] == "SUCCESS"


def test_the_documentation_lists_each_expected_failure() -> None:
    """Each scenario that is expected to fail, and no other, is in the table of reasons."""
    page = Path(__file__).resolve().parents[3] / "docs" / "internals" / "mcp-conformance.md"
    table = page.read_text().partition("|---|---|")[2]
    assert set(re.findall(r"`([a-z][\w-]+-[\w-]+)`", table)) == set(EXPECTED_FAILURES)
