"""Splits: which sample goes to which side, and what leaks between them.

Entry: `samples.read_samples`, `sides.choose_sides`, `leaks.find_copies`.
Always: the same samples and the same seed give the same sides, in whatever order samples come.
Tests: tests/splits, tests/cli/test_split.py, tests/attack/test_split.py.
"""
