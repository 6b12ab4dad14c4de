"""The schema: which fields the samples of a data set have, of which types, under which names.

A *raw* sample has the names and values that lie in a source; a *typed* sample has those of the
schema. What a raw name means is each format's own table (`dsprep.formats.base.Format.meaning`).

Entry: `observe` looks at raw samples, `settle` makes a `Schema`, `Reading` makes typed samples.
Always: each typed sample has the fields of the schema; neither polars nor Pillow is imported.
Tests: tests/schema, tests/formats/test_fields.py.
"""

from dsprep.schema.choice import Choice
from dsprep.schema.fields import FACTS, IMAGE, LABEL, TYPES, Field, Place, Schema, Type, join
from dsprep.schema.look import (
    IMAGE_ID,
    LABEL_FLOATS,
    LABEL_TEXT,
    OBJECTS,
    Meaning,
    Observed,
    PlaceSummary,
    Table,
    is_image,
    observe,
    shown,
    type_of,
)
from dsprep.schema.reading import Reading
from dsprep.schema.rules import BY_FILES, BY_SOURCE, BY_VALUES, IMAGE_NAMES, LABEL_NAMES
from dsprep.schema.settle import SettledSchema, idle_names, impose, select, settle

# fmt: off
__all__ = [
    "BY_FILES", "BY_SOURCE", "BY_VALUES", "Choice", "FACTS", "Field", "IMAGE", "IMAGE_ID",
    "IMAGE_NAMES", "LABEL", "LABEL_FLOATS", "LABEL_NAMES", "LABEL_TEXT", "Meaning", "OBJECTS",
    "Observed", "Place", "PlaceSummary", "Reading", "Schema", "SettledSchema", "TYPES", "Table",
    "Type", "idle_names", "impose", "is_image", "join", "observe", "select", "settle", "shown",
    "type_of",
]
