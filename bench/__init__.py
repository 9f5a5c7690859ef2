"""Measurements: ratios within one run. ``make bench`` prints them; docs/internals/benchmarks.md has a copy."""

import sys
from pathlib import Path

# The tests' rigs, which are also used here, import the tools by name, which pytest makes possible for the tests.
sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))
