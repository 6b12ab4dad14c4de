"""Every format in every variant, and pictures to put into it: what the contract is tested on.

A new format needs nothing here: it is tested with its default options, on every kind of label.
A set of options that lays samples out differently is a line in `VARIANTS`.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from dsprep.formats import IN_SPANS, SHARDED
from dsprep.formats.base import Entry, Format
from dsprep.formats.stream import ShardStream
from dsprep.formats.tfrecord import PRESETS, TFRecord
from dsprep.formats.webdataset import WebDataset
from dsprep.run.shard import ShardWriter
from dsprep.sample import Sample, Value, key_of
from dsprep.schema import Field, Reading, Schema
from tests.images import jpeg, png

VARIANTS: dict[str, dict[str, Format]] = {
    "webdataset": {"metadata": WebDataset(metadata=True)},
    "tfrecord": {
        **{name: TFRecord(name) for name in PRESETS if name != "dsprep"},
        "gzip": TFRecord(gzip=True),
    },
}

LAYOUTS: dict[str, Format] = {
    "-".join((name, variant)).rstrip("-"): layout
    for name, kind in IN_SPANS.items()
    if name in SHARDED
    for variant, layout in ({"": kind()} | VARIANTS.get(name, {})).items()
}
"""Every layout by its name: the format's, and the variant's."""

Label = int | tuple[float, ...] | None

LABELS: dict[str, tuple[Label, ...]] = {
    "none": (None, None, None),
    "class": (0, 2, 1),
    "fraction": ((0.5,), (-1.25,), (2.0**-20,)),
    "several": ((1.0, 0.0, -2.5), (0.0, 1e6, 0.125), (3.0, 2.0, 1.0)),
    "detection": (
        (2.0, 5.0, 1.0, 0.0, 0.25, 0.5, 0.75),
        (2.0, 5.0, 0.0, 0.0, 0.0, 1.0, 1.0, 2.0, 0.125, 0.125, 0.5, 0.5),
        (4.0, 5.0, 16.0, 12.0, 2.0, 0.25, 0.25, 0.75, 0.75),
    ),
}
"""The labels of three pictures, for every kind of label that a catalog holds."""

CLASSES = ("cat", 'the "dog"', "ねこ")
WIDTH, HEIGHT = 16, 12


@dataclass(frozen=True)
class Picture:
    """A row of a catalog, and the bytes of its image."""

    index: int
    path: str
    data: bytes
    label: Label = None


JPEG = jpeg(seed=1, size=(WIDTH, HEIGHT))
PNG = png(seed=2, size=(WIDTH, HEIGHT))

# Names that tars split, escape or extend, and that keys are made from.
PATHS = (
    "cat/000.jpg",
    'dog/it\'s a "dog" with blanks .JPG',
    "v1.2/a.b.c.jpeg",
    "./e/f.jpg",
    "ねこ/日本語.png",
    "x" * 95 + ".jpg",
    "d" * 60 + "/" + "n" * 60 + ".jpg",
    "e" * 200 + "/" + "é" * 100 + ".png",
)


def pictures(labels: Sequence[Label], paths: Iterable[str] = PATHS) -> list[Picture]:
    """A picture at each path, labels taken in turn, with ids that are not positions."""
    return [
        Picture(7 * i + 5, path, PNG if path.endswith("png") else JPEG, labels[i % len(labels)])
        for i, path in enumerate(paths)
    ]


def schema_of(label: Label) -> Schema:
    """The schema of pictures with such labels."""
    fields = [Field("image", "image")]
    if label is not None:
        kind = "class" if isinstance(label, int) else "list<float32>"
        names = CLASSES if isinstance(label, int) else ()
        fields.append(Field("label", kind, names=names))
    return Schema(tuple(fields), "image", None if label is None else "label")


def layout_for(layout: Format, picture: Picture) -> Format:
    """The layout of a data set of such samples."""
    return layout.arranged(schema_of(picture.label))[0]


def sample_of(layout: Format, picture: Picture) -> Sample:
    """The sample that a worker makes of a picture, for a layout of such."""
    assert layout.schema is not None
    fields: dict[str, Value] = {"image": picture.data}
    sample = Sample(key_of(picture.path), fields, picture.index, picture.path, "image")
    if picture.label is not None:
        fields["label"] = picture.label
    if isinstance(picture.label, int):
        sample.class_name = CLASSES[picture.label % len(CLASSES)]
    facts = {"width": WIDTH, "height": HEIGHT}
    fields |= {name: value for name, value in facts.items() if name in layout.schema.by_name}
    return sample


def encode(layout: Format, picture: Picture) -> bytes:
    """The bytes of one sample in a shard."""
    layout = layout_for(layout, picture)
    return b"".join(layout.encode(sample_of(layout, picture)))


def shard(layout: Format, samples: Iterable[Picture]) -> bytes:
    """The bytes of a whole shard, before compression."""
    if not layout.concatenative:
        with tempfile.NamedTemporaryFile() as file:
            return write(layout, list(samples), Path(file.name)).read_bytes()
    content = b"".join(encode(layout, each) for each in samples)
    return content + layout.trailer(len(content))


def write(layout: Format, samples: Iterable[Picture], path: Path) -> Path:
    """Write a shard as a worker does; returns the path."""
    samples = [*samples]
    own = layout_for(layout, samples[0]) if samples else layout
    is_plain = layout.concatenative
    with closing(
        ShardWriter(str(path), layout, whole=True)
        if is_plain
        else own.open_writer(str(path), "", len(samples))
    ) as writer:
        for each in samples:
            writer.add(encode(layout, each))
        writer.finish()
    return path


def compressed(layout: Format, data: bytes) -> bytes:
    """What lies on the disk of a shard with these bytes."""
    return gzip.compress(data, mtime=0) if layout.compressed else data


def read(layout: Format, data: bytes) -> list[Entry]:
    """Read a shard from the bytes that lie on the disk."""
    found: list[Entry] = []
    read_into(found, layout, data)
    return found


def read_into(found: list[Entry], layout: Format, data: bytes) -> None:
    """The same, keeping what was read before damage was met."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        with ShardStream(file.name) as stream:
            found.extend(layout.read(stream))


def catalog_rows(samples: Sequence[Picture]) -> pl.DataFrame:
    """The table that `Format.weights` takes: of pictures that all have one kind of label."""
    table = pl.DataFrame(
        {
            "index": [each.index for each in samples],
            "path": [each.path for each in samples],
            "image": [len(each.data) for each in samples],
        },
        schema_overrides={"index": pl.Int64, "path": pl.String, "image": pl.Int64},
    )
    labels = [each.label for each in samples]
    if isinstance(labels[0], int):
        names = [CLASSES[label % len(CLASSES)] for label in labels if isinstance(label, int)]
        return table.with_columns(
            pl.Series("cls", labels, dtype=pl.Int64), pl.Series("class", names, dtype=pl.String)
        )
    if labels[0] is not None:
        return table.with_columns(pl.Series("label", labels, dtype=pl.List(pl.Float64)))
    return table


def typed(layout: Format, picture: Picture, raw: Sample) -> Sample:
    """A raw sample as the schema has it."""
    arranged = layout_for(layout, picture)
    assert arranged.schema is not None
    return Reading(arranged.schema, arranged, layout.placeholders(arranged.schema))(raw)


def key_in_shard(picture: Picture, raw: Sample) -> str:
    """The key that a sample has when it is read, unless the shard does not tell it."""
    key = key_of(picture.path)
    plain = key.removeprefix("./")  # what tar puts before the names of files
    return raw.key if raw.key in ("", plain, str(picture.index)) else key
