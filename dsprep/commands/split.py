"""``split``: a data set as training, validation and test lists, as folds, or as a tree of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl

from dsprep.arguments import AnyPath, public
from dsprep.errors import OptionError
from dsprep.lists.rows import format_rows, require_fitting
from dsprep.lists.store import CLASSES, STREAM, format_classes
from dsprep.options import given_options, require_effect
from dsprep.plan.destination import require_local
from dsprep.progress import Progress
from dsprep.schema import Schema
from dsprep.sources.reading import make_choice, make_source
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
from dsprep.splits.samples import (
    Samples,
    SplitOptions,
    is_list,
    list_source,
    read_samples,
)
from dsprep.splits.sides import Sides, choose_sides, given_sides
from dsprep.storage.location import is_s3, require_disk
from dsprep.units import format_some
from dsprep.workers.pool import available_cores


@public
def split(
    sources: AnyPath | Sequence[AnyPath],
    out: AnyPath,
    *,
    list_file: AnyPath | None = None,
    labels: AnyPath | None = None,
    path_column: str | None = None,
    label_columns: Sequence[str] = (),
    label_separator: str | None = None,
    label_type: str | None = None,
    image_field: str | None = None,
    label_field: str | None = None,
    schema: Schema | AnyPath | None = None,
    look: str | None = None,
    no_image: bool = False,
    duplicates: str | None = None,
    classes: AnyPath | None = None,
    class_order: str | None = None,
    extensions: Sequence[str] = (),
    kind: str | None = None,
    parts: bool = False,
    pairs: Mapping[str, str] | None = None,
    root: AnyPath | None = None,
    ratios: Mapping[str, str | float] | None = None,
    folds: int | None = None,
    stratify: bool = True,
    group: str | None = None,
    stable: bool = False,
    seed: int | None = None,
    assign: AnyPath | None = None,
    assign_column: str | None = None,
    skip_unmatched: bool = False,
    leaks: str | None = None,
    near: bool = False,
    near_distance: int | None = None,
    materialize: str | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> SplitReport:
    """Split a data set: every sample is on exactly one side.

    Args:
        sources: A directory of images or anything else that :func:`dsprep.pack` takes, also
            several of these; or a ``.lst``, or ``-`` for one on stdin.
        out: The directory of the lists.
        list_file: An MXNet ``.lst`` of the samples in the source.
        labels: A CSV or TSV file that tells the images and their labels.
        path_column: The column of paths or ids in that, or in ``assign``.
        label_columns: The columns of labels.
        label_separator: As for :func:`dsprep.pack`.
        label_type: As for :func:`dsprep.pack`.
        image_field: As for :func:`dsprep.pack`.
        label_field: As for :func:`dsprep.pack`.
        schema: As for :func:`dsprep.pack`.
        look: As for :func:`dsprep.pack`.
        no_image: As for :func:`dsprep.pack`.
        duplicates: As for :func:`dsprep.pack`.
        classes: A file with the class names, one a line, in the order of their numbers.
        class_order: How class names are put in the order of their numbers otherwise: ``name``, or
            ``natural``, in which numbers in names count as numbers.
        extensions: File name extensions of images.
        kind: What the source is, where that does not show; see :mod:`dsprep.sources.kinds`.
        parts: Whether files that share a stem are one sample.
        pairs: Patterns of files, by the field that they are: those that match alike are one sample.
        root: The directory that the paths of a ``.lst`` start from.
        ratios: The share of each side; 0.8, 0.1 and 0.1 for train, val and test by default.
        folds: So many pairs of lists instead, for cross-validation.
        stratify: Whether each class is divided by the ratios.
        group: A column of ``labels``, or a regular expression of paths: a group is on one side.
        stable: Whether the side of a sample depends on its key, or its group, and the seed alone.
        seed: Chooses another split; 0 by default.
        assign: A file that tells the sides, or the classes of images in one directory.
        assign_column: Its column of sides.
        skip_unmatched: Whether its rows may name no sample.
        leaks: ``report`` looks for copies of images on different sides; ``together`` keeps copies
            on one side.
        near: Whether images that look alike count as copies.
        near_distance: How many of 64 bits of their perceptual hashes may differ; 4 by default.
        materialize: ``hardlink``, ``symlink`` or ``copy`` makes directories of the sides.
        overwrite: Whether lists that are there are replaced.
        dry_run: Write nothing.
        workers: How many processes and threads; by default the cores that this process may use.
        progress: Receives the progress.

    Returns:
        What was done.

    Raises:
        OptionError: If the arguments make no sense.
        SourceError: If the source cannot be split like this.
        DestinationError: If the destination refuses.
    """
    given = given_options(locals())
    began = time.monotonic()
    first, *others = [sources] if isinstance(sources, str) else sources
    listed = not others and is_list(first)
    require_effect("split", given, is_list=listed)
    require_disk(out)
    require_local(out)
    options = SplitOptions(
        ratios=ratios,
        folds=folds,
        stratify=stratify,
        group=group,
        stable=stable,
        seed=seed or 0,
        assign=assign,
        assign_column=assign_column,
        path_column=path_column,
        skip_unmatched=skip_unmatched,
        leaks=leaks,
        near=near,
        near_distance=4 if near_distance is None else near_distance,
        materialize=materialize,
    )
    choice = make_choice(
        image_field=image_field,
        label_field=label_field,
        label_type=label_type,
        schema=schema,
        look=look,
        no_image=no_image,
    )
    if listed:
        source = list_source(first, root, classes, duplicates)
    else:
        source = make_source(
            first,
            others=others,
            list_file=list_file,
            labels=labels,
            path_column=path_column if labels else None,
            label_columns=label_columns,
            label_separator=label_separator,
            label_type=label_type,
            choice=choice,
            duplicates=duplicates,
            classes=classes,
            class_order=class_order,
            extensions=extensions,
            kind=kind,
            parts=parts,
            pairs=pairs,
            whole=True,
        )
    if near:
        require_imagehash()
    workers = available_cores() if workers is None else workers
    progress = progress or Progress()
    samples, values = read_samples(source, options, workers)
    if values is not None:
        require_effect("split", given, assigned=assign)
    _require_files(samples, options)
    copies: list[Copies] = []
    notes: list[str] = []
    if leaks is not None and samples.root is not None and samples.sizes is not None:
        sizes = pl.DataFrame([samples.rows["path"], samples.sizes.alias("size")])
        distance = options.near_distance if near else None
        copies, notes = find_copies(samples.root, sizes, distance, workers, progress)
    if values is None:
        sides = choose_sides(options, samples, copies if leaks == "together" else [])
    else:
        sides = given_sides(options, values)
    found = find_leaks(copies, sides.of_samples(), samples.rows["path"]) if copies else []
    report = planned_report(options, Path(out), samples, sides, found, notes)
    places = _places(Path(out), samples, sides) if materialize else []
    rows = samples.rows
    if materialize:
        rows = rows.with_columns(path=pl.Series([target for _, target in places]))
        require_fitting(rows, samples.name)
    if not dry_run:
        named = (source.list_file, labels, classes, assign, source.root, *source.others)
        inputs = [path for path in named if path and path != STREAM]
        with only_writer(Path(out)):
            if materialize and samples.root:
                # The lists come last: where they are, the tree is whole.
                materialize_tree(materialize, samples.root, Path(out), places, progress)
            files = _lists(rows, sides, folds is not None)
            if samples.classes is not None:
                files[CLASSES] = format_classes(samples.classes).encode
            written = write_lists(Path(out), files, overwrite=overwrite, inputs=inputs)
            report = replace(
                report,
                state="split" if written else "already split",
                notes=[*report.notes, *_strangers(Path(out), {*files}, inputs)],
            )
    return replace(report, destination=out, seconds=time.monotonic() - began)


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
