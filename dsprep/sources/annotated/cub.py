"""CUB-200-2011's texts: rows that begin with the id of an image, a class or a part.

The files are those that its README describes; NABirds has the same.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import accumulate
from typing import TYPE_CHECKING

import polars as pl

from dsprep.annotations.named import numbers_in, read_rows
from dsprep.annotations.objects import box_of_sides
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.numbering import not_given, number_classes, numbered, numbers_of
from dsprep.sources.annotated.annotated import Scan
from dsprep.sources.annotated.boxes import TableBoxes
from dsprep.sources.annotated.image_tables import by_role, data_of, paths_below, used_below
from dsprep.sources.annotated.image_values import ImageValues
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some

if TYPE_CHECKING:
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source

_NAMES = ("images", "classes", "image_class_labels", "bounding_boxes", "train_test_split")
_PARTS = ("parts", "part_locs")
_ROLES = {name: re.compile(rf"(?:^|/){name}\.txt$") for name in (*_NAMES, *_PARTS)}
_NOT_READ = re.compile(r"(?:^|/)(?:attributes(?:/[^/]+)?|parts/part_click_locs)\.txt$|/attributes/")
_SIDES = {"1": "train", "0": "test"}


class _Rows(NamedTuple):
    """The rows of a text: the rest of each, by the id that it begins with."""

    path: str
    of: Mapping[str, Sequence[str]]


def scan_cub(source: Source, place: AnnotatedPlace) -> Scan:
    """Join the texts by the ids of images, as far as they are there."""
    paths = by_role(paths_below(place), _ROLES)
    for name in ("images", "image_class_labels"):
        if name not in paths:
            raise SourceError(f"{place.root}: has no {name}.txt, as CUB-200-2011 has")
    data = {role: data_of(source, place.files, path) for role, path in paths.items()}
    texts = {role: _rows(paths[role], data[role]) for role in paths if role != "part_locs"}
    images = texts["images"]
    ids = [*images.of]
    for role in ("image_class_labels", "bounding_boxes", "train_test_split"):
        _require_known(texts.get(role), images)
    classes, of_images = _classes(texts, source, ids)
    notes: list[Finding] = []
    boxes, counts = _boxes(texts.get("bounding_boxes"), ids, of_images, classes)
    points = _points(texts, paths, data, notes) if boxes is not None else {}
    if boxes is not None and points:
        boxes = _with_points(boxes, points, [id for id, n in zip(ids, counts, strict=True) if n])
    others = [path for path in place.others if _NOT_READ.search(path)]
    if others:
        said = f"{format_count(len(others), 'file')} of attributes and clicks not read"
        notes.append(Finding("note", "", f"{said}, such as {others[0]}"))
    notes += [Finding("not-read", path) for path in others]
    most = 32 * max(map(len, points.values()), default=0)
    return Scan(
        boxes,
        [" ".join(images.of[id]) for id in ids],
        counts,
        [most * count for count in counts],
        classes if boxes is not None else (),
        (),
        sha256(b"\0".join(data.values())).hexdigest(),
        images.path,
        notes,
        flags=False,
        sides=_sides(texts.get("train_test_split"), ids),
        used=[*used_below(source, paths.values()), *others],
        boxes_alone=True,
        values=ImageValues(numbered(pl.Series(of_images, dtype=pl.String), classes), classes),
    )


def _rows(path: str, data: bytes) -> _Rows:
    """Read rows by their ids; refuse an id that is there twice."""
    found: dict[str, Sequence[str]] = {}

    def read(cells: Sequence[str]) -> None:
        if len(cells) < 2:
            raise ValueError("has an id and nothing else")
        if cells[0] in found:
            raise ValueError(f"has the id {cells[0]:.40} again")
        found[cells[0]] = cells[1:]

    try:
        read_rows(data, read)
    except ValueError as error:
        raise SourceError(f"{path}: {error}") from None
    return _Rows(path, found)


def _require_known(rows: _Rows | None, images: _Rows) -> None:
    """Refuse rows about an image that the list of images does not have."""
    lost = [] if rows is None else sorted(rows.of.keys() - images.of.keys())
    if rows is not None and lost:
        raise SourceError(
            f"{rows.path}: {format_count(len(lost), 'id')} of no image in {images.path}: "
            f"{format_some(lost)}"
        )


def _classes(
    texts: Mapping[str, _Rows], source: Source, ids: Sequence[str]
) -> tuple[tuple[str, ...], list[str | None]]:
    """Return the names of all classes, and that of each image; ids are names without a list."""
    told, labels = texts.get("classes"), texts["image_class_labels"]
    names = {} if told is None else {id: " ".join(rest) for id, rest in told.of.items()}
    if told is not None and len(set(names.values())) < len(names):
        raise SourceError(f"{told.path}: has the name of a class twice")
    of_images: list[str | None] = []
    for id in ids:
        number = labels.of[id][0] if id in labels.of else None
        if told is not None and number is not None and number not in names:
            raise SourceError(f"{labels.path}: {number:.40} is no class of {told.path}")
        of_images.append(None if number is None else names.get(number, number))
    used = {*names.values(), *(name for name in of_images if name is not None)}
    return number_classes(used, source.known_classes(), labels.path, not_given), of_images


def _sides(rows: _Rows | None, ids: Sequence[str]) -> list[str]:
    """Return the side of each image, by a 1 for training; empty without the text."""
    if rows is None:
        return []
    wrong = next((id for id, rest in rows.of.items() if rest[0] not in _SIDES), None)
    if wrong is not None:
        given = rows.of[wrong][0]
        raise SourceError(f"{rows.path}: {given!r:.40} of the image {wrong} is no 0 or 1")
    return [_SIDES[rows.of[id][0]] if id in rows.of else "" for id in ids]


def _boxes(
    rows: _Rows | None, ids: Sequence[str], of_images: Sequence[str | None], classes: Sequence[str]
) -> tuple[TableBoxes | None, list[int]]:
    """Return the box of each image that has one and a class, and how many each has."""
    if rows is None:
        return None, []
    numbers, edges = numbers_of(classes), array("d")
    own, counts = array("i"), list[int]()
    for id, name in zip(ids, of_images, strict=True):
        has_box = id in rows.of and name is not None
        counts.append(int(has_box))
        if has_box and name is not None:
            edges.extend(_box(rows, id))
            own.append(numbers[name])
    starts = array("q", accumulate(counts, initial=0))
    return TableBoxes(starts, edges, own, (), (None,) * len(ids)), counts


def _box(rows: _Rows, id: str) -> Sequence[float]:
    try:
        return box_of_sides([*numbers_in(rows.of[id])])
    except ValueError as error:
        raise SourceError(f"{rows.path}: the image {id}: {error}") from None


def _points(
    texts: Mapping[str, _Rows],
    paths: Mapping[str, str],
    data: Mapping[str, bytes],
    notes: list[Finding],
) -> dict[str, list[float]]:
    """Return the keypoints of each image: x, y and visibility of all parts, in their order."""
    if not {*_PARTS} <= paths.keys():
        return {}
    order = {id: at for at, id in enumerate(texts["parts"].of)}
    known = texts["images"].of
    found: dict[str, list[float]] = {}

    def read(cells: Sequence[str]) -> None:
        id, part, *place = cells
        if len(place) != 3 or part not in order or id not in known:
            raise ValueError("is no image, part, x, y and a 0 or a 1")
        x, y, seen = numbers_in(place)
        at = 3 * order[part]
        own = found.setdefault(id, [0.0] * (3 * len(order)))
        own[at : at + 3] = (x, y, 2.0) if seen else (0.0, 0.0, 0.0)

    try:
        read_rows(data["part_locs"], read)
    except ValueError as error:
        raise SourceError(f"{paths['part_locs']}: {error}") from None
    names = [" ".join(rest) for rest in texts["parts"].of.values()]
    notes.append(Finding("note", "", f"keypoints are parts, in this order: {', '.join(names)}"))
    return found


def _with_points(
    boxes: TableBoxes, points: Mapping[str, Sequence[float]], ids: Sequence[str]
) -> TableBoxes:
    """Return boxes with the keypoints of their images; one without has none that are seen."""
    nothing = [0.0] * max(map(len, points.values()))
    return replace(boxes, keypoints=array("d", (v for id in ids for v in points.get(id, nothing))))
