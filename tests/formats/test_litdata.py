"""litdata: what it wrote, which lies in `tests/formats/litdata`, and what is wrong with chunks."""

from __future__ import annotations

import io
import json
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from PIL import Image

import dsprep
from dsprep.errors import DamagedShard, DsprepError, OptionError, SourceError
from dsprep.formats import stream
from dsprep.formats.litdata import LitData
from tests.attack.trees import contents
from tests.conftest import Finished
from tests.formats import litdata_peer
from tests.images import jpeg
from tests.kills import run_and_kill

GOLDEN = Path(__file__).with_name("litdata")
RunHere = Callable[..., Finished]


def rows_of(source: Path, tmp_path: Path, **how: Any) -> list[dict[str, Any]]:
    """Return the rows of Parquet that a source becomes."""
    out = tmp_path / "parquet"
    report = dsprep.convert(source, out, to="parquet", overwrite=True, **how)
    assert not report.rejects
    files = [out / shard.name for shard in report.shards]
    return [row for file in files for row in pq.read_table(file).to_pylist()]


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(GOLDEN / name, tmp_path / "in"))


def change_config(directory: Path, **config: Any) -> None:
    index = json.loads((directory / "index.json").read_text())
    index["config"] |= config
    (directory / "index.json").write_text(json.dumps(index))


