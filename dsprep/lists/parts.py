"""A list cut as im2rec cuts it: chunks, each of which is test, training and validation samples."""

from __future__ import annotations

from typing import NamedTuple

from dsprep.errors import OptionError


class Part(NamedTuple):
    """A run of rows that becomes a list of its own."""

    name: str  # what its file name has after the list's: `_train`, `_0_val`, or nothing
    start: int  # its first row
    stop: int  # the row after its last


def cut_parts(
    rows: int, chunks: int = 1, train_ratio: float = 1.0, test_ratio: float = 0.0
) -> list[Part]:
    """Cut a list.

    The options mean what they mean to MXNet's ``tools/im2rec.py`` (``make_list``), but for its
    losses: every row is in exactly one part, whatever the ratios, and no chunk is empty.
    """
    if not 0 < train_ratio <= 1 or not 0 <= test_ratio < 1 or train_ratio + test_ratio > 1 + 1e-9:
        raise OptionError(
            "--train-ratio and --test-ratio are shares: the first above 0, both together at most 1"
        )
    if not 1 <= chunks <= rows:
        raise OptionError(f"--chunks {chunks}: a list of {rows} samples has from 1 to {rows}")
    parts = []
    for chunk in range(chunks):
        start, stop = chunk * rows // chunks, (chunk + 1) * rows // chunks
        name = f"_{chunk}" if chunks > 1 else ""
        parts += _cut_chunk(name, start, stop, train_ratio, test_ratio)
    return parts


def _cut_chunk(
    name: str, start: int, stop: int, train_ratio: float, test_ratio: float
) -> list[Part]:
    if train_ratio == 1:
        return [Part(name, start, stop)]
    left = 1 - train_ratio - test_ratio > 1e-9
    test = start + round((stop - start) * test_ratio)
    train = start + round((stop - start) * (test_ratio + train_ratio)) if left else stop
    parts = [Part(f"{name}_train", test, train)]
    if left:
        parts.append(Part(f"{name}_val", train, stop))
    if test_ratio:
        parts.append(Part(f"{name}_test", start, test))
    for part in parts:
        if part.start == part.stop:
            raise OptionError(f"{part.name[1:]} would have no samples, of {stop - start}")
    return parts
