"""What writing a shard reported: its receipt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dsprep.dataset.manifest import FileEntry
from dsprep.errors import SourceError
from dsprep.findings import MisfitReject, Reject

# The id, the label and the name of a sample, as an index beside a shard has them.
Listed: TypeAlias = tuple[int, int | tuple[float, ...] | None, str]


@dataclass
class Receipt:
    """What a shard, or a piece of one, holds: its receipt."""

    samples: int = 0
    files: Sequence[FileEntry] = ()  # the files beside it, and last its own
    rejects: list[Reject] = field(default_factory=list)  # its samples that were not packed
    effects: Counter[str] = field(default_factory=Counter)  # those of its samples
    # the names of classes, by their numbers as text, that samples themselves tell
    class_names: dict[str, str] = field(default_factory=dict)
    unlabeled: int = 0  # how many samples lack the label that others have
    objects: int = 0  # how many its samples have, if these are typed
    with_objects: int = 0  # how many samples have any
    rejected: list[int] = field(default_factory=list)  # the positions of the rejects in its rows
    # of a piece, for the index of its shard: the bytes of each sample, and the samples if what is
    # listed of them was not known before
    sizes: list[int] = field(default_factory=list)
    listed: list[Listed] = field(default_factory=list)
    raw: int = 0  # bytes of the shard before it was compressed; 0 if it was not
    etags: str = ""  # of a unit of a folder: a digest of the ETags of its files, if there are such

    @classmethod
    def merged(cls, parts: Sequence[Receipt], source: str) -> Receipt:
        """Add up what parts hold, without their files; ``source`` is for messages."""
        whole = cls()
        for part in parts:
            start = whole.samples + len(whole.rejected)
            whole.rejected += [start + position for position in part.rejected]
            whole.samples += part.samples
            whole.rejects += part.rejects
            whole.sizes += part.sizes
            whole.listed += part.listed
            whole.effects.update(part.effects)
            whole.unlabeled += part.unlabeled
            whole.objects += part.objects
            whole.with_objects += part.with_objects
            for number, name in part.class_names.items():
                if (known := whole.class_names.setdefault(number, name)) != name:
                    raise two_names(source, number, known, name)
        return whole

    def to_json(self) -> dict[str, Any]:
        rejects = [(each.path, each.reason, type(each) is MisfitReject) for each in self.rejects]
        values = {name: getattr(self, name) for name in _PLAIN}
        values |= {"etags": self.etags} if self.etags else {}
        values |= {"raw": self.raw} if self.raw else {}
        return values | {"files": [file.to_json() for file in self.files], "rejects": rejects}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Receipt:
        """Read a receipt; anything that is none raises a LookupError, TypeError or ValueError."""
        written = cls(**{name: kind(values[name]) for name, kind in _PLAIN.items()})
        written.etags = str(values.get("etags", ""))
        written.raw = int(values.get("raw", 0))
        written.files = list(map(FileEntry.from_json, values["files"]))
        written.rejects = [
            (MisfitReject if misfit else Reject)(path, reason)
            for path, reason, misfit in values["rejects"]
        ]
        written.listed = [
            (id, tuple(label) if isinstance(label, list) else label, name)
            for id, label, name in written.listed
        ]
        return written


# What a receipt has as it is. These names are also on the disk.
_PLAIN: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("samples", "unlabeled", "objects", "with_objects"), int),
    "class_names": dict,
    "effects": Counter,
    **dict.fromkeys(("rejected", "sizes", "listed"), list),
}


def two_names(where: str, number: object, one: str, other: str) -> SourceError:
    """Return the error for a class that has two names."""
    return SourceError(
        f"{where}: the class {number} is called {one!r} and {other!r}: correct the samples"
    )
