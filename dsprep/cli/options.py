"""Options that more than one command has, each declared once, and the types of their values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dsprep.cli.help import option_group
from dsprep.errors import OptionError
from dsprep.units import parse_size
from dsprep.waits import WAITS

if TYPE_CHECKING:
    from dsprep.sources.reading import Source

F = TypeVar("F", bound=Callable[..., Any])

SOURCE_KINDS = (
    *("webdataset", "tfrecord", "recordio", "recordio-protobuf"),
    *("images", "parts", "pixels", "parquet", "manifest"),
)
"""What ``--from`` takes: as :data:`dsprep.sources.kinds.KINDS`, which is slow to import."""


class Size(click.ParamType[int]):
    """A byte count such as ``200MB``."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it, or fail as click does."""
        try:
            return parse_size(value)
        except OptionError as error:
            self.fail(str(error), param, ctx)


class Count(click.ParamType[int]):
    """A whole number that is not too small; like click's IntRange, with less to say in the help."""

    name = "n"

    def __init__(self, least: int = 1) -> None:
        """Accept numbers from ``least`` on."""
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it, or fail as click does."""
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value!r} is not a whole number", param, ctx)
        if number < self._least:
            self.fail(f"{number} is less than {self._least}", param, ctx)
        return number


class Dimensions(click.ParamType[int | tuple[int, int]]):
    """``N`` or ``WxH``."""

    name = "n|wxh"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | tuple[int, int]:
        """Read it, or fail as click does."""
        if isinstance(value, (int, tuple)):
            return value
        parts = str(value).lower().split("x")
        if len(parts) > 2 or not all(part.isdecimal() and int(part) for part in parts):
            self.fail(f"{value!r} is neither a number of pixels nor WIDTHxHEIGHT", param, ctx)
        numbers = tuple(int(part) for part in parts)
        return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])


def parse_pairs(pairs: tuple[str, ...], option: str) -> Mapping[str, str]:
    """Read ``NAME=VALUE`` options."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals and value):
            raise OptionError(f"{option} {pair}: write it as {option} NAME=VALUE")
        if name in found:
            raise OptionError(f"{option} {pair}: {name} is given twice")
        found[name] = value
    return found


