"""What a format is: how samples are laid out in a shard.

Most formats are concatenative: a shard is its encoded samples one after another, then a trailer
that depends only on their total size. Naming, writing, checksums, commit and resume are written
once, elsewhere, for all of them. A format encodes a sample, says what it will weigh, and reads a
shard back. The other formats bring a writer of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from dsprep.annotations.objects import Objects, fitted
from dsprep.errors import OptionError
from dsprep.frozen import Frozen
from dsprep.images.header import sniff
from dsprep.images.pixels import Shape
from dsprep.patterns import pattern
from dsprep.printable import json_values
from dsprep.rows import Rows
from dsprep.sample import UNKNOWN_IMAGE, Sample, Value
from dsprep.schema import FACTS, Field, Meaning, Place, Schema, Table
from dsprep.tuples import NamedTuple
from dsprep.units import format_some

if TYPE_CHECKING:
    import polars as pl

    from dsprep.formats.card import Split
    from dsprep.formats.listing import Listed, Samples
    from dsprep.formats.stream import ShardStream
    from dsprep.formats.tar import Member


SIZES = ("height", "width", "channels")  # facts that the shape of bare pixels consists of
# the place of the number in a pattern of names of shards
NUMBER_IN_NAME = pattern(r"\{i(?::0([1-9])d)?\}")
LONGEST_FACT = 64  # bytes of the longest fact of an image, a SHA-256


class Entry(NamedTuple):
    """One sample of a shard."""

    offset: int  # first byte of the encoded sample in the (decompressed) shard
    size: int  # bytes of the encoded sample, headers and padding included
    sample: Sample  # the raw sample; its key is empty if the shard does not tell it


class Span(NamedTuple):
    """Where one sample lies in a shard, and what its headers tell without its payload."""

    offset: int  # first byte of the encoded sample in the (decompressed) shard
    size: int  # bytes of the encoded sample, headers and padding included
    key: str  # empty if no header tells it
    id: int
    label: tuple[float, ...] | None = None  # numbers of the label, if a header holds them
    fields: tuple[str, ...] | None = None  # the raw names of its fields, if headers tell them


class Group(NamedTuple):
    """The members of one sample, in a format that stores a file for each field."""

    key: str  # what their names share
    members: dict[str, Member]  # by extension in lower case
    start: int  # where the first of their headers begins
    stop: int  # where the last of their bytes, padding included, ends


class ShardFacts(NamedTuple):
    """What an index over a whole data set says of one shard."""

    name: str
    samples: int
    bytes: int
    raw: int = 0  # its bytes before compression; 0 if it has none

    def to_json(self) -> dict[str, Any]:
        return json_values({"name": self.name, "samples": self.samples, "bytes": self.bytes})


class Limits(NamedTuple):
    """What a format holds exactly, and which images its readers decode."""

    images: frozenset[str] | None = None  # the kinds, if others end a reader; None for any
    classes: int | None = None  # the largest class number; None for any
    float_bits: int = 64  # bits of floats; wider floats are rounded
    label_bits: int = 64  # bits of floats that are labels


class SampleWriter(Protocol):
    """Writes samples to a file whose layout is not one sample after another."""

    bytes: int  # the file's size on disk, after `finish`
    crc32c: int  # the checksum of its bytes, after `finish`
    raw: int  # its size before it is compressed; 0 if it is not

    def add(self, sample: Sample) -> int:
        """Take a sample, or raise BadSample; returns about how many bytes it will take."""

    def finish(self) -> None:
        """Write everything."""

    def close(self) -> None:
        """Close what is open; the file is whole only if :meth:`finish` was called."""


def path_of(sample: Sample) -> str:
    """Return the name of a sample's image: that of its file, or one of key and kind."""
    if sample.path or sample.image is None:
        return sample.path or sample.key
    return f"{sample.key}.{sniff(sample.fields[sample.image]) or UNKNOWN_IMAGE}"


