"""The line at the bottom with the keys that work now."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Footer


class KeyHints(Footer):
    """Textual's footer, except that it is built again only when one of its keys has changed. Textual itself builds it
    whenever the focus moves or the screen asks for a check. For most keys, that takes longer than everything else.
    """

    def __init__(self) -> None:
        super().__init__(show_command_palette=False)
        self._built: list[tuple[str, str, bool]] | None = None
        """The keys, as ``_keys`` returned them when the line was built; None before that."""

    def compose(self) -> ComposeResult:
        self._built = _keys(self.screen) if self._bindings_ready else None
        yield from super().compose()

    def bindings_changed(self, screen: Screen[object]) -> None:
        if self._built is None or self._built != _keys(screen):
            super().bindings_changed(screen)


def _keys(screen: Screen[object]) -> list[tuple[str, str, bool]]:
    """For each key that is shown: the key, its description, and whether it is enabled."""
    active = [one for one in screen.active_bindings.values() if one.binding.show]
    return [(one.binding.key, one.binding.description, one.enabled) for one in active]
