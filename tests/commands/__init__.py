"""What the public functions refuse."""
