"""All editors are asked in parallel. None can hold up an agent, even if it hangs, is at a prompt or sends nonsense."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from drawbridge.guard import ask

from . import editors
from .conftest import Guard, decision
from .editors import Editor
from .payloads import KEPT, A, edit, edited, recorded

DEADLINE = 400
"""How long editors have to answer, in milliseconds."""


@contextlib.contextmanager
def between(least: float, most: float) -> Iterator[None]:
    """Fails unless the body takes from ``least`` to ``most`` seconds. ``most`` is generous, since the machine may be
    busy.
    """
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    assert least <= took < most, f"it took {took:.3f} s"


@pytest.mark.parametrize(
    "manner",
    [
        editors.plainly,
        editors.byte_by_byte,
        editors.late,
        editors.between_notifications,
        editors.at_a_short_prompt,
    ],
)
def test_an_answer_from_neovim_is_read_in_any_pieces(
    guard: Guard, manner: editors.Manner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask, "BLOCKED_GRACE", 3)
    guard.neovim({A: KEPT}, manner=manner)
    assert guard.denial(edit())


@pytest.mark.parametrize("manner", [editors.plainly, editors.byte_by_byte, editors.late])
def test_an_answer_from_vs_code_is_read_in_any_pieces(guard: Guard, manner: editors.Manner) -> None:
    guard.vscode({A: KEPT}, manner=manner)
    assert guard.denial(edit())


@pytest.mark.parametrize("manner", [editors.plainly, editors.byte_by_byte, editors.between_notifications])
def test_a_neovim_gets_the_lua_code_with_its_first_request(guard: Guard, manner: editors.Manner) -> None:
    neovim = guard.neovim({A: KEPT}, manner=manner, fresh=True)
    assert guard.denial(edit())
    assert neovim.methods[0] == "snapshot"


def test_the_lua_code_is_sent_at_most_once(guard: Guard) -> None:
    nothing = msgpack.packb([1, 2, None, None])
    guard.neovim({A: KEPT}, manner=editors.saying(nothing + nothing))
    assert guard.run(edit()) == {}
    assert "sent an invalid answer (Neovim failed: None)" in guard.log[0]


HUNG = {
    "silent": (editors.silent, "did not answer in time"),
    "deaf": (editors.deaf, "did not answer in time"),
    "busy": (editors.busy, "did not answer in time"),
}
WRONG = {
    "at a prompt": (editors.at_a_prompt, "is waiting at a prompt"),
    "hanging up": (editors.hanging_up, "closed the connection"),
    "hanging up halfway": (editors.hanging_up_halfway, "closed the connection"),
    "another protocol": (
        editors.saying(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        "sent an invalid answer (not a msgpack-RPC message)",
    ),
    "an error": (editors.saying(msgpack.packb([1, 2, [0, "E5108: no such thing"], None])), "E5108: no such thing"),
    "another number": (editors.saying(msgpack.packb([1, 3, None, '{"files": [null]}'])), "sent an invalid answer"),
    "three parts": (
        editors.saying(msgpack.packb([1, 2, None])),
        "sent an invalid answer (not a msgpack-RPC message)",
    ),
    "a number": (editors.saying(msgpack.packb([1, 2, None, 17])), "sent an invalid answer"),
    "no JSON": (editors.saying(msgpack.packb([1, 2, None, "{"])), "sent an invalid answer"),
    "bytes": (editors.saying(msgpack.packb([1, 2, None, b'"\xff"'])), "sent an invalid answer"),
    "no files": (editors.saying(msgpack.packb([1, 2, None, "{}"])), "sent an invalid answer"),
    "null": (editors.saying(msgpack.packb([1, 2, None, "null"])), "sent an invalid answer"),
    "too many files": (
        editors.saying(msgpack.packb([1, 2, None, '{"files": [null, null]}'])),
        "sent an invalid answer",
    ),
    "no name": (
        editors.saying(msgpack.packb([1, 2, None, '{"files": [{"modified": true}]}'])),
        "sent an invalid answer",
    ),
}


@pytest.mark.parametrize(("manner", "problem"), (HUNG | WRONG).values(), ids=(HUNG | WRONG).keys())
@pytest.mark.parametrize("unknown", ["allow", "ask", "deny"])
def test_an_editor_without_a_valid_answer_is_unknown(
    guard: Guard, manner: editors.Manner, problem: str, unknown: str
) -> None:
    neovim = guard.neovim({A: KEPT}, manner=manner)
    hung = manner in [manner for manner, _ in HUNG.values()]
    with between(0, 1.5):
        answer = guard.run(edit(), deadline=60 if hung else 2_000, unknown=unknown)
    [line] = guard.log
    assert line.startswith(f"claude: Edit: {neovim.path} ")
    assert problem in line
    assert line.endswith(f"(unknown = {unknown})")
    if unknown == "allow":
        assert answer == {}
    else:
        assert answer["hookSpecificOutput"]["permissionDecision"] == unknown
        reason = answer["hookSpecificOutput"]["permissionDecisionReason"]
        assert "could not find out in time whether a.py has unsaved changes: an editor on this machine" in reason


def test_the_denial_names_every_file_of_a_patch(guard: Guard) -> None:
    guard.neovim({A: KEPT}, manner=editors.silent)
    patch = "*** Update File: /ws/a.py\n*** Update File: /ws/b.py\n"
    call = recorded("codex", "PreToolUse", "apply_patch", command=patch)
    reason = guard.denial(call, agent="codex", deadline=60, unknown="deny")
    assert "whether a.py and b.py have unsaved changes: an editor on this machine" in reason


VSCODE_WRONG = {
    "silent": (editors.silent, "did not answer in time"),
    "an error": (editors.saying(b'{"id": 1, "error": {"code": -32603, "message": "broken"}}\n'), "broken"),
    "no JSON": (editors.saying(b"hello\n"), "sent an invalid answer"),
    "a list": (editors.saying(b"[1]\n"), "sent an invalid answer"),
    "bytes": (editors.saying(b'"\xff"\n'), "sent an invalid answer"),
    "NaN": (editors.saying(b'{"id": 1, "result": NaN}\n'), "sent an invalid answer"),
    "no files": (editors.saying(b'{"id": 1, "result": {}}\n'), "sent an invalid answer"),
    "hanging up halfway": (editors.hanging_up_halfway, "closed the connection"),
}


@pytest.mark.parametrize(("manner", "problem"), VSCODE_WRONG.values(), ids=VSCODE_WRONG.keys())
def test_a_vs_code_without_a_valid_answer_is_unknown(guard: Guard, manner: editors.Manner, problem: str) -> None:
    guard.vscode({A: KEPT}, manner=manner)
    assert guard.denial(edit(), deadline=60 if manner is editors.silent else 2_000, unknown="deny")
    assert problem in guard.log[0]


def test_an_editor_at_a_prompt_costs_less_than_the_deadline(guard: Guard) -> None:
    guard.neovim({A: KEPT}, manner=editors.at_a_prompt)
    with between(ask.BLOCKED_GRACE, 1):
        assert guard.run(edit(), deadline=5_000) == {}


def test_three_hung_editors_cost_one_deadline_in_total(guard: Guard) -> None:
    """The editor that answers is still taken into account."""
    hung = [guard.neovim(manner=manner) for manner in (editors.silent, editors.deaf, editors.busy)]
    guard.neovim({A: KEPT}, pid=1)
    with between(DEADLINE / 1000, 2.5 * DEADLINE / 1000):
        reason = guard.denial(edit(), deadline=DEADLINE)
    assert "unsaved changes in Neovim" in reason
    assert len(guard.log) == len(hung) + 1


def test_an_editor_that_accepts_no_connections_is_unknown(guard: Guard) -> None:
    path = guard.socket()
    with socket.socket(socket.AF_UNIX) as listening, contextlib.ExitStack() as fillers:
        listening.bind(str(path))
        listening.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                filler = fillers.enter_context(socket.socket(socket.AF_UNIX))
                filler.setblocking(False)
                filler.connect(str(path))
        with between(0, 1):
            assert guard.run(edit(), deadline=5_000, unknown="deny")
    assert "does not accept connections" in guard.log[0]


def test_an_answer_of_several_megabytes_is_read_completely(guard: Guard) -> None:
    files: dict[str, Any] = {f"/ws/{number:06}{'x' * 500}": {"modified": True} for number in range(6_000)}
    guard.neovim(files)
    path = next(reversed(files))
    answers = ask.ask(
        [(str(next(guard.sockets.iterdir())), "neovim")], "snapshot", {"paths": [path], "want": ["open"]}, 3_000
    )
    assert answers[0].result["open"] == list(files)


def test_the_guard_waits_for_a_reload_but_not_a_hung_editor(guard: Guard) -> None:
    """A Neovim that was stopped with Ctrl-Z must not cost seconds after every tool call."""
    for manner in (editors.silent, editors.deaf, editors.at_a_prompt):
        guard.neovim(manner=manner)
    with between(0.06, 1):
        assert guard.run(edited(), deadline=60) == {}
    still = {"success": True, "reloaded": [], "kept": [{"name": A, "lines": 3}]}
    guard.neovim(manner=editors.at_work, answers={"refresh_buffer": still})
    with between(editors.LONG, 1.5):
        output = guard.run(edited(), deadline=60, diagnostics=False)
    assert (
        "/ws/a.py is on disk as you wrote it, but has unsaved changes"
        in output["hookSpecificOutput"]["additionalContext"]
    )


def test_a_hung_editor_costs_one_deadline_for_many_files(guard: Guard) -> None:
    """The other editor is still asked to reload every file of the patch."""
    guard.neovim(manner=editors.silent)
    living = guard.neovim()
    patched = recorded("codex", "PostToolUse", "apply_patch")
    with between(DEADLINE / 1000, 4 * DEADLINE / 1000):
        assert guard.run(patched, agent="codex", deadline=DEADLINE) == {}
    assert [params["file_path"] for params in living.params_of("refresh_buffer")] == [
        "/ws/a.py", "/ws/sub/new.py", "/ws/b.py", "/ws/c.py", "/ws/sub/d.py"
    ]  # fmt: skip


def test_an_editor_that_has_ended_is_not_asked(guard: Guard) -> None:
    with Editor(guard.socket(), {A: KEPT}) as neovim:
        pass
    assert not neovim.path.exists()
    assert guard.run(edit()) == {}
    assert guard.log == []


# One editor answers and another does not, so it is unknown what the second one has open.


def stuck_and_answering(guard: Guard, files: dict[str, editors.File], **options: Any) -> editors.Editor:
    """Starts an editor that waits at a prompt, and one that answers. Returns the one that answers."""
    guard.neovim(manner=editors.at_a_prompt, pid=1)
    return guard.neovim(files, pid=2, **options)


@pytest.mark.parametrize("unknown", ["ask", "deny"])
def test_editors_with_the_file_show_why_the_agent_waits(guard: Guard, unknown: str) -> None:
    neovim, without = stuck_and_answering(guard, {A: {}}), guard.neovim({}, pid=3)
    assert "could not find out in time" in decision(guard.run(edit(), unknown=unknown), unknown)
    asks = {"ask": "asks to change", "deny": "can't change"}[unknown]
    assert neovim.notices == [f"Claude Code {asks} a.py: another editor did not answer"]
    assert without.notices == []


@pytest.mark.parametrize("answer", ["ask", "wait", "save", "merge"])
def test_nothing_is_saved_for_a_call_that_is_denied(guard: Guard, tmp_path: Path, answer: str) -> None:
    file = tmp_path / "a.py"
    file.write_text("one\n")
    neovim = stuck_and_answering(guard, {str(file): KEPT})
    reason = guard.denial(edit(str(file)), answer=answer, unknown="deny")
    assert "could not find out in time" in reason
    assert neovim.methods == ["snapshot", "send_message"], "nothing is saved for a call that is denied"


@pytest.mark.parametrize("answer", ["save", "merge"])
def test_the_user_is_asked_about_an_editor_that_did_not_answer(guard: Guard, tmp_path: Path, answer: str) -> None:
    """The unsaved work in another editor is safe, because it was saved or the change can be merged into it."""
    file = tmp_path / "a.py"
    file.write_text("one\n")
    stuck_and_answering(guard, {str(file): KEPT}, answers={"buffer_text": {"text": "mine\n", "version": 1}})
    output = guard.run(edit(str(file)), answer=answer, unknown="ask")
    assert "could not find out in time" in decision(output, "ask")


def test_known_unsaved_changes_take_precedence_as_the_reason(guard: Guard) -> None:
    stuck_and_answering(guard, {A: KEPT})
    assert "/ws/a.py has unsaved changes" in guard.denial(edit(), unknown="deny")
