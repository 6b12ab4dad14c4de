"""Tables with a column of 0 and 1 for each tag, and of -1 for what is uncertain.

Roboflow's have the column `filename` and those of tags. CheXpert's have a path, facts of the
patient, and observations: 1, 0, -1 for uncertain, and empty for not mentioned
(https://arxiv.org/abs/1901.07031).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from dsprep.errors import OptionError, SourceError
from dsprep.findings import Finding
from dsprep.places.names import told_sides
from dsprep.sources.annotated.annotated import Scan
from dsprep.sources.annotated.image_tables import (
    LINE,
    ImageTable,
    digest_of,
    image_table,
    tables_of,
    used_below,
)
from dsprep.sources.annotated.image_values import ImageValues
from dsprep.sources.labels.columns import columns_of_tags
from dsprep.sources.labels.table import PATH_COLUMNS, labels_from_flags
from dsprep.units import format_count, format_some, quoted, quoted_names

if TYPE_CHECKING:
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source

_UNCERTAIN = -1.0
_LEFT_EMPTY = ("", "nan")


def scan_tags(source: Source, place: AnnotatedPlace, paths: Sequence[str]) -> Scan:
    """Read the tables of all sides, whose tags are together those of the set."""
    paths = tables_of(source, place, paths)
    read = (image_table(source, place.files, path, image_of=_image_column) for path in paths)
    tables = [table.beside(source, place) for table in read]
    tags = _tags(tables)
    if not tags:
        raise SourceError(f"{paths[0] if paths else place.root}: has no columns of 0 and 1")
    flags = pl.concat([_flags(table, tags, source.uncertain) for table in tables])
    rest = [name for table in tables for name in table.columns if name not in tags]
    notes = [f"columns not kept: {quoted_names(list(dict.fromkeys(rest)))}"] if rest else []
    empty = sum(_count(table, tags, _LEFT_EMPTY) for table in tables)
    if empty:
        notes.append(f"{format_count(empty, 'empty cell')} of tags are 0")
    lacking = {table.path: {*tags}.difference(table.columns) for table in tables}
    notes += [
        f"{path} lacks the tags {format_some(sorted(lost))}, which are 0"
        for path, lost in lacking.items()
        if lost
    ]
    stems = [os.path.splitext(os.path.basename(path))[0] for path in paths]
    sides = told_sides(paths, stems)
    names = pl.concat([table.images for table in tables]).to_list()
    where = os.path.dirname(paths[0]) or "."
    return Scan(
        *(None, names, (), (), (), ()),
        digest_of(tables),
        where,
        [Finding("note", "", note) for note in notes],
        sides=[side for side, table in zip(sides, tables, strict=False) for _ in table.images],
        used=used_below(source, paths),
        values=_labels(flags, source),
    )


def _image_column(columns: Sequence[str]) -> str:
    lower = {name.lower(): name for name in columns}
    return next((lower[name] for name in PATH_COLUMNS if name in lower), columns[0])


def _tags(tables: Sequence[ImageTable]) -> list[str]:
    """Return the columns of tags, which are so in each table that has them."""
    found, others = dict[str, None](), set[str]()
    for table in tables:
        names, cells = table.columns, table.cells
        own = columns_of_tags(names, cells.select(names).rows())
        found |= dict.fromkeys(own)
        others |= {name for name in names if name not in own and (cells[name] != "").any()}
    return [name for name in found if name not in others]


def _count(table: ImageTable, tags: Sequence[str], texts: Sequence[str]) -> int:
    own = [name for name in tags if name in table.columns]
    return sum(int(table.cells[name].str.to_lowercase().is_in(texts).sum()) for name in own)


def _flags(table: ImageTable, tags: Sequence[str], uncertain: str | None) -> pl.DataFrame:
    """Return the numbers of tags, with -1 as the user says; a column that is not there is 0."""
    numbers = table.cells.select(
        pl.col(name).cast(pl.Float64, strict=False).fill_null(0.0).fill_nan(0.0)
        if name in table.columns
        else pl.lit(0.0).alias(name)
        for name in tags
    )
    unclear = [name for name in tags if (numbers[name] == _UNCERTAIN).any()]
    if unclear and uncertain is None:
        count = sum(int((numbers[name] == _UNCERTAIN).sum()) for name in unclear)
        line = table.cells[LINE].filter(numbers[unclear[0]] == _UNCERTAIN)[0]
        raise OptionError(
            f"{table.path}:{line}: -1 in the column {quoted(unclear[0])} says that the tag is "
            f"uncertain ({format_count(count, 'cell')}): give --uncertain 0 or --uncertain 1 for "
            "what it becomes, or --uncertain keep"
        )
    if uncertain in (None, "keep"):
        return numbers
    return numbers.with_columns(pl.all().replace(_UNCERTAIN, float(uncertain)))


def _labels(flags: pl.DataFrame, source: Source) -> ImageValues:
    """Return the numbers of tags as labels."""
    texts = flags.with_columns(pl.all().abs().cast(pl.String))
    lines = pl.int_range(flags.height, eager=True).alias("line")
    label, classes = labels_from_flags(texts, lines, source.root, source.known_classes())
    if source.uncertain == "keep":
        each = [pl.col(name) if name in flags.columns else pl.lit(0.0) for name in classes]
        label = flags.select(label=pl.concat_list(each))["label"]
    return ImageValues(label, classes)
