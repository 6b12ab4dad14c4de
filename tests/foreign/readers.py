"""Reads each target with its library, as that library's documentation recommends.

A reader looks for each field where the table of fields in the documentation says, and for nothing
that is not there. What it finds is compared with what is in the set.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from PIL import Image

from tests.foreign.sets import Truth
from tests.missing import Frameworks

FACTS = {"width", "height", "channels", "colorspace", "format", "sha256"}
"""Fields that follow from the image: they may be there."""

EXTENSIONS = {"JPEG": "jpg", "PNG": "png"}
"""Of what the sets hold, by Pillow's names."""


@dataclass
class Found:
    """What was read.

    Attributes:
        samples: A sample's fields, its `key` and `also`, the names of all that it has besides;
            images are encoded.
        classes: The names of the classes of fields, as far as the target tells them.
    """

    samples: list[dict[str, Any]] = field(default_factory=list)
    classes: dict[str, list[str]] = field(default_factory=dict)


def pixels(image: Image.Image) -> str:
    return hashlib.sha256(image.convert("RGB").tobytes()).hexdigest()


def decoded(data: bytes) -> Image.Image:
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        return image


def stem(path: str) -> str:
    return path.rpartition(".")[0] or path


def files_of(dest: Path, suffix: str) -> list[str]:
    found = sorted(str(path) for path in dest.glob(f"*{suffix}"))
    assert found, f"no {suffix} in {sorted(path.name for path in dest.iterdir())}"
    return found


def class_files(dest: Path, names: Iterable[str]) -> dict[str, list[str]]:
    """The names of classes in files beside shards: `classes.txt`, `NAME.classes.txt`."""
    found = {}
    for name in names:
        path = dest / ("classes.txt" if name == "label" else f"{name}.classes.txt")
        if path.exists():
            found[name] = path.read_text().split("\n")[:-1]
    return found


# WebDataset


def member_of(name: str, kind: str, data: Mapping[str, Any]) -> str:
    """The extension at which a field has to be."""
    escaped = name.replace("/", "%2f")
    if kind == "image":
        start = "" if name == "image" else f"{escaped}."
        there = [f"{start}{kind}" for kind in EXTENSIONS.values() if f"{start}{kind}" in data]
        return there[0] if there else f"{start}jpg"
    if name == "label" and kind != "image":
        return "cls" if kind == "class" else "label.json"
    by_type = {
        "class": f"{escaped}.cls",
        "text": "txt" if name == "text" else f"{escaped}.txt",
        "json": "json" if name == "json" else f"{escaped}.json",
        "bytes": f"{escaped}.bin",
    }
    return by_type.get(kind, "json")


def webdataset(dest: Path, truth: Truth, libraries: Frameworks) -> Found:
    """With `wds.WebDataset`, raw and with `decode("pil")`."""
    found = Found(classes=class_files(dest, truth.types))
    wds = libraries.webdataset
    urls = files_of(dest, ".tar")
    raws = list(wds.WebDataset(urls, shardshuffle=False))
    decodings = wds.WebDataset(urls, shardshuffle=False).decode("pil")
    for raw, sample in zip(raws, decodings, strict=True):
        own = {name for name in raw if not name.startswith("__")}
        values: dict[str, Any] = {"key": raw["__key__"]}
        used = set()
        for name, kind in truth.types.items():
            place = member_of(name, kind, raw)
            used.add(place)
            if place not in raw:
                continue
            if kind == "image":
                assert pixels(sample[place]) == pixels(decoded(raw[place]))
                values[name] = raw[place]
            elif kind == "bytes":
                values[name] = raw[place].hex()
            elif place == "json" and kind != "json":
                if name in sample["json"]:
                    values[name] = sample["json"][name]
            else:
                values[name] = sample[place]
        values["also"] = {name.removesuffix(".txt") for name in own - used - {"json"}}
        if "json" not in truth.types and "json" in raw:
            values["also"] |= set(sample["json"]) - set(truth.types)
        found.samples.append(values)
    return found


