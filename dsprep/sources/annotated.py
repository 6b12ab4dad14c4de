"""Images with annotations beside them: which belong together, and how a worker reads them.

A catalog has a number for the annotations of each image; :class:`Annotations` finds them by it. Its
kinds are in modules of their own, each with the function that scans what one tool writes.
"""

from __future__ import annotations

import posixpath
import re
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from dsprep.annotations.objects import Objects
from dsprep.errors import BadSample, SourceError
from dsprep.findings import Finding
from dsprep.formats.folder import Folder
from dsprep.rows import Reader, Rows
from dsprep.sample import Sample, key_of
from dsprep.schema import Field, Schema
from dsprep.sources.masks import Masks, TableMasks, find_masks, mask_names
from dsprep.units import format_count, format_some

if TYPE_CHECKING:
    from dsprep.catalog import Found
    from dsprep.sources.reading import Source
    from dsprep.sources.scan import RunAll

OBJECTS, MASK = "objects", "mask"  # the names of the fields
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^/]*/", re.IGNORECASE)
_UPLOADED = re.compile(r"[0-9a-f]{8}-")  # what Label Studio puts before the names of files
_SIZES = ("objects", "texts")
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
    annotations: Annotations | None = None
    masks: Masks | TableMasks | None = None
    numbers: array[int] = field(default_factory=partial(array, "q"))  # those of annotations by row

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        places = zip(rows.ids, rows.paths, rows.annotations, self.images.read(rows), strict=True)
        for id, path, number, found in places:
            if not isinstance(found, bytes):
                yield found
                continue
            fields: dict[str, Any] = {"image": found}
            try:
                if self.annotations is not None:
                    own = self.numbers[number]
                    fields[OBJECTS] = self.annotations.objects(own) if own >= 0 else Objects()
                if self.masks is not None and (mask := self.masks.mask(number, found)) is not None:
                    fields[MASK] = mask
            except BadSample as error:
                yield error
                continue
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                yield BadSample(f"its annotations: {error}")
                continue
            except OSError as error:
                yield BadSample(f"its annotations cannot be read ({error.strerror})")
                continue
            yield self.typed(Sample(key_of(path), fields, id, path, "image"))

    def spools(self) -> Sequence[int]:
        return self.images.spools()

    def write_spool(self, number: int, path: str) -> None:
        self.images.write_spool(number, path)

    def spooled(self, directory: str) -> AnnotatedReader:
        return replace(self, images=self.images.spooled(directory))


class Scan(NamedTuple):
    """What a scan of annotations found."""

    annotations: Annotations | None  # None if there are masks alone
    names: Sequence[str]  # what each image is called, by number
    counts: Sequence[int]  # how many objects it has
    texts: Sequence[int]  # the bytes that tell them
    classes: tuple[str, ...]  # the names of the classes, by number
    ids: tuple[int, ...]  # their ids; empty if the source has none
    digest: str  # of everything that was read
    where: str  # the file or directory that was scanned, for messages
    findings: Sequence[Finding] = ()
    # whether some may be crowd, difficult or group-of; if nothing tells, they may
    flags: bool = True
    masks: TableMasks | None = None
    keeps_unlisted: bool = False  # whether an image without annotations is one without objects


def catalog_of(source: Source, scan: Scan | None, run_all: RunAll) -> Found:
    """Make the catalog of images with annotations, with masks, or with both."""
    import polars as pl

    from dsprep.catalog import PLACE_COLUMNS, Annotated, Catalog
    from dsprep.sources.archive import open_archive
    from dsprep.sources.files import FILES, images_of, list_files
    from dsprep.sources.readers import FileReader
    from dsprep.sources.scan import scan_below
    from dsprep.storage.files import is_dir

    if is_dir(source.root):
        files = list_files(scan_below(source.root, source.suffixes, run_all))
    else:
        files = images_of(open_archive(source.root), source).below_top()
    table = files.table.sort("path")
    paths, findings = table["path"].to_list(), [*files.findings]
    numbers, fields = [_NONE] * len(paths), [Field("image", "image", places=(("image",),))]
    if scan is not None:
        numbers, missing = matched(scan, paths)
        detail = f"named in {posixpath.basename(scan.where)}"
        findings += [*scan.findings, *(Finding("missing", name, detail) for name in missing)]
    if scan is not None and scan.annotations is not None:
        places = ((OBJECTS,),)
        objects = Field(OBJECTS, "objects", False, scan.classes, places, ids=scan.ids)
        fields.append(replace(objects, flags=scan.flags))
    table = table.with_row_index("annotation").cast({"annotation": pl.Int64})
    if scan is not None and not scan.keeps_unlisted:
        listed = pl.Series(numbers) != _NONE
        findings += [Finding("unlisted", path) for path in table.filter(~listed)["path"].to_list()]
        table = table.filter(listed)
        if table.is_empty():
            raise SourceError(
                f"{scan.where}: not one of the {format_count(len(scan.names), 'image')} that it "
                f"names lies below {source.root}, {scan.names[0]!r} for one"
                if scan.names
                else f"{scan.where}: names no images"
            )
    masks: Masks | TableMasks | None = None
    if scan is not None and scan.masks is not None:
        masks = scan.masks.of(numbers)
        fields.append(Field(MASK, "mask", False, masks.names, ((MASK,),)))
    if source.masks is not None:
        masks = find_masks(source, paths, run_all)
        lacks = not all(map(masks.paths.__getitem__, table["annotation"]))
        fields.append(Field(MASK, "mask", lacks, mask_names(source), ((MASK,),)))
    fields = [replace(each, told="the files") for each in fields]
    columns = [*FILES, *(name for name in PLACE_COLUMNS if name in table.columns), "annotation"]
    table = table.select(pl.int_range(pl.len()).alias("index"), *columns)
    annotations = scan.annotations if scan else None
    images = files.reader or FileReader(source.root)
    reader = AnnotatedReader(images, annotations, masks, array("q", numbers))
    sizes = pl.DataFrame({"objects": [0], "texts": [0]}, schema=dict.fromkeys(_SIZES, pl.Int64))
    if scan is not None:
        sizes = pl.DataFrame(
            {"objects": [*scan.counts, 0], "texts": [*scan.texts, 0]}, schema=sizes.schema
        )
    sizes = sizes[[number % sizes.height for number in numbers]]
    digest = sha256((scan.digest if scan else "").encode())
    if masks is not None:
        sizes = sizes.with_columns(pl.Series("masks", masks.sizes, dtype=pl.Int64))
        digest.update(masks.digest())
    catalog = Catalog(
        *(table, source.root, None, reader, Schema(tuple(fields), "image", format="folder")),
        schema_known=True,
        annotated=Annotated(sizes, digest.hexdigest()),
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
