"""``make bench`` measures most numbers in docs/internals/benchmarks.md, and ``make bench ARGS=server`` only one
part."""

from __future__ import annotations

import subprocess
import sys

PARTS = ("bridge", "history", "agents", "server", "checkpoints", "reviews", "page")


def main(named: list[str]) -> int:
    for part in named or PARTS:
        if part not in PARTS:
            print(f"bench: unknown part {part}; the parts are {', '.join(PARTS)}", file=sys.stderr)
            return 2
        # Each part has its own process, so that it can't affect the memory and environment of the next one.
        code = subprocess.run([sys.executable, "-m", f"bench.{part}"], check=False).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
