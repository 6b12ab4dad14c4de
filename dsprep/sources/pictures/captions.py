"""Texts beside images: ``a.txt`` or ``a.caption`` beside ``a.jpg``, as for diffusion models."""

from __future__ import annotations

import codecs
import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from dsprep.catalog import Catalog, Inferred, SourceScan
from dsprep.findings import Finding
from dsprep.places.files import Files, list_files
from dsprep.places.scan import RunAll, scan_below
from dsprep.sample import IMAGE_EXTENSIONS
from dsprep.sources.annotation_kinds import kind_by_content
from dsprep.sources.kind import HEAD
from dsprep.sources.readers import ArchivedCaptions, CaptionReader

if TYPE_CHECKING:
    from dsprep.rows import Reader
    from dsprep.sources.source import Source

_FIELD, _ENDINGS = "txt", (".txt", ".caption")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", re.IGNORECASE)
_CELLS = re.compile(r"[,;\s]+")
_STEM, _SUFFIX = r"^(.*[^/])\.[^./]+$", r"\.([^./]+)$"


def with_texts(
    source: Source, files: Files, found: SourceScan, heads: Mapping[str, bytes], run_all: RunAll
) -> SourceScan:
    """Make texts beside images a field of the samples, if at least half of the images have one.

    Args:
        source: What was read.
        files: All files there, as they were listed.
        found: The catalog of the images, and findings with the files that nothing has read.
        heads: How some of the files that are left over begin.
        run_all: A ``map`` over worker processes.
    """
    catalog, findings = found
    unread = [each.path for each in findings if each.kind in ("left-over", "harmless")]
    stems = catalog.table["path"].str.extract(_STEM)
    by_ending = {ending: _beside(unread, ending, stems) for ending in _ENDINGS}
    ending, texts = max(by_ending.items(), key=lambda item: len(item[1]))
    looked_at = {path: head for path, head in heads.items() if path in texts}
    number = int(stems.is_in([path.removesuffix(ending) for path in texts]).sum()) if texts else 0
    if not looked_at or 2 * number < len(catalog):
        return found
    if not all(is_caption(path, head) for path, head in looked_at.items()):
        return found
    count = f"{number:,} of {len(catalog):,} images have a text beside them"
    if not source.takes_texts:
        note = (
            f"{count}, such as {min(texts)}, which are not read: the output has no place for them"
        )
        findings = [
            each._replace(kind="not-read", detail="") if each.path in texts else each
            for each in findings
        ]
        return catalog, [*findings, Finding("note", "", note)]
    listed = _listed(source.root, files, ending, run_all).filter(pl.col("path").is_in(list(texts)))
    note = f"{count}: it is the field text; --from images takes the images alone"
    findings = [each for each in findings if each.path not in texts]
    together = _together(catalog, source, files, listed, ending)
    texts_say = Inferred("leave_out", None, f"{count}, which is the field text")
    together = replace(together, inferred=(*catalog.inferred, texts_say))
    return together, [*findings, Finding("note", "", note)]


def is_caption(path: str, head: bytes) -> bool:
    """Return whether a file that begins like this is UTF-8, and no rows of numbers."""
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head, final=len(head) < HEAD)
    except UnicodeDecodeError:
        return False
    cells = [cell for cell in _CELLS.split(text) if cell]
    numbers = sum(_NUMBER.fullmatch(cell) is not None for cell in cells)
    return "\0" not in text and 2 * numbers <= len(cells) and kind_by_content(path, head) is None


def _beside(paths: Sequence[str], ending: str, stems: pl.Series) -> frozenset[str]:
    """Return the files with an ending that have the name of an image."""
    texts = [path.removesuffix(ending) for path in paths if path.endswith(ending)]
    own = pl.Series(texts, dtype=pl.String)
    return frozenset((own.filter(own.is_in(stems.implode())) + ending).to_list())


def _listed(root: str, files: Files, ending: str, run_all: RunAll) -> pl.DataFrame:
    """Return the texts that lie there, with their sizes."""
    if files.archive is None:
        return list_files(scan_below(root, frozenset({ending[1:]}), run_all)).table
    others = files.below_top().others
    assert others is not None
    return others


def _together(
    catalog: Catalog, source: Source, files: Files, texts: pl.DataFrame, ending: str
) -> Catalog:
    """Return the catalog of samples that are an image, and the text beside it if it has one."""
    stem = pl.col("path").str.extract(_STEM).alias("stem")
    places = [name for name in ("offset", "stored") if name in texts.columns]
    own = texts.unique("path", keep="last", maintain_order=True).select(
        stem, pl.col("size", "mtime", *places).name.prefix("text_")
    )
    both = catalog.table.with_columns(stem).join(own, on="stem", how="left", maintain_order="left")
    fields = both["path"].str.extract(_SUFFIX).str.to_lowercase().replace(IMAGE_EXTENSIONS)
    table = both.with_columns(
        pl.col("size") + pl.col("text_size").fill_null(0), pl.max_horizontal("mtime", "text_mtime")
    ).select(catalog.table.columns)
    reader: Reader
    if files.archive is None:
        reader = CaptionReader(catalog.root, ending, tuple(source.leave_out))
        return replace(catalog, table=table, reader=reader)
    names = [*fields.unique().sort(), _FIELD]
    starts, kinds, offsets, sizes, stored = (array("q") for _ in range(5))
    columns = ("offset", "size", "stored", "text_offset", "text_size", "text_stored")
    for field, image_at, image_size, image_stored, at, size, held in zip(
        fields, *(both[name] for name in columns), strict=True
    ):
        starts.append(len(kinds))
        members = [(names.index(field), image_at, image_size, image_stored)]
        members += [] if at is None else [(len(names) - 1, at, size, held)]
        for member in members:
            for column, value in zip((kinds, offsets, sizes, stored), member, strict=True):
                column.append(value)
    starts.append(len(kinds))
    reader = ArchivedCaptions(
        files.archive.reader, tuple(names), starts, kinds, offsets, sizes, stored
    )
    row = pl.int_range(pl.len(), dtype=pl.Int64)
    table = table.with_columns(file=pl.lit(0, pl.Int64), offset=row).drop("stored")
    return replace(catalog, table=table, reader=reader)
