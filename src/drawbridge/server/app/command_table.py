"""The commands: one row each. A new command consists of its row here, its request and reply structs, and its handler.

The rows also determine the scopes, the audit log, which requests run concurrently, the JSON Schema
(tools/client_schema.py) and the tables in docs/protocols/client.md, which tests compare with the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from drawbridge.server.app.core import Core
from drawbridge.server.app.dispatch import AnyRow, Row
from drawbridge.server.app.file_commands import FileCommands as Files
from drawbridge.server.app.history_commands import HistoryCommands as Histories
from drawbridge.server.app.review_commands import ReviewCommands as Reviews
from drawbridge.server.app.run_commands import RunCommands as Runs
from drawbridge.server.app.server_commands import ServerCommands as Server
from drawbridge.server.auth import audited
from drawbridge.server.auth.audited import AuditEntry
from drawbridge.server.auth.scopes import DECIDES, Scope
from drawbridge.server.protocol import commands, messages, replies
from drawbridge.server.protocol.replies import Nothing, Reply
from drawbridge.server.sessions.metadata import TERMINAL_PREFIX

OK: Final = Reply("ok", Nothing)
TOPICS: Final = Reply("subscribed", replies.Topics)
AUTHENTICATED: Final = Reply("auth", replies.Authenticated)
HISTORY: Final[Reply[replies.History]] = Reply("message_history", cast("Any", replies.History))
"""The reply with records of a history. The cast is needed because type checkers do not accept a union as a ``type``."""


def _is_typed(command: commands.Execute) -> bool:
    """Whether the prompt is typed into a terminal, which takes a while."""
    return command.project_id.startswith(TERMINAL_PREFIX)


# The table has no annotation, because mypy would infer the rows' type variables from it, and check nothing.
# fmt: off
COMMANDS: Final = (
    Row("hello", commands.Hello, "view", Server, Server.hello, Reply("hello", replies.Hello)),
    Row("auth", commands.Auth, "view", Server, Server.auth, AUTHENTICATED, signs_in=True),
    Row("pair", commands.Pair, "view", Server, Server.pair, Reply("paired", replies.Paired), signs_in=True),
    Row("ssh_challenge", commands.SshChallenge, "view", Server, Server.ssh_challenge,
        Reply("ssh_challenge", replies.SshChallenge), signs_in=True),
    Row("ssh_auth", commands.SshAuth, "view", Server, Server.ssh_auth, AUTHENTICATED, signs_in=True),
    Row("health_check", commands.HealthCheck, "view", Server, Server.health_check, Reply("health", replies.Health)),
    Row("subscribe", commands.Subscribe, "view", Server, Server.subscribe, TOPICS),
    Row("unsubscribe", commands.Unsubscribe, "view", Server, Server.unsubscribe, TOPICS),
    # projects
    Row("project_create", commands.ProjectCreate, "admin", Core, Core.project_create,
        Reply("update", messages.ProjectState, "project_state"), AuditEntry("project_created", audited.project_create)),
    Row("project_list", commands.ProjectList, "view", Core, Core.project_list, Reply("project_list", replies.ProjectList)),
    Row("project_delete", commands.ProjectDelete, "admin", Core, Core.project_delete,
        Reply("project_deleted", replies.ProjectDeleted), AuditEntry("project_deleted"), aside=True),
    Row("project_join", commands.ProjectJoin, "view", Core, Core.project_join,
        Reply("update", messages.ProjectJoined, "project_joined")),
    Row("project_leave", commands.ProjectLeave, "view", Core, Core.project_leave, OK),
    Row("get_messages", commands.GetMessages, "view", Histories, Histories.get_messages, HISTORY, aside=True),
    # runs and conversations
    Row("execute", commands.Execute, "run", Runs, Runs.execute,
        Reply("accepted", replies.Accepted), AuditEntry("ran", audited.execute), aside=_is_typed),
    Row("agent_kill", commands.AgentKill, "approve", Runs, Runs.agent_kill,
        Reply("update", messages.ExecutionKilled, "execution_killed"), AuditEntry("killed"), aside=True),
    Row("agent_interrupt", commands.AgentInterrupt, "approve", Runs, Runs.agent_interrupt, OK,
        AuditEntry("interrupted", audited.agent_interrupt)),
    Row("queue_remove", commands.QueueRemove, "run", Runs, Runs.queue_remove, OK, AuditEntry("prompt_removed", audited.of_run)),
    Row("queue_edit", commands.QueueEdit, "run", Runs, Runs.queue_edit, OK, AuditEntry("prompt_edited", audited.of_run)),
    Row("queue_move", commands.QueueMove, "run", Runs, Runs.queue_move, OK, AuditEntry("prompt_moved", audited.of_run)),
    Row("queue_send_now", commands.QueueSendNow, "run", Runs, Runs.queue_send_now, OK,
        AuditEntry("prompt_sent_now", audited.of_run)),
    Row("agent_new_session", commands.AgentNewSession, "run", Runs, Runs.agent_new_session,
        Reply("update", messages.SessionReset, "session_reset"), AuditEntry("new_session"), aside=True),
    Row("run_changes", commands.RunChanges, "view", Reviews, Reviews.run_changes,
        Reply("run_changes", replies.RunChanges), aside=True),
    Row("run_revert", commands.RunRevert, "run", Reviews, Reviews.run_revert,
        Reply("update", messages.RunReverted, "run_reverted"), audited.REVERTED, aside=True),
    Row("review_get", commands.ReviewGet, "view", Reviews, Reviews.review_get, Reply("review", replies.Review), aside=True),
    Row("review_decide", commands.ReviewDecide, "run", Reviews, Reviews.review_decide,
        Reply("review", replies.Review), audited.REVIEW_DECIDED, aside=True),
    Row("review_comment", commands.ReviewComment, "approve", Reviews, Reviews.review_comment,
        Reply("update", messages.ReviewCommented, "review_commented"), audited.REVIEW_COMMENTED,
        aside=True),
    Row("review_submit", commands.ReviewSubmit, "run", Reviews, Reviews.review_submit,
        Reply("accepted", replies.Accepted), audited.REVIEW_SUBMITTED, aside=True),
    Row("review_withdraw", commands.ReviewWithdraw, "run", Reviews, Reviews.review_withdraw,
        Reply("review", replies.Review), AuditEntry("comments_withdrawn"), aside=True),
    Row("review_commit", commands.ReviewCommit, "admin", Reviews, Reviews.review_commit,
        Reply("update", messages.ReviewCommitted, "review_committed"), audited.REVIEW_COMMITTED,
        aside=True),
    Row("review_push", commands.ReviewPush, "admin", Reviews, Reviews.review_push,
        Reply("update", messages.ReviewPushed, "review_pushed"), AuditEntry("review_pushed", audited.review_push), aside=True),
    Row("set_mode", commands.SetMode, "run", Runs, Runs.set_mode, OK, AuditEntry("mode_set", audited.set_mode), aside=True),
    Row("set_model", commands.SetModel, "run", Runs, Runs.set_model, OK, AuditEntry("model_set", audited.set_model),
        aside=True),
    Row("set_effort", commands.SetEffort, "run", Runs, Runs.set_effort, OK, AuditEntry("effort_set", audited.set_effort),
        aside=True),
    # Devices without the ``run`` scope do not see the titles of the conversations that the agent stores.
    Row("session_list", commands.SessionList, "run", Runs, Runs.session_list,
        Reply("session_list", replies.SessionList), aside=True),
    Row("session_resume", commands.SessionResume, "run", Runs, Runs.session_resume, OK,
        AuditEntry("session_resumed", audited.of_session), aside=True),
    Row("session_fork", commands.SessionFork, "run", Runs, Runs.session_fork, OK,
        AuditEntry("session_forked", audited.of_session), aside=True),
    # the sessions in the histories
    Row("sessions", commands.Sessions, "view", Histories, Histories.sessions,
        Reply("sessions", replies.SessionsFound), aside=True),
    Row("session_messages", commands.SessionMessages, "view", Histories, Histories.session_messages,
        Reply("session_messages", replies.SessionMessagesPage), aside=True),
    Row("session_export", commands.SessionExport, "view", Histories, Histories.session_export,
        Reply("session_export", replies.SessionPiece), aside=True),
    Row("session_rename", commands.SessionRename, "run", Histories, Histories.session_rename,
        Reply("update", messages.SessionRenamed, "session_renamed"), AuditEntry("session_renamed", audited.of_session),
        aside=True),
    Row("session_delete", commands.SessionDelete, "run", Histories, Histories.session_delete,
        Reply("update", messages.SessionDeleted, "session_deleted"), AuditEntry("session_deleted", audited.of_session),
        aside=True),
    Row("search", commands.Search, "view", Histories, Histories.search, Reply("search", replies.SearchResults), aside=True),
    Row("permission_response", commands.PermissionResponse, DECIDES, Core, Core.permission_response,
        Reply("update", messages.PermissionResolved, "permission_resolved"), audited.ANSWERED),
    # the files of a project
    Row("file_list", commands.FileList, "view", Files, Files.file_list, Reply("file_list", replies.FileEntries), aside=True),
    Row("file_read", commands.FileRead, "view", Files, Files.file_read, Reply("file_read", replies.FileContent), aside=True),
    Row("file_changes", commands.FileChanges, "view", Files, Files.file_changes,
        Reply("file_changes", replies.FileChanges), aside=True),
    # devices, agents
    Row("device_list", commands.DeviceList, "admin", Server, Server.device_list,
        Reply("device_list", replies.DeviceList), aside=True),
    Row("device_revoke", commands.DeviceRevoke, "admin", Server, Server.device_revoke,
        Reply("device_revoked", replies.DeviceRevoked), AuditEntry("token_revoked", audited.device_revoke), aside=True),
    Row("pair_create", commands.PairCreate, "admin", Server, Server.pair_create,
        Reply("pair_created", replies.PairCreated), AuditEntry("pairing_code_made", audited.pair_create), aside=True),
    Row("agent_list", commands.AgentList, "view", Server, Server.agent_list,
        Reply("agent_list", replies.AgentList), aside=True),
    Row("usage", commands.Usage, "view", Histories, Histories.usage, Reply("usage", replies.Usage), aside=True),
    # blobs, directories, notifications to browsers
    Row("blob_put", commands.BlobPut, "approve", Server, Server.blob_put, Reply("blob_stored", replies.BlobStored)),
    Row("blob_get", commands.BlobGet, "view", Server, Server.blob_get, Reply("blob", replies.BlobPiece), aside=True),
    Row("dir_list", commands.DirList, "admin", Server, Server.dir_list, Reply("dir_list", replies.Directories), aside=True),
    Row("dir_create", commands.DirCreate, "admin", Files, Files.dir_create,
        Reply("dir_created", replies.DirectoryCreated), AuditEntry("directory_created", audited.dir_create), aside=True),
    Row("place_list", commands.PlaceList, "admin", Files, Files.place_list,
        Reply("place_list", replies.Places), aside=True),
    Row("push_key", commands.PushKey, "view", Server, Server.push_key, Reply("push_key", replies.PushKey)),
    Row("push_subscribe", commands.PushSubscribe, "view", Server, Server.push_subscribe, OK),
    Row("push_unsubscribe", commands.PushUnsubscribe, "view", Server, Server.push_unsubscribe, OK),
    Row("push_test", commands.PushTest, "view", Server, Server.push_test,
        Reply("push_tested", replies.PushTested), aside=True),
)
# fmt: on


def scopes_of(rows: Iterable[AnyRow]) -> Mapping[str, Scope]:
    """The scope that each command needs, by the command's name."""
    return {row.name: row.scope for row in rows}
