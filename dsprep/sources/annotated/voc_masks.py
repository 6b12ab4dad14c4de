"""The masks of Pascal VOC's sets, in ``SegmentationClass``, and what else is there of this kind."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dsprep.annotations.masks import Color
from dsprep.errors import DsprepError
from dsprep.findings import Finding
from dsprep.patterns import pattern
from dsprep.sources.annotated.mask_files import masks_among
from dsprep.sources.annotated.mask_sets import text_beside
from dsprep.sources.annotated.masks import Masks, named_colors_in, require_numbers
from dsprep.sources.annotated.parallel_masks import MaskMeaning, Parallel
from dsprep.sources.readers import FileReader
from dsprep.units import format_count, lines_of

if TYPE_CHECKING:
    from dsprep.places.files import Files
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source

_CLASSES, _OBJECTS = (pattern(rf"(?:^|/)Segmentation{of}/[^/]+$") for of in ("Class", "Object"))
_SIDES = pattern(r"(?:^|/)ImageSets/Segmentation[^/]*/[^/]+\.txt$")
_CLASSES_OF_VOC = 21
_EDGES = (224, 224, 192)
_OWN_PALETTE = (
    "the colors of masks have the class numbers of Pascal VOC, as no labelmap.txt names them: for "
    "others, give --masks DIR --mask-colors FILE"
)
_LABELMAP = pattern(r"(?:^|/)labelmap\.txt$")  # of CVAT and datumaro: colors and names


def masks_of(
    source: Source, files: Files, called: Sequence[str], others: Sequence[str], notes: list[Finding]
) -> tuple[Masks | None, list[str]]:
    """Return the masks of images that are called so, if they are taken, and the files used.

    Images that are masks and are not taken become findings, with a note.
    """
    table = files.table.select("path", "size")
    named = table.filter(table["path"].str.contains("Segmentation", literal=True))  # fast
    sizes = dict(named.sort("path").iter_rows())
    of_objects = [path for path in sizes if _OBJECTS.search(path)]
    _note(of_objects, "their pixels are numbers of objects", notes)
    of_classes = [path for path in sizes if _CLASSES.search(path)]
    if source.masks is not None or not of_classes:
        return None, []
    labelmap = next(filter(_LABELMAP.search, others), "")
    masks, why = None, ""
    if not source.takes_masks:
        why = "the output has no place for masks"
    else:
        masks, why = _readable(
            _named(source.root, files, called, of_classes), labelmap, files, notes
        )
    if masks is None:
        _note(of_classes, why, notes)
        return None, []
    own = frozenset(masks.paths)
    left = [path for path in of_classes if path not in own]
    stems = {_stem(path) for path in table["path"] if "Segmentation" not in path} if left else set()
    _note([path for path in left if _stem(path) in stems], "their images are no samples", notes)
    _note([path for path in left if _stem(path) not in stems], "no image has their names", notes)
    return masks, [labelmap] if labelmap and masks.colors else []


def _note(paths: Sequence[str], why: str, notes: list[Finding]) -> None:
    """Say which masks are not read."""
    if paths:
        said = f"{format_count(len(paths), 'mask')} not read, such as {paths[0]}: {why}"
        notes.append(Finding("note", "", said))
    notes += [Finding("not-read", path) for path in paths]


def _stem(path: str) -> str:
    return posixpath.splitext(posixpath.basename(path))[0]


def _named(root: str, files: Files, called: Sequence[str], paths: Sequence[str]) -> Masks:
    """Return the mask of each image: of its name, in the directory beside that of images."""
    from dsprep.places.match import NAME, PATH, Spelling, bare, base, beside, match, stem, texts

    spellings = (
        Spelling(beside(NAME, "SegmentationClass"), bare(PATH)),
        Spelling(base(NAME), stem(PATH)),
    )
    found = match(texts(called), texts(paths), spellings).paths.fill_null("")
    return masks_among(root, files, found.to_list())


def _readable(
    masks: Masks, labelmap: str, files: Files, notes: list[Finding]
) -> tuple[Masks | None, str]:
    """Return masks whose pixels are class numbers, or colors that a table names; or why not."""
    if not any(masks.paths):
        return None, "no image has their names"
    images = files.reader or FileReader(masks.root)
    try:
        require_numbers(masks, images)
        return masks, ""
    except DsprepError as error:
        why = str(error)
    text = files.text(masks.root, posixpath.join(masks.root, labelmap)) if labelmap else None
    colors = named_colors_in(text or "")
    if labelmap and not colors:
        return None, why
    numbers = {color: at for at, color in enumerate(colors)} or _colors_of_voc()
    masks = replace(masks, colors=numbers, names=tuple(colors.values()))
    try:
        require_numbers(masks, images)
    except DsprepError as error:
        return None, f"{labelmap}: {error}" if labelmap else why
    if not labelmap:
        notes.append(Finding("note", "", _OWN_PALETTE))
    return masks, ""


def _colors_of_voc() -> dict[Color, int]:
    """Return the class numbers of the colors in the palette of Pascal VOC's own masks.

    Bits of a number are spread over the highest bits of red, green and blue in turn, as in
    ``VOClabelcolormap.m``. The color of 255, the edges of objects, is another one in masks.
    """
    found: dict[Color, int] = {}
    for number in range(_CLASSES_OF_VOC):
        color = [0, 0, 0]
        for bit in range(8):
            color[bit % 3] |= (number >> bit & 1) << (7 - bit // 3)
        found[color[0], color[1], color[2]] = number
    return found | {_EDGES: 255}


def meaning_of(place: AnnotatedPlace, found: Parallel) -> MaskMeaning:
    """Read the names and colors of classes, and the sides of images."""
    from dsprep.sources.side_lists import sides_of_lists

    labelmap, lines = text_beside(place, "labelmap.txt")
    named = named_colors_in(lines)
    listed, texts = text_beside(place, "class_names.txt")  # of labelme: a class a line
    names = tuple(named.values()) or tuple(filter(None, map(str.strip, lines_of(texts))))
    others = [path for path in place.others if not _SIDES.search(path)]
    notes = list[Finding]()
    sides, lists = sides_of_lists(place.root, place, found.images, others, notes)
    colors = {color: number for number, color in enumerate(named)} or None
    used = (labelmap if named else listed, *lists)
    return MaskMeaning(
        names, colors, sides=tuple(sides), used=tuple(filter(None, used)), findings=tuple(notes)
    )
