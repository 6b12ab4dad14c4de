"""What the commands of ``dsprep lst`` print: on stdout, or on stderr if stdout gets a list."""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dsprep.cli.report import (
    classes_text,
    more_than,
    range_text,
    rows_of,
    show,
    skipped_text,
    some_of,
)
from dsprep.cli.streams import until_nobody_reads
from dsprep.lists.diff import format_diff
from dsprep.lists.store import CLASSES, STREAM, write_text
from dsprep.printable import visible
from dsprep.units import format_count, format_some

if TYPE_CHECKING:
    from dsprep.editing.edit_lists import CreateReport, EditReport
    from dsprep.editing.inspect_lists import DiffReport, ListCheckReport, SampleReport
    from dsprep.lists.diff import ClassChange, ClassMove
    from dsprep.lists.edit import Relabeled
    from dsprep.lists.merge import Merged
    from dsprep.lists.stats import ClassCount, Statistics

_SHOWN, _FAULTS_SHOWN, _CLASSES_SHOWN = 20, 50, 40
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_SHORTEST = 4  # columns that a bar gets on the narrowest terminal


def print_report(
    function: str, report: Any, as_json: bool, quiet: bool = False, summary: bool = False
) -> None:
    """Print what a function did; ``summary`` leaves out the rows that differ."""
    if function == "diff_lists":
        _print_diff(report, as_json, quiet, summary)
        return
    paths = [written.path for written in getattr(report, "lists", ())]
    paths += [getattr(report, "path", ""), getattr(report, "output", "")]
    to_stderr = "-" in paths and getattr(report, "written", True)
    stream = sys.stderr if to_stderr else sys.stdout
    if function == "merge_lists" and not as_json:
        show(report, _conflict_lines, False, quiet and not report.undecided, sys.stderr)
    show(report, _LINES[function], as_json, quiet and not getattr(report, "faults", None), stream)


def _print_diff(report: DiffReport, as_json: bool, quiet: bool, summary: bool) -> None:
    """Print a patch, with a summary in its comments."""
    if as_json:
        found = report.to_json()
        ids = {"index": "id", "new_index": "new_id"}
        for name, table in () if summary else vars(report.diff).items():
            found[name] = table.rename(ids, strict=False).to_dicts()
        show(found, list, as_json)
    elif report.diff.is_empty:
        show(report, lambda it: rows_of(*_other_names(it), width=11), as_json, quiet, sys.stderr)
    elif not quiet:
        text = "".join(f"# {visible(line)}".rstrip() + "\n" for line in _diff_lines(report))
        with until_nobody_reads(sys.stdout):
            write_text("-", text if summary else text + format_diff(report.diff))


def _title(one: ClassCount | ClassChange) -> str:
    return f"{one.number}" if one.name is None else f"{one.number} {one.name}"


def _name(path: str) -> str:
    return "<stdout>" if path == "-" else path


def _count(things: Sequence[Any], noun: str, after: str = "") -> str:
    return f"{format_count(len(things), noun)}{after}" if things else ""


def _unwritten(report: CreateReport | Relabeled | SampleReport) -> list[str]:
    done = "already done, " if report.already_done else ""
    return [] if report.written else [f"  {done}nothing was written"]


def _lists_lines(report: CreateReport | Relabeled) -> Iterator[str]:
    for path, rows in report.lists:
        yield f"{_name(path)}: {format_count(rows, 'row')}"
    yield from _unwritten(report)


def _create_lines(report: CreateReport) -> Iterator[str]:
    yield from _lists_lines(report)
    # Rows of boxes have no class each.
    classes = classes_text(report.per_class.values()) or _count(report.classes or (), "class")
    if report.classes and report.lists[0].path != STREAM:
        classes += f", named in {CLASSES} beside the list"
    order = "that of the source" if report.seed is None else f"shuffled, seed {report.seed}"
    yield from rows_of(("classes", classes), ("order", order), *_noticed(report))


