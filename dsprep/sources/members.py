"""What lies in an archive: its listing, as zip's and tar's are read into it."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dsprep.findings import Finding
from dsprep.rows import Rows


class Link(NamedTuple):
    """A link in an archive.

    Attributes:
        name: Its own name.
        target: What it names: for a hard link, a member; for a symbolic one, a path that starts
            from the directory of the link.
        symbolic: Which of the two it is.
        place: How many files come before it.
    """

    name: str
    target: str
    symbolic: bool
    place: int


@dataclass
class Listing:
    """The members of an archive, in its order, directories excepted.

    Attributes:
        names: The names of files that can be read, as the archive has them.
        sizes: The bytes of each.
        offsets: Where in the archive each begins, as its reader wants it.
        stored: How many bytes it takes there.
        links: The links.
        unreadable: Names of files that cannot be read, and why.
        special: Names of what is no file: devices, pipes.
        nameless: Names that are not UTF-8, printable.
        stems: The names of tars in the tar, without ``.tar``: those that were looked into.
        damage: What is wrong with the archive as a whole.
    """

    names: list[str] = field(default_factory=list)
    sizes: array[int] = field(default_factory=lambda: array("q"))
    offsets: array[int] = field(default_factory=lambda: array("q"))
    stored: array[int] = field(default_factory=lambda: array("q"))
    links: list[Link] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    special: list[str] = field(default_factory=list)
    nameless: list[str] = field(default_factory=list)
    stems: set[str] = field(default_factory=set)
    damage: list[Finding] = field(default_factory=list)

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
