"""The commands that clients send to the agent server, one Struct each, and how a message is read. Pure.

A message is ``{"type", "project_id"?, "data"?, "request_id"?}``; a command is its ``data`` with ``project_id`` and
``request_id`` added. The row of a command in ``app.command_table`` has its ``type``, its Struct and everything else
about it. What the server sends is in ``messages`` and ``replies``. The documentation for clients is
docs/protocols/client.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from drawbridge.server.protocol.client_errors import ClientError as ClientError

VERSION: Final = 1
"""The version of the protocol, which ``hello`` contains. A change that breaks existing clients increments it."""

Text = Annotated[str, Meta(min_length=1)]
Identifier = Annotated[str, Meta(min_length=1, max_length=200)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Instant = Annotated[datetime, Meta(tz=True)]
Topic = Literal["stats", "projects", "approvals", "reviews"]
Kind = Literal["prompt", "answer", "tool", "result", "decision", "error"]
"""The kinds of texts that can be searched: a user's prompt, the agent's text, a tool's input, its result, the comment
on a decision, and the error of a run."""


class Command(Struct, kw_only=True):
    """``request_id``: the id of the request, which is next to ``data`` in the message."""

    request_id: str | None = None


class InProjects(Command, kw_only=True):
    """``project_id`` is next to ``data`` in the message, or in ``data``; empty: all projects that the client sees."""

    project_id: str = ""


class ProjectCommand(InProjects, kw_only=True):
    """A command for one project or terminal session: ``parse`` refuses a message without a ``project_id``."""


# the connection


class Hello(Command, kw_only=True):
    """``client``: the name under which other clients see what this client does, such as its prompts and decisions. Only
    a client with the owner's token can choose it; others keep the name of their device or SSH key."""

    client: Identifier | None = None
    version: Identifier | None = None


class Auth(Command, kw_only=True):
    """The first message of a client that can't send an ``Authorization`` header."""

    token: Text
    client: Identifier | None = None


class Pair(Command, kw_only=True):
    """Exchanges a one-time code for a token, as the first message of a new device. ``name``: the device's name, unless
    the code was created with one."""

    code: Annotated[str, Meta(min_length=1, max_length=40)]
    name: Identifier | None = None


class SshChallenge(Command):
    """Requests a challenge to sign with an SSH key."""


class SshAuth(Command, kw_only=True):
    """``signature``: the signature of the text that ``ssh_keys.challenge`` returns, in the format of ``ssh-keygen -Y
    sign -n drawbridge``.

    ``host``: the host name, with the port if there is one, that the client connected to; ``certificate``: the
    SHA-256, in hexadecimal, of the server's certificate as the client sees it ("-" without TLS), for a clearer error if
    it differs.
    """

    nonce: Identifier
    host: Identifier
    signature: Text
    certificate: Identifier | None = None


class HealthCheck(Command):
    pass


class Subscribe(Command, kw_only=True):
    topics: tuple[Topic, ...]


class Unsubscribe(Command, kw_only=True):
    topics: tuple[Topic, ...]


# projects


class ProjectCreate(Command, kw_only=True):
    """``agent``: the agent that runs in the project unless an ``execute`` names another. ``join``: also joins the
    project, like ``project_join``.
    """

    path: Text
    agent: Identifier | None = None
    join: bool = False


class ProjectList(Command):
    pass


class ProjectDelete(ProjectCommand):
    pass


class ProjectJoin(ProjectCommand, kw_only=True):
    """``after_seq``: the stream begins after this record of the history; null: it contains only new records."""

    after_seq: Count | None = None


class ProjectLeave(ProjectCommand):
    pass


class GetMessages(ProjectCommand, kw_only=True):
    """If only ``since`` or no field is set, the reply is the bare array that the specification defines, unless there
    are too many records for one message. Otherwise, the reply is a page.
    """

    since: Instant | None = None
    after_seq: Count | None = None
    before_seq: Count | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] | None = None


# runs


MOST_ATTACHMENTS: Final = 20


class AttachmentOf(Struct, frozen=True):
    """A blob that is attached to a prompt."""

    blob_id: Identifier
    media_type: Identifier = "application/octet-stream"
    name: Identifier | None = None


