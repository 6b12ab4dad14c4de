"""Tables beside images: their columns, ids, labels, and what they may get wrong."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.catalog import Catalog
from dsprep.errors import OptionError, SourceError
from dsprep.findings import Finding
from dsprep.sources.labels.cells import parse_cells
from dsprep.sources.labels.classes import Known
from dsprep.sources.labels.table import find_columns, find_separator, read_table
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source


def fill(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A directory whose `images` holds 1.jpg, 2.png, a/3.jpg and b/c/4.jpg."""
    fill(tmp_path / "images", "1.jpg", "2.png", "a/3.jpg", "b/c/4.jpg")
    return tmp_path


def read(root: Path, text: str | bytes, **options: Any) -> tuple[Catalog, list[Finding]]:
    """Read a table of this text, the images lying in `root/images`."""
    path = root / "train.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    known = Known(options.pop("classes", None), options.pop("owner", None))
    source = make_source(root / "images", labels=path, **options)
    known = known._replace(order=source.class_order)
    catalog, findings = read_table(source, path.read_bytes(), None, known)
    said = f"{path.name}: "  # what every report says of a table
    return catalog, [each for each in findings if not each.detail.startswith(said)]


def refusal(root: Path, text: str | bytes, **options: Any) -> str:
    with pytest.raises(SourceError) as caught:
        read(root, text, **options)
    return str(caught.value).removeprefix(f"{root}/")


ALL = "path,label\nb/c/4.jpg,owl\n1.jpg,cat\n2.png,owl\na/3.jpg,dog\n"


def test_paths_and_names(images: Path) -> None:
    catalog, findings = read(images, ALL)
    assert findings == []
    assert (catalog.root, catalog.classes) == (str(images / "images"), ("cat", "dog", "owl"))
    assert catalog.table.select("index", "path", "size", "cls").rows() == [
        (0, "b/c/4.jpg", 9, 2),
        (1, "1.jpg", 5, 0),
        (2, "2.png", 5, 2),
        (3, "a/3.jpg", 7, 1),
    ]
    assert catalog.table["mtime"][1] == (images / "images/1.jpg").stat().st_mtime_ns


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + ALL.replace("\n", "\r\n"),
        ALL.replace(",", "\t"),
        ALL.replace(",", ";"),
        ALL.replace(",", " , "),
        ALL.rstrip("\n"),
        ALL + "\n\n",
        "\n" + ALL,
        ALL.replace("\n1.jpg", "\n\n,\n1.jpg"),
        "".join('"' + line.replace(",", '","') + '"\n' for line in ALL.splitlines()),
    ],
    ids=[
        "windows",
        "tabs",
        "semicolons",
        "blanks",
        "end",
        "blank lines",
        "blank line before",
        "blank rows",
        "quotes",
    ],
)
def test_tables_as_programs_write_them(images: Path, text: str) -> None:
    assert read(images, text)[0].digest() == read(images, ALL)[0].digest()


# Columns


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("path,label", ("path", ("label",))),
        ("id,breed", ("id", ("breed",))),
        ("Image,Id", ("Image", ("Id",))),
        ("image_id,label", ("image_id", ("label",))),
        ("id_code,diagnosis", ("id_code", ("diagnosis",))),
        ("uid,CLASS", ("uid", ("CLASS",))),
        ("filename,dx", ("filename", ("dx",))),
        ("label,width,File_Name,height", ("File_Name", ("label",))),
        ("id,image_path,target", ("image_path", ("target",))),
    ],
)
def test_columns_are_found_by_name(header: str, expected: tuple[str, tuple[str, ...]]) -> None:
    assert find_columns(header.split(","), None, (), "train.csv") == expected


