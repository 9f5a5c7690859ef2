"""The commands for reviewing what runs changed: show, revert, decide, comment, commit and push.

Like the handlers in ``core``, each returns the answer for the client that sent the command, or raises ``ClientError``.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Iterator
from typing import Final

import msgspec

from drawbridge.server.app.core import Core
from drawbridge.server.checkpoints.errors import GitFailed, NoCheckpoint, TookTooLong, reason_of
from drawbridge.server.protocol import commands, messages, replies
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.reviews.messages import requested_decision
from drawbridge.server.sessions.directories import allowed_directories
from drawbridge.server.sessions.files import files
from drawbridge.server.sessions.runs.run import Order
from drawbridge.server.terminal_sessions.session import TerminalSession
from drawbridge.server.updates import converted

logger = logging.getLogger("drawbridge.server")

TOOK_TOO_LONG: Final = "git took too long. Try again, or see the server's log for the command."


class ReviewCommands:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def run_changes(self, command: commands.RunChanges, client: Subscriber) -> Answer[replies.RunChanges]:
        session = await self._core.usable_session(command.project_id)
        with git_errors("data.run_id"):
            changes = await session.checkpoints.changes.of(command.run_id)
        shown = msgspec.structs.replace(
            converted(changes, replies.RunChanges), directory=session.recorded.elsewhere.get(command.run_id)
        )
        return Answer(type="run_changes", project_id=session.id, data=shown)

    async def run_revert(self, command: commands.RunRevert, client: Subscriber) -> Answer[messages.RunReverted]:
        session = await self._core.usable_managed(command.project_id)
        with git_errors("data.run_id"):
            return await session.revert(command.run_id, client)

    async def review_get(self, command: commands.ReviewGet, client: Subscriber) -> Answer[replies.Review]:
        session = self._core.all_sessions.get(command.project_id)
        try:
            await self._core.check_directory(session)
        except ClientError:
            if self._core.grants.directories.last_problem(session.path) != allowed_directories.SILENT:
                session.review_is_gone()
            raise
        with git_errors():
            return await session.review()

    async def review_decide(self, command: commands.ReviewDecide, client: Subscriber) -> Answer[replies.Review]:
        wanted = requested_decision(command, client.name)
        session = await self._core.usable_session(command.project_id)
        with git_errors():
            return await session.decide_review(wanted, client)

    async def review_comment(
        self, command: commands.ReviewComment, client: Subscriber
    ) -> Answer[messages.ReviewCommented]:
        session = await self._core.usable_session(command.project_id)
        with git_errors():
            return await session.comment(command, client)

    async def review_submit(self, command: commands.ReviewSubmit, client: Subscriber) -> Answer[replies.Accepted]:
        session = await self._core.usable_session(command.project_id)
        with git_errors():
            if isinstance(session, TerminalSession):
                return await self._core.terminal_sessions.submit_review(session, command, client, session.within_limits)
            managed = self._core.projects.get(session.id)
            agent = managed.data.agent
            order = Order(
                run_id=f"run_{uuid.uuid4().hex[:16]}",
                prompt="",
                by=client.name,
                client_id=client.id,
                request_id=command.request_id,
                options=await self._core.grants.resolved(managed.options.usual(agent), agent),
            )
            return await managed.submit_review(order, command.drafts, command.text, client, steer=command.steer)

    async def review_withdraw(self, command: commands.ReviewWithdraw, client: Subscriber) -> Answer[replies.Review]:
        session = await self._core.usable_session(command.project_id)
        if not isinstance(session, TerminalSession):
            raise ClientError("COMMENT_GONE", "No comments are waiting for the agent.")
        with git_errors():
            return await session.reviewed.withdraw_comments(client, session.id)

    async def review_commit(
        self, command: commands.ReviewCommit, client: Subscriber
    ) -> Answer[messages.ReviewCommitted]:
        session = await self._core.usable_session(command.project_id)
        if not self._core.grants.ceilings.commits:
            text = "This server does not allow clients to commit. Its owner can allow it with --allow-commit."
            raise ClientError("PERMISSION_DENIED", text)
        if not command.message.strip():
            raise ClientError("VALIDATION_FAILED", "data.message: it contains only whitespace.", "data.message")
        with git_errors():
            return await session.commit_review(command, client)

    async def review_push(self, command: commands.ReviewPush, client: Subscriber) -> Answer[messages.ReviewPushed]:
        session = await self._core.usable_session(command.project_id)
        if not self._core.grants.ceilings.pushes:
            text = "This server does not allow clients to push. Its owner can allow it with --allow-push."
            raise ClientError("PERMISSION_DENIED", text)
        if command.pull_request is not None and not command.pull_request.title.strip():
            text = "data.pull_request.title: it contains only whitespace."
            raise ClientError("VALIDATION_FAILED", text, "data.pull_request.title")
        with git_errors():
            return await session.push_review(command, client)

    async def review_image(self, project_id: str, blob: str) -> bytes:
        """A version of an image that the review shows. Raises ``ClientError``."""
        session = await self._core.usable_session(project_id)
        with git_errors():
            data = await session.review_image(blob, files.LARGEST_IMAGE)
        if files.image_type(data[:64]) is None:
            text = "The file can't be shown: it has an image's file extension but is not an image."
            raise ClientError("FILE_UNSUPPORTED", text, field="data.blob_id")
        return data


@contextlib.contextmanager
def git_errors(field: str | None = None) -> Iterator[None]:
    """Turns an error of git or of the disk, and a missing checkpoint, into a ``ClientError``. ``field``: the field of
    the command that names the checkpoint; None if it names none."""
    try:
        yield
    except (NoCheckpoint, GitFailed, OSError) as error:
        if not isinstance(error, NoCheckpoint):
            logger.error("git or a file operation failed: %s", error)
        text = TOOK_TOO_LONG if isinstance(error, TookTooLong) else reason_of(error)
        raise ClientError("CHECKPOINT_NOT_FOUND", text, field=field) from None
