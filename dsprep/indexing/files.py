"""One file of an index: is it there, is it right, and if not, write it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from dsprep.dataset.manifest import FileReceipt
from dsprep.storage.crc import crc32c
from dsprep.storage.local import open_regular, write_whole

_ROOM = 1 << 16
_LONGEST_SHOWN = 60


class Settled(NamedTuple):
    """An index as it was found, and as it is now."""

    # the file that is right: the one that was there, or what was or would be written
    receipt: FileReceipt
    kind: str  # `mxnet`, `dali`, `wids` or `manifest`
    state: str  # `unchanged`, `missing` or `wrong`: how it was found
    detail: str = ""  # what was wrong


def settle(
    path: Path,
    kind: str,
    data: bytes,
    difference: Callable[[bytes], str | None] | None,
    scratch: str | None,
) -> Settled:
    """See whether a file is what it should be, and write it if it is not."""
    have = _read(path, 4 * len(data) + _ROOM)
    if have is None:
        state, detail = "missing", ""
    elif have == data or (difference is not None and difference(have) is None):
        return Settled(_receipt(path, have), kind, "unchanged")
    else:
        state = "wrong"
        detail = (difference and difference(have)) or _first_difference(have, data)
    if scratch is not None:
        write_whole(path, data, Path(scratch))
    return Settled(_receipt(path, data), kind, state, detail)


def _receipt(path: Path, data: bytes) -> FileReceipt:
    return FileReceipt(path.name, len(data), crc32c(data))


def _read(path: Path, most: int) -> bytes | None:
    """What a file holds, at most so many bytes of it; None if it is not there."""
    try:
        with open(path, "rb", opener=open_regular) as file:
            return file.read(most)
    except FileNotFoundError:
        return None
    except OSError as error:
        return str(error).encode()  # which is no index


def _first_difference(have: bytes, want: bytes) -> str:
    have_lines, want_lines = have.split(b"\n"), want.split(b"\n")
    for number, (one, other) in enumerate(zip(have_lines, want_lines, strict=False), start=1):
        if one != other:
            return f"line {number} is {_shown(one)}, not {_shown(other)}"
    return f"has {len(have_lines) - 1:,} lines, not {len(want_lines) - 1:,}"


def _shown(line: bytes) -> str:
    text = line.decode(errors="backslashreplace")
    return repr(text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…")
