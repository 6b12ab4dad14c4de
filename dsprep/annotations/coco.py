"""COCO's annotations: the objects of an image as items of the list ``annotations``.

A box is x, y, width and height in pixels, a polygon the edges of pixels, crowds are runs of pixels
down the columns (cocodataset.org, "Data format").
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise, repeat
from typing import TYPE_CHECKING, Any

from dsprep.annotations.masks import mask_of
from dsprep.annotations.objects import (
    BoxesAlone,
    BoxSummary,
    Object,
    box_of,
    box_of_sides,
    is_id,
    keypoints,
    numbers,
    plain,
    polygon,
    rle,
)

if TYPE_CHECKING:
    import polars as pl

_KNOWN = frozenset(
    ("id", "image_id", "category_id", "bbox", "area", "iscrowd", "segmentation", "keypoints")
    + ("num_keypoints",)
)
_CROWD, _GROUP, _PLAIN = frozenset({"crowd"}), frozenset({"group_of"}), frozenset[str]()
_ROUNDED = 1  # pixels by which two files may tell one edge of a box
_NO_MORE: Mapping[str, Any] = {}
# An annotation of a box alone, as most are: of numbers that Python and polars read and write alike,
# because none is below 0, or so large or small that it needs an exponent. Captures are the last of
# each key, as JSON has it. Keys of one beginning stand together: so no byte is looked at twice.
_SPACE = r"[ \t\r\n]*"
_IS = f'"{_SPACE}:{_SPACE}'
_ID = r"0|[1-9][0-9]{0,17}"
_PIXELS = r"[1-9][0-9]{0,8}(?:\.[0-9]+)?|0(?:\.(?:[1-9][0-9]*|0(?:0{0,2}[1-9][0-9]*)?))?"
_SIDES = f"{_SPACE},{_SPACE}".join(f"(?P<{side}>{_PIXELS})" for side in "xywh")
_BOX_ALONE = (
    rf'^\{{{_SPACE}(?:"(?:i(?:d{_IS}(?P<id>{_ID})|mage_id{_IS}(?:{_ID})|scrowd{_IS}0)'
    rf"|category_id{_IS}(?P<category>{_ID})|area{_IS}(?P<area>{_PIXELS})"
    rf"|segmentation{_IS}\[{_SPACE}\]|bbox{_IS}\[{_SPACE}{_SIDES}{_SPACE}\])"
    rf"{_SPACE}(?:,{_SPACE}|\}}$))+$"
)


def parse(texts: Sequence[bytes], classes: Mapping[int, int]) -> tuple[Object, ...]:
    """Return the objects of an image, from texts of annotations, and class numbers by id."""
    try:  # one text takes half the time of many
        items = json.loads(b"[%s]" % b",".join(texts))
    except (ValueError, RecursionError):
        items = map(json.loads, texts)
    found = []
    for each in items:
        try:
            found.append(parse_object(each, classes))
        except ValueError as error:
            raise ValueError(f"annotation {each.get('id')!r:.40}: {error}") from None
    return tuple(found)


def joined(objects: Sequence[Object]) -> tuple[Object, ...]:
    """Return objects with the keypoints that later ones of the same id have for them.

    So COCO has persons: in a file of instances, and with keypoints in one of persons.
    """
    found: list[Object] = []
    places: dict[int | None, int] = {}  # by id
    for each in objects:
        at = places.setdefault(each.id, len(found))
        if each.id is None or at == len(found) or found[at].keypoints or not each.keypoints:
            found.append(each)
            continue
        own = found[at]
        differ = max(abs(a - b) for a, b in zip(own.box, each.box, strict=True)) > _ROUNDED
        if differ or own.number != each.number:
            what = "box" if differ else "category"
            raise ValueError(f"the id {each.id} has another {what} in each file")
        found[at] = own._replace(keypoints=each.keypoints, more={**own.more, **each.more})
    return tuple(found)


def parse_boxes(
    texts: pl.Series, counts: Sequence[int], classes: Mapping[Any, int]
) -> list[BoxesAlone | None]:
    """Return the objects of images whose objects are boxes alone; None for other images.

    They are those of :func:`parse`, in a tenth of the time; but polars has to be loaded first.

    Args:
        texts: The texts of annotations, image after image; null for one that could not be read.
        counts: How many annotations each image has; 1 or more.
        classes: Class numbers by id.
    """
    import polars as pl

    table = _table_of(texts, classes)
    made = list[Object]()

    def find() -> Sequence[Object]:
        if not made:
            made.extend(_objects_of(table))
        return made

    flat = (pl.col("x") >= pl.col("right")) | (pl.col("y") >= pl.col("bottom"))
    images = pl.Series(range(len(counts)), dtype=pl.UInt32).repeat_by(pl.Series(counts)).explode()
    text, number = pl.col("text"), pl.col("number")
    known = table.with_columns(flat=flat, image=images).group_by("image", maintain_order=True).agg(
        *(text, pl.min("x", "y"), pl.max("right", "bottom"), pl.sum("flat")),
        *(number.min().alias("least"), number.max().alias("most")),
        is_whole=text.is_not_null().all(),
    )  # fmt: skip
    known = known.select(
        pl.when("is_whole").then(text.list.join(",")).alias("text"),
        *("x", "y", "right", "bottom", "flat", "least", "most"),
    )
    summaries = map(partial(tuple.__new__, BoxSummary), known.iter_rows())
    ends = pairwise(accumulate(counts, initial=0))
    return [
        None if summary.text is None else BoxesAlone(find, slice(*part), summary)
        for part, summary in zip(ends, summaries, strict=True)
    ]


def _table_of(texts: pl.Series, classes: Mapping[Any, int]) -> pl.DataFrame:
    """Return a row for each annotation; its ``text`` is null if it is no box alone."""
    import polars as pl

    found = texts.str.extract_groups(_BOX_ALONE).struct.unnest()
    x, y, width, height, area = (pl.col(name).cast(pl.Float64) for name in (*"xywh", "area"))
    ids = [id for id in classes if type(id) is int and id < 2**63]
    number = pl.col("category").cast(pl.Int64).replace_strict(
        ids, [classes[id] for id in ids], default=None, return_dtype=pl.Int64
    )  # fmt: skip
    table = found.select(
        *(x, y, (x + width).alias("right"), (y + height).alias("bottom")),
        *(number.alias("number"), pl.col("id").cast(pl.Int64), area),
    )
    joints = ('{"box":[', ",", ",", ",", '],"class":')
    columns = "x", "y", "right", "bottom", "number"
    said = [part for pair in zip(map(pl.lit, joints), columns, strict=True) for part in pair]
    more = [pl.lit(f',"{name}":') + pl.col(name).cast(pl.String) for name in ("id", "area")]
    text = pl.concat_str(*said, *more, pl.lit("}"), ignore_nulls=True)
    is_whole = pl.col("x").is_not_null() & pl.col("number").is_not_null()
    return table.with_columns(text=pl.when(is_whole).then(text))


def _objects_of(table: pl.DataFrame) -> Iterator[Object]:
    left, top, right, bottom, numbers, ids, areas, _ = (each.to_list() for each in table)
    # Without a line of Python for each of them, which takes half the time.
    rows = zip(
        *(zip(left, top, right, bottom, strict=True), numbers, repeat(_PLAIN), repeat(())),
        *(repeat(None), repeat(()), ids, areas, repeat(_NO_MORE)),
        strict=False,
    )
    return map(partial(tuple.__new__, Object), rows)


def parse_object(values: Mapping[str, Any], classes: Mapping[int, int]) -> Object:
    """Return the object of one annotation."""
    number = classes.get(values.get("category_id"))  # type: ignore[arg-type]
    if number is None:
        raise ValueError(f"the category {values.get('category_id')!r:.60} is not in categories")
    shape, crowd = values.get("segmentation"), values.get("iscrowd")
    if crowd not in (None, 0, 1):
        raise ValueError(f"iscrowd is {crowd!r:.40}, not 0 or 1")
    if shape and type(shape) not in (list, dict):
        raise ValueError(f"segmentation is {shape!r:.40}: neither polygons nor runs")
    runs = rle(shape) if type(shape) is dict else None
    polygons = tuple(map(polygon, shape)) if shape and type(shape) is list else ()
    found = values.get("bbox")
    if found:
        box = box_of_sides(found)
    elif polygons:
        box = box_of(polygons)
    elif runs is not None and (edges := mask_of(runs).getbbox()) is not None:
        x0, y0, x1, y1 = map(float, edges)
        box = x0, y0, x1, y1
    else:
        raise ValueError("has no bbox, and no segmentation that tells it")
    flags = _PLAIN
    if crowd:  # dsprep writes group-of as a crowd, and says so
        flags = _GROUP if values.get("group_of") == 1 else _CROWD
    area, points = values.get("area"), values.get("keypoints")
    return Object(
        box,
        number,
        flags,
        polygons,
        runs,
        keypoints(points) if points else (),
        values["id"] if is_id(values.get("id")) else None,
        None if area is None else numbers([area])[0],
        {}
        if values.keys() <= _KNOWN
        else plain({name: value for name, value in values.items() if name not in _KNOWN | flags}),
    )
