"""The batches of CIFAR's Python version: pickled dictionaries that hold a NumPy array.

A pickle is a program: unpickling it would run it, so here only its instructions are read, and any
name that CIFAR's files do not load is refused.
"""

from __future__ import annotations

import pickletools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dsprep.errors import SourceError

SIDE = 32
PIXELS = 3 * SIDE * SIDE  # all red bytes first, then the green and the blue ones, row by row

# All that a file of CIFAR loads, whichever Python and NumPy wrote it.
_GLOBALS = frozenset(
    {
        "numpy.core.multiarray _reconstruct",
        "numpy._core.multiarray _reconstruct",
        "numpy ndarray",
        "numpy dtype",
        "_codecs encode",
    }
)

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
# Instructions that leave the first of the values that they read where it is.
_ON_TOP = frozenset({"APPEND", "SETITEM", "BUILD", "MEMOIZE", "STOP"})


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
                    raise TypeError  # hashing other keys may never end
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
                called, arguments = taken
                made: Any = _Made(called.function, arguments)
                if called.function == "_codecs encode":
                    text, encoding = arguments
                    if encoding != "latin1":
                        raise ValueError
                    made = text.encode("latin-1")
                stack.append(made)
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


def read_batch(data: bytes, source: str, key: str) -> tuple[bytes, list[int], list[str] | None]:
    """Return the pixels of a batch, one image after another, the labels and the file names."""
    # The labels have a key of their own in CIFAR-10 and CIFAR-100.
    fields = read_pickle(data, source)
    try:
        array = fields["data"]
        _, (count, width), dtype, by_column, pixels = array.state
        code = text_of(dtype.arguments[0])
        known = array.function.endswith("_reconstruct") and dtype.function == "numpy dtype"
        if not known or width != PIXELS or code.lstrip("|=<>") not in ("u1", "uint8", "B"):
            raise ValueError
        length = len(memoryview(pixels))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise SourceError(f"{source}: has no array 'data' of {PIXELS} bytes an image") from None
    labels = fields.get(key)
    if not isinstance(labels, list) or any(type(label) is not int for label in labels):
        raise SourceError(f"{source}: has no list {key!r} of numbers")
    if len(labels) != count:
        raise SourceError(f"{source}: has {len(labels)} labels, but {count} images")
    if any(not 0 <= label < 1 << 31 for label in labels):
        raise SourceError(f"{source}: has labels that are not class numbers")
    if length != count * PIXELS:
        raise SourceError(
            f"{source}: says it has {count} images, but holds {length} bytes of pixels"
        )
    if by_column:  # the first bytes of all images, then the second bytes, and so on
        pixels = b"".join(pixels[number::count] for number in range(count))
    names = fields.get("filenames")
    if not isinstance(names, list) or len(names) != count:
        return pixels, labels, None
    return pixels, labels, [text_of(name) for name in names]


def text_of(value: Any) -> str:
    """Return a text of a pickle, which Python 2 wrote as bytes; empty if it is something else."""
    if isinstance(value, bytes):
        return value.decode(errors="replace").strip()
    return value.strip() if isinstance(value, str) else ""
