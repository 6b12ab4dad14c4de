"""CrowdHuman's `.odgt`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsprep.errors import SourceError
from tests.sources.boxes import notes, objects, read, write


def line(name: Any, *boxes: Any) -> str:
    return json.dumps({"ID": name, "gtboxes": boxes}) + "\n"


def person(**more: Any) -> dict[str, Any]:
    boxes = {"fbox": [-2, 2, 9, 8], "vbox": [0, 2, 7, 8], "hbox": [1, 2, 3, 3]}
    return {"tag": "person", **boxes, "extra": {"box_id": 3, "occ": 1}} | more


SET: dict[str, Any] = {
    "CrowdHuman_train/Images/273271,a.jpg": None,
    "CrowdHuman_val/Images/273271,b.jpg": None,
    "annotation_train.odgt": line("273271,a", person()),
    "annotation_val.odgt": line(
        "273271,b", person(extra={"ignore": 1}), person(tag="mask", extra={"ignore": 1})
    ),
}

ONE_SIDE = {path: data for path, data in SET.items() if "val" not in path}


def test_full_bodies_and_sides(tmp_path: Path) -> None:
    catalog, findings = read(write(tmp_path, SET))
    assert catalog.sides == ("train", "val")
    own = {path[-5:-4]: each.items for path, each in objects(catalog).items()}
    (one,) = own["a"]
    assert (one.box[1:], one.id, one.more, one.number) == ((2, 7, 10), 3, {"occ": 1}, 1)
    assert [(each.number, each.flags) for each in own["b"]] == [(1, {"difficult"}), (0, {"crowd"})]
    assert "3 visible boxes, not read" in notes(findings)
    assert "3 head boxes, not read" in notes(findings)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ('{"gtboxes"\n', "cannot be read"),
        (line(3), "has no ID, which names the image"),
        ('{"ID": "a", "gtboxes": 3}', "its gtboxes are 3"),
        (line("b", person(tag="")), "the tag of a box is ''"),
        (line("b", person(extra=3)), "the extra of a box is 3"),
        (line("b", person(fbox=[1, 2, -3, 4])), r"bbox is \[1, 2, -3, 4\]"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, wrong: str, why: str) -> None:
    with pytest.raises(SourceError, match=why):
        read(write(tmp_path, {"a.jpg": None, "x.odgt": line("a", person()) + wrong}))
