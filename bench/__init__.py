"""Benchmarks; most results are ratios within one run. ``make bench`` prints them; docs/internals/benchmarks.md has a
copy."""

import sys
from pathlib import Path

# The benchmarks use the tests' rigs, which import the tools by name. In tests, pytest adds the tools to the path.
sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))
