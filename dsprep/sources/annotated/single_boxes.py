"""Sets of images that each have a class, and one box of what it is: GTSRB and FGVC-Aircraft.

GTSRB's format is that of https://benchmark.ini.rub.de/gtsrb_dataset.html, and of Kaggle's copy;
FGVC-Aircraft's that of https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/.
"""

from __future__ import annotations

import os
import posixpath
import re
from array import array
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import polars as pl

from dsprep.annotations.objects import MOST_CLASSES, Extent
from dsprep.errors import OptionError, SourceError
from dsprep.findings import Finding
from dsprep.places.names import told_side
from dsprep.sources.annotated.annotated import Scan, by_rows
from dsprep.sources.annotated.boxes import TableBoxes
from dsprep.sources.annotated.image_tables import (
    ImageTable,
    all_images,
    by_role,
    data_of,
    digest_of,
    image_table,
    paths_below,
    tables_of,
    used_below,
)
from dsprep.sources.annotated.image_values import ImageValues, class_of_images
from dsprep.sources.box_orders import EDGES
from dsprep.text import decode_text
from dsprep.units import quoted

if TYPE_CHECKING:
    from dsprep.places.files import Files
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source

_ROI = ["Roi.X1", "Roi.Y1", "Roi.X2", "Roi.Y2"]
_CLASS_ID, _SIZE = "ClassId", ["Width", "Height"]

_LEVELS = ("variant", "family", "manufacturer")
_BOTH = "trainval"  # a list of what is for training and of what is for validation
_SIDES = ("train", "val", _BOTH, "test")
_BOXES = "boxes"
_LISTS = {
    (level, side): re.compile(rf"(?:^|/)images_{level}_{side}\.txt$")
    for level in _LEVELS
    for side in _SIDES
}
_ROLES = {"/".join(key): pattern for key, pattern in _LISTS.items()}
_ROLES[_BOXES] = re.compile(r"(?:^|/)images_box\.txt$")


def _scan(
    edges: pl.DataFrame,
    names: Sequence[str],
    values: ImageValues,
    extents: Sequence[Extent | None],
    **others: Any,
) -> Scan:
    """Return a scan of images of one class and one box each; both may be null."""
    assert values.label is not None
    rows = edges.with_columns(values.label.alias("number"))
    has_box = rows.select(pl.all_horizontal(pl.all().is_not_null())).to_series()
    rows = rows.filter(has_box)
    boxes = TableBoxes(
        array("q", [0, *accumulate(has_box.cast(int).to_list())]),
        by_rows(rows.select(EDGES), "d"),
        array("i", rows["number"].to_list()),
        (),
        tuple(extents),
    )
    counts = [stop - start for start, stop in pairwise(boxes.starts)]
    texts = [64 * count for count in counts]
    others |= {"flags": False, "boxes_alone": True, "values": values}
    return Scan(boxes if rows.height else None, names, counts, texts, values.classes or (), (),
                **others)  # fmt: skip


# GTSRB


def scan_gtsrb(source: Source, place: AnnotatedPlace, paths: Sequence[str]) -> Scan:
    """Read a table of each class, or of each side."""
    paths = tables_of(source, place, paths)
    read = [image_table(source, place.files, path, image_of=_image_column) for path in paths]
    tables, notes = _with_classes([table.beside(source, place) for table in read])
    names = all_images(tables)
    sides = [_side_of(table.path) for table in tables for _ in table.images]
    ids = pl.concat([_numbers(table) for table in tables])
    given = source.class_names()
    most = len(given) if given is not None else MOST_CLASSES
    largest = max((each for each in ids if each is not None), default=-1)
    if largest >= most:
        raise SourceError(f"{paths[0]}: the class {largest} is none of {most:,} classes")
    if given is None:
        given = tuple(map(str, range(largest + 1)))
        notes.append(
            "no file tells the names of the classes, so their numbers are their names: give "
            "--classes FILE"
        )
    edges = pl.concat([table.numbers(_ROI) for table in tables])
    edges.columns = list(EDGES)
    sizes = pl.concat([table.numbers(_SIZE) for table in tables])
    return _scan(
        edges,
        names.to_list(),
        ImageValues(ids.alias("cls"), given),
        list(sizes.iter_rows()),
        digest=digest_of(read),
        where=os.path.dirname(paths[0]) or ".",
        findings=[Finding("note", "", note) for note in notes],
        sides=sides if any(sides) else (),
        used=used_below(source, paths),
    )


def _image_column(columns: Sequence[str]) -> str:
    return next((name for name in ("Path", "Filename") if name in columns), columns[0])


