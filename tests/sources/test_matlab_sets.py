"""Oxford Flowers-102 and Stanford Cars, as SciPy writes their files of MATLAB."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from dsprep.errors import DsprepError, SourceError
from dsprep.sources.mat_file import Values, flat, value_of, variables
from tests.sources.boxes import notes, read, sides, told, write


def mat(packed: bool = False, **values: Any) -> bytes:
    data = io.BytesIO()
    scipy.io.savemat(data, values, do_compression=packed)
    return data.getvalue()


LABELS = [77, 1, 102, 1, 3]
FLOWERS: Mapping[str, str | bytes | None] = {
    **{f"jpg/image_{n:05}.jpg": None for n in range(1, 6)},
    "imagelabels.mat": mat(True, labels=np.array([LABELS], dtype="u1")),
    "setid.mat": mat(
        trnid=np.array([[1, 4]], "u2"), valid=np.array([[2]], "u2"), tstid=np.array([[5, 3]], "u2")
    ),
}
CAR_NAMES = ("AM General Hummer SUV 2000", "Acura RL Sedan 2012", "Ram C/V Cargo Van 2012")


def cars(count: int, **columns: Any) -> np.ndarray[Any, Any]:
    """Structs of cars; a column is a value for all, or a function of the number of the car."""
    edges = {"bbox_x1": lambda n: np.uint8(n), "bbox_y1": 2, "bbox_x2": 30, "bbox_y2": 15}
    found = np.zeros((1, count), dtype=[(name, "O") for name in (*edges, *columns)])
    for name, value in (edges | columns).items():
        for at in range(count):
            found[0, at][name] = value(at + 1) if callable(value) else value
    return found


def number(n: int) -> Any:
    return np.uint8((n - 1) % 3 + 1)


NAMES = np.array([CAR_NAMES], dtype=object)
CARS: Mapping[str, str | bytes | None] = {
    **{f"cars_{side}/0000{n}.jpg": None for side in ("train", "test") for n in (1, 2, 3)},
    "devkit/cars_meta.mat": mat(class_names=NAMES),
    "devkit/cars_train_annos.mat": mat(
        annotations=cars(3, **{"class": number, "fname": lambda n: f"0000{n}.jpg"})
    ),
    "devkit/cars_test_annos.mat": mat(annotations=cars(3, fname=lambda n: f"0000{n}.jpg")),
    "devkit/cars_test_annos_withlabels.mat": mat(
        True, annotations=cars(3, **{"class": 3, "fname": lambda n: f"0000{n}.jpg"})
    ),
}


def test_flowers(tmp_path: Path) -> None:
    catalog, findings = read(write(tmp_path, FLOWERS))
    assert catalog.table["cls"].to_list() == [label - 1 for label in LABELS]
    assert [*sides(catalog).values()] == ["train", "val", "test", "train", "test"]
    assert (catalog.classes, notes(findings)) == (None, "")
    names = tmp_path / "names.txt"
    names.write_text("".join(f"flower {n}\n" for n in range(1, 103)), "utf-8")
    assert told(read(tmp_path, classes=str(names))[0])["jpg/image_00003.jpg"] == {
        "label": "flower 102"
    }
    names.write_text("rose\n", "utf-8")
    with pytest.raises(SourceError, match="the label 77 is none of 1 class"):
        read(tmp_path, classes=str(names))


def test_flowers_without_sides(tmp_path: Path) -> None:
    files = {name: data for name, data in FLOWERS.items() if name != "setid.mat"}
    catalog, findings = read(write(tmp_path, files))
    assert (catalog.sides, len(catalog)) == ((), 5)
    assert "there is no setid.mat" in notes(findings)


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("setid.mat", {"trnid": [[1, 6]], "valid": [[2]], "tstid": [[3]]}, "trnid has 6"),
        ("setid.mat", {"trnid": [[1]], "valid": [[1]], "tstid": [[3]]}, "valid has 1"),
        ("setid.mat", {"trnid": [[1]]}, "no whole numbers called valid"),
        ("imagelabels.mat", {"labels": [[1, 2, 0, 1, 1]]}, "the label 0 is none"),
        ("imagelabels.mat", {"labels": [[1, 2.5]]}, "no whole numbers called labels"),
        ("imagelabels.mat", {"labels": "roses"}, "no whole numbers called labels"),
        ("imagelabels.mat", {}, "no whole numbers called labels"),
    ],
)
def test_wrong_flowers_are_refused(
    tmp_path: Path, name: str, values: dict[str, Any], said: str
) -> None:
    with pytest.raises(SourceError, match=said):
        read(write(tmp_path, {**FLOWERS, name: mat(**values)}))


def test_cars(tmp_path: Path) -> None:
    catalog, findings = read(write(tmp_path, CARS))
    assert told(catalog) == {
        f"cars_{side}/0000{n}.jpg": {
            "label": (name := CAR_NAMES[2] if side == "test" else CAR_NAMES[n - 1]),
            "objects": [(name, n, 2, 30, 15)],
        }
        for side in ("train", "test")
        for n in (1, 2, 3)
    }
    assert [*sides(catalog).values()] == ["test"] * 3 + ["train"] * 3
    assert (catalog.classes, notes(findings)) == (CAR_NAMES, "")


def test_names_of_cars_that_are_given(tmp_path: Path) -> None:
    root = write(tmp_path / "set", CARS)
    (tmp_path / "names.txt").write_text("van\n" + "\n".join(CAR_NAMES[::-1]) + "\n", "utf-8")
    catalog, _ = read(root, classes=str(tmp_path / "names.txt"))
    assert told(catalog)["cars_train/00002.jpg"]["label"] == CAR_NAMES[1]
    assert catalog.table["cls"].to_list() == [1, 1, 1, 3, 2, 1]
    (tmp_path / "names.txt").write_text("van\n", "utf-8")
    with pytest.raises(SourceError, match="no class of --classes: 'AM General"):
        read(root, classes=str(tmp_path / "names.txt"))
    twice = np.array([[*CAR_NAMES[:2], CAR_NAMES[0]]], dtype=object)
    (root / "devkit/cars_meta.mat").write_bytes(mat(class_names=twice))
    with pytest.raises(SourceError, match="two classes of one name"):
        read(root)


def test_cars_of_one_side(tmp_path: Path) -> None:
    files = {name: data for name, data in CARS.items() if not name.startswith("cars_test/")}
    catalog, findings = read(write(tmp_path, files))
    assert {*sides(catalog).values()} == {"train"}
    assert "cars_test_annos_withlabels.mat is not kept: there is no directory" in notes(findings)


def test_cars_without_classes_keep_no_boxes(tmp_path: Path) -> None:
    files = {name: data for name, data in CARS.items() if "withlabels" not in name}
    catalog, findings = read(write(tmp_path, files))
    found = told(catalog)
    assert found["cars_test/00001.jpg"] == {"objects": []}
    assert found["cars_train/00002.jpg"]["label"] == CAR_NAMES[1]
    assert "3 boxes without a class are not kept: cars_test_annos_withlabels" in notes(findings)


def test_cars_in_one_directory(tmp_path: Path) -> None:
    columns = {"relative_im_path": lambda n: f"car_ims/00000{n}.jpg", "class": number}
    files = {f"car_ims/00000{n}.jpg": None for n in (1, 2, 3)}
    annotations = cars(3, **columns, test=lambda n: np.uint8(n == 2))
    data = mat(annotations=annotations, class_names=NAMES)
    catalog, _ = read(write(tmp_path, {**files, "cars_annos.mat": data}))
    assert [*sides(catalog).values()] == ["train", "test", "train"]
    assert catalog.table["cls"].to_list() == [0, 1, 2]


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    root = write(tmp_path, CARS)
    path = root / "devkit/cars_train_annos.mat"
    whole, flips = path.read_bytes(), random.Random(3)
    for _ in range(150):
        data = bytearray(whole[: flips.choice([len(whole), flips.randrange(len(whole))])])
        for _ in range(flips.randrange(1, 4)):
            data[flips.randrange(len(data))] = flips.randrange(256)
        path.write_bytes(data)
        try:
            read(root)
        except DsprepError:
            continue


# Files of MATLAB

VALUES: Sequence[Any] = (
    np.arange(6, dtype="i2").reshape(2, 3),
    np.array([[0.5, -1e300]]),
    np.array([["a", "Ä b"]], dtype=object),
    "text",
    np.array(["ab", "cd"]),
    cars(2, fname="é.jpg"),
    np.zeros((0, 0)),
    np.array([[True, False]]),
)


@pytest.mark.parametrize("packed", [False, True])
def test_values_as_scipy_reads_them(packed: bool) -> None:
    for value in VALUES:
        data = mat(packed, value=value)

        def read_bytes(offset: int, count: int, data: bytes = data) -> bytes:
            return data[offset : offset + count]

        (found,) = variables(read_bytes, len(data), "a.mat")
        judged = scipy.io.loadmat(io.BytesIO(data))["value"]
        own = value_of(read_bytes, found, "a.mat")
        assert isinstance(own, Values)
        if judged.dtype.names:
            rows = [{name: row[name].item() for name in judged.dtype.names} for row in judged[0]]
            assert flat(own) == rows
        elif judged.dtype.kind == "O":
            assert flat(own) == [each.item() for each in judged.ravel("F")]
        elif judged.dtype.kind == "U":
            assert list(own.items) == judged.tolist()
        else:
            assert (own.shape, list(own.items)) == (judged.shape, judged.ravel("F").tolist())


def test_what_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsprep.sources.mat_file._LARGEST", 1000)
    for packed, said in ((False, "too many for labels"), (True, "unpacks to too many bytes")):
        data = mat(packed, value=np.zeros((1, 5000)))

        def read_bytes(offset: int, count: int, data: bytes = data) -> bytes:
            return data[offset : offset + count]

        (found,) = variables(read_bytes, len(data), "a.mat")
        with pytest.raises(SourceError, match=said):
            value_of(read_bytes, found, "a.mat")


def test_many_small_cells_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsprep.sources.mat_file.MOST_CELLS", 1000)
    cells = np.empty((1, 2), dtype=object)
    for at in range(2):
        cells[0, at] = np.empty((1, 600), dtype=object)
        cells[0, at].fill("")
    for value in (cells, np.zeros((1, 501), [("a", "O"), ("b", "O")])):
        data = mat(True, value=value)

        def read_bytes(offset: int, count: int, data: bytes = data) -> bytes:
            return data[offset : offset + count]

        (found,) = variables(read_bytes, len(data), "a.mat")
        with pytest.raises(SourceError, match="more than 1,000 cells"):
            value_of(read_bytes, found, "a.mat")


def test_counts_are_not_believed() -> None:
    def element(kind: int, data: bytes, told: int | None = None) -> bytes:
        size = len(data) if told is None else told
        return struct.pack("<2I", kind, size) + data + bytes(-len(data) % 8)

    def matrix(kind: int, rows: int, rest: bytes) -> bytes:
        head = element(6, struct.pack("<2I", kind, 0)) + element(5, struct.pack("<2i", rows, 1))
        return bytes(124) + b"\0\1IM" + element(14, head + element(1, b"a") + rest)

    length = element(5, struct.pack("<i", 1))
    for data, said in (
        (matrix(4, (1 << 31) - 1, element(16, b"text")), "fewer rows of text"),
        (matrix(2, 0, length + element(1, b"", 0xFFFFFFF8)), "fewer fields"),
        (matrix(2, 0, length + element(1, bytes(20_000))), "fewer fields"),
    ):

        def read_bytes(offset: int, count: int, data: bytes = data) -> bytes:
            return data[offset : offset + count]

        (found,) = variables(read_bytes, len(data), "a.mat")
        with pytest.raises(SourceError, match=said):
            value_of(read_bytes, found, "a.mat")