class Format(Frozen, ABC):
    """How samples are laid out in a shard, options included."""

    name: ClassVar[str]
    suffix: ClassVar[str]  # the end of its shards' names; empty if it writes a tree of files
    numbering: ClassVar[str] = "{:05d}"  # a shard's number in its name; how many there are
    # meanings of raw names that are not the names of fields
    meanings: ClassVar[Mapping[str, Meaning]] = {}
    other_suffixes: ClassVar[tuple[str, ...]] = ()  # the ends of names that other tools give
    concatenative: ClassVar[bool] = True
    """Whether a shard is its encoded samples one after another; if not, see :meth:`open_writer`."""
    in_spans: ClassVar[bool] = True
    """Whether each sample is a run of bytes of its shard, which is encoded and read alone."""
    least: ClassVar[int] = 1  # bytes of a sample, at least: more where each has a frame
    holds_pixels: ClassVar[bool] = False  # whether images may be bare pixels
    holds_texts: ClassVar[bool] = True  # whether it has a place for text fields
    holds_masks: ClassVar[bool] = True  # whether it has a place for the mask of an image
    is_tree: ClassVar[bool] = False  # whether all shards are joined to one tree of files in the end
    # whether each side of a data set has a directory, or a list, of its own
    divides: ClassVar[bool] = False
    # the kinds of index of a shard that readers know; the first is written without being asked for
    shard_indexes: ClassVar[tuple[str, ...]] = ()
    # what must differ between samples: `key`, because readers merge samples with equal keys; or
    # `path`; empty if nothing must
    distinct: ClassVar[str] = ""
    known_by: ClassVar[str] = "key"  # what identifies a sample in a shard: key, path or id
    class_names_in: ClassVar[str] = "companion"
    """Where names of classes are: in ``classes.txt`` beside the shards (``companion``), in each
    ``sample``, or in the ``header`` of a shard, which is written before its first sample."""
    limits: ClassVar[Limits] = Limits()
    # what it keeps of objects besides boxes and classes: flags, and some of `PARTS`
    object_parts: ClassVar[frozenset[str]] = frozenset()
    # whether objects stay whose flag it does not keep, as ordinary ones
    keep_crowd: bool = field(default=False, kw_only=True, metadata={"recorded": True})
    schema: Schema | None = field(default=None, kw_only=True)
    """The schema of the samples to write, its places being those of this format; None for raw
    samples, which have been read from the same format. See :meth:`arranged`."""

    def __getstate__(self) -> dict[str, Any]:
        """Travel to workers without what is compiled."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def written(self) -> Schema:
        """The schema of the samples to write, or an empty schema for raw samples."""
        return self.schema or Schema(())

    def options(self) -> dict[str, Any]:
        """Return the options as a manifest records them, by the names of the fields."""
        return {
            each.name: value
            for each in fields(self)
            for value in [getattr(self, each.name)]
            if not each.kw_only or (each.metadata and value != each.default)
        }

    def with_options(self, **options: Any) -> Self:
        """Return this format with those of some options that it has and that are given."""
        own = {each.name for each in fields(self)}
        given = {name: value for name, value in options.items() if value is not None}
        return replace(self, **{name: given[name] for name in own & given.keys()})

    def shard_name(self, name: str, number: int, count: int) -> str:
        """Return the file name of shard ``number`` (from 0) of ``count``.

        The name is what all begin with, or a pattern: ``{i}`` in it stands for the number.
        """
        if found := NUMBER_IN_NAME.search(name):
            stem = f"{name[: found.start()]}{number:0{found[1] or 1}}{name[found.end() :]}"
        else:
            stem = "-".join(filter(None, (name, self.numbering.format(number, count))))
        return stem + self.file_suffix

    @property
    def parts(self) -> tuple[Place, ...]:
        """The parts of JSON that are fields by convention."""
        return ()

    @property
    def has_class_ids(self) -> bool:
        """Whether objects have the ids of classes, as a label map has them, and no numbers."""
        return False

    @property
    def file_suffix(self) -> str:
        """The end of a shard's file name, that of its compression included."""
        return self.suffix

    @property
    def compressed(self) -> bool:
        """Whether the whole shard is compressed."""
        return self.file_suffix != self.suffix

    def place_of(self, raw: str) -> str:
        """Return the place that a raw name stands for: several names may be one place."""
        return raw

    def meaning(self, place: str) -> Meaning:
        """Return what a place means in this format."""
        return self.meanings.get(place) or Meaning(place)

    @abstractmethod
    def arranged(self, schema: Schema) -> tuple[Self, list[str]]:
        """Return this format with a schema of samples to write, and notes on what changes.

        The fields have the places of the source. If :attr:`Schema.format` is this format, each
        keeps its place; a name that the user gave (:attr:`Field.given`) is kept, too. The notes say
        which facts do not fit and which floats are rounded. If the format cannot hold a field, the
        OptionError names the option that leaves it out.
        """

    def of_images(self, kind: str) -> Self:
        """Return this format for images that are all of a kind; empty if they may differ."""
        return self

    def laid_out(self, schema: Schema, fields: Iterable[Field]) -> Self:
        """Return this format with some fields of a schema, whose places are those of the format."""
        kept = tuple(fields)
        label = schema.label if schema.label in {each.name for each in kept} else None
        arranged = replace(schema, fields=kept, label=label, format=self.name)
        return replace(self, schema=arranged)

    def combined(self, fields: dict[str, Value]) -> dict[str, Value]:
        """Return the fields of a raw sample, several that are one value together made that one."""
        return fields

    @property
    def why_not_empty(self) -> str:
        """What is wrong with images without objects, and what to do; empty if nothing is."""
        return ""

    @property
    def weighs(self) -> bool:
        """Whether the catalog tells what samples with objects weigh at most."""
        return True

    @property
    def is_fixed(self) -> bool:
        """Whether samples that are read whole differ in size by their keys alone."""
        return False

    @property
    def bounds_sparse(self) -> bool:
        """Whether the items of sparse rows and their largest key tell what these weigh at most."""
        return False

    def kept_parts(self) -> frozenset[str]:
        """Return what samples of the schema keep of objects besides boxes and classes."""
        return self.object_parts

    def fitted(self, objects: Objects, counts: Counter[str]) -> Objects:
        """Return what a shard can hold of objects; count what is lost."""
        return fitted(objects, self.kept_parts(), self.keep_crowd, self.name, counts)

    def listed_label(self, sample: Sample) -> Value:
        """Return what the `.lst` beside a shard says of the objects of a sample."""
        return None

    def placeholders(self, schema: Schema) -> frozenset[str]:
        """Return the raw names of the labels that samples of a schema without a label have."""
        return frozenset()

    def fact_of(self, raw: str) -> str:
        """Return the fact of an image that a raw name stands for; empty if it is not a fact."""
        name = self.meaning(self.place_of(raw)).field
        return name if name in FACTS else ""

    def like(self, other: Table) -> Self:
        """Return this format for raw samples of another of its kind, which may bring details."""
        return self

    def without(self, raws: Collection[str]) -> Self:
        """Return this format for raw samples without the fields of some raw names."""
        return self

    def renamed_image(self, raw: str, kind: str) -> str:
        """Return the raw name of an image that has become one of another kind."""
        return raw

    def pack_pixels(self, pixels: bytes, shape: Shape) -> bytes:
        """Return bare pixels as samples have them; their sizes are fields beside them."""
        return pixels

    def encode(self, sample: Sample) -> list[bytes]:
        """Lay out a sample of the schema, or a raw one, in a format whose samples are spans.

        Returns its bytes, in pieces to be written one after another. If the format cannot hold it,
        the BadSample says why.
        """
        raise NotImplementedError

    def open_writer(self, path: str, tree: str, samples: int) -> SampleWriter:
        """Begin a file in any other format, given the largest number of its samples.

        ``tree`` is the directory of one that is many files.
        """
        raise NotImplementedError

    @property
    def head(self) -> bytes:
        """What precedes the encoded samples at the beginning of a shard."""
        return b""

    def head_size(self, samples: int) -> int:
        """Return the bytes before the encoded samples, given the number of samples."""
        return len(self.head)

    def trailer(self, size: int) -> bytes:
        """Return what follows ``size`` bytes of encoded samples at the end of a shard."""
        return b""

    def capacity(self, target: int) -> int:
        """Return how many bytes of encoded samples fit into a shard of ``target`` bytes."""
        return target

    @abstractmethod
    def weights(self, rows: pl.DataFrame) -> pl.Series:
        """Return the size of each encoded sample, exact if the catalog tells all that is written.

        The rows are the catalog's table, with more columns: ``image``, the bytes of the encoded
        image; where classes have names, ``class``; and for sparse rows ``largest_key``, while
        ``stored`` counts their items. No size is less than the true one.
        """

    def caveats(self, rows: pl.LazyFrame) -> Iterator[str]:
        """Yield what users should know of samples before they train on the shards.

        The rows are those of the catalog, with paths that tell the keys, and names of sides.
        """
        yield from ()

    def read(self, stream: ShardStream) -> Iterator[Entry]:
        """Read the raw samples of a shard from its first byte to its last, checking its structure.

        A DamagedShard is raised where the bytes break the format, everything before being yielded.
        """
        raise NotImplementedError

    def spans(self, stream: ShardStream) -> Iterator[Span]:
        """Find the samples of a shard like :meth:`read`, by headers if the format has such."""
        for offset, size, sample in self.read(stream):
            yield Span(offset, size, sample.key, sample.id, fields=tuple(sample.fields))

    def groups(self, stream: ShardStream) -> Iterator[Group] | None:
        """Find the members of samples by their headers; None if the format has no members."""
        return None

    def told_by(self, files: Sequence[str]) -> Self:
        """Return this format with what shards that others wrote tell of all their samples."""
        return self

    def class_names(self, path: str) -> Mapping[str, tuple[str, ...]]:
        """Return the class names that a shard itself tells, by the raw name of the field."""
        return {}

    def is_intact(self, encoded: bytes) -> bool | None:
        """Return whether the checksum of an encoded sample is right; None if it has none."""
        return None

    def sidecars(self, rows: Rows, sizes: Sequence[int]) -> dict[str, bytes]:
        """Return the files beside a shard of some samples, by the suffix that replaces its own."""
        return {}

    @property
    def sidecar_suffixes(self) -> tuple[str, ...]:
        """The suffixes of the files beside each shard."""
        return tuple(self.sidecars(Rows((), (), (), None), ()))

    def dataset_index(self, name: str, shards: Sequence[ShardFacts]) -> dict[str, bytes]:
        """Return the files that index a whole data set, by file name."""
        return {}

    def class_maps(self) -> dict[str, bytes]:
        """Return the files that number classes for other tools, by file name."""
        return {}

    @property
    def writes_card(self) -> bool:
        """Whether a dataset card lies beside the shards."""
        return False

    def card_of(self, splits: Sequence[Split]) -> bytes:
        """Return this dataset card."""
        return b""

    def is_listed(self, field: Field) -> bool:
        """Return whether the listing of a tree of files tells the values of a field."""
        return True


