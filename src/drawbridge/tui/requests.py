"""Runs the user's requests in the background, so that the screen stays responsive."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from textual.app import App
from textual.widget import Widget

from drawbridge.tui.connection import RequestError
from drawbridge.tui.wording import block

WARNING_SECONDS: Final = 60.0
"""The number of seconds for which a warning stays on the screen, unless a click closes it."""


def do(widget: Widget, work: Coroutine[Any, Any, Any]) -> None:
    """Runs ``work`` in the background until it ends or the widget is removed. If its request fails, the error is
    shown."""
    widget.run_worker(_done(widget, work))


def do_lasting(widget: Widget, work: Coroutine[Any, Any, Any]) -> None:
    """Works like ``do``, but ``work`` continues after the widget is removed. What the user sends without a connection
    is sent on the next one, whichever screen is shown by then."""
    widget.app.run_worker(_done(widget.app, work))


async def _done(shown: Widget | App[Any], work: Coroutine[Any, Any, Any]) -> None:
    try:
        await work
    except RequestError as error:
        complain(shown, error)


def complain(shown: Widget | App[Any], error: RequestError) -> None:
    shown.notify(block(str(error)), severity="error", markup=False)
