"""The labels of a list or a table as columns of a catalog."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from dsprep.errors import SourceError
from dsprep.sources.classes import number_classes
from dsprep.text import refuse

_LARGEST_EXACT = 2**53


def labels_from_numbers(
    rows: pl.DataFrame, classes: tuple[str, ...] | None, source: str
) -> pl.Series:
    """Turn labels into class numbers, if every sample has one label and all are whole.

    Args:
        rows: The columns ``labels``, a list of numbers, and ``line``.
        classes: The classes that there are, if that is known.
        source: The name of what was read, for messages.

    Returns:
        The column ``cls`` of a catalog, or else ``label``.

    Raises:
        SourceError: If a label is not the number of a class.
    """
    labels, first = pl.col("labels"), pl.col("labels").list.first()
    is_class = (labels.list.len() == 1) & (first % 1 == 0) & (first.abs() < _LARGEST_EXACT)
    if not rows.select(is_class.all()).item():
        return rows["labels"].alias("label")
    numbers = rows.select("line", cls=first.cast(pl.Int64))
    if classes is not None:
        outside = ~pl.col("cls").is_between(0, len(classes) - 1)
        count = len(classes)
        refuse(source, numbers, outside, lambda row: f"{row['cls']} is none of the {count} classes")
    return numbers["cls"]


def labels_from_names(
    rows: pl.DataFrame, classes: tuple[str, ...] | None, source: str
) -> tuple[pl.Series, tuple[str, ...]]:
    """Turn class names into class numbers.

    Args:
        rows: The columns ``name`` and ``line``.
        classes: The classes and their order, if they are fixed already.
        source: The name of what was read, for messages.

    Returns:
        The column ``cls`` of a catalog, and the classes.

    Raises:
        SourceError: If a name is not among the classes.
    """
    if classes is None:
        classes = number_classes(rows["name"].unique(), source)
    unknown = ~pl.col("name").is_in(classes)
    count = len(classes)
    refuse(source, rows, unknown, lambda row: f"{row['name']!r} is none of the {count} classes")
    numbers = rows["name"].replace_strict(classes, range(count), return_dtype=pl.Int64)
    return numbers.alias("cls"), classes


def label_column(
    labels: Sequence[int | tuple[float, ...] | None], samples: int
) -> pl.Series | None:
    """Return the labels of samples as the column of a catalog; None unless all samples have one.

    Args:
        labels: They, as far as they are known.
        samples: How many samples there are.
    """
    if len(labels) < samples or None in labels:
        return None
    if all(isinstance(label, int) for label in labels):
        return pl.Series("cls", labels, dtype=pl.Int64)
    lists = [[float(label)] if isinstance(label, int) else list(label or ()) for label in labels]
    return pl.Series("label", lists, dtype=pl.List(pl.Float64))


def require_known(labels: pl.Series, classes: tuple[str, ...], name: str) -> None:
    """Refuse class numbers without a name.

    Raises:
        SourceError: If there is one.
    """
    unknown = labels.filter(~labels.is_between(0, len(classes) - 1))
    if len(unknown):
        raise SourceError(
            f"{name}: holds the class {unknown[0]}, which is none of its {len(classes)} classes"
        )
