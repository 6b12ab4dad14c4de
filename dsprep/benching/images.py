"""Find the member, feature or column that is the image in the first samples, as ``verify`` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsprep.errors import DsprepError, SourceError
from dsprep.formats import TABLES
from dsprep.formats.base import Format
from dsprep.formats.mds_values import StoredImage
from dsprep.formats.stream import ShardStream
from dsprep.images.pixels import RAW_CHW
from dsprep.sample import IMAGE_EXTENSIONS, Sample
from dsprep.schema import Choice, observe, settle
from dsprep.sources.look import may_have_pixels, raw_field
from dsprep.sources.raw_pixels import RawPixels, raw_pixels
from dsprep.sources.reading import read_source
from dsprep.sources.shards.shardset import ShardSet
from dsprep.sources.source import make_source
from dsprep.units import format_some

_LOOKED_AT = 64  # samples of the first shard, at most
_ANY_KIND = "*"  # ends a place in WebDataset whose members end in the kind of the image
_MOST_BYTES = 1 << 24  # bytes of the samples that are looked at, at most


def keywords_of(shards: ShardSet) -> dict[str, Any]:
    """Return the keywords that tell a loop where the images of shards lie; none if it knows."""
    if shards.layout.name in TABLES:
        return {"header": shards.layout.options().get("header", False)}
    if shards.layout.name == "recordio-protobuf":
        _require_numbers(shards)
    if shards.layout.name not in ("webdataset", "tfrecord", "mds", "litdata"):
        return {}
    samples, choice = _first_samples(shards), Choice()
    observed, own = observe(samples, shards.layout, choice), raw_field(shards.schema)
    if own is not None or may_have_pixels(observed, choice):
        pixels = raw_pixels(samples, shards.layout, choice, own)
        if pixels is not None:
            return _of_pixels(shards, pixels)
    settled = settle(observed, shards.layout, choice, shards.name, shards.schema)
    if (image := settled.schema.image_field) is None:
        raise _no_image(shards.name, list(settled.schema.by_name))
    names = _raw_names([place[0] for place in image.places], samples, shards.layout)
    if any(isinstance(each.fields.get(name), StoredImage) for each in samples for name in names):
        raise _bare_pixels(shards.name)
    return {"image": names if shards.layout.name == "webdataset" else names[:1]}


def _require_numbers(shards: ShardSet) -> None:
    """Refuse records of images, as what reads these records is an algorithm that wants numbers."""
    if shards.schema is not None and shards.schema.image is not None:
        raise SourceError(
            f"{shards.name}: its records hold images, and bench reads numbers of "
            f"{shards.layout.name}: convert it, such as with dsprep convert --to recordio"
        )


def _raw_names(places: Sequence[str], samples: Sequence[Sample], layout: Format) -> list[str]:
    """Return the names that an image may have in samples; WebDataset has one for each kind."""
    names = {name for sample in samples for name in sample.fields}
    for place in places:
        if place.endswith(_ANY_KIND):
            names.update(place.removesuffix(_ANY_KIND) + kind for kind in IMAGE_EXTENSIONS)
    return sorted(name for name in names if layout.place_of(name) in places)


def keywords_of_table(name: str, place: str, kind: str = "parquet") -> dict[str, Any]:
    """Return the keywords that tell a loop which column of a table has the images."""
    catalog, _ = read_source(make_source(place, kind=kind))
    schema = catalog.settled.schema
    if (image := schema.image_field) is None:
        raise _no_image(name, list(schema.by_name))
    if catalog.reader.pixels is not None:
        raise _bare_pixels(name)
    return {"image": [image.places[0][0]]}


def _first_samples(shards: ShardSet) -> list[Sample]:
    taken, size = list[Sample](), 0
    with ShardStream(shards.files[0]) as stream:
        try:
            for entry in shards.layout.read(stream):
                taken.append(entry.sample)
                size += entry.size
                if len(taken) == _LOOKED_AT or size >= _MOST_BYTES:
                    break
        except DsprepError:
            if not taken:
                raise
    return taken


def _of_pixels(shards: ShardSet, pixels: RawPixels) -> dict[str, Any]:
    """Return the keywords of bare pixels: their shape, or the features that tell it."""
    sizes = pixels.shape[:3] if pixels.shape else pixels.sizes
    if shards.layout.name != "tfrecord" or len(sizes) != 3:
        raise _bare_pixels(shards.name)
    height, width, channels = sizes
    planes = pixels.type == RAW_CHW
    shape = (channels, height, width) if planes else (height, width, channels)
    return {"image": [pixels.place, planes, *shape]}


def _bare_pixels(name: str) -> SourceError:
    return SourceError(
        f"{name}: its images are bare pixels, which no loop reads here: convert it, such as with "
        "dsprep convert --encode png"
    )


def _no_image(name: str, fields: list[str]) -> SourceError:
    return SourceError(
        f"{name}: its samples have no image to read; fields are {format_some(fields)}: name the "
        "image with dsprep convert --image-field NAME, and measure the result"
    )
