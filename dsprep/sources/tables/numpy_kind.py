"""Arrays whose rows are samples, as a kind of source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.errors import OptionError
from dsprep.sources.kind import Claim, SourceKind, SourcePlace, Sure
from dsprep.sources.source import ARRAYS

if TYPE_CHECKING:
    from dsprep.catalog import SourceScan
    from dsprep.places.scan import RunAll
    from dsprep.sources.source import Source


class ArraysKind(SourceKind):
    """Arrays of NumPy and SciPy whose rows are samples."""

    names: ClassVar[tuple[str, ...]] = ("numpy",)
    help: ClassVar[str] = "numpy, arrays whose rows are samples"
    noun: ClassVar[str] = "arrays of NumPy"
    surest: ClassVar[Sure] = Sure.NAMED

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.tables.arrays import Array, ArrayReader

        return {"array-reader": ArrayReader, "array-file": Array}

    def claim(self, place: SourcePlace, source: Source) -> Claim | None:
        if source.kind is None and source.root.endswith(ARRAYS):
            return None if place.is_dir else Claim(Sure.MARKED, "arrays of NumPy")
        if source.kind is None and source.labels is not None and source.labels.endswith(ARRAYS):
            # only NumPy arrays take an array of labels
            return Claim(Sure.NAMED, "an array of --labels")
        return self.named_claim(source)

    def scan(self, source: Source, place: SourcePlace, run_all: RunAll) -> SourceScan | None:
        if source.kind is None and not source.root.endswith(ARRAYS):
            raise OptionError(f"--labels {source.labels}: an array labels the rows of an array")
        from dsprep.sources.tables.tabular import read_arrays

        source.require_alone()
        if source.labels is not None and not source.labels.endswith(ARRAYS):
            raise OptionError(f"--labels {source.labels}: labels of arrays are an array, NAME.npy")
        return read_arrays(source, source.root, run_all) if place.is_file else None
