"""The directory of a server's data. Commands that only need the directory import this module, because ``plan`` imports
most of the server."""

from __future__ import annotations

from pathlib import Path

import platformdirs

from drawbridge.settings.serve import ServeSettings


def data_directory(settings: ServeSettings) -> Path:
    return Path(settings.data_dir or platformdirs.user_data_dir("drawbridge", appauthor=False)).absolute()
