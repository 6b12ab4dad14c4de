"""What dsprep reads: how each kind of source is found, listed and read."""
