"""Runs the user's requests in the background, so that the screen stays responsive."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from textual.widget import Widget

from drawbridge.tui.connection import RequestError
from drawbridge.tui.wording import block


def do(widget: Widget, work: Coroutine[Any, Any, Any]) -> None:
    """Runs ``work`` in the background until it ends or the widget is removed. If its request fails, the error is
    shown."""

    async def done() -> None:
        try:
            await work
        except RequestError as error:
            complain(widget, error)

    widget.run_worker(done())


def complain(widget: Widget, error: RequestError) -> None:
    widget.notify(block(str(error)), severity="error", markup=False)