class TreeFormat(Format):
    """How samples are laid out as a tree of files, which a listing describes."""

    is_tree: ClassVar[bool] = True

    def metadata_lines(self, samples: Samples, counts: Counter[str]) -> Iterator[tuple[str, str]]:
        """Return the metadata of a tree of files: the path of each metadata file, and a line.

        What happens to samples on the way is counted.
        """
        return iter(())

    def references(self, samples: Iterable[Listed], classes: Sequence[str] | None) -> str | None:
        """Return the manifest beside a tree of files that refers to them; None if it has none."""
        return None

    def listed_sample(self, listed: Listed, files: Mapping[str, bytes]) -> Sample:
        """Return a sample of a tree of files, its values as metadata and files have them."""
        raise NotImplementedError


def common_stem(name: str) -> str:
    """Return what the index of a whole data set is called, without what differs between shards."""
    return NUMBER_IN_NAME.sub("", name).strip("-_.") or "shards"


def pixel_sizes(schema: Schema) -> list[Field]:
    """Return the fields that tell the shape of bare pixels and that the schema lacks."""
    image = schema.image_field
    if image is None or not image.kind.is_raw:
        return []
    types = dict.fromkeys(SIZES, "int") | {"format": "text"}
    told = {*schema.by_name, *(each.tells for each in schema.fields)}
    names = (name for name in types if name not in told)
    return [Field(name, types[name], image.missing) for name in names]


