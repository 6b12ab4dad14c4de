"""The options of the commands that write data sets: each declared, documented and checked once.

Importing this must stay cheap: ``dsprep pack --help`` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from dsprep.arguments import AnyPath
from dsprep.declared import Option, Options, field, option
from dsprep.formats import CONCATENATIVE
from dsprep.images.augment import FILLS, FORMS

if TYPE_CHECKING:
    from dsprep.images.transform import Transform
    from dsprep.progress import Progress
    from dsprep.schema import Schema
    from dsprep.storage.s3.config import S3Config

_source, _annotations = partial(option, "Source"), partial(option, "Annotations")
_rare_annotations = partial(_annotations, rare=True)
_fields = partial(option, "Fields")
_shards = partial(option, "Shards")
_samples = partial(option, "Samples")
_images, _run = partial(option, "Images"), partial(option, "Run")
_rare_source, _rare_fields = partial(_source, rare=True), partial(_fields, rare=True)
_rare_shards, _rare_samples = partial(_shards, rare=True), partial(_samples, rare=True)
workers_field = _run(
    "Maximum number of processes. The limit is 64, or four times the cores if that is more.  "
    "[default: the cores that this process may use]"
)
_seed = _samples("Seed of the shuffle.  [default: 0]", least=None)


class AnnotationOptions(Options):
    """Where boxes, polygons and keypoints come from."""

    annotations: Sequence[AnyPath] = _annotations(
        "Take boxes, polygons and keypoints from PATH: a JSON file of COCO, data.yaml or the "
        "directory of labels of YOLO, a directory of Pascal VOC's XML files, a CSV or TSV file, "
        "Label Studio's JSON, a manifest of Ground Truth, an MXNet .lst. Repeat it for several "
        "files of COCO. Whole folders or archives of the first three are recognized without it.",
        default=(),
        metavar="PATH",
    )
    annotation_format: str | None = _rare_annotations(
        "Format of --annotations, if its name does not tell.",
        choices=("coco", "csv", "label-studio", "lst", "manifest", "voc", "yolo"),
    )
    unlisted: str | None = _rare_annotations(
        "What to do with images that annotations do not name: keep them as images without objects, "
        "or leave them out.  [default: keep for YOLO and tables, else drop]",
        choices=("keep", "drop"),
    )
    box: str | None = _rare_annotations(
        "What the columns of a box in --annotations mean, if their names do not tell: xywh, xyxy "
        "or cxcywh; with :normalized, shares of the width and height of images.",
        metavar="KIND",
    )
    box_columns: Sequence[str] = _rare_annotations(
        "The columns of a box: four, or one that holds four numbers.",
        default=(),
        metavar="NAME[,NAME...]",
    )
    no_object: str | None = _rare_annotations(
        "The class in --annotations that says that an image has no object, such as 'No finding'.",
        metavar="NAME",
    )
    class_names_file: AnyPath | None = _rare_annotations(
        "Names of the classes in --annotations, a CSV line each: /m/01g317,Person.", metavar="FILE"
    )
    masks: AnyPath | None = _annotations(
        "Take masks from DIR: PNG whose pixels are class numbers, 255 for none, with the names of "
        "the images; a.jpg has a.png or a_mask.png.",
        metavar="DIR",
    )
    mask_classes: AnyPath | None = _rare_annotations(
        "Names of the classes in --masks, one a line, from number 0.", metavar="FILE"
    )
    mask_colors: AnyPath | None = _rare_annotations(
        "Colors of the classes in --masks, one a line, from number 0: #ff0000, or 255 0 0.",
        metavar="FILE",
    )
    mask_values: Mapping[str, str] | None = _rare_annotations(
        "Class number of pixels in --masks that have another value: 255=1.", metavar="VALUE=NUMBER"
    )
    voc_origin: int | None = _rare_annotations(
        "The number of the first pixel in Pascal VOC's boxes: 0 or 1.  [default: 0 if a coordinate "
        "is 0, else 1]",
        metavar="0|1",
        least=0,
    )


class SourceOptions(AnnotationOptions):
    """What is read, and where its labels come from."""

    kind: str | None = _source("What SOURCE is, if its names do not tell.")
    parts: bool = _rare_source(
        "Group files of one directory that share a name up to the first dot into one sample: "
        "1.jpg, 1.json.",
        default=False,
    )
    pairs: Mapping[str, str] | None = _rare_source(
        "Group files whose * stands for the same text into one sample: --pair image=img/*.jpg "
        "--pair mask=masks/*.png",
        metavar="FIELD=PATTERN",
    )
    list_file: AnyPath | None = _source(
        "Take the samples and labels that an MXNet .lst names: paths below SOURCE or, in shards, "
        "keys. With a pattern, 'val_*.lst', each list becomes one shard of its name.",
        metavar="FILE",
    )
    labels: AnyPath | None = _source(
        "Take samples and labels from a table, as Kaggle has them: CSV, TSV, JSON Lines or "
        "Parquet; an id without extension finds its image.",
        metavar="FILE",
    )
    label_regex: str | None = _source(
        r"Take the class from file names: what a regular expression matches (its first "
        r"parentheses, or the whole match), '^(\w+?)\.' for dog.0.jpg.",
        metavar="REGEX",
    )
    fields: Sequence[str] = _source(
        "Columns of --labels to write as further fields of the samples, each with the type of its "
        "cells.",
        default=(),
        metavar="NAME[,NAME...]",
    )
    columns: Sequence[str] = _rare_source(
        "Names of the columns of --labels, if it has no header line.",
        default=(),
        metavar="NAME[,NAME...]",
    )
    sides_from: int | None = _rare_source(
        "Take the directory at this depth below SOURCE for the side of its images, as in "
        "site1/cat/1.jpg for 1. Each side becomes shards of its own: site1-000000.tar. Directories "
        "called train, test and the like need no option.",
        metavar="DEPTH",
    )
    path_column: str | None = _rare_source(
        "The column of paths or ids in --labels.", metavar="NAME"
    )
    label_columns: Sequence[str] = _source(
        "The column of labels in --labels; several columns give several labels.",
        default=(),
        metavar="NAME[,NAME...]",
    )
    label_separator: str | None = _rare_source(
        "Text between several tags in the column of labels: ' ' for \"haze primary\". A label "
        "becomes a 0 or a 1 for each tag, in the order of classes.txt.",
        metavar="TEXT",
    )
    pixel_columns: Sequence[str] = _rare_source(
        "Columns of a CSV file that hold the pixels of an image, from 0 to 255: one column of many "
        "numbers, or many columns, as 'pixel*' names them. Images are square and gray unless "
        "--raw-image tells their shape.",
        default=(),
        metavar="NAME[,NAME...]",
    )
    duplicates: str | None = _rare_source(
        "If --list or --labels names an image again: stop, use the first row only, or make a "
        "sample of each row.  [default: error]",
        choices=("error", "first", "keep"),
    )
    extensions: Sequence[str] = _rare_source(
        "File name extensions of images.  [default: those of JPEG, PNG, WebP, GIF, BMP, TIFF, "
        "AVIF, JPEG 2000 and PPM]",
        default=(),
        metavar="EXT[,EXT...]",
    )


class ClassOptions(Options):
    """How classes are numbered."""

    classes: AnyPath | None = _source(
        "Class names, one a line, in the order of their numbers. A class that is not in this file "
        "is an error, and a class without images keeps its number.",
        metavar="FILE",
    )
    class_order: str | None = _rare_source(
        "Order that numbers the classes: name sorts by code point (1, 10, 2), as torchvision does; "
        "natural reads numbers in names as numbers (1, 2, 10).  [default: name]",
        choices=("name", "natural"),
    )
    keep_classes: AnyPath | None = _source(
        "Take only samples of the classes that FILE names, and number these from 0 in their "
        "order: a line each, a name, an id, or both as in n01440764 tench.",
        metavar="FILE",
    )
    keep_numbers: bool = _rare_source(
        "With --keep-classes, let classes keep their numbers.", default=False
    )


class FieldOptions(Options):
    """What the fields of samples are."""

    image_field: str | None = _fields(
        "Field that is the image, if dsprep finds none or several.", metavar="NAME"
    )
    label_field: str | None = _fields(
        "Field that is the label; json.label is the key label in the field json.", metavar="NAME"
    )
    raw_image: str | None = _rare_fields(
        "Shape of images that are bare pixels in records or in a table: 32x32x3 for rows of "
        "pixels, 3x32x32 for planes, as CIFAR has them.",
        metavar="SHAPE",
    )
    label_type: str | None = _fields(
        "Type of the label: the name or number of a class, a list of class numbers, numbers that "
        "are kept as they are, or text.",
        choices=("class", "multi", "float", "text"),
    )
    schema: Schema | AnyPath | None = _rare_fields(
        "Take the schema from FILE, as --schema-out writes it, instead of looking at samples.",
        metavar="FILE",
    )
    look: str | None = _rare_fields(
        "Look at all samples to find the schema.  [default: the first 64, and 2 of each shard]",
        choices=("all",),
    )
    no_image: bool = _rare_fields("Accept samples without an image: tables, audio.", default=False)


class SelectionOptions(Options):
    """Which fields are written, and under which names."""

    only: Sequence[str] = _fields(
        "Keep only these fields; image and label stand for the image and the label, whatever "
        "their names are.",
        default=(),
        metavar="FIELD[,FIELD...]",
    )
    drop: Sequence[str] = _fields("Leave these fields out.", default=(), metavar="FIELD[,FIELD...]")
    rename: Mapping[str, str] | None = _fields(
        "Write the field OLD under the name NEW; with a dot in front, as in image=.image, that is "
        "the whole name of its member in WebDataset. height, width, channels and other facts of "
        "an image are written if OLD names them. Repeatable.",
        metavar="OLD=NEW",
    )
    cast: Mapping[str, str] | None = _rare_fields(
        "Give a field another type, such as tokens=list<int> for the text '[101, 7]'; repeatable.",
        metavar="FIELD=TYPE",
    )


class KeepOptions(Options):
    """Which fields a transform may leave as they are."""

    keep_fields: Sequence[str] = _rare_fields(
        "Fields that do not depend on the geometry of the image: a transform leaves them as they "
        "are.",
        default=(),
        metavar="FIELD[,FIELD...]",
    )


class ImageOptions(KeepOptions):
    """How samples are made: what is done to images, and which are refused."""

    transform: Transform | None = None  # the command line makes it of --resize, --crop and others
    check: str | None = _samples(
        "How to check images: decode the pixels; parse the structure (every part of a JPEG or PNG "
        "that can stop a decoder); read the header and the end; or none.  [default: header; for "
        "shards none; for recordio structure, because one bad image ends an epoch of MXNet]",
        choices=("decode", "structure", "header", "none"),
    )
    max_pixels: int | None = _rare_samples(
        "Reject images with more pixels, such as decompression bombs.  [default: 178956970]"
    )
    annotation_size: str | None = _rare_annotations(
        "Size of the images that were annotated, if those of SOURCE are smaller copies; listed "
        "takes the size that the annotations tell for each image.",
        metavar="WxH|listed",
    )
    boxes_frame: str | None = _rare_annotations(
        "Whether annotations are for images as they are displayed, upright, or as they are stored, "
        "before their EXIF orientation turns them.  [default: displayed]",
        choices=("displayed", "stored"),
    )
    metadata: bool = _rare_shards(
        "Add a .json with class, filename, width and height to each WebDataset sample.",
        default=False,
    )


class TransformOptions(Options):
    """What is done to images: the command line makes a ``Transform`` of these."""

    resize: int | tuple[int, int] | None = _images(
        "Resize: N for the shorter edge, or WxH. Images are not enlarged, unless --enlarge says "
        "so.",
        metavar="N|WxH",
    )
    crop: int | tuple[int, int] | None = _images(
        "Cut this size out of the center, after --resize.", metavar="N|WxH"
    )
    enlarge: bool = _images("Let --resize enlarge small images.", default=False)
    min_visible: float | None = option(
        "Annotations",
        "Drop an object if --crop, or an augmented copy, leaves less than this share of its area.  "
        "[default: 0.3]",
        rare=True,
    )
    filter: str | None = _images(
        "Resampling filter of --resize, from sharp to fast; simplejpeg and "
        "opencv-python-headless speed bilinear up.  [default: bicubic]",
        choices=("lanczos", "bicubic", "hamming", "bilinear"),
    )
    encode: str = _images(
        "Re-encode images; raw stores bare pixels (height, width, channels), raw-chw planes of "
        "pixels (channels, height, width).",
        default="keep",
        choices=("keep", "jpeg", "png", "webp", "raw", "raw-chw"),
    )
    quality: int | None = _images("JPEG and WebP quality, 1–100.  [default: 90]")
    color: str = _images("Convert colors.", default="keep", choices=("keep", "rgb", "gray"))


class FormatOptions(Options):
    """The format that is written, and how samples are laid out in it."""

    to: str | None = _shards("Format to write.  [default: by the suffix of DEST]")
    format: str | None = None  # another name of `to`
    features: str | None = _rare_shards(
        "Feature names of TFRecord examples.  [default: dsprep]",
        choices=("dsprep", "slim", "inception", "tfds"),
    )
    header: bool = _shards(
        "Write the names of the columns as the first line of CSV.  [default: no such line, as "
        "SageMaker's algorithms have it]",
        default=False,
    )
    order: Sequence[str] = _rare_shards(
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

    target_size: int | str | None = _shards("Maximum size of a shard on disk.  [default: 200MB]")
    shards: int | None = _shards(
        "Number of shards, of each side if there are any, instead of a size."
    )
    samples_per_shard: int | None = _shards(
        "Number of samples in each shard, instead of a size; with --target-size, the maximum."
    )


class ApartOptions(Options):
    """Where the files lie that describe shards."""

    apart: bool = _shards(
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


_split = partial(option, "Split")


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
    name: str | None = _shards(
        "Prefix of shard file names; '' for none: 000000.tar. {i} in it is the number, as in "
        "'{i}' for 0.tar or 'a_{i:03d}' for a_000.tar.  [default: train]",
        metavar="TEXT",
    )
    compression: str | None = _shards(
        "Compression of TFRecord shards.  [default: none]", choices=("none", "gzip")
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


_copies = partial(option, "Copies")


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


class CopyOptions(Options):
    """How many augmented copies of images there are, and what lies beyond their edges."""

    per_image: int | None = _copies("Number of copies of each image.")
    per_class: int | None = _copies(
        "Copy images until each class has this many samples; larger classes stay as they are."
    )
    balance: bool = _copies(
        "Copy images until each class has as many samples as the largest.", default=False
    )
    keep_originals: bool = _copies(
        "Write the originals as well, with their bytes (default), or only copies.", default=True
    )
    fill: str | None = _copies(
        "What fills a copy beyond the edges of its image, as Keras names it.  [default: nearest]",
        choices=FILLS,
    )
    mask_fill: int | None = _copies(
        "Class number of pixels beyond the edges of a mask.  [default: 255]", least=0
    )
    preview: AnyPath | None = _copies(
        "Write a picture of some images and their copies to FILE, a PNG, also with --dry-run.",
        metavar="FILE",
    )
    any_side: bool = _copies(
        "Augment samples for validation and test, too.  [default: only the training side]",
        default=False,
    )


class PackOptions(CopyOptions, _AugmentOption, ImageOptions, WriteOptions):
    """The options of ``pack``."""

    shuffle: bool = _samples("Shuffle (default), or keep the order.", default=True)
    seed: int | None = _samples("Seed of the shuffle and of copies.  [default: 0]", least=None)


class ConvertOptions(ImageOptions, WriteOptions):
    """The options of ``convert``."""

    to: str | None = _shards("Format to write.  [default: by the suffix of DEST]", folders=True)
    prefix: str = _rare_shards(
        "Prefix of the URLs in --to augmented-manifest, such as s3://bucket/path/.",
        default="",
        metavar="URL",
    )
    target_size: int | str | None = _shards(
        "Maximum size of a shard on disk.  [default: a shard for each in SOURCE, otherwise 200MB]"
    )


class AugmentOptions(CopyOptions, _OpOption, ImageOptions, WriteOptions):
    """The options of ``augment``."""

    to: str | None = _shards("Format to write.  [default: by the suffix of DEST]", folders=True)
    seed: int | None = _copies("Seed of the copies.  [default: 0]", least=None)


class ShardOptions(WriteOptions):
    """The options of ``shard``."""

    to: str | None = _shards(
        "Format to write.  [default: that of SOURCE, whose samples are then copied unparsed]"
    )
    multiple_of: int | None = _shards(
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
    target_size: int | str | None = _shards("Maximum size of a new shard.  [default: as before]")
    shards: int | None = _shards("Number of new shards, instead of a size.")
    shuffle: bool = _samples("Shuffle the new samples (default), or keep the order.", default=True)
    seed: int | None = _seed


class JoinOptions(ApartOptions, CommandOptions):
    """The options of ``join``."""

    dest: AnyPath = field(kw_only=False)
    overwrite: bool = _run("Replace what is at DEST.", default=False)


class StatusOptions(Options):
    """The options of ``status``."""

    dest: AnyPath = field(kw_only=False)


_channels = partial(option, "Channels")

CHANNEL = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""What SageMaker allows as the name of a channel."""


