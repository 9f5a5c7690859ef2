"""``drawbridge ide``: makes one editor an IDE for coding agents."""

from __future__ import annotations

import argparse
from typing import Final

from drawbridge import settings
from drawbridge.core.errors import BadSetting
from drawbridge.settings.ide import IdeSettings

SUMMARY: Final = "let coding agents connect to a running editor, or to a directory without an editor"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    settings.add_flags(parser, settings.of(IdeSettings))


def run(chosen: argparse.Namespace) -> int:
    ours = settings.load("ide", IdeSettings, vars(chosen))
    if ours.nvim is None and ours.folder is None:
        raise BadSetting("No editor or directory was given. Give either --nvim ADDRESS or --folder DIR.")
    if ours.nvim is not None and ours.folder is not None:
        raise BadSetting("--nvim and --folder can't be combined. Give only one of them.")
    if ours.decide and ours.folder is None:
        raise BadSetting("--decide requires --folder.")
    from drawbridge.ide.launch import launch

    return launch(ours)
