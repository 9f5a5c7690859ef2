"""The kept changes of a review are committed with the user's own git: exactly those, and nothing else changes."""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from drawbridge.server.checkpoints import shell
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.reviews import committing
from drawbridge.server.sessions.options.ceilings import Ceilings
from drawbridge.text.review_words import subject_of
from tests.server.checkpoints.rig import git
from tests.server.core_rig import records
from tests.server.reviews.rig import POEM, Reviewed, hunks, id_of, reviewing
from tests.waiting import PATIENCE

ME = ("Ada", "ada@example.com")


@contextlib.asynccontextmanager
async def committing_to(folder: Path, inside: str = "") -> AsyncIterator[Reviewed]:
    """A project in a repository that has a user name and an email address, on a server that lets clients commit."""
    async with reviewing(folder, inside) as one:
        one.server.core.grants.ceilings = Ceilings(commits=True)
        for name, value in zip(("name", "email"), ME, strict=True):
            git(one.directory, "config", f"user.{name}", value)
        git(one.directory, "symbolic-ref", "HEAD", "refs/heads/main")
        git(one.directory, "commit", "-q", "--allow-empty", "-m", "main")
        yield one


def state(directory: Path) -> tuple[object, ...]:
    """Everything that a commit could change: HEAD, branches, the index and its lock, and files."""
    root = Path(git(directory, "rev-parse", "--show-toplevel").strip())
    files = {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and ".git" not in path.parts}
    return (
        (root / ".git" / "HEAD").read_text(),
        git(directory, "for-each-ref", "refs/heads"),
        git(directory, "ls-files", "-s"),
        (root / ".git" / "index.lock").exists(),
        files,
    )


def hook(directory: Path, name: str, script: str) -> None:
    file = directory / ".git" / "hooks" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("#!/bin/sh\n" + script)
    file.chmod(0o755)


def three_changes(directory: Path) -> None:
    text = (directory / "poem.txt").read_text()
    for number in (3, 10, 17):
        text = text.replace(f"line {number}\n", f"LINE {number}\n")
    (directory / "poem.txt").write_text(text)
    (directory / "new.txt").write_text("new\n")
    (directory / "old.txt").unlink()


async def keep(one: Reviewed, *parts: str) -> None:
    review = await one.get()
    await one.decide(hunks=[id_of(review, part) for part in parts], decision="keep")


def shown(directory: Path, what: str) -> str:
    return git(directory, "show", what)


async def test_only_kept_hunks_are_committed_and_the_rest_stays(tmp_path: Path) -> None:
    async with committing_to(tmp_path) as one:
        (one.directory / "mine.txt").write_text("staged\n")
        git(one.directory, "add", "mine.txt")
        (one.directory / "mine.txt").write_text("staged and changed\n")
        one.replace("line 6\n", "staged, by me\n")
        git(one.directory, "add", "poem.txt")
        one.replace("line 14\n", "not staged, by me\n")
        await one.run(three_changes)
        await keep(one, "LINE 3\n", "new.txt")
        await one.decide(hunks=[id_of(await one.get(), "LINE 10\n")], decision="undo")
        assert (await one.get())["kept"] == ["new.txt", "poem.txt"]
        files = state(one.directory)[-1]
        done = await one.commit("Shout\n\n# twice", request_id="c-1")
        assert (done["branch"], done["files"], done["by"]) == ("main", ["new.txt", "poem.txt"], "phone")
        assert done["commit"] == git(one.directory, "rev-parse", "HEAD").strip()
        assert "Shout" in done["output"]
        assert shown(one.directory, "HEAD:poem.txt") == POEM.replace("line 3\n", "LINE 3\n")
        assert shown(one.directory, "HEAD:new.txt") == "new\n"
        assert git(one.directory, "show", "--format=%an %ae%n%B", "-s").strip() == f"{ME[0]} {ME[1]}\nShout\n\n# twice"
        assert git(one.directory, "diff", "--name-only", "HEAD~", "HEAD").split() == ["new.txt", "poem.txt"]
        staged = POEM.replace("line 3\n", "LINE 3\n").replace("line 6\n", "staged, by me\n")
        assert shown(one.directory, ":poem.txt") == staged
        assert shown(one.directory, ":mine.txt") == "staged\n"
        assert shown(one.directory, ":old.txt") == "old\n"
        assert state(one.directory)[-1] == files
        assert git(one.directory, "status", "--porcelain").splitlines() == ["AM mine.txt", " D old.txt", "MM poem.txt"]
        review = await one.get()
        assert review["kept"] == []
        assert [file["path"] for file in review["files"]] == ["old.txt", "poem.txt"]
        assert (await one.not_committed()).code == "NOTHING_TO_COMMIT"
        await keep(one, "LINE 17\n")
        await one.commit("More")
        assert "LINE 17\n" in shown(one.directory, "HEAD:poem.txt")
        assert "line 14\n" in shown(one.directory, "HEAD:poem.txt")
        (record, _) = [
            item["message"]["message"]
            for item in records(one.server, one.project)
            if item["message"].get("subtype") == "review_committed"
        ]
        assert (record["commit"], record["branch"]) == (done["commit"], "main")