def webdataset_of_datasets(dest: Path, truth: Truth, libraries: Frameworks) -> None:
    """`load_dataset("webdataset")` finds the images, the classes and the text.

    It is known to fail if samples differ in their members, or in the kind of their images.
    """
    raws = list(libraries.webdataset.WebDataset(files_of(dest, ".tar"), shardshuffle=False))
    members = {frozenset(name for name in raw if not name.startswith("__")) for raw in raws}
    if len(members) > 1:
        return
    rows = list(load(libraries, "webdataset", data_files=files_of(dest, ".tar")))
    assert len(rows) == len(truth.samples)
    for row, raw in zip(rows, raws, strict=True):
        sample = truth.samples[pixels(row[member_of("image", "image", raw)])]
        for name, kind in truth.types.items():
            place = member_of(name, kind, raw)
            if kind in ("class", "text") and place in row:
                assert row[place] == sample[name]


# TFRecord


def feature_of(name: str, kind: str) -> str:
    """The feature at which a field has to be."""
    if name == "image":
        return "image/encoded"
    if name == "label" and kind != "image":
        return "image/class/label" if kind == "class" else "image/label"
    return name


FEATURE_FACTS = {f"image/{name}" for name in FACTS} | {"image/filename", "image/source_id"}


def tfrecord(dest: Path, truth: Truth, libraries: Frameworks) -> Found:
    """With `tf.io.parse_single_example`, all features having a fixed length where that can be."""
    tf = libraries.tensorflow
    found = Found(classes=class_files(dest, truth.types))
    for record in tf.data.TFRecordDataset(files_of(dest, ".tfrecord")).as_numpy_iterator():
        there = set(tf.train.Example.FromString(record).features.feature)
        expected: dict[str, Any] = {
            name: tf.io.FixedLenFeature([], tf.string)
            for name in ("image/filename", "image/format")
        }
        for name, kind in truth.types.items():
            expected[feature_of(name, kind)] = _feature(tf, name, kind, truth)
        used = set(expected)
        if truth.classes.get("label"):
            expected["image/class/text"] = tf.io.FixedLenFeature([], tf.string)
        parsed = tf.io.parse_single_example(record, expected)
        kind = parsed["image/format"].numpy().decode()
        assert kind.upper() in EXTENSIONS, f"image/format is {kind}"
        values: dict[str, Any] = {"key": stem(parsed["image/filename"].numpy().decode())}
        for name, kind in truth.types.items():
            if (place := feature_of(name, kind)) in there:
                values[name] = _plain(tf, parsed[place], kind)
        if truth.classes.get("label"):
            text = parsed["image/class/text"].numpy().decode()
            assert text == truth.classes["label"][values["label"]], f"image/class/text is {text}"
        values["also"] = there - used - FEATURE_FACTS - {"image/class/text"}
        found.samples.append(values)
    return found


def _feature(tf: ModuleType, name: str, kind: str, truth: Truth) -> Any:
    item = kind.removeprefix("list<").removesuffix(">")
    numbers = {"class": tf.int64, "bool": tf.int64, "int": tf.int64}
    floats = {"float32": tf.float32, "float64": tf.float32}
    type_ = (numbers | floats).get(item, tf.string)
    if name == "label" and kind != "class" and type_ is not tf.string:
        type_ = tf.float32  # several numbers: a list of floats
    values = [sample.get(name) for sample in truth.samples.values()]
    if item == kind:
        default = "" if type_ is tf.string else 0
        lacks = any(value is None for value in values)
        return tf.io.FixedLenFeature([], type_, default if lacks else None)
    lengths = {len(value) for value in values}
    if len(lengths) == 1:
        return tf.io.FixedLenFeature([lengths.pop()], type_)
    return tf.io.VarLenFeature(type_)


def _plain(tf: ModuleType, tensor: Any, kind: str) -> Any:
    tensor = tf.sparse.to_dense(tensor) if isinstance(tensor, tf.sparse.SparseTensor) else tensor
    value = tensor.numpy()
    value = value.tolist() if hasattr(value, "tolist") else value
    if kind in ("text", "json"):
        text = value.decode()
        return json.loads(text) if kind == "json" else text
    if kind == "list<text>":
        return [each.decode() for each in value]
    if kind == "bytes":
        return value.hex()
    return bool(value) if kind == "bool" else value


