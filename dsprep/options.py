"""When each option takes effect: one table for all commands and all public functions.

An option that cannot take effect is refused, never ignored: who gives it expects what it says. Each
rule is checked as soon as what it depends on is known: other options at once; the format when the
destination has been looked at; what SOURCE holds when it has been indexed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Sized
from functools import cache
from typing import Any, TypeAlias

from dsprep.errors import OptionError
from dsprep.tuples import NamedTuple

Given: TypeAlias = Mapping[str, Any]
"""The options that were given, with their values, by names such as ``--quality``."""

FACTS = {
    "format": "The name of the format to write.",
    "single": "The file or the folder to write, if that is not a directory of shards; or None.",
    "gzip": "Whether the name of that file says that it is compressed.",
    "remote": "Whether the destination, or what is verified, is on S3.",
    "stream": "Whether one shard is read, or written, as a stream.",
    "stdout": "Whether that stream is stdout.",
    "image_files": "Whether the source is files of images, in directories or archives.",
    "samples": "Whether the source is samples with fields, which a table may tell.",
    "images": "Whether samples of the source have, or may have, an image.",
    "parquet": "Whether the source is Parquet.",
    "labeled": "Whether samples of the source have labels.",
    "objects": "Whether samples of the source have objects: boxes.",
    "framed": "Whether samples of the source have objects or masks.",
    "tfrecords": "Whether the source is TFRecord shards.",
    "classified": "Whether samples of the source have labels or objects.",
    "annotated": "Whether the source has annotations beside its images.",
    "annotations": "What these are those of: COCO, YOLO, tables, and so on.",
    "reads": "The options that have an effect with these.",
    "own_masks": "Whether they have masks.",
    "own_runs": "Whether these are runs of pixels, in a table.",
    "shares": "Whether their boxes are shares of the size of images.",
    "boxes_alone": "Whether their objects have neither polygons nor masks.",
    "marked": "Whether the format keeps all marks of objects, such as crowd.",
    "copied": "Whether samples stay as they are in the shards of the source.",
    "rows": "Whether rows of a list, a table or a manifest name the samples.",
    "named": "Whether names of directories or in a table number the classes.",
    "carried": "Whether shards have the names that they have in the source.",
    "looks": "Whether images are looked at.",
    "made": "Whether the data set that is added to was made with a transform.",
    "is_list": "Whether the source of a split is a list.",
    "kept": "Whether a split keeps the sides of its source.",
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
    "class_names_file": "--class-names",
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
    "channels": "--channel",
    "readers": "--reader",
}
"""Options whose names are not those of the parameters of functions."""


class OptionRule(NamedTuple):
    """When some options take effect."""

    commands: Sequence[str]  # the commands that it is for; none means all with the option
    options: Sequence[str]
    why_not: str  # what is wrong if they do not, and what to do; may name facts
    # whether one does, by the options that were given, the facts, and its own name as `option`
    holds: Callable[[Given], bool]
    facts: Sequence[str]  # the facts that it needs
    verdict: str = "has no effect"


_LOSSLESS = ("png", "raw", "raw-chw")  # values of `--encode`


def _names_records(known: Given) -> bool:
    return known.get("--key", "path") not in ("path", "index")


def _changes_images(known: Given) -> bool:
    options = ("--resize", "--crop", "--encode", "--color", "--op", "--augment")
    return any(known.get(name) not in (None, "keep") for name in options)


def _cuts(known: Given) -> bool:
    return known.get("--crop") is not None or _warps(known)


def _warps(known: Given) -> bool:
    moving = r"\b(crop|rotate|shift|shear|zoom|[hv]flip)\b"
    return re.search(moving, f"{known.get('--op')} {known.get('--augment')}") is not None


_CONDITIONS: dict[str, tuple[Callable[[Given], bool], Sequence[str]]] = {
    "parquet_written": (lambda known: known["format"] == "parquet", ["format"]),
    "tfrecord": (lambda known: known["format"] == "tfrecord", ["format"]),
    "packable": (lambda known: known["format"] in ("tfrecord", "mds"), ["format"]),
    "zstd": (
        lambda known: known.get("--compression") != "zstd" or known["format"] == "mds",
        ["format"],
    ),
    "webdataset": (lambda known: known["format"] == "webdataset", ["format"]),
    "lines": (lambda known: known["format"] == "csv", ["format"]),
    "recordio": (lambda known: known["format"] == "recordio", ["format"]),
    "augmented": (lambda known: known["format"] == "augmented-manifest", ["format"]),
    "features": (
        lambda known: known["format"] == "tfrecord" or known["tfrecords"],
        ["format", "tfrecords"],
    ),
    "suffix": (lambda known: not known["gzip"] or known["--compression"] == "gzip", ["gzip"]),
    "reading": (lambda known: known["option"] in known["reads"], ["annotations", "reads"]),
    "columns": (
        lambda known: known["option"] in known["reads"] or "--labels" in known,
        ["annotations", "reads"],
    ),
    "shuffling": (lambda known: known.get("--shuffle") is not False or "--augment" in known, []),
    "alone": (lambda known: known.get("--from") != "images", []),
    "rejecting": (lambda known: known.get("--on-error") != "fail", []),
    "changes": (_changes_images, []),
    "warps": (_warps, []),
    "cuts": (_cuts, []),
    # a seed also shuffles what becomes shards
    "drawing": (lambda known: not known["kept"] or bool(known.get("--to")), ["kept"]),
    "records": (_names_records, []),
    "keys": (lambda known: "--latest" in known or not _names_records(known), []),
    # whether images may become JPEG or WebP
    "lossy": (lambda known: known.get("--encode") not in _LOSSLESS and _changes_images(known), []),
    # remote files are refused first
    "decoding": (lambda known: bool(known.get("--decode")), ["remote"]),
    "file": (lambda known: known.get("--output") not in (None, "-"), []),
}
"""Conditions that are more than another option or a true fact, with the facts that they need."""

_GROUPS = {
    "TABLES": "--list --labels --label-regex --fields --columns --label-column --label-separator "
    "--extensions --class-order --parts --pair --annotations --annotation-format --unlisted "
    "--voc-origin --uncertain --box --box-columns --no-object --class-names --sides-from --masks "
    "--mask-classes --mask-colors --mask-values --keep-classes --keep-numbers "
    "--pixel-columns --leave-out --layout",
    "FIELDS": "--image-field --label-field --label-type --schema --look --no-image --raw-image",
    "COPIES": "--per-image --per-class --balance --keep-originals --fill --mask-fill --preview "
    "--any-side",
    "SIZES": "--target-size --shards --samples-per-shard",
    "NOT_STREAMED": "--schema-out --look --name --compression --dry-run --workers --json "
    "--filter-table",
    "OBJECTS": "--storage-class --sse --sse-kms-key-id --acl --tag --metadata",
    "SYNCING": "--include --exclude --size-only --delete --max-delete --verify --follow-symlinks "
    "--concurrency --part-size --bandwidth --abort-on-exit",
}
"""Options that rules name together."""

# [COMMAND, COMMAND:] OPTIONS needs one of these options, facts or conditions | excludes all of them
#     what is wrong if they do not take effect, and what to do; `refuses` is for what could be asked
_RULES = """
--path-column needs --labels --annotations --assign
    it names a column of a table; give the table with --labels
