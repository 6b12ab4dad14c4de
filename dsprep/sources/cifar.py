"""CIFAR-10 and CIFAR-100 as downloaded: the binary and the Python version.

The layouts are those of https://www.cs.toronto.edu/~kriz/cifar.html. In the binary version a record
is the label (CIFAR-100: the coarse one, then the fine one), then 1024 red, 1024 green and 1024 blue
bytes, row by row. In the Python version a batch is a pickled dictionary with such rows of 3072 as a
NumPy array. A pickle is a program: unpickling it would run it, so here only its instructions are
read, and any name that CIFAR's files do not load is refused.
"""

from __future__ import annotations

import pickletools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dsprep.errors import SourceError
from dsprep.readers.archive import read_members
from dsprep.readers.pixels import Batch, BatchFile, LabeledBatch
from dsprep.storage.urls import is_s3

SIDE = 32
_PIXELS = 3 * SIDE * SIDE

_LARGEST = 1 << 30
"""Maximum size of a batch; CIFAR-100's training images have 155 million bytes."""


class Version(NamedTuple):
    """A version of CIFAR."""

    batches: re.Pattern[str]  # names of its batches
    names: str  # the file of class names
    names_key: str  # the key of the class names if that file is a pickle
    labels: int  # bytes of labels before the pixels of an image; 0 in a pickle
    key: str  # the key of the labels in a pickle


_VERSIONS = (
    Version(re.compile(r"(data|test)_batch(_\d+)?\.bin"), "batches.meta.txt", "", 1, ""),
    Version(re.compile(r"(data|test)_batch(_\d+)?"), "batches.meta", "label_names", 0, "labels"),
    Version(re.compile(r"(train|test)\.bin"), "fine_label_names.txt", "", 2, ""),
    Version(re.compile(r"(train|test)"), "meta", "fine_label_names", 0, "fine_labels"),
)


def is_part(name: str) -> bool:
    """Return whether a file may be one of CIFAR's, by its name."""
    return any(name == each.names or each.batches.fullmatch(name) for each in _VERSIONS)


def version_of(files: Sequence[BatchFile], batch: str | None = None) -> Version | None:
    """Return the version of CIFAR that files are; None if they are something else."""
    for version in _VERSIONS:
        for file in files:
            if version.batches.fullmatch(file.name) and batch in (None, file.name):
                named = any(other.name == version.names for other in files)
                if named or "batch" in file.name or (batch and _looks_like(file, version)):
                    return version
    return None


def _looks_like(file: BatchFile, version: Version) -> bool:
    """Return whether a file is such a batch, where its name may be that of anything."""
    if version.labels:
        return file.size > 0 and file.size % (version.labels + _PIXELS) == 0
    return file.head(1) == b"\x80"


def read_batches(
    files: Sequence[BatchFile], version: Version, chosen: str | None
) -> tuple[list[LabeledBatch], tuple[str, ...] | None]:
    """Return the batches, or one part or batch of them, and the class names."""
    wanted = [
        file
        for file in files
        if file.name == version.names
        or version.batches.fullmatch(file.name)
        and chosen in (None, file.name, _directory(file.name).partition("/")[0])
    ]
    names: tuple[str, ...] | None = None
    batches: list[LabeledBatch] = []
    for file, data in _contents(wanted):
        if file.name == version.names:
            names = _class_names(file, data, version)
        elif version.labels:
            batches.append(_binary(file, data, version))
        else:
            batches.append(_pickled(file, data, version))
    return sorted(batches, key=_order), names


def _contents(files: Sequence[BatchFile]) -> Iterator[tuple[BatchFile, bytes]]:
    """Read files whole; those of an archive in one pass, in the order of the archive."""
    for file in files:
        if file.size > _LARGEST:
            raise SourceError(f"{file}: has {file.size} bytes, far more than a file of CIFAR")
    members = [file.member for file in files if file.member is not None]
    if members:
        ordered = sorted(files, key=lambda file: file.member.offset if file.member else 0)
        yield from zip(ordered, read_members(members), strict=True)
    else:
        for file in files:
            yield file, b"".join(file.blocks())


def _directory(name: str) -> str:
    stem = name.removesuffix(".bin")
    if stem in ("train", "test"):
        return stem
    return f"{'test' if stem.startswith('test') else 'train'}/{stem}"


