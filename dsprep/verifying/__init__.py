"""Proving what was written."""
