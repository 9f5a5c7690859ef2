"""The settings of a server, checked against this machine, in the form that the server uses."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from pathlib import Path

import psutil

from drawbridge.agents import registry
from drawbridge.agents.base import Confinement
from drawbridge.agents.memory import MB
from drawbridge.core.errors import BadSetting
from drawbridge.core.privacy import DEFAULT_PATTERNS, Privacy
from drawbridge.server.auth.access import HOST_NAME, is_address, is_loopback
from drawbridge.server.auth.entrance import ClientLimits
from drawbridge.server.auth.ssh_keys import Keys
from drawbridge.server.auth.tls import Certificate
from drawbridge.server.checkpoints.private import Largest
from drawbridge.server.data_directory import data_directory
from drawbridge.server.sessions.disk import Sizes
from drawbridge.server.sessions.options.ceilings import Ceilings, is_open
from drawbridge.server.sessions.options.limits import Limits
from drawbridge.server.sessions.projects import Retention
from drawbridge.settings.serve import ServeSettings


class Plan:
    """A server's settings in the form that it uses. ``problems`` must return an empty list for ``settings``."""

    def __init__(self, settings: ServeSettings) -> None:
        self.host: str = settings.host
        self.port: int = settings.port
        self.data = data_directory(settings)
        self.roots = tuple(Path(path).resolve() for path in settings.allow or [Path.home()])
        self.privacy = Privacy(DEFAULT_PATTERNS if settings.ignore is None else settings.ignore)
        self.agents = _named(settings)
        self.public_hosts: tuple[str, ...] = settings.public_host
        self.tls: bool = settings.tls
        self.certificate = (
            Certificate(Path(settings.cert), Path(settings.key)) if settings.cert and settings.key else None
        )
        self.token_wanted: bool = not settings.insecure_no_auth
        self.clients: int = settings.max_clients
        self.client_limits = ClientLimits(settings.max_clients, settings.max_per_address, settings.max_prompts)
        self.origins: tuple[str, ...] = settings.allow_origin
        self.proxies: tuple[str, ...] = settings.trusted_proxy
        self.keys = Keys(Path(settings.authorized_keys).expanduser()) if settings.authorized_keys else None
        self.fsync = settings.fsync
        self.json: bool = settings.json
        self.webhook: str | None = settings.webhook
        self.metrics_port: int | None = settings.metrics_port
        self.ceilings = Ceilings(
            modes=settings.mode,
            skip_permissions=settings.allow_skip_permissions,
            commits=settings.allow_commit,
            pushes=settings.allow_push,
            mcp_config=settings.allow_mcp_config,
            tools=settings.allow_tool,
            models=settings.allow_model,
            max_turns=settings.max_turns,
            max_budget_usd=settings.max_budget,
            project_budget_usd=settings.max_budget_project,
            day_budget_usd=settings.max_budget_day,
            restricted=settings.restricted,
            hours=_hours(settings.hours),
        )
        self.retention = Retention(settings.keep_days, settings.keep_mb * MB if settings.keep_mb else None)
        self.limits = Limits(
            projects=settings.max_projects,
            runs_at_once=settings.max_runs,
            queue=settings.max_queue,
            idle_seconds=float(settings.idle_timeout),
            total_seconds=None if settings.run_timeout is None else float(settings.run_timeout),
            warm_processes=settings.warm,
            checkpoints=settings.checkpoints,
            largest=Largest(settings.checkpoint_files, settings.checkpoint_mb * MB),
            continue_limited=settings.continue_limited,
            memory_bytes=settings.max_memory * MB if settings.max_memory else psutil.virtual_memory().total * 3 // 4,
            sizes=Sizes(settings.max_history * MB, settings.max_data * MB),
            confinement=Confinement(settings.max_open_files, settings.nice, settings.confined),
        )

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)


def problems(settings: ServeSettings) -> list[str]:
    """The reasons why a server can't start with these settings, except those that are detected only when it starts."""
    return [
        *_address(settings),
        *_certificate(settings),
        *(f"--allow: {path} is not a directory" for path in settings.allow or () if not os.path.isdir(path)),
        *registry.problems(_named(settings)),
        *(
            f"--public-host: {name} is not a valid host name or address"
            for name in settings.public_host
            if not re.fullmatch(HOST_NAME, name) and not is_address(name)
        ),
        *(
            f"--trusted-proxy: {given} is not an address or a network"
            for given in settings.trusted_proxy
            if not _is_network(given)
        ),
        *_keys(settings),
        *_log_file(settings),
        *_empty_hours(settings),
    ]


def _address(settings: ServeSettings) -> list[str]:
    host, found = settings.host, []
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        found.append(f"--host: no address was found for {host}")
    if not is_loopback(host):
        if not settings.tls:
            found.append(f"--no-tls requires a loopback address, not {host}")
        if settings.insecure_no_auth:
            found.append(f"--insecure-no-auth requires a loopback address, not {host}")
    return found


def _certificate(settings: ServeSettings) -> list[str]:
    cert, key = settings.cert, settings.key
    if (cert is None) != (key is None):
        return ["--cert and --key must be given together"]
    if cert is None or key is None:
        return []
    if not settings.tls:
        return ["--cert and --no-tls can't be combined"]
    try:
        Certificate(Path(cert), Path(key)).context()
    except BadSetting as error:
        return [str(error).removesuffix(".")]
    return []


def _named(settings: ServeSettings) -> registry.AgentPrograms:
    return registry.AgentPrograms(settings.agent_path, settings.acp_agent, settings.command_agent)


def _log_file(settings: ServeSettings) -> list[str]:
    if settings.log_file:
        try:
            open(settings.log_file, "a").close()
        except OSError as error:
            return [f"--log-file: {settings.log_file} can't be written: {(error.strerror or str(error)).lower()}"]
    return []


def _keys(settings: ServeSettings) -> list[str]:
    if settings.authorized_keys:
        try:
            Keys(Path(settings.authorized_keys).expanduser()).reload()
        except BadSetting as error:
            return [f"--authorized-keys: {str(error).removesuffix('.')}"]
    return []


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def _hours(text: str | None) -> tuple[int, int] | None:
    first, _, last = (text or "").partition("-")
    return (int(first), int(last)) if first else None


def _empty_hours(settings: ServeSettings) -> list[str]:
    hours = _hours(settings.hours)
    if hours is None or any(is_open(hours, hour) for hour in range(24)):
        return []
    return [f"--hours: {hours[0]}-{hours[1]} does not include any hours"]
