"""A directory for a new project is created inside the allowed roots, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.directories.allowed_directories import AllowedDirectories
from tests.server import processes
from tests.server.auth.rig import Server, code_of
from tests.server.auth.test_audit import read
from tests.server.wire_client import WireClient


async def refused(client: WireClient, path: object, name: str) -> str:
    answer = await client.ask("dir_create", {"path": str(path), "name": name})
    assert answer["type"] == "error", answer
    return str(answer["data"]["code"])


async def test_a_directory_is_created_and_audited(server: Server, owner: WireClient) -> None:
    made = await owner.ask("dir_create", {"path": str(server.roots), "name": "toll house"})
    assert made == {**made, "type": "dir_created", "data": {"path": str(server.roots / "toll house")}}
    assert (server.roots / "toll house").is_dir()
    [line] = [line for line in read(server.data) if line["event"] == "directory_created"]
    assert line["path"] == str(server.roots / "toll house")
    assert code_of(await owner.ask("project_create", {"path": made["data"]["path"], "agent": "demo"})) == "update"


async def test_a_directory_is_created_below_the_home_directory(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    home = {"HOME": str(tmp_path / "home")}
    async with processes.serving(tmp_path / "data", "--no-tls", **home) as server, server.client() as client:
        made = await client.ask("dir_create", {"path": "~", "name": "blog"})
        assert made["data"]["path"] == str(tmp_path / "home" / "blog")
        assert await refused(client, "~", ".ssh") == "INVALID_PATH"
        assert code_of(await client.ask("project_create", {"path": "~/nothing", "agent": "demo"})) == "INVALID_PATH"
        project = await client.ask("project_create", {"path": "~/blog", "agent": "demo"})
        assert project["data"]["data"]["path"] == made["data"]["path"]
    assert [one.name for one in (tmp_path / "home").iterdir() if one.is_dir()] == ["blog"]


@pytest.mark.parametrize("name", ["..", ".", ".git", "a/b", "/etc", "a\nb", " a", "a ", "\u202ea", "a" * 256, "a\0"])
async def test_an_invalid_name_creates_nothing(server: Server, owner: WireClient, name: str) -> None:
    assert await refused(owner, server.roots, name) == "INVALID_PATH"
    assert list(server.roots.iterdir()) == []


def test_no_directory_is_created_in_the_servers_data(tmp_path: Path) -> None:
    """The request is refused even if the server's data is inside the roots."""
    (tmp_path / "data").mkdir()
    directories = AllowedDirectories([tmp_path.resolve()], tmp_path / "data")
    with pytest.raises(ClientError) as refused:
        directories.create(str(tmp_path / "data"), "new", (), lambda path: True)
    assert refused.value.code == "INVALID_PATH"
    assert list((tmp_path / "data").iterdir()) == []


async def test_no_directory_is_created_elsewhere(server: Server, owner: WireClient, tmp_path: Path) -> None:
    """The request is refused outside the roots, through a link, in the server's own data, and inside a project."""
    await server.project(owner, "site")
    (server.roots / "link").symlink_to(tmp_path)
    for path in (
        tmp_path,
        server.roots / "link",
        server.roots / "nowhere",
        f"{server.roots}/../x",
        "relative",
        server.data,
    ):
        assert await refused(owner, path, "new") == "INVALID_PATH", path
    assert await refused(owner, server.roots / "site", "new") == "PROJECT_NESTING"
    assert await refused(owner, server.roots, "site") == "INVALID_PATH", "it exists already"
    assert list(tmp_path.rglob("new")) == []
