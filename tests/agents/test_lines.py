"""History lines for agents whose own format differs from Claude Code's."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.agents import lines

TEXTS = st.lists(st.sampled_from(["a", "b", "c", ""])).map("\n".join)


@given(TEXTS, TEXTS)
def test_a_patch_turns_one_text_into_the_other(old: str, new: str) -> None:
    before, after = old.splitlines(), new.splitlines()
    at, result = 0, []
    for hunk in lines.patch_of(old, new):
        start = hunk["oldStart"] - 1 if hunk["oldLines"] else at
        result += before[at:start]
        assert hunk["newStart"] - 1 == len(result) or not hunk["newLines"]
        signs = [line[0] for line in hunk["lines"]]
        assert (signs.count("-") + signs.count(" "), signs.count("+") + signs.count(" ")) == (
            hunk["oldLines"],
            hunk["newLines"],
        )
        removed = [line[1:] for line in hunk["lines"] if line[0] != "+"]
        assert removed == before[start : start + hunk["oldLines"]]
        result += [line[1:] for line in hunk["lines"] if line[0] != "-"]
        at = start + hunk["oldLines"]
    assert [*result, *before[at:]] == after


@pytest.mark.parametrize("inside", ["\f", "\r", "\x85", "\u2028"])
def test_only_a_line_feed_ends_a_line_of_a_patch(inside: str) -> None:
    [hunk] = lines.patch_of(f"a{inside}b\r\nc", f"a{inside}b\nd")
    assert (hunk["newLines"], hunk["lines"]) == (2, [f" a{inside}b", "-c", "+d"])


def test_a_patch_of_very_long_texts_is_left_out() -> None:
    assert lines.patch_of("a\n" * 600_000, "b") == []


def test_the_first_piece_begins_a_block() -> None:
    first, second = (lines.piece("s1", "thinking", "Hm", is_first=is_first) for is_first in (True, False))
    events = [json.loads(line.raw)["event"] for line in [*first, *second]]
    assert [event["type"] for event in events] == ["content_block_start", *["content_block_delta"] * 2]
    assert (
        events[1]
        == events[2]
        == {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "thinking_delta", "thinking": "Hm"},
        }
    )
    assert not any(line.durable for line in [*first, *second])
