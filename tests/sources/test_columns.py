"""Tables in all their forms, their further columns as fields, and classes in file names."""

from __future__ import annotations

import io
import json
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dsprep
from dsprep.errors import DestinationError, DsprepError, OptionError, SourceError
from dsprep.sources.labels.cells import parse_cells
from dsprep.sources.labels.columns import kind_of
from tests.images import jpeg, png

ROWS = [("b/c", "owl", 1.5, 7), ("1", "cat", None, 8), ("2", "Jörg", 2.0, 9)]
NAMES = ("id", "label", "weight", "count")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    for number, name in enumerate(("b/c", "1", "2")):
        path = tmp_path / f"images/{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(seed=number, size=(32, 24)))
    return tmp_path


def as_csv(separator: str = ",", header: bool = True) -> str:
    rows = [NAMES, *ROWS] if header else ROWS
    return "".join(
        separator.join("" if cell is None else str(cell) for cell in row) + "\n" for row in rows
    )


def as_json_lines() -> str:
    rows = (dict(zip(NAMES, row, strict=True)) for row in ROWS)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def as_parquet() -> bytes:
    data = io.BytesIO()
    pl.DataFrame(ROWS, NAMES, orient="row").write_parquet(data)
    return data.getvalue()


FORMS: dict[str, tuple[bytes, tuple[str, ...], str]] = {
    "commas": (as_csv().encode(), (), "CSV with commas in UTF-8"),
    "semicolons": (as_csv(";").encode("utf-8-sig"), (), "CSV with semicolons in UTF-8"),
    "bars": (as_csv("|").encode(), (), "CSV with bars in UTF-8"),
    "Excel": (as_csv("\t").encode("utf-16"), (), "CSV with tabs in UTF-16"),
    "unmarked": (as_csv("\t").encode("utf-16-be"), (), "CSV with tabs in UTF-16"),
    "Windows": (
        as_csv().encode("cp1252"),
        (),
        "CSV with commas in Windows-1252, as it is not UTF-8 (check 1 line: '2,Jörg,2.0,9' in line "
        "4)",
    ),
    "no header": (as_csv(header=False).encode(), NAMES, "CSV with commas in UTF-8"),
    "spaces": (as_csv(" ", header=False).encode(), NAMES, "CSV with spaces in UTF-8"),
    "JSON Lines": (as_json_lines().encode(), (), "JSON Lines in UTF-8"),
    "Parquet": (as_parquet(), (), "Parquet"),
}


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_are_one_table(images: Path, form: str) -> None:
    data, columns, said = FORMS[form]
    (images / "table").write_bytes(data)
    report = dsprep.pack(
        images / "images", images / "out", to="webdataset", labels=images / "table",
        columns=columns, fields=("weight", "count"), shuffle=False,
    )  # fmt: skip
    assert report.classes == ("Jörg", "cat", "owl")
    assert report.notes == [
        f"table: {said}, 3 rows; labels from 'label': 3 classes",
        "fields of the table: weight is float64, and 1 row without a value; count is int",
    ]
    samples = read_tar(images / "out/train-000000.tar")
    assert [(key, own["cls"], json.loads(own["json"])) for key, own in samples.items()] == [
        ("b/c", b"2", {"weight": 1.5, "count": 7}),
        ("1", b"1", {"count": 8}),
        ("2", b"0", {"weight": 2.0, "count": 9}),
    ]
    assert samples["b/c"]["jpg"] == (images / "images/b/c.jpg").read_bytes()


def read_tar(path: Path) -> dict[str, dict[str, bytes]]:
    samples: dict[str, dict[str, bytes]] = {}
    with tarfile.open(path) as tar:
        for member in tar:
            key, _, extension = member.name.partition(".")
            file = tar.extractfile(member)
            assert file is not None
            samples.setdefault(key, {})[extension] = file.read()
    return samples


