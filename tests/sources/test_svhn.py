"""SVHN's boxes of digits, in the layout that MATLAB writes, by h5py."""

from __future__ import annotations

import io
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from dsprep.errors import DsprepError, OptionError, SourceError
from dsprep.sources.hdf5_file import load_h5py
from tests.sources.boxes import read, sides, told, write

Digits = list[tuple[float, float, float, float, int]]
"""Left, top, width, height and label of each digit."""

TRAIN: Mapping[str, Digits] = {
    "1.png": [(5, 2, 8, 10, 1), (14, 3, 8, 10, 10)],
    "2.png": [(-1, 0, 9, 12, 9)],
    "3.png": [(1, 2, 3, 4, digit) for digit in (2, 2, 5)],
}


def digit_struct(images: Mapping[str, Digits], **wrong: Any) -> bytes:
    """A file as MATLAB 7.3 writes it: numbers of one digit lie there, others are referred to."""
    data = io.BytesIO()
    with h5py.File(data, "w", userblock_size=512) as file:
        kept = file.create_group("#refs#")
        file.create_group("digitStruct")

        def refer(value: Any) -> h5py.Reference:
            return kept.create_dataset(f"{len(kept)}", data=value).ref

        names, groups = [], []
        for name, digits in images.items():
            names.append(refer(np.array([[ord(each)] for each in name], "u2")))
            group = kept.create_group(f"group {name}")
            for at, part in enumerate(("left", "top", "width", "height", "label")):
                column = wrong.get(part) or [digit[at] for digit in digits]
                values = np.array([[each] for each in column], float)
                if len(column) != 1:
                    refs = [[refer(np.array([[each]], float))] for each in column]
                    values = np.array(refs, dtype=h5py.ref_dtype)
                group.create_dataset(part, data=values)
            groups.append(group.ref)
        for part, refs in (("name", names), ("bbox", groups)):
            found = np.array([[each] for each in refs], dtype=h5py.ref_dtype)
            file["digitStruct"].create_dataset(part, data=found)
    return b"MATLAB 7.3 MAT-file".ljust(512) + data.getvalue()[512:]


SVHN: Mapping[str, str | bytes | None] = {
    **{f"train/{name}": None for name in TRAIN},
    "train/digitStruct.mat": digit_struct(TRAIN),
    "other/1.png": None,  # no file tells its digits
}


def test_boxes_of_digits(tmp_path: Path) -> None:
    extra = {"extra/1.png": None, "extra/digitStruct.mat": digit_struct({"1.png": TRAIN["1.png"]})}
    catalog, _ = read(write(tmp_path, {**SVHN, **extra}))
    assert told(catalog) == {
        "extra/1.png": {"objects": [("1", 5, 2, 13, 12), ("0", 14, 3, 22, 13)]},
        "train/1.png": {"objects": [("1", 5, 2, 13, 12), ("0", 14, 3, 22, 13)]},
        "train/2.png": {"objects": [("9", -1, 0, 8, 12)]},
        "train/3.png": {"objects": [(str(digit), 1, 2, 4, 6) for digit in (2, 2, 5)]},
    }
    assert [*sides(catalog).values()] == ["extra", "train", "train", "train"]


def test_kaggles_copy_has_the_files_beside_the_directories(tmp_path: Path) -> None:
    files = {name: data for name, data in SVHN.items() if data is None}
    catalog, _ = read(write(tmp_path, {**files, "train_digitStruct.mat": digit_struct(TRAIN)}))
    assert {*sides(catalog).values()} == {"train"}
    assert len(told(catalog)["train/3.png"]["objects"]) == 3


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"label": [11]}, "the label 11.0, which is no digit"),
        ({"label": [1.5]}, "the label 1.5"),
        ({"left": [1, 2, 3, 4]}, "has no box for each digit"),
    ],
)
def test_wrong_boxes_are_refused(tmp_path: Path, wrong: dict[str, Any], said: str) -> None:
    data = digit_struct({"2.png": TRAIN["2.png"]}, **wrong)
    with pytest.raises(SourceError, match=said):
        read(write(tmp_path, {**SVHN, "train/digitStruct.mat": data}))


def test_more_images_than_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsprep.sources.annotated.svhn._MOST_IMAGES", 2)
    with pytest.raises(SourceError, match="has 3 images, and at most 2 are read"):
        read(write(tmp_path, SVHN))


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    root, flips = write(tmp_path, SVHN), random.Random(3)
    path = root / "train/digitStruct.mat"
    whole = path.read_bytes()
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(flips.randrange(1, 6)):
            data[flips.randrange(512, len(data))] = flips.randrange(256)
        path.write_bytes(data)
        try:
            read(root)
        except DsprepError:
            continue


def test_without_h5py_one_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write(tmp_path, SVHN)
    assert load_h5py("a.h5") is h5py
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(OptionError, match="digitStruct.mat: HDF5 is read by h5py .*pip install"):
        read(root)
