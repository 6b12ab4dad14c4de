"""Data sets of images and masks in parallel directories: what their kinds have in common."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind
from dsprep.sources.kind import Claim

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.annotated.parallel_masks import Directories, MaskMeaning, Parallel
    from dsprep.sources.source import Source


class MaskSetKind(AnnotationKind):
    """A data set whose masks lie in directories that are parallel to those of its images.

    Attributes:
        directories_of_masks: How the directories may be called; the first that fit count.
        others: Images and other files of the data set that are known and not read.
    """

    gives_masks: ClassVar = True
    directories_of_masks: ClassVar[Sequence[Directories]]
    others: ClassVar[re.Pattern[str]]

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        return {}

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        from dsprep.sources.annotated.parallel_masks import parallel_in

        found = parallel_in(place, self.directories_of_masks)
        if found is None or not self.is_unmistakable(place, found):
            return None
        return Claim(self.surest, next(filter(None, found.masks)))

    def is_unmistakable(self, place: AnnotatedPlace, found: Parallel) -> bool:
        """Return whether such directories are those of this data set, and of no other."""
        return True

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.mask_sets import scan_masks
        from dsprep.sources.annotated.parallel_masks import parallel_in

        found = parallel_in(place, self.directories_of_masks)
        assert found is not None, "the kind has claimed the place"
        meaning = self.meaning(source, place, found)
        return scan_masks(source, place, found, meaning, self.others)

    @abstractmethod
    def meaning(self, source: Source, place: AnnotatedPlace, found: Parallel) -> MaskMeaning:
        """Read what else the data set tells of its images and masks."""
