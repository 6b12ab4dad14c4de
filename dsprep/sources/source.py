"""What a user named as the source of samples, with the options that go with it."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar, cast

from dsprep.annotations.orders import Order
from dsprep.arguments import AnyPath
from dsprep.declared import Options, called_with, field, options_in
from dsprep.errors import OptionError, SourceError
from dsprep.formats.augmented import MANIFESTS
from dsprep.numbering import Known, require_lines
from dsprep.opening import opened
from dsprep.options import given_options, require_effect
from dsprep.places.names import expand, located
from dsprep.sample import IMAGE_EXTENSIONS, image_kind_of
from dsprep.schema import LABEL, Choice, Schema
from dsprep.sources.layout import with_layout
from dsprep.sources.options import ClassOptions, FieldOptions, SelectionOptions, SourceOptions
from dsprep.storage.files import exists

ARRAYS = (".npy", ".npz")

K = TypeVar("K", bound=Options)


class Source(SourceOptions, ClassOptions):
    """What samples are read from, and what gives them labels."""

    root: str = field(kw_only=False)  # the directory of images, shards, or a file of samples
    others: Sequence[str] = ()  # further sources
    # whether class names and labels that only samples have are read
    needs_names: bool = False
    choice: Choice = Choice()  # the choice of fields
    features: str | None = None  # the preset of feature names of TFRecord shards
    # the columns that tell records and their versions: only the newest of each record is read; then
    # the time after which versions do not count, if there is one; None for all
    versions: tuple[str, ...] | None = None
    takes_texts: bool = False  # whether a text beside each image becomes a field of it
    takes_masks: bool = False  # whether the masks of a data set become a field of its images
    own_state: str = ""  # the state of the run that reads this, which may be in the root, too

    @property
    def suffixes(self) -> frozenset[str]:
        """The file name extensions of images, in lower case."""
        given = frozenset(name.lower().removeprefix(".") for name in self.extensions)
        return given or frozenset(IMAGE_EXTENSIONS)

    @property
    def chooses(self) -> bool:
        """Whether a list or a table chooses the samples, and labels them."""
        labels_rows = self.labels is not None and self.labels.endswith(ARRAYS[0])
        return self.list_file is not None or (self.labels is not None and not labels_rows)

    @property
    def lists(self) -> Sequence[str]:
        """The lists that choose the samples: all that a pattern means."""
        return expand(self.list_file) if self.list_file else ()

    @property
    def is_manifest(self) -> bool:
        """Whether the source, or its list, has the name of an augmented manifest."""
        return (self.list_file or self.root).endswith(MANIFESTS)

    def located(self) -> Source:
        """Return the source where its samples lie, at or below what the user named."""
        return self.replace(root=located(self.root), others=tuple(map(located, self.others)))

    def require_alone(self) -> None:
        """Refuse further sources where only shards, Parquet and bare pixels are joined."""
        if not self.others:
            return
        for path in (self.root, *self.others):
            if not exists(path):
                raise SourceError(f"{path}: does not exist")
        problem = "several sources must be shards, Parquet, or parts of CIFAR or MNIST"
        if image_kind_of(self.others[0]):
            problem += "; put quotes around a pattern of an option: the shell expands it otherwise"
        raise SourceError(f"{self.others[0]}: {problem}")

    @property
    def classes_file(self) -> str:
        """The file of class names; empty if there is none, or if the names themselves are given."""
        return self.classes if isinstance(self.classes, str) else ""

    def class_names(self) -> tuple[str, ...] | None:
        """Return the given names of classes, which may be in a file; None if there are none."""
        path = self.classes_file
        if not path:
            return _distinct(self.classes) if self.classes else None
        from dsprep.lists.store import classes_in, read_classes  # imported late: loads polars
        from dsprep.places.files import read_beside
        from dsprep.text import decode_text

        if exists(path):
            return read_classes(path)
        return classes_in(decode_text(read_beside(self.root, path), path), path)

    def known_classes(self) -> Known:
        """Return what is known of the classes before labels are read."""
        return Known(self.class_names(), None, self.class_order)

    def options_of(self, kind: type[K]) -> K:
        """Return the values of options that only one kind of source has."""
        given, declared = {**vars(self), **(self.kind_options or {})}, options_in(cast(type, kind))
        return kind(**{name: given[name] for name in declared if name in given})

    def files(self) -> tuple[str, ...]:
        """Return the local files among the options: lists, tables, an archive."""
        named = (*self.lists, self.labels, self.classes_file, self.root)
        return tuple(path for path in named if path and os.path.isfile(opened(path)))

    @property
    def choice_of_samples(self) -> Choice:
        """The choice of fields, with what ``--box`` says of objects that no annotations have."""
        if not self.box or self.annotations:
            return self.choice
        return replace(self.choice, box=Order.of(self.box).option)

    def __repr__(self) -> str:
        return f"Source({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Source) and vars(self) == vars(other)

    def __post_init__(self) -> None:
        if self.list_file and self.labels:
            raise OptionError("labels come from --list or from --labels, not from both")
        rows = self.chooses or self.kind == "augmented-manifest" or self.root.endswith(MANIFESTS)
        given = self.values_of(SourceOptions, ClassOptions)
        require_effect("", given_options(given), rows=rows)
        separated, label_type = self.label_separator is not None, self.choice.label_type
        if self.label_separator == "":
            raise OptionError("--label-separator '': give the text that stands between two labels")
        if separated and len(self.label_columns) > 1:
            raise OptionError("--label-separator goes with one --label-column")
        if label_type in ("class", "text") and (separated or len(self.label_columns) > 1):
            raise OptionError(
                f"--label-type {label_type}: an image has one class, so leave out "
                "--label-separator and name one --label-column"
            )
        if self.label_regex is not None and label_type in ("multi", "text"):
            raise OptionError(
                f"--label-type {label_type}: --label-regex takes one class, or a number with "
                "--label-type float, from each file name"
            )
        if label_type == "float" and self.classes:
            raise OptionError("--label-type float: numbers have no classes; leave out --classes")
        if self.parts and self.pairs:
            raise OptionError("give --parts or --pair, not both")
        if self.voc_origin not in (None, 0, 1):
            raise OptionError(f"--voc-origin {self.voc_origin}: the first pixel is 0 or 1")


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Return the given names of classes, which have to fit into a file of them."""
    require_lines(names, "--classes")
    if again := [name for name, count in Counter(names).items() if count > 1]:
        raise OptionError(f"--classes: names {again[0]!r} twice")
    return tuple(names)


