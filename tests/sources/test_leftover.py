"""Files that dsprep does not understand stop it, unless nobody would miss them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import zipfile
from array import array
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest
from PIL import Image

import dsprep
from dsprep.errors import OptionError, SourceError
from dsprep.findings import count_skipped, notes_of
from dsprep.rows import Rows
from dsprep.sources import beside, passed_over
from dsprep.sources.annotation_kind import LOOKED_AT, DirectoryAbove
from dsprep.sources.annotation_kinds import kind_by_content, own_annotation_kinds
from dsprep.sources.heads import HEADS, HEADS_OF_GROUP
from dsprep.sources.mask_pixels import MOST_DECODED
from dsprep.sources.passed_over import require_nothing_left
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from dsprep.sources.unread import UNREAD, unread_kind
from tests.attack.test_annotation_files import label_studio
from tests.sources.boxes import SIZE, box, coco, image, kinds, notes, read, voc, voc_object, write
from tests.sources.test_budget import counted  # noqa: F401

Content = dict[str, str | bytes | None]

HEAD = 1 << 16  # the characters of a file that are looked at
IMAGES: Content = {f"{number:03d}.jpg": None for number in range(4)}
CLASSES: Content = {f"{kind}/{number}.jpg": None for kind in ("cat", "dog") for number in range(3)}
KITTI = "Car 0.00 0 -1.82 587.01 173.33 614.12 200.12 1.65 1.67 3.64 -0.65 1.71 46.70 -1.59\n"
ICDAR = "38,43,920,215,1,2,3,4,Genaxis Theatre\n"
HEADS_OF_KINDS = {
    "CVAT": ("a.xml", "<?xml version='1.0'?>\n<annotations>\n  <version>1.1</version>"),
    "KITTI": ("label_2/000.txt", KITTI),
    "labelme": ("000.json", '{"version": "5", "shapes": [{"label": "a"}], "imagePath": "000.jpg"}'),
    "WIDER FACE": ("gt.txt", "a/000.jpg\n1\n1 2 3 4 0 0 0 0 0 0\na/001.jpg\n0\n0 0 0 0 0 0\n"),
    "VoTT": ("a.vott", '{"name": "x", "assets": {"1": {"path": "000.jpg"}}, "tags": []}'),
    "VIA": ("via.json", '{"000.jpg9": {"regions": [{"shape_attributes": {"name": "rect"}}]}}'),
    "DOTA": ("labelTxt/000.txt", "imagesource:GoogleEarth\ngsd:0.1\n1 2 3 4 5 6 7 8 plane 0\n"),
    "MOT": ("gt/gt.txt", "1,1,912,484,97,109,1,1,1\n2,1,912,484,97,109,1,1,1\n"),
    "Create ML": ("x.json", '[{"image": "000.jpg", "annotations": [{"label": "x"}]}]'),
    "Datumaro": ("x.json", '{"info": {}, "items": [{"id": "000", "annotations": []}]}'),
    "Supervisely": ("ann/000.jpg.x.json", '{"objects": [{"classTitle": "a"}], "size": {}}'),
    "ICDAR": ("gt/000.txt", ICDAR + '1,2,3,4,5,6,7,8,"x"\n'),
    "ADE20K": ("street/000_atr.txt", '001 # 0 # 1 # sky # sky # ""\n'),
    "AVA": ("ava_train.csv", "video,0902,0.07,0.15,0.2,0.8,80,1\nvideo,0903,0,0,1,1,9,2\n"),
    "CLEVR": ("val_scenes.json", '{"info": {}, "scenes": [{"image_filename": "000.png"}]}'),
    "CrowdHuman": ("annotation_val.odgt", '{"ID": "000", "gtboxes": [{"tag": "person"}]}'),
    "BDD100K": ("det.json", '[{"name": "000.jpg", "labels": [{"box2d": {"x1": 1}}]}]'),
    "Scalabel": ("x.json", '{"frames": [{"name": "000.jpg", "labels": [{"box2d": {"x1": 1}}]}]}'),
    "Ground Truth": ("o.manifest", '{"source-ref": "000.jpg", "b": {"image_size": [1]}}'),
    "MPII as HRNet and MMPose have it": (
        "annot/valid.json",
        '[{"joints_vis": [1], "joints": [[1.0, 2.0]], "image": "0.jpg", "scale": 3.0, '
        '"center": [5.0, 2.0]}]',
    ),
    "InterHand2.6M": (
        "annotations/train/InterHand2.6M_train_data.json",
        '{"images": [{"id": 1, "file_name": "0.jpg", "seq_name": "a", "frame_idx": 1}], '
        '"annotations": [{"id": 1, "image_id": 1, "bbox": [1, 2, 3, 4], "joint_valid": [[1]], '
        '"hand_type": "right"}]}',
    ),
    "MPII": ("mpii.json", '[{"dataset": "MPI", "img_paths": "000.jpg", "joint_self": [[1, 2]]}]'),
    "OCHuman": (
        "ochuman.json",
        '{"images": [{"file_name": "000.jpg", "annotations": [{"max_iou": 0}]',
    ),
    "SBD": ("inst/2008_000002.mat", "MATLAB 5.0 MAT-file, Platform: GLNXA64"),
    "SBU": ("x/SBU_captioned_photo_dataset_urls.txt", "http://static.flickr.com/2723/000.jpg\n"),
    "Mapillary Traffic Sign": ("000.json", '{"width": 4, "ispano": false, "objects": []}'),
    "DeepFashion2": ("annos/000.json", '{"item1": {"bounding_box": [1, 2, 3, 4]}}'),
    "Hasty": ("x.json", '{"export_format_version": "1.1", "label_classes": [], "images": []}'),
    "SuperAnnotate": ("000.jpg___objects.json", '{"instances": [{"className": "car"}]}'),
    "Scale": ("tasks.json", '[{"task_id": "1", "response": {"annotations": []}}]'),
    "Label Studio's JSON-MIN": (
        "x.json",
        '[{"image": "000.jpg", "annotator": 1, "annotation_id": 1',
    ),
    "YOLOv4's PyTorch": ("_annotations.txt", "000.jpg 1,2,3,4,0 5,6,7,8,1\n001.jpg 1,2,3,4,0\n"),
    "Vertex AI": ("x.jsonl", '{"imageGcsUri": "gs://b/000.jpg"}\n'),
    "Azure ML": ("x.jsonl", '{"image_url": "000.jpg", "label": [{"topX": 0.1}]}\n'),
    "GeoJSON": ("x.geojson", '{"type": "FeatureCollection", "features": []}'),
    "PaliGemma": ("x.jsonl", '{"image": "000.jpg", "prefix": "detect", "suffix": "fish"}\n'),
    "dlib": ("faces.xml", "<?xml version='1.0'?><images><image file='000.jpg'><box top='1'"),
    "COCO": ("result.json", coco(["000.jpg"], [box(1, 1)])),
    "Pascal VOC": ("xml/000.xml", voc(voc_object("cat", (1, 2, 3, 4)))),
    "YOLO": ("txt/000.txt", "0 0.5 0.5 0.1 0.1\n"),
}


@pytest.mark.parametrize(
    "piece",
    (
        '" # ',
        "0 # 0 # 1 # ",
        "1 ",
        "1,",
        "1, ",
        "a ",
        "a.jpg",
        '"',
        " ",
        "[{",
        '"shapes" ',
        "-1.e1 ",
    ),
)
def test_a_hostile_head_takes_no_more_time_than_another(piece: str) -> None:
    beginnings = ("", "0 # 0 # 1 # ", "Car ", "1 2 3 4 5 6 7 8 ", '1, 1, 1, 1, "', '"objects":')
    paths = ("a.txt", "a.xml", "a.json", "a.csv", "ava_a.csv", "gt.txt", "a.pts", "a.vott", "x/a")
    for beginning in beginnings:
        head = (beginning + piece * HEAD)[:HEAD].encode() + b"\n" + b"a" * 9
        for path in paths:
            unread_kind(path, head)  # a pattern of the square or more would take minutes


@pytest.mark.parametrize("name", HEADS_OF_KINDS)
def test_kinds_by_content(name: str) -> None:
    path, text = HEADS_OF_KINDS[name]
    found = kind_by_content(path, text.encode())
    assert found is not None and found.name == name
    own = {kind.words for kind in own_annotation_kinds().kinds}
    assert (name in own) != (name in {each.name for each in UNREAD})
    assert kind_by_content(path, b"nothing of the kind\n" * 9) is None
    assert kind_by_content(path, b"") is None


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("samples.json", '{"samples": [{"filepath": "data/000.jpg", "tags": ["train"]}]}'),
        ("labels.json", '{"classes": ["cat", "dog"], "labels": {"000": 0, "001": 1}}'),
        ("labels.json", '{"classes": null, "labels": {"000": "cat"}}'),
    ],
)
def test_what_fiftyone_writes(path: str, text: str) -> None:
    found = unread_kind(path, text.encode())
    assert found is not None and found.name == "FiftyOne"
    assert unread_kind("labels.json", b'{"labels": {"000": 0, "001": 1}}') is None


@pytest.mark.parametrize("name", ["VoTT", "ICDAR", "Supervisely"])
@pytest.mark.parametrize("images", [IMAGES, CLASSES])
def test_annotations_that_nobody_reads_stop_the_command(
    tmp_path: Path, name: str, images: Content
) -> None:
    path, text = HEADS_OF_KINDS[name]
    root, out = write(tmp_path / "set", images | {path: text}), tmp_path / "out"
    with pytest.raises(SourceError) as refused:
        dsprep.pack(str(root), str(out), to="webdataset", workers=1)
    assert refused.value.exit_code == 4
    assert f"{path}: has annotations of {name}\n" in str(refused.value)
    assert f"--leave-out {path}" in str(refused.value)
    assert not out.exists()
    report = dsprep.pack(str(root), str(out), to="webdataset", workers=1, leave_out=[path])
    assert report.samples == len(images)
    assert report.to_json()["skipped_counts"]["left-out"] == {Path(path).suffix: 1}
    assert json.loads((out / "manifest.json").read_text())["options"]["leave_out"] == [path]
    again = dsprep.pack(str(root), str(out), to="webdataset", workers=1, leave_out=[path])
    assert again.state == "already packed"
    source = make_source(str(root), leave_out=[path])
    assert not dsprep.verify(str(out), against=source).problems
    assert not dsprep.verify(str(out), against=str(root)).problems


TABLE = "image,breed\n" + "".join(f"{path},{'ab'[at % 2]}\n" for at, path in enumerate(IMAGES))


@pytest.mark.parametrize(
    ("path", "content", "option"),
    [
        ("labels.csv", TABLE, "--labels"),
        ("labels.csv", TABLE.replace(".jpg", ""), "--labels"),
        (
            "x.manifest",
            "".join(
                f'{{"source-ref": "{path}", "cls": {at % 2}}}\n' for at, path in enumerate(IMAGES)
            ),
            "--list",
        ),
        ("x.lst", "".join(f"{at}\t{at % 2}\t{path}\n" for at, path in enumerate(IMAGES)), "--list"),
        ("a.json", f"[{', '.join(map(label_studio, IMAGES))}]", "--annotations"),
        ("labels.json", json.dumps(dict.fromkeys(IMAGES, "cat")), ""),
    ],
)
def test_what_would_have_told_the_samples_something(
    tmp_path: Path, path: str, content: str, option: str
) -> None:
    root = write(tmp_path / "set", IMAGES | {path: content})
    found = read(root)
    source = make_source(str(root))
    with pytest.raises(SourceError) as refused:
        require_nothing_left(source, found)
    if option:
        assert f"to take it in: {option} {root / path}\n" in str(refused.value)
        name = {"--list": "list_file"}.get(option, option[2:])
        value = [str(root / path)] if name == "annotations" else str(root / path)
        told = read(root, **{name: value})
        assert told[0].label_column or told[0].annotated
        require_nothing_left(source.replace(**{name: value}), told)
    else:
        assert "to take it in" not in str(refused.value)
    require_nothing_left(source.replace(kind="images"), found)
    require_nothing_left(source, read(root, leave_out=["*"]))
    # Directories that are classes tell the samples what they are.
    root = write(tmp_path / "classes", {f"cat/{path}": None for path in IMAGES})
    root = write(root, dict.fromkeys(CLASSES) | {path: content})
    if option != "--annotations":
        require_nothing_left(source, read(root))


def test_in_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in write(tmp_path / "set", IMAGES).iterdir():
            archive.write(name, f"top/{name.name}")
        for number in range(4):
            archive.writestr(f"top/gt/{number:03d}.txt", ICDAR)
        archive.writestr("labels.csv", TABLE)
        archive.writestr("README.md", "")
    with pytest.raises(SourceError) as refused:
        dsprep.pack(str(path), str(tmp_path / "out"), to="webdataset", workers=1)
    assert "4 .txt files in gt, such as gt/000.txt: have annotations of ICDAR" in str(refused.value)
    assert "to take it in: --labels labels.csv\n" in str(refused.value)


ORDINARY: dict[str, Content] = {
    "photographs with sidecars": {
        f"{name}{end}": data
        for name in ("2024/a", "2024/b")
        for end, data in ((".jpg", None), (".xmp", "<x:xmpmeta/>"), (".CR2", "raw"), (".mov", "m"))
    },
    "Takeout": {
        "Photos from 2020/IMG_1.jpg": None,
        "Photos from 2020/IMG_1.jpg.json": '{"title": "IMG_1.jpg", "description": ""}',
        "Photos from 2020/IMG_2.jpg": None,
        "Photos from 2020/IMG_2.jpg.supplemental-metadata.json": '{"title": "IMG_2.jpg"}',
        "Photos from 2020/metadata.json": '{"title": "Photos from 2020"}',
    },
    "Kaggle": IMAGES | {"sample_submission.csv": TABLE, "README.md": "", "LICENSE": "MIT"},
    "ImageNet with its devkit": CLASSES
    | {
        "devkit/data/meta.mat": b"MATLAB 5.0 MAT-file" + bytes(200),
        "devkit/data/ILSVRC2012_validation_ground_truth.txt": "490\n361\n171\n",
        "devkit/readme.txt": "0.jpg 1.jpg 2.jpg",
        "synset_words.txt": "n01440764 tench\nn01443537 goldfish\n",
    },
    "predictions and features": IMAGES
    | {
        "predictions.csv": TABLE,
        "features.npy": b"\x93NUMPY",
        "000.npz": b"PK",
        "model.pt": b"PK",
        "run/scores.json": json.dumps(dict.fromkeys(IMAGES, 0.5)),
    },
    "a table beside classes": CLASSES
    | {"labels.csv": "path,label\ncat/0.jpg,cat\ndog/1.jpg,dog\n"},
    "what dsprep wrote": IMAGES
    | {"images.lst": "".join(f"{at}\t0\t{path}\n" for at, path in enumerate(IMAGES))},
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_folders_are_not_stopped(tmp_path: Path, name: str) -> None:
    root = write(tmp_path / "set", ORDINARY[name])
    report = dsprep.pack(str(root), str(tmp_path / "out"), to="webdataset", workers=1)
    assert report.samples == sum(path.endswith(".jpg") for path in ORDINARY[name])
    assert not report.rejects
    others = sum(content is not None for content in ORDINARY[name].values())
    assert sum(sum(each.values()) for each in report.skipped_counts.values()) == others


def test_images_without_an_extension_of_images_stop_the_command(
    tmp_path: Path,
    counted: dict[str, int],  # noqa: F811
) -> None:
    bare: Content = {f"cat/{number:04d}": None for number in range(6)} | {"dog/x.dat_": None}
    named: Content = {f"{kind}/x{number}.jpg": None for kind in ("cat", "dog") for number in (1, 2)}
    root = write(tmp_path / "set", bare | named)
    source, found = make_source(str(root)), read(root)
    with pytest.raises(SourceError) as refused:
        require_nothing_left(source, found)
    assert refused.value.exit_code == 4
    said = "6 files without extension in cat, such as cat/0000: are images without an extension"
    assert f"{said} of images\n" in str(refused.value)
    assert "--leave-out 'cat/*'" in str(refused.value)
    assert "dog/x.dat_: is an image without an extension of images\n" in str(refused.value)
    out = ["cat/*", "dog/x.dat_"]
    left_out = read(root, leave_out=out)
    require_nothing_left(source.replace(leave_out=tuple(out)), left_out)
    assert len(left_out[0]) == 4
    chosen = {"extensions": ("jpg",)}
    require_nothing_left(source.replace(**chosen), read(root, **chosen))
    beside = read(write(root, {"cat/notes.txt": "a note"}))
    with pytest.raises(SourceError, match="--leave-out cat/0000\n"):
        require_nothing_left(source, beside)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for path in bare | named:
            archive.write(root / path, path)
    with pytest.raises(SourceError, match="6 files without extension in cat"):
        require_nothing_left(make_source(f"{tmp_path}/a.zip"), read(tmp_path / "a.zip"))
    tiff = b"II*\0" + bytes(60)
    others: Content = {
        "cat/x1.heic": None,
        "cat/x1.pef": tiff,
        "cat/x1.nef": tiff,
        "cat/x1.jpg_original": None,
        "cat/bmw": "BMW and Audi",
        "cat/sizes": "P1 is a place",
        "cat/README": "",
        "train.tfrecord": bytes(99),
    }
    root = write(tmp_path / "others", named | others)
    counted.clear()
    require_nothing_left(source, read(root))
    assert counted["opens"] <= 3
    many: Content = {
        f"{n}/{at}{end}": b"\1" for n in range(60) for at, end in enumerate(("", ".b"))
    }
    root = write(tmp_path / "many", named | many)
    counted.clear()
    read(root)
    assert counted["opens"] == HEADS


def test_statuses(tmp_path: Path) -> None:
    root = write(tmp_path, CLASSES | {"README.md": "", "x.bin": b"1", "notes.txt": "a note"})
    assert kinds(read(root)[1]) == {
        "README.md": "harmless",
        "notes.txt": "left-over",
        "x.bin": "left-over",
    }
    found = read(root, leave_out=["*.b?n"])[1]
    assert count_skipped(found) == {
        "harmless": {".md": 1},
        "left-out": {".bin": 1},
        "left-over": {".txt": 1},
    }


def test_a_table_beside_classes_is_named(tmp_path: Path) -> None:
    root = write(tmp_path, ORDINARY["a table beside classes"])
    assert "labels.csv names the images in 2 of 2 rows looked at and is not read" in notes(
        read(root)[1]
    )


def test_values_of_matlab_may_be_the_labels(tmp_path: Path) -> None:
    root = write(tmp_path / "set", IMAGES | {"joints.mat": "MATLAB 5.0 MAT-file"})
    with pytest.raises(SourceError, match=r"joints\.mat: has values of MATLAB, and nothing else"):
        require_nothing_left(make_source(str(root)), read(root))
    root = write(tmp_path / "classes", dict.fromkeys(CLASSES) | {"devkit/meta.mat": "MATLAB 5.0"})
    require_nothing_left(make_source(str(root)), read(root))


def test_one_class_tells_nothing(tmp_path: Path) -> None:
    rows = "".join(f"{path} {at}\n" for at, path in enumerate(IMAGES))
    files = {f"img_align_celeba/{path}": None for path in IMAGES} | {"Anno/identity.txt": rows}
    root = write(tmp_path, files)
    with pytest.raises(SourceError, match=r"Anno/identity.txt: names the images in 4 of 4 rows"):
        require_nothing_left(make_source(str(root)), read(root))


def test_other_annotations_of_a_set_are_known(tmp_path: Path) -> None:
    files = IMAGES | {
        "annotations/instances_train.json": coco([*IMAGES], [box(1, 1)]),
        "annotations/other.json": coco([*IMAGES], [box(1, 1)]),
    }
    catalog, findings = read(write(tmp_path, files))
    assert catalog.annotated is not None
    assert kinds(findings) == {"annotations/other.json": "not-read"}


def test_images_alone_exclude_what_is_drawn_on_them(tmp_path: Path) -> None:
    root = write(tmp_path, IMAGES | {"a.json": coco([*IMAGES], [box(1, 1)])})
    for option in ({"annotations": [str(root / "a.json")]}, {"masks": str(root)}):
        with pytest.raises(OptionError, match="--from images takes the images alone"):
            read(root, kind="images", **option)


def test_how_many_heads_are_read(tmp_path: Path, counted: dict[str, int]) -> None:  # noqa: F811
    few: Content = {f"notes/{number:03d}.txt": "a note" for number in range(50)}
    root = write(tmp_path / "few", IMAGES | few)
    counted.clear()
    read(root)
    assert counted["opens"] == HEADS_OF_GROUP
    many: Content = {f"{number}/{at}.txt": "a" for number in range(60) for at in range(2)}
    root = write(tmp_path / "many", IMAGES | many)
    counted.clear()
    read(root)
    assert counted["opens"] == HEADS


def png(mode: str, seed: int) -> bytes:
    out = BytesIO()
    picture = Image.new("L", SIZE)
    picture.putdata([(at + seed) % 3 for at in range(SIZE[0] * SIZE[1])])
    if mode == "I;16":
        wide = array("H", [value * 1000 for value in picture.tobytes()])
        picture = Image.frombytes(mode, SIZE, wide.tobytes())
    (picture if mode == "I;16" else picture.convert(mode)).save(out, "PNG")
    return out.getvalue()


def test_likely_masks_are_no_samples(tmp_path: Path) -> None:
    images: Content = {f"images/{number}.jpg": None for number in range(3)}
    masks: Content = {f"masks/{number}.png": png("P", number) for number in range(3)}
    root, out = write(tmp_path / "set", images | masks), tmp_path / "out"
    with pytest.raises(SourceError) as refused:
        dsprep.pack(str(root), str(out), to="webdataset", workers=1)
    assert "3 .png files in masks, such as masks/0.png: have the look of a mask of images/0" in str(
        refused.value
    )
    advice = f"to take it in: --masks {root}/masks\n"
    assert advice in str(refused.value)
    alone = dsprep.pack(str(root), str(out), to="webdataset", workers=1, leave_out=["masks"])
    assert alone.samples == 3
    assert alone.skipped_counts["left-out"] == {".png": 3}
    alike: Content = {f"masks/x{number}.png": png("P", number) for number in range(3)}
    assert len(read(write(tmp_path / "alike", images | alike))[0]) == 6


def test_masks_that_no_row_names_are_noted(tmp_path: Path) -> None:
    files: Content = {f"images/{at}.jpg": photo("JPEG", at) for at in range(3)}
    files |= {f"masks/{at}.png": png("P", at) for at in range(3)}
    root = write(tmp_path / "set", files)
    table, rows = tmp_path / "labels.csv", tmp_path / "some.lst"
    table.write_text("file,label\nimages/0.jpg,a\nimages/1.jpg,b\n")
    rows.write_text("0\t0\timages/0.jpg\n1\t1\timages/1.jpg\n")
    archive = shutil.make_archive(str(tmp_path / "set"), "zip", str(root))
    said = "masks/0.png has the look of a mask of images/0.jpg (2 more like this)"
    by_directory = f"{root}/masks has images of the same names"
    for asked, given, why in (
        (str(root), {"labels": str(table)}, said),
        (str(root), {"list_file": str(rows)}, by_directory),
        (archive, {"labels": str(table)}, said),
        (archive, {"list_file": str(rows)}, said),
    ):
        takes = f"{asked}/masks"
        note = f"{why} and is not read: --masks {takes} takes masks"
        assert note in notes_of(read_source(make_source(asked, **given))[1])
        catalog, findings = read_source(make_source(asked, **given, masks=takes))
        assert len(catalog) == 2
        assert "is not read: --masks" not in str(notes_of(findings))


def test_names_of_class_numbers_are_not_offered_as_labels(tmp_path: Path) -> None:
    files: Content = {f"{'ab'[at % 2]}/{at}.jpg": None for at in range(4)}
    names = json.dumps({str(at): f"class {at}" for at in range(4)})
    _, findings = read(write(tmp_path / "set", {**files, "label_map.json": names}))
    assert "label_map.json names 4 of 4 images and is not read" in notes_of(findings)


def test_further_masks_beside_images_are_offered(tmp_path: Path) -> None:
    files: Content = {f"a/{at}.png": photo("PNG", at) for at in range(3)}
    files |= {f"a/{at}_mask.png": png("1", at) for at in range(3)}
    root = write(tmp_path / "set", files | {"a/1_mask_1.png": png("1", 1)})
    with pytest.raises(SourceError, match=re.escape(f"take it in: --masks '{root}/*_mask*.png'")):
        dsprep.pack(str(root), str(tmp_path / "out"), to="webdataset", workers=1)
    table = tmp_path / "labels.csv"
    table.write_text("file,label\na/0.png,a\na/1.png,b\n")
    _, findings = read_source(make_source(str(root), labels=str(table)))
    assert f"not read: --masks '{root}/*_mask*.png' takes masks" in str(notes_of(findings))


def photo(kind: str, seed: int, size: tuple[int, int] = SIZE) -> bytes:
    """Make an image of many values."""
    out = BytesIO()
    noise = Random(seed).randbytes(3 * size[0] * size[1])
    Image.frombytes("RGB", size, noise).save(out, kind)
    return out.getvalue()


OPEN = Image.open


def layout(image: str, *parts: str, mode: str = "RGB", kind: str = "JPEG") -> Content:
    """Make three images, and what belongs to them; each `*` is a number."""
    files: Content = {}
    for number in range(3):
        files[image.replace("*", f"{number:03d}")] = photo(kind, number)
        for part in parts:
            data = png(mode, number) if part.endswith("png") else photo("JPEG", 9, (20, 10))
            files[part.replace("*", f"{number:03d}")] = data
    return files


MASKS_OF: dict[str, Content] = {
    "of colors": layout("images/*.jpg", "masks/*.png"),
    "of 16 bits": layout("image_2/*.png", "instance/*.png", mode="I;16", kind="PNG"),
    "in a directory of any name": layout("camera/*.jpg", "ids/*.png"),
    "in sides": layout("train/camera/*.jpg", "train/ids/*.png"),
    "CamVid": layout("images/*.png", "labels/*_P.png", mode="L", kind="PNG"),
    "ADE20K": layout("street/*.jpg", "street/*_seg.png", "street/*_parts_1.png"),
    "with words before numbers": layout("images/image_*.png", "masks/gt_*.png", kind="PNG"),
    "several of an image": layout("Images/x/*.jpg", "Masks/x/*_mask_1.png", mode="RGBA"),
    "files of fixed names": layout("*/image.png", "*/mask.png", kind="PNG"),
    "DeepGlobe": layout("train/*_sat.jpg", "train/*_mask.png"),
    "MVTec": layout("train/good/*.png", "ground_truth/broken/*_mask.png", kind="PNG"),
    "a directory for each image": layout("*/images/*.png", "*/masks/a.png", kind="PNG"),
    "DRIVE": layout(
        "training/images/*_training.tif",
        "training/1st_manual/*_manual1.png",
        "training/mask/*_training_mask.png",
        kind="TIFF",
    ),
    "PH2": layout("x/*/*_Image/*.jpg", "x/*/*_lesion/*_lesion.png", "x/*/*_roi/*_R1_Label1.png"),
    "with a word before": layout("*.jpg", "mask_*.png"),
    "CHASE_DB1": layout("Image_*L.jpg", "Image_*L_1stHO.png", "Image_*L_2ndHO.png"),
    "DIV2K": layout("DIV2K_train_HR/*.png", "DIV2K_train_LR_bicubic/X2/*x2.jpg", kind="PNG"),
    "other pictures": layout("HR/*.jpg", "LR/*.jpg"),
    "of words": layout("rgb_images/*.png", "depth_images/*.jpg", kind="PNG"),
    "depth": layout("RGB/*.png", "Depth/*.jpg", kind="PNG"),
    "MMSegmentation": layout("img_dir/*.png", "ann_dir/*.png", kind="PNG"),
    "words after numbers": layout("imgs/*img.jpg", "gts/*gt.png"),
    "KITTI's flow": layout("image_2/*.png", "flow_occ/*.png", kind="PNG"),
    "SYNTHIA's left camera": layout("RGBLeft/*.png", "DepthLeft/*.png", kind="PNG"),
}


@pytest.mark.parametrize("name", MASKS_OF)
def test_parts_of_samples_are_no_samples(tmp_path: Path, name: str) -> None:
    root = write(tmp_path / "set", MASKS_OF[name])
    catalog, findings = read(root)
    assert len(catalog) == 3
    left = [each for each in findings if each.kind == "left-over"]
    assert len(left) == len(MASKS_OF[name]) - 3
    with pytest.raises(SourceError, match="(the look of a mask of|belongs? to) "):
        require_nothing_left(make_source(str(root)), (catalog, findings))
    assert len(read(root, kind="images")[0]) == len(MASKS_OF[name])


def test_how_many_images_are_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    monkeypatch.setattr(Image, "open", lambda file: decoded.append(file) or OPEN(file))
    files: Content = {}
    for word in ("mask", "seg", "gt", "label", "trimap", "parts"):
        files |= layout(f"of_{word[0]}/*.png", f"of_{word[0]}/*_{word}.png", kind="PNG")
    read(write(tmp_path / "many", files))
    assert len(decoded) == MOST_DECODED
    # Those of more than 4 megapixels are known by their header and their bytes.
    large: Content = {}
    for number in range(2):
        for path, color in (("images/{}.jpg", "RGB"), ("masks/{}.png", "L")):
            out = BytesIO()
            Image.new(color, (2500, 2000), number).save(
                out, Path(path).suffix[1:].replace("jpg", "jpeg")
            )
            large[path.format(number)] = out.getvalue()
    decoded.clear()
    catalog, _ = read(write(tmp_path / "large", large))
    assert len(catalog) == 2
    assert not decoded


@pytest.mark.parametrize("suffix", ["zip", "tar.gz"])
def test_parts_of_samples_in_archives(tmp_path: Path, suffix: str) -> None:
    for name in ("of colors", "other pictures"):
        root = write(tmp_path / name / "top", MASKS_OF[name])
        kind = {"zip": "zip", "tar.gz": "gztar"}[suffix]
        path = shutil.make_archive(str(root), kind, root.parent, root.name)
        catalog, findings = read(Path(path))
        assert len(catalog) == 3
        with pytest.raises(SourceError, match="such as (masks|LR)/000"):
            require_nothing_left(make_source(path), (catalog, findings))


def test_the_option_for_parts_of_samples_works(tmp_path: Path) -> None:
    root = write(tmp_path, MASKS_OF["other pictures"])
    with pytest.raises(SourceError) as refused:
        require_nothing_left(make_source(str(root)), read(root))
    assert "--pair 'image=HR/*.jpg' --pair 'lr=LR/*.jpg'" in str(refused.value)
    assert "to take all of these in" not in str(refused.value)
    catalog, _ = read(root, pairs={"image": "HR/*.jpg", "lr": "LR/*.jpg"})
    assert len(catalog) == 3
    write(root, {f"depth/{each.name}": None for each in (root / "LR").iterdir()})
    with pytest.raises(SourceError) as refused:
        require_nothing_left(make_source(str(root)), read(root))
    pairs = {"image": "HR/*.jpg", "lr": "LR/*.jpg", "depth": "depth/*.jpg"}
    named = (f"--pair '{name}={pairs[name]}'" for name in ("image", "lr", "depth"))
    assert f"to take all of these in: {' '.join(named)}" in str(refused.value)
    assert [*read(root, pairs=pairs)[0].settled.schema.by_name] == [*pairs]


@pytest.mark.parametrize(
    ("files", "mode", "offered", "said"),
    [
        (("*.jpg", "*_1stHO.png"), "L", "--masks {}", ""),
        (("*.jpg", "*_1stHO.png"), "1", "--masks {}", ""),
        (("*/*.jpg", "*/a/*_lesion.png", "*/b/*_roi.png"), "L", "--masks '{}/*_lesion.png'", ""),
        (
            ("rgb/*.jpg", "depth/*.png"),
            "I;16",
            "--pair 'image=rgb/*.jpg' --pair 'depth=depth/*.png'",
            "has the values 1000, 2000, and class numbers are 0 to 255: give --mask-values 1000=",
        ),
        (
            ("*.jpg", "*_color_RGB.png"),
            "RGB",
            "--pair 'image=*.jpg' --pair 'color_rgb=*_color_RGB.png'",
            "its mask has colors: give --mask-colors FILE",
        ),
    ],
    ids=["numbers", "black and white", "a directory for each", "depth", "colors"],
)
def test_the_option_for_likely_masks_works(
    tmp_path: Path, files: tuple[str, ...], mode: str, offered: str, said: str
) -> None:
    root = write(tmp_path / "set", layout(*files, mode=mode))
    with pytest.raises(SourceError) as refused:
        dsprep.pack(str(root), str(tmp_path / "out"), to="webdataset", workers=1)
    offered = offered.format(root)
    assert f"to take it in: {offered}\n" in str(refused.value) and said in str(refused.value)
    _, option, *values = shlex.split(offered.replace("--", "-- ", 1))
    pairs = dict(value.split("=") for value in values if "=" in value)
    given: Any = {"masks": values[0]} if option == "masks" else {"pairs": pairs}
    report = dsprep.pack(str(root), str(tmp_path / "out"), to="webdataset", workers=1, **given)
    assert report.samples == 3


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {
                f"{name[:-4]}/a/{at}{name[-4:]}": "PIEH" if name == "flow.flo" else None
                for name in ("clean.png", "flow.flo")
                for at in range(3)
            },
            "--pair 'image=clean/**.png' --pair 'flow=flow/**.flo'",
        ),
        (
            {
                f"{scene}/{name}": "Pf" if name == "disp0.pfm" else None
                for scene in ("attic", "shelves")
                for name in ("im0.png", "im1.png", "disp0.pfm")
            },
            "--pair 'image=**/im0.png' --pair 'disp0=**/disp0.pfm'",
        ),
        ({"cat/1.jpg": None, "cat/1.dpt": "PIEH"}, "--pair 'image=**.jpg' --pair 'dpt=**.dpt'"),
        ({"cat/1.jpg": None, "dog/1.jpg": None, "ant/1.jpg": None, "old/x.pfm": "Pf"}, ""),
    ],
)
def test_maps_of_pixels_stop_the_command(tmp_path: Path, files: Content, said: str) -> None:
    root = write(tmp_path, files)
    source, found = make_source(str(root)), read(root)
    if not said:
        require_nothing_left(source, found)
        return
    with pytest.raises(SourceError) as refused:
        require_nothing_left(source, found)
    assert said in str(refused.value)


def test_images_at_another_scale_are_offered_as_pairs(tmp_path: Path) -> None:
    root = write(tmp_path, layout("hr/*.png", "lr/*x2.jpg", kind="PNG"))
    with pytest.raises(SourceError, match="to take it in: --pair 'image=hr.*.png' --pair 'lr=lr"):
        require_nothing_left(make_source(str(root)), read(root))
    catalog, _ = read(root, pairs={"image": "hr/*.png", "lr": "lr/*x2.jpg"})
    assert len(catalog) == 3


def test_directories_of_the_same_names_are_a_note(tmp_path: Path) -> None:
    names = [f"JPCLN{number * 97:03d}" for number in range(9)]
    files: Content = {
        f"{of}/{name}.png": photo("PNG", 1) for of in ("CXR", "lung") for name in names
    }
    said = "such as CXR/JPCLN000.png and lung/JPCLN000.png: if each directory has a part of every "
    said += "sample, give --pair 'image=CXR/*.png' --pair 'lung=lung/*.png'"
    catalog, findings = read(write(tmp_path / "parts", files))
    assert catalog.classes == ("CXR", "lung")
    assert said in notes(findings)
    numbered: Content = {f"{of}/{at}.jpg": None for of in ("cat", "dog") for at in range(9)}
    assert notes(read(write(tmp_path / "counted", numbered))[1]) == ""
    # Images of other proportions show something else.
    classes = files | {f"CXR/{names[4]}.png": image((30, 40))}
    assert notes(read(write(tmp_path / "classes", classes))[1]) == ""


SAMPLES: dict[str, Content] = {
    "sprites of numbers": layout("hats/*.png", "masks/*.png", mode="P", kind="PNG")
    | layout("hats/*.png", mode="P")
    | {f"hats/{number:03d}.png": png("P", number) for number in range(3)},
    "emoji": {f"{of}/{n}.png": png("P", n) for of in ("apple", "google") for n in range(3)},
    "numbered photographs": layout("cat/*.jpg", "dog/*.jpg"),
    "numbered classes": layout("label_0/*.png", kind="PNG") | layout("label_1/*.png", kind="PNG"),
    "photographs as PNG": layout("cat/*.png", kind="PNG") | layout("dog/*.png", kind="PNG"),
    "photographs of masks": layout("images/*.jpg") | layout("masks/x*.jpg"),
    "real and fake": layout("real_images/*.jpg", "fake_images/*.jpg"),
    "with and without masks": layout("mask_images/*.jpg", "nomask_images/*.jpg"),
    "numbered directories": layout("images1/*.jpg", "images2/*.jpg", "images3/*.jpg"),
    "directories of formats": layout("jpg/*.jpg", "png/*.jpg"),
    "numbered sets": layout("dataset1/cat/*.jpg", "dataset2/cat/*.jpg"),
    "with and without a mask": layout("with_mask/*.jpg", "without_mask/*.jpg"),
    "one of many": {f"{number}.jpg": photo("JPEG", number) for number in range(20)}
    | {"3_mask.png": png("L", 3)},
    "sides": layout("train/a/*.jpg", "val/a/*.png") | layout("train/b/*.jpg", "val/b/*.png"),
    "other sizes": layout("photos_of/*.jpg") | layout("drawn/x*.jpg", "drawn/*.png"),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_images_of_one_name_may_be_samples(tmp_path: Path, name: str) -> None:
    root = write(tmp_path, SAMPLES[name])
    found = read(root)
    assert len(found[0]) == len(SAMPLES[name])
    require_nothing_left(make_source(str(root)), found)


def test_likely_masks_of_many_directories(tmp_path: Path) -> None:
    # Beside their images, in more directories than are looked into.
    each = [(f"{kind}/{at}", ord(kind) + at) for kind in "abcdefg" for at in range(2)]
    beside: Content = {f"{path}_mask.PNG": png("P", seed) for path, seed in each}
    catalog, findings = read(
        write(tmp_path / "beside", beside | {f"{path}.jpg": None for path, _ in each})
    )
    assert len(catalog) == len(each)
    assert {each.path for each in findings if each.kind == "left-over"} == set(beside)
    # Of the same names in both sides, where only the images of one have the size of masks.
    for side, size in (("train", (8, 6)), ("val", SIZE)):
        for at in range(3):
            names = f"{side}/images/{at}.jpg", f"{side}/masks/{at}.png"
            for name, color in zip(names, ("RGB", "P"), strict=True):
                path = tmp_path / "sides" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.new(color, size, at).save(path)
    catalog, findings = read(tmp_path / "sides")
    assert len(catalog) == 6
    details = {each.detail for each in findings if each.kind == "left-over"} - {""}
    assert details == {
        f"has the look of a mask of {side}/images/0.jpg" for side in ("train", "val")
    }


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("license_plates.csv", "file,text\n" + "".join(f"{name},x\n" for name in IMAGES)),
        ("ann/000.jpg.json", '{"objects": [{"classTitle": "a"}], "size": {}}'),
        ("license_plates.txt", "".join(f"{name} ABC-1\n" for name in IMAGES)),
        ("license-plates.txt", "".join(f"{name} ABC-1\n" for name in IMAGES)),
        ("README_labels.txt", "".join(f"{name} x\n" for name in IMAGES)),
        ("results/labels.csv", "file,label\n" + "".join(f"{name},x\n" for name in IMAGES)),
        ("[2020] a/tab.csv", "file,label\n" + "".join(f"{name},x\n" for name in IMAGES)),
    ],
)
def test_names_alone_do_not_make_a_file_harmless(tmp_path: Path, path: str, text: str) -> None:
    root = write(tmp_path / "set", IMAGES | {path: text})
    with pytest.raises(SourceError, match="tell more of the images"):
        dsprep.pack(str(root), str(tmp_path / "out"), to="webdataset", workers=1)
    report = dsprep.pack(
        str(root), str(tmp_path / "out"), to="webdataset", workers=1, leave_out=[path]
    )
    assert report.samples == len(IMAGES)


@pytest.mark.parametrize("stem", ["license_plate_{}", "notice.{}"])
def test_annotations_of_an_image_are_read_whatever_its_name(tmp_path: Path, stem: str) -> None:
    for at, (ending, text) in enumerate(
        {"txt": "0 0.5 0.5 0.1 0.1\n", "xml": voc(voc_object("a", (1, 2, 3, 4)))}.items()
    ):
        files: Content = {f"{stem.format(number)}.jpg": None for number in range(3)}
        own: Content = {Path(path).stem + f".{ending}": text for path in files}
        catalog, findings = read(write(tmp_path / str(at), files | own | {"LICENSE-MIT": "MIT"}))
        assert catalog.annotated is not None
        assert kinds(findings) == {"LICENSE-MIT": "harmless"}
    captions: Content = {path.replace("jpg", "txt"): "a caption" for path in files}
    catalog, findings = read(write(tmp_path / "captions", files | captions))
    assert kinds(findings) == dict.fromkeys(captions, "not-read")
    assert "3 of 3 images have a text beside them" in notes(findings)


def test_names_of_texts_stay_harmless(tmp_path: Path) -> None:
    names = "README", "README.txt", "README.dataset.txt", "license.txt", "LICENSE-MIT", "COPYING"
    found = read(write(tmp_path, IMAGES | dict.fromkeys(names, "a text")))
    assert kinds(found[1]) == dict.fromkeys(names, "harmless")


LABELS = json.dumps(dict.fromkeys(IMAGES, "cat"))
LISTED = "".join(f"{at}\t{at % 2}\t{path}\n" for at, path in enumerate(IMAGES))
OWN_LISTED = "".join(f"{at}\t0\t{path}\n" for at, path in enumerate(IMAGES))


@pytest.mark.parametrize(
    ("path", "own", "other"),
    [
        ("metadata.json", '{"title": "Photos"}', LABELS),
        ("000.jpg.json", '{"title": "000.jpg", "geoData": {}}', LABELS),
        ("shards/manifest.json", '{\n "dsprep_manifest": 2,\n "name": "000.jpg"', LABELS),
        ("skipped.jsonl", '{"kind": "hidden", "path": "000.jpg", "detail": ""}\n', LABELS),
        ("images.lst", OWN_LISTED, LISTED),
        ("lists/train.lst", OWN_LISTED, LISTED),
    ],
)
def test_files_of_harmless_names_are_looked_into(
    tmp_path: Path, path: str, own: str, other: str
) -> None:
    assert kinds(read(write(tmp_path / "own", IMAGES | {path: own}))[1]) == {path: "harmless"}
    root = write(tmp_path / "other", IMAGES | {path: other})
    found = read(root)
    assert kinds(found[1]) == {path: "left-over"}
    with pytest.raises(SourceError, match=f"{path}: names "):
        require_nothing_left(make_source(str(root)), found)
    assert kinds(read(root, leave_out=[path])[1]) == {path: "left-out"}


def test_what_an_option_names_is_used(tmp_path: Path) -> None:
    files = IMAGES | {
        "labels.csv": TABLE,
        "names.txt": "a\nb\n",
        "x.lst": LISTED,
        "y.txt": "b\na\n",
    }
    kept = read(
        write(tmp_path / "kept", CLASSES | {"k.txt": "cat\n"}),
        keep_classes=str(tmp_path / "kept/k.txt"),
    )
    assert "k.txt" not in kinds(kept[1])
    root = write(tmp_path / "set", files)
    option = {"labels": str(root / "labels.csv"), "classes": str(root / "y.txt")}
    assert kinds(read(root, **option)[1]) == {"names.txt": "left-over", "x.lst": "left-over"}
    option = {"list_file": str(root / "x.lst"), "classes": str(root / "names.txt")}
    assert kinds(read(root, **option)[1]) == {"labels.csv": "left-over", "y.txt": "left-over"}
    path = shutil.make_archive(str(root), "zip", root)
    left = {"names.txt": "left-over", "x.lst": "left-over", "y.txt": "left-over"}
    assert kinds(read(Path(path), labels="labels.csv")[1]) == left


def test_what_is_not_read_is_a_note(tmp_path: Path) -> None:
    files = IMAGES | {"labels.csv": TABLE, "x.lst": LISTED, "gt/000.txt": ICDAR}
    root = write(tmp_path / "listed", files)
    found = read(root, labels=str(root / "labels.csv"))
    require_nothing_left(make_source(str(root)), found)
    assert kinds(found[1]) == {"gt/000.txt": "left-over", "x.lst": "left-over"}
    assert "gt/000.txt has annotations of ICDAR and is not read" in notes(found[1])
    assert "x.lst names the images in 4 of 4 rows looked at and is not read: --list" in (
        notes(found[1])
    )
    root = write(tmp_path / "bare", IMAGES | {"predictions.csv": TABLE})
    said = "predictions.csv names the images in 4 of 4 rows looked at and is not read: its name is"
    assert said in notes(read(root)[1])
    arrays: Content = {path.replace(".jpg", ".npy"): b"\x93NUMPY" for path in IMAGES}
    found = read(write(tmp_path / "arrays", IMAGES | arrays))
    require_nothing_left(make_source(str(tmp_path / "arrays")), found)
    assert "000.npy has the same name as an image (4 of 4 images looked at have such a file)" in (
        notes(found[1])
    )
    texts: Content = {path.replace(".jpg", "_atr.txt"): "1 2\n" for path in CLASSES}
    found = read(write(tmp_path / "classes", CLASSES | texts))
    require_nothing_left(make_source(str(tmp_path / "classes")), found)
    assert (
        "_atr.txt has the same name as an image (6 of 6 images looked at have such a file) and"
        in (notes(found[1]))
    )


def test_names_alone_tell_nothing(tmp_path: Path) -> None:
    root = write(tmp_path / "set", IMAGES | {"filelist.txt": "\n".join(IMAGES) + "\n"})
    report = dsprep.pack(str(root), str(tmp_path / "out"), to="webdataset", workers=1)
    assert report.samples == len(IMAGES)


def test_a_single_file_beside_many_is_looked_into(tmp_path: Path) -> None:
    many: Content = {f"{kind}/{at}.txt": "a cat\n" for kind in range(HEADS // 2) for at in range(3)}
    images: Content = {path.replace(".txt", ".jpg"): None for path in many}
    boxes = coco(["0/0.jpg"], [box(1, 1)])
    takeout: Content = {f"{path}.json": '{"title": "x"}' for path in images}
    for name, others in (("texts", many), ("takeout", takeout)):
        root = write(tmp_path / name, images | others | {"all_of_them.json": boxes})
        with pytest.raises(SourceError, match="all_of_them.json: names 1 of 150 images"):
            dsprep.pack(str(root), str(tmp_path / "out"), to="webdataset", workers=1)


def test_a_pattern_that_leaves_nothing_out_is_named(tmp_path: Path) -> None:
    path, text = HEADS_OF_KINDS["VoTT"]
    root = write(tmp_path / "set", IMAGES | {path: text})
    said = "--leave-out 'set/*' names no file that is left over, by its path below SOURCE"
    with pytest.raises(SourceError, match=re.escape(said)):
        dsprep.pack(str(root), str(tmp_path / "out"), to="webdataset", leave_out=["set/*"])
    report = dsprep.pack(
        str(root), str(tmp_path / "out"), to="webdataset", workers=1, leave_out=["set/*", path]
    )
    assert said in report.notes


def test_an_option_for_some_of_the_images_says_so(tmp_path: Path) -> None:
    table = "file,label\n" + "".join(f"{name},x\n" for name in sorted(IMAGES)[:3])
    root = write(tmp_path / "set", IMAGES | {"labels.csv": table + "none.jpg,y\n"})
    with pytest.raises(SourceError, match="to take it in, for 3 of 4 images: --labels"):
        dsprep.pack(str(root), str(tmp_path / "out"), to="webdataset", workers=1)


def test_an_option_is_tried_with_few_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, _ = read(write(tmp_path / "set", CLASSES))
    made: list[object] = []
    samples = catalog.reader.read(catalog.rows())

    def read_some(rows: Rows) -> Iterator[object]:
        for _ in rows.ids:
            made.append(next(samples))
            yield made[-1]

    catalog = replace(catalog, reader=mock.Mock(read=read_some))
    assert passed_over._makes_samples(catalog, are_whole=True)
    assert len(made) == len(CLASSES) // 2 + 1  # more than half
    made.clear()
    monkeypatch.setattr(passed_over, "_MOST_BYTES", 1)
    assert passed_over._makes_samples(catalog, are_whole=True)
    assert len(made) == 1


def test_a_table_that_is_given_replaces_the_one_of_its_name(tmp_path: Path) -> None:
    root = write(tmp_path / "set", IMAGES | {"train.csv": TABLE})
    for name, is_said in (("train.csv", False), ("fixed.csv", True)):
        (tmp_path / name).write_text(TABLE)
        labels = tmp_path / name
        report = dsprep.pack(root, tmp_path / "out", to="webdataset", labels=labels, dry_run=True)
        assert any("train.csv names the images" in note for note in report.notes) == is_said


def test_a_table_beside_the_directory_of_images_is_a_note(tmp_path: Path) -> None:
    root = write(tmp_path, {f"data/images/{each}": None for each in IMAGES})
    (root / "data/train.csv").write_text(TABLE)
    (root / "data/notes.csv").write_text("a,b\nx,y\n")
    table = root / "data/train.csv"
    said = f"{table} names the images in 4 of 4 rows looked at and is not read: --labels {table} "
    assert said in notes(read(root / "data/images")[1])
    assert "notes.csv" not in notes(read(root / "data/images")[1])
    for of_classes in ("cat", "dog"):
        write(root, {f"data/images/{of_classes}/1.jpg": None})
    for each in IMAGES:
        (root / "data/images" / each).unlink()
    assert "train.csv" not in notes(read(root / "data/images")[1])
    (root / "data/images").rename(root / "data/mine")
    write(root, {f"data/mine/{each}": None for each in IMAGES})
    for of_classes in ("cat", "dog"):
        shutil.rmtree(root / "data/mine" / of_classes)
    assert "train.csv" not in notes(read(root / "data/mine")[1])


def test_lists_and_masks_beside_the_directory_of_images_are_notes(tmp_path: Path) -> None:
    images = [f"{each}.jpg" for each in "abcd"]
    root = write(tmp_path, {f"set/images/{each}": None for each in images})
    write(root, {f"set/annotations/{each}_mask.png": None for each in "abcd"})
    write(root, {f"set/{other}/{each}": None for each in images for other in ("thumbs", "parts")})
    lists = {"train": "".join(f"{each}\n" for each in images[:3]), "val": "d.jpg\n"}
    write(root, {f"set/meta/{side}.txt": text for side, text in lists.items()})
    above = root / "set"
    said = notes(read(above / "images")[1])
    way = f"names the images of a side and is not read: to take such lists, give {above} as SOURCE"
    assert f"{above}/meta/train.txt {way}" in said
    masks = f"{above}/annotations has images of the same names and is not read: --masks {above}/ann"
    assert masks in said
    assert "thumbs" not in said and "parts" not in said
    # of a side
    numbers = {f"set/{side}.txt": text.replace("\n", " 0\n") for side, text in lists.items()}
    write(root, {"set/images/val/d.jpg": None, "set/annotations/val/d.png": None} | numbers)
    write(root, {f"set/images/train/{each}": None for each in images[:3]})
    said = notes(read(above / "images/val")[1])
    assert f"{above}/annotations/val has images of the same names" in said
    write(root, {"set/images/val.txt": numbers["set/val.txt"]})
    said = notes(read(above / "images/val")[1])
    assert f"{above}/images/val.txt names the images of a side and is not read" in said


def test_a_directory_above_that_cannot_be_listed_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write(tmp_path, {f"set/images/{name}": None for name in CLASSES})
    monkeypatch.setattr(beside, "DirectoryAbove", mock.Mock(side_effect=PermissionError))
    assert len(read(root / "set/images")[0]) == len(CLASSES)


def test_a_table_of_classes_is_a_note(tmp_path: Path) -> None:
    files = CLASSES | {"classes.csv": "dog,0\ncat,1\n", "notes/classes.csv": "dog,brown\n"}
    root = write(tmp_path / "set", files)
    found, findings = read(root)
    table = root / "classes.csv"
    said = f"classes.csv has numbers of classes and is not read: --classes {table} takes them"
    assert [said] == [each for each in notes_of(findings) if "classes.csv" in each]
    assert found.classes == ("cat", "dog")
    found, findings = read(root, classes=str(table))
    assert found.classes == ("dog", "cat")
    assert "numbers of classes" not in notes(findings)


def test_inspect_shows_the_images_of_what_cannot_be_packed(tmp_path: Path) -> None:
    boxes = "image,bbox\n" + "".join(f'{each},"[30, 5, 30, 40]"\n' for each in IMAGES)
    both = {
        f"annotations/{name}_val.json": coco([*IMAGES], [box(id, 1)])
        for id, name in enumerate(("instances", "person_keypoints"))
    }
    root = write(tmp_path / "set", IMAGES | both)
    report = dsprep.inspect(str(root), workers=1)
    assert report.samples == len(IMAGES)
    (note,) = (note for note in report.notes if note.startswith("pack stops: "))
    assert "has files of instances and of person_keypoints for the same images" in note
    with pytest.raises(SourceError):
        dsprep.inspect(str(root), output=tmp_path / "set.toml", workers=1)
    (root / "boxes.csv").write_text(boxes)
    with pytest.raises(SourceError):
        dsprep.inspect(str(root), annotations=[root / "boxes.csv"], workers=1)


def test_inspect_and_verify_say_what_is_left_over_and_never_stop(tmp_path: Path) -> None:
    root = write(tmp_path / "set", IMAGES | {"gt/000.txt": ICDAR, "labels.csv": TABLE})
    report = dsprep.inspect(str(root), workers=1)
    assert report.notes[:2] == [
        "pack stops: gt/000.txt: has annotations of ICDAR; dsprep does not read these yet: "
        "convert them to COCO, Pascal VOC or YOLO, for example with datumaro; to go on without: "
        "--leave-out gt/000.txt",
        "pack stops: labels.csv: names the images in 4 of 4 rows looked at; to take it in: "
        f"--labels {root}/labels.csv; to go on without: --leave-out labels.csv",
    ]
    assert count_skipped(report.skipped) == {"left-over": {".csv": 1, ".txt": 1}}
    out = tmp_path / "out"
    dsprep.pack(str(root), str(out), to="webdataset", workers=1, leave_out=["gt", "*.csv"])
    (root / "more.json").write_text(LABELS)
    said = dsprep.verify(str(out), against=str(root))
    assert not said.problems
    assert said.notes == [
        "the shards do not hold all of the source: 1 .json, such as more.json, which names 4 of 4 "
        "images",
        "the manifest records 2 files of the source as left out: --leave-out gt "
        "--leave-out '*.csv'",
    ]
    manifest = json.loads((out / "manifest.json").read_text())
    del manifest["options"]["leave_out"], manifest["layout"]
    (out / "manifest.json").write_text(json.dumps(manifest))
    said = dsprep.verify(str(out), against=str(root))
    assert said.notes == [
        "the shards do not hold all of the source: 1 .csv, 1 .json, 1 .txt, such as "
        "gt/000.txt, which has annotations of ICDAR"
    ]


def test_tables_of_pixels_beside_pictures_stop_the_command(tmp_path: Path) -> None:
    pixels = f"label,{','.join(f'pixel{at}' for at in range(1, 785))}\n"
    tables = {"test.csv": pixels, "train.csv": pixels}
    root = write(tmp_path, {"signs.png": None, **tables})
    with pytest.raises(SourceError) as caught:
        require_nothing_left(make_source(root), read(root))
    assert "2 .csv files in SOURCE, such as train.csv: have columns of pixels" in str(caught.value)
    assert f"SOURCE {root}/train.csv and --pixel-columns 'pixel*'" in str(caught.value)
    (root / "signs.png").unlink()
    (root / "sample_submission.csv").write_text("ImageId,Label\n")
    given = re.escape(f"dsprep pack {root}/train.csv --pixel-columns 'pixel*'")
    with pytest.raises(SourceError, match=f"{given}$"):
        read(root)


def test_of_several_columns_of_labels_one_is_offered(tmp_path: Path) -> None:
    head = "image_name,label,diagnosis,benign_malignant,target\n"
    rows = "".join(f"{name},,unknown,benign,{at % 2}\n" for at, name in enumerate("abcd"))
    images = {f"train/{name}.jpg": None for name in "abcd"}
    tables = {"test.csv": "image_name,sex\na,male\n", "train.csv": head + rows}
    root = write(tmp_path, images | tables)
    with pytest.raises(SourceError) as caught:
        require_nothing_left(make_source(root), read(root))
    offered = f"to take it in: --labels {root}/train.csv --label-column target"
    assert offered in str(caught.value)


def test_classes_in_the_names_of_one_side_are_offered(tmp_path: Path) -> None:
    names = [f"train/{name}.{at}.jpg" for name in ("cat", "dog") for at in range(3)]
    root = write(tmp_path / "a set", dict.fromkeys([*names, "test1/1.jpg", "test1/2.jpg"]))
    said = "takes 2 classes from file names: cat, dog; for train/ alone: dsprep pack "
    assert f"{said}{shlex.quote(f'{root}/train')}" in notes(read(root)[1])


def test_lists_of_matlab_are_told_with_what_works(tmp_path: Path) -> None:
    """As `train_list.mat` and `test_list.mat` of Stanford Dogs."""
    names = b"\xff".join(name.encode() for name in CLASSES)
    files = {"train_list.mat": b"MATLAB 5.0 MAT-file".ljust(128) + names}
    said = notes(read(write(tmp_path, CLASSES | files))[1])
    assert "not read: move these images into a directory train/ to have them as a side" in said


def test_what_lies_above_is_listed_in_the_order_of_names(tmp_path: Path) -> None:
    names = [f"{at:04}.txt" for at in range(LOOKED_AT + 3)]
    for name in reversed(names):
        (tmp_path / name).touch()
    above = DirectoryAbove(str(tmp_path), "Images")
    assert (above.name, [*above.entries]) == ("images", names[:LOOKED_AT])
