"""The options of ``dsprep lst``, declared as :mod:`dsprep.declared` says.

Importing this must stay cheap: ``dsprep lst --help`` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from dsprep.arguments import AnyPath
from dsprep.declared import Options, field, option

if TYPE_CHECKING:
    Source = Any  # a class of a room above, which the module of the public function imports

_rows, _change = partial(option, "Rows"), partial(option, "Change")
_list, _run = partial(option, "List"), partial(option, "Run")
_compare, _check = partial(option, "Compare"), partial(option, "Check")

_dry_run = _run("Print what would be done, write nothing.", default=False)


def _out(where: str, default: str | None = None) -> Any:
    shown = f'{where}; "-" is stdout.  [default: {default or "LIST"}]'
    return _list(shown, default=default, metavar="FILE")


def _classes(beside: str, names: str = "Names of the classes.") -> Any:
    return _list(f"{names}  [default: classes.txt beside {beside}]", metavar="FILE")


class _ListOptions(Options):
    path: AnyPath = field(kw_only=False)


class _NewOptions(Options):
    overwrite: bool = _run("Replace the file of -o, and classes.txt beside it.", default=False)
    dry_run: bool = _dry_run


class _EditOptions(Options):
    out: AnyPath | None = _out("Write here")
    dry_run: bool = _dry_run


class CreateOptions(_NewOptions):
    """The options of ``lst create``."""

    source: Source | AnyPath = field(kw_only=False)
    out: AnyPath = field(kw_only=False)
    under: str = _list("Only samples in this directory of ROOT.", default="", metavar="DIR")
    shuffle: bool = _list("Shuffle the rows.  [default: shuffle]", default=True)
    seed: int = _list("Seed of the order.  [default: 0]", default=0, least=None)
    chunks: int = _list("Number of lists to cut it into: _0.lst, ….", default=1)
    train_ratio: float = _list(
        "Share of training samples: writes _train.lst, and _val.lst with the remaining ones.",
        default=1.0,
    )
    test_ratio: float = _list("Share of test samples: writes _test.lst.", default=0.0)
    overwrite: bool = _run("Replace lists and classes.txt.", default=False)
    workers: int | None = None  # the command line has --workers


class ListAppendOptions(_ListOptions):
    """The options of ``lst append``."""

    source: Source | AnyPath = field(kw_only=False)
    label: str | int | float | None = _list(
        "Label of all new rows: a class, or numbers separated by commas."
    )
    dry_run: bool = _dry_run
    workers: int | None = None  # the command line has --workers


class EditOptions(_EditOptions, _ListOptions):
    """The options of ``lst set``, ``remove`` and ``replace``: which rows are edited, and how."""

    paths: Sequence[str] = _rows(
        "Rows whose path matches; * and ? do not match /, ** does. A pattern without / is compared "
        "with the file name; repeatable.",
        default=(),
        metavar="GLOB",
    )
    ids: Sequence[str | int] = _rows(
        "Rows with these ids; repeatable.", default=(), metavar="N[-N]"
    )
    chosen: Sequence[str] = _rows(
        "Rows of this class, a name or a number; repeatable.", default=(), metavar="CLASS"
    )
    missing: bool = _rows("Rows whose file is missing below --root.", default=False)
    root: AnyPath | None = _rows(
        "Directory of the files, or shards with the samples, for --missing.  [default: the "
        "directory of LIST]",
        metavar="DIR",
    )
    label: str | int | float | None = _change(
        "The new label: a class, or numbers separated by commas."
    )
    new_path: str | None = _change("The new path, of one row.", metavar="PATH")
    prefix: tuple[str, str] | None = None  # instead of others: the prefix to replace, the new one
    classes: AnyPath | None = _classes("LIST")


class PatchOptions(_EditOptions, _ListOptions):
    """The options of ``lst patch``."""

    patch: AnyPath = field(kw_only=False)


class RelabelOptions(_EditOptions, _NewOptions):
    """The options of ``lst relabel``."""

    paths: Sequence[AnyPath] = field(kw_only=False)
    map_file: AnyPath = field(kw_only=False)
    new_classes: AnyPath | None = _change(
        "The new classes in order.  [default: sorted]", metavar="FILE"
    )
    keep_unmatched: bool = _change(
        "Rows that the map does not match keep their class.", default=False
    )
    renumber: bool = _change("Close gaps between class numbers without names.", default=False)
    classes: AnyPath | None = _classes("LIST", "Names of the old classes.")


class DiffOptions(Options):
    """The options of ``lst diff``."""

    a: AnyPath = field(kw_only=False)
    b: AnyPath = field(kw_only=False)
    ignore_ids: bool = _compare("Ignore ids; rows keep those of A.", default=False)
    ignore_order: bool = _compare("Ignore the order of rows.", default=False)
    content: bool = _compare(
        "Compare the files of rows that no path pairs: those with equal bytes were moved.",
        default=False,
    )
    roots: Sequence[AnyPath] = _compare(
        "Directory of the files, for --content; given twice, that of A and that of B.",
        default=(),
        metavar="DIR",
    )
    classes: AnyPath | None = _classes("each list")


class MergeOptions(Options):
    """The options of ``lst merge``."""

    base: AnyPath = field(kw_only=False)
    ours: AnyPath = field(kw_only=False)
    theirs: AnyPath = field(kw_only=False)
    out: AnyPath = _out("Write here, also over one of the lists", "-")
    # who decides conflicts: with None, both sides are written, between markers
    decide: Literal["ours", "theirs"] | None = None
    classes: AnyPath | None = _classes("each list")


class StatsOptions(_ListOptions):
    """The options of ``lst stats``."""

    classes: AnyPath | None = _classes("LIST")


class CheckOptions(StatsOptions):
    """The options of ``lst check``."""

    root: AnyPath | None = _check(
        "Look up the files below this directory, or the samples in these shards: missing ones and "
        "empty files are faults.",
        metavar="DIR",
    )
    reader: str | None = _check(
        "Check the requirements of SageMaker's image classification, or of MXNet's readers.",
        choices=("sagemaker", "mxnet"),
    )


class SampleOptions(_NewOptions, _ListOptions):
    """The options of ``lst sample``."""

    fraction: float | None = _rows("About this share of the rows, 0 to 1.", metavar="F")
    count: int | None = _rows("Number of rows.")
    per_class: int | None = _rows("Number of rows of each class, or all if it has fewer.")
    balanced: bool = _rows("As many rows of each class as the smallest has.", default=False)
    seed: int = _rows("A different seed takes other rows.  [default: 0]", default=0, least=None)
    strict: bool = _rows("Fail if there are fewer rows than asked for.", default=False)
    out: AnyPath = _out("Write here, with classes.txt beside it", "-")
    classes: AnyPath | None = _classes("LIST")
