"""The state of all projects, derived only from the server's messages. Does no I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Project: TypeAlias = dict[str, Any]
"""A project as the server sends it in lists and in ``project_state``."""


class Projects:
    def __init__(self) -> None:
        self.all: dict[str, Project] = {}
        self.known = False
        """Whether the list of projects has been received."""

    def apply(self, message: Mapping[str, Any]) -> None:
        """Applies one message of any type."""
        id, data = message.get("project_id", ""), message["data"]
        match message["type"]:
            case "project_list":
                self.all = {one["id"]: dict(one) for one in data["projects"]}
                self.known = True
            case "project_deleted":
                self.all.pop(data["project_id"], None)
            case "permission_request":
                self._change(id, lambda project: _waits(project, data))
            case "review":
                self._change(id, lambda project: project.update(review={"files": len(data["files"]) + data["more"]}))
            case "update":
                self._update(id, data["update_type"], data["data"])
        self._received(id, message.get("seq"))

    def _update(self, id: str, what: str, data: Mapping[str, Any]) -> None:
        match what:
            case "project_state" | "project_created":
                self.all[data["id"]] = dict(data)  # replaced as a whole, so a field that is left out is empty now
            case "project_deleted":
                self.all.pop(data["project_id"], None)
            case "review_changed":
                self._change(id, lambda project: project.update(review=data))
            case "permission_resolved" | "permission_withdrawn":
                self._change(id, lambda project: _settled(project, data["approval_id"]))

    def _change(self, id: str, change: Callable[[Project], None]) -> None:
        if id in self.all:
            change(self.all[id])

    def _received(self, id: str, seq: int | None) -> None:
        project = self.all.get(id)
        if project is not None and seq is not None:
            project["last_seq"] = max(seq, project["last_seq"])

    def sorted(self) -> list[Project]:
        """All projects: those that wait for a person first, then by their last activity, latest first."""
        latest = sorted(self.all.values(), key=lambda one: str(one["last_active"]), reverse=True)
        return sorted(latest, key=lambda one: not one["approvals"])

    @property
    def waiting(self) -> int:
        """The number of open approval requests in all projects."""
        return sum(len(project["approvals"]) for project in self.all.values())

    def named(self, name: str, directory: str) -> list[Project]:
        """The projects that ``name`` identifies: by id, otherwise by path (``directory`` is the absolute path),
        otherwise by the name of their directory."""
        if name in self.all:
            return [self.all[name]]
        ways: tuple[Callable[[Project], bool], ...] = (
            lambda one: one["path"] in (name, directory),
            lambda one: one["path"].rpartition("/")[2] == name,
        )
        found = ([one for one in self.sorted() if way(one)] for way in ways)
        return next(filter(None, found), [])


def _waits(project: Project, asked: Mapping[str, Any]) -> None:
    if all(one["approval_id"] != asked["approval_id"] for one in project["approvals"]):
        waiting = {name: asked[name] for name in ("approval_id", "tool_name", "created_at")}
        project["approvals"] = [*project["approvals"], waiting]


def _settled(project: Project, id: str) -> None:
    project["approvals"] = [one for one in project["approvals"] if one["approval_id"] != id]