class ServeOptions(Options):
    """The options of ``serve``."""

    data: AnyPath | None = Option(default=None, positional=True)
    channels: Mapping[str, AnyPath] | None = _channels(
        "Serve DATA as this channel; repeat it for several. Without it, DATA is the channel train, "
        "or each of its sides is a channel.",
        metavar="NAME=DATA",
    )
    to: str | None = _channels(
        "Convert shards to this format while they are sent.", choices=tuple(CONCATENATIVE)
    )
    attributes: Sequence[str] = _channels(
        "Attributes of an augmented manifest to send, in this order.  [default: source-ref and the "
        "label]",
        default=(),
        metavar="NAME[,NAME...]",
    )
    epochs: int | None = _channels(
        "Number of epochs, each with a pipe of its own.  [default: 1, or until the program ends]"
    )
    shuffle_shards: bool = _channels(
        "Send shards, files or lines in another order in each epoch.", default=False
    )
    seed: int | None = _channels("Seed of --shuffle-shards.  [default: 0]", least=None)
    part: str | None = _channels(
        "Send part I (from 0) of N, as an instance gets it with ShardedByS3Key.", metavar="I/N"
    )
    fifo: AnyPath | None = _run(
        "Directory of the pipes, laid out as /opt/ml. Without it, a program gets a temporary one.",
        metavar="DIR",
    )
    timeout: float | None = None  # seconds without a reader after which it stops
    write: Callable[..., object] | None = None  # called with each block, instead of pipes
    progress: Progress | None = None  # receives the progress
    program: Sequence[str] = ()  # a command to run, with its arguments


