"""One agent's place at the bridge: what its tools work with."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Hashable, Sequence
from typing import Final

from drawbridge.editors import files
from drawbridge.editors.port import Accepted, Decision, Editor, Selection
from drawbridge.ide.privacy import Privacy
from drawbridge.ide.review import Reviews

CODE_SECONDS: Final = 120.0
CODE_OUTPUT_LIMIT: Final = 100_000
"""Bytes of output that go back to the agent."""

logger = logging.getLogger("drawbridge.desk")


class Workspace:
    """What all agents of one bridge share: the editor, its folders, what is selected, what is kept from them."""

    def __init__(self, editor: Editor, folders: Sequence[str], privacy: Privacy) -> None:
        self.editor = editor
        self.folders = tuple(folders)
        self.privacy = privacy
        self.reviews = Reviews(editor)
        self.selection: Selection | None = None


class AgentDesk:
    """The ``Desk`` of the tools for one connection; ``owner`` is that connection, ``agent`` its name for people."""

    def __init__(self, workspace: Workspace, owner: Hashable, agent: str) -> None:
        self._workspace = workspace
        self._owner = owner
        self._agent = agent

    @property
    def editor(self) -> Editor:
        return self._workspace.editor

    @property
    def folders(self) -> Sequence[str]:
        return self._workspace.folders

    @property
    def latest_selection(self) -> Selection | None:
        return self._workspace.selection

    def resolve(self, path_or_uri: str) -> str:
        return files.absolute(files.from_uri(path_or_uri), self._workspace.folders[0])

    def hides(self, path: str) -> bool:
        return self._workspace.privacy.hides(path)

    async def check_readable(self, path: str) -> None:
        await asyncio.to_thread(files.check_text_file, path)

    async def review(self, path: str, new_text: str, title: str) -> Decision:
        return await self._workspace.reviews.review(self._owner, self._agent, path, new_text, title)

    async def review_code(self, code: str) -> Accepted | None:
        return await self._workspace.reviews.review_code(self._owner, self._agent, code)

    async def close_review(self, title: str) -> None:
        await self._workspace.reviews.close(self._owner, title)

    async def close_reviews(self) -> int:
        return await self._workspace.reviews.close_all(self._owner)

    async def run_code(self, code: str) -> str:
        """A new interpreter for each call, in the first folder; stopped after ``CODE_SECONDS``."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-",
            cwd=self._workspace.folders[0],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(code.encode()), CODE_SECONDS)
        except TimeoutError:
            return f"Stopped after {CODE_SECONDS:g} seconds."
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        text = output[:CODE_OUTPUT_LIMIT].decode("utf-8", "replace")
        cut = f"\n[{len(output) - CODE_OUTPUT_LIMIT} more bytes]" if len(output) > CODE_OUTPUT_LIMIT else ""
        return f"{text}{cut}" + (f"\n[exit code {process.returncode}]" if process.returncode else "")
