"""The index of a WebDataset data set that wids reads; the format makes it, here one is judged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dsprep.formats.base import ShardFacts

_KIND = "wids-shard-index-v1"


def read_index(data: bytes) -> list[dict[str, Any]] | None:
    """The shards that an index lists; None if it is no index."""
    try:
        index = json.loads(data)
        shards = index["shardlist"] if index["__kind__"] == _KIND else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    is_list = isinstance(shards, list) and all(isinstance(each, dict) for each in shards)
    return shards if is_list else None


def difference(data: bytes, shards: Sequence[ShardFacts]) -> str | None:
    """Say what is wrong with an index; whatever else it tells, and the place of a url, is free."""
    listed = read_index(data)
    if listed is None:
        return "is no wids index"
    for have, want in zip(listed, shards, strict=False):
        name = str(have.get("url")).rpartition("/")[2]
        if name != want.name:
            return f"lists {name:.200}, where {want.name} should be"
        for what, says, is_so in (
            ("samples", have.get("nsamples"), want.samples),
            ("bytes", have.get("filesize"), want.bytes),
        ):
            if says != is_so:
                return f"says that {want.name} has {says!s:.30} {what}, but it has {is_so}"
    if len(listed) != len(shards):
        return f"lists {len(listed):,} shards, but there are {len(shards):,}"
    return None
