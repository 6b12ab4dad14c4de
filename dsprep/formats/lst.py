"""The ``.lst`` that is written beside shards: id, label and path of each sample."""

from __future__ import annotations

from collections.abc import Sequence


def format_number(value: float) -> str:
    """Write a label: a whole number without a point, any other as its shortest exact decimal."""
    return str(int(value)) if abs(value) < 1e16 and value == int(value) else repr(value)


def fits_lst(path: str) -> bool:
    """Whether a ``.lst`` can name a path: readers split lines at tabs and strip each field."""
    return path == path.strip() and not ("\t" in path or "\n" in path or "\r" in path)


def format_lst(
    ids: Sequence[int],
    labels: Sequence[int] | Sequence[tuple[float, ...]] | None,
    paths: Sequence[str],
) -> str:
    """Write a ``.lst``: id, labels and path of each sample, separated by tabs."""
    texts = ["0"] * len(ids) if labels is None else map(_label, labels)
    columns = zip(ids, texts, paths, strict=True)
    return "".join(f"{id}\t{label}\t{path}\n" for id, label, path in columns)


def _label(label: int | tuple[float, ...]) -> str:
    return str(label) if isinstance(label, int) else "\t".join(map(format_number, label))
