"""What is to be packed, and how: all that the bytes of the output depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dsprep.formats import Format
from dsprep.images.transform import Transform
from dsprep.plan.cuts import ShardSize
from dsprep.plan.destination import Destination
from dsprep.plan.recipe import Recipe
from dsprep.schema import Schema
from dsprep.sources.reading import Source

if TYPE_CHECKING:
    from dsprep.catalog import Catalog


@dataclass(frozen=True)
class Packing:
    """What is to be packed, and how: all that the bytes of the output depend on."""

    source: Source  # the images and their labels
    destination: Destination  # where the shards go
    layout: Format  # the format
    transform: Transform | None  # what is done to images; None copies their bytes
    size: ShardSize  # how large shards are to be
    name: str  # what shard names begin with
    seed: int | None  # the order is shuffled by it; None keeps the source's order
    check: str | None  # `decode`, `header` or `none`; None for what suits format and source
    readable: frozenset[str] | None  # the kinds of image that may be written; None for any
    max_pixels: int  # the most pixels that an image may have
    key: str  # `path` or `index`: where keys come from
    filter: str | None = None  # an expression that is true for the samples to take; None for all
    filter_table: str | None = None  # a table with more columns for it
    # the fields that do not depend on the geometry of the image
    keep_fields: frozenset[str] = frozenset()
    given: Mapping[str, Any] = field(default_factory=dict)  # the options that were given
    command: str = ""  # the name of the command
    copies: bool = False  # whether encoded samples are copied as they are
    raw: bool = False  # whether samples stay raw: those of the same format, with fields as they are
    schema: Schema | None = None  # the schema of the samples to write; None if nothing tells it
    first_shard: int = 0  # the number of the first shard, after those that are there already
    first_id: int = 0  # what is added to ids, likewise

    def options(self) -> dict[str, Any]:
        """The options as the manifest records them: no paths, nothing of this machine."""
        options = {
            "format": {"name": self.layout.name, **self.layout.options()},
            "transform": asdict(self.transform) if self.transform else None,
            "size": self.size.options(),
            "single_file": self.destination.single is not None,
            "seed": self.seed,
            "check": self.check,
            "readable": None if self.readable is None else sorted(self.readable),
            "max_pixels": self.max_pixels,
            "key": self.key,
        }
        if chosen := self.source.choice.options():
            options["fields"] = chosen
        if self.keep_fields:
            options["keep_fields"] = sorted(self.keep_fields)
        if self.filter is not None:
            # The path of the table is one of this machine.
            options["selection"] = {"filter": self.filter, "table": self.filter_table is not None}
        if self.source.class_order == "natural":
            options["class_order"] = self.source.class_order
        if self.copies:
            options["copies"] = True
        return options

    def recipe(self, catalog: Catalog) -> Recipe:
        """How workers make the samples of a catalog."""
        assert catalog.settled is not None
        reader = catalog.reader
        if self.raw and reader.reading is not None:
            reader = replace(reader, reading=replace(reader.reading, raw=True), pixels=None)
        return Recipe(
            reader=reader,
            schema=catalog.settled.schema,
            layout=self.layout,
            transform=self.transform,
            check=self.check or "header",
            readable=self.readable,
            max_pixels=self.max_pixels,
            classes=catalog.classes,
            key=self.key,
            keep_fields=self.keep_fields,
            copies=self.copies,
            told=catalog.told,
        )
