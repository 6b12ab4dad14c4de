"""What kinds have in common whose annotations are in a file for each image.

Such a kind says what its files begin like, what reads them, and which directories of images lie
beside theirs. `kitti_kind` is the example to copy.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotation_kind import (
    AnnotatedPlace,
    AnnotationKind,
    DirectoryAbove,
    NamedPath,
    names_with,
)
from dsprep.sources.kind import HEAD, Claim, Sure
from dsprep.storage.files import open_file

if TYPE_CHECKING:
    from dsprep.annotations.named import NamedObjects
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

_LOOKED_INTO = 3  # files in a directory above images


class ImageTextsKind(AnnotationKind):
    """A kind with a file for each image, which names the classes of its objects.

    Attributes:
        extension: That of the files.
        beside: Directories of files, and what those of their images are called instead of them.
        other_files: Files that belong to the format and are not read, by their paths.
    """

    files: ClassVar = pattern(r"(?:^|/)ImageSets/(?:[^/]+/)?[^/]+\.txt$")
    extension: ClassVar[str]
    beside: ClassVar[Sequence[tuple[str, str]]] = ()
    other_files: ClassVar[re.Pattern[str] | None] = None

    @classmethod
    @abstractmethod
    def reader(cls) -> Callable[[bytes], NamedObjects]:
        """Return what reads a file; a ValueError says what is wrong with it."""

    @abstractmethod
    def is_own(self, path: str, head: bytes) -> bool: ...

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.annotated.image_texts import NamedTexts

        return {"named-texts": NamedTexts, cls.names[0]: cls.reader()}

    @property
    def _names(self) -> re.Pattern[str]:
        return names_with(self.extension)

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        heads = place.heads(self._names)
        found = min((path for path in heads if self.is_own(path, heads[path])), default="")
        return Claim(Sure.MARKED, found) if found else None

    def looks_like(self, path: NamedPath) -> bool:
        return any(self.is_own(name, head) for name, head in path.heads.items())

    def read_in_archive(self, place: AnnotatedPlace) -> Sequence[str]:
        from dsprep.sources.side_lists import lists_among

        return sorted({*place.files_like(self._names, self.is_own), *lists_among(place.others)})

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.image_texts import KindOfTexts, scan_texts

        kind = KindOfTexts(self.words, self.reader(), self.extension, self.beside, self.other_files)
        if place.named:
            (named,) = place.named
            return scan_texts(kind, source, place, named.path, None, run_all)
        only = place.files_like(self._names, self.is_own)
        return scan_texts(kind, source, place, source.root, only, run_all)

    def found_above(self, above: DirectoryAbove) -> str:
        for own, of_images in self.beside:
            if above.name != of_images.lower():
                continue
            inside = (each for each in above.inside(own.lower()) if self._names.search(each.name))
            for entry, _ in zip(inside, range(_LOOKED_INTO), strict=False):
                with open_file(entry.path) as file:
                    if self.is_own(entry.path, file.pread(HEAD, 0)):
                        return above.directory(own.lower())
        return ""
