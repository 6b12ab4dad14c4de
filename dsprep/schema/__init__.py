"""The schema: which fields the samples of a data set have, of which types, under which names.

A data set has one schema, and each of its samples has its fields. A *raw* sample has the names and
values that lie in a source; a *typed* sample has those of the schema. :func:`observe` looks at raw
samples, :func:`settle` makes a schema of what it found and of what the source says of itself, and a
:class:`Reading` makes typed samples of raw ones. What a raw name means is each format's own table
(:meth:`dsprep.formats.base.Format.meaning`).

Workers import this on every sample's way, and so it imports neither polars nor Pillow.
"""

from dsprep.schema.fields import FACTS, IMAGE, LABEL, TYPES, Field, Place, Schema, Type, join
from dsprep.schema.reading import Reading
from dsprep.schema.settle import (
    IMAGE_ID,
    IMAGE_NAMES,
    LABEL_FLOATS,
    LABEL_NAMES,
    LABEL_TEXT,
    OBJECTS,
    Choice,
    Meaning,
    Observed,
    Seen,
    Settled,
    Table,
    idle_names,
    impose,
    is_image,
    observe,
    select,
    settle,
    shown,
    type_of,
)

# fmt: off
__all__ = [
    "Choice", "FACTS", "Field", "IMAGE", "IMAGE_ID", "IMAGE_NAMES", "LABEL", "LABEL_FLOATS",
    "LABEL_NAMES", "LABEL_TEXT", "Meaning", "OBJECTS", "Observed", "Place", "Reading", "Schema",
    "Seen", "Settled", "TYPES", "Table", "Type", "idle_names", "impose", "is_image", "join",
    "observe", "select", "settle", "shown", "type_of",
]
