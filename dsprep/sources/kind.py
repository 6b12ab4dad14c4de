"""What a kind of source is: the claim that it makes on a place, and how it scans the place.

To add a kind, write a class that derives from `SourceKind` and name it in `dsprep.sources.kinds`,
or in the entry points ``dsprep.sources`` of another package. A module with a kind loads polars only
in `scan`, because ``--help`` shows the names of all kinds.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.dataset.find import Place, scratch_beside, unfinished
from dsprep.dataset.names import manifest_beside
from dsprep.declared import Options
from dsprep.errors import SourceError
from dsprep.frozen import Frozen
from dsprep.places.archive import first_names
from dsprep.places.names import expand
from dsprep.storage.files import DirectoryEntry, canonical, entries, is_dir, is_file, open_file

if TYPE_CHECKING:
    from dsprep.catalog import SourceScan
    from dsprep.places.files import Files
    from dsprep.places.scan import RunAll
    from dsprep.sources.source import Source

VERSION = 1
"""The version of this protocol; a kind of another version is left out."""

PEEKED = 64  # names that show what a directory holds
HEAD = 1 << 16  # bytes that show what a file is


class Sure(IntEnum):
    """How sure a kind is that a place is its own. The surest claim wins, and two equal ones never.

    Attributes:
        ANYTHING: The kind takes what no other kind claims: a tree of images.
        SHAPED: Names look like its own, and others may have such names: shards, by their names.
        MARKED: The place has a mark of the kind: the extension of the file itself, or content.
        RECORDED: A file there says what the samples are: a manifest, metadata, a report.
        NAMED: The user said so: ``--from``, or an option that only this kind has.
    """

    ANYTHING = 0
    SHAPED = 1
    MARKED = 2
    RECORDED = 3
    NAMED = 4


class Claim(Frozen):
    """What a kind says of a place that is its own.

    Attributes:
        sure: How sure it is.
        why: What it saw, as a noun: ``metadata.jsonl``, ``files of Parquet``.
    """

    sure: Sure
    why: str


class SourcePlace:
    """What SOURCE names: a directory, a prefix on S3, an archive or another file.

    It is listed once, as far as kinds ask for names. So `peek` takes one request for a prefix of
    any size, and what a kind has listed costs the next one nothing.
    """

    def __init__(self, path: str, others: Sequence[str] = ()) -> None:
        self.path, self.others = path, others
        self._listed: list[DirectoryEntry] = []
        self._listing: Iterator[DirectoryEntry] | None = None

    @cached_property
    def is_dir(self) -> bool:
        """Whether it is a directory, or a prefix."""
        return is_dir(self.path)

    @cached_property
    def is_file(self) -> bool:
        """Whether it is a file."""
        return is_file(self.path)

    @cached_property
    def files(self) -> Sequence[str]:
        """All files that the user names, here and in other places; patterns are expanded."""
        return [file for name in (self.path, *self.others) for file in expand(name)]

    @cached_property
    def inside(self) -> Sequence[str]:
        """The names of the first files in an archive; empty for other places."""
        return () if self.is_dir else first_names(self.path, PEEKED)

    @property
    def peek(self) -> Sequence[DirectoryEntry]:
        """The first entries of the directory, in no order; empty for a file."""
        return self._list(PEEKED)

    @property
    def entries(self) -> Sequence[DirectoryEntry]:
        """All entries of the directory, in no order; empty for a file."""
        return self._list(None)

    def join(self, name: str) -> str:
        """Return the path of a name in the directory."""
        return os.path.join(self.path, name)

    def head(self, name: str = "", size: int = HEAD) -> bytes:
        """Read the first bytes of a file in the directory, or of the file that the place is."""
        with open_file(self.join(name) if name else self.path) as file:
            return file.pread(size, 0)

    def require_finished(self, own_state: str, files: Sequence[str]) -> None:
        """Refuse directories in which an unfinished run, or transfer, has left its state.

        Args:
            own_state: The state of the run that reads them, which may lie there, too.
            files: What is read; the first is named as an example.
        """
        # The manifest comes last: if there is one, all files that it names are there.
        for root in (self.path, *self.others):
            if not is_dir(root) or is_file(os.path.join(root, "manifest.json")):
                continue
            inside = Place(root)
            places = [inside.join(name) for name in unfinished(inside.names.directories)]
            beside = "" if is_file(manifest_beside(root)) else scratch_beside(root)
            if beside and is_dir(beside):
                places.append(beside)
            for place in places:
                notes = [note.name for note in entries(place)]
                is_left = any(note == "run.json" or note.endswith(".partial") for note in notes)
                if not is_left or canonical(own_state) == canonical(place):
                    continue
                some = os.path.join(root, "*" + os.path.splitext(files[0])[1])
                where = f"{os.path.basename(place)} {'beside it' if place == beside else 'there'}"
                raise SourceError(
                    f"{root}: is incomplete: an unfinished run has left {where}; run its command "
                    "again to finish it, or name the shards by a pattern to take those that are "
                    f"there: '{some}'"
                )

    def _list(self, most: int | None) -> Sequence[DirectoryEntry]:
        if self._listing is None:
            self._listing = entries(self.path) if self.is_dir else iter(())
        missing = None if most is None else max(most - len(self._listed), 0)
        self._listed += islice(self._listing, missing)
        return self._listed if most is None else self._listed[:most]


class SourceKind(ABC):
    """A kind of source. An object of it is made for one source: what its claim saw, it may keep.

    Attributes:
        version: The version of the protocol that the kind was written for.
        names: What ``--from`` calls it; none if users never have to name it.
        help: What it is, as a phrase for ``--from``; empty if the help of the command need not say
            it, because few have such files.
        noun: What a source of this kind is, for reports and messages: "SOURCE is not Parquet".
        options: The options that only this kind has. They are declared in a module that
            imports nothing slow. `Source.options_of` has their values.
        surest: The surest claim that it makes on a source that is not named. Kinds that are less
            sure are not asked if a surer one has claimed the place.
        same_by_name: Whether ``--from`` gives what is read without it.
        adds: Whether it adds something to images in any place, as annotations do. Such a kind is
            asked first, whatever ``--from`` says.
    """

    version: ClassVar[int] = VERSION
    names: ClassVar[tuple[str, ...]] = ()
    help: ClassVar[str] = ""
    noun: ClassVar[str] = ""
    options: ClassVar[type[Options]] = Options
    same_by_name: ClassVar[bool] = True  # whether --from gives what is read without it
    surest: ClassVar[Sure] = Sure.MARKED
    adds: ClassVar[bool] = False

    @property
    def named(self) -> str:
        """What users give to name the kind, for messages."""
        return f"--from {self.names[0]}"

    def is_implied(self, source: Source) -> bool:
        """Return whether an option, or the name of the file, names this kind as ``--from`` does."""
        return False

    def takes_as_given(self, source: Source) -> bool:
        """Return whether the samples lie right where the user says.

        If not, `claim` and `scan` get the source that a repository of Hugging Face, or a data set
        of TFDS, has in a directory below.
        """
        return False

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        """Return what plans of such sources hold, by the names that plan files have for it.

        These are the class of the reader, and those of what it holds: dataclasses and named tuples
        whose fields have types. A run in parts needs them. No two classes may have one name.
        """
        return {}

    @abstractmethod
    def claim(self, place: SourcePlace, source: Source) -> Claim | None:
        """Return the claim on a place; None if it is something else.

        This has to be cheap: names that `place` lists, and heads of files. It reads nothing whole
        and loads no polars. If ``source.kind`` is set, the user named this kind: claim what it can
        read by `named_claim`. ``source.chooses`` says that a list or a table names the samples, and
        ``source.others`` has further places: make no claim if the kind cannot take them.
        """

    @abstractmethod
    def scan(self, source: Source, place: SourcePlace, run_all: RunAll) -> SourceScan | None:
        """Make the catalog of a place that the kind has claimed, and findings about the files.

        Args:
            source: What the user named, with the options.
            place: Where it lies, with what is listed of it already.
            run_all: A ``map`` over worker processes.

        Returns:
            The catalog and the findings; None if a closer look shows that the place is something
            else. Then the next claim counts.
        """

    def added_to(self, source: Source, files: Files, run_all: RunAll) -> SourceScan | None:
        """Make the catalog of images in a tree with what this kind adds to them, if it is there.

        A kind that `adds` is asked when the tree of images is read, because nothing else claims
        the place: ``files`` has the images, and all other files there.
        """
        return None

    def named_claim(self, source: Source) -> Claim | None:
        """Return the claim of a kind that the user named; None if nothing names it."""
        return Claim(Sure.NAMED, self.named) if source.kind in self.names else None
