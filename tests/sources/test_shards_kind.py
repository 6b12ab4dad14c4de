"""Which files of a directory are the samples."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from dsprep.errors import SourceError
from dsprep.findings import notes_of
from dsprep.formats import IN_SPANS, TABLES
from dsprep.sources.kinds import KINDS, own_kinds
from dsprep.sources.reading import detect
from dsprep.sources.shards.shards_kind import shards_of
from dsprep.sources.source import make_source
from tests.images import jpeg
from tests.sources.boxes import ROW, boxes, labelme, read, voc, voc_object, write


def touch(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(size=(8, 8)) if name.endswith(".jpg") else b"{}")


def test_tables_beside_shards_of_the_same_names(tmp_path: Path) -> None:
    touch(tmp_path, "00000.tar", "00000.parquet", "00000_stats.json")
    shards = shards_of(make_source(tmp_path))
    assert shards is not None
    assert shards.files == (f"{tmp_path}/00000.tar",)


def test_tables_beside_other_shards(tmp_path: Path) -> None:
    touch(tmp_path, "00000.tar", "metadata.parquet")
    with pytest.raises(SourceError, match="holds shards and metadata.parquet: say which are the"):
        detect(make_source(tmp_path))


def test_tables_of_several_sides(tmp_path: Path) -> None:
    touch(tmp_path, "data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet")
    with pytest.raises(SourceError, match=r"'.*/data/train-\*\.parquet' or '.*/data/test-"):
        detect(make_source(str(tmp_path / "data/*.parquet")))


def test_files_of_img2dataset_are_parts(tmp_path: Path) -> None:
    for shard in ("00000", "00001"):
        touch(tmp_path, f"{shard}.parquet", f"{shard}_stats.json")
        touch(tmp_path, *(f"{shard}/{shard}{n}.{end}" for n in (1, 3) for end in ("jpg", "json")))
    found = detect(make_source(tmp_path))
    assert found is not None
    catalog, findings = found
    assert catalog.table["path"].to_list() == [
        f"{shard}/{shard}{n}.jpg" for shard in ("00000", "00001") for n in (1, 3)
    ]
    assert (catalog.label_column, catalog.classes) == (None, None)
    assert "as img2dataset writes them" in notes_of(findings)[0]
    assert detect(make_source(tmp_path, kind="images")) is None


def test_the_place_of_samples_is_told(tmp_path: Path) -> None:
    touch(tmp_path, "set/1.0.0/set-train.tfrecord-00000-of-00001")
    (tmp_path / "set" / "1.0.0" / "set-train.tfrecord-00000-of-00001").write_bytes(b"")
    with pytest.raises(SourceError, match=r"set/1\.0\.0: holds no samples"):
        detect(make_source(tmp_path / "set"))


def test_each_kind_can_be_named() -> None:
    choices = {name for kind in own_kinds().kinds for name in kind.names}
    assert choices == {*IN_SPANS, *TABLES, *KINDS} - {"annotated", "shards"}


def test_a_tar_of_sa_1b_is_no_shard(tmp_path: Path) -> None:
    """As Meta publishes it: a tar of images, each with its JSON."""
    mask = {"bbox": [0, 0, 20, 20], "area": 400, "predicted_iou": 0.9, "segmentation": {}}
    mask["segmentation"] = {"size": [20, 40], "counts": "0`<`<"}
    text = json.dumps({"image": {"image_id": 1}, "annotations": [mask]})
    root = write(tmp_path / "sa_000000", {"sa_1.jpg": None, "sa_1.json": text})
    path = tmp_path / "sa_000000.tar"
    with tarfile.open(path, "w") as tar:
        for name in ("sa_1.jpg", "sa_1.json"):
            tar.add(root / name, f"./{name}")
    assert boxes(read(path)[0]) == boxes(read(root)[0])
    assert all(boxes(read(path)[0]).values())


@pytest.mark.parametrize("annotation", ["xml", "txt", "json"])
def test_a_tar_of_images_with_annotations_beside_them_is_no_shard(
    tmp_path: Path, annotation: str
) -> None:
    """As Pascal VOC, YOLO and labelme have them, if somebody makes a tar of them."""
    cat = {"label": "cat", "points": [[10, 5], [30, 15]], "shape_type": "rectangle"}
    texts = {"xml": voc(voc_object("cat", (10, 5, 30, 15))), "txt": ROW, "json": labelme(cat)}
    text, names = texts[annotation], {"data.yaml": "names: [cat]\n"} if annotation == "txt" else {}
    images = {
        f"{('train', 'valid')[n // 2]}/{n}.{end}": text
        for n in range(4)
        for end in ("jpg", annotation)
    }
    files = {name: None if name.endswith(".jpg") else text for name, text in images.items()}
    root = write(tmp_path / "set", {**names, **files})
    path = tmp_path / "set.tar"
    with tarfile.open(path, "w") as tar:
        for name in (*names, *files):
            tar.add(root / name, name)
    expected = boxes(read(root)[0])
    assert len(expected) == 4
    assert all(expected.values())
    assert boxes(read(path)[0]) == expected


@pytest.mark.parametrize(
    ("field", "texts"),
    [
        (("text", "text", "txt"), ("a cat on a mat", "12")),
        (("json", "json", "json"), ('{"shapes": ["cat"], "labels": [{"box2d": 5}]}', "{}")),
    ],
)
def test_a_tar_of_images_with_texts_of_no_tool_is_a_shard(
    tmp_path: Path, field: tuple[str, str, str], texts: tuple[str, str]
) -> None:
    (name, kind, end), path = field, tmp_path / "set.tar"
    files = {"1.jpg": None, f"1.{end}": texts[0], "2.jpg": None, f"2.{end}": texts[1]}
    root = write(tmp_path, files)
    with tarfile.open(path, "w") as tar:
        for each in files:
            tar.add(root / each, each)
    catalog, _ = read(path)
    assert catalog.settled.schema.by_name[name].type == kind
