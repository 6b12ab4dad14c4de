"""Pictures: each file, or each slice of a file, is an image."""
