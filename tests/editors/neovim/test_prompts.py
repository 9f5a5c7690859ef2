"""A prompt that Neovim pastes into an agent's terminal is removed again if Neovim can't send it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from drawbridge.core.errors import Refused
from drawbridge.editors.neovim.neovim import Neovim
from drawbridge.editors.neovim.rpc import Session

TOO_LATE = "Neovim was busy for too long, so your prompt was not sent. Try again later."


class Plugin:
    """Answers like the Lua plugin in a Neovim that is too busy to press Enter in time."""

    def __init__(self) -> None:
        self.called: list[str] = []

    async def lua(self, method: str, given: dict[str, Any]) -> dict[str, Any]:
        self.called.append(method)
        if method == "submit":
            return {"ok": False, "code": "REFUSED", "message": TOO_LATE}
        return {"ok": True}


async def test_a_prompt_that_is_not_sent_in_time_is_removed() -> None:
    plugin = Plugin()
    editor = Neovim(cast(Session, plugin))
    with pytest.raises(Refused, match="busy for too long"):
        await editor.type_prompt(4711, "Do it")
    assert plugin.called == ["paste", "submit", "take_back"]
