"""The line at the bottom with the keys that work now."""

from __future__ import annotations

from textual.screen import Screen
from textual.widgets import Footer


class KeyHints(Footer):
    """Textual's footer, except that it is built again only when one of its keys has changed. Building it takes longer than
    everything else that most keys change, and Textual does so whenever the focus moves or the screen asks for a check.
    """

    def __init__(self) -> None:
        super().__init__(show_command_palette=False)
        self._drawn: list[tuple[str, str, bool]] | None = None
        """The key, the description and whether it is enabled, of each one that was shown last."""

    def bindings_changed(self, screen: Screen[object]) -> None:
        if not (screen.app.app_focus and self.is_attached and screen is self.screen):
            super().bindings_changed(screen)
            return
        active = [one for one in screen.active_bindings.values() if one.binding.show]
        keys = [(one.binding.key, one.binding.description, one.enabled) for one in active]
        if keys != self._drawn:
            self._drawn = keys
            super().bindings_changed(screen)
