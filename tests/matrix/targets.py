"""What each target holds, told by those who read it: the judges of the matrix."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from tests.formats import mds_peer
from tests.formats.record_messages import record_messages
from tests.missing import Frameworks


class Arrived(NamedTuple):
    """A sample as a reader of the target has it."""

    key: str
    cls: int
    data: bytes


Read = Callable[[Path, Frameworks], list[Arrived]]


def stem(path: str) -> str:
    return path.rpartition(".")[0]


def files_of(dest: Path, suffix: str) -> list[str]:
    found = sorted(str(path) for path in dest.glob(f"*{suffix}"))
    assert found
    return found


def webdataset(dest: Path, peers: Frameworks) -> list[Arrived]:
    found = []
    shards = peers.webdataset.WebDataset(files_of(dest, ".tar"), shardshuffle=False)
    for sample in shards:
        (kind,) = sample.keys() & {"jpg", "png"}
        found.append(Arrived(sample["__key__"], int(sample["cls"]), sample[kind]))
    return found


def tfrecord(dest: Path, peers: Frameworks) -> list[Arrived]:
    tf = peers.tensorflow
    types = {"image/encoded": tf.string, "image/filename": tf.string, "image/class/label": tf.int64}
    expected = {name: tf.io.FixedLenFeature([], kind) for name, kind in types.items()}
    found = []
    for record in tf.data.TFRecordDataset(files_of(dest, ".tfrecord")).as_numpy_iterator():
        encoded, name, cls = (
            value.numpy()
            for value in map(tf.io.parse_single_example(record, expected).get, expected)
        )
        found.append(Arrived(stem(name.decode()), int(cls), encoded))
    return found


def recordio(dest: Path, peers: Frameworks) -> list[Arrived]:
    found = []
    for path in files_of(dest, ".rec"):
        shard = Path(path)
        names = {}
        for line in shard.with_suffix(".lst").read_text().splitlines():
            number, label, name = line.split("\t")
            names[int(number)] = (float(label), stem(name) or name)
        records = peers.mxnet.recordio.MXIndexedRecordIO(str(shard.with_suffix(".idx")), path, "r")
        assert sorted(records.keys) == sorted(names)
        for key in records.keys:
            header, data = peers.mxnet.recordio.unpack(records.read_idx(key))
            assert (header.id, header.label) == (key, names[key][0])
            found.append(Arrived(names[key][1], int(header.label), data))
        records.close()
    return found


def recordio_protobuf(dest: Path, peers: Frameworks) -> list[Arrived]:
    """MXNet takes the frames apart, and protobuf's own parser the messages."""
    message = record_messages()["Record"]
    found = []
    for path in files_of(dest, ".pb"):
        records = peers.mxnet.recordio.MXRecordIO(path, "r")
        while (data := records.read()) is not None:
            record = message.FromString(data)
            (cls,) = record.label["values"].float32_tensor.values
            (image,) = record.features["image"].bytes.value
            found.append(Arrived(record.uid, int(cls), image))
        records.close()
    return found


def folder(dest: Path, peers: Frameworks) -> list[Arrived]:
    """The files, and the list beside them; there is nothing else in the folder but metadata."""
    listed = [line.split("\t") for line in Path(f"{dest}.lst").read_text().splitlines()]
    found = [
        Arrived(stem(path), int(float(label)), (dest / path).read_bytes())
        for _, label, path in listed
    ]
    there = {path.relative_to(dest).as_posix() for path in dest.rglob("*.*") if path.is_file()}
    there = {path for path in there if path.rpartition("/")[2] != "metadata.jsonl"}
    assert there == {path for _, _, path in listed}
    return found


def manifest(dest: Path, peers: Frameworks) -> list[Arrived]:
    found = []
    for line in Path(f"{dest}.manifest").read_text().splitlines():
        values = json.loads(line)
        ref = values["source-ref"]
        (attribute,) = [name for name in values if f"{name}-metadata" in values]
        found.append(Arrived(stem(ref), int(values[attribute]), (dest / ref).read_bytes()))
    return found


def parquet(dest: Path, peers: Frameworks) -> list[Arrived]:
    found = []
    for path in files_of(dest, ".parquet"):
        for row in pq.read_table(path).to_pylist():
            image = row["image"]
            key = row.get("__key__") or stem(image["path"])
            found.append(Arrived(key, row["label"], image["bytes"]))
    return found


def mds(dest: Path, peers: Frameworks) -> list[Arrived]:
    sides = sorted(path.parent for path in dest.glob("*/index.json")) or [dest]
    found = [sample for side in sides for sample in mds_peer.read(side)]
    return [Arrived(each["__key__"], each["label"], each["image"]) for each in found]


TARGETS: dict[str, Read] = {
    "webdataset": webdataset,
    "tfrecord": tfrecord,
    "recordio": recordio,
    "recordio-protobuf": recordio_protobuf,
    "folder": folder,
    "augmented-manifest": manifest,
    "parquet": parquet,
    "mds": mds,
}
"""What reads each target."""
