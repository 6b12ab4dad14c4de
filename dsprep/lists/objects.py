"""The objects of detection labels: A, B, A - 2 more header values, then B values each."""

from __future__ import annotations

import polars as pl

from dsprep.lists.rows import label_count

_VALUES = ("cls", "xmin", "ymin", "xmax", "ymax")


def numbers() -> pl.Expr:
    """The numbers of a label, as a list."""
    return pl.col("label").str.split("\t").cast(pl.List(pl.Float64))


def objects(rows: pl.DataFrame) -> pl.DataFrame:
    """Take detection labels apart."""
    values = (
        rows.select(
            pl.int_range(pl.len(), dtype=pl.Int64).alias("row"),
            number=numbers(),
            place=pl.int_ranges(label_count()),
        )
        .with_columns(
            header=pl.col("number").list.get(0).cast(pl.Int64),
            width=pl.col("number").list.get(1).cast(pl.Int64),
        )
        .explode("number", "place")
    )
    within = pl.col("place") - pl.col("header")
    values = values.filter((within >= 0) & (within % pl.col("width") < len(_VALUES)))
    # As many values are left of each object, one after the other.
    return pl.DataFrame(
        {
            "row": values["row"].gather_every(len(_VALUES)),
            **{
                name: values["number"].gather_every(len(_VALUES), place)
                for place, name in enumerate(_VALUES)
            },
        }
    )


def why_undetected(label: str) -> str:
    """Say why a label is not :func:`~dsprep.lists.rows.is_detection`."""
    values = [float(each) for each in label.split("\t")]
    if len(values) < 2:
        return "1 label, where most lines have one for detection"
    header, width = values[:2]
    size = len(values) - header
    if header < 2 or header % 1:
        return f"A, the width of the header, is {header:g}: it has to be 2 or more"
    if width < 5 or width % 1:
        return f"B, the values of an object, is {width:g}: it has to be 5 or more"
    if size < 0:
        return f"A, the width of the header, is {header:g}, but there are only {len(values)} values"
    return f"{size:g} values after the header are no multiple of B, which is {width:g}"
