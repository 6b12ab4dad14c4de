"""What lies in an archive: its listing, as zip's and tar's are read into it."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dsprep.findings import Finding
from dsprep.rows import Rows


class Link(NamedTuple):
    """A link in an archive."""

    name: str  # its own name
    # what it names: for a hard link, a member; for a symbolic one, a path that starts from the
    # directory of the link
    target: str
    symbolic: bool  # which of the two it is
    place: int  # how many files come before it


@dataclass
class Listing:
    """The members of an archive, in its order, directories excepted."""

    # the names of files that can be read, as the archive has them
    names: list[str] = field(default_factory=list)
    sizes: array[int] = field(default_factory=lambda: array("q"))  # the bytes of each
    # where in the archive each begins, as its reader wants it
    offsets: array[int] = field(default_factory=lambda: array("q"))
    stored: array[int] = field(default_factory=lambda: array("q"))  # how many bytes it takes there
    links: list[Link] = field(default_factory=list)  # the links
    # names of files that cannot be read, and why
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    special: list[str] = field(default_factory=list)  # names of what is no file: devices, pipes
    nameless: list[str] = field(default_factory=list)  # names that are not UTF-8, printable
    # the names of tars in the tar, without `.tar`: those that were looked into
    stems: set[str] = field(default_factory=set)
    damage: list[Finding] = field(default_factory=list)  # what is wrong with the archive as a whole

    def add(self, name: str, size: int, offset: int, stored: int) -> None:
        """Add a file that can be read."""
        self.names.append(name)
        self.sizes.append(size)
        self.offsets.append(offset)
        self.stored.append(stored)

    def remove_last(self, reason: str) -> None:
        """Note that the file that was added last cannot be read."""
        for column in (self.sizes, self.offsets, self.stored):
            column.pop()
        self.unreadable.append((self.names.pop(), reason))

    def remove(self, positions: Collection[int]) -> None:
        """Take files out."""
        gone = set(positions)
        kept = [each for each in range(len(self.names)) if each not in gone]
        self.names = [self.names[each] for each in kept]
        self.sizes = array("q", [self.sizes[each] for each in kept])
        self.offsets = array("q", [self.offsets[each] for each in kept])
        self.stored = array("q", [self.stored[each] for each in kept])

    def refuse(self, positions: Collection[int], reason: str) -> None:
        """Note that files cannot be read."""
        self.unreadable += [(self.names[each], reason) for each in sorted(positions)]
        self.remove(positions)

    def rows(self, positions: Sequence[int]) -> Rows:
        """Some of the files, for the archive's reader."""
        return Rows(
            ids=list(positions),
            paths=[self.names[each] for each in positions],
            sizes=[self.sizes[each] for each in positions],
            labels=None,
            files=[0] * len(positions),
            offsets=[self.offsets[each] for each in positions],
            stored=[self.stored[each] for each in positions],
        )
