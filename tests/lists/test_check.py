"""What is wrong with a list: each fault at its line, and nothing in a good list."""

from __future__ import annotations

import os
import struct
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsprep.editing.inspect_lists import ListCheckReport, check_list
from dsprep.errors import SourceError
from dsprep.lists import files
from dsprep.lists.check import READERS, check_rows, read_leniently
from dsprep.lists.rows import ROWS, format_rows, parse_rows
from dsprep.text import decode_text
from tests.lists import tables

CLASSES = ("cat", "dog", "owl")

STRICT = {"encoding", "unreadable", "duplicate-id", "outside", "width", "detection"}
"""The faults for which a list is not read at all."""


def check(directory: Path, data: str | bytes, **options: Any) -> ListCheckReport:
    path = directory / "train.lst"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return check_list(str(path), **options)


def found(directory: Path, data: str | bytes, **options: Any) -> list[tuple[int, str]]:
    return [(fault.line, fault.kind) for fault in check(directory, data, **options).faults]


ONE = [b"%d\t%d\tphotos/%d.jpg" % (i, i % 3, i) for i in range(9)]
SEVERAL = [b"%d\t%d\t0.5\tphotos/%d.jpg" % (i, i % 3, i) for i in range(9)]
BOX = b"2\t5\t1\t0\t0.25\t0.5\t1"
DETECTION = [b"%d\t%s\tphotos/%d.jpg" % (i, BOX, i) for i in range(9)]

PLANTED: dict[str, tuple[list[bytes], bytes, str]] = {
    "one column": (ONE, b"photos/4.jpg", "unreadable"),
    "two columns": (ONE, b"4\tphotos/4.jpg", "unreadable"),
    "commas": (ONE, b"4,1,photos/4.jpg", "unreadable"),
    "blanks": (ONE, b"4 1 photos/4.jpg", "unreadable"),
    "no path": (ONE, b"4\t1\t", "unreadable"),
    "an id that is none": (ONE, b"x\t1\tphotos/4.jpg", "unreadable"),
    "a negative id": (ONE, b"-4\t1\tphotos/4.jpg", "unreadable"),
    "an id with a point": (ONE, b"4.0\t1\tphotos/4.jpg", "unreadable"),
    "a huge id": (ONE, b"1234567890123456789\t1\tphotos/4.jpg", "unreadable"),
    "a name for a label": (ONE, b"4\tcat\tphotos/4.jpg", "unreadable"),
    "no label": (ONE, b"4\t\tphotos/4.jpg", "unreadable"),
    "not a number": (ONE, b"4\tnan\tphotos/4.jpg", "unreadable"),
    "infinite": (ONE, b"4\t1e999\tphotos/4.jpg", "unreadable"),
    "a label not exact in 64 bits": (ONE, b"4\t9007199254740993\tphotos/4.jpg", "unreadable"),
    "an undecided conflict": (ONE, b"<<<<<<< ours", "unreadable"),
    "not UTF-8": (ONE, b"4\t1\tphotos/caf\xe9.jpg", "encoding"),
    "a carriage return": (ONE, b"4\t1\tphotos/\r4.jpg", "carriage-return"),
    "a blank before the path": (ONE, b"4\t1\t photos/4.jpg", "blank"),
    "a blank after the path": (ONE, b"4\t1\tphotos/4.jpg ", "blank"),
    "a blank after the path, in Windows": (ONE, b"4\t1\tphotos/4.jpg \r", "blank"),
    "an id again": (ONE, b"2\t1\tphotos/4.jpg", "duplicate-id"),
    "an id again, with zeros": (ONE, b"002\t1\tphotos/4.jpg", "duplicate-id"),
    "a path again": (ONE, b"4\t1\tphotos/1.jpg", "duplicate-path"),
    "a path again, with ./": (ONE, b"4\t1\t./photos/1.jpg", "duplicate-path"),
    "a path again, with //": (ONE, b"4\t1\tphotos//1.jpg", "duplicate-path"),
    "a path again, with /./": (ONE, b"4\t1\tphotos/././1.jpg", "duplicate-path"),
    "an absolute path": (ONE, b"4\t1\t/photos/4.jpg", "outside"),
    "a path upwards": (ONE, b"4\t1\tphotos/../../4.jpg", "outside"),
    "a NUL": (ONE, b"4\t1\tphotos/\0.jpg", "outside"),
    "two labels": (ONE, b"4\t1\t2\tphotos/4.jpg", "width"),
    "a negative class": (ONE, b"4\t-1\tphotos/4.jpg", "not-a-class"),
    "a gap": (ONE, b"4\t4\tphotos/4.jpg", "gap"),
    "a wide gap": (ONE, b"4\t400000000000\tphotos/4.jpg", "gap"),
    "one label of two": (SEVERAL, b"4\t1\tphotos/4.jpg", "width"),
    "three labels of two": (SEVERAL, b"4\t1\t1\t1\tphotos/4.jpg", "width"),
    "a class among boxes": (DETECTION, b"4\t1\tphotos/4.jpg", "detection"),
    "a header that is cut": (DETECTION, b"4\t4\t5\t100\tphotos/4.jpg", "detection"),
    "half a box": (DETECTION, b"4\t" + BOX + b"\t1\t0\tphotos/4.jpg", "detection"),
}

