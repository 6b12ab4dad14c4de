"""What a store holds: files, parts, uploads, as plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

FATAL = ("denied", "expired")  # kinds of failure that all other files would meet, too


@dataclass(frozen=True, slots=True)
class Stored:
    """A file in a store, as far as a listing or a HEAD reports it."""

    key: str  # its name in the store, with slashes
    size: int  # in bytes
    modified: float  # when it was stored, in seconds since 1970
    etag: str = ""  # identifies the content, without quotes; empty if the store has none
    # Not in a listing: the crc32c of all bytes, if the store itself has computed it, and the
    # metadata with names in lower case.
    crc32c: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    storage_class: str = ""  # as S3 has it; empty for the standard one
    encryption: str = ""  # as S3 has it: `AES256`, `aws:kms`…; empty in a listing
    kms_key: str = ""
    # `ContentType` and the like in boto3's names; not in a listing
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def md5(self) -> bytes | None:
        """The MD5 that the ETag is, unless it is of parts or of what KMS has encrypted."""
        if len(self.etag) != 32 or self.encryption.startswith("aws:kms"):
            return None
        try:
            return bytes.fromhex(self.etag)
        except ValueError:
            return None


class Facts(NamedTuple):
    """What tells whether a file is still the one that it was."""

    size: int  # in bytes
    # when it was last changed, in nanoseconds since 1970. An object's time has whole seconds; what
    # follows them is made of its ETag, so that it changes with the content.
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an upload, as the store has it."""

    number: int  # from 1
    size: int  # in bytes
    etag: str  # nearly always the MD5 of its bytes, in hex
    crc32c: int | None = None  # if the store has computed it


@dataclass(frozen=True, slots=True)
class Upload:
    """An unfinished upload in parts."""

    key: str  # of the object that it becomes
    id: str  # the store's name for the upload
    checksums: bool = False  # whether the store checks the crc32c of each part and of the whole
    initiated: float = 0.0  # when it was begun, in seconds since 1970
    initiator: str = ""  # who began it, if the store reports that
    storage_class: str = ""  # as in `Stored`


class Level(NamedTuple):
    """A page of what lies directly below a prefix."""

    files: list[Stored]  # the files there
    deeper: Sequence[str]  # what all deeper keys begin with, up to a slash
    is_last: bool  # whether no page follows


Pages = Iterator[list[Stored]]  # a listing, as the pages that the store sends

Progress = Callable[[int], None]
"""Called with every number of bytes that was sent or received; it may wait, and may raise."""


Events = Callable[..., object]
"""Called with an event and its facts by name, from several threads at once.

plan(files, bytes): files are added to the transfer
begin(name, bytes, parts): a file begins, named by its S3 URL
found(name, bytes, parts): bytes and parts are there from an earlier run
moved(name, bytes): bytes have moved; a negative number has to be moved again
part(name, number): a part is complete
end(name, bytes, proof): a file is complete, proven by ``crc32c``, ``md5``, ``parts`` or ``size``
retry(error, kind, seconds): a request failed, and is made again after a wait
fallback(text): the server does not support something that is optional
waiting(text): nothing can be done now
"""


def ignore(*_: object, **facts: object) -> None:
    """Listen to nothing."""
