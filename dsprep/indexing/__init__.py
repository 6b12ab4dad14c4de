"""Writing the indexes of shards that are there."""
