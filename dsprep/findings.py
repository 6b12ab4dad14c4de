"""What indexing a source noticed about files that are not, or not quite, samples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dsprep.units import format_count

REJECT_KINDS = frozenset({"missing", "unknown", "unreadable", "damaged", "cut-off", "bad-name"})
"""The source means a sample that cannot be had: it is lost, and the exit code says so."""

SKIP_KINDS = frozenset({"hidden", "not-an-image", "unlisted", "loop", "keyless"})
"""Something that lies in the source and never was a sample: reported, and no more."""


class Reject(NamedTuple):
    """A sample of the source that is not packed: its path and the reason."""

    path: str
    reason: str


class Finding(NamedTuple):
    """One thing that indexing noticed.

    ================  =====================================================================
    kind              what it means
    ================  =====================================================================
    ``missing``       the list names it, or a link points to it, and it is not on the disk
    ``unknown``       the list names it, and no sample of the source is called so
    ``unreadable``    it lies in an archive in a way that dsprep does not read, or damaged
    ``damaged``       the archive itself: what came after is not known
    ``cut-off``       a manifest says that the shard holds it, and it does not
    ``bad-name``      its name is not UTF-8, or leads out of the archive
    ``hidden``        hidden, or left behind by a notebook, an archiver or a desktop
    ``not-an-image``  its extension is not an image's, or it is not a regular file
    ``unlisted``      on the disk, but not in the list
    ``loop``          a link to a directory that it lies in
    ``keyless``       a shard with members that belong to no sample, as their names tell no key
    ``duplicate``     listed more than once, or more than once in an archive
    ``incomplete``    a sample that lacks a part which most samples have; it is packed without
    ================  =====================================================================

    Attributes:
        kind: One of the above.
        path: Path below the root, printable; the path of a directory ends in ``/``.
        detail: What else there is to say, or the empty string.
    """

    kind: str
    path: str
    detail: str = ""


def frames_note(count: int) -> str:
    """Say how many images lost frames because they were encoded again."""
    return f"{format_count(count, 'image')} of several frames kept only the first"


def lost(findings: Iterable[Finding]) -> list[Reject]:
    """The samples that a source names and nobody can read."""
    reasons = {
        "missing": "is not on the disk",
        "unknown": "is not in the source",
        "unreadable": "cannot be read",
        "damaged": "is damaged",
        "cut-off": "is not in the shard",
        "bad-name": "cannot be packed",
    }
    return [
        Reject(finding.path, f"{reasons[finding.kind]} ({finding.detail})")
        for finding in findings
        if finding.kind in REJECT_KINDS
    ]
