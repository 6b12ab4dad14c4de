"""How a row of a catalog becomes a sample: read, check, transform.

This runs in workers, on every sample, and so imports neither polars nor Pillow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from dsprep.errors import BadSample
from dsprep.formats.base import Format
from dsprep.images.check import make_check, require_readable
from dsprep.images.transform import Encoded, Transform, is_turned
from dsprep.planning.fields import FieldChoice
from dsprep.planning.geometry import dependent_fields, refusal, why_not_turned
from dsprep.readers.base import Reader
from dsprep.rows import Rows
from dsprep.sample import UNKNOWN_IMAGE, Sample, Value, image_kind_of, key_of
from dsprep.selecting.copies import key_of_copy

_REPORT_EVERY = 8

Report: TypeAlias = Callable[[int, int], None]
"""Told of samples, and of their bytes, as they are measured."""


@dataclass(frozen=True)
class Recipe:
    """How a row of a catalog becomes an encoded sample.

    Attributes:
        reader: Reads the source.
        layout: The format.
        transform: What is done to images; None copies their bytes.
        check: How images are checked: ``decode``, ``header`` or ``none``.
        readable: The kinds of image that the format's readers decode; None for any.
        max_pixels: The most pixels that an image may have.
        classes: Class names by number.
        key: ``path`` or ``index``: where keys come from; ``path`` keeps those that samples have.
        fields: Which fields are kept.
        keep_fields: The fields that do not depend on the geometry of the image; None if that is
            not to be looked at.
        names: Whether file names are kept that do not follow from keys.
        copies: Whether encoded samples are copied as they are, none of this being done to them.
        told: What whole samples take from their rows: ``label``, ``id``.
    """

    reader: Reader
    layout: Format
    transform: Transform | None
    check: str
    readable: frozenset[str] | None
    max_pixels: int
    classes: tuple[str, ...] | None
    key: str
    fields: FieldChoice = FieldChoice()
    keep_fields: frozenset[str] | None = frozenset()
    names: bool = False
    copies: bool = False
    told: frozenset[str] = frozenset()


class Measured(NamedTuple):
    """What trying a few samples showed.

    Attributes:
        sizes: Bytes of each encoded image, or of each encoded sample where samples are read whole;
            None where the sample would be rejected.
        seconds: How long they took.
        reason: Why the first of those was rejected; empty if none was.
    """

    sizes: list[int | None]
    seconds: float
    reason: str = ""


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
    """Encode a sample; return its bytes, or its image's, or None if it has none.

    Raises:
        BadSample: If it would be rejected.
    """
    if isinstance(sample, BadSample):
        raise sample
    parts = recipe.layout.encode(sample) if recipe.layout.concatenative else []
    if recipe.reader.whole:
        return sum(map(len, parts)) or sum(
            len(value) for value in sample.fields.values() if isinstance(value, bytes)
        )
    image = sample.image()
    return None if image is None else len(image[1])


def make_samples(recipe: Recipe, rows: Rows) -> Iterator[Sample | BadSample]:
    """Read the rows' images, or whole samples, and make of them what is to be written.

    Yields:
        For each row its sample, or the reason why there is none.

    Raises:
        SourceError: If the whole source is gone, which is no reason to reject what was in it.
    """
    make_image = image_maker(recipe)
    finish = sample_finisher(recipe)
    why_spoiled = _spoil_finder(recipe)
    wants = _wanted(recipe)
    classes = recipe.classes if "class" in wants else None
    with_name = "filename" in wants
    keeps_names = recipe.names and bool(recipe.fields.apply({"filename": None}))
    key_from_path = recipe.key == "path"
    labels = rows.labels if rows.labels is not None else [None] * len(rows.ids)
    read = recipe.reader.read(rows)
    if rows.copies is not None:
        yield from _renamed_copies(make_samples(recipe, replace(rows, copies=None)), rows)
        return
    for id, path, label, found in zip(rows.ids, rows.paths, labels, read, strict=True):
        if not isinstance(found, bytes):
            if isinstance(found, Sample) and label is not None and "label" in recipe.told:
                found.fields = with_label(found, label, recipe.classes)
            yield found if isinstance(found, BadSample) else finish(found, path)
            continue
        try:
            kind, data, width, height, lost_frames = make_image(path, found)
        except BadSample as error:
            yield error
            continue
        fields: dict[str, Value] = {kind: data}
        if isinstance(label, int):
            fields["cls"] = label
            if classes:
                fields["class"] = classes[label]
        elif label is not None:
            fields["label"] = label
        if not recipe.fields.is_all:
            fields = recipe.fields.apply(fields)
            if not recipe.fields.apply({kind: data}):
                fields = {kind: data, **fields}  # the plan has judged it by its name
        key = key_of(path) if key_from_path else f"{id:09d}"
        spoiled = why_spoiled(Sample(key, fields), found)
        if spoiled is not None:
            yield spoiled
            continue
        if with_name or (keeps_names and path != f"{key}.{kind}"):
            fields["filename"] = path
        if "width" in wants:
            fields["width"] = width
        if "height" in wants:
            fields["height"] = height
        yield Sample(key, fields, id, lost_frames)


def _wanted(recipe: Recipe) -> frozenset[str]:
    """The fields that the format wants, without those that are left out."""
    return frozenset(name for name in recipe.layout.wants if recipe.fields.apply({name: None}))


ImageMaker: TypeAlias = Callable[[str, bytes], Encoded]
"""From a path and the file's bytes to the image."""


