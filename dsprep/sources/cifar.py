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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dsprep.errors import SourceError
from dsprep.sources.archive_reader import read_members
from dsprep.sources.pixel_reader import Batch, BatchFile, LabeledBatch

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


@dataclass(frozen=True)
class CifarBatch(Batch):
    """A batch of CIFAR."""

    version: Version

    def pixels(self) -> Iterator[bytes]:
        """Read the whole batch."""
        yield _decode(self.file, b"".join(self.file.blocks()), self.version)[0]


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
        else:
            _, labels, file_names = _decode(file, data, version)
            batch = CifarBatch(file, 3, SIDE, SIDE, len(labels), version)
            batches.append(LabeledBatch(batch, _directory(file.name), labels, file_names))
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


def _decode(
    file: BatchFile, data: bytes, version: Version
) -> tuple[bytes, list[int], list[str] | None]:
    """Return the pixels of a batch, one image after another, the labels and the file names."""
    if not version.labels:
        return _decode_pickle(file, data, version.key)
    step = version.labels + _PIXELS
    if not data or len(data) % step:
        raise SourceError(
            f"{file}: has {len(data)} bytes, not a multiple of {step}; download it again"
        )
    starts = range(version.labels, len(data), step)
    pixels = b"".join(data[start : start + _PIXELS] for start in starts)
    return pixels, list(data[version.labels - 1 :: step]), None


def _decode_pickle(
    file: BatchFile, data: bytes, key: str
) -> tuple[bytes, list[int], list[str] | None]:
    fields = read_pickle(data, str(file))
    try:
        array = fields["data"]
        _, (count, width), dtype, by_column, pixels = array.state
        code = _text(dtype.arguments[0])
        known = array.function.endswith("_reconstruct") and dtype.function == "numpy dtype"
        if not known or width != _PIXELS or code.lstrip("|=<>") not in ("u1", "uint8", "B"):
            raise ValueError
        length = len(memoryview(pixels))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise SourceError(f"{file}: has no array 'data' of {_PIXELS} bytes an image") from None
    labels = fields.get(key)
    if not isinstance(labels, list) or any(type(label) is not int for label in labels):
        raise SourceError(f"{file}: has no list {key!r} of numbers")
    if len(labels) != count:
        raise SourceError(f"{file}: has {len(labels)} labels, but {count} images")
    if any(not 0 <= label < 1 << 31 for label in labels):
        raise SourceError(f"{file}: has labels that are not class numbers")
    if length != count * _PIXELS:
        raise SourceError(f"{file}: says it has {count} images, but holds {length} bytes of pixels")
    if by_column:  # the first bytes of all images, then the second bytes, and so on
        pixels = b"".join(pixels[number::count] for number in range(count))
    names = fields.get("filenames")
    if not isinstance(names, list) or len(names) != count:
        return pixels, labels, None
    return pixels, labels, [_text(name) for name in names]


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

# Names of instructions are those of the documentation of pickletools.
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
}
_STRING = re.compile("(?:SHORT_)?BIN(STRING|BYTES|UNICODE)8?")
_ON_TOP = frozenset({"APPEND", "SETITEM", "BUILD", "MEMOIZE", "STOP"})
"""Instructions that leave the first of the values that they read where it is."""


@dataclass(eq=False)
class _Made:
    """What a pickle loads by a name, or what a call of it would return."""

    function: str
    arguments: Any = None
    state: Any = None


def read_pickle(data: bytes, source: str) -> dict[str, Any]:
    """Read a pickled dictionary without unpickling it."""
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[Any, Any] = {}
    try:
        for code, value, _ in pickletools.genops(data):
            name, first = code.name, len(stack) - len(code.stack_before)
            if pickletools.markobject in code.stack_before:
                first = marks.pop()
            first += name in _ON_TOP
            if not 0 <= first <= len(stack):
                raise IndexError
            taken = stack[first:]
            del stack[first:]
            if string := _STRING.fullmatch(name):
                # The strings of Python 2, which may be text, are bytes here.
                stack.append(str(value).encode("latin-1") if string[1] == "STRING" else value)
            elif name.startswith("BININT") or name == "LONG1":
                stack.append(value)
            elif name in _CONSTANTS:
                stack.append(_CONSTANTS[name]())
            elif "PUT" in name or name == "MEMOIZE":
                memo[len(memo) if value is None else value] = stack[-1]
            elif "GET" in name:
                stack.append(memo[value])
            elif name == "MARK":
                marks.append(len(stack))
            elif "TUPLE" in name:
                stack.append(tuple(taken))
            elif "APPEND" in name:
                stack[-1].extend(taken)
            elif "SETITEM" in name:
                if not all(isinstance(key, str | bytes) for key in taken[::2]):
                    raise TypeError  # hashing other keys may take for ever
                stack[-1].update(zip(taken[::2], taken[1::2], strict=True))
            elif "GLOBAL" in name:
                loaded = str(value) if value is not None else " ".join(taken)
                if loaded not in _GLOBALS:
                    raise SourceError(
                        f"{source}: is a pickle that loads {loaded.replace(' ', '.')}, which no "
                        "file of CIFAR does; dsprep does not open it"
                    )
                stack.append(_Made(loaded))
            elif name == "REDUCE":
                stack.append(_called(*taken))
            elif name == "BUILD":
                stack[-1].state = taken[0]
            elif name not in ("PROTO", "FRAME", "STOP"):
                raise ValueError
        (found,) = stack
        return {
            key.decode("latin-1") if isinstance(key, bytes) else key: value
            for key, value in found.items()
        }
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise SourceError(f"{source}: is not a complete pickle of CIFAR") from None


def _called(called: _Made, arguments: tuple[Any, ...]) -> Any:
    """Return what a call would return."""
    if called.function != "_codecs encode":
        return _Made(called.function, arguments)
    text, encoding = arguments
    if encoding != "latin1":
        raise ValueError
    return text.encode("latin-1")
