"""The tools' operations on behalf of one client: its proposals, files and code."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Hashable
from typing import Final

from drawbridge.core import subprocesses
from drawbridge.core.errors import Refused
from drawbridge.editors import files
from drawbridge.editors.port import Accepted, Decision
from drawbridge.ide.review import IN_ITS_DIALOG, Reviews
from drawbridge.ide.workspace import Workspace
from drawbridge.text.counts import counted

CODE_SECONDS: Final = 120.0
CODE_OUTPUT_LIMIT: Final = 100_000
"""The maximum number of bytes of a program's output that the agent receives."""


class ClientContext:
    """The ``ToolContext`` of one connection. Proposals belong to ``owner``, the connection. The user sees ``agent``,
    the name of the agent that is connected."""

    def __init__(self, workspace: Workspace, reviews: Reviews, owner: Hashable, agent: str) -> None:
        self.workspace = workspace
        self._reviews = reviews
        self._owner = owner
        self._agent = agent

    async def check_readable(self, path: str) -> None:
        await asyncio.to_thread(files.check_text_file, path)

    async def review(self, path: str, new_text: str, title: str) -> Decision:
        return await self._reviews.review(self._owner, self._agent, path, new_text, title)

    async def review_code(self, code: str) -> Accepted | None:
        return await self._reviews.review_code(self._owner, self._agent, code)

    async def close_review(self, title: str) -> None:
        self._reviews.withdraw(self._owner, title, IN_ITS_DIALOG)

    async def close_reviews(self) -> int:
        return self._reviews.withdraw_all(self._owner)

    async def run_code(self, code: str) -> str:
        """Runs code in a new interpreter, in the first folder, and returns its output. The interpreter is ended after
        ``CODE_SECONDS``. Anything that it left running in its process group is ended in any case. Raises ``Refused`` if
        the interpreter can't be started.
        """
        folder = self.workspace.folders[0]
        try:
            finished = await subprocesses.run(
                [sys.executable, "-"],
                directory=folder,
                seconds=CODE_SECONDS,
                limit=CODE_OUTPUT_LIMIT,
                input=code.encode(),
                drain=True,
            )
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise Refused(f"Python can't be started in {folder}: {why}.") from None
        if finished.status is None:
            notes = [f"stopped after {counted(CODE_SECONDS, 'second')}"]
        else:
            notes = [f"{counted(finished.dropped, 'more byte')} left out"] if finished.dropped else []
            notes += [f"exit code {finished.status}"] if finished.status else []
        return "\n".join([finished.output.decode("utf-8", "replace"), *(f"[{note}]" for note in notes)])