class Options(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The options of a run. The agent's default applies to an option that is not set or is empty. Without
    ``permission_mode`` and ``dangerously_skip_permissions``, the agent runs in its equivalent of the "default" mode, if
    it has one."""

    dangerously_skip_permissions: bool = False
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    mcp_config: str | None = None
    strict_mcp_config: bool = False
    append_system_prompt: str | None = None
    system_prompt: str | None = None
    permission_mode: str | None = None
    model: str | None = None
    fallback_model: str | None = None
    add_dirs: tuple[str, ...] = ()
    effort: str | None = None
    max_turns: int | None = None
    max_budget_usd: float | None = None
    partial_messages: bool = False
    restricted: bool = False


class Execute(ProjectCommand, kw_only=True):
    """``queue`` false: the command fails with PROCESS_ACTIVE if a run is active or waiting, instead of adding the
    prompt to the queue. ``steer``: sends the prompt to the agent during the active run, instead of beginning another
    run; the command fails with PROCESS_NOT_FOUND if no run is active.
    """

    prompt: Text
    options: Options = Options()
    attachments: Annotated[tuple[AttachmentOf, ...], Meta(max_length=MOST_ATTACHMENTS)] = ()
    agent: Identifier | None = None
    queue: bool = True
    steer: bool = False


class AgentKill(ProjectCommand):
    pass


class AgentInterrupt(ProjectCommand, kw_only=True):
    """Interrupts the active run or, if no run is active, cancels one that waits for a limit to reset. ``all``: also
    removes the queued prompts, no matter who sent them, which requires the ``run`` scope.
    ``schedule``: cancels what the idle agent has scheduled, and does not interrupt a run.
    """

    all: bool = False
    schedule: bool = False


class QueueRemove(ProjectCommand, kw_only=True):
    """Removes a queued prompt: its run ends as ``interrupted`` without having begun."""

    run_id: Identifier


class QueueEdit(ProjectCommand, kw_only=True):
    """Changes the text of a queued prompt."""

    run_id: Identifier
    prompt: Text


class QueueMove(ProjectCommand, kw_only=True):
    """Moves a queued prompt. ``before``: the run that it is placed before; null: it becomes the last one."""

    run_id: Identifier
    before: Identifier | None = None


class QueueSendNow(ProjectCommand, kw_only=True):
    """Makes a queued prompt the next one, and interrupts the active run for it."""

    run_id: Identifier


class AgentNewSession(ProjectCommand):
    pass


class RunChanges(ProjectCommand, kw_only=True):
    """Requests what a run changed in the files of its project."""

    run_id: Identifier


class RunRevert(ProjectCommand, kw_only=True):
    """Reverts exactly what a run changed, or nothing."""

    run_id: Identifier


class ReviewGet(ProjectCommand):
    """Requests the open review: the changes by runs that nobody has decided on yet, in the current files."""


class ReviewDecide(ProjectCommand, kw_only=True):
    """Decides on a part of the open review: ``hunks`` by their ids, ``files`` by their paths, or ``all``.

    ``version``: the version of the review that the user has seen. It is required for ``files`` and ``all``, so that the
    decision does not include anything that was not shown. ``text``: for a single hunk and without a ``decision``, the
    text that replaces its new lines.
    """

    decision: Literal["keep", "undo"] | None = None
    hunks: Annotated[tuple[Identifier, ...], Meta(max_length=10_000)] = ()
    files: Annotated[tuple[Text, ...], Meta(max_length=10_000)] = ()
    all: bool = False
    version: Identifier | None = None
    text: str | None = None


class ReviewComment(ProjectCommand, kw_only=True):
    """Without a ``comment_id``, writes a comment as a draft, which requires ``path``, ``line``, ``quote``, and ``text``
    or ``suggestion``.

    ``quote``: the lines ``line`` to ``end_line`` (counted from 1) of ``side``, as the user has seen them. With a
    ``comment_id``, changes the ``text`` and ``suggestion`` of a draft, removes it (``remove``), or resolves or reopens
    a comment that was sent (``resolved``).
    """

    comment_id: Identifier | None = None
    path: Text | None = None
    side: Literal["new", "old"] = "new"
    line: Annotated[int, Meta(ge=1, le=2**31)] | None = None
    end_line: Annotated[int, Meta(ge=1, le=2**31)] | None = None
    quote: str | None = None
    text: str | None = None
    suggestion: str | None = None
    remove: bool = False
    resolved: bool | None = None


class ReviewSubmit(ProjectCommand, kw_only=True):
    """Sends all drafts to the agent, as one prompt. ``drafts``: the version of the drafts that the user has seen.
    ``text``: the beginning of the prompt. ``steer``: sends the prompt to the agent during the active run, under the
    same conditions and with the same errors as the ``steer`` of ``execute``.
    """

    drafts: Identifier
    text: Annotated[str, Meta(max_length=20_000)] = ""
    steer: bool = False


class ReviewWithdraw(ProjectCommand, kw_only=True):
    """Turns the comments that wait for a terminal session's agent back into drafts."""


class ReviewCommit(ProjectCommand, kw_only=True):
    """Commits what was kept in the review. ``branch``: the name of a new branch for the commit; null: the current
    branch. ``files``: the paths of the kept files to commit; empty: all of them.
    """

    message: Annotated[str, Meta(min_length=1, max_length=50_000)]
    branch: Identifier | None = None
    files: Annotated[tuple[Text, ...], Meta(max_length=10_000)] = ()


class PullRequest(Struct, frozen=True, kw_only=True):
    """A pull request from the current branch into the default branch of the repository."""

    title: Annotated[str, Meta(min_length=1, max_length=1_000)]
    body: Annotated[str, Meta(max_length=30_000)] = ""


class ReviewPush(ProjectCommand, kw_only=True):
    """Pushes the current branch, and then creates a pull request if one is given. ``version``: the version of the
    review's ``push`` that the user has seen.
    """

    version: Identifier
    pull_request: PullRequest | None = None


class SetMode(ProjectCommand, kw_only=True):
    mode: Identifier


class SetModel(ProjectCommand, kw_only=True):
    model: Identifier


class SetEffort(ProjectCommand, kw_only=True):
    """``effort``: one of the levels that the agent reported."""

    effort: Identifier


class SessionList(ProjectCommand, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


class SessionResume(ProjectCommand, kw_only=True):
    """The next run continues this conversation, even if it was started in a terminal."""

    session_id: Identifier


class SessionFork(ProjectCommand, kw_only=True):
    """The next run begins a new conversation with the context of this one (default: the project's current one)."""

    session_id: Identifier | None = None


# the sessions in the histories


class Sessions(InProjects, kw_only=True):
    """Requests the sessions of the histories, most recently active first. Of more than ``limit`` sessions, those that
    are not ``current`` are left out first."""

    limit: Annotated[int, Meta(ge=1, le=1_000)] = 200


class SessionMessages(ProjectCommand, kw_only=True):
    """Requests the last records of a session's conversation, or those that precede ``before`` (a position from an
    earlier reply)."""

    session_id: Identifier
    before: Identifier | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 200


class SessionExport(ProjectCommand, kw_only=True):
    """Requests a piece of a file that contains a session or, without ``session_id``, the whole history of the project.
    ``after``: the position of the piece, from the reply with the previous one; null: the first piece."""

    session_id: Identifier | None = None
    format: Literal["markdown", "jsonl"] = "markdown"
    after: Identifier | None = None


class SessionRename(ProjectCommand, kw_only=True):
    """``name`` is shown instead of the session's title; an empty ``name`` restores the title."""

    session_id: Identifier
    name: Annotated[str, Meta(max_length=120)]


class SessionDelete(ProjectCommand, kw_only=True):
    """Moves the records of a session to the server's trash."""

    session_id: Identifier


class Search(InProjects, kw_only=True):
    """Requests the texts that contain all words of ``query``, or words that begin with them; if ``query`` is empty, all
    texts.

    ``kinds``: only texts of these kinds; empty: of all kinds. ``session_id``: only texts of this session and of the
    sessions that it was forked from. ``before``: the ``next`` of an earlier reply.
    """

    query: Annotated[str, Meta(max_length=1_000)] = ""
    kinds: Annotated[tuple[Kind, ...], Meta(max_length=20)] = ()
    session_id: Identifier | None = None
    before: Identifier | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class PermissionResponse(ProjectCommand, kw_only=True):
    """``updated_input``: the tool runs with this input instead of the agent's. ``updated_input_blob``: a blob with that
    input, if it is too large for a message.
    """

    approval_id: Identifier
    decision: Literal["allow", "deny"]
    updated_input: dict[str, Any] | None = None
    updated_input_blob: Identifier | None = None
    message: str | None = None
    remember: bool = False


# blobs and directories


class BlobPut(Command, kw_only=True):
    """A piece of a blob: ``data`` is base64 (standard alphabet, padded), ``offset`` is the position of its first
    byte."""

    blob_id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$(?!\n)")]
    """The pattern excludes a line break at the end: in Python, unlike in JSON Schema, ``$`` also matches before one."""
    offset: Count
    data: bytes
    last: bool = False


class BlobGet(Command, kw_only=True):
    blob_id: Identifier
    offset: Count = 0
    length: Annotated[int, Meta(ge=1)] | None = None


class DirList(Command, kw_only=True):
    """``path`` "" requests the allowed roots; a leading "~" is the home directory of the server's user."""

    path: str


class DirCreate(Command, kw_only=True):
    """Creates a directory ``name`` in ``path``, which may begin with "~" as in ``dir_list``."""

    path: Text
    name: Text


class PlaceList(Command):
    """Requests directories that can become projects: recently used ones and git repositories."""


# the files of a project

PathInProject = Annotated[str, Meta(max_length=4_096)]


class FileList(ProjectCommand, kw_only=True):
    """Requests the entries of one directory or, with ``query``, the files and directories in the whole project that
    match it, best first.

    ``path``: the directory, relative to the project; "" is the project itself. ``limit``: the maximum number of matches
    for ``query``.
    """

    path: PathInProject = ""
    query: Annotated[str, Meta(max_length=200)] | None = None
    limit: Annotated[int, Meta(ge=1, le=50)] = 50


class FileRead(ProjectCommand, kw_only=True):
    """``path``: relative to the project, or absolute and inside the project."""

    path: Annotated[PathInProject, Meta(min_length=1)]


class FileChanges(ProjectCommand, kw_only=True):
    """Requests what has changed in a file, even a deleted one, since the last commit. ``path``: as for
    ``file_read``."""

    path: Annotated[PathInProject, Meta(min_length=1)]


# devices, agents, usage


class DeviceList(Command):
    pass


class DeviceRevoke(Command, kw_only=True):
    """Revokes the token of a device."""

    device_id: Identifier


class PairCreate(Command, kw_only=True):
    """Creates a pairing code for one device. ``name``: the device's name; null lets the device choose one. ``origin``:
    the address at which the device will open the web UI, such as ``https://agents.example``; null: the address that
    this client connected to. The server replaces a loopback address with another of its addresses, if it has any.
    """

    scope: Literal["view", "approve", "run", "admin"]
    name: Annotated[str, Meta(min_length=1, max_length=60)] | None = None
    origin: Annotated[str, Meta(max_length=300, pattern=r"^https?://[^/\s#?@]+/?$(?!\n)")] | None = None


class AgentList(Command):
    """Requests the agents that the server can run, and whether each is installed."""


class Usage(Command, kw_only=True):
    """Requests what the runs of the last ``days`` days, including today, have used."""

    days: Annotated[int, Meta(ge=1, le=90)] = 30


# push notifications, which a browser receives even while the web UI is not open


class PushKey(Command):
    """Requests the key with which a browser creates its subscription."""


class PushSubscribe(Command, kw_only=True):
    """Subscribes a browser, by its ``PushSubscription``, to notifications about approval requests and finished runs.
    ``actions``: the user wants to decide in notifications. A notification then contains the command of an approval
    request, if it can show the command in full and the device may decide.
    """

    endpoint: Text
    p256dh: Identifier
    auth: Identifier
    actions: bool = False


class PushUnsubscribe(Command, kw_only=True):
    endpoint: Text


class PushTest(Command, kw_only=True):
    """Sends a notification to a subscription of this device."""

    endpoint: Text


LONGEST_NAME: Final = 80
"""The maximum number of characters that an error quotes from a name that the client chose."""

DEEPEST: Final = 400
"""The maximum number of levels of nesting in an edited input, which is passed on inside other messages: fewer than the
parsers of agents, clients and histories allow."""


class _Envelope(Struct):
    type: str
    project_id: str | None = None
    data: Raw = Raw(b"null")
    request_id: Identifier | None = None


_envelope: Final = msgspec.json.Decoder(_Envelope)
_loose: Final = msgspec.json.Decoder(dict[str, Raw])


@cache
def _decoder(request: type[Command]) -> msgspec.json.Decoder[Command]:
    return msgspec.json.Decoder(request)


def parse(text: str, requests: Mapping[str, type[Command]]) -> Command:
    """Parses one message. ``requests``: the Struct of each ``type``.

    Raises ``ClientError``; ``request_id_of`` then returns the id of the request.
    """
    try:
        envelope = _envelope.decode(text)
    except msgspec.ValidationError as error:
        raise _invalid(error, "") from None
    except (msgspec.DecodeError, RecursionError):
        raise _no_json() from None
    request = requests.get(envelope.type)
    if request is None:
        shown = envelope.type[:LONGEST_NAME]
        raise ClientError("UNKNOWN_TYPE", f"type: {shown!r} is not a message type.", "type")
    try:
        # Clients that follow the specification's own code send "data": null if there are no fields.
        data: Any = b"{}" if bytes(envelope.data) == b"null" else envelope.data
        command = _decoder(request).decode(data)
    except msgspec.ValidationError as error:
        raise _invalid(error, "data") from None
    except (msgspec.DecodeError, RecursionError):
        raise _no_json() from None
    command.request_id = envelope.request_id
    if isinstance(command, InProjects):
        _set_project(command, envelope.project_id or "")
    return command


def request_id_of(text: str) -> str | None:
    """The ``request_id`` of a message that could not be parsed; None if the message has none, or an invalid one.

    Python's own parser is tried too, because it accepts errors in other strings of the message, such as half of a
    surrogate pair or a line break.
    """
    try:
        return msgspec.json.decode(_loose.decode(text)["request_id"], type=Identifier)
    except (msgspec.DecodeError, KeyError, RecursionError):
        pass
    try:
        return msgspec.convert(json.loads(text, strict=False)["request_id"].encode().decode(), type=Identifier)
    except (msgspec.ValidationError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def check_depth(given: Mapping[str, Any], field: str) -> None:
    """Raises ``ClientError`` if an edited input is nested more than ``DEEPEST`` levels deep. ``field``: the field that
    contains the input, for the error."""
    level: list[Any] = [given]
    for _ in range(DEEPEST):
        values = (value for one in level for value in (one.values() if isinstance(one, Mapping) else one))
        level = [value for value in values if isinstance(value, dict | list)]
        if not level:
            return
    raise ClientError("VALIDATION_FAILED", f"{field}: it is nested too deeply.", field)


def _set_project(command: InProjects, beside: str) -> None:
    if beside and command.project_id and beside != command.project_id:
        text = "project_id: the message and its data name different projects. Send the ID once."
        raise ClientError("VALIDATION_FAILED", text, "project_id")
    command.project_id = beside or command.project_id
    if not command.project_id and isinstance(command, ProjectCommand):
        raise ClientError("VALIDATION_FAILED", "project_id: this field is required.", "project_id")


def _no_json() -> ClientError:
    text = "The message can't be parsed: it must be a JSON object of valid Unicode text, not nested too deeply."
    return ClientError("JSON_PARSING", text)


def _invalid(error: msgspec.ValidationError, place: str) -> ClientError:
    """Turns an error of msgspec into a ``ClientError`` with its field. The texts of msgspec are "Expected `str`, got
    `int` - at `$.a[1]`", or "Object missing required field `a` - at `$`"."""
    problem, at, where = str(error).rpartition(" - at `$")
    problem, where = (problem, where) if at else (where, "")
    if not problem.isprintable():  # the text contains a field's name that the client chose
        problem = ascii(problem)[1:-1]
    field = place + where.rstrip("`").partition("[...]")[0]  # msgspec's text for a member of a ``dict``
    named = re.match(r"Object (missing required|contains unknown) field `(.*)`", problem)
    if named:
        missing = named[1] == "missing required"
        field = f"{field}.{named[2][:LONGEST_NAME]}"
        problem = "this field is required" if missing else "the field is not known"
        if not missing and place and where == ".options`":
            return ClientError("UNKNOWN_OPTION", f"{field}: the option is not known.", field)
    elif not field:
        return _no_json()
    field = field.removeprefix(".")
    problem = problem.replace("`", "")
    return ClientError("VALIDATION_FAILED", f"{field}: {problem[:1].lower()}{problem[1:]}.", field)
