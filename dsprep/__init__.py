"""Pack images into the shards that training reads, and verify them."""

__version__ = "0.1.0"
