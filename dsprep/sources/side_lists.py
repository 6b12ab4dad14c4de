"""Lists of the images of each side, such as ``train.txt`` and ``test.txt``."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from dsprep.findings import Finding
from dsprep.places.names import SPLITS, is_side_alone, side_name, usual_side
from dsprep.units import format_count

if TYPE_CHECKING:
    from dsprep.sources.annotation_kind import AnnotatedPlace


def lists_among(paths: Sequence[str]) -> list[str]:
    """Return the texts that are called like a side: `train.txt`, `ImageSets/val.txt`."""
    own = (path for path in paths if path.lower().endswith(".txt"))
    return [path for path in own if is_side_alone(_stem(path))]


def sides_of_lists(
    root: str,
    place: AnnotatedPlace,
    images: Sequence[str],
    texts: Collection[str],
    notes: list[Finding],
) -> tuple[Sequence[str], Sequence[str]]:
    """Return the side of each image by texts such as ``train.txt``, and these; empty without any.

    A line is the path or the name of an image. An image that several lists name is one for tests or
    validation.
    """
    from dsprep.places.match import find_elsewhere

    named: dict[str, list[str]] = {}  # images, by list
    for path in sorted(set(lists_among(place.others)).difference(texts)):
        side = usual_side(_stem(path))
        text = place.files.text(root, posixpath.join(root, path)) or ""
        lines = [line for line in map(str.strip, text.splitlines()) if line]
        some = [image for image in images if _may_be_of(image, side)]
        meant = find_elsewhere(lines, some)
        lost = meant.missing.to_list()
        if 2 * len(lost) >= len(lines):
            continue  # it is another text, or one for images without annotations
        meant.refuse_several(path)
        named[path] = meant.paths.drop_nulls().to_list()
        notes += [Finding("missing", name, f"named in {path}") for name in lost]
    last = [*dict.fromkeys(SPLITS.values())]  # training is the first
    sides: dict[str, str] = {}
    by_side = {path: usual_side(_stem(path)) for path in named}
    for path in sorted(named, key=lambda path: (-last.index(by_side[path]), path)):
        twice = [
            each for each in named[path] if sides.setdefault(each, by_side[path]) != by_side[path]
        ]
        if twice:
            said = f"{path}: {format_count(len(twice), 'image')} of other sides, which stay there"
            notes.append(Finding("note", "", f"{said}, such as {twice[0]}"))
    return ([sides.get(image, "") for image in images] if sides else []), [*named]


def _may_be_of(image: str, side: str) -> bool:
    """Return whether a list of a side may name an image: one below `training` is none for tests."""
    above = sides_above(image)
    return not above or side in above or (above == {"train"} and side == "val")


def sides_above(path: str) -> set[str]:
    """Return the sides that directories of a path are called like."""
    found = map(side_name, path.split("/")[:-1])
    return {each.side for each in found if each is not None}


def _stem(path: str) -> str:
    return posixpath.splitext(posixpath.basename(path))[0]
