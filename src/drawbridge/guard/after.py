"""After a write: clean buffers show what is on disk now, unsaved ones are left alone or merged, and the agent hears
what it should know.
"""

from __future__ import annotations

import time

from drawbridge.guard import agents, ask, kept, rule, state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    Sockets = list[tuple[str, str]]

REFRESH_PATIENCE = 2_000
"""Milliseconds for an editor at work: the write has happened already, nobody waits for this but the agent's next step."""

DIAGNOSTICS_SECONDS = 0.5
DIAGNOSTICS_EVERY = 0.04
MOST_ANCESTORS = 6


def answer(call: agents.Call, sockets: Sockets, settings: Mapping[str, Any], environ: Mapping[bytes, bytes]) -> bytes:
    """``paths`` of the call are read anew; of a command, whatever open file has changed on disk."""
    copies = _copies(environ)
    left: list[kept.Kept] = []
    for path in call.paths or [""]:
        params = ({"file_path": path} if path else {}) | ({"backups": copies} if copies else {})
        answers = ask.ask(sockets, "refresh_buffer", params, settings["deadline"], REFRESH_PATIENCE)
        sockets = [
            (found.path, found.kind) for found in answers if found.result is not None
        ]  # the others cost time once
        left += [kept.Kept(found, file) for found in answers for file in _kept(found)]
    texts = list(_about_unsaved(call, kept.once(left), settings, environ))
    if settings["diagnostics"] and call.event == agents.AFTER and call.kind == agents.EDIT:
        texts += _about_diagnostics(call, sockets, settings)
    if copies:
        from drawbridge.guard.copies import prune

        prune(copies)
    return agents.tell(call, "\n\n".join(texts))


def _copies(environ: Mapping[bytes, bytes]) -> str:
    try:
        return state.directory(environ, "guard", "copies")
    except OSError:
        return ""


def _kept(found: ask.Answer) -> list[dict[str, Any]]:
    listed = found.result.get("kept") if isinstance(found.result, dict) else None
    return [file for file in listed or () if isinstance(file, dict) and isinstance(file.get("name"), str)]


def _about_unsaved(
    call: agents.Call, left: list[kept.Kept], settings: Mapping[str, Any], environ: Mapping[bytes, bytes]
) -> Iterator[str]:
    merges = settings["answer"] == "merge" and call.kind == agents.EDIT and call.event == agents.AFTER
    agent = agents.NAMES[call.agent]
    for one in left:
        name = kept.base_names([one.name])
        if merges:
            from drawbridge.guard import merging

            why = merging.finish(call, one, environ)
            if why is None:
                _tell(
                    one,
                    f"{agent}'s change of {name} was merged into your unsaved text: u takes it back",
                )
                yield (
                    f"{one.name} had unsaved changes in {one.editor}. This change was merged into them there; the person has "
                    "not saved yet."
                )
                continue
            reason = f" A merge was not possible: {why}."
        else:
            reason = ""
        state.log(settings, environ, f"{call.event_name}: {one.name} changed on disk, unsaved in {one.editor};{reason}")
        _tell(one, f"{name} has changed on disk ({agent}); your unsaved text was not touched")
        yield (
            f"{one.name} is on disk as written, but has unsaved changes in {one.editor}, which were not touched.{reason} "
            "If the person saves there, that text replaces this one; they have been told."
        )
    if merges:
        merging.forget(call, [one.name for one in left], environ)


def _tell(one: kept.Kept, message: str) -> None:
    ask.ask([one.socket], "send_message", {"message": message, "file_path": one.name}, 100)


def _about_diagnostics(call: agents.Call, sockets: Sockets, settings: Mapping[str, Any]) -> list[str]:
    until = time.monotonic() + DIAGNOSTICS_SECONDS
    found: dict[str, list[dict[str, Any]]] = {}
    for path in call.paths:
        while True:
            left = int((until - time.monotonic()) * 1000)
            answers = ask.ask(sockets, "diagnostics", {"file_path": path}, max(min(left, settings["deadline"]), 20))
            results = [answer.result for answer in answers if isinstance(answer.result, dict)]
            found[path] = [one for result in results for one in result.get("new") or () if isinstance(one, dict)]
            if found[path] or left <= 0 or not any(result.get("pending") for result in results):
                break
            time.sleep(DIAGNOSTICS_EVERY)
    new = {path: problems for path, problems in found.items() if problems}
    if not new or ide_tells(sockets, settings):
        return []
    return [
        "New diagnostics since this edit:\n"
        + "\n".join(
            line
            for path, problems in new.items()
            for line in dict.fromkeys(_line(path, problem) for problem in problems)
        )
    ]


def _line(path: str, problem: Mapping[str, Any]) -> str:
    source = f" [{problem['source']}]" if problem.get("source") else ""
    message = " ".join(str(problem.get("message")).split())
    return f"{path}:{problem.get('line')}: {problem.get('severity')}: {message[:500]}{source}"


def ide_tells(sockets: Sockets, settings: Mapping[str, Any]) -> bool:
    """Whether this agent is connected to one of the editors as an IDE, which tells it such things by itself."""
    return bool(connected_to(rule.snapshot(sockets, [], settings, want=["connected"])))


def connected_to(answers: list[ask.Answer]) -> list[ask.Answer]:
    """Those editors whose bridge serves the agent that called this hook: one of this process's ancestors."""
    above = set(_ancestors())
    return [found for found in answers if any(pid in above for pid in _connected(found))]


def _connected(found: ask.Answer) -> list[int]:
    return [pid for pid in found.result.get("connected", ()) if isinstance(pid, int)] if found.result else []


def _ancestors() -> Iterator[int]:
    import os

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
