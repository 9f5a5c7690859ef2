"""The project's files that clients can see. Whatever path is sent, nothing private and nothing outside the project is
shown.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drawbridge.core.privacy import Privacy
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.replies import FileContent, FileEntry
from drawbridge.server.sessions.files import files
from drawbridge.server.sessions.files.files import LARGEST_IMAGE, LARGEST_TEXT, MOST_ENTRIES, Project, Source, Sources

T = TypeVar("T")

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


def kept(source: Source) -> str:
    return "file:a"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "code" / "src").mkdir(parents=True)
    (tmp_path / "code" / "src" / "bridge.py").write_text("x = 1\ny = 2")
    (tmp_path / "data").mkdir()
    (tmp_path / "secret.txt").write_text("outside")
    return Project(tmp_path / "code", tmp_path / "data", Privacy())


def read(project: Project, path: str) -> FileContent:
    return files.read(project, path, kept)


def refusal(work: Callable[[], object]) -> str:
    with pytest.raises(ClientError) as refused:
        work()
    assert "/" not in refused.value.text, "the error contains a path"
    assert refused.value.field == "data.path"
    return refused.value.code


def code(project: Project, path: str) -> str:
    return refusal(lambda: read(project, path))


def listed(project: Project, path: str = "") -> dict[str, FileEntry]:
    entries, more = files.entries(project, path)
    assert not more
    return {entry.path: entry for entry in entries}


# reading


def test_a_text_has_its_lines_and_language(project: Project) -> None:
    content = read(project, "src/bridge.py")
    assert (content.kind, content.text, content.lines, content.size) == ("text", "x = 1\ny = 2", 2, 11)
    assert (content.path, content.language, content.truncated) == ("src/bridge.py", "python", None)


@pytest.mark.parametrize(("text", "lines"), [("", 0), ("\n", 1), ("a", 1), ("a\n", 1), ("a\n\n", 2)])
def test_lines_are_counted_as_editors_do(project: Project, text: str, lines: int) -> None:
    (project.root / "a").write_text(text)
    assert read(project, "a").lines == lines


@pytest.mark.parametrize("path", ["./src//bridge.py", "src/./bridge.py", "ABSOLUTE/src/bridge.py"])
def test_other_spellings_of_a_path_name_the_same_file(project: Project, path: str) -> None:
    assert read(project, path.replace("ABSOLUTE", str(project.root))).path == "src/bridge.py"


def test_a_link_inside_the_project_is_followed(project: Project) -> None:
    (project.root / "link").symlink_to("src/bridge.py")
    (project.root / "folder").symlink_to("src")
    assert read(project, "link").path == "src/bridge.py"
    assert read(project, "folder/bridge.py").text == "x = 1\ny = 2"
    assert list(listed(project, "folder")) == ["src/bridge.py"]


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../secret.txt",
        "src/../../secret.txt",
        "src/../src/bridge.py",
        "/etc/passwd",
        "ABSOLUTE/../secret.txt",
        "ABSOLUTE-beside/x",
        "a\0b",
    ],
)
def test_no_path_leads_out_of_the_project(project: Project, path: str) -> None:
    (project.root.parent / "code-beside").mkdir()
    (project.root.parent / "code-beside" / "x").write_text("")
    path = path.replace("ABSOLUTE", str(project.root))
    assert code(project, path) == "INVALID_PATH"
    assert refusal(lambda: files.entries(project, path)) == "INVALID_PATH"


@pytest.mark.parametrize("target", ["../secret.txt", "../nothing", "/etc/passwd", "/", "..", "over"])
def test_no_link_leads_out_of_the_project(project: Project, target: str) -> None:
    """The error does not reveal whether the link's target exists."""
    (project.root / "over").symlink_to(project.root.parent)
    (project.root / "link").symlink_to(target)
    assert code(project, "link") == "INVALID_PATH"
    assert code(project, "over/secret.txt") == "INVALID_PATH"
    assert listed(project)["link"] == FileEntry(path="link", kind="other", link=True)


def test_a_part_that_becomes_a_link_is_not_followed(project: Project) -> None:
    """The link is created after the path is checked and before it is opened."""
    parts = project.parts("src/bridge.py")
    (project.root / "src").rename(project.root / "moved")
    (project.root / "src").symlink_to(project.root.parent / "outside")
    (project.root.parent / "outside").mkdir()
    (project.root.parent / "outside" / "bridge.py").write_text("outside")
    assert refusal(lambda: project.file(parts)) == "FILE_NOT_FOUND"
    assert refusal(lambda: project.directory(parts[:1])) == "FILE_NOT_FOUND"
    (project.root / "moved" / "bridge.py").unlink()
    (project.root / "moved" / "bridge.py").symlink_to(project.root.parent / "secret.txt")
    assert refusal(lambda: project.file(("moved", "bridge.py"))) == "FILE_NOT_FOUND"