@pytest.mark.thorough
async def test_a_commit_on_a_new_branch_checks_it_out(tmp_path: Path) -> None:
    async with committing_to(tmp_path) as one:
        before = git(one.directory, "rev-parse", "main")
        await one.run(three_changes)
        await keep(one, "LINE 3\n", "old.txt")
        done = await one.commit(branch="agent/REF$(x)")
        assert (done["branch"], done["created"]) == ("agent/REF$(x)", True)
        assert git(one.directory, "rev-parse", "main") == before
        assert git(one.directory, "symbolic-ref", "HEAD").strip() == "refs/heads/agent/REF$(x)"
        assert git(one.directory, "rev-parse", "HEAD~") == before
        assert git(one.directory, "ls-tree", "--name-only", "HEAD").split() == ["poem.txt"]


@pytest.mark.thorough
async def test_a_refused_commit_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with committing_to(tmp_path) as one:
        assert (await one.not_committed()).code == "NOTHING_TO_COMMIT"
        await one.run(three_changes)
        assert (await one.not_committed()).code == "NOTHING_TO_COMMIT", "nothing is decided"
        await keep(one, "LINE 3\n")
        before = state(one.directory)
        for name in ("-x", "a..b", "HEAD", "a b", "x.lock", "@{-1}", "a\nb"):
            error = await one.not_committed(branch=name)
            assert (error.code, error.field) == ("VALIDATION_FAILED", "data.branch"), name
        git(one.directory, "branch", "taken")
        assert (await one.not_committed(branch="taken")).code == "BRANCH_EXISTS"
        assert (await one.not_committed(branch="taken/below")).code == "VALIDATION_FAILED"
        git(one.directory, "branch", "-D", "taken")
        assert (await one.not_committed(" \n")).code == "VALIDATION_FAILED"
        own = one.directory / ".git"
        for name, reason in (("MERGE_HEAD", "under_way"), ("CHERRY_PICK_HEAD", "under_way"), ("index.lock", "locked")):
            (own / name).write_text("")
            error = await one.not_committed()
            assert (error.code, error.details) == ("COMMIT_BLOCKED", {"reason": reason})
            assert (own / name).read_text() == ""
            (own / name).unlink()
        monkeypatch.setenv("HOME", str(tmp_path))
        git(one.directory, "config", "user.useConfigOnly", "true")
        git(one.directory, "config", "--unset", "user.email")
        assert ((await one.not_committed()).details or {})["reason"] == "identity"
        git(one.directory, "config", "user.email", ME[1])
        one.server.core.grants.ceilings = Ceilings()
        assert (await one.not_committed()).code == "PERMISSION_DENIED"
        one.server.core.grants.ceilings = Ceilings(commits=True)
        await one.begin()
        assert (await one.not_committed()).code == "PROCESS_ACTIVE"
        await one.end()
        assert state(one.directory) == before
        git(one.directory, "checkout", "-q", "--detach")
        detached = state(one.directory)
        assert ((await one.not_committed()).details or {})["reason"] == "detached"
        assert state(one.directory) == detached
        await one.commit(branch="back")
        assert git(one.directory, "symbolic-ref", "HEAD").strip() == "refs/heads/back"


