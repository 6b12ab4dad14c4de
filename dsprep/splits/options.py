"""The options of ``split``, and those that say which images are copies.

Importing this must stay cheap: ``--help`` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from dsprep.arguments import AnyPath
from dsprep.declared import Options, field, option
from dsprep.plan.options import CommandOptions, GroupOptions, SizeOptions
from dsprep.sources.options import ClassOptions, FieldOptions, SourceOptions

_source = partial(option, "Source")
_output = partial(option, "Output")
_split = partial(option, "Split")
_leaks = partial(option, "Copies")


class NearOptions(Options):
    """Which images are copies."""

    near: bool = _leaks("Also find images that look alike; needs numpy.", default=False)
    near_distance: int | None = _leaks(
        "Bits of 64-bit perceptual hashes that may differ, at most 16.  [default: 4]", least=0
    )


class SplitOptions(
    CommandOptions,
    GroupOptions,
    SizeOptions,
    FieldOptions,
    ClassOptions,
    SourceOptions,
    NearOptions,
):
    """The options of ``split``."""

    out: AnyPath = field(kw_only=False)
    to: str | None = _output(
        "Write the sides as shards of this format, train-000000.tar, instead of lists."
    )
    apart: bool = _output(
        "Write shards alone to DIR, and manifest.json, classes.txt and the others beside it, as "
        "DIR.manifest.json.",
        default=False,
    )
    root: AnyPath | None = _source(
        "Directory of the files of SOURCE, if that is a list.", metavar="DIR"
    )
    ratios: Mapping[str, str | float] | None = None  # the command line has --ratio
    folds: int | None = _split(
        "Number of pairs of lists for cross-validation, instead of sides.", least=2
    )
    stratify: bool = _split(
        "Divide each class by the ratios (default), or only the whole data set.", default=True
    )
    stable: bool = _split(
        "Choose the side of a sample only by the hash of its key or group, so a data set that "
        "grows never moves a sample.",
        default=False,
    )
    seed: int | None = _split(
        "Random seed; a different seed gives a different split.  [default: 0]", least=None
    )
    assign: AnyPath | None = _split(
        "Take sides from a column of a CSV or TSV file; or classes from ImageNet's "
        "ILSVRC2012_validation_ground_truth.txt or LOC_val_solution.csv.",
        metavar="FILE",
    )
    assign_column: str | None = _split("Column of sides in --assign.", metavar="NAME")
    skip_unmatched: bool = _split("Skip rows of --assign that name no sample.", default=False)
    leaks: str | None = _leaks(
        "Find copies of images by their bytes; report copies on different sides, or keep them on "
        "one side.",
        choices=("report", "together"),
    )
    materialize: str | None = _output(
        "Also make a tree SIDE/CLASS/NAME in that directory; the lists name its files.",
        choices=("hardlink", "symlink", "copy"),
    )
    overwrite: bool = _output("Replace lists and classes.txt, or shards.", default=False)
