"""A process that is killed while it fills a search index leaves an index that the next process completes."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from drawbridge.server.store.search import FILE, Index, Wanted
from tests.server.store.rig import open_history
from tests.server.store.test_search import line, text

RECORDS = 3_000

PROGRAM = f"""
import sys
from drawbridge.server.store import search
from drawbridge.server.store.log import History
search.BATCH = 20
index = search.Index(sys.argv[1] + "/{FILE}", History.open(sys.argv[1] + "/logs"))
print("ready", flush=True)
while index.update():
    pass
"""


def test_a_killed_process_leaves_neither_gaps_nor_duplicates(tmp_path: Path) -> None:
    history = open_history(tmp_path / "logs")
    for number in range(1, RECORDS + 1):
        history.append("claude", line(text(f"walnut {number}")))
    dice = random.Random(1)
    for _ in range(6):
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(dice.random() * 0.05)  # until it is killed
        process.send_signal(signal.SIGKILL)
        process.communicate()
    index = Index(str(tmp_path / FILE), history)
    while index.update():
        pass
    found = index.search(Wanted("walnut", limit=RECORDS * 2))
    assert [hit.seq for hit in found] == list(range(RECORDS, 0, -1))
    assert [part.records for part in index.parts()] == [RECORDS]
    history.close()
