"""The lists of Oxford-IIIT Pet: the breed and the side of each photograph."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from dsprep.errors import SourceError
from dsprep.sources.annotated.image_values import class_of_images
from dsprep.sources.annotated.mask_sets import text_beside
from dsprep.sources.annotated.parallel_masks import MaskMeaning, Parallel
from dsprep.units import lines_of

if TYPE_CHECKING:
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source

_NAMES = ("unused", "pet", "background", "not classified")  # the numbers of a trimap begin with 1
_SIDES = ("trainval", "test")


def meaning_of(source: Source, place: AnnotatedPlace, found: Parallel) -> MaskMeaning:
    """Read the lists: breeds are numbered by their ids, as the lists have them."""
    texts = [text_beside(place, f"annotations/{name}.txt") for name in (*_SIDES, "list")]
    breeds: dict[str, int] = {}  # the id of each breed
    rows = [ids_in(text, path, breeds) for path, text in texts]
    ids = {stem: id for each in rows for stem, id in each.items()}
    stems = [posixpath.splitext(posixpath.basename(path))[0] for path in found.images]
    own = [breed_of(stem) if stem in ids else None for stem in stems]
    if not any(own):
        raise SourceError(f"{place.root}: the lists in annotations name none of its images")
    order = sorted(breeds, key=lambda breed: breeds[breed])
    if source.classes is None and source.class_order is None:
        source = source.replace(classes=order)
    sides: tuple[str, ...] = ()
    if any(rows[:2]):
        side = {stem: name for name, each in zip(_SIDES, rows, strict=False) for stem in each}
        sides = tuple(side.get(stem, "") for stem in stems)
    used = tuple(path for path, _ in texts if path)
    label = class_of_images(own, source, posixpath.dirname(used[0]))
    return MaskMeaning(_NAMES, sides=sides, images=label, used=used)


def breed_of(stem: str) -> str:
    """Return the breed in the name of a photograph: ``Abyssinian_1``."""
    return stem.rpartition("_")[0] or stem


def ids_in(text: str, path: str, breeds: dict[str, int]) -> dict[str, int]:
    """Return the id of the breed of each photograph of a list, and add those of breeds.

    A line is name, id of the breed from 1, species and number in the species (the README of the
    data set).
    """
    found: dict[str, int] = {}
    for line in lines_of(text):
        cells = line.split()
        if not cells or line.startswith("#"):
            continue
        if len(cells) < 2 or not (cells[1].isascii() and cells[1].isdecimal()):
            raise SourceError(f"{path}: {line!r:.60} is no name and id of a breed: Abyssinian_1 1")
        stem, id = cells[0], int(cells[1][:9])
        found[stem] = id
        if breeds.setdefault(breed_of(stem), id) != id:
            raise SourceError(
                f"{path}: {breed_of(stem)!r:.60} has the id {id}, and {breeds[breed_of(stem)]} "
                "elsewhere"
            )
    return found
