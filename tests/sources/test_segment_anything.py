"""SA-1B's JSON, with the keys that its page names."""

from __future__ import annotations

import json
import re
import shlex
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsprep.errors import SourceError
from tests.sources.boxes import boxes, kinds, notes, objects, read, write

if TYPE_CHECKING:
    from tests.here import Here


def told(name: str, **changes: Any) -> str:
    """What a file says of its image: the left half of it is an object."""
    mask = {
        "id": 7,
        "segmentation": {"size": [20, 40], "counts": "0`<`<"},
        "bbox": [0.0, 0.0, 20.0, 20.0],
        "area": 400,
        "predicted_iou": 0.98,
        "stability_score": 0.97,
        "crop_box": [0.0, 0.0, 40.0, 20.0],
        "point_coords": [[5.0, 5.0]],
    }
    image = {"image_id": 1, "width": 40, "height": 20, "file_name": name}
    return json.dumps({"image": image, "annotations": [mask | changes]})


FLAT = {
    "sa_1.jpg": None,
    "sa_2.jpg": None,
    "sa_1.json": told("sa_1.jpg"),
    "sa_2.json": told("sa_2.jpg"),
}
SET = {f"{'images' if text is None else 'annotations'}/{path}": text for path, text in FLAT.items()}


def test_masks_of_one_class(tmp_path: Path) -> None:
    catalog, findings = read(write(tmp_path, FLAT))
    assert boxes(catalog)["sa_1.jpg"] == [("object", 0, 0, 20, 20)]
    (mask,) = objects(catalog)["sa_2.jpg"].items
    assert mask.rle is not None and mask.rle.counts == (0, 400, 400) and mask.id == 7
    assert mask.more["predicted_iou"] == 0.98 and mask.more["point_coords"] == [[5, 5]]
    assert not kinds(findings)


@pytest.mark.parametrize("text", ["[" * 9999, '{"annotations": [1]}', told("", bbox="a")])
def test_damaged(tmp_path: Path, text: str) -> None:
    with pytest.raises(SourceError, match="sa_2.json"):
        read(write(tmp_path, FLAT | {"sa_2.json": text}), annotations=str(tmp_path),
             annotation_format="segment-anything")  # fmt: skip


def test_several_tars_are_packed_one_by_one_and_joined(tmp_path: Path, run_here: Here) -> None:
    tars = tmp_path / "tars"
    tars.mkdir()
    for number in range(2):
        names = {f"sa_{number}{at}.jpg": None for at in range(2)}
        own = write(tmp_path / str(number), names | {
            name.replace("jpg", "json"): told(name) for name in names
        })  # fmt: skip
        with tarfile.open(tars / f"sa_{number:06}.tar", "w") as tar:
            for path in sorted(own.iterdir()):
                tar.add(path, f"./{path.name}")
    said = notes(read(tars)[1])
    found = re.search(r"each tar, dsprep (.*), and join these, dsprep (.*)", said)
    assert found is not None
    for number in range(2):
        command = found[1].replace("sa_000000", f"sa_{number:06}").replace("FORMAT", "webdataset")
        assert run_here(*shlex.split(command), cwd=tmp_path).code == 0
    joined = found[2].replace("parts/*", "parts/sa_000000 parts/sa_000001")
    done = run_here(*shlex.split(joined), cwd=tmp_path)
    assert "objects   4 of 1 class in 4 images" in done.out
    assert not notes(read(tars, kind="webdataset")[1])
    # beside the directory of another tar
    (tmp_path / "0" / "more.tar").write_bytes((tars / "sa_000001.tar").read_bytes())
    assert "more.tar is an archive and is not read: to pack it, dsprep pack " in notes(
        read(tmp_path / "0")[1]
    )