PLANTED_FOR: dict[str, tuple[str, list[bytes], bytes, str]] = {
    "four columns": ("sagemaker", ONE, b"4\t1\t1\tphotos/4.jpg", "columns width"),
    "a fraction": ("sagemaker", ONE, b"4\t0.5\tphotos/4.jpg", "not-a-class"),
    "a negative class": ("sagemaker", ONE, b"4\t-1\tphotos/4.jpg", "not-a-class"),
    "a gap": ("sagemaker", ONE, b"4\t4\tphotos/4.jpg", "gap"),
    "a GIF": ("sagemaker", ONE, b"4\t1\tphotos/4.gif", "extension"),
    "no extension": ("sagemaker", ONE, b"4\t1\tphotos/4", "extension"),
    "2^24 + 1": ("mxnet", SEVERAL, b"4\t16777217\t1\tphotos/4.jpg", "float32"),
    "-2^24 - 1": ("mxnet", SEVERAL, b"4\t1\t-16777217\tphotos/4.jpg", "float32"),
    "too large for 32 bits": ("mxnet", SEVERAL, b"4\t1\t1e39\tphotos/4.jpg", "float32"),
    "a blank": ("mxnet", DETECTION, b"4\t" + BOX + b"\tphotos/4 a.jpg", "blank"),
    "A of 1": ("mxnet", DETECTION, b"4\t1\t5\t0\t0\t0\t1\t1\tphotos/4.jpg", "detection"),
    "A of 2.5": ("mxnet", DETECTION, b"4\t2.5\t5\t0\t0\t0\t1\t1\tphotos/4.jpg", "detection"),
    "B of 4": ("mxnet", DETECTION, b"4\t2\t4\t0\t0\t1\t1\tphotos/4.jpg", "detection"),
    "B of 6": ("mxnet", DETECTION, b"4\t2\t6\t1\t0\t0\t1\t1\t0\tphotos/4.jpg", "detection"),
    "no box": ("mxnet", DETECTION, b"4\t4\t5\t100\t100\tphotos/4.jpg", "detection"),
    "a negative class of a box": ("mxnet", DETECTION, b"4\t2\t5\t-1\t0\t0\t1\t1\tp.jpg", "box"),
    "half a class": ("mxnet", DETECTION, b"4\t2\t5\t0.5\t0\t0\t1\t1\tp.jpg", "box"),
    "pixels": ("mxnet", DETECTION, b"4\t2\t5\t1\t0\t0\t100\t50\tp.jpg", "box"),
    "outside the image": ("mxnet", DETECTION, b"4\t2\t5\t1\t-0.1\t0\t1\t1\tp.jpg", "box"),
    "no width": ("mxnet", DETECTION, b"4\t2\t5\t1\t0.5\t0\t0.5\t1\tp.jpg", "box"),
    "upside down": ("mxnet", DETECTION, b"4\t2\t5\t1\t0\t0.5\t1\t0.25\tp.jpg", "box"),
    "a second box": ("mxnet", DETECTION, b"4\t" + BOX + b"\t1\t0\t0\t0\t1\tp.jpg", "box"),
}