def _order(batch: LabeledBatch) -> tuple[bool, int, str]:
    digits = re.sub(r"\D", "", batch.directory)
    return batch.directory.startswith("test"), int(digits or 0), batch.directory


def _class_names(file: BatchFile, data: bytes, version: Version) -> tuple[str, ...]:
    if version.names_key:
        listed = read_pickle(data, str(file)).get(version.names_key)
    else:
        listed = [line for line in data.splitlines() if line.strip()]
    names = tuple(_text(name) for name in listed) if isinstance(listed, list) else ()
    if not all(names) or len(set(names)) < len(names) or any("\n" in name for name in names):
        raise SourceError(f"{file}: does not name each class once")
    if not names:
        raise SourceError(f"{file}: names no classes")
    return names


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace").strip()
    return value.strip() if isinstance(value, str) else ""


def _binary(file: BatchFile, data: bytes, version: Version) -> LabeledBatch:
    step = version.labels + _PIXELS
    if len(data) != file.size or not data or len(data) % step:
        raise SourceError(
            f"{file}: has {len(data)} bytes, which is no multiple of {step}: download it again"
        )
    direct = file.member is None and not is_s3(file.path)
    labels = list(data[version.labels - 1 :: step])
    batch = Batch(
        *(file, "RGB", SIDE, SIDE, len(labels)),
        *(version.labels, len(data), step),
        direct=direct,
    )
    return LabeledBatch(batch, _directory(file.name), labels)


def _pickled(file: BatchFile, data: bytes, version: Version) -> LabeledBatch:
    fields = read_pickle(data, str(file))
    try:
        array = fields["data"]
        _, (count, width), dtype, by_column, payload = array.state
        code = _text(dtype.arguments[0])
        known = array.function.endswith("_reconstruct") and dtype.function == "numpy dtype"
        if not known or width != _PIXELS or code.lstrip("|=<>") not in ("u1", "uint8", "B"):
            raise ValueError
        start, stop = payload.start, payload.stop
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise SourceError(f"{file}: holds no array 'data' of {_PIXELS} bytes an image") from None
    labels = _numbers(file, version.key, fields.get(version.key), count)
    length = _characters(data[start:stop]) if payload.text else stop - start
    if length != count * _PIXELS:
        raise SourceError(f"{file}: says it has {count} images, but holds {length} bytes of pixels")
    by_column = bool(by_column) and count > 1
    plain = not payload.text and not by_column
    batch = Batch(
        *(file, "RGB", SIDE, SIDE, count),
        *(start, stop, _PIXELS, payload.text, by_column),
        direct=plain and file.member is None and not is_s3(file.path),
    )
    names = fields.get("filenames")
    names = names if isinstance(names, list) and len(names) == count else None
    names = names and [_text(name) for name in names]
    return LabeledBatch(batch, _directory(file.name), labels, names)


def _numbers(file: BatchFile, key: str, labels: Any, count: int) -> list[int]:
    if not isinstance(labels, list) or any(type(label) is not int for label in labels):
        raise SourceError(f"{file}: holds no list {key!r} of numbers")
    if len(labels) != count:
        raise SourceError(f"{file}: has {len(labels)} labels, but {count} images")
    if any(not 0 <= label < 1 << 31 for label in labels):
        raise SourceError(f"{file}: holds labels that are no class numbers")
    return labels


def _characters(data: bytes) -> int:
    """Return how many bytes a text stands for, or -1 if it does not stand for bytes."""
    try:
        return len(data.decode().encode("latin-1"))
    except UnicodeError:
        return -1


# Pickles

_GLOBALS = frozenset(
    {
        "numpy.core.multiarray _reconstruct",
        "numpy._core.multiarray _reconstruct",
        "numpy ndarray",
        "numpy dtype",
        "_codecs encode",
    }
)
"""All that a file of CIFAR loads, whichever Python and NumPy wrote it."""

_LONG = 1024
"""Longer strings are left where they lie: they are pixels."""

