"""What ``convert`` says of what it does not carry over."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

import dsprep
from dsprep.formats import FORMATS, TABLES
from tests.conftest import Finished
from tests.images import image_folder, jpeg, png

RunHere = Callable[..., Finished]


def test_members_that_belong_to_no_sample_are_said(run_here: RunHere, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "train.tar", "w") as tar:
        for name in ("README", "a.cls", "b.cls", "LICENSE"):
            member = tarfile.TarInfo(name)
            member.size = 1
            tar.addfile(member, io.BytesIO(b"1"))
    done = run_here(
        "convert", tmp_path / "train.tar", tmp_path / "out", "--to", "tfrecord", "-j1", "--no-image"
    )
    assert done.code == 0
    assert "1 with members that belong to no sample (train.tar: 2 members (2 w" in done.out
    (skipped,) = (tmp_path / "out" / "skipped.jsonl").read_text().splitlines()
    detail = "2 members (2 without extension)"
    assert json.loads(skipped) == {"kind": "keyless", "path": "train.tar", "detail": detail}


# which need boxes, or hold no images
def test_the_indexes_of_sides_are_not_left_over(run_here: RunHere, tmp_path: Path) -> None:
    image_folder(tmp_path / "set", ("cat", "dog"), 4, (16, 12))
    shards = tmp_path / "shards"
    dsprep.pack(tmp_path / "set", shards, to="webdataset", split="train=0.5,val=0.5", workers=1)
    assert (shards / "train.json").exists()
    (shards / "v.json").write_text('{"labels": []}')  # an annotation, for all we know
    done = run_here("convert", shards, tmp_path / "out", "--to", "parquet", "-j1")
    assert "1 left over: 1 .json (v.json)" in done.out + done.err, done


@pytest.mark.parametrize("name", sorted({*FORMATS} - {"coco", "voc", "yolo", *TABLES}))
def test_images_of_one_key(run_here: RunHere, tmp_path: Path, name: str) -> None:
    source, dest = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    (source / "one.jpg").write_bytes(jpeg(0))
    (source / "one.png").write_bytes(png(1))
    refused = FORMATS[name].distinct == "key"
    done = run_here("convert", source, dest, "--to", name, "--dry-run", "-j1")
    assert (done.code, "--key index" in done.err) == ((4, True) if refused else (0, False))
    done = run_here("convert", source, dest, "--to", name, "-j1")
    assert done.code == (4 if refused else 0)
    if not refused:
        (dest / "manifest.json").unlink(missing_ok=True)
        assert run_here("verify", dest, "-j1").code == 0


def test_a_manifest_refers_to_every_file_that_is_written(run_here: RunHere, tmp_path: Path) -> None:
    parts = {"jpg": jpeg(), "cls": b"1", "mask.png": png(), "txt": b"a cat", "json": b'{"a": 1}'}
    with tarfile.open(tmp_path / "train.tar", "w") as tar:
        for name, data in parts.items():
            member = tarfile.TarInfo(f"0.{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    out = tmp_path / "out"
    assert (
        run_here("convert", tmp_path / "train.tar", out, "--to", "augmented-manifest", "-j1").code
        == 0
    )
    line = json.loads((tmp_path / "out.manifest").read_text("utf-8"))
    referred = {value for name, value in line.items() if name.endswith("-ref")}
    written = {path.relative_to(out).as_posix() for path in out.rglob("*.*")}
    assert referred == {f"1/0.{name}" for name in ("jpg", "mask.png", "json")}
    assert written == {*referred, "metadata.jsonl"}
    assert line["mask-ref"] == "1/0.mask.png"


def test_a_manifest_names_the_classes_of_masks(run_here: RunHere, tmp_path: Path) -> None:
    """As Ground Truth does it, so that masks and names come back, also pixels without a class."""
    for name in ("images", "masks"):
        (tmp_path / name).mkdir()
    for number in range(2):
        (tmp_path / f"images/{number}.jpg").write_bytes(jpeg(number, size=(8, 6)))
        pixels = bytes([0, 1, 2, 255] * 12)
        Image.frombytes("L", (8, 6), pixels).save(tmp_path / f"masks/{number}.png")
    (tmp_path / "classes.txt").write_text("sky\nbird\ntree\n")
    masks = ("--masks", tmp_path / "masks", "--mask-classes", tmp_path / "classes.txt")
    out = tmp_path / "out"
    done = run_here(
        "convert", tmp_path / "images", out, *masks, "--to", "augmented-manifest", "-j1"
    )
    assert done.code == 0, done.err
    line = json.loads((tmp_path / "out.manifest").read_text("utf-8").split("\n")[0])
    assert line["mask-ref-metadata"]["internal-color-map"] == {
        "0": {"class-name": "sky", "hex-color": "#000000"},
        "1": {"class-name": "bird", "hex-color": "#010101"},
        "2": {"class-name": "tree", "hex-color": "#020202"},
    }
    done = run_here(
        "convert", tmp_path / "out.manifest", tmp_path / "back", "--to", "folder", "-j1"
    )
    assert done.code == 0, done.err
    assert (tmp_path / "back.mask.classes.txt").read_text() == "sky\nbird\ntree\n"
    for number in range(2):
        with Image.open(tmp_path / f"back/{number}.mask.png") as mask:
            assert mask.tobytes() == pixels
    job = dsprep.sagemaker(
        [f"train={tmp_path}/out.manifest"], prefix="s3://bucket", algorithm="semantic-segmentation"
    ).job
    assert job["HyperParameters"] == {"num_classes": "3", "num_training_samples": "2"}


def test_a_manifest_of_resized_images_states_their_size(run_here: RunHere, tmp_path: Path) -> None:
    image_folder(tmp_path / "images", ("a",), 1, size=(64, 48))
    boxes = "4\t5\t64\t48\t1\t0.25\t0.25\t0.5\t0.5"
    (tmp_path / "train.lst").write_text(f"0\t{boxes}\ta/000.jpg\n", "utf-8")
    done = run_here(
        *("convert", tmp_path / "images", tmp_path / "out", "--list", tmp_path / "train.lst"),
        *("--to", "augmented-manifest", "--resize", "24", "--keep-fields", "label", "-j1"),
    )
    assert (done.code, done.err) == (0, "")
    told = json.loads((tmp_path / "out.manifest").read_text("utf-8"))["class"]
    assert told["image_size"] == [{"width": 32, "height": 24, "depth": 3}]
    box = told["annotations"][0]
    assert (box["left"], box["top"], box["width"], box["height"]) == (8, 6, 8, 6)


def test_numbers_in_texts_are_class_numbers(run_here: RunHere, tmp_path: Path) -> None:
    """Sorted as names, 10 would come before 2 and get its number."""
    numbers = [0, 2, 9, 10, 11]
    with tarfile.open(tmp_path / "train.tar", "w") as tar:
        for number in numbers:
            for name, data in (("jpg", jpeg(number)), ("target.txt", str(number).encode())):
                member = tarfile.TarInfo(f"{number:02}.{name}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    out = tmp_path / "out"
    assert run_here("convert", tmp_path / "train.tar", out, "--to", "webdataset", "-j1").code == 0
    assert not (out / "classes.txt").exists()
    with tarfile.open(out / "train.tar") as tar:
        labels = [each for each in tar.getnames() if each.endswith("target.txt")]
        assert len(labels) == len(numbers)  # within a format, members stay as they are
    rec = tmp_path / "x.rec"
    assert run_here("convert", tmp_path / "train.tar", rec, "-j1").code == 0
    lines = rec.with_suffix(".lst").read_text().splitlines()
    assert [int(line.split("\t")[1]) for line in lines] == numbers


def test_json_is_json_again_after_parquet(run_here: RunHere, tmp_path: Path) -> None:
    """Its columns have no such type, but the manifest beside them does."""
    with tarfile.open(tmp_path / "train.tar", "w") as tar:
        for name, data in (("jpg", jpeg()), ("meta.json", b'{"a": 1}')):
            member = tarfile.TarInfo(f"0.{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    table, again = tmp_path / "table", tmp_path / "again.tar"
    assert run_here("convert", tmp_path / "train.tar", table, "--to", "parquet", "-j1").code == 0
    assert run_here("convert", table, again, "-j1").code == 0
    with tarfile.open(again) as tar:
        assert tar.getnames() == ["0.jpg", "0.meta.json"]
