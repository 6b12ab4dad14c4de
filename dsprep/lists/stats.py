"""What is in a list, counted, and samples of it, drawn by the hash of paths.

A row's chance is :func:`hash_unit` of its path, with the purpose ``sample``.
So the same rows are drawn wherever they stand, and a larger sample has all rows of a smaller one
with its seed. When a list grows, only new rows come in: a fraction keeps its other rows, a number
of rows gives up some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Literal

import polars as pl

from dsprep.errors import OptionError
from dsprep.frozen import Frozen
from dsprep.lists.rows import all_detection, class_numbers, label_count, objects_of
from dsprep.printable import json_values
from dsprep.tuples import NamedTuple

_NAMES = pl.Schema({"number": pl.Int64(), "name": pl.String()})


class ClassCount(NamedTuple):
    """Counts of one class in a list."""

    number: int  # the class number
    name: str | None  # its name; None if there are no names, or none for the number
    rows: int  # how many rows have it
    objects: int | None = None  # how many objects have it, in a list for detection

    @property
    def weight(self) -> int:
        """The number that classes are compared by: objects, or else rows."""
        return self.rows if self.objects is None else self.objects

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {"number": self.number, "name": self.name, "rows": self.rows, "objects": self.objects}
        )


class Statistics(Frozen):
    """Counts of the rows, labels and classes of a list."""

    list: str  # its name
    rows: int  # its rows
    # what its labels are: one class number each, objects for detection, or other numbers
    kind: Literal["classes", "detection", "numbers"]
    widths: Mapping[int, int]  # how many rows there are by the count of numbers in their label
    distinct: int  # how many different labels there are
    # the classes in the order of their numbers, with those that have a name and no rows; none for
    # labels of other numbers
    classes: Sequence[ClassCount]
    largest: ClassCount | None  # the class with the most rows, or objects
    smallest: ClassCount | None  # the class with the fewest that has any
    imbalance: float | None  # how many times as large the largest is
    unused: int  # how many classes have a name and no rows
    objects: int | None  # how many objects there are, in a list for detection
    # how many of them a row has: the `least`, the `mean` and the `most`
    objects_per_row: Mapping[str, float] | None

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "list": self.list,
                "rows": self.rows,
                "kind": self.kind,
                "widths": self.widths,
                "distinct": self.distinct,
                "classes": self.classes,
                "largest": self.largest,
                "smallest": self.smallest,
                "imbalance": self.imbalance,
                "unused": self.unused,
                "objects": self.objects,
                "objects_per_row": self.objects_per_row,
            }
        )


def count_list(rows: pl.DataFrame, names: Sequence[str] | None, source: str) -> Statistics:
    """Count what is in a list."""
    widths = rows.select(width=label_count()).group_by("width").len().sort("width")
    numbers = rows.select(number=class_numbers()).to_series()
    found = objects_of(rows) if all_detection(rows) else None
    counts = None
    if found is not None:
        # A wrong class number counts as one that is near; `check` finds it.
        number = pl.col("cls").floor().clip(-(2**53), 2**53).cast(pl.Int64).alias("number")
        counts = found.group_by(number).agg(rows=pl.col("row").n_unique(), objects=pl.len())
    elif not numbers.has_nulls():
        counts = numbers.to_frame().group_by("number").len("rows")
    classes: list[ClassCount] = []
    if counts is not None:  # count classes that have a name and no rows, too
        named = pl.DataFrame({"number": range(len(names or ())), "name": names or ()}, _NAMES)
        table = counts.join(named, on="number", how="full", coalesce=True).sort("number")
        table = table.with_columns(pl.exclude("number", "name").fill_null(0))
        classes = [ClassCount(**row) for row in table.iter_rows(named=True)]
    used = [one for one in classes if one.weight]
    largest = max(used, key=lambda one: one.weight, default=None)
    smallest = min(used, key=lambda one: one.weight, default=None)
    per_row = None
    if found is not None:
        sizes = found["row"].value_counts()["count"].to_list()
        least = min(sizes) if len(sizes) == rows.height else 0
        per_row = {"least": least, "mean": found.height / rows.height, "most": max(sizes)}
    return Statistics(
        list=source,
        rows=rows.height,
        kind="numbers" if counts is None else "classes" if found is None else "detection",
        widths=dict(widths.iter_rows()),
        distinct=rows["label"].n_unique(),
        classes=classes,
        largest=largest,
        smallest=smallest,
        imbalance=largest.weight / smallest.weight if largest and smallest else None,
        unused=len(classes) - len(used),
        objects=None if found is None else found.height,
        objects_per_row=per_row,
    )


def hash_unit(texts: pl.Series, seed: int, purpose: str = "") -> pl.Series:
    """Give each text a number that depends on it, the seed and the purpose alone."""
    # Samples and sides of splits are drawn from these numbers. Outputs depend on them, so how they
    # are made is fixed here for good, and rests on nothing that a library may change. It is made of
    # the text's UTF-8 bytes by unkeyed, sequential BLAKE2b with a digest of 8 bytes, the seed as
    # its salt (16 bytes, two's complement, little-endian) and the purpose as its personalization
    # (UTF-8, zeros up to 16 bytes). The digest is read as a little-endian unsigned number; its
    # upper 53 bits, divided by 2^53, are the result, exactly.
    try:
        salt = seed.to_bytes(blake2b.SALT_SIZE, "little", signed=True)
    except OverflowError:
        raise OptionError(f"the seed {seed} is too large: use one of at most 38 digits") from None
    begun = blake2b(digest_size=8, salt=salt, person=purpose.encode())

    def digest(text: bytes) -> bytes:
        hashed = begun.copy()  # twice as fast as a new hash
        hashed.update(text)
        return hashed.digest()

    found = pl.Series(texts.name, map(digest, texts.cast(pl.Binary).to_list()), pl.Binary)
    numbers = found.bin.reinterpret(dtype=pl.UInt64, endianness="little")
    units: pl.Series = (numbers // 2**11).cast(pl.Float64) / 2**53
    return units


def sample_fraction(rows: pl.DataFrame, fraction: float, seed: int) -> pl.DataFrame:
    """Take the rows whose hash is below a number, which are about this share of them."""
    if not 0 < fraction <= 1:
        raise OptionError(f"--fraction {fraction:g}: give a number above 0 and at most 1")
    return rows.filter(hash_unit(rows["path"], seed, "sample") < fraction)


def sample_count(
    rows: pl.DataFrame, count: int, seed: int, per_class: bool = False
) -> pl.DataFrame:
    """Take a number of rows, or of the rows of each class, those of the smallest hashes."""
    chances = hash_unit(rows["path"], seed, "sample").alias("chance")
    table = rows.with_row_index("place").with_columns(chances).sort("chance", "path", "index")
    number = pl.int_range(pl.len())
    drawn = table.filter((number.over("label") if per_class else number) < count)
    return drawn.sort("place").drop("place", "chance")


def class_sizes(rows: pl.DataFrame) -> dict[str, int]:
    """Count the rows of each class, in the order of their numbers."""
    if rows.select(class_numbers().has_nulls()).item():
        raise OptionError("only lists with one class number a row can be sampled class by class")
    return dict(rows.group_by("label").len().sort(class_numbers()).iter_rows())
