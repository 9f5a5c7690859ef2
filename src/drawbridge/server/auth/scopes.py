"""The identity and the scope of a client. The scope that a command needs is in its row (``app.command_table``). Pure,
except that ``Identity.sees`` follows links."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args

from msgspec import Struct

from drawbridge.agents.base import Decision
from drawbridge.server.events import ApprovalRequested
from drawbridge.server.protocol import commands
from drawbridge.server.protocol.client_errors import ClientError

Scope = Literal["view", "approve", "run", "admin"]

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
"""All scopes, from least to most. Each includes the previous ones.

``view`` only reads. ``approve`` also decides on approval requests, comments on reviews and stops runs. ``run`` also
works in existing projects: it starts and reverts runs, decides on reviews and manages sessions. ``admin`` also does
everything else, such as creating projects, committing and managing devices.
"""

DECIDES: Final[Scope] = "approve"
"""The scope that is needed to decide on approval requests."""

RUNS: Final[Scope] = "run"
"""The scope that is needed to decide on an approval request without restrictions: to change more of the input than the
``approve`` scope allows, or to allow more than one call, which amounts to starting a run. It is also needed to change
the queue.
"""


class Identity(Struct, frozen=True, kw_only=True):
    """The identity of a connection. ``projects``: the directories with the projects that it may see; None for all
    projects.

    ``device_id``: None for the owner and for SSH keys. ``key``: the fingerprint of the SSH key; None without one.
    ``only``: the ids of the project and of the approval request that a notification's token is for; None for all other
    tokens.
    """

    name: str
    scope: Scope
    device_id: str | None = None
    key: str | None = None
    projects: tuple[str, ...] | None = None
    only: tuple[str, str] | None = None

    @property
    def device(self) -> str | None:
        """The id of its device, or the fingerprint of its SSH key; None for the owner."""
        return self.device_id or self.key

    @property
    def is_owner(self) -> bool:
        return self.device is None

    def sees(self, path: Path | None, leads_to: Callable[[Path], Path]) -> bool:
        """Whether the client may see a project at ``path``. If the path is not known (None), True only for a client
        that may see all projects. ``leads_to`` returns the canonical path, which is checked too, because the directory
        may have been replaced by a link to a directory that the client may not see."""
        if self.projects is None:
            return True
        return path is not None and self._includes(path) and self._includes(leads_to(path))

    def _includes(self, path: Path) -> bool:
        return any(Path(one) in (path, *path.parents) for one in self.projects or ())

    def may(self, needed: Scope) -> bool:
        """Whether its scope is ``needed`` or one that includes it."""
        return SCOPES.index(self.scope) >= SCOPES.index(needed)


def owner(name: str) -> Identity:
    return Identity(name=name, scope="admin")


def check_only(identity: Identity, command: commands.Command, what: str) -> None:
    """Raises ``ClientError`` (OUT_OF_SCOPE) if the token is for one approval request and the command is not a plain
    decision on it. A notification shows only this request, so its token allows nothing else.
    """
    if identity.only is None:
        return
    about = isinstance(command, commands.PermissionResponse) and (command.project_id, command.approval_id)
    plain = isinstance(command, commands.PermissionResponse) and not (
        command.remember or command.updated_input is not None or command.updated_input_blob is not None
    )
    if about != identity.only or not plain:
        text = f"{what}: a notification's token can only allow or deny its own approval request, without changes."
        raise ClientError("OUT_OF_SCOPE", text, details={"scope": identity.scope, "needed": DECIDES})


def check(identity: Identity, needed: Scope, what: str) -> None:
    """Raises ``ClientError`` (OUT_OF_SCOPE) if the scope does not include ``needed``. ``what``: the type of the
    command."""
    if not identity.may(needed):
        raise out_of_scope(identity, needed, what)


def check_answer(identity: Identity, decision: Decision, request: ApprovalRequested) -> None:
    """Raises ``ClientError`` (OUT_OF_SCOPE) if the decision exceeds the identity's scope, which is at least
    ``approve``."""
    if identity.may(RUNS):
        return
    if decision.remember:
        raise out_of_scope(identity, RUNS, "permission_response with remember", "data.remember")
    updated = decision.updated_input
    if updated is None:
        return
    given = request.given
    before = {"": None} if given is None else given
    may = _changeable(request)
    try:
        changed = {
            name
            for name in {*before, *updated}
            if name not in before or name not in updated or not _same(before[name], updated[name])
        }
    except RecursionError:  # nested too deeply to be compared
        changed = {""}
    if not changed <= may:
        raise out_of_scope(identity, RUNS, "permission_response with different input", "data.updated_input")


def _changeable(request: ApprovalRequested) -> frozenset[str]:
    """The fields that ``approve`` may change in the input: the answers to the agent's questions, and the text of a
    proposal, but not the file's path. It may not change a command, because a different command amounts to starting a
    run."""
    call = request.call
    if call is None:
        return frozenset()
    if call.kind == "question":
        return frozenset({call.answers} - {""})
    return frozenset(call.texts) if request.proposal is not None else frozenset()


def _same(left: Any, right: Any) -> bool:
    """Whether two values are equal in JSON, where ``true`` is not 1 as it is in Python."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


def out_of_scope(identity: Identity, needed: Scope, what: str, field: str | None = None) -> ClientError:
    text = f"{what} requires the {needed} scope; {identity.name} has the {identity.scope} scope."
    return ClientError("OUT_OF_SCOPE", text, field, details={"scope": identity.scope, "needed": needed})