def refusal(images: Path, data: str | bytes, name: str = "t.csv", **options: Any) -> str:
    path = images / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    with pytest.raises(DsprepError) as caught:
        dsprep.pack(images / "images", images / "out", to="webdataset", labels=path, **options)
    assert not (images / "out").exists()
    return str(caught.value).replace(f"{images}/", "")


@pytest.mark.parametrize(
    ("data", "name", "options", "problem"),
    [
        ('{"id": 1, "label": "a"}\n{"id": 2, "la', "t.jsonl", {}, ":2: is not an object of JSON: "
         "it is the last line, so the file may be cut"),
        ('{"id": 1, "label": "a"}\n[1]\n{"id": 2}\n', "t.jsonl", {}, ":2: is not an object"),
        ('{"id": 1}\n{"id": "\\ud800", "label": "b"}\n', "t.jsonl", {}, ": has a text with half"),
        (as_parquet()[:-9], "t.parquet", {}, ": is not a whole Parquet file"),
        ("1,cat\n", "t.csv", {"columns": ("id", "label", "x")}, "--columns id,label,x: t.csv:1 has "
         "2 cells: '1', 'cat'"),
        (as_parquet(), "t.csv", {"columns": ("a", "b")}, "--columns: t.csv is Parquet, which"),
        (as_csv(), "t.csv", {"fields": ("no",)}, "--fields no: t.csv has the columns 'id',"),
        (as_csv(), "t.csv", {"fields": ("label",)}, "--fields label: the label of a sample"),
        ("id,label\n1,a\n2,\nb/c,nan\n", "t.csv", {}, ":3: no label in the column 'label' (1 more "
         "like this: line 4): fill it in, or remove the row"),
        ("id,label\n1,7\n2,8\nb/c,9\n3,x\n4,y\n5,y\n", "t.csv", {}, ":5: 'x' in the column 'label' "
         "is not a number, but 3 labels of this column are: correct it, or give --label-type class "
         "if all labels are names of classes (2 more like this, such as 'y' in line 6)"),
        ("id,label\n1,a\n,b\n2,c\n,d\n", "t.csv", {}, ":3: no path in the column 'id' (1 more like "
         "this: line 5)"),
        ("id,a,b\n1,0,1\n2,0,2\n", "t.csv", {"label_columns": ("a", "b"), "label_type": "multi"},
         ":3: '2' in the column 'b' is not 0 or 1, as a tag must be"),
        ("id,tags\n1,a\n2,b\n", "t.csv", {"label_type": "multi"}, "--label-type multi: nothing"),
    ],
)  # fmt: skip
def test_a_wrong_table(
    images: Path, data: str | bytes, name: str, options: dict[str, Any], problem: str
) -> None:
    told = refusal(images, data, name, **options)
    assert told.removeprefix(name).startswith(problem), told


@pytest.mark.parametrize("header", ['path,"label', f"path,label,{'x' * 140_000}"])
def test_a_first_row_that_cannot_be_read(header: str) -> None:
    data = f"{header}\n{'a.jpg,cat' * 20_000}\n".encode()
    with pytest.raises(SourceError, match=r"a.csv: its first row cannot be read: field larger"):
        parse_cells(data, "a.csv")


def test_a_tag_that_no_class_has(images: Path) -> None:
    (images / "classes.txt").write_text("a\nb\n")
    told = refusal(
        images, "id,tags\n1,a b\n2,c a\nb/c,c d\n", label_separator=" ",
        classes=images / "classes.txt",
    )  # fmt: skip
    assert told == (
        "t.csv:3: 'c' in the column 'tags' is none of the 2 classes (2 more like this, such as 'd' "
        "in line 4)"
    )


