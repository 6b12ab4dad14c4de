"""Options that say what is read: the source, its labels, annotations, classes and fields.

Importing this must stay cheap: ``--help`` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from dsprep.arguments import AnyPath
from dsprep.declared import Options, option
from dsprep.sources.annotated.tag_options import TagOptions
from dsprep.sources.annotated.voc_options import VocOptions
from dsprep.sources.pictures.parts_options import PartsOptions
from dsprep.sources.tables.csv_options import PixelColumnOptions

if TYPE_CHECKING:
    from dsprep.schema import Schema

_source = partial(option, "Source")
_labels = partial(option, "Labels")
_annotations = partial(option, "Annotations")
_rare_annotations = partial(_annotations, rare=True)
_rare_source = partial(_source, rare=True)
_rare_labels = partial(_labels, rare=True)
_fields = partial(option, "Fields")
_rare_fields = partial(_fields, rare=True)


class AnnotationOptions(Options):
    """Where boxes, polygons and keypoints come from."""

    annotations: Sequence[AnyPath] = _annotations(
        "Take boxes, polygons and keypoints from PATH. Repeat it for several files, such as "
        "one a side. Whole folders or archives of COCO, YOLO, Pascal VOC and others are recognized "
        "without it: see docs/formats.md.",
        default=(),
        metavar="PATH",
    )
    annotation_format: str | None = _rare_annotations(
        "Format of --annotations, if its name does not tell."
    )
    unlisted: str | None = _rare_annotations(
        "What to do with images that annotations do not name: keep them as images without objects, "
        "or leave them out.  [default: keep for YOLO and tables, else drop]",
        choices=("keep", "drop"),
    )
    box: str | None = _rare_annotations(
        "What the numbers of a box mean, in --annotations if the names of columns do not tell, or "
        "in objects of Hugging Face's data sets: xywh, xyxy or cxcywh; with :normalized, shares of "
        "the width and height of images.",
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
        "Take masks from DIR, or those like 'DIR/*_GT.png': PNG whose pixels are class numbers, "
        "255 for none, with the names of the images; a.jpg has a.png or a_mask.png.",
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


class AnySourceOptions(AnnotationOptions):
    """What is read, and where its labels come from, whatever kind of source it is."""

    kind: str | None = _source("What SOURCE is, if its names do not tell.")
    layout: AnyPath | None = _rare_source(
        "Take the options that describe the inside of SOURCE from FILE: labels, annotations, "
        "sides, classes. dsprep inspect -o FILE.toml writes it; options of the command line win.",
        metavar="FILE",
    )
    list_file: AnyPath | None = _labels(
        "Take the samples and labels that an MXNet .lst names: paths below SOURCE or, in shards, "
        "keys. With a pattern, 'val_*.lst', each list becomes one shard of its name.",
        metavar="FILE",
    )
    labels: AnyPath | None = _labels(
        "Take samples and labels from a table, as Kaggle has them: CSV, TSV, JSON Lines or "
        "Parquet; an id without extension finds its image.",
        metavar="FILE",
    )
    label_regex: str | None = _labels(
        r"Take the class from file names: what a regular expression matches (its first "
        r"parentheses, or the whole match), '^(\w+?)\.' for dog.0.jpg.",
        metavar="REGEX",
    )
    fields: Sequence[str] = _labels(
        "Columns of --labels to write as further fields of the samples, each with the type of its "
        "cells.",
        default=(),
        metavar="NAME[,NAME...]",
    )
    columns: Sequence[str] = _rare_labels(
        "Names of the columns of --labels, if it has no header line.",
        default=(),
        metavar="NAME[,NAME...]",
    )
    sides_from: int | None = _rare_source(
        "Take the directory at this depth below SOURCE for the side of its images, as in "
        "site1/cat/1.jpg for 1. Each side becomes shards of its own: site1-000000.tar. Directories "
        "called train, test and the like need no option.",
        metavar="DEPTH",
        most=1000,
    )
    path_column: str | None = _rare_labels(
        "The column of paths or ids in --labels.", metavar="NAME"
    )
    label_columns: Sequence[str] = _labels(
        "The column of labels in --labels; several columns give several labels.",
        default=(),
        metavar="NAME[,NAME...]",
    )
    label_separator: str | None = _rare_labels(
        "Text between several tags in the column of labels: ' ' for \"haze primary\". A label "
        "becomes a 0 or a 1 for each tag, in the order of classes.txt.",
        metavar="TEXT",
    )
    duplicates: str | None = _rare_labels(
        "If --list or --labels names an image again: stop, use the first row only, or make a "
        "sample of each row.  [default: error]",
        choices=("error", "first", "keep"),
    )
    leave_out: Sequence[str] = _rare_source(
        "Leave out files that are left over, and that the command would stop at: paths below "
        "SOURCE, in which * stands for any text. '*' leaves out all of them.",
        default=(),
        metavar="PATTERN",
    )
    extensions: Sequence[str] = _rare_source(
        "File name extensions of images.  [default: those of JPEG, PNG, WebP, GIF, BMP, TIFF, "
        "AVIF, JPEG 2000 and PPM]",
        default=(),
        metavar="EXT[,EXT...]",
    )


class SourceOptions(PixelColumnOptions, PartsOptions, TagOptions, VocOptions, AnySourceOptions):
    """The options of sources, with those that only one kind has."""

    # options of kinds of sources that this class does not have, by name: those of other packages
    kind_options: Mapping[str, Any] | None = None


class ClassOptions(Options):
    """How classes are numbered."""

    classes: AnyPath | Sequence[str] | None = _labels(
        "Class names, one a line, in the order of their numbers; or a .csv of NAME,NUMBER. A class "
        "that is not in this file is an error, and a class without images keeps its number.  "
        "[default: with --list, classes.txt beside the list, if its labels are of these]",
        metavar="FILE",
    )
    class_order: str | None = _rare_labels(
        "Order that numbers the classes: name sorts by code point (1, 10, 2), as torchvision does; "
        "natural reads numbers in names as numbers (1, 2, 10).  [default: name]",
        choices=("name", "natural"),
    )
    keep_classes: AnyPath | None = _labels(
        "Take only samples of the classes that FILE names, and number these from 0 in their "
        "order: a line each, a name, an id, or both as in n01440764 tench.",
        metavar="FILE",
    )
    keep_numbers: bool = _rare_labels(
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
