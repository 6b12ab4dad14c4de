"""Selecting: which of a catalog's samples are to be written, and how often."""
