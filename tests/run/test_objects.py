"""What is counted of objects is what was written, for any workers, also after a kill."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.images.transform import Transform
from tests.attack.trees import contents
from tests.conftest import Finished, Running
from tests.images import jpeg

FORMATS = ("webdataset", "tfrecord", "recordio", "parquet", "coco", "voc", "yolo")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 images: with a crowd, objects at the edge and beyond, one without any, and a bad one."""
    root = tmp_path_factory.mktemp("boxes") / "images"
    root.mkdir()
    listed, annotations = list[Any](), list[Any]()
    for number in range(40):
        data = jpeg(number, (64, 48 + number % 3))
        (root / f"{number:02}.jpg").write_bytes(data[:40] if number == 17 else data)
        listed.append({"id": number, "file_name": f"{number:02}.jpg"})
        boxes = [(0, 0, 9, 9), (20, 15, 30, 20)] if number % 5 else []
        boxes += [(70, 60, 9, 9)] if number == 6 else []
        for box in boxes:
            values = {"id": len(annotations) + 1, "image_id": number, "bbox": box, "area": 9}
            values |= {"category_id": 1 + number % 2, "iscrowd": int(number == 8)}
            annotations.append(values)
    classes = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
    parts = {"images": listed, "annotations": annotations, "categories": classes}
    (root.parent / "a.json").write_text(json.dumps(parts))
    return root


def source(images: Path) -> dict[str, Any]:
    return {"annotations": [str(images.parent / "a.json")]}


@pytest.mark.usefixtures("lasting")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("crop", [None, (40, 30)])
def test_the_report_and_the_manifest_count_what_was_written(
    images: Path, tmp_path: Path, format: str, crop: tuple[int, int] | None
) -> None:
    out, transform = tmp_path / "out", Transform(crop=crop) if crop else None
    how: dict[str, Any] = {"workers": 1, "transform": transform}
    is_folder = format in ("coco", "voc", "yolo")
    if is_folder:  # which is made of shards
        shards = str(tmp_path / "shards")
        dsprep.pack(str(images), shards, format="webdataset", workers=1, **source(images))
        packed = [dsprep.convert(shards, str(out), to=format, **how) for _ in range(2)]
    else:
        how |= source(images) | {"format": format}
        how |= {"empty": "drop"} if format == "recordio" else {}
        packed = [dsprep.pack(str(images), str(out), **how) for _ in range(2)]
    assert packed[1].state.startswith("already")
    found = dsprep.verify(str(tmp_path / "out"), workers=1)
    assert found.problems == []
    assert found.objects is not None
    manifest = tmp_path / "out.manifest.json" if is_folder else out / "manifest.json"
    told = json.loads(manifest.read_text())["objects"]
    for report in packed:
        assert report.objects is not None
        assert report.objects == found.objects._replace(per_class={})
        assert told == {"objects": report.objects.objects, "samples": report.objects.samples}
    assert 0 < told["objects"] <= 63


def test_a_dry_run_counts_those_of_the_source(images: Path, tmp_path: Path) -> None:
    report = dsprep.pack(
        str(images), str(tmp_path / "out"), format="tfrecord", dry_run=True, **source(images)
    )
    assert report.objects is not None
    assert (report.objects.objects, report.objects.samples) == (65, 32)


@pytest.mark.usefixtures("lasting")
def test_what_is_appended_is_added(images: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    first = dsprep.pack(str(images), out, format="tfrecord", workers=1, **source(images))
    again = dsprep.append(str(images), out, workers=1, shuffle=True, **source(images))
    assert first.objects is not None
    assert again.objects is not None
    assert again.objects.objects == 2 * first.objects.objects
    assert again.objects.without == 2 * first.objects.without


def args_of(images: Path, shards: Path, format: str) -> tuple[object, ...]:
    """A command that writes several shards, or a folder, with objects that move."""
    moves = ("--resize", "40", "--crop", "40x30", "--encode", "png")
    if format in ("coco", "yolo"):
        return ("convert", shards, "--to", format, *moves)
    named = ("--annotations", images.parent / "a.json", "--to", format, *moves)
    return ("pack", images, *named, "--samples-per-shard", "3", "--empty", "mark")[
        : None if format == "recordio" else -2
    ]


@pytest.mark.parametrize(
    "format", ["webdataset", "tfrecord", "recordio", "parquet", "coco", "yolo"]
)
def test_the_same_bytes_for_any_workers_and_after_a_kill(
    images: Path,
    tmp_path: Path,
    run_here: Callable[..., Finished],
    start_cli: Callable[..., Running],
    format: str,
) -> None:
    shards = tmp_path / "shards"
    source_of = {"format": "webdataset", "samples_per_shard": 4, "workers": 1} | source(images)
    dsprep.pack(str(images), str(shards), **source_of)
    args, found = args_of(images, shards, format), []
    for workers in (1, 2, 3):
        out = tmp_path / str(workers) / "out"
        assert run_here(*args, out, f"-j{workers}").code in (0, 3)
        found.append(contents(out.parent))
    assert found[0] == found[1] == found[2]
    out = tmp_path / "killed" / "out"
    running = start_cli(*args, out, "-j2")
    while running.process.poll() is None and not [*out.parent.rglob("receipts/*.json")]:
        time.sleep(0.001)
    running.kill()
    running.process.wait()
    assert run_here(*args, out, "-j1").code in (0, 3)
    assert contents(out.parent) == found[0]
