"""Examples of what clients send."""

from __future__ import annotations

from typing import Any

EXAMPLES: dict[str, dict[str, Any]] = {
    "execute": {"prompt": "/quick"},
    "set_mode": {"mode": "plan"},
    "set_model": {"model": "m"},
    "set_effort": {"effort": "low"},
    "queue_remove": {"run_id": "run_1"},
    "queue_edit": {"run_id": "run_1", "prompt": "go"},
    "queue_move": {"run_id": "run_1"},
    "queue_send_now": {"run_id": "run_1"},
    "run_changes": {"run_id": "r"},
    "run_revert": {"run_id": "r"},
    "review_decide": {"hunks": ["h"], "decision": "keep"},
    "review_comment": {"path": "a", "line": 1, "quote": "a", "text": "Why?"},
    "review_submit": {"drafts": "none"},
    "review_commit": {"message": "m"},
    "review_push": {"version": "v"},
    "session_resume": {"session_id": "s"},
    "session_messages": {"session_id": "s"},
    "session_rename": {"session_id": "s", "name": "n"},
    "session_delete": {"session_id": "s"},
    "permission_response": {"approval_id": "a", "decision": "deny"},
    "project_create": {"path": "/nowhere"},
    "subscribe": {"topics": ["stats"]},
    "unsubscribe": {"topics": []},
    "blob_put": {"blob_id": "b", "offset": 0, "data": "", "last": True},
    "blob_get": {"blob_id": "none"},
    "dir_list": {"path": ""},
    "dir_create": {"path": "/nowhere", "name": "n"},
    "file_read": {"path": "none"},
    "file_changes": {"path": "none"},
    "device_revoke": {"device_id": "none"},
    "pair_create": {"scope": "view"},
    "push_test": {"endpoint": "e"},
    "push_subscribe": {"endpoint": "e", "p256dh": "p", "auth": "a"},
    "push_unsubscribe": {"endpoint": "e"},
    "auth": {"token": "none"},
    "pair": {"code": "AAAA-AAAA"},
    "ssh_auth": {"nonce": "n", "host": "h", "signature": "s"},
}
"""Valid data for each message type that requires any."""
