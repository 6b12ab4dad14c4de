"""Tables of text whose rows are samples, as a kind of source."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.declared import Options
from dsprep.sources.kind import Claim, SourceKind, SourcePlace, Sure
from dsprep.sources.tables.csv_options import PixelColumnOptions
from dsprep.storage.files import is_file

if TYPE_CHECKING:
    from dsprep.catalog import SourceScan
    from dsprep.places.scan import RunAll
    from dsprep.sources.source import Source

TABLES = (".csv", ".tsv")


class CsvKind(SourceKind):
    """Tables whose rows are samples; with a folder, a table of labels is an option."""

    names: ClassVar[tuple[str, ...]] = ("csv",)
    help: ClassVar[str] = "csv, tables whose rows are samples"
    noun: ClassVar[str] = "a CSV file whose rows are samples"
    options: ClassVar[type[Options]] = PixelColumnOptions

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.labels.columns import Columns
        from dsprep.sources.tables.csv_rows import CsvReader
        from dsprep.sources.tables.pixel_columns import PixelColumns

        return {"csv-reader": CsvReader, "csv-columns": Columns, "pixel-columns": PixelColumns}

    def claim(self, place: SourcePlace, source: Source) -> Claim | None:
        if source.kind is None and not all(file.lower().endswith(TABLES) for file in place.files):
            return None
        if not all(map(is_file, place.files)):
            return None
        # If a manifest names them, --from csv means shards, which are surer.
        ending = f"files ending in {os.path.splitext(place.path)[1]}"
        return Claim(Sure.MARKED, ending if source.kind is None else self.named)

    def scan(self, source: Source, place: SourcePlace, run_all: RunAll) -> SourceScan | None:
        from dsprep.sources.tables.tabular import read_csv

        return read_csv(source, place.files, run_all)