def _append_lines(report: CreateReport) -> Iterator[str]:
    (written,) = report.lists
    done = "added" if report.written or not report.added else "would be added"
    yield f"{written.path}: {format_count(report.added, 'row')} {done}, {written.rows:,} in all"
    known = f"{report.known:,} were listed already" if report.known else ""
    yield from rows_of(("known", known), *_noticed(report))


def _noticed(report: CreateReport) -> list[tuple[str, object]]:
    names = format_some([finding.path for finding in report.duplicates])
    repeated = f"{len(report.duplicates):,} paths are named more than once: {names}"
    rejects = [f"{reject.path}: {reject.reason}" for reject in report.rejects]
    return [
        ("skipped", skipped_text(report.skipped)),
        ("note", report.duplicates and repeated),
        *(("note", note) for note in report.notes),
        *(("rejected", text) for text in some_of(rejects)),
    ]


def _edit_lines(report: EditReport) -> Iterator[str]:
    counts = (report.added, report.removed, report.changed, report.reordered)
    words = zip(counts, ("added", "removed", "changed", "put elsewhere"), strict=True)
    done = [f"{format_count(count, 'row')} {what}" for count, what in words if count]
    unwritten = "" if report.written or not done else ", if it were written"
    what = ", ".join(done) or ("already done" if report.already_done else "nothing changed")
    yield f"{_name(report.path)}: {what}, {report.rows:,} in all{unwritten}"
    yield from rows_of(*(("selected", path) for path in some_of(report.selected)))


def _relabel_lines(report: Relabeled) -> Iterator[str]:
    yield from _lists_lines(report)
    moves = [_say_move(move, report.unit) for move in report.moves if move.old != move.new]
    same = sum(move.moved for move in report.moves if move.old == move.new)
    idle = format_some([f"{change.old} (line {change.line})" for change in report.idle])
    dropped = f" without rows: {format_some(report.dropped)}"
    yield from rows_of(
        ("classes", "" if report.classes is None else f"{len(report.classes):,}"),
        *(("moved", text) for text in some_of(moves)),
        ("kept", report.moves and f"{format_count(same, report.unit)} of the same class"),
        ("dropped", _count(report.dropped, "class", dropped)),
        ("note", report.idle and f"no row matches {idle}"),
    )


def _say_move(move: ClassMove, unit: str) -> str:
    return f"{format_count(move.moved, unit)} from {move.old} to {move.new}"


def _diff_lines(report: DiffReport) -> Iterator[str]:
    for path, rows in zip((report.a, report.b), report.rows, strict=True):
        yield f"{path}: {format_count(rows, 'row')}"
    unread = f"{format_count(report.unread, 'file')} missing or empty"
    yield from rows_of(
        *((name, count and f"{count:,}") for name, count in report.counts.items()),
        ("ignored", ", ".join(report.ignored)),
        ("unread", report.unread and unread),
        *_other_names(report),
        width=11,
    )
    if report.classes:
        by_change = sorted(report.classes, key=lambda change: -sum(change[4:]))[:_CLASSES_SHOWN]
        table: list[tuple[str, ...]] = [("class", *by_change[0]._fields[2:])]
        for one in sorted(by_change):
            table.append((visible(_title(one)).rstrip(), *(f"{count:,}" for count in one[2:])))
        wide = max(width_of(title) for title, *_ in table)
        for title, *counts in table:
            blanks = " " * (wide - width_of(title))
            yield f"  {title}{blanks}" + "".join(f"{count:>8}" for count in counts)
    yield from (f"  {text}" for text in more_than(_CLASSES_SHOWN, report.classes, "classes"))
    moves = [_say_move(move, "row") for move in report.relabelings]
    yield from rows_of(*(("relabeled", text) for text in some_of(moves)), width=11)


def _other_names(report: DiffReport) -> list[tuple[str, object]]:
    lines = []
    for number, before, after in report.other_names:
        now = "has no name now" if after is None else f"is {after} now"
        then = "had none" if before is None else f"was {before}"
        lines.append(f"{number} {now}, {then}: labels are compared by number")
    return [("classes", text) for text in some_of(lines)]


