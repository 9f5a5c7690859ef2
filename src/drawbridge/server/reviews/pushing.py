"""Pushes the current branch and creates a pull request, with the user's own git and ``gh`` or ``glab``, as in a shell.

The offer is read from the configuration and the refs, without running a program that they name. A request contains the
version of the offer, because an agent may have changed the configuration, or made another commit, since the user saw
the offer.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from drawbridge.server.checkpoints.errors import GitFailed
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.reviews.committing import head_of
from drawbridge.text.review_words import request_name

SECONDS: Final = 300.0
"""The maximum number of seconds for a push, including its hooks."""

PULL_REQUEST_SECONDS: Final = 120.0

MOVED: Final = 92
"""The exit code of the script if the branch is not at the commit that was shown."""

ADDRESS: Final = re.compile(r"https://[^\s<>\"'\x00-\x1f\x7f]+/(?:pull|merge_requests)/[0-9]+(?![^\s.,)])")
"""Matches the address of a pull request or merge request, which ``gh pr create`` and ``glab mr create`` print."""

Reason: TypeAlias = Literal["detached", "moved", "no_remote", "no_repository", "program", "remote", "unborn"]

Program: TypeAlias = Literal["gh", "glab"]


class CannotPush(Exception):
    """Nothing can be pushed here, a pull request can't be created, or the branch, its last commit or its remote is not
    what the user saw. The text is shown to the user.
    """

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class NotPushed(Exception):
    """git, a hook or the remote refused the push, or it took too long. ``output``: what they printed; ``code``: git's
    exit code, -1 if git was killed or could not be ended in time."""

    def __init__(self, code: int, output: str) -> None:
        super().__init__(output)
        self.code = code
        self.output = output


class Target(Struct, frozen=True, kw_only=True):
    """The remote and the branch to which the current branch is pushed.

    ``version`` changes when the remote, its addresses, the branch or its last commit does. ``local``, ``branch``: the
    branch's name here and on the remote. ``ahead``: the number of commits that the remote's branch does not have; None
    if the remote is not known to have that branch. ``program``: the program that creates a pull request; None if no
    pull request can be created. ``why_not``: the reason for that, which is shown to the user. ``subject``, ``body``:
    the two parts of the last commit's message.
    """

    version: str
    remote: str
    local: str
    branch: str
    commit: str
    ahead: int | None
    has_upstream: bool
    program: Program | None
    why_not: str
    subject: str
    body: str


class Pushed(Struct, frozen=True):
    """The result of a push. ``pull_request``: the pull request's address, if it is known. ``problem``: reports that the
    pull request was not created (``output`` contains the reason); empty if it was, or if none was requested."""

    target: Target
    output: str
    pull_request: str | None = None
    problem: str = ""


async def target_of(git: Git) -> Target:
    """The target of a push of the current branch. Raises ``CannotPush`` or ``GitFailed``."""
    if git.repository.private:
        raise CannotPush("no_repository", "the directory is not in a git work tree")
    head = await head_of(git)
    if not head.ref:
        raise CannotPush("detached", "no branch is checked out (detached HEAD)")
    if not head.commit:
        raise CannotPush("unborn", "the repository has no commits yet")
    local = head.ref.removeprefix("refs/heads/")
    items = await git.configuration()
    settings = dict(items)
    remote = _remote(local, settings)
    upstream = settings.get(f"branch.{local}.merge", "").removeprefix("refs/heads/")
    own = settings.get(f"branch.{local}.remote", "")
    follows = settings.get("push.default") in ("upstream", "tracking") and remote == own
    branch = upstream if upstream and follows else local
    urls = [value for name, value in items if name in (f"remote.{remote}.url", f"remote.{remote}.pushurl")]
    program, why_not = await asyncio.to_thread(_program, urls)
    there = f"refs/remotes/{remote}/{branch}"
    code, default, _ = await git.run("symbolic-ref", "--quiet", f"refs/remotes/{remote}/HEAD")
    if not code and default.strip() == there:
        program, why_not = None, f"{branch} is the default branch of {remote}"
    subject, _, body = (await git.read("log", "-1", "--format=%s%n%b", head.commit)).partition("\n")
    seen = repr((remote, urls, local, branch, head.commit))
    return Target(
        version=blake2b(seen.encode(errors="surrogateescape"), digest_size=12).hexdigest(),
        remote=remote,
        local=local,
        branch=branch,
        commit=head.commit,
        ahead=await _ahead(git, there, head.commit),
        has_upstream=bool(upstream and own),
        program=program,
        why_not=why_not,
        subject=subject,
        body=body.strip(),
    )


async def push(git: Git, version: str, pull_request: tuple[str, str] | None) -> Pushed:
    """Pushes the current branch, never by force. ``version``: the version of the ``Target`` that the user has seen.
    ``pull_request``: the title and the body of a pull request to create; None to create none. If the pull request can't
    be created after the push, ``Pushed.problem`` reports that.

    Raises ``CannotPush``, ``NotPushed`` or ``GitFailed``. In that case, git has not reported that anything was pushed.
    """
    target = await target_of(git)
    moved = CannotPush("moved", "the branch, its last commit or its remote has changed since it was shown")
    if version != target.version:
        raise moved
    if pull_request is not None and target.program is None:
        raise CannotPush("program", target.why_not)
    given = {"ref": f"refs/heads/{target.local}", "commit": target.commit, "there": f"refs/heads/{target.branch}"}
    given |= {"remote": target.remote, "upstream": "" if target.has_upstream else "--set-upstream"}
    try:
        code, output = await git.as_person(_script(given, _PUSH), SECONDS, "a push")
    except GitFailed as error:
        raise NotPushed(-1, str(error)) from None
    if code == MOVED:
        raise moved
    if code:
        raise NotPushed(code, output)
    if pull_request is None or target.program is None:
        return Pushed(target, output)
    words = shlex.join(await asyncio.to_thread(_command, target.program, target.branch, *pull_request))
    check = _STILL_CHECKED_OUT if target.program == "gh" else ""
    script = _script({"ref": given["ref"], "local": target.local}, f"{check}exec {words}")
    try:
        code, more = await git.as_person(script, PULL_REQUEST_SECONDS, "a pull request")
    except GitFailed as error:
        code, more = -1, str(error)
    found = ADDRESS.findall(more)
    problem = f"{target.program} did not create a {request_name(target.program)}" if code else ""
    return Pushed(target, f"{output.strip()}\n{more}", found[-1] if found else None, problem)


def _remote(local: str, settings: Mapping[str, str]) -> str:
    """The name of the remote, as git chooses it for a push. Raises ``CannotPush``."""
    remotes = sorted(
        name.removeprefix("remote.").removesuffix(".url")
        for name in settings
        if name.startswith("remote.") and name.endswith(".url")
    )
    if not remotes:
        raise CannotPush("no_remote", "the repository has no remote")
    for name in (f"branch.{local}.pushremote", "remote.pushdefault", f"branch.{local}.remote"):
        chosen = settings.get(name)
        if chosen in remotes:
            return chosen
        if chosen not in (None, "", "."):  # a dot is this repository
            raise CannotPush("remote", f"git's configuration ({name}) names {chosen}, which is not a remote")
    if "origin" in remotes:
        return "origin"
    if len(remotes) > 1:
        text = f"there are several remotes ({', '.join(remotes)}). Choose one with git config remote.pushDefault NAME"
        raise CannotPush("remote", text)
    return remotes[0]


async def _ahead(git: Git, there: str, commit: str) -> int | None:
    code, _, _ = await git.run("rev-parse", "--verify", "--quiet", f"{there}^{{commit}}")
    return None if code else int(await git.read("rev-list", "--count", f"{there}..{commit}", "--"))


def _program(urls: Sequence[str]) -> tuple[Program | None, str]:
    """The program that creates a pull request, or None and the reason why none can be created. Blocking."""
    installed = _installed()
    host = next(filter(None, map(_host, urls)), "")
    named: Program | None = "gh" if "github" in host else "glab" if "gitlab" in host else None
    if named is not None:
        missing = f"{named} is not installed on the server's machine"
        return (named, "") if named in installed else (None, missing)
    if len(installed) == 1:
        return next(iter(installed)), ""
    if installed:
        return None, f"both gh and glab are installed, and either could be right for {host or 'the remote'}"
    return None, "neither gh nor glab is installed on the server's machine"


def _installed() -> dict[Program, str]:
    """The paths of the programs that are installed. A program that is found through a relative entry of PATH does not
    count, because the current directory may be the project. Blocking."""
    programs: Iterable[Program] = ("gh", "glab")
    found = {name: shutil.which(name) for name in programs}
    return {name: path for name, path in found.items() if path is not None and os.path.isabs(path)}


def _host(url: str) -> str:
    """The host in a remote's address, in lower case; empty for a path or an address that is not valid."""
    if "://" in url:
        try:
            return (urlsplit(url).hostname or "").lower()
        except ValueError:
            return ""
    authority, colon, _ = url.partition(":")
    return "" if not colon or "/" in authority else authority.rpartition("@")[2].lower()