def planted(good: list[bytes], wrong: bytes) -> bytes:
    """A list of which the fifth line is wrong."""
    return b"\n".join([*good[:4], wrong, *good[5:], b""])


@pytest.mark.parametrize("name", PLANTED)
def test_a_fault_is_found_at_its_line(tmp_path: Path, name: str) -> None:
    good, wrong, kind = PLANTED[name]
    assert found(tmp_path, planted(good, wrong)) == [(5, kind)]
    assert found(tmp_path, planted(good, good[4])) == []


@pytest.mark.parametrize("header", [b"2\t5", b"4\t5\t100\t100"])
def test_images_without_objects_are_no_fault(tmp_path: Path, header: bytes) -> None:
    empty = [b"%d\t%s\tphotos/%d.jpg" % (i, header, i) for i in range(9)]
    assert found(tmp_path, planted(DETECTION, empty[4])) == []
    assert found(tmp_path, b"\n".join([*empty[:4], *DETECTION[4:], b""])) == []


@pytest.mark.parametrize("name", PLANTED_FOR)
def test_what_a_reader_requires(tmp_path: Path, name: str) -> None:
    reader, good, wrong, kinds = PLANTED_FOR[name]
    faults = found(tmp_path, planted(good, wrong), reader=reader)
    assert faults == [(5, kind) for kind in kinds.split()]
    assert found(tmp_path, planted(good, good[4]), reader=reader) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.sampled_from([name for name, (good, *_) in PLANTED.items() if good is ONE]),
        unique=True,
        min_size=2,
    )
)
def test_all_faults_are_found(tmp_path: Path, names: list[str]) -> None:
    lines, expected = list(ONE), []
    for number, name in enumerate(names, 20):
        _, wrong, kind = PLANTED[name]
        wrong = wrong.replace(b"4\t", b"%d\t" % number, wrong.startswith((b"4", b"-4")))
        lines.append(wrong.replace(b"photos/4", b"photos/%d" % number))
        expected.append((len(lines), kind))
        lines.append(b"%d\t0\tphotos/good/%d.jpg" % (number + 100, number))
    assert found(tmp_path, b"\n".join(lines)) == expected


@pytest.mark.parametrize("reader", [None, *READERS])
@pytest.mark.parametrize("name", ["one", "several", "detection"])
@pytest.mark.parametrize(
    "spell",
    [
        lambda text: text,
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: b"\n\n" + text.replace(b"\n", b"\n \t\n"),
        lambda text: text.rstrip(b"\n"),
        lambda text: text.replace(b"\t1\t", b"\t 1.000000 \t"),
        lambda text: text.replace(b"\t1\t", b"\t1e0\t"),
    ],
    ids=["plain", "crlf", "bom", "blank lines", "no last newline", "blanks", "exponents"],
)
def test_a_good_list_has_no_faults(
    tmp_path: Path, name: str, spell: Any, reader: str | None
) -> None:
    good = {"one": ONE, "several": SEVERAL, "detection": DETECTION}[name]
    report = check(tmp_path, spell(b"\n".join([*good, b""])), reader=reader)
    kinds = {"columns"} if reader == "sagemaker" and good is not ONE else set()
    assert set(report.kinds) == kinds
    assert report.rows == 9


@pytest.mark.parametrize("data", [b"", b"\n", b" \t\r\n\n", b"\xef\xbb\xbf"])
def test_a_list_of_nothing_is_a_fault(tmp_path: Path, data: bytes) -> None:
    assert found(tmp_path, data) == [(1, "unreadable")]


def test_messages_say_what_is_wrong(tmp_path: Path) -> None:
    text = "0\t0\ta.jpg\n0\t2\t./a.jpg\n2\t5\tb.jpg\n3\t0\t1\tc.jpg\n4\tx\td.jpg\n"
    assert [fault.message for fault in check(tmp_path, text).faults] == [
        "the id 0 stands in line 1 already",
        "the file './a.jpg' stands in line 1 already as 'a.jpg', with the label 0",
        "the class 2, while no line has the class 1",
        "the class 5, while no line has the classes 3 to 4",
        "2 labels, where most lines have 1",
        "not all of the labels ['x'] are numbers",
    ]
    assert "the bytes e9 at column 8" in check(tmp_path, b"0\t0\tcaf\xe9\n").faults[0].message
    report = check(
        tmp_path, planted(DETECTION, b"4\t" + BOX + b"\t0\t1\t0\t0\t1\tp"), reader="mxnet"
    )
    assert [fault.message for fault in report.faults] == ["object 2: xmin, 1, is not below xmax, 0"]


