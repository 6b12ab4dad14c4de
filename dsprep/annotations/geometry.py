"""How objects move with their image: scaled, shifted, turned upright and clipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from dsprep.annotations.objects import (
    SHARES,
    Box,
    Extent,
    Move,
    Object,
    Objects,
    Polygon,
    Rle,
    Warp,
    area_of,
    box_of,
    corners_of,
    extent_of,
    pixels_of,
    visible_area,
)

# what it costs, as reports say it
_CLIPPED = "object cut at the edge of its image"
_MIRRORED = "object mirrored, whose keypoints keep their order: left ones are now right ones"
_DROPPED = "object dropped, as too little of it was left in its image"


def measured_on(objects: Objects, extent: Extent) -> Objects:
    """Return objects in the pixels of a picture, having been measured on another size of it."""
    if objects.extent is None or objects.extent == extent:
        return Objects(objects.items, extent)
    across, down = (new / old for new, old in zip(extent, objects.extent, strict=True))
    items = []
    for each in objects.items:
        runs, size, area = each.rle, (round(extent[0]), round(extent[1])), each.area
        each = _moved(each, across, down, 0, 0)
        if objects.extent == SHARES:  # areas are in pixels all the same
            each = each._replace(area=area)
        # Runs of another size than boxes are judged by callers, who know the image.
        if runs is not None and SHARES != objects.extent == (runs.width, runs.height):
            move = Move((runs.width, runs.height), size, (0, 0, *size))
            each = each._replace(rle=_resampled(runs, move))
        items.append(each)
    return Objects(tuple(items), extent)


# What an EXIF orientation does to the image that is stored (CIPA DC-008, 4.6.4): the turns that
# mirror it from left to right, from top to bottom, and that then swap its axes.
_ACROSS, _DOWN, _SWAPS = frozenset({2, 3, 7, 8}), frozenset({3, 4, 6, 7}), frozenset({5, 6, 7, 8})


def turns_of(orientation: int) -> tuple[bool, bool, bool]:
    """Return whether it mirrors from left to right, from top to bottom, and swaps the axes."""
    return orientation in _ACROSS, orientation in _DOWN, orientation in _SWAPS


def turned(objects: Objects, orientation: int) -> Objects:
    """Return objects of the upright image, having been measured on the image that is stored."""
    width, height = extent_of(objects)
    turns = turns_of(orientation)
    swaps = turns[2]
    across, left = (-1, -width) if turns[0] else (1, 0)
    down, top = (-1, -height) if turns[1] else (1, 0)

    def turn(each: Object) -> Object:
        each = _mapped(each, across, down, left, top, swaps)
        if each.rle is not None:
            from dsprep.annotations.masks import mask_of, runs_of, turned_mask

            mask = turned_mask(mask_of(each.rle), *turns)
            each = each._replace(rle=runs_of(mask))
        x0, y0, x1, y1 = each.box
        return each._replace(box=(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)))

    extent = (height, width) if swaps else (width, height)
    return Objects(tuple(map(turn, objects.items)), extent)


def moved(objects: Objects, move: Move, min_visible: float, counts: Counter[str]) -> Objects:
    """Return objects after their image has been resized and cropped; count what that cost.

    An object is dropped if less than ``min_visible`` of its area is left.
    """
    across, down = (new / old for new, old in zip(move.scaled, move.size, strict=True))
    left, top, right, bottom = move.window
    width, height = right - left, bottom - top
    crops = move.window != (0, 0, *move.scaled)
    items = []
    for each in objects.items:
        whole = _moved(each, across, down, left, top)
        if each.rle is not None:  # the whole mask: its visible pixels are counted later
            own = move._replace(window=(0, 0, *move.scaled)) if crops else move
            whole = whole._replace(rle=_resampled(each.rle, own))
        if crops:
            cut = _clipped(whole, float(width), float(height), move)
            before, after = visible_area(whole), visible_area(cut) if cut else 0.0
            if cut is None or after < min_visible * before:
                counts[_DROPPED] += 1
                continue
            counts[_CLIPPED] += cut.box != whole.box
            if whole.area is not None and before:
                cut = cut._replace(area=whole.area * after / before)
            whole = cut
        items.append(whole)
    return Objects(tuple(items), (width, height))


def warped(
    objects: Objects, warp: Warp, size: tuple[int, int], min_visible: float, counts: Counter[str]
) -> Objects:
    """Return objects after their image of this size has been warped; count what that cost."""
    a, b, c, d, e, f = warp.forward
    scale = abs(a * e - b * d)
    is_straight = b == d == 0
    frame = Move(size, size, (0, 0, *size))

    def points(values: Sequence[float]) -> Any:
        found = [*values]
        found[::2] = [a * x + b * y + c for x, y in corners_of(tuple(values))]
        found[1::2] = [d * x + e * y + f for x, y in corners_of(tuple(values))]
        return tuple(found)

    items = []
    for each in objects.items:
        x0, y0, x1, y1 = each.box
        polygons = tuple(map(points, each.polygons))
        # A box that is not upright any more becomes the box around what it was around, as far as
        # a polygon or a mask tells that; else around what is visible of its corners' polygon.
        corners = points((x0, y0, x1, y0, x1, y1, x0, y1))
        box = box_of(polygons if polygons and not is_straight else [corners])
        is_outline = not (polygons or each.rle or is_straight)
        polygons = (corners,) if is_outline else polygons
        before, runs = sum(map(area_of, polygons)) or scale * pixels_of(each.rle), each.rle
        if runs is not None:
            from dsprep.annotations.masks import mask_of, runs_of, warped_mask

            mask = warped_mask(mask_of(runs), warp._replace(mask_fill=0))
            runs, edges = runs_of(mask), mask.getbbox()
            if edges is None or not (polygons or is_straight):
                box = tuple(map(float, edges or (0, 0, 0, 0)))  # type: ignore[assignment]
        keypoints = tuple(
            value
            for x, y, seen in _points(each)
            for value in ((*points((x, y)), seen) if seen else (0.0, 0.0, 0.0))
        )
        whole = each._replace(box=box, polygons=polygons, rle=runs, keypoints=keypoints)
        before = before or visible_area(whole)
        cut = _clipped(whole, float(size[0]), float(size[1]), frame)
        after = visible_area(cut) if cut else 0.0
        if cut is None or after < min_visible * before:
            counts[_DROPPED] += 1
            continue
        counts[_CLIPPED] += after < 0.999 * before
        cut = cut._replace(polygons=()) if is_outline else cut
        if keypoints and a * e - b * d < 0:
            counts[_MIRRORED] += 1
        if each.area is not None and before:
            cut = cut._replace(area=each.area * scale * min(1.0, after / before))
        items.append(cut)
    return Objects(tuple(items), objects.extent)


def _moved(each: Object, across: float, down: float, left: float, top: float) -> Object:
    moved = _mapped(each, across, down, left, top)
    return moved if each.area is None else moved._replace(area=each.area * across * down)


def _mapped(
    each: Object, across: float, down: float, left: float, top: float, swaps: bool = False
) -> Object:
    """Return an object whose points are others; runs and the area stay as they are."""

    def points(values: Sequence[float]) -> Any:
        found = [*values]
        found[swaps::2] = [x * across - left for x in values[::2]]
        found[not swaps :: 2] = [y * down - top for y in values[1::2]]
        return tuple(found)

    box, number, flags, polygons, rle, keypoints, id, area, more = each
    if keypoints:
        # COCO writes 0 0 0 for a keypoint that is not labeled.
        keypoints = tuple(
            value
            for x, y, seen in _points(each)
            for value in ((*points((x, y)), seen) if seen else (0.0, 0.0, 0.0))
        )
    polygons = tuple(map(points, polygons)) if polygons else ()
    return Object(points(box), number, flags, polygons, rle, keypoints, id, area, more)


def _points(each: Object) -> Iterator[tuple[float, float, float]]:
    """Return x, y and visibility of each keypoint."""
    return zip(*(each.keypoints[at::3] for at in range(3)), strict=True)


def _clipped(each: Object, width: float, height: float, move: Move) -> Object | None:
    """Return the part of an object inside the image; None if nothing of it is."""
    runs = each.rle
    x0, y0, x1, y1 = each.box
    box: Box = max(x0, 0.0), max(y0, 0.0), min(x1, width), min(y1, height)
    polygons = tuple(filter(None, (clip(polygon, width, height) for polygon in each.polygons)))
    if each.polygons:
        if not polygons:
            return None
        box = box_of(polygons)
    if runs is not None:
        runs, edges = _cropped(runs, move)
        if not polygons and pixels_of(runs) < pixels_of(each.rle):
            if edges is None:
                return None
            x0, y0, x1, y1 = edges
            box = max(box[0], x0), max(box[1], y0), min(box[2], x1), min(box[3], y1)
    if box[0] >= box[2] or box[1] >= box[3]:
        return None
    keypoints = (
        (x, y, seen) if 0 <= x <= width and 0 <= y <= height else (0.0, 0.0, 0.0)
        for x, y, seen in _points(each)
    )
    return each._replace(
        box=box, polygons=polygons, rle=runs, keypoints=tuple(chain.from_iterable(keypoints))
    )


def clip(polygon: Polygon, width: float, height: float) -> Polygon:
    """Return the part of a polygon inside an image; empty if nothing of it is.

    Sutherland and Hodgman's algorithm: each edge of the image cuts off what lies beyond it.
    """
    corners = corners_of(polygon)
    for axis, edge, keeps_below in (
        (0, 0.0, False),
        (1, 0.0, False),
        (0, width, True),
        (1, height, True),
    ):
        found = []
        for at, corner in enumerate(corners):
            last = corners[at - 1]
            inside, was_inside = (
                each[axis] <= edge if keeps_below else each[axis] >= edge for each in (corner, last)
            )
            if inside != was_inside:
                share = (edge - last[axis]) / (corner[axis] - last[axis])
                other = last[1 - axis] + share * (corner[1 - axis] - last[1 - axis])
                found.append((edge, other) if axis == 0 else (other, edge))
            if inside:
                found.append(corner)
        corners = found
    flat = tuple(chain.from_iterable(corners))
    return flat if len(corners) > 2 and area_of(flat) > 0 else ()


def _cropped(runs: Rle, move: Move) -> tuple[Rle, tuple[int, int, int, int] | None]:
    """Return the runs of a mask that is cropped, and the box around what is left of it."""
    from dsprep.annotations.masks import mask_of, runs_of

    mask = mask_of(runs).crop(move.window)
    return runs_of(mask), mask.getbbox()


def _resampled(runs: Rle, move: Move) -> Rle:
    """Return the runs of a mask that is resized to the nearest pixels, and cropped."""
    from dsprep.annotations.masks import mask_of, moved_mask, runs_of

    return runs_of(moved_mask(mask_of(runs), move))
