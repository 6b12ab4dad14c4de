"""Outlines of shapes that are no polygons: boxes that are turned, circles and ellipses."""

from __future__ import annotations

import math

from dsprep.annotations.objects import Box, Polygon, numbers

CLOSED = "with polylines that end where they begin, which are kept as polygons"
"""What a note says of images with such lines."""
_CORNERS = 36  # of the polygon that stands for an ellipse


def turned_box(box: Box, degrees: float) -> Polygon:
    """Return the corners of a box that is turned clockwise around its center."""
    x0, y0, x1, y1 = box
    across, down = (x0 + x1) / 2, (y0 + y1) / 2
    sine, cosine = _turn(degrees)
    points: list[float] = []
    for x, y in ((x0, y0), (x1, y0), (x1, y1), (x0, y1)):
        points.append(across + (x - across) * cosine - (y - down) * sine)
        points.append(down + (x - across) * sine + (y - down) * cosine)
    return tuple(points)


def ellipse(
    across: float, down: float, wide: float, high: float, degrees: float
) -> tuple[Box, Polygon]:
    """Return the box around an ellipse, and a polygon whose corners lie on it.

    Args:
        across: The center, from the left.
        down: The center, from the top.
        wide: Half of its width, before it is turned.
        high: Half of its height, before it is turned.
        degrees: By how much it is turned clockwise.
    """
    numbers([across, down, wide, high, degrees])
    if wide < 0 or high < 0:
        raise ValueError(f"an ellipse has the radii {wide:g} and {high:g}")
    sine, cosine = _turn(degrees)
    points: list[float] = []
    for number in range(_CORNERS):
        angle = 2 * math.pi * number / _CORNERS
        x, y = wide * math.cos(angle), high * math.sin(angle)
        points.append(across + x * cosine - y * sine)
        points.append(down + x * sine + y * cosine)
    right = math.hypot(wide * cosine, high * sine)
    below = math.hypot(wide * sine, high * cosine)
    box = across - right, down - below, across + right, down + below
    return box, tuple(round(each, 3) for each in points)


def _turn(degrees: float) -> tuple[float, float]:
    """Return sine and cosine, exactly for right angles."""
    if degrees % 90 == 0:
        return ((0.0, 1.0), (1.0, 0.0), (0.0, -1.0), (-1.0, 0.0))[int(degrees // 90) % 4]
    angle = math.radians(degrees)
    return math.sin(angle), math.cos(angle)
