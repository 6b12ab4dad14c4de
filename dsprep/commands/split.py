"""``split``: a data set as training, validation and test lists, as folds, or as a tree of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl

from dsprep.errors import OptionError
from dsprep.keywords import SplitOptions, called_with
from dsprep.lists.rows import format_rows, require_fitting
from dsprep.lists.store import CLASSES, STREAM, format_classes
from dsprep.options import require_effect
from dsprep.plan.destination import require_local
from dsprep.progress import Progress
from dsprep.splits.leaks import Copies, find_copies, find_leaks
from dsprep.splits.materialize import (
    Place,
    materialize_tree,
    only_writer,
    plan_tree,
    require_apart,
    require_clean,
    write_lists,
)
from dsprep.splits.near import require_imagehash
from dsprep.splits.report import SplitReport, lists_of, planned_report
from dsprep.splits.samples import Samples, read_samples, require_sense, source_of_split
from dsprep.splits.sides import Sides, choose_sides, given_sides
from dsprep.storage.location import is_s3, require_disk
from dsprep.units import format_some
from dsprep.workers.pool import available_cores


@called_with(SplitOptions)
def split(options: SplitOptions) -> SplitReport:
    """Split a data set: every sample is on exactly one side.

    ``sources`` is a directory of images or anything else that :func:`dsprep.pack` takes, also
    several of these; or a ``.lst``, or ``-`` for one on stdin. ``out`` is the directory of the
    lists. ``ratios`` are the shares of the sides; by default 0.8, 0.1 and 0.1 for train, val and
    test.

    Returns:
        What was done.

    Raises:
        OptionError: If the arguments make no sense.
        SourceError: If the source cannot be split like this.
        DestinationError: If the destination refuses.
    """
    began = time.monotonic()
    require_sense(options)
    source, out = source_of_split(options), Path(options.out)
    require_disk(options.out)
    require_local(options.out)
    if options.near:
        require_imagehash()
    workers = available_cores() if options.workers is None else options.workers
    progress, materialize = options.progress or Progress(), options.materialize
    samples, values = read_samples(source, options, workers)
    if values is not None:
        require_effect("split", options.given, assigned=options.assign)
    _require_files(samples, options)
    copies: list[Copies] = []
    notes: list[str] = []
    if options.leaks is not None and samples.root is not None and samples.sizes is not None:
        sizes = pl.DataFrame([samples.rows["path"], samples.sizes.alias("size")])
        distance = 4 if options.near_distance is None else options.near_distance
        copies, notes = find_copies(
            samples.root, sizes, distance if options.near else None, workers, progress
        )
    if values is None:
        sides = choose_sides(options, samples, copies if options.leaks == "together" else [])
    else:
        sides = given_sides(options, values)
    found = find_leaks(copies, sides.of_samples(), samples.rows["path"]) if copies else []
    report = planned_report(options, out, samples, sides, found, notes)
    places = _places(out, samples, sides) if materialize else []
    rows = samples.rows
    if materialize:
        rows = rows.with_columns(path=pl.Series([target for _, target in places]))
        require_fitting(rows, samples.name)
    if not options.dry_run:
        named = (*source.files(), source.root, options.assign, *source.others)
        inputs = [path for path in named if path and path != STREAM]
        with only_writer(out):
            if materialize and samples.root:
                # The lists come last: where they are, the tree is whole.
                materialize_tree(materialize, samples.root, out, places, progress)
            files = _lists(rows, sides, options.folds is not None)
            if samples.classes is not None:
                files[CLASSES] = format_classes(samples.classes).encode
            written = write_lists(out, files, overwrite=options.overwrite, inputs=inputs)
            report = replace(
                report,
                state="split" if written else "already split",
                notes=[*report.notes, *_strangers(out, {*files}, inputs)],
            )
    return replace(report, destination=options.out, seconds=time.monotonic() - began)


def _require_files(samples: Samples, options: SplitOptions) -> None:
    """Refuse to compare or to place samples that are not files of their own."""
    if options.materialize is not None and is_s3(samples.root or ""):
        raise OptionError(
            "--materialize needs the images on a disk: bring them there, dsprep sync "
            f"{samples.root} DIR"
        )
    for name, value in (("--leaks", options.leaks), ("--materialize", options.materialize)):
        if value is not None and not samples.in_files:
            raise OptionError(
                f"{name} needs the images as files: unpack {samples.root}, and give the directory"
            )


def _places(out: Path, samples: Samples, sides: Sides) -> list[Place]:
    """Choose where each file goes in the tree."""
    assert samples.root is not None
    if samples.in_folders or samples.table:
        require_apart(out, samples.root)
    tree = plan_tree(samples.rows, sides.of_samples(), samples.classes, samples.in_folders)
    places = list(tree.iter_rows())
    require_clean(out, sides.names, places)
    return places


def _lists(rows: pl.DataFrame, sides: Sides, in_folds: bool) -> dict[str, Callable[[], bytes]]:
    def content(numbers: Sequence[int]) -> bytes:
        return format_rows(rows.filter(sides.numbers.is_in(numbers))).encode()

    lists = lists_of(sides, in_folds)
    return {f"{name}.lst": partial(content, numbers) for name, numbers in lists.items()}


def _strangers(out: Path, files: set[str], inputs: Sequence[str]) -> list[str]:
    """Name the lists in the directory that are not of this split."""
    read = {os.path.realpath(path) for path in inputs}
    names = sorted(
        path.name
        for path in out.glob("[!.]*.lst")
        if path.name not in files and os.path.realpath(path) not in read
    )
    return [f"{out} has lists that are not of this split: {format_some(names)}"] if names else []
