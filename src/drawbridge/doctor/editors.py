"""Checks of the editors: whether each one answers the guard within the guard's deadline, and whether the guard finds
all of them."""

from __future__ import annotations

import os

from drawbridge import settings
from drawbridge.core.own_command import own_command
from drawbridge.doctor.finding import Check, Finding, finding
from drawbridge.info import editors
from drawbridge.settings.hook import HookSettings
from drawbridge.text.counts import counted


def checks(directory: str) -> list[Check]:
    return [Check("the editors", lambda: check(directory))]


def check(directory: str) -> list[Finding]:
    guard = settings.load("hook", HookSettings, {})
    sockets, running = editors.inspect(directory, guard.socket_dir, guard.deadline)
    found = []
    for editor in running:
        found.append(finding("editor-works", f"{editor.name} (pid {editor.pid}) answers the guard."))
    for socket in sockets:
        if socket.state == "silent":
            title = f"The editor at {socket.path} {socket.problem}."
            why = "The guard can't know whether it has unsaved changes, so agents may overwrite them."
            todo = "Answer the prompt that it shows. If it shows none, restart that editor."
            found.append(finding("editor-silent", title, why, todo))
    if unseen := editors.unseen(guard.socket_dir):
        place = os.path.dirname(unseen[0])
        title = f"The guard does not look in {place}, where it would find {counted(len(unseen), 'more editor')}."
        todo = f"{editors.how_to_see(place, guard.socket_dir)}, then run `{own_command()} setup` again for each agent."
        why = "Their unsaved changes are not protected."
        found.append(finding("editor-unseen", title, why, todo))
    return found
