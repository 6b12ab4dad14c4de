"""The options that only Pascal VOC's annotations have."""

from __future__ import annotations

from dsprep.declared import Options, option


class VocOptions(Options):
    """How coordinates count."""

    voc_origin: int | None = option(
        "Annotations",
        "The number of the first pixel in Pascal VOC's boxes: 0 or 1.  [default: 0 if a coordinate "
        "is 0, else 1]",
        metavar="0|1",
        least=0,
        rare=True,
    )
