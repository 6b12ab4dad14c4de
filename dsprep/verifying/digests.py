"""Digests of samples: what a comparison keeps of each, a few bytes for each field."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from dsprep.sample import Sample, Value
from dsprep.schema import TYPES, Field, Schema, Type

Digest: TypeAlias = bytes
"""The digests of the fields of a sample, one after another."""

WIDTH = 8
"""Bytes of a field's digest: a change goes unseen once in 2^64."""

MISSING = bytes(WIDTH)
"""The digest of a field that a sample does not have."""


@dataclass(frozen=True)
class Digester:
    """Digests fields of samples. Plain data: it is pickled for the workers."""

    fields: tuple[Field, ...]  # the fields, as the shards have them
    # what samples call those that they call otherwise
    names: Mapping[str, str] = field(default_factory=dict)
    schema: Schema | None = None  # the schema of the samples, if it is not that of the shards

    @cached_property
    def _columns(self) -> list[tuple[str, Callable[[Value], bytes]]]:
        known = self.schema.by_name if self.schema else {}
        columns = []
        for column in self.fields:
            name = self.names.get(column.name, column.name)
            own = known.get(name)
            converts = own is not None and own.type != column.type
            columns.append((name, _digest_of(column.type, converts)))
        return columns

    def __call__(self, sample: Sample) -> Digest:
        """Return the digests of the fields of a sample, one after another."""
        fields = sample.fields
        return b"".join(
            [digest(fields[name]) if name in fields else MISSING for name, digest in self._columns]
        )


def differing(one: Digest, other: Digest) -> list[int]:
    """Return the positions of the fields whose digests differ."""
    starts = range(0, len(one), WIDTH)
    return [at // WIDTH for at in starts if one[at : at + WIDTH] != other[at : at + WIDTH]]


def _digest_of(kind: str, converts: bool) -> Callable[[Value], bytes]:
    """Return a function from a value of a type, or of one that it converts, to its digest."""
    content, convert = _content_of(TYPES[kind]), TYPES[kind].convert

    def digest(value: Value) -> bytes:
        if converts and (value := convert(value)) is None:
            return MISSING
        return hashlib.blake2b(content(value), digest_size=WIDTH).digest()

    return digest


def _content_of(kind: Type) -> Callable[[Value], bytes]:
    """Return a function from a value of a type to bytes that no other value has."""
    code = kind.code
    if not kind.is_list:
        if code:
            return struct.Struct(f"<{code}").pack
        return _text if kind.of is str else _same
    if code:
        return lambda values: struct.pack(f"<{len(values)}{code}", *values)
    of_item = _content_of(kind.item)
    return lambda values: b"".join(
        b"%d:%s" % (len(content), content) for content in map(of_item, values)
    )


def _text(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _same(value: bytes) -> bytes:
    return value
