"""How messages are encoded, and how what is too large is shown."""

from __future__ import annotations

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.server.protocol.answers import updated
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.frames import CUT, agent_message, encode, error, history_record, shortened, update
from drawbridge.server.protocol.messages import FRAME_BYTES, PermissionWithdrawn

LARGE = json.dumps({"type": "user", "message": {"content": [{"type": "tool_result", "content": "y" * 3_000_000}]}})

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)


def test_fields_that_are_not_set_are_left_out() -> None:
    withdrawn = PermissionWithdrawn("appr_1", "the run was stopped")
    data = {"update_type": "permission_withdrawn", "data": {"approval_id": "appr_1", "reason": "the run was stopped"}}
    assert json.loads(update("permission_withdrawn", withdrawn)) == {"type": "update", "data": data}
    answer = updated("permission_withdrawn", withdrawn, "p1", 9)
    whole = {"type": "update", "project_id": "p1", "seq": 9, "data": data, "request_id": "r1"}
    assert json.loads(encode(answer, "r1")) == whole


def test_an_error_names_its_request() -> None:
    failure = ClientError("NOT_SUPPORTED", "This is not possible here.", field="data.mode", details={"mode": "plan"})
    assert json.loads(error(failure, "client_1-2", "r1", "p1")) == {
        "type": "error",
        "project_id": "p1",
        "data": {
            "code": "NOT_SUPPORTED",
            "message": "This is not possible here.",
            "error": "This is not possible here.",
            "retryable": False,
            "correlation_id": "client_1-2",
            "request_id": "r1",
            "field": "data.mode",
            "details": {"mode": "plan"},
        },
        "request_id": "r1",
    }


def test_a_small_line_is_embedded_unchanged() -> None:
    line = b'{ "type":"result", "cost": 1.0e3 }'
    message = agent_message(line, project_id="p1", session_id="s", seq=9)
    assert line in message
    assert b"truncated" not in message
    assert bytes(history_record(line, "p1", 9)) == line


def test_a_line_over_the_limit_becomes_a_preview() -> None:
    message = json.loads(agent_message(LARGE.encode(), project_id="p1", session_id="s", seq=9))
    assert message["seq"] == 9
    assert message["data"]["truncated"] == {"blob_id": "p1:9", "bytes": len(LARGE)}
    content = message["data"]["messages"][0]["message"]["content"][0]
    assert content["type"] == "tool_result"
    assert content["content"].startswith("yyyy")
    assert content["content"].endswith(CUT)
    assert len(json.dumps(message)) < FRAME_BYTES


def test_a_record_over_the_limit_becomes_a_preview() -> None:
    record = json.loads(bytes(history_record(b'{"seq":9,"message":' + LARGE.encode() + b"}", "p1", 9)))
    assert record["seq"] == 9
    assert record["truncated"]["blob_id"] == "p1:9"


@given(VALUES, st.integers(100, 2_000))
def test_a_preview_is_json_within_the_limit(value: object, limit: int) -> None:
    data = msgspec.json.encode(value)
    preview = shortened(data, limit)
    assert len(preview) <= limit
    assert preview == data or len(data) > limit
    json.loads(preview)


def test_data_that_cannot_be_decoded_is_shown_by_its_first_bytes() -> None:
    for data in (b"[" * 100_000, b"\xff" * 100_000):
        preview = json.loads(shortened(data, 1_000))
        assert preview == {"preview": data[:125].decode(errors="replace") + CUT}