def test_columns_of_flags_are_tags(images: Path) -> None:
    (images / "t.csv").write_text("id,haze,clear\n1,0,1\n2,1,0\nb/c,1,1\n")
    report = dsprep.pack(
        images / "images", images / "out", to="webdataset", labels=images / "t.csv",
        label_columns=("haze", "clear"), label_type="multi", shuffle=False,
    )  # fmt: skip
    assert report.classes == ("haze", "clear")
    labels = [own["label.json"] for own in read_tar(images / "out/train-000000.tar").values()]
    assert list(map(json.loads, labels)) == [[0, 1], [1, 0], [1, 1]]


def test_lists_of_json_are_tags(images: Path) -> None:
    rows = [{"id": "1", "label": ["a", "b"]}, {"id": "2", "label": ["b"]}]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    assert "looks like several tags" in refusal(images, text, "t.jsonl")
    report = dsprep.pack(
        images / "images", images / "out", to="webdataset", labels=images / "t.jsonl",
        label_type="multi", shuffle=False,
    )  # fmt: skip
    assert report.classes == ("a", "b")
    labels = [own["label.json"] for own in read_tar(images / "out/train-000000.tar").values()]
    assert list(map(json.loads, labels)) == [[1, 1], [0, 1]]


def test_text_that_is_a_number_stays_text(images: Path) -> None:
    (images / "t.csv").write_text("id,label\n1,007\n2,7\nb/c,1e3\n")
    dsprep.pack(
        images / "images", images / "out", to="webdataset", labels=images / "t.csv",
        label_type="text", shuffle=False,
    )  # fmt: skip
    labels = [set(own.values()) for own in read_tar(images / "out/train-000000.tar").values()]
    assert [text in own for text, own in zip((b"007", b"7", b"1e3"), labels, strict=True)] == [
        True
    ] * 3


def test_fields_need_no_label(images: Path) -> None:
    (images / "t.csv").write_text('id,caption\n1,"a, b\nc"\n2,nan\nb/c,d\n')
    report = dsprep.pack(
        images / "images", images / "out", to="webdataset", labels=images / "t.csv",
        fields=("caption",), shuffle=False,
    )  # fmt: skip
    samples = read_tar(images / "out/train-000000.tar")
    assert [own["caption.txt"] for own in samples.values()] == [b"a, b\nc", b"nan", b"d"]
    assert report.notes[0] == "t.csv: CSV with commas in UTF-8, 3 rows; no labels"


def test_a_field_with_a_name_of_labels_is_no_label(images: Path) -> None:
    (images / "t.csv").write_text("id,label,category\n1,a,20\n2,b,30\nb/c,a,30\n")
    given: dict[str, Any] = {"labels": images / "t.csv", "fields": ("category",)}
    dsprep.pack(images / "images", images / "out", to="webdataset", shuffle=False, **given)
    samples = read_tar(images / "out/train-000000.tar").values()
    assert [(own["cls"], own["json"]) for own in samples] == [
        (b"0", b'{"category":20}'),
        (b"1", b'{"category":30}'),
        (b"0", b'{"category":30}'),
    ]
    with pytest.raises(OptionError, match="--label-field category: the label is 'label', from"):
        dsprep.pack(
            images / "images", images / "two", to="webdataset", label_field="category", **given
        )


def test_their_schema_can_be_given_again(images: Path) -> None:
    (images / "t.csv").write_text("id,label,age\n1,a,20\n2,b,30\nb/c,a,30\n")
    given: dict[str, Any] = {"to": "webdataset", "labels": images / "t.csv", "fields": ("age",)}
    schema = images / "schema.json"
    dsprep.pack(images / "images", images / "one", schema_out=schema, **given)
    dsprep.pack(images / "images", images / "two", schema=schema, **given)
    for path in (images / "one").iterdir():
        assert path.read_bytes() == (images / "two" / path.name).read_bytes()


def test_a_word_among_numbers_is_said(images: Path) -> None:
    (images / "t.csv").write_text("id,label,age\n1,a,20\n2,a,unknown\nb/c,a,30\n")
    report = dsprep.pack(
        images / "images", images / "out", to="webdataset", labels=images / "t.csv",
        fields=("age",),
    )  # fmt: skip
    assert report.notes[1] == (
        "fields of the table: age is text, because 1 cell is no number ('unknown' in line 3)"
    )


