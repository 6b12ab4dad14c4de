"""``dsprep split``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dsprep
from dsprep.cli.help import option_group
from dsprep.cli.options import command
from dsprep.cli.report import NOTHING_WRITTEN, rows_of, shards_line, show, skipped_text, some_of
from dsprep.declared import unchecked
from dsprep.errors import REJECTS_EXIT_CODE
from dsprep.progress import progress_for
from dsprep.splits.options import SplitOptions
from dsprep.units import format_count, format_duration, format_some

if TYPE_CHECKING:
    from dsprep.splitting.split import SplitReport

_FAR = 1.0  # counts that are less than this off are as near as whole numbers come


@command(
    "SOURCE...",
    SplitOptions,
    option_group("Split")(
        "--ratio",
        metavar="NAME=SHARE[,...]",
        help="Sides and their shares, which sum to 1; 1/3 is a share, too.  "
        "[default: the sides that SOURCE has, else train=0.8,val=0.1,test=0.1]",
    ),
    option_group("Output")(
        "-o", "--output", metavar="DIR", required=True, help="Directory of the lists or shards."
    ),
)
def split(
    source: tuple[str, ...],
    ratio: str | None,
    output: str,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Split a data set into training, validation and test lists, or shards.

    SOURCE is a directory or an archive of images, with --list or --labels if its directories are
    not the classes; or anything else that convert reads; or a .lst. The files of a .lst are looked
    at only with --root. dsprep writes a list for each side, NAME.lst, and classes.txt. Pass such a
    list to any command with --list to use its samples of SOURCE.

    Each class is divided by the ratios: its counts are less than one from their exact shares. Every
    sample is in exactly one list. The same samples and the same seed give the same split, in any
    order. Sides that SOURCE has, such as those of CIFAR, stay as they are: --ratio divides those
    again that it names.

    With --to, dsprep writes shards of each side instead of lists, to a directory or to s3://. All
    have the same classes and one manifest.

    \b
    Examples:
      dsprep split photos/ -o lists/
      dsprep split all.lst -o lists/ --ratio train=0.9,val=0.1
      dsprep split photos/ -o lists/ --group '(patient[0-9]+)' --leaks together
      dsprep split photos/ -o folds/ --folds 5
      dsprep split 'wds/train-{000000..000146}.tar' -o lists/
      dsprep split photos/ -o tree/ --materialize hardlink
      dsprep split photos/ -o shards/ --to webdataset --ratio train=0.9,val=0.1
    """
    from dsprep.splits.ratios import parse_ratios

    report = unchecked(dsprep.split)(
        source,
        output,
        ratios=None if ratio is None else parse_ratios(ratio),
        progress=progress_for(sys.stderr, quiet),
        **options,
    )
    incomplete = bool(report.rejects or report.leaks)
    show(report, _lines, as_json, quiet and not incomplete)
    return REJECTS_EXIT_CODE if incomplete else 0


def _lines(report: SplitReport) -> Iterator[str]:
    yield f"{report.destination}: {format_count(report.samples, 'sample')} {report.state}"
    written = report.written
    planned = report.state == "planned"
    width = max(9, *(len(facts.name) for facts in report.lists))
    lists, leaks, classes = [], [], ""
    for one in report.lists:
        line = f"{format_count(one.samples, 'sample')}, {one.samples / report.samples:.1%}"
        if one.wanted is not None and abs(one.samples - one.wanted) >= _FAR:
            line += f", {one.samples - one.wanted:+,.1f} from its share"
        lists.append(f"{one.name:<{width}} {line}")
    if report.classes:
        classes = f"{len(report.classes):,}"
        worst = max(report.classes, key=lambda facts: facts.off)
        if worst.off >= _FAR:
            classes += f"; farthest from its shares: {worst.name}, by {worst.off:,.1f} samples"
        elif worst.off:
            classes += ", each within one sample of its shares"
    for leak in report.leaks:
        where = format_some([f"{path} ({side})" for side, path in leak.samples])
        leaks.append(f"{'the same' if leak.kind == 'same' else 'alike'}: {where}")
    rejects = [f"{reject.path}: {reject.reason}" for reject in report.rejects]
    placed = f"{report.materialized}, in directories of the sides"
    # Sides that a file or SOURCE gives are not drawn.
    seed = "" if report.method.startswith("as ") else f", seed {report.seed}"
    yield from rows_of(("how", report.method + seed))
    yield from (f"  {text}" for text in some_of(lists))
    yield from rows_of(
        ("classes", classes),
        ("format", written and written.format),
        ("shards", written and shards_line(written)),
        *(("note", note) for note in report.notes),
        ("skipped", skipped_text(report.skipped)),
        *(("rejected", text) for text in some_of(rejects)),
        *(("leak", text) for text in some_of(leaks)),
        ("files", report.materialized and not planned and placed),
        ("time", format_duration(report.seconds)),
    )
    if planned:
        yield from NOTHING_WRITTEN
