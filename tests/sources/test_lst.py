"""MXNet's lists: read as im2rec reads them, matched with the disk, and refused by line."""

from __future__ import annotations

import math
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsprep.catalog import Catalog
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.formats.recordio import RecordIO
from dsprep.lists.rows import parse_rows
from dsprep.sources.labels.classes import Known
from dsprep.sources.pictures.tree import read_lists
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from dsprep.text import read_text

CLASSES = ("cat", "dog", "owl")


def fill(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())


def read(root: Path, text: str | bytes, **options: Any) -> tuple[Catalog, list[Finding]]:
    """Read a list of this text, the images lying in `root/images`."""
    path = root / "train.lst"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    known = Known(options.pop("classes", None), options.pop("owner", None))
    source = make_source(root / "images", list_file=path, **options)
    known = known._replace(order=source.class_order)
    return read_lists(source, [(str(path), read_text(str(path)))], None, known)


def refusal(root: Path, text: str | bytes, **options: Any) -> str:
    with pytest.raises(SourceError) as caught:
        read(root, text, **options)
    return str(caught.value).removeprefix(f"{root}/")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A directory whose `images` holds a/1.jpg, a/2.jpg, b/3.jpg and 4.jpg."""
    fill(tmp_path / "images", "a/1.jpg", "a/2.jpg", "b/3.jpg", "4.jpg")
    return tmp_path


ALL = "7\t0\ta/1.jpg\n5\t1\ta/2.jpg\n6\t2\tb/3.jpg\n0\t1\t4.jpg\n"


def test_ids_labels_and_order_are_the_lists(images: Path) -> None:
    catalog, findings = read(images, ALL)
    assert findings == []
    assert (catalog.root, catalog.classes) == (str(images / "images"), None)
    assert catalog.table.select("index", "path", "size", "cls").rows() == [
        (7, "a/1.jpg", 7, 0),
        (5, "a/2.jpg", 7, 1),
        (6, "b/3.jpg", 7, 2),
        (0, "4.jpg", 5, 1),
    ]
    assert catalog.table["mtime"][3] == (images / "images/4.jpg").stat().st_mtime_ns


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_images_are_found_some_at_a_time(
    images: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsprep.sources.labels.choose._JOINED", at_once)
    fill(images / "images", *(f"c/{'x' * number}.jpg" for number in range(1, 30)))
    names = [f"c/{'x' * (number * 7 % 40)}.jpg" for number in range(40)]  # some are not there
    names += ["b/3.jpg", *names[:3]]
    lines = (f"{number}\t0\t{name}\n" for number, name in enumerate(names))
    catalog, findings = read(images, "".join(lines), duplicates="keep")
    there = [name for name in names if (images / "images" / name).is_file()]
    assert catalog.table["path"].to_list() == there
    assert catalog.table["size"].to_list() == list(map(len, there))
    missing = [each.path for each in findings if each.kind == "missing"]
    assert missing == [name for name in names if name not in there]


@pytest.mark.parametrize(
    "text",
    [
        ALL.replace("\n", "\r\n"),
        "\ufeff" + ALL,
        "\n\n" + ALL.replace("\n", "\n \t\n"),
        ALL.rstrip("\n"),
        ALL.replace("\t", " \t  "),
        ALL.replace("\t0\t", "\t0.000000\t").replace("\t2\t", "\t2e0\t"),
    ],
    ids=["crlf", "bom", "blank lines", "no last newline", "blanks", "floats"],
)
def test_lists_as_editors_and_im2rec_write_them(images: Path, text: str) -> None:
    assert read(images, text)[0].digest() == read(images, ALL)[0].digest()


def test_several_labels_are_a_list(images: Path) -> None:
    catalog, _ = read(images, "0\t1\t2\ta/1.jpg\n1\t0.5\t-3\ta/2.jpg\n")
    assert catalog.table["label"].to_list() == [[1.0, 2.0], [0.5, -3.0]]


def test_a_fraction_makes_all_labels_lists(images: Path) -> None:
    catalog, _ = read(images, "0\t1\ta/1.jpg\n1\t0.5\ta/2.jpg\n", classes=CLASSES)
    assert catalog.table["label"].to_list() == [[1.0], [0.5]]


def test_detection_labels_differ_in_length(images: Path) -> None:
    one = [2, 5, 1, 0.1, 0.2, 0.3, 0.4]
    two = [4, 5, 640, 480, 0, 0.1, 0.2, 0.3, 0.4, 2, 0.5, 0.5, 1, 1]
    lines = ["\t".join(map(str, [0, *one, "a/1.jpg"])), "\t".join(map(str, [1, *two, "a/2.jpg"]))]
    catalog, _ = read(images, "\n".join(lines), classes=CLASSES)
    assert catalog.table["label"].to_list() == [one, two]
    assert catalog.classes == CLASSES


def test_classes_name_the_numbers(images: Path) -> None:
    catalog, _ = read(images, ALL, classes=CLASSES)
    assert catalog.samples_per_class() == {0: 1, 1: 2, 2: 1}
    problem = refusal(images, ALL, classes=CLASSES[:2])
    assert problem == "train.lst:3: 2 is none of the 2 classes"


def test_classes_beside_a_list_name_its_numbers(images: Path) -> None:
    def beside(text: str, classes: str) -> tuple[Catalog, list[str]]:
        (images / "classes.txt").write_text(classes)
        catalog, findings = read(images, text)
        notes = [each.detail for each in findings if each.kind == "note"]
        return catalog, [each.replace(f"{images}/", "") for each in notes]

    catalog, notes = beside(ALL, "cat\ndog\nowl\n")
    assert catalog.classes == CLASSES
    assert notes == ["class names from classes.txt"]
    tags = "7\t0\t1\ta/1.jpg\n5\t1\t1\ta/2.jpg\n"
    assert beside(tags, "cat\ndog\n")[0].classes == CLASSES[:2]
    box = "\t0.1\t0.2\t0.3\t0.4"
    boxes = f"0\t4\t5\t9\t9\ta/1.jpg\n1\t4\t5\t9\t9\t2{box}\t0{box}\ta/2.jpg\n"
    assert beside(boxes, "cat\ndog\nowl\n")[0].classes == CLASSES
    for text, classes, why in (
        (
            ALL,
            "cat\ndog\nowl\neel\n",
            "classes.txt, as it names 4 classes and the highest label is 2: if it is of these "
            "labels, --classes classes.txt",
        ),
        (boxes, "cat\ndog\n", "classes.txt, as the labels are no numbers of 2 classes"),
        (ALL, "cat\ndog\n", "classes.txt, as the labels are no numbers of 2 classes"),
        (ALL.replace("\t2\t", "\t0.5\t"), "cat\n", "classes.txt, as the labels are no numbers"),
        (ALL, "cat\ncat\n", "classes.txt:2: 'cat' stands in line 1 already"),
    ):
        catalog, notes = beside(text, classes)
        assert catalog.classes is None
        assert notes[0].startswith(f"not used: {why}")
    assert read(images, ALL, classes=CLASSES)[0].classes == CLASSES


def test_a_list_of_a_side_may_lack_the_last_class(images: Path) -> None:
    (images / "classes.txt").write_text("cat\ndog\nowl\neel\n")
    (images / "val.lst").write_text("9\t3\tb/9.jpg\n")
    assert read(images, ALL)[0].classes == (*CLASSES, "eel")
    (images / "val.lst").rename(images / "other.lst")
    assert read(images, ALL)[0].classes is None


def test_classes_beside_several_lists_are_the_same(images: Path) -> None:
    for name, rows in (("one", ALL[:24]), ("two", ALL[24:])):
        (images / name).mkdir()
        (images / name / f"{name}.lst").write_text(rows)
        (images / name / "classes.txt").write_text("cat\ndog\nowl\n")
    source = make_source(images / "images", list_file=f"{images}/{{one/one,two/two}}.lst")
    assert read_source(source)[0].classes == CLASSES
    (images / "two/classes.txt").write_text("cat\nowl\ndog\n")
    catalog, findings = read_source(source)
    assert catalog.classes is None
    assert any("as not all lists have these classes" in each.detail for each in findings)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0\t0\ta/1.jpg\n1\ta/2.jpg\n", ":2: fewer than 3 columns"),
        ("0 0 a/1.jpg\n", ":1: fewer than 3 columns"),
        ("\n0\t0\ta/1.jpg\none\t0\ta/2.jpg\n", ":3: 'one' is not an id"),
        ("1.5\t0\ta/1.jpg\n", ":1: '1.5' is not an id"),
        ("-1\t0\ta/1.jpg\n", ":1: '-1' is not an id"),
        ("9223372036854775808\t0\ta/1.jpg\n", ":1: '9223372036854775808' is not an id"),
        ("0\tcat\ta/1.jpg\n", ":1: not all of the labels ['cat'] are numbers"),
        ("0\t1\t\t2\ta/1.jpg\n", ":1: not all of the labels ['1', '', '2'] are numbers"),
        ("0\tnan\ta/1.jpg\n", ":1: not all of the labels ['nan'] are numbers"),
        ("0\tinf\ta/1.jpg\n", ":1: not all of the labels ['inf'] are numbers"),
        ("0\t9007199254740993\ta/1.jpg\n", ":1: the labels ['9007199254740993']: whole"),
        ("0\t1\t-9007199254740993.0\ta/1.jpg\n", ":1: the labels ['1', '-90071992547"),
        ("3\t0\ta/1.jpg\n4\t0\t4.jpg\n3\t0\ta/2.jpg\n", ":3: the id 3 stands in line 1 already"),
        ("0\t0\ta/1.jpg\n1\t0\t1\ta/2.jpg\n", ":2: 2 labels, where the first line has 1"),
        ("0\t0\t/etc/passwd\n", ":1: '/etc/passwd' is not a path below the folder"),
        ("0\t0\t../train.lst\n", ":1: '../train.lst' is not a path below the folder"),
        ("0\t0\ta/../../x.jpg\n", ":1: 'a/../../x.jpg' is not a path below the folder"),
        ("0\t0\ta/..\n", ":1: 'a/..' is not a path below the folder"),
        ("0\t0\ta\0.jpg\n", ":1: 'a\\x00.jpg' is not a path below the folder"),
        ("", ": names no files"),
        ("\n \n", ": names no files"),
        (b"0\t0\ta/1.jpg\n1\t0\tcaf\xe9.jpg\n", ":2: not UTF-8"),
        ("0\t0\tx.jpg\n1\t0\ty.jpg\n", ": not one of the 2 files that it names lies below"),
    ],
)
def test_what_cannot_be_right_is_refused_by_line(
    images: Path, text: str | bytes, problem: str
) -> None:
    assert refusal(images, text).startswith(f"train.lst{problem}")


@pytest.mark.parametrize(
    "label",
    [
        [1, 5, 0, 0.1, 0.2, 0.3, 0.4],
        [2, 4, 0, 0.1, 0.2, 0.3],
        [4, 5],
        [2],
        [2, 5, 0, 0.1, 0.2, 0.3],
        [2, 5, 0, 0.1, 0.2, 0.3, 0.4, 0],
        [2, 5.5, *range(11)],
        [2.5, 5, *range(10)],
    ],
)
def test_labels_of_different_lengths_must_be_for_detection(
    images: Path, label: list[float]
) -> None:
    right = [2, 5, *range(15)]
    lines = [[0, *right, "a/1.jpg"], [1, *label, "a/2.jpg"]]
    problem = refusal(images, "".join("\t".join(map(str, line)) + "\n" for line in lines))
    assert problem.startswith(f"train.lst:2: {len(label)} labels, where the first line has 17:")


@pytest.mark.parametrize("header", [[2, 5], [4, 5, 500, 375]])
@pytest.mark.parametrize("is_first", [True, False])
def test_images_without_objects_have_a_header_alone(
    images: Path, header: list[float], is_first: bool
) -> None:
    labels = [header, [2, 5, *range(15)]]
    if not is_first:
        labels.reverse()
    lines = [[0, *labels[0], "a/1.jpg"], [1, *labels[1], "a/2.jpg"]]
    catalog, _ = read(images, "".join("\t".join(map(str, line)) + "\n" for line in lines))
    assert catalog.table["label"].to_list() == labels
    (caveat,) = RecordIO().caveats(catalog.table.lazy())
    assert caveat.startswith("1 image without objects")


def test_labels_are_exact_below_2_to_the_53rd(images: Path) -> None:
    catalog, _ = read(images, f"0\t{2**53 - 1}\ta/1.jpg\n1\t{1 - 2**53}.0\ta/2.jpg\n")
    assert catalog.table["cls"].to_list() == [2**53 - 1, 1 - 2**53]
    catalog, _ = read(images, "0\t1.5e300\t1234567890123456.5\ta/1.jpg\n")
    assert catalog.table["label"].to_list() == [[1.5e300, 1234567890123456.5]]


def test_a_name_may_hold_what_a_number_has_not(images: Path) -> None:
    fill(images / "images", "a b/c {0} é.x.jpg")
    catalog, _ = read(images, "0\t1\ta b/c {0} é.x.jpg\n")
    assert catalog.table["path"].to_list() == ["a b/c {0} é.x.jpg"]


def test_a_list_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"train.lst: cannot be read: No such file"):
        read_source(make_source(tmp_path, list_file=tmp_path / "train.lst"))


def test_a_directory_of_lists(images: Path) -> None:
    source = make_source(images / "images", list_file=images / "lists")
    (images / "lists").mkdir()
    with pytest.raises(SourceError, match=r"is a directory without lists: give --list FILE\.lst"):
        read_source(source)
    told = r"is a directory of lists: give one of them, --list .*/lists/a\.lst, or .*--list "
    every = r"'.*/\*\.lst'", r"'.*/\*\.lst'", r"'.*\{a\.lst,train\.lst,val\.lst\}'"
    for name, pattern in zip(("a", "train", "val"), every, strict=True):
        (images / "lists" / f"{name}.lst").write_text(ALL)
        with pytest.raises(SourceError, match=f"{told}{pattern}"):
            read_source(source)
    with pytest.raises(SourceError, match=r"train\.lst,val\.lst\}'$"):
        read_source(make_source(images / "images", list_file=f"{images}/lists/*.lst"))


# Against the disk


def test_listed_and_missing(images: Path) -> None:
    catalog, findings = read(images, ALL + "8\t1\ta/9.jpg\n9\t1\tc/9.jpg\n")
    assert len(catalog) == 4
    assert findings == [
        Finding("missing", "a/9.jpg", "train.lst:5"),
        Finding("missing", "c/9.jpg", "train.lst:6"),
    ]


def test_on_disk_and_not_listed(images: Path) -> None:
    fill(images / "images", "a/5.txt", "c/6.jpg", "b/d/7.jpg", "a/.8.jpg")
    catalog, findings = read(images, "0\t0\ta/1.jpg\n1\t0\tb/3.jpg\n")
    assert catalog.table["path"].to_list() == ["a/1.jpg", "b/3.jpg"]
    nothing = "not looked into, as nothing in it is listed"
    assert findings == [
        Finding("unlisted", "4.jpg"),
        Finding("unlisted", "a/2.jpg"),
        Finding("unlisted", "b/d/", nothing),
        Finding("unlisted", "c/", nothing),
        Finding("hidden", "a/.8.jpg"),
        Finding("not-an-image", "a/5.txt"),
    ]


def test_extensions_say_what_is_unlisted(images: Path) -> None:
    fill(images / "images", "a/5.ppm")
    (images / "train.lst").write_text("0\t0\ta/1.jpg\n1\t0\t4.jpg\n2\t0\tb/3.jpg\n")
    source = make_source(
        str(images / "images"), list_file=str(images / "train.lst"), extensions=[".PPM"]
    )
    catalog, findings = read_source(source)
    assert len(catalog) == 3
    assert findings == [Finding("unlisted", "a/5.ppm"), Finding("left-over", "a/2.jpg")]


def test_what_is_listed_may_be_hidden_or_have_any_extension(images: Path) -> None:
    names = ["a/.5.jpg", ".c/6.jpg", "a/7.ppm", "a/8"]
    fill(images / "images", *names)
    text = "".join(f"{number}\t0\t{name}\n" for number, name in enumerate(names))
    catalog, findings = read(images, text + "8\t0\ta/9.jpg\n")
    assert catalog.table.select("path", "size").rows() == [(name, len(name)) for name in names]
    assert [finding[:2] for finding in findings] == [
        ("missing", "a/9.jpg"),
        ("unlisted", "4.jpg"),
        ("unlisted", "a/1.jpg"),
        ("unlisted", "a/2.jpg"),
        ("unlisted", "b/"),
        ("hidden", ".c/"),
    ]


def test_a_listed_directory_is_missing(images: Path) -> None:
    _, findings = read(images, ALL + "8\t0\tb\n")
    assert findings == [Finding("missing", "b", "train.lst:5")]


def test_paths_are_matched_however_they_are_written(images: Path) -> None:
    written = ["./a/1.jpg", "a//2.jpg", "././b/./3.jpg", ".//4.jpg"]
    catalog, findings = read(images, "".join(f"{i}\t0\t{p}\n" for i, p in enumerate(written)))
    assert findings == []
    assert catalog.table["path"].to_list() == written
    assert catalog.table["size"].to_list() == [7, 7, 7, 5]


def test_the_same_row_again_is_settled_by_duplicates(images: Path) -> None:
    text = "3\t0\ta/1.jpg\n4\t0\t4.jpg\n3\t0\ta/1.jpg\n"
    catalog, findings = read(images, text, duplicates="first")
    assert catalog.table["index"].to_list() == [3, 4]
    assert Finding("repeated", "a/1.jpg", "train.lst:3, and in line 1 already") in findings
    for duplicates in (None, "keep"):
        said = refusal(images, text, duplicates=duplicates)
        assert ":3: the id 3 stands in line 1 already; give --duplicates first" in said
    other = "3\t0\ta/1.jpg\n3\t0\t4.jpg\n"
    assert refusal(images, other, duplicates="first").endswith("stands in line 1 already")


def test_duplicates_are_kept_and_said(images: Path) -> None:
    text = ALL + "8\t1\t./a/1.jpg\n\n9\t2\ta/1.jpg\n10\t0\tx\n11\t0\tx\n"
    catalog, findings = read(images, text, duplicates="keep")
    assert catalog.table["path"].to_list()[4:] == ["./a/1.jpg", "a/1.jpg"]
    source = "train.lst"
    assert findings == [
        Finding("missing", "x", f"{source}:8"),
        Finding("missing", "x", f"{source}:9"),
        Finding("duplicate", "./a/1.jpg", f"{source}:5, and in line 1 already"),
        Finding("duplicate", "a/1.jpg", f"{source}:7, and in line 1 already"),
    ]
    catalog, findings = read(images, text, duplicates="first")
    assert catalog.digest() == read(images, ALL)[0].digest()
    assert [each.kind for each in findings] == ["missing", "missing", "repeated", "repeated"]


def test_unreadable_files_are_lost_only_if_they_are_listed(images: Path) -> None:
    (images / "images/a/listed.jpg").symlink_to("nowhere.jpg")
    (images / "images/a/other.jpg").symlink_to("nowhere.jpg")
    _, findings = read(images, ALL + "8\t0\ta/listed.jpg\n")
    assert [finding[:2] for finding in findings] == [
        ("missing", "a/listed.jpg"),
        ("unlisted", "a/other.jpg"),
    ]


# im2rec is the judge


numbers = st.floats(-1e6, 1e6) | st.integers(-(10**6), 10**6)
names = st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S", "Zs"]), min_size=1)
listed = names.map(str.strip).filter(lambda name: name and "/" not in name and name != "..")


def as_im2rec_has_them(rows: pl.DataFrame) -> list[list[Any]]:
    """An id, a path and labels for each row."""
    found = rows.select("index", "path", "label").rows()
    return [[index, path, *map(float, label.split("\t"))] for index, path, label in found]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(1, 3).flatmap(
        lambda count: st.lists(
            st.tuples(st.integers(0, 10**9), listed, *[numbers] * count),
            min_size=1,
            unique_by=lambda item: item[0],
        )
    )
)
def test_lists_that_im2rec_writes(
    im2rec: ModuleType, tmp_path: Path, items: list[tuple[Any, ...]]
) -> None:
    path = str(tmp_path / "judge.lst")
    im2rec.write_list(path, items)
    rows = parse_rows(Path(path).read_text("utf-8"), "judge.lst")
    assert as_im2rec_has_them(rows) == list(im2rec.read_list(path))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text("01.\t-e \r\nxé", max_size=60))
def test_what_is_accepted_is_what_im2rec_reads(
    im2rec: ModuleType, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "judge.lst"
    path.write_bytes(text.encode())
    try:
        rows = parse_rows(text, "judge.lst")
    except SourceError:
        return
    found = as_im2rec_has_them(rows)
    assert all(math.isfinite(label) for row in found for label in row[2:])
    assert found == list(im2rec.read_list(str(path)))
