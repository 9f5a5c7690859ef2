"""A message that is too large for the wire, made smaller: same shape, long texts cut, long lists shortened. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

CUT: Final = "…"
_TEXTS: Final = (4_000, 400, 40)
_ITEMS: Final = (200, 20, 5)
_DEPTHS: Final = (20, 8, 4)


def shortened(data: bytes, limit: int) -> bytes:
    """JSON of at most ``limit`` bytes that shows what ``data`` contains; ``data`` itself if it is small enough.

    A text that was cut ends in "…". Where nothing helps, `{"preview": "…"}` with the first bytes.
    """
    if len(data) <= limit:
        return data
    try:
        whole = msgspec.json.decode(data)
        for text, items, depth in zip(_TEXTS, _ITEMS, _DEPTHS, strict=True):
            smaller = msgspec.json.encode(_cut(whole, text, items, depth))
            if len(smaller) <= limit:
                return smaller
    except (msgspec.DecodeError, RecursionError):
        pass
    return msgspec.json.encode({"preview": data[: limit // 8].decode(errors="replace") + CUT})


def _cut(value: Any, text: int, items: int, depth: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= text else value[:text] + CUT
    if isinstance(value, dict):
        kept = list(value.items())[:items] if depth else []
        return {key[:text]: _cut(item, text, items, depth - 1) for key, item in kept}
    if isinstance(value, list):
        return [_cut(item, text, items, depth - 1) for item in value[:items]] if depth else []
    return value
