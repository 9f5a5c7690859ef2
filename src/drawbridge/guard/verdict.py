"""A file that an agent wants to change has unsaved changes, or an editor did not answer: what now, and who is told.
Off the hot path.
"""

from __future__ import annotations

from drawbridge.guard import ask, calls, refusal, rule, state
from drawbridge.guard.kept import Kept, kept_by, notify, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from drawbridge.guard.settings import Settings


def give(
    call: calls.Call,
    answers: list[ask.Answer],
    policy: str,
    settings: Settings,
    environ: Mapping[bytes, bytes],
) -> bytes:
    """The answer to the agent. ``answers`` are those to ``snapshot``."""
    kept = kept_by(answers, policy)
    silent = log_silent(call, answers, f"unknown = {settings['unknown']}", settings, environ)
    unknown = settings["unknown"] if silent else "allow"
    if kept and (unknown != "deny" or settings["answer"] == "deny"):
        answer, goes_on = _keep(call, answers, kept, settings, environ)
        if unknown == "allow" or not goes_on:
            return answer
    if unknown == "allow":
        return calls.NO_OPINION
    asked = unknown == "ask" and call.dialect.ASKS
    shows_it = {process(found): (found.path, found.kind) for found in answers if rule.files(found)}
    notify(shows_it.values(), refusal.notice_of_unknown(call, asked=asked))
    return (calls.ask if asked else calls.deny)(call, refusal.unknown(call, silent))


def _keep(
    call: calls.Call,
    answers: list[ask.Answer],
    kept: list[Kept],
    settings: Settings,
    environ: Mapping[bytes, bytes],
) -> tuple[bytes, bool]:
    """The answer, and whether it lets the call go on."""
    why = ""
    if settings["answer"] == "merge":
        from drawbridge.guard import merging

        if merging.begin(call, kept, environ):
            return calls.NO_OPINION, True
        # What can't be merged is kept as without merging: where the policy looks, and nowhere else.
        kept = kept_by(answers, rule.policy_for(call.tool, settings))
        if not kept:
            return calls.NO_OPINION, True
        why = "A merge afterwards is not possible here."
    elif settings["answer"] in ("wait", "save"):
        from drawbridge.guard import saving

        saved, why = saving.first(call, kept, settings)
        if saved:
            # That took its time: somebody may have typed on, there or in another editor.
            heard = [(found.path, found.kind) for found in answers if found.result is not None]
            answers = rule.snapshot(heard, call.paths, settings)
            kept = kept_by(answers, rule.policy_for(call.tool, settings))
            if not kept:
                return calls.tell(call, saved), True
            why = "This was typed after a save."
    state.log(settings, environ, f"{call.tool}: kept {', '.join(one.name for one in kept)} ({settings['answer']})")
    asked = settings["answer"] == "ask" and call.dialect.ASKS
    tell_editors(answers, kept, refusal.notice(call, kept, asked=asked))
    reason = refusal.reason(call, kept, refusal.shown_difference(kept, settings), why)
    return (calls.ask(call, reason) if asked else calls.deny(call, reason)), False


def log_silent(
    call: calls.Call,
    answers: list[ask.Answer],
    then: str,
    settings: Settings,
    environ: Mapping[bytes, bytes],
) -> int:
    """How many editors have not answered; why each has not is logged, and what happens ``then``."""
    silent = [found for found in answers if found.result is None]
    for found in silent:
        state.log(settings, environ, f"{call.tool}: {found.path} {found.problem} ({then})")
    return len(silent)


def tell_editors(answers: list[ask.Answer], kept: list[Kept], text: str) -> None:
    """A notice, once in every editor that has one of the files open; each may call it by another name."""
    names = {one.name for one in kept}
    heard = [found for found in answers if found.result is not None]
    meant = {
        number
        for found in heard
        for number, file in enumerate(found.result["files"])
        if file is not None and file["name"] in names
    }
    sockets = {
        process(found): (found.path, found.kind)
        for found in heard
        if any(found.result["files"][number] is not None for number in meant)
    }
    notify(sockets.values(), text)