class TestBesideTheRealOne:
    def test_every_serializer_is_read(self, tmp_path: Path) -> None:
        rows = rows_of(GOLDEN / "all", tmp_path)
        assert [row["caption"] for row in rows] == [f"Bild nº {number}" for number in range(4)]
        row = rows[2]
        exact = {
            "blob": b"\2\0\xff",
            "box": [0.5, 1.0, 2 / 3],
            "codes": [0, 1, 2, 3],
            "day": True,
            "file": b"RIFF",
            "grid": [0, 0.5, 1, 1.5],
            "info/a": 2,
            "info/b/c": "x",
            "label": 2,
            "names": ["a", "b"],
            "score": 2 / 3,
            "tensor": [2, 3, 4, 5, 6, 7],
            "vector": [0, 1, 2],
            "whole": 2,
        }
        assert {name: row[name] for name in exact} == exact
        assert json.loads(row["people"]) == [{"age": 2, "name": "Ä", "tall": None}]
        chunk = (GOLDEN / "all" / "chunk-0-0.bin").read_bytes()
        for data in (row["image"]["bytes"], row["third"]["bytes"], *row["frames"]):
            assert data.startswith(b"\xff\xd8")
            assert data in chunk
        assert row["tiff"]["bytes"][:2] == b"II" and row["second"]["bytes"] in chunk
        with Image.open(io.BytesIO(row["bare"]["bytes"])) as image:
            assert (image.format, image.mode, image.size) == ("PNG", "RGB", (10, 6))
            assert image.getpixel((0, 0)) == (80, 195, 17)

    def test_compressed_chunks_hold_what_others_hold(self, tmp_path: Path) -> None:
        expected = [
            {"image": {"bytes": row["image"]["bytes"]}, **{k: row[k] for k in ("label", "caption")}}
            for row in rows_of(GOLDEN / "sides" / "train", tmp_path)
        ]
        assert len(expected) == 5
        for name in ("batch", "chunk", "sample"):
            for workers in (1, 2):
                rows = rows_of(GOLDEN / name, tmp_path, workers=workers)
                for row in rows:
                    del row["image"]["path"]
                assert rows == expected, name

    def test_rows_of_arrow(self, tmp_path: Path) -> None:
        for name in ("rows", "rows-zstd"):
            row = next(row for row in rows_of(GOLDEN / name, tmp_path) if row["label"] == 2)
            assert row["info"] == {"a": 2, "b": {"c": "x"}}
            assert (row["names"], row["label"], row["score"]) == (["a", "b"], 2, 2 / 3)
            assert row["image"].startswith(b"\xff\xd8")

    def test_tuples_have_the_names_of_positions(self, tmp_path: Path) -> None:
        rows = rows_of(GOLDEN / "pairs", tmp_path, label_field="1")
        assert [row["label"] for row in rows] == [0, 1, 2, 0, 1]
        assert [row["2"] for row in rows] == [[number, number + 1] for number in range(5)]

    @pytest.mark.parametrize("name", ["batch", "rows"])
    def test_sides_are_directories(self, name: str, tmp_path: Path) -> None:
        for side in ("train", "val"):
            shutil.copytree(GOLDEN / name, tmp_path / "in" / side)
        report = dsprep.convert(tmp_path / "in", tmp_path / "out", to="mds")
        count = 5 if name == "batch" else 4
        assert report.sides == {"train": count, "val": count}

    def test_any_number_of_workers_and_parts_writes_the_same(
        self, run_here: RunHere, tmp_path: Path
    ) -> None:
        for name in ("all", "batch", "sample", "rows"):
            found = []
            for kind, *runs in (("one", "-j1"), ("three", "-j3"), ("parts", "1/2", "0/2")):
                out = tmp_path / f"{name}-{kind}"
                how = ("--to", "tfrecord", "--seed", "3", "--samples-per-shard", "2", "-q")
                for each in runs:
                    own = (each,) if kind != "parts" else ("--part", each, "-j1")
                    assert run_here("pack", GOLDEN / name, out, *how, *own).code == 0
                found.append([path.read_bytes() for path in sorted(out.glob("*.tfrecord*"))])
            assert found[0] == found[1] == found[2] != []

    def test_a_killed_run_goes_on(self, run_here: RunHere, tmp_path: Path) -> None:
        how = ("--to", "mds", "--samples-per-shard", "2", "-qj1")
        assert run_here("convert", GOLDEN / "batch", tmp_path / "whole", *how).code == 0
        words = ("convert", str(GOLDEN / "batch"), str(tmp_path / "out"), *how)
        assert run_and_kill("name train-00001.mds", words).returncode == -9
        assert run_here(*words).code == 0
        assert contents(tmp_path / "out") == contents(tmp_path / "whole")

    def test_copies_are_made_of_its_images(self, run_here: RunHere, tmp_path: Path) -> None:
        how = ("--to", "mds", "--op", "hflip", "--per-image", "1", "-qj1")
        assert run_here("augment", GOLDEN / "batch", tmp_path / "out", *how).code == 0
        done = run_here("verify", tmp_path / "out", "--against", GOLDEN / "batch", "-j1")
        assert (done.code, "10 of 10 samples (image)" in done.out) == (0, True)

    def test_verify_and_inspect(self, run_here: RunHere, tmp_path: Path) -> None:
        for name in ("all", "batch", "chunk", "rows", "rows-zstd", "sample", "sides/train"):
            assert not dsprep.verify(GOLDEN / name).problems, name
        dsprep.convert(GOLDEN / "batch", tmp_path / "out", to="webdataset")
        assert not dsprep.verify(tmp_path / "out", against=GOLDEN / "batch").problems
        assert "5" in run_here("inspect", GOLDEN / "batch").out


def test_the_writer_of_the_tests_writes_what_litdata_writes(tmp_path: Path) -> None:
    columns = {"image": "jpeg", "label": "int", "caption": "str"}
    rows = rows_of(GOLDEN / "sides" / "val", tmp_path)
    samples = [row | {"image": row["image"]["bytes"]} for row in rows]
    litdata_peer.write(tmp_path / "in", columns, [samples[:3], samples[3:]])
    for name in ("chunk-0-0.bin", "chunk-0-1.bin"):
        data = (GOLDEN / "sides" / "val" / name).read_bytes()
        assert (tmp_path / "in" / name).read_bytes() == data


def test_a_chunk_that_was_unpacked_by_a_reader(copied: Any, tmp_path: Path) -> None:
    source = copied("chunk")
    small = GOLDEN / "sides" / "train"
    for name in ("chunk-0-0", "chunk-0-1"):
        (source / f"{name}.zstd.bin").unlink()
        shutil.copy(small / f"{name}.bin", source)
    assert len(rows_of(source, tmp_path)) == 5


