"""Several files of boxes: each is a side of the data set by its name, or all are one set."""

from __future__ import annotations

import os
import posixpath
import shlex
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING

from dsprep.annotations.masks import IGNORED
from dsprep.annotations.objects import Extent
from dsprep.errors import DsprepError, OptionError, SourceError, StoreError
from dsprep.findings import Finding
from dsprep.numbering import Known, number_classes, number_ids, numbers_of
from dsprep.places.names import SideName, told_side, told_sides
from dsprep.sources.annotated.annotated import Scan
from dsprep.sources.annotated.boxes import (
    BoxRules,
    TableBoxes,
    columns_of,
    images_named,
    scan_boxes,
    scan_of,
)
from dsprep.sources.annotated.masks import TableMasks
from dsprep.sources.annotation_kind import AnnotatedPlace
from dsprep.sources.heads import is_harmless
from dsprep.sources.kind import HEAD
from dsprep.sources.unread import text_of
from dsprep.storage.files import entries, full_path, open_file
from dsprep.units import format_some, quoted_names

if TYPE_CHECKING:
    from dsprep.places.files import Files
    from dsprep.sources.source import Source


def scan_named(source: Source, place: AnnotatedPlace, rules: BoxRules | None = None) -> Scan:
    """Read the tables that a user names.

    Images that only another table beside them has boxes for are not images without objects.
    """
    paths = [each.path for each in place.named]
    scans = [scan_boxes(source, path, place.files, rules) for path in paths]
    scan = together(scans, paths, source, place.files)
    top = f"{full_path(source.root)}/"
    used = [each.member or full_path(each.path).removeprefix(top) for each in place.named]
    scan = scan._replace(used=used)
    named_by = {path: _images_named(source, path, place.files) for path in _tables_alike(place)}
    others = [path for path, names in named_by.items() if names]
    if not others:
        return scan
    elsewhere = {*chain.from_iterable(named_by.values())} - {*scan.names}
    more = " ".join(f"--annotations {shlex.quote(path)}" for path in others)
    have = "has" if len(others) == 1 else "have"
    said = f"images that only {format_some(others)} {have} boxes for are left out: give {more}, too"
    notes = [Finding("note", "", said)] if elsewhere else []
    return scan._replace(elsewhere=sorted(elsewhere), findings=[*scan.findings, *notes])


def _tables_alike(place: AnnotatedPlace) -> Sequence[str]:
    """Return the tables beside those that the user names that have the same columns."""
    named = [each.member or each.path for each in place.named]
    if place.files.archive is not None:
        directories = {*map(posixpath.dirname, named)}
        beside = [path for path in place.others if posixpath.dirname(path) in directories]
        columns = {path: _columns(place.head(path)) for path in filter(_is_table, beside)}
    else:
        directories = {os.path.dirname(path) for path in named}
        beside = [
            os.path.join(directory, name)
            for directory in sorted(directories)
            for name in _tables_in(directory, place)
        ]
        columns = {path: _columns(_head(path)) for path in [*filter(_is_table, named), *beside]}
    wanted = {columns[path] for path in named if path in columns} - {("",)}
    return sorted(path for path, own in columns.items() if own in wanted and path not in named)


def _tables_in(directory: str, place: AnnotatedPlace) -> Sequence[str]:
    """Return the names of the tables in a directory; SOURCE is not listed again."""
    top, path = full_path(place.root), full_path(directory or ".")
    if f"{path}/".startswith(f"{top}/"):
        below = path[len(top) + 1 :]
        found = map(posixpath.split, filter(_is_table, place.others))
        return [name for own, name in found if own == below]
    return sorted(filter(_is_table, (entry.name for entry in entries(directory or "."))))


def _is_table(path: str) -> bool:
    return path.lower().endswith((".csv", ".tsv")) and not is_harmless(path)


def _columns(head: bytes) -> tuple[str, ...]:
    """Return the columns of a table; tables of one data set may differ in line ends and quotes."""
    return tuple(columns_of(text_of(head)))


def _head(path: str) -> bytes:
    """Read the beginning of a file; it is empty if the file cannot be read."""
    try:
        with open_file(path) as file:
            return file.pread(HEAD, 0)
    except OSError:
        return b""
    except StoreError as error:
        _raise_if_it_passes(error)
        return b""


def _images_named(source: Source, path: str, files: Files) -> Sequence[str]:
    """Return what a table that nobody gave calls its images; nothing if it cannot be read."""
    try:
        return images_named(source, path, files)
    except (SourceError, OptionError, StoreError) as error:
        _raise_if_it_passes(error)
        return ()


def _raise_if_it_passes(error: DsprepError) -> None:
    """Raise an error that another try may not have: nothing that is packed depends on it."""
    if isinstance(error, StoreError) and error.kind in ("expired", "transient"):
        raise error


def together(scans: Sequence[Scan], paths: Sequence[str], source: Source, files: Files) -> Scan:
    """Return what several files tell as one scan; each file is a side, if their names are."""
    if len(scans) == 1:
        return scans[0]
    stems = [os.path.splitext(os.path.basename(path))[0] for path in paths]
    sides = told_sides(paths, stems) or [""] * len(paths)
    where = os.path.dirname(paths[0]) or "."
    classes, ids = _classes_of(scans, source, paths)
    digest = sha256("".join(scan.digest for scan in scans).encode()).hexdigest()
    names = _names(scans, sides, files)
    findings = list(dict.fromkeys(chain.from_iterable(scan.findings for scan in scans)))
    if all(isinstance(scan.masks, TableMasks) for scan in scans):
        nothing = [0] * len(names)
        found = Scan(None, names, nothing, nothing, (), (), digest, where)
        found = found._replace(masks=_masks_together(scans, where))
    else:
        boxes = _boxes_together(scans, classes, where)
        found = scan_of(boxes, names, classes, ids, digest, where, [])
    return found._replace(
        findings=findings,
        keeps_unlisted=scans[0].keeps_unlisted,
        sides=[side for scan, side in zip(scans, sides, strict=True) for _ in scan.names if side],
    )


