"""CelebA's tables: attributes, boxes, landmarks, identities and sides, by the names of images.

The formats are those that the README of http://mmlab.ie.cuhk.edu.hk/projects/CelebA.html describes,
and those of Kaggle's copy as CSV.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Mapping
from itertools import accumulate
from typing import TYPE_CHECKING

import polars as pl

from dsprep.annotations.objects import Extent
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.sources.annotated.annotated import Scan, by_rows
from dsprep.sources.annotated.boxes import TableBoxes
from dsprep.sources.annotated.image_tables import (
    ImageTable,
    all_images,
    by_role,
    digest_of,
    image_table,
    paths_below,
    used_below,
)
from dsprep.sources.annotated.image_values import ImageValues
from dsprep.sources.box_orders import EDGES, HEIGHT, WIDTH, sizes_in_headers
from dsprep.units import quoted

if TYPE_CHECKING:
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source

_ATTRIBUTES, _BOXES, _LANDMARKS, _ALIGNED = "attributes", "boxes", "landmarks", "aligned landmarks"
_SIDES, _IDENTITY = "sides", "identities"
_ROLES = {
    role: re.compile(rf"(?i)(?:^|/){name}\.(?:txt|csv)$")
    for role, name in {
        _ATTRIBUTES: "list_attr_celeba",
        _BOXES: "list_bbox_celeba",
        _LANDMARKS: "list_landmarks_celeba",
        _ALIGNED: "list_landmarks_align_celeba",
        _SIDES: "list_eval_partition",
        _IDENTITY: "identity_celeba",
    }.items()
}
_COLUMNS = {_SIDES: ("image_id", "partition"), _IDENTITY: ("image_id", "identity")}
_NAMES_OF_SIDES = {"0": "train", "1": "val", "2": "test"}
_POINTS = 5  # eyes, nose and corners of the mouth
_POINT_COLUMNS = [f"point {at}" for at in range(2 * _POINTS)]  # x, y of each
_ALIGNED_SIZE = 178.0, 218.0  # of the aligned images, which landmarks are measured on
_CLASS = "face"


def scan_celeba(source: Source, place: AnnotatedPlace) -> Scan:
    """Join the tables of CelebA, as far as they are there."""
    paths = by_role(paths_below(place), _ROLES)
    if not paths:
        raise SourceError(f"{place.root}: has none of CelebA's tables")
    tables = {role: _read(source, place, role, path) for role, path in paths.items()}
    images = all_images(tables.values())
    aligned = _are_aligned(place, images, tables)
    kept, notes = _about_these(tables, aligned)
    values = ImageValues()
    if _ATTRIBUTES in kept:
        values = kept[_ATTRIBUTES].tags(kept[_ATTRIBUTES].columns, images, source)
    if _IDENTITY in kept:
        values = values.with_field("identity", "int", _identities(kept[_IDENTITY], images))
    boxes = _boxes(kept, images, _ALIGNED_SIZE if aligned else None)
    counts = [] if boxes is None else [stop - start for start, stop in _pairs(boxes)]
    where = os.path.dirname(next(iter(paths.values()))) or "."
    if boxes is not None and _BOXES not in kept:
        notes.append("the box of each face is the smallest around its landmarks")
    return Scan(
        *(boxes, images.to_list(), counts, [32 * _POINTS for _ in counts]),
        *((_CLASS,) if boxes is not None else (), (), digest_of(tables.values()), where),
        [Finding("note", "", note) for note in notes],
        flags=False,
        sides=_sides(kept[_SIDES], images) if _SIDES in kept else (),
        used=used_below(source, paths.values()),
        values=values,
    )


def _pairs(boxes: TableBoxes) -> zip[tuple[int, int]]:
    return zip(boxes.starts, boxes.starts[1:], strict=False)


def _read(source: Source, place: AnnotatedPlace, role: str, path: str) -> ImageTable:
    """Read a table; those of sides and identities have no header, but for Kaggle's."""
    columns = () if path.lower().endswith(".csv") else _COLUMNS.get(role, ())
    return image_table(source, place.files, path, columns)


def _are_aligned(
    place: AnnotatedPlace, images: pl.Series, tables: Mapping[str, ImageTable]
) -> bool:
    """Return whether images are the aligned ones: by their directory, their size, or the tables."""
    paths = place.files.table["path"]
    if paths.str.contains("(?i)align").any() or "align" in os.path.basename(place.root).lower():
        return True
    if _BOXES not in tables and _LANDMARKS not in tables:
        return _ALIGNED in tables
    sizes = sizes_in_headers(place.root, place.files, images).drop_nulls()
    width, height = _ALIGNED_SIZE
    are_of_size = (sizes[WIDTH] == width) & (sizes[HEIGHT] == height)
    return sizes.height > 0 and bool(are_of_size.all())