@pytest.mark.slow_for("commit-msg-None", "commit-msg-new", "pre-commit-None")
@pytest.mark.thorough
@pytest.mark.parametrize("branch", [None, "new"])
@pytest.mark.parametrize("name", ["pre-commit", "commit-msg"])
async def test_a_failed_hook_changes_nothing_and_shows_its_output(
    name: str, branch: str | None, tmp_path: Path
) -> None:
    async with committing_to(tmp_path) as one:
        one.replace("line 6\n", "staged, by me\n")
        git(one.directory, "add", "poem.txt")
        await one.run(three_changes)
        await keep(one, "LINE 3\n")
        hook(
            one.directory,
            name,
            "printf '\\033[31mno \\033[0m'; git diff --cached --name-only >&2; exit 3",
        )
        before = state(one.directory)
        error = await one.not_committed(branch=branch)
        assert error.code == "COMMIT_FAILED"
        assert (error.details or {})["output"] == "no poem.txt"
        assert state(one.directory) == before
        assert (await one.get())["kept"] == ["poem.txt"]
        hook(one.directory, name, "exit 0")
        await one.commit(branch=branch)


@pytest.mark.thorough
async def test_hooks_see_the_commit_and_can_change_its_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAWBRIDGE_TOKEN", "secret")
    monkeypatch.setenv("OWN_VARIABLE", "mine")
    async with committing_to(tmp_path) as one:
        await one.run(three_changes)
        await keep(one, "LINE 3\n")
        hook(
            one.directory,
            "pre-commit",
            'git show :poem.txt >seen; echo "$OWN_VARIABLE/$DRAWBRIDGE_TOKEN/$(pwd)" >>seen',
        )
        hook(one.directory, "commit-msg", 'echo "Signed-off-by: me" >>"$1"')
        monkeypatch.setenv("GIT_COMMITTER_NAME", "Countess")
        monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere")
        done = await one.commit("Kept")
        monkeypatch.delenv("GIT_INDEX_FILE")
        seen = one.text("seen")
        assert seen == POEM.replace("line 3\n", "LINE 3\n") + f"mine//{one.directory.resolve()}\n"
        assert git(one.directory, "log", "-1", "--format=%cn %B", done["commit"]).split() == [
            "Countess", "Kept", "Signed-off-by:", "me"
        ]  # fmt: skip


@pytest.mark.slow
async def test_a_slow_hook_is_ended_and_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committing, "SECONDS", 2.0)
    monkeypatch.setattr(shell, "LEAVE_SECONDS", PATIENCE)
    async with committing_to(tmp_path) as one:
        await one.run(three_changes)
        await keep(one, "LINE 3\n")
        hook(one.directory, "pre-commit", "echo waiting; sleep 600")
        before = state(one.directory)
        error = await one.not_committed(branch="new")
        assert error.code == "COMMIT_FAILED"
        assert state(one.directory) == before


@pytest.mark.thorough
async def test_a_commit_is_signed_with_the_users_settings(tmp_path: Path) -> None:
    signer = tmp_path / "signer"
    signer.write_text("#!/bin/sh\ncat >/dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\necho 'a signature'\n")
    signer.chmod(0o755)
    async with committing_to(tmp_path) as one:
        git(one.directory, "config", "commit.gpgSign", "true")
        git(one.directory, "config", "gpg.program", str(signer))
        await one.run(three_changes)
        await keep(one, "LINE 3\n")
        await one.commit()
        assert "gpgsig a signature" in git(one.directory, "cat-file", "commit", "HEAD")
        await keep(one, "LINE 17\n")
        before = state(one.directory)
        signer.write_text("#!/bin/sh\necho 'no key' >&2\nexit 2\n")
        assert "failed to sign" in str((await one.not_committed()).details)
        assert state(one.directory) == before


