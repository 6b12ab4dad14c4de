"""WebDataset: tar shards whose members share a key.

How a member's name becomes key and field is webdataset's ``base_plus_ext`` (tariterators.py); the
index is that of wids.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from dsprep.errors import BadSample, OptionError
from dsprep.formats import tar
from dsprep.formats.base import Entry, Format, ShardFacts, Span
from dsprep.formats.extensions import MAX_NAME, extension_of, field_of
from dsprep.formats.features import TYPES
from dsprep.formats.floats import IDS, INT64
from dsprep.formats.label_text import label_text, parse_label
from dsprep.formats.to_features import own_feature
from dsprep.formats.typed_json import Typed, decode_typed, encode_typed
from dsprep.images.header import sniff
from dsprep.sample import IMAGE_KINDS, UNKNOWN_IMAGE, Sample, Value, is_label
from dsprep.units import extension_in

if TYPE_CHECKING:
    import polars as pl

    from dsprep.formats.stream import ShardStream

METADATA = ("class", "filename", "width", "height")
"""The fields that are written to a sample's ``.json`` if it is to have one."""

_IN_JSON = frozenset((*METADATA, "id"))
"""The fields that stand together in a sample's ``.json``."""

_METADATA, _LISTS = "json", "features.json"
_IMAGES = IMAGE_KINDS | {UNKNOWN_IMAGE}

RENAMABLE = ("image", "cls", "label")
"""The fields whose extension can be chosen."""

_EXTENSION = re.compile(r"[a-z0-9]+([._][a-z0-9]+)*")
_NAME = re.compile(r"((?:.*/|)[^.]+)[.]([^/]*)")
_PASSED_OVER = re.compile(r"__[^/]*__($|/)")
_LONGEST_KIND = "webp"
_LONGEST_NUMBER = 25
_LARGEST_DIMENSIONS = len('"width":2147483647,"height":2147483647,')


