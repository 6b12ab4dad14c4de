"""Files of Arrow: as `save_to_disk` of Hugging Face leaves them, as caches, and damaged."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dsprep.errors import BadSample, SourceError
from dsprep.sample import Sample
from dsprep.schema import Choice
from dsprep.sources.reading import claims, read_source
from dsprep.sources.source import make_source
from dsprep.sources.tables.arrow_kind import ArrowKind
from tests.arrow_files import FEATURES, rows_of, save, save_sides, write
from tests.images import jpeg, png
from tests.missing import framework
from tests.parquet_files import (
    IMAGE,
    catalog_of,
    images,
    read_all,
    samples_of,
    spooled,
    write_table,
)
from tests.sources.contract import SourceTests

JPEG, PNG = jpeg(1), png(2)


class TestArrow(SourceTests):
    kind = ArrowKind

    def make(self, root: Path) -> Path:
        return save_sides(root / "saved")


def test_what_datasets_saves_is_what_it_loads(tmp_path: Path) -> None:
    datasets = framework("datasets")
    features = datasets.Features(
        image=datasets.Image(),
        label=datasets.ClassLabel(names=["cat", "dog"]),
        captions=datasets.Sequence(datasets.Value("string")),
        score=datasets.Value("float32"),
    )
    rows = [
        {
            "image": {"bytes": PNG, "path": f"{number}.png"},
            "label": number % 2,
            "captions": ["one", "two"][: number % 3],
            "score": number / 4,
        }
        for number in range(10)
    ]
    every = datasets.Dataset.from_list(rows, features=features)
    parts = {"train": every.select(range(7)), "test": every.select([9, 7, 8])}
    path = str(tmp_path / "saved")
    datasets.DatasetDict(parts).save_to_disk(path, num_shards={"train": 3, "test": 1})
    catalog, findings = read_source(make_source(path, needs_names=True))
    assert [each.kind for each in findings] == []
    assert catalog.classes == ("cat", "dog") and catalog.sides == ("train", "test")
    assert catalog.table["side"].to_list() == [0] * 7 + [1] * 3
    loaded = datasets.load_from_disk(path)
    expected = [
        row
        for side in catalog.sides
        for row in loaded[side].cast_column("image", datasets.Image(decode=False))
    ]
    found = [each.fields for each in read_all(catalog) if isinstance(each, Sample)]
    assert found == [
        {**row, "image": row["image"]["bytes"], "captions": tuple(row["captions"])}
        for row in expected
    ]


def test_rows_are_those_of_parquet_in_any_order(tmp_path: Path) -> None:
    """Also with dictionaries, of compressed batches and in an IPC file."""
    columns = rows_of(23)
    parquet = samples_of(write_table(tmp_path / "a.parquet", columns, features=FEATURES))
    table = pa.table(columns)
    feather = tmp_path / "a.feather"
    with pa.OSFile(str(feather), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table, max_chunksize=4)
    (tmp_path / "spool").mkdir()
    for path in (
        write(tmp_path / "a.arrow", columns, 5),
        write(tmp_path / "one" / "a.arrow", columns, 100),
        write(tmp_path / "zstd" / "a.arrow", columns, 7, compression="zstd"),
        str(feather),
    ):
        catalog = catalog_of(path)
        for each in (catalog, spooled(catalog, tmp_path / "spool")):
            for ordered in (each, each.shuffle(1), each.slice(3, 19)):
                expected = [parquet[at] for at in ordered.table["index"]]
                assert read_all(ordered) == expected, path


def test_versions_and_fields_as_of_parquet(tmp_path: Path) -> None:
    columns = rows_of(6) | {"record": [1, 1, 2, 2, 3, 3], "at": [1, 2, 2, 1, 1, 2]}
    path = write(tmp_path / "a.arrow", columns)
    found = samples_of(path, choice=Choice(only=("image", "text")), versions=("record", "at"))
    assert [each.fields["text"] for each in found] == ["text 1", "text 2", "text 5"]
    with pytest.raises(SourceError, match="two columns are called 'x': --drop x"):
        twice = pa.Table.from_arrays([images([PNG]), pa.array([1]), pa.array([1])], ["i", "x", "x"])
        with pa.ipc.new_stream(path, twice.schema) as out:
            out.write_table(twice)
        catalog_of(path)


class TestClaims:
    def sides(self, path: Path) -> dict[str, int]:
        catalog, _ = read_source(make_source(str(path)))
        counts = catalog.table["side"].to_list() if catalog.sides else []
        return {side: counts.count(at) for at, side in enumerate(catalog.sides)}

    def test_one_set_one_side_and_one_file(self, tmp_path: Path) -> None:
        saved = save_sides(tmp_path / "saved")
        assert self.sides(saved) == {"train": 5, "test": 2}
        for path, count in (
            (saved / "train", 5),
            (saved / "test" / "data-00000-of-00001.arrow", 2),
        ):
            catalog, _ = read_source(make_source(str(path)))
            assert (len(catalog), catalog.sides) == (count, ())

    def test_a_cache_has_sides_by_its_names(self, tmp_path: Path) -> None:
        write(tmp_path / "beans-train.arrow", rows_of(3))
        write(tmp_path / "beans-test.arrow", rows_of(2))
        write(tmp_path / "cache-0a1b.arrow", rows_of(9))
        (tmp_path / "dataset_info.json").write_text("{}", "utf-8")
        assert self.sides(tmp_path) == {"test": 2, "train": 3}
        notes = [each.detail for each in read_source(make_source(str(tmp_path)))[1]]
        assert any("1 file of Arrow, such as cache-0a1b.arrow, not read" in each for each in notes)

    def test_images_are_not_its_own(self, tmp_path: Path) -> None:
        write(tmp_path / "a.arrow", rows_of(1))
        (tmp_path / "a.png").write_bytes(PNG)
        kinds = [type(each.kind) for each in claims(make_source(str(tmp_path)))]
        assert ArrowKind not in kinds

    @pytest.mark.parametrize(
        ("state", "said"),
        [
            ({"_data_files": [{"filename": "../a.arrow"}]}, "names no files"),
            ({"_data_files": [{"filename": 3}]}, "names no files"),
            ({"_data_files": []}, "names no files"),
            ({"_data_files": [{"filename": "gone.arrow"}]}, "gone.arrow: is missing"),
            ({"_indices_data_files": [{"filename": "indices.arrow"}]}, "flatten_indices"),
        ],
    )
    def test_a_state_that_is_none(self, tmp_path: Path, state: dict[str, Any], said: str) -> None:
        save(tmp_path, range(2), state=state)
        with pytest.raises(SourceError, match=said):
            read_source(make_source(str(tmp_path)))

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ('{"splits": ["train", "dev"]}', "dev: is no saved data set"),
            ('{"splits": ["..", "train"]}', "names no splits"),
            ('{"splits": []}', "names no splits"),
            ("[]", "is not an object"),
            ("[" * 100_000, "is not JSON"),
        ],
    )
    def test_splits_that_are_none(self, tmp_path: Path, content: str, said: str) -> None:
        (save_sides(tmp_path) / "dataset_dict.json").write_text(content, "utf-8")
        with pytest.raises(SourceError, match=said):
            read_source(make_source(str(tmp_path)))


class TestDamage:
    def whole(self, tmp_path: Path) -> bytes:
        return Path(write(tmp_path / "a.arrow", rows_of(6))).read_bytes()

    @pytest.mark.parametrize("content", [b"", b"PAR1", b"ARROW1\0\0", b"\xff" * 8, bytes(100)])
    def test_no_arrow(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "a.arrow").write_bytes(content)
        with pytest.raises(SourceError, match=r"a\.arrow: is not a whole Arrow file"):
            catalog_of(str(tmp_path / "a.arrow"))

    def test_cut_short(self, tmp_path: Path) -> None:
        """A file without its end mark is whole, as other readers have it; one cut elsewhere not."""
        data, path = self.whole(tmp_path), tmp_path / "cut.arrow"
        for size in (len(data) - 9, len(data) // 2, 700, 9):
            path.write_bytes(data[:size])
            with pytest.raises(SourceError, match="is not a whole Arrow file"):
                catalog_of(str(path))
        path.write_bytes(data[:-8])
        assert len(samples_of(str(path))) == 6

    def test_offsets_that_lead_out_of_the_body(self, tmp_path: Path) -> None:
        data = self.whole(tmp_path)
        text = pa.array(["text 0", "text 1"])
        offsets = text.buffers()[1].to_pybytes()[:12]
        assert data.count(offsets) >= 1
        bad = data.replace(offsets, offsets[:4] + (1 << 30).to_bytes(4, "little") + offsets[8:], 1)
        (tmp_path / "bad.arrow").write_bytes(bad)
        catalog, findings = read_source(make_source(str(tmp_path / "bad.arrow")))
        assert "damaged" in {each.kind for each in findings} and len(catalog) == 4

    def test_any_bytes(self, tmp_path: Path) -> None:
        data, path, seed = self.whole(tmp_path), tmp_path / "bad.arrow", random.Random(1)
        for _ in range(150):
            bad = bytearray(data)
            for _ in range(seed.randrange(1, 4)):
                bad[seed.randrange(len(bad))] = seed.randrange(256)
            path.write_bytes(bad)
            try:
                found = read_all(catalog_of(str(path)))
            except SourceError:
                continue
            assert all(isinstance(each, Sample | BadSample) for each in found)


class TestNamedImages:
    """Texts that name images beside the table are images, in Parquet as in Arrow."""

    def table(self, path: Path, names: list[str | None], ending: str) -> str:
        (path / "images").mkdir(exist_ok=True)
        for name in ("images/a.png", "images/b.jpg"):
            (path / name).write_bytes(PNG if name.endswith("png") else JPEG)
        columns = {"file": names, "label": [0] * len(names), "vector": [b"\0"] * len(names)}
        make = write if ending == "arrow" else write_table
        return make(path / f"a.{ending}", columns)

    @pytest.mark.parametrize("ending", ["parquet", "arrow"])
    def test_are_read(self, tmp_path: Path, ending: str) -> None:
        path = self.table(tmp_path, ["images/a.png", "images/b.jpg", None], ending)
        catalog = catalog_of(path)
        assert catalog.table["size"].to_list() == [len(PNG), len(JPEG)]
        (tmp_path / "spool").mkdir()
        for each in (catalog, spooled(catalog, tmp_path / "spool")):
            assert read_all(each) == [
                Sample(
                    "images/a",
                    {"file": PNG, "label": 0, "vector": b"\0"},
                    0,
                    "images/a.png",
                    "file",
                ),
                Sample(
                    "images/b",
                    {"file": JPEG, "label": 0, "vector": b"\0"},
                    1,
                    "images/b.jpg",
                    "file",
                ),
            ]

    def test_one_that_is_not_there_is_a_reject(self, tmp_path: Path) -> None:
        path = self.table(tmp_path, ["images/a.png", "../b.jpg", "gone.jpg"], "parquet")
        good, *bad = read_all(catalog_of(path))
        assert isinstance(good, Sample)
        assert ["only names its image" in str(each) for each in bad] == [True, True]

    def test_other_texts_stay_texts(self, tmp_path: Path) -> None:
        for names in (["gone.jpg"], ["a caption."], ["images/a.png", "no extension"]):
            schema = catalog_of(self.table(tmp_path, names, "parquet")).schema
            assert schema is not None and schema.by_name["file"].type == "text"
        columns = {"image": images([PNG]), "file": ["images/a.png"]}
        (sample,) = samples_of(write_table(tmp_path / "b.parquet", columns))
        assert sample.fields == {"image": PNG, "file": "images/a.png"}

    def test_parquet_of_it_holds_the_images(self, tmp_path: Path) -> None:
        import dsprep

        features = {"file": {"dtype": "string", "_type": "Value"}}
        self.table(tmp_path, ["images/a.png"], "parquet")
        columns = {"file": ["images/a.png"], "n": [1]}
        path = write_table(tmp_path / "b.parquet", columns, features=features)
        dsprep.convert(path, str(tmp_path / "out.parquet"), to="parquet", workers=1)
        table = pa.parquet.read_table(tmp_path / "out.parquet")
        assert table.schema.field("file").type == IMAGE
        assert table["file"].to_pylist() == [{"bytes": PNG, "path": "images/a.png"}]
        noted = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
        assert noted["file"] == {"_type": "Image"}


def test_a_file_that_has_changed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.arrow", rows_of(4))
    catalog = catalog_of(path)
    with open(path, "ab") as file:
        file.write(b"x")
    with pytest.raises(SourceError, match=r"a\.arrow: has changed"):
        read_all(catalog)