def claim(used: dict[str, str], place: str, each: Field, what: str) -> None:
    """Give a place to a field, or refuse because another one has it."""
    if place in used:
        other = f"the field {used[place]!r}" if used[place] else f"another {what}"
        raise OptionError(
            f"the field {each.name!r} would be the {what} {place!r}, which is {other}: "
            f"give --drop {each.name}, or --rename {each.name}=NEW"
        )
    used[place] = each.name


def without_gaps(names: Sequence[str]) -> str:
    """Return what to do about fields that some samples lack, for a format that has no such."""
    fields = ",".join(names)
    return (
        f"fill them in; or give --drop {fields}; or reject such samples, with a --schema FILE that "
        f"does not let {fields} be missing"
    )


def refuse_lists_of_bytes(schema: Schema, name: str) -> None:
    """Refuse fields that a format of a file for each value cannot hold."""
    for each in schema.fields:
        if each.type == "list<bytes>":
            raise OptionError(
                f"{name} holds no list of bytes, which the field {each.name!r} is: give "
                f"--drop {each.name}"
            )


def refuse_objects(schema: Schema, name: str) -> None:
    """Refuse the objects of images, which a format has no form for."""
    if (objects := schema.objects) is not None:
        raise OptionError(
            f"format {name}: holds no boxes, which the field {objects.name!r} is: give "
            f"--drop {objects.name}"
        )


def rounding_notes(fields: Iterable[Field], what: str) -> list[str]:
    """Say which fields lose bits in a format of 32-bit floats."""
    names = [each.name for each in fields if each.kind.code == "d"]
    shown = format_some(names) + f" ({len(names):,} fields)" * (len(names) > 3)
    return [f"{shown}: 64-bit floats are rounded to the 32 bits of {what}"] if names else []
