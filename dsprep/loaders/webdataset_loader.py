"""webdataset's reader, with its decoder."""

from __future__ import annotations

import webdataset


def count_samples(path: str) -> int:
    """Read all samples of a shard and decode their images."""
    samples = webdataset.WebDataset([path], shardshuffle=False, empty_check=False)
    return sum(1 for _ in samples.decode("pil"))
