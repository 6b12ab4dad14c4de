"""MDS: beside what MosaicML Streaming wrote, which lies in `tests/formats/mds`."""

from __future__ import annotations

import json
import shutil
import struct
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import dsprep
from dsprep.errors import BadSample, DamagedShard, OptionError, RunStopped, SourceError
from dsprep.formats import mds as module
from dsprep.formats.mds import Mds, MdsWriter
from dsprep.formats.mds_values import coding_of
from dsprep.formats.stream import ShardStream
from dsprep.sample import Sample
from dsprep.schema import Field, Schema
from tests.conftest import Finished
from tests.formats import mds_peer
from tests.images import image_folder, jpeg

GOLDEN = Path(__file__).with_name("mds")
RunHere = Callable[..., Finished]


def layout_of(**fields: str) -> Mds:
    schema = Schema(tuple(Field(name, kind) for name, kind in fields.items()))
    return Mds().arranged(schema)[0]


def written(layout: Mds, samples: list[Sample], path: Path, room: int = 0) -> MdsWriter:
    with closing(layout.open_writer(str(path), "", room or len(samples))) as writer:
        for sample in samples:
            writer.add(sample)
        writer.finish()
    return writer


class TestBesideTheRealOne:
    def test_its_shards_and_its_index_come_out_byte_for_byte(
        self, run_here: RunHere, tmp_path: Path
    ) -> None:
        # through TFRecord, so that nothing is copied
        run_here("convert", GOLDEN / "plain", tmp_path / "tf", "--to", "tfrecord", "-q")
        how = ("--to", "mds", "--name", "shard.{i:05d}", "--target-size", "1MB", "-q")
        assert run_here("convert", tmp_path / "tf", tmp_path / "out", *how).code == 0
        for name in ("shard.00000.mds", "index.json"):
            assert (tmp_path / "out" / name).read_bytes() == (GOLDEN / "plain" / name).read_bytes()

    def test_every_encoding_is_read(self, tmp_path: Path) -> None:
        dsprep.convert(GOLDEN / "all", tmp_path / "rows", to="parquet", target_size=10**6)
        files = sorted((tmp_path / "rows").glob("*.parquet"))
        rows = [row for file in files for row in pq.read_table(file).to_pylist()]
        assert [row["caption"] for row in rows] == [f"Bild nº {number}" for number in range(4)]
        row = rows[3]
        exact = {
            "any": [0, 1, 2, 3],
            "big": 3,
            "blob": b"\3\0\xff",
            "double": 1.0,
            "exact": 1.0,
            "fixed": [0, 1, 2, 3, 4, 5],
            "floats": [0, 0.5, 1, 1.5, 2],
            "half": 1.5,
            "label": 0,
            "money": "0.75",
            "n16": -3,
            "n32": 3 << 20,
            "n64": 3 << 40,
            "n8": 3,
            "single": 0.75,
        }
        assert {name: row[name] for name in exact} == exact
        assert json.loads(row["info"]) == {"a": [3, None], "b": "x"}
        assert row["frames"] == [row["image"]["bytes"]] * 2
        assert row["shots"] == [row["image"]["bytes"]]
        assert row["bare"]["bytes"][:4] == row["second"]["bytes"][:4] == b"\x89PNG"

    def test_samples_with_every_encoding_are_written_as_they_were(self, tmp_path: Path) -> None:
        copied, raw = tmp_path / "copied", tmp_path / "raw"
        dsprep.convert(GOLDEN / "all", copied, to="mds")
        dsprep.convert(GOLDEN / "all", raw, to="mds", check="header")  # parsed, and laid out again
        for name in ("shard.00000.mds", "shard.00001.mds"):
            content = _samples_of(GOLDEN / "all" / name)
            assert content == _samples_of(copied / name) == _samples_of(raw / name)

    def test_columns_that_are_left_out_are_in_no_shard(self, tmp_path: Path) -> None:
        report = dsprep.convert(GOLDEN / "all", tmp_path / "out", to="mds", drop=("info", "any"))
        assert (report.samples, report.rejects) == (4, [])
        (shard, *_) = json.loads((tmp_path / "out" / "index.json").read_text())["shards"]
        (whole, *_) = json.loads((GOLDEN / "all" / "index.json").read_text())["shards"]
        assert shard["column_names"] == [
            name for name in whole["column_names"] if name not in ("info", "any")
        ]
        assert not dsprep.verify(tmp_path / "out").problems

    def test_keys_of_others_tell_keys(self, tmp_path: Path) -> None:
        columns = {"__key__": "str", "image": "jpeg", "label": "int"}
        names = ("a/b.c.jpg", "x.1", "plain")
        rows = [{"__key__": name, "image": jpeg(1), "label": 1} for name in names]
        mds_peer.write(tmp_path / "in", columns, [rows])
        dsprep.convert(tmp_path / "in", tmp_path / "w", to="webdataset")
        keys = keys_in(tmp_path / "w" / "shard.00000.tar")
        assert keys == ["a/b_c", "x_1", "plain"]
        dsprep.convert(tmp_path / "in", tmp_path / "out", to="mds", check="header")
        assert mds_peer.read(tmp_path / "out") == rows

    @pytest.mark.parametrize("name", ["plain", "zstd", "gz", "merged"])
    def test_its_data_sets_are_read(self, name: str, tmp_path: Path) -> None:
        count = 5 if name == "merged" else 4
        report = dsprep.convert(GOLDEN / name, tmp_path / "w", to="tfrecord", target_size=10**6)
        assert (report.samples, report.rejects, report.skipped_counts) == (count, [], {})
        verified = dsprep.verify(GOLDEN / name)
        assert (verified.samples, verified.problems) == (count, [])

    def test_its_sides_stay_apart(self, tmp_path: Path) -> None:
        report = dsprep.convert(GOLDEN / "sides", tmp_path / "w", to="tfrecord")
        assert report.sides == {"train": 3, "val": 1}

    def test_the_peer_of_other_tests_agrees_with_it(self, tmp_path: Path) -> None:
        samples = mds_peer.read(GOLDEN / "plain")
        columns = {"__key__": "str", "image": "jpeg", "label": "int"}
        mds_peer.write(tmp_path / "out", columns, [samples])
        for name in ("shard.00000.mds", "index.json"):
            assert (tmp_path / "out" / name).read_bytes() == (GOLDEN / "plain" / name).read_bytes()

    def test_a_pickled_column_is_refused_by_its_name(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="the column 'thing' is pickled"):
            dsprep.convert(GOLDEN / "pickled", tmp_path / "w", to="webdataset", no_image=True)
        with pytest.raises(SourceError, match="the column 'thing' is pickled"):
            dsprep.verify(GOLDEN / "pickled")


