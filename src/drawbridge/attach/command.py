"""``drawbridge attach``: finds the server, says what stands in the way, and opens the window."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Any

from drawbridge.attach.app import AttachApp
from drawbridge.attach.client import Client
from drawbridge.attach.colours import Palette, of_terminal
from drawbridge.attach.place import Finder
from drawbridge.errors import BadSetting


def run(project: str | None, values: Mapping[str, Any]) -> int:
    """Blocks until the person leaves; the exit code. ``project``: its name, path or id."""
    finder = Finder(values["url"], values["token_file"], values["ca"], values["fingerprint"])
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadSetting("This is for a person at a terminal, and there is none here. Nothing was done.")
    directory = os.path.realpath(project or "")
    asyncio.run(attach(finder, project, directory, of_terminal()))
    return 0


async def attach(finder: Finder, project: str | None, directory: str, palette: Palette) -> None:
    """Raises what the person has to know before anything is drawn."""
    client = Client(finder.find)
    chosen = await begin(client, project, directory)
    await AttachApp(client, palette, chosen).run_async()


async def begin(client: Client, project: str | None, directory: str) -> str | None:
    """The first connection, and the id of the project that is meant. Raises ``NoServer`` or ``BadSetting``."""
    await client.connection.open()
    if project is None:
        return None
    client.projects.take(await client.connection.first("project_list"))
    found = client.projects.named(project, directory)
    if len(found) == 1:
        return str(found[0]["id"])
    await client.connection.close()
    names = ", ".join(one["path"] for one in found or client.projects.sorted()[:10])
    if found:
        raise BadSetting(f"More than one project is called {project}: {names}. Nothing was done; name one by its path.")
    there = f"there are {names}" if names else "there is none yet"
    raise BadSetting(f"The server has no project {project}: {there}. Nothing was done; a project is added on the page.")