def test_keys_beside_chunks_are_no_samples(copied: Any, tmp_path: Path) -> None:
    for name in ("rows", "batch"):
        source = Path(shutil.copytree(GOLDEN / name, tmp_path / name))
        (source / "keys").mkdir()
        dsprep.convert(GOLDEN / "rows", tmp_path / "tables", to="parquet", overwrite=True)
        table = next((tmp_path / "tables").glob("*.parquet"))
        shutil.copy(table, source / "keys" / "shard-00000.parquet")
        assert len(rows_of(source, tmp_path)) == (4 if name == "rows" else 5)


class TestRefused:
    @pytest.mark.parametrize(
        ("name", "problem"),
        [
            ("pickled", "'thing' is pickled, and reading it would run code"),
            ("tokens", "runs of tokens .TokensLoader."),
        ],
    )
    def test_what_is_no_sample_or_code(self, name: str, problem: str, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match=problem):
            dsprep.convert(GOLDEN / name, tmp_path / "out", to="webdataset")

    @pytest.mark.parametrize(
        ("config", "problem"),
        [
            ({"encryption": {"algorithm": "fernet", "level": "sample"}}, "are encrypted"),
            ({"item_loader": "TemporalArrayLoader"}, "for 'TemporalArrayLoader'"),
            ({"data_format": ["jpeg", "int", "mine"]}, "serializer 'mine', which dsprep does not"),
            ({"data_format": ["jpeg", "int"]}, "more values than there are serializers"),
            ({"data_spec": "[2, {}]"}, "has the version 2"),
            ({"data_spec": "[" * 9999}, "is not an index of litdata"),
            ({"data_format": 3}, "is not an index of litdata"),
            ({"data_format": ["jpeg", "int", 1]}, "a serializer is 1, which is no text"),
        ],
    )
    def test_indexes(self, config: Any, problem: str, copied: Any, tmp_path: Path) -> None:
        source = copied("batch")
        change_config(source, **config)
        with pytest.raises(SourceError, match=problem):
            dsprep.convert(source, tmp_path / "out", to="webdataset")

    def test_writing(self, run_here: RunHere, tmp_path: Path) -> None:
        assert run_here("pack", GOLDEN, tmp_path / "o", "--to", "litdata").code == 2
        with pytest.raises(
            OptionError, match="format litdata: is read and not written; choose one of"
        ):
            dsprep.shard(GOLDEN / "batch", tmp_path / "out")

    def test_a_chunk_without_its_index(self, tmp_path: Path) -> None:
        shutil.copy(GOLDEN / "batch" / "chunk-0-0.bin", tmp_path)
        with pytest.raises(SourceError, match=r"no index\.json of litdata lies beside it"):
            dsprep.convert(tmp_path / "chunk-0-0.bin", tmp_path / "out", to="webdataset")


def test_json_as_deep_as_python_reads_it(tmp_path: Path) -> None:
    deep = {"image": jpeg(1), "v": b"[" * 900 + b"]" * 900}
    litdata_peer.write(tmp_path / "in", {"image": "jpeg", "v": "json"}, [[deep]])
    report = dsprep.convert(tmp_path / "in", tmp_path / "out", to="webdataset", workers=1)
    assert report.samples == 1 and not report.rejects