def test_a_file_that_becomes_a_link_is_not_opened(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link is created after the kind of the file is checked and before the file is opened."""
    really = files._check_regular

    def swap(status: os.stat_result, use: str) -> None:
        really(status, use)
        (project.root / "src" / "bridge.py").unlink()
        (project.root / "src" / "bridge.py").symlink_to(project.root.parent / "secret.txt")
        monkeypatch.undo()

    monkeypatch.setattr(files, "_check_regular", swap)
    assert refusal(lambda: project.file(("src", "bridge.py"))) == "FILE_NOT_FOUND"


@pytest.mark.parametrize("path", ["nothing", "src/nothing", "src/bridge.py/x", "loop", "x" * 300, "\n", "~", "*"])
def test_a_missing_file_is_reported(project: Project, path: str) -> None:
    (project.root / "loop").symlink_to("loop")
    assert code(project, path) == "FILE_NOT_FOUND"


def test_only_regular_files_are_read(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(project.root / "pipe")
    monkeypatch.chdir(project.root)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
        (project.root / "device").symlink_to("/dev/zero")
        for path in ("pipe", "socket", "src", ""):
            assert code(project, path or ".") == "FILE_UNSUPPORTED"
        assert code(project, "device") == "INVALID_PATH"
        kinds = {entry.kind for path, entry in listed(project).items() if path != "src"}
        assert kinds == {"other"}


def test_no_device_is_opened(project: Project) -> None:
    """No device file is opened, even if the project is a directory of device files."""
    assert code(Project(Path("/dev"), project.data, Privacy()), "zero") == "FILE_UNSUPPORTED"
    assert listed(Project(Path("/dev"), project.data, Privacy()))["zero"].kind == "other"


@pytest.mark.parametrize("data", [b"a\0b", b"\xff\xfea\0", b"caf\xe9", b"\xed\xa0\x80"])
def test_a_file_that_is_not_text_is_reported(project: Project, data: bytes) -> None:
    (project.root / "a.txt").write_bytes(data)
    assert code(project, "a.txt") == "FILE_UNSUPPORTED"


def test_a_file_without_permission_is_reported(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.root / "a").write_text("")
    really = os.open

    def refuse(path: str, *how: Any, **options: Any) -> int:
        if path == "a":
            raise PermissionError(errno.EACCES, "Permission denied")
        return really(path, *how, **options)

    monkeypatch.setattr(os, "open", refuse)
    assert code(project, "a") == "FILE_OPERATION"


@pytest.mark.parametrize(("head", "limit"), [(b"", LARGEST_TEXT), (PNG, LARGEST_IMAGE)])
def test_a_file_above_its_limit_is_reported(project: Project, head: bytes, limit: int) -> None:
    with (project.root / "a").open("wb") as file:
        file.write(head + b"a" * 100)
        file.truncate(limit + 1)
    with pytest.raises(ClientError) as refused:
        read(project, "a")
    assert refused.value.code == "FILE_TOO_LARGE"
    assert refused.value.details == {"size": limit + 1, "limit": limit}


def test_a_large_text_is_sent_only_in_part(project: Project) -> None:
    text = '"\x01ü\n' * 300_000
    (project.root / "a").write_text(text)
    content = read(project, "a")
    assert content.text is not None
    assert text.startswith(content.text)
    assert content.lines == 300_000
    assert content.truncated is not None
    assert (content.truncated.blob_id, content.truncated.bytes) == ("file:a", len(text.encode()))


@pytest.mark.parametrize(
    ("head", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"\0\0\0\x1cftypavif", "image/avif"),
        (b"BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0", "image/bmp"),
    ],
)
def test_an_image_is_recognized_by_its_content(project: Project, head: bytes, media_type: str) -> None:
    (project.root / "a.txt").write_bytes(head)
    content = read(project, "a.txt")
    assert (content.kind, content.media_type, content.blob_id) == ("image", media_type, "file:a")
    assert content.text is None


@pytest.mark.parametrize("text", ["BM", "BMI = weight / height ** 2\n", "BMW\n" * 20])
def test_a_text_that_begins_like_a_bitmap_is_text(project: Project, text: str) -> None:
    (project.root / "a.txt").write_text(text)
    assert read(project, "a.txt").text == text


def test_an_svg_is_text(project: Project) -> None:
    """An SVG is not served as an image, since it may contain a script."""
    (project.root / "a.svg").write_text("<svg onload='alert(1)'/>")
    assert read(project, "a.svg").kind == "text"


def test_a_file_is_read_again_in_pieces_until_it_changes(project: Project) -> None:
    (project.root / "a.png").write_bytes(PNG)
    sources: list[Source] = []

    def keeping(source: Source) -> str:
        sources.append(source)
        return "file:a"

    files.read(project, "a.png", keeping)
    assert files.read_again(project, sources[0], 0, 50) + files.read_again(project, sources[0], 50, 500) == PNG
    (project.root / "a.png").write_bytes(PNG + b"more")
    with pytest.raises(ClientError, match="has changed since") as refused:
        files.read_again(project, sources[0], 0, 50)
    assert refused.value.code == "BLOB_NOT_FOUND"
    (project.root / "a.png").unlink()
    (project.root / "a.png").symlink_to(project.root.parent / "secret.txt")
    with pytest.raises(ClientError, match="has changed since"):
        files.read_again(project, sources[0], 0, 50)


def test_a_path_in_an_old_list_does_not_lead_out_of_the_project(project: Project) -> None:
    """A directory may have been replaced with a link after the list was made."""
    found = files.find_entry(project, "src/bridge.py")
    assert found is not None
    assert found.size == 11
    (project.root / "src").rename(project.root.parent / "moved")
    (project.root / "src").symlink_to(project.root.parent / "moved")
    assert files.find_entry(project, "src/bridge.py") is None
    assert files.find_entry(project, "src") == FileEntry(path="src", kind="other", link=True)
    assert files.find_entry(project, "nothing") is None


def test_the_number_of_stored_sources_is_limited() -> None:
    sources = Sources()
    source = Source(("a",), (0, 0, 0, 0), 0)
    ids = [sources.kept("p", source) for _ in range(files.MOST_SOURCES + 5)]
    assert [sources.of(one) is None for one in ids[:6]] == [True] * 5 + [False]
    assert sources.of(ids[-1]) == ("p", source)
    assert sources.of("file:other") is None


# what is private


SECRETS = [".env", ".ENV", ".env.local", "id_ed25519", "server.key", "Server.PEM", "credentials", ".netrc"]


@pytest.mark.parametrize("name", [*SECRETS, ".git", ".GIT"])
@pytest.mark.parametrize("folder", ["", "src/"])
def test_private_files_are_neither_listed_nor_read(project: Project, folder: str, name: str) -> None:
    """The error is the same whether or not the private file exists."""
    assert code(project, f"{folder}{name}") == "FILE_PRIVATE"
    (project.root / folder / name).write_text("secret")
    assert code(project, f"{folder}{name}") == "FILE_PRIVATE"
    assert f"{folder}{name}" not in listed(project, folder)


def test_nothing_in_a_private_directory_is_shown(project: Project) -> None:
    (project.root / ".git").mkdir()
    (project.root / ".git" / "config").write_text("url = https://token@host")
    assert code(project, ".git/config") == "FILE_PRIVATE"
    assert refusal(lambda: files.entries(project, ".git")) == "FILE_PRIVATE"


def test_a_link_to_a_private_file_is_private(project: Project) -> None:
    (project.root / ".env").write_text("secret")
    (project.root / "harmless.txt").symlink_to(".env")
    assert code(project, "harmless.txt") == "FILE_PRIVATE"
    assert "harmless.txt" not in listed(project)


def test_the_servers_own_data_is_private(project: Project) -> None:
    """The data directory contains the server's token, and a project may contain the data directory."""
    whole = Project(project.root.parent, project.data, Privacy())
    (project.data / "token").write_text("secret")
    assert code(whole, "data/token") == "FILE_PRIVATE"
    assert refusal(lambda: files.entries(whole, "data")) == "FILE_PRIVATE"
    assert list(listed(whole)) == ["code", "secret.txt"]
    assert files.find_entry(whole, "data/token") is None
    assert files.find_entry(whole, "data") is None


def test_hidden_files_of_a_nested_home_directory_are_private(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project's directory may contain the home directory."""
    home = project.root / "src"
    (home / ".ssh").mkdir()
    (home / ".ssh" / "config").write_text("secret")
    (project.root / ".config").write_text("")
    monkeypatch.setenv("HOME", str(home))
    assert code(project, "src/.ssh/config") == "FILE_PRIVATE"
    assert list(listed(project, "src")) == ["src/bridge.py"]
    assert files.find_entry(project, "src/.ssh/config") is None
    assert read(project, ".config").text == ""


@pytest.mark.parametrize(("pattern", "name"), [("*.PEM", "x.pem"), ("Secret*", "SECRETS"), ("*/Straße/*", "STRASSE/a")])
def test_the_owners_patterns_are_case_insensitive(project: Project, pattern: str, name: str) -> None:
    strict = Project(project.root, project.data, Privacy([pattern]))
    assert code(strict, name) == "FILE_PRIVATE"


def test_hidden_files_of_the_home_directory_are_private(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.root / ".ssh").mkdir()
    (project.root / ".ssh" / "config").write_text("secret")
    (project.root / "src" / ".hidden").write_text("")
    assert ".ssh" in listed(project)
    monkeypatch.setenv("HOME", str(project.root))
    assert code(project, ".ssh/config") == "FILE_PRIVATE"
    assert list(listed(project)) == ["src"]
    assert read(project, "src/.hidden").text == ""


# listing


def test_directories_come_first_and_files_have_sizes(project: Project) -> None:
    (project.root / "b").write_text("12")
    (project.root / "A").write_text("")
    (project.root / "zoo").mkdir()
    assert [(entry.path, entry.kind, entry.size) for entry in listed(project).values()] == [
        ("src", "directory", None),
        ("zoo", "directory", None),
        ("A", "file", 0),
        ("b", "file", 2),
    ]


def test_a_name_that_is_not_text_is_left_out(project: Project) -> None:
    Path(os.fsdecode(bytes(project.root) + b"/\xff")).write_text("")
    assert list(listed(project)) == ["src"]


def test_a_huge_directory_is_listed_in_part(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        (project.root / "src" / f"{number:04}").write_text("")
    monkeypatch.setattr(files, "MOST_ENTRIES", 10)
    entries, more = files.entries(project, "src")
    assert (len(entries), more, entries[0].path) == (10, True, "src/0000")
    monkeypatch.setattr(files, "MOST_ENTRIES", MOST_ENTRIES)
    monkeypatch.setattr(files, "MOST_SCANNED", 20)
    entries, more = files.entries(project, "src")
    assert (len(entries), more) == (20, True)


# any path


NAMES = [
    "src",
    "bridge.py",
    "in",
    "out",
    "up",
    "loop",
    ".env",
    ".git",
    "config",
    "data",
    "token",
    "secret.txt",
    "key.pem",
]
ODD = ["..", ".", "", "~", "a\0b", "\n", "Ünï", "x" * 300, "SRC", "-rf"]

paths = st.one_of(
    st.lists(st.sampled_from(NAMES + ODD), max_size=6).map("/".join),
    st.lists(st.sampled_from(NAMES), max_size=5).map(lambda parts: "/".join(["HERE/code", *parts])),
    st.lists(st.sampled_from(NAMES + ODD), max_size=5).map(lambda parts: "/".join(["HERE", *parts])),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree in which only files that contain "public" may be read."""
    here = tmp_path_factory.mktemp("files").resolve()
    for name in ("code/src/in", "code/.git", "code/data", "outside"):
        (here / name).mkdir(parents=True)
    for name in ("code/src/bridge.py", "code/secret.txt", "code/src/in/config"):
        (here / name).write_text("public")
    for name in ("code/.env", "code/src/key.pem", "code/.git/config", "code/data/token", "outside/secret.txt"):
        (here / name).write_text("private")
    for place, target in {
        "code/out": "../outside",
        "code/in": "src/in",
        "code/up": "..",
        "code/src/up": "..",
        "code/loop": "loop",
        "code/src/out": "../.env",
        "outside/in": "../code/src",
    }.items():
        (here / place).symlink_to(target)
    return here


def unless_refused(work: Callable[[], T]) -> T | None:
    try:
        return work()
    except ClientError as error:
        refused = error.code
    assert refused in ("INVALID_PATH", "FILE_PRIVATE", "FILE_NOT_FOUND", "FILE_UNSUPPORTED")
    return None


@given(path=paths)
@example(path="out/secret.txt")
@example(path="out/in/bridge.py")
@example(path="src/out")
@example(path="up/code/secret.txt")
@example(path="HERE/outside/in/bridge.py")
@example(path="data/token")
def test_whatever_path_is_sent_only_public_files_are_read(tree: Path, path: str) -> None:
    project = Project(tree / "code", tree / "code" / "data", Privacy())
    given = path.replace("HERE", str(tree))
    content = unless_refused(lambda: read(project, given))
    if content is not None:
        assert content.text == "public"
        assert (tree / "code" / content.path).read_text() == "public"
        assert os.path.samefile(tree / "code" / given, tree / "code" / content.path)
    entries, _ = unless_refused(lambda: files.entries(project, given)) or ([], False)
    for entry in entries:
        assert entry.kind != "file" or (tree / "code" / entry.path).read_text() == "public"