def _with_classes(tables: Sequence[ImageTable]) -> tuple[list[ImageTable], list[str]]:
    """Return the tables without those that lack the classes that another one of the images has."""
    known = {name for table in tables if _CLASS_ID in table.columns for name in table.images}
    kept, notes = list[ImageTable](), list[str]()
    for table in tables:
        if _CLASS_ID in table.columns or not known.issuperset(table.images):
            kept.append(table)
            if _CLASS_ID not in table.columns:
                notes.append(f"{table.path} has no classes, so its images have no label and no box")
    return kept, notes


def _numbers(table: ImageTable) -> pl.Series:
    """Return the class number of each image; null in a table without classes."""
    if _CLASS_ID not in table.columns:
        return pl.Series([None] * table.cells.height, dtype=pl.Int64)
    numbers = table.numbers([_CLASS_ID])[_CLASS_ID]
    cell = pl.col(_CLASS_ID).cast(pl.Float64)
    table.require(
        (cell >= 0) & (cell % 1 == 0) & (cell < MOST_CLASSES),
        lambda row: f"{quoted(row[_CLASS_ID])} is no class number",
    )
    return numbers.cast(pl.Int64)


def _side_of(path: str) -> str:
    """Return the side that the name of a table tells, or the nearest directory that does."""
    stem = os.path.splitext(path)[0]
    found = (told_side(part) for part in reversed(stem.replace(os.sep, "/").split("/")[-4:]))
    return next((side.side for side in found if side), "")


# FGVC-Aircraft


def scan_aircraft(source: Source, place: AnnotatedPlace, pattern: re.Pattern[str]) -> Scan:
    """Read the lists of each side, and the boxes."""
    files = place.files
    paths = [path for path in paths_below(place) if pattern.search(path)]
    found = by_role(paths, _ROLES)
    sides = {side for role in found if (side := role.partition("/")[2])}
    roles = sorted(found.keys() - {_BOXES}, key=lambda role: (role.endswith(_BOTH), role))
    lists = {role: _lines(source, files, found[role]) for role in roles}
    if not lists:
        raise SourceError(f"{place.root}: has no list such as images_variant_train.txt")
    levels = [level for level in _LEVELS if any(role.startswith(level) for role in lists)]
    label = next(iter(source.label_columns), levels[0])
    if label not in levels:
        raise OptionError(f"--label-column {label}: choose one of {', '.join(levels)}")
    told: dict[str, dict[str, str]] = {level: {} for level in levels}
    side_of: dict[str, str] = {}
    for role, lines in lists.items():
        level, side = role.split("/")
        for name, text in lines.items():
            told[level][name] = text
            own = side_of.setdefault(name, _side_of_rest(sides) if side == _BOTH else side)
            if side not in (own, _BOTH):
                raise SourceError(f"{found[role]}: {name} is of {side} and of {own}")
    names = list(side_of)
    values = class_of_images([told[label].get(name) for name in names], source, found[role])
    for level in levels:
        if level != label:
            values = values.with_field(level, "text", [told[level].get(name) for name in names])
    boxes = _lines(source, files, found[_BOXES]) if _BOXES in found else {}
    edges = pl.DataFrame(
        [_edges(boxes.get(name), found.get(_BOXES, "")) for name in names],
        dict.fromkeys(EDGES, pl.Float64),
        orient="row",
    )
    read = [data_of(source, files, path) for path in found.values()]
    return _scan(
        edges,
        names,
        values,
        [None] * len(names),
        digest=sha256(b"".join(sha256(data).digest() for data in read)).hexdigest(),
        where=posixpath.dirname(found[role]),
        sides=[side_of[name] for name in names],
        used=used_below(source, paths),
    )


def _side_of_rest(sides: Collection[str]) -> str:
    """Return the side of images that no list but that of training and validation names."""
    there = [side for side in ("train", "val") if side in sides]
    return {"train": "val", "val": "train"}[there[0]] if len(there) == 1 else _BOTH


def _lines(source: Source, files: Files, path: str) -> Mapping[str, str]:
    """Read a list of an image and what it is, which may have blanks, in each line."""
    found: dict[str, str] = {}
    for number, line in enumerate(decode_text(data_of(source, files, path), path).split("\n"), 1):
        name, _, text = line.strip().partition(" ")
        if not name:
            continue
        if not text.strip() or found.setdefault(name, text.strip()) != text.strip():
            wrong = "names no class" if not text.strip() else f"names {quoted(name)} again"
            raise SourceError(f"{path}:{number}: {wrong}")
    return found


def _edges(text: str | None, path: str) -> Sequence[float | None]:
    """Return the edges of a box, whose pixels count from 1."""
    if text is None:
        return [None] * len(EDGES)
    cells = text.split()
    if len(cells) != len(EDGES) or not all(cell.isascii() and cell.isdecimal() for cell in cells):
        raise SourceError(f"{path}: {quoted(text)} is no box: xmin ymin xmax ymax")
    x0, y0, x1, y1 = map(float, cells)
    return [x0 - 1, y0 - 1, x1, y1]
