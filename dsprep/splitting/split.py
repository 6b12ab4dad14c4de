"""``split``: a data set as training, validation and test lists, as folds, or as a tree of them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from dsprep.catalog import Catalog
from dsprep.declared import called_with
from dsprep.errors import OptionError, SourceError
from dsprep.lists.rows import ReadingNotes, format_rows, note_unlabeled, require_fitting
from dsprep.lists.store import CLASSES, STREAM, format_classes
from dsprep.opening import GivenPath
from dsprep.options import require_effect
from dsprep.places.names import pattern_of
from dsprep.plan.destination import require_local
from dsprep.plan.job import images_of
from dsprep.plan.options import PackOptions, SizeOptions
from dsprep.printable import json_values
from dsprep.progress import Progress
from dsprep.run.write import new_job, write
from dsprep.run.write_report import WriteReport
from dsprep.sources.layout import with_layout
from dsprep.sources.options import ClassOptions, FieldOptions, SourceOptions
from dsprep.sources.source import Source
from dsprep.splits.hashes import require_numpy
from dsprep.splits.leaks import Copies, Leak, find_copies, find_leaks
from dsprep.splits.options import SplitOptions
from dsprep.splits.ratios import Ratios
from dsprep.splits.samples import (
    Samples,
    assigned_sides,
    distance_of,
    read_samples,
    require_sense,
    samples_of,
    source_of_split,
)
from dsprep.splits.sides import Sides, choose_sides, given_sides, stratum_numbers
from dsprep.splitting.materialize import (
    materialize_tree,
    only_writer,
    plan_tree,
    require_apart,
    require_clean,
    write_lists,
)
from dsprep.storage.files import system_path
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some
from dsprep.workers.engine import open_executor
from dsprep.workers.executor import Executor


class ListFacts(NamedTuple):
    """A list of a split."""

    name: str  # name of the side, or of the fold and its part
    path: str  # where the list is
    samples: int  # how many it has
    wanted: float | None  # how many its share is exactly; None where no shares were asked for

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {"name": self.name, "path": self.path, "samples": self.samples, "wanted": self.wanted}
        )


class ClassFacts(NamedTuple):
    """A class on the sides of a split."""

    name: str  # its name, or its number
    counts: tuple[int, ...]  # its samples on each side
    # by how many samples the count that is farthest from its exact share is off; 0 where no shares
    # were asked for
    off: float

    def to_json(self) -> dict[str, Any]:
        return json_values({"name": self.name, "counts": self.counts, "off": self.off})


class SplitReport(ReadingNotes):
    """What splitting did or, for a dry run, would do."""

    destination: str  # the destination that the user gave
    state: str  # ``split``, ``already split`` (the lists were there) or ``planned``
    method: str  # how sides were chosen, in words
    samples: int  # number of samples on all sides
    lists: Sequence[ListFacts]
    parts: Sequence[str]  # names of the sides; for folds, their numbers
    # number of samples of each class on the sides; empty without classes
    classes: Sequence[ClassFacts]
    off: float  # by how many samples the side that is farthest from its exact share is off
    groups: int | None  # number of groups; None if none were asked for
    seed: int  # the random seed
    leaks: Sequence[Leak]  # samples that show the same and are on different sides
    materialized: str | None  # how files were placed in the tree; None without one
    seconds: float  # how long it took
    written: WriteReport | None = None  # the shards; None if lists were asked for

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "destination": self.destination,
                "state": self.state,
                "method": self.method,
                "samples": self.samples,
                "lists": self.lists,
                "parts": self.parts,
                "classes": self.classes,
                "off": self.off,
                "groups": self.groups,
                "seed": self.seed,
                "leaks": self.leaks,
                "rejects": self.rejects,
                "skipped": self.skipped,
                "skipped_counts": self.skipped_counts,
                "materialized": self.materialized,
                "notes": self.notes,
                "seconds": self.seconds,
                "written": self.written,
            }
        )


@called_with(SplitOptions)
def split(options: SplitOptions) -> SplitReport:
    """Split a data set: every sample is on exactly one side.

    ``sources`` is a directory of images or anything else that :func:`dsprep.pack` takes, also
    several of these; or a ``.lst``, or ``-`` for one on stdin. ``out`` is the directory of the
    lists or, with ``to``, of the shards, which may be on S3. ``ratios`` are the shares of the
    sides; by default 0.8, 0.1 and 0.1 for train, val and test, unless the source has sides, which
    then stay as they are.
    """
    began = time.monotonic()
    options = with_layout(options)
    require_sense(options)
    source, out = source_of_split(options), GivenPath(options.out)
    if options.near:
        require_numpy()
    progress = options.progress or Progress()
    if options.to is not None:
        return _write_shards(options, source, began)
    if system_path(options.out) is None:
        raise OptionError(
            f"{options.out}: lists are written to a disk; "
            "dsprep sync uploads them, and --to FORMAT writes shards"
        )
    require_local(options.out)
    with open_executor(options.workers) as pool:
        samples, values = read_samples(source, options, pool)
        chosen = _choose(options, samples, values, pool)
    sides = chosen.sides
    lists = _lists_of(sides, options)
    report = _planned(options, chosen, lists)
    state, rows, places, unfinished = "planned", samples.rows, [], list[Path]()
    if options.materialize and samples.root:
        if samples.in_folders or samples.table:
            require_apart(out, samples.root)
        tree = plan_tree(rows, sides.of_samples(), samples.classes, samples.in_folders)
        places = list(tree.iter_rows())
        unfinished = require_clean(out, sides.names, places)
        rows = rows.with_columns(path=tree["target"])
        require_fitting(rows, samples.name)
    if not options.dry_run:
        named = (*source.files(), source.root, options.assign, *source.others)
        inputs = [path for path in named if path and path != STREAM]

        def content(numbers: Sequence[int]) -> bytes:
            return format_rows(rows.filter(sides.numbers.is_in(numbers))).encode()

        files: dict[str, Callable[[], bytes]] = {
            f"{name}.lst": partial(content, numbers) for name, numbers in lists.items()
        }
        if samples.classes is not None:
            files[CLASSES] = format_classes(samples.classes).encode
        with only_writer(out):
            if options.materialize and samples.root:
                # The lists come last: where they are, the tree is whole.
                way, root = options.materialize, samples.root
                materialize_tree(way, root, out, places, unfinished, progress)
            written, others = write_lists(out, files, overwrite=options.overwrite, inputs=inputs)
        state = "split" if written else "already split"
        if others:
            names = format_some(others)
            report.notes.append(f"{out} has lists that are not of this split: {names}")
    return replace(report, state=state, seconds=time.monotonic() - began)


class _Chosen(NamedTuple):
    """The sides of some samples, as they were chosen."""

    samples: Samples
    sides: Sides
    leaks: Sequence[Leak]
    notes: Sequence[str]


def _choose(
    options: SplitOptions, samples: Samples, values: pl.Series | None, pool: Executor
) -> _Chosen:
    """Choose the side of each sample, and find the copies that lie on different sides."""
    if values is not None:
        require_effect("split", options.given, assigned=options.assign)
    _require_files(samples, options)
    copies: list[Copies] = []
    notes: list[str] = []
    if options.leaks is not None and samples.root is not None and samples.sizes is not None:
        sizes = pl.DataFrame([samples.rows["path"], samples.sizes.alias("size")])
        progress = options.progress or Progress()
        distance = distance_of(options.near, options.near_distance)
        copies, notes = find_copies(samples.root, sizes, distance, pool, progress)
    if values is None:
        together = copies if options.leaks == "together" else []
        sides = choose_sides(options, samples, [rows for _, rows in together])
    else:
        sides = given_sides(options, values)
    leaks = find_leaks(copies, sides.of_samples(), samples.rows["path"])
    return _Chosen(samples, sides, leaks, notes)


def _write_shards(options: SplitOptions, source: Source, began: float) -> SplitReport:
    """Write the sides as shards, as :func:`dsprep.pack` does with ``split``."""
    if not source.root:
        raise OptionError("--to needs the files: give --root, where the paths of the list start")
    found: list[_Chosen] = []

    def divide(catalog: Catalog, pool: Executor) -> tuple[Catalog, Sequence[str]]:
        samples = samples_of(catalog, source, pool)
        found.append(_choose(options, samples, assigned_sides(options, samples), pool))
        sides = found[-1].sides
        return catalog.with_sides(sides.names, sides.numbers), ()

    run = ("to", "apart", "overwrite", "dry_run", "workers", "progress")
    asked = PackOptions(
        sources=(source.root, *source.others),
        dest=options.out,
        **{name: getattr(options, name) for name in run},
        **source.values_of(SourceOptions, ClassOptions),
        **options.values_of(SizeOptions, FieldOptions),
    )
    job = new_job("split", asked)
    job = replace(
        job,
        source=job.source.replace(needs_names=True),
        images=images_of(asked),
        seed=options.seed or 0,
        copies=True,
        divide=divide,
    )
    try:
        written = write(job, asked)
    except (OptionError, SourceError) as error:
        if "--drop" not in str(error):
            raise
        # Formats advise options that choose fields, and this command has none.
        pack = f"dsprep pack {source.root} {options.out} --to {options.to}"
        raise type(error)(
            f"{error}; dsprep split has no --only and --drop: {pack} --split train=0.8,val=0.2 has"
        ) from None
    (chosen,) = found
    report = _planned(options, chosen, _lists_of(chosen.sides, options))

    def shards_of(side: str) -> str:
        own = re.compile(rf"{re.escape(side)}-\d.*")
        shards = [each.name for each in written.shards]
        names = [name for name in shards if own.fullmatch(os.path.basename(name))]
        return pattern_of([job.destination.url(name) for name in names])

    unlabeled = note_unlabeled(chosen.samples.rows.height)
    notes = [note for note in report.notes if note != unlabeled]
    return replace(
        report,
        state=written.state,
        lists=[each._replace(path=shards_of(each.name)) for each in report.lists],
        rejects=written.rejects,
        skipped=written.skipped,
        duplicates=written.duplicates,
        notes=[*notes, *written.notes],
        seconds=time.monotonic() - began,
        written=written,
    )


def _require_files(samples: Samples, options: SplitOptions) -> None:
    """Refuse to compare or to place samples that are not files of their own."""
    is_on_disk = samples.root is None or system_path(samples.root) is not None
    if options.materialize is not None and not is_on_disk:
        raise OptionError(
            "--materialize needs the images on a disk: bring them there, dsprep sync "
            f"{samples.root} DIR"
        )
    for name, value in (("--leaks", options.leaks), ("--materialize", options.materialize)):
        if value is not None and samples.annotated:
            raise OptionError(
                f"{name} is for images alone, and {samples.root} has annotations beside them: give "
                "--from images to leave these out, or make shards of each side that have both: "
                f"dsprep pack {samples.root} OUT --to webdataset --split train=0.8,val=0.2"
            )
        if value is not None and not samples.in_files:
            raise OptionError(
                f"{name} needs the images as files: unpack {samples.root}, and give the directory"
            )


def _planned(
    options: SplitOptions, chosen: _Chosen, lists: Mapping[str, Sequence[int]]
) -> SplitReport:
    """Return the report of a split that has been planned."""
    samples, sides, leaks, notes = chosen
    counts, classes = sides.counts(), _class_facts(samples, sides)
    unlabeled = [] if samples.labeled else [note_unlabeled(samples.rows.height)]
    noticed = samples.noticed
    noticed.notes.extend([*unlabeled, *sides.notes, *notes])
    small = [facts.name for facts in classes if 0 in facts.counts]
    if small:
        where = "on all sides" if options.folds is None else "in all folds"
        what = format_count(len(small), "class")
        noticed.notes.append(f"{what} too small to be {where}: {format_some(small)}")
    of_lists = []
    for name, numbers in lists.items():
        wanted = None
        if sides.ratios is not None:
            share = sum(sides.ratios.parts[side] for side in numbers)
            wanted = sum(counts) * share / sides.ratios.whole
        path = str(Path(options.out, f"{name}.lst"))
        of_lists.append(ListFacts(name, path, sum(counts[side] for side in numbers), wanted))
    return SplitReport(
        destination=options.out,
        state="planned",
        method=sides.method,
        samples=sum(counts),
        lists=of_lists,
        parts=sides.names,
        classes=classes,
        off=_how_far_off(counts, sides.ratios),
        groups=sides.groups,
        seed=options.seed or 0,
        leaks=leaks,
        materialized=options.materialize,
        seconds=0.0,
        **vars(noticed),
    )


def _lists_of(sides: Sides, options: SplitOptions) -> dict[str, Sequence[int]]:
    """Return the numbers of the sides in each list: one for each side, or two for each fold."""
    if options.folds is None:
        return {name: [side] for side, name in enumerate(sides.names)}
    lists: dict[str, Sequence[int]] = {}
    for fold, name in enumerate(sides.names):
        lists[f"fold-{name}-train"] = [side for side in range(len(sides.names)) if side != fold]
        lists[f"fold-{name}-val"] = [fold]
    return lists


def _class_facts(samples: Samples, sides: Sides) -> list[ClassFacts]:
    """Count the samples of each class on each side."""
    numbers, names = stratum_numbers(samples), samples.classes or ()
    if numbers is None:
        return []
    table = pl.DataFrame({"number": numbers, "side": sides.numbers})
    counted = table.group_by("number").agg(
        (pl.col("side") == side).sum().alias(str(side)) for side in range(len(sides.names))
    )
    return [
        ClassFacts(
            names[number] if 0 <= number < len(names) else str(number),
            tuple(counts),
            _how_far_off(counts, sides.ratios),
        )
        for number, *counts in counted.sort("number").iter_rows()
    ]


def _how_far_off(counts: Sequence[int], ratios: Ratios | None) -> float:
    """Return by how much the count that is farthest from its exact share is off."""
    if ratios is None:
        return 0.0
    total, whole = sum(counts), ratios.whole
    pairs = zip(counts, ratios.parts, strict=True)
    return max(abs(count * whole - total * part) for count, part in pairs) / whole
