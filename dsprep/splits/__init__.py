"""Splits: which sample goes to which side, what leaks between them, and trees of the sides."""
