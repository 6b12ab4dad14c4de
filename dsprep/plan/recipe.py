"""How a row of a catalog becomes a sample to write: read, check, transform.

This runs in workers, on every sample, and so imports neither polars nor Pillow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from dsprep.errors import BadSample
from dsprep.formats.base import Format
from dsprep.images.check import make_check, require_readable
from dsprep.images.transform import FACTS_OF, Encoded, Transform, is_turned
from dsprep.plan.copies import key_of_copy
from dsprep.plan.geometry import dependent_fields, label_depends, refusal, why_not_turned
from dsprep.rows import Reader, Rows
from dsprep.sample import (
    UNKNOWN_IMAGE,
    Blobs,
    Ints,
    Sample,
    Value,
    image_kind_of,
    key_of,
)
from dsprep.schema import FACTS, TYPES, Field, Schema

_REPORT_EVERY = 8

Report: TypeAlias = Callable[[int, int], None]
"""Told of samples, and of their bytes, as they are measured."""


@dataclass(frozen=True)
class Recipe:
    """How a row of a catalog becomes an encoded sample."""

    reader: Reader  # reads the source, as samples of its schema or, within a format, as raw ones
    schema: Schema  # the schema of the source
    layout: Format  # the format
    transform: Transform | None  # what is done to images; None copies their bytes
    check: str  # how images are checked: `decode`, `header` or `none`
    # the kinds of image that the format's readers decode; None for any
    readable: frozenset[str] | None
    max_pixels: int  # the most pixels that an image may have
    classes: tuple[str, ...] | None  # class names by number
    key: str  # `path` or `index`: where keys come from; `path` keeps those that samples have
    # the fields that do not depend on the geometry of the image; None if that is not to be looked
    # at
    keep_fields: frozenset[str] | None = frozenset()
    # whether encoded samples are copied as they are, none of this being done to them
    copies: bool = False
    told: frozenset[str] = frozenset()  # what whole samples take from their rows: `label`, `id`


class Measured(NamedTuple):
    """What trying a few samples showed."""

    # bytes of each encoded image, or of each encoded sample where samples are read whole; None
    # where the sample would be rejected
    sizes: list[int | None]
    seconds: float  # how long they took
    reason: str = ""  # why the first of those was rejected; empty if none was


def measure(task: tuple[Recipe, Rows], report: Report) -> Measured:
    """Make some samples, write nothing."""
    recipe, rows = task
    began = time.perf_counter()
    sizes: list[int | None] = []
    told = 0
    reason = ""
    for sample in make_samples(recipe, rows):
        try:
            sizes.append(_image_size(recipe, sample))
        except BadSample as error:
            sizes.append(None)
            reason = reason or str(error)
        if len(sizes) - told == _REPORT_EVERY:
            report(_REPORT_EVERY, sum(filter(None, sizes[told:])))
            told = len(sizes)
    report(len(sizes) - told, sum(filter(None, sizes[told:])))
    return Measured(sizes, time.perf_counter() - began, reason)


def _image_size(recipe: Recipe, sample: Sample | BadSample) -> int | None:
    """Encode a sample; return its bytes, or its image's, or None if it has none."""
    if isinstance(sample, BadSample):
        raise sample
    parts = recipe.layout.encode(sample) if recipe.layout.concatenative else []
    if recipe.reader.whole:
        return sum(map(len, parts)) or sum(
            len(value) for value in sample.fields.values() if isinstance(value, bytes)
        )
    return None if sample.image is None else len(sample.fields[sample.image])


def make_samples(recipe: Recipe, rows: Rows) -> Iterator[Sample | BadSample]:
    """Read the rows' images, or whole samples, and make of them what is to be written."""
    if rows.copies is not None:
        yield from _renamed_copies(make_samples(recipe, replace(rows, copies=None)), rows)
        return
    finish = sample_finisher(recipe)
    label_of = _label_maker(recipe)
    image_name, label_name = recipe.schema.image or "image", recipe.schema.label
    labels = rows.labels if rows.labels is not None else [None] * len(rows.ids)
    read = recipe.reader.read(rows)
    takes_label = "label" in recipe.told and label_name is not None
    for id, path, label, found in zip(rows.ids, rows.paths, labels, read, strict=True):
        if isinstance(found, BadSample):
            yield found
            continue
        if isinstance(found, bytes):
            sample = Sample(key_of(path), {image_name: found}, id, path, image_name)
        else:
            sample = found
        if label is not None and label_name and (takes_label or isinstance(found, bytes)):
            sample.fields[label_name], sample.class_name = label_of(label)
        yield finish(sample, path)


