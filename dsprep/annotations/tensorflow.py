"""Objects as TensorFlow's Object Detection API has them: a list for each of their parts.

The names are those of its ``TfExampleDecoder``; coordinates are shares of the image's size, and
classes have their ids. A mask is a gray PNG of the image's size, 1 inside the object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dsprep.annotations.objects import (
    SHARES,
    Object,
    Objects,
    area_of_object,
    extent_of,
    numbers,
    plain,
)
from dsprep.sample import Blobs, Floats, Ints

PREFIX = "image/object/"
_SIDES = ("bbox/xmin", "bbox/ymin", "bbox/xmax", "bbox/ymax")
CLASS, TEXT, AREA, MASK = "class/label", "class/text", "area", "mask"
FLAG_NAMES = {name: name for name in ("difficult", "truncated", "group_of")} | {"is_crowd": "crowd"}
NAMES = frozenset((*_SIDES, CLASS, TEXT, AREA, MASK, *FLAG_NAMES))


def parse(lists: Mapping[str, Sequence[Any]]) -> Objects | None:
    """Return the objects of lists, by their names below ``image/object/``; numbers are ids.

    Masks are runs here, and not yet images. None means that they are no boxes.
    """
    count = len(lists.get(_SIDES[0], ()))
    if any(lists.values()) and not all(lists.get(side) for side in _SIDES):
        return None
    found = []
    for name, values in lists.items():
        if len(values) not in (0, count):
            raise ValueError(f"{PREFIX}{name} has {len(values)} values for {count} objects")
    for at in range(count):
        own: dict[str, Any] = {name: values[at] for name, values in lists.items() if values}
        x0, y0, x1, y1 = numbers([own[side] for side in _SIDES])
        number = own.get(CLASS, 1)  # data sets of one class may have no class numbers
        if type(number) is not int:
            raise ValueError(f"{number!r:.40} is no class number")
        found.append(
            Object(
                (x0, y0, x1, y1),
                number,
                frozenset(flag for name, flag in FLAG_NAMES.items() if own.get(name)),
                rle=own.get(MASK),
                area=numbers([own[AREA]])[0] if AREA in own else None,
                more=plain({name: _plain(own[name]) for name in sorted(own.keys() - NAMES)}),
            )
        )
    return Objects(tuple(found), SHARES)


def _plain(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def lists_of(
    class_id: Callable[[int], int],
    class_name: Callable[[int], str | None],
    flags: bool,
    masks: bool,
) -> dict[str, Callable[[Objects], Sequence[Any] | None]]:
    """Return what makes each list of objects, by its name; None instead of one that says nothing.

    Every sample has the lists of ``flags`` then; otherwise those that have some.
    """

    def sides(axis: int, at: int) -> Callable[[Objects], Floats]:
        def make(objects: Objects) -> Floats:
            size = extent_of(objects)[axis]
            return Floats(each.box[at] / size for each in objects.items)

        return make

    def marks(flag: str, always: bool) -> Callable[[Objects], Ints | None]:
        def make(objects: Objects) -> Ints | None:
            found = Ints(flag in each.flags for each in objects.items)
            return found if always or any(found) else None

        return make

    made: dict[str, Callable[[Objects], Sequence[Any] | None]] = {
        side: sides(at % 2, at) for at, side in enumerate(_SIDES)
    }
    made[CLASS] = lambda objects: Ints(class_id(each.number) for each in objects.items)
    made[TEXT] = lambda objects: Blobs(
        (class_name(each.number) or "").encode() for each in objects.items
    )
    made[AREA] = lambda objects: Floats(map(area_of_object, objects.items))
    made |= {name: marks(flag, flags and flag == "crowd") for name, flag in FLAG_NAMES.items()}
    if masks:
        made[MASK] = _masks
    return made


def _masks(objects: Objects) -> Blobs:
    from dsprep.annotations.masks import mask_of, mask_of_polygons, png_of

    width, height = map(round, extent_of(objects))
    found = []
    for each in objects.items:
        runs = each.rle
        mask = mask_of(runs) if runs else mask_of_polygons(each.polygons, each.box, (width, height))
        found.append(png_of(mask))
    return Blobs(found)
