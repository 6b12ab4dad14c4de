"""Open Images: tables of boxes and of labels that humans verified, and what classes are called.

The columns are those of https://storage.googleapis.com/openimages/web/download_v7.html. A label of
the confidence 0 is one that a human found to be absent.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING

import polars as pl

from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.places.match import PATH, base, stem
from dsprep.places.names import told_sides
from dsprep.sources.annotated.annotated import Scan
from dsprep.sources.annotated.box_tables import scan_named
from dsprep.sources.annotated.boxes import BoxRules, TableBoxes, names_of_classes
from dsprep.sources.annotated.image_tables import (
    columns_at,
    data_of,
    paths_below,
    used_below,
    with_named,
)
from dsprep.sources.annotated.image_values import MOST_FLAGS, ImageValues, tags_of_images
from dsprep.sources.annotation_kind import AnnotatedPlace
from dsprep.sources.labels.cells import parse_cells
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some

if TYPE_CHECKING:
    from dsprep.places.files import Files
    from dsprep.sources.source import Source

_NAMES = re.compile(r"(?i)(?:^|/)(?:[\w-]*class-descriptions[\w-]*|metadata/classes)\.csv$")
_IMAGE, _CLASS, _SURE, _MASK = "ImageID", "LabelName", "Confidence", "MaskPath"
_EDGES = {"XMin", "XMax", "YMin", "YMax"}
_MACHINE = "machine"  # in the names of tables of labels that nobody verified


class _Tables(NamedTuple):
    """The tables of Open Images by what they hold, as paths."""

    boxes: Sequence[str]
    labels: Sequence[str]
    masks: Sequence[str]
    unverified: Sequence[str]  # labels of machines
    names: Sequence[str]  # what classes are called; the first one has all of them

    @classmethod
    def of(cls, source: Source, place: AnnotatedPlace) -> _Tables:
        """Tell tables apart by their columns: those in the place or, if named, the named ones."""
        every = [path for path in paths_below(place) if path.lower().endswith(".csv")]
        names = [path for path in every if _NAMES.search(path)]
        top = source.root.rstrip("/")
        named = {f"{top}/{each.member}" if each.member else each.path for each in place.named}
        some = [path for path in every if path in named] or every
        columns = {path: columns_at(place, path) for path in some if path not in names}
        own = {path: found for path, found in columns.items() if {_IMAGE, _CLASS} <= found}
        boxes = [path for path in own if own[path] >= _EDGES]
        labels = [path for path in own if _SURE in own[path] and path not in boxes]
        unverified = [path for path in labels if _MACHINE in os.path.basename(path)]
        return cls(
            boxes,
            [path for path in labels if path not in unverified],
            [path for path in own if _MASK in own[path]],
            unverified,
            sorted(names, key=lambda path: ("boxable" in path, path)),
        )


def scan_open_images(source: Source, place: AnnotatedPlace) -> Scan:
    """Read the tables of all sides, and find what classes are called."""
    tables = _Tables.of(source, place)
    read = [*tables.boxes, *tables.labels, *tables.masks, *tables.unverified]
    if not tables.boxes and not tables.labels:
        raise SourceError(f"{place.root}: has no table of boxes or of verified labels")
    names = source.class_names_file or next(iter(tables.names), None)
    called = names_of_classes(source, place.files, names)
    read += tables.names
    scan = _boxes(source, place, tables.boxes, called)
    if tables.labels:
        scan = _with_labels(scan, source, place.files, tables.labels, called)
    findings = [*scan.findings, *_not_read(source, place.files, tables)]
    return scan._replace(findings=findings, used=used_below(source, read))


def _boxes(
    source: Source, place: AnnotatedPlace, paths: Sequence[str], called: Mapping[str, str]
) -> Scan:
    """Return the boxes of all sides; of a set without any, a scan without images."""
    if not paths:
        return Scan(None, (), (), (), (), (), "", source.root, keeps_unlisted=True)
    rules = BoxRules(called, takes_part=True)
    return scan_named(source, with_named(place, paths), rules)


def _with_labels(
    scan: Scan, source: Source, files: Files, paths: Sequence[str], called: Mapping[str, str]
) -> Scan:
    """Return a scan with tags: the labels of images that humans found to be there."""
    rows = pl.concat([_rows(source, files, path, side) for path, side in _with_sides(paths)])
    there = files.table.select(stem(PATH)).to_series().implode()
    lost = rows.filter(~rows[_IMAGE].is_in(there))[_IMAGE].n_unique()
    rows = rows.filter(rows[_IMAGE].is_in(there))
    absent = int((rows[_SURE] == 0).sum())
    notes = [
        f"{format_count(absent, 'label')} verified as absent: 0, as those that nobody verified"
    ]
    notes = notes if absent else []
    if lost:
        notes.append(f"{format_count(lost, 'image')} that labels name and that are not there")
    tags = dict[str, list[str]]()
    for id, name, sure in rows.select(_IMAGE, _CLASS, _SURE).iter_rows():
        own = tags.setdefault(id, [])
        own += [called.get(name, name)] if sure else []
    scan = _with_images(scan, rows)
    ids = [_id(name) for name in scan.names]
    of_images = [tags.get(id) for id in ids]
    values, note = _values(of_images, source, paths[0])
    digests = (sha256(data_of(source, files, path)).hexdigest() for path in paths)
    findings = [Finding("note", "", each) for each in (*notes, *note)]
    return scan._replace(
        values=values,
        findings=[*scan.findings, *findings],
        digest=sha256("".join((scan.digest, *digests)).encode()).hexdigest(),
    )


def _values(
    tags: Sequence[Sequence[str] | None], source: Source, where: str
) -> tuple[ImageValues, list[str]]:
    """Return tags as labels or, of too many classes for these, as lists of names."""
    names = {*chain.from_iterable(own for own in tags if own is not None)}
    if len(names) * len(tags) <= MOST_FLAGS:
        return tags_of_images(tags, source, where), []
    said = f"{len(names):,} classes of {len(tags):,} images are too many for a 0 or a 1 for each: "
    lists = [None if own is None else sorted({*own}) for own in tags]
    return ImageValues().with_field("tags", "list<text>", lists), [f"{said}the names are in tags"]


def _id(name: str) -> str:
    return os.path.splitext(os.path.basename(name))[0]


def _with_sides(paths: Sequence[str]) -> list[tuple[str, str]]:
    """Return each table with its side; empty if their names do not tell the sides."""
    stems = [_id(path) for path in paths]
    return list(zip(paths, told_sides(paths, stems) or [""] * len(paths), strict=True))


def _rows(source: Source, files: Files, path: str, side: str) -> pl.DataFrame:
    """Read the labels of images, with a confidence of 0 or 1."""
    cells = parse_cells(data_of(source, files, path), path, may_be_empty=True)
    sure = cells.texts[_SURE].cast(pl.Float64, strict=False)
    wrong = ~sure.is_in([0.0, 1.0]).fill_null(False)
    for line, text in zip(cells.lines.filter(wrong), cells.texts[_SURE].filter(wrong), strict=True):
        raise SourceError(
            f"{path}:{line}: the confidence of a label is {text!r:.30}, and of those that humans "
            "verified 0 or 1: give --leave-out with this table"
        )
    return cells.texts.select(_IMAGE, _CLASS).with_columns(sure, side=pl.lit(side))


def _with_images(scan: Scan, rows: pl.DataFrame) -> Scan:
    """Return a scan with the images that only labels name."""
    known = {_id(name) for name in scan.names}
    more = rows.unique(_IMAGE, keep="first", maintain_order=True)
    more = more.filter(~more[_IMAGE].is_in([*known]))
    count, boxes = more.height, scan.annotations
    if isinstance(boxes, TableBoxes):
        starts = array("q", [*boxes.starts, *[boxes.starts[-1]] * count])
        extents = (*boxes.extents, *[boxes.extents[0]] * count) if boxes.extents else ()
        boxes = replace(boxes, starts=starts, extents=extents)
    sides = more["side"].to_list()
    has_sides = bool(scan.sides) or (not scan.names and any(sides))
    return scan._replace(
        annotations=boxes,
        names=[*scan.names, *more[_IMAGE].to_list()],
        counts=[*scan.counts, *[0] * count] if boxes is not None else (),
        texts=[*scan.texts, *[0] * count] if boxes is not None else (),
        sides=[*scan.sides, *sides] if has_sides else (),
    )


def _not_read(source: Source, files: Files, tables: _Tables) -> list[Finding]:
    """Name the masks, which are a file for each box, and the labels that nobody verified."""
    notes = [
        f"{os.path.basename(path)}: labels that no human verified are not kept"
        for path in tables.unverified
    ]
    masks = set[str]()
    for path in tables.masks:
        cells = parse_cells(data_of(source, files, path), path, may_be_empty=True).texts
        masks.update(map(os.path.basename, cells[_MASK].to_list()))
    there = files.table.filter(files.table.select(base(PATH)).to_series().is_in([*masks]))
    paths = there["path"].sort().to_list()
    if tables.masks:
        some = f", such as {format_some(paths)}" if paths else ""
        notes.append(f"{format_count(len(masks), 'mask')} of one box each not read{some}")
    found = [Finding("note", "", note) for note in notes]
    return [*found, *(Finding("not-read", path) for path in paths)]