def sample_finisher(recipe: Recipe) -> Callable[[Sample, str], Sample | BadSample]:
    """A function that makes of a sample that was read whole what is to be written of it.

    It takes the sample, and its path for messages, and returns the sample, or why there is none.
    """
    make_image = image_maker(recipe)
    why_spoiled = _spoil_finder(recipe)
    wants, classes = _wanted(recipe), recipe.classes
    sized = bool(wants & {"width", "height"})
    looks_at_images = recipe.transform is not None or recipe.check != "none" or sized

    def finish(sample: Sample, path: str) -> Sample | BadSample:
        if recipe.key == "index":
            sample.key = f"{sample.id:09d}"
            sample.fields.pop("id", None)
        elif "id" not in recipe.told:
            sample.id = _own_id(sample)
        if not recipe.fields.is_all:
            kept = recipe.fields.apply(sample.fields)
            if sample.fields and not kept:
                return BadSample(f"holds {', '.join(sample.fields)}, none of which is kept")
            sample.fields = kept
        if looks_at_images and (image := sample.image()) is not None:
            try:
                kind, data, width, height, sample.lost_frames = make_image(path, image[1])
            except BadSample as error:
                return error
            if kind != image[0] and kind in sample.fields:
                return BadSample(f"holds a field {kind}, which the new image would be, too")
            spoiled = why_spoiled(sample, image[1])
            if spoiled is not None:
                return spoiled
            sample.fields = _with_image(sample.fields, image[0], kind, data)
            for name, size in (("width", width), ("height", height)):
                if name in wants or name in sample.fields:
                    sample.fields[name] = size
        number = sample.fields.get("cls")
        if classes and isinstance(number, int) and 0 <= number < len(classes):
            if "class" in wants:
                sample.fields.setdefault("class", classes[number])
            elif sample.fields.get("class") == classes[number]:
                del sample.fields["class"]  # classes.txt tells it
        return sample

    return finish


def _spoil_finder(recipe: Recipe) -> Callable[[Sample, bytes], BadSample | None]:
    """Return a function that tells why a transform would leave fields of a sample stale.

    It takes the sample with its fields under their new names, and the bytes of its image before the
    transform. A transform that changes the geometry of all images is an OptionError; one that only
    turns some of them upright makes these samples rejects.
    """
    transform, kept = recipe.transform, recipe.keep_fields
    if transform is None or kept is None:
        return lambda sample, data: None
    kept |= {recipe.fields.renamed.get(name, name) for name in kept}

    def why_spoiled(sample: Sample, data: bytes) -> BadSample | None:
        fields = dependent_fields(sample, kept)
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
            sample.key, sample.id = key_of_copy(sample.key, copy), id
            sample.fields.pop("filename", None)
            sample.fields.pop("id", None)
        yield sample


def with_label(
    sample: Sample, label: int | tuple[float, ...], classes: Sequence[str] | None
) -> dict[str, Value]:
    """Return the fields of a sample, with a label in the place of its own.

    Args:
        sample: It stays as it is.
        label: A class number, or numbers.
        classes: The class names; the one of the label replaces the name in the sample.
    """
    own, name = sample.label(), "cls" if isinstance(label, int) else "label"
    named = classes[label] if classes and isinstance(label, int) else None
    old = "cls" if isinstance(own, int) else "label"
    if own is not None and old == name and _numbers(own) == _numbers(label):
        if named is None or "class" not in sample.fields:
            return sample.fields
        return sample.fields | {"class": named}
    fields: dict[str, Value] = {}
    for field, value in sample.fields.items():
        if field == old and own is not None:
            fields[name] = label
        elif field != name:
            fields[field] = value
        if own is None and name not in fields:
            fields[name] = label  # after the image, which is the first
    if "class" in fields:
        del fields["class"]
        if named is not None:
            fields["class"] = named
    return fields


def _numbers(label: int | tuple[float, ...]) -> tuple[float, ...]:
    return (label,) if isinstance(label, int) else label


def _own_id(sample: Sample) -> int:
    """The id that a sample brings along, or has in its key; else the one that it was given."""
    told = sample.fields.get("id")
    if isinstance(told, int):
        return told
    key = sample.key
    is_id = key.isascii() and key.isdecimal() and key == str(int(key[:20])) and len(key) < 20
    return int(key) if is_id else sample.id


def _with_image(fields: dict[str, Value], before: str, kind: str, data: bytes) -> dict[str, Value]:
    """The fields with another image in the place of the one that was there."""
    if kind == before:
        fields[kind] = data
        return fields
    return {
        (kind if name == before else name): (data if name == before else value)
        for name, value in fields.items()
    }


def image_maker(recipe: Recipe) -> ImageMaker:
    """Return a function from a path and the file's bytes to the image."""
    # A width that is to be written has to be read, whatever need not be checked.
    level = "header" if recipe.check == "none" and "width" in recipe.layout.wants else recipe.check
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
