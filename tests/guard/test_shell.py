"""Which files a shell command names. Naming too many would cause unnecessary questions, and naming too few would lose
work.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.guard import shell

from .conftest import Guard, decision
from .payloads import KEPT, A, bash

NAMES_IT = [
    "rm a.py",
    "rm ./a.py",
    "rm {ws}/a.py",
    "rm sub/../a.py",
    "rm -- a.py b.py",
    "rm 'a.py'",
    'rm "a.py"',
    "rm a'.'py",
    'rm "a".py',
    "rm a\\.py",
    "rm a.py;",
    "rm a.py&& echo done",
    "(rm a.py)",
    "true|tee a.py",
    "echo x >a.py",
    "echo x>>a.py",
    "echo x >| a.py",
    "cat <a.py >b.py",
    "cp b.py a.py 2>&1",
    "dd if=/dev/zero of=a.py",
    "prettier --output=a.py",
    "sed -i s/a/b/ a.py",
    "python a.py",
    'python -c \'open("a.py", "w")\'',
    "python - <<'E'\nopen('a.py', 'w').write('it''s')\nE",
    "bash -c 'rm a.py'",
    "git checkout -- a.py",
    "git commit -m 'about a.py'",
    'git commit -m "it\'s about a.py"',
    "echo don't; rm a.py",
    "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a.py\n@@\n-one\n+two\n*** End Patch\nEOF",
    "rm *.py",
    "rm ?.py",
    "rm [ab].py",
    "rm a.*",
    "rm *",
    "rm **/*.py",
    "rm {a,b}.py",
    "rm a.{py,txt}",
    "rm {a,{b,c}}.py",
    "rm [^b].py",
    "sort -oa.py b.txt",
    "f=a.py; rm $f",
    "rm $HOME/a.py",
    "rm $(pwd)/a.py",
    "rm `pwd`/a.py",
    "rm ~/a.py",
    "cd sub && rm ../a.py",
    "cd sub; rm ../*.py",
    "cd sub\nrm ../a.py",
    "cd sub && rm {ws}/a.py",
    "cd sub && cd .. && rm a.py",
    "cd sub; make; cd ..; rm a.py",
    "cd sub && make & rm a.py",
    "(cd sub && make); rm a.py",
    "cd gone; rm a.py",
    "cd gone/.. && rm a.py",
    "cd sub || exit 1; rm ../a.py",
    'cd "{ws}/sub" && cat b.txt > ../a.py',
    "cd {ws} && mv other/a.py .",
    "cp other/a.py .",
    "mv other/a.py here",
    "cp other/a.py {ws}",
    "cd {ws} && git apply <<'E'\n--- a/a.py\n+++ b/a.py\nE",
    "cd {ws} && tar -xf x.tar --strip-components=1 other/a.py",
    'cd sub && python -c \'import os; os.chdir(".."); open("a.py", "w")\'',
    "cd sub && git checkout -- :/a.py",
    "cd sub && npm run fix -- a.py",
    "cd sub/up && rm a.py",
    "cd sub && rm up/a.py",
    "pushd sub; rm ../a.py",
    "find . -name a.py -delete",
    "ls | xargs rm a.py",
    "git -C . checkout a.py",
    "tar --directory=sub -xf x.tar a.py",
    "rm link.py",
    "rm sub/hard.py",
    "rm here/a.py",
    "rm here/*.py",
    "rm 'unclosed a.py",
]

NAMES_ANOTHER = [
    "",
    " ",
    "ls",
    "ls -la .",
    "rm b.py",
    "rm sub/a.py",
    "rm other/a.py",
    "rm ../a.py",
    "rm /a.py",
    "rm aa.py",
    "rm a.pyc",
    "rm a_py",
    "rm a.py.bak",
    "rm a",
    "rm .py",
    "rm sub/*.py",
    "rm sub/?.py",
    "rm *.txt",
    "rm */*.py",
    "rm {b,c}.txt",
    "rm {b,{c,d}}.txt",
    "rm [^a].py",
    "sort -ob.py b.txt",
    "echo 'nothing of it'",
    "rm $HOME/b.py",
    "cd / && rm a.py",
    "cd sub && rm a.py",
    "cd {ws}/other && sed -i s/a/b/ a.py",
    "cd '{ws}/other' && cat b.txt > a.py 2>&1",
    "cd {ws} && rm other/a.py",
    "cd other; cat a.py | tee a.py",
    "cd other\nrm *.py",
    "cd other && cd sub; rm a.py",
    "cp other/a.py sub",
    "cd sub && rm b.py",
    "cd sub && make",
    "find . -name b.py",
    "python -c 'import a'",
    "pytest tests/test_a.py",
    "rm \ud800",
    "x" * 5_000,
    "[" * 50,
]


@pytest.fixture
def ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CDPATH", raising=False)
    ws = tmp_path / "ws"
    (ws / "sub").mkdir(parents=True)
    (ws / "a.py").write_text("one\n")
    (ws / "link.py").symlink_to("a.py")
    (ws / "sub" / "hard.py").hardlink_to(ws / "a.py")
    (ws / "here").symlink_to(".")
    (ws / "sub" / "up").symlink_to("..")
    (ws / "other" / "sub").mkdir(parents=True)
    (ws / "other" / "a.py").write_text("another\n")
    return ws


@pytest.mark.parametrize("command", NAMES_IT)
def test_commands_that_name_the_file_are_recognized(ws: Path, command: str) -> None:
    name = str(ws / "a.py")
    assert shell.named(command.replace("{ws}", str(ws)), str(ws), ["/elsewhere/b.txt", name]) == [name]


@pytest.mark.parametrize("command", NAMES_ANOTHER)
def test_other_commands_do_not_name_the_file(ws: Path, command: str) -> None:
    assert shell.named(command.replace("{ws}", str(ws)), str(ws), [str(ws / "a.py")]) == []


def test_cdpath_can_lead_cd_to_another_directory(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDPATH", str(ws.parent))
    name = str(ws / "a.py")
    assert shell.named("cd other && rm a.py", str(ws), [name]) == [name]
    assert shell.named("cd ./other && rm a.py", str(ws), [name]) == []


@pytest.mark.parametrize("command", ["rm 'a b,c.py'", 'rm "a b,c.py"', "rm a\\ b,c.py", "rm a*", "echo >'a b,c.py'"])
def test_a_name_with_spaces_and_commas_is_recognized(ws: Path, command: str) -> None:
    name = str(ws / "a b,c.py")
    assert shell.named(command, str(ws), [name]) == [name]


def test_one_star_does_not_match_subdirectories_and_two_do(ws: Path) -> None:
    names = [str(ws / "sub" / "d.py")]
    assert shell.named("rm *.py", str(ws), names) == []
    assert shell.named("rm */*.py", str(ws), names) == names
    assert shell.named("rm **/*.py", str(ws), names) == names


def test_a_file_that_does_not_exist_yet_is_recognized(ws: Path) -> None:
    """The file exists only as a buffer in an editor, and the command would create it on disk."""
    names = [str(ws / "new.py")]
    for command in ("touch new.py", "touch here/new.py", f"touch {ws}/here/new.py"):
        assert shell.named(command, str(ws), names) == names
    assert shell.named("touch here/new.py", str(ws / "here"), names) == names


def test_a_path_through_a_link_names_the_same_file(ws: Path) -> None:
    """An editor may know the file by the path by which it was opened."""
    names = [str(ws / "here" / "a.py")]
    assert shell.named("rm a.py", str(ws), names) == names
    assert shell.named(f"rm {ws}/link.py", "/", names) == names


def test_named_files_are_returned_in_the_given_order(ws: Path) -> None:
    names = [str(ws / name) for name in ("c.py", "a.py", "b.txt", "sub/d.py")]
    assert shell.named("rm *.py sub/d.py", str(ws), names) == [names[0], names[1], names[3]]


@given(st.text("a.py \"'\\$`*?[]{}()<>|&;~/\n\0\ud800=-x", max_size=40))
def test_any_command_text_can_be_parsed(command: str) -> None:
    assert set(shell.named(command, "/nowhere", ["/nowhere/a.py"])) <= {"/nowhere/a.py"}


def test_a_long_command_is_read_to_its_end(guard: Guard) -> None:
    guard.neovim({A: KEPT})
    command = "cat > b.txt <<'E'\n" + "words and more words of a text\n" * 5_000 + "E\nrm a.py"
    assert "This command names it" in decision(guard.run(bash(command)), "ask")


# What the guard does about the command.


def test_a_command_that_names_unsaved_work_needs_approval(guard: Guard) -> None:
    """The editor notifies the user. A file with unsaved changes that is not in front is not protected."""
    neovim = guard.neovim({A: KEPT, "/ws/b.py": {"modified": True}})
    reason = decision(guard.run(bash("rm a.py b.py")), "ask")
    assert reason.startswith("/ws/a.py has unsaved changes in Neovim 0.12.4")
    assert "This command names it; nothing was run." in reason
    assert "/ws/b.py" not in reason
    assert neovim.notices == ["Claude Code asks to run a command on a.py (unsaved)"]
    assert guard.log == ["claude: Bash: the command names /ws/a.py; asked"]


def test_only_editors_with_the_file_are_notified_of_a_command(guard: Guard) -> None:
    guard.neovim({A: KEPT}, pid=1)
    clean, without = guard.vscode({A: {"name": "/link/a.py"}}, pid=2), guard.neovim({"/ws/b.py": {}}, pid=3)
    assert decision(guard.run(bash("rm a.py")), "ask")
    assert len(clean.notices) == 1
    assert without.notices == []


def test_a_stricter_policy_for_commands_asks_about_more(guard: Guard) -> None:
    guard.neovim({"/ws/b.py": {"modified": True}})
    assert guard.run(bash("rm b.py")) == {}
    assert "/ws/b.py" in decision(guard.run(bash("rm b.py"), policy_for=("Bash=any",)), "ask")


def test_a_command_that_names_no_unsaved_file_is_not_stopped(guard: Guard) -> None:
    neovim = guard.neovim({A: KEPT})
    assert guard.run(bash("ls -la")) == {}
    assert neovim.methods == ["snapshot"]
    assert guard.log == []


def test_a_silent_editor_does_not_make_commands_need_approval(guard: Guard) -> None:
    """Otherwise, every command would be asked about. The log records that the editor did not answer."""
    neovim = guard.neovim(manner=lambda *_: iter(()))
    assert guard.run(bash("rm a.py"), unknown="deny", deadline=50) == {}
    assert guard.log == [f"claude: Bash: {neovim.path} did not answer in time (commands are allowed)"]
