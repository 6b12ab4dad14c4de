"""The keys of samples that are written more than once. Workers call this."""

from __future__ import annotations


def key_of_copy(key: str, copy: int) -> str:
    """Tell a copy of a sample from the sample."""
    return f"{key}~{copy}" if copy else key
