"""A mapping that remembers the latest only. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

REMEMBERED = 100


class Latest(OrderedDict[Key, Value]):
    """The ``REMEMBERED`` keys that came last; the oldest give way."""

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > REMEMBERED:
            self.popitem(last=False)
