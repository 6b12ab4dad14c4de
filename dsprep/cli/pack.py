"""``dsprep pack``."""

from __future__ import annotations

import sys
from typing import Any

import click

from dsprep.cli.options import (
    Dimensions,
    Size,
    output_options,
    parse_pairs,
    source_options,
    split_commas,
    workers_option,
)
from dsprep.errors import REJECTS_EXIT_CODE


@click.command(short_help="Pack images into shards.")
@click.argument("source", metavar="SOURCE")
@click.argument("dest", metavar="DEST")
@source_options
@click.option(
    "--format",
    type=click.Choice(["webdataset", "tfrecord", "recordio"]),
    help="Format of the shards; the name of a single file tells it by itself.",
)
@click.option("--target-size", type=Size(), help="Most bytes of a shard on disk.  [default: 200MB]")
@click.option("--shards", type=click.IntRange(1), metavar="N", help="Or: how many shards.")
@click.option(
    "--samples-per-shard", type=click.IntRange(1), metavar="N", help="Or: how many samples in each."
)
@click.option("--name", default="train", show_default=True, help="What names of shards begin with.")
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip"]),
    default="none",
    show_default=True,
    help="Of TFRecord shards.",
)
@click.option(
    "--features",
    type=click.Choice(["dsprep", "slim", "inception", "tfds", "detection"]),
    help="Feature names of TFRecord examples.  [default: dsprep]",
)
@click.option(
    "--map",
    "renamed",
    multiple=True,
    metavar="FIELD=NAME",
    help="Another feature name (TFRecord) or extension (WebDataset) for a field; repeatable.",
)
@click.option(
    "--metadata",
    is_flag=True,
    help="Add a .json with class, filename, width and height to each WebDataset sample.",
)
@click.option(
    "--key",
    type=click.Choice(["path", "index"]),
    default="path",
    show_default=True,
    help="Make keys from paths, or from the samples' numbers.",
)
@click.option(
    "--resize",
    type=Dimensions(),
    help="Resize: N for the shorter edge, or WxH. Never enlarges by itself.",
)
@click.option("--crop", type=Dimensions(), help="Then cut this much out of the center.")
@click.option("--enlarge", is_flag=True, help="Let --resize enlarge small images.")
@click.option(
    "--encode",
    type=click.Choice(["keep", "jpeg", "png", "webp"]),
    default="keep",
    show_default=True,
    help="Encode images anew.",
)
@click.option(
    "--quality",
    type=click.IntRange(1, 100),
    default=90,
    show_default=True,
    help="Of JPEG and WebP.",
)
@click.option(
    "--color",
    type=click.Choice(["keep", "rgb", "gray"]),
    default="keep",
    show_default=True,
    help="Convert colors.",
)
@click.option(
    "--shuffle/--no-shuffle", default=True, show_default=True, help="Shuffle, or keep the order."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the shuffle.")
@click.option(
    "--check",
    type=click.Choice(["decode", "header", "none"]),
    help="How to check images: decode each, look at its headers and its end, or not at all.  "
    "[default: header; decode for recordio, as one bad image ends an epoch of MXNet]",
)
@click.option(
    "--max-pixels", type=click.IntRange(1), metavar="N", help="Reject larger images, such as bombs."
)
@click.option(
    "--max-errors", type=click.IntRange(0), metavar="N", help="Stop when more samples are rejected."
)
@click.option(
    "--on-error",
    type=click.Choice(["skip", "fail"]),
    default="skip",
    show_default=True,
    help="Reject a bad sample and go on, or stop.",
)
@click.option("--overwrite", is_flag=True, help="Replace what is at DEST.")
@click.option("--dry-run", is_flag=True, help="Print the plan, write nothing.")
@workers_option
@output_options
def pack(
    source: str,
    dest: str,
    label_column: str | None,
    extensions: str | None,
    compression: str,
    renamed: tuple[str, ...],
    shuffle: bool,
    seed: int,
    on_error: str,
    max_pixels: int | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    r"""Pack the images in SOURCE into shards at DEST.

    SOURCE is a directory. Each directory in it is a class, numbered in sorted order; or --list or
    --labels tell the labels. DEST is a directory, or one file: train.tar, train.rec,
    train.tfrecord.

    Without a transform option the images' bytes are copied untouched. The same command gives the
    same bytes on any machine with any number of workers; given again after a kill, it continues.

    \b
    Examples:
      dsprep pack photos/ shards/ --format webdataset
      dsprep pack photos/ train.rec --list train.lst
      dsprep pack photos/ shards/ --format tfrecord --labels train.csv --target-size 100MB
      dsprep pack photos/ shards/ --format recordio --resize 256 --encode jpeg
      dsprep pack photos/ shards/ --format webdataset --dry-run
    """
    from dsprep import packing
    from dsprep.cli.report import print_json, print_pack_report
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
        gzip=compression == "gzip",
        rename=parse_pairs(renamed, "--map"),
        transform=None if transform.is_copy else transform,
        seed=seed if shuffle else None,
        fail_on_reject=on_error == "fail",
        max_pixels=max_pixels or DEFAULT_MAX_PIXELS,
        progress=progress_for(sys.stderr, quiet),
        **options,
    )
    if as_json:
        print_json(report)
    elif not quiet:
        print_pack_report(report)
    return REJECTS_EXIT_CODE if report.rejects else 0
