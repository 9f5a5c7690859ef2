"""The texts of a denial, for the agent and the editor: facts and a way out, never instructions. Models treat
instructions from a hook as prompt injection.
"""

from __future__ import annotations

from time import monotonic

from drawbridge.agents.catalog import title
from drawbridge.guard.calls import BEFORE, SHELL
from drawbridge.guard.unsaved import base_names, buffer_text, disk_text, privacy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drawbridge.guard.calls import Call
    from drawbridge.guard.settings import Settings
    from drawbridge.guard.unsaved import UnsavedFile

LARGEST_DIFFERENCE = 4_000
"""The maximum length of the diffs, in characters. Claude Code moves an answer of more than 10,000 to a file."""

DIFFERENCE_SECONDS = 1.0
"""Seconds after which no further file is compared, because a denial that arrives too late has no effect."""

MOST_NAMED = 8


def reason(call: Call, protected: Sequence[UnsavedFile], difference: str, why: str = "") -> str:
    """The reason that the agent receives. If the agent asks in its own dialog, the dialog shows the reason to the
    user.
    """
    several = len({one.name for one in protected}) > 1
    lines = [f"{_where(one)}." for one in protected[:MOST_NAMED]]
    if len(protected) > MOST_NAMED:
        more = len(protected) - MOST_NAMED
        lines.append(f"{more} more {'file has' if more == 1 else 'files have'} unsaved changes too.")
    if call.event == BEFORE and call.kind == SHELL:
        lines.append(f"This command names {'them' if several else 'it'}; nothing was run.")
    else:
        lines.append("Nothing was written.")
    if why:
        lines.append(why)
    lines.append(
        f"The user has been notified. Once they have saved {base_names(one.name for one in protected)}, the same call "
        f"goes through; until then, writing {'these files' if several else 'the file'} in any other way would lose "
        "some of their work."
    )
    return " ".join(lines) + (f"\n\n{difference}" if difference else "")


def _where(one: UnsavedFile) -> str:
    place = "the user is working on it" if one.file.get("current") else "it is open"
    count = one.file.get("lines")
    size = f"; the unsaved version has {count} line{'' if count == 1 else 's'}" if isinstance(count, int) else ""
    return f"{one.name} has unsaved changes in {one.editor}, where {place}{size}"


def unknown(call: Call, count: int) -> str:
    who = "an editor" if count == 1 else f"{count} editors"
    names = base_names(call.paths)
    have = "has" if len(set(call.paths)) == 1 else "have"
    return (
        f"Drawbridge could not find out in time whether {names} {have} unsaved changes: {who} on this machine did not "
        "answer. Nothing was written. The user may have to answer a prompt in the editor; then the same call can be "
        "tried again."
    )


def notice(call: Call, protected: Sequence[UnsavedFile], *, asked: bool) -> str:
    """The notice for the editor: one line, kept short because Neovim shows only 67 columns of it on a terminal with
    80."""
    what = base_names(one.name for one in protected)
    have, them = ("has", "it") if len({one.name for one in protected}) == 1 else ("have", "them")
    if call.kind == SHELL:  # a command names the file, but does not necessarily change it
        if asked:
            return f"{title(call.agent)} asks to run a command on {what} (unsaved)"
        return f"{title(call.agent)} can't run a command on {what} until you save {them}"
    if asked:
        return f"{title(call.agent)} asks to change {what}, which {have} unsaved changes"
    return f"{title(call.agent)} can't change {what} until you save {them}"


def notice_of_unknown(call: Call, *, asked: bool) -> str:
    """The notice for the editors that have the file open: why the agent can't change it, or asks first."""
    what = base_names(call.paths)
    if asked:
        return f"{title(call.agent)} asks to change {what}: another editor did not answer"
    return f"{title(call.agent)} can't change {what}: another editor did not answer"


def shown_difference(protected: Sequence[UnsavedFile], settings: Settings) -> str:
    """The unsaved changes as unified diffs, cut at ``LARGEST_DIFFERENCE`` characters. Files that are hidden from agents
    or can't be read in time are left out; "" if nothing remains."""
    hidden, whole, until = privacy(settings), "", monotonic() + DIFFERENCE_SECONDS
    for one in protected:
        if len(whole) <= LARGEST_DIFFERENCE and monotonic() < until and not hidden.hides(one.name):
            whole = "\n".join(filter(None, [whole, _difference(one)]))
    if len(whole) <= LARGEST_DIFFERENCE:
        return whole
    cut = whole[:LARGEST_DIFFERENCE].rpartition("\n")[0]
    return f"{cut}\n({len(whole) - len(cut)} more characters of this diff are left out)"


def _difference(one: UnsavedFile) -> str:
    unsaved = buffer_text(one)
    saved = disk_text(one.name)
    if unsaved is None or saved is None:
        return ""
    from drawbridge import text
    from drawbridge.text import hunks

    old, _ = text.split(saved)
    new, _ = text.split(unsaved[0])
    found = hunks.diff(old, new)
    if not found:
        return ""
    changed = sum(max(hunk.old_count, hunk.new_count) for hunk in found)
    head = [
        f"The unsaved changes ({changed} line{'' if changed == 1 else 's'}):",
        f"--- {one.name} (on disk)",
        f"+++ {one.name} (in {one.editor}, unsaved)",
    ]
    marks = {"header": "", "context": " ", "removed": "-", "added": "+"}
    return "\n".join([*head, *(marks[row.kind] + row.text for row in hunks.unified(old, new, found))])