_job = partial(option, "Job")

BUILT_IN = (
    *("image-classification", "object-detection", "semantic-segmentation"),
    *("linear-learner", "factorization-machines", "xgboost", "knn", "kmeans", "pca", "blazingtext"),
)
"""SageMaker's built-in algorithms that ``sagemaker`` knows."""


class SagemakerOptions(Options):
    """The options of ``sagemaker``."""

    data: Sequence[AnyPath] = field(kw_only=False)
    prefix: AnyPath | None = _channels(
        "Where the data on this disk is, or will be, on S3: DIR is URL/DIR.", metavar="URL"
    )
    mode: str | None = _channels(
        "Input mode of the channels.  [default: Pipe for augmented manifests, File for --algorithm "
        "and for channels with a list or annotations, else FastFile]",
        choices=("File", "FastFile", "Pipe"),
    )
    sharded: bool = _channels(
        "Give each instance a share of the objects (ShardedByS3Key), instead of all.", default=False
    )
    seed: int | None = _channels(
        "Seed of ShuffleConfig, which changes the order of objects in each epoch.",
        least=0,
        rare=True,
    )
    attributes: Sequence[str] = _channels(
        "Attributes of augmented manifests, in this order.  [default: source-ref and the label]",
        default=(),
        metavar="NAME[,NAME...]",
        rare=True,
    )
    lists: AnyPath | None = _channels(
        "Write the lists of shards that channels need to DIR, to be uploaded where the job expects "
        "them.",
        metavar="DIR",
    )
    algorithm: str | None = _job(
        f"Built-in algorithm, for its content types, and the hyperparameters that follow from the "
        f"data: {', '.join(BUILT_IN)}.",
        choices=BUILT_IN,
        metavar="NAME",
    )
    hyper: Mapping[str, str] | None = _job(
        "Hyperparameter, such as epochs=3.", metavar="NAME=VALUE"
    )
    class_names: AnyPath | None = _job(
        "Class names, one a line: their number is num_classes of the job, if the data does not "
        "tell it.",
        metavar="FILE",
        rare=True,
    )
    vpc: Sequence[str] = _job(
        "Subnets and security groups of the job, subnet-1234,sg-5678, which file systems need.",
        default=(),
        metavar="ID[,ID...]",
        rare=True,
    )
    name: str = _job("Name of the job.", default="dsprep-job", metavar="TEXT")
    image: str | None = _job("Container image.", metavar="URI")
    role: str | None = _job("Role of the job.", metavar="ARN")
    output: str | None = _job("Where the job writes on S3.", metavar="URL")
    instances: int = _job("Number of instances.", default=1)
    instance_type: str | None = _job(
        "Type of the instances.  [default: ml.g5.xlarge; ml.m5.xlarge for processing and tables]",
        metavar="TYPE",
        rare=True,
    )
    command: Sequence[str] = ()  # a command of dsprep: the job is a processing job that runs it