@pytest.mark.parametrize(
    ("path", "labels", "expected"),
    [
        ("id", ("y",), ("id", ("y",))),
        ("label", ("path",), ("label", ("path",))),
        (None, ("x", "y"), ("path", ("x", "y"))),
        (None, ("path",), ("id", ("path",))),
        ("id", (), ("id", ("label",))),
    ],
)
def test_columns_are_those_that_are_given(
    path: str | None, labels: tuple[str, ...], expected: tuple[str, tuple[str, ...]]
) -> None:
    header = ["id", "path", "x", "label", *(["y"] if "y" in labels else [])]
    assert find_columns(header, path, labels, "train.csv") == expected


@pytest.mark.parametrize(
    ("header", "options", "problem"),
    [
        ("a,b", {}, "--path-column: 'a', 'b'"),
        ("a,b,label", {}, "--path-column: 'a', 'b', 'label'"),
        ("path,a,b", {}, "--label-column: 'path', 'a', 'b'"),
        ("000bec18,3", {}, "'000bec18', '3'. If its first line is data already, give --columns"),
        ("path,label,class", {}, "--label-column label or --label-column class: 'path', 'label'"),
        ("path", {}, "--label-column: 'path'"),
        ("path,label", {"path_column": "file"}, "has no column 'file'; its columns are 'path', "),
        ("path,label", {"label_columns": ("label", "x")}, "has no column 'x'"),
    ],
)
def test_columns_that_are_not_clear(
    images: Path, header: str, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(OptionError) as caught:
        read(images, f"{header}\n{','.join('1' * (header.count(',') + 1))}\n", **options)
    assert problem in str(caught.value)


# Ids


def test_ids_find_their_images(images: Path) -> None:
    fill(images / "images", "x.y.jpg")
    text = "id,label\n1,a\n2,b\n3,a\nc/4,b\nb/c/4,a\n4.jpg,a\nx.y,a\n"
    catalog, findings = read(images, text, duplicates="keep")
    assert catalog.table["path"].to_list() == [
        *("1.jpg", "2.png", "a/3.jpg"),
        *("b/c/4.jpg", "b/c/4.jpg"),
        "x.y.jpg",
    ]
    assert catalog.table["index"].to_list() == [0, 1, 2, 4, 5, 6]
    assert [finding[:2] for finding in findings] == [("missing", "c/4"), ("duplicate", "4.jpg")]


def test_ids_may_lack_zeros(tmp_path: Path) -> None:
    fill(tmp_path / "images", *(f"x/{at:05}.jpg" for at in (1, 2, 10)))
    catalog, findings = read(tmp_path, "id,label\n1,a\n2,b\n10,a\n")
    assert catalog.table["path"].to_list() == ["x/00001.jpg", "x/00002.jpg", "x/00010.jpg"]
    said = "its numbers lack zeros that names of files have: 1 is 00001.jpg"
    assert any(each.detail == said for each in findings)
    # If some ids are names, the others are missing, and not files of other names.
    catalog, findings = read(tmp_path, "id,label\n1,a\n00002,b\n")
    assert catalog.table["path"].to_list() == ["x/00002.jpg"]
    assert [each.path for each in findings if each.kind == "missing"] == ["1"]


def test_names_may_have_another_extension(tmp_path: Path) -> None:
    fill(tmp_path / "images", "i0.jpg", "i1.jpg")
    catalog, findings = read(tmp_path, "id,label\ni0.png,a\ni1.png,b\n")
    assert catalog.table["path"].to_list() == ["i0.jpg", "i1.jpg"]
    said = "its names have another extension than files: i0.png is i0.jpg"
    assert any(each.detail == said for each in findings)


def test_a_nearer_name_wins(images: Path) -> None:
    fill(images / "images", "a/1.jpg", "a/2.jpg", "5", "5.jpg", "a/5.jpg")
    catalog, _ = read(images, "id,label\n1.jpg,a\n2,a\n5,a\n")
    assert catalog.table["path"].to_list() == ["1.jpg", "2.png", "5.jpg"]


@pytest.mark.parametrize(
    ("names", "cell", "both"),
    [
        (["1.png"], "1", "'1.jpg' or '1.png'"),
        (["b/3.jpg"], "3", "'a/3.jpg' or 'b/3.jpg'"),
        (["b/3.jpg"], "3.jpg", "'a/3.jpg' or 'b/3.jpg'"),
        (["a/3.png"], "a/3", "'a/3.jpg' or 'a/3.png'"),
    ],
)
def test_an_id_must_not_mean_two(images: Path, names: list[str], cell: str, both: str) -> None:
    fill(images / "images", *names)
    problem = refusal(images, f"id,label\n2,a\n{cell},b\n")
    assert problem.startswith(f"train.csv:3: {cell!r} may mean {both}: ")


def test_two_images_of_a_name_that_no_id_has(images: Path) -> None:
    fill(images / "images", "1.png", "b/3.jpg")
    catalog, findings = read(images, "id,label\n2,a\n")
    assert catalog.table["path"].to_list() == ["2.png"]
    assert {finding.kind for finding in findings} == {"unlisted"}


# Labels


def test_whole_numbers_are_class_numbers(images: Path) -> None:
    catalog, _ = read(images, "id,label\n1,7\n2,0\n3,-1.0\n")
    assert catalog.classes is None
    assert catalog.table["cls"].to_list() == [7, 0, -1]


def test_fractions_are_numbers(images: Path) -> None:
    catalog, _ = read(images, "id,label\n1,0.5\n2,3\n")
    assert catalog.table["label"].to_list() == [[0.5], [3.0]]


def test_several_columns_are_numbers(images: Path) -> None:
    text = "id,x,y,note\n1,0.5,2,\n2,3,-1e3,hm\n"
    catalog, _ = read(images, text, label_columns=("y", "x"))
    assert catalog.table["label"].to_list() == [[2.0, 0.5], [-1000.0, 3.0]]
    problem = refusal(images, text, label_columns=("x", "note"))
    assert problem == "train.csv:2: no label in the column 'note': fill it in, or remove the row"
    problem = refusal(images, text.replace(",\n", ",1\n"), label_columns=("x", "note"))
    assert problem.startswith("train.csv:3: 'hm' in the column 'note' is not a number")


@pytest.mark.parametrize("label", ["9007199254740993", "-9007199254740993", "9007199254740993.0"])
def test_whole_numbers_that_would_change_are_refused(images: Path, label: str) -> None:
    reason = "in the column 'label' is too large: whole numbers have to be below 2^53"
    text = f"id,label,x\n1,{2**53 - 1},1\n2,{label},1\n"
    assert refusal(images, text) == f"train.csv:3: {label!r} {reason}"
    assert refusal(images, text, label_columns=("x", "label")) == f"train.csv:3: {label!r} {reason}"
    catalog, _ = read(images, text.replace(label, "1.5e300"))
    assert catalog.table["label"].to_list() == [[2.0**53 - 1], [1.5e300]]
    catalog, _ = read(images, text + "a/3,cat,1\n", label_type="class")
    assert catalog.classes == tuple(sorted([str(2**53 - 1), label, "cat"]))


@pytest.mark.parametrize(
    ("labels", "line", "problem"),
    [
        (["0", "1", "unknown"], 4, "'unknown' in the column 'label' is not a number, but 2 labels"),
        (["cat", "dog", "7"], 4, "'7' in the column 'label' is a number, but 2 labels"),
        (["1", "cat"], 3, "'cat' in the column 'label' is not a number, but 1 label"),
        (["0", "inf", "2"], 3, "'inf' in the column 'label' is not a number"),
        (["0.5", "1e3", "?"], 4, "'?' in the column 'label' is not a number"),
    ],
)
def test_numbers_beside_names_are_refused(
    images: Path, labels: list[str], line: int, problem: str
) -> None:
    ids = ("1", "2", "a/3")
    text = "id,label\n" + "".join(map("{},{}\n".format, ids, labels))
    told = refusal(images, text)
    assert told.startswith(f"train.csv:{line}: {problem}")
    assert "--label-type class" in told
    assert refusal(images, text, classes=("cat", "x")) == told
    for options in ({"label_type": "class"}, {"classes": tuple(sorted(labels))}):
        catalog, _ = read(images, text, **options)
        assert catalog.classes == tuple(sorted(labels))


@pytest.mark.parametrize("labels", [("1", "1.0", "2"), ("007", "7", "0"), ("1e1", " 3 ", "-1")])
def test_numbers_are_numbers_in_any_spelling(images: Path, labels: tuple[str, ...]) -> None:
    text = "id,label\n" + "".join(map("{},{}\n".format, ("1", "2", "a/3"), labels))
    expected = [int(float(label)) for label in labels]
    for kind in (None, "class"):
        catalog, _ = read(images, text, label_type=kind)
        assert catalog.table["cls"].to_list() == expected


def test_the_type_of_labels_decides(images: Path) -> None:
    text = "id,label\n1,3\n2,4\n"
    catalog, _ = read(images, text, label_type="float")
    assert catalog.table["label"].to_list() == [[3.0], [4.0]]
    told = refusal(images, "id,label\n1,3\n2,4.5\n", label_type="class")
    assert told == "train.csv:3: '4.5' in the column 'label' is not the number of a class"
    told = refusal(images, "id,label\n1,3\n2,cat\n", label_type="float")
    assert told.startswith("train.csv:3: 'cat' in the column 'label' is not a number")


# Several labels in a cell


def cells(*tags: str, separator: str = " ", most: int = 4, seed: int = 0) -> list[str]:
    random = Random(seed)
    made = (random.sample(tags, random.randint(1, most)) for _ in range(40))
    return [separator.join(sorted(each)) for each in made]


PLANET = ("agriculture", "bare_ground", "clear", "cloudy", "haze", "primary", "road", "water")

TAGS = {
    " ": cells(*PLANET),
    "|": ["Mass|Nodule", "Nodule", "Mass|Edema", "Edema|Nodule"],
    ";": ["cat;dog", "dog", "cat"] + ["dog;bird", "bird"],
    ",": [text.replace(" ", ", ") for text in cells(*PLANET, seed=1)],
}

NAMES = {
    "dogs": "golden retriever|toy poodle|standard poodle|toy terrier|standard schnauzer|poodle",
    "places": "New York|New Jersey|New Mexico|Mexico|York|Jersey",
    "sides": "left lung|right lung|lung|left kidney|right kidney|kidney|left eye|right eye|eye",
    "colors": "dark red car|red car|dark blue car|blue car|dark red bus|red bus|blue bus|bus|car",
    "synonyms": "tench, Tinca tinca|tiger, Panthera tigris|lion, king of beasts, Panthera leo",
    "towns": "Springfield, IL|Springfield, MA|Boston, MA|Chicago, IL|Albany, NY|Boston, NY",
    "signs": "stop|no entry|no entry for trucks|speed limit 30|speed limit 50|end of limit 50",
    "one": "golden retriever",
}


@pytest.mark.parametrize("separator", TAGS)
def test_tags_are_told_from_names(separator: str) -> None:
    assert find_separator(TAGS[separator]) == separator


@pytest.mark.parametrize("separator", TAGS)
def test_a_few_tags_that_also_stand_alone_are_told(separator: str) -> None:
    assert find_separator(["cat", "dog", f"cat{separator}dog"]) == separator


def test_y_is_a_coordinate_beside_a_label() -> None:
    columns = find_columns(["image", "x", "y", "label"], None, (), "t.csv")
    assert columns == ("image", ("label",))


@pytest.mark.parametrize("name", NAMES)
def test_names_of_several_words_are_names(images: Path, name: str) -> None:
    texts = NAMES[name].split("|")
    assert find_separator(texts) is None
    text = "id,label\n1," + f'"{texts[0]}"\n'
    assert read(images, text)[0].classes == (texts[0],)


@pytest.mark.parametrize(
    ("texts", "separator"),
    [
        (["7 1", "3", "7 3"], " "),
        (["7|1", "0.5"], "|"),
        (["1,5", "2"], ","),
        (["[1, 5]", "[2]"], ","),
        (["2", "3"], None),
    ],
)
def test_several_numbers_in_a_cell_are_told(texts: list[str], separator: str | None) -> None:
    assert find_separator(texts) == separator


def test_a_column_of_tags_is_refused_with_the_options(images: Path) -> None:
    text = 'id,label\n1,cat\n2,cat|dog\na/3,"dog|bird"\n'
    assert refusal(images, text) == (
        "train.csv:3: 'cat|dog' in the column 'label' looks like several tags (3 different ones in "
        "3 combinations): give --label-separator '|' for labels of a 0 or a 1 for each, or give "
        "--label-type class if each text is the name of one class"
    )
    assert read(images, text, label_type="class")[0].classes == ("cat", "cat|dog", "dog|bird")
    told = refusal(images, "id,label\n1,7\n2,7 1\n")
    assert told.startswith("train.csv:3: '7 1' in the column 'label' looks like several numbers")
    assert "add --label-type float to keep numbers as they are" in told


MANY = "id,tags\n1,haze  primary\n2,\na/3,clear primary clear\n"


def test_tags_are_a_one_for_each(images: Path) -> None:
    catalog, _ = read(images, MANY, label_separator=" ")
    assert catalog.classes == ("clear", "haze", "primary")
    assert catalog.table["label"].to_list() == [[0, 1, 1], [0, 0, 0], [1, 0, 1]]
    given = ("primary", "water", "haze", "clear")
    catalog, _ = read(images, MANY, label_separator=" ", classes=given)
    assert catalog.classes == given
    assert catalog.table["label"].to_list() == [[1, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 1]]
    text = 'id,tags\n1,"[\'haze\', \'primary\']"\n2,[]\na/3,"[""clear"",""primary""]"\n'
    catalog, _ = read(images, text, label_separator=",")
    assert catalog.table["label"].to_list() == [[0, 1, 1], [0, 0, 0], [1, 0, 1]]


def test_tags_that_are_numbers_are_class_numbers(images: Path) -> None:
    text = "id,tags\n1,3 0\n2,1\n"
    catalog, _ = read(images, text, label_separator=" ")
    assert catalog.classes is None
    assert catalog.table["label"].to_list() == [[1, 0, 0, 1], [0, 1, 0, 0]]
    catalog, _ = read(images, text, label_separator=" ", classes=("a", "b", "c", "d", "e"))
    assert catalog.table["label"].to_list() == [[1, 0, 0, 1, 0], [0, 1, 0, 0, 0]]
    text = "id,x\n1,0.5;-3\n2,2;7\n"
    catalog, _ = read(images, text, label_separator=";", label_type="float", label_columns=("x",))
    assert catalog.table["label"].to_list() == [[0.5, -3], [2, 7]]


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        ("1,a b\n2,c d", {"classes": ("a", "b", "c")}, ":3: 'd' in the column 'tags' is none of"),
        ("1,1 2\n2,0 5", {"classes": ("a", "b", "c")}, ":3: '5' in the column 'tags' is none of"),
        ("1,1 2\n2,3 x", {}, ":3: 'x' in the column 'tags' is not a number, but 3 labels"),
        ("1,1 2\n2,0.5", {}, ":3: '0.5' in the column 'tags' is not the number of a class"),
        ("1,1 2\n2,1e300", {}, ":3: '1e300' in the column 'tags' is not the number of a class"),
        ("1,1 2\n2,9007199254740993", {}, ":3: '9007199254740993' in the column 'tags' is too"),
        ("1,1 2\n2,-1", {}, ":3: '-1' in the column 'tags' is not the number of a class"),
        ("1,a b\n2,nan", {}, ":3: no label in the column 'tags'"),
        ("1,\n2,", {}, ": no label in the column 'tags'"),
        ("1,0 2\n2,9999999999", {}, ": labels of 10,000,000,000 classes for 2 rows are more than"),
        ("1,1 2\n2,x", {"label_type": "float"}, ":3: 'x' in the column 'tags' is not a number"),
        ("1,1 2\n2,3", {"label_type": "float"}, ":3: 1 numbers in the column 'tags', where the"),
    ],
)
def test_wrong_tags_are_refused(
    images: Path, text: str, options: dict[str, Any], problem: str
) -> None:
    told = refusal(images, f"id,tags\n{text}\n", label_separator=" ", **options)
    assert told.startswith(f"train.csv{problem}")


