"""Files do not depend on the client protocol: with other structures for its messages, a server reads the data of every
earlier version in the same way, and writes the same files.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import NODEFAULT, Struct, structs

from drawbridge.server import updates
from drawbridge.server.protocol import commands, messages
from drawbridge.server.protocol.frames import Frame
from tests.server.core_rig import Client, serving
from tests.server.test_upgrade import OLD, OLD_1
from tests.waiting import until

TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*Z")

TIME_IN_NAME = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d")


def changed(kind: type[Struct]) -> type[Struct]:
    """Returns a structure with the fields of ``kind`` under other names in messages, and one more field."""

    def field(known: structs.FieldInfo) -> Any:
        if known.default is not NODEFAULT:
            return known.name, known.type, known.default
        if known.default_factory is not NODEFAULT:
            return known.name, known.type, msgspec.field(default_factory=known.default_factory)
        return known.name, known.type

    tag: dict[str, Any] = {"tag": kind.__struct_config__.tag, "tag_field": kind.__struct_config__.tag_field}
    fields = [*map(field, structs.fields(kind)), ("since", str, "another version")]
    return msgspec.defstruct(kind.__name__, fields, rename="camel", frozen=True, kw_only=True, **tag)


def change_the_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    for event, (name, kind) in updates.UPDATES.items():
        monkeypatch.setitem(updates.UPDATES, event, (f"{name}_2", changed(kind)))
    for kind in (
        messages.PermissionRequest,
        messages.PermissionResolved,
        messages.ProjectInfo,
        messages.ProjectJoined,
        messages.ProjectState,
        messages.Prompt,
    ):
        monkeypatch.setattr(messages, kind.__name__, changed(kind))


class Listener(Client):
    """A client that does not check what it is sent."""

    def send(self, frame: Frame) -> None:
        self.frames.append(frame)


async def opened(folder: Path, data: Path) -> tuple[dict[str, Any], dict[str, bytes], bytes]:
    """Opens a copy of ``data`` in a server, where a client joins every session and renames it. Returns the state of each
    session, the files that the server left, without times, and what the client received."""
    folder.mkdir()
    shutil.copytree(data, folder / "data", symlinks=True)
    phone, states = Listener(), {}
    async with serving(folder) as server:
        for session in list(server.core.all_sessions):
            before = len(phone.frames)
            await server.core.project_join(commands.ProjectJoin(project_id=session.id, after_seq=0), phone)
            count = session.history.count
            await until(lambda: len(phone.frames) - before >= count, "the records")  # noqa: B023
            key = session.recorded.session_key
            rename = commands.SessionRename(project_id=session.id, session_id=key, name="Walnuts")
            await server.built.histories.session_rename(rename, phone)
            states[session.id] = msgspec.to_builtins(session.recorded)
    # The index of a log contains times, and is rebuilt from the log if it is lost.
    kept = [path for path in sorted((folder / "data").rglob("*.json*")) if path.name != "index.json"]
    files = {
        f"{number} {TIME_IN_NAME.sub('TIME', str(path.relative_to(folder)))}": TIME.sub(b"TIME", path.read_bytes())
        for number, path in enumerate(kept)
    }
    return states, files, b"\n".join(frame.data for frame in phone.frames)


@pytest.mark.parametrize("data", [OLD, OLD_1], ids=lambda data: data.name)
async def test_a_changed_protocol_does_not_change_stored_files(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, files, received = await opened(tmp_path / "as it is", data)
    change_the_protocol(monkeypatch)
    other_states, other_files, other_received = await opened(tmp_path / "changed", data)
    assert b'"update_type":"run_started","data":{"run_id":' in received
    assert b'"update_type":"run_started_2","data":{"runId":' in other_received
    assert b'"run_started"' not in other_received
    assert states == other_states
    assert files == other_files
    assert any(b"Walnuts" in content for content in files.values())
