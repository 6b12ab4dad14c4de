"""The same few samples as everything that `convert` takes: the sources of the matrix.

What peers write is written by peers: shards by webdataset, TensorFlow and MXNet, tables by pyarrow,
archives by tarfile and zipfile.
"""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from inspect import isfunction, signature
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pyarrow as pa

from tests import pixels
from tests.formats import litdata_peer, mds_peer
from tests.formats.record_messages import record_messages
from tests.images import image_folder
from tests.missing import Frameworks
from tests.parquet_files import images, write_table

CLASSES = ("cat", "dog", "owl")
PER_CLASS = 4
SIZE = (16, 12)


@dataclass(frozen=True)
class Item:
    """What must have arrived of a sample.

    Attributes:
        key: Its key.
        cls: The number of its class.
        data: The encoded image or, if that has yet to be encoded, the pixels.
        is_pixels: Whether that is so.
    """

    key: str
    cls: int
    data: bytes
    is_pixels: bool = False


class Given(NamedTuple):
    """A source, and what is in it.

    Attributes:
        args: What names it on the command line, options included.
        items: Its samples, in order.
        classes: The names of the classes that it tells; empty if it tells none.
        further: A field besides image and label, which a record of MXNet has no place for.
    """

    args: tuple[object, ...]
    items: tuple[Item, ...]
    classes: tuple[str, ...] = CLASSES
    further: str = ""