def test_names_are_numbered_by_byte(images: Path) -> None:
    catalog, _ = read(images, "id,label\n1,é\n2,a b\n3,Z\n4,10\n", label_type="class")
    assert catalog.classes == ("10", "Z", "a b", "é")
    assert catalog.table["cls"].to_list() == [3, 2, 1, 0]


def test_given_classes_number_the_names(images: Path) -> None:
    classes = ("owl", "ape", "cat", "dog")
    catalog, _ = read(images, ALL, classes=classes)
    assert catalog.classes == classes
    assert catalog.table["cls"].to_list() == [0, 2, 0, 3]
    problem = refusal(images, ALL, classes=classes[:3])
    assert problem == "train.csv:5: 'dog' in the column 'label' is none of the 3 classes"


def test_given_classes_may_look_like_numbers(images: Path) -> None:
    text = "id,label\n1,2\n2,1\n"
    assert read(images, text, classes=("2", "1"))[0].table["cls"].to_list() == [0, 1]
    catalog, _ = read(images, text, classes=("a", "b", "c"))
    assert catalog.table["cls"].to_list() == [2, 1]
    assert catalog.classes == ("a", "b", "c")
    assert refusal(images, text, classes=("a", "b")) == "train.csv:2: 2 is none of the 2 classes"