_costs, _machines = partial(option, "Data"), partial(option, "Machines")


class CostOptions(Options):
    """The options of ``cost``."""

    data: Sequence[AnyPath] = Option(default=(), positional=True)
    samples: int | None = _costs("Number of samples, if there is no DATA.")
    size: int | str | None = _costs("Size of all samples, if there is no DATA, such as 100TB.")
    shard_size: Sequence[str] = _costs(
        "Sizes of shards to compare.  [default: 10MB,100MB,1GB]", default=(), metavar="SIZE[,SIZE]"
    )
    prices: AnyPath | None = _costs(
        "Table of prices, instead of the built-in one, dsprep/training/prices.toml.", metavar="FILE"
    )
    gpu_hour: float | None = _machines("Price of an hour of all machines.")
    epoch_hours: float | None = _machines("Hours of an epoch that never waits for data.")
    utilization: float | None = _machines(
        "Share of the time in which the machines do not wait for data, such as 0.6."
    )


_leaks = partial(option, "Copies")


class NearOptions(Options):
    """Which images are copies."""

    near: bool = _leaks("Also find images that look alike; needs numpy.", default=False)
    near_distance: int | None = _leaks(
        "Bits of 64-bit perceptual hashes that may differ, at most 16.  [default: 4]", least=0
    )


