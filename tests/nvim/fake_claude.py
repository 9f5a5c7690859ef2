"""A fake ``claude`` for a terminal that only draws a prompt box or a dialog, like Claude Code 2.1.329.

A test changes what it shows by sending Ctrl-A, a letter, the text in the box, and Ctrl-A. What it has received since
then is in the file that its argument names.
"""

from __future__ import annotations

import os
import re
import sys
import tty

RULE = "─" * 24
SHOWN = {
    b"d": f"{RULE}\n❯\xa0 \n{RULE}\n Do you want to proceed?\n ❯ 1. Yes\n   2. No",  # a dialog below an old box
    b"w": f"{RULE}\n❯\xa0 \n{RULE}\n  esc to interrupt",  # working
    b"s": f"{RULE}\n❯\xa0run the tests\n{RULE}\n  ? for shortcuts",  # a suggestion
}
PASTED = re.compile(rb"\x1b\[200~(.*?)\x1b\[201~", re.DOTALL)


def draw(kind: bytes, content: str, orders: int) -> None:
    """Draws the screen. ``content`` is the text in the box, with ``|`` at the cursor unless the cursor is at the
    end."""
    before, bar, after = content.partition("|")
    if len(content) > 60:
        before = f"[Pasted text #1 +{content.count(chr(10))} lines]"
    box = f"{RULE}\n❯\xa0[⧉ In a.txt] {before}{after}{'' if bar else ' '}\n{RULE}\n  ? for shortcuts"
    shown = SHOWN[kind] if kind in SHOWN and not (kind == b"s" and content) else box
    shown += f"\n  order {orders}"
    sys.stdout.write("\x1b[2J\x1b[H" + shown.replace("\n", "\r\n"))
    sys.stdout.flush()


def main() -> None:
    tty.setraw(0)
    kind, content, received, orders = b"b", "", b"", 0
    draw(kind, content, orders)
    while data := os.read(0, 65_536):
        received += data
        if order := re.search(rb"\x01(.)([^\x01]*)\x01", received):
            kind, content, received = order[1], order[2].decode(), b""
            orders += 1
        elif pasted := PASTED.search(received):
            content = content.replace("|", pasted[1].decode() + "|") if "|" in content else content + pasted[1].decode()
        with open(sys.argv[1], "wb") as file:
            file.write(received)
        draw(kind, content, orders)


main()
