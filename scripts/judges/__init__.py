"""Loaders that no environment of dsprep has, as judges of what dsprep writes and reads."""
