"""The `Job` of a command that writes, and the defaults that depend on the source."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsprep.annotations.objects import APART
from dsprep.dataset.copies import Copies, recorded
from dsprep.declared import words_of
from dsprep.errors import DsprepError, OptionError, SourceError
from dsprep.findings import Reject
from dsprep.formats import ALL_FORMATS, FORMATS
from dsprep.formats.base import NUMBER_IN_NAME, Format
from dsprep.frozen import Frozen
from dsprep.images.augment import FILLS, Augment, parse_ops
from dsprep.images.header import DEFAULT_MAX_PIXELS
from dsprep.images.transform import Transform
from dsprep.moving import Frame
from dsprep.options import require_effect
from dsprep.pipeline import Images, Pipeline
from dsprep.places.names import common_side, side_of_source, usual_side
from dsprep.plan.cut import ShardSize
from dsprep.plan.destination import DEFAULT_NAME, Destination, require_name
from dsprep.plan.image_options import ImageOptions, TransformOptions
from dsprep.plan.options import (
    AppendOptions,
    AugmentOptions,
    ConvertOptions,
    FormatOptions,
    PackOptions,
    ShardOptions,
    WriteOptions,
)
from dsprep.printable import without_secrets
from dsprep.schema import Schema, SettledSchema, idle_names
from dsprep.sources.look import with_sizes
from dsprep.sources.reading import known_kinds
from dsprep.sources.source import Source
from dsprep.storage.files import is_dir
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some

if TYPE_CHECKING:
    import polars as pl

    from dsprep.catalog import Catalog
    from dsprep.workers.executor import Executor

# The options of the commands that write, as the command line has them.
_KINDS: Mapping[str, Sequence[type]] = {
    "pack": (PackOptions, TransformOptions),
    "convert": (ConvertOptions, TransformOptions),
    "augment": (AugmentOptions, TransformOptions),
    "shard": (ShardOptions,),
    "shard append": (AppendOptions,),
}

# Bytes of files that a worker writes of a folder before they are recorded as done.
UNIT_BYTES = 64_000_000


class Base(NamedTuple):
    """The data set to which samples are added."""

    catalog: Catalog  # its samples
    rejects: Sequence[Reject]  # what it has rejected


class Job(Frozen):
    """The options of a command that writes a data set: all that its bytes depend on."""

    command: str  # the name of the command
    given: Mapping[str, Any]  # the options that were given, for messages about those without effect
    source: Source
    destination: Destination
    layout: Format
    images: Images
    size: ShardSize
    name: str  # what names of shards begin with
    key: str = "path"  # `path` or `index`: where keys come from
    seed: int | None = None  # shuffles the samples; None keeps the order of the source
    filter: str | None = None  # an expression that is true for the samples to take; None for all
    filter_table: str | None = None  # a table with more columns for it, or with the column `keep`
    copies: bool = False  # whether encoded samples are copied as they are
    raw: bool = False  # whether samples stay raw: those of the same format, with fields as they are
    schema: Schema | None = None  # the schema of the samples to write; None until it is known
    first_shard: int = 0  # the number of the first shard, after those that are there already
    first_id: int = 0  # what is added to ids, likewise
    # gives each sample of the catalog a side, and says how; None leaves them as they are
    divide: Callable[[Catalog, Executor], tuple[Catalog, Sequence[str]]] | None = field(
        default=None, compare=False
    )
    # the data set to add to, if the samples that it has are left out
    base: Base | None = field(default=None, compare=False)
    augmented: Copies | None = None  # how many copies are augmented; None if none are
    # whether a run that goes on has decided that nothing of the source is missed
    is_decided: bool = field(default=False, compare=False)
    # what a report says of fields that are left out or changed
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def writes_tree(self) -> bool:
        """Whether the output is one tree of files, and what is planned as shards are its pieces."""
        return self.layout.is_tree

    @property
    def selects(self) -> bool:
        """Whether some samples may be left out on purpose."""
        return self.filter is not None or self.filter_table is not None

    def options(self) -> dict[str, Any]:
        """Return the options as a manifest records them: no paths, nothing of this machine."""
        images, readable = self.images, self.images.readable(self.layout)
        options = {
            "format": {"name": self.layout.name, **self.layout.options()},
            "transform": images.transform and images.transform.to_json(),
            "size": self.size.to_json(),
            "single_file": self.destination.single is not None,
            "seed": self.seed,
            "check": images.check,
            "readable": None if readable is None else sorted(readable),
            "max_pixels": images.max_pixels,
            "key": self.key,
        }
        rare = {
            "fields": self.source.choice.options(),
            "keep_fields": sorted(images.keep_fields),
            "annotation_size": images.frame.size,
            "boxes_frame": images.frame.turn,
            "selection": self.selects and {"filter": self.filter, "table": bool(self.filter_table)},
            "versions": self.source.versions and [*self.source.versions],
            "class_order": self.source.class_order == "natural" and self.source.class_order,
            "raw_image": self.source.choice.raw_image,
            "leave_out": [*self.source.leave_out],
            "pixel_columns": self.source.pixel_columns,
            "kind_options": self.source.kind_options,
            "apart": self.destination.apart is not None,
            "copies": self.copies,
            "augment": self.augmented and recorded(images.augment, self.augmented),
        }
        return options | {name: value for name, value in rare.items() if value}

    def words(self) -> list[str]:
        """Return the words after ``dsprep`` of this command; none if no command line says it."""
        given = {"--to": self.given.get("--format"), **self.given}
        if not isinstance(given.get("--classes", ""), str):
            if "--layout" not in given:
                return []  # names are given in Python alone
            given.pop("--classes")  # the layout has the names
        if self.command not in _KINDS or isinstance(given.get("--schema"), Schema):
            return []
        sources: Any = given["--sources"]
        paths = [sources] if isinstance(sources, str | Path) else sources
        for name in ("--part", "--workers"):  # the shards do not depend on these options
            given.pop(name, None)
        places = map(str, (*paths, given["--dest"]))
        kinds = (*_KINDS[self.command], *(each.options for each in known_kinds(self.source).kinds))
        words = (*self.command.split(), *places, *words_of(kinds, given))
        return [*map(without_secrets, words)]

    def placed(self, side: str, name: str) -> str:
        """Return the name that a shard of a side, or an index of them, has below the directory."""
        if not side or not self.layout.divides or self.destination.single:
            return self.destination.shard(name)
        if self.destination.apart is not None:
            raise OptionError(
                f"--apart: {self.layout.name} has a directory for each side; leave it out"
            )
        return f"{side}/{name}"

    def set_name(self, side: str) -> str:
        """Return what the names of the shards of a side begin with; of all, if it is empty."""
        if not side:
            return self.name
        if "--name" not in self.given:
            return side
        is_pattern = NUMBER_IN_NAME.search(self.name) is not None
        parts = (side, self.name) if is_pattern else (self.name, side)
        return "-".join(filter(None, parts))

    def named_after(self, catalog: Catalog) -> Job:
        """Return the job whose shards are called like the one side that all samples are of.

        So no image for validation or test is in a shard that is called ``train``. What chooses the
        samples tells first, then the directory that all lie in, then the source.
        """
        is_free = not (self.destination.single or self.writes_tree or self.size.by_file)
        if "--name" in self.given or not is_free or catalog.sides or self.first_shard:
            return self
        source = self.source
        chosen = filter(None, (source.labels, source.list_file, *source.annotations))
        side = common_side(chosen) or _side_above(catalog.table["path"])
        side = side or common_side((source.root, *source.others))
        is_other = side and usual_side(side) != DEFAULT_NAME
        return replace(self, name=require_name(side)) if is_other else self

    def pipeline(self, catalog: Catalog) -> Pipeline:
        reader = catalog.reader
        if self.raw and reader.reading is not None:
            schema = with_sizes(reader.reading.schema, reader.pixels, reader.table)
            reading = replace(reader.reading, schema=schema, raw=True)
            reader = replace(reader, reading=reading, pixels=None)
        transform = self.images.transform
        reader = replace(reader, quickly=transform is not None and transform.encode != "keep")
        return Pipeline(
            reader.in_frame(self.images.frame.turn),
            catalog.settled.schema,
            self.layout,
            self.images,
            self.key,
            catalog.classes,
            self.copies,
            catalog.overridden,
        )


def _side_above(paths: pl.Series) -> str:
    """Return the directory called like a side that all paths lead through; empty if none."""
    above = ""
    for name in paths[0].split("/")[:-1]:
        above += f"{name}/"
        if side_of_source(name) == name:
            return name if paths.str.starts_with(above).all() else ""
    return ""


def make_layout(name: str, options: FormatOptions, gzip: bool = False) -> Format:
    """Return a format with the options that a user gave."""
    if name not in FORMATS:
        what = "is read and not written; " if name in ALL_FORMATS else ""
        raise OptionError(f"format {name}: {what}choose one of {', '.join(FORMATS)}")
    samples = options if isinstance(options, ImageOptions) else None
    return FORMATS[name]().with_options(
        preset=options.features,
        gzip=gzip,
        compression=options.compression if isinstance(options, WriteOptions) else None,
        header=options.header,
        metadata=samples is not None and samples.metadata,
        order=tuple(options.order),
        prefix=options.prefix if isinstance(options, ConvertOptions) else "",
        reencoded=isinstance(samples, AugmentOptions)
        or bool(getattr(samples, "augment", None) or getattr(samples, "transform", None)),
        keep_crowd=options.crowd == "keep",
        empty=options.empty,
        object_masks=options.object_masks,
        card=options.card,
        license=options.license,
    )


def images_of(options: ImageOptions) -> Images:
    """Return what the options say of images."""
    most = DEFAULT_MAX_PIXELS if options.max_pixels is None else options.max_pixels
    size = options.annotation_size
    if size not in (None, "listed") and re.fullmatch(r"[1-9]\d{0,8}x[1-9]\d{0,8}", size) is None:
        raise OptionError(f"--annotation-size {size}: give WxH, such as 1024x768, or listed")
    frame = Frame(size, options.boxes_frame)
    return Images(options.transform, options.check, most, frozenset(options.keep_fields), frame)


def augmented(job: Job, options: PackOptions | AugmentOptions, ops: Sequence[str]) -> Job:
    """Return a job that also writes augmented copies."""
    if options.key != "path":
        raise OptionError(f"--key {options.key}: the keys of copies are made of those of samples")
    mask_fill = 255 if options.mask_fill is None else options.mask_fill
    if mask_fill > 255:
        raise OptionError(f"--mask-fill {mask_fill}: a class number in a mask is 0 to 255")
    images, told = job.images, job.images.transform
    values = parse_ops(",".join(ops)), options.seed or 0, options.fill or FILLS[0], mask_fill
    made = Augment(*values)
    if told is not None and told.is_copy:  # the option has an effect on copies only
        images = replace(images, transform=None)
        made = replace(made, quality=told.quality, min_visible=told.min_visible)
    asked = Copies(
        *(options.per_image, options.per_class, options.balance),
        *(options.keep_originals, options.any_side),
    )
    # names of samples also give the keys of all samples
    source = job.source.replace(needs_names=True)
    return replace(job, source=source, images=replace(images, augment=made), augmented=asked)


def resolve_defaults(job: Job, catalog: Catalog) -> Job:
    """Fill in what the user left open, now that the source is known; refuse what it rules out."""
    settled, reader = catalog.settled, catalog.reader
    job = _with_schema(job, catalog)
    _require_image(job, catalog)
    _require_pixels_named(job, catalog)
    idle = idle_names("--keep-fields", sorted(job.images.keep_fields), settled.schema)
    job = replace(
        job,
        images=replace(job.images, check=job.images.check or _check_of(job, catalog)),
        size=_size_of(job, catalog),
        notes=(*job.notes, *_lacking_image(job, settled), *idle),
    )
    annotated = catalog.annotated
    require_effect(
        job.command,
        job.given,
        carried=job.size.by_file,
        looks=job.pipeline(catalog).looks,
        labeled=catalog.is_labeled,
        classified=catalog.has_classes,
        annotated=catalog.sizes is not None,
        objects=settled.schema.objects is not None,
        framed=any(each.type in ("objects", "mask") for each in settled.schema.fields),
        shares=annotated is not None and annotated.in_shares,
        boxes_alone=annotated is not None and annotated.boxes_alone,
        marked=job.layout.kept_parts() >= APART,
        copied=job.raw,
        format=job.layout.name,
        images=reader.has_images or settled.schema.image is not None,
        **reader.facts,
    )
    _require_exact_classes(job, catalog)
    return job


def _require_image(job: Job, catalog: Catalog) -> None:
    """Refuse samples that have no image, unless the user accepts that or their kind has none."""
    accepted = job.source.choice.no_image or job.copies or not catalog.reader.has_images
    is_imageless = catalog.imageless and job.augmented is None
    if catalog.settled.schema.image is not None or accepted or is_imageless:
        return
    if not catalog.tells_all:
        raise no_image_error(job.source.root, catalog.settled.schema)
    raise OptionError(
        f"{job.source.root}: holds images and labels; --only and --drop leave no image, and no "
        "sample is without one: keep the field image"
    )


def _require_pixels_named(job: Job, catalog: Catalog) -> None:
    """Refuse a table of pixels whose rows would become samples without an image."""
    keeps_images = job.layout.holds_pixels and job.layout.holds_texts
    has_image = catalog.reader.has_images or catalog.settled.schema.image is not None
    if has_image or job.source.choice.no_image or not keeps_images:
        return
    from dsprep.sources.tables.pixel_columns import likely_pixels  # loads what reads tables

    if pixels := likely_pixels(catalog):
        raise SourceError(f"{job.source.root}: {pixels}")


def _check_of(job: Job, catalog: Catalog) -> str:
    """Return how images are checked if the user does not say it."""
    if job.layout.limits.images is not None:
        return "structure"  # some frameworks stop at a bad image, so check the structure of each
    # Samples of shards were checked when these were written.
    was_checked = not catalog.tells_all and catalog.annotated is None
    return "none" if was_checked else "header"


def _size_of(job: Job, catalog: Catalog) -> ShardSize:
    """Return the size of shards: what was asked for, unless the source or the format decides."""
    if job.writes_tree:
        return ShardSize(target=UNIT_BYTES)
    is_open = replace(job.size, by_file=False) == ShardSize()
    if catalog.lists and job.divide is None and not job.first_shard and is_open:
        return ShardSize(by_file=True)  # each list or file gets shards of its own
    if job.size.by_file and not catalog.keeps_files_together():
        return ShardSize()
    return job.size


def _require_exact_classes(job: Job, catalog: Catalog) -> None:
    """Refuse class numbers that the format would round."""
    limit = job.layout.limits.classes
    if limit is None or catalog.label_column != "cls":
        return
    largest = max(map(abs, catalog.samples_per_class()))
    if largest > limit:
        raise SourceError(
            f"{job.source.root}: the label {largest} is above {limit}, which "
            f"{job.layout.name} cannot hold exactly; choose another format"
        )


def _with_schema(job: Job, catalog: Catalog) -> Job:
    """Choose how samples are made: as others in the data set are, as they lie, or by the format."""
    schema, reader, layout = catalog.settled.schema, catalog.reader, job.layout
    if layout.schema is not None:  # samples are added to a data set, which has a schema
        _require_no_raw_copies(job, layout.schema)
        return replace(job, copies=False, schema=layout.schema)
    # Not a tar of CIFAR, for example, nor samples whose labels a list changes.
    copies = job.copies and reader.can_copy and not catalog.overridden
    # Raw samples have parts of JSON only as a whole, in which facts of images would grow stale.
    in_parts = any(len(place) > 1 for column in schema.fields for place in column.places)
    if _keeps_fields(job, catalog) and (copies or not in_parts):
        schema = with_sizes(schema, reader.pixels, reader.table)
        return replace(
            job, layout=layout.like(reader.table), copies=copies, raw=True, schema=schema
        )
    job = _typed(job, catalog)
    return replace(job, layout=job.layout.of_images(_kind_of_all(job, catalog)))


def _kind_of_all(job: Job, catalog: Catalog) -> str:
    """Return the kind of all images that will be written, as names tell it; empty if it differs."""
    transform, reader = job.images.transform, catalog.reader
    if transform is not None and transform.encode != "keep":
        return transform.encode
    if reader.encodes or reader.pixels is not None:
        return "png"
    parts = catalog.table.select("path").iter_slices()
    # Not as a whole column, which would be copied; the first image of another kind ends it.
    all_png = all(part["path"].str.to_lowercase().str.ends_with(".png").all() for part in parts)
    return "png" if all_png else ""


def _require_no_raw_copies(job: Job, own: Schema) -> None:
    """Refuse to add to bare pixels that were copied, unless the images are made such again."""
    image, made = own.image_field, job.images.transform
    if image is not None and image.kind.is_raw and not (made and made.is_raw):
        raise OptionError(
            f"{job.destination}: its images are bare pixels that were copied, so that dsprep "
            "does not know how others become such: convert it with --encode raw first"
        )


def _keeps_fields(job: Job, catalog: Catalog) -> bool:
    """Return whether samples are of the format already, and nothing changes their fields."""
    schema, reader, layout = catalog.settled.schema, catalog.reader, job.layout
    choice, made, label = job.source.choice, job.images.transform, schema.label_field
    changes = (
        not reader.reads_format(layout.name),
        job.writes_tree,  # the layout of a folder depends on the schema
        choice.rename or choice.cast or choice.label_type or choice.schema,
        catalog.settled.box,
        # the label is a part of a JSON object
        label is not None and len((label.places or ((),))[0]) > 1,
        job.images.moves_fields(schema),
        made is not None and made.is_raw,
        made is not None and reader.pixels is not None,  # bare pixels are made images
        {"--features", "--metadata", "--order"}.intersection(job.given),
        catalog.overridden,
    )
    return not any(changes)


def _typed(job: Job, catalog: Catalog) -> Job:
    """Let the format arrange the fields of the schema."""
    settled, layout = catalog.settled, job.layout
    label = settled.schema.label_field
    schema = with_image_type(settled.schema, job.images.transform, layout)
    if layout.placeholders(Schema(())) and label is not None and label.missing:
        seen, count = settled.samples, settled.counts.get(label.name, 0)
        some = f"{seen - count:,} of {seen:,} samples looked at" if seen else "some samples"
        raise SourceError(
            f"{job.source.root}: {some} have no label, "
            f"and {layout.name} holds none without: {_each_side(job, catalog)}label these, leave "
            f"them out, give --drop {label.name}, or choose another format"
        )
    if "--features" in job.given:
        # fields have the names of the preset, not those of the source
        schema = replace(schema, format="")
    try:
        layout, notes = layout.arranged(schema)
    except DsprepError as error:
        raise type(error)(f"{job.source.root}: {error}") from None
    return replace(job, layout=layout, copies=False, schema=layout.schema, notes=tuple(notes))


def _each_side(job: Job, catalog: Catalog) -> str:
    """Say how to pack directories of sides one by one, as that for tests often has no labels."""
    root, annotated = job.source.root.rstrip("/"), catalog.annotated
    sides = [f"{root}/{side}" for side in catalog.sides]
    if len(sides) < 2 or annotated is None or annotated.sizes is not None:  # noqa: PLR2004
        return ""
    if not all(map(is_dir, sides)):
        return ""
    command = f"dsprep pack {shlex.quote(sides[0])} DEST --to {job.layout.name}"
    others = ", ".join(map(shlex.quote, sides[1:]))
    return f"pack each side by itself, {command}, and likewise {others}; or "


def with_image_type(schema: Schema, transform: Transform | None, layout: Format) -> Schema:
    """Return the schema of samples whose image is encoded, or the bare pixels that a user wants."""
    image, kind = schema.image_field, "image"
    if transform is not None and transform.is_raw:
        kind = transform.encode
        if not layout.holds_pixels:
            names = ", ".join(name for name, each in FORMATS.items() if each.holds_pixels)
            raise OptionError(
                f"--encode {kind}: images in {layout.name} are files that programs decode; choose "
                f"{names}, or --encode png"
            )
    return schema if image is None else schema.with_field(replace(image, type=kind))


def no_image_error(where: str, schema: Schema) -> SourceError:
    """Return the error for whole samples without an image."""
    if not schema.by_name:
        return SourceError(
            f"{where}: its samples have no fields, or all are damaged: `dsprep verify` says which"
        )
    return SourceError(
        f"{where}: its samples have no image; fields are {format_some(list(schema.by_name))}: give "
        "--image-field NAME, or --no-image to accept samples without an image"
    )


def _lacking_image(job: Job, settled: SettledSchema) -> list[str]:
    """Return a note on samples that lack the image that others have."""
    image = settled.schema.image_field
    if image is None or len(image.places) != 1 or job.source.choice.no_image:
        return []
    lack = settled.samples - settled.counts.get(image.name, 0)
    if lack <= 0:
        return []
    others = [column.name for column in settled.schema.others if column.type == "image"]
    besides = f"; further images are {format_some(others)}" if others else ""
    looked_at = format_count(settled.samples, "sample")
    return [f"{lack:,} of {looked_at} looked at without the image {image.name!r}{besides}"]
