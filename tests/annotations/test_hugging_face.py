"""Objects in the ``metadata.jsonl`` of Hugging Face's ``imagefolder``."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.cli.report import write_lines
from dsprep.errors import SourceError
from tests.images import jpeg

LISTS = [
    {"bbox": [[1, 2, 3, 4], [5, 6.5, 7, 8]], "categories": [0, 1]},
    {"bbox": [], "categories": []},
    {"bbox": [[0, 0, 100, 80]], "categories": [1]},
]
STRUCTS = [
    [{"bbox": [1, 2, 3, 4], "category": 0}, {"bbox": [5, 6.5, 7, 8], "category": 1}],
    [],
    [{"bbox": [0, 0, 100, 80], "category": 1}],
]
FOUND = {
    "0": [{"box": [1, 2, 4, 6], "class": 0}, {"box": [5, 6.5, 12, 14.5], "class": 1}],
    "1": [],
    "2": [{"box": [0, 0, 100, 80], "class": 1}],
}


def pack(root: Path, objects: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
    source, out = root / "images", root / "out"
    source.mkdir()
    for number in range(len(objects)):
        (source / f"{number}.jpg").write_bytes(jpeg(number, (100, 80)))
    lines = [{"file_name": f"{at}.jpg", "objects": each} for at, each in enumerate(objects)]
    (source / "metadata.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    report = dsprep.pack(source, out, to="webdataset", shuffle=False, **options)
    with tarfile.open(out / "train-000000.tar") as tar:
        members = {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore[union-attr]
    return report, {
        name.removesuffix(".json"): json.loads(data)["objects"]
        for name, data in members.items()
        if name.endswith(".json")
    }


@pytest.mark.parametrize("objects", [LISTS, LISTS[1:] + LISTS[:1], STRUCTS], ids=str)
def test_both_forms(tmp_path: Path, objects: Any) -> None:
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    report, found = pack(tmp_path, objects, classes=tmp_path / "classes.txt")
    order = [LISTS.index(each) if each in LISTS else at for at, each in enumerate(objects)]
    assert found == {str(at): FOUND[str(number)] for at, number in enumerate(order)}
    assert not report.rejects
    assert (tmp_path / "out" / "objects.classes.txt").read_text() == "cat\ndog\n"


def test_classes_without_names_are_not_counted(tmp_path: Path) -> None:
    report, _ = pack(tmp_path, LISTS)
    assert "  objects   3 in 2 images, 1 image without" in write_lines(report)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"bbox": [[1, 2, 3]], "categories": [0]}, "not x, y, width and height"),
        ({"bbox": [[1, 2, 3, float("nan")]], "categories": [0]}, "is not a number"),
        ({"bbox": [[1, 2, 3, 4]], "categories": [0, 1]}, "lists of different lengths"),
        ({"bbox": [[1, 2, 3, 4]], "categories": ["cat"]}, "has no class number"),
        ({"bbox": [[1, 2, 3, 4]], "categories": [-1]}, "class"),
    ],
)
def test_damaged_objects_reject_their_image(tmp_path: Path, bad: Any, why: str) -> None:
    report, found = pack(tmp_path, [bad, *LISTS[1:]])
    (reject,) = report.rejects
    assert reject.path == "0.jpg"
    assert why in reject.reason
    assert found.keys() == {"1", "2"}


@pytest.mark.parametrize("bad", [5, {"bbox": [[1, 2, 3, 4]]}, {"categories": [1]}])
def test_what_is_not_objects_is_refused(tmp_path: Path, bad: Any) -> None:
    with pytest.raises(SourceError, match="'objects' is"):
        pack(tmp_path, [bad, *LISTS[1:]])