def split_commas(text: str | None) -> tuple[str, ...]:
    """``a,b`` as its parts, without blanks around them."""
    return tuple(part.strip() for part in text.split(",") if part.strip()) if text else ()


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Declare options of several commands in one place, in their order."""

    def decorate(function: F) -> F:
        return functools.reduce(
            lambda wrapped, option: option(wrapped), reversed(options), function
        )

    return decorate


def _require_sources(
    context: click.Context, argument: click.Parameter, sources: tuple[str, ...]
) -> tuple[str, ...]:
    """Say what is missing; a single word is what click takes for DEST, and SOURCE for missing."""
    if not sources:
        named = " and ".join(
            each.make_metavar(context)
            for each in context.command.params
            if isinstance(each, click.Argument)
        )
        raise click.UsageError(f"Name both, {named}.", context)
    return sources


sources_argument = click.argument(
    "sources", metavar="SOURCE...", nargs=-1, callback=_require_sources
)

_source = option_group("Source")

source_kind_options = together(
    _source(
        "--from",
        "kind",
        type=click.Choice(SOURCE_KINDS),
        help="What SOURCE is, if its names do not tell: shards of a format; images in a directory "
        "or an archive; parts, files that make up samples; pixels, as CIFAR and MNIST come; "
        "Parquet; a manifest of SageMaker.",
    ),
    _source(
        "--parts",
        is_flag=True,
        help="Group files of one directory that share a name up to the first dot into one sample: "
        "1.jpg, 1.json.",
    ),
    _source(
        "--pair",
        "pairs",
        multiple=True,
        metavar="FIELD=PATTERN",
        help="Group files whose * stands for the same text into one sample: --pair "
        "image=img/*.jpg --pair mask=masks/*.png",
    ),
)

labels_options = together(
    _source(
        "--list",
        "list_file",
        metavar="FILE",
        help="Take the samples and labels that an MXNet .lst names: paths below SOURCE or, in "
        "shards, keys.",
    ),
    _source(
        "--labels",
        metavar="FILE",
        help="Take samples and labels from a CSV or TSV file, as Kaggle has them; an id without "
        "extension finds its image.",
    ),
    _source("--path-column", metavar="NAME", help="The column of paths or ids in --labels."),
    _source(
        "--label-column",
        metavar="NAME[,NAME...]",
        help="The column of labels; several give several labels.",
    ),
    _source(
        "--label-separator",
        metavar="TEXT",
        help="Text between several tags in the column of labels: ' ' for \"haze primary\". A label "
        "becomes a 0 or a 1 for each tag, in the order of classes.txt.",
    ),
    _source(
        "--duplicates",
        type=click.Choice(["error", "first", "keep"]),
        help="If --list or --labels names an image again: stop, use the first row only, or make a "
        "sample of each row.  [default: error]",
    ),
    _source(
        "--extensions",
        metavar="EXT[,EXT...]",
        help="File name extensions of images.  [default: those of JPEG, PNG, WebP, GIF, BMP, TIFF, "
        "AVIF, JPEG 2000 and PPM]",
    ),
)

classes_options = together(
    _source(
        "--classes",
        metavar="FILE",
        help="Class names, one a line, in the order of their numbers: a class that is not among "
        "them is an error, and one without images keeps its number.",
    ),
    _source(
        "--class-order",
        type=click.Choice(["name", "natural"]),
        help="Order that numbers the classes: name sorts by code point (1, 10, 2), as torchvision "
        "does; natural reads numbers in names as numbers (1, 2, 10).  [default: name]",
    ),
)

_fields = option_group("Fields")

fields_options = together(
    _fields(
        "--image-field",
        metavar="NAME",
        help="Field that is the image, if dsprep finds none or several.",
    ),
    _fields(
        "--label-field",
        metavar="NAME",
        help="Field that is the label; json.label is a part of the field json.",
    ),
    _fields(
        "--label-type",
        type=click.Choice(["class", "multi", "float", "text"]),
        help="Type of the label: the name or number of a class, a list of class numbers, numbers "
        "that are kept as they are, or text.",
    ),
    _fields(
        "--schema",
        metavar="FILE",
        help="Take the schema from FILE, as --schema-out writes it, instead of looking at samples.",
    ),
    _fields(
        "--look",
        type=click.Choice(["all"]),
        help="Look at all samples to settle the schema.  [default: the first 64, and 2 of each "
        "shard]",
    ),
    _fields("--no-image", is_flag=True, help="Accept samples without an image: tables, audio."),
)

source_options = together(source_kind_options, labels_options, classes_options, fields_options)


def take_source(options: dict[str, Any], root: str, *others: str) -> Source:
    """Pop the options of a source out of all options."""
    from dsprep.sources.reading import make_choice, make_source

    return make_source(
        root,
        choice=make_choice(
            image_field=options.pop("image_field"),
            label_field=options.pop("label_field"),
            label_type=(label_type := options.pop("label_type")),
            schema=options.pop("schema"),
            look=options.pop("look"),
            no_image=options.pop("no_image"),
        ),
        others=others,
        list_file=options.pop("list_file"),
        labels=options.pop("labels"),
        path_column=options.pop("path_column"),
        label_columns=split_commas(options.pop("label_column")),
        label_separator=options.pop("label_separator"),
        label_type=label_type,
        duplicates=options.pop("duplicates"),
        classes=options.pop("classes"),
        class_order=options.pop("class_order"),
        extensions=split_commas(options.pop("extensions")),
        kind=options.pop("kind"),
        parts=options.pop("parts"),
        pairs=parse_pairs(options.pop("pairs"), "--pair"),
        whole=True,
    )


_run = option_group("Run")
workers_option = _run(
    "-j",
    "--workers",
    type=Count(),
    help="Maximum number of processes: up to 64, or four times the cores.  [default: the cores "
    "that this process may use]",
)

dry_run_option = _run("--dry-run", is_flag=True, help="Say what would be done, write nothing.")


def _hush(context: click.Context, option: click.Parameter, quiet: bool) -> bool:
    """See that nothing is said of what is waited for."""
    if quiet:
        WAITS.listen(None)
    return quiet


output_options = together(
    _run("--json", "as_json", is_flag=True, help="Print the report as JSON."),
    _run(
        "-q",
        "--quiet",
        is_flag=True,
        callback=_hush,
        help="No progress, and no report on success.",
    ),
)
