"""Numbers with their units, as text for the user. Does no I/O."""

from __future__ import annotations


def counted(number: float, unit: str) -> str:
    """A number with its unit, such as "1 second", "0.5 seconds" or "2,000 files". ``unit``: a singular noun with a
    plural that only adds an "s"."""
    figure = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{figure} {unit}" if number == 1 else f"{figure} {unit}s"


def size(count: int) -> str:
    """A number of bytes, in kB (rounded up) or MB."""
    return f"{-(-count // 1000)} kB" if count < 1_000_000 else f"{count / 1e6:.1f} MB"