def _merge_lines(report: Merged) -> Iterator[str]:
    conflicts = _count(report.conflicts, "conflict")
    left = f", and {conflicts} to decide" if report.undecided else ""
    yield f"{_name(report.path)}: {format_count(report.rows, 'row')}{left}"
    sides = {"ours": report.ours, "theirs": report.theirs}
    some = format_some([f"{row.path} ({row.old} to {row.new})" for row in report.renumbered])
    taken = f" of theirs, with ids that ours has taken: {some}"
    names = format_some(report.new_classes)
    yield from rows_of(
        *(
            (side, f"{one.added:,} added, {one.removed:,} removed, {one.changed:,} changed")
            for side, one in sides.items()
        ),
        ("order", report.order and f"that of {report.order}"),
        ("renumbered", _count(report.renumbered, "row", taken)),
        ("decided", report.decided and f"{conflicts}, by {report.decided}"),
        ("classes", report.new_classes and f"only theirs names {names}"),
        width=11,
    )


def _conflict_lines(report: Merged) -> Iterator[str]:
    for conflict in report.conflicts[:_SHOWN]:
        what = f"the sides disagree about the {conflict.what.replace(',', ' and the ')}"
        if conflict.base is None:
            what = "both added the file, with different labels"
        elif conflict.what == "removed":
            sides = ("ours", "theirs") if conflict.ours is None else ("theirs", "ours")
            what = "removed in {}, changed in {}".format(*sides)
        yield f"conflict: {what}"
        for side in ("base", "ours", "theirs"):
            row = getattr(conflict, side) or "-"
            fields = [str(field).replace("\t", " ") for field in row]
            yield f"  {side:<7} {'  '.join(fields)}"
    yield from more_than(_SHOWN, report.conflicts, "conflicts")


def _check_lines(report: ListCheckReport) -> Iterator[str]:
    from dsprep.lists.check import READERS

    faults = report.faults
    yield f"{report.list}: {_count(faults, 'fault') or 'no faults'}"
    checked = [
        "lines, ids, paths, labels",
        _count(report.classes or (), "class"),
        report.root and f"files below {report.root}",
        report.reader and f"what {READERS[report.reader].title} requires",
    ]
    kinds = [f"{count:,} {kind}" for kind, count in report.kinds.items()]
    yield from rows_of(
        ("rows", f"{report.rows:,}"),
        ("checked", ", ".join(filter(None, checked))),
        *(("" if at else "faults", kind) for at, kind in enumerate(kinds)),
    )
    if faults:
        yield ""
    texts = [f"{report.list}:{fault.line}: {fault.kind}: {fault.message}" for fault in faults]
    yield from (f"  {text}" for text in some_of(texts, _FAULTS_SHOWN))


def _stats_lines(report: Statistics) -> Iterator[str]:
    yield f"{report.list}: {format_count(report.rows, 'row')}"
    size = range_text(report.widths, "number")
    labels = {
        "classes": "one class each",
        "detection": f"objects for detection, {size}",
        "numbers": f"{size} each, {report.distinct:,} different",
    }
    rows: list[tuple[str, object]] = [("labels", labels[report.kind])]
    if report.objects is not None and report.objects_per_row is not None:
        per_row = "{least:,} to {most:,} a row, {mean:.1f} on average".format_map(
            report.objects_per_row
        )
        rows.append(("objects", f"{report.objects:,}; {per_row}"))
    if report.largest is not None and report.smallest is not None:
        rows.append(("classes", f"{len(report.classes):,}"))
        for name, one in (("largest", report.largest), ("smallest", report.smallest)):
            noun = "row" if one.objects is None else "object"
            rows.append((name, f"{_title(one)}, {format_count(one.weight, noun)}"))
        unused = [_title(one) for one in report.classes if not one.weight]
        rows.append(("imbalance", f"{report.imbalance:.3g}"))
        rows.append(("unused", _count(unused, "class", f" without rows: {format_some(unused)}")))
    yield from rows_of(*rows)
    if report.classes:
        yield ""
        yield from _histogram(report.classes)


