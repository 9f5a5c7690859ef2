"""What is hidden from agents: files with the usual names of secrets and, with one setting, the whole context."""

from __future__ import annotations

from pathlib import Path

import pytest

from drawbridge.core.privacy import Privacy
from drawbridge.editors.files import to_uri
from drawbridge.editors.port import Diagnostic, Position, Range
from tests.ide.rig import ClaudeRig

HERE = Range(Position(0, 0), Position(0, 1))


@pytest.mark.parametrize(
    "path",
    [
        "/p/.env",
        "/p/.env.local",
        "/p/server.pem",
        "/p/deep/er/server.key",
        "/home/ada/.ssh/id_ed25519",
        "/home/ada/.netrc",
        "/home/ada/.aws/credentials",
        "/p/secrets.yaml",
    ],
)
def test_secrets_are_hidden_by_their_usual_names(path: str) -> None:
    assert Privacy().hides(path)


@pytest.mark.parametrize(
    "path", ["/p/main.py", "/p/.env/readme", "/p/environment", "/p/keys", "/p/id_rsa.pub", "/", ""]
)
def test_other_files_are_not_hidden(path: str) -> None:
    assert not Privacy().hides(path)


def test_configured_patterns_replace_the_built_in_ones() -> None:
    privacy = Privacy(["*.draft", "/p/private/*"])
    assert privacy.hides("/p/a.draft")
    assert privacy.hides("/p/private/deep/a.txt")
    assert not privacy.hides("/p/public/a.txt")
    assert not privacy.hides("/p/.env")
    assert not Privacy([]).hides("/p/.env")


def test_without_context_everything_is_hidden() -> None:
    assert Privacy(context=False).hides("/p/main.py")


async def test_a_hidden_file_is_not_reported_to_agents(tmp_path: Path) -> None:
    secret, plain = tmp_path / ".env", tmp_path / "main.py"
    for path in (secret, plain):
        path.write_text("token = 1\n")
    async with ClaudeRig(tmp_path) as rig:
        agent = rig.agent()
        for path in (plain, secret):
            rig.editor.open(str(path))
            rig.editor.problems[str(path)] = [Diagnostic("token", "Error", HERE)]
        assert (await agent.body("getCurrentSelection"))["success"] is False
        assert [tab["label"] for tab in (await agent.body("getOpenEditors"))["tabs"]] == ["main.py"]
        assert [entry["uri"] for entry in await agent.body("getDiagnostics")] == [to_uri(str(plain))]
        uri = to_uri(str(secret))
        assert await agent.body("getDiagnostics", uri=uri) == [{"uri": uri, "diagnostics": []}]
        for word in ("token", ".env"):
            assert word not in str(await agent.body("getOpenEditors"))


async def test_without_context_agents_can_still_propose_changes(tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text("token = 1\n")
    async with ClaudeRig(tmp_path, privacy=Privacy(context=False)) as rig:
        agent = rig.agent()
        rig.editor.open(str(path))
        rig.editor.problems[str(path)] = [Diagnostic("token", "Error", HERE)]
        assert (await agent.body("getCurrentSelection"))["success"] is False
        assert await agent.body("getOpenEditors") == {"tabs": []}
        assert await agent.body("getDiagnostics") == []
        agent.ask("openDiff", old_file_path=str(path), new_file_path=str(path), new_file_contents="", tab_name="t")
        await rig.proposals(1)
