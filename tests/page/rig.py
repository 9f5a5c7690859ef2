"""People in front of the page: a real browser, one profile for each of them."""

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
    """A headless Chromium that ``browser.mjs`` drives."""

    def __init__(self) -> None:
        programs.page()
        super().__init__(HERE / "browser.mjs")
        self._names = (f"person{number}" for number in itertools.count(1))

    @contextlib.contextmanager
    def person(self, url: str, **how: Any) -> Iterator[Person]:
        """Opens ``url``. ``how``: width, height, dark, forced (the system's own colors), untrusting
        (goes past the warning of a certificate), held (a file that the server does not send until
        :meth:`Person.lets`)."""
        person = Person(self, next(self._names))
        person("open", url=url, **how)
        try:
            yield person
        finally:
            person("close")


class Person:
    """One browser window. Each act waits until it can be done."""

    def __init__(self, browser: Browser, name: str) -> None:
        self._browser = browser
        self._name = name

    def __call__(self, do: str, **what: Any) -> Any:
        return self._browser.send(do=do, page=self._name, **what)

    def begins(self, do: str, **what: Any) -> None:
        """Without waiting for the answer."""
        self._browser.begin(do=do, page=self._name, **what)

    def clicks(self, css: str) -> None:
        self("click", css=css)

    def clicks_until(self, css: str, seen: str) -> None:
        """Clicks again where a click had no effect: a control takes none right after it has moved, or has been drawn again."""
        self("clickUntil", css=css, seen=seen)

    def accepts_edited(self) -> None:
        self.clicks_until("text=Accept edited version", "body:not(:has(.approval footer .accepts.edited))")

    def presses(self, key: str) -> None:
        self("press", key=key)

    def fills(self, css: str, text: str) -> None:
        self("fill", css=css, text=text)

    def sees(self, css: str, text: str | None = None) -> None:
        """Waits until it is visible."""
        self("sees", css=css, **({} if text is None else {"text": text}))

    def loses(self, css: str, text: str | None = None) -> None:
        """Waits until it is not visible."""
        self("gone", css=css, **({} if text is None else {"text": text}))

    def reads(self, css: str) -> list[str]:
        found: list[str] = self("texts", css=css)
        return found

    def runs(self, code: str) -> Any:
        return self("run", code=code)

    def until(self, code: str) -> None:
        self("until", code=code)

    def goes_to(self, place: str) -> None:
        """By its part of the address, such as ``#/settings``."""
        self.runs(f"location.hash = {json.dumps(place)}")

    def leaves(self, place: str = "#/settings") -> str:
        """Goes from a session to another view. Returns the place to come back to."""
        here: str = self.runs("location.hash")
        self.goes_to(place)
        self.loses("#prompt")
        return here

    def lets(self, fails: bool = False) -> None:
        """The file that is held comes now, or fails."""
        self("let", fails=fails)

    def prompts(self, text: str) -> None:
        self.fills("#prompt", text)
        self.presses("Enter")

    def edits(self, text: str) -> None:
        """Replaces all that is in the open editor."""
        self.clicks(".approval .cm-content")
        self.presses("Control+a")
        self("insert", text=text)
        lines = text.split("\n")
        self.sees(".approval .cm-line", next((line for line in reversed(lines) if line), ""))

    def edited(self) -> str:
        """The text in the open editor. Folded lines are not in it."""
        self.sees(".approval .cm-content")
        return "\n".join(line.rstrip("\n") for line in self.reads(".approval .cm-line"))

    def picks(self, chip: str, value: str) -> None:
        """Chooses a value in a chip's menu in the message box: agent, model, effort or mode."""
        self.clicks(f".chip.{chip} > button")
        self.clicks(f".chip.{chip} .chip-menu [data-value='{value}']")

    def commands(self, text: str, first: str) -> None:
        """Types into the command palette until ``first`` is selected, and chooses it."""
        self.presses("Control+k")
        self.sees(".palette input:focus")
        self("type", text=text)
        self.sees(".palette [aria-selected=true]", first)
        self.presses("Enter")

    def readies_keys(self) -> None:
        """Leaves the prompt box; returns once keys are for the current approval."""
        self.presses("Escape")
        self.sees(".approval.keyed")

    def complaints(self) -> list[str]:
        """What the browser has complained about since the last call."""
        found: list[str] = self("complaints")
        return found