def _label_maker(recipe: Recipe) -> Callable[[Any], tuple[Value, str | None]]:
    """Return a function from the label of a row to the value of the field and its class name."""
    column = recipe.schema.label_field
    kind, classes = column.type if column else "", recipe.classes or ()

    def label_of(label: Any) -> tuple[Value, str | None]:
        if isinstance(label, int):
            name = classes[label] if 0 <= label < len(classes) else None
            return (name if kind == "text" else label), name
        return (label if kind.startswith("list") else label[0]), None

    return label_of


ImageMaker: TypeAlias = Callable[[str, bytes], Encoded]
"""From a path and the file's bytes to the image."""


def sample_finisher(recipe: Recipe) -> Callable[[Sample, str], Sample | BadSample]:
    """Return a function that makes of a sample that was read what is to be written of it.

    It takes the sample, and its path for messages, and returns the sample, or why there is none.
    """
    make_image = image_maker(recipe)
    why_spoiled = _spoil_finder(recipe)
    renew = _fact_maker(recipe)
    by_index = recipe.key == "index"
    keeps_id = "id" in recipe.told or not recipe.reader.whole
    looks = recipe.transform is not None or recipe.check != "none" or bool(_facts_of(recipe.layout))
    # An image that lies in a file has the kind that its bytes say, whatever its name says.
    looks = looks or not recipe.reader.whole

    def finish(sample: Sample, path: str) -> Sample | BadSample:
        if by_index:
            sample.key, sample.path = f"{sample.id:09d}", ""
        elif not keeps_id:
            sample.id = _own_id(sample)
        if not looks or sample.image is None:
            return sample
        data = _bytes_of(sample.fields[sample.image])
        try:
            image = make_image(path, data)
        except BadSample as error:
            return error
        spoiled = why_spoiled(sample, data)
        if spoiled is not None:
            return spoiled
        if image.data is not data:
            _replace_image(sample, image, recipe.layout)
        sample.lost_frames = image.lost_frames
        renew(sample, image)
        return sample

    return finish


def _replace_image(sample: Sample, image: Encoded, layout: Format) -> None:
    """Put another image in the place of the one that was there."""
    assert sample.image is not None
    before = sample.image
    after = before if layout.schema is not None else layout.renamed_image(before, image.kind)
    value = _with_bytes(sample.fields[before], image.data)
    if after == before:
        sample.fields[before] = value
    else:
        sample.fields = {
            (after if name == before else name): (value if name == before else other)
            for name, other in sample.fields.items()
        }
        sample.image = after


def _bytes_of(value: Value) -> bytes:
    """Return the bytes of an image, typed or raw."""
    if isinstance(value, dict):
        value = value["bytes"]
    data: bytes = value[0] if isinstance(value, Blobs) else value
    return data


def _with_bytes(value: Value, data: bytes) -> Value:
    """Return a value like another one that holds other bytes."""
    if isinstance(value, dict):
        return value | {"bytes": data}
    return Blobs((data,)) if isinstance(value, Blobs) else data


def _facts_of(layout: Format) -> frozenset[str]:
    """Return the facts of images that samples of a layout have."""
    return FACTS.intersection(layout.schema.by_name) if layout.schema is not None else frozenset()


def _fact_maker(recipe: Recipe) -> Callable[[Sample, Encoded], None]:
    """Return a function that sets the facts of an image: all after a transform, else what lacks."""
    layout, is_new = recipe.layout, recipe.transform is not None
    typed = _facts_of(layout)
    if layout.schema is None and not is_new:
        return lambda sample, image: None

    def renew(sample: Sample, image: Encoded) -> None:
        if layout.schema is not None:
            for name in typed:
                if is_new or name not in sample.fields:
                    value = FACTS_OF[name](image)
                    own = recipe.schema.by_name.get(name)
                    if value is not None and (own is None or name in sample.fields):
                        sample.fields[name] = value
            return
        for raw, value in sample.fields.items():
            name = layout.fact_of(raw)
            if name and (fact := FACTS_OF[name](image)) is not None:
                sample.fields[raw] = _as_raw(fact, value)

    return renew