def test_kinds_are_counted_the_most_frequent_first(tmp_path: Path) -> None:
    report = check(tmp_path, "x\n0\t0\ta\n1\t0\ta\n2\t0\ta\n")
    assert list(report.kinds.items()) == [("duplicate-path", 2), ("unreadable", 1)]


class TestClasses:
    def test_beside_the_list_close_the_numbers(self, tmp_path: Path) -> None:
        text = "0\t0\ta\n1\t3\tb\n2\t-1\tc\n3\t0.5\td\n4\t2\te\n"
        (tmp_path / "classes.txt").write_text("".join(f"{each}\n" for each in CLASSES))
        report = check(tmp_path, text)
        assert [(fault.line, fault.kind) for fault in report.faults] == [
            (2, "not-a-class"),
            (3, "not-a-class"),
            (4, "not-a-class"),
        ]
        assert report.faults[0].message == "3 is none of the 3 classes"
        assert report.classes == CLASSES

    def test_keep_their_numbers_when_they_have_no_rows(self, tmp_path: Path) -> None:
        names = tmp_path / "names"
        names.write_text("".join(f"{each}\n" for each in CLASSES))
        text = "0\t0\ta.png\n1\t2\tb.png\n"
        assert found(tmp_path, text, classes=str(names)) == []
        assert found(tmp_path, text) == [(2, "gap")]
        assert found(tmp_path, text, classes=str(names), reader="sagemaker") == [(2, "gap")]

    def test_of_boxes_are_checked_too(self, tmp_path: Path) -> None:
        (tmp_path / "classes.txt").write_text("cat\ndog\n")
        other = b"4\t" + BOX + b"\t2\t0\t0\t1\t1\tp.jpg"
        assert found(tmp_path, planted(DETECTION, other)) == [(5, "not-a-class")]

    def test_are_none_where_labels_measure_something(self, tmp_path: Path) -> None:
        assert found(tmp_path, "0\t7\ta\n1\t0.5\tb\n2\t-3\tc\n") == []


