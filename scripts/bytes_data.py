"""Sources of `scripts.bytes` that are more than images: annotations, tables and arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from tests import images
from tests.sources.boxes import SIZE, box, coco, voc, voc_object
from tests.sources.boxes import image as photo

NAMES = ("a.jpg", "b.jpg", "c.jpg", "deep/d.jpg", "deep/e.jpg", "deep/f.jpg")
CLASSES = ("cat", "dog")
SIDES = (10, 5, 30, 15)  # of each box, in pixels


def annotated_sources() -> dict[str, bytes]:
    """Return the files of the same six images with boxes, in each form that dsprep reads."""
    forms: dict[str, Mapping[str, str | bytes]] = {
        "coco": coco_files(),
        "yolo": yolo_files(),
        "wrong": yolo_files() | {"labels/c.txt": "1 0.5 0.5 nonsense 0.5\n"},
        "voc": voc_files(),
        "drawn": drawn_files(),
        "masks": mask_files(),
    }
    found = {}
    for form, files in forms.items():
        for name, content in files.items():
            found[f"{form}/{name}"] = content.encode() if isinstance(content, str) else content
    return found


def pictures(directory: str) -> dict[str, bytes]:
    """Return the images, below a directory."""
    return {f"{directory}/{name}": photo(seed=at) for at, name in enumerate(NAMES)}


def coco_files() -> dict[str, str | bytes]:
    """Return COCO's layout; the last image has no box, one is a crowd, one a polygon."""
    drawn = [box(at, at, (3, 7)[at % 2]) for at in range(1, 6)]
    drawn[1] |= {"iscrowd": 1, "segmentation": {"size": [20, 40], "counts": [10, 90, 700]}}
    drawn[2] |= {"segmentation": [[10, 5, 30, 5, 30, 15, 10, 15]]}
    return {**pictures("images"), "annotations/instances.json": coco(NAMES, drawn)}


def yolo_files() -> dict[str, str | bytes]:
    """Return the layout of YOLO."""
    rows = {name: f"{at % 2} 0.5 0.5 0.5 0.5\n" for at, name in enumerate(NAMES)}
    labels = {f"labels/{Path(name).with_suffix('.txt')}": row for name, row in rows.items()}
    return {**pictures("images"), **labels, "data.yaml": "train: images\nnames: [cat, dog]\n"}


def voc_files() -> dict[str, str | bytes]:
    """Return the layout of Pascal VOC."""
    files: dict[str, str | bytes] = {}
    for at, name in enumerate(NAMES):
        stem = Path(name).stem
        drawn = voc_object(CLASSES[at % 2], SIDES, "<difficult>1</difficult>" * (at == 0))
        files[f"JPEGImages/{stem}.jpg"] = photo(seed=at)
        files[f"Annotations/{stem}.xml"] = voc(drawn)
    return files


def drawn_files() -> dict[str, str | bytes]:
    """Return images beside files of boxes: a table, Label Studio, Ground Truth and MXNet's list."""
    rows = [f"{name},{CLASSES[at % 2]},10,5,30,15\n" for at, name in enumerate(NAMES)]
    listed = [
        f"{at}\t2\t5\t{at % 2}\t0.25\t0.25\t0.75\t0.75\t{name}\n" for at, name in enumerate(NAMES)
    ]
    return {
        **pictures("images"),
        "boxes.csv": "".join(["image,class,xmin,ymin,xmax,ymax\n", *rows]),
        "studio.json": json.dumps([label_studio(at, name) for at, name in enumerate(NAMES)]),
        "output.manifest": "".join(ground_truth(at, name) for at, name in enumerate(NAMES)),
        "boxes.lst": "".join(listed),
    }


def label_studio(number: int, name: str) -> dict[str, object]:
    """Return a task of Label Studio's export; sizes are percent."""
    value = {"x": 25, "y": 25, "width": 50, "height": 50, "rectanglelabels": [CLASSES[number % 2]]}
    drawn = {
        "original_width": SIZE[0],
        "original_height": SIZE[1],
        "type": "rectanglelabels",
        "value": value,
    }
    return {"id": number, "annotations": [{"result": [drawn]}], "data": {"image": name}}


def ground_truth(number: int, name: str) -> str:
    """Return a line of Ground Truth's output manifest."""
    drawn = {"left": 10, "top": 5, "width": 20, "height": 10, "class_id": number % 2}
    size = {"width": SIZE[0], "height": SIZE[1], "depth": 3}
    metadata = {"class-map": {"0": "cat", "1": "dog"}, "type": "groundtruth/object-detection"}
    job = {"image_size": [size], "annotations": [drawn]}
    return json.dumps({"source-ref": name, "job": job, "job-metadata": metadata}) + "\n"


def mask_files() -> dict[str, str | bytes]:
    """Return images, and masks of the same names. One mask has another size than its image."""
    masks = {
        f"masks/{Path(name).with_suffix('.png')}": images.png(at, SIZE, mode="L")
        for at, name in enumerate(NAMES)
    }
    masks["masks/c.png"] = images.png(2, (8, 8), mode="L")
    return {**pictures("images"), **masks}


def table_sources() -> dict[str, bytes]:
    """Return tables without images: CSV, NumPy's arrays, and pixels in cells."""
    numbers = np.arange(60, dtype="float32").reshape(20, 3)
    labels = np.arange(20) % 4
    lines = [
        f"{label},{a:g},{b:g},word {label}"
        for label, (a, b, _) in zip(labels, numbers, strict=True)
    ]
    digits = [
        ",".join(map(str, [at % 10, *((at * 7 + i) % 256 for i in range(64))])) for at in range(12)
    ]
    return {
        "tables/rows.csv": "\n".join(["target,width,height,text", *lines, ""]).encode(),
        "tables/plain.csv": "".join(f"{line.rpartition(',')[0]}\n" for line in lines).encode(),
        "tables/digits.csv": "\n".join(
            [",".join(["label", *(f"pixel{i}" for i in range(64))]), *digits, ""]
        ).encode(),
        "tables/x.npy": array(numbers),
        "tables/y.npy": array(labels),
        "tables/both.npz": arrays(x=numbers, y=labels),
        "tables/ratings.dat": b"".join(
            b"%d::%d::%d::97830\n" % (i % 5, i, i % 6) for i in range(30)
        ),
        "tables/copies.csv": b"path,keep\ncat/000.jpg,true\ncat/001.jpg,false\ndog/000.jpg,true\n",
    }


def array(values: np.ndarray[Any, Any]) -> bytes:
    """Return an array as `numpy.save` writes it."""
    out = BytesIO()
    np.save(out, values)
    return out.getvalue()


def arrays(**values: np.ndarray[Any, Any]) -> bytes:
    """Return arrays as `numpy.savez_compressed` writes them."""
    out = BytesIO()
    np.savez_compressed(out, **values)
    return out.getvalue()
