"""Puts the built page into the wheel and the sdist; from a checkout it is built first (tools/page.py)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

EDITABLE = "editable"
"""The version of a wheel that only refers to the checkout: `make serve` builds the page there."""


class PageHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        # An sdist contains the page, and not what builds it: whoever installs from it needs no Node.js.
        if version == EDITABLE or not (root / "web").is_dir():
            return
        _builder(root).build()

    def dependencies(self) -> list[str]:
        """What the build needs beside hatchling."""
        root = Path(self.root)
        if not (root / "web").is_dir():
            return []
        builder = _builder(root)
        return [] if builder.has_node() or builder.is_built() else [builder.NODE_PACKAGE]


def _builder(root: Path) -> Any:
    sys.path.insert(0, str(root / "tools"))
    import page

    return page
