"""What a kind of annotations is: the files that it knows, and how it reads them.

To add a kind, write a class that derives from `AnnotationKind` and name it in
`dsprep.sources.annotation_kinds`, or in the entry points ``dsprep.annotations`` of another package.
A module with a kind loads what reads the files only in `scan`, because ``--help`` shows all kinds.
"""

from __future__ import annotations

import codecs
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.declared import Options
from dsprep.errors import SourceError
from dsprep.patterns import pattern
from dsprep.places.names import is_left_out
from dsprep.sources.heads import (
    HEADS_OF_GROUP,
    Groups,
    groups_of,
    is_harmless,
    may_be_of_image,
    read_heads,
)
from dsprep.sources.kind import Claim, Sure
from dsprep.storage.files import DirectoryEntry, entries, first_entries, is_dir, open_file

if TYPE_CHECKING:
    import polars as pl

    from dsprep.places.files import Files
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

VERSION = 1
"""The version of this protocol; a kind of another version is left out."""

_STEM = r"([^/]+?)(?:\.[^./]*)?$"  # of the name of a file
LOOKED_AT = 1000  # names in a directory
_EXTENSIONS = 3  # of files in a directory that the user names, whose heads are read
_HEAD = 4096  # bytes of a file that the user names, which show what it is
_TRIED = 20  # files of a directory that the user names, some of which may be empty
_DIRECTORIES = 1000  # directories whose files are looked into
_LOOKED_INTO = 256  # files that no image has the name of


# Names that only COCO's files have, so that nobody else has to look into them.
_OF_COCO = r"(?:.*/)?(?:_annotations\.coco|(?:instances|person_keypoints)(?:_[^/]*)?)\.json$"


def names_with(*extensions: str) -> re.Pattern[str]:
    """Return the names of files with some extensions that are worth a look."""
    return pattern(rf"(?i)^(?!{_OF_COCO}).*\.(?:{'|'.join(extensions)})$")


class NamedPath:
    """A path that a user gives to ``--annotations``.

    Attributes:
        path: The path, as the user wrote it.
        member: What the file is called in the archive of the images; empty if it lies elsewhere.
        head_of: What reads the beginning of a member.
    """

    def __init__(
        self, path: str, member: str = "", head_of: Callable[[str], bytes] = lambda _: b""
    ) -> None:
        self.path, self.member, self.head_of = path, member, head_of

    @property
    def extension(self) -> str:
        """The extension, in lower case: ``.json``."""
        return os.path.splitext(self.path)[1].lower()

    @cached_property
    def is_dir(self) -> bool:
        """Whether it is a directory, or a prefix."""
        return not self.member and is_dir(self.path)

    @cached_property
    def _paths(self) -> Sequence[str]:
        return sorted(_paths_below(self.path)) if self.is_dir else ()

    @cached_property
    def names(self) -> Sequence[str]:
        """The names of files in the directory or, if there are none, in those below."""
        return [os.path.basename(path) for path in self._paths]

    @cached_property
    def heads(self) -> Mapping[str, bytes]:
        """How the file begins or, of a directory, a few that are not empty.

        These are the last file of each extension, and the first ones.
        """
        if not self.is_dir:
            return {self.path: self.head.encode()}
        found: dict[str, bytes] = {}
        last = {os.path.splitext(path)[1]: path for path in self._paths}
        for path in dict.fromkeys([*[*last.values()][:_EXTENSIONS], *self._paths[:_TRIED]]):
            with open_file(path) as file:
                if head := file.pread(_HEAD, 0):
                    found[path] = head
            if len(found) == HEADS_OF_GROUP + _EXTENSIONS:
                break
        return found

    @cached_property
    def head(self) -> str:
        """How the text of the file begins, without spaces; empty for a large member."""
        if self.is_dir:
            return ""
        data = self.head_of(self.member) if self.member else b""
        if not self.member:
            with open_file(self.path) as file:
                data = file.pread(_HEAD, 0)
        if not data and self.member:
            return ""
        if not data.strip():
            raise SourceError(f"{self.path}: is empty")
        boms = codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE
        return data.decode("utf-16" if data[:2] in boms else "utf-8-sig", "replace").lstrip()


