"""JSON that another program wrote, or that a file contains."""

from __future__ import annotations

from typing import Final

import msgspec

UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The exceptions that ``msgspec.json.decode`` raises for such a text: it is not valid JSON or has another shape, it is
not UTF-8, or it is nested too deeply."""
