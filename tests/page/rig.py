"""People who use the web UI in a real browser, each with a separate profile."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import programs
from tests.rigs.browser import BrowserProcess

HERE = Path(__file__).resolve().parent


class Browser(BrowserProcess):
    """A headless Chromium that ``browser.mjs`` drives. ``whole`` selects the variant that supports notifications."""

    def __init__(self, *, whole: bool = False) -> None:
        programs.page()
        super().__init__(HERE / "browser.mjs", whole=whole)
        self._names = (f"person{number}" for number in itertools.count(1))

    @contextlib.contextmanager
    def person(self, url: str, *, beside: Person | None = None, **how: Any) -> Iterator[Person]:
        """Opens ``url`` in a window with a new profile, or with the profile of ``beside``. Closes the window when the
        context exits, and the profile with its last window.

        ``how``: width and height (in pixels), dark, forced (forced colors), untrusting (ignores certificate errors),
        held (a file whose request is held back until :meth:`Person.lets` is called), worker (whether the web UI may
        install its service worker).
        """
        person = Person(self, next(self._names))
        person("open", url=url, beside=beside and beside._name, **how)
        try:
            yield person
        finally:
            person("close")


class Person:
    """A person with one browser window. An action on an element waits until the element is ready."""

    def __init__(self, browser: Browser, name: str) -> None:
        self._browser = browser
        self._name = name

    def __call__(self, do: str, **what: Any) -> Any:
        return self._browser.send(do=do, page=self._name, **what)

    def begins(self, do: str, **what: Any) -> None:
        """Sends a command without waiting for its result."""
        self._browser.begin(do=do, page=self._name, **what)

    def clicks(self, css: str) -> None:
        self("click", css=css)

    def clicks_until(self, css: str, seen: str) -> None:
        """Clicks until ``seen`` is visible, because a control ignores clicks right after it has moved or been
        redrawn."""
        self("clickUntil", css=css, seen=seen)

    def accepts_edited(self) -> None:
        self.clicks_until("text=Accept edited version", "body:not(:has(.approval footer .accepts.edited))")

    def presses(self, key: str) -> None:
        self("press", key=key)

    def fills(self, css: str, text: str) -> None:
        self("fill", css=css, text=text)

    def sees(self, css: str, text: str | None = None) -> None:
        """Waits until the first element that matches is visible."""
        self("sees", css=css, **({} if text is None else {"text": text}))

    def loses(self, css: str, text: str | None = None) -> None:
        """Waits until the first element that matches is hidden, or none matches."""
        self("gone", css=css, **({} if text is None else {"text": text}))

    def reads(self, css: str) -> list[str]:
        found: list[str] = self("texts", css=css)
        return found

    def runs(self, code: str) -> Any:
        return self("run", code=code)

    def until(self, code: str) -> None:
        self("until", code=code)

    def goes_to(self, place: str) -> None:
        """Opens the view with this address fragment, such as ``#/settings``."""
        self.runs(f"location.hash = {json.dumps(place)}")

    def leaves(self, place: str = "#/settings") -> str:
        """Goes from a session to another view. Returns the session's address fragment."""
        here: str = self.runs("location.hash")
        self.goes_to(place)
        self.loses("#prompt")
        return here

    def lets(self, fails: bool = False) -> None:
        """Lets the request for the held file continue or fail."""
        self("let", fails=fails)

    def prompts(self, text: str) -> None:
        self.fills("#prompt", text)
        self.presses("Enter")

    def edits(self, text: str) -> None:
        """Replaces all the text in the open editor."""
        self.clicks(".approval .cm-content")
        self.presses("Control+a")
        self("insert", text=text)
        lines = text.split("\n")
        self.sees(".approval .cm-line", next((line for line in reversed(lines) if line), ""))

    def edited(self) -> str:
        """Returns the text in the open editor, without folded lines."""
        self.sees(".approval .cm-content")
        return "\n".join(line.rstrip("\n") for line in self.reads(".approval .cm-line"))

    def picks(self, chip: str, value: str) -> None:
        """Chooses a value in a chip's menu in the message box: agent, model, effort or mode."""
        self.clicks(f".chip.{chip} > button")
        self.clicks(f".chip.{chip} .chip-menu [data-value='{value}']")

    def commands(self, text: str, first: str) -> None:
        """Types ``text`` into the command palette, waits until ``first`` is selected, and chooses it."""
        self.presses("Control+k")
        self.sees(".palette input:focus")
        self("type", text=text)
        self.sees(".palette [aria-selected=true]", first)
        self.presses("Enter")

    def readies_keys(self) -> None:
        """Leaves the message box, and waits until keys act on the current approval request."""
        self.presses("Escape")
        self.sees(".approval.keyed")

    def complaints(self) -> list[str]:
        """Returns the errors, warnings and dialogs in this person's window since the last call."""
        found: list[str] = self("complaints")
        return found
