"""Splits of samples with several classes each: tags, and objects in images."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import combinations_with_replacement
from pathlib import Path

import polars as pl
import pytest

import dsprep
from dsprep.splits.dealing import draw, stratify_tags
from dsprep.splits.ratios import make_ratios
from tests.images import jpeg

RATIOS = make_ratios({"train": "0.7", "val": "0.2", "test": "0.1"})


def table(count: int) -> pl.DataFrame:
    paths = pl.Series("path", [f"{number}.jpg" for number in range(count)])
    return pl.DataFrame([paths, pl.Series("index", range(count)), draw(paths, 0)])


def off(tags: Sequence[Sequence[int]], sides: Sequence[int]) -> float:
    """By how many samples the class that is furthest from its share is off."""
    counts = [Counter[int]() for _ in RATIOS.parts]
    for own, side in zip(tags, sides, strict=True):
        counts[side].update(own)
    total = sum(counts, Counter())
    return max(
        abs(counts[side][tag] - total[tag] * part / RATIOS.whole)
        for tag in total
        for side, part in enumerate(RATIOS.parts)
    )


def label_distribution(tags: Sequence[Sequence[int]], sides: Sequence[int], order: int) -> float:
    """Return how far the odds of labels on the sides are from those in the whole, on average.

    These are the measures LD (order 1; Sechidis, Tsoumakas and Vlahavas, "On the Stratification of
    Multi-Label Data", 2011) and LPD (order 2, pairs; Szymański and Kajdanowicz, "A Network
    Perspective on Stratification of Multi-Label Data", 2017), as scikit-multilearn's
    `label_combination_distribution` has them: pairs include each label with itself.
    """
    own = [set(combinations_with_replacement(sorted(each), order)) for each in tags]
    sizes, places = Counter(sides), sorted(set(sides))
    every = Counter(each for row in own for each in row)
    there = Counter((side, each) for row, side in zip(own, sides, strict=True) for each in row)

    def odds(count: int, size: int) -> float:
        return count / (size - count)

    return sum(
        abs(odds(there[side, each], sizes[side]) - odds(count, len(tags))) / len(places)
        for each, count in every.items()
        for side in places
    ) / len(every)


# LD and LPD of what scikit-multilearn 0.2.0 makes of `sets` with its IterativeStratification of
# order 1, the best of five seeds, by its own `label_combination_distribution`.
OF_SCIKIT_MULTILEARN = [(0.0026, 0.0093), (0.00666, 0.00291), (0.01912, 0.01848)]


def sets(seed: int) -> list[list[int]]:
    draw = random.Random(seed)
    if seed == 0:  # few tags, most of them often
        return [sorted({draw.randrange(6) for _ in range(draw.randrange(4))}) for _ in range(900)]
    if seed == 1:  # a long tail
        return [
            sorted({min(int(draw.paretovariate(0.7)), 40) for _ in range(draw.randrange(1, 5))})
            for _ in range(1200)
        ]
    # tags that come together
    pairs = [[0, 1], [0], [2, 3, 4], [5], [0, 5], []]
    return [draw.choices(pairs, (9, 5, 1, 1, 3, 4))[0] for _ in range(500)]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_each_class_is_divided_by_the_ratios(seed: int) -> None:
    tags = sets(seed)
    sides = stratify_tags(pl.Series("tags", tags, pl.List(pl.Int64)), table(len(tags)), RATIOS)
    drawn = random.Random(5).choices(range(3), RATIOS.parts, k=len(tags))
    assert off(tags, sides.to_list()) < 0.5 * off(tags, drawn)
    assert off(tags, sides.to_list()) <= 2.5
    counts = Counter(sides.to_list())
    wanted = [len(tags) * part / RATIOS.whole for part in RATIOS.parts]
    assert all(abs(counts[side] - count) <= len(tags) / 100 for side, count in enumerate(wanted))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_labels_and_pairs_have_the_odds_of_the_whole(seed: int) -> None:
    tags = sets(seed)
    sides = stratify_tags(pl.Series("tags", tags, pl.List(pl.Int64)), table(len(tags)), RATIOS)
    for order, reference in enumerate(OF_SCIKIT_MULTILEARN[seed], 1):
        assert label_distribution(tags, sides.to_list(), order) < 1.3 * reference


def test_groups_stay_whole() -> None:
    tags, rows = sets(1), table(1200)
    groups = pl.Series("group", [f"patient {number // 4}" for number in range(1200)])
    own = pl.Series("tags", tags, pl.List(pl.Int64))
    sides = stratify_tags(own, rows.with_columns(groups), RATIOS)
    by_group = pl.DataFrame([groups, sides]).group_by("group").n_unique()
    assert by_group["side"].max() == 1


def test_the_order_of_the_samples_does_not_matter() -> None:
    tags, rows = sets(2), table(500)
    own = pl.Series("tags", tags, pl.List(pl.Int64))
    sides = stratify_tags(own, rows, RATIOS)
    order = random.Random(3).sample(range(500), 500)
    again = stratify_tags(own[order], rows[order], RATIOS)
    assert again.to_list() == [sides[row] for row in order]


def test_split_of_tags_and_of_boxes(tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    lines = []
    for number in range(40):
        (images / f"{number:02d}.jpg").write_bytes(jpeg(number, (8, 8)))
        tags = ["haze"] * (number % 2) + ["road"] * (number % 5 == 0) + ["clear"]
        lines.append(f"{number:02d}.jpg,{' '.join(tags)}\n")
    (tmp_path / "tags.csv").write_text("image,tags\n" + "".join(lines))
    report = dsprep.split(
        images,
        tmp_path / "tags",
        labels=tmp_path / "tags.csv",
        label_columns=["tags"],
        label_separator=" ",
        ratios={"train": 0.75, "val": 0.25},
    )
    assert report.method == "stratified by the classes of each"
    assert any("each class is on each side" in note for note in report.notes)
    boxes = ["image,class_name,xmin,ymin,xmax,ymax\n"]
    boxes += [f"{n:02d}.jpg,{'rare' if n % 10 == 0 else 'often'},1,1,5,5\n" for n in range(40)]
    (tmp_path / "boxes.csv").write_text("".join(boxes))
    report = dsprep.split(
        images,
        tmp_path / "boxes",
        annotations=[tmp_path / "boxes.csv"],
        ratios={"train": 0.75, "val": 0.25},
    )
    rare = {f"{number:02d}" for number in range(0, 40, 10)}
    lists = {name: (tmp_path / "boxes" / f"{name}.lst").read_text() for name in ("train", "val")}
    assert sum(key in lists["val"] for key in (f"\t{name}.jpg" for name in rare)) == 1