# RecordIO


def recordio(dest: Path, truth: Truth, libraries: Frameworks) -> Found:
    """With `MXIndexedRecordIO`, the list beside it, and `ImageRecordIter`."""
    mx = libraries.mxnet
    found = Found(classes=class_files(dest, truth.types))
    for path in files_of(dest, ".rec"):
        shard = Path(path)
        lines = shard.with_suffix(".lst").read_text().splitlines()
        names = {int(line.split("\t")[0]): line.split("\t")[-1] for line in lines}
        records = mx.recordio.MXIndexedRecordIO(str(shard.with_suffix(".idx")), path, "r")
        assert sorted(records.keys) == sorted(names)
        labels = []
        for key in records.keys:
            header, data = mx.recordio.unpack(records.read_idx(key))
            assert header.id == key
            label = header.label
            label = label.tolist() if hasattr(label, "tolist") else label
            labels.append(label if isinstance(label, list) else [label])
            values = {"key": stem(names[key]), "image": data, "also": set()}
            if truth.label:
                values["label"] = labels[-1]
            found.samples.append(values)
        records.close()
        iterate(mx, shard, labels)
    return found


def iterate(mx: ModuleType, shard: Path, labels: list[list[float]]) -> None:
    """ImageRecordIter gives all records, with their labels."""
    widths = {len(label) for label in labels}
    if len(widths) > 1:  # boxes
        batches = mx.io.ImageDetRecordIter(
            path_imgrec=str(shard), data_shape=(3, 16, 16), batch_size=1, label_pad_width=40
        )
        assert sum(1 for _ in batches) == len(labels)
        return
    width = widths.pop()
    batches = mx.io.ImageRecordIter(
        path_imgrec=str(shard),
        data_shape=(3, 16, 16),
        batch_size=1,
        label_width=width,
        preprocess_threads=1,
    )
    read = [batch.label[0].asnumpy().reshape(-1).tolist() for batch in batches]
    assert read == labels


# Parquet


def load(libraries: Frameworks, kind: str, **options: Any) -> Any:
    """`datasets.load_dataset`, without its cache."""
    return libraries.datasets.load_dataset(kind, split="train", streaming=True, **options)


def parquet(dest: Path, truth: Truth, libraries: Frameworks) -> Found:
    """With `load_dataset("parquet")`."""
    datasets = libraries.datasets
    found = Found()
    rows = load(libraries, "parquet", data_files=files_of(dest, ".parquet"))
    for name, kind in truth.types.items():
        feature = rows.features.get(name)
        if feature is None:
            continue  # null in all rows: no column
        assert is_of(datasets, feature, kind), f"{name}: {feature}"
        if kind == "image":
            rows = rows.cast_column(name, datasets.Image(decode=False))
        if kind == "class" and isinstance(feature, datasets.ClassLabel):
            found.classes[name] = feature.names
    for row in rows:
        values = {"key": stem(row["image"]["path"] or "."), "also": set(row) - set(truth.types)}
        for name, kind in truth.types.items():
            if (value := row.get(name)) is None:
                continue
            if kind == "image":
                values[name] = value["bytes"]
            elif kind == "json":
                values[name] = json.loads(value)
            else:
                values[name] = value.hex() if kind == "bytes" else value
        found.samples.append(values)
    for name in set().union(*(sample["also"] for sample in found.samples)):
        assert any(row[name] is not None for row in rows), f"{name} is null in all rows"
    return found


def is_of(datasets: ModuleType, feature: Any, kind: str) -> bool:
    """Whether a column has the type that a field of a kind has to have."""
    if kind == "image":
        return isinstance(feature, datasets.Image)
    if kind.startswith("list<"):
        inner = getattr(feature, "feature", None)
        return inner is not None and is_of(datasets, inner, kind[5:-1])
    if kind == "class":
        return isinstance(feature, datasets.ClassLabel) or feature.dtype == "int64"
    dtypes = {"json": "string", "text": "string", "int": "int64", "bool": "bool", "bytes": "binary"}
    is_float = kind.startswith("float") and feature.dtype.startswith("float")
    return is_float or bool(feature.dtype == dtypes.get(kind, kind))


# Folders


