"""Rebuilds lost indexes while the server runs: one file after the other, the most recently used history first."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from datetime import UTC, datetime

from drawbridge.core.errors import HistoryUnreadable
from drawbridge.server.store.log import History
from drawbridge.text.counts import counted

logger = logging.getLogger(__name__)

_EARLIEST = datetime.min.replace(tzinfo=UTC)


async def rebuild(histories: Iterable[History]) -> None:
    """Returns when all of them know where their records are. Requests for a page meanwhile do not wait for this."""
    files = 0
    for history in sorted(histories, key=lambda history: history.last_time or _EARLIEST, reverse=True):
        try:
            began = time.monotonic()
            while await asyncio.to_thread(history.scan_next):
                files += 1
                # Reading a file keeps the interpreter busy: the server's own work comes first.
                await asyncio.sleep(time.monotonic() - began)
                began = time.monotonic()
        except HistoryUnreadable as error:
            if not history.closed:  # else its project was deleted meanwhile
                logger.error("an index could not be built: %s", error)
    if files:
        logger.info("rebuilt the indexes of the histories from %s", counted(files, "file"))
