"""Lists compared and inspected: diff, merge, check, stats and sample."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from dsprep.declared import called_with
from dsprep.errors import OptionError, SourceError
from dsprep.frozen import Frozen
from dsprep.lists import diff as diffs
from dsprep.lists import options as of
from dsprep.lists import rows as tables
from dsprep.lists import stats, store
from dsprep.lists.check import READERS, Fault, check_rows, read_leniently
from dsprep.lists.diff import ClassChange, ClassMove, Diff, OtherName
from dsprep.lists.files import MISSING, compare_contents, find_missing
from dsprep.lists.merge import Merged, format_merged, merge_rows
from dsprep.lists.rows import ROWS, format_rows, require_list
from dsprep.lists.stats import Statistics, class_sizes
from dsprep.lists.store import editing, read_list, write_text
from dsprep.printable import json_values
from dsprep.storage.files import is_dir
from dsprep.units import format_count


class DiffReport(Frozen, eq=False):
    """What differs between two lists."""

    a: str  # the old list
    b: str  # the new one
    rows: tuple[int, int]  # number of rows of each list
    diff: Diff  # the rows that differ
    classes: Sequence[ClassChange]  # what that means for each class
    relabelings: Sequence[ClassMove]  # how many rows were relabeled, by old and new class
    other_names: Sequence[OtherName]  # class numbers that have another name in the new list
    unread: int  # files whose content matters, and that cannot be read
    ignored: Sequence[str]  # what does not count: `ids`, `order`

    @property
    def counts(self) -> dict[str, int]:
        """How many rows differ in which way; a row may be relabeled, moved and renumbered."""
        changed = {"relabeled": "label", "moved": "path", "renumbered": "index"}
        return {
            "added": len(self.diff.added),
            "removed": len(self.diff.removed),
            **{name: len(self.diff.changed_in(column)) for name, column in changed.items()},
            "reordered": len(self.diff.reordered),
        }

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "a": self.a,
                "b": self.b,
                "rows": self.rows,
                "counts": self.counts,
                "classes": self.classes,
                "relabelings": self.relabelings,
                "other_names": self.other_names,
                "unread": self.unread,
            }
        )


class ListCheckReport(Frozen):
    """The report of ``lst check``: the faults of a list."""

    list: str  # the list
    rows: int  # how many of its lines can be read
    classes: Sequence[str] | None  # the names of its classes, if any file has them
    root: str | None  # the directory where its files were looked up, if they were
    reader: str | None  # the reader whose requirements were checked
    kinds: Mapping[str, int]  # how many faults there are of each kind, the most frequent first
    faults: Sequence[Fault]  # all faults, by line

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "list": self.list,
                "rows": self.rows,
                "classes": self.classes,
                "root": self.root,
                "reader": self.reader,
                "kinds": self.kinds,
                "faults": self.faults,
            }
        )


class SampleReport(Frozen):
    """The report of ``lst sample``: the rows of the sample, and where it was written."""

    list: str  # the list
    output: str  # where the sample went; `-` is stdout
    rows: int  # the rows of the list
    kept: int  # the rows of the sample
    wanted: int | None  # the number asked for, of all rows or of each class; None for a fraction
    classes: Mapping[str, int]  # rows of the sample by label, if it was drawn class by class
    short: Mapping[str, int]  # rows of the list by label, for classes with fewer than `wanted`
    seed: int  # the seed of the choice
    written: bool  # whether it was; not so for a dry run
    already_done: bool = False  # whether it was not written because it exists, equal

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "list": self.list,
                "output": self.output,
                "rows": self.rows,
                "kept": self.kept,
                "wanted": self.wanted,
                "classes": self.classes,
                "short": self.short,
                "seed": self.seed,
                "written": self.written,
                "already_done": self.already_done,
            }
        )


@called_with(of.DiffOptions)
def diff_lists(options: of.DiffOptions) -> DiffReport:
    """Compare two lists.

    ``a`` is the old ``.lst``, ``b`` the new one; one of them may be ``-`` for stdin.
    """
    a, b, roots = options.a, options.b, options.roots
    store.require_one_stream(a, b)
    if options.content != bool(roots):
        raise OptionError("--content needs --root, where the files are, and --root --content")
    if len(roots) > 2:
        raise OptionError("--root: give the directory of both lists, or one of each")
    old, new = read_list(a, options.classes), read_list(b, options.classes)
    unread = 0

    def contents(paths: pl.Series, others: pl.Series) -> tuple[pl.Series, pl.Series]:
        nonlocal unread
        found = compare_contents(paths, others, roots[0], roots[-1])
        unread = sum(texts.null_count() for texts in found)
        return found

    ignored = {"ids": options.ignore_ids, "order": options.ignore_order}
    diff = diffs.diff_rows(
        old.table,
        new.table,
        ids=not options.ignore_ids,
        order=not options.ignore_order,
        contents=contents if options.content else None,
    )
    names = new.classes or old.classes
    return DiffReport(
        a=old.path,
        b=new.path,
        rows=(old.table.height, new.table.height),
        diff=diff,
        classes=diffs.class_changes(old.table, new.table, diff, names),
        relabelings=diffs.relabelings(diff, names),
        other_names=diffs.other_names(old.classes, new.classes),
        unread=unread,
        ignored=[name for name, is_so in ignored.items() if is_so],
    )


@called_with(of.MergeOptions)
def merge_lists(options: of.MergeOptions) -> Merged:
    """Merge two people's edits of a list.

    ``base`` is the ``.lst`` that both began with, or an empty file if there was none. ``ours`` and
    ``theirs`` are the edits of it. One of the three may be ``-`` for stdin. ``decide`` is the side
    that decides conflicts; without it, both sides are written, between markers.
    """
    base, out, decide, classes = options.base, options.out, options.decide, options.classes
    store.require_one_stream(base, options.ours, options.theirs)
    with editing(out, new=True):
        # git gives an empty file as the base if both sides added the list.
        if base == os.devnull or (os.path.isfile(base) and not os.path.getsize(base)):
            first = ROWS.to_frame()
        else:
            first = read_list(base, classes).table
        one, other = read_list(options.ours, classes), read_list(options.theirs, classes)
        for number, name, another in diffs.other_names(one.classes, other.classes):
            if name and another:
                raise SourceError(
                    f"{other.path}: its class {number} is {another!r}, which is {name!r} to "
                    f"{one.path}: relabel one of them first, so that a number means the same in "
                    "both (dsprep lst relabel), or give --classes"
                )
        merged = merge_rows(first, one.table, other.table)
        merged = replace(merged, path=out, decided=decide if merged.conflicts else None)
        rows, undecided = merged.decided_by(decide or "ours"), merged.undecided
        every = pl.concat([rows, merged.decided_by("theirs")]) if undecided else rows
        require_list(every, f"{one.path} and {other.path}")
        write_text(out, format_merged(merged) if undecided else format_rows(rows))
    has_names = one.classes is not None and other.classes is not None
    return replace(
        merged,
        rows=merged.agreed.height if undecided else rows.height,
        new_classes=(other.classes or ())[len(one.classes or ()) :] if has_names else (),
    )


@called_with(of.CheckOptions)
def check_list(options: of.CheckOptions) -> ListCheckReport:
    """Find everything that is wrong with a list; ``path`` is the ``.lst``, or ``-`` for stdin."""
    root, reader = options.root, options.reader
    names = store.classes_of(options.path, options.classes)
    data, name = store.read_input(options.path)
    rows, faults = read_leniently(data)
    wanted = READERS[reader] if reader is not None else None
    faults += check_rows(rows, names, numbered=wanted is not None and wanted.numbered)
    if wanted is not None:
        faults += wanted.check(rows)
    if root is not None:
        faults += look_up(root, rows, name)
    # The same is said once of a line.
    first = {(fault.line, fault.kind): fault for fault in reversed(faults)}
    faults = sorted(first.values())
    kinds = dict(Counter(fault.kind for fault in faults).most_common())
    return ListCheckReport(name, rows.height, names, root, reader, kinds, faults)


def look_up(root: str, rows: pl.DataFrame, source: str) -> Iterator[Fault]:
    """Look up every file whose path leads nowhere else; or every sample, if the root has these."""
    from dsprep.places.files import Files  # slow to load, and only some runs compare with files
    from dsprep.places.names import holds_images
    from dsprep.sources.labels.choose import find_samples
    from dsprep.sources.reading import detect
    from dsprep.sources.source import make_source

    rows = rows.filter(~tables.leads_outside(pl.col("path")))
    is_tree = is_dir(root) and holds_images(root)
    samples = None if is_tree else detect(make_source(root, needs_names=True))
    if samples is None:
        yield from find_missing(root, rows)
        return
    files = Files.of(*samples)
    assert files.samples is not None
    rows = rows.select("line", "path", tables.plain_paths(rows["path"]).alias("file"))
    names = find_samples(rows, files, files.samples, source)
    missing = rows.filter(~names.is_in(files.table["path"].implode()))
    for line, path in missing.select("line", "path").iter_rows():
        yield Fault(line, MISSING, f"{path!r}: {root} has no such sample")


@called_with(of.StatsOptions)
def list_stats(options: of.StatsOptions) -> Statistics:
    """Count what is in a list; ``path`` is the ``.lst``, or ``-`` for stdin."""
    found = read_list(options.path, options.classes)
    return stats.count_list(found.table, found.classes, found.path)


def _require_enough(
    found: store.ListFile, short: Mapping[str, int], wanted: int, by_class: bool
) -> None:
    """Refuse a list, or classes of it, with fewer rows than are wanted."""
    if short:
        label, size = next(iter(short.items()))
        raise SourceError(
            f"{found.path}: the class {label} has {format_count(size, 'row')}, fewer than "
            f"{wanted:,}"
        )
    if not by_class and found.table.height < wanted:
        raise SourceError(f"{found.path}: has {found.table.height:,} rows, fewer than {wanted:,}")


@called_with(of.SampleOptions)
def sample_list(options: of.SampleOptions) -> SampleReport:
    """Take some rows of a list; ids, labels and order stay. See :mod:`dsprep.lists.stats`.

    ``path`` is the ``.lst``, or ``-`` for stdin. One of ``fraction``, ``count``, ``per_class`` and
    ``balanced`` says how many rows are taken.
    """
    out, dry_run, seed, per_class = options.out, options.dry_run, options.seed, options.per_class
    numbers = (options.fraction, options.count, per_class, options.balanced or None)
    if sum(number is not None for number in numbers) != 1:
        raise OptionError("give one of --fraction, --count, --per-class and --balanced")
    with editing(*([] if dry_run else [out]), new=True):
        found = read_list(options.path, options.classes)
        table = found.table
        by_class = options.balanced or per_class is not None
        sizes = class_sizes(table) if by_class else {}
        wanted = options.count if per_class is None else per_class
        if options.fraction is not None:
            rows = stats.sample_fraction(table, options.fraction, seed)
        else:
            count = min(sizes.values()) if wanted is None else wanted
            rows = stats.sample_count(table, count, seed, by_class)
        kept = rows.height
        short = {label: size for label, size in sizes.items() if size < (wanted or 0)}
        if not kept:
            raise SourceError(
                f"{found.path}: the sample of {table.height:,} rows is empty: ask for more, or "
                "give another --seed"
            )
        if options.strict and wanted is not None:
            _require_enough(found, short, wanted, by_class)
        advice = "--overwrite to replace it, or another directory"
        is_new = dry_run or store.write_new({out: rows}, found.classes, options.overwrite, advice)
    return SampleReport(
        list=found.path,
        output=out,
        rows=table.height,
        kept=kept,
        wanted=wanted,
        classes=class_sizes(rows) if by_class else {},
        short=short,
        seed=seed,
        written=is_new and not dry_run,
        already_done=not is_new,
    )
