"""Images with annotations beside them: which belong together, and how a worker reads them.

A catalog has a number for the annotations of each image; :class:`Annotations` finds them by it. Its
kinds are in modules of their own, each with the function that scans what one tool writes.
"""

from __future__ import annotations

import posixpath
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from dsprep.annotations.objects import Objects
from dsprep.errors import BadSample, SourceError
from dsprep.findings import Finding
from dsprep.formats.folder import Folder
from dsprep.rows import Reader, Rows
from dsprep.sample import Sample, key_of
from dsprep.schema import Field, Schema
from dsprep.units import format_count, format_some

if TYPE_CHECKING:
    from dsprep.catalog import Found
    from dsprep.sources.reading import Source
    from dsprep.sources.scan import RunAll

OBJECTS = "objects"  # the name of the field
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^/]*/", re.IGNORECASE)
_UPLOADED = re.compile(r"[0-9a-f]{8}-")  # what Label Studio puts before the names of files
_NONE = -1  # the number of an image without annotations


@dataclass(frozen=True)
class Annotations(ABC):
    """The annotations of the images of a source. Plain data: it is pickled for the workers."""

    @abstractmethod
    def objects(self, number: int) -> Objects:
        """Return the objects of an image; a ValueError or an OSError says why there are none."""


@dataclass(frozen=True)
class AnnotatedReader(Reader):
    """Reads images with their annotations."""

    reads_samples: ClassVar[bool] = True
    table: ClassVar = Folder()
    images: Reader  # reads the images alone
    annotations: Annotations

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        places = zip(rows.ids, rows.paths, rows.annotations, self.images.read(rows), strict=True)
        for id, path, number, found in places:
            if not isinstance(found, bytes):
                yield found
                continue
            try:
                objects = self.annotations.objects(number) if number != _NONE else Objects()
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                yield BadSample(f"its annotations: {error}")
                continue
            except OSError as error:
                yield BadSample(f"its annotations cannot be read ({error.strerror})")
                continue
            fields = {"image": found, OBJECTS: objects}
            yield self.typed(Sample(key_of(path), fields, id, path, "image"))

    def spools(self) -> Sequence[int]:
        return self.images.spools()

    def write_spool(self, number: int, path: str) -> None:
        self.images.write_spool(number, path)

    def spooled(self, directory: str) -> AnnotatedReader:
        return replace(self, images=self.images.spooled(directory))


class Scan(NamedTuple):
    """What a scan of annotations found."""

    annotations: Annotations
    names: Sequence[str]  # what each image is called, by number
    counts: Sequence[int]  # how many objects it has
    texts: Sequence[int]  # the bytes that tell them
    classes: tuple[str, ...]  # the names of the classes, by number
    ids: tuple[int, ...]  # their ids; empty if the source has none
    digest: str  # of everything that was read
    where: str  # the file or directory that was scanned, for messages
    findings: Sequence[Finding] = ()
    keeps_unlisted: bool = False  # whether an image without annotations is one without objects


def catalog_of(source: Source, scan: Scan, run_all: RunAll) -> Found:
    """Make the catalog of the images that annotations are for."""
    import polars as pl

    from dsprep.catalog import Annotated, Catalog
    from dsprep.sources.archive import open_archive
    from dsprep.sources.files import images_of, list_files
    from dsprep.sources.readers import FileReader
    from dsprep.sources.scan import scan_below
    from dsprep.storage.files import is_dir

    if is_dir(source.root):
        files = list_files(scan_below(source.root, source.suffixes, run_all))
    else:
        files = images_of(open_archive(source.root), source).below_top()
    table = files.table.sort("path")
    numbers, missing = matched(scan, table["path"].to_list())
    table = table.with_columns(annotation=pl.Series(numbers, dtype=pl.Int64))
    findings = [*files.findings, *scan.findings]
    findings += [
        Finding("missing", name, f"named in {posixpath.basename(scan.where)}") for name in missing
    ]
    unlisted = table.filter(pl.col("annotation") == _NONE)
    if not scan.keeps_unlisted:
        findings += [Finding("unlisted", path) for path in unlisted["path"].to_list()]
        table = table.filter(pl.col("annotation") != _NONE)
    if table.is_empty():
        raise SourceError(
            f"{scan.where}: not one of the {format_count(len(scan.names), 'image')} that it names "
            f"lies below {source.root}, {scan.names[0]!r} for one"
            if scan.names
            else f"{scan.where}: names no images"
        )
    table = table.select(pl.int_range(pl.len()).alias("index"), pl.all())
    objects = Field(
        OBJECTS, "objects", False, scan.classes, ((OBJECTS,),), "annotations", ids=scan.ids
    )
    image = Field("image", "image", False, (), (("image",),), "the files")
    reader = AnnotatedReader(files.reader or FileReader(source.root), scan.annotations)
    sizes = pl.DataFrame(
        {"objects": [*scan.counts, 0], "texts": [*scan.texts, 0]},
        schema={"objects": pl.Int64, "texts": pl.Int64},
    )
    schema = Schema((image, objects), "image", format=reader.table.name)
    catalog = Catalog(
        *(table, source.root, None, reader, schema),
        schema_known=True,
        annotated=Annotated(sizes, scan.digest),
    )
    return catalog, sorted(findings, key=lambda found: found.path)


def matched(scan: Scan, paths: Sequence[str]) -> tuple[list[int], list[str]]:
    """Return the number of the annotations of each image, and the names of images not there.

    A name is a path below the root; else it means the one image whose path ends with it; else the
    one with its stem.
    """
    taken: dict[str, int] = {}
    missing = []
    at = {path: path for path in paths}
    by_name = _unique((posixpath.basename(path), path) for path in paths)
    by_stem = _unique((posixpath.basename(path).rpartition(".")[0], path) for path in paths)
    ambiguous: list[str] = []
    for number, name in enumerate(scan.names):
        plain = plain_name(name)
        base = posixpath.basename(plain)
        found = at.get(plain)
        for known, key in ((by_name, base), (by_name, _UPLOADED.sub("", base, 1)), (by_stem, base)):
            if found is None and key in known:
                found = known[key]
                ambiguous += [name] if found is None else []
        if found is None:
            missing.append(name)
        elif taken.setdefault(found, number) != number:
            other = scan.names[taken[found]]
            raise SourceError(f"{scan.where}: {name!r} and {other!r} would both be {found}")
    if ambiguous:
        raise SourceError(
            f"{scan.where}: {format_count(len(ambiguous), 'name')} may mean several images, "
            f"{format_some(ambiguous)}: give the directory that its paths start from as SOURCE"
        )
    return [taken.get(path, _NONE) for path in paths], missing


def plain_name(name: str) -> str:
    """Return what annotations call an image as a path."""
    return posixpath.normpath(_URL.sub("", name, count=1).replace("\\", "/")).lstrip("/")


def _unique(pairs: Iterable[tuple[str, str]]) -> Mapping[str, str | None]:
    """Return values by keys; None for those that several have."""
    found: dict[str, str | None] = {}
    for key, value in pairs:
        found[key] = None if key in found else value
    return found