def _as_raw(fact: int | str, before: Value) -> Value:
    """Return a fact as a raw value of the kind that was there before."""
    if isinstance(before, Ints) and isinstance(fact, int):
        return Ints((fact,))
    if isinstance(before, Blobs):
        return Blobs((str(fact).encode(),))
    return str(fact).encode() if isinstance(before, bytes) else fact


def dependents_finder(recipe: Recipe) -> Callable[[Sample], list[str]]:
    """Return a function that names the fields of a sample that may depend on geometry."""
    schema, label, layout = recipe.schema, recipe.schema.label_field, recipe.layout
    kept = {found.name for name in recipe.keep_fields or () if (found := schema.named(name))}
    judged = kept | FACTS | {schema.label}

    def name_of(raw: str) -> str:
        if layout.schema is not None:
            return raw
        found = schema.by_place.get((raw,)) or schema.by_place.get((layout.place_of(raw),))
        return found.name if found else raw

    def dependents(sample: Sample) -> list[str]:
        fields = [name for raw in dependent_fields(sample) if (name := name_of(raw)) not in judged]
        if label is not None and label.name not in kept:
            values = (value for raw, value in sample.fields.items() if name_of(raw) == label.name)
            if any(label_depends(_label_of(label, value)) for value in values):
                fields.append(label.name)
        return fields

    return dependents


def _label_of(label: Field, value: Value) -> Value | None:
    """Return a label as its type has it; None if it has none, which writing it finds out."""
    try:
        return TYPES[label.type].convert(value)
    except (ValueError, TypeError):
        return None


def _spoil_finder(recipe: Recipe) -> Callable[[Sample, bytes], BadSample | None]:
    """Return a function that tells why a transform would leave fields of a sample stale.

    It takes the sample, and the bytes of its image before the transform. A transform that changes
    the geometry of all images is an OptionError; one that only turns some of them upright makes
    these samples rejects.
    """
    transform = recipe.transform
    if transform is None or recipe.keep_fields is None:
        return lambda sample, data: None
    dependents = dependents_finder(recipe)

    def why_spoiled(sample: Sample, data: bytes) -> BadSample | None:
        fields = dependents(sample)
        if not fields:
            return None
        if transform.moves:
            which = f"as in the sample {sample.key!r}"
            raise refusal(transform.moving_option, dict.fromkeys(fields, which))
        return BadSample(why_not_turned(fields)) if is_turned(data) else None

    return why_spoiled


def _renamed_copies(
    samples: Iterator[Sample | BadSample], rows: Rows
) -> Iterator[Sample | BadSample]:
    """Give the copies of a sample keys and ids of their own, and no name that is not theirs."""
    assert rows.copies is not None
    for sample, copy, id in zip(samples, rows.copies, rows.ids, strict=True):
        if copy and isinstance(sample, Sample):
            sample.key, sample.id, sample.path = key_of_copy(sample.key, copy), id, ""
        yield sample


def _own_id(sample: Sample) -> int:
    """Return the id that a sample has in its key; else the one that it was given."""
    key = sample.key
    is_id = key.isascii() and key.isdecimal() and key == str(int(key[:20])) and len(key) < 20
    return int(key) if is_id else sample.id


def image_maker(recipe: Recipe) -> ImageMaker:
    """Return a function from a path and the file's bytes to the image."""
    # A width that is to be written has to be read, whatever need not be checked.
    needs_header = recipe.check == "none" and bool(_facts_of(recipe.layout))
    level = "header" if needs_header else recipe.check
    check = make_check(level, readable=recipe.readable, max_pixels=recipe.max_pixels)
    transform = recipe.transform

    def unchecked(path: str, data: bytes) -> Encoded:
        return Encoded(image_kind_of(path) or UNKNOWN_IMAGE, data, 0, 0)

    def checked(path: str, data: bytes) -> Encoded:
        header = check(data)
        return Encoded(header.kind, data, header.width, header.height)

    def transformed(path: str, data: bytes) -> Encoded:
        assert transform is not None
        image = transform.apply(data, recipe.max_pixels)
        require_readable(image.kind, recipe.readable)
        return image

    if transform is not None:
        return transformed
    return unchecked if level == "none" else checked