class TestDamage:
    @pytest.mark.parametrize(
        ("name", "at", "data", "problem"),
        [
            ("sides/train", 4, b"\0", "the first bytes are not those"),
            ("sides/train", 8, b"\0\0\0\0", "the offsets of samples are not in order"),
            ("sides/train", 20, b"\xff", "ends after|does not have the size"),
            ("batch", 8, b"\7", "frames of version 7"),
            ("batch", 36, b"\xff\xff\xff\xff", "the offsets of samples are not those"),
            ("batch", 48, b"\0", "the table of frames is wrong"),
            ("batch", 56, b"\xff", "the table of frames is wrong"),
            ("batch", 88, b"\0", "bad zstd data"),
            ("sample", 20, b"\xff", "bad zstd data"),
        ],
    )
    def test_of_a_chunk_is_named(
        self, name: str, at: int, data: bytes, problem: str, tmp_path: Path
    ) -> None:
        source = Path(shutil.copytree(GOLDEN / name, tmp_path / "in"))
        path = source / "chunk-0-0.bin"
        whole = path.read_bytes()
        path.write_bytes(whole[:at] + data + whole[at + len(data) :])
        (found,) = [each for each in dsprep.verify(source).problems if "chunk-0-0" in each.file][:1]
        assert re.search(problem, found.message), found
        report = dsprep.convert(source, tmp_path / "out", to="webdataset", max_errors=9)
        assert report.samples + len(report.rejects) >= 5
        assert report.rejects

    def test_cut_anywhere(self, tmp_path: Path) -> None:
        for name in ("sides/train", "batch", "sample", "rows"):
            source = Path(shutil.copytree(GOLDEN / name, tmp_path / name.replace("/", "-")))
            path = source / "chunk-0-0.bin"
            whole = path.read_bytes()
            for size in range(0, len(whole) - 1, len(whole) // 9):
                path.write_bytes(whole[:size])
                try:
                    report = dsprep.convert(
                        source, tmp_path / "out", to="webdataset", overwrite=True, max_errors=9
                    )
                except DsprepError:
                    continue
                assert report.rejects, (name, size)

    def test_counts_that_are_wrong(self, tmp_path: Path) -> None:
        for name in ("batch", "rows"):
            source = Path(shutil.copytree(GOLDEN / name, tmp_path / name))
            index = json.loads((source / "index.json").read_text())
            index["chunks"][0]["chunk_size"] += 1
            (source / "index.json").write_text(json.dumps(index))
            (problem,) = dsprep.verify(source).problems
            count = index["chunks"][0]["chunk_size"]
            assert problem.message == f"holds {count - 1} samples, not {count}"
            if name == "batch":
                report = dsprep.convert(source, tmp_path / "out", to="webdataset")
                assert len(report.rejects) == 1
                continue
            with pytest.raises(SourceError, match=f"rows, not {count} as index.json says"):
                dsprep.convert(source, tmp_path / "out-2", to="webdataset")

    def test_all_samples(self, tmp_path: Path) -> None:
        columns = {"image": "jpeg", "caption": "json"}
        litdata_peer.write(tmp_path / "in", columns, [[{"image": jpeg(1), "caption": b"["}]])
        with pytest.raises(SourceError, match="or all are damaged: `dsprep verify` says which"):
            dsprep.convert(tmp_path / "in", tmp_path / "out", to="webdataset", workers=1)

    def test_a_frame_smaller_than_its_table_says(self, tmp_path: Path) -> None:
        import zstandard

        litdata_peer.write(tmp_path / "in", {"image": "jpeg"}, [[{"image": jpeg(1)}]])
        change_config(tmp_path / "in", compression="zstd", compression_level="batch")
        path = tmp_path / "in" / "chunk-0-0.bin"
        data = path.read_bytes()[12:]
        frame = zstandard.ZstdCompressor(write_content_size=False).compress(data)
        head = struct.pack("<8sHHIIIII", b"LDFZ01\0\0", 1, 0, 1, 1, 1, 0, len(data))
        head += struct.pack("<IIQII", 0, 1, len(head) + 24, len(frame), len(data) + 1)
        path.write_bytes(head + frame)
        found = dsprep.verify(tmp_path / "in").problems
        assert any("not have the size that the table" in each.message for each in found)

    def test_a_sample_that_is_a_bomb(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import zstandard

        monkeypatch.setattr(stream, "_BOMB", 1 << 20)
        litdata_peer.write(tmp_path, {"image": "jpeg"}, [[{"image": jpeg(1)}]])
        change_config(tmp_path, compression="zstd", compression_level="sample")
        data = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1 << 22))
        chunk = tmp_path / "chunk-0-0.bin"
        chunk.write_bytes(struct.pack("<III", 1, 12, 12 + len(data)) + data)
        layout = LitData().told_by([str(chunk)])
        with (
            stream.ShardStream(str(chunk)) as shard,
            pytest.raises(DamagedShard, match="is a bomb"),
        ):
            next(layout.read(shard))
