"""Files of other makers that are read as a source, and the text files beside shards."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from dsprep.catalog import Catalog
from dsprep.errors import DsprepError
from dsprep.formats.recordio import RecordIO
from dsprep.formats.tfrecord import TFRecord
from dsprep.formats.webdataset import WebDataset
from dsprep.indexes import mxnet, wids
from dsprep.lists.lenient import read_leniently
from dsprep.lists.rows import parse_rows
from dsprep.manifests.manifest import FileReceipt, Manifest, ShardReceipt, read_manifest
from dsprep.manifests.recorded import recorded_options
from dsprep.sources.augmented import read_augmented
from dsprep.sources.parquet import read_parquet
from dsprep.sources.pickles import read_pickle
from dsprep.sources.pixels import read_pixels
from dsprep.text import decode_text
from scripts.fuzz.samples import JPEG
from scripts.fuzz.target import Different, Target, require_equal


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
        found = read_pixels(str(path), None)
        if found is not None:
            _check_catalog(found[0], directory)

    return check


def _check_pickle(data: bytes, directory: Path) -> None:
    with suppress(DsprepError):
        read_pickle(data, "batch")
    _pixels("data_batch_1")(data, directory)


def _check_augmented(data: bytes, directory: Path) -> None:
    image = directory / "images/a/1.jpg"
    image.parent.mkdir(parents=True, exist_ok=True)
    image.write_bytes(b"x")
    text = decode_text(data, "a.manifest")
    root = str(directory / "images")
    read_augmented("a.manifest", root, extensions=frozenset({"jpg"}), text=text)


def _check_manifest(data: bytes, directory: Path) -> None:
    path = directory / "manifest.json"
    path.write_bytes(data)
    manifest = read_manifest(path)
    for file in manifest.every_file():
        if Path(file.name).name != file.name:
            raise Different(f"a file that lies elsewhere: {file.name!r}")
    recorded_options(manifest)


def _check_list(data: bytes, directory: Path) -> None:
    mxnet.difference(data, [0, 1], [0, 88], by_key=True)
    wids.difference(data, [])
    read_leniently(data)
    parse_rows(decode_text(data, "a.lst"), "a.lst")


def _parquets() -> list[bytes]:
    """Parquet as Hugging Face has it, and with columns of other types."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = [
        pa.table({"image": [{"bytes": JPEG, "path": "a.jpg"}, None], "label": [0, 1]}),
        pa.table({"__key__": ["a", "b"], "jpg": [JPEG, b""], "label": [[0.5], [1.0, 2.0]]}),
        pa.table({"text": ["a", None], "n": [[1], []], "b": [[b"x"], None], "d": [0.5, 1.5]}),
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


def _manifests() -> list[bytes]:
    """A manifest of each format."""
    found = []
    for layout in (WebDataset(), TFRecord(), RecordIO()):
        options = {
            "format": {"name": layout.name, **asdict(layout)},
            "transform": None,
            "max_pixels": 100,
            "key": "path",
        }
        receipt = ShardReceipt("a-0.tar", 1, 2, 3, (FileReceipt("a-0.idx", 4, 5),))
        made = Manifest(layout.name, "a", ("cat",), 3, 0, 1, "", options, [receipt])
        found.append(made.to_json().encode())
    return found


def _lists() -> list[bytes]:
    """Lists and indexes of MXNet, and wids' index."""
    return [
        b"0\t1\ta/1.jpg\n1\t0\tb/2.jpg\n",
        b"0\t0.5\t-1e3\ta/1.jpg\n",
        b"0\t2\t5\t1\t0\t0.25\t0.5\t0.75\ta/1.jpg\n",
        "\ufeff0\t1\té.jpg\r\n\n1\t 2\tx y.jpg\r\n".encode(),
        b"0\t0\n1\t88\n",
        b'{"__kind__":"wids-shard-index-v1","shardlist":[{"url":"a.tar","nsamples":1}]}',
    ]


FILES = {
    "parquet": Target(_check_parquet, _parquets),
    "pickle": Target(_check_pickle, _pickles),
    "idx": Target(_pixels("train-images-idx3-ubyte"), _idx),
    "augmented": Target(_check_augmented, _augmented),
    "manifest": Target(_check_manifest, _manifests),
    "lists": Target(_check_list, _lists),
}