@pytest.mark.parametrize("cell", ["", '""', " ", "NaN", "nan"])
def test_missing_labels_are_refused(images: Path, cell: str) -> None:
    problem = refusal(images, f"id,breed\n1,5\n2,{cell}\n")
    assert problem.startswith("train.csv:3: no label in the column 'breed'")


def test_missing_paths_are_refused(images: Path) -> None:
    assert refusal(images, "id,breed\n1,5\n,6\n") == "train.csv:3: no path in the column 'id'"


@pytest.mark.parametrize("path", ["/etc/passwd", "../1.jpg", "a/../1.jpg", ".."])
def test_paths_that_lead_outside_are_refused(images: Path, path: str) -> None:
    problem = refusal(images, f"path,label\n1.jpg,5\n{path},6\n")
    assert problem == f"train.csv:3: {path!r} is not a path below the folder"


# Against the disk


def test_paths_of_another_machine_mean_names(images: Path) -> None:
    for begins in ("/data/upload/1/", "gs://bucket/x/", "C:/data/"):
        text = f"image_url,choice\n{begins}a/3.jpg,owl\n{begins}1a2b3c4d-1.jpg,cat\n"
        catalog, findings = read(images, text)
        assert catalog.table["path"].to_list() == ["a/3.jpg", "1.jpg"]
        (note,) = (each for each in findings if each.kind == "note")
        assert note.detail.startswith("its paths are of another machine: ")


