"""Measurements: ratios of things run side by side, in one run. ``make bench`` prints them (docs/internals/benchmarks.md)."""
