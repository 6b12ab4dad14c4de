"""What a store holds: files, parts, uploads, as plain values; and the checksums of their bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from zlib import crc32

import google_crc32c

from dsprep.errors import Interrupted, StoreError
from dsprep.tuples import NamedTuple

FATAL = ("denied", "expired")  # kinds of failure that all other files would meet, too

# Metadata of an object: the crc32c of its bytes in eight hex digits, and the time when its file
# was last changed in seconds since 1970.
CRC32C = "dsprep-crc32c"
MTIME = "dsprep-mtime"

_SECOND = 1_000_000_000
_POLYNOMIAL = 0x82F63B78  # CRC-32C's (RFC 3720, Castagnoli) with reversed bits


class Stored(NamedTuple):
    """A file in a store, as far as a listing or a HEAD reports it."""

    key: str  # its name in the store, with slashes
    size: int  # in bytes
    modified: float  # when it was stored, in seconds since 1970
    etag: str = ""  # identifies the content, without quotes; empty if the store has none
    # Not in a listing: the crc32c of all bytes, if the store itself has computed it, and the
    # metadata with names in lower case.
    crc32c: int | None = None
    metadata: Mapping[str, str] = {}
    storage_class: str = ""  # storage class of the object; empty for the standard one
    encryption: str = ""  # encryption of the object, `AES256` or `aws:kms`; empty in a listing
    kms_key: str = ""
    # `ContentType` and the like in boto3's names; not in a listing
    headers: Mapping[str, str] = {}

    @property
    def md5(self) -> bytes | None:
        """The MD5 that the ETag is, unless it is of parts or of what KMS has encrypted."""
        if len(self.etag) != 32 or self.encryption.startswith("aws:kms"):
            return None
        try:
            return bytes.fromhex(self.etag)
        except ValueError:
            return None

    @property
    def facts(self) -> Facts:
        mark = crc32(self.etag.encode()) % _SECOND
        return Facts(self.size, int(self.modified) * _SECOND + mark)

    @property
    def known_crc32c(self) -> tuple[int, str] | None:
        """The crc32c of an object as a HEAD reports it, and by which field; None if unknown."""
        if self.crc32c is not None:
            return self.crc32c, "checksum"
        said = said_crc32c(self.metadata)
        return None if said is None else (said, "metadata")

    @property
    def any_crc32c(self) -> int | None:
        """The crc32c of an object as a HEAD reports it; None if unknown."""
        return said_crc32c(self.metadata) if self.crc32c is None else self.crc32c

    @property
    def may_be_wrong(self) -> bool:
        """Whether only the server reports the crc32c, and dsprep has not noted the same.

        Some servers compute a wrong one for objects in parts. It proves that two objects are the
        same, but not that they differ: their bytes do.
        """
        return self.crc32c is not None and said_crc32c(self.metadata) != self.crc32c

    def confirmed_by(self, crc32c: int, md5: Callable[[], bytes]) -> str:
        """Return which checksum confirms that bytes are the object's; empty if one differs."""
        said = said_crc32c(self.metadata)
        if crc32c in (self.crc32c, said):
            return "crc32c"
        if said is not None:
            return ""
        if self.md5 is not None:
            return "md5" if self.md5 == md5() else ""
        return "size" if self.crc32c is None else ""

    def is_whole(self, data: bytes) -> bool:
        """Return whether bytes are those of the object, as far as S3 reports."""
        return bool(self.confirmed_by(crc32c(data), lambda: md5(data)))

    def is_made_of(self, parts: Iterable[UploadPart]) -> bool:
        """Return whether the ETag is that of these parts; with KMS, it is another one."""
        try:
            digests = [bytes.fromhex(part.etag) for part in parts]
        except ValueError:
            return False
        return self.etag == f"{md5(b''.join(digests)).hex()}-{len(digests)}"


class Facts(NamedTuple):
    """Size and time of a file, which show whether it has changed."""

    size: int  # in bytes
    # when it was last changed, in nanoseconds since 1970. An object's time has whole seconds; what
    # follows them is made of its ETag, so that it changes with the content.
    mtime_ns: int


class UploadPart(NamedTuple):
    """A part of an upload, as the store has it."""

    number: int  # from 1
    size: int  # in bytes
    etag: str  # nearly always the MD5 of its bytes, in hex
    crc32c: int | None = None  # if the store has computed it


class Upload(NamedTuple):
    """An unfinished upload in parts."""

    key: str  # key of the object that the upload becomes
    id: str  # the store's name for the upload
    checksums: bool = False  # whether the store checks the crc32c of each part and of the whole
    initiated: float = 0.0  # when it was begun, in seconds since 1970
    initiator: str = ""  # who began it, if the store reports that
    storage_class: str = ""  # storage class of the object


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


def stops_all(error: Exception) -> bool:
    """Return whether all other files would meet this error, too."""
    return isinstance(error, Interrupted) or (isinstance(error, StoreError) and error.kind in FATAL)


def crc32c(data: bytes | bytearray | memoryview, before: int = 0) -> int:
    """Return the crc32c of bytes, going on from that of the bytes before."""
    if isinstance(data, bytes):
        return int(google_crc32c.extend(before, data))
    view = memoryview(data)
    # The extension refuses mutable memory, but not a ctypes array over it.
    mutable = not view.readonly and view.nbytes
    import ctypes  # slow to load, as hashlib is

    array = (ctypes.c_char * view.nbytes).from_buffer(view) if mutable else bytes(view)
    return int(google_crc32c.extend(before, array))


def md5(data: bytes | bytearray | memoryview) -> bytes:
    """Return the MD5 of bytes, used as a checksum only."""
    import hashlib

    return hashlib.md5(data, usedforsecurity=False).digest()


def combine_all(runs: Iterable[tuple[int, int]]) -> int:
    """Return the crc32c of runs of bytes, given as their crc32c and size."""
    # A crc is a remainder of polynomials over GF(2). To append a run is to multiply the crc of the
    # bytes before by x to the power of its bits; the rest cancels out.
    combined = 0
    for value, size in runs:
        bits, power = 8 * size, 1 << 30  # x, squared for each further bit of the exponent
        while combined and bits:
            if bits & 1:
                combined = _multiply(power, combined)
            power = _multiply(power, power)
            bits >>= 1
        combined ^= value
    return combined


def _multiply(a: int, b: int) -> int:
    """Multiply polynomials modulo CRC-32C's; the highest bit is x to the power of 0."""
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product


def metadata_of(mtime_ns: int, crc32c: int | None = None) -> dict[str, str]:
    """Return the metadata of a file."""
    metadata = {MTIME: f"{mtime_ns // 10**9}.{mtime_ns % 10**9:09d}"}
    return metadata if crc32c is None else {**metadata, CRC32C: f"{crc32c:08x}"}


def said_mtime_ns(metadata: Mapping[str, str]) -> int | None:
    """Return the time in metadata, in nanoseconds since 1970."""
    text = metadata.get(MTIME, "")
    seconds, _, rest = text.partition(".")
    if not (text.isascii() and seconds.isdigit() and (rest + "0").isdigit() and len(seconds) < 12):
        return None
    return int(seconds) * 10**9 + int(rest[:9].ljust(9, "0"))


def said_crc32c(metadata: Mapping[str, str]) -> int | None:
    """Return the crc32c in metadata."""
    text = metadata.get(CRC32C, "")
    return int(text, 16) if re.fullmatch("[0-9a-fA-F]{8}", text) else None