@pytest.mark.parametrize(
    ("own", "others", "said"),
    [
        ("train/1.jpg", "test/1.jpg", "'train/1.jpg', which is of another side: give the dir"),
        ("cat/1.jpg", "x/1.jpg", "no more than the name of 'dog/3.jpg', and others lie elsewhere"),
    ],
)
def test_paths_of_another_machine_mean_no_images_of_other_directories(
    tmp_path: Path, own: str, others: str, said: str
) -> None:
    fill(tmp_path / "images", own, "dog/3.jpg")
    problem = refusal(tmp_path, f"path,label\n/data/{others},a\n/data/x/3.jpg,b\n")
    assert said in problem


def test_missing_unlisted_and_duplicates(images: Path) -> None:
    fill(images / "images", "notes.txt", "b/.hidden.jpg")
    catalog, findings = read(images, "id,label\n1,a\n9,b\n./1.jpg,a\n", duplicates="keep")
    assert catalog.table.select("index", "path").rows() == [(0, "1.jpg"), (2, "1.jpg")]
    assert catalog.classes == ("a", "b")
    assert findings == [
        Finding("missing", "9", "train.csv:3"),
        Finding("duplicate", "./1.jpg", "train.csv:4, and in line 2 already"),
        Finding("unlisted", "2.png"),
        Finding("unlisted", "a/3.jpg"),
        Finding("unlisted", "b/c/4.jpg"),
        Finding("hidden", "b/.hidden.jpg"),
        Finding("not-an-image", "notes.txt"),
    ]


