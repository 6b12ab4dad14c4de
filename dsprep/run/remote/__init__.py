"""Runs whose data set goes to S3: shards are written to a stage, and sent while others are."""
