"""Label Studio's JSON: a task for each image, with what annotators drew in percent of its size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from dsprep.annotations.objects import SHARES, Object, box_of, numbers, polygon
from dsprep.tuples import NamedTuple
from dsprep.units import is_text

_LABELS = ("rectanglelabels", "polygonlabels", "labels")
_OVAL, _POINT, _PIXELS = "ellipses", "keypoints", "brush strokes or bitmasks"
_ROTATED, _TURNED = "rotated boxes", "regions in an image that was turned by hand"
_SEVERAL, _PAGES = "regions with several labels", "regions of a second image of a task"
_OTHER = "regions of videos or vectors"
_DRAWN = ("rectanglelabels", "rectangle", "polygonlabels", "polygon")
REFUSED: Mapping[str, str] = {
    _ROTATED: "draw a polygon instead",
    _OVAL: "draw a polygon instead",
    _POINT: "export as COCO, and give that",
    _PIXELS: 'export as "Brush labels to PNG", and give the directory with --masks',
    _TURNED: "turn the file itself, and draw again",
    _SEVERAL: "leave one label for each region",
    _PAGES: "give each image a task of its own",
    _OTHER: "draw boxes or polygons in images",
}
"""Advice for each kind of annotation that is not read."""
_SHAPES = {
    **dict.fromkeys(("ellipselabels", "ellipse"), _OVAL),
    **dict.fromkeys(("keypointlabels", "keypoint"), _POINT),
    **dict.fromkeys(("brushlabels", "brush", "magicwand", "bitmask", "bitmasklabels"), _PIXELS),
    **dict.fromkeys(("vector", "vectorlabels", "videorectangle", "videopolygon"), _OTHER),
}


class Drawn(NamedTuple):
    """What one annotator drew in an image."""

    shapes: list[tuple[str, Object]]  # with the names of their classes
    extent: tuple[float, float] | None  # the size of the image, if it is known
    refused: list[str]  # keys of `REFUSED`
    # results that have no place in an image, such as ratings, with counts
    left_out: Counter[str]
    choices: dict[str, list[str]]  # of the whole image, by the question


def chosen(task: Any) -> tuple[Mapping[str, Any] | None, int]:
    """Return the annotation of a task that counts, and how many there are.

    Of several, that is the one marked as ground truth, else the first. Cancelled ones do not count.
    """
    if not isinstance(task, dict):
        raise ValueError("is no object of JSON")
    found = task.get("annotations", task.get("completions"))
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError("has no list of annotations: export the tasks as JSON, not as JSON-MIN")
    given = [each for each in found if not each.get("was_cancelled")]
    truth = [each for each in given if each.get("ground_truth")]
    return next(iter(truth or given), None), len(given)


def drawn(annotation: Mapping[str, Any]) -> Drawn:
    """Return what an annotation has."""
    results = annotation.get("result")
    if not isinstance(results, list) or not all(isinstance(each, dict) for each in results):
        raise ValueError("has no list of results")
    found = Drawn([], None, [], Counter(), {})
    regions = {str(each.get("id")) for each in results if _is_region(each.get("value"))}
    labeled, bare = set[str](), list[str]()
    extents = set[tuple[float, float]]()
    for each in results:
        value, kind, id = each.get("value"), str(each.get("type")), str(each.get("id"))
        value = value if isinstance(value, dict) else {}
        if (why := _refusal(each, value, kind)) is not None:
            found.refused.append(why)
            continue
        if kind == "choices":
            if id in regions:
                found.left_out["choice for a single region"] += 1
            else:
                _choose(found.choices, str(each.get("from_name")), value.get("choices"))
            continue
        is_box = {"x", "y", "width", "height"} <= value.keys()
        if not is_box and "points" not in value:
            if kind in _DRAWN:
                raise ValueError(f"a region of the type {kind!r} has no sides and no points")
            found.left_out[f"{kind!r:.40} result"] += 1
            continue
        labels = next((value[name] for name in _LABELS if value.get(name)), None)
        if labels is None:
            bare.append(id)
            continue
        if not isinstance(labels, list) or not all(isinstance(name, str) for name in labels):
            raise ValueError(f"the labels of a region are {labels!r:.60}")
        if len(labels) > 1:
            found.refused.append(_SEVERAL)
            continue
        labeled.add(id)
        width, height = each.get("original_width"), each.get("original_height")
        size = SHARES
        if width and height:
            across, down = numbers([width, height])
            size = across, down
        extents.add(size)
        more = {"meta": each["meta"]} if each.get("meta") else {}
        found.shapes.append((labels[0], _shape(value, is_box, size[0], size[1], more)))
    # `Labels` and `Rectangle` make two results of one region, the first without a label.
    if unlabeled := sum(id not in labeled for id in bare):
        found.left_out["unlabeled region"] += unlabeled
    if len(extents) > 1:
        raise ValueError(f"its regions are for images of {len(extents)} sizes")
    return found._replace(extent=next(iter(extents), None))


def _is_region(value: Any) -> bool:
    return isinstance(value, dict) and ("points" in value or "x" in value)


def _choose(choices: dict[str, list[str]], question: str, chosen: Any) -> None:
    """Add what annotators chose for an image to its choices."""
    if not isinstance(chosen, list) or not all(map(is_text, chosen)):
        raise ValueError(f"the choices of {question!r:.40} are {chosen!r:.60}")
    own = choices.setdefault(question, [])
    own += [name for name in dict.fromkeys(chosen) if name not in own]


def _refusal(result: Mapping[str, Any], value: Mapping[str, Any], kind: str) -> str | None:
    """Return why a result is not read, as a key of `REFUSED`; None if it is."""
    if kind in _SHAPES:
        return _SHAPES[kind]
    if value.get("rotation"):
        (angle,) = numbers([value["rotation"]])
        if angle % 360:
            return _ROTATED
    if result.get("image_rotation"):
        return _TURNED
    return _PAGES if result.get("item_index") else None


def _shape(
    value: Mapping[str, Any], is_box: bool, width: float, height: float, more: Mapping[str, Any]
) -> Object:
    """Return an object without its class; percent become pixels."""
    if is_box:
        x, y, across, down = numbers([value[name] for name in ("x", "y", "width", "height")])
        if across < 0 or down < 0:
            raise ValueError(f"a box is {across:g} wide and {down:g} high")
        box = (
            x * width / 100,
            y * height / 100,
            (x + across) * width / 100,
            (y + down) * height / 100,
        )
        return Object(box, -1, more=more)
    points = value["points"]
    if not isinstance(points, list) or not all(
        isinstance(each, list) and len(each) == 2 for each in points
    ):
        raise ValueError(f"the points of a polygon are {points!r:.60}")
    corners = polygon([coordinate for point in points for coordinate in point])
    scaled = tuple(
        coordinate * (height if at % 2 else width) / 100 for at, coordinate in enumerate(corners)
    )
    return Object(box_of([scaled]), -1, polygons=(scaled,), more=more)
