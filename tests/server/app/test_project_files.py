"""A project's files over the socket: available to every device that may see the project, and to no other."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.server import processes
from tests.server.auth.rig import Server, code_of
from tests.server.checkpoints.rig import git
from tests.server.wire_client import WireClient

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 3_000


@pytest.fixture
def server(whole_server: Server) -> Server:
    return whole_server


@pytest.fixture
async def project(server: Server, owner: WireClient) -> str:
    project = await server.project(owner)
    (server.roots / "code" / "src").mkdir()
    (server.roots / "code" / "src" / "bridge.py").write_text("x = 1\n")
    (server.roots / "code" / "a.png").write_bytes(PNG)
    (server.roots / "code" / "large.txt").write_text("line\n" * 300_000)
    return project


async def whole(client: WireClient, blob_id: str) -> bytes:
    """The whole blob, downloaded in pieces."""
    data = b""
    while True:
        piece = (await client.ask("blob_get", {"blob_id": blob_id, "offset": len(data)}))["data"]
        data += base64.b64decode(piece["data"])
        if piece["last"]:
            assert piece["size"] == len(data)
            return data


async def test_a_view_only_device_sees_files(server: Server, project: str) -> None:
    async with server.client(server.token("tv", "view")) as viewer:
        listed = (await viewer.ask("file_list", {}, project))["data"]
        assert [entry["path"] for entry in listed["entries"]] == ["src", "a.png", "large.txt"]
        found = (await viewer.ask("file_list", {"query": "brid"}, project))["data"]
        assert [entry["path"] for entry in found["entries"]] == ["src/bridge.py"]
        assert (await viewer.ask("file_read", {"path": "src/bridge.py"}, project))["data"]["text"] == "x = 1\n"
        image = (await viewer.ask("file_read", {"path": "a.png"}, project))["data"]
        assert await whole(viewer, image["blob_id"]) == PNG
        large = (await viewer.ask("file_read", {"path": "large.txt"}, project))["data"]
        assert await whole(viewer, large["truncated"]["blob_id"]) == b"line\n" * 300_000


async def test_a_view_only_device_sees_changes(server: Server, project: str) -> None:
    """The device sees neither changes to private files nor their text in the last commit."""
    code = server.roots / "code"
    (code / ".env").write_text("secret")
    git(code, "init", "-q")
    git(code, "add", "-f", ".")
    git(code, "commit", "-q", "-m", "one")
    (code / "src" / "bridge.py").write_text("x = 2\n")
    (code / "large.txt").unlink()
    (code / ".env").unlink()
    async with server.client(server.token("tv", "view")) as viewer:
        changes = await viewer.ask("file_changes", {"path": "src/bridge.py"}, project)
        assert changes["data"] == {"path": "src/bridge.py", "status": "M", "old": "x = 1\n", "new": "x = 2\n"}
        deleted = (await viewer.ask("file_changes", {"path": "large.txt"}, project))["data"]
        assert (deleted["status"], deleted["truncated"], "old" in deleted) == ("D", True, False)
        for path, refused in ((".env", "FILE_PRIVATE"), ("a.png", "FILE_UNSUPPORTED"), ("none", "FILE_NOT_FOUND")):
            assert code_of(await viewer.ask("file_changes", {"path": path}, project)) == refused


async def test_the_owner_chooses_what_is_private(tmp_path: Path) -> None:
    """Uses the real server. Git's own files stay private, whatever the owner chooses."""
    (tmp_path / "code" / ".git").mkdir(parents=True)
    for name in (".env", "notes.secret", ".git/config"):
        (tmp_path / "code" / name).write_text("text")
    flags = ("--no-tls", "--allow", tmp_path, "--ignore", "*.secret")
    async with processes.serving(tmp_path / "data", *flags) as server, server.client() as client:
        made = await client.ask("project_create", {"path": str(tmp_path / "code"), "agent": "demo"})
        project = made["project_id"]
        assert code_of(await client.ask("file_read", {"path": ".env"}, project)) == "file_read"
        for path in ("notes.secret", ".git/config"):
            assert code_of(await client.ask("file_read", {"path": path}, project)) == "FILE_PRIVATE"
        found = (await client.ask("file_list", {"query": ""}, project))["data"]["entries"]
        assert [entry["path"] for entry in found] == [".env"]


async def test_a_device_of_another_project_sees_no_files(server: Server, owner: WireClient, project: str) -> None:
    """The device can't read a blob of the project either, even if it knows the id that another client was given."""
    (server.roots / "other").mkdir()
    image = (await owner.ask("file_read", {"path": "a.png"}, project))["data"]
    token = server.token("tv", "admin", projects=[str(server.roots / "other")])
    async with server.client(token) as confined:
        a_file = {"path": "a.png"}
        for name, data in (
            ("file_list", {}),
            ("file_list", {"query": ""}),
            ("file_read", a_file),
            ("file_changes", a_file),
        ):
            assert code_of(await confined.ask(name, data, project)) == "PROJECT_NOT_FOUND"
        assert code_of(await confined.ask("blob_get", {"blob_id": image["blob_id"]})) == "PROJECT_NOT_FOUND"


async def test_the_files_of_a_deleted_project_are_not_read(owner: WireClient, project: str) -> None:
    image = (await owner.ask("file_read", {"path": "a.png"}, project))["data"]
    await owner.ask("project_delete", project_id=project)
    assert code_of(await owner.ask("blob_get", {"blob_id": image["blob_id"]})) == "PROJECT_NOT_FOUND"
    assert code_of(await owner.ask("file_read", {"path": "a.png"}, project)) == "PROJECT_NOT_FOUND"


@pytest.mark.parametrize("blob_id", ["file:", "file:none", "file:../../etc/passwd", "file:1:2"])
async def test_an_unknown_file_blob_is_reported(owner: WireClient, blob_id: str) -> None:
    assert code_of(await owner.ask("blob_get", {"blob_id": blob_id})) == "BLOB_NOT_FOUND"
    assert code_of(await owner.ask("blob_put", {"blob_id": "b", "offset": 0, "data": ""})) == "blob_stored"


async def test_a_project_that_became_a_link_is_not_read(server: Server, owner: WireClient, project: str) -> None:
    (server.roots / "code").rename(server.roots.parent / "moved")
    (server.roots / "code").symlink_to(server.roots.parent / "moved")
    for name, data in (("file_list", {}), ("file_read", {"path": "a.png"}), ("file_changes", {"path": "a.png"})):
        assert code_of(await owner.ask(name, data, project)) == "INVALID_PATH"
