"""The errors that several parts of Drawbridge raise on purpose, grouped by who has to act.

::

    DrawbridgeError
    ├── CallerError          the caller has to change the request
    │   ├── BadArgument          an argument of a tool or a command, or a field of a prompt or decision; names it
    │   ├── BadSetting           a flag, environment variable or line of the settings file; names it
    │   ├── UnusableFile         a file or text that can't be used: missing, a directory, binary, not UTF-8, too large
    │   └── Refused              understood, but not allowed: an overlap with unsaved work, a tool that is disabled
    ├── PeerError            the other program broke its protocol
    │   └── BadMessage           bytes or a message that its protocol does not allow
    └── WorldError           something outside Drawbridge failed
        ├── EditorGone           no editor at the address, or its connection ended
        ├── EditorHung           the editor did not answer in time
        ├── NoPort               the port to listen on is not available, or no port is free
        ├── NoProgram            a program that a command needs is missing, is too old or does not start
        ├── ProgramFailed        a program that a command has started failed
        ├── HistoryNotWritten    a history could not be changed: no part of a new record was stored, or old ones remain
        ├── HistoryUnreadable    a history can't be read; it was left as it is
        ├── NotPrivate           a directory or file can't be made private to this user, or can't be written
        ├── NotWritable          one of the user's files, which a command has to change, can't be written
        ├── NoServer             no agent server answers at the address, or its certificate is not the expected one
        ├── DataTooNew           a server's data was written by a newer Drawbridge; it was not touched
        └── ServerRunning        another agent server uses the same data

``code`` is stable and documented in ``docs/errors.md``. The text tells the user what failed, why, and what to do.
``exit_code``: the exit code of a command that fails with the error.
"""

from __future__ import annotations


class DrawbridgeError(Exception):
    """The root of the tree. ``str(error)`` is the complete message for the user, without internal paths and
    addresses."""

    code = "INTERNAL"
    exit_code = 1


class CallerError(DrawbridgeError):
    code = "BAD_REQUEST"
    exit_code = 2


class BadArgument(CallerError):
    """An argument of a tool or a command, or a field of a prompt or decision, is missing or not valid. ``name``: the
    name of the argument or field."""

    code = "BAD_ARGUMENT"

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name


class BadSetting(CallerError):
    """A setting can't be used. All problems found are listed in one message."""

    code = "BAD_SETTING"


class UnusableFile(CallerError):
    code = "UNUSABLE_FILE"


class Refused(CallerError):
    """A request that was understood, but is not allowed. ``notice``: optional sentences for the user in the editor: why
    a change is not shown, and what to do. ``{agent}``, ``{file}`` and ``{where}`` (where to answer) in it are filled in.
    """

    code = "REFUSED"

    def __init__(self, text: str, notice: str = "") -> None:
        super().__init__(text)
        self.notice = notice


class PeerError(DrawbridgeError):
    code = "PEER"


class BadMessage(PeerError):
    code = "BAD_MESSAGE"


class WorldError(DrawbridgeError):
    code = "WORLD"
    exit_code = 3


class EditorGone(WorldError):
    code = "EDITOR_GONE"
    exit_code = 2


class EditorHung(WorldError):
    code = "EDITOR_HUNG"


class NoPort(WorldError):
    code = "NO_PORT"


class NoProgram(WorldError):
    code = "NO_PROGRAM"


class ProgramFailed(WorldError):
    code = "PROGRAM_FAILED"


class HistoryNotWritten(WorldError):
    """A history could not be changed. ``disk_full``: whether the disk or the user's quota is full."""

    code = "HISTORY_NOT_WRITTEN"

    def __init__(self, text: str, disk_full: bool = False) -> None:
        super().__init__(text)
        self.disk_full = disk_full


class HistoryUnreadable(WorldError):
    code = "HISTORY_UNREADABLE"


class NotPrivate(WorldError):
    code = "NOT_PRIVATE"


class NotWritable(WorldError):
    code = "NOT_WRITABLE"


class NoServer(WorldError):
    code = "NO_SERVER"


class DataTooNew(WorldError):
    code = "DATA_TOO_NEW"


class ServerRunning(WorldError):
    code = "SERVER_RUNNING"