@pytest.mark.thorough
async def test_kept_lines_that_overlap_a_users_changes_are_refused(tmp_path: Path) -> None:
    async with committing_to(tmp_path) as one:
        one.replace("line 3\n", "line 3, by me, not committed\n")

        def work(directory: Path) -> None:
            one.replace("line 3, by me, not committed\n", "LINE 3\n")
            (directory / "new.txt").write_text("new\n")

        await one.run(work)
        await keep(one, "LINE 3\n", "new.txt")
        before = state(one.directory)
        error = await one.not_committed()
        assert (error.code, error.details) == ("COMMIT_BLOCKED", {"reason": "overlap", "paths": ("poem.txt",)})
        assert state(one.directory) == before
        assert (await one.not_committed(files=["old.txt"])).code == "NOTHING_TO_COMMIT"
        assert (await one.commit(files=["new.txt"]))["files"] == ["new.txt"]
        assert (await one.get())["kept"] == ["poem.txt"]
        git(one.directory, "commit", "-qam", "all of it")
        assert (await one.not_committed()).code == "NOTHING_TO_COMMIT"
        assert (await one.get())["kept"] == []


@pytest.mark.thorough
async def test_changes_the_user_committed_are_not_committed_again(tmp_path: Path) -> None:
    async with committing_to(tmp_path) as one:
        await one.run(three_changes)
        await keep(one, "LINE 3\n", "new.txt")
        git(one.directory, "add", "new.txt")
        git(one.directory, "commit", "-qm", "mine")
        assert (await one.get())["kept"] == ["poem.txt"]
        await one.commit()
        assert git(one.directory, "diff", "--name-only", "HEAD~", "HEAD").split() == ["poem.txt"]


@pytest.mark.thorough
async def test_changes_that_are_staged_already_stay_staged(tmp_path: Path) -> None:
    async with committing_to(tmp_path) as one:
        await one.run(three_changes)
        git(one.directory, "add", "-A")
        await keep(one, "LINE 3\n", "new.txt")
        await one.commit()
        assert git(one.directory, "status", "--porcelain").splitlines() == ["D  old.txt", "M  poem.txt"]
        assert shown(one.directory, ":poem.txt") == one.text()


@pytest.mark.thorough
async def test_kept_edits_and_later_runs_are_committed(tmp_path: Path) -> None:
    async with committing_to(tmp_path) as one:
        await one.run(three_changes)
        await one.decide(hunks=[id_of(await one.get(), "LINE 3\n")], text="Line three\n")
        one.replace("line 6\n", "by me\n")
        await one.run(lambda directory: one.replace("line 8\n", "LINE 8\n"))
        review = await one.get()
        await one.decide(all=True, version=review["version"], decision="keep")
        await one.run(lambda directory: one.replace("line 12\n", "LINE 12\n"))
        await one.commit()
        text = POEM.replace("line 3\n", "Line three\n")
        for number in (8, 10, 17):
            text = text.replace(f"line {number}\n", f"LINE {number}\n")
        assert shown(one.directory, "HEAD:poem.txt") == text


@pytest.mark.thorough
async def test_in_a_subdirectory_only_the_project_is_committed(tmp_path: Path) -> None:
    async with committing_to(tmp_path, inside="part") as one:
        (one.directory / "a.txt").write_text("a\n")
        git(one.directory, "add", "a.txt")
        git(one.directory, "commit", "-qm", "a")
        (one.directory.parent / "poem.txt").write_text("by me\n")
        git(one.directory.parent, "add", "poem.txt")
        await one.run(lambda directory: (directory / "a.txt").write_text("A\n"))
        await keep(one, "a.txt")
        assert (await one.commit())["files"] == ["a.txt"]
        assert git(one.directory, "diff", "--name-only", "HEAD~", "HEAD").split() == ["part/a.txt"]
        assert git(one.directory.parent, "status", "--porcelain").splitlines() == ["M  poem.txt"]


