"""Samples of many parts: files that share a stem, or that lie in parallel folders."""

from __future__ import annotations

import re
import shlex
from array import array
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import OptionError, SourceError
from dsprep.findings import REJECT_KINDS, Finding
from dsprep.readers.archive import ArchiveReader
from dsprep.readers.base import Reader
from dsprep.readers.parts import ArchivedParts, SharedStems, stem_of
from dsprep.sample import IMAGE_EXTENSIONS
from dsprep.sources.archive import Archive, open_archive
from dsprep.sources.archive_files import files_of
from dsprep.sources.below import scan_below
from dsprep.sources.classes import notes_on_directories
from dsprep.sources.files import Files, list_files
from dsprep.sources.folder import classes_of_directories
from dsprep.sources.pairs import parse_pairs, read_pairs
from dsprep.sources.scan import RunAll
from dsprep.storage.paths import is_dir
from dsprep.units import extension_in

_MOST_SUFFIXES = 256
"""A worker looks for each of them, for every sample."""

_SHOWN = 5
"""Parts that a message suggests to name."""

_SUFFIX = r"[^./][.]([^/]+)$"
"""What follows the first dot of a base name, before which WebDataset's keys end."""

_NAME = "/?[^/]*$"
"""What follows a directory in a path."""

_IMAGE_RANKS = {kind: rank for rank, kind in enumerate(dict.fromkeys(IMAGE_EXTENSIONS.values()))}


def read_parts(
    root: str,
    *,
    pairs: Mapping[str, str] | None,
    classes: tuple[str, ...] | None,
    downloaded: bool = False,
    run_all: RunAll = map,
) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of a folder whose samples are several files each.

    A row's path is the stem that a sample's files share and the extension of its image; where a
    sample has no image, the stem alone. Its size is that of all its parts together, so that its
    digest tells when one comes, goes or changes size.
    """
    if not is_dir(root):
        return read_archived_parts(open_archive(root), classes)
    patterns = None if pairs is None else parse_pairs(pairs)
    files = list_files(scan_below(root, None, run_all))
    if downloaded:
        files = files._replace(table=files.table.filter(pl.col("path").str.contains("/")))
    if patterns is None:
        return _read_stems(root, files, classes, not downloaded)
    return read_pairs(root, files, patterns, classes)


def read_archived_parts(
    archive: Archive, classes: tuple[str, ...] | None = None
) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of an archive whose samples are several members each."""
    extensions = frozenset(extension_in(name)[1:] for name in archive.listing.names)
    files = files_of(archive, extensions).below_top()
    findings = [
        each._replace(kind="no-part") if each.kind == "not-an-image" else each
        for each in files.findings
    ]
    return _read_stems(archive.path, files._replace(findings=findings), classes, True)


def _read_stems(
    root: str, files: Files, classes: tuple[str, ...] | None, by_directory: bool
) -> tuple[Catalog, list[Finding]]:
    named, findings = _named(files.table)
    if named.is_empty():
        raise SourceError(f"{root}: holds no files that could be parts of samples")
    fields = _fields_of(named["suffix"].unique(), root)
    parts, passed_over = _parts(named, fields)
    _require_together(parts, root)
    samples, numbers = _samples(parts), None
    if by_directory and not (fields["field"] == "cls").any():
        samples, numbers, classes = _with_classes(samples, root, classes)
        findings += notes_on_directories(classes or (), root)
        has_class = pl.col("sample").is_in(samples["sample"].implode())
        findings += [
            Finding("no-part", path, "of no image, nor in the directory of a class")
            for path in parts.filter(~has_class)["path"]
        ]
        parts = parts.filter(has_class)
    findings += [*passed_over, *_lacking(parts, samples), *_of_samples(files.findings, samples)]
    used = fields.filter(pl.col("suffix").is_in(parts["suffix"].unique().implode()))
    table = samples.select(pl.int_range(pl.len()).alias("index"), "path", "size", "mtime")
    if numbers is not None:
        table = table.with_columns(numbers)
    if files.reader is None:
        return Catalog(table, root, classes, SharedStems(root, _suffixes(used))), _sorted(findings)
    table = table.with_columns(file=pl.lit(0, pl.Int64), offset=pl.col("index"))
    reader = _archive_reader(files.reader, parts, used)
    catalog = Catalog(table, root, classes, reader)
    return catalog, _sorted(findings)


def _sorted(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=attrgetter("path"))


def _archive_reader(archive: Reader, parts: pl.DataFrame, fields: pl.DataFrame) -> ArchivedParts:
    """Return the reader of samples whose parts lie in an archive, in the order of the parts."""
    assert isinstance(archive, ArchiveReader)
    names = fields["field"].unique(maintain_order=True).to_list()
    counts = parts.group_by("sample", maintain_order=True).len()["len"]
    kinds = parts["field"].replace_strict(names, range(len(names)), return_dtype=pl.Int64)
    columns = (kinds, parts["offset"], parts["size"], parts["stored"])
    starts = array("q", [0, *counts.cum_sum()])
    return ArchivedParts(archive, tuple(names), starts, *(array("q", each) for each in columns))


