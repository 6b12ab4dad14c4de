"""Sets of detection, in the forms in which tools write them, and what a worker reads of them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from dsprep.annotations.objects import SHARES, Objects
from dsprep.catalog import Catalog
from dsprep.findings import Finding
from dsprep.sample import Sample
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source

SIZE = (40, 20)
KITTI = "Car 0.00 0 -1.57 10 5 30 15 1.5 1.6 3.7 1.8 1.7 46.7 -1.56\n"
ROW = "0 0.5 0.5 0.5 0.5\n"  # of YOLO: the box 10 5 30 15


def image(size: tuple[int, int] = SIZE, orientation: int = 1, seed: int = 0) -> bytes:
    """Make a JPEG, of this size as it is stored."""
    out, exif = BytesIO(), Image.Exif()
    exif[0x0112] = orientation
    color = (seed * 37 % 256, seed * 91 % 256, 90)
    Image.new("RGB", size, color).save(out, "JPEG", exif=exif if orientation != 1 else b"")
    return out.getvalue()


def write(root: Path, files: Mapping[str, str | bytes | None]) -> Path:
    """Write files; None is an image."""
    for number, (name, content) in enumerate(files.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = image(seed=number) if content is None else content
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    return root


def read(root: Path, **options: Any) -> tuple[Catalog, list[Finding]]:
    return read_source(make_source(str(root), **options))


def objects(catalog: Catalog) -> dict[str, Objects]:
    """What a worker reads, by path."""
    reader = pickle.loads(pickle.dumps(catalog.reader))
    found = {}
    for sample in reader.read(catalog.rows()):
        assert isinstance(sample, Sample), sample
        value = sample.fields["objects"]
        assert isinstance(value, Objects)
        found[sample.path] = value
    return found


def boxes(catalog: Catalog) -> dict[str, list[tuple[Any, ...]]]:
    """The class names and boxes of all samples, in pixels of 40 x 20."""
    names = catalog.settled.schema.by_name["objects"].names
    return {
        path: [
            (names[each.number], *_pixels(each.box, value.extent == SHARES)) for each in value.items
        ]
        for path, value in objects(catalog).items()
    }


def told(catalog: Catalog) -> dict[str, dict[str, Any]]:
    """What samples have besides their image, by path: boxes, labels by name, further fields."""
    rows, classes, schema = catalog.rows(), catalog.classes, catalog.settled.schema
    found = boxes(catalog) if schema.objects else {}
    all_told: dict[str, dict[str, Any]] = {}
    for at, sample in enumerate(pickle.loads(pickle.dumps(catalog.reader)).read(rows)):
        fields = {} if isinstance(sample, bytes) else {**sample.fields}
        values = {name: fields[name] for name in fields if name not in ("image", "objects")}
        if rows.paths[at] in found:
            values["objects"] = found[rows.paths[at]]
        if rows.labels is not None:
            values["label"] = rows.labels[at]
        label = values.get("label")
        if isinstance(label, int) and classes:
            values["label"] = classes[label]
        if isinstance(label, tuple) and classes:
            values["label"] = tuple(classes[at] for at, flag in enumerate(label) if flag)
        all_told[rows.paths[at]] = values
    return all_told


def _pixels(box: Sequence[float], are_shares: bool) -> tuple[float, ...]:
    sizes = SIZE * 2 if are_shares else (1, 1, 1, 1)
    return tuple(round(value * size, 6) for value, size in zip(box, sizes, strict=True))


def sides(catalog: Catalog) -> dict[str, str]:
    """The side of each sample."""
    numbers = zip(catalog.table["path"], catalog.table["side"], strict=True)
    return {path: catalog.sides[number] for path, number in numbers}


def notes(findings: Sequence[Finding]) -> str:
    return "\n".join(found.detail for found in findings if found.kind == "note")


def kinds(findings: Sequence[Finding]) -> dict[str, str]:
    return {found.path: found.kind for found in findings if found.kind not in ("note", "source")}


def coco(names: Sequence[str], annotations: Sequence[Mapping[str, Any]] = (), **values: Any) -> str:
    """A JSON of COCO: images from 1, the categories cat and dog with the ids 3 and 7."""
    images = [
        {"id": at, "file_name": name, "width": SIZE[0], "height": SIZE[1]}
        for at, name in enumerate(names, 1)
    ]
    categories = [{"id": 7, "name": "dog"}, {"id": 3, "name": "cat"}]
    parts = {"images": images, "annotations": list(annotations), "categories": categories}
    return json.dumps(parts | values)


def box(id: int, image: int, category: int = 3, **values: Any) -> dict[str, Any]:
    """An annotation of COCO: the box 10 5 30 15."""
    found = {"id": id, "image_id": image, "category_id": category, "bbox": [10, 5, 20, 10]}
    return found | {"area": 200, "iscrowd": 0, "segmentation": []} | values


def voc(objects: str = "", size: tuple[int, int] = SIZE) -> str:
    """An XML file of VOC."""
    return (
        f"<annotation><filename>other.jpg</filename><size><width>{size[0]}</width><height>{size[1]}"
        f"</height><depth>3</depth></size>{objects}</annotation>"
    )


def voc_object(name: str, sides: Sequence[object], more: str = "") -> str:
    tags = zip(("xmin", "ymin", "xmax", "ymax"), sides, strict=True)
    inside = "".join(f"<{tag}>{value}</{tag}>" for tag, value in tags)
    return f"<object><name>{name}</name><bndbox>{inside}</bndbox>{more}</object>"


def labelme(*shapes: Mapping[str, Any], **values: Any) -> str:
    """A JSON file of labelme."""
    head = {"version": "5.5.0", "flags": {}, "shapes": [*shapes], "imagePath": "none.jpg"}
    size = {"imageData": None, "imageHeight": SIZE[1], "imageWidth": SIZE[0]}
    return json.dumps(head | size | values)