class SplitOptions(
    CommandOptions,
    GroupOptions,
    SizeOptions,
    FieldOptions,
    ClassOptions,
    SourceOptions,
    NearOptions,
):
    """The options of ``split``."""

    out: AnyPath = field(kw_only=False)
    to: str | None = _shards(
        "Write the sides as shards of this format, train-000000.tar, instead of lists."
    )
    root: AnyPath | None = _source(
        "Directory of the files of SOURCE, if that is a list.", metavar="DIR"
    )
    ratios: Mapping[str, str | float] | None = None  # the command line has --ratio
    folds: int | None = _split(
        "Number of pairs of lists for cross-validation, instead of sides.", least=2
    )
    stratify: bool = _split(
        "Divide each class by the ratios (default), or only the whole data set.", default=True
    )
    stable: bool = _split(
        "Choose the side of a sample only by the hash of its key or group, so a data set that "
        "grows never moves a sample.",
        default=False,
    )
    seed: int | None = _split(
        "Random seed; a different seed gives a different split.  [default: 0]", least=None
    )
    assign: AnyPath | None = _split(
        "Take sides from a column of a CSV or TSV file; or classes from ImageNet's "
        "ILSVRC2012_validation_ground_truth.txt or LOC_val_solution.csv.",
        metavar="FILE",
    )
    assign_column: str | None = _split("Column of sides in --assign.", metavar="NAME")
    skip_unmatched: bool = _split("Skip rows of --assign that name no sample.", default=False)
    leaks: str | None = _leaks(
        "Find copies of images by their bytes; report copies on different sides, or keep them on "
        "one side.",
        choices=("report", "together"),
    )
    materialize: str | None = option(
        "Output",
        "Also make a tree SIDE/CLASS/NAME in that directory; the lists name its files.",
        choices=("hardlink", "symlink", "copy"),
    )
    overwrite: bool = option("Output", "Replace lists and classes.txt, or shards.", default=False)


