"""Options of the commands that write data sets, and what becomes of their values."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dsprep.cli.help import option_group
from dsprep.cli.options import Count, Dimensions, Size, together
from dsprep.cli.streams import until_nobody_reads
from dsprep.errors import REJECTS_EXIT_CODE, SourceError

if TYPE_CHECKING:
    from dsprep.commands.write import WriteReport
    from dsprep.images.transform import Transform

F = TypeVar("F", bound=Callable[..., Any])

_shards = option_group("Shards")
_images = option_group("Images")
_samples = option_group("Samples")
_fields = option_group("Fields")
_run = option_group("Run")


def shard_size_options(default: str = "200MB") -> Callable[[F], F]:
    """Declare how large shards are to be."""
    return together(
        _shards(
            "--target-size",
            type=Size(),
            help=f"Maximum size of a shard on disk.  [default: {default}]",
        ),
        _shards("--shards", type=Count(), help="Number of shards, instead of a size."),
        _shards(
            "--samples-per-shard", type=Count(), help="Number of samples in each shard, instead."
        ),
        _shards("--name", metavar="TEXT", help="Prefix of shard file names.  [default: train]"),
    )


compression_option = _shards(
    "--compression",
    type=click.Choice(["none", "gzip"]),
    help="Compression of TFRecord shards.  [default: none]",
)

features_option = _shards(
    "--features",
    type=click.Choice(["dsprep", "slim", "inception", "tfds"]),
    help="Feature names of TFRecord examples.  [default: dsprep]",
)

layout_options = together(
    compression_option,
    features_option,
    _shards(
        "--metadata",
        is_flag=True,
        help="Add a .json with class, filename, width and height to each WebDataset sample.",
    ),
)

selection_options = together(
    _fields(
        "--only",
        metavar="FIELD[,FIELD...]",
        help="Keep only these fields; image and label stand for the image and the label, whatever "
        "their names are.",
    ),
    _fields("--drop", metavar="FIELD[,FIELD...]", help="Leave these fields out."),
    _fields(
        "--rename",
        "renamed",
        multiple=True,
        metavar="OLD=NEW",
        help="Write the field OLD under the name NEW; repeatable.",
    ),
)
schema_out_option = _fields(
    "--schema-out",
    metavar="FILE",
    help="Write the schema of SOURCE to FILE, as JSON, also with --dry-run.",
)
keep_fields_option = _fields(
    "--keep-fields",
    metavar="FIELD[,FIELD...]",
    help="Fields that do not depend on the geometry of the image: a transform leaves them as they "
    "are.",
)

key_option = _samples(
    "--key",
    type=click.Choice(["path", "index"]),
    default="path",
    show_default=True,
    help="path: keys are made from paths, those of shards are kept; index: samples are numbered.",
)

error_options = together(
    _samples("--max-errors", type=Count(0), help="Stop when more samples than this are rejected."),
    _samples(
        "--on-error",
        type=click.Choice(["skip", "fail"]),
        default="skip",
        show_default=True,
        help="Reject a bad sample and go on, or stop.",
    ),
)

sample_options = together(
    key_option,
    _samples(
        "--check",
        type=click.Choice(["decode", "header", "none"]),
        help="How to check images: decode each, look at its header and its end, or not at all.  "
        "[default: header; for shards none; for recordio decode, as one bad image ends an epoch "
        "of MXNet]",
    ),
    _samples(
        "--max-pixels",
        type=Count(),
        help="Reject images with more pixels, such as decompression bombs.  [default: 178956970]",
    ),
    error_options,
)

image_options = together(
    _images(
        "--resize",
        type=Dimensions(),
        metavar="N|WxH",
        help="Resize: N for the shorter edge, or WxH. Never enlarges by itself.",
    ),
    _images(
        "--crop",
        type=Dimensions(),
        metavar="N|WxH",
        help="Cut this size out of the center, after --resize.",
    ),
    _images("--enlarge", is_flag=True, help="Let --resize enlarge small images."),
    _images(
        "--encode",
        type=click.Choice(["keep", "jpeg", "png", "webp"]),
        default="keep",
        show_default=True,
        help="Re-encode images.",
    ),
    _images("--quality", type=Count(), help="JPEG and WebP quality, 1–100.  [default: 90]"),
    _images(
        "--color",
        type=click.Choice(["keep", "rgb", "gray"]),
        default="keep",
        show_default=True,
        help="Convert colors.",
    ),
)

overwrite_option = _run("--overwrite", is_flag=True, help="Replace what is at DEST.")
plan_option = _run("--dry-run", is_flag=True, help="Print the plan, write nothing.")


def take_transform(options: dict[str, Any]) -> Transform | None:
    """Take the image options out of all others; None if they change nothing."""
    from dsprep.images.transform import Transform

    crop = options.pop("crop")
    transform = Transform(
        resize=options.pop("resize"),
        crop=(crop, crop) if isinstance(crop, int) else crop,
        enlarge=options.pop("enlarge"),
        encode=options.pop("encode"),
        quality=options.pop("quality"),
        color=options.pop("color"),
    )
    return None if transform.is_copy else transform


def end(report: WriteReport, source: str, as_json: bool, quiet: bool) -> int:
    """Print what was done."""
    from dsprep.cli.report import print_json, print_write_report
    from dsprep.formats import FORMATS

    with until_nobody_reads(sys.stdout):
        if as_json:
            print_json(report)
        elif not quiet:
            print_write_report(report)
    if report.collisions and FORMATS[report.format].equal_keys == "merged":
        raise SourceError(
            f"{source}: would be refused, as several samples have one key; rename files, or give "
            "--key index to make keys from the samples' numbers"
        )
    return REJECTS_EXIT_CODE if report.rejects else 0
