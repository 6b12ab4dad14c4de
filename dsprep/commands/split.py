"""``split``: a data set as training, validation and test lists, as folds, or as a tree of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from dsprep.arguments import AnyPath, public
from dsprep.errors import OptionError
from dsprep.findings import Reject
from dsprep.lists.rows import format_rows, require_fitting
from dsprep.lists.store import CLASSES, STREAM, format_classes, read_list
from dsprep.options import given_options, require_effect
from dsprep.plan.destination import require_local
from dsprep.progress import Progress
from dsprep.schema import Schema
from dsprep.sources.reading import Source, make_choice
from dsprep.splits.asked import Asked
from dsprep.splits.choosing import Sides, choose_sides, given_sides
from dsprep.splits.inputs import read_inputs
from dsprep.splits.leaks import Copies, Leak, find_leaks, find_near, find_same, join_sets
from dsprep.splits.materialize import Place, materialize, require_clean, require_movable
from dsprep.splits.moving import Journal, read_journal, remove_journal, write_journal
from dsprep.splits.near import hash_images, require_imagehash
from dsprep.splits.ratios import Ratios
from dsprep.splits.reading import Samples, is_list, read_files
from dsprep.splits.report import SplitReport, lists_of, planned_report
from dsprep.splits.trees import plan_tree
from dsprep.splits.writing import only_writer, write_together
from dsprep.storage.urls import is_s3, require_disk
from dsprep.units import format_count, format_some
from dsprep.workers.pool import Pool, available_cores

_IMAGES_AT_ONCE = 64


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
        materialize: ``hardlink``, ``symlink``, ``copy`` or ``move`` makes directories of the sides.
        overwrite: Whether lists that are there are replaced.
        dry_run: Write nothing.
        workers: How many processes and threads; by default the cores that this process may use.
        progress: Is told how far the run is.

    Returns:
        What was done.

    Raises:
        OptionError: If the arguments make no sense.
        SourceError: If the source cannot be split like this.
        DestinationError: If the destination refuses.
    """
    given = given_options(locals())
    began = time.monotonic()
    source, *others = [sources] if isinstance(sources, str) else sources
    require_effect("split", given, is_list=not others and is_list(source))
    require_disk(out)
    require_local(out)
    asked = Asked(
        source=source,
        others=tuple(others),
        list_file=list_file,
        labels=labels,
        path_column=path_column,
        label_columns=tuple(label_columns),
        label_separator=label_separator,
        choice=make_choice(
            image_field=image_field,
            label_field=label_field,
            label_type=label_type,
            schema=schema,
            look=look,
            no_image=no_image,
        ),
        duplicates=duplicates,
        classes=classes,
        class_order=class_order,
        extensions=tuple(extensions),
        kind=kind,
        parts=parts,
        pairs=tuple((pairs or {}).items()),
        root=root,
        ratios=None if ratios is None else tuple((k, str(v)) for k, v in ratios.items()),
        folds=folds,
        stratify=stratify,
        group=group,
        stable=stable,
        seed=seed or 0,
        assign=assign,
        assign_column=assign_column,
        skip_unmatched=skip_unmatched,
        leaks=leaks,
        near=near,
        near_distance=4 if near_distance is None else near_distance,
        materialize=materialize,
    )
    run = _Run(
        asked,
        given,
        Path(out),
        overwrite,
        dry_run,
        available_cores() if workers is None else workers,
        progress or Progress(),
    )
    return replace(run.carry_out(), destination=out, seconds=time.monotonic() - began)


