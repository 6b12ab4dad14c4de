"""``dsprep pack``."""

from __future__ import annotations

import sys
from typing import Any

import click

from dsprep.cli.help import GroupedCommand, option_group
from dsprep.cli.options import (
    Count,
    Dimensions,
    Size,
    output_options,
    parse_pairs,
    source_options,
    split_commas,
    workers_option,
)
from dsprep.cli.streams import until_nobody_reads
from dsprep.errors import REJECTS_EXIT_CODE, SourceError

_shards = option_group("Shards")
_images = option_group("Images")
_samples = option_group("Samples")
_run = option_group("Run")


@click.command(cls=GroupedCommand)
@click.argument("source", metavar="SOURCE")
@click.argument("dest", metavar="DEST")
@source_options
@_shards(
    "--format",
    type=click.Choice(["webdataset", "tfrecord", "recordio"]),
    help="Format of the shards; the name of a single file tells it by itself.",
)
@_shards("--target-size", type=Size(), help="Most bytes of a shard on disk.  [default: 200MB]")
@_shards("--shards", type=Count(), help="Or: how many shards.")
@_shards("--samples-per-shard", type=Count(), help="Or: how many samples in each.")
@_shards("--name", default="train", show_default=True, help="What names of shards begin with.")
@_shards(
    "--compression",
    type=click.Choice(["none", "gzip"]),
    default="none",
    show_default=True,
    help="Of TFRecord shards.",
)
@_shards(
    "--features",
    type=click.Choice(["dsprep", "slim", "inception", "tfds", "detection"]),
    help="Feature names of TFRecord examples.  [default: dsprep]",
)
@_shards(
    "--map",
    "renamed",
    multiple=True,
    metavar="FIELD=NAME",
    help="Another feature name (TFRecord) or extension (WebDataset) for a field; repeatable.",
)
@_shards(
    "--metadata",
    is_flag=True,
    help="Add a .json with class, filename, width and height to each WebDataset sample.",
)
@_samples("--shuffle/--no-shuffle", default=True, help="Shuffle (default), or keep the order.")
@_samples("--seed", type=int, default=0, show_default=True, help="Of the shuffle.")
@_samples(
    "--key",
    type=click.Choice(["path", "index"]),
    default="path",
    show_default=True,
    help="Make keys from paths, or from the samples' numbers.",
)
@_samples(
    "--check",
    type=click.Choice(["decode", "header", "none"]),
    help="How to check images: decode each, look at its header and its end, or not at all.  "
    "[default: header; for recordio decode, as one bad image ends an epoch of MXNet]",
)
@_samples("--max-pixels", type=Count(), help="Reject larger images, such as bombs.")
@_samples("--max-errors", type=Count(0), help="Stop when more samples than this are rejected.")
@_samples(
    "--on-error",
    type=click.Choice(["skip", "fail"]),
    default="skip",
    show_default=True,
    help="Reject a bad sample and go on, or stop.",
)
@_images(
    "--resize",
    type=Dimensions(),
    metavar="N|WxH",
    help="Resize: N for the shorter edge, or WxH. Never enlarges by itself.",
)
@_images("--crop", type=Dimensions(), metavar="N|WxH", help="Then cut this much out of the center.")
@_images("--enlarge", is_flag=True, help="Let --resize enlarge small images.")
@_images(
    "--encode",
    type=click.Choice(["keep", "jpeg", "png", "webp"]),
    default="keep",
    show_default=True,
    help="Encode images anew.",
)
@_images(
    "--quality", type=Count(), default=90, show_default=True, help="Of JPEG and WebP, 1 to 100."
)
@_images(
    "--color",
    type=click.Choice(["keep", "rgb", "gray"]),
    default="keep",
    show_default=True,
    help="Convert colors.",
)
@_run("--overwrite", is_flag=True, help="Replace what is at DEST.")
@_run("--dry-run", is_flag=True, help="Print the plan, write nothing.")
@workers_option
@output_options
def pack(
    source: str,
    dest: str,
    label_column: str | None,
    extensions: str | None,
    renamed: tuple[str, ...],
    shuffle: bool,
    seed: int,
    max_pixels: int | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Pack the images in SOURCE into shards at DEST.

    SOURCE is a directory. Each directory in it is a class, numbered in sorted order; or --list or
    --labels tell the labels. DEST is a directory, or one file: train.tar, train.rec,
    train.tfrecord.

    Without a transform option the images' bytes are copied untouched. The same command gives the
    same bytes on any machine with any number of workers; given again after a kill, it continues.

    \b
    Examples:
      dsprep pack photos/ shards/ --format webdataset
      dsprep pack photos/ rec/train.rec --list train.lst
      dsprep pack photos/ shards/ --format tfrecord --labels train.csv --target-size 100MB
      dsprep pack photos/ shards/ --format recordio --resize 256 --encode jpeg
      dsprep pack photos/ shards/ --format webdataset --dry-run
    """
    from dsprep import packing
    from dsprep.cli.report import print_json, print_pack_report
    from dsprep.formats import FORMATS
    from dsprep.images.check import DEFAULT_MAX_PIXELS
    from dsprep.images.transform import Transform
    from dsprep.progress import progress_for

    crop = options.pop("crop")
    transform = Transform(
        resize=options.pop("resize"),
        crop=(crop, crop) if isinstance(crop, int) else crop,
        enlarge=options.pop("enlarge"),
        encode=options.pop("encode"),
        quality=options.pop("quality"),
        color=options.pop("color"),
    )
    report = packing.pack(
        source,
        dest,
        label_columns=split_commas(label_column),
        extensions=split_commas(extensions),
        rename=parse_pairs(renamed, "--map"),
        transform=None if transform.is_copy else transform,
        seed=seed if shuffle else None,
        max_pixels=max_pixels or DEFAULT_MAX_PIXELS,
        progress=progress_for(sys.stderr, quiet),
        **options,
    )
    with until_nobody_reads(sys.stdout):
        if as_json:
            print_json(report)
        elif not quiet:
            print_pack_report(report)
    if report.collisions and FORMATS[report.format].keys_must_differ:
        raise SourceError(
            f"{source}: would be refused, as several samples have one key; rename files, or give "
            "--key index to make keys from the samples' numbers"
        )
    return REJECTS_EXIT_CODE if report.rejects else 0
