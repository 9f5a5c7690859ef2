"""A mapping that keeps only the latest keys. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

REMEMBERED = 100


class Latest(OrderedDict[Key, Value]):
    """Keeps the ``REMEMBERED`` latest keys; the oldest are removed."""

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > REMEMBERED:
            self.popitem(last=False)
