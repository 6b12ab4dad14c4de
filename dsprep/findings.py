"""What indexing a source noticed about files that are not, or not quite, samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from dsprep.errors import BadSample, Misfit, RunStopped
from dsprep.tuples import NamedTuple
from dsprep.units import extension_in, format_count, format_some

_REJECTED = {
    "missing": "is not on the disk",  # though a list names it, or a link points to it
    "concealed": "is a hidden file, which dsprep leaves out",  # though annotations name it
    "unknown": "is not in the source",  # though a list names it
    "unreadable": "cannot be read",  # its archive stores it in an unsupported way, or it is damaged
    "damaged": "is damaged",  # the archive itself: what came after is not known
    "cut-off": "is not in the shard",  # though a manifest says so
    "bad-name": "cannot be packed",  # its name is not UTF-8, or leads out of the archive
}
REJECT_KINDS = frozenset(_REJECTED)
"""The source names a sample that cannot be read: it is lost, and the exit code says so."""

SKIP_KINDS = frozenset(
    {
        "hidden",  # also left behind by a notebook, an archiver or a desktop
        "not-an-image",  # its extension is not an image's, or it is not a regular file
        # what becomes of a file that is no image, once the samples are known: nobody misses it; the
        # kind of source knows it and does not read it; the user leaves it out; none of these
        "harmless",
        "not-read",
        "left-out",
        "left-over",
        "no-part",  # a file that is no part of any sample that is made of several files
        "unlisted",  # on the disk, but not in the list
        "repeated",  # a list names a file again, and only its first row is used
        "loop",  # a link to a directory that it lies in
        "keyless",  # a shard with members that belong to no sample, as their names tell no key
    }
)
"""Something that lies in the source and never was a sample: reported, and no more."""


class Reject(NamedTuple):
    """A sample of the source that is not packed: its path and the reason."""

    path: str
    reason: str

    def to_json(self) -> dict[str, str]:
        """Return a line of ``rejects.jsonl``."""
        return {"path": self.path, "reason": self.reason}


class MisfitReject(Reject):
    """A sample that does not fit the schema: too many of these stop a run."""


def reject_of(path: str, error: BadSample) -> Reject:
    """Return the reject that an error makes of a sample."""
    return (MisfitReject if isinstance(error, Misfit) else Reject)(path, str(error))


def most_misfits(samples: int | None = None) -> int:
    """Return how many samples may not fit the schema before a run stops: 1 %, at most 1,000."""
    return 1000 if samples is None else min(1000, max(1, samples // 100))


def misfits_error(count: int, last: Reject) -> RunStopped:
    """Return the error for too many samples that do not fit the schema."""
    return RunStopped(
        f"stopped: {format_count(count, 'sample')} do not fit the schema, the last one being "
        f"{last.path}: {last.reason}; to reject more of them, give --max-errors N"
    )


# The effect of each image that became bare pixels begins so, and ends with their shape.
STORED_AS_PIXELS = "image stored as pixels, "


class Finding(NamedTuple):
    """One thing that indexing noticed."""

    # one of those above; `duplicate`, listed or archived more than once; `incomplete`, a sample
    # without a part that most samples have; without a path, about the whole source: `note`, or
    # `source`, what it was taken for, and why
    kind: str
    path: str  # path below the root, printable; the path of a directory ends in `/`
    detail: str = ""  # what else there is to say, or the empty string

    def to_json(self) -> dict[str, str]:
        """Return a line of ``skipped.jsonl``."""
        return {"kind": self.kind, "path": self.path, "detail": self.detail}


def effect_notes(effects: Mapping[str, int]) -> list[str]:
    """Say what happened to how many: the first word of an effect is what is counted."""
    shapes = {each: count for each, count in effects.items() if each.startswith(STORED_AS_PIXELS)}
    counts = {**effects}
    if len(shapes) > 1:
        counts = {each: count for each, count in effects.items() if each not in shapes}
        often = sorted(shapes, key=lambda each: (-shapes[each], each))
        shown = format_some([each.removeprefix(STORED_AS_PIXELS) for each in often])
        what = f"{STORED_AS_PIXELS}{len(shapes):,} shapes, most often {shown}: for one shape, give "
        counts[f"{what}--resize WxH --enlarge and --color rgb or gray"] = sum(shapes.values())
    parted = ((each.partition(" "), count) for each, count in sorted(counts.items()) if count)
    return [f"{format_count(count, noun)} {rest}" for (noun, _, rest), count in parted]


def lost(findings: Iterable[Finding]) -> list[Reject]:
    """Return a reject for each sample that a source names but dsprep cannot read."""
    return [
        Reject(finding.path, f"{_REJECTED[finding.kind]} ({finding.detail})")
        for finding in findings
        if finding.kind in _REJECTED
    ]


def notes_of(findings: Iterable[Finding]) -> list[str]:
    """Return what indexing has to say of the source as a whole."""
    return [finding.detail for finding in findings if finding.kind == "note"]


def count_skipped(findings: Iterable[Finding]) -> dict[str, dict[str, int]]:
    """Count what lies in a source and is no sample."""
    counts: dict[str, Counter[str]] = {}
    for finding in findings:
        if finding.kind in SKIP_KINDS:
            is_directory = finding.path.endswith("/")
            what = "directories" if is_directory else extension_in(finding.path)
            counts.setdefault(finding.kind, Counter())[what] += 1
    return {
        kind: dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))
        for kind, counter in sorted(counts.items())
    }
