"""NVIDIA DALI's indexes, as its own tools write them and its readers take them.

For WebDataset that is version 1.2 of what ``wds2idx`` writes and ``webdataset_loader.cc`` reads: a
line ``v1.2 SAMPLES``, then a line for each sample with ``EXTENSION OFFSET SIZE NAME`` for each of
its members, all parted by blanks. The offset is that of the member's bytes, after its headers. For
TFRecord it is what ``tfrecord2idx`` writes and ``indexed_file_loader.h`` reads: a line ``OFFSET
SIZE`` for each record, its frame included.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dsprep.formats.tar import Member

_PLAIN = re.compile(r"[!-\[\]-~]+")
_BLANK = re.compile(r"[ \t\n\v\f\r]")
"""What C++ takes for the end of a word."""

_LETTERS = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 92: "\\"}


def _escape(byte: int) -> str:
    if byte in _LETTERS:
        return "\\" + _LETTERS[byte]
    return chr(byte) if 0x20 < byte < 0x7F else f"\\{byte:03o}"


_ESCAPED = [_escape(byte) for byte in range(256)]


def sample_line(key: str, members: Iterable[Member]) -> str:
    """The line of one sample of a WebDataset shard."""
    parts = []
    for member in members:
        extension = member.name.removeprefix("./")[len(key) + 1 :]
        if not extension or _BLANK.search(extension):
            raise ValueError(f"DALI's index cannot hold the extension of {member.name!r}")
        parts.append(f"{extension} {member.at} {member.size} {_word(member.name)}")
    return " ".join(parts)


def _word(name: str) -> str:
    """A name without blanks, for DALI only tells it: escaped as GNU tar does for ``wds2idx``.

    GNU tar leaves a blank as it is, so that DALI cannot read what ``wds2idx`` makes of it.
    """
    return name if _PLAIN.fullmatch(name) else "".join(_ESCAPED[byte] for byte in name.encode())


def webdataset_index(lines: Sequence[str]) -> bytes:
    """The index of a WebDataset shard."""
    return "".join(f"{line}\n" for line in (f"v1.2 {len(lines)}", *lines)).encode()


def tfrecord_index(offsets: Iterable[int], sizes: Iterable[int]) -> bytes:
    """The index of a TFRecord shard."""
    places = zip(offsets, sizes, strict=True)
    return "".join(f"{offset} {size}\n" for offset, size in places).encode()
