"""MXNet's labels for detection: ``A B [A-2 more] (class xmin ymin xmax ymax …)*``.

A is the length of the header, B that of an object; coordinates are shares of the image's size. The
header is ``4 B width height`` here. A sixth number of an object says that it is difficult
(``VOC7MApMetric`` of MXNet's example of SSD).
"""

from __future__ import annotations

from collections.abc import Sequence

from dsprep.annotations.objects import APART, SHARES, Object, Objects, extent_of, numbers

MARK = (-1.0, 0.0, 0.0, 0.0, 0.0)  # the object of an image that has none


def is_detection_label(label: tuple[float, ...]) -> bool:
    """Return whether a label has a header of A >= 2 numbers, then objects of B >= 5."""
    if len(label) < 7 or label[0] % 1 or label[1] % 1:
        return False
    head, width = int(label[0]), int(label[1])
    return head >= 2 and width >= 5 and len(label) > head and (len(label) - head) % width == 0


def is_detection(label: tuple[float, ...]) -> bool:
    """Return whether a label is for detection: with objects, or a header alone, like ``2 5``."""
    is_header = len(label) >= 2 and label[0] == len(label) and label[1] >= 5 and label[1] % 1 == 0
    return is_header or is_detection_label(label)


def is_sized_header(label: tuple[float, ...]) -> bool:
    """Return whether a label is ``4 5 WIDTH HEIGHT``: MXNet's for an image without objects."""
    return len(label) == 4 and label[:2] == (4, 5)


def in_shares(label: tuple[float, ...]) -> bool:
    """Return whether the boxes of a label lie about the image, as shares of its size."""
    head, width = int(label[0]), int(label[1])
    boxes = (label[at + 1 : at + 5] for at in range(head, len(label), width))
    return all(-1 <= side <= 2 for box in boxes for side in box)


def parse(label: Sequence[float]) -> Objects:
    """Return the objects of a label."""
    label = tuple(label)
    if not is_detection(label):
        raise ValueError("is no label for detection: A B …, then class xmin ymin xmax ymax …")
    if not in_shares(label):
        raise ValueError("has boxes that are not in shares of the image's size")
    head, width = int(label[0]), int(label[1])
    rows = [numbers(label[at : at + width]) for at in range(head, len(label), width)]
    return Objects(tuple(_object(row) for row in rows if row[0] != MARK[0]), SHARES)


def _object(row: tuple[float, ...]) -> Object:
    number, x0, y0, x1, y1, *others = row
    if not number.is_integer() or number < 0:
        raise ValueError(f"{number:g} is no class number")
    flags = frozenset({"difficult"}) if others and others[0] else frozenset[str]()
    more = {"label": others[1:]} if len(others) > 1 else {}
    return Object((x0, y0, x1, y1), int(number), flags, more=more)


def write(objects: Objects, with_flags: bool = False, marks: bool = False) -> tuple[float, ...]:
    """Return the label of objects; ``marks`` gives one of class -1 to an image that has none."""
    across, down = extent_of(objects)
    label = [4.0, 6.0 if with_flags else 5.0, across, down]
    for each in objects.items:
        x0, y0, x1, y1 = each.box
        label += (each.number, x0 / across, y0 / down, x1 / across, y1 / down)
        if with_flags:
            label.append(float(not each.flags.isdisjoint(APART)))
    if marks and not objects.items:
        label += (*MARK, *([0.0] if with_flags else []))
    return tuple(label)