def test_rows_that_repeat_an_image_are_asked_about(images: Path) -> None:
    text = "id,label\n1,a\n2,b\n./1.jpg,b\n1,a\n"
    assert refusal(images, text) == (
        "train.csv:4: './1.jpg' stands in line 2 already, with another label (2 rows like this, "
        "the next in line 5): give --duplicates first to use only the first row of each image, or "
        "--duplicates keep to make a sample of each row"
    )
    boxes = "id,xmin,xmax,label\n1,0,5,a\n1,2,9,a\n"
    assert refusal(images, boxes).endswith(
        "make a sample of each row; for rows of one box each ('xmin', 'xmax'), give the table with "
        "--annotations instead"
    )
    catalog, findings = read(images, text, duplicates="first")
    assert catalog.table.select("index", "path", "cls").rows() == [(0, "1.jpg", 0), (1, "2.png", 1)]
    assert [each for each in findings if each.kind == "repeated"] == [
        Finding("repeated", "./1.jpg", "train.csv:4, and in line 2 already"),
        Finding("repeated", "1", "train.csv:5, and in line 2 already"),
    ]


def test_a_table_of_other_images(images: Path) -> None:
    problem = refusal(images, "id,label\nx,a\ny,b\n")
    assert problem.startswith("train.csv: not one of the 2 files that it names lies below")


