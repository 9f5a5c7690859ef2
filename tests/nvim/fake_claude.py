"""Stands for a ``claude`` on a terminal, as far as its prompt box goes: drawn as the real one (2.1.329) draws it.

What it is sent is written to the file that it is given. A test changes what it shows by Ctrl-A and a letter.
"""

from __future__ import annotations

import os
import re
import sys
import tty

RULE = "─" * 24
SHOWN = {
    b"d": f"{RULE}\n❯\xa0 \n{RULE}\n Do you want to proceed?\n ❯ 1. Yes\n   2. No",  # a dialog, right below a box of before
    b"w": f"{RULE}\n❯\xa0 \n{RULE}\n  esc to interrupt",  # at work
    b"s": f"{RULE}\n❯\xa0run the tests\n{RULE}\n  ? for shortcuts",  # it suggests something
}
PASTED = re.compile(rb"\x1b\[200~(.*?)\x1b\[201~", re.DOTALL)


def draw(kind: bytes, content: str, orders: int) -> None:
    """``content`` has ``|`` where the cursor is, if that is not its end."""
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
