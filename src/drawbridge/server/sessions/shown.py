"""Sessions, runs, approvals and times as clients see them. Pure."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from drawbridge.server.approvals.service import Approvals
from drawbridge.server.protocol import messages
from drawbridge.server.sessions.metadata import Metadata
from drawbridge.server.sessions.run import Run
from drawbridge.server.store.log import History

SHOWN_PROMPT: Final = 500
"""Characters of a waiting prompt that lists show; the history has all of it."""


def info(data: Metadata, history: History, approvals: Approvals) -> dict[str, Any]:
    """The fields of ``ProjectInfo`` that managed and terminal sessions share."""
    return {
        "id": data.id,
        "path": data.path,
        "session_id": data.memory.session_id,
        "agent": data.agent,
        "created_at": data.created_at,
        "last_active": data.last_active,
        "message_count": history.count,
        "last_seq": history.last_seq,
        "approvals": approvals.waiting(),
        "first_message_time": instant(history.first_time),
        "last_message_time": instant(history.last_time),
    }


def joined(
    info: dict[str, Any], run: messages.RunInfo | None, queue: list[messages.RunInfo], approvals: Approvals
) -> messages.ProjectJoined:
    """The snapshot of the current state, in one message: approvals that are too large for it together are previews."""
    without = messages.ProjectJoined(**info, run=run, queue=queue, open_approvals=[])
    room = messages.FRAME_BYTES - messages.ROOM - len(msgspec.json.encode(without))
    return msgspec.structs.replace(without, open_approvals=approvals.shown(room))


def run_info(run: Run, position: int) -> messages.RunInfo:
    order = run.order
    began = datetime.now(UTC) - timedelta(seconds=time.monotonic() - run.started_at) if run.started_at else None
    return messages.RunInfo(
        run_id=order.run_id,
        position=position,
        prompt=order.prompt[:SHOWN_PROMPT],
        started_at=instant(began),
        request_id=order.request_id,
    )


def run_finished(run: Run, cost_usd: float | None, error: dict[str, Any] | None) -> messages.RunFinished:
    """``error``: ``code`` and ``message`` of what the run failed for, perhaps ``retry_at``."""
    assert run.outcome is not None
    failed = error if run.outcome in ("failed", "timeout") else None
    return messages.RunFinished(
        run_id=run.id,
        outcome=run.outcome,
        duration_ms=int((time.monotonic() - run.started_at) * 1000) if run.started_at else 0,
        cost_usd=cost_usd,
        error=failed["message"] if failed else None,
        code=failed["code"] if failed else None,
        retry_at=told_time(failed.get("retry_at")) if failed else None,
    )


def now() -> str:
    return instant(datetime.now(UTC)) or ""


def instant(moment: datetime | None) -> str | None:
    """RFC 3339, UTC, to the millisecond."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z") if moment else None


def told_time(seconds: float | None) -> str | None:
    """RFC 3339, UTC, to the millisecond, of seconds since 1970."""
    return None if seconds is None else instant(datetime.fromtimestamp(seconds, UTC))
