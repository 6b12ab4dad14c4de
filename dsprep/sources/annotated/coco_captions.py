"""Captions in COCO's JSON: annotations with a text and nothing drawn, several for each image.

Datumaro gives each a ``category_id`` of 0, which means nothing. COCO lists the images of a side
once more in the file of their captions (cocodataset.org, "Data format", "Image Captioning").
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from dsprep.findings import Finding
from dsprep.sources.annotated.image_values import ImageValues
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some, quoted_names

CAPTION = "caption"  # the name of the field
LOST = -1
"""Stands for the number of an image that no file of objects lists."""

_DRAWN = frozenset(("bbox", "segmentation", "keypoints"))
_KNOWN = frozenset(("id", "image_id", "category_id", CAPTION))


def is_caption(item: Mapping[str, Any]) -> bool:
    """Return whether an annotation is a caption, and no object."""
    return CAPTION in item and _DRAWN.isdisjoint(item)


def values_of_captions(captions: Sequence[Sequence[str] | None]) -> ImageValues:
    """Return the captions of each image as a field; None for an image without."""
    return ImageValues().with_field(CAPTION, "list<text>", captions)


class Moved(NamedTuple):
    """Which captions images have, once each image is listed by one file.

    Attributes:
        captions: Those of each image that stays, by its new number; None for an image without.
        kept: The images that stay, by their old numbers.
        numbers: The new number of each image, by file and id; `LOST` for one that is left out.
    """

    captions: Sequence[Sequence[str] | None]
    kept: Sequence[int]
    numbers: Mapping[tuple[int, int], int]


class CocoCaptions:
    """The captions that files have told so far."""

    def __init__(self) -> None:
        self.texts: MutableMapping[tuple[int, int], list[str]] = {}  # by file and id of the image
        self._left_out = set[str]()
        self._lost: Sequence[str] = ()

    def add(self, file: int, image: int, item: Mapping[str, Any]) -> None:
        """Take an annotation of an image."""
        text = item[CAPTION]
        if not isinstance(text, str):
            raise TypeError(f"its caption {text!r:.40} is no text")
        self.texts.setdefault((file, image), []).append(text)
        if not item.keys() <= _KNOWN:
            self._left_out.update(name for name in item.keys() - _KNOWN if item[name])

    def files_of_these(self, others: Collection[int]) -> frozenset[int]:
        """Return the files with captions that are not among the others, which have objects."""
        return frozenset(file for file, _ in self.texts).difference(others)

    def move(
        self, images: Mapping[tuple[int, int], int], names: Sequence[str], apart: Collection[int]
    ) -> Moved:
        """Give the captions of some files to the images of the same names that others list.

        Args:
            images: The number of each image, by the file that lists it and its id there.
            names: The names of the images.
            apart: The files that have no objects of their own; none if there are no others.
        """
        kept = [number for (file, _), number in images.items() if file not in apart]
        by_name = {names[number]: at for at, number in enumerate(kept)}
        renumbered = {number: at for at, number in enumerate(kept)}
        found: list[list[str] | None] = [None] * len(kept)
        lost, numbers = [], dict[tuple[int, int], int]()
        for key, number in images.items():
            texts = self.texts.pop(key, None)
            own = by_name.get(names[number]) if key[0] in apart else renumbered[number]
            numbers[key] = LOST if own is None else own
            if own is None:
                lost.append(names[number])
            elif texts is not None:
                found[own] = [*(found[own] or ()), *texts]
        self._lost = lost
        return Moved(found, kept, numbers)

    def notes(self, where: str) -> Iterator[Finding]:
        """Say what nothing of is kept."""
        notes = []
        if self._left_out:
            notes.append(f"not kept: {quoted_names(sorted(self._left_out), 10)} of captions")
        if self._lost:
            count = format_count(len(self._lost), "image")
            notes.append(
                f"{count} that no file of boxes lists, left out: {format_some(self._lost)}"
            )
        yield from (Finding("note", "", f"{where}: {note}") for note in notes)
