"""Data too large for a message is uploaded and downloaded in pieces, within limits, and uploads expire an hour after
their last use.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import threading
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from drawbridge.server.app import blobs as blobs_module
from drawbridge.server.app.blobs import Blobs
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import BLOB_BYTES, FRAME_BYTES, PIECE_BYTES
from tests.server.app.rig import Server
from tests.server.wire_client import WireClient


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path / "blobs")


async def code_of(blobs: Blobs, *arguments: Any) -> str:
    with pytest.raises(ClientError) as refused:
        await blobs.put(*arguments)
    return refused.value.code


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


# uploads


async def test_a_blob_is_uploaded_and_downloaded_in_pieces(server: Server, client: WireClient) -> None:
    whole = os.urandom(PIECE_BYTES + 1_000)
    first = {"blob_id": "b1", "offset": 0, "data": encoded(whole[:PIECE_BYTES])}
    assert (await client.ask("blob_put", first))["data"] == {"blob_id": "b1", "size": PIECE_BYTES, "complete": False}
    second = {"blob_id": "b1", "offset": PIECE_BYTES, "data": encoded(whole[PIECE_BYTES:]), "last": True}
    assert (await client.ask("blob_put", second))["data"]["complete"] is True
    got = b""
    while True:
        piece = (await client.ask("blob_get", {"blob_id": "b1", "offset": len(got)}))["data"]
        got += base64.b64decode(piece["data"])
        assert piece["size"] == len(whole)
        if piece["last"]:
            break
    assert got == whole
    ended = (await client.ask("blob_get", {"blob_id": "b1", "offset": len(got)}))["data"]
    assert (ended["data"], ended["last"]) == ("", True)


async def test_a_piece_is_never_longer_than_a_message_may_be(server: Server, client: WireClient) -> None:
    await server.blobs.put("b1", 0, bytes(2_000_000), True)
    answer = await client.ask("blob_get", {"blob_id": "b1", "length": 10_000_000})
    assert len(base64.b64decode(answer["data"]["data"])) == PIECE_BYTES
    assert len(str(answer)) < FRAME_BYTES


async def test_a_blob_is_read_in_a_thread(server: Server, client: WireClient, monkeypatch: pytest.MonkeyPatch) -> None:
    await server.blobs.put("b1", 0, b"x", True)
    threads = []
    read = Path.read_bytes

    def noted(path: Path) -> bytes:
        threads.append(threading.get_ident())
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", noted)
    await client.ask("blob_get", {"blob_id": "b1"})
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


async def test_a_blob_is_written_in_a_thread(
    server: Server, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []
    write = os.write

    def noted(file: int, data: bytes) -> int:
        threads.append(threading.get_ident())
        return write(file, data)

    monkeypatch.setattr("os.write", noted)
    await client.ask("blob_put", {"blob_id": "b1", "offset": 0, "data": encoded(b"x"), "last": True})
    assert threads
    assert threading.get_ident() not in threads


async def test_simultaneous_pieces_do_not_exceed_the_limit(blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A blob counts toward the limit even while it is still being written."""
    monkeypatch.setattr(blobs_module, "MOST", 2)
    puts = (blobs.put(name, 0, b"x", True) for name in "abcd")
    refused = [one for one in await asyncio.gather(*puts, return_exceptions=True) if isinstance(one, ClientError)]
    assert [one.code for one in refused] == ["RESOURCE_LIMIT", "RESOURCE_LIMIT"]


async def test_a_missing_or_unfinished_blob_cannot_be_read(server: Server, client: WireClient) -> None:
    await server.blobs.put("half", 0, b"x", False)
    for blob_id in (
        "half",
        "never",
        "p1:1",
        "p1:x",
        "p1:",
        ":1",
        "p1:-1",
        "p1:" + "9" * 50,
        "x" * 200,
        "../blobs/half",
    ):
        answer = await client.ask("blob_get", {"blob_id": blob_id})
        assert answer["data"]["code"] == "BLOB_NOT_FOUND", blob_id


async def test_the_error_of_a_missing_blob_names_its_field(blobs: Blobs) -> None:
    for field in ("data.attachments", "data.updated_input_blob"):
        with pytest.raises(ClientError) as refused:
            await blobs.read("never", None, field)
        assert (refused.value.code, refused.value.field) == ("BLOB_NOT_FOUND", field)


async def test_a_piece_with_a_wrong_offset_is_refused(blobs: Blobs) -> None:
    with pytest.raises(ClientError, match="has no bytes yet, or has expired"):
        await blobs.put("b", 3, b"two", True)
    await blobs.put("b", 0, b"one", False)
    for offset in (1, 2, 4, 2**40):
        with pytest.raises(ClientError) as refused:
            await blobs.put("b", offset, b"two", True)
        assert refused.value.code == "BLOB_OFFSET"
        assert refused.value.details == {"expected": 3, "complete": False}
    await blobs.put("b", 3, b"two", True)
    assert await blobs.read("b", None) == b"onetwo"
    with pytest.raises(ClientError, match="is complete, with 6 bytes"):
        await blobs.put("b", 6, b"more", True)
    assert await code_of(blobs, "b", 0, b"anew", True) == "BLOB_OFFSET"
    assert await blobs.read("b", None) == b"onetwo"


