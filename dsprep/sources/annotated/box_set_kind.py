"""What kinds have in common that are one data set, whose tables tell a box of each image or more.

Such a kind says what a file is called that shows it, and what this begins with if the name alone
does not tell. What reads the tables is its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind
from dsprep.sources.kind import Claim, Sure
from dsprep.sources.unread import text_of


class BoxSetKind(AnnotationKind):
    """A data set with boxes in tables, or in files of MATLAB.

    Attributes:
        marker: What a file is called that shows the data set.
        endings: The extensions of such files.
        begins: What such a file begins with; None if its name tells all.
    """

    takes_members: ClassVar = True
    marker: ClassVar[re.Pattern[str]]
    endings: ClassVar[Sequence[str]]
    begins: ClassVar[re.Pattern[str] | None] = None

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.annotated.boxes import TableBoxes

        return {"table-boxes": TableBoxes}

    def is_own(self, path: str, head: bytes) -> bool:
        is_called = self.marker.search(path) is not None
        return is_called and (self.begins is None or self.begins.match(text_of(head)) is not None)

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        if self.begins is None:
            found = place.first(self.marker, *self.endings)
        else:
            heads = place.heads(self.marker)
            found = min((path for path in heads if self.is_own(path, heads[path])), default="")
        return Claim(Sure.MARKED, found) if found else None
