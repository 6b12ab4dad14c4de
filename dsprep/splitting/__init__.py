"""``split``: a data set is divided, and its sides are written as lists, trees or shards.

Entry: `split.split`, which `splits` tells the side of each sample.
Always: lists, trees and shards of a side hold the same samples.
Tests: tests/splitting, tests/splits, tests/cli/test_split.py.
"""
