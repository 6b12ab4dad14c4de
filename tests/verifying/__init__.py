"""Checks of shards, and their indexes."""
