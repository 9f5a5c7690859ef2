"""A branch is pushed with the user's own git, and ``gh`` or ``glab`` creates a pull request. This happens only once,
and only with what the user was shown."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.reviews import pushing
from drawbridge.server.sessions.options.ceilings import Ceilings
from tests.server.checkpoints.rig import git
from tests.server.core_rig import records
from tests.server.reviews.remotes import ADDRESS, GITHUB, add_remote, calls_of, path_with, stand_in, tip
from tests.server.reviews.rig import Reviewed
from tests.server.reviews.test_committing import committing_to, hook, keep, three_changes
from tests.waiting import PATIENCE, until


@contextlib.asynccontextmanager
async def pushing_from(folder: Path, url: str = "") -> AsyncIterator[Reviewed]:
    """A project on the "work" branch of a repository whose "origin" remote has a "main" branch. ``url``: the configured
    address of the remote, by default its path.
    """
    async with committing_to(folder) as one:
        one.server.core.grants.ceilings = Ceilings(commits=True, pushes=True)
        add_remote(one.directory, remote_of(one), url)
        yield one


def remote_of(one: Reviewed) -> Path:
    return one.directory.parent / "remote.git"


def at_remote(one: Reviewed, branch: str = "work") -> str:
    return tip(remote_of(one), branch)


def commit(one: Reviewed, message: str = "Shout") -> str:
    git(one.directory, "commit", "-q", "--allow-empty", "-m", message)
    return git(one.directory, "rev-parse", "HEAD").strip()


async def offer(one: Reviewed) -> Any:
    return (await one.get())["push"]


async def push(one: Reviewed, **data: Any) -> dict[str, Any]:
    """Sends ``review_push``. Returns the data of the update that answers it."""
    version = data.pop("version", None) or (await offer(one))["version"]
    answer = await one.server.does(one.phone, "review_push", one.project, version=version, **data)
    found: dict[str, Any] = answer["data"]["data"]
    return found


async def not_pushed(one: Reviewed, **data: Any) -> ClientError:
    with pytest.raises(ClientError) as refused:
        await push(one, **data)
    return refused.value


def reason(error: ClientError) -> str:
    assert error.code == "PUSH_BLOCKED"
    assert str(error).startswith(("The branch can't be pushed: ", "No pull request can be created: "))
    return str((error.details or {})["reason"])


@pytest.fixture(autouse=True)
def _neither(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hides this machine's own ``gh`` and ``glab`` and their settings."""
    real = pushing._installed

    def installed() -> dict[pushing.Program, str]:
        return {name: path for name, path in real().items() if Path(path).is_relative_to(tmp_path)}

    monkeypatch.setattr(pushing, "_installed", installed)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", path_with(tmp_path))


# what is pushed


async def test_commits_are_pushed_and_the_branch_gets_an_upstream(tmp_path: Path) -> None:
    async with pushing_from(tmp_path) as one:
        await one.run(three_changes)
        await keep(one, "LINE 3\n")
        done = await one.commit("Shout\n\nOnly once.")
        found = await offer(one)
        assert (found["remote"], found["branch"], found.get("ahead")) == ("origin", "work", None)
        assert (found["title"], found["body"]) == ("Shout", "Only once.")
        pushed = await push(one)
        assert (pushed["remote"], pushed["branch"], pushed["by"]) == ("origin", "work", "phone")
        assert pushed["commit"] == done["commit"] == at_remote(one)
        assert "work -> work" in pushed["output"]
        assert git(one.directory, "rev-parse", "--abbrev-ref", "@{upstream}").strip() == "origin/work"
        assert (await offer(one))["ahead"] == 0
        commit(one)
        commit(one)
        assert (await offer(one))["ahead"] == 2
        await push(one)
        assert at_remote(one) == git(one.directory, "rev-parse", "HEAD").strip()
        kinds = [item["message"].get("subtype") for item in records(one.server, one.project)]
        assert kinds.count("review_pushed") == 2


async def test_a_repeated_request_does_not_push_again(tmp_path: Path) -> None:
    calls = stand_in(tmp_path, "gh", f"sleep 0.2; echo {ADDRESS}")
    async with pushing_from(tmp_path, GITHUB) as one:
        version = (await offer(one))["version"]
        wish: dict[str, Any] = {"version": version, "pull_request": {"title": "Shout"}, "request_id": "push-1"}
        first, second = await asyncio.gather(push(one, **wish), push(one, **wish))
        assert first == second
        assert await push(one, **wish) == first
        assert len(calls_of(calls)) == 1
        kinds = [item["message"].get("subtype") for item in records(one.server, one.project)]
        assert kinds.count("review_pushed") == 1


