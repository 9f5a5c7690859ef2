"""The web UI and the terminal client escape the same characters: those that hide, reorder or imitate others."""

from __future__ import annotations

import json
import random
import subprocess

from drawbridge.core.terminal_text import harmless
from tests import programs

ASK = """
await import(process.argv[1] + '/dom.mjs');
const { harmless } = await import(process.argv[1] + '/modules.mjs');
let text = '';
for await (const piece of process.stdin) text += piece;
console.log(JSON.stringify(JSON.parse(text).map(harmless)));
"""


def by_the_page(texts: list[str]) -> list[str]:
    command = [str(programs.node()), "--input-type=module", "--eval", ASK, str(programs.page_units())]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, timeout=120, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def test_web_ui_and_terminal_escape_the_same_characters() -> None:
    """Tests each character alone and, if it is below U+10000, after a letter and between a space and a digit. Also
    tests random texts of characters with special rules.
    """
    every = [chr(number) for number in range(0x110000)]
    few = every[:0x10000]
    chosen = [one for one in few if harmless(f"a{one}") != f"a{one}" and not "\ud800" <= one <= "\udfff"]
    chosen += "\udfff"  # only one half of a surrogate pair, because JSON reads two adjacent halves as one character
    chosen += list("aé1#*-. ?«»א日ا\u200d\u200c\ufe0f\u20e3\u0301\u0591\u064b\U0001f469\u2764")
    pick = random.Random(12)
    mixed = ["".join(pick.choices(chosen, k=8)) for _ in range(20_000)]
    for form, characters in (("{}", every), ("a{}", few), (" {}1", few)):
        texts = [form.format(character) for character in characters]
        assert by_the_page(texts) == [harmless(text) for text in texts], form
    joined = [
        "".join(pick.choices("a1\xa0\u202f\u3000\u200b\u202e\u200c\u200d\ufe0f\u20e3\u2764", k=6))
        for _ in range(20_000)
    ]
    assert by_the_page(joined) == [harmless(text) for text in joined]
    assert by_the_page(mixed) == [harmless(text) for text in mixed]
