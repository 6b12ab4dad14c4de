"""Where files live."""
