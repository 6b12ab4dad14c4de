"""``convert``: samples from any format to any other, without loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dsprep.arguments import AnyPath, public
from dsprep.commands.write import WriteReport, require_one_of, shard_size, write_data_set
from dsprep.images.check import DEFAULT_MAX_PIXELS, LEVELS
from dsprep.images.transform import Transform
from dsprep.options import given_options, require_effect
from dsprep.plan.cuts import ShardSize
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
def convert(
    sources: AnyPath | Sequence[AnyPath],
    dest: AnyPath,
    *,
    to: str | None = None,
    kind: str | None = None,
    parts: bool = False,
    pairs: Mapping[str, str] | None = None,
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
    features: str | None = None,
    metadata: bool = False,
    prefix: str = "",
    compression: str | None = None,
    target_size: int | str | None = None,
    shards: int | None = None,
    samples_per_shard: int | None = None,
    name: str | None = None,
    key: str = "path",
    transform: Transform | None = None,
    check: str | None = None,
    max_pixels: int | None = None,
    max_errors: int | None = None,
    on_error: str = "skip",
    overwrite: bool = False,
    dry_run: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> WriteReport:
    """Convert samples to another format.

    Shards become one shard each, with their names, in their order, unless a size is given; anything
    else becomes shards of the usual size.

    Args:
        sources: Shards (a file, a pattern, a directory, a manifest; also several of these), or
            anything that :func:`dsprep.pack` takes.
        dest: A directory, or one file; either may be on S3: ``s3://bucket/shards/``.
        to: The format to write; may be left out for a single file.
        kind: What the sources are, where that does not show; see :mod:`dsprep.sources.kinds`.
        parts: Whether files that share a stem are one sample.
        pairs: Patterns of files, by the field that they are: those that match alike are one sample.
        list_file: As for :func:`dsprep.pack`.
        labels: As for :func:`dsprep.pack`.
        path_column: As for :func:`dsprep.pack`.
        label_columns: As for :func:`dsprep.pack`.
        label_separator: As for :func:`dsprep.pack`.
        label_type: As for :func:`dsprep.pack`.
        duplicates: As for :func:`dsprep.pack`.
        classes: As for :func:`dsprep.pack`.
        class_order: As for :func:`dsprep.pack`.
        extensions: As for :func:`dsprep.pack`.
        image_field: As for :func:`dsprep.pack`.
        label_field: As for :func:`dsprep.pack`.
        only: As for :func:`dsprep.pack`.
        drop: As for :func:`dsprep.pack`.
        rename: As for :func:`dsprep.pack`.
        schema: As for :func:`dsprep.pack`.
        schema_out: As for :func:`dsprep.pack`.
        look: As for :func:`dsprep.pack`.
        no_image: As for :func:`dsprep.pack`.
        keep_fields: As for :func:`dsprep.pack`.
        features: The preset of feature names for TFRecord.
        metadata: Whether to write class, filename, width and height into WebDataset shards.
        prefix: What the references of an augmented manifest begin with: ``s3://bucket/path/``.
        compression: ``gzip`` compresses TFRecord shards; ``none`` is the default.
        target_size: The most bytes that a shard takes on disk; a number, or a text like ``200MB``.
        shards: Or, how many shards.
        samples_per_shard: Or, how many samples in each.
        name: What shard names begin with, where they are not carried over; ``train`` by default.
        key: ``path`` keeps the samples' keys, ``index`` makes new ones from their numbers.
        transform: What to do to the images; None copies them.
        check: ``decode``, ``header`` or ``none``; by default ``none`` for shards, ``header`` for
            image files, and ``decode`` for whatever goes to RecordIO.
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
        OptionError: If the arguments make no sense, or the format cannot hold all fields.
        SourceError: If the sources cannot be read.
        DestinationError: If the destination refuses.
        RunStopped: If it ended early; calling again goes on.
    """
    given = given_options(locals())
    first, others = take_sources(sources, dest)
    destination, format_name = parse_destination(dest, to)
    require_effect("convert", given, format=format_name, **destination.facts())
    require_one_of("--compression", compression, (None, "none", "gzip"))
    require_one_of("--on-error", on_error, ("skip", "fail"))
    require_one_of("--check", check, (*LEVELS, None))
    require_one_of("--key", key, ("path", "index"))
    target = None if target_size is None else parse_size(target_size)
    size = shard_size(destination.single, target, shards, samples_per_shard)
    layout = make_layout(
        format_name,
        gzip=compression == "gzip" or destination.is_gzip,
        features=features,
        metadata=metadata,
        prefix=prefix,
        reencoded=transform is not None,
    )
    packing = Packing(
        source=make_source(
            first,
            others=others,
            kind=kind,
            parts=parts,
            pairs=pairs,
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
        size=ShardSize(by_file=True) if size == ShardSize() else size,
        name=destination.stem or require_name(DEFAULT_NAME if name is None else name),
        seed=None,
        check=check,
        readable=layout.readable_images if check != "none" else None,
        max_pixels=DEFAULT_MAX_PIXELS if max_pixels is None else max_pixels,
        key=key,
        given=given,
        command="convert",
        keep_fields=kept_fields(keep_fields),
        copies=transform is None and _is_plain(given, check, key),
    )
    return write_data_set(
        packing,
        done="converted",
        schema_out=schema_out,
        max_errors=max_errors,
        on_error=on_error,
        overwrite=overwrite,
        dry_run=dry_run,
        workers=workers,
        progress=progress,
    )


def _is_plain(given: Mapping[str, Any], check: str | None, key: str) -> bool:
    """Return whether encoded samples of the same format can be copied as they are."""
    changes = {"--features", "--metadata", "--only", "--drop", "--rename"}
    changes |= {"--label-type", "--schema"}
    return not changes.intersection(given) and check in (None, "none") and key == "path"
