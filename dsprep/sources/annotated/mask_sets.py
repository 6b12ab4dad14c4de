"""The scan of a data set of images and of masks in parallel directories."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from dsprep.annotations.masks import Color
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.places.names import usual_side
from dsprep.rows import Reader
from dsprep.sources.annotated.annotated import Scan
from dsprep.sources.annotated.image_values import ImageValues
from dsprep.sources.annotated.mask_files import masks_among
from dsprep.sources.annotated.masks import Masks, require_numbers
from dsprep.sources.annotated.parallel_masks import MaskMeaning, Parallel
from dsprep.sources.readers import FileReader
from dsprep.units import extension_in, format_count

if TYPE_CHECKING:
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source


def scan_masks(
    source: Source,
    place: AnnotatedPlace,
    found: Parallel,
    meaning: MaskMeaning,
    others: re.Pattern[str],
) -> Scan:
    """Make the scan of a data set of images and masks.

    Args:
        source: What the user named, with the options.
        place: The images, and the files beside them.
        found: The images, and the mask of each.
        meaning: What texts say of both.
        others: Images and other files of the data set that are known and not read.
    """
    files, notes = place.files, [*meaning.findings]
    masks: Masks | None = None
    if source.takes_masks:
        images = files.reader or FileReader(source.root)
        masks = masks_among(source.root, files, found.masks)
        masks = replace(masks, values=meaning.values, names=meaning.names)
        masks = _readable(masks, meaning.colors, images)
    used = frozenset(found.masks) if masks is not None else frozenset[str]()
    more = [path for path in place.images if others.search(path)]
    more += [path for path in (*found.masks, *found.alone) if path]
    beside = [path for path in place.others if others.search(path)]
    left = sorted({*more, *beside}.difference(used, meaning.used, found.images))
    notes += _notes(found, left, is_taken=masks is not None)
    sides = meaning.sides or found.sides
    if {*map(usual_side, sides)} == {"train"}:
        sides = ()
    known = (*found.images, *found.labels, *meaning.sides, *meaning.used)
    return Scan(
        None,
        found.images,
        (),
        (),
        (),
        (),
        sha256("\0".join(known).encode("utf-8", "surrogateescape")).hexdigest(),
        place.root,
        [*notes, *(Finding("not-read", path) for path in left)],
        masks=masks,
        sides=sides,
        used=[*meaning.used, *beside],
        values=meaning.images or ImageValues(),
    )


def _readable(masks: Masks, colors: Mapping[Color, int] | None, images: Reader) -> Masks:
    """Return masks that are class numbers or, if they are not, those of colors."""
    try:
        require_numbers(masks, images)
    except SourceError:
        if colors is None:
            raise
        masks = replace(masks, colors=colors)
        require_numbers(masks, images)
    return masks


def _notes(found: Parallel, left: Sequence[str], *, is_taken: bool) -> Iterator[Finding]:
    """Say what is not read of a data set, and which images have no mask."""
    own = frozenset(found.masks)
    masks = [path for path in left if path in own]
    if masks:
        said = f"{format_count(len(masks), 'mask')} not read, such as {masks[0]}"
        yield Finding("note", "", f"{said}: the output has no place for masks")
    if found.alone:
        said = f"{format_count(len(found.alone), 'mask')} without an image"
        yield Finding("note", "", f"{said}, such as {found.alone[0]}")
    bare = [at for at, path in enumerate(found.masks) if not path]
    if bare and is_taken:
        said = f"{format_count(len(bare), 'image')} without a mask"
        labels = Counter(found.labels[at] for at in bare) if found.labels else {}
        shares = ", ".join(f"{count:,} of {label}" for label, count in sorted(labels.items()))
        yield Finding("note", "", f"{said}: {shares}" if shares else said)
    rest = [path for path in left if path not in own and path not in found.alone]
    for ending, count in sorted(Counter(map(_ending, rest)).items()):
        first = next(path for path in rest if _ending(path) == ending)
        said = f"{format_count(count, 'file')} of the data set not read"
        yield Finding("note", "", f"{said}: *{ending}, such as {first}")


def _ending(path: str) -> str:
    """Return what files of one use end in: the last word of a name, and the extension."""
    name = path.rpartition("/")[2]
    word = re.search(r"_[0-9]*[A-Za-z][0-9A-Za-z]*\.[^.]*$", name)
    return word[0] if word else extension_in(path)


# Texts


def text_beside(place: AnnotatedPlace, *names: str) -> tuple[str, str]:
    """Return the first file of some names, in any directory, and its text; empty without one."""
    for name in names:
        own = [path for path in place.others if f"/{path}".endswith(f"/{name}")]
        if own:
            path = min(own, key=lambda path: (path.count("/"), path))
            return path, place.files.text(place.root, posixpath.join(place.root, path)) or ""
    return "", ""