@dataclass(frozen=True)
class WebDataset(Format):
    """Tar members ``KEY.FIELD``.

    Attributes:
        metadata: Whether to write a ``.json`` with class, filename, width and height.
        renamed: Member extension by field, where it is not the field's own name.
    """

    name: ClassVar[str] = "webdataset"
    suffix: ClassVar[str] = ".tar"
    keys_must_differ: ClassVar[bool] = True
    metadata: bool = False
    renamed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse extensions that readers would take for something else.

        Raises:
            OptionError: If a field is unknown, or an extension is not one or is used twice.
        """
        for name, extension in self.renamed.items():
            if name not in RENAMABLE:
                raise OptionError(
                    f"--map {name}=…: no such field; there are {', '.join(RENAMABLE)}"
                )
            if not _EXTENSION.fullmatch(extension):
                raise OptionError(
                    f"--map {name}={extension}: not an extension; use a-z, 0-9, _ and dots"
                )
        images = {self._extensions[kind] for kind in (*IMAGE_KINDS, UNKNOWN_IMAGE)}
        taken = [*images, self._extensions["cls"], self._extensions["label"], b"json"]
        if len(set(taken)) < len(taken):
            raise OptionError("--map: two fields would get the same extension")

    def shard_name(self, name: str, number: int, count: int) -> str:
        """``train-000000.tar``, which readers expand from ``train-{000000..000146}.tar``."""
        return f"{name}-{number:06d}{self.suffix}"

    @property
    def wants(self) -> frozenset[str]:
        """Class, filename, width and height if they are to be written."""
        return frozenset(METADATA) if self.metadata else frozenset()

    def encode(self, sample: Sample) -> list[bytes]:
        """Lay one sample out: a member for each field."""
        key, fields = sample.key, sample.fields
        extensions, meaningful = self._extensions, self._meaningful
        if "." in key or "\n" in key or "\0" in key or key[:1] in "_" or key[-1] == "/":
            _require_found(key)
        stem = key.encode() + b"."
        if len(stem) > MAX_NAME:
            raise BadSample(f"a key of {len(stem) - 1} bytes, but names in a tar have {MAX_NAME}")
        parts: list[bytes] = []
        metadata: dict[str, Value] = {}
        for name, value in fields.items():
            if isinstance(value, bytes):
                if name in meaningful:
                    return self._encode_any(stem, sample)
                data, end = value, tar.padding(len(value))
            elif name in _IN_JSON and not isinstance(value, tuple):
                metadata[name] = value
                continue
            elif name == "cls" and type(value) is int:
                data, end = _padded_number(value)
            elif name == "label" and is_label(value):
                data = label_text(value)
                end = tar.padding(len(data))
            else:
                return self._encode_any(stem, sample)
            parts += (tar.member(stem + extensions[name], len(data)), data, end)
        if self.renamed and len(fields.keys() & _IMAGES) > 1:
            return self._encode_any(stem, sample)
        if not fields:
            raise BadSample("a sample without fields would have no member")
        if metadata:
            data = _json(metadata)
            parts += (tar.member(stem + b"json", len(data)), data, tar.padding(len(data)))
        return parts

    def _encode_any(self, stem: bytes, sample: Sample) -> list[bytes]:
        """Lay out a sample whose fields may be taken for others when they are read.

        Those that would be stand in the ``.features.json``, beside the lists.
        """
        image = sample.image()
        kind = image[0] if image else None
        untold: set[str] = set()
        while True:
            members = self._members(sample, kind, untold)
            found = self.fields_of(members)
            wrong = {
                name
                for name, value in sample.fields.items()
                if isinstance(value, bytes) and name != kind and found.get(name) is not value
            } - untold
            if not wrong:
                break
            untold |= wrong
        parts = []
        for extension, data in members.items():
            name = extension.encode()
            parts += [tar.member(stem + name, len(data)), data, tar.padding(len(data))]
        return parts

    def _members(self, sample: Sample, kind: str | None, untold: set[str]) -> dict[str, bytes]:
        """The members of a sample by extension.

        Args:
            sample: The sample.
            kind: Which of its fields is its image.
            untold: The fields of bytes that stand in the ``.features.json``.
        """
        members: dict[str, bytes] = {}
        metadata: dict[str, Value] = {}
        lists: dict[str, Typed] = {}
        for name, value in sample.fields.items():
            if TYPES.get(name) is not type(value):
                if not isinstance(value, bytes):
                    lists[name] = own_feature(value)
                elif name in untold or name.startswith("__"):
                    lists[name] = value
                else:
                    own = self._extensions[name].decode() if name == kind else extension_of(name)
                    members[own] = value
            elif name in _IN_JSON:
                metadata[name] = value
            else:
                members[self._extensions[name].decode()] = _text(value)
        if lists:
            members[_LISTS] = encode_typed(lists)
        if metadata:
            members[_METADATA] = _json(metadata)
        return members

    @cached_property
    def _extensions(self) -> dict[str, bytes]:
        """The member extension of every field, the image under each of its kinds."""
        own = {"label": "label.json"}
        names = {name: own.get(name, name) for name in (*IMAGE_KINDS, *RENAMABLE)} | self.renamed
        if "image" in self.renamed:
            names |= dict.fromkeys((*IMAGE_KINDS, UNKNOWN_IMAGE), self.renamed["image"])
        return _OtherExtensions({name: extension.encode() for name, extension in names.items()})

    def trailer(self, size: int) -> bytes:
        """Two zero blocks, padded to a record of 10240 bytes."""
        return tar.ending(size)

    def capacity(self, target: int) -> int:
        """Whole records of 10240 bytes, less the end blocks."""
        return target // tar.RECORD * tar.RECORD - len(tar.END)

    def weights(self, rows: pl.DataFrame) -> pl.Series:
        """A header and whole blocks for each member; names over 100 bytes take some blocks more."""
        from dsprep.catalog import key_expr

        key = rows.select(key_expr().str.len_bytes().cast(int)).to_series()
        total = _member_weights(key, self.renamed.get("image", _LONGEST_KIND), rows["image"])
        if "cls" in rows.columns:
            digits = rows["cls"].cast(str).str.len_bytes().cast(int)
            total += _member_weights(key, self._extensions["cls"].decode(), digits)
        elif "label" in rows.columns:
            text = rows["label"].list.len().cast(int) * _LONGEST_NUMBER + 2
            total += _member_weights(key, self._extensions["label"].decode(), text)
        if self.metadata:
            text = _json_sizes(rows["path"]) + _LARGEST_DIMENSIONS + len('{"filename":}')
            if "class" in rows.columns:
                text += _json_sizes(rows["class"]) + len('"class":,')
            total += _member_weights(key, "json", text)
        return total

    def read(self, stream: ShardStream) -> Iterator[Entry]:
        """Read the samples: runs of members with one key."""
        for position, group in enumerate(groups(stream, with_data=True), stream.first):
            key, members, start, stop = group
            fields = self.fields_of({name: member.data for name, member in members.items()})
            yield Entry(start, stop - start, Sample(key, fields, position))

    def spans(self, stream: ShardStream) -> Iterator[Span]:
        """Find the samples by the headers of their members."""
        for position, group in enumerate(groups(stream, with_data=False), stream.first):
            key, members, start, stop = group
            yield Span(start, stop - start, key, position, fields=tuple(members))

    def fields_of(self, members: Mapping[str, bytes]) -> dict[str, Value]:
        """The fields that the members of a sample hold, each under its own name.

        A member means other fields than itself only if :meth:`encode` makes this very member of
        them, and if no other member is one of these.
        """
        fields: dict[str, Value] = {}
        meant = 0
        for name, data in members.items():
            if name in self._meaningful:
                meaning = self._meaning(name, data)
                fields.update(meaning)
                meant += len(meaning)
            else:
                fields[field_of(name)] = data
                meant += 1
        return fields if len(fields) == meant else self._fields_told_apart(members)

    def _fields_told_apart(self, members: Mapping[str, bytes]) -> dict[str, Value]:
        """The fields of members of which some, taken for what they mean, would be the same."""
        meaningful = members.keys() & self._meaningful
        meanings = {
            name: self._meaning(name, data) if name in meaningful else {field_of(name): data}
            for name, data in members.items()
        }
        while True:
            fields = dict(chain.from_iterable(meaning.items() for meaning in meanings.values()))
            if len(fields) == sum(map(len, meanings.values())):
                return fields
            counts = Counter(chain.from_iterable(meanings.values()))
            taken = {
                name for name in meaningful if any(counts[each] > 1 for each in meanings[name])
            }
            meanings |= {name: {name: members[name]} for name in taken}
            meaningful = meaningful - taken

    @cached_property
    def _meaningful(self) -> frozenset[str]:
        """The extensions of members that mean another field than bytes of that name."""
        image = {self.renamed["image"]} if "image" in self.renamed else set()
        return frozenset({"cls", "label", _METADATA, _LISTS, *self._labels} | image)

    @cached_property
    def _labels(self) -> dict[str, str]:
        """The fields of labels, by the extensions of their members."""
        return {self._extensions[name].decode(): name for name in ("cls", "label")}

    def _meaning(self, extension: str, data: bytes) -> Mapping[str, Value]:
        """The fields of which :meth:`encode` makes this very member."""
        if extension == self.renamed.get("image"):
            return {sniff(data) or UNKNOWN_IMAGE: data}
        if extension == _METADATA:
            return _parse_json(data) or {extension: data}
        if extension == _LISTS:
            return decode_typed(data) or {extension: data}
        field = self._labels.get(extension)
        if field is not None:
            value = parse_label(data)
            if value is not None and TYPES[field] is type(value):
                return {field: value}
        return {extension: data}

    def dataset_index(self, name: str, shards: Sequence[ShardFacts]) -> dict[str, bytes]:
        """The wids index, with urls relative to itself."""
        shardlist = [
            {"url": shard.name, "nsamples": shard.samples, "filesize": shard.bytes}
            for shard in shards
        ]
        index = {
            "__kind__": "wids-shard-index-v1",
            "wids_version": 1,
            "name": name,
            "shardlist": shardlist,
        }
        return {f"{name}.json": json.dumps(index, indent=1).encode() + b"\n"}


class Group(NamedTuple):
    """The members of one sample.

    Attributes:
        key: What their names share.
        members: They, by extension in lower case.
        start: Where the first of their headers begins.
        stop: Where the last of their bytes, padding included, ends.
    """

    key: str
    members: dict[str, tar.Member]
    start: int
    stop: int


def groups(stream: ShardStream, with_data: bool) -> Iterator[Group]:
    """Read the runs of members that share a key.

    Args:
        stream: The shard.
        with_data: Whether to read the bytes of the members.

    Raises:
        DamagedShard: As :func:`dsprep.formats.tar.members`, or if a sample has a member twice.
    """
    key: str | None = None
    members: dict[str, tar.Member] = {}
    start = stop = 0
    for member in tar.members(stream, with_data):
        name = member.name
        match = _NAME.fullmatch(name)
        if match is None or (name.startswith("__") and _PASSED_OVER.match(name)):
            stream.passed_over[extension_in(name)] += 1
            continue
        if match[1] != key:
            if key is not None:
                yield Group(key, members, start, stop)
            key, members, start = match[1], {}, member.offset
        extension = match[2].lower()
        if extension in members:
            raise stream.damaged(f"the sample {key!r} has two members .{extension}", member.offset)
        members[extension] = member
        stop = stream.offset
    if key is not None:
        yield Group(key, members, start, stop)


class _OtherExtensions(dict[str, bytes]):
    """Fields that are not in the table stand in members of their own name."""

    def __missing__(self, name: str) -> bytes:
        return extension_of(name).encode()


def _require_found(key: str) -> None:
    """Refuse a key that readers would not find in the names of members.

    Raises:
        BadSample: If they would find another, or none.
    """
    if _PASSED_OVER.match(key + "."):
        raise BadSample(f"webdataset passes over names that begin with {key.split('/')[0]}/")
    if "\n" in key:
        raise BadSample("webdataset may not find the extension of a name with a line break")
    if "\0" in key:
        raise BadSample("a name in a tar holds no zero byte")
    match = _NAME.fullmatch(key + ".x")
    if match is None or match[1] != key:
        raise BadSample("webdataset would find another key: its base name is empty or has dots")


@lru_cache(maxsize=4096)
def _padded_number(value: int) -> tuple[bytes, bytes]:
    """The bytes and the padding of a member that holds a class number."""
    data = label_text(value)
    return data, tar.padding(len(data))


def _text(value: Value) -> bytes:
    assert isinstance(value, int) or is_label(value)
    return label_text(value)


def _parse_json(data: bytes) -> dict[str, Value] | None:
    """The metadata whose text this is; None if it would be written as another text."""
    try:
        values = json.loads(data)
        if not isinstance(values, dict) or not values.keys() <= _IN_JSON or _json(values) != data:
            return None
    except (ValueError, RecursionError):
        return None
    for name, value in values.items():
        if TYPES[name] is not type(value) or value == "" and name == "filename":
            return None
        if type(value) is int and value not in (IDS if name == "id" else INT64):
            return None
    return values


def _json(values: dict[str, Value]) -> bytes:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def _member_weights(key: pl.Series, extension: str, size: pl.Series) -> pl.Series:
    name = key + (len(extension.encode()) + 1)
    record = name + len("123 path=\n")
    record += (record > 999).cast(int)
    return _with_header(size) + (name > tar.MAX_NAME).cast(int) * _with_header(record)


def _with_header(size: pl.Series) -> pl.Series:
    return (size + (2 * tar.BLOCK - 1)) // tar.BLOCK * tar.BLOCK


def _json_sizes(text: pl.Series) -> pl.Series:
    """The most bytes that texts take as JSON: an escaped character takes up to six."""
    escaped = text.str.count_matches(r'["\\\x00-\x1f]').cast(int)
    return text.str.len_bytes().cast(int) + 5 * escaped + 2