# Names of instructions, as the documentation of pickletools has them. What is not here is refused.
_IGNORED = frozenset({"PROTO", "FRAME", "STOP"})
_EMPTY = {"EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "EMPTY_DICT": dict}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_INTEGERS = frozenset({"BININT", "BININT1", "BININT2", "LONG1"})
_STRINGS = {  # and the bytes of the length that precedes them
    "SHORT_BINSTRING": 1,
    "SHORT_BINBYTES": 1,
    "SHORT_BINUNICODE": 1,
    "BINSTRING": 4,
    "BINBYTES": 4,
    "BINUNICODE": 4,
    "BINBYTES8": 8,
    "BINUNICODE8": 8,
}
_PUTS = frozenset({"BINPUT", "LONG_BINPUT", "MEMOIZE"})
_GETS = frozenset({"BINGET", "LONG_BINGET"})
_TAKEN = {  # how many values from the top of the stack are taken; None for those from the mark on
    "TUPLE": None,
    "TUPLE1": 1,
    "TUPLE2": 2,
    "TUPLE3": 3,
    "APPEND": 1,
    "APPENDS": None,
    "SETITEM": 2,
    "SETITEMS": None,
    "STACK_GLOBAL": 2,
    "REDUCE": 2,
    "BUILD": 1,
}


class _Payload(NamedTuple):
    """A long string in a pickle."""

    start: int
    stop: int
    text: bool  # whether it is text, in UTF-8, of characters with the numbers of bytes


@dataclass(eq=False)
class _Made:
    """A name that a pickle loads, or what a call of it would return."""

    function: str
    arguments: Any = None
    state: Any = None


def read_pickle(data: bytes, source: str) -> dict[str, Any]:
    """Read a pickled dictionary without unpickling it."""
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[Any, Any] = {}
    try:
        for code, argument, at in pickletools.genops(data):
            name = code.name
            if name in _PUTS:
                memo[len(memo) if argument is None else argument] = stack[-1]
            elif name in _GETS:
                stack.append(memo[argument])
            elif name in _INTEGERS:
                stack.append(argument)
            elif name in _STRINGS:
                stack.append(_string(data, name, argument, at or 0))
            elif name in _CONSTANTS:
                stack.append(_CONSTANTS[name])
            elif name in _EMPTY:
                stack.append(_EMPTY[name]())
            elif name == "MARK":
                marks.append(len(stack))
            elif name == "GLOBAL":
                stack.append(_loaded(str(argument), source))
            elif name not in _IGNORED:
                count = _TAKEN[name]
                first = marks.pop() if count is None else len(stack) - count
                if first < 0 or first > len(stack):
                    raise IndexError
                taken = stack[first:]
                del stack[first:]
                _follow(name, taken, stack, source)
        (found,) = stack
        return {
            key.decode("latin-1") if isinstance(key, bytes) else key: found[key] for key in [*found]
        }
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise SourceError(f"{source}: is not a whole pickle, or not of CIFAR's kind") from None


def _string(data: bytes, name: str, value: Any, at: int) -> Any:
    """Return a string of a pickle; if it is long, where it lies."""
    start = at + 1 + _STRINGS[name]
    if len(value) > _LONG:
        stop = start + int.from_bytes(data[at + 1 : start], "little")
        return _Payload(start, stop, "UNICODE" in name)
    # The strings of Python 2, which may be text, are bytes here.
    return value.encode("latin-1") if name.endswith("BINSTRING") else value


def _loaded(name: str, source: str) -> _Made:
    if name not in _GLOBALS:
        raise SourceError(
            f"{source}: is a pickle that wants to load {name.replace(' ', '.')}, which no file of "
            "CIFAR's does: it is not opened"
        )
    return _Made(name)


def _follow(name: str, taken: list[Any], stack: list[Any], source: str) -> None:
    """Do to the stack what an instruction says, with the values that it takes."""
    if name.startswith("TUPLE"):
        stack.append(tuple(taken))
    elif name.startswith("APPEND"):
        _of_type(list, stack[-1]).extend(taken)
    elif name.startswith("SETITEM"):
        for key, value in zip(taken[::2], taken[1::2], strict=True):
            if not isinstance(key, str | bytes):  # others may take for ever to hash
                raise TypeError
            _of_type(dict, stack[-1])[key] = value
    elif name == "STACK_GLOBAL":
        stack.append(_loaded(f"{_of_type(str, taken[0])} {_of_type(str, taken[1])}", source))
    elif name == "BUILD":
        _of_type(_Made, stack[-1]).state = taken[0]
    else:
        called, arguments = _of_type(_Made, taken[0]), _of_type(tuple, taken[1])
        if called.function != "_codecs encode":
            stack.append(_Made(called.function, arguments))
            return
        text, encoding = arguments
        if encoding != "latin1":
            raise ValueError
        stack.append(text if isinstance(text, _Payload) else text.encode("latin-1"))


def _of_type(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value
