"""Reverts a run for a client, completely or not at all, and records it once, even if the server is killed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from drawbridge.server.checkpoints.changes import RunChanges
from drawbridge.server.checkpoints.errors import Changed
from drawbridge.server.checkpoints.reverter import Reverter
from drawbridge.server.checkpoints.unsaved import UnsavedChanges, not_written_over
from drawbridge.server.events import Audited, Recorded, RevertedRun, RunReverted
from drawbridge.server.protocol import messages
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.reviews.intents import RevertIntent
from drawbridge.server.reviews.recovery import Completed, Recovery, origin
from drawbridge.server.updates import answered


class Store(Protocol):
    """The part of a session's store that is used here."""

    @property
    def last_seq(self) -> int: ...

    def record(self, event: Recorded, sender: Subscriber | None = None) -> int | None: ...

    def audit(self, event: Audited) -> None: ...


class Reverting:
    """Reverts the runs of one project. ``store``: that of its session, whose id is ``session``."""

    def __init__(self, reverter: Reverter, recovery: Recovery, session: str, store: Store) -> None:
        self._reverter = reverter
        self._recovery = recovery
        self._session = session
        self._store = store

    async def revert(
        self, run_id: str, sender: Subscriber, check_at_rest: Callable[[], None]
    ) -> Answer[messages.RunReverted]:
        """Reverts everything that a run changed, or nothing, and records it. ``check_at_rest`` raises ``ClientError``
        while an agent is at work. The caller must not apply a decision at the same time. Raises ``ClientError``,
        ``NoCheckpoint``, ``GitFailed`` or OSError."""

        async def begin(changes: RunChanges, heads: tuple[str, str]) -> None:
            about = origin(self._session, self._store.last_seq, sender)
            await self._recovery.begin(RevertIntent(**about, run_id=run_id, files=changes.files, heads=heads))

        try:
            async with self._recovery.applying():
                check_at_rest()
                try:
                    changes = await self._reverter.revert(run_id, begin)
                except (Changed, UnsavedChanges):
                    await self._recovery.end()  # nothing was changed
                    raise
                reverted = RunReverted(run_id, sender.name, changes.files, sender.id)
                seq = self._store.record(reverted, sender)
                self._store.audit(RevertedRun(sender.audited, run_id))
                await self._recovery.end()
        except Changed as error:
            text = f"The run can't be undone: {error} changed in the same places after the run. Nothing was undone."
            details = {"paths": error.paths, "lines": error.lines}
            raise ClientError("CHANGED_SINCE", text, details=details) from None
        except UnsavedChanges as error:
            raise not_written_over(error) from None
        except Completed as completed:
            return answered(completed.record, messages.RunReverted, self._session)
        return answered(reverted, messages.RunReverted, self._session, seq)
