"""The options that only tables of tags have."""

from __future__ import annotations

from dsprep.declared import Options, option


class TagOptions(Options):
    """What cells of tags mean."""

    uncertain: str | None = option(
        "Annotations",
        "What -1 becomes in a table of tags, as CheXpert has it for what is uncertain: 0, 1, or -1 "
        "with keep.",
        choices=("0", "1", "keep"),
        rare=True,
    )
