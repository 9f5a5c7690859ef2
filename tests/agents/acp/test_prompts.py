"""How files that are attached to a prompt are sent to an ACP agent."""

from __future__ import annotations

import pytest

from drawbridge.agents.acp import prompts
from drawbridge.agents.attached import EMBEDDED, LARGEST
from drawbridge.agents.base import Attachment
from drawbridge.core.errors import BadArgument

IMAGES = {"image": True}


def image(number: int, path: str | None) -> Attachment:
    return Attachment("image/png", b"\x89" * LARGEST, f"{number}.png", path)


def test_images_beyond_the_limit_are_sent_as_paths() -> None:
    images = tuple(image(number, f"/files/{number}.png") for number in range(4))
    *blocks, text = prompts.content("Compare them.", images, IMAGES)
    assert [block["type"] for block in blocks] == ["image"] * (EMBEDDED // LARGEST)
    assert text["text"] == (
        "Compare them.\n\nAttached file: /files/2.png (10.0 MB)\nAttached file: /files/3.png (10.0 MB)"
    )


def test_an_image_that_is_not_stored_is_always_embedded() -> None:
    images = tuple(image(number, None) for number in range(3))
    assert [block["type"] for block in prompts.content("Compare them.", images, IMAGES)] == ["image"] * 3 + ["text"]


def test_an_image_that_can_be_neither_sent_nor_read_is_refused() -> None:
    with pytest.raises(BadArgument, match=r"0\.png"):
        prompts.content("Look at it.", (image(0, None),), {})
