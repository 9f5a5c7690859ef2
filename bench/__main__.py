"""``make bench`` measures every number of docs/internals/benchmarks.md; ``make bench ARGS=server`` measures one part."""

from __future__ import annotations

import subprocess
import sys

PARTS = ("bridge", "history", "agents", "server", "reviews", "page")


def main(named: list[str]) -> int:
    for part in named or PARTS:
        if part not in PARTS:
            print(f"bench: there is no part {part}, only {', '.join(PARTS)}", file=sys.stderr)
            return 2
        # Each in a process of its own: what one does to memory and environment is none of the next one's business.
        code = subprocess.run([sys.executable, "-m", f"bench.{part}"], check=False).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
