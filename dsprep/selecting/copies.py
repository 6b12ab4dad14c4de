"""The keys of samples that are written more than once. Workers call this."""

from __future__ import annotations


def key_of_copy(key: str, copy: int) -> str:
    """Tell a copy of a sample from the sample.

    Args:
        key: The sample's key.
        copy: Which copy it is; 0 is the sample itself.

    Returns:
        The key itself, or ``KEY~1`` for the first copy, ``KEY~2`` for the second, and so on.
    """
    return f"{key}~{copy}" if copy else key
