"""Objects in records of the Object Detection API: their features, their ids and ``label_map``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from dsprep.annotations import tensorflow
from dsprep.annotations.masks import runs_of
from dsprep.annotations.objects import Objects, Rle
from dsprep.errors import BadSample
from dsprep.formats.protobuf import encode_feature
from dsprep.images.header import DEFAULT_MAX_PIXELS
from dsprep.images.transform import decoded
from dsprep.sample import Sample, Value
from dsprep.schema import Field

_MOST_PAINTED = 1 << 32  # pixels of the masks of a sample: half a minute of work


def objects_in(fields: Mapping[str, Value]) -> Objects | None:
    """Return the objects that the features of a record are; None if they are none."""
    start = len(tensorflow.PREFIX)
    lists: dict[str, tuple[Any, ...]] = {
        name[start:]: value if isinstance(value, tuple) else (value,)
        for name, value in fields.items()
        if name.startswith(tensorflow.PREFIX) and value is not None
    }
    try:
        if tensorflow.MASK in lists:
            lists[tensorflow.MASK] = tuple(map(_runs, lists[tensorflow.MASK]))
        return tensorflow.parse(lists) if lists else None
    except ValueError as error:
        raise BadSample(f"its objects: {error}") from None


def _runs(mask: Any) -> Rle:
    """Return the runs of the mask of an object."""
    if not isinstance(mask, bytes):
        raise ValueError("a mask is no image")
    return runs_of(decoded(mask, "the mask of an object", DEFAULT_MAX_PIXELS).convert("L"))


def object_makers(column: Field, masks: bool) -> dict[str, tuple[str, Callable[[Objects], bytes]]]:
    """Return what makes the entries of objects, by feature, each with the name of the field."""

    def maker(feature: str, lists: Callable[[Objects], Any]) -> Callable[[Objects], bytes]:
        def make(objects: Objects) -> bytes:
            values = lists(objects)
            return b"" if values is None else encode_feature(feature, values)

        return make

    lists = tensorflow.lists_of(column.class_id, column.class_name, column.flags, masks)
    if not column.names:
        del lists[tensorflow.TEXT]
    features = {tensorflow.PREFIX + name: each for name, each in lists.items()}
    return {name: (column.name, maker(name, each)) for name, each in features.items()}


def require_paintable(sample: Sample, column: Field) -> None:
    """Refuse a sample whose masks together have more pixels than a worker paints in a minute.

    Raises:
        BadSample: The pixels of the image times the number of its objects are more than 2^32.
    """
    objects: Objects = sample.fields.get(column.name) or Objects()
    width, height = objects.extent or (0, 0)
    if width * height * len(objects.items) > _MOST_PAINTED:
        raise BadSample(
            f"the masks of its {len(objects.items):,} objects, of {width}x{height} pixels each, "
            f"have more than {_MOST_PAINTED:,} pixels: give --resize, or leave out --object-masks"
        )


def count_without_shape(sample: Sample, column: Field) -> None:
    """Count the objects of a sample whose masks can only be their boxes."""
    objects: Objects = sample.fields.get(column.name) or Objects()
    if without := sum(not (each.polygons or each.rle) for each in objects.items):
        effect = "object with its whole box as mask, as it has no polygon"
        sample.effects = (sample.effects or Counter()) + Counter({effect: without})


def label_map(column: Field) -> bytes:
    """Return the Object Detection API's list of classes, an entry for each."""
    entries = (
        f"item {{\n  id: {column.class_id(number)}\n  name: {json.dumps(name)}\n}}\n"
        for number, name in enumerate(column.names)
    )
    return "".join(entries).encode()


def source_id(path: str) -> str:
    """Return the id of an image: its name if it is a number, as COCO's rules want, or its path."""
    stem = path.rpartition("/")[2].rpartition(".")[0]
    return str(int(stem)) if stem.isascii() and stem.isdecimal() and len(stem) < 19 else path
