"""Parquet files as a source: what their columns become, in which order, under which keys."""

from __future__ import annotations

import datetime
import decimal
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from dsprep.errors import BadSample, OptionError, SourceError
from dsprep.formats import arrow
from dsprep.formats.parquet import Parquet
from dsprep.rows import Rows
from dsprep.sample import Sample
from dsprep.schema import Choice, Reading, observe, select, settle
from dsprep.sources.tables.parquet import read_parquet
from tests.images import jpeg, png
from tests.parquet_files import (
    catalog_of,
    images,
    read_all,
    samples_of,
    spooled,
    typed,
    write_table,
)

JPEG, PNG = jpeg(1), png(2)
CLASSES = {"image": {"_type": "Image"}, "label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}


def three(path: Path, **others: Any) -> str:
    """A file of three samples, with further columns."""
    column = images([JPEG, PNG, JPEG], ["a.jpg", "b.png", "c.jpg"])
    return write_table(path / "three.parquet", {"image": column, **others})


def fields_of(path: Path, choice: Choice | None = None, **others: Any) -> list[dict[str, Any]]:
    """The fields of those three samples but the image."""
    found = samples_of(three(path, **others), choice=choice)
    return [{n: v for n, v in each.fields.items() if n != "image"} for each in found]


class TestHuggingFace:
    def test_images_labels_classes_and_keys(self, tmp_path: Path) -> None:
        column = images([JPEG, PNG], ["cat/1.jpg", "dog/1.png"])
        path = write_table(
            tmp_path / "a.parquet", {"image": column, "label": [0, 1]}, features=CLASSES
        )
        catalog, findings = read_parquet([path], None)
        assert findings == []
        assert catalog.classes == ("cat", "dog")
        assert catalog.schema_known and catalog.schema is not None
        assert catalog.schema.to_json() == {
            "fields": [
                {"name": "image", "type": "image", "places": [["image"]]},
                {"name": "label", "type": "class", "names": ["cat", "dog"], "places": [["label"]]},
            ],
            "image": "image",
            "label": "label",
            "format": "parquet",
        }
        assert catalog.table.to_dict(as_series=False) | {"mtime": 0} == {
            "index": [0, 1],
            "path": ["cat/1.jpg", "dog/1.png"],
            "size": [len(JPEG), len(PNG)],
            "mtime": 0,
            "file": [0, 0],
            "offset": [0, 1],
            "stored": [0, 0],
            "cls": [0, 1],
        }
        assert samples_of(path) == [
            Sample("cat/1", {"image": JPEG, "label": 0}, 0, "cat/1.jpg", "image"),
            Sample("dog/1", {"image": PNG, "label": 1}, 1, "dog/1.png", "image"),
        ]

    def test_an_image_column_of_any_name(self, tmp_path: Path) -> None:
        features = {"x": {"_type": "Image"}, "image": {"dtype": "string", "_type": "Value"}}
        columns = {"image": ["a dog"], "x": images([JPEG])}
        (sample,) = samples_of(write_table(tmp_path / "a.parquet", columns, features=features))
        assert sample.fields == {"image": "a dog", "x": JPEG}
        assert sample.image == "x"

    def test_sounds_are_bytes(self, tmp_path: Path) -> None:
        features = {"image": {"_type": "Image"}, "audio": {"_type": "Audio"}}
        columns = {"image": images([JPEG]), "audio": images([b"RIFF"], ["a.wav"])}
        path = write_table(tmp_path / "a.parquet", columns, features=features)
        _, findings = read_parquet([path], None)
        assert "is bytes without a path in other formats" in findings[0].detail
        assert samples_of(path)[0].fields == {"image": JPEG, "audio": b"RIFF"}

    def test_several_classes(self, tmp_path: Path) -> None:
        kinds = {name: {"names": ["a", "b"], "_type": "ClassLabel"} for name in ("fine", "label")}
        tags = {"feature": kinds["fine"], "_type": "Sequence"}
        path = three(tmp_path, fine=[0, 1, 0], label=[1, 1, 0], tags=[[0, 1]] * 3)
        table = pa.parquet.read_table(path)
        noted = json.dumps({"info": {"features": CLASSES | kinds | {"tags": tags}}})
        pa.parquet.write_table(table.replace_schema_metadata({"huggingface": noted}), path)
        schema = catalog_of(path).settled.schema  # type: ignore[union-attr]
        assert schema.label == "label"
        assert schema.by_name["fine"].names == ("a", "b")
        assert schema.by_name["tags"].type == "list<int>"

    def test_a_test_set_without_classes(self, tmp_path: Path) -> None:
        columns = {"image": images([JPEG]), "label": [-1]}
        path = write_table(tmp_path / "a.parquet", columns, features=CLASSES)
        assert catalog_of(path).label_column is None
        assert [each.fields["label"] for each in samples_of(path)] == [-1]

    def test_a_class_that_has_no_name_is_refused(self, tmp_path: Path) -> None:
        columns = {"image": images([JPEG]), "label": [2]}
        path = write_table(tmp_path / "a.parquet", columns, features=CLASSES)
        with pytest.raises(SourceError, match="row 0: 2 is none of the 2 classes"):
            read_parquet([path], None)

    def test_given_classes_number_anew(self, tmp_path: Path) -> None:
        columns = {"image": images([JPEG, PNG, PNG]), "label": [0, 1, 1]}
        path = write_table(tmp_path / "a.parquet", columns, features=CLASSES)
        catalog = typed(read_parquet([path], ("dog", "eel", "cat"))[0])
        assert catalog.overridden == {"label"}
        assert catalog.table["cls"].to_list() == [2, 0, 0]
        assert [each.fields["label"] for each in read_all(catalog)] == [2, 0, 0]  # type: ignore[union-attr]
        with pytest.raises(SourceError, match="'cat'"):
            read_parquet([path], ("dog", "eel"))

    @pytest.mark.parametrize("noted", [b"{", b"[]", b'{"info": 3}', b'{"info":{"features":[1]}}'])
    def test_features_that_are_none(self, tmp_path: Path, noted: bytes) -> None:
        table = pa.table({"image": images([JPEG])}).replace_schema_metadata({"huggingface": noted})
        pa.parquet.write_table(table, tmp_path / "a.parquet")
        assert [each.fields for each in samples_of(str(tmp_path / "a.parquet"))] == [
            {"image": JPEG}
        ]


class TestLabels:
    def test_names_are_numbered_in_sorted_order(self, tmp_path: Path) -> None:
        path = three(tmp_path, label=["dog", "cat", "dog"])
        catalog = catalog_of(path)
        assert catalog.classes == ("cat", "dog")
        assert catalog.table["cls"].to_list() == [1, 0, 1]
        assert catalog.settled.schema.label_field.names == ("cat", "dog")  # type: ignore[union-attr]
        assert [each.fields["label"] for each in samples_of(path)] == [1, 0, 1]

    def test_names_may_stay_text(self, tmp_path: Path) -> None:
        path = three(tmp_path, label=["dog", "cat", "dog"])
        catalog = catalog_of(path, choice=Choice(label_type="text"))
        assert catalog.label_column is None
        assert [each.fields["label"] for each in read_all(catalog)] == ["dog", "cat", "dog"]  # type: ignore[union-attr]

    def test_numbers_may_become_names(self, tmp_path: Path) -> None:
        path = write_table(
            tmp_path / "a.parquet", {"image": images([JPEG] * 2), "label": [1, 0]}, features=CLASSES
        )
        catalog = catalog_of(path, choice=Choice(label_type="text"))
        assert [each.fields["label"] for each in read_all(catalog)] == ["dog", "cat"]  # type: ignore[union-attr]

    def test_names_in_a_dictionary(self, tmp_path: Path) -> None:
        names = pa.array(["dog", "cat", "dog"]).dictionary_encode()
        catalog, _ = read_parquet([three(tmp_path, label=names)], ("dog", "cat"))
        assert catalog.table["cls"].to_list() == [0, 1, 0]

    def test_several_numbers(self, tmp_path: Path) -> None:
        path = three(tmp_path, label=[[1, 0], [2, 5], [7]])
        assert catalog_of(path).table["label"].to_list() == [[1, 0], [2, 5], [7]]
        assert [each.fields["label"] for each in samples_of(path)] == [(1, 0), (2, 5), (7,)]

    def test_fractions(self, tmp_path: Path) -> None:
        path = three(tmp_path, target=[0.5, 1.0, 0.1])
        assert catalog_of(path).table["label"].to_list() == [[0.5], [1.0], [0.1]]
        assert [each.fields["target"] for each in samples_of(path)] == [0.5, 1.0, 0.1]

    def test_a_part_of_a_struct(self, tmp_path: Path) -> None:
        path = three(tmp_path, box=[{"kind": number} for number in (1, 0, 1)], n=[1, 2, 3])
        choice = Choice(label="box.kind", only=("image", "label"))
        catalog, _ = read_parquet([path], None, choice=choice)
        assert catalog.label_column is None
        samples = read_all(catalog)
        found = settle(observe(samples, Parquet(), choice), Parquet(), choice, "x", catalog.schema)  # type: ignore[arg-type]
        schema = select(found, choice)[0]
        reading = Reading(schema.schema, Parquet(), schema.ignored)
        reader = replace(catalog.reader, reading=reading)
        labeled = read_all(replace(catalog, reader=reader))
        assert [each.fields for each in labeled] == [  # type: ignore[union-attr]
            {"image": JPEG, "kind": 1},
            {"image": PNG, "kind": 0},
            {"image": JPEG, "kind": 1},
        ]

    def test_flags(self, tmp_path: Path) -> None:
        path = three(tmp_path, label=[True, False, True])
        assert catalog_of(path).table["cls"].to_list() == [1, 0, 1]
        assert [each.fields["label"] for each in samples_of(path)] == [True, False, True]

    @pytest.mark.parametrize("label", [[1, None, 2], [[1.5], None, [2]]])
    def test_that_some_lack(self, tmp_path: Path, label: list[Any]) -> None:
        path = three(tmp_path, label=label)
        catalog = catalog_of(path)
        assert catalog.label_column is None
        assert catalog.settled.schema.label_field.missing  # type: ignore[union-attr]
        assert ["label" in each.fields for each in samples_of(path)] == [True, False, True]

    def test_columns_that_cannot_be_it(self, tmp_path: Path) -> None:
        path = three(tmp_path, x=["1"] * 3)
        with pytest.raises(OptionError, match="--image-field x"):
            read_parquet([path], None, choice=Choice(image="x"))
        with pytest.raises(OptionError, match="--label-field image"):
            read_parquet([path], None, choice=Choice(label="image"))

    def test_the_column_that_is_named(self, tmp_path: Path) -> None:
        path = three(tmp_path, fine=[1, 2, 3], label=[7, 8, 9])
        catalog = catalog_of(path, choice=Choice(label="fine"))
        assert catalog.table["cls"].to_list() == [1, 2, 3]
        assert [each.fields["label"] for each in read_all(catalog)] == [7, 8, 9]  # type: ignore[union-attr]
        with pytest.raises(OptionError, match="--label-field coarse"):
            catalog_of(path, choice=Choice(label="coarse"))


class TestFields:
    @pytest.mark.parametrize(
        ("values", "kind", "expected"),
        [
            (["é", None, ""], pa.string(), ["é", None, ""]),
            (["é", None, ""], pa.large_string(), ["é", None, ""]),
            ([b"\xff", None, b""], pa.binary(), [b"\xff", None, b""]),
            ([b"ab", None, b"cd"], pa.binary(2), [b"ab", None, b"cd"]),
            ([1, None, -(2**63)], pa.int64(), [1, None, -(2**63)]),
            ([1, None, 255], pa.uint8(), [1, None, 255]),
            ([True, None, False], pa.bool_(), [True, None, False]),
            ([0.1, None, 2], pa.float64(), [0.1, None, 2.0]),
            ([0.5, None, 2], pa.float32(), [0.5, None, 2.0]),
            ([[1, 2], None, []], pa.list_(pa.int16()), [(1, 2), None, ()]),
            ([[1, 2]] * 3, pa.list_(pa.int64(), 2), [(1, 2)] * 3),
            ([[True, False]] * 3, pa.list_(pa.bool_()), [(1, 0)] * 3),
            ([[0.5], None, []], pa.large_list(pa.float32()), [(0.5,), None, ()]),
            ([["a"], None, []], pa.list_(pa.string()), [("a",), None, ()]),
            ([[b"\xff"], None, []], pa.list_(pa.binary()), [(b"\xff",), None, ()]),
            ([None, None, None], pa.null(), [None, None, None]),
            ([None, None, None], pa.int32(), [None, None, None]),
            ([{"a": 1}, None, {"a": None}], None, [b'{"a":1}', None, b'{"a":null}']),
            ([[[1], []], None, []], None, [b"[[1],[]]", None, b"[]"]),
            ([{"a": b"\xff"}, None, None], None, [b'{"a":"/w=="}', None, None]),
            ([0, None, 1], pa.timestamp("ms"), ["1970-01-01T00:00:00.000", None, None]),
            ([0, None, 1], pa.date32(), ["1970-01-01", None, "1970-01-02"]),
            ([0, None, 1], pa.time32("ms"), ["00:00:00.000", None, "00:00:00.001"]),
            ([0, None, 1], pa.duration("s"), [0, None, 1]),
            ([decimal.Decimal("1.50"), None, None], None, ["1.50", None, None]),
        ],
    )
    def test_types(
        self, tmp_path: Path, values: list[Any], kind: pa.DataType, expected: list[Any]
    ) -> None:
        found = [each.get("x") for each in fields_of(tmp_path, x=pa.array(values, kind))]
        if expected[-1] is None and values[-1] is not None:
            found[-1] = None
        assert found == expected
        assert list(map(type, found)) == list(map(type, expected))

    def test_half_floats_and_nulls(self, tmp_path: Path) -> None:
        half = pa.array([0.5, None, 2], pa.float32()).cast(pa.float16())
        assert fields_of(tmp_path, x=half) == [{"x": 0.5}, {}, {"x": 2.0}]

    def test_what_is_noted(self, tmp_path: Path) -> None:
        path = three(
            tmp_path,
            day=[datetime.date(2020, 1, 1)] * 3,
            box=[{"x": 1}] * 3,
            part=[{"x": b"1"}] * 3,
            none=pa.nulls(3),
            void=pa.nulls(3, pa.int64()),
        )
        catalog, findings = read_parquet([path], None)
        assert [each.detail for each in findings] == [
            "the column 'day' (date32[day]) is text in other formats",
            "the column 'box' (struct<x: int64>) is JSON in other formats",
            "the column 'part' (struct<x: binary>) is JSON with bytes in base 64 in other formats",
            "columns of nulls alone, which other formats do not have: none",
            "columns of nulls alone, which other formats do not have: void",
        ]
        assert {each.kind for each in findings} == {"note"}
        assert [each.name for each in catalog.schema.fields] == ["image", "day", "box", "part"]  # type: ignore[union-attr]

    def test_what_may_be_missing(self, tmp_path: Path) -> None:
        path = three(tmp_path, a=[1, None, 2], b=[1, 2, 3])
        schema = read_parquet([path], None)[0].schema
        assert schema is not None
        assert [each.missing for each in schema.fields] == [False, True, False]

    def test_further_images(self, tmp_path: Path) -> None:
        masks = images([PNG, None, PNG], ["m.png", None, None])
        assert fields_of(tmp_path, mask=masks) == [{"mask": PNG}, {}, {"mask": PNG}]

    def test_lists_of_images(self, tmp_path: Path) -> None:
        views = pa.array([[{"bytes": PNG, "path": "x"}], [], None])
        assert fields_of(tmp_path, views=views) == [{"views": (PNG,)}, {"views": ()}, {}]

    def test_which_of_several_images_has_to_be_said(self, tmp_path: Path) -> None:
        columns = {"left": images([JPEG]), "right": images([PNG])}
        path = write_table(tmp_path / "a.parquet", columns)
        with pytest.raises(SourceError, match="--image-field left or --image-field right"):
            read_parquet([path], None)
        (sample,) = samples_of(path, choice=Choice(image="right"))
        assert sample.image == "right"

    def test_images_that_are_plain_bytes(self, tmp_path: Path) -> None:
        path = write_table(tmp_path / "a.parquet", {"jpg": [JPEG, b"?"], "n": [1, 2]})
        assert samples_of(path) == [
            Sample("a-0000000", {"jpg": JPEG, "n": 1}, 0, "", "jpg"),
            Sample("a-0000001", {"jpg": b"?", "n": 2}, 1, "", "jpg"),
        ]

    def test_images_that_only_their_content_tells(self, tmp_path: Path) -> None:
        path = write_table(tmp_path / "a.parquet", {"x": [JPEG, None], "y": [b"?", JPEG]})
        schema = catalog_of(path).settled.schema  # type: ignore[union-attr]
        assert (schema.image, schema.by_name["y"].type) == ("x", "bytes")

    def test_no_images(self, tmp_path: Path) -> None:
        path = write_table(tmp_path / "a.parquet", {"text": ["one", "two"], "label": [0, 1]})
        assert samples_of(path) == [
            Sample("a-0000000", {"text": "one", "label": 0}, 0),
            Sample("a-0000001", {"text": "two", "label": 1}, 1),
        ]

    def test_what_no_field_holds_has_to_be_dropped(self, tmp_path: Path) -> None:
        table = pa.table({"image": images([JPEG]), "x": [1]})
        twice = pa.Table.from_arrays([*table.columns, table["x"]], ["image", "x", "x"])
        path = str(tmp_path / "a.parquet")
        pa.parquet.write_table(twice, path)
        with pytest.raises(SourceError, match="two columns are called 'x': --drop x"):
            read_parquet([path], None)
        (sample,) = samples_of(path, choice=Choice(drop=("x",)))
        assert sample.fields == {"image": JPEG}

    def test_a_null_within_a_list_rejects_the_sample(self, tmp_path: Path) -> None:
        good, bad, other = read_all(catalog_of(three(tmp_path, x=[[1], [1, None], [2]])))
        assert isinstance(good, Sample) and isinstance(other, Sample)
        assert isinstance(bad, BadSample) and "the field 'x'" in str(bad)

    def test_a_number_beyond_64_bits_rejects_the_sample(self, tmp_path: Path) -> None:
        values = pa.array([1, 2**63, 2], pa.uint64())
        good, bad, _ = read_all(catalog_of(three(tmp_path, x=values)))
        assert isinstance(good, Sample)
        assert isinstance(bad, BadSample) and "the field 'x'" in str(bad)

    def test_what_is_left_out_is_not_read(self, tmp_path: Path) -> None:
        choice = Choice(only=("image", "n"), rename={"n": "number"})
        catalog = catalog_of(three(tmp_path, n=[1, 2, 3], text=["x"] * 3), choice=choice)
        assert catalog.reader.columns.names == ("image", "n")  # type: ignore[attr-defined]
        assert [each.fields.keys() for each in read_all(catalog)] == [  # type: ignore[union-attr]
            {"image", "number"}
        ] * 3


class TestKeys:
    def keys(self, tmp_path: Path, paths: list[str | None]) -> list[str]:
        column = images([JPEG] * len(paths), paths)
        return [each.key for each in samples_of(write_table(tmp_path / "t.parquet", {"i": column}))]

    def test_from_paths(self, tmp_path: Path) -> None:
        assert self.keys(tmp_path, ["x/a.b.jpg", "./y//a.jpg"]) == ["x/a_b", "y/a"]

    @pytest.mark.parametrize("second", [None, "", "y/../a.png", "a.png", "a/..", "a\nb", "."])
    def test_numbers_where_paths_tell_too_little(self, tmp_path: Path, second: str | None) -> None:
        assert self.keys(tmp_path, ["a.jpg", second]) == ["t-0000000", "t-0000001"]

    @pytest.mark.parametrize(
        "path",
        ["/home/x/b.jpg", "../../b.jpg", "C:\\x\\b.jpg", "https://x.org/b.jpg", "x/../../b.jpg"],
    )
    def test_paths_that_lead_elsewhere_are_names(self, tmp_path: Path, path: str) -> None:
        assert self.keys(tmp_path, ["a.jpg", path]) == ["a", "b"]

    def test_of_several_files(self, tmp_path: Path) -> None:
        names = ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"]
        paths = [write_table(tmp_path / name, {"image": images([JPEG] * 2)}) for name in names]
        assert [each.key for each in samples_of(*paths)] == [
            f"train-0000{file}-of-00002-000000{row}" for file in (0, 1) for row in (0, 1)
        ]

    def test_of_files_of_one_name(self, tmp_path: Path) -> None:
        for name in "xy":
            (tmp_path / name).mkdir()
            write_table(tmp_path / name / "a.parquet", {"image": images([JPEG])})
        paths = [str(tmp_path / name / "a.parquet") for name in "xy"]
        keys = [each.key for each in samples_of(*paths)]
        assert keys == ["x/a-0000000", "y/a-0000000"]


class TestImagesBesideTheFile:
    def test_are_read(self, tmp_path: Path) -> None:
        (tmp_path / "images").mkdir()
        (tmp_path / "images" / "a.png").write_bytes(PNG)
        column = images([None, JPEG], ["images/a.png", "b.jpg"])
        path = write_table(tmp_path / "a.parquet", {"image": column})
        catalog = catalog_of(path)
        assert catalog.table["size"].to_list() == [len(PNG), len(JPEG)]
        expected = [
            Sample("images/a", {"image": PNG}, 0, "images/a.png", "image"),
            Sample("b", {"image": JPEG}, 1, "b.jpg", "image"),
        ]
        assert read_all(catalog) == expected
        (tmp_path / "spool").mkdir()
        assert read_all(spooled(catalog, tmp_path / "spool")) == expected

    @pytest.mark.parametrize(
        "place", ["../secret.png", "{}/secret.png", "link.png", "gone.png", "d"]
    )
    def test_but_nowhere_else(self, tmp_path: Path, place: str) -> None:
        (tmp_path / "secret.png").write_bytes(PNG)
        folder = tmp_path / "set"
        (folder / "d").mkdir(parents=True)
        (folder / "link.png").symlink_to("../secret.png")
        column = images([None, JPEG], [place.format(tmp_path), "b.jpg"])
        bad, good = read_all(catalog_of(write_table(folder / "a.parquet", {"image": column})))
        assert isinstance(bad, BadSample) and "only names its image" in str(bad)
        assert isinstance(good, Sample)

    def test_an_image_that_is_null(self, tmp_path: Path) -> None:
        path = write_table(tmp_path / "a.parquet", {"image": images([JPEG, None]), "n": [1, 2]})
        assert [each.fields for each in samples_of(path)] == [{"image": JPEG, "n": 1}]
        catalog, findings = read_parquet([path], None)
        assert findings[0].kind == "keyless" and "1 row without an image" in findings[0].detail
        (tmp_path / "spool").mkdir()
        assert len(read_all(spooled(catalog, tmp_path / "spool"))) == 1
        found = samples_of(path, choice=Choice(no_image=True))
        assert [each.fields for each in found] == [{"image": JPEG, "n": 1}, {"n": 2}]


class TestOrder:
    @pytest.fixture
    def paths(self, tmp_path: Path) -> list[str]:
        """Two files of several row groups, 110 and 30 rows."""
        found = []
        for name, count, rows in (("a", 110, 40), ("b", 30, 7)):
            columns = {
                "image": images([PNG + bytes([i]) for i in range(count)]),
                "text": [f"{name}{i}" for i in range(count)],
                "day": pa.array(range(count), pa.date32()),
            }
            path = write_table(tmp_path / f"{name}.parquet", columns, row_group_size=rows)
            found.append(path)
        return found

    @pytest.mark.parametrize("raw", [False, True])
    def test_any_order_any_way(self, paths: list[str], tmp_path: Path, raw: bool) -> None:
        catalog = typed(read_parquet(paths, None)[0], raw=raw)
        texts = [f"a{i}" for i in range(110)] + [f"b{i}" for i in range(30)]
        (tmp_path / "spool").mkdir()
        for each in (catalog, spooled(catalog, tmp_path / "spool")):
            for ordered in (each, each.shuffle(1), each.slice(35, 90), each.shuffle(2).slice(3, 9)):
                indexes = ordered.table["index"].to_list()
                found = read_all(ordered)
                assert [sample.id for sample in found] == indexes  # type: ignore[union-attr]
                assert [sample.fields["text"] for sample in found] == [texts[i] for i in indexes]  # type: ignore[union-attr]

    def test_the_same_row_twice(self, paths: list[str]) -> None:
        catalog = catalog_of(*paths)
        twice = [5, 130, 5, 5, 0, 41]
        table = catalog.table[twice]
        rows = Rows(
            table["index"].to_list(),
            table["path"].to_list(),
            table["size"].to_list(),
            None,
            table["file"].to_list(),
            table["offset"].to_list(),
        )
        assert [each.id for each in catalog.reader.read(rows)] == twice  # type: ignore[union-attr]

    def test_a_file_that_has_changed(self, paths: list[str]) -> None:
        catalog = catalog_of(*paths)
        with open(paths[1], "ab") as file:
            file.write(b"x")
        with pytest.raises(SourceError, match=r"b\.parquet: has changed"):
            read_all(catalog)


class TestSeveralFiles:
    def pair(self, path: Path, one: Any, two: Any) -> list[str]:
        """Two files of an image each, and of a column ``x`` if there is one."""
        return [
            write_table(
                path / f"{name}.parquet",
                {"image": images([JPEG], [f"{name}.jpg"])} | ({} if x is None else {"x": x}),
            )
            for name, x in (("1", one), ("2", two))
        ]

    @pytest.mark.parametrize("one", [pa.nulls(1), None])
    def test_a_column_that_one_does_not_have(self, tmp_path: Path, one: Any) -> None:
        paths = self.pair(tmp_path, one, ["text"])
        for ordered in (paths, paths[::-1]):
            assert sorted(each.fields.get("x", "") for each in samples_of(*ordered)) == ["", "text"]
            schema = catalog_of(*ordered).settled.schema  # type: ignore[union-attr]
            assert schema.by_name["x"].missing

    def test_types_that_join(self, tmp_path: Path) -> None:
        paths = self.pair(tmp_path, pa.array([1], pa.int32()), [0.5])
        assert [each.fields["x"] for each in samples_of(*paths)] == [1.0, 0.5]
        assert [type(each.fields["x"]) for each in samples_of(*paths)] == [float] * 2

    def test_lists_that_are_all_empty_in_one(self, tmp_path: Path) -> None:
        paths = self.pair(tmp_path, pa.array([[]], pa.list_(pa.null())), [["a"]])
        for ordered in (paths, paths[::-1]):
            assert sorted(each.fields["x"] for each in samples_of(*ordered)) == [(), ("a",)]
        texts = self.pair(tmp_path, pa.array([[]], pa.list_(pa.null())), ["a"])
        with pytest.raises(SourceError, match="type string, and of list"):
            read_parquet(texts, None)

    def test_of_other_types(self, tmp_path: Path) -> None:
        paths = self.pair(tmp_path, [1], ["text"])
        with pytest.raises(SourceError, match="type string, and of int64"):
            read_parquet(paths, None)
        assert len(samples_of(*paths, choice=Choice(drop=("x",)))) == 2

    def test_of_other_classes(self, tmp_path: Path) -> None:
        columns = {"image": images([JPEG]), "label": [0]}
        one = write_table(tmp_path / "1.parquet", columns, features=CLASSES)
        other = {"label": {"names": ["dog", "cat"], "_type": "ClassLabel"}}
        two = write_table(tmp_path / "2.parquet", columns, features=other)
        with pytest.raises(SourceError, match="other classes"):
            read_parquet([one, two], None)


def test_what_polars_and_pandas_write(tmp_path: Path) -> None:
    import pandas

    images_of = [{"bytes": JPEG, "path": "a.jpg"}, {"bytes": PNG, "path": "b.png"}]
    rows = {"image": images_of, "label": [1, 0], "text": ["x", "y"], "score": [0.1, 0.2]}
    frame = pandas.DataFrame(rows, index=[3, 9])
    frame["text"] = frame["text"].astype("category")
    frame.to_parquet(tmp_path / "pandas.parquet")
    pl.DataFrame(rows).write_parquet(tmp_path / "polars.parquet")
    of_polars = samples_of(str(tmp_path / "polars.parquet"))
    assert [each.fields for each in of_polars] == [
        {"image": JPEG, "label": 1, "score": 0.1, "text": "x"},
        {"image": PNG, "label": 0, "score": 0.2, "text": "y"},
    ]
    # pandas writes its index as one more column, which is no field.
    assert samples_of(str(tmp_path / "pandas.parquet")) == of_polars


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = three(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(OptionError, match="pip install pyarrow"):
        arrow.arrow()
    with pytest.raises(OptionError):
        read_parquet([path], None)


def test_rows_of_a_catalog_are_plain(tmp_path: Path) -> None:
    catalog, _ = read_parquet([three(tmp_path)], None)
    assert catalog.rows().files == [0, 0, 0]
    assert catalog.reader.sources() == [str(tmp_path / "three.parquet")]
