"""Shards: samples that somebody has sharded."""
