"""Parquet as a target: what Hugging Face, pyarrow and polars read, and what comes back."""

from __future__ import annotations

import io
import json
import tracemalloc
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dsprep.errors import BadSample, DamagedShard, OptionError
from dsprep.formats.arrow_cells import infer_columns
from dsprep.formats.parquet import Parquet, parquet_for
from dsprep.formats.stream import ShardStream
from dsprep.sample import Blobs, Floats, Ints, Sample, Value
from dsprep.sources.parquet import read_parquet
from tests.images import gif, jpeg, png
from tests.unit.parquet_files import read_all, samples_of, write_samples

JPEG, PNG, GIF = jpeg(1), png(2), gif(3)
LABELED = Parquet((("image", "image"), ("label", "class")), ("cat", "dog"))
SAMPLES = [
    Sample("cat/1", {"jpg": JPEG, "cls": 0}, 0),
    Sample("dog/2", {"png": PNG, "cls": 1}, 1),
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
        kinds = ("string", "binary", "bool", "int64", "uint8", "float", "double", "list<int32>")
        layout = Parquet(tuple((kind, kind) for kind in kinds))
        path = write_samples(layout, [], tmp_path / "a.parquet")
        schema = pq.read_schema(path)
        assert [str(each.type) for each in schema] == [*kinds[:-1], "list<element: int32>"]
        features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
        value: dict[str, Any] = {"_type": "Value"}
        assert features == {
            **{kind: value | {"dtype": kind} for kind in kinds[:5]},
            "float": value | {"dtype": "float32"},
            "double": value | {"dtype": "float64"},
            "list<int32>": {"_type": "Sequence", "feature": value | {"dtype": "int32"}},
        }

    def test_pyarrow_and_polars_read_the_rows(self, tmp_path: Path) -> None:
        path = write_samples(LABELED, SAMPLES, tmp_path / "a.parquet")
        expected = [
            {"image": {"bytes": JPEG, "path": "cat/1.jpg"}, "label": 0},
            {"image": {"bytes": PNG, "path": "dog/2.png"}, "label": 1},
        ]
        assert pq.read_table(path).to_pylist() == expected
        assert pl.read_parquet(path).to_dicts() == expected
        for row in expected:
            with Image.open(io.BytesIO(row["image"]["bytes"])) as image:  # type: ignore[index]
                image.load()

    def test_rows_lie_in_groups_of_a_hundred(self, tmp_path: Path) -> None:
        samples = [Sample(f"{i}", {"jpg": JPEG, "cls": 0}, i) for i in range(250)]
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
        samples = [Sample(f"{i}", {"bin": bytes(7 << 20)}, i) for i in range(5)]
        layout = Parquet((("image", "image"),))
        meta = pq.read_metadata(write_samples(layout, samples, tmp_path / "a.parquet"))
        assert [meta.row_group(i).num_rows for i in range(meta.num_row_groups)] == [2, 2, 1]

    def test_names_of_shards_are_those_of_the_hub(self) -> None:
        assert Parquet().shard_name("train", 3, 10) == "train-00003-of-00010.parquet"

    def test_the_same_bytes_again(self, tmp_path: Path) -> None:
        one, two = (write_samples(LABELED, SAMPLES, tmp_path / name) for name in "ab")
        assert Path(one).read_bytes() == Path(two).read_bytes()


class TestColumns:
    def test_fields_of_every_type_come_back(self, tmp_path: Path) -> None:
        fields: dict[str, Value] = {
            "jpg": JPEG,
            "cls": 3,
            "caption": "é".encode(),
            "blob": b"\xff\x00",
            "ints": Ints((1, -(2**63))),
            "one": Ints((7,)),
            "floats": Floats((0.5, -1.0)),
            "tags": Blobs((b"a", b"")),
            "class": "cat",
            "filename": "x/a.JPG",
            "width": 64,
            "id": 12,
        }
        sample = Sample("k", fields, 0)
        layout = Parquet(infer_columns([sample], Parquet()))
        assert dict(layout.columns or ()) == {
            "image": "image",
            "label": "class",
            "blob": "binary",
            "caption": "string",
            "floats": "list<float>",
            "ints": "list<int64>",
            "one": "int64",
            "tags": "list<string>",
            "class": "string",
            "width": "int64",
            "id": "int64",
            "__key__": "string",
        }
        path = write_samples(layout, [sample], tmp_path / "a.parquet")
        assert read(layout, path) == [sample]
        assert samples_of(path) == [sample]

    def test_images_and_masks(self, tmp_path: Path) -> None:
        samples = [Sample("a", {"jpg": JPEG, "png": PNG, "seg.png": GIF}, 0)]
        layout = Parquet(infer_columns(samples, Parquet()))
        path = write_samples(layout, samples, tmp_path / "a.parquet")
        assert pq.read_schema(path).names == ["image", "png", "seg.png"]
        assert samples_of(path) == samples

    def test_a_class_and_a_label(self, tmp_path: Path) -> None:
        samples = [Sample("a", {"jpg": JPEG, "cls": 2, "label": (0.5, 1.0)}, 0)]
        layout = Parquet(infer_columns(samples, Parquet()))
        path = write_samples(layout, samples, tmp_path / "a.parquet")
        assert samples_of(path) == samples

    def test_without_columns_the_first_sample_decides(self, tmp_path: Path) -> None:
        path = tmp_path / "a.parquet"
        writer = Parquet().open_writer(str(path))
        writer.add(SAMPLES[0])
        with pytest.raises(BadSample, match="no column for its field 'txt'"):
            writer.add(Sample("b", {"jpg": JPEG, "txt": b"?"}, 1))
        writer.add(SAMPLES[1])
        writer.finish()
        writer.close()
        assert samples_of(str(path)) == SAMPLES

    def test_planned_columns_hold_whatever_there_is(self, tmp_path: Path) -> None:
        fields = {("jpg", "bytes"): 1, ("png", "bytes"): 1, ("cls", "int"): 2, ("n", "Ints"): 1}
        layout = parquet_for(fields | {("txt", "bytes"): 1}, ("cat", "dog"))
        assert layout.columns == (
            ("image", "image"),
            ("label", "class"),
            ("n", "list<int64>"),
            ("txt", "binary"),
        )
        samples = [
            Sample("a", {"jpg": JPEG, "cls": 0, "n": Ints((1, 2))}, 0),
            Sample("b", {"png": PNG, "cls": 1, "txt": b"\xff"}, 1),
        ]
        assert samples_of(write_samples(layout, samples, tmp_path / "a.parquet")) == samples

    @pytest.mark.parametrize("text", ["float", "list<list<int64>>", "timestamp", "", "null"][1:])
    def test_unknown_types_are_refused(self, text: str) -> None:
        with pytest.raises(OptionError, match="'x' cannot be of type"):
            Parquet((("x", text),))

    def test_unheld(self) -> None:
        fields = {"jpg": bytes, "image": bytes, "label": tuple, "__key__": bytes, "txt": bytes}
        assert Parquet().unheld(fields) == ["image", "__key__"]
        assert Parquet().unheld({"label": bytes}) == ["label"]

    def test_options_survive_a_manifest(self) -> None:
        assert Parquet.from_options(json.loads(json.dumps(asdict(LABELED)))) == LABELED
        assert Parquet.from_options(json.loads(json.dumps(asdict(Parquet())))) == Parquet()


class TestRejects:
    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            ("int64", Ints((1, 2))),
            ("int8", Ints((128,))),
            ("uint8", Ints((-1,))),
            ("int64", Ints((2**63,))),
            ("int64", Floats((1.0,))),
            ("int64", b"1"),
            ("bool", Ints((2,))),
            ("float", Floats((1e39,))),
            ("float", Floats((16777217.0,))),
            ("float", Ints((1,))),
            ("list<float>", Ints((1,))),
            ("list<int64>", Floats((1.0,))),
            ("list<int64>", Blobs((b"a",))),
            ("list<string>", Blobs((b"\xff",))),
            ("list<binary>", Ints((1,))),
            ("string", b"\xff"),
            ("string", Ints((1,))),
            ("binary", Ints((1,))),
            ("image", Ints((1,))),
        ],
    )
    def test_what_a_column_would_change(self, tmp_path: Path, kind: str, value: Value) -> None:
        layout = Parquet((("image", "image"), ("x", kind)))
        writer = layout.open_writer(str(tmp_path / "a.parquet"))
        writer.add(Sample("a", {"jpg": JPEG}, 0))
        with pytest.raises(BadSample, match="the field 'x'"):
            writer.add(Sample("b", {"jpg": JPEG, "x": value}, 1))
        writer.finish()
        writer.close()
        assert [each.key for each in samples_of(str(tmp_path / "a.parquet"))] == ["a"]

    @pytest.mark.parametrize("number", [2, -2])
    def test_a_class_without_a_name(self, number: int) -> None:
        with pytest.raises(BadSample, match="from -1 to 1"):
            LABELED.encode(Sample("a", {"jpg": JPEG, "cls": number}))

    def test_a_key_that_no_column_holds(self) -> None:
        with pytest.raises(BadSample, match="__key__"):
            LABELED.encode(Sample("a", {"jpg": JPEG, "filename": "b.jpg"}))


