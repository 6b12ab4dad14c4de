"""What a format says a sample will weigh, and what shards that are cut by that weigh."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dsprep.errors import OptionError
from dsprep.formats.base import Format
from dsprep.formats.tfrecord import TFRecord
from dsprep.formats.webdataset import WebDataset
from dsprep.plan.cut import ShardSize, cut_by_bytes, cut_into, cut_pieces, plan_shards, plan_units
from dsprep.run.part import Part
from tests.formats.layouts import (
    CLASSES,
    JPEG,
    LABELS,
    LAYOUTS,
    Label,
    Picture,
    catalog_rows,
    encode,
    layout_for,
    sample_of,
    shard,
    write,
)
from tests.formats.test_contract import (
    admits,
    any_path,
    every_labeled_layout,
    every_layout,
    properties,
)

BLOCK = 512


def column(weights: list[int]) -> pl.Series:
    return pl.Series(weights, dtype=pl.Int64)


def predicted(layout: Format, samples: list[Picture]) -> list[int]:
    arranged = layout_for(layout, samples[0])
    return arranged.weights(catalog_rows(samples)).to_list()


def tells_all(layout: Format, picture: Picture) -> bool:
    """Whether the catalog knows the size of all that is written: not of dimensions, or of texts."""
    if isinstance(picture.label, tuple) and isinstance(layout, WebDataset):
        return False
    schema = layout_for(layout, picture).schema
    return schema is not None and "width" not in schema.by_name


class TestWeights:
    @every_labeled_layout
    def test_are_never_less_than_the_truth_and_little_more(
        self, layout: Format, samples: list[Picture]
    ) -> None:
        for picture, weight in zip(samples, predicted(layout, samples), strict=True):
            size = len(encode(layout, picture))
            assert size <= weight <= size + 2 * BLOCK
            if picture.path.endswith(("jpg", "jpeg")) and tells_all(layout, picture):
                assert weight == size

    @every_layout
    def test_of_any_sample(self, layout: Format) -> None:
        @properties
        @given(st.one_of([st.lists(each, min_size=1, max_size=4) for each in SIZED.values()]))
        @example([Picture(0, "a.jpg", JPEG, 2**63 - 2)])
        @example([Picture(0, "a.jpg", JPEG, -(2**63))])
        @example([Picture(0, "a.jpg", JPEG, (1e300, -1e-300))])
        @example([Picture(0, "a.jpg", JPEG, (-2.2250738585072014e-308,) * 41)])
        @example([Picture(0, "a.jpg", JPEG, (2.0, 5.0, *[-9.0, 0.0, 0.0, 1.0, 1.0] * 99))])
        @example([Picture(0, "\x01" * 200 + ".jpg", JPEG, 1)])
        @example([Picture(0, '"' * 300 + ".jpg", JPEG, 1)])
        def check(samples: list[Picture]) -> None:
            if not admits(layout, samples[0]):
                return
            weights = predicted(layout, samples)
            assert len(weights) == len(samples)
            for picture, weight in zip(samples, weights, strict=True):
                if admits(layout, picture):
                    size = len(encode(layout, picture))
                    assert weight >= size
                    if tells_all(layout, picture):
                        assert weight == size

        check()

    @every_layout
    def test_of_names_of_every_length(self, layout: Format) -> None:
        label = LABELS["detection"][0]
        samples = [Picture(0, f"{'n' * length}.jpg", JPEG, label) for length in range(1, 1100)]
        for picture, weight in zip(samples, predicted(layout, samples), strict=True):
            size = len(encode(layout, picture))
            # Were the image a WebP, its name might take two blocks more.
            assert size <= weight <= size + 2 * BLOCK

    @every_layout
    def test_of_the_largest_image(self, layout: Format) -> None:
        picture = Picture(0, "a.jpg", JPEG, LABELS["detection"][0])
        arranged = layout_for(layout, picture)
        sample = sample_of(arranged, picture)
        sample.fields |= dict.fromkeys({"width", "height"} & sample.fields.keys(), 2**31 - 1)
        assert predicted(layout, [picture])[0] >= sum(map(len, arranged.encode(sample)))

    @pytest.mark.parametrize("number", [-2, -1, 0, 126, 127, 128, 16_382, 16_383])
    def test_of_classes_that_count_from_one(self, number: int) -> None:
        layout, slack = TFRecord("inception"), []
        for label in (number, 1):  # the first two names of classes have other lengths
            picture = Picture(0, "a.jpg", JPEG, label)
            slack.append(predicted(layout, [picture])[0] - len(encode(layout, picture)))
        assert slack[0] == slack[1]

    @every_layout
    def test_of_no_samples(self, layout: Format) -> None:
        picture = Picture(0, "a.jpg", JPEG, LABELS["detection"][0])
        rows = catalog_rows([picture]).clear()
        assert layout_for(layout, picture).weights(rows).to_list() == []


finite = st.floats(allow_nan=False, allow_infinity=False)
classes: dict[str, st.SearchStrategy[Label]] = {
    "none": st.none(),
    "class": st.integers(-(2**63), 2**63 - 2),
    "several": st.lists(finite, min_size=1, max_size=9).map(tuple),
    "detection": st.sampled_from(LABELS["detection"]),
}
SIZED = {
    kind: st.builds(
        Picture,
        index=st.integers(0, 2**63 - 1),
        path=any_path,
        data=st.integers(0, 70_000).map(lambda size: JPEG[:3] + bytes(size)),
        label=label,
    )
    for kind, label in classes.items()
}
"""Pictures that all have one kind of label, by the kind."""


class TestShards:
    """A plan by target size, and the files that come of it."""

    @every_layout
    @pytest.mark.parametrize("target", [10_240, 20_480, 50_000, 102_400])
    def test_no_shard_exceeds_the_target(self, layout: Format, target: int, tmp_path: Path) -> None:
        label = LABELS["class"]
        sizes = [size * 7919 % 6_000 for size in range(60)]
        samples = [
            Picture(i, f"{CLASSES[i % 3]}/{i}.jpg", JPEG[:3] + noise(i, size), label[i % 3])
            for i, size in enumerate(sizes)
        ]
        weights, own = predicted(layout, samples), layout_for(layout, samples[0])
        plan = plan_shards(column(weights), ShardSize(target=target), own, "{}/{}".format)
        for planned in plan:
            path = write(layout, samples[planned.start : planned.stop], tmp_path / "shard")
            assert path.stat().st_size <= target
            if not layout.compressed:
                content = len(shard(layout, samples[planned.start : planned.stop]))
                assert content <= planned.bytes <= target

    @every_layout
    def test_a_sample_that_exceeds_it_is_alone(self, layout: Format) -> None:
        label = LABELS["detection"][0]
        samples = [Picture(i, f"{i}.jpg", JPEG[:3] + bytes(100), label) for i in range(9)]
        samples[4] = Picture(4, "4.jpg", JPEG[:3] + bytes(30_000), label)
        plan = plan_shards(
            column(predicted(layout, samples)), ShardSize(target=20_480), layout, "{}/{}".format
        )
        assert (4, 5) in [(planned.start, planned.stop) for planned in plan]

    @pytest.mark.parametrize(
        ("layout", "target"), [("webdataset", 10_239), ("recordio", 64), ("tfrecord-gzip", 64)]
    )
    def test_a_target_that_holds_nothing_is_refused(self, layout: str, target: int) -> None:
        with pytest.raises(OptionError, match=f"--target-size {target}: too small"):
            plan_shards(column([1]), ShardSize(target=target), LAYOUTS[layout], "{}/{}".format)
        plan_shards(column([1]), ShardSize(target=target + 1), LAYOUTS[layout], "{}/{}".format)

    @every_layout
    def test_the_largest_file_that_gzip_can_make_fits(self, layout: Format, tmp_path: Path) -> None:
        target, label = 1_000_000, LABELS["detection"][0]
        room = layout_for(layout, Picture(0, "a.jpg", JPEG, label)).capacity(target)
        assert room > target * 0.98
        overhead = len(encode(layout, Picture(0, "a.jpg", JPEG[:3], label)))
        # Some formats write an image as text, which is longer.
        more = len(encode(layout, Picture(0, "a.jpg", JPEG[:3] + bytes(30_720), label))) - overhead
        data = JPEG[:3] + noise(0, (room - overhead - 24) * 30_720 // more)
        path = write(layout, [Picture(0, "a.jpg", data, label)], tmp_path / "a")
        assert room - BLOCK - 24 < path.stat().st_size <= target


def noise(seed: int, size: int) -> bytes:
    """Bytes that do not compress."""
    import random

    return random.Random(seed).randbytes(size)


weights_and_capacity = st.integers(1, 1000).flatmap(
    lambda capacity: st.tuples(
        st.lists(st.integers(0, capacity + capacity // 8), max_size=80), st.just(capacity)
    )
)


def fewest(weights: list[int], capacity: int, most: int) -> int:
    """The fewest runs of at most the capacity and samples: those filled one after another."""
    count, filled, samples = 0, capacity + 1, 0
    for weight in weights:
        filled, samples = filled + weight, samples + 1
        if filled > capacity or samples > most:
            count, filled, samples = count + 1, weight, 1
    return count


class TestCuts:
    @properties
    @given(weights_and_capacity, st.none() | st.integers(1, 12))
    def test_by_bytes_are_as_few_shards_as_can_be(
        self, drawn: tuple[list[int], int], samples: int | None
    ) -> None:
        (weights, capacity), most = drawn, samples or 1000
        cuts = cut_by_bytes(column(weights), capacity, samples)
        assert cuts[0] == 0
        assert cuts[-1] == len(weights)
        for start, stop in pairwise(cuts):
            assert start < stop or not weights
            assert sum(weights[start:stop]) <= capacity or stop == start + 1
            assert stop - start <= most
        assert len(cuts) - 1 == max(1, fewest(weights, capacity, most))

    @properties
    @given(weights_and_capacity)
    def test_by_bytes_leave_no_runt(self, drawn: tuple[list[int], int]) -> None:
        """Every shard is within three of the heaviest samples of the mean, if all samples fit."""
        weights, capacity = drawn
        weights = [min(weight, capacity) for weight in weights]
        cuts = cut_by_bytes(column(weights), capacity)
        mean = sum(weights) / (len(cuts) - 1)
        for start, stop in pairwise(cuts):
            assert abs(sum(weights[start:stop]) - mean) <= 3 * max(weights, default=0)

    @properties
    @given(st.lists(st.integers(0, 1000), min_size=1, max_size=80), st.data())
    def test_into_a_number_of_shards(self, weights: list[int], data: st.DataObject) -> None:
        count = data.draw(st.integers(1, len(weights)))
        cuts = cut_into(column(weights), count)
        assert (cuts[0], cuts[-1], len(cuts)) == (0, len(weights), count + 1)
        assert all(start < stop for start, stop in pairwise(cuts))

    def test_are_where_shards_become_most_alike(self) -> None:
        assert cut_into(column([10, 5, 9]), 2) == [0, 1, 3]
        assert cut_into(column([9, 5, 10]), 2) == [0, 2, 3]

    def test_a_sample_that_is_alone_leaves_the_others_balanced(self) -> None:
        cuts = cut_by_bytes(column([10] * 15 + [10_000] + [10] * 15), 100)
        assert [stop - start for start, stop in pairwise(cuts)] == [8, 7, 1, 8, 7]

    def test_equal_samples_make_equal_shards(self) -> None:
        assert cut_into(column([5] * 12), 4) == [0, 3, 6, 9, 12]
        assert cut_by_bytes(column([5] * 12), 18) == [0, 3, 6, 9, 12]
        # 10 samples, 3 to a shard: 4 shards of 2 or 3, and not 3, 3, 3, 1.
        sizes = [stop - start for start, stop in pairwise(cut_by_bytes(column([5] * 10), 15))]
        assert sorted(sizes) == [2, 2, 3, 3]

    @pytest.mark.parametrize("count", [0, -1, 4])
    def test_into_more_shards_than_samples_is_refused(self, count: int) -> None:
        with pytest.raises(OptionError, match=f"{count} shards: there are 3 samples"):
            cut_into(column([1, 2, 3]), count)

    @properties
    @given(st.lists(st.integers(0, 100), min_size=1, max_size=40), st.integers(1, 500), st.data())
    def test_pieces_are_a_shard_without_gaps(
        self, sizes: list[int], piece: int, data: st.DataObject
    ) -> None:
        start = data.draw(st.integers(0, len(sizes) - 1))
        stop = data.draw(st.integers(start + 1, len(sizes)))
        pieces = cut_pieces(column(sizes), start, stop, piece)
        assert [row for low, high in pieces for row in range(low, high)] == [*range(start, stop)]
        assert all(low < high for low, high in pieces)

    def test_a_plan_numbers_and_names_its_shards(self) -> None:
        layout = LAYOUTS["recordio"]
        plan = plan_shards(column([100] * 7), ShardSize(samples=3), layout, "{}-of-{}".format)
        assert [tuple(each) for each in plan] == [
            ("0-of-3", 0, 3, 300),
            ("1-of-3", 3, 6, 300),
            ("2-of-3", 6, 7, 100),
        ]


@pytest.mark.parametrize("size", [0, 5_000, 40_000])
@pytest.mark.parametrize("samples", [1, 7, 60, 5_000, 50_000])
def test_parts_of_a_folder_get_about_equal_work(size: int, samples: int) -> None:
    weights = column([size] * samples)
    units = plan_units(weights, 64_000_000, lambda number, count: f"{number}/{count}")
    assert [units[0].start, *(unit.stop for unit in units)][:-1] == [unit.start for unit in units]
    assert (units[-1].stop, sum(unit.bytes for unit in units)) == (samples, size * samples)
    for parts in (2, 3, 7, 16):
        shares = [Part(number, parts).share(units) for number in range(parts)]
        counts = [sum(unit.stop - unit.start for unit in share) for share in shares]
        most = -(-samples // parts)  # of those that are cut exactly
        assert max(counts) <= max(most, 1.15 * samples / parts)
        assert (min(counts) > 0) == (samples >= parts)