_files = partial(option, "Files")
_transfers = partial(option, "Transfers")


class Rule(NamedTuple):
    """One ``--include`` or ``--exclude``."""

    include: bool  # which of the two
    pattern: str  # `*` is anything, slashes included; `?` one character; `[ab]` one of these


class SyncOptions(Options):
    """The options of ``sync``."""

    source: AnyPath = field(kw_only=False)
    destination: AnyPath = field(kw_only=False)
    rules: Sequence[Rule] = ()  # the command line has --include and --exclude
    size_only: bool = _files("Treat files of the same size as equal.", default=False)
    delete: bool = _files("Delete files that SRC lacks, if all else succeeded.", default=False)
    max_delete: int | None = _files(
        "Do nothing if more than N files would be deleted.", metavar="N", least=0
    )
    verify: bool = _files(
        "Prove all files by their checksums on S3, including those that this run did not send. "
        "Unchanged local files are read again.",
        default=False,
    )
    follow_links: bool = _files("Follow links in SRC (default), or exclude them.", default=True)
    concurrency: int | None = _transfers("Requests at once.  [default: 8]")
    part_size: int | str | None = _transfers("Size of parts.  [default: 32MiB, or what it takes]")
    bandwidth: float | None = _transfers("Maximum total speed, such as 50MB/s.")
    abort_on_exit: bool = _transfers(
        "Abort unfinished transfers when stopped, instead of keeping them to resume.", default=False
    )
    dry_run: bool = _run("Print what would be done, write nothing.", default=False)
    config: S3Config | None = None  # how S3 is reached, and how objects are kept there
    events: Callable[..., object] | None = None  # called with each event and its facts
