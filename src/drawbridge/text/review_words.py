"""The wording of a review in every client: its files and hunks, and why a decision was refused. Does no I/O.

The web UI has the same wording (``web/src/review``), and a test checks that both agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from drawbridge.text.counts import counted

NOTHING: Final = "Nothing to review"
WORKING: Final = "The agent is working. Until it has finished, changes can be kept, but not undone or edited."

Decision: TypeAlias = Literal["keep", "undo"]
File: TypeAlias = Mapping[str, Any]
"""A ``ReviewFile`` of the protocol."""

Hunk: TypeAlias = Mapping[str, Any]
"""A ``ReviewHunk`` of the protocol."""

VERBS: Final = {"keep": "Keep", "undo": "Undo"}
RESTARTED: Final = "the server was restarted in the meantime"
DECIDED: Final = {"keep": "kept", "undo": "undid", "edit": "edited"}
ASIDE: Final = {"mode": "File mode", "name": "File name"}
"""The kinds of hunks without lines, and their titles."""
MODES: Final = {
    "100644": "a regular file",
    "100755": "an executable file",
    "120000": "a symbolic link",
    "160000": "a submodule",
}
REGULAR: Final = frozenset({"100644", "100755"})


class Numbers(NamedTuple):
    """The numbers of undecided changes. Nothing is left if ``files`` is 0."""

    files: int = 0
    added: int = 0
    removed: int = 0

    @property
    def words(self) -> str:
        return f"{counted(self.files, 'file')} +{self.added} −{self.removed}"


def numbers(review: Mapping[str, Any]) -> Numbers:
    """The numbers of a ``review`` as the server sends it."""
    files = review["files"]
    sums = (sum(file[name] for file in files) for name in ("added", "removed"))
    return Numbers(len(files) + review["more"], *sums)


def no_session(where: str) -> str:
    """The reason why a directory has no review. ``where``: its path, or "this directory"."""
    return f"{NOTHING}: the server has no session in {where}."


def lines_of(text: str) -> list[str]:
    """The lines of a text, without their line endings. Only a line feed ends a line."""
    found = text.split("\n")
    if not found[-1]:
        found.pop()
    return found


def end_words(removed: str, added: str) -> str:
    """Describes a change to the newline at the end of a file; empty if that has not changed, or if a hunk has only
    removed or only added lines."""
    ends = removed.endswith("\n"), added.endswith("\n")
    if not removed or not added or ends[0] == ends[1]:
        return ""
    return "Newline added at end of file." if ends[1] else "No newline at end of file."


def title(hunk: Hunk) -> str:
    """The title of a hunk, which shows where the hunk is."""
    if hunk["kind"] in ASIDE:
        return ASIDE[hunk["kind"]]
    if hunk["kind"] == "file":
        return "Whole file"
    side, start = ("added", "new_start") if hunk["added"] else ("removed", "old_start")
    first, count = int(hunk[start]), len(lines_of(hunk[side]))
    lines = f"Line {first}" if count == 1 else f"Lines {first}–{first + count - 1}"
    return lines if hunk["added"] else f"{lines} (removed)"


def file_words(file: File) -> str:
    """The label next to a file's path, such as "new" or "renamed · binary"; empty if the file needs no label."""
    change = "renamed" if file.get("old_path") else {"added": "new", "deleted": "deleted"}.get(file["change"], "")
    tags = [change, "binary" if file.get("binary") else ""]
    return " · ".join(filter(None, tags))


def words(file: File, hunk: Hunk | None) -> str:
    """Describes what the lines of a hunk do not show; empty if the lines show everything. ``hunk``: None for a file
    with changes that are too large."""
    old, new = file["old_mode"], file["new_mode"]
    if hunk is None:
        return "The changes to this file are too large to show here."
    if hunk["kind"] == "mode":
        if (old, new) == ("100644", "100755"):
            return "The file was made executable."
        if (old, new) == ("100755", "100644"):
            return "The file is no longer executable."
        return f"The file was {_mode(old)} and is now {_mode(new)}."
    if hunk["kind"] == "name":
        return f"The file was renamed from {file['old_path']}."
    if hunk["kind"] != "file":
        return ""
    return f"{_whole_file(file)} {_content(file, hunk)}".rstrip()


def _content(file: File, hunk: Hunk) -> str:
    """Describes the content of a file whose hunk is about the whole file; empty if its lines are shown."""
    if file.get("binary"):
        is_regular = {file["old_mode"], file["new_mode"]} <= {None, *REGULAR}
        reason = ": it is not UTF-8 text, or it is too large to compare" if is_regular else ""
        return f"Its content is not shown{reason}."
    if hunk["removed"] or hunk["added"]:
        return ""
    return "It was empty." if file["change"] == "deleted" else "It is empty."


