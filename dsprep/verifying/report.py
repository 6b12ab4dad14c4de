"""What verifying and indexing report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from dsprep.errors import DamagedShard, DsprepError


class Problem(NamedTuple):
    """Something that is wrong."""

    file: str  # the file's name
    offset: int | None  # where in it, in (decompressed) bytes; None for the whole file
    sample: str  # the key of the sample, or the empty string
    message: str  # what is wrong


def problem_of(error: DsprepError | OSError, path: Path) -> Problem:
    """Return the problem of a file that could not be read."""
    if isinstance(error, DamagedShard):
        return Problem(path.name, error.offset, "", error.problem)
    if isinstance(error, OSError):
        return Problem(path.name, None, "", f"cannot be read ({error.strerror})")
    return Problem(path.name, None, "", str(error).removeprefix(f"{path}: "))


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


def joined(
    dest: str, reports: Sequence[VerifyReport], others: Sequence[Problem], seconds: float
) -> VerifyReport:
    """Join the reports of several data sets, with problems that are of none of them."""
    return VerifyReport(
        destination=dest,
        format=" and ".join(dict.fromkeys(report.format for report in reports)),
        manifest=all(report.manifest for report in reports),
        shards=sum(report.shards for report in reports),
        samples=sum(report.samples for report in reports),
        bytes=sum(report.bytes for report in reports),
        checked=list(dict.fromkeys(chain.from_iterable(report.checked for report in reports)))
        or ["manifest"],  # none could be read
        problems=[*chain.from_iterable(report.problems for report in reports), *others],
        seconds=seconds,
        proof=sum((Counter(report.proof) for report in reports), Counter()),
        notes=list(chain.from_iterable(report.notes for report in reports)),
        fields=reports[0].fields if len(reports) == 1 else (),
    )


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
    seconds: float