@dataclass
class Samples:
    """The samples that most sources hold: a folder of images."""

    root: Path
    files: dict[str, bytes] = field(init=False)
    items: tuple[Item, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.files = image_folder(self.root, CLASSES, PER_CLASS, SIZE)
        self.items = tuple(
            Item(path.removesuffix(".jpg"), CLASSES.index(path.partition("/")[0]), data)
            for path, data in self.files.items()
        )


Build = Callable[[Path, Samples, Frameworks], Given]


def plain(*args: object, of: Samples) -> Given:
    return Given(args, of.items)


def nameless(*args: object, of: Samples) -> Given:
    """A source that tells no names of classes."""
    return Given(args, of.items, ())


def folder(where: Path, samples: Samples, peers: Frameworks) -> Given:
    return plain(samples.root, of=samples)


def zipped(where: Path, samples: Samples, peers: Frameworks) -> Given:
    with zipfile.ZipFile(where / "a.zip", "w") as file:
        for number, (path, data) in enumerate(reversed(samples.files.items())):
            method = zipfile.ZIP_DEFLATED if number % 2 else zipfile.ZIP_STORED
            file.writestr(f"photos/{path}", data, method)
    return plain(where / "a.zip", of=samples)


def lst(where: Path, samples: Samples, peers: Frameworks) -> Given:
    lines = [f"{n}\t{each.cls}.000000\t{each.key}.jpg\n" for n, each in enumerate(samples.items)]
    path = where / "train.lst"
    path.write_text("".join(lines))
    return nameless(samples.root, "--list", path, of=samples)


def csv(where: Path, samples: Samples, peers: Frameworks) -> Given:
    lines = [f"{each.key}.jpg,{CLASSES[each.cls]}\n" for each in samples.items]
    path = where / "labels.csv"
    path.write_text("file,label\n" + "".join(lines))
    return plain(samples.root, "--labels", path, of=samples)


def add_member(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def tar_of(path: Path, files: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, data in files.items():
            add_member(tar, name, data)
    return path


def tarred(where: Path, samples: Samples, peers: Frameworks) -> Given:
    return plain(tar_of(where / "a.tar", samples.files), of=samples)


def tar_gz(where: Path, samples: Samples, peers: Frameworks) -> Given:
    return plain(tar_of(where / "a.tar.gz", samples.files, "w:gz"), of=samples)


def tar_of_tars(where: Path, samples: Samples, peers: Frameworks) -> Given:
    inner = {}
    for name in CLASSES:
        own = {path[4:]: data for path, data in samples.files.items() if path.startswith(name)}
        inner[f"{name}.tar"] = tar_of(where / "inner.tar", own).read_bytes()
    return plain(tar_of(where / "a.tar", inner), of=samples)


def halves(samples: Samples) -> list[tuple[Item, ...]]:
    middle = len(samples.items) // 2
    return [samples.items[:middle], samples.items[middle:]]


def members(items: Sequence[Item]) -> dict[str, bytes]:
    files = {}
    for item in items:
        files[f"{item.key}.jpg"] = item.data
        files[f"{item.key}.cls"] = b"%d" % item.cls
    return files


def webdataset(where: Path, samples: Samples, peers: Frameworks) -> Given:
    pattern = str(where / "train-%06d.tar")
    with peers.webdataset.ShardWriter(pattern, maxcount=6, verbose=0) as writer:
        for item in samples.items:
            writer.write({"__key__": item.key, "jpg": item.data, "cls": item.cls})
    return nameless(where, of=samples)


def mds(where: Path, samples: Samples, peers: Frameworks) -> Given:
    columns = {"__key__": "str", "image": "jpeg", "label": "int"}
    shards = [
        [{"__key__": item.key, "image": item.data, "label": item.cls} for item in items]
        for items in halves(samples)
    ]
    mds_peer.write(where, columns, shards)
    return nameless(where, of=samples)


def litdata(where: Path, samples: Samples, peers: Frameworks) -> Given:
    shards = [
        [{"image": item.data, "label": item.cls} for item in items] for items in halves(samples)
    ]
    litdata_peer.write(where, {"image": "jpeg", "label": "int"}, shards)
    keys = (
        f"chunk-0-{number}-{position:07}"
        for number, items in enumerate(halves(samples))
        for position in range(len(items))
    )
    items = (replace(item, key=key) for item, key in zip(samples.items, keys, strict=True))
    return Given((where,), tuple(items), ())


def webdataset_tar_gz(where: Path, samples: Samples, peers: Frameworks) -> Given:
    for number, items in enumerate(halves(samples)):
        tar_of(where / f"train-{number:06d}.tar.gz", members(items), "w:gz")
    return nameless(where / "train-{000000..000001}.tar.gz", of=samples)


def example(tf: ModuleType, item: Item) -> bytes:
    def feature(value: bytes | int) -> object:
        if isinstance(value, int):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    features = {
        "image/encoded": item.data,
        "image/format": b"jpeg",
        "image/class/label": item.cls,
        "image/filename": f"{item.key}.jpg".encode(),
    }
    held = {name: feature(value) for name, value in features.items()}
    whole = tf.train.Example(features=tf.train.Features(feature=held))
    return bytes(whole.SerializeToString())


def tfrecord(where: Path, samples: Samples, peers: Frameworks, compression: str = "") -> Given:
    for number, items in enumerate(halves(samples)):
        path = where / f"train-{number:05d}-of-00002.tfrecord"
        with peers.tensorflow.io.TFRecordWriter(str(path), compression) as writer:
            for item in items:
                writer.write(example(peers.tensorflow, item))
    return nameless(where, of=samples)


def tfrecord_gzip(where: Path, samples: Samples, peers: Frameworks) -> Given:
    return tfrecord(where, samples, peers, "GZIP")


def recordio(where: Path, samples: Samples, peers: Frameworks) -> Given:
    path = str(where / "train.rec")
    writer = peers.mxnet.recordio.MXIndexedRecordIO(path[:-4] + ".idx", path, "w")
    for number, item in enumerate(samples.items):
        header = peers.mxnet.recordio.IRHeader(0, float(item.cls), number, 0)
        writer.write_idx(number, peers.mxnet.recordio.pack(header, item.data))
    writer.close()
    lst(where, samples, peers)
    return nameless(path, of=samples)


def recordio_alone(where: Path, samples: Samples, peers: Frameworks) -> Given:
    """Neither an index nor a list: ids are all that names the samples."""
    given = recordio(where, samples, peers)
    for suffix in (".idx", ".lst"):
        (where / "train").with_suffix(suffix).unlink()
    items = (replace(each, key=str(number)) for number, each in enumerate(samples.items))
    return Given(given.args, tuple(items), ())


def recordio_protobuf(where: Path, samples: Samples, peers: Frameworks) -> Given:
    """Frames by MXNet, messages by protobuf."""
    message = record_messages()["Record"]
    writer = peers.mxnet.recordio.MXRecordIO(str(where / "train.pb"), "w")
    for item in samples.items:
        record = message(uid=item.key)
        record.label["values"].float32_tensor.values.append(item.cls)
        record.features["image"].bytes.value.append(item.data)
        record.features["image"].bytes.content_type = "image/jpeg"
        writer.write(record.SerializeToString())
    writer.close()
    return nameless(where / "train.pb", of=samples)


def parts(where: Path, samples: Samples, peers: Frameworks) -> Given:
    for name, data in members(samples.items).items():
        path = where / "parts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return nameless(where / "parts", "--parts", of=samples)


def pairs(where: Path, samples: Samples, peers: Frameworks) -> Given:
    for item in samples.items:
        for name, data in (("images/{}.jpg", item.data), ("classes/{}.cls", b"%d" % item.cls)):
            path = where / "pairs" / name.format(item.key)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    patterns = ("--pair", "image=images/**/*.jpg", "--pair", "cls=classes/**/*.cls")
    return nameless(where / "pairs", *patterns, of=samples)


def interleaved(planes: bytes) -> bytes:
    """Pixels of three bytes each, of CIFAR's planes of red, green and blue."""
    size = len(planes) // 3
    colors = zip(planes[:size], planes[size : 2 * size], planes[2 * size :], strict=True)
    return b"".join(map(bytes, colors))


Named = Callable[[int, int, int], str]
"""The name of an image: by its number in the batch, its label and its seed."""


def by_number(number: int, label: int, seed: int) -> str:
    return f"{number:05d}"


def by_file_name(number: int, label: int, seed: int) -> str:
    return f"{number:05d}_{pixels.file_name(label, seed)[:-4]}"


def cifar_items(
    batches: dict[str, pixels.Images], named: Named, times: int = 1
) -> tuple[Item, ...]:
    return tuple(
        Item(
            f"{batch}/{named(number, label, seed)}",
            label * times,
            interleaved(pixels.pixels(seed)),
            is_pixels=True,
        )
        for batch, images in batches.items()
        for number, (label, seed) in enumerate(images)
    )


CIFAR10 = {
    **{f"train/data_batch_{number}": each for number, each in enumerate(pixels.TRAIN, 1)},
    "test/test_batch": pixels.TEST,
}
CIFAR100 = {"train": pixels.TRAIN[0], "test": pixels.TEST}


def both_parts(path: Path) -> tuple[Path, ...]:
    """Both parts of a data set, which would not be mixed unless both are named."""
    return (path / "{train,test}",)


def cifar10_python(where: Path, samples: Samples, peers: Frameworks) -> Given:
    path = where / "cifar-10-python.tar.gz"
    pixels.write_archive(path, "cifar-10-batches-py", pixels.cifar10_python())
    return Given(both_parts(path), cifar_items(CIFAR10, by_file_name), pixels.NAMES)


def cifar10_binary(where: Path, samples: Samples, peers: Frameworks) -> Given:
    path = pixels.write_directory(where / "cifar-10-batches-bin", pixels.cifar10_binary())
    return Given(both_parts(path), cifar_items(CIFAR10, by_number), pixels.NAMES)


def cifar100_python(where: Path, samples: Samples, peers: Frameworks) -> Given:
    path = pixels.write_directory(where / "cifar-100-python", pixels.cifar100_python())
    items = cifar_items(CIFAR100, by_file_name, 9)
    return Given(both_parts(path), items, pixels.FINE, "coarse_label")


def cifar100_binary(where: Path, samples: Samples, peers: Frameworks) -> Given:
    path = where / "cifar-100-binary.tar.gz"
    pixels.write_archive(path, "cifar-100-binary", pixels.cifar100_binary())
    items = cifar_items(CIFAR100, by_number, 9)
    return Given(both_parts(path), items, pixels.FINE, "coarse_label")


def idx(where: Path, samples: Samples, peers: Frameworks) -> Given:
    pixels.write_directory(where / "mnist", pixels.mnist(suffix=".gz"))
    entries = [
        *((f"train/{n:05d}", each) for n, each in enumerate([*pixels.TRAIN[0], *pixels.TRAIN[1]])),
        *((f"test/{n:05d}", each) for n, each in enumerate(pixels.TEST)),
    ]
    items = (
        Item(key, label, pixels.pixels(seed, 12), is_pixels=True) for key, (label, seed) in entries
    )
    return Given(both_parts(where / "mnist"), tuple(items), ())


def parquet(where: Path, samples: Samples, peers: Frameworks) -> Given:
    columns = {
        "image": images([each.data for each in samples.items], list(samples.files)),
        "label": pa.array([each.cls for each in samples.items], pa.int64()),
    }
    noted = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": list(CLASSES)}}
    path = write_table(where / "train-00000-of-00001.parquet", columns, features=noted)
    return plain(path, of=samples)


def manifest(where: Path, samples: Samples, peers: Frameworks) -> Given:
    lines = [
        json.dumps(
            {
                "source-ref": f"s3://bucket/photos/{item.key}.jpg",
                "class": item.cls,
                "class-metadata": {
                    "class-name": CLASSES[item.cls],
                    "type": "groundtruth/image-classification",
                },
            }
        )
        for item in samples.items
    ]
    path = where / "train.manifest"
    path.write_text("\n".join(lines) + "\n")
    return plain(samples.root, "--list", path, "--from", "augmented-manifest", of=samples)


SOURCES: dict[str, Build] = {
    name: each
    for name, each in list(vars().items())
    if isfunction(each) and [*signature(each).parameters][:3] == ["where", "samples", "peers"]
}
"""What writes each source: the functions above that take a place, samples and peers."""