async def test_only_what_was_shown_is_pushed(tmp_path: Path) -> None:
    async with pushing_from(tmp_path) as one:
        version = (await offer(one))["version"]
        changes: list[tuple[str, ...]] = [
            ("commit", "-q", "--allow-empty", "-m", "another"),
            ("checkout", "-q", "-b", "elsewhere"),
            ("config", "remote.origin.pushurl", str(tmp_path)),
            ("config", "remote.pushDefault", "origin2"),
        ]
        git(one.directory, "remote", "add", "origin2", str(remote_of(one)))
        for change in changes:
            git(one.directory, *change)
            assert reason(await not_pushed(one, version=version)) == "moved"
            version = (await offer(one))["version"]
        assert at_remote(one) == at_remote(one, "elsewhere") == ""


async def test_the_remote_is_the_one_that_git_would_choose(tmp_path: Path) -> None:
    async with pushing_from(tmp_path) as one:
        other = tmp_path / "other.git"
        git(one.directory, "init", "-q", "--bare", str(other))
        git(one.directory, "remote", "add", "mine", str(other))
        assert (await offer(one))["remote"] == "origin"
        git(one.directory, "config", "remote.pushDefault", "mine")
        assert (await offer(one))["remote"] == "mine"
        git(one.directory, "config", "branch.work.pushRemote", "origin")
        assert (await offer(one))["remote"] == "origin"
        git(one.directory, "config", "branch.work.pushRemote", "gone")
        assert "names gone, which is not a remote" in (await offer(one))["problem"]
        git(one.directory, "config", "--unset", "branch.work.pushRemote")
        git(one.directory, "config", "--unset", "remote.pushDefault")
        git(one.directory, "remote", "rename", "origin", "theirs")
        assert "several remotes (mine, theirs)" in (await offer(one))["problem"]
        assert reason(await not_pushed(one, version="none")) == "remote"
        git(one.directory, "remote", "remove", "theirs")
        assert (await offer(one))["remote"] == "mine"
        await push(one)
        assert git(other, "rev-parse", "work") == git(one.directory, "rev-parse", "HEAD")


async def test_a_branch_is_pushed_to_its_name_or_its_upstream(tmp_path: Path) -> None:
    async with pushing_from(tmp_path) as one:
        git(one.directory, "branch", "--set-upstream-to=origin/main", "work")
        made, main = commit(one), at_remote(one, "main")
        assert (await offer(one))["branch"] == "work"
        await push(one)
        assert (at_remote(one), at_remote(one, "main")) == (made, main)
        assert git(one.directory, "rev-parse", "--abbrev-ref", "@{upstream}").strip() == "origin/main"
        git(one.directory, "config", "push.default", "upstream")
        found = await offer(one)
        assert (found["branch"], found["ahead"]) == ("main", 1)
        await push(one)
        assert at_remote(one, "main") == made


async def test_nothing_is_offered_if_nothing_can_be_pushed(tmp_path: Path) -> None:
    async with pushing_from(tmp_path) as one:
        one.server.core.grants.ceilings = Ceilings(commits=True)
        assert await offer(one) is None
        assert (await not_pushed(one, version="v")).code == "PERMISSION_DENIED"
        one.server.core.grants.ceilings = Ceilings(pushes=True)
        for empty in ("", " "):
            error = await not_pushed(one, pull_request={"title": empty})
            assert (error.code, error.field) == ("VALIDATION_FAILED", "data.pull_request.title")
        git(one.directory, "checkout", "-q", "--detach")
        assert await offer(one) is None
        assert reason(await not_pushed(one, version="v")) == "detached"
        git(one.directory, "checkout", "-q", "work")
        git(one.directory, "remote", "remove", "origin")
        assert await offer(one) is None
        assert reason(await not_pushed(one, version="v")) == "no_remote"
        git(one.directory, "checkout", "-q", "--orphan", "fresh")
        assert reason(await not_pushed(one, version="v")) == "unborn"


# a push that fails


