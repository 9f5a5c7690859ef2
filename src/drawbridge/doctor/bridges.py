"""Bridges: connects to each of Drawbridge's bridges that a discovery file names, as an agent would, with the token in
the file. Sends the first MCP request, and waits for the response. Other programs' bridges are only inspected, because
they may disconnect their current agent when another one connects.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import psutil
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from drawbridge.agents import catalog
from drawbridge.core import beside
from drawbridge.core.own_command import own_command
from drawbridge.core.private_files import process_alive
from drawbridge.doctor.finding import Check, Finding, finding
from drawbridge.ide.claude import PROBE_HEADER, SUBPROTOCOL, TOKEN_HEADER
from drawbridge.ide.discovery import gemini_directory, lock_directory
from drawbridge.ide.gemini.http import SESSION_HEADER
from drawbridge.info import bridges
from drawbridge.info.bridges import Bridge

SECONDS: Final = 3.0
"""The time limit for each step of a connection, in seconds."""

LARGEST: Final = 1_000_000

REPLACE: Final = "Restart the bridge with `:DrawbridgeRestart` in its Neovim, or in the terminal where it runs."

Outcome: TypeAlias = Literal["works", "refused", "silent", "token", "invalid"]

INITIALIZE: Final = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "drawbridge doctor", "version": "1"},
        },
    }
)
"""The first MCP request. The bridge does not show the doctor to the user as a connected agent, because the doctor
neither sends the notification that usually follows nor opens an event stream."""


class Reached(NamedTuple):
    """A bridge that an agent could use, and the names of the agents with a connection that works. Connections to
    another program's bridge are not tested, and count as working."""

    bridge: Bridge
    agents: list[str]


def checks(directory: str) -> list[Check]:
    return [
        Check("the bridges", lambda: check(directory)),
        Check("bridges in other places", elsewhere),
        Check("the proxy variables", lambda: proxy(os.environ)),
    ]


def check(directory: str) -> list[Finding]:
    found = bridges.inspect()
    if not found:
        why = "An agent in a terminal has no editor to show its changes in."
        todo = f"Run `:DrawbridgeStart` in Neovim, or `{own_command()} ide --folder .` in a terminal."
        return [finding("bridge-none", "No bridge is running.", why, todo)]
    answers = beside.each(_of_bridge, found, 2 * SECONDS + 1)
    results = [answer or _late(bridge) for bridge, answer in zip(found, answers, strict=True)]
    findings = [one for _, these in results for one in these]
    return findings + list(_choice([reached for reached, _ in results if reached], directory))


def elsewhere() -> list[Finding]:
    """Findings about bridges with files outside the directories that the environment of this process selects."""
    mine = {path for bridge in bridges.inspect() for path in bridge.files.values()}
    found: dict[str, Finding] = {}
    for environ in _environments_of_bridges():
        for bridge in bridges.inspect(environ):
            for path in bridge.files.values():
                if bridge.state == "live" and bridge.ours and path not in mine:
                    found[path] = _other_place(bridge, path)
    return list(found.values())


