"""Benchmarks. ``make bench`` prints the results, and docs/internals/benchmarks.md contains those of earlier runs. Two
results that are compared with each other are always from the same run."""

import sys
from pathlib import Path

# The benchmarks use the tests' rigs, which import the tools by name. In tests, pytest adds the tools to the path.
sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))
