"""SVHN's images of whole house numbers: the boxes of digits in `digitStruct.mat`.

http://ufldl.stanford.edu/housenumbers: a file of MATLAB's version 7.3, which is HDF5. For each
image it refers to its name, and to a group with `left`, `top`, `width`, `height` and `label`. Each
of these is one number, or a reference to one for each digit. The label 10 is the digit 0. Corners
count from 0, as the set's own `see_bboxes.m` takes them.
"""

from __future__ import annotations

import io
import os
import posixpath
import re
from array import array
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from dsprep.errors import SourceError
from dsprep.sources.annotated.annotated import Scan
from dsprep.sources.annotated.boxes import TableBoxes
from dsprep.sources.annotated.image_tables import data_of, used_below
from dsprep.sources.hdf5_file import h5_errors, lies_inside, opened_hdf5
from dsprep.storage.files import full_path, is_file

if TYPE_CHECKING:
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source

DIGITS = re.compile(r"(?:^|/)(?:(train|test|extra)_)?digitStruct\.mat$")

_SIDES = ("train", "test", "extra")
_PARTS = ("left", "top", "width", "height", "label")
_CLASSES = tuple("0123456789")
_LABELS = range(1, 11)
_MOST_IMAGES = 10_000_000
_MOST_DIGITS = 1000  # of an image
_LONGEST_NAME = 255
_BYTES_OF_BOX = 64  # that JSON takes for it


def scan_svhn(source: Source, place: AnnotatedPlace) -> Scan:
    """Return the boxes of digits of all sides."""
    paths = _paths(place)
    names, sides, counts = list[str](), list[str](), list[int]()
    edges, numbers, digest = array("d"), array("i"), sha256()
    for path in paths:
        data = data_of(source, place.files, path)
        digest.update(sha256(data).digest())
        directory, side = _directory_of(source, place, path)
        for name, boxes in _images_in(data, path):
            names.append(posixpath.join(directory, name))
            sides.append(side)
            counts.append(len(boxes))
            for left, top, width, height, label in boxes:
                edges.extend((left, top, left + width, top + height))
                numbers.append(int(label) % len(_CLASSES))
    starts = array("q", [0])
    for count in counts:
        starts.append(starts[-1] + count)
    boxes_of_all = TableBoxes(starts, edges, numbers, (), (None,) * len(names))
    return Scan(
        boxes_of_all,
        names,
        counts,
        [_BYTES_OF_BOX * count for count in counts],
        _CLASSES,
        (),
        digest.hexdigest(),
        os.path.dirname(paths[0]) or ".",
        flags=False,
        sides=sides if all(sides) else (),
        used=used_below(source, paths),
        boxes_alone=True,
    )


def _paths(place: AnnotatedPlace) -> list[str]:
    """Return the files of MATLAB: those beside the images, or those that the user names."""
    if not place.named:
        own = filter(DIGITS.search, place.with_extension("mat"))
        return [posixpath.join(place.root, path) for path in sorted(own)]
    found = []
    for named in place.named:
        path = posixpath.join(place.root, named.member) if named.member else named.path
        if named.is_dir:
            below = ("", *_SIDES)
            files = (posixpath.join(path, side, "digitStruct.mat") for side in below)
            found += list(filter(is_file, files))
        else:
            found.append(path)
    if not found:
        raise SourceError(f"{place.named[0].path}: has no digitStruct.mat")
    return found


def _directory_of(source: Source, place: AnnotatedPlace, path: str) -> tuple[str, str]:
    """Return the directory of the images of a file, below the root, and its side."""
    directory = full_path(os.path.dirname(path) or ".")
    below = directory.removeprefix(full_path(source.root)).strip("/")
    told = DIGITS.search(path)
    if told is not None and told[1]:  # Kaggle's copy has them beside the directories of the sides
        return posixpath.join(below, told[1]), told[1]
    side = posixpath.basename(directory)
    return below, side if side in _SIDES else ""


def _images_in(data: bytes, path: str) -> Iterator[tuple[str, Sequence[tuple[float, ...]]]]:
    """Yield the name of each image, and left, top, width, height and label of its digits."""
    with opened_hdf5(path, io.BytesIO(data)) as opened, h5_errors(path):
        names, groups = (opened["digitStruct"][each] for each in ("name", "bbox"))
        if names.shape != groups.shape or not (lies_inside(names) and lies_inside(groups)):
            raise SourceError(f"{path}: has not as many names of images as boxes")
        if names.size > _MOST_IMAGES:
            raise SourceError(
                f"{path}: has {names.size:,} images, and at most {_MOST_IMAGES:,} are read"
            )
        for name, group in zip(names[()].ravel(), groups[()].ravel(), strict=True):
            text = "".join(map(chr, _numbers(opened[name], _LONGEST_NAME)))
            columns = [_column(opened, opened[group][part]) for part in _PARTS]
            if len(set(map(len, columns))) != 1 or not text or "/" in text:
                raise SourceError(f"{path}: {text!r} has no box for each digit")
            boxes = list(zip(*columns, strict=True))
            if wrong := [box for box in boxes if not box[-1] % 1 == 0 or not 1 <= box[-1] <= 10]:
                raise SourceError(
                    f"{path}: {text!r} has the label {wrong[0][-1]}, which is no digit"
                )
            yield text, boxes


def _column(opened: Any, found: Any) -> list[float]:
    """Return the numbers of all digits of an image: one, or what references lead to."""
    if found.dtype.kind != "O":
        return [float(each) for each in _numbers(found, 1)]
    if found.size > _MOST_DIGITS or not lies_inside(found):
        raise ValueError("an image has more digits than dsprep reads")
    return [float(each) for ref in found[()].ravel() for each in _numbers(opened[ref], 1)]


def _numbers(found: Any, most: int) -> list[Any]:
    """Return the few numbers of a data set."""
    if found.size > most or not lies_inside(found) or found.dtype.kind not in "iuf":
        raise ValueError("has other values where numbers should be")
    return list(found[()].ravel().tolist())
