"""Reading text files, and converting their names between paths and URIs."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.core.errors import UnusableFile
from drawbridge.editors.files import FILE_LIMIT, absolute, check_text_file, from_uri, read_text, to_uri

TEXTS = {
    "lf": b"a\nb\n",
    "crlf": b"a\r\nb\r\n",
    "mixed": b"a\r\nb\nc\r",
    "bom": b"\xef\xbb\xbfa\n",
    "no final newline": b"a\nb",
    "empty": b"",
    "emoji": "😀 e\u0301 \u2028 x\n".encode(),
}


@contextlib.contextmanager
def without_privileges() -> Iterator[None]:
    """Runs the block as "nobody" if the user is root, who may read everything."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    yield
    os.seteuid(user)


class TestReading:
    @pytest.mark.parametrize("content", TEXTS.values(), ids=TEXTS)
    def test_a_text_is_read_byte_for_byte(self, tmp_path: Path, content: bytes) -> None:
        file = tmp_path / "file.txt"
        file.write_bytes(content)
        text = read_text(str(file))
        assert text is not None
        assert text.encode() == content
        check_text_file(str(file))

    def test_a_byte_order_mark_stays_in_the_text(self, tmp_path: Path) -> None:
        (tmp_path / "file.txt").write_bytes(b"\xef\xbb\xbfa\n")
        assert read_text(str(tmp_path / "file.txt")) == "\ufeffa\n"

    def test_a_file_that_does_not_exist_has_no_text(self, tmp_path: Path) -> None:
        assert read_text(str(tmp_path / "new" / "file.txt")) is None
        (tmp_path / "dangling").symlink_to("nowhere")
        assert read_text(str(tmp_path / "dangling")) is None

    def test_a_symbolic_link_is_followed(self, tmp_path: Path) -> None:
        (tmp_path / "file.txt").write_text("text")
        (tmp_path / "link").symlink_to("file.txt")
        assert read_text(str(tmp_path / "link")) == "text"
        check_text_file(str(tmp_path / "link"))

    def test_a_file_whose_name_is_not_utf8_is_read(self, tmp_path: Path) -> None:
        path = os.fsencode(tmp_path) + b"/caf\xe9"
        with open(path, "wb") as file:
            file.write(b"text")
        assert read_text(os.fsdecode(path)) == "text"

    def test_only_a_file_above_the_size_limit_is_refused(self, tmp_path: Path) -> None:
        file = tmp_path / "large.txt"
        file.write_text("x" * 1000)
        assert read_text(str(file), limit=1000) == "x" * 1000
        check_text_file(str(file), limit=1000)
        for read in (read_text, check_text_file):
            with pytest.raises(UnusableFile, match=r"large.txt is too large: it has more than 999 bytes\."):
                read(str(file), limit=999)

    def test_a_file_over_the_default_limit_is_refused(self, tmp_path: Path) -> None:
        with (tmp_path / "huge").open("wb") as file:
            file.truncate(1 << 40)
        with pytest.raises(UnusableFile, match=f"{FILE_LIMIT:,}"):
            check_text_file(str(tmp_path / "huge"))

    def test_the_limit_applies_to_a_file_that_understates_its_size(self) -> None:
        assert read_text("/proc/self/status")
        with pytest.raises(UnusableFile, match="more than 10 bytes"):
            read_text("/proc/self/status", limit=10)


class TestRefusing:
    """``read_text`` and ``check_text_file`` raise the same error, which contains the file's name and the reason."""

    def refused(self, path: object) -> str:
        with pytest.raises(UnusableFile) as raised:
            read_text(str(path))
        with pytest.raises(UnusableFile) as raised_again:
            check_text_file(str(path))
        assert str(raised.value) == str(raised_again.value)
        str(raised.value).encode()
        return str(raised.value)

    def test_a_directory_is_refused(self, tmp_path: Path) -> None:
        assert "is a directory" in self.refused(tmp_path)

    def test_a_pipe_is_refused_without_waiting_for_it(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        assert "is a pipe" in self.refused(tmp_path / "pipe")

    def test_a_socket_is_refused(self, tmp_path: Path, home: Path) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(home / "socket"))
            assert "is a socket" in self.refused(home / "socket")

    def test_a_device_file_is_refused(self) -> None:
        assert "is a device" in self.refused("/dev/zero")

    def test_a_binary_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(b"\x89PNG\0\0")
        assert "a.png is binary" in self.refused(tmp_path / "a.png")

    def test_a_path_through_a_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        assert "is a file, not a directory" in self.refused(tmp_path / "file" / "in it")

    def test_a_loop_of_links_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "loop").symlink_to("loop")
        assert "can't be read" in self.refused(tmp_path / "loop")

    @pytest.mark.parametrize("path", ["/a\0b", "/\ud800", "/" + "x" * 300])
    def test_an_invalid_file_name_is_refused(self, path: str) -> None:
        self.refused(path)

    def test_a_file_without_permission_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "secret").touch(mode=0)
        with without_privileges():
            assert "no permission" in self.refused(tmp_path / "secret")

    def test_text_in_another_encoding_names_the_line(self, tmp_path: Path) -> None:
        (tmp_path / "latin1.txt").write_bytes(b"one\ntwo\ncaf\xe9\n")
        with pytest.raises(UnusableFile, match=r"latin1.txt is not UTF-8 text \(line 3\)"):
            read_text(str(tmp_path / "latin1.txt"))
        check_text_file(str(tmp_path / "latin1.txt"))  # an editor may still show it

    def test_a_missing_file_that_must_exist_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UnusableFile, match="does not exist"):
            check_text_file(str(tmp_path / "missing"))


