"""What `dsprep shard append` and `lst create` say."""

from __future__ import annotations

from pathlib import Path

import dsprep
from dsprep.cli.report import write_lines
from tests.here import Here
from tests.images import image_folder
from tests.sources.boxes import box, coco, write


def test_tells_new_samples_from_all(tmp_path: Path) -> None:
    image_folder(tmp_path / "first", ("cat", "dog"), 3, size=(16, 16))
    new = tmp_path / "new"
    (new / "dog").mkdir(parents=True)
    (tmp_path / "first" / "dog" / "000.jpg").rename(new / "dog" / "new.jpg")
    shards = str(tmp_path / "shards")
    dsprep.pack(str(tmp_path / "first"), shards, format="webdataset", workers=1)

    planned = dsprep.append(str(new), shards, dry_run=True, workers=1)
    assert (planned.samples, planned.per_class) == (1, {0: 0, 1: 1})
    added = dsprep.append(str(new), shards, workers=1)
    assert (added.samples, added.per_class) == (6, {})
    assert "  note      1 of the samples is new, in 1 new shard" in write_lines(added)
    again = dsprep.append(str(new), shards, workers=1)
    assert (again.state, again.samples, again.per_class) == ("already appended", 6, {})


def test_a_list_of_boxes_counts_their_classes(tmp_path: Path) -> None:
    write(tmp_path / "set", {"a.jpg": None, "instances.json": coco(["a.jpg"], [box(1, 1)])})
    said = Here()("lst", "create", str(tmp_path / "set"), "-o", str(tmp_path / "boxes.lst")).out
    assert "  classes   2 classes, named in classes.txt beside the list" in said