# The file itself


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ": not a table"),
        ("\n\n", ": not a table"),
        ("path,label\n", ": names no files"),
        ("path,label\n,\n\n", ": names no files"),
        ("path,label,label\n1,2,3\n", ":1: two columns have one name"),
        ("path,label\n1.jpg,a\n2.png,a,b\n", ":3: 3 cells, where the header has 2"),
        ('path,label\n1.jpg,a\n2.png,"a\n', ":3: unexpected end of data"),
        (b"path,label\n1.jpg,caf\x81\n", ":2: not UTF-8"),
        ("path,label\n1.jpg,a\n".encode("utf-16")[:-1], ":2: not UTF-16"),
        ("path,label,x\n1.jpg,a,b\n2.png,a", ":3: the last line has 2 cells of 3 and no"),
        ("path,label\n1.jpg,dog\n2.png,do", ":3: 'do' begins like 'dog', no other row has it"),
    ],
)
def test_a_wrong_table(images: Path, text: str | bytes, problem: str) -> None:
    assert refusal(images, text).startswith(f"train.csv{problem}")


def test_a_table_without_a_header_is_told(images: Path) -> None:
    options: dict[str, Any] = {"path_column": "path", "label_columns": ("label",)}
    with pytest.raises(
        OptionError, match="has to name the columns, but looks like data: '"
    ) as told:
        read(images, "a/3.jpg,0,1\n2.png,1,2\n", **options)
    assert "Give --columns path,label,column_3, or put such a line above it" in str(told.value)


