"""What kinds of annotations have in common whose files tell many images each.

Such a kind says how its files begin (`is_own`), and which `dsprep.sources.annotated.spans.Spans`
reads them. Its files are found by their content, also beside each other: one is a side.
"""

from __future__ import annotations

import posixpath
import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind, NamedPath
from dsprep.sources.kind import HEAD, Claim, Sure
from dsprep.storage.files import entries, open_file

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.annotated.spans import Spans
    from dsprep.sources.source import Source

_MOST_FILES = 256


class SpansKind(AnnotationKind):
    """A kind whose files tell many images each, in a piece for each image.

    Attributes:
        below: The directories that images may lie in, from that of a file, the best first, as
            `dsprep.sources.annotated.spans.scan_spans` takes them.
    """

    texts: ClassVar[re.Pattern[str]]
    takes_several: ClassVar = True
    takes_members: ClassVar = True
    below: ClassVar[Sequence[str]] = ("",)

    @classmethod
    @abstractmethod
    def spans(cls) -> type[Spans]:
        """Return what reads the files; its module is loaded now."""

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        return {cls.names[0]: cls.spans()}

    @abstractmethod
    def is_own(self, path: str, head: bytes) -> bool:
        """Return whether a file begins as its files do."""

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        heads = place.heads(self.texts)
        found = min((path for path in heads if self.is_own(path, heads[path])), default="")
        return Claim(Sure.MARKED, found) if found else None

    def read_in_archive(self, place: AnnotatedPlace) -> Sequence[str]:
        alike = sorted(place.files_like(self.texts, self.is_own))[:_MOST_FILES]
        heads = place.heads_of(alike)
        return [path for path in alike if self.is_own(path, heads.get(path, b""))]

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.spans import scan_spans

        paths = [posixpath.join(source.root, path) for path in self.read_in_archive(place)]
        if place.named:
            paths = [path for named in place.named for path in self._named(source, named)]
        spans = self.made(source, place, paths)
        scan = scan_spans(spans, paths, source, place.files, self.below)
        others = [path for path in self.beside(place, scan.used) if path not in scan.used]
        findings = [Finding("not-read", path) for path in others]
        return scan._replace(findings=[*scan.findings, *findings], used=[*scan.used, *others])

    def made(self, source: Source, place: AnnotatedPlace, paths: Sequence[str]) -> Spans:
        """Return what reads some files of a source, with the options of the user."""
        return self.spans()()

    def beside(self, place: AnnotatedPlace, used: Collection[str]) -> Iterable[str]:
        """Return the files that tell nothing else of the images, or that are not read."""
        return ()

    def _named(self, source: Source, named: NamedPath) -> Sequence[str]:
        """Return the files that a user names: one, or its own in a directory."""
        if named.member:
            return [posixpath.join(source.root, named.member)]
        if not named.is_dir:
            return [named.path]
        inside = sorted(entry.path for entry in entries(named.path) if entry.is_file())
        found = list(filter(self._is_own_file, filter(self.texts.search, inside)))
        if not found:
            raise SourceError(f"{named.path}: there is no file of {self.words} in it")
        return found

    def _is_own_file(self, path: str) -> bool:
        with open_file(path) as file:
            return self.is_own(path, file.pread(HEAD, 0))
