"""Measurements: ratios within one run. ``make bench`` prints them; docs/internals/benchmarks.md has a copy."""
