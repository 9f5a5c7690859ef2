"""How moments and runs are shown to clients. Pure."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Final

from drawbridge.server.projects.run import Run
from drawbridge.server.protocol import messages

SHOWN_PROMPT: Final = 500
"""Characters of a waiting prompt that lists show; the history has all of it."""


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


def now() -> str:
    return instant(datetime.now(UTC)) or ""


def instant(moment: datetime | None) -> str | None:
    """RFC 3339, UTC, to the millisecond."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z") if moment else None
