"""Writes histories that no test agent can produce, for a server that reads them when it starts."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, TypeAlias

from drawbridge.server import events
from drawbridge.server.store.log import History
from drawbridge.server.store.records import written
from tests.server.processes import Server

from .conftest import project_in, serving

Line: TypeAlias = dict[str, Any] | str | events.SessionReset


def write_history(data: Path, project: str, records: Iterable[Line], *, kept: int | None = None) -> None:
    """Appends records to the history of a project: lines of an agent, events, and prompts (strings) whose runs have
    ended.

    ``kept`` limits the size in bytes: the oldest files are deleted while the history is larger. With None, none are
    deleted.
    """
    [logs] = data.glob(f"*/{project}/logs")  # in "projects" or "desk"
    history = History.open(logs, fsync="off")
    for line in records:
        if isinstance(line, str):
            run = uuid.uuid4().hex
            history.append(*written(events.PromptAccepted(run, line, "Ada")))
            history.append(*written(events.RunStarted(run, "", "demo")))
            history.append(*written(events.RunFinished(run_id=run, outcome="completed", duration_ms=1)))
        elif isinstance(line, events.SessionReset):
            history.append(*written(line))
        else:
            history.append("claude", json.dumps(line).encode())
    if kept is not None:
        assert history.drop(None, kept)
    history.close()


@contextlib.asynccontextmanager
async def serving_history(
    folder: Path, directory: Path, records: Iterable[Line], *options: str, kept: int | None = None
) -> AsyncIterator[tuple[Server, str]]:
    """Starts a server for a project in ``directory`` whose history contains ``records``. Yields the server and the
    project's id. The server's data is in ``folder``."""
    data = folder / "data"
    allowed = ("--no-tls", "--allow", directory.parent)
    async with serving(data, *allowed) as server:
        project = await project_in(server, directory)
    write_history(data, project, records, kept=kept)
    async with serving(data, *allowed, *options) as server:
        yield server, project