def _named(files: pl.DataFrame) -> tuple[pl.DataFrame, list[Finding]]:
    """Take the names apart: adds ``key`` and ``suffix``."""
    suffix = pl.col("path").str.extract(_SUFFIX).alias("suffix")
    named = files.lazy().with_columns(suffix).collect(engine="streaming")
    findings = [
        Finding("no-part", path, "its name has no extension")
        for path in named.filter(pl.col("suffix").is_null())["path"]
    ]
    key = pl.col("path").str.strip_suffix("." + pl.col("suffix"))
    return named.drop_nulls("suffix").with_columns(key=key), findings


def _parts(named: pl.DataFrame, fields: pl.DataFrame) -> tuple[pl.DataFrame, list[Finding]]:
    """Order the files by sample, and number the samples: adds ``field`` and ``sample``."""
    files = named.join(fields, on="suffix").sort("key", "order")
    is_new = (pl.col("key") != pl.col("key").shift()).fill_null(True)
    is_first = is_new | (pl.col("field") != pl.col("field").shift())
    files = files.with_columns(sample=is_new.cum_sum(), is_first=is_first)
    findings = [
        Finding("no-part", path, f"the sample has another file that is its {field}")
        for path, field in files.filter(~pl.col("is_first")).select("path", "field").iter_rows()
    ]
    return files.filter("is_first"), findings


def _require_together(parts: pl.DataFrame, root: str) -> None:
    """Refuse samples whose parts lie in different directories, as those of VOC do.

    ``Annotations`` holds parts of the images in ``JPEGImages``, and is no class, if it has no kind
    of file that lies there, and at least half of its files are called like one of the images.
    """
    directory = pl.col("directory")
    files = parts.select("path", "key", "field", directory=pl.col("key").str.replace(_NAME, ""))
    is_image = pl.col("field").is_in(list(_IMAGE_RANKS))
    found = files.group_by("directory").agg(
        kinds=pl.col("field").unique().sort().str.join(" "), images=is_image.sum(), files=pl.len()
    )
    totals = found.group_by("kinds").agg(pl.col("images", "files").sum())
    commonest, images, _ = totals.sort(
        "images", "files", "kinds", descending=[False, False, True]
    ).row(-1)  # of equally many, jpg rather than png: masks are PNG
    kinds = set(commonest.split(" "))
    others = [each for each in totals["kinds"] if kinds.isdisjoint(each.split(" "))]
    if not others:
        return

    def those(kinds: list[str]) -> pl.DataFrame:
        directories = found.filter(pl.col("kinds").is_in(kinds))["directory"]
        return files.filter(directory.is_in(directories.implode()))

    apart, whole = those(others), those([commonest]).filter(is_image if images else True)
    for column, above in (("by name", "^.*/"), ("by path", "^[^/]*/")):
        named = pl.col("key").str.replace(above, "").alias("named")
        known = whole.select(named, pl.col("path").alias(column)).filter(
            pl.col("named").is_unique()
        )
        apart = apart.with_columns(named).join(known, on="named", how="left").drop("named")
    apart = apart.with_columns(image=pl.coalesce("by name", "by path"))
    apart = apart.filter(pl.col("image").is_not_null().mean().over("directory") >= 0.5)
    apart = apart.drop_nulls("image")
    if apart.is_empty():
        return
    firsts = apart.sort("path").unique("directory", keep="first", maintain_order=True)
    pairs = list(firsts.select("image", "path").iter_rows())
    options = dict.fromkeys(
        option for image, path in pairs for option in _pair_options(image, path)
    )
    image, path = pairs[0]
    raise OptionError(
        f"{root}: --parts takes files that lie side by side, and {path} lies in another directory "
        f"than {image}; name the parts: {' '.join(list(options)[:_SHOWN])}"
    )


def _pair_options(image: str, path: str) -> Iterator[str]:
    """Write the ``--pair`` options of an image and of another part, which lies elsewhere."""
    ours, theirs = image.split("/"), path.split("/")
    differ = [at for at, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other]
    depth = differ[0] if len(ours) == len(theirs) and len(differ) == 2 else -1
    for parts in (ours, theirs):
        above = parts[:-1] if depth < 0 else parts[: depth + 1]
        suffix = parts[-1].partition(".")[2]
        wild = "*" if len(above) == len(parts) - 1 else "**"
        name = re.sub("[^a-z0-9_-]", "", "".join(above[-1:]).lower())
        field = f"{name}.{suffix.lower()}" if name else suffix.lower()
        field = "image" if parts is ours and suffix.lower() in IMAGE_EXTENSIONS else field
        pattern = "/".join([*above, f"{wild}.{suffix}"])
        yield f"--pair {shlex.quote(f'{field}={pattern}')}"