def _command(program: Program, branch: str, title: str, body: str) -> list[str]:
    """The command that creates a pull request. Blocking."""
    path = _installed().get(program, program)
    if program == "gh":
        return [path, "pr", "create", "--title", title, "--body", body]
    # glab opens an editor for the description "-", and asks for a description if it is empty.
    return [path, "mr", "create", "--title", title, "--description", f"{body}\n", "--source-branch", branch, "--yes"]


def _script(given: Mapping[str, str], script: str) -> str:
    return "\n".join([*(f"{name}={shlex.quote(value)}" for name, value in given.items()), _NOBODY_ANSWERS, script])


_NOBODY_ANSWERS: Final = """
trap - TERM
unset SSH_ASKPASS
export GIT_TERMINAL_PROMPT=0 GCM_INTERACTIVE=never SSH_ASKPASS_REQUIRE=never GH_PROMPT_DISABLED=1 NO_PROMPT=1
if [ -z "${GIT_SSH_COMMAND-}${GIT_SSH-}" ] && ! "$git" config --get core.sshCommand >/dev/null; then
    export GIT_SSH_COMMAND='ssh -o BatchMode=yes'
fi
"""
"""Makes a program that needs input fail instead of waiting for it, because nobody is at the server's terminal or
screen. The user's own ssh command is not changed, but without a terminal it can't ask either."""

_PUSH: Final = f"""
[ "$("$git" rev-parse --verify --quiet "$ref^{{commit}}")" = "$commit" ] || exit {MOVED}
exec "$git" push $upstream -- "$remote" "$ref:$there"
"""

_STILL_CHECKED_OUT: Final = """
if [ "$("$git" symbolic-ref --quiet HEAD)" != "$ref" ]; then
    echo "The branch $local is no longer checked out."
    exit 1
fi
"""
"""Checks that the branch is still checked out, because gh creates the pull request for the branch that is checked out,
and an agent may have checked out another one during the push."""
