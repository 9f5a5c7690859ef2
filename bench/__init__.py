"""Measurements: ratios within one run. ``make bench`` prints them; docs/internals/benchmarks.md has a copy."""

import sys
from pathlib import Path

# The rigs of the tests, which are used here too, import the tools by name, as pytest lets them.
sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))
