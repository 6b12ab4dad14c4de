"""Shards: samples that somebody has sharded.

Entry: `shardset.find_shards` says which shards a path names, `shards.read_shards` indexes them.
Always: a shard of an unfinished run is not taken for a whole one.
Tests: tests/sources/test_shardset.py, tests/sources/test_unfinished.py.
"""