class TestWriter:
    def test_one_that_is_given_up_leaves_no_footer(self, tmp_path: Path) -> None:
        path = tmp_path / "a.parquet"
        writer = LABELED.open_writer(str(path))
        for i in range(150):
            writer.add(Sample(f"{i}", {"jpg": JPEG, "cls": 0}))
        writer.close()
        writer.close()
        del writer
        assert path.stat().st_size > 100 * len(JPEG)
        with pytest.raises(pa.ArrowInvalid):
            pq.read_metadata(path)

    def test_a_full_disk(self, tmp_path: Path) -> None:
        if not Path("/dev/full").exists():
            pytest.skip("no /dev/full")
        writer = LABELED.open_writer("/dev/full")
        writer.add(SAMPLES[0])
        with pytest.raises(OSError, match="No space left"):
            writer.finish()
        writer.close()

    def test_no_samples(self, tmp_path: Path) -> None:
        path = write_samples(LABELED, [], tmp_path / "a.parquet")
        assert pq.read_table(path).num_rows == 0
        assert read(LABELED, path) == []

    def test_memory_does_not_grow_with_the_file(self, tmp_path: Path) -> None:
        layout = Parquet((("image", "image"),))
        writer = layout.open_writer(str(tmp_path / "a.parquet"))
        tracemalloc.start()
        for i in range(200):
            writer.add(Sample(f"{i}", {"bin": bytes([i]) * (1 << 20)}, i))
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
        fields = [{"jpg": JPEG[:3] + bytes(size)[3:], "cls": i % 2} for i in range(count)]
        samples = [Sample(f"some/class/{i}", each, i) for i, each in enumerate(fields)]
        path = write_samples(LABELED, samples, tmp_path / "a.parquet")
        target = Path(path).stat().st_size
        assert LABELED.capacity(target) <= weight
        assert weight <= 1.001 * target + 200 * count


