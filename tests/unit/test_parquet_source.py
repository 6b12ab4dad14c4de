"""Parquet files as a source: what their columns become, in which order, under which keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from dsprep.errors import BadSample, OptionError, SourceError
from dsprep.formats import arrow_types
from dsprep.rows import Rows
from dsprep.sample import Blobs, Floats, Ints, Sample
from dsprep.sources.parquet import read_parquet
from dsprep.sources.reading import make_source, read_source
from tests.images import jpeg, png
from tests.unit.parquet_files import IMAGE, images, read_all, samples_of, spooled, write_table

JPEG, PNG = jpeg(1), png(2)
CLASSES = {"image": {"_type": "Image"}, "label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}


def three(path: Path, **others: Any) -> str:
    """A file of three samples, with further columns."""
    column = images([JPEG, PNG, JPEG], ["a.jpg", "b.png", "c.jpg"])
    return write_table(path / "three.parquet", {"image": column, **others})


def fields_of(path: Path, **others: Any) -> list[dict[str, Any]]:
    """The fields of those three samples but the image."""
    found = samples_of(three(path, **others))
    return [{n: v for n, v in each.fields.items() if n not in ("jpg", "png")} for each in found]


class TestHuggingFace:
    def test_images_labels_classes_and_keys(self, tmp_path: Path) -> None:
        column = images([JPEG, PNG], ["cat/1.jpg", "dog/1.png"])
        path = write_table(
            tmp_path / "a.parquet", {"image": column, "label": [0, 1]}, features=CLASSES
        )
        catalog, findings = read_parquet([path], None)
        assert findings == []
        assert catalog.classes == ("cat", "dog")
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
        assert catalog.fields == {("jpg", "bytes"): 1, ("png", "bytes"): 1, ("cls", "int"): 2}
        assert read_all(catalog) == [
            Sample("cat/1", {"jpg": JPEG, "cls": 0}, 0),
            Sample("dog/1", {"png": PNG, "cls": 1}, 1),
        ]

    def test_an_image_column_of_any_name(self, tmp_path: Path) -> None:
        features = {"x": {"_type": "Image"}, "image": {"dtype": "string", "_type": "Value"}}
        columns = {"image": ["a dog"], "x": images([JPEG])}
        (sample,) = samples_of(write_table(tmp_path / "a.parquet", columns, features=features))
        assert sample.fields == {"jpg": JPEG, "image": b"a dog"}

    def test_a_test_set_without_classes(self, tmp_path: Path) -> None:
        columns = {"image": images([JPEG]), "label": [-1]}
        path = write_table(tmp_path / "a.parquet", columns, features=CLASSES)
        catalog, _ = read_parquet([path], None)
        assert catalog.label_column is None
        assert [each.fields["cls"] for each in samples_of(path)] == [-1]

    def test_a_class_that_has_no_name_is_refused(self, tmp_path: Path) -> None:
        columns = {"image": images([JPEG]), "label": [2]}
        path = write_table(tmp_path / "a.parquet", columns, features=CLASSES)
        with pytest.raises(SourceError, match="row 0: 2 is none of the 2 classes"):
            read_parquet([path], None)

    def test_given_classes_number_anew(self, tmp_path: Path) -> None:
        columns = {"image": images([JPEG, PNG]), "label": [0, 1]}
        path = write_table(tmp_path / "a.parquet", columns, features=CLASSES)
        catalog, _ = read_parquet([path], ("dog", "eel", "cat"))
        assert catalog.table["cls"].to_list() == [2, 0]
        assert [each.fields["cls"] for each in read_all(catalog)] == [2, 0]  # type: ignore[union-attr]
        with pytest.raises(SourceError, match="'cat'"):
            read_parquet([path], ("dog", "eel"))

    @pytest.mark.parametrize("noted", [b"{", b"[]", b'{"info": 3}', b'{"info":{"features":[1]}}'])
    def test_features_that_are_none(self, tmp_path: Path, noted: bytes) -> None:
        table = pa.table({"image": images([JPEG])}).replace_schema_metadata({"huggingface": noted})
        pa.parquet.write_table(table, tmp_path / "a.parquet")
        assert [each.fields for each in samples_of(str(tmp_path / "a.parquet"))] == [{"jpg": JPEG}]


class TestLabels:
    def test_names_are_numbered_in_sorted_order(self, tmp_path: Path) -> None:
        catalog, _ = read_parquet([three(tmp_path, label=["dog", "cat", "dog"])], None)
        assert catalog.classes == ("cat", "dog")
        assert catalog.table["cls"].to_list() == [1, 0, 1]
        assert [each.fields["cls"] for each in read_all(catalog)] == [1, 0, 1]  # type: ignore[union-attr]

    def test_names_in_a_dictionary(self, tmp_path: Path) -> None:
        names = pa.array(["dog", "cat", "dog"]).dictionary_encode()
        catalog, _ = read_parquet([three(tmp_path, label=names)], ("dog", "cat"))
        assert catalog.table["cls"].to_list() == [0, 1, 0]

    def test_several_numbers(self, tmp_path: Path) -> None:
        catalog, _ = read_parquet([three(tmp_path, label=[[1, 0], [2, 5], [7]])], None)
        assert catalog.table["label"].to_list() == [[1, 0], [2, 5], [7]]
        assert [each.fields["label"] for each in read_all(catalog)] == [(1, 0), (2, 5), (7,)]  # type: ignore[union-attr]

    def test_fractions(self, tmp_path: Path) -> None:
        catalog, _ = read_parquet([three(tmp_path, target=[0.5, 1.0, 0.1])], None)
        assert catalog.table["label"].to_list() == [[0.5], [1.0], [0.1]]
        assert [each.fields["label"] for each in read_all(catalog)] == [(0.5,), (1.0,), (0.1,)]  # type: ignore[union-attr]

    @pytest.mark.parametrize("label", [[1, None, 2], [[1.5], None, [2]], [[1], [], [2]]])
    def test_that_some_lack(self, tmp_path: Path, label: list[Any]) -> None:
        catalog, _ = read_parquet([three(tmp_path, label=label)], None)
        assert catalog.label_column is None
        assert ["cls" in each.fields or "label" in each.fields for each in read_all(catalog)] == [  # type: ignore[union-attr]
            True,
            False,
            True,
        ]

    def test_columns_that_cannot_be_it(self, tmp_path: Path) -> None:
        path = three(tmp_path, x=[[b"1"]] * 3)
        with pytest.raises(SourceError, match="'x' is of list<binary>, not of labels"):
            read_parquet([path], None, label_column="x")
        with pytest.raises(SourceError, match="'x' is of list<binary>, not of images"):
            read_parquet([path], None, image_column="x")

    def test_the_column_that_is_named(self, tmp_path: Path) -> None:
        path = three(tmp_path, fine=[1, 2, 3], label=[7, 8, 9])
        catalog, _ = read_parquet([path], None, label_column="fine")
        assert catalog.table["cls"].to_list() == [1, 2, 3]
        assert [each.fields["label"] for each in read_all(catalog)] == [(7,), (8,), (9,)]  # type: ignore[union-attr]
        with pytest.raises(SourceError, match="no column 'coarse'"):
            read_parquet([path], None, label_column="coarse")


class TestFields:
    @pytest.mark.parametrize(
        ("values", "kind", "expected"),
        [
            (["é", None, ""], pa.string(), ["é".encode(), None, b""]),
            (["é", None, ""], pa.large_string(), ["é".encode(), None, b""]),
            ([b"\xff", None, b""], pa.binary(), [b"\xff", None, b""]),
            ([b"ab", None, b"cd"], pa.binary(2), [b"ab", None, b"cd"]),
            ([1, None, -(2**63)], pa.int64(), [Ints((1,)), None, Ints((-(2**63),))]),
            ([1, None, 255], pa.uint8(), [Ints((1,)), None, Ints((255,))]),
            ([True, None, False], pa.bool_(), [Ints((1,)), None, Ints((0,))]),
            ([0.1, None, 2], pa.float64(), [Floats((0.1,)), None, Floats((2.0,))]),
            ([0.5, None, 2], pa.float32(), [Floats((0.5,)), None, Floats((2.0,))]),
            ([[1, 2], None, []], pa.list_(pa.int16()), [Ints((1, 2)), None, Ints()]),
            ([[1, 2]] * 3, pa.list_(pa.int64(), 2), [Ints((1, 2))] * 3),
            ([[0.5], None, []], pa.large_list(pa.float32()), [Floats((0.5,)), None, Floats()]),
            ([["a"], None, []], pa.list_(pa.string()), [Blobs((b"a",)), None, Blobs()]),
            ([[b"\xff"], None, []], pa.list_(pa.binary()), [Blobs((b"\xff",)), None, Blobs()]),
            ([None, None, None], pa.null(), [None, None, None]),
        ],
    )
    def test_types(
        self, tmp_path: Path, values: list[Any], kind: pa.DataType, expected: list[Any]
    ) -> None:
        found = [each.get("x") for each in fields_of(tmp_path, x=pa.array(values, kind))]
        assert found == expected
        assert list(map(type, found)) == list(map(type, expected))

    def test_floats_that_are_rounded(self, tmp_path: Path) -> None:
        columns = {"x": [0.1, 1e300, 0.5], "w": [[0.1], [], None], "z": [0.1] * 3}
        path = three(tmp_path, **columns)
        catalog, _ = read_parquet([path], None, rounded=frozenset({"x", "w"}))
        first, bad, last = read_all(catalog)
        tenth = 0.10000000149011612
        assert isinstance(first, Sample) and first.fields["x"] == first.fields["w"] == (tenth,)
        assert first.fields["z"] == (0.1,)
        assert isinstance(bad, BadSample) and "beyond 32-bit floats" in str(bad)
        assert isinstance(last, Sample) and last.fields["x"] == Floats((0.5,))
        with pytest.raises(OptionError, match="'image' is no column of 64-bit floats"):
            read_parquet([path], None, rounded=frozenset({"image"}))

    def test_names_that_conventions_know(self, tmp_path: Path) -> None:
        columns = {"class": ["cat"] * 3, "filename": ["x/y.jpg"] * 3, "b": [1] * 3, "a": [1] * 3}
        columns |= {"width": [64] * 3, "id": [7] * 3, "label": [0] * 3}
        column = images([JPEG] * 3, ["/a.jpg", "b.jpg", "c.jpg"])
        path = write_table(tmp_path / "a.parquet", {"image": column} | columns)
        assert list(samples_of(path)[0].fields.items()) == [
            ("jpg", JPEG),
            ("cls", 0),
            ("a", Ints((1,))),
            ("b", Ints((1,))),
            ("class", "cat"),
            ("filename", "x/y.jpg"),
            ("width", 64),
            ("id", 7),
            ("image.path", b"/a.jpg"),
        ]

    def test_further_images(self, tmp_path: Path) -> None:
        masks = images([PNG, None, PNG], ["m.png", None, None])
        assert fields_of(tmp_path, mask=masks) == [
            {"mask": PNG, "mask.path": b"m.png"},
            {},
            {"mask": PNG},
        ]

    def test_images_that_are_plain_bytes(self, tmp_path: Path) -> None:
        path = write_table(tmp_path / "a.parquet", {"img": [JPEG, b"?"], "n": [1, 2]})
        assert samples_of(path) == [
            Sample("000000000", {"jpg": JPEG, "n": Ints((1,))}, 0),
            Sample("000000001", {"bin": b"?", "n": Ints((2,))}, 1),
        ]

    def test_no_images(self, tmp_path: Path) -> None:
        path = write_table(tmp_path / "a.parquet", {"text": ["one", "two"], "label": [0, 1]})
        assert samples_of(path) == [
            Sample("000000000", {"cls": 0, "text": b"one"}, 0),
            Sample("000000001", {"cls": 1, "text": b"two"}, 1),
        ]

    @pytest.mark.parametrize(
        "values",
        [[{"a": 1}] * 3, [[[1]]] * 3, pa.array([0] * 3, pa.timestamp("us")), [{"bytes": 1}] * 3],
    )
    def test_what_no_sample_holds_has_to_be_dropped(self, tmp_path: Path, values: Any) -> None:
        path = three(tmp_path, x=values)
        with pytest.raises(SourceError, match="--drop x"):
            read_parquet([path], None)
        assert [list(each.fields) for each in samples_of(path, dropped=frozenset({"x"}))] == [
            ["jpg"],
            ["png"],
            ["jpg"],
        ]

    def test_a_null_within_a_list_rejects_the_sample(self, tmp_path: Path) -> None:
        catalog, _ = read_parquet([three(tmp_path, x=[[1], [1, None], [2]])], None)
        good, bad, other = read_all(catalog)
        assert isinstance(good, Sample) and isinstance(other, Sample)
        assert isinstance(bad, BadSample) and "'x': there is a null within a list" in str(bad)

    def test_a_number_beyond_64_bits_rejects_the_sample(self, tmp_path: Path) -> None:
        catalog, _ = read_parquet(
            [three(tmp_path, x=pa.array([1, 2**64 - 1, 2], pa.uint64()))], None
        )
        assert [isinstance(each, BadSample) for each in read_all(catalog)] == [False, True, False]

    def test_two_columns_that_would_be_one_field(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="both be the field 'cls'"):
            read_parquet([three(tmp_path, label=[1, 2, 3], cls=[1, 2, 3])], None)


class TestKeys:
    def keys(self, tmp_path: Path, paths: list[str | None], **others: Any) -> list[str]:
        columns = {"image": images([JPEG] * len(paths), paths), **others}
        return [each.key for each in samples_of(write_table(tmp_path / "a.parquet", columns))]

    def test_from_paths(self, tmp_path: Path) -> None:
        assert self.keys(tmp_path, ["x/a.b.jpg", "./y//a.jpg"]) == ["x/a_b", "y/a"]

    @pytest.mark.parametrize("second", [None, "", "y/../a.png", "a.png", "a/..", "a\nb", "."])
    def test_numbers_where_paths_tell_too_little(self, tmp_path: Path, second: str | None) -> None:
        assert self.keys(tmp_path, ["a.jpg", second]) == ["000000000", "000000001"]

    @pytest.mark.parametrize(
        "path",
        ["/home/x/b.jpg", "../../b.jpg", "C:\\x\\b.jpg", "https://x.org/b.jpg", "x/../../b.jpg"],
    )
    def test_paths_that_lead_elsewhere_are_names(self, tmp_path: Path, path: str) -> None:
        assert self.keys(tmp_path, ["a.jpg", path]) == ["a", "b"]

    def test_the_path_stays_a_field_where_the_key_does_not_tell_it(self, tmp_path: Path) -> None:
        column = images([JPEG, JPEG], ["/a.JPG", "b.jpg"])
        first, second = samples_of(write_table(tmp_path / "a.parquet", {"image": column}))
        assert first.fields["filename"] == "/a.JPG"
        assert "filename" not in second.fields

    def test_the_column_of_keys_comes_first(self, tmp_path: Path) -> None:
        assert self.keys(tmp_path, ["a.jpg", "b.jpg"], __key__=["k/1", None]) == ["k/1", "b"]

    @pytest.mark.parametrize(
        "keys", [["a.b", "c"], ["a", "a"], ["../a", "b"], ["", "b"], ["/a", "b"]]
    )
    def test_a_column_of_keys_that_are_none_is_refused(
        self, tmp_path: Path, keys: list[str]
    ) -> None:
        with pytest.raises(SourceError, match="--drop __key__"):
            self.keys(tmp_path, ["a.jpg", "b.jpg"], __key__=keys)


class TestImagesBesideTheFile:
    def test_are_read(self, tmp_path: Path) -> None:
        (tmp_path / "images").mkdir()
        (tmp_path / "images" / "a.png").write_bytes(PNG)
        column = images([None, JPEG], ["images/a.png", "b.jpg"])
        path = write_table(tmp_path / "a.parquet", {"image": column})
        catalog, _ = read_parquet([path], None)
        assert catalog.table["size"].to_list() == [len(PNG), len(JPEG)]
        expected = [Sample("images/a", {"png": PNG}, 0), Sample("b", {"jpg": JPEG}, 1)]
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
        catalog, _ = read_parquet([write_table(folder / "a.parquet", {"image": column})], None)
        bad, good = read_all(catalog)
        assert isinstance(bad, BadSample) and "only names its image" in str(bad)
        assert isinstance(good, Sample)

    def test_an_image_that_is_null(self, tmp_path: Path) -> None:
        path = write_table(tmp_path / "a.parquet", {"image": images([JPEG, None]), "n": [1, 2]})
        assert [each.fields for each in samples_of(path)] == [
            {"jpg": JPEG, "n": Ints((1,))},
            {"n": Ints((2,))},
        ]


class TestOrder:
    @pytest.fixture
    def paths(self, tmp_path: Path) -> list[str]:
        """Two files of several row groups, 110 and 30 rows."""
        found = []
        for name, count, rows in (("a", 110, 40), ("b", 30, 7)):
            columns = {
                "image": images([PNG + bytes([i]) for i in range(count)]),
                "text": [f"{name}{i}" for i in range(count)],
            }
            path = write_table(tmp_path / f"{name}.parquet", columns, row_group_size=rows)
            found.append(path)
        return found

    def test_any_order_any_way(self, paths: list[str], tmp_path: Path) -> None:
        catalog, _ = read_parquet(paths, None)
        texts = [f"a{i}".encode() for i in range(110)] + [f"b{i}".encode() for i in range(30)]
        (tmp_path / "spool").mkdir()
        for each in (catalog, spooled(catalog, tmp_path / "spool")):
            for ordered in (each, each.shuffle(1), each.slice(35, 90), each.shuffle(2).slice(3, 9)):
                indexes = ordered.table["index"].to_list()
                found = read_all(ordered)
                assert [sample.id for sample in found] == indexes  # type: ignore[union-attr]
                assert [sample.fields["text"] for sample in found] == [texts[i] for i in indexes]  # type: ignore[union-attr]

    def test_the_same_row_twice(self, paths: list[str]) -> None:
        catalog, _ = read_parquet(paths, None)
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
        catalog, _ = read_parquet(paths, None)
        with open(paths[1], "ab") as file:
            file.write(b"x")
        with pytest.raises(SourceError, match=r"b\.parquet: has changed"):
            read_all(catalog)


class TestSeveralFiles:
    def test_a_column_that_is_all_null_in_one(self, tmp_path: Path) -> None:
        one = write_table(tmp_path / "1.parquet", {"image": images([JPEG]), "x": pa.nulls(1)})
        two = write_table(tmp_path / "2.parquet", {"image": images([JPEG]), "x": ["text"]})
        for paths in ([one, two], [two, one]):
            found = samples_of(*paths)
            assert sorted(each.fields.get("x", b"") for each in found) == [b"", b"text"]  # type: ignore[type-var]

    def test_of_other_columns(self, tmp_path: Path) -> None:
        one = write_table(tmp_path / "1.parquet", {"image": images([JPEG])})
        two = write_table(tmp_path / "2.parquet", {"image": images([JPEG]), "x": ["text"]})
        with pytest.raises(SourceError, match="only .*2.parquet has 'x': --drop x"):
            read_parquet([one, two], None)
        assert len(samples_of(one, two, dropped=frozenset({"x"}))) == 2

    def test_of_other_types(self, tmp_path: Path) -> None:
        one = write_table(tmp_path / "1.parquet", {"image": images([JPEG]), "x": [1]})
        two = write_table(tmp_path / "2.parquet", {"image": images([JPEG]), "x": ["text"]})
        with pytest.raises(SourceError, match="type string, and of int64"):
            read_parquet([one, two], None)

    def test_of_other_classes(self, tmp_path: Path) -> None:
        columns = {"image": images([JPEG]), "label": [0]}
        one = write_table(tmp_path / "1.parquet", columns, features=CLASSES)
        other = {"label": {"names": ["dog", "cat"], "_type": "ClassLabel"}}
        two = write_table(tmp_path / "2.parquet", columns, features=other)
        with pytest.raises(SourceError, match="other classes"):
            read_parquet([one, two], None)


def test_a_table_beside_images_is_not_taken_for_the_samples(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "a.jpg").write_bytes(JPEG)
    write_table(tmp_path / "metadata.parquet", {"label": [3, 4]})
    with pytest.raises(SourceError, match="holds images and metadata.parquet: say which"):
        read_source(make_source(str(tmp_path)))
    for kind, paths in (("images", ["cat/a.jpg"]), ("parquet", ["000000000", "000000001"])):
        catalog, _ = read_source(make_source(str(tmp_path), kind=kind))
        assert catalog.table["path"].to_list() == paths


def test_what_polars_and_pandas_write(tmp_path: Path) -> None:
    import pandas

    images_of = [{"bytes": JPEG, "path": "a.jpg"}, {"bytes": PNG, "path": "b.png"}]
    rows = {"image": images_of, "label": [1, 0], "text": ["x", "y"], "score": [0.1, 0.2]}
    frame = pandas.DataFrame(rows, index=[3, 9])
    frame["text"] = frame["text"].astype("category")
    frame.to_parquet(tmp_path / "pandas.parquet")
    pl.DataFrame(rows).write_parquet(tmp_path / "polars.parquet")
    of_polars = samples_of(str(tmp_path / "polars.parquet"))
    assert of_polars == [
        Sample("a", {"jpg": JPEG, "cls": 1, "score": Floats((0.1,)), "text": b"x"}, 0),
        Sample("b", {"png": PNG, "cls": 0, "score": Floats((0.2,)), "text": b"y"}, 1),
    ]
    # pandas writes its index as one more column.
    dropped = frozenset({"__index_level_0__"})
    assert samples_of(str(tmp_path / "pandas.parquet"), dropped=dropped) == of_polars


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = three(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(OptionError, match=r"pip install 'dsprep\[parquet\]'"):
        arrow_types.arrow()
    with pytest.raises(OptionError):
        read_parquet([path], None)


def test_rows_of_a_catalog_are_plain(tmp_path: Path) -> None:
    catalog, _ = read_parquet([three(tmp_path)], None)
    assert catalog.rows().files == [0, 0, 0]
    assert catalog.reader.sources() == [str(tmp_path / "three.parquet")]
    assert pa.types.is_struct(IMAGE)