def _fields_of(suffixes: pl.Series, root: str) -> pl.DataFrame:
    """Name the field that each ending of names means: ``suffix``, ``field`` and ``order``.

    Where a sample has several files for one field, the one of the lowest ``order`` is it.
    """
    if len(suffixes) > _MOST_SUFFIXES:
        first = suffixes.sort().head(3).to_list()
        raise SourceError(
            f"{root}: its names go on in {len(suffixes):,} ways after their first dots, where the "
            f"name of a sample ends, as in {', '.join(map(repr, first))}: rename the files, or "
            "name the parts with --pair"
        )
    lower = pl.col("suffix").str.to_lowercase()
    fields = suffixes.to_frame("suffix").with_columns(field=lower.replace(IMAGE_EXTENSIONS))
    rank = pl.col("field").replace_strict(_IMAGE_RANKS, default=len(_IMAGE_RANKS))
    fields = fields.sort(rank, "field", pl.col("suffix") != pl.col("field"), "suffix")
    return fields.with_columns(order=pl.int_range(pl.len()))


def _suffixes(fields: pl.DataFrame) -> tuple[tuple[str, tuple[str, ...]], ...]:
    grouped = fields.group_by("field", maintain_order=True).agg("suffix")
    return tuple((field, tuple(suffixes)) for field, suffixes in grouped.iter_rows())


def _samples(parts: pl.DataFrame) -> pl.DataFrame:
    """Sum parts up: ``sample``, ``key``, ``size``, ``mtime``, ``images`` (a count), ``path``."""
    rank = pl.col("field").replace_strict(_IMAGE_RANKS, default=None, return_dtype=pl.Int64)
    images = (
        parts.select("sample", "path", rank=rank)
        .drop_nulls("rank")
        .sort("sample", "rank")
        .group_by("sample")
        .agg(pl.col("path").first(), images=pl.len().cast(pl.Int64))
    )
    return (
        parts.group_by("sample", maintain_order=True)
        .agg(pl.col("key").first(), pl.col("size").sum(), pl.col("mtime").max())
        .join(images, on="sample", how="left", maintain_order="left")
        .with_columns(pl.col("images").fill_null(0), pl.col("path").fill_null(pl.col("key")))
    )


def _lacking(parts: pl.DataFrame, samples: pl.DataFrame) -> Iterator[Finding]:
    """Find the samples that lack what more than half of all samples have.

    The one image of a sample may be of any kind; where most samples have several, as where masks
    are images, each kind is a part of its own.
    """
    field = pl.col("field")
    parts = parts.select("sample", "field")
    if (samples["images"] < 2).sum() * 2 >= samples.height:
        is_image = field.is_in(list(_IMAGE_RANKS))
        parts = parts.with_columns(field=pl.when(is_image).then(pl.lit("image")).otherwise(field))
        parts = parts.unique()
    counts = parts.group_by("field").len().filter(pl.col("len") * 2 > samples.height)
    lacking = []
    for expected in sorted(counts["field"]):
        having = parts.filter(field == expected)["sample"]
        without = samples.filter(~pl.col("sample").is_in(having.implode()))
        lacking.append(without.select("path", field=pl.lit(expected)))
    if lacking:
        rows = pl.concat(lacking).group_by("path").agg(field.str.join(", "))
        for path, names in rows.iter_rows():
            yield Finding("incomplete", path, f"lacks {names}")


def _with_classes(
    samples: pl.DataFrame, root: str, classes: tuple[str, ...] | None
) -> tuple[pl.DataFrame, pl.Series | None, tuple[str, ...] | None]:
    """Number the directories that the images lie in, as those of a folder of images."""
    has_image = samples["images"] > 0
    imaged = samples.filter(has_image if has_image.any() else ~has_image)
    numbers, found = classes_of_directories(imaged["path"], root, classes)
    if numbers is None:
        return samples, None, None
    directory = pl.col("key").str.replace(r"/?[^/]*$", "").alias("directory")
    known = imaged.select(directory, numbers).unique("directory")
    samples = samples.with_columns(directory).join(known, on="directory", maintain_order="left")
    return samples, samples["cls"], found


def _of_samples(findings: Iterable[Finding], samples: pl.DataFrame) -> Iterator[Finding]:
    """Say of a file that cannot be had which sample lacks it, or, once, that a sample is lost."""
    unread = [finding for finding in findings if finding.kind in REJECT_KINDS]
    yield from (finding for finding in findings if finding.kind not in REJECT_KINDS)
    if not unread:
        return
    paths = dict(samples.select("key", "path").iter_rows())
    lost = set()
    for finding in unread:
        key = stem_of(finding.path)
        suffix = finding.path[len(key) + 1 :]
        if not suffix:
            yield finding._replace(kind="no-part")
        elif key in paths:
            yield Finding("incomplete", paths[key], f"lacks {suffix}: {finding.detail}")
        elif key not in lost:
            lost.add(key)
            yield finding
