"""The hook calls that the guard answers, except calls before an edit: before reads and commands, after edits and
commands, at prompts and session starts, and after a change of the working directory or of a watched file.
"""

from drawbridge.guard import calls, rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from drawbridge.guard.settings import Settings

    Sockets = list[tuple[str, str]]


def answer(call: "calls.Call", sockets: "Sockets", settings: "Settings", environ: "Mapping[bytes, bytes]") -> bytes:
    """The JSON text for the agent. ``sockets``: path and kind of each editor socket."""
    if call.event == calls.BEFORE:
        if call.kind == calls.READ:
            return _before_read(call, sockets, settings)
        return _before_shell(call, sockets, settings, environ)
    if call.event in (calls.AFTER, calls.FAILED, calls.CHANGED):
        if call.kind == calls.READ:
            return calls.NO_OPINION
        from drawbridge.guard import after

        return after.answer(call, sockets, settings, environ)
    from drawbridge.guard import prompt

    if call.event == calls.PROMPT:
        return prompt.answer(call, sockets, settings)
    return prompt.start(call, sockets, settings)


def _before_read(call: "calls.Call", sockets: "Sockets", settings: "Settings") -> bytes:
    for found in rule.snapshot(sockets, call.paths, settings):
        for file in rule.files(found):
            if file.get("modified"):
                from drawbridge.guard.unsaved import editor_name

                return calls.add_context(
                    call,
                    f"{file['name']} has unsaved changes in {editor_name(found)}. What was read is the older version "
                    "on disk.",
                )
    return calls.NO_OPINION


def _before_shell(
    call: "calls.Call", sockets: "Sockets", settings: "Settings", environ: "Mapping[bytes, bytes]"
) -> bytes:
    answers = rule.snapshot(sockets, [], settings, want=["unsaved"])
    if any(found.result is None for found in answers):
        from drawbridge.guard import protect

        # The silent editor may have any file open, but users stop reading a dialog that appears for every command.
        protect.log_silent(call, answers, "commands are allowed", settings, environ)
    policy = rule.policy_for(call.tool, settings)
    unsaved = [(found, file) for found in answers for file in rule.unsaved_files(found) if rule.protects(file, policy)]
    if not unsaved:
        return calls.NO_OPINION
    from drawbridge.guard import protect, refusal, shell, state
    from drawbridge.guard.unsaved import UnsavedFile, once

    names = shell.named(call.command, call.cwd, [file["name"] for _, file in unsaved])
    if not names:
        return calls.NO_OPINION
    protected = once(UnsavedFile(found, file) for found, file in unsaved if file["name"] in names)
    asked = call.dialect.ASKS
    state.log(settings, environ, f"{call.tool}: the command names {', '.join(names)}; {'asked' if asked else 'denied'}")
    shown_in = rule.snapshot(sockets, [one.name for one in protected], settings)
    protect.notify_editors(shown_in, protected, refusal.notice(call, protected, asked=asked))
    return calls.ask(call, refusal.reason(call, protected, ""))