def keys_in(path: Path) -> list[str]:
    """The keys of the samples of a tar, each once."""
    with tarfile.open(path) as tar:
        return list(dict.fromkeys(name.rpartition(".")[0] for name in tar.getnames()))


def _samples_of(path: Path) -> bytes:
    data = path.read_bytes()
    (count,) = struct.unpack_from("<I", data)
    return data[struct.unpack_from("<I", data, 4)[0] :] + b"%d" % count


class TestDataSets:
    @pytest.fixture
    def photos(self, tmp_path: Path) -> Path:
        image_folder(tmp_path / "photos", per_class=5)
        (tmp_path / "photos" / "dog" / "004.jpg").unlink()
        return tmp_path / "photos"

    def test_sides_are_directories_with_an_index_each(self, photos: Path, tmp_path: Path) -> None:
        out = tmp_path / "out"
        how = {"to": "mds", "split": "train=0.7,val=0.3", "samples_per_shard": 3}
        report = dsprep.pack(photos, out, **how)
        assert [shard.name for shard in report.shards][-1] == "val/val-00000.mds"
        assert {path.parent.name for path in out.rglob("index.json")} == {"train", "val"}
        keys = {
            side: {sample["__key__"] for sample in mds_peer.read(out / side)}
            for side in ("train", "val")
        }
        assert len(keys["train"]) + len(keys["val"]) == 9
        assert not keys["train"] & keys["val"]
        assert not dsprep.verify(out, against=photos).problems
        back = dsprep.convert(out, tmp_path / "w", to="webdataset")
        assert back.sides == {side: len(own) for side, own in keys.items()}
        # one side alone knows its classes
        alone = dsprep.convert(out / "val", tmp_path / "val", to="webdataset")
        assert (alone.samples, alone.classes) == (len(keys["val"]), ("cat", "dog"))
        (out / "val" / "other.mds").write_bytes(b"")
        assert [each.file for each in dsprep.verify(out).problems] == ["val/other.mds"]

    def test_other_sides_replace_them(self, photos: Path, tmp_path: Path) -> None:
        out = tmp_path / "out"
        dsprep.pack(photos, out, to="mds", split="train=0.7,val=0.3")
        with pytest.raises(OptionError, match="--apart: mds has a directory for each side"):
            dsprep.pack(photos, tmp_path / "x", to="mds", split="train=0.7,val=0.3", apart=True)
        dsprep.pack(photos, out, to="mds", overwrite=True)
        assert {path.name for path in out.iterdir()} == {
            *("classes.txt", "index.json", "manifest.json", "train-00000.mds")
        }

    def test_sides_of_machines_join(self, tmp_path: Path) -> None:
        for name in ("a", "b"):
            photos = tmp_path / f"photos-{name}"
            image_folder(photos, per_class=4 + (name == "a"))
            how = {"split": "train=0.6,val=0.4", "to": "mds", "name": name}
            dsprep.pack(photos, tmp_path / name, **how)
        joined = dsprep.join([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
        assert joined.samples == 18
        read = [mds_peer.read(tmp_path / "out" / side) for side in ("train", "val")]
        assert sum(map(len, read)) == 18
        assert not dsprep.verify(tmp_path / "out").problems

    @pytest.mark.parametrize("compression", ["gzip", "zstd"])
    def test_compressed_shards_tell_both_sizes(
        self, photos: Path, tmp_path: Path, compression: str
    ) -> None:
        out = tmp_path / "out"
        report = dsprep.pack(photos, out, to="mds", compression=compression, target_size=6000)
        assert "--target-size is the size of shards before they are compressed" in report.notes
        dsprep.pack(photos, tmp_path / "raw", to="mds", target_size=6000)
        entries = json.loads((out / "index.json").read_text())["shards"]
        for entry, plain in zip(entries, sorted((tmp_path / "raw").glob("*.mds")), strict=True):
            assert entry["raw_data"]["basename"] == plain.name
            more = len(json.dumps(entry["compression"])) - len("null")
            assert entry["raw_data"]["bytes"] == plain.stat().st_size + more <= 6000
            packed = out / entry["zip_data"]["basename"]
            assert entry["zip_data"]["bytes"] == packed.stat().st_size
            with ShardStream(str(packed)) as stream:
                samples = [each.sample for each in Mds().read(stream)]
            assert len(samples) == entry["samples"]
        assert not dsprep.verify(out, against=photos).problems
        again = dsprep.shard(out, tmp_path / "again", samples_per_shard=2)
        assert again.samples == 9

    def test_zstd_without_its_package(
        self, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dsprep.formats.stream.find_spec", lambda name: None)
        with pytest.raises(OptionError, match="pip install zstandard"):
            dsprep.pack(photos, tmp_path / "out", to="mds", compression="zstd")
        with pytest.raises(SourceError, match="pip install zstandard"):
            dsprep.convert(GOLDEN / "zstd", tmp_path / "w", to="webdataset")

    def test_a_target_of_four_gibibytes_is_refused(self, photos: Path, tmp_path: Path) -> None:
        with pytest.raises(OptionError, match="has fewer than 4 GiB"):
            dsprep.pack(photos, tmp_path / "out", to="mds", target_size=1 << 32)

    def test_a_missing_value_is_refused_by_its_field(self, tmp_path: Path) -> None:
        columns = {"image": "jpeg", "label": "int", "__key__": "str"}
        mds_peer.write(tmp_path / "in", columns, [[{"image": jpeg(1), "label": 1, "__key__": "a"}]])
        schema = Schema((Field("image", "image"), Field("label", "class", True)), "image", "label")
        with pytest.raises(OptionError, match="samples may lack 'label': .* --drop label"):
            dsprep.convert(tmp_path / "in", tmp_path / "out", to="mds", schema=schema)

    def test_samples_that_lack_a_value_are_left_out_by_a_schema(
        self, photos: Path, tmp_path: Path
    ) -> None:
        names = [path.relative_to(photos).as_posix() for path in sorted(photos.rglob("*.jpg"))]
        rows: list[dict[str, object]] = [{"file_name": name, "caption": name} for name in names]
        del rows[1]["caption"]
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (photos / "metadata.jsonl").write_text(text)
        told = tmp_path / "schema.json"
        how: dict[str, Any] = {"workers": 1, "dry_run": True, "schema_out": told}
        dsprep.pack(photos, tmp_path / "out", to="webdataset", **how)
        told.write_text(told.read_text().replace('"missing": true', '"missing": false'))
        report = dsprep.pack(photos, tmp_path / "out", to="mds", schema=told, workers=1)
        assert report.samples == len(names) - 1
        (reject,) = report.rejects
        assert reject.reason == "lacks the field 'caption', which all samples have by --schema"


class TestWriter:
    SAMPLES = [Sample(f"k{number}", {"a": number}) for number in range(5)]

    def test_rejects_leave_no_gap(self, tmp_path: Path) -> None:
        layout = layout_of(a="int")
        one = written(layout, self.SAMPLES, tmp_path / "one")
        two = written(layout, self.SAMPLES, tmp_path / "two", room=400_000)  # moves by blocks
        assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
        assert (one.bytes, one.crc32c) == (two.bytes, two.crc32c)

    def test_a_longer_file_of_an_earlier_run_is_cut(self, tmp_path: Path) -> None:
        (tmp_path / "one").write_bytes(bytes(10_000))
        writer = written(layout_of(a="int"), self.SAMPLES, tmp_path / "one")
        assert (tmp_path / "one").stat().st_size == writer.bytes < 1000

    def test_a_shard_that_offsets_cannot_tell_stops_the_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_LARGEST", 250)
        with pytest.raises(RunStopped, match="4 GiB or more.*give --target-size"):
            written(layout_of(a="int"), self.SAMPLES, tmp_path / "one")

    @pytest.mark.parametrize(
        ("kind", "value", "problem"),
        [
            ("list<int>", (), r"'a' is an empty list, .* --cast a=json"),
            ("list<int>", (1 << 63,), "'a' cannot be a value"),
            ("text", "\ud800", "'a' cannot be a value"),
            ("int", None, "lacks the field 'a'"),
        ],
    )
    def test_values_that_it_cannot_hold(self, kind: str, value: object, problem: str) -> None:
        with pytest.raises(BadSample, match=problem):
            layout_of(a=kind).encode(Sample("k", {"a": value}))


class TestDamage:
    @pytest.mark.parametrize(
        ("at", "data", "problem"),
        [
            (0, b"\xff\xff\xff\xff", "the first bytes are not those"),
            (4, b"\0\0\0\0", "the first bytes are not those"),
            (8, b"\0\0\0\0", "the offsets of samples are not in order"),
            (40, b"\xff", "does not describe columns"),
        ],
    )
    def test_of_the_head(self, tmp_path: Path, at: int, data: bytes, problem: str) -> None:
        whole = (GOLDEN / "plain" / "shard.00000.mds").read_bytes()
        path = tmp_path / "shard.00000.mds"
        path.write_bytes(whole[:at] + data + whole[at + len(data) :])
        with ShardStream(str(path)) as stream, pytest.raises(DamagedShard, match=problem):
            list(Mds().read(stream))
        with pytest.raises(SourceError, match=problem):
            dsprep.convert(path, tmp_path / "w", to="webdataset")

    def test_a_shard_with_other_columns_is_named(self, tmp_path: Path) -> None:
        for name in ("plain", "all"):
            shutil.copy(GOLDEN / name / "shard.00000.mds", tmp_path / f"{name}.mds")
        report = dsprep.verify(tmp_path)
        problems = [(each.file, each.message) for each in report.problems]
        assert len(problems) == 1
        assert problems[0][0] == "plain.mds"
        assert "its columns are others than those of the first shard" in problems[0][1]


def test_lists_of_texts_are_read_again_as_such(tmp_path: Path) -> None:
    root = tmp_path / "in"
    root.mkdir()
    for name in ("a", "b"):
        (root / f"{name}.jpg").write_bytes(jpeg())
    rows = [f'{name}.jpg,"a, \u00fc {n}"\n' for name in ("a", "b") for n in (1, 2)]
    (root / "captions.txt").write_text("image,caption\n" + "".join(rows), "utf-8")
    dsprep.pack(root, tmp_path / "mds", to="mds")
    assert not dsprep.verify(tmp_path / "mds", against=root).problems
    dsprep.convert(tmp_path / "mds", tmp_path / "again", to="webdataset")
    with tarfile.open(next((tmp_path / "again").glob("*.tar"))) as tar:
        told = [json.load(tar.extractfile(n)) for n in tar.getnames() if n.endswith(".json")]  # type: ignore[arg-type]
    assert told == [{"caption": ["a, \u00fc 1", "a, \u00fc 2"]}] * 2


@pytest.mark.parametrize("data", [b'["a", "b"]', b'["a",1]', b'["a"', b'["\\ud800"]', b'{"a":1}'])
def test_other_json_keeps_its_bytes(data: bytes) -> None:
    coding = coding_of("json")
    assert coding.decode(data) == data and coding.encode(data) == data
    assert coding.encode(coding.decode(b'["a","b"]')) == b'["a","b"]'
