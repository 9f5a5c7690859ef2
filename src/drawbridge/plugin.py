"""Where our own copy of the Neovim plugin lies."""

from __future__ import annotations

from pathlib import Path


def directory() -> Path:
    """What holds ``lua/`` and ``plugin/``: beside this package in a wheel, the repository's root in a checkout."""
    package = Path(__file__).parent
    installed = package / "runtime"
    return installed if installed.is_dir() else package.parent.parent
