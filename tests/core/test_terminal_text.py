"""Hidden characters are written out, and text in living languages stays readable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.core.terminal_text import harmless, harmless_pieces


@pytest.mark.parametrize(
    "text",
    [
        "naïve café, Ångström",
        "cafe\u0301, tie\u0302\u0301ng Vie\u0323\u0302t",  # combining accents
        "שָׁלוֹם",
        "नमस्ते क्‍ष",  # with a joiner
        "می‌خواهم",  # with a non-joiner
        "👩‍👩‍👧‍👦 🏳️‍🌈 ❤️ 👍🏽 1️⃣ ™️",
        "こんにちは　世界",
    ],
)
def test_living_languages_stay_readable(text: str) -> None:
    assert harmless(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("echo \u202egpj.tac\u202c", "echo \\u202egpj.tac\\u202c"),
        ("r\u200dm", "r\\u200dm"),
        ("ls\xa0-la", "ls\\xa0-la"),
        ("ls\u2003-la", "ls\\u2003-la"),
        ("ls\u3000-la", "ls\\u3000-la"),
        ("a\u2800b\u3164c", "a\\u2800b\\u3164c"),
        ("a\ufe0f\ufe0fb", "a\\ufe0f\\ufe0fb"),
        ("a\u200b\u200c", "a\\u200b\\u200c"),
        ("a\ufffcb", "a\\ufffcb"),
        ("a\u2800\ufe0fb", "a\\u2800\\ufe0fb"),
        ("a\ufe0f\u200db", "a\\ufe0f\\u200db"),
        ("rm\u0336", "rm\\u0336"),
        ("Z" + "\u0301" * 6, "Z" + "\u0301" * 4 + "\\u0301\\u0301"),
        ("Z" + "\u0e49" * 6, "Z" + "\u0e49" * 4 + "\\u0e49\\u0e49"),
    ],
)
def test_hidden_characters_are_written_out(text: str, shown: str) -> None:
    assert harmless(text) == shown


@given(st.text(st.sampled_from("ab1 \u0301\u0336\u200d\u200b\ufe0f\u20e3\u3000\u202e😀漢\x1b\n")))
def test_control_and_hidden_characters_never_pass(text: str) -> None:
    assert not set(harmless(text)) & set("\u0336\u200b\u202e\x1b\n")
    assert "".join(harmless_pieces(text)) == harmless(text)


@given(
    st.text(
        st.characters(exclude_characters="\u3000")
        | st.sampled_from("a1 \u0301\u0336\u200c\u200d\u200b\ufe0f\u20e3\xa0\u202e😀")
    )
)
def test_written_out_text_hides_nothing(text: str) -> None:
    """A second pass changes nothing. U+3000 is not tested, because it is visible and Japanese paragraphs begin with
    it."""
    assert harmless(harmless(text)) == harmless(text)