def _whole_file(file: File) -> str:
    old, new = file["old_mode"], file["new_mode"]
    if file["change"] == "added":
        return "This is a new file." if new == "100644" else f"This is a new {_mode(new).partition(' ')[2]}."
    if file["change"] == "deleted":
        return "This file was deleted." if old == "100644" else f"This file was deleted; it was {_mode(old)}."
    if old == new:
        return "The content of this file was changed."
    if {old, new} <= REGULAR:
        return f"The content of this file was changed, and the file is {'now' if new == '100755' else 'no longer'} executable."
    return f"The file was {_mode(old)} and is now {_mode(new)}."


def _mode(mode: str | None) -> str:
    return MODES.get(mode or "", f"a file with the mode {mode}")


def gone_words(
    by: str | None = None, decision: str | None = None, path: str | None = None, line: int | None = None
) -> str:
    """Describes what happened to a hunk that no longer needs a decision. ``by``: the name of the user who decided
    on it; None or empty if that is not known, or if the file has changed. ``decision``: None if it is not known.
    ``path``, ``line``: where the file has changed; None or empty if that is not known."""
    if not by and path:
        return f"{path} changed{f' at line {line}' if line else ''} since you looked."
    if not by:
        return "This change no longer needs a decision: someone has decided on it, or the file has changed."
    return (
        f"{by} already {DECIDED.get(decision, 'decided on')} this change."
        if decision
        else f"{by} decided on this change."
    )


def refused_words(code: str, details: Mapping[str, Any], message: str, by: str, *, is_hunk: bool) -> str:
    """The reason why a decision was refused. ``by``: the name of the user who decided first, if that is known."""
    if code == "REVIEW_CLASH":
        paths = ", ".join(map(str, details.get("paths") or ())) or "the files"
        return f"This conflicts with the current state of {paths}. Nothing was changed."
    if code != "HUNK_GONE":
        return message
    if not is_hunk and not details.get("gone"):
        where = _some(details)
        return (
            "The review has changed since you saw it, so your decision was not applied. "
            f"Read what is new{where}, then decide again."
        )
    return gone_words(by, details.get("decision"), details.get("path"), details.get("line"))


def _some(details: Mapping[str, Any]) -> str:
    """Names the first of the files that have changed in a review, with a space before it; empty if none is known."""
    paths = details.get("paths") or ()
    if not paths:
        return ""
    more = int(details.get("files") or len(paths)) - 1
    return f" in {paths[0]}" + (f" and {counted(more, 'other file')}" if more else "")


COPY: Final = "Press y to copy the comments as a prompt."
COPIED: Final = (
    "The prompt was copied, if your terminal allows that. Paste it into the agent's terminal. The drafts are kept."
)


def answered_words(comments: Iterable[Mapping[str, Any]]) -> str:
    """Names the comments that a change answers; empty if there are none."""
    named = " · ".join(map(short_words, comments))
    return f"In answer to: {named}" if named else ""


def changes(count: int) -> str:
    """A number of changes, such as "7 changes"."""
    return counted(count, "change")


def question(decision: Decision, count: int, unseen: int, where: str) -> tuple[str, str]:
    """The question that the user confirms before a decision on ``count`` hunks together, and the text below it (may be
    empty). ``unseen``: the number of them that were not shown completely."""
    text = ""
    if unseen == count:
        text = "You have not seen all of it. " if count == 1 else "You have not fully seen any of them. "
    elif unseen:
        text = f"You have not fully seen {unseen} of them. "
    if decision == "undo":
        text += "Other changes to the same files are not affected."
    return f"{VERBS[decision]} {changes(count)} in {where}?", text.rstrip()


def decided_words(decided: Mapping[str, Any]) -> str:
    """Describes a user's decision on a review, such as "kept 2 changes in a.py". The text follows the user's name."""
    end = f" ({RESTARTED})" if decided.get("interrupted") else ""
    return f"{DECIDED.get(decided.get('decision') or '', 'decided on')} {_about(decided)}{end}"


def interrupted_words(decided: Mapping[str, Any]) -> str:
    """The result of a decision, a revert or a commit that was interrupted, and was not carried out or may not have
    been. The text follows the user's name. ``decided``: a ``ReviewInterrupted`` of the protocol."""
    decision, files = decided.get("decision") or "decide on", counted(decided["files"], "file")
    what = {"revert": f"undo the changes to {files}", "commit": f"commit {files}"}.get(decision)
    words = f"wanted to {what or f'{decision} {_about(decided)}'}, but the server was restarted"
    if decided.get("result") == "not_done":
        return f"{words}. Nothing was changed."
    if decision == "commit":
        return f"{words} in the meantime, and it is not known whether the commit was made. Check the branch."
    changed = ", ".join(map(str, decided.get("changed") or ()))
    if not changed:
        return f"{words} in the meantime, and it is not known what was changed. Check the files."
    return f"{words} in the meantime, and {changed} changed. Check the review."


