"""COCO's panoptic segmentation: where the PNGs of its JSON files are, and the scan of both.

The PNGs of a file lie in a directory of its name (cocodataset.org, "Data format", 4. Panoptic
Segmentation), or beside it, as Mapillary Vistas has them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.sources.annotated.coco import scan_coco
from dsprep.sources.annotated.coco_items import CocoFile
from dsprep.sources.annotated.mask_files import MaskFiles, files_below
from dsprep.sources.annotated.masks import NOT_THERE, Masks
from dsprep.storage.files import full_path
from dsprep.units import format_count, quoted

if TYPE_CHECKING:
    from dsprep.places.files import Files
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source


def scan_panoptic(
    source: Source, files: Files, jsons: Sequence[CocoFile], run_all: RunAll
) -> tuple[Scan, Sequence[str]]:
    """Find the images and the segments that panoptic files tell, and their PNGs.

    Args:
        source: What the user named, with the options.
        files: The images, and the files beside them.
        jsons: The panoptic files: all below SOURCE, or all in another directory.
        run_all: A ``map`` over worker processes.

    Returns:
        What was found, and the PNGs that are there.
    """
    pngs = _pngs(source, files, [file.path for file in jsons], run_all)
    directories = {posixpath.dirname(path) for path in pngs.sizes}
    top = f"{full_path(pngs.root)}/"
    below = [full_path(file.path).removeprefix(top) for file in jsons]
    jsons = [
        file._replace(pngs=_directory_of_pngs(path, directories))
        for file, path in zip(jsons, below, strict=True)
    ]
    images = frozenset(files.table["path"].to_list())
    scan = scan_coco(jsons, images, source.class_names())
    masks = scan.masks
    if not isinstance(masks, Masks):  # no annotations
        return scan, ()
    there = [path for path in masks.paths if path in pngs.sizes]
    if not there:
        some = next(filter(None, masks.paths))
        raise SourceError(
            f"{scan.where}: not one of the {format_count(len(masks.paths), 'PNG')} that it names "
            f"is there, such as {quoted(some)}: unpack them into a directory of its name beside it"
        )
    if source.takes_masks:
        return scan._replace(masks=_found(masks, pngs)), there
    said = f"{format_count(len(there), 'mask')} not read: the output has no place for masks"
    notes = [Finding("note", "", said)]
    notes += [Finding("not-read", path) for path in there if path in images]
    return scan._replace(masks=None, findings=[*scan.findings, *notes]), there


def _pngs(source: Source, files: Files, jsons: Sequence[str], run_all: RunAll) -> MaskFiles:
    """Return the files that may be the PNGs of panoptic files."""
    top = f"{full_path(source.root)}/"
    if all(full_path(path).startswith(top) for path in jsons):
        has_places = files.archive is not None
        columns = ["path", "size", *(("offset", "stored") if has_places else ())]
        rows = {path: row for path, *row in files.table.select(columns).iter_rows()}
        sizes = {path: size for path, (size, *_) in rows.items()}
        places = (
            {path: (at, stored) for path, (_, at, stored) in rows.items()} if has_places else None
        )
        return MaskFiles(source.root, sizes, places, "", "")
    above = sorted({posixpath.dirname(path) or "." for path in jsons})
    if len(above) > 1:
        raise SourceError(
            f"{jsons[0]}: its PNGs and those of {jsons[-1]} lie in several directories outside of "
            f"{source.root}: give a directory of all as SOURCE"
        )
    return MaskFiles(above[0], files_below(above[0], run_all), None, None, None)


def _directory_of_pngs(path: str, directories: Collection[str]) -> str:
    """Return the directory of the PNGs of a file: of its name, wherever that is, or its own."""
    beside, name = posixpath.split(path)
    stem = posixpath.splitext(name)[0]
    if (own := posixpath.join(beside, stem)) in directories:
        return own
    called = [each for each in directories if posixpath.basename(each) == stem]
    return called[0] if len(called) == 1 else beside


def _found(masks: Masks, pngs: MaskFiles) -> Masks:
    """Return masks with the places of their files; a file that is not there is never opened."""
    found = pngs.masks(masks.paths)
    sizes = [pngs.sizes.get(path, NOT_THERE) if path else 0 for path in masks.paths]
    return replace(masks, root=pngs.root, sizes=sizes, offsets=found.offsets, stored=found.stored)
