"""What ``verify`` finds in objects and masks, which few data sets have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from dsprep.annotations.geometry import measured_on
from dsprep.annotations.masks import IGNORED
from dsprep.annotations.objects import SHARES, Extent, ObjectCounts, Objects
from dsprep.errors import BadImage, BadSample
from dsprep.images.header import read_header
from dsprep.moving import read_mask
from dsprep.sample import Sample
from dsprep.schema import Schema
from dsprep.units import format_count

_EXAMPLES = 3
_MOST_CLASSES = 20  # most classes of masks that a note names
_SLACK = 0.01  # pixels by which the rounding of 32-bit floats may move an edge


@dataclass
class ObjectsSeen:
    """The objects of some samples, and the pixels of their masks, counted."""

    classes: Counter[int] = field(default_factory=Counter)  # objects by class number
    samples: int = 0  # how many have objects
    without: int = 0  # how many have none
    outside: int = 0  # boxes that reach outside of their image
    # examples of boxes that reach outside: place and text
    examples: list[tuple[int, str]] = field(default_factory=list)
    # pixels by the field of a mask and the class number
    pixels: Counter[tuple[str, int]] = field(default_factory=Counter)

    def __add__(self, other: ObjectsSeen) -> ObjectsSeen:
        return ObjectsSeen(
            self.classes + other.classes,
            self.samples + other.samples,
            self.without + other.without,
            self.outside + other.outside,
            sorted([*self.examples, *other.examples], key=itemgetter(0))[:_EXAMPLES],
            self.pixels + other.pixels,
        )


Check = Callable[[Sample, int], Iterator[str]]
"""Says what is wrong with the objects and masks of the sample at a place."""


def make_annotation_check(
    schema: Schema, seen: ObjectsSeen, decode: bool, max_pixels: int
) -> Check | None:
    """Return what checks samples and counts their objects; None if there is nothing to check."""
    objects = schema.objects
    masks = [each for each in schema.fields if each.type == "mask"] if decode else []
    if objects is None and not masks:
        return None

    def check(sample: Sample, place: int) -> Iterator[str]:
        value: Objects = Objects()
        if objects is not None:
            value = sample.fields.get(objects.name) or value
            seen.classes.update([each.number for each in value.items])
            seen.samples += bool(value.items)
            seen.without += not value.items
        masked = [each for each in masks if each.name in sample.fields]
        if not value.items and not masked:
            return
        size = None
        try:
            header = read_header(sample.fields.get(schema.image or "") or b"")
            size = header.width, header.height
        except BadImage:  # the check of images reports a damaged image
            pass
        if objects is not None:
            yield from _wrong_boxes(value)
            if size is not None:
                _count_outside(value, size, seen, sample.key, place)
        for each in masked:
            try:
                _, mask = read_mask(sample.fields[each.name], size, len(each.names), max_pixels)
            except BadSample as error:
                text = str(error).partition(": give")[0]
                yield text if "its mask" in text else f"its mask: {text}"
            else:
                levels = enumerate(mask.histogram())
                seen.pixels.update({(each.name, number): n for number, n in levels if n})

    return check


def _wrong_boxes(value: Objects) -> Iterator[str]:
    """Say which boxes are none: the first of them."""
    boxes = [(at, *each.box) for at, each in enumerate(value.items, 1)]
    bad = [each for each in boxes if not (each[1] < each[3] and each[2] < each[4])]
    if bad:
        at, *box = bad[0]
        what = "inverted" if box[2] < box[0] or box[3] < box[1] else "empty"
        others = f"; so for {len(bad) - 1:,} more" if len(bad) > 1 else ""
        yield f"the box of object {at} is {what}: {_text(box)}{others}"


def _count_outside(value: Objects, size: Extent, seen: ObjectsSeen, key: str, place: int) -> None:
    """Count the boxes that reach outside of an image."""
    if value.extent == SHARES:
        value = measured_on(value, size)
    width, height = value.extent or size
    right, bottom = width + _SLACK, height + _SLACK
    for each in value.items:
        x0, y0, x1, y1 = each.box
        if x0 < -_SLACK or y0 < -_SLACK or x1 > right or y1 > bottom:
            seen.outside += 1
            if len(seen.examples) < _EXAMPLES:
                text = f"{_text(each.box)} in {key}, {width:g}x{height:g}"
                seen.examples.append((place, text))


def _text(box: Sequence[float]) -> str:
    return " ".join(f"{value:.7g}" for value in box)


def notes_of_objects(
    schema: Schema, seen: ObjectsSeen, counts: Counter[str], samples: int
) -> list[str]:
    """Return what a user would want to know of objects and masks that is no problem."""
    notes = []
    if seen.outside:
        count = format_count(seen.outside, "object")
        verb = "reaches" if seen.outside == 1 else "reach"
        examples = "; ".join(text for _, text in seen.examples)
        notes.append(f"{count} {verb} outside of the image: {examples}")
    for each in schema.fields:
        if each.type == "mask" and 0 < counts[each.name] < samples:
            count = format_count(samples - counts[each.name], "sample")
            notes.append(f"{count} without the mask {each.name!r} that others have")
        counted = {at: count for (name, at), count in seen.pixels.items() if name == each.name}
        if counted:
            often = sorted(counted, key=lambda number: (-counted[number], number))
            shown = [
                f"{'ignored' if at == IGNORED else each.class_name(at) or at} ({counted[at]:,})"
                for at in often[:_MOST_CLASSES]
            ]
            shown += [f"and {len(often) - _MOST_CLASSES:,} more"] if len(often) > len(shown) else []
            notes.append(f"pixels of the mask {each.name!r} by class: {', '.join(shown)}")
    return notes


def counts_of(schema: Schema, seen: ObjectsSeen) -> ObjectCounts | None:
    """Return the counts of objects as reports have them; None if there is no field of objects."""
    if schema.objects is None:
        return None
    named = {
        schema.objects.class_name(number) or str(number): count
        for number, count in sorted(seen.classes.items())
    }
    known = len(schema.objects.names) or len(named)
    return ObjectCounts(seen.classes.total(), known, seen.samples, seen.without, named)
