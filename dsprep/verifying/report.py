"""What verifying and indexing report."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from dsprep.errors import DamagedShard, DsprepError


class Problem(NamedTuple):
    """Something that is wrong."""

    file: str  # the file's name
    offset: int | None  # where in it, in (decompressed) bytes; None for the whole file
    sample: str  # the key of the sample, or the empty string
    message: str  # what is wrong

    @classmethod
    def of(cls, file: str, message: str) -> Problem:
        """Return a problem of a whole file."""
        return cls(file, None, "", message)


def problem_of(error: DsprepError | OSError, path: Path | str, name: str = "") -> Problem:
    """Return the problem of a file that could not be read."""
    name = name or os.path.basename(path)
    if isinstance(error, DamagedShard):
        return Problem(name, error.offset, "", error.problem)
    if isinstance(error, OSError):
        return Problem.of(name, f"cannot be read ({error.strerror})")
    return Problem.of(name, str(error).removeprefix(f"{path}: "))


class FieldFound(NamedTuple):
    """A field of the samples."""

    name: str  # its name
    type: str  # one of :data:`dsprep.schema.TYPES`
    classes: int  # how many class names it has
    role: str  # `image`, `label`, or empty
    told: str  # what tells its type
    samples: int  # how many samples have it


@dataclass(frozen=True)
class VerifyReport:
    """What verifying found.

    Attributes:
        destination: As it was given.
        format: Name of the format.
        manifest: Whether there was a manifest to compare with.
        shards: Number of shards.
        samples: Number of samples.
        bytes: Size of the shards.
        checked: What was checked, in words.
        problems: What is wrong; empty if all is well.
        seconds: How long it took.
        proof: On S3, the number of correct files by what proves them: the ``checksum`` that S3
            keeps, the one that dsprep stored in the ``metadata``, ``download``, which reads all
            bytes; or only their ``size``, which is no proof.
        notes: Further remarks.
        fields: The fields of the samples; empty if they are unknown.
    """

    destination: str
    format: str
    manifest: bool
    shards: int
    samples: int
    bytes: int
    checked: Sequence[str]
    problems: Sequence[Problem]
    seconds: float = 0.0
    proof: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()
    fields: Sequence[FieldFound] = ()


class IndexFile(NamedTuple):
    """An index, or a manifest."""

    name: str  # its file name
    kind: str  # `mxnet`, `dali`, `wids` or `manifest`
    # `unchanged`; `written`, where there was none; `replaced`, where there was a wrong one;
    # `updated`, a manifest that names the new ones, too; in a check, `missing` or `wrong`
    state: str
    detail: str  # what was wrong, or is new


@dataclass(frozen=True)
class IndexReport:
    """What indexing did or, for a dry run, would do.

    Attributes:
        destination: As it was given.
        format: Name of the format.
        state: ``indexed``, ``planned`` or ``checked``.
        shards: Number of shards.
        samples: Number of samples.
        bytes: Size of the shards.
        files: The indexes, and the manifest.
        problems: What is wrong; empty if all is well.
        notes: Further remarks.
        seconds: How long it took.
    """

    destination: str
    format: str
    state: str
    shards: int
    samples: int
    bytes: int
    files: Sequence[IndexFile]
    problems: Sequence[Problem]
    notes: Sequence[str]
    seconds: float = 0.0


R = TypeVar("R", VerifyReport, IndexReport)

_JOIN: dict[str, Callable[[list[Any]], Any]] = {
    "format": lambda formats: " and ".join(dict.fromkeys(formats)),
    "manifest": all,
    **dict.fromkeys(("shards", "samples", "bytes"), sum),
    **dict.fromkeys(("problems", "notes", "files"), lambda lists: list(chain(*lists))),
    "checked": lambda lists: list(dict.fromkeys(chain(*lists))),
    "proof": lambda counts: sum(map(Counter, counts), Counter()),
    "fields": lambda lists: lists[0] if len(lists) == 1 else (),
}
"""How values of several reports become one."""


def joined(dest: str, reports: Sequence[R], problems: Sequence[Problem], began: float) -> R:
    """Join the reports of several data sets, with problems that are of none of them."""
    values = {
        name: join([getattr(report, name) for report in reports])
        for name, join in _JOIN.items()
        if hasattr(reports[0], name)
    }
    values["problems"] += problems
    seconds = time.monotonic() - began
    return replace(reports[0], **values, destination=dest, seconds=seconds)
