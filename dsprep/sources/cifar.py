"""CIFAR-10 and CIFAR-100 as downloaded: the binary and the Python version, unpacked or not.

The layouts are those of https://www.cs.toronto.edu/~kriz/cifar.html. In the binary version a record
is the label (CIFAR-100: the coarse one, then the fine one), then 1024 red, 1024 green and 1024 blue
bytes, row by row. In the Python version a batch is a pickled dictionary with such rows of 3072 as a
NumPy array.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from dsprep.errors import SourceError
from dsprep.sources import pickles
from dsprep.sources.batches import Batch
from dsprep.sources.held import Held, read_contents
from dsprep.sources.pixel_reader import Array, PixelFile

SIDE = 32
_PIXELS = 3 * SIDE * SIDE


class Version(NamedTuple):
    """A version of a data set."""

    batches: re.Pattern[str]  # the names of its batches
    names: str  # the file of its class names, and their key there if it is a pickle
    names_key: str
    labels: int  # how many labels stand before the pixels of an image; 0 in a pickle
    key: str  # the key of the labels in a pickle


_VERSIONS = (
    Version(re.compile(r"(data|test)_batch(_\d+)?\.bin"), "batches.meta.txt", "", 1, ""),
    Version(re.compile(r"(data|test)_batch(_\d+)?"), "batches.meta", "label_names", 0, "labels"),
    Version(re.compile(r"(train|test)\.bin"), "fine_label_names.txt", "", 2, ""),
    Version(re.compile(r"(train|test)"), "meta", "fine_label_names", 0, "fine_labels"),
)


def is_part(name: str) -> bool:
    """Whether a file may be one of CIFAR's, by its name."""
    return any(name == each.names or each.batches.fullmatch(name) for each in _VERSIONS)


def version_of(held: Sequence[Held], batch: str | None = None) -> Version | None:
    """The version that some files are, if they are one at all."""
    for version in _VERSIONS:
        for each in held:
            if version.batches.fullmatch(each.name) and batch in (None, each.name):
                named = any(other.name == version.names for other in held)
                if named or "batch" in each.name or (batch and _looks_like(each, version)):
                    return version
    return None


def _looks_like(held: Held, version: Version) -> bool:
    """Whether a file is such a batch, where its name may be that of anything."""
    if version.labels:
        return held.size > 0 and held.size % (version.labels + _PIXELS) == 0
    return held.first_bytes(1) == b"\x80"


def read_batches(
    held: Sequence[Held], version: Version, chosen: str | None
) -> tuple[list[Batch], tuple[str, ...] | None]:
    """Read the labels of the batches, and find their pixels."""
    wanted = [
        each
        for each in held
        if version.batches.fullmatch(each.name)
        and chosen in (None, each.name, _directory(each.name).partition("/")[0])
    ]
    # That of all files, so that the parts of one tar, if both are read, are spooled once.
    stop = max((each.member.offset + each.size for each in held if each.member), default=0)
    names: tuple[str, ...] | None = None
    batches: list[Batch] = []
    told = [each for each in held if each.name == version.names]
    for each, data in read_contents([*wanted, *told]):
        if each.name == version.names:
            names = _class_names(each, data, version)
        elif version.labels:
            batches.append(_binary(each, data, version, stop))
        else:
            batches.append(_pickled(each, data, version, stop))
    return sorted(batches, key=_order), names


def _directory(name: str) -> str:
    stem = name.removesuffix(".bin")
    if stem in ("train", "test"):
        return stem
    return f"{'test' if stem.startswith('test') else 'train'}/{stem}"


def _order(batch: Batch) -> tuple[bool, int, str]:
    digits = re.sub(r"\D", "", batch.directory)
    return batch.directory.startswith("test"), int(digits or 0), batch.directory


def _class_names(held: Held, data: bytes, version: Version) -> tuple[str, ...]:
    if version.names_key:
        listed = pickles.read_pickle(data, str(held)).get(version.names_key)
    else:
        listed = [line for line in data.splitlines() if line.strip()]
    names = tuple(_text(each) for each in listed) if isinstance(listed, list) else ()
    if not all(names) or len(set(names)) < len(names) or any("\n" in each for each in names):
        raise SourceError(f"{held}: does not name each class once")
    if not names:
        raise SourceError(f"{held}: names no classes")
    return names


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace").strip()
    return value.strip() if isinstance(value, str) else ""


def _binary(held: Held, data: bytes, version: Version, stop: int) -> Batch:
    step = version.labels + _PIXELS
    if len(data) != held.size or not data or len(data) % step:
        raise SourceError(
            f"{held}: has {len(data)} bytes, which is no multiple of {step}: download it again"
        )
    file, start = held.pixel_file(stop, "RGB", SIDE, SIDE)
    labels = list(data[version.labels - 1 :: step])
    return _batch(held, file, start + version.labels, step, labels, None)


def _pickled(held: Held, data: bytes, version: Version, stop: int) -> Batch:
    found = pickles.read_pickle(data, str(held))
    array, names = found.get("data"), found.get("filenames")
    if (
        not isinstance(array, pickles.Array)
        or array.dtype.lstrip("|=<>") not in ("u1", "uint8", "B")
        or len(array.shape) != 2
        or array.shape[1] != _PIXELS
        or array.place is None
    ):
        raise SourceError(f"{held}: holds no array 'data' of {_PIXELS} bytes an image")
    count = array.shape[0]
    labels = _numbers(held, version.key, found.get(version.key), count)
    start, size, text = array.place
    length = _characters(data[start : start + size]) if text else size
    if length != count * _PIXELS:
        raise SourceError(f"{held}: says it has {count} images, but holds {length} bytes of pixels")
    if isinstance(names, list) and len(names) == count:
        names = [_text(each) for each in names]
    else:
        names = None
    file, before = held.pixel_file(stop, "RGB", SIDE, SIDE)
    first = before + start
    if not text and (not array.by_column or count == 1):
        return _batch(held, file, first, _PIXELS, labels, names)
    within = Array(first, first + size, count, text, array.by_column)
    return _batch(held, file._replace(size=length, array=within), 0, _PIXELS, labels, names)


def _numbers(held: Held, key: str, labels: Any, count: int) -> list[int]:
    if not isinstance(labels, list) or any(type(each) is not int for each in labels):
        raise SourceError(f"{held}: holds no list {key!r} of numbers")
    if len(labels) != count:
        raise SourceError(f"{held}: has {len(labels)} labels, but {count} images")
    if any(not 0 <= each < 1 << 31 for each in labels):
        raise SourceError(f"{held}: holds labels that are no class numbers")
    return labels


def _characters(data: bytes) -> int:
    """How many bytes a text stands for, or -1 if it does not stand for bytes."""
    try:
        return len(data.decode().encode("latin-1"))
    except UnicodeError:
        return -1


def _batch(
    held: Held,
    file: PixelFile,
    start: int,
    step: int,
    labels: list[int],
    names: list[str] | None,
) -> Batch:
    directory = _directory(held.name)
    return Batch(str(held), directory, file, held.mtime, start, step, labels, len(labels), names)