@pytest.mark.parametrize("to", ["webdataset", "tfrecord", "parquet", "folder"])
def test_fields_come_back_from_each_format(images: Path, to: str) -> None:
    (images / "t.parquet").write_bytes(as_parquet())
    given = {"labels": images / "t.parquet", "fields": ("weight", "count")}
    dsprep.convert(images / "images", images / "out", to=to, **given)
    dsprep.convert(images / "out", images / "back", to="parquet")
    (path,) = (images / "back").glob("*.parquet")
    table = pl.read_parquet(path)
    label = table.select("label", "weight", "count").rows()
    assert sorted(label) == [(0, 2.0, 9), (1, None, 8), (2, 1.5, 7)]


def test_fields_from_an_archive_with_any_workers(images: Path) -> None:
    with tarfile.open(images / "images.tar", "w") as tar:
        tar.add(images / "images", "images")
    (images / "t.csv").write_text(as_csv())
    for number, workers in enumerate((1, 2)):
        dsprep.pack(
            images / "images.tar", images / f"out{number}", to="webdataset", workers=workers,
            labels=images / "t.csv", fields=("count",), samples_per_shard=1,
        )  # fmt: skip
    first, second = (
        {path.name: path.read_bytes() for path in (images / f"out{number}").glob("*.tar")}
        for number in (0, 1)
    )
    assert first == second and len(first) == 3


def test_fields_do_not_go_with_whole_samples(images: Path) -> None:
    (images / "t.csv").write_text("id,label,x\n1,a,1\n")
    dsprep.pack(images / "images", images / "shards", to="webdataset", labels=images / "t.csv")
    with pytest.raises(OptionError, match="--fields x: goes with images that are files"):
        dsprep.convert(
            images / "shards", images / "out", to="tfrecord", labels=images / "t.csv",
            fields=("x",),
        )  # fmt: skip


def test_a_list_has_no_fields(images: Path) -> None:
    (images / "t.csv").write_text(as_csv())
    with pytest.raises(OptionError, match="--fields has no effect: a list holds"):
        dsprep.split(
            images / "images", out=images / "lists", ratios={"a": 0.5, "b": 0.5},
            labels=images / "t.csv", fields=("count",),
        )  # fmt: skip


def test_another_value_is_another_data_set(images: Path) -> None:
    for count in (7, 6):
        (images / "t.csv").write_text(as_csv().replace("7", str(count)))
        given = {"labels": images / "t.csv", "fields": ("count",), "to": "webdataset"}
        if count == 6:
            with pytest.raises(DestinationError, match="another command wrote"):
                dsprep.pack(images / "images", images / "out", **given)
        else:
            dsprep.pack(images / "images", images / "out", **given)
            dsprep.pack(images / "images", images / "out", **given)  # is done already


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "-2"], "int"),
        (["1", "2.5", "1e3"], "float64"),
        (["007", "1"], "text"),
        (["true", "False"], "bool"),
        (["1", "true"], "text"),
        ([], ""),
    ],
)
def test_kinds_of_cells(cells: list[str], kind: str) -> None:
    assert kind_of(cells) == kind


def test_damaged_parquet_is_refused_or_read() -> None:
    data = as_parquet()
    for at in range(4, len(data)):
        damaged = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
        for wrong in (damaged, data[:at]):
            with suppress(SourceError):
                parse_cells(wrong, "t")


# Classes in file names


def name_images(root: Path, *names: str) -> Path:
    root.mkdir(parents=True)
    for number, name in enumerate(names):
        (root / name).write_bytes(jpeg(seed=number, size=(32, 24)))
    return root


PETS = ("cat.0.jpg", "cat.1.jpg", "dog.0.jpg", "dog.1.jpg", "dog.2.jpg")