@pytest.mark.thorough
async def test_kept_changes_can_be_the_first_commit(tmp_path: Path) -> None:
    async with committing_to(tmp_path) as one:
        git(one.directory, "update-ref", "-d", "HEAD")
        git(one.directory, "rm", "-q", "--cached", "-r", ".")
        await one.run(lambda directory: (directory / "first.txt").write_text("first\n"))
        await keep(one, "first.txt")
        assert ((await one.not_committed(branch="new")).details or {})["reason"] == "unborn"
        await one.commit()
        assert git(one.directory, "ls-tree", "-r", "--name-only", "HEAD").split() == ["first.txt"]


async def test_a_commit_is_previewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    async with committing_to(tmp_path) as one:
        assert (await one.get())["commit"] is None
        await one.run(three_changes)
        await keep(one, "LINE 3\n", "new.txt", "old.txt")
        offer = (await one.get())["commit"]
        assert offer == {
            "message": "go",
            "author": "Ada <ada@example.com>",
            "lines": {
                "new.txt": {"added": 1, "removed": 0},
                "old.txt": {"added": 0, "removed": 1},
                "poem.txt": {"added": 1, "removed": 1},
            },
        }
        git(one.directory, "config", "user.useConfigOnly", "true")
        git(one.directory, "config", "--unset", "user.email")
        offer = (await one.get())["commit"]
        assert "author" not in offer
        assert offer["problem"].startswith("The changes can't be committed: git does not know your name and email.")
        one.server.core.grants.ceilings = Ceilings()
        assert (await one.get())["commit"] is None


@pytest.mark.parametrize(
    ("prompt", "subject"),
    [
        ("", ""),
        (" Fix it \nnow", "Fix it"),
        ("word " * 30, ("word " * 14).strip()),
        ("w" * 90, "w" * 72),
        (f"{'w' * 30} {'w' * 60}", "w" * 30),
        (f"{'w' * 15} {'w' * 60}", f"{'w' * 15} {'w' * 56}"),
    ],
)
def test_the_proposed_subject_is_the_prompts_first_line(prompt: str, subject: str) -> None:
    """A long line is cut to 72 characters, between two words unless too little would be left."""
    assert subject_of(prompt) == subject


async def test_a_commit_in_a_linked_work_tree_affects_only_it(tmp_path: Path) -> None:
    async with committing_to(tmp_path) as one:
        side = one.directory.with_name("side")
        git(one.directory, "worktree", "add", "-q", "-b", "side", str(side), "HEAD")
        before = state(one.directory)
        (side / "staged.txt").write_text("staged\n")
        git(side, "add", "staged.txt")
        created = await one.server.does(one.phone, "project_create", path=str(side), join=True)
        linked = Reviewed(one.server, one.phone, created["project_id"], side)
        await linked.run(lambda directory: (directory / "new.txt").write_text("new\n"))
        await keep(linked, "new.txt")
        assert (await linked.commit())["branch"] == "side"
        assert git(side, "ls-tree", "-r", "--name-only", "HEAD").split().count("new.txt") == 1
        assert git(side, "diff", "--cached", "--name-only").split() == ["staged.txt"]
        assert git(one.directory, "rev-parse", "HEAD") == git(side, "rev-parse", "HEAD^")
        assert state(one.directory)[0] == before[0]
        assert state(one.directory)[2:] == before[2:]


