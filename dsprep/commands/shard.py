"""``shard``: cut a data set again, shuffle it, take a part of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dsprep.arguments import AnyPath, public
from dsprep.commands.write import WriteReport, require_one_of, shard_size, write_data_set
from dsprep.errors import OptionError, SourceError
from dsprep.formats import CONCATENATIVE
from dsprep.images.check import DEFAULT_MAX_PIXELS
from dsprep.options import given_options, require_effect
from dsprep.plan.destination import (
    DEFAULT_NAME,
    parse_destination,
    require_name,
    take_sources,
)
from dsprep.plan.layouts import make_layout
from dsprep.plan.packing import Packing
from dsprep.plan.selection import Selection
from dsprep.progress import Progress
from dsprep.schema import Schema
from dsprep.sources.archive import require_there
from dsprep.sources.kinds import shards_of
from dsprep.sources.reading import Source, make_choice, make_source
from dsprep.sources.shardset import require_no_index
from dsprep.units import parse_size


@public
def shard(
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
    target_size: int | str | None = None,
    shards: int | None = None,
    samples_per_shard: int | None = None,
    multiple_of: int | None = None,
    name: str | None = None,
    compression: str | None = None,
    features: str | None = None,
    image_field: str | None = None,
    label_field: str | None = None,
    only: Sequence[str] = (),
    drop: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    schema: Schema | AnyPath | None = None,
    schema_out: AnyPath | None = None,
    look: str | None = None,
    no_image: bool = False,
    shuffle: bool = False,
    seed: int | None = None,
    filter: str | None = None,
    filter_table: AnyPath | None = None,
    balance: str | None = None,
    oversample: bool = False,
    key: str = "path",
    max_errors: int | None = None,
    on_error: str = "skip",
    overwrite: bool = False,
    dry_run: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> WriteReport:
    """Cut samples into shards of another size, in another order, or a part of them.

    In the format that they have, encoded samples are copied as they are, without being parsed.

    Args:
        sources: Shards (a file, a pattern, a directory, a manifest; also several of these), or
            anything that :func:`dsprep.pack` takes.
        dest: A directory, or one file; either may be on S3: ``s3://bucket/shards/``.
        to: The format to write; by default that of the shards.
        kind: What the sources are, where that does not show; see :mod:`dsprep.sources.kinds`.
        parts: Whether files that share a stem are one sample.
        pairs: Patterns of files, by the field that they are: those that match alike are one sample.
        list_file: An MXNet ``.lst``, or an augmented manifest, of images below the source.
        labels: A CSV or TSV file that tells images below the source and their labels.
        path_column: Its column of paths or ids; found by its name unless given.
        label_columns: Its columns of labels; one is found by its name unless given.
        label_separator: As for :func:`dsprep.pack`.
        label_type: As for :func:`dsprep.pack`.
        duplicates: As for :func:`dsprep.pack`.
        classes: A file with the class names, one a line, in the order of their numbers.
        class_order: How class names are put in the order of their numbers otherwise: ``name``, or
            ``natural``, in which numbers in names count as numbers.
        extensions: File name extensions of images.
        target_size: The most bytes that a shard takes on disk; a number, or a text like ``200MB``.
        shards: Or, how many shards.
        samples_per_shard: Or, how many samples in each.
        multiple_of: Make the number of shards a multiple of this, so that each of so many readers
            gets as many, of about as many bytes.
        name: What shard names begin with; ``train`` by default.
        compression: ``gzip`` compresses TFRecord shards; ``none`` is the default.
        features: The preset of feature names, if TFRecord is made of another format.
        image_field: As for :func:`dsprep.pack`.
        label_field: As for :func:`dsprep.pack`.
        only: As for :func:`dsprep.pack`.
        drop: As for :func:`dsprep.pack`.
        rename: As for :func:`dsprep.pack`.
        schema: As for :func:`dsprep.pack`.
        schema_out: As for :func:`dsprep.pack`.
        look: As for :func:`dsprep.pack`.
        no_image: As for :func:`dsprep.pack`.
        shuffle: Whether to shuffle the samples, all of them together.
        seed: Decides the order of a shuffle, and which samples balancing takes; 0 by default.
        filter: An expression of SQL that is true of the samples to take, on ``key``, ``label``,
            ``class``, ``size``, ``index``: ``class = 'cat' AND size > 1000``.
        filter_table: A CSV or TSV file with a column of keys or paths, whose other columns the
            expression may use, too.
        balance: ``classes`` takes as many samples of each class as there are of the rarest.
        oversample: Balances classes by repeating samples, to as many as there are of the commonest.
        key: ``path`` keeps the samples' keys, ``index`` makes new ones from their numbers.
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
        SourceError: If the sources cannot be read.
        DestinationError: If the destination refuses.
        RunStopped: If it ended early; calling again goes on.
    """
    given = given_options(locals())
    first, others = take_sources(sources, dest)
    require_one_of("--compression", compression, (None, "none", "gzip"))
    require_one_of("--on-error", on_error, ("skip", "fail"))
    require_one_of("--key", key, ("path", "index"))
    require_one_of("--balance", balance, ("classes", None))
    source = make_source(
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
    )
    own = _format_of(source)
    try:
        destination, format_name = parse_destination(dest, to or own)
    except OptionError:
        if own is None:
            require_there(first)  # of what is missing, nothing tells a format
        raise
    require_effect("shard", given, format=format_name, **destination.facts())
    target = None if target_size is None else parse_size(target_size)
    size = shard_size(destination.single, target, shards, samples_per_shard, multiple_of)
    layout = make_layout(
        format_name,
        gzip=compression == "gzip" or destination.is_gzip,
        features=features,
    )
    balanced = balance is not None or oversample
    selection = None
    if filter is not None or balanced:
        selection = Selection(filter, filter_table, balanced, oversample, seed or 0)
    copies = own == format_name and key == "path" and not oversample and features is None
    changes = ("--only", "--drop", "--rename", "--label-field", "--image-field", "--label-type")
    copies = copies and not any(given.get(each) for each in (*changes, "--schema"))
    of_source = None if format_name == "tfrecord" else features
    whole = selection is not None or (not copies and layout.class_names_in == "header")
    source = replace(source, whole=whole, features=of_source)
    packing = Packing(
        source=source,
        destination=destination,
        layout=layout,
        transform=None,
        size=size,
        name=destination.stem or require_name(DEFAULT_NAME if name is None else name),
        seed=(seed or 0) if shuffle else None,
        check="none" if copies else None,
        readable=None if copies else layout.readable_images,
        max_pixels=DEFAULT_MAX_PIXELS,
        key=key,
        selection=selection,
        copies=copies,
        given=given,
        command="shard",
    )
    return write_data_set(
        packing,
        done="sharded",
        schema_out=schema_out,
        max_errors=max_errors,
        on_error=on_error,
        overwrite=overwrite,
        dry_run=dry_run,
        workers=workers,
        progress=progress,
    )


def _format_of(source: Source) -> str | None:
    """The format of the shards that a source is; None if it is something else."""
    try:
        found = shards_of(source)
    except OSError as error:
        raise SourceError(f"{error.filename}: cannot be read ({error.strerror})") from None
    if found is not None:
        require_no_index(found)
    return found.layout.name if found and found.layout.name in CONCATENATIVE else None
