"""When each option takes effect: one table for all commands and all public functions.

An option that cannot take effect is refused, never ignored: who gives it expects what it says. Each
rule is checked as soon as what it depends on is known: other options at once; the format when the
destination has been looked at; what SOURCE holds when it has been indexed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any, NamedTuple, TypeAlias

from dsprep.errors import OptionError

Given: TypeAlias = Mapping[str, Any]
"""The options that were given, with their values, by names such as ``--quality``."""

Facts: TypeAlias = Mapping[str, Any]  # what else is known: see `FACTS`

FACTS = {
    "format": "The name of the format to write.",
    "single": "The file or the folder to write, if that is not a directory of shards; or None.",
    "gzip": "Whether the name of that file says that it is compressed.",
    "remote": "Whether the destination, or what is verified, is on S3.",
    "stream": "Whether one shard is read, or written, as a stream.",
    "stdout": "Whether that stream is stdout.",
    "image_files": "Whether the source is files of images, in directories or archives.",
    "labeled": "Whether samples of the source have labels.",
    "tfrecords": "Whether the source is TFRecord shards.",
    "rows": "Whether rows of a list, a table or a manifest name the samples.",
    "named": "Whether names of directories or in a table number the classes.",
    "carried": "Whether shards have the names that they have in the source.",
    "looks": "Whether images are looked at.",
    "made": "Whether the data set that is added to was made with a transform.",
    "is_list": "Whether the source of a split is a list.",
    "assigned": "The file that tells the side of each sample of a split; or None.",
    "local_source": "Whether the files to sync lie on a disk.",
}
"""What a rule can depend on besides other options; whoever knows some of them checks the rule."""

_NAMES = {
    "format": "--to",
    "follow_links": "--follow-symlinks",
    "kind": "--from",
    "kinds": "--kind",
    "list_file": "--list",
    "label_columns": "--label-column",
    "pairs": "--pair",
    "ratios": "--ratio",
    "out": "--output",
    "paths": "--path",
    "ids": "--id",
    "chosen": "--class",
    "map_file": "--map",
    "roots": "--root",
    "reader": "--for",
}
"""Options whose names are not those of the parameters of functions."""


class Condition(NamedTuple):
    """When options take effect."""

    holds: Callable[[Given, Facts], bool]
    facts: tuple[str, ...] = ()  # the facts that it needs


class Rule(NamedTuple):
    """When some options take effect."""

    options: tuple[str, ...]
    takes_effect: Condition
    why_not: str  # what is wrong if they do not, and what to do; may name facts
    commands: tuple[str, ...] = ()  # the commands that it is for; none means all with the option


def _with(*others: str) -> Condition:
    """Options that need one of others."""
    return Condition(
        lambda given, facts: any(given.get(name) not in (None, False, ()) for name in others)
    )


def _without(*others: str) -> Condition:
    """Options that exclude others."""
    return Condition(lambda given, facts: not any(given.get(name) for name in others))


def _if(fact: str, *values: Any) -> Condition:
    """Options that need a fact to have one of some values; to be true, if none is named."""
    return Condition(
        lambda given, facts: facts[fact] in values if values else bool(facts[fact]), (fact,)
    )


def _if_not(fact: str) -> Condition:
    return Condition(lambda given, facts: not facts[fact], (fact,))


def _changes_images(given: Given, facts: Facts) -> bool:
    options = ("--resize", "--crop", "--encode", "--color")
    return any(given.get(name) not in (None, "keep") for name in options)


_SOURCE = (
    *("--list", "--labels", "--path-column", "--label-column", "--extensions"),
    *("--label-separator", "--class-order", "--from", "--parts", "--pair"),
)
_FIELDS = (*("--image-field", "--label-field", "--label-type", "--schema", "--look", "--no-image"),)
_SIZES = ("--target-size", "--shards", "--samples-per-shard", "--multiple-of")
_OF_FILES = ("--decode", "--against", "--loader", "--max-pixels", "--workers")
_OF_OBJECTS = ("--storage-class", "--sse", "--sse-kms-key-id", "--acl", "--tag", "--metadata")
_OF_SHUFFLES = ("pack", "shard append", "lst create")
_WRITING = ("pack", "convert", "shard")
_NOT_OF_STREAMS = (
    *(each for each in _SOURCE if each != "--from"),
    *("--classes", "--prefix", "--target-size", "--shards", "--samples-per-shard"),
    *("--schema-out", "--look"),
    *("--name", "--compression", "--dry-run", "--workers", "--json"),
)
_NOT_OF_CLEANING = (
    *("--include", "--exclude", "--size-only", "--delete", "--max-delete"),
    *("--verify", "--follow-symlinks", "--concurrency", "--part-size", "--bandwidth"),
    *("--abort-on-exit", *_OF_OBJECTS),
)

RULES = (
    # Source
    Rule(
        ("--path-column",),
        _with("--labels", "--assign"),
        "it names a column of a table; give the table with --labels",
    ),
    Rule(
        ("--label-column",),
        _with("--labels"),
        "it names a column of a table; give the table with --labels",
    ),
    Rule(
        ("--label-separator",),
        _with("--labels"),
        "it tells how labels are written in a table; give --labels FILE",
    ),
    Rule(
        ("--label-column",),
        _without("--label"),
        "--label gives all new rows their label; leave one of them out",
        commands=("lst append",),
    ),
    Rule(
        ("--look",),
        _without("--schema"),
        "with --schema, no sample is looked at; leave one of them out",
    ),
    Rule(
        (*_SOURCE, "--classes", "--duplicates"),
        _with("--against"),
        "it tells what the shards are compared with; give --against SOURCE",
        commands=("verify",),
    ),
    Rule(
        (*(each for each in _SOURCE if each != "--path-column"), *_FIELDS),
        _if_not("is_list"),
        "SOURCE is a list; it goes with a directory or an archive as SOURCE",
        commands=("split",),
    ),
    Rule(
        ("--root",),
        _if("is_list"),
        "SOURCE is not a list, and so it is the root itself; leave it out",
        commands=("split",),
    ),
    Rule(
        ("--extensions",),
        _if("image_files"),
        "SOURCE is not a directory or an archive of image files; leave it out",
    ),
    Rule(
        ("--image-field", "--label-field", "--schema", "--look"),
        _if_not("image_files"),
        "SOURCE is image files, which have no fields of their own; leave it out",
    ),
    Rule(
        ("--classes", "--label-type"),
        _if("labeled"),
        "the samples of SOURCE have no labels; give --list or --labels, or leave it out",
    ),
    Rule(
        ("--duplicates",),
        _if("rows"),
        "no list and no table names the samples; give --list or --labels, or leave it out",
    ),
    Rule(
        ("--class-order",),
        _without("--classes"),
        "the classes have the order of the file; leave out --classes or this",
    ),
    Rule(
        ("--class-order",),
        _if("named"),
        "neither names of directories nor names in a table number the classes; leave it out",
    ),
    # Shards
    Rule(
        _SIZES,
        _if_not("single"),
        "{single} is not cut into shards; name a directory of shards, or leave it out",
    ),
    Rule(
        ("--multiple-of",),
        _without("--samples-per-shard"),
        "--samples-per-shard fixes the number of shards; give --target-size or --shards",
    ),
    Rule(("--name",), _if_not("single"), "the name is that of {single}; leave it out"),
    Rule(
        ("--name",),
        _if_not("carried"),
        "shards keep the names that they have in SOURCE; give --target-size, --shards or "
        "--samples-per-shard for new ones",
    ),
    Rule(("--compression",), _if("format", "tfrecord"), "it goes with tfrecord, not with {format}"),
    Rule(
        ("--features",),
        Condition(
            lambda given, facts: facts["format"] == "tfrecord" or facts["tfrecords"],
            ("format", "tfrecords"),
        ),
        "it goes with tfrecord, which is neither read nor written; leave it out",
    ),
    Rule(
        ("--compression",),
        Condition(
            lambda given, facts: not facts["gzip"] or given["--compression"] == "gzip", ("gzip",)
        ),
        "the name of DEST ends with .gz; choose another name, or leave it out",
    ),
    Rule(
        ("--metadata",),
        _if("format", "webdataset"),
        "it goes with webdataset, not with {format}",
        commands=_WRITING,
    ),
    Rule(
        ("--prefix",),
        _if("format", "augmented-manifest"),
        "it goes with augmented-manifest, not with {format}",
    ),
    # Samples
    Rule(
        ("--seed",),
        Condition(lambda given, facts: given.get("--shuffle") is not False),
        "nothing is shuffled; leave out --no-shuffle or --seed",
        commands=_OF_SHUFFLES,
    ),
    Rule(
        ("--seed",), _with("--shuffle"), "nothing is shuffled; give --shuffle", commands=("shard",)
    ),
    Rule(("--filter-table",), _with("--filter"), "nothing uses its columns; give --filter"),
    Rule(
        ("--max-errors",),
        Condition(lambda given, facts: given.get("--on-error") != "fail"),
        "--on-error fail stops at the first; leave one of them out",
    ),
    Rule(
        ("--max-pixels",),
        _if("looks"),
        "images are not looked at; give --check header or --check decode",
        commands=("pack", "convert"),
    ),
    # Images
    Rule(("--enlarge",), _with("--resize"), "it says how to resize: give --resize"),
    Rule(
        ("--quality",),
        # whether images may become JPEG or WebP
        Condition(
            lambda given, facts: given.get("--encode") != "png" and _changes_images(given, facts)
        ),
        "no image is encoded as JPEG or WebP: give --encode jpeg or --encode webp, or leave it out",
    ),
    Rule(
        ("--keep-fields",),
        Condition(_changes_images),
        "images stay as they are; give --resize, --crop, --encode or --color, or leave it out",
        commands=("pack", "convert"),
    ),
    Rule(
        ("--keep-fields",),
        _if("made"),
        "DATASET was made without a transform, so that images stay as they are; leave it out",
        commands=("shard append",),
    ),
    # Streams
    Rule(
        _NOT_OF_STREAMS,
        _if_not("stream"),
        "it does not go with -, as a stream is one shard; leave it out",
        commands=("convert",),
    ),
    Rule(
        ("--overwrite",),
        _if_not("stdout"),
        "stdout is not replaced; leave it out",
        commands=("convert",),
    ),
    # verify
    Rule(
        ("--download",),
        _if("remote"),
        "it goes with s3://, and files on a disk are always read; leave it out",
        commands=("verify",),
    ),
    Rule(
        _OF_FILES,
        _if_not("remote"),
        "it looks into shards on a disk: fetch them with dsprep sync, and verify them there",
        commands=("verify",),
    ),
    Rule(
        ("--max-pixels",),
        Condition(_with("--decode").holds, ("remote",)),  # remote files are refused first
        "images are not decoded; give --decode",
        commands=("verify",),
    ),
    # split
    Rule(
        ("--assign-column", "--skip-unmatched"),
        _with("--assign"),
        "it tells how to read a file of sides; give the file with --assign",
    ),
    Rule(
        ("--near",),
        _with("--leaks"),
        "it says what copies are; give --leaks report or --leaks together",
    ),
    Rule(
        ("--near-distance",), _with("--near"), "it says which images look alike; give --near, too"
    ),
    Rule(
        ("--stratify",),
        _without("--stable"),
        "--stable chooses sides by hashes alone; leave one of them out",
        commands=("split",),
    ),
    Rule(
        ("--ratio", "--group", "--stable", "--seed", "--stratify"),
        _if_not("assigned"),
        "{assigned} tells the side of each sample; leave it out",
        commands=("split",),
    ),
    # lst
    Rule(
        ("--overwrite",),
        Condition(lambda given, facts: given.get("--output") not in (None, "-")),
        "no other file is written than LIST or stdout; give -o FILE, or leave it out",
        commands=("lst create", "lst sample", "lst relabel"),
    ),
    Rule(
        ("--strict",),
        _with("--count", "--per-class"),
        "there is no number of rows to come short of; give --count or --per-class",
        commands=("lst sample",),
    ),
    Rule(
        ("--classes",),
        _with("--label", "--class"),
        "no class is named; give --class or --label, or leave it out",
        commands=("lst set", "lst remove"),
    ),
    Rule(
        ("--classes",),
        Condition(lambda given, facts: False),
        "paths are changed, and no classes; leave it out",
        commands=("lst replace",),
    ),
    Rule(
        ("--root",),
        _with("--content"),
        "files are not looked at; give --content, too",
        commands=("lst diff",),
    ),
    # shard index
    Rule(
        ("--overwrite", "--dry-run"),
        _without("--check"),
        "--check writes nothing; leave it out",
        commands=("shard index",),
    ),
    # sync
    Rule(
        ("--older-than",),
        _with("--clean-uploads"),
        "it tells which unfinished uploads to abort; give --clean-uploads",
    ),
    Rule(
        _NOT_OF_CLEANING,
        _without("--clean-uploads"),
        "--clean-uploads syncs no files; leave one of them out",
        commands=("sync",),
    ),
    Rule(
        ("--max-delete",),
        _with("--delete"),
        "nothing is deleted; give --delete",
        commands=("sync",),
    ),
    Rule(
        ("--follow-symlinks",),
        _if("local_source"),
        "it goes with a local source, and SRC is on S3; leave it out",
        commands=("sync",),
    ),
    Rule(
        _OF_OBJECTS,
        _if("remote"),
        "it is for objects on S3, and DST is on a disk; leave it out",
        commands=("sync",),
    ),
)
"""All options that do not always take effect."""


def option_name(parameter: str) -> str:
    """Return the option of the command line that a parameter of a function is."""
    return _NAMES.get(parameter, "--" + parameter.replace("_", "-"))


def given_options(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a call of a public function gives."""
    named = {**arguments, **getattr(arguments.get("transform"), "__dict__", {})}
    return {
        option_name(name): value for name, value in named.items() if not _is_left_out(name, value)
    }


def _is_left_out(name: str, value: Any) -> bool:
    if name in ("follow_links", "shuffle", "stratify"):  # False is given as --no-…
        return name != "shuffle" and value is not False  # the others are on by default
    return value is None or value is False or (isinstance(value, Sized) and not len(value))


def require_effect(command: str, given: Given, **facts: Any) -> None:
    """Refuse an option that cannot take effect, as far as the facts that are known decide it."""
    for rule in RULES:
        condition = rule.takes_effect
        if rule.commands and command not in rule.commands or not facts.keys() >= {*condition.facts}:
            continue
        for option in rule.options:
            if given.get(option) is not None and not condition.holds(given, facts):
                shown = _shown(option, given[option])
                raise OptionError(f"{shown} has no effect: {rule.why_not.format_map(facts)}")


def _shown(option: str, value: Any) -> str:
    """An option as it was given."""
    if value is False:
        return option.replace("--", "--no-", 1)
    if value is True:
        return option
    if isinstance(value, Mapping):
        value = ",".join(f"{name}={each}" for name, each in value.items())
    elif not isinstance(value, str) and isinstance(value, Sequence):
        value = ",".join(map(str, value))
    return f"{option} {value!s:.80}"
