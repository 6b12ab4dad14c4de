"""The commands on data sets: ``pack``, ``convert``, ``shard``, ``join``, ``verify``, ``status``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

import dsprep
from dsprep.cli.help import DefaultGroup, option_group
from dsprep.cli.options import command, source_options, take_source, take_transform
from dsprep.declared import unchecked
from dsprep.errors import REJECTS_EXIT_CODE, RunStopped, SourceError
from dsprep.plan.image_options import TransformOptions
from dsprep.plan.options import (
    AppendOptions,
    AugmentOptions,
    ConvertOptions,
    JoinOptions,
    PackOptions,
    ShardOptions,
)
from dsprep.progress import progress_for
from dsprep.verifying.options import IndexOptions, VerifyOptions

if TYPE_CHECKING:
    from dsprep import IndexReport, VerifyReport, WriteReport

COMMANDS_OF_SHARD = {
    "append": (__name__, "Add new samples, as new shards, to a data set."),
    "index": (__name__, "Write the indexes that shards lack, and a manifest."),
}
"""The commands besides cutting, which has no name of its own."""

_ALIASES = {"format": "to"}

# What few need of a command that has many options: `--help` shows 40 at most.
RARE = ("apart", "enlarge", "fields", "filter", "group")
_RARE_WITH_COPIES = (
    *(*RARE, "any_side", "compression", "header", "mask_fill", "on_error", "only"),
    "samples_per_shard",
)
RARE_TO_PACK = (*_RARE_WITH_COPIES, "fill", "keep_originals", "preview")
RARE_TO_AUGMENT = (*_RARE_WITH_COPIES, "filter_table", "label_type", "split")


def _write(
    function: Callable[..., WriteReport],
    source: tuple[str, ...],
    dest: str,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Call a function that writes, and print its report; return the exit code."""
    from dsprep.cli.report import show, write_lines
    from dsprep.cli.streams import say
    from dsprep.formats import FORMATS

    options["progress"] = progress_for(sys.stderr, quiet)
    report = unchecked(function)(source, dest, **options)
    try:
        show(report, write_lines, as_json, quiet)
    except KeyboardInterrupt:
        if report.state == "planned":
            raise
        say(f"{report.destination}: {report.state}; only this report was interrupted")
    if report.collisions and FORMATS[report.format].distinct == "key":
        raise SourceError(
            f"{source[0]}: would be refused, as several samples have one key; rename files, or "
            "give --key index to make keys from the samples' numbers"
        )
    return REJECTS_EXIT_CODE if report.rejects else 0


