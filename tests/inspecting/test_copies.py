"""Copies in a measured table: which samples are alike, and which of them stay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from dsprep.images.phash import perceptual_hash
from dsprep.inspecting.copies import find_copies, order_to_keep

FAR = 0xFFFF0000FFFF  # a hash that differs from small numbers in many bits
FEW = settings(max_examples=60, deadline=None)


def measured(
    hashes: Sequence[int | None],
    digests: Sequence[int | None] | None = None,
    labels: Sequence[str] | None = None,
    **columns: Any,
) -> pl.DataFrame:
    """Return what measuring these images gives; all have bytes of their own without digests."""
    count = len(hashes)
    own = range(count) if digests is None else digests
    table = {
        "path": [f"{row}.jpg" for row in range(count)],
        "side": [""] * count,
        "labels": [[each] for each in labels or ["cat"] * count],
        "objects": [None] * count,
        "digest": [None if each is None else bytes([each]) for each in own],
        "hash": hashes,
        **dict.fromkeys(("width", "height", "bytes"), [1] * count),
    }
    types = {"hash": pl.UInt64, "digest": pl.Binary, "objects": pl.List(pl.String)}
    return pl.DataFrame({**table, **columns}, schema_overrides=types)


def found(table: pl.DataFrame, distance: int | None = 4, **rule: Any) -> pl.DataFrame:
    return find_copies(table, order_to_keep(table, **{"largest": True, **rule}), distance)


def left_out(table: pl.DataFrame, distance: int | None = 4, **rule: Any) -> list[int]:
    return sorted(found(table, distance, **rule).filter(~pl.col("keep"))["row"])


IMAGES = st.lists(
    st.tuples(st.sampled_from([0, 1, 3, 7, 15, 31, 63, 255, 1 << 40, None]), st.integers(0, 7)),
    min_size=1,
    max_size=14,
)


@FEW
@given(IMAGES, st.integers(0, 3), st.randoms(use_true_random=False))
def test_a_sample_goes_only_for_a_copy_that_stays(
    images: list[tuple[int | None, int]], distance: int, random: Random
) -> None:
    of_bytes = {digest: hash for hash, digest in images}  # equal bytes have equal hashes
    hashes = [of_bytes[digest] for _, digest in images]
    digests = [digest for _, digest in images]
    sizes = [random.randrange(3) for _ in images]
    table = measured(hashes, digests, width=sizes)

    def are_copies(left: int, right: int) -> bool:
        one, other = hashes[left], hashes[right]
        near = one is not None and other is not None and (one ^ other).bit_count() <= distance
        return digests[left] == digests[right] or near

    copies = found(table, distance)
    kept = {*range(len(images))} - {*copies.filter(~pl.col("keep"))["row"]}
    assert not any(are_copies(*pair) for pair in combinations(kept, 2))
    rows = {path: row for row, path in enumerate(table["path"])}
    for row, of, bits in copies.select("row", "copy_of", "distance").iter_rows():
        assert (of is None) == (row in kept)
        if of is not None:
            assert rows[of] in kept
            assert are_copies(row, rows[of])
            assert sizes[rows[of]] >= sizes[row]
            assert (bits is None) == (digests[row] == digests[rows[of]])
    # A set is what a chain of copies connects.
    sets = [{row} for row in rows.values()]
    for left, right in combinations(rows.values(), 2):
        if are_copies(left, right):
            joined = [each for each in sets if each & {left, right}]
            sets = [each for each in sets if each not in joined] + [set().union(*joined)]
    numbered = copies.group_by("set").agg("row").sort("set")["row"].to_list()
    expected = sorted(sorted(each) for each in sets if len(each) > 1)
    assert [sorted(each) for each in numbered] == expected


def test_the_ends_of_a_chain_stay() -> None:
    frames = measured([0b0, 0b1111, 0b11111111, 0b111111111111])
    assert left_out(frames) == [1, 3]
    copies = found(frames)
    assert copies["set"].to_list() == [1] * 4
    assert copies["path"].to_list() == ["0.jpg", "1.jpg", "2.jpg", "3.jpg"]
    assert copies["copy_of"].to_list() == [None, "0.jpg", None, "2.jpg"]


def test_flat_images_are_compared_by_bytes_alone() -> None:
    assert left_out(measured([None, None, None, 5], [1, 1, 2, 3])) == [1]
    assert found(measured([None] * 3, [None] * 3)).is_empty()


def test_without_a_distance_only_bytes_count() -> None:
    assert left_out(measured([0, 0, 0], [1, 2, 1]), None) == [2]


def test_copies_with_other_labels_all_stay() -> None:
    table = measured([0, 1, 3, FAR, FAR], labels=["cat", "dog", "cat", "cat", "cat"])
    assert left_out(table) == [4]
    copies = found(table)
    assert copies["conflict"].to_list() == [True, True, True, False, False]
    assert copies["copy_of"].to_list() == [None, "0.jpg", "0.jpg", None, "3.jpg"]


def test_a_label_that_is_missing_is_another() -> None:
    table = measured([0, 0]).with_columns(labels=pl.Series([["cat"], []]))
    assert left_out(table) == []


def test_classes_of_objects_are_labels() -> None:
    objects = pl.Series([["dog", "cat"], ["cat", "dog", "dog"], ["cat"]])
    nothing = pl.Series([[]] * 3, dtype=pl.List(pl.String))
    table = measured([0, 0, FAR]).with_columns(labels=nothing, objects=objects)
    assert left_out(table) == [1]


@pytest.mark.parametrize(
    ("rule", "order"),
    [
        ({"largest": True}, [2, 1, 0, 3]),  # by pixels, then by bytes; training comes last
        ({"largest": False}, [0, 1, 2, 3]),
        ({"largest": True, "named": pl.Series(["3.jpg", "gone.jpg"])}, [3, 2, 1, 0]),
    ],
)
def test_which_one_stays(rule: dict[str, Any], order: list[int]) -> None:
    table = measured([0] * 4, side=["val", "test", "val", "train2017"])
    sizes = {"width": [2, 4, 4, 9], "height": [3, 2, 2, 9], "bytes": [9, 5, 6, 9]}
    table = table.with_columns(**{name: pl.Series(values) for name, values in sizes.items()})
    assert order_to_keep(table, **rule).to_list() == order
    assert found(table, **rule)["row"].to_list() == order


# Flat images


def pages(draw_on: Any, count: int = 12) -> list[int]:
    """Return the hashes of scans that have one."""
    scans = []
    for seed in range(count):
        levels = np.random.default_rng(seed)
        scan = Image.fromarray(levels.normal(250, 2, (550, 425)).clip(0, 255).astype(np.uint8))
        draw_on(scan, Random(seed))
        scans.append(perceptual_hash(scan, 1))
    return [each for each in scans if each is not None]


def speck(scan: Image.Image, random: Random) -> None:
    at = random.randrange(400), random.randrange(500)
    ImageDraw.Draw(scan).ellipse((*at, at[0] + 3, at[1] + 3), fill=90)


def shade(scan: Image.Image, random: Random) -> None:
    turn, depth = random.uniform(0, 2 * math.pi), random.uniform(20, 60)
    y, x = np.mgrid[-1:1:550j, -1:1:425j]  # type: ignore[misc]
    shaded = 180 + depth * (math.cos(turn) * x + math.sin(turn) * y)
    scan.paste(Image.fromarray(shaded.astype(np.uint8)))


def text(scan: Image.Image, random: Random) -> None:
    for y in range(40, 500, 9):
        x, end = 40, 385 if random.random() < 0.8 else random.randrange(60, 385)
        while x < end:
            width = random.randrange(6, 40)
            ImageDraw.Draw(scan).rectangle((x, y, x + width, y + 4), fill=60)
            x += width + 5


def test_empty_pages_and_gradients_are_flat() -> None:
    assert pages(speck) == []
    assert pages(shade) == []


def test_pages_of_text_are_not_copies() -> None:
    hashes = pages(text)
    assert len(hashes) == 12
    assert found(measured(hashes)).is_empty()