def _about_these(
    tables: Mapping[str, ImageTable], aligned: bool
) -> tuple[Mapping[str, ImageTable], list[str]]:
    """Return the tables about these images, and notes on those about others."""
    of, others = ("before", [_BOXES, _LANDMARKS]) if aligned else ("after", [_ALIGNED])
    notes = [
        f"{os.path.basename(tables[role].path)} is not kept: it is about the images {of} they were "
        "aligned"
        for role in others
        if role in tables
    ]
    return {role: table for role, table in tables.items() if role not in others}, notes


def _identities(table: ImageTable, images: pl.Series) -> list[int | None]:
    column = table.columns[0]
    return table.numbers([column])[column].cast(pl.Int64).gather(table.rows_of(images)).to_list()


def _sides(table: ImageTable, images: pl.Series) -> list[str]:
    """Return the side of each image; empty for one of none."""
    column = table.columns[0]
    table.require(
        pl.col(column).is_in([*_NAMES_OF_SIDES]),
        lambda row: f"{quoted(row[column])} is no side: 0 is train, 1 is val, 2 is test",
    )
    names = table.cells[column].replace_strict(_NAMES_OF_SIDES, return_dtype=pl.String)
    return names.gather(table.rows_of(images)).fill_null("").to_list()


def _boxes(
    tables: Mapping[str, ImageTable], images: pl.Series, extent: Extent | None
) -> TableBoxes | None:
    """Return the box and the keypoints of each face, which is one of an image."""
    given, told = tables.get(_BOXES), tables.get(_LANDMARKS) or tables.get(_ALIGNED)
    if given is None and told is None:
        return None
    points = None if told is None else told.numbers(_columns(told, 2 * _POINTS))
    rows = pl.DataFrame({"row": range(len(images))})
    if told is not None and points is not None:
        points.columns = _POINT_COLUMNS
        rows = rows.hstack(points[told.rows_of(images)])
    if given is not None:
        rows = rows.hstack(_edges(given)[given.rows_of(images)])
    else:
        across, down = _POINT_COLUMNS[::2], _POINT_COLUMNS[1::2]
        low, high = pl.min_horizontal, pl.max_horizontal
        edges = low(across), low(down), high(across), high(down)
        rows = rows.with_columns(each.alias(name) for name, each in zip(EDGES, edges, strict=True))
    has_box = rows[EDGES[0]].is_not_null()
    rows = rows.filter(has_box)
    return TableBoxes(
        array("q", [0, *accumulate(has_box.cast(int).to_list())]),
        by_rows(rows.select(EDGES), "d"),
        array("i", [0] * rows.height),
        (),
        (extent,) * len(images),
        keypoints=array("d") if points is None else _with_visibility(rows),
    )


def _edges(table: ImageTable) -> pl.DataFrame:
    """Return the edges of boxes that are told by a corner, width and height."""
    names = _columns(table, len(EDGES))
    x, y, width, height = map(pl.col, names)
    sizes = (each.cast(pl.Float64) for each in (width, height))
    numbers = table.numbers(names)
    table.require(
        pl.all_horizontal(each >= 0 for each in sizes),
        lambda row: (
            f"the width or the height of a box is negative: {row[names[2]]}, {row[names[3]]}"
        ),
    )
    found = numbers.select(x0=x, y0=y, x1=x + width, y1=y + height)
    found.columns = list(EDGES)
    return found


def _columns(table: ImageTable, count: int) -> list[str]:
    if len(table.columns) != count:
        raise SourceError(
            f"{table.path}: has {len(table.columns)} columns of numbers, and CelebA's {count}"
        )
    return table.columns


def _with_visibility(rows: pl.DataFrame) -> array[float]:
    """Return x, y and visibility of all keypoints; one that is not told is at 0, 0 and unseen."""
    columns: list[pl.Expr] = []
    for x, y in zip(_POINT_COLUMNS[::2], _POINT_COLUMNS[1::2], strict=True):
        seen = pl.when(pl.col(x).is_null()).then(0.0).otherwise(2.0)
        columns += [pl.col(x).fill_null(0.0), pl.col(y).fill_null(0.0), seen.alias(f"seen {x}")]
    return by_rows(rows.select(columns), "d")
