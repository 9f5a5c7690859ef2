"""Finds Drawbridge's own copy of the Neovim plugin."""

from __future__ import annotations

from pathlib import Path


def directory() -> Path:
    """The directory that contains ``lua/`` and ``plugin/``: part of this package if it was installed from a wheel, the
    repository's root in a checkout."""
    package = Path(__file__).parent.parent
    installed = package / "runtime"
    return installed if installed.is_dir() else package.parent.parent