def unnamed_words(decided: Mapping[str, Any]) -> str:
    """Describes the files of a decision that its record does not name, such as "and 3 more files"; empty if it names
    all of them, or none."""
    paths = decided.get("paths") or ()
    more = decided["files"] - len(paths)
    return f"and {counted(more, 'more file')}" if paths and more > 0 else ""


CUT_DIFF: Final = "Only the beginning of the diff was recorded."


def _about(decided: Mapping[str, Any]) -> str:
    paths, files = decided.get("paths") or (), decided["files"]
    where = str(paths[0]) if files == 1 and paths else counted(files, "file")
    return f"{counted(decided['hunks'], 'change')} in {where}"


# New changes.

NEW: Final = "since your last visit"
ONLY_NEW: Final = "Only since your last visit"
OTHERS_HIDDEN: Final = "To decide on all changes at once, show the others too."


def only_new_words(new: int, all: int) -> str:
    """The number of changes of a review that are shown if the others are hidden, in words."""
    return f"{new} of {changes(all)} · {ONLY_NEW.lower()}"


def all_words(*, has_new: bool) -> str:
    """The reason why all changes are shown to a user who wants to see only what is new. ``has_new``: whether any change
    is new."""
    return "All changes are new." if has_new else f"Nothing is new {NEW}."


# Comments and commits.

Comment: TypeAlias = Mapping[str, Any]
"""A ``ReviewComment`` of the protocol."""

Side: TypeAlias = Literal["new", "old"]

STATES: Final = {"draft": "Draft", "waiting": "Waiting", "sent": "Sent", "resolved": "Resolved"}
LONGEST_SHORT: Final = 40
"""The maximum number of characters of a comment that ``short_words`` shows."""

LONGEST_SUBJECT: Final = 72
"""The maximum number of characters in the first line of a commit message."""

SHORTEST_SUBJECT: Final = 20
"""The number of characters that a subject must exceed to be cut between two words. Otherwise, it is cut within a
word."""

CHANGED: Final = "The comments have changed since you saw them, so they were not sent. Read them, then send them again."
NOT_AS_SHOWN: Final = (
    "These lines have changed or are no longer in the review, so your comment was not added. Copy it if you still "
    "need it."
)
NOT_A_DRAFT: Final = "This comment was already sent or removed. You can add what you wrote as a new comment."
UNFINISHED: Final = "First save or discard the comment that you are writing."
MAY_NOT_SEND: Final = "This device can’t send comments. Use a device that can start runs."
NO_COMMENTS: Final = "No comments."
QUEUE: Final = "Queue"
STEER: Final = "Add to the current run"
"""The label of the action that adds a message to the current run."""
AFTER_WORK: Final = "The agent will get them when it finishes its current work."
WAITING: Final = "{agent} will get the comments when it next stops, or with the next prompt in its terminal."
HANDOVERS: Final = {
    "waiting": WAITING,
    "given": "{agent} is receiving the comments.",
    "unsure": "{agent} may have received the comments. Check its terminal before you send them again.",
    "ended": "The session ended before {agent} received the comments. They are drafts again.",
    "refused": (
        "The comments were not sent and are drafts again: {agent} may have more permissions than clients are allowed to "
        "use, or its directory can’t be used."
    ),
}
"""Maps the state of a ``Handover`` of the protocol to what happened to its comments. See ``handover_words``."""
OUTDATED: Final = "These lines have changed or moved since the comment was written:"
COMMIT_LOST: Final = (
    "The connection was lost before the server responded. When you’re back online, the uncommitted files will be "
    "listed here."
)
COMMIT_WORKING: Final = "The agent is working. Until it has finished, nothing can be committed."
COMMIT_HINT: Final = (
    "Git on the server’s machine makes the commit, with the name, hooks and signing that are configured there."
)
NOTHING_LEFT: Final = "There is nothing left to commit."
NOTHING_TO_PUSH: Final = "Nothing can be pushed now."
PUSH_HINT: Final = (
    "Git on the server’s machine pushes the branch, with the credentials and hooks that are configured there."
)
PUSH_LOST: Final = (
    "The connection was lost before the server responded. When you’re back online, this dialog will show whether the "
    "commits were pushed."
)


def state_of(comment: Comment) -> str:
    """The state of a comment: "draft", "waiting", "sent" or "resolved". The protocol omits "draft"."""
    return str(comment.get("state", "draft"))


def is_draft(comment: Comment) -> bool:
    return state_of(comment) == "draft"


