"""Annotations that `test_recipes.py` adds as CONTRIBUTING.md tells: lines of an image and a box."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.annotations.objects import Object, Objects
from dsprep.declared import Options, option
from dsprep.errors import SourceError
from dsprep.sources.annotated.annotated import Annotations, Scan
from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind
from dsprep.sources.kind import Claim, Sure
from dsprep.text import read_text

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.source import Source


class Lines(Annotations):
    """The box and the class number of each image. It is plain data, which workers get."""

    boxes: tuple[tuple[float, float, float, float], ...]
    numbers: tuple[int, ...]

    def opened(self, places: Sequence[int]) -> AbstractContextManager[Callable[[int], Objects]]:
        return nullcontext(lambda at: self._objects(places[at]))

    def _objects(self, number: int) -> Objects:
        return Objects((Object(self.boxes[number], self.numbers[number]),))


class LinesOptions(Options):
    """The options that only such a file has."""

    lines_skipped: int | None = option("Annotations", "Lines to skip at the beginning.")


class LinesKind(AnnotationKind):
    """A file whose lines are an image, a class and the four edges of a box."""

    names: ClassVar = ("lines",)
    words: ClassVar = "lines of boxes"
    help: ClassVar = "a file of lines of boxes"
    extensions: ClassVar = (".lines",)
    files: ClassVar = re.compile(r"\.lines$")
    texts: ClassVar = files
    options: ClassVar = LinesOptions

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        return {"lines": Lines}

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        found = place.first(self.files, "lines")
        return Claim(Sure.MARKED, found) if found else None

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.numbering import Known, number_classes

        used = [] if place.named else [place.first(self.files, "lines")]
        path = place.named[0].path if place.named else f"{place.root.rstrip('/')}/{used[0]}"
        text = read_text(path) if place.named else place.files.text(place.root, path) or ""
        skipped = source.options_of(LinesOptions).lines_skipped or 0
        rows = [line.split() for line in text.splitlines()[skipped:]]
        if any(len(row) != 6 for row in rows):
            raise SourceError(f"{path}: a line is an image, a class and four numbers")
        classes = number_classes({row[1] for row in rows}, Known(), path)
        return Scan(
            annotations=Lines(
                tuple((float(a), float(b), float(c), float(d)) for _, _, a, b, c, d in rows),
                tuple(classes.index(row[1]) for row in rows),
            ),
            names=[row[0] for row in rows],
            counts=[1] * len(rows),
            texts=[0] * len(rows),
            classes=classes,
            ids=(),
            digest=hashlib.sha256(text.encode()).hexdigest(),
            where=path,
            used=used,
        )