def _histogram(classes: Sequence[ClassCount]) -> Iterator[str]:
    """Draw all classes by number; of too many, the largest and the smallest."""
    half, more = len(classes), len(classes) - _CLASSES_SHOWN
    if more > 0:
        half = _CLASSES_SHOWN // 2
        by_size = sorted(classes, key=lambda one: (-one.weight, one.number))
        classes = [*by_size[:half], *by_size[-half:]]
    entries = [(_title(one).rstrip(), one.weight) for one in classes]
    columns = shutil.get_terminal_size((80, 24)).columns
    lines = list(draw_bars(entries, columns, sys.stdout.encoding or "ascii"))
    yield from lines[:half]
    if more > 0:
        yield f"  ({more:,} more between the largest and the smallest)"
    yield from lines[half:]


def draw_bars(entries: Sequence[tuple[str, int]], columns: int, encoding: str) -> Iterator[str]:
    """Draw a line for each entry: its name, its number, and a bar of proportional length."""

    def shown(text: str) -> str:  # with what cannot be written, or is invisible, escaped
        return visible(text).encode(encoding, "backslashreplace").decode(encoding)

    has_eighths, end = shown(_EIGHTHS) == _EIGHTHS, "…" if shown("…") == "…" else "..."
    names = [_cut(shown(name), columns // 3, end) for name, _ in entries]
    numbers = [f"{number:,}" for _, number in entries]
    wide, long = max(map(width_of, names), default=0), max(map(len, numbers), default=0)
    room = max(columns - wide - long - 6, _SHORTEST)
    most = max([1, *(number for _, number in entries)])
    for name, text, (_, number) in zip(names, numbers, entries, strict=True):
        least = min(number, 1)  # any positive number is visible
        bar = "#" * max(number * room // most, least)
        if has_eighths:
            whole, eighths = divmod(max(number * room * 8 // most, least), 8)
            bar = _EIGHTHS[-1] * whole + _EIGHTHS[eighths].strip()
        yield f"  {name}{' ' * (wide - width_of(name))}  {text:>{long}}  {bar}".rstrip()


def width_of(text: str) -> int:
    """Return the number of columns that a terminal needs for a text."""
    return sum(
        0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF")
        for each in text
    )


def _cut(text: str, columns: int, end: str) -> str:
    if width_of(text) <= columns:
        return text
    while text and width_of(text) > columns - len(end):
        text = text[:-1]
    return text + end


def _sample_lines(report: SampleReport) -> Iterator[str]:
    share = 100 * report.kept / report.rows
    rows = format_count(report.rows, "row")
    yield f"{_name(report.output)}: {report.kept:,} of {rows}, {share:.3g}%"
    yield from _unwritten(report)
    sizes, wanted = report.classes.values(), report.wanted or 0
    some = format_some([f"{label} ({rows:,})" for label, rows in report.short.items()])
    yield from rows_of(
        ("seed", f"{report.seed}"),
        ("classes", sizes and f"{len(sizes):,}, {range_text(sizes, 'row')} each"),
        ("short", not sizes and report.kept < wanted and f"{wanted:,} were asked for"),
        ("short", _count([*report.short], "class", f" of fewer than {wanted:,} rows: {some}")),
    )


_LINES: Mapping[str, Callable[[Any], Iterator[str]]] = {
    "create_list": _create_lines,
    "append_to_list": _append_lines,
    "edit_list": _edit_lines,
    "patch_list": _edit_lines,
    "relabel_lists": _relabel_lines,
    "merge_lists": _merge_lines,
    "check_list": _check_lines,
    "list_stats": _stats_lines,
    "sample_list": _sample_lines,
}