def proxy(environ: Mapping[str, str]) -> list[Finding]:
    """A finding if agents would connect to the bridge through a proxy. ``:checkhealth drawbridge`` reports that too."""
    names = [name for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY") if environ.get(name)]
    exempt = ",".join(environ.get(name, "") for name in ("no_proxy", "NO_PROXY"))
    if not names or "127.0.0.1" in exempt or "*" in [part.strip() for part in exempt.split(",")]:
        return []
    title = f"{', '.join(names)} is set, and no_proxy does not contain 127.0.0.1."
    why = "An agent connects to the bridge through the proxy, which can't reach this machine's own ports."
    todo = 'Before you start the agent, run `export no_proxy="127.0.0.1,localhost,::1${no_proxy:+,$no_proxy}"; '
    return [finding("proxy", title, why, todo + 'export NO_PROXY="$no_proxy"`.')]


def _of_bridge(bridge: Bridge) -> tuple[Reached | None, list[Finding]]:
    files, several = " and ".join(bridge.files.values()), len(bridge.files) > 1
    if bridge.state == "unreadable":
        why = "Agents ignore such a file, so they do not find the bridge that wrote it."
        todo = f"Restart the editor or the program that wrote {'them' if several else 'it'}."
        return None, [finding("bridge-unreadable", f"{files} can't be read as JSON.", why, todo)]
    if not bridge.ours:
        if bridge.state == "live":
            return Reached(bridge, list(bridge.files)), []
        why = "It does no harm, because agents skip such a file."
        them = "the files" if several else "the file"
        todo = f"You can ignore or delete {them}. Drawbridge leaves other programs' files alone."
        title = f"{files} {'were' if several else 'was'} left behind by another program that is no longer running."
        return None, [finding("bridge-foreign-dead", title, why, todo)]
    name = _name(bridge)
    ended = [pid for pid in (bridge.drawbridge_pid, bridge.pid) if pid and not process_alive(pid)]
    if ended:  # another program may listen on its port, so the token is not sent
        why = "Agents that find such a file may try to connect to a bridge that no longer works."
        removed = set(bridges.left_behind()).issuperset(bridge.files.values())
        command = f"{own_command()} doctor --fix" if removed else shlex.join(["rm", *bridge.files.values()])
        todo = f"`{command}` removes {'them' if several else 'it'}."
        title = f"{files} {'name' if several else 'names'} process {ended[0]}, which has ended."
        return None, [finding("bridge-dead", title, why, todo)]
    agents, findings = [], []
    for agent, path in bridge.files.items():
        outcome = _connect(catalog.AGENTS[agent].bridge, bridge.port, bridges.content(path) or {})
        if outcome == "works":
            agents.append(agent)
        else:
            findings.append(_failed(outcome, name, catalog.title(agent), path))
    if agents:
        titles = " and ".join(map(catalog.title, agents))
        findings.insert(0, finding("bridge-works", f"{name} accepts connections from {titles}."))
    return (Reached(bridge, agents) if agents else None), findings


def _late(bridge: Bridge) -> tuple[None, list[Finding]]:
    """The finding for a program that sends a byte now and then, so that no single step takes too long, but all steps
    together do.
    """
    agent, path = next(iter(bridge.files.items()))
    return None, [_failed("silent", _name(bridge), catalog.title(agent), path)]


def _name(bridge: Bridge) -> str:
    return f"{bridge.ide or 'An editor'}'s bridge on port {bridge.port}"


def _failed(outcome: Outcome, name: str, agent: str, path: str) -> Finding:
    titles = {
        "refused": f"{name} refuses connections, although its process is running.",
        "silent": f"{name} does not answer {agent} in time.",
        "token": f"{name} refuses the token in {path}.",
        "invalid": f"{name} does not give {agent} a valid answer. Another program may be using its port.",
    }
    why = f"{agent} finds the bridge, but can't connect, so it does not open diffs."
    return finding(f"bridge-{outcome}", titles[outcome], why, REPLACE)


def _choice(reached: list[Reached], directory: str) -> Iterator[Finding]:
    """Findings for each agent that a bridge accepts, but that would find no bridge, or several, in the directory."""
    for agent in dict.fromkeys(agent for one in reached for agent in one.agents):
        serving = [one.bridge for one in reached if agent in one.agents]
        here = [bridge for bridge in serving if any(_contains(folder, directory) for folder in bridge.folders)]
        title = catalog.title(agent)
        if not here:
            folders = ", ".join(folder for bridge in serving for folder in bridge.folders)
            where = f"{directory}. Folders with a bridge: {folders}" if folders else "a folder"
            why = f"{title} does not find an editor when it is started here."
            todo = "Start it in a folder with a bridge, or start Neovim here." if folders else "Start Neovim here."
            yield finding("bridge-outside", f"No bridge for {title} serves {where}.", why, todo)
        elif len(here) > 1:
            editors = ", ".join(f"{bridge.ide} (pid {bridge.pid or bridge.drawbridge_pid})" for bridge in here)
            why = (
                f"If you start {title} outside these editors, it can't know which one to use, and may connect to none."
            )
            todo = "Choose one with `/ide` in the agent, or close the others."
            yield finding("bridge-ambiguous", f"Several bridges for {title} serve {directory}: {editors}.", why, todo)


def _contains(folder: str, directory: str) -> bool:
    above = os.path.realpath(folder)
    return directory == above or directory.startswith(above.rstrip("/") + "/")


def _other_place(bridge: Bridge, path: str) -> Finding:
    title = f"{_name(bridge)} announces itself in {path}."
    why = (
        "With the environment variables that are set here, agents look in "
        f"{lock_directory()} and {gemini_directory()} instead."
    )
    todo = "Start the editor and the agent with the same `CLAUDE_CONFIG_DIR` and `TMPDIR`."
    return finding("bridge-other-config", title, why, todo)


def _environments_of_bridges() -> Iterator[dict[str, str]]:
    """The environments of this user's ``drawbridge ide`` processes with the same ``HOME`` as this process."""
    me, home = os.geteuid(), os.environ.get("HOME")
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            words = set(map(os.path.basename, process.cmdline()))
            if process.uids().effective == me and {"drawbridge", "ide"} <= words:
                environ = process.environ()
                if environ.get("HOME") == home:
                    yield environ


# connecting


def _connect(way: str, port: int, content: dict[str, Any]) -> Outcome:
    token = content.get("authToken")
    try:
        return WAYS[way](port, token if isinstance(token, str) else "")
    except ConnectionRefusedError:
        return "refused"
    except TimeoutError:
        return "silent"
    except (OSError, http.client.HTTPException, WebSocketException, ValueError):
        return "invalid"


def _by_websocket(port: int, token: str) -> Outcome:
    try:
        with connect(
            f"ws://127.0.0.1:{port}/",
            additional_headers={TOKEN_HEADER: token, PROBE_HEADER: "1"},
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            compression=None,
            proxy=None,
            open_timeout=SECONDS,
            close_timeout=1,
            max_size=LARGEST,
        ) as socket:
            socket.send(INITIALIZE)
            return _judged(socket.recv(SECONDS))
    except InvalidStatus as refusal:
        return "token" if refusal.response.status_code == http.client.UNAUTHORIZED else "invalid"


def _by_http(port: int, token: str) -> Outcome:
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)) as connection:
        connection.request("POST", "/mcp", INITIALIZE, headers)
        response = connection.getresponse()
        body, session = response.read(LARGEST), response.headers.get(SESSION_HEADER)
        if response.status == http.client.UNAUTHORIZED:
            return "token"
        outcome = _judged(body)
        if session:
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection.request("DELETE", "/mcp", headers=headers | {SESSION_HEADER: session})
                connection.getresponse().read(LARGEST)
        return outcome


def _judged(answer: str | bytes) -> Outcome:
    """ "works" if the answer is from a bridge, otherwise "invalid". Raises ``ValueError`` if it is not JSON."""
    found = json.loads(answer)
    result = found.get("result") if isinstance(found, dict) else None
    return "works" if isinstance(result, dict) and "serverInfo" in result else "invalid"


WAYS: Final[dict[str, Callable[[int, str], Outcome]]] = {catalog.WEBSOCKET: _by_websocket, catalog.HTTP: _by_http}
