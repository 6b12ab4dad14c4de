"""Files of other makers: Parquet, CIFAR's pickles, idx, augmented manifests."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dsprep.catalog import Catalog
from dsprep.errors import DsprepError
from dsprep.sources.annotated.augmented import read_augmented
from dsprep.sources.pictures.pixel_reader import read_pickle
from dsprep.sources.pictures.pixels import read_pixels
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from dsprep.sources.tables.parquet import read_parquet
from scripts.fuzz.samples import JPEG
from scripts.fuzz.target import Target, require_equal


def _check_catalog(catalog: Catalog, directory: Path) -> None:
    """Read all samples, directly and from spool files."""
    rows = catalog.rows()
    forth = list(map(repr, catalog.reader.read(rows)))
    for number in range(len(catalog.reader.spools())):
        catalog.reader.write_spool(number, str(directory / str(number)))
    spooled = catalog.reader.spooled(str(directory))
    require_equal(forth, list(map(repr, spooled.read(rows))), "spooled")


def _check_parquet(data: bytes, directory: Path) -> None:
    path = directory / "a.parquet"
    path.write_bytes(data)
    _check_catalog(read_parquet([str(path)], None)[0], directory)


def _pixels(name: str) -> Callable[[bytes, Path], None]:
    def check(data: bytes, directory: Path) -> None:
        path = directory / name
        path.write_bytes(data)
        found = read_pixels([str(path)], None)
        if found is not None:
            _check_catalog(found, directory)

    return check


def _check_pickle(data: bytes, directory: Path) -> None:
    with suppress(DsprepError):
        read_pickle(data, "batch")
    _pixels("data_batch_1")(data, directory)


def _check_augmented(data: bytes, directory: Path) -> None:
    image = directory / "images/a/1.jpg"
    image.parent.mkdir(parents=True, exist_ok=True)
    image.write_bytes(b"x")
    manifest = directory / "a.manifest"
    manifest.write_bytes(data)
    read_augmented(make_source(directory / "images", list_file=manifest))


def _annotations(name: str) -> Callable[[bytes, Path], None]:
    def check(data: bytes, directory: Path) -> None:
        for image in ("a.jpg", "b.jpg"):
            (directory / "images").mkdir(exist_ok=True)
            (directory / "images" / image).write_bytes(JPEG)
        path = directory / name
        path.write_bytes(data)
        catalog, findings = read_source(make_source(directory / "images", annotations=[str(path)]))
        list(catalog.reader.read(catalog.rows()))
        for text in (*map(str, findings), json.dumps(catalog.settled.schema.to_json())):
            text.encode()

    return check


def _parquets() -> list[bytes]:
    """Parquet as Hugging Face has it, and with columns of other types."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = [
        pa.table({"image": [{"bytes": JPEG, "path": "a.jpg"}, None], "label": [0, 1]}),
        pa.table({"jpg": [JPEG, b""], "label": [[0.5], [1.0, 2.0]], "box": [{"x": 1}, None]}),
        pa.table({"text": ["a", None], "n": [[1], []], "b": [[b"x"], None], "d": [0.5, 1.5]}),
        pa.table({"t": pa.array([1, None], pa.timestamp("ns", "UTC")), "label": ["a", "b"]}),
    ]
    found = []
    for table in tables:
        for compression, rows in (("none", 1), ("snappy", 10)):
            data = io.BytesIO()
            pq.write_table(table, data, compression=compression, row_group_size=rows)
            found.append(data.getvalue())
    return found


def _pickles() -> list[bytes]:
    """A batch of CIFAR and its names, as every protocol has them."""
    import numpy as np

    batch = {
        b"data": np.zeros((1, 3072), np.uint8),
        b"labels": [1],
        b"filenames": [b"a.png"],
        b"batch_label": "training batch 1 of 5",
    }
    names = {"label_names": ["cat", "dog"], "n": (1, None, True)}
    return [pickle.dumps(each, protocol) for each in (batch, names) for protocol in range(6)]


def _idx() -> list[bytes]:
    images = struct.pack(">4I", 0x803, 2, 1, 1) + b"\1\2"
    return [images, gzip.compress(images), struct.pack(">4I", 0x803, 0, 28, 28)]


def _augmented() -> list[bytes]:
    """Augmented manifests with each kind of label."""
    box = {"class_id": 0, "left": 1, "top": 2, "width": 3, "height": 4}
    boxes = {"image_size": [{"width": 10, "height": 20, "depth": 3}], "annotations": [box]}
    lines = [
        {"source-ref": "s3://b/a/1.jpg", "c": 0, "c-metadata": {"class-name": "cat"}},
        {"source-ref": "a/1.jpg", "c": [0, 2], "c-metadata": {"class-map": {"0": "cat"}}},
        {"source-ref": "file:///x/a/1.jpg", "c": boxes},
        {"source-ref": "a/1.jpg", "c": "1.5"},
    ]
    return [(json.dumps(line) + "\n").encode() * 2 for line in lines]


def _label_studio() -> list[bytes]:
    size = {"original_width": 10, "original_height": 20, "image_rotation": 0}
    sides = {"x": 1, "y": 2, "width": 3, "height": 4, "rotation": 0, "rectanglelabels": ["a"]}
    corners = {"points": [[1, 2], [3, 4], [5, 60]], "polygonlabels": ["b"]}
    kinds: dict[str, object] = {"rectanglelabels": sides, "polygonlabels": corners, "choices": {}}
    results = [{**size, "type": kind, "value": value, "id": kind} for kind, value in kinds.items()]
    annotation = {"result": results, "was_cancelled": False, "ground_truth": True}
    tasks = [{"id": at, "data": {"image": f"/x/?d={name}.jpg"}, "annotations": [annotation]}
             for at, name in enumerate("ab")]  # fmt: skip
    return [json.dumps(tasks).encode()]


def _coco() -> list[bytes]:
    images = [{"id": at, "file_name": f"{name}.jpg"} for at, name in enumerate("ab")]
    one = {"id": 1, "image_id": 0, "category_id": 3, "bbox": [1, 2, 3, 4], "iscrowd": 0}
    shapes: list[object] = [[[1, 2, 3, 4, 5, 6]], {"size": [2, 3], "counts": [0, 6]}]
    annotations = [one | {"segmentation": shape} for shape in shapes]
    categories = [{"id": 3, "name": "a"}]
    values = {"images": images, "annotations": annotations, "categories": categories}
    return [json.dumps(values).encode()]


def _boxes() -> list[bytes]:
    return [
        b'image_id,width,height,bbox,class\na,10,20,"[1,2,3,4]",x\nb,10,20,"[5,6,7,8]",y\n',
        b"image,xmin,ymin,xmax,ymax,class_name,class_id\na.jpg,1,2,3,4,x,1\nb.jpg,,,,,,\n",
        b"ImageId,EncodedPixels,ClassId\na.jpg,1 5 11 3,1\nb.jpg,,2\n",
    ]


FILES = {
    "parquet": Target(_check_parquet, _parquets),
    "pickle": Target(_check_pickle, _pickles),
    "idx": Target(_pixels("train-images-idx3-ubyte"), _idx),
    "augmented": Target(_check_augmented, _augmented),
    "coco": Target(_annotations("a.json"), _coco),
    "label-studio": Target(_annotations("a.json"), _label_studio),
    "boxes": Target(_annotations("a.csv"), _boxes),
}
