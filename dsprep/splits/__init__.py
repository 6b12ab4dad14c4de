"""Splits: which sample goes to which side, what leaks between them, and trees of the sides.

Entry: `samples.read_samples`, `sides.choose_sides`, `leaks.find_copies`, `materialize.write_lists`.
Always: the same samples and the same seed give the same sides, in whatever order samples come.
Tests: tests/splits, tests/cli/test_split.py, tests/attack/test_split.py.
"""