--label-column needs --labels --annotations
    it names a column of a table; give --labels TABLE, or --label-field if it is the source
--box-columns --no-object needs --annotations
    it tells how a table of boxes is read; give the table with --annotations
sagemaker: --class-names needs --algorithm
    it tells a hyperparameter, num_classes; give --algorithm NAME
--class-names needs --annotations --algorithm
    it tells how a table of boxes is read; give the table with --annotations
--box-columns needs --box
    it names the columns of --box: give --box xywh or --box xyxy, too
--box --box-columns --no-object --class-names needs reading
    it tells how a table of boxes is read, and these are annotations of {annotations}; leave it out
--path-column --label-column needs columns
    it names a column of a table, and these are annotations of {annotations}; leave it out
--masks excludes own_runs
    the table has the masks, as runs of pixels; leave it out
--mask-classes --mask-colors --mask-values excludes own_masks
    the annotations tell what the pixels of masks mean; leave it out
--mask-classes --mask-colors --mask-values needs --masks
    it tells what the pixels of masks mean; give --masks DIR
--keep-numbers needs --keep-classes
    it says how the classes are numbered that are kept; give --keep-classes FILE
--label-separator needs --labels
    it tells how labels are written in a table; give --labels FILE
--fields --columns needs --labels
    it names columns of a table; give the table with --labels
