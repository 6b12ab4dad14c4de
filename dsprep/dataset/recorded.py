"""How shards were made: the options that a manifest records, as the values that they were."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from dsprep.dataset.manifest import Manifest
from dsprep.errors import OptionError, SourceError
from dsprep.formats import FORMATS
from dsprep.formats.base import Format
from dsprep.images.transform import DEFAULT_MAX_PIXELS, Transform
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


def recorded_options(manifest: Manifest, path: str) -> Recorded:
    """Read the options of the manifest at a path, which may come from anywhere."""
    if manifest.format not in FORMATS:
        raise SourceError(
            f"{path}: the format {manifest.format!r:.40} is not one that dsprep knows"
        )
    try:
        options = manifest.options
        if options.get("indexed") is True:
            return Recorded(FORMATS[manifest.format](), known=False)
        fields = options.get("fields", {})
        only, drop = (tuple(map(str, fields.get(name, ()))) for name in ("only", "drop"))
        layout = {name: value for name, value in options["format"].items() if name != "name"}
        made = Recorded(
            FORMATS[manifest.format](**layout),
            None if options["transform"] is None else Transform.from_json(options["transform"]),
            int(options["max_pixels"]),
            str(options["key"]),
            frozenset(map(str, options.get("keep_fields", ()))),
            Choice(only=only, drop=drop, rename=dict(fields.get("rename", {}))),
        )
        # What was converted to the right type, or left out, is not what was recorded.
        told = json.loads(json.dumps({"name": made.layout.name, **made.layout.options()}))
        if (told, made.max_pixels) == (options["format"], options["max_pixels"]):
            return replace(made, layout=replace(made.layout, schema=manifest.schema))
    except SourceError as error:
        raise SourceError(f"{path}: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, OptionError):
        pass
    raise SourceError(f"{path}: its options are not those of this version of dsprep")
