"""What a setting is."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["text", "number", "amount", "switch", "list", "choice"]


class Setting(NamedTuple):
    """``kind`` "list": the flag is given several times, in the environment its values are joined by ``os.pathsep``.

    A "switch" whose name begins with ``no_`` in the flag form (``flag``) turns its setting off.
    """

    name: str
    kind: Kind
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    flag: str | None = None
    range: tuple[float, float] | None = None
    """Of a number, or of an amount (which may have a fraction)."""
    pattern: str | None = None
    """Of a text or of each item of a list: what it has to look like; ``metavar`` says it to people."""


LEVELS: Final = ("debug", "info", "warning", "error")