def folder(dest: Path, truth: Truth, libraries: Frameworks) -> Found:
    """With `load_dataset("imagefolder")`, and as a tree of class directories."""
    found = Found()
    classes, listed = Path(f"{dest}.classes.txt"), Path(f"{dest}.lst")
    if classes.exists():
        found.classes["label"] = classes.read_text().split("\n")[:-1]
    for others in dest.parent.glob(f"{dest.name}.*.classes.txt"):
        name = others.name.removeprefix(f"{dest.name}.").removesuffix(".classes.txt")
        found.classes[name] = others.read_text().split("\n")[:-1]
    labels = {}
    if listed.exists():
        lines = [line.split("\t") for line in listed.read_text().splitlines()]
        labels = {path: list(map(float, numbers)) for _, *numbers, path in lines}
    where = {"data_files": f"{dest}/**"} if names_a_split(dest) else {"data_dir": str(dest)}
    rows = load(libraries, "imagefolder", **where)
    images = [name for name, kind in truth.types.items() if kind == "image"]
    for name in images:
        rows = rows.cast_column(name, libraries.datasets.Image(decode=False))
    features = rows.features or {}
    seen = {path.relative_to(dest) for path in dest.rglob("metadata.jsonl")}
    for row in rows:
        path = Path(row["image"]["path"]).relative_to(dest)
        assert path.suffix, f"{path} has no extension"
        values: dict[str, Any] = {"key": stem(path.as_posix())}
        for name, kind in truth.types.items():
            if row.get(name) is None and kind == "image":
                continue
            if kind == "image":
                file = Path(row[name]["path"])
                values[name] = file.read_bytes()
                seen.add(file.relative_to(dest))
            elif kind in ("json", "bytes"):
                ending = name if kind == "bytes" or name == "json" else f"{name}.json"
                beside = (dest / path).with_suffix(f".{ending}")
                data = beside.read_bytes()
                values[name] = json.loads(data) if kind == "json" else data.hex()
                seen.add(beside.relative_to(dest))
            elif name == "label" and kind == "class":
                label = row.get("label")
                if label is not None and hasattr(features.get("label"), "int2str"):
                    label = features["label"].int2str(label)
                values[name] = class_of(path, label, labels, truth.classes.get(name))
            elif name == "label":
                number = labels[path.as_posix()]
                values[name] = number if kind.startswith("list") else number[0]
            elif row.get(name) is not None:
                names = truth.classes.get(name)
                values[name] = names.index(row[name]) if names else row[name]
        values["also"] = set(row) - set(truth.types) - {"label"}
        found.samples.append(values)
    there = {path.relative_to(dest) for path in dest.rglob("*") if path.is_file()}
    assert there <= seen, f"files that nothing refers to: {there - seen}"
    return found


def names_a_split(dest: Path) -> bool:
    """Whether `data_dir` would not do: names that hold the word of a split are all that is read.

    Samples without a name have that of their shard, which often is `train-00000-of-00001`. All
    other files, `metadata.jsonl` among them, are passed over then.
    """
    words = re.compile(
        r"(^|[-._ 0-9/])(train(ing)?|val(id(ation)?)?|dev|test(ing)?|eval)[-._ 0-9/]"
    )
    return any(words.search(path.relative_to(dest).as_posix()) for path in dest.rglob("*"))


def class_of(
    path: Path, label: str | None, labels: Mapping[str, list[float]], names: list[str] | None
) -> int:
    """The class of an image: its directory's, and that of the metadata if there is any."""
    directories = [each for each in path.parts[:-1] if each not in ("train", "val", "test")]
    directory = directories[0] if directories else None
    if names:
        assert directory in (None, *names), f"{path}: the directory is none of {names}"
        name = label or directory
        assert name is not None, f"{path} has no class"
        return names.index(name)
    if path.as_posix() in labels:
        return int(labels[path.as_posix()][0])
    name = label or directory
    assert name is not None and name.isdecimal(), f"{path} has no class"
    return int(name)


READERS = {
    "webdataset": webdataset,
    "tfrecord": tfrecord,
    "recordio": recordio,
    "parquet": parquet,
    "folder": folder,
}
"""What reads each target."""