async def test_an_id_that_git_wrote_into_a_file_is_not_committed(tmp_path: Path) -> None:
    async with committing_to(tmp_path) as one:
        poem = one.directory / "poem.txt"
        (one.directory / ".gitattributes").write_text("*.txt ident\n")
        poem.write_text("$Id$\n" + POEM)
        git(one.directory, "add", ".")
        git(one.directory, "commit", "-qm", "with an id")
        poem.unlink()
        git(one.directory, "checkout", "poem.txt")
        expanded = one.text()
        assert expanded.startswith("$Id: ")
        await one.run(lambda _: one.replace("line 3\n", "LINE 3\n"))
        assert hunks(await one.get()) == [("poem.txt", "line 3\n", "LINE 3\n")]
        await keep(one, "LINE 3\n")
        await one.commit()
        assert shown(one.directory, "HEAD:poem.txt") == "$Id$\n" + POEM.replace("line 3\n", "LINE 3\n")
        assert one.text() == expanded.replace("line 3\n", "LINE 3\n")
        assert git(one.directory, "status", "--porcelain") == ""
        assert (await one.get())["kept"] == []


@pytest.mark.parametrize(("mark", "letter"), [("assume-unchanged", "h"), ("skip-worktree", "S")])
async def test_a_commit_keeps_the_marks_of_files(mark: str, letter: str, tmp_path: Path) -> None:
    """The user's own change to the file is not committed, and git still does not show it."""
    async with committing_to(tmp_path) as one:
        git(one.directory, "update-index", f"--{mark}", "poem.txt")
        one.replace("line 17\n", "by the user\n")
        await one.run(lambda _: one.replace("line 3\n", "LINE 3\n"))
        await keep(one, "LINE 3\n")
        await one.commit()
        assert shown(one.directory, "HEAD:poem.txt") == POEM.replace("line 3\n", "LINE 3\n")
        assert git(one.directory, "ls-files", "-v", "poem.txt") == f"{letter} poem.txt\n"
        assert git(one.directory, "status", "--porcelain") == ""


@pytest.mark.thorough
async def test_kept_files_with_a_filter_are_not_committed(tmp_path: Path) -> None:
    async with committing_to(tmp_path) as one:
        (one.directory / ".gitattributes").write_text("*.bin filter=store\n")
        git(one.directory, "add", ".gitattributes")
        git(one.directory, "commit", "-qm", "attributes")
        await one.run(lambda directory: (directory / "large.bin").write_text("large\n"))
        await keep(one, "large.bin")
        before = state(one.directory)
        refused = await one.not_committed()
        assert (refused.code, refused.details) == ("COMMIT_BLOCKED", {"reason": "filter", "paths": ("large.bin",)})
        assert state(one.directory) == before


@pytest.mark.thorough
async def test_nothing_is_committed_with_a_split_index(tmp_path: Path) -> None:
    async with committing_to(tmp_path) as one:
        await one.run(three_changes)
        await keep(one, "new.txt")
        git(one.directory, "update-index", "--split-index")
        before = state(one.directory)
        refused = await one.not_committed()
        assert (refused.details or {})["reason"] == "index"
        assert "split" in str(refused)
        assert state(one.directory) == before


async def test_a_commit_names_an_index_that_was_just_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with committing_to(tmp_path) as one:
        await one.run(three_changes)
        await keep(one, "new.txt")
        index, author_of = one.directory / ".git" / "index", committing.author_of

        async def damages(git: Git) -> str:
            index.write_bytes(b"damaged")
            return await author_of(git)

        monkeypatch.setattr(committing, "author_of", damages)
        refused = await one.not_committed()
        assert refused.code == "CHECKPOINT_NOT_FOUND"
        assert f"its index is damaged. Delete {index}" in str(refused)


