"""MXNet's ``.idx``: a line for each record of a ``.rec``, with its key and its offset.

The key is the record's id, as MXIndexedRecordIO and im2rec have it (``python/mxnet/recordio.py``).
MXIndexedRecordIO finds a record by its key alone, and so only the last of several with one key.
"""

from __future__ import annotations

from collections.abc import Sequence


def recordio_index(ids: Sequence[int], offsets: Sequence[int]) -> bytes:
    """The index of a RecordIO shard."""
    keys = range(len(ids)) if repeat(ids) else ids
    lines = zip(keys, offsets, strict=True)
    return "".join(f"{key}\t{offset}\n" for key, offset in lines).encode()


def repeat(keys: Sequence[int]) -> bool:
    """Whether some of the keys are equal."""
    return len(set(keys)) < len(keys)


def difference(
    index: bytes, ids: Sequence[int], offsets: Sequence[int], by_key: bool = False
) -> str | None:
    """Say what is wrong with an index."""
    try:
        lines = [line.split("\t") for line in index.decode().splitlines()]
        listed = [(int(key), int(offset)) for key, offset in lines]
    except ValueError:
        return "cannot be read as an index"
    any_key = repeat(ids)
    for line, (have, id, offset) in enumerate(zip(listed, ids, offsets, strict=False), start=1):
        if have[1] != offset or not (any_key or have[0] == id):
            return (
                f"line {line}: says id {have[0]} at byte {have[1]}, but id {id} is at byte {offset}"
            )
    if len(listed) != len(ids):
        return f"lists {len(listed):,} samples, but the shard holds {len(ids):,}"
    if by_key and repeat([key for key, _ in listed]):
        return "lists several samples with one id, of which MXNet finds the last only"
    return None