class AnnotatedPlace:
    """The images of a source, the files beside them, and what the user names of these.

    It is listed once, so looking at names costs nothing.

    Attributes:
        root: What SOURCE names: the directory of the images, or their archive.
        files: The images and the other files there. Of an archive, `Files.texts` has the contents
            of the files that `AnnotationKind.texts` matches.
        named: The paths that the user gives to ``--annotations``; none if annotations are
            recognized.
        leave_out: Patterns of files that the user does not want (``--leave-out``).
    """

    def __init__(
        self,
        root: str,
        files: Files,
        named: Sequence[NamedPath] = (),
        leave_out: Sequence[str] = (),
    ) -> None:
        self.root, self.files, self.named, self.leave_out = root, files, named, leave_out

    @cached_property
    def images(self) -> pl.Series:
        """The images that are not left out, by their paths below the root."""
        paths = self.files.table["path"]
        if not self.leave_out or paths.is_empty():  # polars takes no empty list for a mask
            return paths
        return paths.filter([not is_left_out(path, self.leave_out) for path in paths])

    @cached_property
    def others(self) -> Sequence[str]:
        """The files that are not images or left out, by their paths below the root, sorted."""
        found = self._all_others
        if self.leave_out:
            return [path for path in found if not is_left_out(path, self.leave_out)]
        return found

    @property
    def _all_others(self) -> Sequence[str]:
        found = [each for each in self.files.findings if each.kind == "not-an-image"]
        if self.files.others is None:
            return sorted({each.path for each in found})
        named = {each.path for each in found if each.detail}  # files that cannot be read
        hidden = {found.path for found in self.files.findings if found.kind == "hidden"}
        tops = tuple(path for path in hidden if path.endswith("/"))
        own = (path for path in self.files.others["path"].to_list() if not path.startswith(tops))
        return sorted(named.union(own).difference(hidden))

    @cached_property
    def _by_extension(self) -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = {}
        for path in self.others:
            found.setdefault(path.rpartition(".")[2], []).append(path)
        return found

    def with_extension(self, *extensions: str) -> Iterator[str]:
        """Yield the files with one of these extensions, which are spelled so."""
        for extension in extensions:
            yield from self._by_extension.get(extension, ())

    def first(self, pattern: re.Pattern[str], *extensions: str) -> str:
        """Return the first file with one of these extensions that matches; empty if none does."""
        return min(filter(pattern.search, self.with_extension(*extensions)), default="")

    def called(self, names: Collection[str]) -> Sequence[str]:
        """Return the files that have one of these names, which are in lower case."""
        extensions = {name.rpartition(".")[2] for name in names}
        found = self.with_extension(*extensions, *map(str.upper, extensions))
        return sorted(path for path in found if path.rpartition("/")[2].lower() in names)

    def named_as_images(self, paths: Iterable[str]) -> list[str]:
        """Return those of some files that have the name of an image, in any directory."""
        import polars as pl  # not where kinds are listed

        names = pl.Series(list(paths), dtype=pl.String)
        if names.is_empty():
            return []
        stems, images = (each.str.extract(_STEM) for each in (names, self.files.table["path"]))
        return names.filter(stems.is_in(images.implode())).sort().to_list()

    @cached_property
    def _groups(self) -> Groups:
        groups = groups_of(self.others)
        # Files that nobody would miss, such as a README, do not use up the heads that are read.
        return {
            group: own if len(own) > LOOKED_AT else kept
            for group, own in groups.items()
            if (kept := [path for path in own if path not in self._harmless])
        }

    @cached_property
    def _harmless(self) -> Collection[str]:
        """The files of harmless names, but for those that have the stem of an image."""
        found = set(filter(is_harmless, self.others))
        return found.difference(self.named_as_images(filter(may_be_of_image, found)))

    def heads(self, names: re.Pattern[str]) -> Mapping[str, bytes]:
        """Read how some of the files with such names begin: a few of each directory.

        They are sorted. Files that nobody would miss, such as a README, are none of them.
        """
        ends = ((own[0], own[-1]) for own in self._groups.values())
        if not any(map(names.search, chain.from_iterable(ends))):
            return {}
        read = read_heads(self.root, self.files, self._groups, names)
        found = sorted(path for path in read if names.search(path) and path not in self._harmless)
        return {path: read[path] for path in found}

    def head(self, path: str) -> bytes:
        """Read the beginning of a file below the root; of a large one in an archive, nothing."""
        return read_heads(self.root, self.files, {("", ""): [path]}).get(path, b"")

    def files_like(
        self, names: re.Pattern[str], is_own: Callable[[str, bytes], bool]
    ) -> frozenset[str]:
        """Return the files of a kind: those with such names in directories that have its files.

        Files that no image has the name of are looked into one by one.

        Args:
            names: What the files are called.
            is_own: Returns whether a file begins as those of the kind do.
        """
        found = [path for path in self.others if names.search(path)]
        found = [path for path in found if path not in self._harmless]
        groups: dict[str, list[str]] = {}
        for path in found:
            groups.setdefault(path.rpartition("/")[0], []).append(path)
        some = {
            own[at]
            for own in islice(groups.values(), _DIRECTORIES)
            for at in (0, len(own) // 2, -1)
        }
        heads = {path: head for path, head in self.heads_of(sorted(some)).items() if head.strip()}
        heads |= self.heads(names)
        own = {path.rpartition("/")[0] for path, head in heads.items() if is_own(path, head)}
        told = {path.rpartition("/")[0] for path, head in heads.items() if head.strip()}
        # Directories whose files are empty are those of images without objects.
        called = {path.rpartition("/")[2] for path in own}
        own |= {path for path in groups if path not in told and path.rpartition("/")[2] in called}
        found = [path for path in found if path.rpartition("/")[0] in own]
        alone = sorted(set(found).difference(self.named_as_images(found)))[:_LOOKED_INTO]
        looked = self.heads_of(alone)
        others = {path for path, head in looked.items() if head.strip() and not is_own(path, head)}
        return frozenset(found).difference(others)

    def heads_of(self, paths: Sequence[str]) -> Mapping[str, bytes]:
        """Read how each of these files begins: those that a kind has claimed, and some more."""
        limit = len(paths) + len(self.files.heads or ())
        each = {(path, ""): [path] for path in paths}
        return read_heads(self.root, self.files, each, limit=limit)


class DirectoryAbove:
    """A directory above images, which may have their annotations.

    Attributes:
        path: The directory.
        name: The directory in it that leads to the images, in lower case.
    """

    def __init__(self, path: str, name: str) -> None:
        self.path, self.name = path, name.lower()
        self._inside: dict[str, Sequence[DirectoryEntry]] = {}

    @cached_property
    def entries(self) -> Mapping[str, DirectoryEntry]:
        """The first entries of the directory, by name and in this order."""
        return {entry.name: entry for entry in first_entries(self.path, LOOKED_AT)}

    def directory(self, name: str) -> str:
        """Return the path of a directory that has a name in any case; empty if none has."""
        own = (entry for entry in self.entries.values() if entry.name.lower() == name)
        return next((entry.path for entry in own if entry.is_dir()), "")

    def inside(self, name: str) -> Sequence[DirectoryEntry]:
        """Return the first entries of such a directory, which is listed once."""
        if name not in self._inside:
            path = self.directory(name)
            self._inside[name] = first_entries(path, LOOKED_AT) if path else ()
        return self._inside[name]


class AnnotationKind(ABC):
    """A kind of annotations, as one tool writes them.

    Attributes:
        version: The version of the protocol that the kind was written for.
        names: What ``--annotation-format`` calls it.
        words: What messages call it: ``annotations of COCO``.
        help: What ``--annotations`` takes, as a noun; empty if the help of the command need not say
            it, because few have such files.
        contents: What is read, as a phrase for the table in docs/formats.md.
        not_read: What such files may hold as well, which a note names; empty if nothing.
        example: A command that reads them.
        extensions: Extensions that tell it, whatever is in the file.
        files: What its files are called below SOURCE.
        file_names: Names that only its tool gives to files, in lower case. A file of such a name
            that does not begin as its files do is refused, and not left over.
        texts: The files that it reads, if the images lie in an archive; None if it reads none there
            by itself.
        directories: What it calls directories of images, in lower case. Above a directory of such a
            name, annotations are looked for.
        reads: The options about annotations that have an effect with it, besides its own.
        takes_several: Whether ``--annotations`` may name several of its files.
        takes_members: Whether ``--annotations`` may name a file in the archive of the images.
        gives_masks: Whether it is told by masks, so that it is none if the user names others.
        options: The options that only this kind has, as `SourceKind.options` are.
        surest: The surest claim that it makes.
    """

    version: ClassVar[int] = VERSION
    names: ClassVar[tuple[str, ...]]
    words: ClassVar[str]
    help: ClassVar[str] = ""
    contents: ClassVar[str] = ""
    not_read: ClassVar[str] = ""
    example: ClassVar[str] = ""
    extensions: ClassVar[Collection[str]] = ()
    files: ClassVar[re.Pattern[str] | None] = None
    file_names: ClassVar[Collection[str]] = ()
    texts: ClassVar[re.Pattern[str] | None] = None
    directories: ClassVar[Collection[str]] = ()
    reads: ClassVar[Collection[str]] = ()
    takes_several: ClassVar[bool] = False
    takes_members: ClassVar[bool] = False
    gives_masks: ClassVar[bool] = False
    options: ClassVar[type[Options]] = Options
    surest: ClassVar[Sure] = Sure.MARKED

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        """Return what plans hold of such annotations, as `SourceKind.saved` does of a source.

        These are the class of `Scan.annotations`, and those of what it holds.
        """
        return {}

    def is_own(self, path: str, head: bytes) -> bool:
        """Return whether a file begins as its files do, whatever its directory.

        Those that no kind takes are named by this kind in the refusal of a command.
        """
        return False

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        """Return the claim on the files beside images; None if none is its own.

        This has to be cheap: names, and heads of files. The reason of a claim is a file that shows
        it.
        """
        return None

    def unclear(self, place: AnnotatedPlace) -> str:
        """Say which files may be its own that it does not claim, and what to do; empty if none are.

        It is asked if no kind claims the place. Then the source is refused with these words, so
        that images do not become classes of their directories although something is drawn on them.
        """
        return ""

    def read_in_archive(self, place: AnnotatedPlace) -> Sequence[str]:
        """Return the files that `scan` reads, if the images lie in an archive."""
        return [] if self.texts is None else list(filter(self.texts.search, place.others))

    def found_above(self, above: DirectoryAbove) -> str:
        """Return the path of its annotations in a directory above images; empty if none are there.

        They are not taken, because they may be for other images: the user is asked to name them.
        """
        return ""

    def looks_like(self, path: NamedPath) -> bool:
        """Return whether a path that the user names is its own, if no extension tells it."""
        return False

    @abstractmethod
    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        """Find the images, objects and classes that annotations name.

        They are those of `AnnotatedPlace.named` or, if that is empty, those that the kind claimed.

        Args:
            source: What the user named, with the options.
            place: The images, and the files beside them.
            run_all: A ``map`` over worker processes.

        Returns:
            What was found. `Scan.used` has the files below the root that were read.
        """


def _paths_below(directory: str, depth: int = 2) -> Iterator[str]:
    """Return files in a directory and, if there are none, in those below."""
    found = list(islice(entries(directory), LOOKED_AT))
    files = [entry.path for entry in found if entry.is_file()]
    yield from files
    if depth and not files:
        for entry in found[:8]:
            yield from _paths_below(entry.path, depth - 1)
