"""What decides how samples are laid out in shards."""