--label-regex excludes --list --labels --annotations --label-separator
    it takes labels from file names; leave one of them out
--label-regex needs image_files --pair
    SOURCE is not a directory or an archive of image files, nor --pair; leave it out
lst append: --label-column excludes --label
    --label gives all new rows their label; leave one of them out
--look excludes --schema
    with --schema, no sample is looked at; leave one of them out
verify: TABLES --path-column --from --classes --duplicates --filter-table needs --against
    it tells what the shards are compared with; give --against SOURCE
split: TABLES --from FIELDS excludes is_list
    SOURCE is a list; it goes with a directory or an archive as SOURCE
split: --root needs is_list
    SOURCE is not a list, and so it is the root itself; leave it out
--resize --crop --encode --color --check --max-pixels needs images
    the samples of SOURCE are rows of numbers and text, not images; leave it out
--extensions needs image_files
    SOURCE is not a directory or an archive of image files; leave it out
--image-field --label-field --look --raw-image excludes image_files
    SOURCE is image files, which have no fields of their own; leave it out
--leave-out needs image_files
    SOURCE is not a directory or an archive of image files; leave it out
--annotations --masks excludes alone
    --from images takes the images alone; leave one of them out
--schema needs samples
    SOURCE is image files, which have no fields of their own; leave it out
--classes needs classified
    the samples of SOURCE have no labels; give --list or --labels, or leave it out
--label-type needs labeled
    the samples of SOURCE have no labels; give --list or --labels, or leave it out
--annotation-format needs --annotations
    it tells how these are written: give --annotations PATH, or leave it out
--annotation-size --boxes-frame --unlisted --voc-origin needs annotated
    SOURCE has no annotations that it could be about; leave it out
--latest needs records
    it orders the rows of a record; give --key with the column that identifies a record
pack, convert, shard, augment: --key needs keys
    keys come from path or index, or with --latest from a column; choose one of them
--as-of needs --latest
    it says which rows are too new: give --latest with the column of times
--latest needs parquet
    SOURCE is not Parquet, whose columns tell records and times; leave it out
--duplicates needs rows
    no list and no table names the samples; give --list or --labels, or leave it out
--class-order excludes --classes
    the classes have the order of the file; leave out --classes or this
--class-order needs named
    neither names of directories nor names in a table number the classes; leave it out

SIZES --multiple-of excludes single
    {single} is not cut into shards; name a directory of shards, or leave it out
--multiple-of excludes --samples-per-shard
    --samples-per-shard fixes the number of shards; give --target-size or --shards
--header needs lines
    only CSV has a line with the names of columns; leave it out
--apart excludes single
    manifest.json and the others always lie beside the file {single}; leave it out
convert: --apart excludes stream
    a stream is written without companions; leave it out
--name excludes single
    the name is that of {single}; leave it out
--name excludes carried
    shards keep the names that they have in SOURCE, or those of lists, unless a size is given
--compression needs packable
    it goes with tfrecord and mds, not with {format}
--compression needs zstd
    zstd goes with mds, not with {format}; give --compression gzip
--features needs features
    it goes with tfrecord, which is neither read nor written; leave it out
--compression needs suffix
    the name of DEST ends with .gz; choose another name, or leave it out
pack, convert, shard, augment: --metadata --order needs webdataset
    it goes with webdataset, not with {format}
--empty needs recordio
    it goes with recordio, not with {format}
--card needs parquet_written
    it goes with parquet, not with {format}
--card excludes single
    a card describes a directory of shards, and not the file {single}; leave it out
--license needs --card
    the card names it; give --card, or leave it out
--object-masks needs tfrecord
    it goes with tfrecord, not with {format}
--crowd --empty --object-masks --annotation-size needs objects
    the samples of SOURCE have no objects; leave it out
--boxes-frame needs framed
    the samples of SOURCE have neither objects nor masks; leave it out
--annotation-size excludes shares
    the boxes of SOURCE are shares of the size of their images, large or small; leave it out
--object-masks excludes boxes_alone
    the objects of SOURCE have boxes, and neither polygons nor masks; leave it out
