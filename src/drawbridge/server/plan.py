"""What a server is started with: its settings, looked at in the light of this machine. All problems are found at once."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs
import psutil

from drawbridge.core.errors import BadSetting
from drawbridge.server.agents import registry
from drawbridge.server.agents.port import Confinement
from drawbridge.server.auth.access import HOST_NAME, is_loopback
from drawbridge.server.auth.entrance import Crowd
from drawbridge.server.auth.ssh_keys import Keys
from drawbridge.server.auth.tls import Certificate
from drawbridge.server.sessions.ceilings import Ceilings, is_open
from drawbridge.server.sessions.context import Limits
from drawbridge.server.sessions.disk import Sizes
from drawbridge.server.sessions.memory import MB
from drawbridge.server.sessions.upkeep import Retention


class Plan:
    """Settings that ``problems`` has found nothing in, as what the server works with."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.host: str = values["host"]
        self.port: int = values["port"]
        self.data = data_directory(values)
        self.roots = tuple(Path(path).resolve() for path in values["allow"] or [Path.home()])
        self.agents = _named(values)
        self.public_hosts: tuple[str, ...] = values["public_host"]
        self.tls: bool = values["tls"]
        self.certificate = Certificate(Path(values["cert"]), Path(values["key"])) if values["cert"] else None
        self.token_wanted: bool = not values["insecure_no_auth"]
        self.clients: int = values["max_clients"]
        self.crowd = Crowd(values["max_clients"], values["max_per_address"], values["max_prompts"])
        self.origins: tuple[str, ...] = values["allow_origin"]
        self.proxies: tuple[str, ...] = values["trusted_proxy"]
        self.keys = Keys(Path(values["authorized_keys"]).expanduser()) if values["authorized_keys"] else None
        self.fsync = values["fsync"]
        self.json: bool = values["json"]
        self.webhook: str | None = values["webhook"]
        self.metrics_port: int | None = values["metrics_port"]
        self.ceilings = Ceilings(
            modes=values["mode"],
            skip_permissions=values["allow_skip_permissions"],
            mcp_config=values["allow_mcp_config"],
            tools=values["allow_tool"],
            models=values["allow_model"],
            max_turns=values["max_turns"],
            max_budget_usd=_dollars(values["max_budget"]),
            project_budget_usd=_dollars(values["max_budget_project"]),
            day_budget_usd=_dollars(values["max_budget_day"]),
            restricted=values["restricted"],
            hours=_hours(values["hours"]),
        )
        self.retention = Retention(values["keep_days"], values["keep_mb"] * MB if values["keep_mb"] else None)
        self.limits = Limits(
            projects=values["max_projects"],
            runs_at_once=values["max_runs"],
            queue=values["max_queue"],
            idle_seconds=float(values["idle_timeout"]),
            total_seconds=None if values["run_timeout"] is None else float(values["run_timeout"]),
            warm_processes=values["warm"],
            checkpoints=values["checkpoints"],
            continue_limited=values["continue_limited"],
            warm_seconds=float(values["warm_time"]),
            memory_bytes=values["max_memory"] * MB if values["max_memory"] else psutil.virtual_memory().total * 3 // 4,
            sizes=Sizes(values["max_history"] * MB, values["max_data"] * MB),
            confinement=Confinement(values["max_open_files"], values["nice"], values["confined"]),
        )

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)


def data_directory(values: Mapping[str, Any]) -> Path:
    return Path(values["data_dir"] or platformdirs.user_data_dir("drawbridge", appauthor=False)).absolute()


def problems(values: Mapping[str, Any]) -> list[str]:
    """Everything that keeps a server from starting with these settings, but what is found out by trying."""
    return [
        *_address(values),
        *_certificate(values),
        *(f"--allow: {path} is no directory" for path in values["allow"] or () if not os.path.isdir(path)),
        *registry.problems(_named(values)),
        *(
            f"--public-host: {name} is no name of a machine and no address"
            for name in values["public_host"]
            if not re.fullmatch(HOST_NAME, name) and not _is_address(name)
        ),
        *(
            f"--trusted-proxy: {given} is neither an address nor a network"
            for given in values["trusted_proxy"]
            if not _is_network(given)
        ),
        *_keys(values),
        *_log_file(values),
        *_never(values),
    ]


def _address(values: Mapping[str, Any]) -> list[str]:
    host, found = values["host"], []
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        found.append(f"--host: {host} is no address of this machine")
    if not is_loopback(host):
        if not values["tls"]:
            found.append(f"--no-tls goes with a loopback address only, not with {host}")
        if values["insecure_no_auth"]:
            found.append(f"--insecure-no-auth goes with a loopback address only, not with {host}")
    return found


def _certificate(values: Mapping[str, Any]) -> list[str]:
    cert, key = values["cert"], values["key"]
    if (cert is None) != (key is None):
        return ["--cert and --key go together"]
    if cert is None:
        return []
    if not values["tls"]:
        return ["--cert and --no-tls exclude each other"]
    try:
        Certificate(Path(cert), Path(key)).context()
    except BadSetting as error:
        return [str(error).removesuffix(". Nothing was started.")]
    return []


def _named(values: Mapping[str, Any]) -> registry.Named:
    return registry.Named(values["agent_path"], values["acp_agent"], values["command_agent"])


def _log_file(values: Mapping[str, Any]) -> list[str]:
    if values["log_file"]:
        try:
            open(values["log_file"], "a").close()
        except OSError as error:
            return [f"--log-file: {values['log_file']} can't be written: {(error.strerror or str(error)).lower()}"]
    return []


def _keys(values: Mapping[str, Any]) -> list[str]:
    if values["authorized_keys"]:
        try:
            Keys(Path(values["authorized_keys"]).expanduser()).look()
        except BadSetting as error:
            return [f"--authorized-keys: {str(error).removesuffix('.')}"]
    return []


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _dollars(amount: float | None) -> float | None:
    return None if amount is None else float(amount)


def _hours(text: str | None) -> tuple[int, int] | None:
    first, _, last = (text or "").partition("-")
    return (int(first), int(last)) if first else None


def _never(values: Mapping[str, Any]) -> list[str]:
    hours = _hours(values["hours"])
    if hours is None or any(is_open(hours, hour) for hour in range(24)):
        return []
    return [f"--hours: from {hours[0]} to {hours[1]} is never"]