@pytest.mark.thorough
async def test_without_a_git_work_tree_nothing_can_be_committed(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        one.server.core.grants.ceilings = Ceilings(commits=True)
        shutil.rmtree(one.directory / ".git")
        await one.run(three_changes)
        id = await one.write(3, "LINE 3\n")
        await keep(one, "LINE 3\n")
        assert (await one.get())["kept"] == []
        assert ((await one.not_committed()).details or {})["reason"] == "no_repository"
        one.replace("line 1\n", "above\nline 1\n")
        assert (await one.comments())[id]["line"] == 4


# any mix of decisions


class Slots:
    """A file of slots between lines that nobody changes. Each edit gives a slot a new text or an empty one."""

    COUNT = 8

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.head = {number: f"{number}\n" for number in range(self.COUNT)}
        self.index = dict(self.head)
        self.disk = dict(self.head)
        self.base = dict(self.head)
        """The text of each slot as of the last decision: the file without the open hunks."""
        self.kept: dict[int, str] = {}
        self.values = 0

    def text(self, slots: dict[int, str]) -> str:
        return "".join(f"{slots[number]}--- {number}\n=== {number}\n" for number in range(self.COUNT))

    def value(self) -> str:
        self.values += 1
        return "".join(f"value {self.values} {line}\n" for line in range(self.chance.choice([0, 1, 1, 2])))

    def some(self, among: list[int]) -> list[int]:
        return self.chance.sample(among, self.chance.randint(0, min(3, len(among))))

    @property
    def untouched(self) -> list[int]:
        """The slots that are the same in HEAD, index, file and base."""
        return [n for n in range(self.COUNT) if self.head[n] == self.index[n] == self.disk[n] == self.base[n]]


@pytest.mark.slow_for("1", "2")
@pytest.mark.thorough
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 150))])
async def test_any_mix_of_decisions_commits_exactly_what_was_kept(seed: int, tmp_path: Path) -> None:
    """The user stages and changes other lines in between, and there can be several commits."""
    chance = random.Random(seed)
    slots = Slots(chance)
    async with committing_to(tmp_path) as one:
        file = one.directory / "slots.txt"
        file.write_text(slots.text(slots.disk))
        git(one.directory, "add", "slots.txt")
        git(one.directory, "commit", "-qm", "slots")
        for _ in range(3):
            for number in slots.some(slots.untouched):  # staged by the user
                slots.index[number] = slots.disk[number] = slots.base[number] = slots.value()
            stage(one.directory, slots.text(slots.index))
            for number in slots.some(slots.untouched):  # changed, but not staged
                slots.disk[number] = slots.base[number] = slots.value()
            file.write_text(slots.text(slots.disk))
            changed = slots.some(slots.untouched)
            slots.disk |= {number: slots.value() for number in changed}
            await one.run(lambda directory: file.write_text(slots.text(slots.disk)))
            review = await one.get()
            by_text = {(h["removed"], h["added"]): h["id"] for f in review["files"] for h in f["hunks"]}
            for number in [n for n in range(slots.COUNT) if slots.disk[n] != slots.base[n]]:
                id = by_text[slots.base[number], slots.disk[number]]
                match chance.choice(["keep", "keep", "undo", "edit", "open"]):
                    case "keep":
                        await one.decide(hunks=[id], decision="keep")
                    case "undo":
                        await one.decide(hunks=[id], decision="undo")
                        slots.disk[number] = slots.base[number]
                        continue
                    case "edit":
                        slots.disk[number] = slots.value()
                        await one.decide(hunks=[id], text=slots.disk[number])
                    case "open":
                        continue
                slots.base[number] = slots.kept[number] = slots.disk[number]
            kept = {number: text for number, text in slots.kept.items() if text != slots.head[number]}
            if chance.random() < 0.7:
                if kept:
                    await one.commit(branch=chance.choice([None, f"branch{slots.values}"]))
                else:
                    assert (await one.not_committed()).code == "NOTHING_TO_COMMIT"
                slots.head |= slots.kept
                slots.index |= slots.kept
                slots.kept = {}
            assert shown(one.directory, "HEAD:slots.txt") == slots.text(slots.head)
            assert shown(one.directory, ":slots.txt") == slots.text(slots.index)
            assert file.read_text() == slots.text(slots.disk)


def stage(directory: Path, text: str) -> None:
    blob = subprocess.run(
        ["git", "hash-object", "-w", "--stdin"], cwd=directory, input=text, capture_output=True, text=True, check=True
    ).stdout.strip()
    git(directory, "update-index", "--cacheinfo", f"100644,{blob},slots.txt")