--crowd excludes marked
    {format} keeps the marks crowd, difficult and group-of; leave it out
--crowd --empty --object-masks excludes copied
    samples of SOURCE are {format} already, and stay as they are; leave it out
--prefix needs augmented
    it goes with augmented-manifest, not with {format}

pack, shard append, lst create: --seed needs shuffling
    nothing is shuffled; leave out --no-shuffle or --seed
shard: --seed needs --shuffle
    nothing is shuffled; give --shuffle
--max-errors needs rejecting
    --on-error fail stops at the first; leave one of them out
pack, convert, augment: --max-pixels needs looks
    images are not looked at; give --check header or --check decode

--min-visible needs cuts
    it says which objects are dropped where images are cut: give --crop
--enlarge needs --resize
    it says how to resize: give --resize
pack, convert, augment: --filter needs --resize
    it says how to resize: give --resize
--quality needs lossy
    no image is encoded as JPEG or WebP: give --encode jpeg or --encode webp, or leave it out
pack: COPIES needs --augment
    it is about augmented copies: give --augment NAME=VALUE
pack, convert, augment: --keep-fields needs changes
    images stay as they are; give --resize, --crop, --encode or --color, or leave it out
shard append: --keep-fields needs made
    DATASET was made without a transform, so that images stay as they are; leave it out

convert: TABLES SIZES --path-column --classes --latest --prefix NOT_STREAMED excludes stream
    it does not go with -, as a stream is one shard; leave it out
pack, augment: --per-image excludes --per-class --balance
    another option says how many copies there are; leave one of them out
pack, augment: --balance excludes --per-class
    another option says how many copies there are; leave one of them out
pack, augment: --fill --mask-fill needs warps
    no operation moves the image; leave it out
pack, augment: --mask-fill needs framed
    the samples of SOURCE have no masks; leave it out
pack, augment: --split --group excludes --op --augment
    copies would be divided as well: divide the originals first, with dsprep split or pack --split
pack, augment: --preview excludes --part
    each part would write it: give it with --dry-run first
pack, convert, shard, augment: --part refuses --overwrite
    parts add to what other parts write; remove what is there first, or leave out --overwrite
convert: --part refuses stream
    a stream has no parts; leave it out
--ray-address needs --engine
    it says which cluster runs the work: give --engine ray
pack, convert, shard, augment: --engine refuses --part
    --part divides the work among machines, too; leave one of them out
convert: --engine refuses stream
    a stream is written by one process; leave it out
convert: --overwrite excludes stdout
    stdout is not replaced; leave it out

verify: --download needs remote
    it goes with s3://, and files on a disk are always read; leave it out
verify: --decode --against --loader --max-pixels --workers excludes remote
    it looks into shards on a disk: fetch them with dsprep sync, and verify them there
verify: --engine refuses remote
    the checksums of files on S3 are compared by this machine; leave it out
verify: --max-pixels needs decoding
    images are not decoded; give --decode

--assign-column --skip-unmatched needs --assign
    it tells how to read a file of sides; give the file with --assign
split: --near needs --leaks
    it says what copies are; give --leaks report or --leaks together
split, dedup: --near-distance needs --near
    it says which images look alike; give --near, too
inspect: --sample --seed --head --measured --part excludes --key
    one sample is shown, that of --key; leave one of them out
inspect: --part excludes --measured
    it takes what parts have measured; leave one of them out
dedup: --max-pixels needs --near
    images are not decoded; give --near
dedup: --overwrite needs file
    no other file is written than FILE; give -o FILE, or leave it out
pack, convert, shard, augment: --group needs --split
    it says what stays on one side; give --split, too
convert: --split excludes stream
    a stream is one shard; leave it out
split: --stratify excludes --stable
    --stable chooses sides by hashes alone; leave one of them out
split: --ratio --group --stable --seed --stratify excludes assigned
    {assigned} tells the side of each sample; leave it out
split: --group --stable --stratify excludes kept
    SOURCE has sides, which stay as they are; give --ratio to divide them
split: --seed needs drawing
    SOURCE has sides, which stay as they are; give --ratio to divide them
split: SIZES needs --to
    lists are not cut into shards; give --to FORMAT
split: --apart needs --to
    lists have no manifest; give --to FORMAT
split: --folds --materialize excludes --to
    shards have sides, and --to writes no files; leave one of them out

