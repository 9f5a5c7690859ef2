"""One agent's place at the bridge: what its tools work with."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Hashable, Sequence
from typing import Final

from drawbridge.core.errors import Refused
from drawbridge.core.privacy import Privacy
from drawbridge.editors import files
from drawbridge.editors.port import Accepted, Decision, Editor, Selection
from drawbridge.ide.review import IN_ITS_DIALOG, Reviews
from drawbridge.ide.unasked import Unasked

CODE_SECONDS: Final = 120.0
CODE_OUTPUT_LIMIT: Final = 100_000
"""Bytes of output that go back to the agent."""


class Workspace:
    """What all agents of one bridge share: the editor, its folders, what is selected, what is kept from them."""

    def __init__(self, editor: Editor, folders: Sequence[str], privacy: Privacy) -> None:
        self.editor = editor
        self.folders = tuple(folders)
        self.privacy = privacy
        self.reviews = Reviews(editor)
        self.unasked = Unasked(editor, self.reviews)
        self.selection: Selection | None = None

    def resolve(self, path_or_uri: str) -> str:
        """The absolute path; a relative one starts at the first folder.

        The real CLI puts ``file://`` before a bare path (2.1.329), so a URI whose encoded spelling is a file means that.
        """
        bare = path_or_uri.removeprefix("file://")
        if bare != path_or_uri and "%" in bare and os.path.exists(bare):
            return bare
        return files.absolute(files.from_uri(path_or_uri), self.folders[0])


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
        return self._workspace.resolve(path_or_uri)

    def hides(self, path: str) -> bool:
        return self._workspace.privacy.hides(path)

    async def check_readable(self, path: str) -> None:
        await asyncio.to_thread(files.check_text_file, path)

    async def review(self, path: str, new_text: str, title: str) -> Decision:
        return await self._workspace.reviews.review(self._owner, self._agent, path, new_text, title)

    async def review_code(self, code: str) -> Accepted | None:
        return await self._workspace.reviews.review_code(self._owner, self._agent, code)

    async def close_review(self, title: str) -> None:
        self._workspace.reviews.withdraw(self._owner, title, IN_ITS_DIALOG)

    async def close_reviews(self) -> int:
        return self._workspace.reviews.withdraw_all(self._owner)

    async def run_code(self, code: str) -> str:
        """A new interpreter for each call, in the first folder; after ``CODE_SECONDS`` it and what it started are ended."""
        folder = self._workspace.folders[0]
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-", cwd=folder, stdin=PIPE, stdout=PIPE, stderr=STDOUT, start_new_session=True
            )
        except OSError as error:
            raise Refused(f"Python can't be started in {folder}: {error.strerror}. Nothing was run.") from None
        output = bytearray()
        try:
            dropped = await asyncio.wait_for(_converse(process, code.encode(), output), CODE_SECONDS)
            notes = [f"{dropped} more bytes"] if dropped else []
            notes += [f"exit code {process.returncode}"] if process.returncode else []
        except TimeoutError:
            notes = [f"stopped after {CODE_SECONDS:g} seconds"]
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        return "\n".join([output.decode("utf-8", "replace"), *(f"[{note}]" for note in notes)])


async def _converse(process: asyncio.subprocess.Process, code: bytes, output: bytearray) -> int:
    """Hand over the code and collect what it prints, up to the limit; the number of bytes that were dropped."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(ConnectionError):
        process.stdin.write(code)
        await process.stdin.drain()
    process.stdin.close()
    dropped = 0
    while piece := await process.stdout.read(65_536):
        kept = piece[: CODE_OUTPUT_LIMIT - len(output)]
        output += kept
        dropped += len(piece) - len(kept)
    await process.wait()
    return dropped
