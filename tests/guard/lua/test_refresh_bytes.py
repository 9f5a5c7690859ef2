"""After `refresh_buffer`, a later save keeps every byte that the agent wrote, and the replaced text is kept as a
copy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.guard.lua.rig import Workstation, reloaded
from tests.programs import nvim_version

# Formats and encodings.

FORMATS = {
    "crlf": (b"one\r\ntwo\r\n", b"zero\r\none\r\n", b"zero\r\none\r\nmine\r\n"),
    "crlf that becomes lf": (b"one\r\ntwo\r\n", b"zero\none\n", b"zero\none\nmine\n"),
    "lf that becomes crlf": (b"one\ntwo\n", b"zero\r\none\r\n", b"zero\r\none\r\nmine\r\n"),
    "crlf with a stray lf": (b"one\r\ntwo\r\n", b"zero\none\r\n", b"zero\r\none\r\nmine\r\n"),
    "no final newline": (b"one\ntwo\n", b"one\ntwo", b"one\ntwo\nmine\n"),
    "a byte order mark": (b"one\n", b"\xef\xbb\xbfone\n", b"\xef\xbb\xbfone\nmine\n"),
    "a byte order mark that is removed": (b"\xef\xbb\xbfone\n", b"two\n", b"two\nmine\n"),
    "latin1": ("caf\xe9\n".encode("latin1"), "na\xefve\n".encode("latin1"), "na\xefve\nmine\n".encode("latin1")),
    "latin1 that becomes utf-8": (b"caf\xe9\n", "na\xefve\n".encode(), "na\xefve\nmine\n".encode()),
    "bytes that are not utf-8": ("caf\xe9\n".encode(), b"caf\xe9\xff\n", b"caf\xe9\xff\nmine\n"),
    "nul bytes": (b"one\n", b"a\0b\n", b"a\0b\nmine\n"),
    "empty that gets lines": (b"", b"one\n", b"one\nmine\n"),
    "lines that are removed": (b"one\ntwo\n", b"", b"\nmine\n"),
    "wide characters": ("日本語\n".encode(), "日本人\n".encode(), "日本人\nmine\n".encode()),
}


@pytest.mark.parametrize(("before", "after", "saved"), FORMATS.values(), ids=FORMATS)
async def test_a_later_save_keeps_the_agents_format_and_encoding(
    at: Workstation, before: bytes, after: bytes, saved: bytes
) -> None:
    path = await at.opened("a.txt", before)
    path.write_bytes(after)

    assert reloaded(await at.asks("refresh_buffer", file_path=path)) == [str(path)]

    assert not await at.modified()
    await at.ex("silent $put ='mine' | silent write")
    assert path.read_bytes() == saved


async def test_utf16_is_read_where_neovim_can_convert_it(at: Workstation) -> None:
    path = await at.opened("a.txt", "\ufeffone\r\n".encode("utf-16le"))
    assert await at.person.lua("return vim.bo.fileencoding") == "utf-16le"
    path.write_bytes("\ufeffnaïve\r\ntwo\r\n".encode("utf-16le"))

    answer = await at.asks("refresh_buffer", file_path=path)

    if nvim_version(at.program) >= (0, 10):
        assert [file["name"] for file in answer["reloaded"]] == [str(path)]
        assert await at.text() == ["naïve", "two"]
    else:
        assert [file["reason"] for file in answer["kept"]] == ["it is no longer in utf-16le"]
        assert await at.text() == ["one"]


# Copies of what is replaced.


async def test_a_copy_is_made_of_what_is_replaced(at: Workstation) -> None:
    path = await at.opened("a b/a%.py", b"one\r\ncaf\xe9\r\n")
    path.write_text("two\n")
    copies = at.folder / "copies"

    answer = await at.asks("refresh_buffer", file_path=path, backups=copies)

    backup = Path(answer["reloaded"][0]["backup"])
    pid = await at.person.lua("return vim.fn.getpid()")
    assert re.fullmatch(rf"{re.escape(str(copies))}/\d{{13}}\.{pid}{re.escape(str(path))}", str(backup))
    assert backup.read_bytes() == b"one\r\ncaf\xe9\r\n"
    assert backup.stat().st_mode & 0o777 == 0o600
    made = [folder for folder in backup.parents if copies in folder.parents or folder == copies]
    assert {folder.stat().st_mode & 0o777 for folder in made} == {0o700}


async def test_nothing_is_replaced_if_no_copy_can_be_made(at: Workstation) -> None:
    path = await at.opened("a.py", "one\n")
    path.write_text("two\n")
    blocked = at.file("blocked", "a file")

    answer = await at.asks("refresh_buffer", file_path=path, backups=blocked)

    assert answer["reloaded"] == []
    assert [(file["name"], file["reason"]) for file in answer["kept"]] == [
        (str(path), f"its text could not be copied to {blocked}")
    ]
    assert await at.text() == ["one"]
    assert not await at.modified()


async def test_a_new_empty_buffer_is_not_copied(at: Workstation) -> None:
    await at.ex("edit new.py")
    path = at.file("new.py", "hello\n")

    answer = await at.asks("refresh_buffer", file_path=path, backups=at.folder / "copies")

    assert answer["reloaded"] == [{"name": str(path), "backup": None}]
    assert not (at.folder / "copies").exists()


async def test_a_copy_is_never_made_outside_its_directory(at: Workstation) -> None:
    """The name of a buffer may contain `..` if its directory was created only after the buffer was opened."""
    await at.ex("edit sub/../../a.py")
    (at.folder / "sub").mkdir()
    path = at.folder.parent / "a.py"
    path.write_text("")
    assert ".." in await at.person.lua("return vim.api.nvim_buf_get_name(0)")
    await at.ex("call setline(1, 'one') | silent write!")
    path.write_text("two\n")

    answer = await at.asks("refresh_buffer", file_path=path, backups=at.folder / "copies")

    path.unlink()
    backup = answer["reloaded"][0]["backup"]
    assert ".." not in backup
    assert Path(backup).read_text() == "one\n"