@dataclass(frozen=True)
class _Run:
    """One call of :func:`split`."""

    asked: Asked
    given: Mapping[str, Any]
    out: Path
    overwrite: bool
    dry_run: bool
    workers: int
    progress: Progress

    def carry_out(self) -> SplitReport:
        if self.asked.near:
            require_imagehash()
        if self.asked.materialize == "move" and not self.dry_run:
            begun = read_journal(self.out, asdict(self.asked))
            if begun is not None:
                return self._finish(begun)
        samples, values = read_inputs(self.asked, self._look_for_files)
        if values is not None:
            require_effect("split", self.given, assigned=self.asked.assign)
        self._require_files(samples)
        copies, notes = self._copies(samples)
        if values is None:
            together = copies if self.asked.leaks == "together" else []
            ratios = self.asked.wanted(gives_classes=self.asked.assign is not None)
            sides = choose_sides(self.asked, samples, ratios, together)
        else:
            sides = given_sides(self.asked, values)
        leaks = find_leaks(copies, sides.of_samples(), samples.rows["path"]) if copies else []
        report = planned_report(self.asked, self.out, samples, sides, leaks, notes)
        places = self._places(samples, sides)
        rows = samples.rows
        if places is not None:
            rows = rows.with_columns(path=pl.Series([target for _, target in places]))
            require_fitting(rows, self.asked.source)
        if self.dry_run:
            return report
        with only_writer(self.out):
            return self._write(samples, rows, sides, places or [], report)

    def _look_for_files(self, source: Source) -> Samples:
        with Pool(self.workers) as pool:
            return read_files(source, pool.map)

    def _require_files(self, samples: Samples) -> None:
        """Refuse to look into, or to place, what are no files of their own."""
        if self.asked.materialize is not None and is_s3(samples.root or ""):
            raise OptionError(
                "--materialize needs the images on a disk: bring them there, dsprep sync "
                f"{samples.root} DIR"
            )
        for option, value in (
            ("--leaks", self.asked.leaks),
            ("--materialize", self.asked.materialize),
        ):
            if value is not None and not samples.in_files:
                raise OptionError(
                    f"{option} needs the images as files: unpack {samples.root}, and give the "
                    "directory"
                )

    def _copies(self, samples: Samples) -> tuple[list[Copies], list[str]]:
        """Samples that show the same, and what to say of the search."""
        if self.asked.leaks is None or samples.root is None or samples.sizes is None:
            return [], []
        paths = samples.rows["path"]
        files = pl.DataFrame([paths, samples.sizes.alias("size")])
        same = find_same(samples.root, files, self.workers, self.progress)
        notes = []
        empty = files.filter(pl.col("size") == 0)["path"]
        if len(empty):
            what = format_count(len(empty), "empty file")
            notes.append(f"{what}, not compared: {format_some(empty.head(4).to_list())}")
        near: list[list[int]] = []
        if self.asked.near:
            hashes = self._hashes(samples.root, paths.to_list())
            near = find_near(hashes, self.asked.near_distance)
            blind = [path for path, each in zip(paths, hashes, strict=True) if each is None]
            if blind:
                what = format_count(len(blind), "image")
                notes.append(f"{what} not decoded, so only compared by bytes: {format_some(blind)}")
        return join_sets(same, near), notes

    def _hashes(self, root: str, paths: Sequence[str]) -> list[int | None]:
        """The perceptual hash of each image, made by worker processes."""
        starts = range(0, len(paths), _IMAGES_AT_ONCE)
        tasks = [(root, paths[start : start + _IMAGES_AT_ONCE]) for start in starts]
        self.progress.begin("looking for images that are alike", len(paths), 0)
        try:
            with Pool(self.workers) as pool:
                done = dict(pool.run(hash_images, tasks, self.progress.advance))
        finally:
            self.progress.end()
        return [each for task in range(len(tasks)) for each in done[task]]

    def _places(self, samples: Samples, sides: Sides) -> list[Place] | None:
        """What goes where in the tree; None if there is to be none."""
        way = self.asked.materialize
        if way is None or samples.root is None:
            return None
        if samples.in_folders or samples.table:
            _require_apart(self.out, samples.root)
        tree = plan_tree(samples.rows, sides.of_samples(), samples.classes, samples.in_folders)
        places = list(tree.iter_rows())
        require_clean(self.out, sides.names, places)
        if way == "move":
            require_movable(samples.root, [path for path, _ in places])
        return places

    def _write(
        self,
        samples: Samples,
        rows: pl.DataFrame,
        sides: Sides,
        places: Sequence[Place],
        report: SplitReport,
    ) -> SplitReport:
        way, root = self.asked.materialize, samples.root
        if way is not None and way != "move" and root is not None:
            # The lists come last: where they are, the tree is whole.
            materialize(way, root, self.out, places, self.progress)
        files: dict[str, Callable[[], bytes]] = {
            each.file: partial(_format, rows, sides.numbers, each.sides)
            for each in lists_of(sides, self.asked.folds is not None)
        }
        if samples.classes is not None:
            files[CLASSES] = format_classes(samples.classes).encode
        written = write_together(
            self.out, files, overwrite=self.overwrite, inputs=self._files_read()
        )
        if way == "move" and root is not None:
            # The lists come first: with the journal they tell where each file was to go.
            said = {
                "names": sides.names,
                "parts": sides.ratios.parts if sides.ratios else None,
                "rejects": report.rejects,
                "leaks": [(leak.kind, leak.samples) for leak in report.leaks],
            }
            write_journal(self.out, Journal(asdict(self.asked), said, places))
            materialize(way, root, self.out, places, self.progress)
            remove_journal(self.out)
        notes = [*report.notes, *self._strangers(files)]
        return replace(report, state="split" if written else "already split", notes=notes)

    def _finish(self, begun: Journal) -> SplitReport:
        """Go on with a move that was interrupted."""
        said = begun.report
        names = tuple(said["names"])
        with only_writer(self.out):
            root = self.asked.root or self.asked.source
            materialize("move", root, self.out, begun.places, self.progress)
            remove_journal(self.out)
        lists = [read_list(str(self.out / f"{name}.lst")) for name in names]
        numbers = [
            pl.Series("side", [side], pl.Int64).new_from_index(0, each.table.height)
            for side, each in enumerate(lists)
        ]
        rows = pl.concat([each.table for each in lists])
        samples = Samples(
            rows,
            classes=lists[0].classes,
            rejects=[Reject(*each) for each in said["rejects"]],
        )
        leaks = [Leak(kind, [(side, path) for side, path in at]) for kind, at in said["leaks"]]
        ratios = Ratios(names, tuple(said["parts"])) if said["parts"] else None
        sides = Sides(pl.concat(numbers), names, ratios, "as before it was interrupted")
        return replace(
            planned_report(self.asked, self.out, samples, sides, leaks, []), state="continued"
        )

    def _files_read(self) -> list[str]:
        asked = self.asked
        named = (asked.list_file, asked.labels, asked.classes, asked.assign)
        files = (*named, asked.source, *asked.others)
        return [path for path in files if path and path != STREAM]

    def _strangers(self, files: Mapping[str, object]) -> list[str]:
        """What to say of lists in the directory that are not of this split."""
        read = {os.path.realpath(path) for path in self._files_read()}
        names = sorted(
            path.name
            for path in self.out.glob("[!.]*.lst")
            if path.name not in files and os.path.realpath(path) not in read
        )
        if not names:
            return []
        return [f"{self.out} has lists that are not of this split: {format_some(names)}"]


def _format(rows: pl.DataFrame, numbers: pl.Series, sides: Sequence[int]) -> bytes:
    return format_rows(rows.filter(numbers.is_in(sides))).encode()


def _require_apart(out: Path, root: str) -> None:
    """Refuse to make a tree among the images that it is made of: they would be found again."""
    real_root = os.path.realpath(root)
    if os.path.commonpath([os.path.realpath(out), real_root]) == real_root:
        raise OptionError(f"{out}: lies in {root}; choose a directory outside for the tree")
