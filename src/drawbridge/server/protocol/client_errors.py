"""The errors that clients receive: each has a stable code and a human-readable text. Pure.

``CODES`` contains all codes; docs/protocols/client.md shows each of them with an example.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from drawbridge.core.errors import BadMessage, DrawbridgeError, HistoryNotWritten


class Kind(Struct, frozen=True):
    """``meaning``: the text in the documentation. ``retryable``: the same request may succeed later, unchanged."""

    meaning: str
    retryable: bool = False


CODES: Final[Mapping[str, Kind]] = {
    # the message
    "JSON_PARSING": Kind("The message is not a JSON object of valid Unicode text, or is nested too deeply."),
    "UNKNOWN_TYPE": Kind("There is no message of this `type`."),
    "VALIDATION_FAILED": Kind(
        "A field is missing, has the wrong type, or has a value that is not allowed; `field` names it."
    ),
    "UNKNOWN_OPTION": Kind("`data.options` has a field that is not an option; `field` names it."),
    "MESSAGE_SIZE_LIMIT": Kind("A blob is larger than the limit."),
    # identity and permissions
    "UNAUTHORIZED": Kind(
        "The token is missing or wrong, the first message is not one that signs in, or a client that has signed in "
        "tries to change its identity. The connection is closed with 4401, unless the client had already signed in."
    ),
    "TOKEN_REVOKED": Kind(
        "The device's token was revoked, or the SSH key is no longer authorized. If the client was already connected, "
        "the connection is closed with 4403."
    ),
    "TOKEN_EXPIRED": Kind(
        "The device's token has expired. If the client was already connected, the connection is closed with 4403."
    ),
    "PAIRING_WRONG": Kind("The pairing code is not valid."),
    "PAIRING_USED": Kind("The pairing code was already used; it is valid for one device."),
    "PAIRING_EXPIRED": Kind("The pairing code has expired. Codes are valid for ten minutes."),
    "SIGNATURE_WRONG": Kind(
        "The signature is for another challenge, was made with a key that the owner has not authorized, or is in an "
        "earlier format."
    ),
    "SIGNATURE_REPLAYED": Kind("The challenge is not this connection's latest one, or was already answered."),
    "SIGNATURE_FOREIGN": Kind(
        "The signature is for another server's name, port or certificate: it was relayed from elsewhere, or a tunnel "
        "or proxy has changed them."
    ),
    "RATE_LIMITED": Kind(
        "Too many failed sign-in attempts (4429, or HTTP 429) or requests (HTTP 429) from an address, or too many prompts or "
        "commands from a device or an address; `details.retry_after` is the number of seconds to wait.",
        retryable=True,
    ),
    "OUT_OF_SCOPE": Kind("The device is not allowed to do this; `details.needed` is the required scope."),
    "PERMISSION_DENIED": Kind(
        "The request exceeds what the owner of the server allows; `field` names the option, if an option is the cause."
    ),
    # projects
    "INVALID_PATH": Kind(
        "The path can't be used or listed: it has to be absolute, exist and be inside an allowed root. "
        "For a session: its directory no longer exists, is now outside `--allow`, or is on a disk that does not respond, "
        "so nothing runs there."
    ),
    "PROJECT_NOT_FOUND": Kind("No project has this ID."),
    "PROJECT_EXISTS": Kind("The directory is already a project."),
    "PROJECT_NESTING": Kind("A project can't be inside another one, or contain one."),
    "RESOURCE_LIMIT": Kind(
        "A limit of the server or of its machine has been reached, for example on the number of projects, clients, queued "
        "prompts, blobs or open files.",
        retryable=True,
    ),
    # the files of a project
    "FILE_NOT_FOUND": Kind("The project has no such file or directory."),
    "FILE_PRIVATE": Kind("The path is private: it usually contains secrets, or belongs to git or to the server."),
    "FILE_TOO_LARGE": Kind(
        "The file is too large to be shown or compared; `details` has its size and the limit, in bytes."
    ),
    "FILE_UNSUPPORTED": Kind(
        "The file can't be shown or compared, for example because it is neither UTF-8 text nor an image; the message "
        "gives the reason."
    ),
    "FILE_NOT_COMPARED": Kind(
        "The file's changes can't be determined: the project is not in a git work tree, or git is not installed or "
        "can't read the repository."
    ),
    # devices
    "DEVICE_NOT_FOUND": Kind("No device with this ID has a valid token."),
    # runs
    "BUDGET_EXCEEDED": Kind("The owner's budget for the project or the day is used up; `details` names it."),
    "PROCESS_ACTIVE": Kind(
        "The project or its agent is busy, for example with a run; the message gives the reason.", retryable=True
    ),
    "PROCESS_NOT_FOUND": Kind("Nothing is running in this project."),
    "PROMPT_NOT_QUEUED": Kind("The prompt is not in the queue: its run has begun or ended, or it was removed."),
    "EXECUTION_FAILED": Kind("The agent failed to run the prompt.", retryable=True),
    "AGENT_EXITED": Kind("The agent's process ended before the run did.", retryable=True),
    "MODEL_UNAVAILABLE": Kind("The model's service is overloaded or has failed; a later run may work.", retryable=True),
    "CONTEXT_TOO_LONG": Kind(
        "The conversation no longer fits in the model's context window; compact it, or start a new one."
    ),
    "EXECUTION_TIMEOUT": Kind("The run timed out.", retryable=True),
    "MEMORY_LIMIT": Kind(
        "The agent and the processes that it started used more memory than the owner allows, and were stopped."
    ),
    "AGENT_NOT_FOUND": Kind("The agent's program is not installed, or no agent has this name."),
    "AGENT_TOO_OLD": Kind("The agent's program is older than the versions that the server supports."),
    "AGENT_NOT_LOGGED_IN": Kind("The agent's program is not logged in; log in on the server's machine."),
    "AGENT_RATE_LIMITED": Kind(
        "The agent's account has reached a limit; `retry_at` of `run_finished` is when it can continue, if that is known."
    ),
    "NOT_SUPPORTED": Kind("The agent or the server can't do that; the message gives the reason."),
    "CHECKPOINT_NOT_FOUND": Kind(
        "The run has no checkpoint (it has not ended or was too long ago, git is missing, or the files are too large), "
        "its checkpoint does not contain everything that the run changed, or git or a file operation failed; "
        "the message or the server's log gives the reason."
    ),
    "CHANGED_SINCE": Kind(
        "The same places in the files were changed after the run; `details.paths` and `details.lines` locate them. "
        "Nothing was undone."
    ),
    "HUNK_GONE": Kind(
        "The hunk or file no longer needs a decision, or the review has changed since it was shown: read the "
        "review again. If somebody has decided on the hunk, `details` has `by` and `decision`. If its file has changed, "
        "`details` has `path` and, for a hunk with lines, `line`. If the review has changed, `details.paths` names "
        "files that have changed in it."
    ),
    "REVIEW_CLASH": Kind(
        "The same places in the files have just been changed, or one path blocks another; "
        "`details.paths` names them. Nothing was changed."
    ),
    "UNSAVED_CHANGES": Kind(
        "A file that was to be changed has unsaved changes in an editor; `details.paths` names such files. Nothing was "
        "changed."
    ),
    "NOTHING_TO_COMMIT": Kind(
        "There is nothing to commit: no changes were kept, or they are already in the last commit."
    ),
    "BRANCH_EXISTS": Kind("A branch with this name already exists."),
    "COMMIT_BLOCKED": Kind(
        "The kept changes can't be committed in the repository's current state; `details.reason` is a one-word code for "
        "the reason, and `details.paths` lists the files, if any."
    ),
    "COMMIT_FAILED": Kind(
        "git or one of its hooks refused the commit, or it took too long; `details.output` has what they printed."
    ),
    "PUSH_BLOCKED": Kind(
        "The branch can't be pushed, or no pull request can be created; `details.reason` is a one-word code for the reason."
    ),
    "PUSH_FAILED": Kind(
        "git, one of its hooks or the remote refused the push, or it took too long; `details.output` has what they printed."
    ),
    "COMMENT_GONE": Kind(
        "The comment was removed or already sent, or the drafts have changed since they were shown: read the review again. "
        "`details.run_id` is the run that they were sent with, if they were sent."
    ),
    "SESSION_IN_USE": Kind(
        "The conversation is open in another process, for example in a terminal: fork it, or close it there."
    ),
    "SESSION_NOT_FOUND": Kind("The agent, or the history, has no conversation with this ID."),
    # approvals and blobs
    "APPROVAL_NOT_FOUND": Kind("There is no approval request with this ID."),
    "APPROVAL_RESOLVED": Kind(
        "The approval request was already resolved or withdrawn; `details` shows by whom and how."
    ),
    "BLOB_NOT_FOUND": Kind(
        "The blob does not exist, has expired or is not complete, or its file has changed since it was read."
    ),
    "BLOB_OFFSET": Kind(
        "The piece does not continue where the last one ended; `details.expected` has the expected offset."
    ),
    # the server and its disk
    "DISK_LIMIT": Kind(
        "The project's history, or the server's data in total, has reached the limit that the owner has set.",
        retryable=True,
    ),
    "DISK_SPACE_LOW": Kind(
        "The server's disk is full or nearly full, or its user's disk quota is used up.", retryable=True
    ),
    "FILE_OPERATION": Kind("A file could not be read or written.", retryable=True),
    "SHUTTING_DOWN": Kind("The server is shutting down; connect again later.", retryable=True),
    "INTERNAL_ERROR": Kind(
        "An internal server error occurred. The server's log has the details under the `correlation_id`.",
        retryable=True,
    ),
}
"""All codes. A single ``ClientError`` may override the ``retryable`` of its code."""


class ClientError(Exception):
    """Why a client's request was refused or failed. ``text``: what failed, why, and what to do next.

    The server puts an absolute path neither into the text nor into ``details``, unless the client gave the path. There
    are two exceptions: what git and its hooks printed (``details.output``), and the path that the owner set for an
    agent's program, if the program is not found there. ``field`` is a path in the message, such as
    ``data.options.add_dirs[0]``.
    """

    def __init__(
        self,
        code: str,
        text: str,
        field: str | None = None,
        retryable: bool | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.field = field
        self.retryable = CODES[code].retryable if retryable is None else retryable
        self.details = details


def no_project() -> ClientError:
    return ClientError("PROJECT_NOT_FOUND", "The project does not exist.", field="project_id")


def shutting_down() -> ClientError:
    return ClientError("SHUTTING_DOWN", "The server is shutting down. Connect again later.")


def internal_error() -> ClientError:
    """The error for a fault of the server itself, which was logged under the request's correlation id."""
    text = "The request failed: internal server error. The server's log has the details under the correlation ID."
    return ClientError("INTERNAL_ERROR", text)


def not_written(error: DrawbridgeError) -> ClientError:
    """The error for a history that can't be written or read, or for a message that a history can't contain."""
    full = isinstance(error, HistoryNotWritten) and error.disk_full
    code = "EXECUTION_FAILED" if isinstance(error, BadMessage) else "DISK_SPACE_LOW" if full else "FILE_OPERATION"
    return ClientError(code, str(error))