def test_the_class_in_a_file_name(tmp_path: Path) -> None:
    root = name_images(tmp_path / "pets", *PETS)
    report = dsprep.pack(root, tmp_path / "out", to="webdataset", label_regex=r"^(\w+)\.")
    assert (report.classes, report.per_class) == (("cat", "dog"), {0: 2, 1: 3})
    plain = dsprep.pack(root, tmp_path / "plain", to="webdataset")
    assert "takes 2 classes from file names: cat, dog" in plain.notes[0]
    assert "--label-regex REGEX" in plain.notes[1]
    lists = dsprep.split(
        root, out=tmp_path / "lists", ratios={"a": 0.6, "b": 0.4}, label_regex=r"^(\w+)\."
    )
    assert [each.name for each in lists.classes] == ["cat", "dog"]


def test_the_number_in_a_file_name(tmp_path: Path) -> None:
    root = name_images(tmp_path / "faces", "25_0_a.jpg", "3.5_1_b.jpg")
    options: dict[str, Any] = {"to": "webdataset", "label_regex": r"^([^_]+)_"}
    dsprep.pack(root, tmp_path / "out", label_type="float", shuffle=False, **options)
    labels = [own["label.json"] for own in read_tar(tmp_path / "out/train-000000.tar").values()]
    assert list(map(json.loads, labels)) == [25, 3.5]
    with pytest.raises(SourceError, match=r"finds 2 texts .* that are no numbers: a, b"):
        options["label_regex"] = r"_(.)\."
        dsprep.pack(root, tmp_path / "no", label_type="float", **options)


def test_a_class_in_the_name_and_a_mask(tmp_path: Path) -> None:
    name_images(tmp_path / "pets" / "images", *PETS)
    (tmp_path / "pets" / "masks").mkdir()
    for name in PETS:
        (tmp_path / "pets" / "masks" / f"{name[:-4]}.png").write_bytes(png(size=(32, 24)))
    pairs = {"image": "images/*.jpg", "mask": "masks/*.png"}
    options: dict[str, Any] = {"to": "webdataset", "pairs": pairs, "label_regex": r"^(\w+)\."}
    report = dsprep.pack(tmp_path / "pets", tmp_path / "out", shuffle=False, **options)
    assert (report.classes, report.per_class) == (("cat", "dog"), {0: 2, 1: 3})
    samples = read_tar(tmp_path / "out/train-000000.tar")
    assert all({"jpg", "mask.png", "cls"} <= own.keys() for own in samples.values())
    assert [own["cls"] for own in samples.values()] == [b"0", b"0", b"1", b"1", b"1"]
    for wrong in ({"pairs": pairs | {"cls": "labels/*.txt"}}, {"pairs": None, "parts": True}):
        with pytest.raises(OptionError, match="--label-regex"):
            dsprep.pack(tmp_path / "pets", tmp_path / "no", **options | wrong)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"label_regex": r"^(d\w+)"}, "finds no class in 2 file names of 5 in .*: cat.0.jpg, cat"),
        ({"label_regex": "("}, "not a regular expression"),
        ({"label_regex": "a", "labels": "t.csv"}, "takes labels from file names"),
        ({"label_regex": "a", "label_type": "multi"}, "takes one class"),
        ({"label_regex": r"^(\w+)\.", "classes": "classes.txt"}, "'dog' is not among the 1 class"),
    ],
)
def test_wrong_regular_expressions(tmp_path: Path, options: dict[str, Any], problem: str) -> None:
    root = name_images(tmp_path / "pets", *PETS)
    (tmp_path / "classes.txt").write_text("cat\n")
    if "classes" in options:
        options = options | {"classes": tmp_path / "classes.txt"}
    with pytest.raises(DsprepError, match=problem):
        dsprep.pack(root, tmp_path / "out", to="webdataset", **options)
