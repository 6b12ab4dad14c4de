"""The options that only tables of text have."""

from __future__ import annotations

from collections.abc import Sequence

from dsprep.declared import Options, option


class PixelColumnOptions(Options):
    """Which columns of a table are an image."""

    pixel_columns: Sequence[str] = option(
        "Source",
        "Columns of a CSV file that hold the pixels of an image, from 0 to 255: one column of many "
        "numbers, or many columns, as 'pixel*' names them. Images are square and gray unless "
        "--raw-image tells their shape.",
        rare=True,
        default=(),
        metavar="NAME[,NAME...]",
    )