def _check(
    function: Callable[..., VerifyReport | IndexReport],
    lines: Callable[[Any], Iterator[str]],
    dest: str,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Call a function that checks shards, and print its report; return the exit code."""
    from dsprep.cli.report import show

    report = unchecked(function)(dest, progress=progress_for(sys.stderr, quiet), **options)
    show(report, lines, as_json, quiet and not report.problems)
    return REJECTS_EXIT_CODE if report.problems else 0


@command("SOURCE... DEST", PackOptions, TransformOptions, rare=RARE_TO_PACK, aliases=_ALIASES)
def pack(**options: Any) -> int:
    """Pack the images in SOURCE into shards at DEST.

    SOURCE is a directory or an archive (zip, tar) of images. Each directory in it is a class,
    numbered in sorted order; or labels come from --list or --labels. SOURCE can also be anything
    that convert reads: shards, Parquet, CIFAR, MNIST. DEST is a directory, or one file: train.tar,
    train.rec, train.tfrecord. All of these can be on S3, s3://bucket/prefix/: each shard is
    uploaded while the next one is written.

    Without a transform option, the bytes of images are copied untouched. The same command gives
    the same bytes on any machine with any number of workers. After a kill, give it again to
    continue.

    \b
    Examples:
      dsprep pack photos/ shards/ --to webdataset
      dsprep pack dogs.zip shards/ --to webdataset
      dsprep pack s3://bucket/photos/ shards/ --to webdataset
      dsprep pack photos/ rec/train.rec --list train.lst
      dsprep pack photos/ shards/ --to tfrecord --labels train.csv --target-size 100MB
      dsprep pack photos/ shards/ --to recordio --resize 256 --encode jpeg
      dsprep pack photos/ shards/ --to webdataset --augment rotate=20,hflip --balance
      dsprep pack photos/ s3://bucket/train/ --to webdataset
      dsprep pack photos/ shards/ --to webdataset --dry-run
    """
    return _write(dsprep.pack, transform=take_transform(options), **options)


@command("SOURCE... DEST", ConvertOptions, TransformOptions, rare=RARE, aliases=_ALIASES)
def convert(**options: Any) -> int:
    """Convert SOURCE to another format, without loss.

    SOURCE is shards (a file, a pattern like 'train-{000000..000146}.tar', a directory, a manifest),
    or anything else that holds samples: a directory or an archive of images, Parquet, CIFAR, MNIST,
    a SageMaker manifest. Each shard becomes one shard of the same name, unless a size is given.
    DEST is a directory or a file. Shards can be written to S3: s3://bucket/prefix/.

    All fields are carried over, with their types. A field that the format cannot hold is listed,
    and refused until --drop names it. With - for SOURCE and DEST, one shard is read from stdin and
    written to stdout, record by record. Both can also be named pipes.

    \b
    Examples:
      dsprep convert wds/ tfrecords/ --to tfrecord
      dsprep convert train.rec wds/train.tar
      dsprep convert 'wds/train-{000000..000146}.tar' rec/ --to recordio --drop width,height
      dsprep convert train-00000.parquet images/ --to folder
      cat train.tar | dsprep convert --from webdataset --to tfrecord - - > train.tfrecord
    """
    options["transform"] = take_transform(options)
    from dsprep.cli.convert_stream import convert_stdin, is_stream

    if any(map(is_stream, (*options["source"], options["dest"]))):
        return convert_stdin(**options)
    return _write(dsprep.convert, **options)


@command("SOURCE... DEST", AugmentOptions, TransformOptions, rare=RARE_TO_AUGMENT, aliases=_ALIASES)
def augment(**options: Any) -> int:
    """Write the samples of SOURCE, and augmented copies of them, to DEST.

    SOURCE and DEST are what pack takes; shards become shards of the same format if nothing names
    another one. The copies of a.jpg are a_aug01.jpg, a_aug02.jpg and so on,
    each after its original; pack --augment shuffles all samples. What a copy looks like depends on
    the key of its sample, the number of the copy and --seed alone: any number of workers and
    machines writes the same bytes, and a data set that grows keeps the copies that it has. Boxes
    and masks move with the image.

    \b
    Examples:
      dsprep augment birds/ more/ --to folder --op rotate=40,hflip --per-class 1000
      dsprep augment photos/ shards/ --to webdataset --op shift=0.2,zoom=0.2 --per-image 5
      dsprep augment shards/ s3://bucket/train/ --to tfrecord --op hflip,color=0.3 --balance
    """
    return _write(dsprep.augment, transform=take_transform(options), **options)


@command("SOURCE... DEST", ShardOptions, aliases=_ALIASES)
def cut(**options: Any) -> int:
    """Write SOURCE as shards of another size or order at DEST.

    SOURCE is shards (a file, a pattern, a directory, a manifest), or anything that convert reads.
    Small shards are merged and large ones split; the order is kept, or shuffled as a whole. DEST is
    a directory or a file, and may be on S3: s3://bucket/prefix/.

    \b
    Examples:
      dsprep shard wds/ again/ --target-size 200MB
      dsprep shard 'part-*.tar' train.tar
      dsprep shard wds/ even/ --shards 64 --shuffle --seed 7
      dsprep shard recs/ for64/ --target-size 100MB --multiple-of 64
      dsprep shard wds/ cats/ --filter "class LIKE '%cat%' AND size > 10000"
    """
    return _write(dsprep.shard, **options)


@command("SOURCE... DATASET", AppendOptions)
def append(dataset: str, **options: Any) -> int:
    """Add the samples of SOURCE, as new shards, to DATASET.

    DATASET is a directory that pack, convert or shard wrote. Its shards stay as they are. The new
    ones have its format, its classes and the transform that it was made with; a class that it does
    not have is an error. The manifest and the indexes are replaced last. A cluster can do the work
    (--engine ray), but there is no --part: pack parts to a directory of their own, and join it.

    \b
    Examples:
      dsprep shard append more-photos/ shards/
      dsprep shard append new.zip shards/ --target-size 100MB --dry-run
      dsprep shard append photos/ shards/ --skip-existing
    """
    return _write(dsprep.append, dest=dataset, **options)


@command(
    "DATASET",
    option_group("Index")(
        "--kind",
        "kinds",
        type=click.Choice(["mxnet", "dali", "wids", "manifest"]),
        multiple=True,
        help="Write only this index; can be repeated.  [default: all of the format]",
    ),
    IndexOptions,
)
def index(dataset: str, **options: Any) -> int:
    """Write the indexes of existing shards.

    DATASET is a directory of shards, one shard, or a manifest, written by any tool; on S3, it is a
    prefix. dsprep keeps a correct index and replaces a wrong one. It reads only the headers of
    shards. For a manifest, which has checksums, it reads whole shards.

    \b
    RecordIO    mxnet     SHARD.idx, for MXIndexedRecordIO and ImageRecordIter
    WebDataset  dali      SHARD.idx, as DALI's wds2idx writes it
                wids      NAME.json, over all shards
                energon   SHARD.tar.idx and .nv-meta/, with --energon
    TFRecord    dali      SHARD.idx, as DALI's tfrecord2idx writes it
    all         manifest  manifest.json, if there is none

    A damaged shard gets no index; it is named with the offset, and makes the exit code 3. A shard
    that is gzip gets no index either, as nothing in it can be found by its offset.

    \b
    Examples:
      dsprep shard index shards/
      dsprep shard index shards/ --kind dali
      dsprep shard index s3://bucket/shards/ --energon
      dsprep shard index train.rec --check
    """
    from dsprep.cli.report import index_lines

    return _check(dsprep.index, index_lines, dataset, **options)


shard = DefaultGroup(name="shard", default=cut, lazy=COMMANDS_OF_SHARD)


@command("SOURCE... DEST", JoinOptions)
def join(**options: Any) -> int:
    """Make one data set at DEST of those at SOURCE, without writing their shards again.

    SOURCE is directories of shards with a manifest, as machines write them that pack a share of the
    images each; DEST is another directory. All can be on S3. The data sets need shards of different
    names (--name), the same format and options, fields of the same types, and the same classes
    (--classes). In formats whose readers know samples by their keys, no key may come twice.

    SOURCE can also be folders of files (--to folder). Their class names are merged. A file that
    several folders have in the same way is taken once; one with other bytes is an error.

    The files at DEST are hard links, or copies if DEST is on another disk. From S3 to S3, the
    server copies them. SOURCE stays as it is, and can then be removed. After a kill, give the
    command again to continue.

    \b
    Examples:
      dsprep join node-0/ node-1/ node-2/ train/
      dsprep join s3://bucket/out/node-{0..7} s3://bucket/train
      dsprep join node-*/ train/ --dry-run
    """
    return _write(dsprep.join, **options)


@command("DEST", VerifyOptions, source_options)
def verify(dest: str, against: str | None, **options: Any) -> int:
    """Prove that the shards at DEST are whole.

    DEST is a directory that dsprep wrote, or a directory, a shard or a pattern of shards that
    others wrote, such as a Hugging Face repository. With a manifest, files, sizes and checksums
    are compared with it. Each shard is read from its first byte to its last. Problems are named by
    shard, offset and sample, and make the exit code 3. Without a manifest, the report shows the
    fields as convert would read them.

    --against compares all fields of every sample with SOURCE; after a transform, all but the image.
    After shard append, SOURCE can be either source: the shards that were made of it are compared,
    and the report counts the samples that were not.

    DEST may be an augmented manifest, too, of any tool: all of its lines are read, and the images
    that they refer to.

    On S3, DEST is a prefix, a manifest or a shard. All files that the manifest names are compared
    with it without reading them, by the checksums that S3 keeps or that dsprep stored in the
    metadata. --download reads everything, and so proves files that have neither. The environment
    and AWS's files tell how to connect.

    \b
    Examples:
      dsprep verify shards/
      dsprep verify 'shards/train-*.tar'
      dsprep verify shards/ --decode --against photos/
      dsprep verify shards/ --against dogs.zip --labels train.csv
      dsprep verify train.rec --loader mxnet
      dsprep verify s3://bucket/shards/
    """
    from dsprep.cli.report import verify_lines

    source = take_source(options, dest if against is None else against)
    options |= {"choice": source.choice} if against is None else {"against": source}
    return _check(dsprep.verify, verify_lines, dest, **options)


@command("DEST")
def status(dest: str, as_json: bool, quiet: bool) -> int:
    """Say what is there of the data set at DEST, and which commands finish it.

    While a run in parts (--part) is unfinished, the parts that have shards left are named, and the
    exit code is 6. If files of a finished data set are missing, or have another size than they were
    written with, these are named, and the exit code is 3.

    \b
    Examples:
      dsprep status shards/
      dsprep status s3://bucket/train/
    """
    from dsprep.cli.report import show, status_lines

    report = unchecked(dsprep.status)(dest)
    show(report, status_lines, as_json, quiet)
    exit_codes = {"complete": 0, "damaged": REJECTS_EXIT_CODE, "unfinished": RunStopped.exit_code}
    return exit_codes[report.state]
