"""From the options of a command to a format with its options."""

from __future__ import annotations

from dsprep.errors import OptionError
from dsprep.formats import FORMATS, Format


def make_layout(
    format_name: str,
    *,
    gzip: bool = False,
    features: str | None = None,
    metadata: bool = False,
    prefix: str = "",
    reencoded: bool = False,
) -> Format:
    """Return a format with the options that a user gave."""
    if format_name not in FORMATS:
        raise OptionError(f"format {format_name}: choose one of {', '.join(FORMATS)}")
    return FORMATS[format_name]().with_options(
        preset=features, gzip=gzip, metadata=metadata, prefix=prefix, reencoded=reencoded
    )