COCO = {"info": {}, "images": [{"id": 1}] * 200, "annotations": [], "categories": []}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (json.dumps(COCO), "COCO's JSON"),
        (json.dumps(COCO, indent=1), "COCO's JSON"),
        ('[{"id": 1, "annotations": [], "data": {}}]', "Label Studio's JSON"),
        ('{"a.jpg": "cat"}', "JSON"),
        ("<?xml version='1.0'?>\n<annotations>\n<version>", "CVAT's XML"),
        ("<annotation>\n<folder>x</folder>", "Pascal VOC's XML"),
        ("<?xml version='1.0'?>\n<annotation>", "Pascal VOC's XML"),
        ("0 0.5 0.5 0.25 0.125\n3 0.1 0.1 0.1 0.1\n", "a label file of YOLO"),
    ],
)
def test_files_of_annotation_tools_are_known(images: Path, text: str, what: str) -> None:
    told = refusal(images, text)
    assert told.startswith(f"train.csv: is {what}, which is neither a table nor a list: ")
    assert ("--annotations" in told) == (what != "JSON")
    assert len(told) < 400


def test_a_manifest_is_no_table(images: Path) -> None:
    told = refusal(images, '{"source-ref": "s3://b/1.jpg", "label": 1}\n')
    assert told.startswith("train.csv: is an augmented manifest of SageMaker: give it with --list")


def test_long_values_are_shortened(images: Path) -> None:
    names = ",".join(f"pixel{n}" for n in range(785))
    with pytest.raises(OptionError, match=r"'pixel0', .*'pixel19' and 765 more$"):
        read(images, f"{names}\n1\n")
    told = refusal(images, f"id,label\n1,3\n2,4\na/3,{'x' * 5000}\n")
    assert "(5,002 characters)" in told
    assert len(told) < 300


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"train.csv: cannot be read: No such file"):
        read_source(make_source(tmp_path, labels=tmp_path / "train.csv"))


def test_lines_are_counted_through_cells_of_several(images: Path) -> None:
    text = 'id,note,label\n\n1,"two\nlines",a\n\n2,"three\n\nlines",\n'
    assert refusal(images, text) == (
        "train.csv:6: no label in the column 'label': fill it in, or remove the row"
    )


# Python strips the control characters 28 to 31, too; nobody else does.
cell = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\x1c\x1d\x1e\x1f"), max_size=5
)


@given(
    st.integers(1, 4).flatmap(
        lambda width: st.lists(
            st.lists(cell, min_size=width, max_size=width), min_size=1, max_size=5
        )
    ),
    st.sampled_from(",;\t"),
    st.sampled_from(["\n", "\r\n"]),
)
def test_cells_are_those_that_csv_writes(rows: list[list[str]], separator: str, end: str) -> None:
    header = [f"column {number}" for number in range(len(rows[0]))]
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([header, *rows])
    expected = [tuple(cell.strip() for cell in row) for row in rows]
    expected = [row for row in expected if any(row)]
    if not expected:
        with pytest.raises(SourceError, match="names no files"):
            parse_cells(text.getvalue(), "t")
        return
    cells, lines, *_ = parse_cells(text.getvalue(), "t")
    assert cells.columns == header
    assert cells.rows() == expected
    starts = [1]
    for row in [header, *rows]:
        starts.append(starts[-1] + 1 + sum(cell.count("\n") for cell in row))
    assert lines.to_list() == [
        start for start, row in zip(starts[1:], rows, strict=False) if any(map(str.strip, row))
    ]


@pytest.mark.parametrize("fractions", [1, 3])
def test_few_fractions_among_class_numbers_are_refused(tmp_path: Path, fractions: int) -> None:
    names = [f"{n:02}.jpg" for n in range(24)]
    fill(tmp_path / "images", *names)
    labels = [2.5 if n < fractions else n % 3 for n in range(24)]
    rows = (f"{name},{label}\n" for name, label in zip(names, labels, strict=True))
    text = "path,label\n" + "".join(rows)
    if fractions == 1:
        said = refusal(tmp_path, text)
        assert said.startswith("train.csv:2: '2.5' in the column 'label' is a fraction, but 23")
        assert "--label-type float" in said
    catalog, _ = read(tmp_path, text, label_type="float" if fractions == 1 else None)
    assert catalog.label_column == "label"
