"""What was left open and depends on the source, and what the source rules out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dsprep.errors import DsprepError, OptionError, SourceError
from dsprep.formats.tfrecord import TFRecord
from dsprep.options import require_effect
from dsprep.plan.cuts import ShardSize
from dsprep.plan.packing import Packing
from dsprep.schema import FACTS, LABEL, Schema, Settled
from dsprep.sources.shards import ShardReader
from dsprep.units import format_count, format_some

if TYPE_CHECKING:
    from dsprep.catalog import Catalog

_UNIT = 64_000_000
"""Bytes of files that a worker writes of a folder before they are noted as done."""


def settle(packing: Packing, catalog: Catalog) -> tuple[Packing, list[str]]:
    """Return what was asked for, with all that was left open and depends on the source."""
    assert catalog.settled is not None
    schema = catalog.settled.schema
    packing, notes = _arranged(packing, catalog, schema)
    _require_image(packing, catalog)
    notes += _without_image(packing, catalog.settled)
    check, size = packing.check, packing.size
    if check is None:
        # A reader that dies of an image must not get it. What is whole already is not judged again.
        guarded = packing.layout.readable_images is not None
        check = "decode" if guarded else "none" if catalog.reader.whole else "header"
    if size.by_file and not (catalog.reader.whole and catalog.keeps_files_together()):
        size = ShardSize()
    if packing.layout.is_tree:
        size = ShardSize(target=_UNIT)
    written = packing.layout.schema.by_name if packing.layout.schema else {}
    looks = packing.transform is not None or check != "none" or not FACTS.isdisjoint(written)
    require_effect(
        packing.command,
        packing.given,
        carried=size.by_file,
        looks=looks,
        labeled=catalog.is_labeled,
        image_files=not catalog.reader.whole,
        format=packing.layout.name,
        tfrecords=catalog.reader.whole and catalog.reader.table.name == TFRecord.name,
    )
    _require_exact_labels(packing, catalog)
    return replace(packing, check=check, size=size), notes


def _require_image(packing: Packing, catalog: Catalog) -> None:
    assert catalog.settled is not None
    schema, choice, root = catalog.settled.schema, packing.source.choice, packing.source.root
    if schema.image is not None or choice.no_image or packing.copies:
        return
    if not catalog.reader.whole:
        raise OptionError(
            f"{root}: holds images and labels; --only and --drop leave no image, and no sample is "
            "without one: keep the field image"
        )
    raise SourceError(
        f"{root}: its samples have no image; fields are {format_some(list(schema.by_name))}: give "
        "--image-field NAME, or --no-image if samples are to have none"
    )


def _without_image(packing: Packing, settled: Settled) -> list[str]:
    """Say that samples of the look lack the image that others have."""
    image = settled.schema.image_field
    if image is None or len(image.places) != 1 or packing.source.choice.no_image:
        return []
    lack = settled.samples - settled.counts.get(image.name, 0)
    if lack <= 0:
        return []
    others = [each.name for each in settled.schema.others if each.type == "image"]
    besides = f"; further images are {format_some(others)}" if others else ""
    looked_at = format_count(settled.samples, "sample")
    return [f"{lack:,} of {looked_at} looked at without the image {image.name!r}{besides}"]


def _arranged(packing: Packing, catalog: Catalog, schema: Schema) -> tuple[Packing, list[str]]:
    """Choose how samples are made: copied, raw, or by the schema of the format."""
    reader, choice = catalog.reader, packing.source.choice
    if packing.layout.schema is not None:  # that of the data set to which samples are added
        return replace(packing, copies=False, schema=packing.layout.schema), []
    same = reader.whole and reader.table.name == packing.layout.name
    asked = {"--features", "--metadata"}.intersection(packing.given) or catalog.told
    in_json = schema.label_field is not None and len((schema.label_field.places or ((),))[0]) > 1
    is_asked = bool(asked or choice.rename or choice.label_type or choice.schema or in_json)
    # Not a tar of CIFAR, say, nor samples whose labels a list changes.
    copies = packing.copies and isinstance(reader, ShardReader) and not catalog.told
    # Raw samples have parts of JSON only as a whole, in which facts of images would grow stale.
    in_parts = any(len(place) > 1 for each in schema.fields for place in each.places)
    if same and not is_asked and (copies or not in_parts):
        layout = packing.layout.like(reader.table)
        return replace(packing, layout=layout, copies=copies, raw=True, schema=schema), []
    label = schema.label_field
    if LABEL in packing.layout.required and label is not None and label.missing:
        assert catalog.settled is not None
        seen, count = catalog.settled.samples, catalog.settled.counts.get(label.name, 0)
        raise SourceError(
            f"{packing.source.root}: {seen - count:,} of {seen:,} samples looked at have no label, "
            f"and {packing.layout.name} holds none without: label these, leave them out, give "
            f"--drop {label.name}, or choose another format"
        )
    if "--features" in packing.given:
        schema = replace(schema, format="")  # its names are those of the preset, not the source's
    try:
        layout, notes = packing.layout.arranged(schema)
    except DsprepError as error:
        raise type(error)(f"{packing.source.root}: {error}") from None
    return replace(packing, layout=layout, copies=False, schema=layout.schema), notes


def _require_exact_labels(packing: Packing, catalog: Catalog) -> None:
    """Refuse class numbers that the format cannot hold exactly."""
    limit = packing.layout.max_class
    if limit is not None and catalog.label_column == "cls":
        largest = max(map(abs, catalog.samples_per_class()))
        if largest > limit:
            raise SourceError(
                f"{packing.source.root}: the label {largest} is above {limit}, which "
                f"{packing.layout.name} cannot hold exactly; choose another format"
            )


def idle_keep_fields(packing: Packing, schema: Schema) -> Sequence[str]:
    """Say which fields ``--keep-fields`` names that samples do not have."""
    unknown = sorted(name for name in packing.keep_fields if schema.named(name) is None)
    which = "this field" if len(unknown) == 1 else "these"
    return [f"--keep-fields {','.join(unknown)}: no sample has {which}"] if unknown else []
