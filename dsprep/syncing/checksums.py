"""Checksums of files that were read before, so that an unchanged file is not read again.

As in git's index, a file is unchanged if its device, inode, size and both of its times are the
same. A program can set back the time of the last write (``touch -r``, ``cp -p``), which sets the
other one, ctime, to now. A file that was changed just before it was read is not remembered: a write
right after that may leave its times as they are.

A directory that is synced has one file in the user's cache directory. What is wrong with that file,
or if it cannot be written, does no harm: the files are read.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from struct import Struct
from struct import error as StructError
from typing import TypeAlias

from dsprep.errors import DsprepError
from dsprep.storage.local import make_stage, read_whole, write_whole
from dsprep.storage.stored import crc32c
from dsprep.tuples import NamedTuple

_HEAD = b"dsprep checksums 1\n"  # then the entries, then the crc32c of head and entries
_ENTRY = Struct("<2Q 3q I 16s")  # facts, crc32c, MD5
_NO_MD5 = bytes(16)
_CHECKSUM = 4  # size of the crc32c that ends the file, in bytes
_MOST_ENTRIES = 1 << 20  # 64 MB, read in half a second
_MOST_DIRECTORIES = 100
# Nanoseconds. The coarsest times are those of FAT, of two seconds.
_JUST_NOW = 3 * 10**9

_Facts: TypeAlias = tuple[int, int, int, int, int]  # device, inode, size, mtime, ctime


class Sums(NamedTuple):
    """Checksums of a file."""

    crc32c: int
    md5: bytes | None = None  # or the ETag, of 16 bytes, that S3 gave them; None if unknown


class Sight(NamedTuple):
    """The identity, size and times of a file, and when dsprep read them."""

    seen_at: int  # in nanoseconds since 1970, before the facts
    facts: _Facts


class Checksums:
    """The checksums of the files of a directory; several threads may use them at once."""

    def __init__(self, root: Path | None = None, trusted: bool = True) -> None:
        """Load what earlier runs have saved; without a root, nothing is saved.

        If known checksums are not trusted, all files are read, and noted for later runs.
        """
        self._path, self._trusted = root and _cache_of(root), trusted
        self._loaded = _load(self._path) if self._path and trusted else {}
        self._sums: dict[_Facts, Sums] = {}

    def see(self, status: os.stat_result) -> Sums | None:
        """Take over and return what is known of a file that is there; the rest is forgotten."""
        facts = _facts(status)
        known = self._loaded.get(facts)
        if known is not None:
            self._sums[facts] = known
        return known

    def get(self, sight: Sight) -> Sums | None:
        """Return the checksums of a file; None if it has changed or they are unknown."""
        return self._sums.get(sight.facts) if self._trusted else None

    def note(self, path: str | Path, before: Sight, sums: Sums) -> None:
        """Remember the checksums of a file that was read after it was looked at."""
        written = max(before.facts[3:])
        if sums.md5 is None and before.facts in self._sums:
            return
        with suppress(OSError):
            if written + _JUST_NOW < before.seen_at and look(path).facts == before.facts:
                self._sums[before.facts] = sums

    def save(self) -> None:
        """Write down what is known, if that is new; it does not matter whether this succeeds."""
        known = dict(self._sums)
        if self._path is None or known == self._loaded:
            return
        with suppress(OSError, DsprepError, StructError):
            make_stage(self._path.parent)
            entries = (
                _ENTRY.pack(*facts, sums.crc32c, sums.md5 or _NO_MD5)
                for facts, sums in islice(known.items(), _MOST_ENTRIES)
            )
            data = _HEAD + b"".join(entries)
            data += crc32c(data).to_bytes(_CHECKSUM, "big")
            write_whole(self._path, data, self._path.parent)
            saved = sorted(self._path.parent.iterdir(), key=lambda path: path.stat().st_mtime)
            for path in saved[:-_MOST_DIRECTORIES]:
                path.unlink()


def look(path: str | Path) -> Sight:
    """Look at a file before it is read."""
    return Sight(time.time_ns(), _facts(os.stat(path)))


def _facts(status: os.stat_result) -> _Facts:
    times = status.st_mtime_ns, status.st_ctime_ns
    return (status.st_dev, status.st_ino, status.st_size, *times)


def _cache_of(root: Path) -> Path | None:
    """Return the file for a directory (XDG Base Directory Specification); None if there is none."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        cache = os.path.expanduser("~/.cache")
    name = sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:16]
    return Path(cache, "dsprep", "checksums", name) if os.path.isabs(cache) else None


def _load(path: Path) -> dict[_Facts, Sums]:
    """Read a file of checksums; return nothing if it is damaged, or not the user's own."""
    with suppress(OSError, StructError):
        data = read_whole(path, len(_HEAD) + _MOST_ENTRIES * _ENTRY.size + _CHECKSUM)
        body, checksum = data[:-_CHECKSUM], data[-_CHECKSUM:]
        is_whole = crc32c(body) == int.from_bytes(checksum, "big")
        # Only the owner may write to the directory.
        if is_whole and body.startswith(_HEAD) and path.parent.stat().st_uid == os.geteuid():
            return {
                (dev, ino, size, mtime, ctime): Sums(value, md5 if md5 != _NO_MD5 else None)
                for dev, ino, size, mtime, ctime, value, md5 in _ENTRY.iter_unpack(
                    memoryview(body)[len(_HEAD) :]
                )
            }
    return {}
