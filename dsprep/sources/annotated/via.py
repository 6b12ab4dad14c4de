"""VGG Image Annotator's exports and projects: JSON with an item for each image, and CSV."""

from __future__ import annotations

import json
import shlex
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.annotations.via import SEVERAL, attributes_of, parse_regions, regions_of, texts_of
from dsprep.csv_parsers import CsvError, first_record, records
from dsprep.errors import OptionError
from dsprep.sources.annotated.spans import (
    JsonSpans,
    LineSpans,
    ParsedImage,
    Spans,
    fields_in,
    opened_at,
)
from dsprep.storage.files import full_path
from dsprep.units import quoted_names

if TYPE_CHECKING:
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source

_HEADER = (
    *("filename", "file_size", "file_attributes", "region_count", "region_id"),
    *("region_shape_attributes", "region_attributes"),
)


class _ViaSpans(Spans):
    """The regions of images, and the attribute that is their class."""

    attribute: str | None = None  # None if regions have no attributes
    advice: ClassVar[Mapping[str, str]] = {SEVERAL: "leave one class for each region"}

    @abstractmethod
    def item(self, piece: Any) -> Mapping[str, Any]:
        """Return a piece as the JSON of VIA has it."""

    def parse(self, piece: Any) -> ParsedImage:
        item = self.item(piece)
        found = parse_regions(regions_of(item), self.attribute)
        left_out = Counter(found.left_out)
        told = item.get("file_attributes")
        left_out["attribute of images"] += len(told) if isinstance(told, dict) else 0
        return ParsedImage(found.shapes, None, +left_out, found.remarks, found.refused)

    def attributes(self, pieces: Iterator[tuple[int, int, Any]]) -> Collection[str]:
        """Return the attributes that some regions of a file have."""
        found = set[str]()
        for *_, piece in pieces:
            with suppress(ValueError, TypeError, AttributeError):  # damage is told by the scan
                regions = regions_of(self.item(piece)) if self.name_of(piece) else ()
                told = (each for region in regions for each in attributes_of(region).items())
                found.update(name for name, value in told if texts_of(value))
        return found


class ViaImages(_ViaSpans, JsonSpans):
    """Images of JSON, which may lie in a project."""

    within: ClassVar[Collection[str]] = ("_via_img_metadata",)

    def name_of(self, piece: Any) -> str:
        if not isinstance(piece, dict) or "regions" not in piece:
            return ""  # settings of a project
        name = piece.get("filename")
        if not isinstance(name, str) or not name:
            raise ValueError("has no filename")
        return name

    def item(self, piece: Any) -> Mapping[str, Any]:
        return fields_in(piece)


class ViaRows(_ViaSpans, LineSpans):
    """Images of CSV, with a row for each region."""

    def belongs(self, lines: Sequence[str], line: str) -> bool:
        return first_record(lines[0])[:1] == first_record(line)[:1]

    def name_of(self, piece: Any) -> str:
        cells = first_record(piece[0])
        name = cells[0] if cells else ""
        if name.lstrip("#") != _HEADER[0]:
            return name
        if tuple(cells[1:]) != _HEADER[1:]:
            raise ValueError(f"its columns are not those of VIA: {', '.join(_HEADER)}")
        return ""

    def item(self, piece: Any) -> Mapping[str, Any]:
        regions, told = list[Any](), {}
        for cells in _rows(piece):
            _, _, of_image, _, _, shape, attributes = cells
            told = _object(of_image)
            if _object(shape):
                own = {"shape_attributes": _object(shape), "region_attributes": _object(attributes)}
                regions.append(own)
        return {"regions": regions, "file_attributes": told}


def spans_of(source: Source, place: AnnotatedPlace, paths: Sequence[str]) -> Spans:
    """Return what reads some files, with the attribute that is the class.

    It is the one that the user names, or the only one that regions have.
    """
    are_tables = {path.lower().endswith(".csv") for path in paths}
    if len(are_tables) > 1:
        raise OptionError("--annotations: are JSON and CSV of VIA: give those of one of them")
    spans = ViaRows() if True in are_tables else ViaImages()
    found = set[str]()
    for path in paths:
        with opened_at(path, source, place.files) as file:
            found.update(spans.attributes(spans.pieces(file, path)))
    asked = next(iter(source.label_columns), None)
    if asked is not None and asked not in found:
        known = f"they have {quoted_names(sorted(found))}" if found else "they have no attributes"
        raise OptionError(
            f"--label-column {asked}: is no attribute of regions in {paths[0]}: {known}"
        )
    if asked is None and len(found) > 1:
        raise _several(sorted(found), source, place, paths)
    return replace(spans, attribute=asked or next(iter(found), None))


def _several(
    attributes: Sequence[str], source: Source, place: AnnotatedPlace, paths: Sequence[str]
) -> OptionError:
    """Return the error that asks for the attribute that is the class."""
    names = [path if place.files.archive is None else _inside(path, source) for path in paths]
    given = "".join(f"--annotations {shlex.quote(name)} " for name in names)
    return OptionError(
        f"{paths[0]}: regions have several attributes: give {'' if place.named else given}"
        f"--label-column with the one that is the class: {quoted_names(attributes)}"
    )


def _inside(path: str, source: Source) -> str:
    return full_path(path).removeprefix(f"{full_path(source.root)}/")


def _rows(lines: Sequence[str]) -> Iterator[list[str]]:
    try:
        for cells in records(f"{line}\n" for line in lines):
            if len(cells) != len(_HEADER):
                raise ValueError(f"has {len(cells)} cells in a row, not {len(_HEADER)}")
            yield cells
    except CsvError as error:
        raise ValueError(f"a row is no CSV: {error}") from None


def _object(cell: str) -> Any:
    """Return the JSON of a cell."""
    try:
        return fields_in(json.loads(cell or "{}"))
    except ValueError:
        raise ValueError(f"{cell!r:.60} is no object of JSON") from None