async def test_a_push_that_the_remote_refuses_changes_nothing(tmp_path: Path) -> None:
    async with pushing_from(tmp_path) as one:
        first = commit(one, "one")
        await push(one)
        git(one.directory, "commit", "-q", "--amend", "--allow-empty", "-m", "two")
        error = await not_pushed(one)
        assert error.code == "PUSH_FAILED"
        assert "non-fast-forward" in (error.details or {})["output"]
        assert at_remote(one) == first, "never by force"
        kinds = [item["message"].get("subtype") for item in records(one.server, one.project)]
        assert kinds.count("review_pushed") == 1


async def test_a_refusing_hook_pushes_nothing_and_is_shown(tmp_path: Path) -> None:
    calls = stand_in(tmp_path, "gh", f"echo {ADDRESS}")
    async with pushing_from(tmp_path, GITHUB) as one:
        hook(one.directory, "pre-push", "printf '\\033[31mno: \\033[0m'; cat; exit 3")
        error = await not_pushed(one, pull_request={"title": "Shout"})
        assert error.code == "PUSH_FAILED"
        assert (error.details or {})["output"].startswith("no: refs/heads/work ")
        assert (at_remote(one), calls_of(calls)) == ("", [])
        hook(one.directory, "pre-push", "exit 0")
        await push(one)
        assert at_remote(one)


async def test_runs_and_reviews_do_not_wait_for_a_push(tmp_path: Path) -> None:
    begun, end = tmp_path / "begun", tmp_path / "end"
    async with pushing_from(tmp_path) as one:
        hook(one.directory, "pre-push", f"touch {begun}; until [ -e {end} ]; do sleep 0.05; done")
        async with asyncio.TaskGroup() as tasks:
            pushed = tasks.create_task(push(one, version=(await offer(one))["version"]))
            await until(begun.exists, "the hook")
            await one.run(three_changes)
            assert (await one.get())["files"]
            assert not pushed.done()
            end.touch()
        assert at_remote(one) == pushed.result()["commit"]


@pytest.mark.parametrize("ignores", ["", "trap '' TERM; "])
async def test_a_hook_that_hangs_is_ended(ignores: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushing, "SECONDS", 2.0)
    async with pushing_from(tmp_path) as one:
        hook(one.directory, "pre-push", f"{ignores}echo waiting; sleep 600; sleep 600")
        async with asyncio.timeout(PATIENCE):
            error = await not_pushed(one)
        assert error.code == "PUSH_FAILED"
        assert at_remote(one) == ""


async def test_no_program_asks_for_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TERMINAL_PROMPT", "1")
    monkeypatch.setenv("SSH_ASKPASS", "/bin/cat")
    async with pushing_from(tmp_path) as one:
        hook(
            one.directory,
            "pre-push",
            'echo "$GIT_TERMINAL_PROMPT/$SSH_ASKPASS/$GIT_SSH_COMMAND/$(readlink /proc/$PPID/fd/0)"; exit 1',
        )
        error = await not_pushed(one)
        assert (error.details or {})["output"].startswith("0//ssh -o BatchMode=yes//dev/null")
        git(one.directory, "config", "core.sshCommand", "my-ssh")
        assert (((await not_pushed(one)).details or {})["output"]).startswith("0////dev/null")
        git(one.directory, "config", "--unset", "core.sshCommand")
        monkeypatch.setenv("GIT_SSH_COMMAND", "my-ssh -v")
        assert (((await not_pushed(one)).details or {})["output"]).startswith("0//my-ssh -v//dev/null")


# pull requests


async def test_gh_creates_a_pull_request_with_the_users_text(tmp_path: Path) -> None:
    script = f'echo "Creating pull request for work into main in ada/poems" >&2; echo; echo {ADDRESS}'
    calls = stand_in(tmp_path, "gh", script)
    async with pushing_from(tmp_path, GITHUB) as one:
        made = commit(one)
        assert (await offer(one))["pull_request"] == "gh"
        pushed = await push(one, pull_request={"title": "$(Shout)", "body": "Why\n\n'not'?"})
        assert pushed["pull_request"] == ADDRESS
        assert "problem" not in pushed
        assert "Creating pull request" in pushed["output"]
        assert at_remote(one) == made
        assert calls_of(calls) == [["pr", "create", "--title", "$(Shout)", "--body", "Why\n\n'not'?"]]


