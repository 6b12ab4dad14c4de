"""Parquet as a target: what Hugging Face, pyarrow and polars read, and what comes back."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import struct
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dsprep.errors import BadSample, DamagedShard
from dsprep.formats.parquet import Parquet
from dsprep.formats.stream import ShardStream
from dsprep.sample import Sample, Value
from dsprep.schema import TYPES, Choice, Field, Reading, Schema
from dsprep.sources.tables.parquet import read_parquet
from tests.images import gif, jpeg, png
from tests.missing import leave_out
from tests.parquet_files import (
    IMAGE,
    catalog_of,
    images,
    layout_of,
    read_all,
    samples_of,
    typed,
    write_samples,
    write_table,
)

JPEG, PNG, GIF = jpeg(1), png(2), gif(3)
SCHEMA = Schema(
    (Field("image", "image"), Field("label", "class", names=("cat", "dog"))), "image", "label"
)
LABELED = Parquet().arranged(SCHEMA)[0]
SAMPLES = [
    Sample("cat/1", {"image": JPEG, "label": 0}, 0, "", "image"),
    Sample("dog/2", {"image": PNG, "label": 1}, 1, "dog/2.PNG", "image"),
]


def read(layout: Parquet, path: str) -> list[Sample]:
    with ShardStream(path) as stream:
        return [entry.sample for entry in layout.read(stream)]


class TestReaders:
    def test_hugging_face_finds_its_features(self, tmp_path: Path) -> None:
        path = write_samples(LABELED, SAMPLES, tmp_path / "a.parquet")
        noted = json.loads(pq.read_schema(path).metadata[b"huggingface"])
        assert noted == {
            "info": {
                "features": {
                    "image": {"_type": "Image"},
                    "label": {"names": ["cat", "dog"], "_type": "ClassLabel"},
                }
            }
        }

    def test_features_of_every_type(self, tmp_path: Path) -> None:
        path = write_samples(layout_of(**{kind: kind for kind in TYPES}), [], tmp_path / "a")
        schema = pq.read_schema(path)
        types = {each.name: str(each.type) for each in schema}
        assert types.pop("objects").startswith("struct<id: list<element: int64>, area: list<")
        assert types == {
            **dict.fromkeys(
                ("image", "mask", "raw", "raw-chw"), "struct<bytes: binary, path: string>"
            ),
            "class": "int64",
            "bool": "bool",
            "int": "int64",
            "float32": "float",
            "float64": "double",
            "text": "string",
            "json": "string",
            "bytes": "binary",
            "list<int>": "list<element: int64>",
            "list<float32>": "list<element: float>",
            "list<float64>": "list<element: double>",
            "list<text>": "list<element: string>",
            "list<bytes>": "list<element: binary>",
        }
        features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
        assert features["image"] == {"_type": "Image"}
        assert features["class"] == {"dtype": "int64", "_type": "Value"}
        assert features["float32"] == {"dtype": "float32", "_type": "Value"}
        assert features["list<float64>"] == {
            "_type": "Sequence",
            "feature": {"dtype": "float64", "_type": "Value"},
        }

    def test_numbers_without_a_name(self) -> None:
        for names, shown in ((("", "cat"), ["", "cat"]), (("", "cat", ""), ["0", "cat", "2"])):
            layout = Parquet().arranged(Schema((Field("y", "class", names=names),)))[0]
            features = json.loads(layout.arrow_schema.metadata[b"huggingface"])["info"]["features"]
            assert features == {"y": {"names": shown, "_type": "ClassLabel"}}

    def test_pyarrow_and_polars_read_the_rows(self, tmp_path: Path) -> None:
        path = write_samples(LABELED, SAMPLES, tmp_path / "a.parquet")
        expected = [
            {"image": {"bytes": JPEG, "path": "cat/1.jpg"}, "label": 0},
            {"image": {"bytes": PNG, "path": "dog/2.PNG"}, "label": 1},
        ]
        assert pq.read_table(path).to_pylist() == expected
        assert pl.read_parquet(path).to_dicts() == expected
        for row in expected:
            with Image.open(io.BytesIO(row["image"]["bytes"])) as image:  # type: ignore[index]
                image.load()

    def test_rows_lie_in_groups_of_a_hundred(self, tmp_path: Path) -> None:
        samples = [Sample(f"{i}", {"image": JPEG, "label": 0}, i) for i in range(250)]
        meta = pq.read_metadata(write_samples(LABELED, samples, tmp_path / "a.parquet"))
        assert [meta.row_group(i).num_rows for i in range(meta.num_row_groups)] == [100, 100, 50]
        columns = {
            meta.row_group(0).column(i).path_in_schema: meta.row_group(0).column(i)
            for i in range(meta.num_columns)
        }
        assert columns["image.bytes"].compression == "UNCOMPRESSED"
        assert columns["image.path"].compression == "SNAPPY"
        assert columns["image.bytes"].statistics is None

    def test_large_rows_lie_in_smaller_groups(self, tmp_path: Path) -> None:
        samples = [Sample(f"{i}", {"x": bytes(7 << 20)}, i) for i in range(5)]
        meta = pq.read_metadata(write_samples(layout_of(x="bytes"), samples, tmp_path / "a"))
        assert [meta.row_group(i).num_rows for i in range(meta.num_row_groups)] == [2, 2, 1]

    def test_names_of_shards_are_those_of_the_hub(self) -> None:
        assert Parquet().shard_name("train", 3, 10) == "train-00003-of-00010.parquet"

    def test_the_same_bytes_again(self, tmp_path: Path) -> None:
        one, two = (write_samples(LABELED, SAMPLES, tmp_path / name) for name in "ab")
        assert Path(one).read_bytes() == Path(two).read_bytes()


class TestColumns:
    def test_a_field_keeps_its_name(self, tmp_path: Path) -> None:
        layout = layout_of(**{"image/encoded": "image", "a.b": "text", "jpg": "int"})
        sample = Sample("k", {"image/encoded": JPEG, "a.b": "x", "jpg": 3}, 0)
        path = write_samples(layout, [sample], tmp_path / "a.parquet")
        assert pq.read_schema(path).names == ["image/encoded", "a.b", "jpg"]
        assert pq.read_table(path).to_pylist() == [
            {"image/encoded": {"bytes": JPEG, "path": None}, "a.b": "x", "jpg": 3}
        ]

    def test_images_and_masks(self, tmp_path: Path) -> None:
        layout = layout_of("image", image="image", mask="image")
        sample = Sample("a", {"image": JPEG, "mask": PNG}, 0, "a.jpg", "image")
        path = write_samples(layout, [sample], tmp_path / "a.parquet")
        assert samples_of(path) == [sample]
        assert read(layout, path)[0].fields == sample.fields

    def test_an_empty_list_is_not_a_missing_one(self, tmp_path: Path) -> None:
        kind = {"n": "list<int>", "image": "image"}
        rows: list[dict[str, Value]] = [
            {"image": JPEG, "n": ()},
            {"image": JPEG},
            {"image": JPEG, "n": (1,)},
        ]
        samples = [Sample(f"{i}", fields, i) for i, fields in enumerate(rows)]
        path = write_samples(layout_of("image", **kind), samples, tmp_path / "a.parquet")
        assert [each.fields for each in samples_of(path)] == rows

    def test_options_survive_a_manifest(self) -> None:
        raw = Parquet.of(LABELED.arrow_schema)
        for layout in (raw, Parquet()):
            assert Parquet(**json.loads(json.dumps(layout.options()))) == layout
        assert raw.arrow_schema == LABELED.arrow_schema


class TestRejects:
    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"other": 1}, "no column for its field 'other'"),
            ({"json": b"\xff"}, "the field 'json' is JSON that is not UTF-8"),
            ({"text": "\ud800"}, "not Unicode"),
        ],
    )
    def test_what_no_column_holds(
        self, tmp_path: Path, fields: dict[str, Value], reason: str
    ) -> None:
        layout = layout_of("image", image="image", json="json", text="text")
        writer = layout.open_writer(str(tmp_path / "a.parquet"), "", 9)
        writer.add(Sample("a", {"image": JPEG}, 0))
        with pytest.raises(BadSample, match=reason):
            writer.add(Sample("b", {"image": JPEG} | fields, 1))
        writer.finish()
        writer.close()
        assert [each.key for each in samples_of(str(tmp_path / "a.parquet"))] == ["a"]

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            (pa.int8(), 128),
            (pa.uint8(), -1),
            (pa.string(), b"\xff"),
            (pa.int64(), "1"),
            (pa.date32(), "yesterday"),
            (pa.list_(pa.int64()), ["a"]),
        ],
    )
    def test_what_a_column_of_another_file_holds(self, kind: Any, value: Value) -> None:
        layout = Parquet.of(pa.schema([("x", kind)]))
        with pytest.raises(BadSample, match="the field 'x' is"):
            layout.row(Sample("a", {"x": value}))


class TestWriter:
    def test_one_that_is_given_up_leaves_no_footer(self, tmp_path: Path) -> None:
        path = tmp_path / "a.parquet"
        writer = LABELED.open_writer(str(path), "", 9)
        for i in range(150):
            writer.add(Sample(f"{i}", {"image": JPEG, "label": 0}))
        writer.close()
        writer.close()
        del writer
        assert path.stat().st_size > 100 * len(JPEG)
        with pytest.raises(pa.ArrowInvalid):
            pq.read_metadata(path)

    def test_a_full_disk(self, tmp_path: Path) -> None:
        if not Path("/dev/full").exists():
            leave_out("this system has no /dev/full")
        with pytest.raises(OSError, match="No space left"):
            LABELED.open_writer("/dev/full", "", 9)

    def test_no_samples(self, tmp_path: Path) -> None:
        path = write_samples(LABELED, [], tmp_path / "a.parquet")
        assert pq.read_table(path).num_rows == 0
        assert read(LABELED, path) == []

    def test_memory_does_not_grow_with_the_file(self, tmp_path: Path) -> None:
        writer = layout_of("x", x="image").open_writer(str(tmp_path / "a.parquet"), "", 9)
        tracemalloc.start()
        for i in range(200):
            writer.add(Sample(f"{i}", {"x": bytes([i]) * (1 << 20)}, i))
        peak = tracemalloc.get_traced_memory()[1] + pa.default_memory_pool().max_memory()
        tracemalloc.stop()
        writer.finish()
        writer.close()
        assert peak < 150 << 20
        catalog, _ = read_parquet([str(tmp_path / "a.parquet")], None)
        assert len(read_all(catalog.slice(190, 3))) == 3


class TestWeights:
    @pytest.mark.parametrize("size", [0, 100, 20_000, 2_000_000])
    @pytest.mark.parametrize("count", [1, 100, 130])
    def test_a_shard_is_never_larger_than_planned(
        self, tmp_path: Path, size: int, count: int
    ) -> None:
        if size * count > 50_000_000:
            count = 25
        rows = pl.DataFrame(
            {
                "path": [f"some/class/{i}.jpg" for i in range(count)],
                "image": [size] * count,
                "cls": [i % 2 for i in range(count)],
            }
        )
        weight = LABELED.weights(rows).sum()
        fields = [{"image": JPEG[:3] + bytes(size)[3:], "label": i % 2} for i in range(count)]
        samples = [Sample(f"some/class/{i}", each, i) for i, each in enumerate(fields)]
        path = write_samples(LABELED, samples, tmp_path / "a.parquet")
        target = Path(path).stat().st_size
        assert LABELED.capacity(target) <= weight
        assert weight <= 1.001 * target + 200 * count


def copied(path: str, target: Path, choice: Choice | None = None) -> str:
    """Write the samples of a file to another, in columns as they are."""
    choice = choice or Choice()
    catalog = typed(read_parquet([path], None, choice=choice)[0], choice, raw=True)
    layout = Parquet().like(catalog.reader.table)
    return write_samples(layout, read_all(catalog), target)  # type: ignore[arg-type]


class TestCopies:
    COLUMNS = {
        "image": images([JPEG, PNG, GIF], ["x/a.jpg", None, "c.gif"]),
        "small": pa.array([1, None, 255], pa.uint8()),
        "half": pa.array([0.5, None, 2], pa.float32()).cast(pa.float16()),
        "text": pa.array(["a", None, "b"], pa.large_string()),
        "kind": pa.array(["a", "b", "a"]).dictionary_encode(),
        "when": pa.array([1, None, -(2**62)], pa.timestamp("ns")),
        "zoned": pa.array([1, None, 1_600_000_000], pa.timestamp("us", "Europe/Berlin")),
        "day": pa.array([datetime.date(2020, 1, 1), None, None]),
        "time": pa.array([1, None, 86_399_999_999_999], pa.time64("ns")),
        "wait": pa.array([1, None, 2], pa.duration("us")),
        "price": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")]),
        "box": pa.array([{"x": 1, "y": [1.5]}, None, {"x": None, "y": []}]),
        "objects": pa.array([[{"name": "a", "on": datetime.date(2020, 1, 1)}], [], None]),
        "nested": pa.array(
            [
                None,
                {"at": datetime.time(1, 2), "in": {"cost": decimal.Decimal("1.5")}},
                {"in": None},
            ]
        ),
        "grid": pa.array([[[1, 2], []], [], None], pa.list_(pa.list_(pa.int8()))),
        "pair": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float32(), 2)),
        "tags": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int32())),
        "mask": images([PNG, None, PNG], ["m.png", None, None]),
        "views": pa.array([[{"bytes": PNG, "path": "v.png"}], [], None], pa.list_(IMAGE)),
        "id": pa.array([b"0123456789abcdef"] * 3, pa.binary(16)),
    }

    def test_columns_stay_as_they_are(self, tmp_path: Path) -> None:
        features = {"image": {"_type": "Image"}, "small": {"dtype": "uint8", "_type": "Value"}}
        path = write_table(tmp_path / "a.parquet", self.COLUMNS, features=features)
        before, after = (
            pq.read_table(each) for each in (path, copied(path, tmp_path / "b.parquet"))
        )
        assert after.schema.equals(before.schema, check_metadata=True)
        assert after.equals(before)
        again = copied(copied(path, tmp_path / "c.parquet"), tmp_path / "d.parquet")
        assert Path(again).read_bytes() == (tmp_path / "b.parquet").read_bytes()

    def test_columns_of_nulls_stay_unless_some_are_left_out(self, tmp_path: Path) -> None:
        nulls = {"void": pa.nulls(1), "none": pa.nulls(1, pa.int8()), "__index_level_0__": [7]}
        path = write_table(tmp_path / "a.parquet", {"image": images([JPEG]), "n": [1]} | nulls)
        names = pq.read_schema(copied(path, tmp_path / "b.parquet")).names
        assert names == ["image", "n", "void", "none"]
        without = copied(path, tmp_path / "c.parquet", Choice(drop=("n",)))
        assert pq.read_schema(without).names == ["image"]

    def test_some_are_left_out_with_their_features(self, tmp_path: Path) -> None:
        features = {name: {"dtype": "x", "_type": "Value"} for name in ("image", "small", "day")}
        path = write_table(tmp_path / "a.parquet", self.COLUMNS, features=features)
        choice = Choice(only=("image", "day"))
        table = pq.read_table(copied(path, tmp_path / "b.parquet", choice))
        assert table.schema.names == ["image", "day"]
        noted = json.loads(table.schema.metadata[b"huggingface"])
        assert list(noted["info"]["features"]) == ["image", "day"]
        assert table.equals(pq.read_table(path, columns=["image", "day"]))

    def test_columns_of_several_files(self, tmp_path: Path) -> None:
        one = {"image": images([JPEG]), "n": pa.array([1], pa.int32()), "x": pa.nulls(1)}
        two = {"image": images([PNG]), "n": pa.array([2], pa.int64()), "x": ["a"], "y": [0.5]}
        paths = [write_table(tmp_path / f"{i}.parquet", each) for i, each in enumerate((one, two))]
        catalog = typed(read_parquet(paths, None)[0], raw=True)
        layout = Parquet().like(catalog.reader.table)
        path = write_samples(layout, read_all(catalog), tmp_path / "b.parquet")  # type: ignore[arg-type]
        assert pq.read_table(path, columns=["n", "x", "y"]).to_pylist() == [
            {"n": 1, "x": None, "y": None},
            {"n": 2, "x": "a", "y": 0.5},
        ]

    def test_another_image(self, tmp_path: Path) -> None:
        path = write_table(tmp_path / "a.parquet", {"jpg": [JPEG], "n": [1], "key": ["a"]})
        catalog = typed(read_parquet([path], None)[0], raw=True)
        (sample,) = read_all(catalog)
        assert isinstance(sample, Sample) and sample.image == "jpg"
        sample.fields["jpg"] = PNG
        layout = Parquet().like(catalog.reader.table)
        table = pq.read_table(write_samples(layout, [sample], tmp_path / "b.parquet"))
        assert table.to_pylist() == [{"jpg": PNG, "n": 1, "key": "a"}]
        assert table.schema == pq.read_schema(path)

    def test_an_image_beside_the_file_is_taken_in(self, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(PNG)
        column = pa.array([{"bytes": None, "path": "a.png"}])
        path = write_table(tmp_path / "a.parquet", {"image": column})
        table = pq.read_table(copied(path, tmp_path / "b.parquet"))
        assert table.to_pylist() == [{"image": {"bytes": PNG, "path": "a.png"}}]

    def test_samples_that_are_added_to_copied_columns(self, tmp_path: Path) -> None:
        columns = {name: self.COLUMNS[name] for name in self.COLUMNS if name != "views"}
        path = write_table(tmp_path / "a.parquet", columns)
        catalog = catalog_of(path, choice=Choice(drop=("tags",)))
        schema = catalog.settled.schema  # type: ignore[union-attr]
        layout = replace(Parquet().like(catalog.reader.table), schema=schema)
        table = pq.read_table(write_samples(layout, read_all(catalog), tmp_path / "b.parquet"))  # type: ignore[arg-type]
        before = pq.read_table(path).drop_columns(["tags"])
        assert table.schema.equals(before.schema, check_metadata=True)
        for name in set(before.column_names) - {"image", "mask"}:
            assert table[name].equals(before[name]), name
        with pytest.raises(BadSample, match="the field 'small' is 256"):
            layout.row(Sample("x", {"image": JPEG, "small": 256}))


FLOAT32 = st.floats(width=32, allow_nan=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INTS = st.integers(-(2**63), 2**63 - 1)
SCALARS: dict[str, st.SearchStrategy[Value]] = {
    "image": st.sampled_from([JPEG, PNG, GIF]),
    "class": INTS,
    "bool": st.booleans(),
    "int": INTS,
    "float32": FLOAT32,
    "float64": st.floats(allow_nan=False),
    "text": TEXT,
    "bytes": st.binary(max_size=8).filter(lambda data: not data.startswith(b"\xff\xd8")),
}
VALUES = SCALARS | {
    f"list<{name}>": st.lists(SCALARS[name], max_size=3).map(tuple)
    for name in ("int", "float32", "float64", "text", "bytes")
}
NAMES = TEXT.filter(lambda name: name and "\x00" not in name and name.lower() not in ("0", "y"))
KEYS = st.from_regex(r"[a-zé0-9_ ]+(/[a-zé0-9_ -]+)?", fullmatch=True)


@st.composite
def data_sets(draw: st.DrawFn) -> tuple[Schema, list[Sample]]:
    """Samples of a schema."""
    fields = [Field("image", "image"), Field("label", draw(st.sampled_from(["class", "float64"])))]
    for name in draw(st.lists(NAMES, max_size=4, unique=True)):
        fields.append(Field(name, draw(st.sampled_from(list(VALUES))), missing=True))
    samples = []
    for id, key in enumerate(draw(st.lists(KEYS, min_size=1, max_size=5, unique=True))):
        values = {
            each.name: draw(VALUES[each.type])
            for each in fields
            if not each.missing or draw(st.booleans())
        }
        samples.append(Sample(key, values, id, "", "image"))
    return Schema(tuple(fields), "image", "label"), samples


@settings(max_examples=150, deadline=None)
@given(data_sets())
def test_any_samples_come_back(
    tmp_path_factory: pytest.TempPathFactory, data: tuple[Schema, list[Sample]]
) -> None:
    schema, samples = data
    layout, notes = Parquet().arranged(schema)
    assert notes == [] and layout.schema is not None
    path = tmp_path_factory.mktemp("p") / "a.parquet"
    write_samples(layout, samples, path)
    reading = Reading(layout.schema, layout)
    for found in (read_all(catalog_of(str(path))), list(map(reading, read(layout, str(path))))):
        assert [each.key for each in found] == [each.key for each in samples]  # type: ignore[union-attr]
        assert [each.fields for each in found] == [each.fields for each in samples]  # type: ignore[union-attr]
    told = catalog_of(str(path)).settled.schema  # type: ignore[union-attr]
    held = {name for each in samples for name in each.fields}
    assert [(each.name, each.type) for each in told.fields] == [
        (each.name, "int" if each.type == "class" and each.name != "label" else each.type)
        for each in schema.fields
        if each.name in held
    ]
    assert (told.image, told.label) == ("image", "label")
    copy = copied(str(path), path.with_name("b.parquet"))
    assert pq.read_table(copy).equals(pq.read_table(path, columns=pq.read_schema(copy).names))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damage_is_told_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("p") / "a.parquet"
    write_samples(LABELED, SAMPLES * 3, path)
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        read(LABELED, str(path))
    except DamagedShard as error:
        assert str(path) in str(error)


def test_a_float_of_32_bits_stays_one() -> None:
    (tenth,) = struct.unpack("<f", struct.pack("<f", 0.1))
    row, size = layout_of(x="float32").row(Sample("a", {"x": tenth}))
    assert row == [tenth] and size > 8