bench: --csv excludes --json
    both are forms of one report; leave one of them out

lst create, lst sample, lst relabel: --overwrite needs file
    no other file is written than LIST or stdout; give -o FILE, or leave it out
lst sample: --strict needs --count --per-class
    there is no number of rows to come short of; give --count or --per-class
lst set, lst remove: --classes needs --label --class
    no class is named; give --class or --label, or leave it out
lst remove: --root needs --missing
    files are not looked up; give --missing, too
lst replace: --classes needs --label --class
    paths are changed, and no classes; leave it out
lst diff: --root needs --content
    files are not looked at; give --content, too

shard index: --overwrite --dry-run excludes --check
    --check writes nothing; leave it out

serve: --seed needs --shuffle-shards
    nothing is shuffled; give --shuffle-shards
serve: --fifo --timeout excludes --stdout
    it is about pipes, and stdout needs none; leave one of them out
cost: --samples needs --size
    without DATA, both tell what there is; give --size
cost: --size needs --samples
    without DATA, both tell what there is; give --samples
cost: --gpu-hour needs --epoch-hours
    the price of an epoch depends on its length; give --epoch-hours
cost: --epoch-hours needs --utilization
    an epoch takes longer if machines wait for data; give --utilization
cost: --utilization needs --gpu-hour
    it tells the price of an epoch; give --gpu-hour and --epoch-hours

--older-than needs --clean-uploads
    it tells which unfinished uploads to abort; give --clean-uploads
sync: SYNCING OBJECTS excludes --clean-uploads
    --clean-uploads syncs no files; leave one of them out
sync: --max-delete needs --delete
    nothing is deleted; give --delete
sync: --follow-symlinks needs local_source
    it goes with a local source, and SRC is on S3; leave it out
sync: OBJECTS needs remote
    it is for objects on S3, and DST is on a disk; leave it out
"""


@cache
def rules() -> Sequence[OptionRule]:
    """Return the rules of the options that do not always take effect; ``--help`` needs no rule."""
    found, lines = [], filter(None, _RULES.splitlines())
    for line, why_not in zip(lines, lines, strict=True):
        commands, _, what = line.rpartition(": ")
        options, verb, others = re.split(r" (needs|excludes|refuses) ", what)
        for name, names in _GROUPS.items():
            options = options.replace(name, names)
        condition = _CONDITIONS.get(others) or _condition(verb == "needs", others.split())
        for_commands = commands.split(", ") if commands else []
        rule = OptionRule(for_commands, options.split(), why_not.strip(), *condition)
        found.append(rule._replace(verdict="is refused") if verb == "refuses" else rule)
    return found


def _condition(needed: bool, names: Sequence[str]) -> tuple[Callable[[Given], bool], Sequence[str]]:
    def holds(known: Given) -> bool:
        return needed == any(known.get(name) not in (None, False, ()) for name in names)

    return holds, [name for name in names if not name.startswith("--")]


def option_name(parameter: str) -> str:
    """Return the option of the command line that a parameter of a function is."""
    return _NAMES.get(parameter, "--" + parameter.replace("_", "-"))


def given_options(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a call of a public function gives."""
    named = {**arguments, **getattr(arguments.get("transform"), "__dict__", {})}
    named |= named.pop("kind_options", None) or {}
    return {
        option_name(name): value for name, value in named.items() if not _is_left_out(name, value)
    }


def _is_left_out(name: str, value: Any) -> bool:
    if name in ("follow_links", "shuffle", "stratify", "keep_originals"):  # False means --no-OPTION
        return name != "shuffle" and value is not False  # these options are on by default
    return value is None or value is False or (isinstance(value, Sized) and not len(value))


def require_effect(command: str, given: Given, **facts: Any) -> None:
    """Refuse an option that cannot take effect, as far as the facts that are known decide it."""
    for rule in rules():
        if rule.commands and command not in rule.commands or not facts.keys() >= {*rule.facts}:
            continue
        for option in rule.options:
            known = {**given, **facts, "option": option}
            if given.get(option) is not None and not rule.holds(known):
                why_not = rule.why_not.format_map(facts)
                raise OptionError(f"{shown(option, given[option])} {rule.verdict}: {why_not}")


def shown(option: str, value: Any) -> str:
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