BYTES = st.binary(max_size=8)
VALUES: dict[type, st.SearchStrategy[Value]] = {
    bytes: BYTES,
    Ints: st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3).map(Ints),
    Floats: st.lists(st.floats(width=32, allow_nan=False), max_size=3).map(Floats),
    Blobs: st.lists(BYTES, max_size=3).map(Blobs),
}
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(
    lambda name: (
        name
        not in {"image", "label", "cls", "class", "filename", "width", "height", "id", "__key__"}
        and name not in {"jpg", "png", "gif", "bin", "bmp", "tif", "webp"}
        and "\x00" not in name
    )
)
KEYS = st.from_regex(r"[a-zé0-9_ ]+(/[a-zé0-9_ -]+)?", fullmatch=True)


@st.composite
def data_sets(draw: st.DrawFn) -> list[Sample]:
    """Samples that all draw from the same fields, each of one type."""
    kinds = {
        name: draw(st.sampled_from(list(VALUES)))
        for name in draw(st.lists(NAMES, max_size=4, unique=True))
    }
    samples = []
    for id, key in enumerate(draw(st.lists(KEYS, min_size=1, max_size=5, unique=True))):
        fields: dict[str, Value] = {}
        kind = draw(st.sampled_from(["jpg", "png", "bin", ""]))
        if kind:
            fields[kind] = {"jpg": JPEG, "png": PNG, "bin": b"?"}[kind]
        label = draw(st.sampled_from([None, 3, -1]))
        if label is not None:
            fields["cls"] = label
        for name in sorted(kinds):
            if draw(st.booleans()):
                fields[name] = draw(VALUES[kinds[name]])
        samples.append(Sample(key, fields, id))
    return samples


@settings(max_examples=150, deadline=None)
@given(samples=data_sets(), safe=st.booleans())
def test_any_samples_come_back(
    tmp_path_factory: pytest.TempPathFactory, samples: list[Sample], safe: bool
) -> None:
    if safe:
        fields: dict[tuple[str, str], int] = {("never there", "Ints"): len(samples)}
        for sample in samples:
            for name, value in sample.fields.items():
                place = name, type(value).__name__
                fields[place] = fields.get(place, 0) + 1
        layout = parquet_for(fields, None)
    else:
        layout = Parquet().fitting(*samples)
    path = tmp_path_factory.mktemp("p") / "a.parquet"
    write_samples(layout, samples, path)
    found = samples_of(str(path))
    assert found == samples
    assert [list(each.fields) for each in found] == [list(each.fields) for each in samples]
    assert read(layout, str(path)) == samples


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
