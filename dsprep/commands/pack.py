"""``pack``: images in; sized, checked, reproducible shards out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsprep.arguments import AnyPath, public
from dsprep.commands.write import WriteReport, require_one_of, shard_size, write_data_set
from dsprep.images.check import DEFAULT_MAX_PIXELS, LEVELS
from dsprep.images.transform import Transform
from dsprep.options import given_options, require_effect
from dsprep.plan.destination import (
    DEFAULT_NAME,
    parse_destination,
    require_name,
    take_sources,
)
from dsprep.plan.geometry import kept_fields
from dsprep.plan.layouts import make_layout
from dsprep.plan.packing import Packing
from dsprep.progress import Progress
from dsprep.schema import Schema
from dsprep.sources.reading import make_choice, make_source
from dsprep.units import parse_size


@public
def pack(
    source: AnyPath | Sequence[AnyPath],
    dest: AnyPath,
    *,
    parts: bool = False,
    pairs: Mapping[str, str] | None = None,
    kind: str | None = None,
    list_file: AnyPath | None = None,
    labels: AnyPath | None = None,
    path_column: str | None = None,
    label_columns: Sequence[str] = (),
    label_separator: str | None = None,
    label_type: str | None = None,
    duplicates: str | None = None,
    classes: AnyPath | None = None,
    class_order: str | None = None,
    extensions: Sequence[str] = (),
    format: str | None = None,
    target_size: int | str | None = None,
    shards: int | None = None,
    samples_per_shard: int | None = None,
    name: str | None = None,
    compression: str | None = None,
    features: str | None = None,
    metadata: bool = False,
    image_field: str | None = None,
    label_field: str | None = None,
    only: Sequence[str] = (),
    drop: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    schema: Schema | AnyPath | None = None,
    schema_out: AnyPath | None = None,
    look: str | None = None,
    no_image: bool = False,
    keep_fields: Sequence[str] = (),
    key: str = "path",
    transform: Transform | None = None,
    seed: int | None = 0,
    check: str | None = None,
    max_pixels: int | None = None,
    max_errors: int | None = None,
    on_error: str = "skip",
    overwrite: bool = False,
    dry_run: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> WriteReport:
    """Pack images into shards.

    Args:
        source: The directory that holds the images; each directory in it is a class. Or anything
            else that samples are read from, also several of these.
        dest: A directory for the shards, or one file: ``train.tar``, ``train.rec``,
            ``train.tfrecord``; either may be on S3: ``s3://bucket/shards/``.
        parts: Whether files that share a stem are one sample.
        pairs: Patterns of files, by the field that they are: those that match alike are one sample.
        kind: What the source is, where that does not show; see :mod:`dsprep.sources.kinds`.
        list_file: An MXNet ``.lst`` that tells which samples to pack, and their labels.
        labels: A CSV or TSV file that tells the same.
        path_column: Its column of paths or ids.
        label_columns: Its columns of labels.
        label_separator: Separates several labels in a cell of that column.
        label_type: ``class``, ``multi``, ``float`` or ``text``: what the labels are, where that is
            not clear.
        duplicates: ``error``, ``first`` or ``keep``: what to do if a list or a table names an image
            again; ``error`` unless given.
        classes: A file with the class names, one a line, in the order of their numbers.
        class_order: How class names are put in the order of their numbers otherwise: ``name``, or
            ``natural``, in which numbers in names count as numbers.
        extensions: File name extensions of images.
        format: ``webdataset``, ``tfrecord`` or ``recordio``; may be left out for a single file.
        target_size: The most bytes that a shard takes on disk; a number, or a text like ``200MB``.
        shards: Or, how many shards.
        samples_per_shard: Or, how many samples in each.
        name: What shard names begin with; ``train`` by default.
        compression: ``gzip`` compresses TFRecord shards; ``none`` is the default.
        features: The preset of feature names for TFRecord.
        metadata: Whether to write class, filename, width and height into WebDataset shards.
        image_field: The field that is the image, where several may be.
        label_field: The field that is the label; ``json.label`` is a part of the field ``json``.
        only: The fields to keep; none means all. ``image`` and ``label`` are those of these roles.
        drop: The fields to leave out.
        rename: New names of fields by old ones.
        schema: The schema of the source, or a file of it, instead of a look at samples.
        schema_out: A file to write the schema of the source to.
        look: ``all`` looks at all samples before the schema is settled, rather than at some.
        no_image: Whether samples are to have no image.
        keep_fields: The fields that do not depend on the geometry of the image, so that a transform
            may change that without them.
        key: ``path`` or ``index``: what keys are made from.
        transform: What to do to the images; None copies them.
        seed: The samples are shuffled by it; None keeps the source's order.
        check: ``decode``, ``header`` or ``none``; by default ``header``, and ``decode`` for
            RecordIO.
        max_pixels: Images with more are rejected; 178,956,970 by default.
        max_errors: Stop when more samples than this are rejected.
        on_error: ``skip`` rejects a bad sample and goes on, ``fail`` stops.
        overwrite: Replace what is at the destination.
        dry_run: Plan, and write nothing.
        workers: How many processes; by default the cores that this process may use.
        progress: Is told how far the run is.

    Returns:
        What was done.

    Raises:
        OptionError: If the arguments make no sense.
        SourceError: If the source cannot be packed.
        DestinationError: If the destination refuses.
        RunStopped: If it ended early; calling again goes on.
    """
    given = given_options(locals())
    first, others = take_sources(source, dest)
    destination, format_name = parse_destination(dest, format)
    require_effect("pack", given, format=format_name, **destination.facts())
    target = None if target_size is None else parse_size(target_size)
    size = shard_size(destination.single, target, shards, samples_per_shard)
    require_one_of("--compression", compression, (None, "none", "gzip"))
    require_one_of("--on-error", on_error, ("skip", "fail"))
    require_one_of("--check", check, (*LEVELS, None))
    require_one_of("--key", key, ("path", "index"))
    layout = make_layout(
        format_name,
        gzip=compression == "gzip" or destination.is_gzip,
        features=features,
        metadata=metadata,
    )
    packing = Packing(
        source=make_source(
            first,
            others=others,
            list_file=list_file,
            labels=labels,
            path_column=path_column,
            label_columns=label_columns,
            label_separator=label_separator,
            label_type=label_type,
            duplicates=duplicates,
            classes=classes,
            class_order=class_order,
            extensions=extensions,
            parts=parts,
            pairs=pairs,
            kind=kind,
            whole=layout.class_names_in == "header",
            features=None if format_name == "tfrecord" else features,
            choice=make_choice(
                image_field=image_field,
                label_field=label_field,
                label_type=label_type,
                only=only,
                drop=drop,
                rename=rename,
                schema=schema,
                look=look,
                no_image=no_image,
            ),
        ),
        destination=destination,
        layout=layout,
        transform=transform,
        size=size,
        name=destination.stem or require_name(DEFAULT_NAME if name is None else name),
        seed=seed,
        check=check,
        readable=layout.readable_images if check != "none" else None,
        max_pixels=DEFAULT_MAX_PIXELS if max_pixels is None else max_pixels,
        key=key,
        given=given,
        command="pack",
        keep_fields=kept_fields(keep_fields),
    )
    return write_data_set(
        packing,
        done="packed",
        schema_out=schema_out,
        max_errors=max_errors,
        on_error=on_error,
        overwrite=overwrite,
        dry_run=dry_run,
        workers=workers,
        progress=progress,
    )
