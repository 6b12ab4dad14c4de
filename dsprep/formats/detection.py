"""MXNet's label for detection: ``A B [A-2 more] (class xmin ymin xmax ymax …)*``.

A is the length of the header, B that of an object; coordinates are shares of the image's size.
"""

from __future__ import annotations


def is_header_alone(label: tuple[float, ...]) -> bool:
    """Return whether a label may be one for detection that has a header and no objects."""
    return len(label) >= 2 and label[0] == len(label) and label[1] >= 5 and label[1] % 1 == 0


def is_sized_header(label: tuple[float, ...]) -> bool:
    """Return whether a label is ``4 5 WIDTH HEIGHT``: MXNet's for an image without objects."""
    return len(label) == 4 and label[:2] == (4, 5)


def is_detection_label(label: tuple[float, ...]) -> bool:
    """Return whether a label has a header of A >= 2 numbers, then objects of B >= 5."""
    if len(label) < 7 or label[0] % 1 or label[1] % 1:
        return False
    head, width = int(label[0]), int(label[1])
    return head >= 2 and width >= 5 and len(label) > head and (len(label) - head) % width == 0
