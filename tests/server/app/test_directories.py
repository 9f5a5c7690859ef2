"""When a user chooses a directory, only the allowed roots and directories inside them are shown, and nothing reveals
whether other directories exist.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from drawbridge.server.app.server_commands import MOST, listed
from drawbridge.server.protocol.client_errors import ClientError
from tests.server.app.rig import Server
from tests.server.wire_client import WireClient


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "allowed"
    for name in ("Beta", "alpha", "alpha/inner", ".hidden", "with space", "ümlaut"):
        (root / name).mkdir(parents=True)
    (root / "file.txt").write_text("x")
    (tmp_path / "outside" / "secret").mkdir(parents=True)
    return root


def refusal(path: str, root: Path) -> tuple[str, str]:
    with pytest.raises(ClientError) as refused:
        listed(path, [root])
    return refused.value.code, refused.value.text


def test_directories_are_sorted_by_name_and_files_left_out(root: Path) -> None:
    assert listed(str(root), [root]).directories == [".hidden", "alpha", "Beta", "with space", "ümlaut"]
    assert listed(str(root / "alpha"), [root]).directories == ["inner"]


def test_without_a_path_the_roots_are_shown(root: Path, tmp_path: Path) -> None:
    assert listed("", [root, tmp_path]).directories == [str(root), str(tmp_path)]


def test_hidden_directories_in_the_home_directory_are_left_out(home: Path) -> None:
    for name in (".ssh", "code", "code/.git"):
        (home / name).mkdir(parents=True)
    assert listed(str(home), [home]).directories == ["code"]
    assert listed(str(home / "code"), [home]).directories == []
    assert listed(str(home / ".ssh"), [home / ".ssh"]).directories == []
    with pytest.raises(ClientError):
        listed(str(home / ".ssh"), [home])


def test_outside_paths_are_refused_like_missing_ones(root: Path, tmp_path: Path) -> None:
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "loop").symlink_to(root / "loop")
    paths = [
        tmp_path / "outside",
        tmp_path / "outside" / "missing",
        root / "missing",
        root / "file.txt",
        root / "out",
        root / "out" / "secret",
        root / "loop",
        tmp_path,
        Path("/root"),
    ]
    answers = {refusal(str(path), root) for path in paths}
    assert len(answers) == 1
    [(code, text)] = answers
    assert code == "INVALID_PATH"
    assert str(tmp_path) not in text


@pytest.mark.parametrize("path", ["relative", "~", ".", "/tmp/../etc", "/a\x00b", "/" + "x" * 5_000, "\n"])
def test_paths_that_try_to_leave_the_root_are_refused(root: Path, path: str) -> None:
    assert refusal(path, root)[0] == "INVALID_PATH"


def test_only_links_that_stay_inside_are_shown(root: Path, tmp_path: Path) -> None:
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "within").symlink_to(root / "alpha")
    (root / "broken").symlink_to(root / "nowhere")
    shown = listed(str(root), [root]).directories
    assert "within" in shown
    assert "out" not in shown
    assert "broken" not in shown


def test_names_that_are_not_text_are_left_out(root: Path) -> None:
    (root / "bad\udcff").mkdir()
    assert all(name.encode() for name in listed(str(root), [root]).directories)


def test_a_huge_directory_is_listed_in_part(tmp_path: Path) -> None:
    for number in range(MOST + 5):
        (tmp_path / f"{number:05}").mkdir()
    shown = listed(str(tmp_path), [tmp_path])
    assert len(shown.directories) == MOST
    assert shown.more


async def test_directories_are_requested_over_the_socket(server: Server, client: WireClient) -> None:
    (server.roots[0] / "code").mkdir()
    roots = (await client.ask("dir_list", {"path": ""}))["data"]
    assert roots["directories"] == [str(server.roots[0])]
    assert (await client.ask("dir_list", {"path": roots["directories"][0]}))["data"]["directories"] == ["code"]
    assert (await client.ask("dir_list", {"path": "/etc"}))["data"]["code"] == "INVALID_PATH"