class TestFiles:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        root = tmp_path / "images"
        (root / "photos").mkdir(parents=True)
        for number in range(9):
            (root / "photos" / f"{number}.jpg").write_bytes(b"x")
        return root

    def test_that_are_there_are_no_faults(self, tmp_path: Path, root: Path) -> None:
        (root / "photos" / "3.jpg").unlink()
        (root / "photos" / "3.jpg").symlink_to("2.jpg")
        assert found(tmp_path, b"\n".join(ONE), root=str(root)) == []

    def test_are_missing_empty_or_no_files(self, tmp_path: Path, root: Path) -> None:
        for number in (1, 2, 3):
            (root / "photos" / f"{number}.jpg").unlink()
        (root / "photos" / "2.jpg").symlink_to("nowhere")
        (root / "photos" / "3.jpg").mkdir()
        (root / "photos" / "4.jpg").write_bytes(b"")
        lines = [*ONE, b"20\t0\t../train.lst", b"21\t0\tphotos/0.jpg/x", b"22\t0\t" + b"x" * 300]
        assert found(tmp_path, b"\n".join(lines), root=str(root)) == [
            (2, "missing"),
            (3, "missing"),
            (4, "not-a-file"),
            (5, "empty"),
            (10, "outside"),
            (11, "missing"),
            (12, "missing"),
        ]

    @pytest.mark.parametrize("local", [-1, 60], ids=["slow disk", "fast disk"])
    def test_are_found_at_their_lines_however_many_there_are(
        self, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch, local: int
    ) -> None:
        monkeypatch.setattr("dsprep.lists.files._LOCAL", local)
        lines = [b"%d\t0\tphotos/%d.jpg" % (number, number) for number in range(3500)]
        faults = found(tmp_path, b"\n".join(lines), root=str(root))
        assert faults == [(line, "missing") for line in range(10, 3501)]

    @pytest.mark.timeout(30)
    def test_are_not_all_waited_for_by_a_caller_that_stops_early(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stat, over = os.stat, threading.Event()

        def slow(path: Any, **options: Any) -> os.stat_result:
            if path == b"2000":
                over.wait(60)
            return stat(path, **options)

        monkeypatch.setattr(files, "_LOCAL", -1)
        monkeypatch.setattr(os, "stat", slow)
        rows = pl.DataFrame({"line": range(9000), "path": [f"{number}" for number in range(9000)]})
        faults = files.find_missing(str(tmp_path), rows)
        assert next(fault.line for fault in faults if fault.line == 1000) == 1000
        faults.close()
        over.set()

    def test_are_looked_up_in_a_directory(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="cannot be read as a directory"):
            check(tmp_path, b"\n".join(ONE), root=str(tmp_path / "nothing"))


@given(st.text("01.\t-e \r\nxé/", max_size=60) | tables().map(format_rows))
def test_a_list_without_such_faults_is_read_and_no_other_is(text: str) -> None:
    rows, faults = read_leniently(text.encode())
    kinds = {fault.kind for fault in (*faults, *check_rows(rows, None))}
    try:
        expected = parse_rows(decode_text(text.encode(), "train.lst"), "train.lst")
    except SourceError:
        assert kinds & STRICT
    else:
        assert not kinds & STRICT
        assert rows.equals(expected.select("line", *ROWS))


@given(st.binary() | st.binary().map(lambda data: data.replace(b"\0", b"\t")))
def test_whatever_the_bytes_are_they_are_checked(data: bytes) -> None:
    rows, faults = read_leniently(data)
    faults += check_rows(rows, None)
    for reader in READERS.values():
        faults += reader.check(rows)
    lines = data.count(b"\n") + 1
    assert all(1 <= fault.line <= lines for fault in faults)
    assert faults or rows.height


@given(st.integers(-(2**53) + 1, 2**53 - 1) | st.integers(-(2**25), 2**25))
def test_what_changes_in_32_bits(number: int) -> None:
    (kept,) = struct.unpack("f", struct.pack("f", number))
    rows, _ = read_leniently(f"0\t{number}\ta\n".encode())
    kinds = [fault.kind for fault in READERS["mxnet"].check(rows)]
    assert kinds == ([] if kept == number else ["float32"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, unique=True), st.integers(1, 4))
def test_lists_that_im2rec_writes_have_no_faults(
    im2rec: ModuleType, tmp_path: Path, ids: list[int], classes: int
) -> None:
    path = tmp_path / "im2rec.lst"
    items = [(each, f"{each}.jpg", place % classes) for place, each in enumerate(ids)]
    im2rec.write_list(str(path), items)
    for reader in READERS:
        assert check_list(str(path), reader=reader).faults == []


_GOOD_BOXES = ["0 0 0 1 1", "3 0.25 0 0.5 0.75", "1 0 0.5 1 1"]
_OTHER_BOXES = ["-1 0 0 1 1", "0 0.5 0 0.25 1", "0 0 1 1 0", "0 0 0 1 2", "1 0 0 1", "1 0 0 1 1 9"]


@given(
    st.sampled_from(["2 5", "2 5", "3 5 9", "4 5 640 480", "2 6", "1 5", "2 4"]),
    st.lists(st.sampled_from(_GOOD_BOXES * 4 + _OTHER_BOXES), max_size=3),
)
def test_detection_labels_without_faults_are_read_whole_by_mxnet(
    mxnet: ModuleType, header: str, boxes: list[str]
) -> None:
    words = " ".join([header, *boxes]).split()
    line = b"4\t" + "\t".join(words).encode() + b"\tphotos/4.jpg"
    rows, _ = read_leniently(planted(DETECTION, line))
    has_faults = bool(list(READERS["mxnet"].check(rows)))
    is_good = boxes and "5" in header and header != "1 5" and not set(boxes) & set(_OTHER_BOXES)
    assert has_faults != bool(is_good)
    if has_faults:
        return
    import numpy

    judge = mxnet.image.ImageDetIter
    parsed = judge._parse_label(None, numpy.array(words, "float32"))
    judge._check_valid_label(None, parsed)
    assert parsed.shape == (len(boxes), 5)