class TestPaths:
    @pytest.mark.parametrize(
        ("path", "whole"),
        [
            ("/etc/hosts", "/etc/hosts"),
            ("a.txt", "/desk/a.txt"),
            ("./b/../a.txt", "/desk/a.txt"),
            ("../a.txt", "/a.txt"),
            ("//etc//hosts", "/etc/hosts"),
            ("~/a.txt", "/desk/~/a.txt"),
            ("sp ace/#1 100%.txt", "/desk/sp ace/#1 100%.txt"),
        ],
    )
    def test_a_relative_path_starts_at_the_folder(self, path: str, whole: str) -> None:
        assert absolute(path, "/desk") == whole

    def test_an_empty_path_is_refused(self) -> None:
        with pytest.raises(UnusableFile, match="The path is empty"):
            absolute("", "/desk")


class TestUris:
    @given(st.binary(min_size=1).filter(lambda name: b"\0" not in name))
    def test_every_path_survives_the_round_trip(self, name: bytes) -> None:
        path = "/" + os.fsdecode(name)
        uri = to_uri(path)
        assert uri.isascii()
        assert not set(uri) & set(' #?"<>\\^`{|}')
        assert from_uri(uri) == path

    @pytest.mark.parametrize(
        ("path", "uri"),
        [
            ("/a/b.txt", "file:///a/b.txt"),
            ("/sp ace/#1?/100%.txt", "file:///sp%20ace/%231%3F/100%25.txt"),
            ("/größe/😀", "file:///gr%C3%B6%C3%9Fe/%F0%9F%98%80"),
            ("/caf\udce9", "file:///caf%E9"),
        ],
    )
    def test_special_characters_are_percent_encoded(self, path: str, uri: str) -> None:
        assert to_uri(path) == uri
        assert from_uri(uri) == path

    @pytest.mark.parametrize(
        ("given", "path"),
        [
            ("/a/b.txt", "/a/b.txt"),
            ("a.txt", "a.txt"),
            ("notes: a.txt", "notes: a.txt"),
            ("100%.txt", "100%.txt"),
            ("a%20b", "a%20b"),
            ("file://localhost/a%20b", "/a b"),
            ("file:/a", "/a"),
            ("FILE:///a", "/a"),
            ("file:///a b#1?.txt", "/a b#1?.txt"),
            ("file:///größe", "/größe"),
            ("file:///100%.txt", "/100%.txt"),
        ],
    )
    def test_paths_and_malformed_uris_are_accepted(self, given: str, path: str) -> None:
        assert from_uri(given) == path

    def test_a_percent_sign_is_literal_if_only_that_file_exists(self, tmp_path: Path) -> None:
        """If a file with the decoded name exists too, that file is meant."""
        (tmp_path / "a%20b").touch()
        assert from_uri(f"file://{tmp_path}/a%20b") == f"{tmp_path}/a%20b"
        (tmp_path / "a b").touch()
        assert from_uri(f"file://{tmp_path}/a%20b") == f"{tmp_path}/a b"

    @pytest.mark.parametrize("uri", ["http://localhost/a", "untitled://one", "git+ssh://a/b"])
    def test_another_scheme_is_refused(self, uri: str) -> None:
        with pytest.raises(UnusableFile, match="is not a file: URI"):
            from_uri(uri)

    def test_another_machine_is_refused(self) -> None:
        with pytest.raises(UnusableFile, match="another machine"):
            from_uri("file://server/share/a.txt")
