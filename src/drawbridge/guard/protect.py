"""The answer to an edit of a file with unsaved changes, or to any edit while an editor is silent: deny, ask, wait, save
or merge. This module is not on the hot path.
"""

from __future__ import annotations

from drawbridge.guard import ask, calls, refusal, rule, state
from drawbridge.guard.unsaved import UnsavedFile, notify, process, protected_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from drawbridge.guard.settings import Settings


def answer(
    call: calls.Call,
    answers: list[ask.Answer],
    policy: str,
    settings: Settings,
    environ: Mapping[bytes, bytes],
) -> bytes:
    """The JSON text for the agent. ``answers``: the editors' snapshots."""
    protected = protected_in(answers, policy)
    silent = log_silent(call, answers, f"unknown = {settings['unknown']}", settings, environ)
    unknown = settings["unknown"] if silent else "allow"
    if protected and (unknown != "deny" or settings["answer"] == "deny"):
        answer, allowed = _protect(call, answers, protected, settings, environ)
        if unknown == "allow" or not allowed:
            return answer
    if unknown == "allow":
        return calls.NO_OPINION
    asked = unknown == "ask" and call.dialect.ASKS
    shows_it = {process(found): (found.path, found.kind) for found in answers if rule.files(found)}
    notify(shows_it.values(), refusal.notice_of_unknown(call, asked=asked))
    return (calls.ask if asked else calls.deny)(call, refusal.unknown(call, silent))


def _protect(
    call: calls.Call,
    answers: list[ask.Answer],
    protected: list[UnsavedFile],
    settings: Settings,
    environ: Mapping[bytes, bytes],
) -> tuple[bytes, bool]:
    """The answer, and whether it allows the call."""
    why = ""
    if settings["answer"] == "merge":
        from drawbridge.guard import merging

        if merging.begin(call, protected, environ):
            return calls.NO_OPINION, True
        # Without a merge, the usual policy applies again. Until here, files that it does not cover were included too.
        protected = protected_in(answers, rule.policy_for(call.tool, settings))
        if not protected:
            return calls.NO_OPINION, True
        why = "The change can't be merged automatically."
    elif settings["answer"] in ("wait", "save"):
        from drawbridge.guard import saving

        saved, why = saving.wait_or_save(call, protected, settings)
        if saved:
            # In the meantime, the user may have typed more, there or in another editor.
            answered = [(found.path, found.kind) for found in answers if found.result is not None]
            answers = rule.snapshot(answered, call.paths, settings)
            protected = protected_in(answers, rule.policy_for(call.tool, settings))
            if not protected:
                return calls.add_context(call, saved), True
            why = "The user has made these changes in the meantime."
    state.log(
        settings, environ, f"{call.tool}: protected {', '.join(one.name for one in protected)} ({settings['answer']})"
    )
    asked = settings["answer"] == "ask" and call.dialect.ASKS
    notify_editors(answers, protected, refusal.notice(call, protected, asked=asked))
    reason = refusal.reason(call, protected, refusal.shown_difference(protected, settings), why)
    return (calls.ask(call, reason) if asked else calls.deny(call, reason)), False


def log_silent(
    call: calls.Call,
    answers: list[ask.Answer],
    then: str,
    settings: Settings,
    environ: Mapping[bytes, bytes],
) -> int:
    """Logs why each silent editor did not answer, and what happens ``then``. Returns their number."""
    silent = [found for found in answers if found.result is None]
    for found in silent:
        state.log(settings, environ, f"{call.tool}: {found.path} {found.problem} ({then})")
    return len(silent)


def notify_editors(answers: list[ask.Answer], protected: list[UnsavedFile], text: str) -> None:
    """Shows the notice once in every editor that has one of the files open, perhaps under a different path."""
    names = {one.name for one in protected}
    answered = [found for found in answers if found.result is not None]
    meant = {
        number
        for found in answered
        for number, file in enumerate(found.result["files"])
        if file is not None and file["name"] in names
    }
    sockets = {
        process(found): (found.path, found.kind)
        for found in answered
        if any(found.result["files"][number] is not None for number in meant)
    }
    notify(sockets.values(), text)
