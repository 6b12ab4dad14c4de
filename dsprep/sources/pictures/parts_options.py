"""The options that only samples of several files have."""

from __future__ import annotations

from collections.abc import Mapping

from dsprep.declared import Options, option


class PartsOptions(Options):
    """How files make up samples."""

    parts: bool = option(
        "Source",
        "Group files of one directory that share a name up to the first dot into one sample: "
        "1.jpg, 1.json.",
        default=False,
        rare=True,
    )
    pairs: Mapping[str, str] | None = option(
        "Source",
        "Group files whose * stands for the same text into one sample: --pair image=img/*.jpg "
        "--pair mask=masks/*.png",
        rare=True,
        metavar="FIELD=PATTERN",
    )
