"""Handles a write: reloads buffers without unsaved changes, merges the change into the others or leaves their text
alone, and informs the agent."""

from __future__ import annotations

import os
import time

from drawbridge.agents.catalog import title
from drawbridge.guard import ask, calls, find, rule, state
from drawbridge.guard.unsaved import UnsavedFile, base_names, entries, notify, once, privacy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    Sockets = list[tuple[str, str]]
    from drawbridge.guard.settings import Settings

REFRESH_TIMEOUT = 2_000
"""The deadline for a busy editor, in milliseconds. The file has already been written, so only the agent's next step
waits for this."""

DIAGNOSTICS_SECONDS = 0.5
DIAGNOSTICS_EVERY = 0.04
MOST_DIAGNOSTICS = 40
MOST_ANCESTORS = 6


def answer(call: calls.Call, sockets: Sockets, settings: Settings, environ: Mapping[bytes, bytes]) -> bytes:
    """Reloads, in the editors, the files that an edit wrote or, after another call, every open file that has
    changed on disk. A change that was already reported to the agent is reported again only after an edit of that file.
    Returns the JSON text for the agent.
    """
    copies = _copies(environ)
    common: dict[str, Any] = {"backups": copies} if copies else {}
    if call.event == calls.CHANGED:
        # The answer to this event can't inform the agent, and the command that changed the file may still be running.
        common["watched"] = True
    left: list[UnsavedFile] = []
    replaced = False
    for where in [{"file_path": path} for path in call.paths] if call.kind == calls.EDIT else [{}]:
        answers = ask.ask(sockets, "refresh_buffer", where | common, settings["deadline"], REFRESH_TIMEOUT)
        replaced = replaced or any(entries(found, "reloaded") for found in answers)
        left += [UnsavedFile(found, file) for found in answers for file in entries(found, "kept") if rule.is_file(file)]
        # An editor that did not respond is not asked again, because it has already used up its deadline.
        sockets = [(found.path, found.kind) for found in answers if found.result is not None]
    texts = list(_about_unsaved(call, once(left), settings, environ))
    if settings["diagnostics"] and call.event == calls.AFTER and call.kind == calls.EDIT:
        texts += _about_diagnostics(call, sockets, settings)
    if replaced and copies:
        from drawbridge.guard.copies import prune

        prune(copies)
    return calls.add_context(call, "\n\n".join(texts))


def _copies(environ: Mapping[bytes, bytes]) -> str:
    try:
        return state.directory(environ, "guard", "copies")
    except OSError:
        return ""


def _about_unsaved(
    call: calls.Call, left: list[UnsavedFile], settings: Settings, environ: Mapping[bytes, bytes]
) -> Iterator[str]:
    """Handles the files with buffers that were not reloaded: merges an edit if the settings require that, notifies the
    user, and yields what the agent should know."""
    if not left:
        return
    edited = call.kind == calls.EDIT and call.event == calls.AFTER
    if merges := edited and settings["answer"] == "merge":
        from drawbridge.guard import merging
    agent = title(call.agent)
    hidden = privacy(settings)
    for one in left:
        name, problem = base_names([one.name]), one.file.get("reason")
        changed = f"{agent} changed {name} on disk" if edited else f"{name} changed on disk"
        if problem:
            state.log(settings, environ, f"{call.event_name}: {one.name} changed on disk, not shown: {problem}")
            if one.file.get("notified") and not edited:
                continue
            notify([one.socket], f"{changed}, but it can't be reloaded: {problem}")
            continue
        why = merging.finish(call, one, environ) if merges else ""
        if why is None:
            undo = "u undoes it" if one.found.kind == find.NEOVIM else "Undo reverts it"
            notify([one.socket], f"{agent}'s change to {name} was merged into yours: {undo}")
            yield (
                f"{one.name} had unsaved changes in {one.editor}. This change was merged into them in the editor; the "
                "user has not saved yet."
            )
            continue
        reason = f" The change could not be merged: {why}." if why else ""
        state.log(settings, environ, f"{call.event_name}: {one.name} changed on disk, unsaved in {one.editor}.{reason}")
        text = f"{agent}'s change to {name} can't be merged" if why else changed
        if edited or not one.file.get("notified"):
            notify([one.socket], f"{text}; your text was not touched")
        if edited or not hidden.hides(one.name):
            yield (
                f"{one.name} {'is on disk as you wrote it' if edited else 'has changed on disk'}, but has unsaved changes in "
                f"{one.editor}, which were not touched.{reason} If the user saves the file in the editor, the "
                "editor's text replaces the text on disk; the user has been notified."
            ) + _difference(one, settings, why)
    if merges:
        for one in left:
            merging.forget(call, one.name, environ)


def _difference(one: UnsavedFile, settings: Settings, why: str) -> str:
    """A diff of the two texts, if they could not be merged (``why``: the reason), so that the agent can merge them by
    hand. "" if no merge was attempted, or if no diff can be shown."""
    if not why:
        return ""
    from drawbridge.guard.refusal import shown_difference

    shown = shown_difference([one], settings)
    return f"\n\n{shown}" if shown else ""


def _about_diagnostics(call: calls.Call, sockets: Sockets, settings: Settings) -> list[str]:
    until = time.monotonic() + DIAGNOSTICS_SECONDS
    lines: list[str] = []
    for path in call.paths:
        while True:
            left = int((until - time.monotonic()) * 1000)
            answers = ask.ask(sockets, "diagnostics", {"file_path": path}, max(min(left, settings["deadline"]), 20))
            new = [_line(path, problem) for found in answers for problem in entries(found, "new")]
            pending = any(isinstance(found.result, dict) and found.result.get("pending") for found in answers)
            if new or left <= 0 or not pending:
                break
            time.sleep(DIAGNOSTICS_EVERY)
        lines += dict.fromkeys(new)
    if not lines or connected_to(rule.snapshot(sockets, [], settings, want=["connected"])):
        return []  # an agent that is connected to an editor as an IDE receives them from there
    if len(lines) > MOST_DIAGNOSTICS:
        lines[MOST_DIAGNOSTICS:] = [f"and {len(lines) - MOST_DIAGNOSTICS} more"]
    return ["New diagnostics since this edit:\n" + "\n".join(lines)]


def _line(path: str, problem: Mapping[str, Any]) -> str:
    source = f" [{problem['source']}]" if problem.get("source") else ""
    message = " ".join(str(problem.get("message")).split())
    return f"{path}:{problem.get('line')}: {problem.get('severity')}: {message[:500]}{source}"


def connected_to(answers: list[ask.Answer]) -> list[ask.Answer]:
    """The answers of the editors with a bridge that serves the agent that called this hook, an ancestor of this
    process."""
    above = set(_ancestors())
    return [found for found in answers if any(pid in above for pid in _connected(found))]


def _connected(found: ask.Answer) -> list[int]:
    return [pid for pid in found.result.get("connected", ()) if isinstance(pid, int)] if found.result else []


def _ancestors() -> Iterator[int]:
    pid = os.getppid()
    for _ in range(MOST_ANCESTORS):
        if pid <= 1:
            return
        yield pid
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                pid = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return