def _names(scans: Sequence[Scan], sides: Sequence[str], files: Files) -> Sequence[str]:
    """Return what the tables call their images, below the directory of their side if it has one.

    So `1.jpg` of `train.csv` is `train/1.jpg`, where `val/1.jpg` is there as well.
    """
    directories = files.table["path"].str.extract("^(.*)/").unique().drop_nulls().to_list()
    paths = [path.split("/") for path in directories]
    told = {part: found for part in {*chain(*paths)} if (found := told_side(part))}
    levels = [[part for part in path if part in told] for path in paths]
    named = {side: _directory_of(side, levels, told) for side in sides if side}
    return [
        posixpath.join(named.get(side, ""), name)
        for scan, side in zip(scans, sides, strict=True)
        for name in scan.names
    ]


def _directory_of(side: str, paths: Sequence[Sequence[str]], told: Mapping[str, SideName]) -> str:
    """Return what the directory of a side is called: so, or as the only one with its name.

    It is empty if there are several: names that may mean images in each of them are refused.
    """
    exact, others = set[str](), set[str]()
    for path in paths:
        own = [part for part in path if told[part].side == side]
        is_exact = any(not told[part].rest for part in own)
        (exact if is_exact else others).update(own[-1:])
    found = exact or others
    if len(found) == 1:
        return found.pop()
    return side if side in found else ""


def _classes_of(
    scans: Sequence[Scan], source: Source, paths: Sequence[str]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the classes of all tables, with their ids: numbered by ids, or by sorted names."""
    if source.classes is not None:
        return scans[0].classes, ()
    if not any(scan.ids for scan in scans):
        longest = max((scan.classes for scan in scans), key=len)
        if all(scan.classes == longest[: len(scan.classes)] for scan in scans):
            return longest, ()  # as numbers are, where no file tells names
        names = {name for scan in scans for name in scan.classes}
        return number_classes(names, Known(None), paths[0]), ()
    named = dict[int, str]()
    with_ids = [(scan, path) for scan, path in zip(scans, paths, strict=True) if scan.ids]
    for scan, path in with_ids:
        for id, name in zip(scan.ids, scan.classes, strict=True):
            if named.setdefault(id, name) != name:
                both = quoted_names([named[id], name])
                raise SourceError(f"{path}: the class {id} is {both} in the files: correct one")
    for scan, path in zip(scans, paths, strict=True):
        if unknown := sorted({*scan.classes}.difference(named.values())):
            raise SourceError(
                f"{path}: does not number its classes, and {with_ids[0][1]}, which does, has no "
                f"{quoted_names(unknown)}: number the classes in all files, or in none"
            )
    order, ids, _ = number_ids(named, None, paths[0])
    return tuple(order), tuple(ids)


def _numbers(own: Sequence[str], classes: Sequence[str]) -> Sequence[int]:
    """Return the number among all classes of each class of a table."""
    known = numbers_of(classes)
    return [known[name] for name in own]


def _boxes_together(scans: Sequence[Scan], classes: Sequence[str], where: str) -> TableBoxes:
    """Return the boxes of several files, with the numbers of all classes."""
    starts, boxes, numbers = array("q", [0]), array("d"), array("i")
    flags, extents = list[frozenset[str]](), list[Extent | None]()
    wrong = dict[int, str]()
    for scan in scans:
        own = scan.annotations
        if not isinstance(own, TableBoxes) or scan.masks is not None:
            raise SourceError(
                f"{where}: some of the files have boxes, and others masks: give those of one"
            )
        new = _numbers(scan.classes, classes)
        wrong |= {len(starts) - 1 + number: reason for number, reason in own.wrong.items()}
        starts.extend(len(numbers) + start for start in own.starts[1:])
        boxes.extend(own.boxes)
        numbers.extend(new[number] for number in own.numbers)
        flags += own.flags or [frozenset()] * len(own.numbers)
        extents += own.extents
    marks = tuple(flags) if any(flags) else ()
    return TableBoxes(starts, boxes, numbers, marks, tuple(extents), wrong)


def _masks_together(scans: Sequence[Scan], where: str) -> TableMasks:
    """Return the runs of several tables; the background is the class 0 of each."""
    parts = [scan.masks for scan in scans if isinstance(scan.masks, TableMasks)]
    own = {name for part in parts for name in part.names[1:]}
    names = (parts[0].names[0], *number_classes(own, Known(None), where))
    if len(names) > IGNORED:
        raise SourceError(f"{where}: has {len(names) - 1:,} classes; masks have 254 at most")
    runs = list[tuple[tuple[int, str], ...]]()
    for part in parts:
        new = dict(enumerate(_numbers(part.names, names)))
        of_images = ([(new.get(at, at), text) for at, text in own] for own in part.runs)
        runs += map(tuple, of_images)
    return replace(parts[0], runs=tuple(runs), names=names)
