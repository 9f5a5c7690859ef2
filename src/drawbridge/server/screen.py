"""The output of ``drawbridge serve`` when it is ready: a summary for users or, with ``--json``, a line for programs."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Collection, Sequence
from typing import Any, Final

from drawbridge.core.own_command import own_command
from drawbridge.core.terminal_text import Terminal
from drawbridge.server.app.site import PATH
from drawbridge.server.auth.access import bracketed, served
from drawbridge.server.auth.tls import Certificate
from drawbridge.server.plan import Plan
from drawbridge.transport import running

ADDRESSES: Final = ("web UI", "programs", "metrics")


def ready_line(plan: Plan, port: int, certificate: Certificate | None, metrics: str | None) -> dict[str, Any]:
    """The data that a program needs to connect. ``token_file`` is None if no token is required, ``fingerprint`` without
    TLS, and ``metrics`` if metrics are not served."""
    return {
        "event": "ready",
        "url": address(plan, port),
        "token_file": str(plan.data / "token") if plan.token_wanted else None,
        "fingerprint": certificate.fingerprint if certificate else None,
        "pid": os.getpid(),
        "metrics": metrics,
    }


def address(plan: Plan, port: int) -> str:
    """The URL of the socket, with the first public name, if any. Otherwise, if the server listens on all addresses, the
    URL has a loopback address.
    """
    host = plan.public_hosts[0] if plan.public_hosts else plan.host
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"{'wss' if plan.tls else 'ws'}://{bracketed(host)}:{port}{PATH}"


def announced(plan: Plan, port: int, certificate: Certificate | None) -> contextlib.AbstractContextManager[None]:
    """Returns a context manager: inside its block, other commands can find the server."""
    others = pages(plan, port)
    url = address(plan, port)
    return running.announced(
        plan.data,
        url,
        others or (page(url),),
        certificate.fingerprint if certificate else None,
        loopback=not others,
        authority=certificate is not None and certificate.authority is not None,
    )


def pages(plan: Plan, port: int) -> tuple[str, ...]:
    """The web UI's addresses for other machines, best first; empty if only this machine can reach the server."""
    scheme = "https" if plan.tls else "http"
    return tuple(f"{scheme}://{bracketed(one)}:{port}/" for one in served(plan.host, plan.public_hosts))


def page(url: str) -> str:
    return url.removesuffix(PATH).replace("ws", "http", 1) + "/"


def show(
    plan: Plan,
    port: int,
    certificate: Certificate | None,
    version: str,
    agents: Sequence[str],
    projects: int,
    metrics: str | None,
    missing: Collection[str] = (),
    sign_in: str | None = None,
) -> None:
    """Prints how to reach the server. ``missing``: the names of those ``agents`` that need a program which is not
    installed. ``sign_in``: a link that signs in a browser on this machine; None to omit it."""
    terminal = Terminal(sys.stdout)
    if plan.json:
        terminal.write(json.dumps(ready_line(plan, port, certificate, metrics)) + "\n")
        return
    programs = address(plan, port)
    rows = [("web UI", list(dict.fromkeys([page(programs), *pages(plan, port)]))), ("programs", [programs])]
    if sign_in is not None:
        rows.insert(
            0, ("sign in", [sign_in, "Gives a browser on this machine full access. Works once, within 10 minutes."])
        )
    if plan.token_wanted:
        rows.append(
            ("token", [str(plan.data / "token"), "Anyone who has it can control the agents here. Keep it secret."])
        )
    else:
        rows.append(("token", ["not required: anyone on this machine can control the agents"]))
    if certificate is None:
        rows.append(("TLS", ["off; connections are accepted from this machine only"]))
    else:
        made = "from --cert" if plan.certificate else "generated here; compare it when a client asks"
        rows.append(("certificate", [f"SHA-256, {made}", *_halves(certificate.fingerprint)]))
    where = ", ".join(str(root) for root in plan.roots)
    rows += [
        ("projects", [f"{projects or 'none yet'}; new ones are allowed in {where}"]),
        ("agents", _agents(agents, missing)),
    ]
    if metrics:
        rows.append(("metrics", [metrics]))
    lines = [terminal.paint(f"drawbridge {version} is ready", "agent"), ""]
    for name, texts in rows:
        for index, text in enumerate(texts):
            label = terminal.paint(f"{name if index == 0 else '':<13}", "dim")
            lines.append(f"  {label}{terminal.plain(text, 'path' if name in ADDRESSES else 'context')}")
    if sign_in is not None:
        words = [
            "Next: open the link in a browser on this machine.",
            f"`{own_command()} pair` connects a phone, `{own_command()} attach` a terminal."
            if pages(plan, port)
            else f"`{own_command()} attach` connects a terminal. `{own_command()} pair` shows how to connect a phone.",
        ]
    elif plan.token_wanted:
        words = [
            f"Next: `{own_command()} pair --scope admin` connects your browser.",
            f"`{own_command()} attach` connects a terminal.",
        ]
    else:
        words = [f"Next: open the web UI, or run `{own_command()} attach` in a terminal."]
    lines += ["", *words, "Ctrl-C stops the server and its agents.", ""]
    terminal.write("\n".join(lines))


def _agents(agents: Sequence[str], missing: Collection[str]) -> list[str]:
    here = ", ".join(name for name in agents if name not in missing)
    return [here, f"not installed: {', '.join(missing)}"] if missing else [here]


def _halves(fingerprint: str) -> tuple[str, str]:
    middle = len(fingerprint) // 2
    return fingerprint[:middle], fingerprint[middle + 1 :]