async def test_gh_does_not_create_a_pull_request_for_another_branch(tmp_path: Path) -> None:
    """The agent checks out another branch during the push, and gh would use that one."""
    calls = stand_in(tmp_path, "gh", f"echo {ADDRESS}")
    async with pushing_from(tmp_path, GITHUB) as one:
        made = commit(one)
        hook(one.directory, "pre-push", "git checkout -q -b elsewhere")
        pushed = await push(one, pull_request={"title": "Shout"})
        assert (at_remote(one), calls_of(calls)) == (made, [])
        assert pushed["problem"] == "gh did not create a pull request"
        assert pushed["output"].endswith("The branch work is no longer checked out.")


async def test_glab_creates_a_merge_request(tmp_path: Path) -> None:
    address = "https://gitlab.example.org/ada/poems/-/merge_requests/12"
    calls = stand_in(tmp_path, "glab", f"printf '!12 Shout (work)\\n {address}\\n\\n'")
    stand_in(tmp_path, "gh", "exit 1")
    async with pushing_from(tmp_path, "git@gitlab.example.org:ada/poems.git") as one:
        pushed = await push(one, pull_request={"title": "Shout"})
        assert pushed["pull_request"] == address
        words = ["--title", "Shout", "--description", "\n", "--source-branch", "work", "--yes"]
        assert calls_of(calls) == [["mr", "create", *words]]


async def test_a_pull_request_that_fails_is_reported_as_pushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exists = (
        f'echo \'a pull request for branch "work" into branch "main" already exists:\' >&2; echo {ADDRESS} >&2; exit 1'
    )
    calls = stand_in(tmp_path, "gh", "echo 'To get started with GitHub CLI, run: gh auth login' >&2; exit 4")
    async with pushing_from(tmp_path, GITHUB) as one:
        made = commit(one)
        pushed = await push(one, pull_request={"title": "Shout"})
        assert at_remote(one) == made
        assert pushed["problem"] == "gh did not create a pull request"
        assert "gh auth login" in pushed["output"]
        assert "pull_request" not in pushed
        stand_in(tmp_path, "gh", exists)
        pushed = await push(one, pull_request={"title": "Shout"})
        assert (pushed["pull_request"], bool(pushed["problem"])) == (ADDRESS, True)
        assert len(calls_of(calls)) == 2
        stand_in(tmp_path, "gh", "sleep 600")
        monkeypatch.setattr(pushing, "PULL_REQUEST_SECONDS", 1.0)
        pushed = await push(one, pull_request={"title": "Shout"})
        assert pushed["problem"]


async def test_only_an_address_of_a_pull_request_becomes_a_link(tmp_path: Path) -> None:
    lines = "http://github.com/ada/poems/pull/7 https://github.com/ada/poems/pull/new/work javascript://x/pull/1"
    stand_in(tmp_path, "gh", f"echo '{lines}'")
    async with pushing_from(tmp_path, GITHUB) as one:
        pushed = await push(one, pull_request={"title": "Shout"})
        assert "pull_request" not in pushed
        assert "problem" not in pushed


async def test_the_host_of_the_remote_determines_the_program(tmp_path: Path) -> None:
    async with pushing_from(tmp_path, GITHUB) as one:

        async def chosen(url: str) -> tuple[str | None, str]:
            git(one.directory, "config", "remote.origin.url", url)
            found = await offer(one)
            return found.get("pull_request"), found.get("no_pull_request", "")

        neither = "neither gh nor glab is installed on the server's machine"
        assert await chosen("git@code.example.org:ada/poems") == (None, neither)
        assert await chosen(GITHUB) == (None, "gh is not installed on the server's machine")
        error = await not_pushed(one, pull_request={"title": "Shout"})
        assert (reason(error), at_remote(one)) == ("program", "")
        stand_in(tmp_path, "glab", "")
        assert await chosen("git@code.example.org:ada/poems") == ("glab", "")
        assert await chosen(GITHUB) == (None, "gh is not installed on the server's machine")
        stand_in(tmp_path, "gh", "")
        assert await chosen(GITHUB) == ("gh", "")
        assert await chosen("ssh://git@github.example.org:2222/ada/poems") == ("gh", "")
        assert await chosen("git@gitlab.com:ada/github-poems.git") == ("glab", "")
        words = "both gh and glab are installed, and either could be right for code.example.org"
        assert await chosen("https://me:secret@code.example.org/ada/poems") == (None, words)
        git(one.directory, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
        git(one.directory, "checkout", "-q", "main")
        assert await chosen(GITHUB) == (None, "main is the default branch of origin")
