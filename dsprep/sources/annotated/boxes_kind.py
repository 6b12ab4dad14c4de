"""Tables of boxes or of runs of pixels, as a kind of annotations."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind, NamedPath
from dsprep.sources.heads import is_harmless
from dsprep.sources.kind import Claim, Sure
from dsprep.sources.unread import text_of

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source


_ROBOFLOW = pattern(r"(?:^|/)_annotations\.csv$")


class BoxTableKind(AnnotationKind):
    """A table with a row for each box, or for the runs of pixels of each object."""

    names: ClassVar = ("csv",)
    words: ClassVar = "tables"
    help: ClassVar = "a CSV or TSV file"
    contents: ClassVar = (
        "boxes, or runs of pixels; the rows of Keras-RetinaNet without a header line; all boxes of "
        "an image in one cell, as Global Wheat has them; a side from each file"
    )
    not_read: ClassVar = "further columns"
    example: ClassVar = "dsprep pack photos shards --to webdataset --annotations boxes.csv"
    extensions: ClassVar = (".csv", ".tsv")
    files: ClassVar = pattern(r"\.[ct]sv$", re.IGNORECASE)
    reads: ClassVar = (
        *("--box", "--box-columns", "--no-object", "--class-names"),
        *("--path-column", "--label-column"),
    )
    takes_several: ClassVar = True
    takes_members: ClassVar = True

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.annotated.boxes import TableBoxes

        return {"table-boxes": TableBoxes}

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        found = min(self._of_roboflow(place), default="")
        return Claim(Sure.MARKED, found) if found else None

    def _of_roboflow(self, place: AnnotatedPlace) -> list[str]:
        """Return the tables of Roboflow's export: one in the directory of each side."""
        named = [path for path in place.with_extension("csv") if _ROBOFLOW.search(path)]
        if not named:
            return []
        from dsprep.sources.annotated.boxes import columns_of, holds_boxes

        heads = place.heads_of(named)
        return [path for path in named if holds_boxes(columns_of(text_of(heads.get(path, b""))))]

    def unclear(self, place: AnnotatedPlace) -> str:
        near = (path for path in place.others if path.count("/") <= 1)
        named = [path for path in near if self.files.search(path) and not is_harmless(path)]
        if not named:
            return ""
        from dsprep.sources.annotated.boxes import columns_of, holds_boxes

        found = dict[str, Sequence[str]]()
        for name in named:
            columns = columns_of(_whole_lines(place.head(name)))
            if holds_boxes(columns):
                found[name] = columns
        if not found:
            return ""
        first = next(iter(found))
        alike = [name for name in found if found[name] == found[first]]  # those of other sides
        paths = [name if place.files.archive else os.path.join(place.root, name) for name in alike]
        options = " ".join(f"--annotations {shlex.quote(path)}" for path in paths)
        return (
            f"has a table of boxes or masks, {first}: give {options}, or --from images to pack the "
            "images alone"
        )

    def looks_like(self, path: NamedPath) -> bool:
        from dsprep.sources.annotated.boxes import holds_boxes

        lines = path.head.split("\n")[:2]  # CelebA has the number of rows above the columns
        return any(holds_boxes(re.split(r"[,;\t ]+", line.strip())) for line in lines)

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.box_tables import scan_named
        from dsprep.sources.annotated.image_tables import used_below, with_named

        if place.named:
            return scan_named(source, place)
        paths = [f"{place.root.rstrip('/')}/{path}" for path in self._of_roboflow(place)]
        scan = scan_named(source, with_named(place, paths))
        return scan._replace(used=used_below(source, paths))


def _whole_lines(head: bytes) -> str:
    """Return the text of a head without its last line, which may be cut, if it has several."""
    text = text_of(head)
    return text.rpartition("\n")[0] or text