def choice_of(options: FieldOptions) -> Choice:
    """Return what a user says of the fields."""
    selection = options if isinstance(options, SelectionOptions) else SelectionOptions()
    schema, unlabeled = options.schema, False
    if isinstance(schema, str):
        schema, unlabeled = read_schema(schema)
    return Choice(
        image=options.image_field,
        label=options.label_field,
        label_type=options.label_type,
        only=tuple(selection.only),
        drop=tuple(selection.drop),
        rename=dict(selection.rename or {}),
        cast=dict(selection.cast or {}),
        schema=schema,
        look_all=options.look == "all",
        no_image=options.no_image,
        raw_image=options.raw_image or "",
        unlabeled=unlabeled,
    )


def read_schema(path: str) -> tuple[Schema, bool]:
    """Read a schema as ``--schema-out`` writes it, and whether it rules out a label."""
    from dsprep.text import read_text

    try:
        values = json.loads(read_text(path))
        schema = Schema.from_json(values)
        return schema, LABEL in values and schema.label is None
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path}: is not a schema: {error!s:.200}") from None


class _SourceArguments(SourceOptions, ClassOptions, FieldOptions):
    root: AnyPath = field(kw_only=False)
    others: Sequence[AnyPath] = ()
    needs_names: bool = False
    choice: Choice | None = None  # instead of the options of fields
    features: str | None = None


@called_with(_SourceArguments)
def make_source(options: _SourceArguments) -> Source:
    """Make a source from what a user gave; empty values mean the defaults."""
    options = with_layout(options)
    values = {name: value for name, value in vars(options).items() if name in options_in(Source)}
    return Source(**values | {"choice": options.choice or choice_of(options)})


def source_of(given: Source | str) -> Source:
    """Return a source, or that of the samples at a path, with all labels."""
    return make_source(given, needs_names=True) if isinstance(given, str) else given
