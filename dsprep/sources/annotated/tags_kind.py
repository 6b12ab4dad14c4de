"""Tables with a column of 0 and 1 for each tag, as a kind of annotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from dsprep.patterns import pattern
from dsprep.places.names import side_name
from dsprep.sources.annotated.tag_options import TagOptions
from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind
from dsprep.sources.heads import is_harmless
from dsprep.sources.kind import Claim, Sure
from dsprep.sources.labels.columns import columns_of_tags
from dsprep.sources.unread import text_of

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

_CSV = pattern(r"(?i)\.csv$")
_ROBOFLOW = pattern(r"(?:^|/)_classes\.csv$")
_HEADER = pattern(r'\s*"?filename"?\s*,.')  # of Roboflow
_PATHS = ("path", "filename", "file_name", "image", "image_path")
_IMAGES = ("image", "image_id", "image_name", "filename")  # beside tags alone
_FOLD = pattern(r"(?i)(?:^|[\W_])(?:fold|split)s?(?![a-z])")
_LOOKED_AT = 50  # rows
_FEWEST = 2  # columns of tags
_FEWEST_ALONE = 3  # columns of tags, in a table of nothing else


class TagTableKind(AnnotationKind):
    """A table with a column of 0 and 1 for each tag, as Roboflow and CheXpert have it."""

    names: ClassVar = ("tags",)
    words: ClassVar = "tags in a table"
    contents: ClassVar = (
        "tags: Roboflow's `_classes.csv`; CheXpert's `train.csv` and tables like it, whose -1 is "
        "what `--uncertain` says; tables of images and tags alone, as ISIC has them; a side from "
        "each table"
    )
    not_read: ClassVar = "further columns"
    example: ClassVar = "dsprep pack CheXpert-v1.0-small shards --to webdataset --uncertain 0"
    files: ClassVar = _ROBOFLOW
    texts: ClassVar = _CSV
    options: ClassVar = TagOptions
    takes_several: ClassVar = True
    takes_members: ClassVar = True

    def is_own(self, path: str, head: bytes) -> bool:
        text = text_of(head)
        if _ROBOFLOW.search(path):
            return _HEADER.match(text) is not None
        if not _CSV.search(path) or is_harmless(path):
            return False
        return _has_tags_alone(text) or ("-1" in text and _is_uncertain(text))

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        heads = place.heads(_CSV)
        found = min((path for path in heads if self.is_own(path, heads[path])), default="")
        # Tables of other kinds may have columns of 0, 1 and -1.
        sure = Sure.MARKED if _ROBOFLOW.search(found) else Sure.SHAPED
        return Claim(sure, found) if found else None

    def read_in_archive(self, place: AnnotatedPlace) -> Sequence[str]:
        return self._alike(place)

    def _alike(self, place: AnnotatedPlace) -> list[str]:
        """Return the tables with the columns of the one that is claimed, or of its name."""
        claim = self.claim(place)
        if claim is None:
            return []
        if claim.sure == Sure.MARKED:
            return [path for path in place.with_extension("csv") if _ROBOFLOW.search(path)]
        first = _first_line(place.head(claim.why))
        tables = [path for path in sorted(place.with_extension("csv")) if not is_harmless(path)]
        heads = place.heads_of(tables)
        return [path for path in tables if _first_line(heads.get(path, b"")) == first]

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.tags import scan_tags

        return scan_tags(source, place, self._alike(place))


def _first_line(head: bytes) -> str:
    return text_of(head).partition("\n")[0].strip()


def _has_tags_alone(text: str) -> bool:
    """Return whether a table names images, and all its other columns are of 0 and 1.

    Columns that are called like sides or folds may be no tags: the user has to name those that are.
    """
    if text.partition(",")[0].strip().strip('"').lower() not in _IMAGES:
        return False
    names, rows = _columns_and_rows(text)
    if any(side_name(name) or _FOLD.search(name) for name in names):
        return False
    cells = {cell.strip() for row in rows for cell in row[1:]}
    are_flags = cells in ({"0", "1"}, {"0.0", "1.0"})
    return len(names) > _FEWEST_ALONE and are_flags and all(len(row) == len(names) for row in rows)


def _columns_and_rows(text: str) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return the names of columns, and the first whole rows."""
    header, *lines = text.split("\n")[: _LOOKED_AT + 1]
    names = [name.strip().strip('"') for name in header.split(",")]
    return names, [line.rstrip("\r").split(",") for line in lines[:-1] or lines]


def _is_uncertain(text: str) -> bool:
    """Return whether a table names images and has tags, and some of the tags are uncertain."""
    names, rows = _columns_and_rows(text)
    if not any(name.lower() in _PATHS for name in names):
        return False
    tags = columns_of_tags(names, rows)
    cells = {row[names.index(name)].strip() for name in tags for row in rows if len(row) > 1
             and names.index(name) < len(row)}  # fmt: skip
    has_both = bool(cells & {"-1", "-1.0"}) and bool(cells & {"", "0", "0.0"})
    return len(tags) >= _FEWEST and has_both