async def test_an_unfinished_blob_can_be_restarted(blobs: Blobs) -> None:
    await blobs.put("b", 0, b"long one", False)
    await blobs.put("b", 0, b"new", True)
    assert await blobs.read("b", None) == b"new"


async def test_a_blob_may_be_empty(blobs: Blobs) -> None:
    await blobs.put("b", 0, b"", True)
    assert await blobs.read("b", None) == b""


async def test_the_size_and_the_number_of_blobs_are_limited(blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs_module, "MOST", 3)
    monkeypatch.setattr(blobs_module, "ALTOGETHER", BLOB_BYTES + 10)
    await blobs.put("a", 0, bytes(BLOB_BYTES), True)
    await blobs.put("b", 0, bytes(8), False)
    assert await code_of(blobs, "b", 8, bytes(BLOB_BYTES), True) == "MESSAGE_SIZE_LIMIT"
    assert await code_of(blobs, "b", 8, bytes(3), True) == "RESOURCE_LIMIT"
    await blobs.put("b", 8, bytes(2), True)
    await blobs.put("c", 0, b"", True)
    assert await code_of(blobs, "d", 0, b"", True) == "RESOURCE_LIMIT"
    assert len(await blobs.read("a", None)) == BLOB_BYTES
    assert len(await blobs.read("b", None)) == 10


@pytest.mark.parametrize("size", [0, 2_600_000], ids=["by number", "by size"])
async def test_one_device_cannot_use_up_the_space_of_others(blobs: Blobs, size: int) -> None:
    """One device can't block another, and all of them together can't block the owner."""

    async def fill(device: str | None) -> int:
        for number in count():
            with contextlib.suppress(ClientError):
                await blobs.put(uuid4().hex, 0, bytes(size), True, device)
                continue
            return number
        raise AssertionError

    most = min(blobs_module.MOST, blobs_module.ALTOGETHER // (size or 1))
    assert await fill("one") == most // 2
    assert await fill("one") == 0
    assert await fill("two") == most * 3 // 4 - most // 2
    assert await fill("three") == 0
    assert await fill(None) == most - most * 3 // 4


async def test_a_blob_belongs_to_the_device_that_has_uploaded_it(blobs: Blobs) -> None:
    """A device can neither read nor change another device's blob, even if both use the same id."""
    await blobs.put("b", 0, b"mine", False)
    await blobs.put("b", 0, b"theirs", True, "one")
    await blobs.put("b", 4, b" too", True)
    assert await blobs.read("b", None) == b"mine too"
    assert await blobs.read("b", "one") == b"theirs"
    with pytest.raises(ClientError) as refused:
        await blobs.read("b", "two")
    assert refused.value.code == "BLOB_NOT_FOUND"


async def test_an_unused_blob_is_deleted_after_an_hour(
    blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    await blobs.put("old", 0, b"x", True)
    await blobs.put("used", 0, b"y", True)
    now += 3_000
    await blobs.read("used", None)
    now += 1_000
    await blobs.put("new", 0, b"z", True)
    assert sorted(path.read_bytes() for path in (tmp_path / "blobs").iterdir()) == [b"y", b"z"]
    with pytest.raises(ClientError):
        await blobs.read("old", None)
    assert await blobs.read("used", None) == b"y"


async def test_files_are_private_and_old_ones_are_removed(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    await blobs.put("secret", 0, b"x", True)
    assert (tmp_path / "blobs").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "blobs" / "0").stat().st_mode & 0o777 == 0o600
    Blobs(tmp_path / "blobs")
    assert list((tmp_path / "blobs").iterdir()) == []


async def test_a_full_disk_is_reported_and_the_blob_restarted(
    blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await blobs.put("b", 0, b"one", False)
    with monkeypatch.context() as patch:
        patch.setattr("os.write", full)
        assert await code_of(blobs, "b", 3, b"two", True) == "FILE_OPERATION"
    assert await code_of(blobs, "b", 3, b"two", True) == "BLOB_OFFSET"
    await blobs.put("b", 0, b"three", True)
    assert await blobs.read("b", None) == b"three"


def full(file: int, data: bytes) -> int:
    raise OSError(28, "No space left on device")


# downloads


async def test_a_large_record_is_downloaded_in_pieces(server: Server, client: WireClient) -> None:
    await client.ask("project_create", {"path": "/a"})
    line = b'{"seq":7,"message":"' + b"x" * 1_200_000 + b'"}'
    server.core.records[7] = line
    first = (await client.ask("blob_get", {"blob_id": "p1:7"}))["data"]
    assert first["size"] == len(line)
    server.core.records.clear()  # the server reads the record only once
    second = (await client.ask("blob_get", {"blob_id": "p1:7", "offset": PIECE_BYTES}))["data"]
    third = (await client.ask("blob_get", {"blob_id": "p1:7", "offset": 2 * PIECE_BYTES}))["data"]
    assert b"".join(base64.b64decode(piece["data"]) for piece in (first, second, third)) == line
    assert [piece["last"] for piece in (first, second, third)] == [False, False, True]
