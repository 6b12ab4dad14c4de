"""How shards were made: the options that a manifest records, as the values that they were."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dsprep.dataset.manifest import Manifest
from dsprep.errors import OptionError, SourceError
from dsprep.formats import FORMATS, Format
from dsprep.images.decode import DEFAULT_MAX_PIXELS
from dsprep.images.transform import Transform
from dsprep.schema import Choice


@dataclass(frozen=True)
class Recorded:
    """How shards were made, as far as reading them depends on it."""

    layout: Format  # the format
    transform: Transform | None = None  # what was done to images; None if their bytes were copied
    max_pixels: int = DEFAULT_MAX_PIXELS  # the most pixels that an image could have
    key: str = "path"  # `path` or `index`: where keys came from
    # the fields that do not depend on the geometry of images
    keep_fields: frozenset[str] = frozenset()
    # which fields were kept: `only`, `drop` and `rename`; empty if all were
    fields: Choice = Choice()
    known: bool = True  # whether this was recorded; if not, it is what is most likely


def options_of_others(layout: Format, single_file: bool) -> dict[str, Any]:
    """The options in the manifest of shards that something else wrote: nothing tells which."""
    return {"format": {"name": layout.name}, "indexed": True, "single_file": single_file}


def _chosen(told: Mapping[str, Any]) -> Choice:
    """Return the choice of fields that a manifest records."""
    only, drop = (tuple(map(str, told.get(name, ()))) for name in ("only", "drop"))
    return Choice(only=only, drop=drop, rename=dict(told.get("rename", {})))


def recorded_options(manifest: Manifest) -> Recorded:
    """Read the options of a manifest, which may come from anywhere."""
    if manifest.format not in FORMATS:
        raise SourceError(f"the format {manifest.format!r:.40} is not one that dsprep knows")
    try:
        options = manifest.options
        if options.get("indexed") is True:
            return Recorded(FORMATS[manifest.format](), known=False)
        layout = {name: value for name, value in options["format"].items() if name != "name"}
        made = Recorded(
            FORMATS[manifest.format](**layout),
            None if options["transform"] is None else Transform.from_json(options["transform"]),
            int(options["max_pixels"]),
            str(options["key"]),
            frozenset(map(str, options.get("keep_fields", ()))),
            _chosen(options.get("fields", {})),
        )
        # What was converted to the right type, or left out, is not what was recorded.
        told = json.loads(json.dumps({"name": made.layout.name, **made.layout.options()}))
        if (told, made.max_pixels) == (options["format"], options["max_pixels"]):
            return replace(made, layout=replace(made.layout, schema=manifest.schema))
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, OptionError):
        pass
    raise SourceError("its options are not those of this version of dsprep")
