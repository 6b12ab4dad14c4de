"""The options of the commands that write data sets: shards, formats, and how a command runs.

Importing this must stay cheap: ``--help`` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from dsprep.arguments import AnyPath
from dsprep.declared import Options, field, option
from dsprep.images.augment import FORMS
from dsprep.plan.image_options import CopyOptions, ImageOptions, KeepOptions
from dsprep.sources.options import ClassOptions, FieldOptions, SelectionOptions, SourceOptions

if TYPE_CHECKING:
    from dsprep.progress import Progress

_fields = partial(option, "Fields")
_rare_fields = partial(_fields, rare=True)
_output = partial(option, "Output")
_rare_output = partial(_output, rare=True)
_samples = partial(option, "Samples")
_rare_samples = partial(_samples, rare=True)
_run = partial(option, "Run")
_seed = _samples("Seed of the shuffle.  [default: 0]", least=None)
_split = partial(option, "Split")
_copies = partial(option, "Augmentation")
workers_field = _run(
    "Maximum number of processes. The limit is 64, or four times the cores if that is more.  "
    "[default: the cores that this process may use]"
)


class FormatOptions(Options):
    """The format that is written, and how samples are laid out in it."""

    to: str | None = _output("Format to write.  [default: by the suffix of DEST]")
    format: str | None = None  # another name of `to`
    features: str | None = _rare_output(
        "Feature names of TFRecord examples.  [default: dsprep]",
        choices=("dsprep", "slim", "inception", "tfds"),
    )
    header: bool = _output(
        "Write the names of the columns as the first line of CSV.  [default: no such line, as "
        "SageMaker's algorithms have it]",
        default=False,
    )
    order: Sequence[str] = _rare_output(
        "Fields whose members come first in each WebDataset sample, in this order: label,image.",
        default=(),
        metavar="FIELD[,FIELD...]",
    )
    crowd: str | None = option(
        "Annotations",
        "Drop objects that are crowd, difficult or group-of if the format has no mark for that, or "
        "keep them as ordinary ones.  [default: drop]",
        choices=("drop", "keep"),
        rare=True,
    )
    empty: str | None = option(
        "Annotations",
        "Images without objects in RecordIO: drop leaves them out, mark gives them an object of "
        "class -1.  [default: refuse them]",
        choices=("drop", "mark"),
        rare=True,
    )
    object_masks: bool = option(
        "Annotations",
        "Write polygons of objects as masks into TFRecord, a gray PNG each.",
        default=False,
        rare=True,
    )
    card: bool = _rare_output(
        "Write a dataset card of Hugging Face's Hub, README.md, beside Parquet shards.",
        default=False,
    )
    license: str | None = _rare_output(
        "With --card, the license that the card names, by its identifier on the Hub: cc-by-4.0. "
        "Any other name is written as license_name of the license other.",
        metavar="NAME",
    )
    key: str = _rare_samples(
        "How samples get their keys: path makes a key from the path, and keeps the keys of "
        "shards; index numbers the samples; with --latest, the column that identifies a record.  "
        "[default: path]",
        default="path",
        metavar="path|index|COLUMN",
    )
    latest: str | None = _rare_samples(
        "Keep only the newest row of each record in Parquet, by this column of times; none if its "
        "is_deleted is true. For the offline store of a Feature Store.",
        metavar="COLUMN",
    )
    as_of: str | None = _rare_samples(
        "With --latest, read the records as they were at this time, in UTC unless it names a zone: "
        "rows of later times do not count.",
        metavar="TIME",
    )


class SizeOptions(Options):
    """How large shards are."""

    target_size: int | str | None = _output("Maximum size of a shard on disk.  [default: 200MB]")
    shards: int | None = _output(
        "Number of shards, of each side if there are any, instead of a size."
    )
    samples_per_shard: int | None = _output(
        "Number of samples in each shard, instead of a size; with --target-size, the maximum."
    )


class ApartOptions(Options):
    """Where the files lie that describe shards."""

    apart: bool = _output(
        "Write shards alone to DEST, and manifest.json, classes.txt and the others beside it, as "
        "DEST.manifest.json.",
        default=False,
    )


class CommandOptions(Options):
    """What is read, and how the command runs."""

    sources: AnyPath | Sequence[AnyPath] = field(kw_only=False)
    dry_run: bool = _run("Print the plan, write nothing.", default=False)
    workers: int | None = workers_field
    progress: Progress | None = None  # receives the progress


class EngineOptions(Options):
    """Where workers run."""

    engine: str | None = _run(
        "Run workers on this machine (local), or on the nodes of a Ray cluster, which must all see "
        "what is read and written under the same names; --workers is then how many tasks the "
        "cluster runs at once.  [default: local]",
        choices=("local", "ray"),
        rare=True,
    )
    ray_address: str | None = _run(
        "The Ray cluster, by its head.  [default: auto, the cluster that this machine is in]",
        metavar="auto|HOST:PORT",
        rare=True,
    )


class RunOptions(EngineOptions, CommandOptions):
    """What is written, and which bad samples are rejected."""

    dest: AnyPath = field(kw_only=False)
    max_errors: int | None = _rare_samples(
        "Stop when more samples than this are rejected.", least=0
    )
    on_error: str = _samples(
        "Reject a bad sample and go on, or stop.", default="skip", choices=("skip", "fail")
    )


class GroupOptions(Options):
    """What stays on one side of a split."""

    group: str | None = _split(
        "Keep each group on one side. A group is what a regular expression matches in a path (its "
        "first parentheses, or the whole match), or a value in a column of --labels.",
        metavar="REGEX|COLUMN",
    )


class WriteOptions(
    RunOptions,
    GroupOptions,
    ApartOptions,
    SizeOptions,
    FormatOptions,
    SelectionOptions,
    FieldOptions,
    ClassOptions,
    SourceOptions,
):
    """The options that pack, convert and shard have in common."""

    split: str | None = _split(
        "Divide the samples into sides with these shares, each with shards of its own: "
        "train-000000.tar. All have the same classes, and each class is divided by the shares. "
        "Sides of SOURCE that are not named stay as they are.",
        metavar="NAME=SHARE[,...]",
    )
    name: str | None = _output(
        "Prefix of shard file names; '' for none: 000000.tar. {i} in it is the number, as in "
        "'{i}' for 0.tar or 'a_{i:03d}' for a_000.tar.  [default: train]",
        metavar="TEXT",
    )
    compression: str | None = _output(
        "Compression of TFRecord and MDS shards; zstd of MDS alone.  [default: none]",
        choices=("none", "gzip", "zstd"),
    )
    filter_table: AnyPath | None = _samples(
        "Leave out the samples for which the column keep of FILE is false: a list of copies, as "
        "dedup writes it, or another table with a column of keys or paths.",
        metavar="FILE",
    )
    schema_out: AnyPath | None = _rare_fields(
        "Write the schema of SOURCE to FILE, as JSON, also with --dry-run.", metavar="FILE"
    )
    overwrite: bool = _run("Replace what is at DEST.", default=False)
    part: str | None = _run(
        "Write part I (from 0) of N only, with other processes that write the others: on one "
        "machine or many, to a directory that all share or to S3. The last to end writes the "
        "manifest. auto takes I and N from Slurm, AWS Batch, Kubernetes or SageMaker.",
        metavar="I/N|auto[/N]",
        rare=True,
    )


class _AugmentOption(Options):
    """What ``pack`` does to copies, which help shows before their number."""

    augment: Sequence[str] | None = _copies(
        "Write augmented copies as well, made by operations of dsprep augment, such as "
        "rotate=40,hflip.",
        metavar="NAME=VALUE[,...]",
    )


class _OpOption(Options):
    """What ``augment`` does to copies."""

    op: Sequence[str] | None = _copies(
        "What is done to each copy, such as rotate=40,shift=0.2,hflip. All operations apply to "
        f"each copy, in this order: {FORMS}.",
        metavar="NAME=VALUE[,...]",
    )


class PackOptions(CopyOptions, _AugmentOption, ImageOptions, WriteOptions):
    """The options of ``pack``."""

    shuffle: bool = _samples("Shuffle (default), or keep the order.", default=True)
    seed: int | None = _samples("Seed of the shuffle and of copies.  [default: 0]", least=None)


class ConvertOptions(ImageOptions, WriteOptions):
    """The options of ``convert``."""

    to: str | None = _output("Format to write.  [default: by the suffix of DEST]", folders=True)
    prefix: str = _rare_output(
        "Prefix of the URLs in --to augmented-manifest, such as s3://bucket/path/.",
        default="",
        metavar="URL",
    )
    target_size: int | str | None = _output(
        "Maximum size of a shard on disk.  [default: a shard for each in SOURCE, otherwise 200MB]"
    )


class AugmentOptions(CopyOptions, _OpOption, ImageOptions, WriteOptions):
    """The options of ``augment``."""

    to: str | None = _output("Format to write.  [default: by the suffix of DEST]", folders=True)
    seed: int | None = _copies("Seed of the copies.  [default: 0]", least=None)


class ShardOptions(WriteOptions):
    """The options of ``shard``."""

    to: str | None = _output(
        "Format to write.  [default: that of SOURCE, whose samples are then copied unparsed]"
    )
    multiple_of: int | None = _output(
        "Make the number of shards a multiple of N, so that N readers get the same number each."
    )
    shuffle: bool = _samples("Shuffle all samples, however large the data set.", default=False)
    seed: int | None = _seed
    filter: str | None = _samples(
        "Take the samples for which EXPR is true: SQL on key, label, class, size, index.",
        metavar="EXPR",
    )
    filter_table: AnyPath | None = _samples(
        "A CSV, TSV or Parquet with a column of keys or paths, whose other columns EXPR may use, "
        "such as what inspect has measured. Without "
        "--filter, samples for which its column keep is false are left out, as dedup writes it.",
        metavar="FILE",
    )


class AppendOptions(
    RunOptions, KeepOptions, SizeOptions, SelectionOptions, FieldOptions, SourceOptions
):
    """The options of ``shard append``."""

    skip_existing: bool = _samples(
        "Leave out the samples that DATASET has: those with the same key, bytes and label. The "
        "same key with other bytes or another label is an error.",
        default=False,
    )
    target_size: int | str | None = _output("Maximum size of a new shard.  [default: as before]")
    shards: int | None = _output("Number of new shards, instead of a size.")
    shuffle: bool = _samples("Shuffle the new samples (default), or keep the order.", default=True)
    seed: int | None = _seed


class JoinOptions(ApartOptions, CommandOptions):
    """The options of ``join``."""

    dest: AnyPath = field(kw_only=False)
    overwrite: bool = _run("Replace what is at DEST.", default=False)
