"""What verifying and indexing report."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from dsprep.annotations.objects import ObjectCounts
from dsprep.dataset.manifest import FileEntry
from dsprep.errors import DamagedShard, DsprepError
from dsprep.frozen import Frozen
from dsprep.printable import json_values
from dsprep.tuples import NamedTuple


class Problem(NamedTuple):
    """A problem of a file, a shard or a sample."""

    file: str  # the file's name
    message: str  # what is wrong
    sample: str = ""  # the key of the sample, or the empty string
    offset: int | None = None  # where in it, in (decompressed) bytes; None for the whole file

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "file": self.file,
                "offset": self.offset,
                "sample": self.sample,
                "message": self.message,
            }
        )


def problem_of(error: DsprepError | OSError, path: Path | str, name: str = "") -> Problem:
    """Return the problem of a file that could not be read."""
    name = name or os.path.basename(path)
    if isinstance(error, DamagedShard):
        return Problem(name, error.problem, offset=error.offset)
    if isinstance(error, OSError):
        return Problem(name, f"cannot be read ({error.strerror})")
    return Problem(name, str(error).removeprefix(f"{path}: "))


class FieldFound(NamedTuple):
    """A field of the samples."""

    name: str  # its name
    type: str  # one of `dsprep.schema.TYPES`
    classes: int  # how many class names it has
    role: str  # `image`, `label`, or empty
    told: str  # what tells its type
    samples: int  # how many samples have it

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "name": self.name,
                "type": self.type,
                "classes": self.classes,
                "role": self.role,
                "told": self.told,
                "samples": self.samples,
            }
        )


class IndexFile(NamedTuple):
    """An index, or a manifest, as it was found, and as it is now."""

    # the file that is right: the one that was there, or what was or would be written
    receipt: FileEntry
    kind: str  # `mxnet`, `dali`, `wids` or `manifest`
    # `unchanged`, `missing` or `wrong`: how it was found; if it was or would be written, a missing
    # one is `written`, a wrong one `replaced`, and a manifest that names new indexes `updated`;
    # `kept` is what somebody else wrote, which is neither replaced nor checked
    state: str
    detail: str = ""  # what was wrong, is new, or is other than dsprep's in what is kept

    @property
    def name(self) -> str:
        return self.receipt.name

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {"name": self.name, "kind": self.kind, "state": self.state, "detail": self.detail}
        )


class CheckReport(Frozen, kw_only=True):
    """The results of checking data sets: counts and problems."""

    destination: str
    format: str = ""  # name of the format
    shards: int = 0
    samples: int = 0
    bytes: int = 0  # size of the shards
    problems: Sequence[Problem] = ()  # what is wrong; empty if all is well
    notes: Sequence[str] = ()  # further remarks
    seconds: float = 0.0  # how long it took


class VerifyReport(CheckReport, kw_only=True):
    """The report of `verify`: counts of samples, fields and problems."""

    manifest: bool = True  # whether there was a manifest to compare with
    checked: Sequence[str] = ("manifest",)  # what was checked, in words
    # on S3, the number of correct files by what proves them: the `checksum` that S3 keeps, the one
    # that dsprep stored in the `metadata`, `download`, which reads all bytes; or only their `size`,
    # which is no proof
    proof: Mapping[str, int] = field(default_factory=dict)
    fields: Sequence[FieldFound] = ()  # the fields of the samples; empty if they are unknown
    objects: ObjectCounts | None = None  # the objects of images; None if there is no such field

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "destination": self.destination,
                "format": self.format,
                "manifest": self.manifest,
                "shards": self.shards,
                "samples": self.samples,
                "bytes": self.bytes,
                "checked": self.checked,
                "problems": self.problems,
                "seconds": self.seconds,
                "proof": self.proof,
                "notes": self.notes,
                "fields": self.fields,
                "objects": self.objects,
            }
        )


class IndexReport(CheckReport, kw_only=True):
    """What indexing did or, for a dry run, would do."""

    state: str  # `indexed`, `planned` or `checked`
    files: Sequence[IndexFile] = ()  # the indexes, and the manifest

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "destination": self.destination,
                "format": self.format,
                "state": self.state,
                "shards": self.shards,
                "samples": self.samples,
                "bytes": self.bytes,
                "files": self.files,
                "problems": self.problems,
                "notes": self.notes,
                "seconds": self.seconds,
            }
        )


R = TypeVar("R", bound=CheckReport)

_JOIN: dict[str, Callable[[list[Any]], Any]] = {
    "format": lambda formats: " and ".join(dict.fromkeys(formats)),
    "manifest": all,
    **dict.fromkeys(("shards", "samples", "bytes"), sum),
    **dict.fromkeys(("problems", "notes", "files"), lambda lists: list(chain(*lists))),
    "checked": lambda lists: list(dict.fromkeys(chain(*lists))),
    "proof": lambda counts: sum(map(Counter, counts), Counter()),
    "fields": lambda lists: lists[0] if len(lists) == 1 else (),
    "objects": lambda counts: counts[0] if len(counts) == 1 else None,
}
"""Functions that join the values of several reports, by the name of the attribute."""


def joined(dest: str, reports: Sequence[R], problems: Sequence[Problem], began: float) -> R:
    """Join the reports of several data sets, with problems that are of none of them."""
    own = [name for name in _JOIN if hasattr(reports[0], name)]
    values = {name: _JOIN[name]([getattr(report, name) for report in reports]) for name in own}
    values["problems"] += problems
    return replace(reports[0], **values, destination=dest, seconds=time.monotonic() - began)
