"""The model of what images weigh after a transform."""

from __future__ import annotations

import random
from io import BytesIO
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import dsprep
from dsprep.catalog import COLUMNS, PLACE_COLUMNS, Catalog
from dsprep.places.archive import ArchiveReader, CompressedTarReader
from dsprep.plan.weigh import SAMPLE, TOLERANCE, fit, some_of
from tests.sources.boxes import box, coco, write


def test_a_power_law_is_found() -> None:
    draw = random.Random(1)
    source = [draw.randrange(10_000, 1_000_000) for _ in range(200)]
    model = fit(source, [round(3 * size**0.7) for size in source])
    assert model.power == pytest.approx(0.7, abs=0.01)
    assert model.predict(250_000) == pytest.approx(3 * 250_000**0.7, rel=0.01)


def test_images_that_come_out_alike_are_predicted_alike() -> None:
    model = fit([100, 900, 5_000], [50, 50, 50])
    assert {model.predict(size) for size in (1, 10_000)} == {50}


def test_the_prediction_is_right_in_total() -> None:
    draw = random.Random(2)
    source = [draw.randrange(1_000, 100_000) for _ in range(300)]
    encoded = [round(size**0.8 * draw.uniform(0.7, 1.3)) for size in source]
    model = fit(source, encoded)
    assert sum(map(model.predict, source)) == pytest.approx(sum(encoded), rel=0.001)


@given(
    st.lists(st.tuples(st.integers(1, 10**9), st.integers(1, 10**9)), min_size=1, max_size=50),
    st.integers(1, 10**9),
)
def test_no_sizes_break_it(pairs: list[tuple[int, int]], size: int) -> None:
    model = fit(*(list(column) for column in zip(*pairs, strict=True)))
    assert 0 <= model.power <= 1
    assert model.predict(size) >= 1
    assert 0 <= model.safe_capacity(10**6, 1000.0) <= 10**6


def test_shards_stay_within_the_tolerance_though_sizes_scatter() -> None:
    """Plan many shards of random sizes with the model, and weigh them."""
    draw = random.Random(3)
    source = [draw.randrange(20_000, 200_000) for _ in range(60_000)]
    encoded = [round(2 * size**0.8 * draw.lognormvariate(0, 0.3)) for size in source]
    model = fit(source[:SAMPLE], encoded[:SAMPLE])
    predicted = [model.predict(size) for size in source]
    capacity = 300 * sum(predicted) // len(predicted)
    room = model.safe_capacity(capacity, sum(predicted) / len(predicted))
    filled = real = shards = 0
    for guess, size in zip(predicted, encoded, strict=True):
        if filled + guess > room:
            assert real <= capacity * (1 + TOLERANCE)
            filled = real = 0
            shards += 1
        filled += guess
        real += size
    assert shards > 150


@pytest.mark.parametrize("share", [0.2, 1.0])
def test_images_that_are_turned_upright_count_as_they_are_written(
    tmp_path: Path, share: float
) -> None:
    """They become JPEG of quality 90, and may be twice as large as before."""
    files: dict[str, str | bytes | None] = {}
    for number in range(300):
        exif, out = Image.Exif(), BytesIO()
        exif[0x0112] = 6 if number < 300 * share else 1
        Image.effect_noise((96, 64), 90).save(out, "JPEG", quality=30, exif=exif)
        files[f"{number}.jpg"] = out.getvalue()
    images = [{"id": at, "file_name": name} for at, name in enumerate(files)]
    files["instances_a.json"] = coco([], [box(1, 1)], images=images)
    source = write(tmp_path / "source", files)
    dsprep.pack(source, tmp_path / "out", to="tfrecord", target_size=100_000)
    sizes = [path.stat().st_size for path in (tmp_path / "out").glob("*.tfrecord*")]
    assert len(sizes) > 3
    assert 60_000 < max(sizes) <= 100_000


def test_a_sample_is_limited_in_samples_and_bytes() -> None:
    """The limits never depend on a clock, so that the same input gives the same shards."""

    def tried(size: int, reader: ArchiveReader) -> pl.DataFrame:
        table = pl.DataFrame({"index": range(2000)}, schema={"index": pl.Int64}).with_columns(
            path=pl.col("index").cast(pl.String) + ".jpg",
            size=pl.lit(size, pl.Int64),
            mtime=pl.lit(0, pl.Int64),
            file=pl.lit(0, pl.Int64),
            offset=pl.col("index") * size,
            stored=pl.lit(size, pl.Int64),
        )
        columns = [*COLUMNS, *PLACE_COLUMNS]
        found = some_of(Catalog(table.select(columns), "a.tar", None, reader)).table
        assert found.equals(some_of(Catalog(table.select(columns), "a.tar", None, reader)).table)
        return found

    seekable = ArchiveReader("a.tar", 1, None)
    assert len(tried(100_000, seekable)) == SAMPLE
    assert len(tried(10_000_000, seekable)) == 108  # of a gigabyte
    assert len(tried(1_000_000_000, seekable)) == 16
    assert tried(10_000_000, seekable)["index"].max() > 1000
    # What is compressed as a whole is unpacked up to the last sample that is tried.
    streamed = CompressedTarReader("a.tar.gz", 1, None, unpacked=2000 * 10_000_000)
    assert tried(10_000_000, streamed)["index"].max() < 430
    assert len(tried(10_000_000_000, streamed)) == 16
