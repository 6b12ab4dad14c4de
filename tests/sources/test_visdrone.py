"""VisDrone's labels: judged by what its page says of each column."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsprep.annotations.visdrone import parse
from dsprep.errors import SourceError
from tests.sources.boxes import boxes, kinds, objects, read, write

ROWS = "10,5,20,10,1,4,0,0\n0,0,5,5,0,0,0,0\n1,2,3,4,1,1,1,2,\n"  # the last one ends in a comma
PLACES = [("car", 10, 5, 30, 15), ("ignored regions", 0, 0, 5, 5), ("pedestrian", 1, 2, 4, 6)]
SET = {
    "images/0000001.jpg": None,
    "images/0000002.jpg": None,
    "annotations/0000001.txt": ROWS,
    "annotations/0000002.txt": ROWS,
}


def test_rows(tmp_path: Path) -> None:
    catalog, findings = read(write(tmp_path, SET))
    assert [*boxes(catalog).values()] == [PLACES] * 2 and not kinds(findings)
    car, region, pedestrian = next(iter(objects(catalog).values())).items
    assert [each.flags for each in (car, region)] == [set(), {"crowd", "difficult"}]
    assert pedestrian.flags == {"truncated"}
    assert pedestrian.more == {"truncation": 1, "occlusion": 2}


def test_corners_of_texts_are_none_of_it(tmp_path: Path) -> None:
    corners = "10,5,30,5,30,15,10,15\n"
    files = {"images/a.jpg": None, "images/b.jpg": None, "annotations/a.txt": corners}
    catalog, _ = read(write(tmp_path, files))
    assert catalog.annotated is None


@pytest.mark.parametrize(
    ("row", "why"),
    [("1,2,3,4,1,12,0,0", "the category is 12"), ("1,2,3,4,1,4,0,0,0", "has 9 columns")],
)
def test_refused(tmp_path: Path, row: str, why: str) -> None:
    assert parse(ROWS.encode()).items
    with pytest.raises(SourceError, match=why):
        read(write(tmp_path, {**SET, "annotations/0000002.txt": row}),
             annotations=str(tmp_path / "annotations"),
             annotation_format="visdrone")  # fmt: skip
