"""docs/protocols/client.md matches the server. Every message, field and code is documented, and the examples work."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection, connect

import client_schema
import page_types
from drawbridge.agents.base import Options
from drawbridge.server.app.clients import AUTH_BYTES, AUTH_SECONDS, TOO_SLOW, TRY_LATER, UNAUTHORIZED
from drawbridge.server.app.command_table import COMMANDS
from drawbridge.server.app.dispatch import AnyRow
from drawbridge.server.app.outbox import COMPRESSED_FROM
from drawbridge.server.app.stats import EVERY_SECONDS
from drawbridge.server.protocol.client_errors import CODES
from drawbridge.server.protocol.messages import BLOB_BYTES, FRAME_BYTES, MESSAGE_BYTES, PIECE_BYTES
from drawbridge.server.serve import terms
from tests.server.processes import serving
from tests.server.schema import check_request

PAGE = (client_schema.FILE.parent / "client.md").read_text()
TYPES, UPDATES = client_schema.sent()
ERRORS = re.findall(r"^\| `([A-Z_]+)` \| (yes|no) \| (.*?) \| (.*) \|$", PAGE, re.MULTILINE)


def test_the_schema_matches_the_types() -> None:
    assert client_schema.FILE.read_text() == client_schema.text(), "run python tools/client_schema.py"


def test_the_types_of_the_page_follow_the_schema() -> None:
    assert page_types.FILE.read_text() == page_types.types(client_schema.schema()), "run python tools/page_types.py"


def test_every_type_is_on_the_page() -> None:
    for row in COMMANDS:
        assert re.search(rf"^\|.*`{row.name}`", PAGE, re.MULTILINE), row.name
    for type in TYPES:
        assert f"`{type}`" in PAGE, type
    for update in UPDATES:
        assert f"`update/{update}`" in PAGE, update


def in_table(row: AnyRow) -> tuple[str, str]:
    """The data and the answer of a command, as its row in the documentation describes them."""
    line = next(line for line in PAGE.splitlines() if re.match(rf"\| [^|]*`{row.name}`", line))
    return line.split("|")[2], line.split("|")[3]


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_every_field_of_a_request_is_in_its_row(row: AnyRow) -> None:
    named = set(re.findall(r"[a-z_][a-z0-9_]*", in_table(row)[0]))
    fields = set(row.request.__struct_fields__) - {"request_id", "project_id"}
    assert named == fields if row.name not in ("set_mode", "set_model") else fields <= named


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_the_answer_is_in_the_row_of_its_request(row: AnyRow) -> None:
    reply, answer = row.reply, in_table(row)[1]
    assert answer.strip().startswith(f"`{reply.name}/{reply.update_type}`" if reply.update_type else f"`{reply.name}`")
    assert ("*aside*" in answer) is (row.aside is True)


@pytest.mark.parametrize("kind", [*TYPES, *UPDATES])
def test_every_field_of_an_answer_is_on_the_page(kind: str) -> None:
    schema = client_schema.schema()["$defs"]
    found = schema.get(f"server.{kind}") or schema[f"server.update.{kind}"]
    data = found["properties"]["data"]
    data = data["properties"]["data"] if "properties" in data else data
    if "$ref" in data:
        fields = schema[data["$ref"].rpartition("/")[2]]["properties"]
        assert [field for field in fields if not re.search(rf"\b{field}\b", PAGE)] == []


@pytest.mark.parametrize("line", re.findall(r"^> (.*)$", PAGE, re.MULTILINE))
def test_every_request_in_an_example_is_valid(line: str) -> None:
    request = json.loads(line)
    check_request(request)
    fields = set(request) - {"type", "data"} | set(request.get("data", {}))
    assert fields <= set(next(row for row in COMMANDS if row.name == request["type"]).request.__struct_fields__)


def test_every_option_and_limit_is_on_the_page() -> None:
    assert [option for option in Options.__struct_fields__ if f"`{option}`" not in PAGE] == []
    for number in (MESSAGE_BYTES, FRAME_BYTES, PIECE_BYTES, BLOB_BYTES):
        assert f"{number:,}" in PAGE
    for code in (TOO_SLOW, UNAUTHORIZED, TRY_LATER):
        assert f"| {code} |" in PAGE
    assert f"Messages of {COMPRESSED_FROM:,} bytes or more" in PAGE
    assert f"within {AUTH_SECONDS:g} seconds and be at most {AUTH_BYTES:,} bytes long" in PAGE
    assert f"It pings every {terms(clients=1).ping_seconds:g} seconds" in PAGE
    assert f"every {EVERY_SECONDS:g} seconds `update/stats`" in PAGE


def test_the_docs_list_every_error_code() -> None:
    assert [(code, retryable == "yes", meaning) for code, retryable, meaning, _ in ERRORS] == [
        (code, kind.retryable, kind.meaning) for code, kind in CODES.items()
    ]
    assert all(example for *_, example in ERRORS)


async def answer_of(connection: ClientConnection, request: str) -> dict[str, object]:
    await connection.send(request)
    answer: dict[str, object] = json.loads(await connection.recv())
    return answer


async def test_the_examples_of_errors_are_correct(tmp_path: Path) -> None:
    directory = tmp_path / "roots" / "code"
    (directory / "inner").mkdir(parents=True)
    async with serving(tmp_path / "data", "--allow", tmp_path / "roots") as server:
        headers = {"Authorization": f"Bearer {server.token}"}
        async with connect(server.url, additional_headers=headers, ssl=server.tls, proxy=None) as connection:

            async def ask(request: str) -> dict[str, object]:
                if '"pair"' in request:  # the first message of a new device
                    async with connect(server.url, ssl=server.tls, proxy=None) as stranger:
                        return await answer_of(stranger, request)
                return await answer_of(connection, request)

            create = {"type": "project_create", "data": {"path": str(directory), "agent": "claude"}}
            project = (await ask(json.dumps(create)))["project_id"]
            tried = 0
            for code, _, _, example in ERRORS:
                for request in re.findall(r'`(\{"type".*?)`(?:;|$)', example):
                    asked = request.replace('"P"', f'"{project}"').replace("DIRECTORY", str(directory))
                    answer = await ask(asked)
                    assert answer["type"] == "error", asked
                    assert answer["data"]["code"] == code  # type: ignore[index]
                    tried += 1
            assert tried >= 13