def lines_words(side: Side, first: int, last: int) -> str:
    """A range of lines, such as "line 5" or "lines 5–7 (removed)"."""
    lines = f"line {first}" if first == last else f"lines {first}–{last}"
    return f"{lines} (removed)" if side == "old" else lines


def short_words(comment: Comment) -> str:
    """The beginning of a comment's first line or, if that is empty, what the comment suggests."""
    line = comment["text"].partition("\n")[0] or ("a suggestion" if comment.get("suggestion") else "remove these lines")
    return f"{line[:LONGEST_SHORT]}…" if len(line) > LONGEST_SHORT else line


def suggestion_words(suggestion: str) -> str:
    """The heading above a suggested text."""
    return "Suggested instead:" if suggestion else "Suggested: remove these lines."


def suggested_field(quote: str) -> str:
    """The initial text in the field for a suggestion to replace these lines."""
    return quote.replace("\r\n", "\n").removesuffix("\n")


def suggested_text(quote: str, field: str) -> str:
    """The suggestion to send for the content of its field, in whole lines. An empty text removes the lines."""
    if not field:
        return ""
    text = f"{field}\n"
    return text.replace("\n", "\r\n") if quote.count("\r\n") * 2 > quote.count("\n") else text


def answer_words(path: str, hunk: Hunk | None, of: str) -> str:
    """A name for a hunk that answers a comment on the file ``of``."""
    return (title(hunk) if hunk is not None else "Whole file") + ("" if path == of else f" of {path}")


def handover_words(state: str, *, is_elsewhere: bool) -> str:
    """Describes what happened to comments that were left for the agent of a terminal session. ``state``: the state of
    the ``Handover``; ``is_elsewhere``: whether the agent belongs to another session. Empty if nothing was left."""
    agent = "the agent of another session in this directory" if is_elsewhere else "the agent"
    words = HANDOVERS.get(state, "").format(agent=agent)
    return f"{words[:1].upper()}{words[1:]}"


def sent_words(count: int, position: int, *, waiting: bool = False, steered: bool = False) -> str:
    """Describes what happens to comments that were sent. ``position``: the prompt's position in the queue; 0 if its run
    begins immediately. ``waiting``: the comments wait until the agent of a terminal session stops or receives its next
    prompt. ``steered``: they were added to the active run."""
    if steered:
        return f"Added {counted(count, 'comment')} to the current run."
    if waiting:
        return f"Waiting: {counted(count, 'comment')}. {WAITING.format(agent='The agent')}"
    sent = f"Sent {counted(count, 'comment')}."
    return f"{sent} {AFTER_WORK}" if position > 0 else sent


def subject_of(prompt: str) -> str:
    """A subject for a commit message: the first line of a prompt, cut at a word if it is too long."""
    line = prompt.strip().split("\n")[0].strip()
    if len(line) <= LONGEST_SUBJECT:
        return line
    cut = line[:LONGEST_SUBJECT]
    space = cut.rfind(" ")
    return cut[:space] if space > SHORTEST_SUBJECT else cut


def committed_words(committed: Mapping[str, Any]) -> str:
    """The result of a commit. ``committed``: a ``ReviewCommitted`` of the protocol."""
    branch = f"{'the new branch ' if committed.get('created') else ''}{committed['branch']}"
    return f"Committed {counted(len(committed['files']), 'file')} on {branch} as {committed['commit'][:10]}."


def push_words(offer: Mapping[str, Any]) -> str:
    """Describes what would be pushed. ``offer``: a ``PushOffer`` of the protocol without a problem."""
    ahead, where = offer.get("ahead"), f"{offer.get('branch', '')} to {offer.get('remote', '')}"
    if ahead == 0:
        return f"There is nothing new to push from {where}."
    return f"Push {where}" + (f": {counted(ahead, 'commit')}." if ahead else " as a new branch.")


def pushed_words(pushed: Mapping[str, Any]) -> str:
    """The result of a push. ``pushed``: a ``ReviewPushed`` of the protocol."""
    words = [f"Pushed {pushed['branch']} to {pushed['remote']}."]
    if pushed.get("problem"):
        words.append(f"{pushed['problem']}.")
    return " ".join(words) + (f"\n{pushed['pull_request']}" if pushed.get("pull_request") else "")


def request_name(program: str) -> str:
    """The name of what ``program`` ("gh" or "glab") creates."""
    return "merge request" if program == "glab" else "pull request"


def create_words(program: str) -> str:
    return f"Create a {request_name(program)} with {program}"


def no_request_words(reason: str) -> str:
    return f"No pull request can be created: {reason}."


def not_committed_words(message: str, details: Mapping[str, Any]) -> str:
    """The reason why a commit was refused, with the files concerned."""
    paths = details.get("paths")
    return f"{message} Files: {', '.join(map(str, paths))}." if isinstance(paths, list) and paths else message
