"""Read XML that anybody may have written: no entities, no deep trees."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

DEEPEST = 32  # elements in one another
_TOO_DEEP = "/".join("*" * DEEPEST)


def parser_into(builder: TreeBuilder) -> expat.XMLParserType:
    """Return a parser that builds elements, and refuses to declare entities."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = builder.start, builder.end
    parser.CharacterDataHandler, parser.EntityDeclHandler = builder.data, refuse_entities
    return parser


def refuse_entities(*_: Any) -> None:
    """Raise an error, as entities may grow beyond any memory."""
    raise ValueError("declares entities, which are not read")


def root_of(data: bytes) -> Element:
    """Return the root of a document; a ValueError says why there is none."""
    builder = TreeBuilder()
    try:
        parser_into(builder).Parse(data, True)
    except (expat.ExpatError, LookupError) as error:  # an encoding that nobody knows
        raise ValueError(f"is no XML: {error}") from None
    root = builder.close()
    if root.find(_TOO_DEEP) is not None:
        raise ValueError(f"has more than {DEEPEST} elements in one another")
    return root
