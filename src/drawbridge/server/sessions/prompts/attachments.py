"""The attachments of a session's prompts that are stored: images for clients, and files that the agent opens by their
paths.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

import msgspec

from drawbridge.agents.base import Attachment
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.sessions.prompts.files import PromptFiles
from drawbridge.server.sessions.prompts.images import PromptImages
from drawbridge.server.sessions.runs.run import Order


class PromptAttachments:
    def __init__(self, directory: Path, session_id: str, tasks: BackgroundTasks) -> None:
        """``directory``: the session's directory. ``session_id`` names the session in the server's log."""
        self.images = PromptImages(directory / "images")
        self.files = PromptFiles(directory / "files")
        self.storing = asyncio.Lock()
        """Held from ``store`` until the prompt is accepted or refused, because the size limit is for all files
        together."""
        self._session_id = session_id
        self._tasks = tasks

    def store(self, order: Order, embeds: Callable[[Attachment], bool], in_use: Collection[str]) -> Order:
        """Stores the order's attachments that are kept. Returns the order with them. ``embeds`` returns whether the
        agent gets an attachment as part of the prompt. ``in_use``: the ids of the files of waiting and running prompts.
        Raises ``ClientError`` without storing anything. Blocking."""
        attachments, files = self.files.store(order.attachments, embeds, in_use)
        images = self.images.store(attachments)
        return msgspec.structs.replace(order, attachments=attachments, files=files, images=images)

    def discard(self, order: Order) -> None:
        """Removes what ``store`` stored, because the prompt was not accepted. Blocking."""
        self.images.remove(image.id for image in order.images)
        self.files.remove(file.id for file in order.files)

    def make_room(self, order: Order, in_use: Collection[str]) -> None:
        """Removes the oldest attachments above the limits, in the background, because the prompt was accepted.
        ``in_use``: the ids of the files that stay, in addition to its own."""
        if order.images:
            what = f"{self._session_id}: making room for images of prompts"
            self._tasks.start(asyncio.to_thread(self.images.make_room), what)
        if order.files:
            kept = {*in_use, *(file.id for file in order.files)}
            what = f"{self._session_id}: making room for files of prompts"
            self._tasks.start(asyncio.to_thread(self.files.make_room, kept), what)

    def remove(self, ids: Iterable[str]) -> None:
        """Removes the images and files with these ids. Blocking."""
        named = list(ids)
        self.images.remove(named)
        self.files.remove(named)

    def remove_before(self, seconds: float) -> None:
        """Removes the attachments of records that were written before this time, in seconds since 1970. Blocking."""
        self.images.remove_before(seconds)
        self.files.remove_before(seconds)
