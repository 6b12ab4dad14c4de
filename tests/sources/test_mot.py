"""MOT's ground truth, in the forms of MOT15, MOT17, CVAT and datumaro."""

from __future__ import annotations

from pathlib import Path

import pytest

import dsprep
from dsprep.errors import SourceError
from dsprep.images.transform import Transform
from tests.sources.boxes import boxes, kinds, notes, objects, read, write

TOP = "train/MOT17-02"
ROWS = "2,1,10,5,20,10,1,1,0.86\n1,1,1.5,2,3,4,1,1,-1\n2,9,0,0,40,20,0,8,0\n\n"
INFO = "[Sequence]\nname=MOT17-02\nimDir=frames\nframeRate=30\nseqLength=3\nimExt=.jpg\n"
SET = {
    **{f"{TOP}/frames/{at:06d}.jpg": None for at in (1, 2, 3)},
    f"{TOP}/gt/gt.txt": ROWS,
    f"{TOP}/seqinfo.ini": INFO,
}


def test_frames_and_their_rows(tmp_path: Path) -> None:
    more = {f"{TOP}/det/det.txt": "1,-1,1,2,3,4,0.9,-1,-1,-1\n", f"{TOP}/gt/gt_half.txt": ROWS}
    catalog, findings = read(write(tmp_path, {**SET, **more, "test/a/img1/000001.jpg": None}))
    assert boxes(catalog) == {
        f"{TOP}/frames/000001.jpg": [("pedestrian", 1.5, 2, 4.5, 6)],
        f"{TOP}/frames/000002.jpg": [("pedestrian", 10, 5, 30, 15), ("distractor", 0, 0, 40, 20)],
        f"{TOP}/frames/000003.jpg": [],
    }
    one, two = objects(catalog)[f"{TOP}/frames/000002.jpg"].items
    assert (one.flags, one.more) == (set(), {"track_id": 1, "visibility": 0.86})
    assert (two.flags, two.more) == ({"difficult"}, {"track_id": 9, "visibility": 0})
    found = kinds(findings)
    assert found == {
        f"{TOP}/det/det.txt": "not-read",
        f"{TOP}/gt/gt_half.txt": "not-read",
        "test/a/img1/000001.jpg": "unlisted",
    }
    assert "1 object that evaluation ignores marked difficult" in notes(findings)
    assert "2 further texts of MOT not read" in notes(findings)
    assert "coordinates of boxes are kept as they are" in notes(findings)


@pytest.mark.parametrize(
    ("row", "labels", "expected"),
    [
        ("1,-1,0,4,4,8,1,3,1.0\n", "a\nb\nc d, e\n", "c d, e"),  # of datumaro
        ("1,5,0,4,4,8,1,1,1.0\n", "", "pedestrian"),
        ("1,5,0,4,4,8,1,99,1.0\n", "", "99"),
        ("1,5,0,4,4,8,1,-1,-1,-1\n", "", "pedestrian"),  # of MOT15
        ("1,5,0,4,4,8\n", "person\n", "person"),
        ("1,5,0,4,4,8,1,2,1.0\n", "a\n\nc\n", "2"),  # a line without a name
    ],
)
def test_classes(tmp_path: Path, row: str, labels: str, expected: str) -> None:
    files = {"img1/000001.jpg": None, "gt/gt.txt": row}
    catalog, _ = read(write(tmp_path, files | ({"gt/labels.txt": labels} if labels else {})))
    assert boxes(catalog) == {"img1/000001.jpg": [(expected, 0, 4, 4, 12)]}


def test_named_from_the_directory_of_frames(tmp_path: Path) -> None:
    root = write(tmp_path, {"img1/1.jpg": None, "gt/gt.txt": ROWS})
    with pytest.raises(SourceError, match="gt may be its annotations: give --annotations"):
        read(root / "img1")
    catalog, findings = read(root / "img1", annotations=[str(root / "gt")])
    assert boxes(catalog) == {"1.jpg": [("pedestrian", 1.5, 2, 4.5, 6)]}
    assert [path for path, kind in kinds(findings).items() if kind == "missing"]


def test_boxes_move(tmp_path: Path) -> None:
    root = write(tmp_path / "set", SET)
    transform = Transform(resize=(20, 10))
    dsprep.pack(root, tmp_path / "out", to="webdataset", workers=1, transform=transform)
    found = objects(read(tmp_path / "out" / "train-000000.tar")[0])
    moved = [each.box for value in found.values() for each in value.items]
    assert sorted(moved) == [(0, 0, 20, 10), (0.75, 1, 2.25, 3), (5, 2.5, 15, 7.5)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (ROWS + "1,2,3\n", "gt.txt: line 5: has 3 columns: a row of MOT has 6 to 10, mostly 9"),
        (ROWS + "1,2,3,4,-5,6,1,1,1\n", "line 5: bbox is "),
        (ROWS + "1,2,3,4,nan,6,1,1,1\n", "line 5: "),
        (ROWS + "1.5,2,3,4,5,6,1,1,1\n", "line 5: 1.5 is no number of a frame"),
        (ROWS + "x,2,3,4,5,6,1,1,1\n", "line 5: "),
    ],
)
def test_refused(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(SourceError) as refused:
        read(write(tmp_path, {**SET, f"{TOP}/gt/gt.txt": text}))
    assert why in str(refused.value)


def test_texts_without_frames_and_frames_of_one_number_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there are no frames in .*/frames, such as 000001.jpg"):
        read(write(tmp_path / "1", {"a.jpg": None, "gt/gt.txt": ROWS, "seqinfo.ini": INFO}))
    twice = {"img1/1.jpg": None, "img1/001.jpg": None, "gt/gt.txt": ROWS}
    with pytest.raises(SourceError, match="are one frame: remove one"):
        read(write(tmp_path / "2", twice))
