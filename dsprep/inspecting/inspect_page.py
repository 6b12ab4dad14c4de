"""The page of ``inspect``: figures, charts and pictures, in one file that loads nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from dsprep.catalog import Catalog
from dsprep.findings import count_skipped
from dsprep.inspecting.figures import HEADS, MEASURES, SideFigures, format_measure, label_texts
from dsprep.inspecting.inspect_report import InspectReport, count_copies
from dsprep.inspecting.options import InspectOptions
from dsprep.inspecting.pictures import Picture, draw_pictures
from dsprep.lists.stats import hash_unit
from dsprep.opening import GivenPath
from dsprep.pages.charts import Line, bar, histogram
from dsprep.pages.page import drawing, render
from dsprep.pipeline import Pipeline
from dsprep.printable import visible
from dsprep.progress import Progress
from dsprep.storage.local import write_whole
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_size
from dsprep.workers.executor import Executor

_MOST_BYTES = 19_000_000  # most bytes of a page of 20 MB, without the SVG elements of its pictures
_RANDOM, _OF_CLASSES, _OF_CLASS, _ENDS = 48, 400, 8, 4  # pictures of a sheet
_SETS, _OF_SET, _SUSPECTS = 60, 6, 24  # sets of copies, pictures of each, and those of a suspicion
_LINES, _MOST_CLASSES, _SIDES, _COUNTS = 200, 3000, 6, 6  # lines and columns of tables
_LONG = 120  # characters of names and paths
_SMALL = 64  # pixels: pictures below that are enlarged without smoothing


class _Tile(NamedTuple):
    """A sample on the page."""

    where: tuple[int, int]  # the number of its data set, and its row there
    path: str
    side: str
    label: str
    note: str = ""  # why it is shown
    found_by: str = ""  # the class whose search finds it


class _ClassTable(NamedTuple):
    """A table of classes."""

    head: str
    # the name of each, the same as it is shown, its number on each side, and bars of these
    rows: Sequence[tuple[str, str, Sequence[str], Any]]


class _Drawn(NamedTuple):
    """A picture on the page, which tiles refer to by its number."""

    number: int
    width: int
    height: int
    svg: Any
    notes: Sequence[str]
    small: bool


def write_page(
    report: InspectReport,
    sets: Sequence[tuple[Catalog, Pipeline]],
    options: InspectOptions,
    pool: Executor,
) -> None:
    """Write the page of a report; of each data set, ``sets`` has the samples that it looked at."""
    assert options.output is not None
    values = _values(report, options.seed)
    wanted = dict.fromkeys(tile.where for tile in _tiles_in(values))
    unreadable = report.table.filter(pl.col("reason").is_not_null())
    found: dict[tuple[int, int], Picture | str] = {
        (data, row): why for data, row, why in unreadable["data", "row", "reason"].iter_rows()
    }
    for data, (catalog, pipeline) in enumerate(sets if report.decoded else ()):
        rows = [row for of, row in wanted if of == data and (of, row) not in found]
        progress = options.progress or Progress()
        with progress.running("drawing pictures", len(rows)):
            drawn = draw_pictures(catalog, pipeline, rows, pool, progress.advance)
        found |= {(data, row): picture for row, picture in drawn.items()}
    title = ", ".join(map(_short, report.data))
    text = render(
        "inspect.html", title, {**values, "pictures": dict.fromkeys(wanted, ""), "drawings": []}
    )
    pictures, full = _within_budget(wanted, found, _MOST_BYTES - len(text.encode()))
    drawings = [each for each in pictures.values() if not isinstance(each, str)]
    shown = f"Pictures of {len(drawings):,} samples are shown"
    if full:
        shown += f"; {full:,} more would make the page too large"
    values["notes"].append(f"{shown}." if report.decoded else "No pictures: --no-decode was given.")
    values |= {"pictures": pictures, "drawings": drawings}
    final = GivenPath(options.output)
    write_whole(final, render("inspect.html", title, values).encode(), final.parent)


def _within_budget(
    wanted: Mapping[tuple[int, int], None],
    found: Mapping[tuple[int, int], Picture | str],
    budget: int,
) -> tuple[dict[tuple[int, int], _Drawn | str], int]:
    """Return the pictures that fit into the page, or why there is none, and how many do not fit."""
    pictures: dict[tuple[int, int], _Drawn | str] = {}
    size = full = 0
    for number, where in enumerate(wanted):
        each = found.get(where, "not decoded")
        if isinstance(each, str):
            pictures[where] = _short(each)
        elif size + len(each.svg) > budget:
            pictures[where] = "left out, as the page is full"
            full += 1
        else:
            size += len(each.svg)
            small = max(each.width, each.height) < _SMALL
            parts = (drawing(each.svg), [*map(_short, each.notes)], small)
            pictures[where] = _Drawn(number, each.width, each.height, *parts)
    return pictures, full


def _tiles_in(value: object) -> Iterator[_Tile]:
    """Yield all tiles in the values of a page, in their order."""
    if isinstance(value, _Tile):
        yield value
    elif isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _tiles_in(each)


def _values(report: InspectReport, seed: int) -> dict[str, Any]:
    """Return what the template shows, with tiles for pictures."""
    sides = [replace(side, name=_short(side.name)) for side in report.sides[:_SIDES]]
    sentence = format_count(report.samples, "sample")
    if report.looked_at < report.samples:
        sentence += f", {report.looked_at:,} of them looked at (seed {seed})"
    notes = [*report.notes]
    if skipped := count_skipped(report.skipped):
        counts = (f"{sum(each.values()):,} {kind}" for kind, each in skipped.items())
        notes.append(f"Skipped: {', '.join(counts).replace('-', ' ')}.")
    if len(report.sides) > _SIDES:
        notes.append(f"{_SIDES} of {len(report.sides):,} sides are shown.")
    labels, objects = (
        _classes(head, [getattr(side, name) for side in sides])
        for head, name in (("Classes", "classes"), ("Objects by class", "objects"))
    )
    kinds = {kind for _, kind, role, _ in report.fields if role == "label"}
    if any("float" in kind for kind in kinds) or (
        any("text" in kind for kind in kinds) and len(labels.rows) > report.looked_at / 2
    ):
        labels = _ClassTable("", ())
        notes.append("Labels are not classes: they are shown with pictures only.")
    classes = [each for each in (labels, objects) if each.rows]
    return {
        "sentence": f"{sentence}.",
        "notes": notes,
        "colors": {side.name: color for color, side in enumerate(sides)},
        "facts": [*_facts(sides)],
        "fields": [("name", "type", "role", "told by"), *report.fields[:_LINES]],
        **_normalization(sides),
        "copies": [*_copies(report)],
        "copies_text": count_copies(report.alike)
        + (f"; {_SETS} sets are shown" if len(report.alike) > _SETS else ""),
        "suspects": [*_suspects(report)],
        "rejects": [(_end_of(each.path), each.reason) for each in report.rejects[:_LINES]],
        "rejects_text": _some(len(report.rejects), _LINES),
        "classes": classes,
        "distributions": [*_distributions(report, sides)],
        "sheets": [*_sheets(report, classes, seed)] if report.decoded else [],
    }


def _facts(sides: Sequence[SideFigures]) -> Iterator[Sequence[str]]:
    """Yield the lines of the summary: the name of a fact, and what it is on each side."""
    yield "", *(side.name for side in sides)
    facts: Mapping[str, Callable[[SideFigures], str]] = {
        "samples": lambda side: f"{side.samples:,}",
        "looked at": lambda side: f"{side.looked_at:,}",
        "bytes of images": lambda side: format_size(side.bytes),
        "classes": lambda side: f"{len(side.classes):,}" if side.classes else "",
        "objects": lambda side: f"{sum(side.objects.values()):,}" if side.objects else "",
        "formats": lambda side: _counts(side.kinds),
        "color modes": lambda side: _counts(side.modes),
        "sizes": lambda side: _counts(side.sizes),
        "EXIF orientations": lambda side: (
            "" if {*side.orientations} <= {"1"} else _counts(side.orientations)
        ),
        "mean": lambda side: _channels(side.channels.mean) if side.channels else "",
        "standard deviation": lambda side: _channels(side.channels.std) if side.channels else "",
    }
    for name, fact in facts.items():
        cells = [fact(side) for side in sides]
        if any(cells):
            yield name, *cells


def _counts(counts: Mapping[str, int]) -> str:
    some = [f"{name} ({count:,})" for name, count in [*counts.items()][:_COUNTS]]
    return ", ".join(some) + (", …" if len(counts) > _COUNTS else "")


def _channels(values: Sequence[float]) -> str:
    return ", ".join(f"{each:.4f}" for each in values)


def _normalization(sides: Sequence[SideFigures]) -> dict[str, Any]:
    """Return the code that normalizes images, by the side that is trained on."""
    known = {side.name: side.channels for side in sides if side.channels}
    if not known:
        return {"norms": [], "norm_side": ""}
    name = next((each for each in known if each.endswith("train")), next(iter(known)))
    found = known[name]
    mean, std = _channels(found.mean), _channels(found.std)
    variance = ", ".join(f"{each * each:.6f}" for each in found.std)
    norms = [
        "# PyTorch, after torchvision.transforms.ToTensor()",
        f"torchvision.transforms.Normalize(mean=[{mean}], std=[{std}])",
        "# TensorFlow, after tf.keras.layers.Rescaling(1 / 255)",
        f"tf.keras.layers.Normalization(mean=[{mean}], variance=[{variance}])",
        "# MXNet, after mx.nd.image.to_tensor(image)",
        f"mx.nd.image.normalize(image, mean=({mean}), std=({std}))",
    ]
    return {"norms": norms, "norm_side": name}


def _copies(report: InspectReport) -> Iterator[tuple[str, list[str], list[_Tile]]]:
    """Yield sets of samples that show the same, those first that need somebody's decision."""
    for each in report.alike[:_SETS]:
        what = "with the same bytes" if each.kind == "same" else "that look alike"
        tags = ["on several sides"] * each.is_leak + ["different labels"] * each.differ
        tiles = [
            _Tile((one.data, one.row), _end_of(one.path), _short(one.side), _short(one.label))
            for one in each.varied()[:_OF_SET]
        ]
        more = "" if len(each.samples) <= _OF_SET else f", {_OF_SET} of them shown"
        yield f"{len(each.samples):,} samples {what}{more}", tags, tiles


def _suspects(report: InspectReport) -> Iterator[tuple[str, list[_Tile]]]:
    """Yield each reason to look at images, and the images that it is true of."""
    by_reason: dict[str, list[tuple[str, str]]] = {}
    for suspect in report.suspects:
        by_reason.setdefault(suspect.why, []).append((suspect.side, suspect.path))
    for why, odd in by_reason.items():
        keys = pl.DataFrame(odd[:_SUSPECTS], ["side", "path"], orient="row")
        rows = report.table.join(keys, on=["side", "path"], how="semi")
        yield f"{why}: {_some(len(odd), _SUSPECTS)}", [*_tiles(rows)][:_SUSPECTS]


def _classes(name: str, sides: Sequence[Mapping[str, int]]) -> _ClassTable:
    """Return how many there are of each class on each side, the most frequent ones first."""
    totals = Counter[str]()
    for counts in sides:
        totals.update(counts)
    order = sorted(totals, key=lambda each: (-totals[each], each))
    # Bars are shares of their side, so that those of sides of different sizes can be compared.
    of_side = [sum(counts.values()) or 1 for counts in sides]
    shares = [
        max(counts.values(), default=0) / of for counts, of in zip(sides, of_side, strict=True)
    ]
    longest = max(shares, default=0) or 1
    rows = []
    for each in order[:_MOST_CLASSES]:
        own = [counts.get(each, 0) for counts in sides]
        bars = (
            bar(n / of / longest, at) for at, (n, of) in enumerate(zip(own, of_side, strict=True))
        )
        rows.append((each, _short(each), [f"{count:,}" for count in own], drawing("".join(bars))))
    return _ClassTable(f"{name}: {_some(len(order), _MOST_CLASSES)}", rows)


def _distributions(report: InspectReport, sides: Sequence[SideFigures]) -> Iterator[dict[str, Any]]:
    """Yield the distributions of measures, each with the samples at its ends."""
    for at, first in enumerate(sides[0].distributions if sides else ()):
        name, edges = first.name, first.edges
        each = [side.distributions[at] for side in sides]
        lines = [
            Line(side.name, [100 * count / (own.images or 1) for count in own.counts])
            for side, own in zip(sides, each, strict=True)
        ]
        bins = len(first.counts)
        ticks = sorted({round(part * bins / 4) for part in range(5)})
        texts = [
            (tick / bins, format_measure(edges[min(tick, len(edges) - 1)], name)) for tick in ticks
        ]
        column = "objects_of" if name == "objects" else name
        rows = report.table.explode("label") if name == "label" else report.table
        rows = rows.filter(pl.col(column).is_not_null()).sort(column, "data", "row")
        ends: list[list[_Tile]] = []
        if report.decoded and edges[0] != edges[-1]:
            for end in (rows.head(_ENDS), rows.tail(_ENDS).reverse()):
                notes = pl.Series("note", [format_measure(value, name) for value in end[column]])
                ends.append([*_tiles(end.with_columns(notes))])
        numbers = [[side.name, *own.texts()] for side, own in zip(sides, each, strict=True)]
        yield {
            "name": name,
            "what": MEASURES[name][0],
            "same": format_measure(edges[0], name) if edges[0] == edges[-1] else "",
            "drawing": drawing(histogram(name, lines, texts, "%")),
            "rows": [["", *HEADS], *numbers],
            "ends": ends,
        }


def _sheets(
    report: InspectReport, classes: Sequence[_ClassTable], seed: int
) -> Iterator[tuple[str, list[_Tile]]]:
    """Yield pictures of samples drawn by the seed: of each side, and of each class."""
    sides = [side.name for side in report.sides[:_SIDES]]
    table = report.table.filter(pl.col("bytes").is_not_null() | pl.col("reason").is_not_null())
    drawn = hash_unit(table["path"], seed, "page")
    rank = pl.col("side").replace_strict(sides, range(len(sides)), default=_SIDES).alias("rank")
    table = table.with_columns(rank, drawn.alias("drawn")).sort("drawn", "data", "row")
    some = table.group_by("rank", maintain_order=True).head(max(1, _RANDOM // max(1, len(sides))))
    yield "Samples drawn at random", [*_tiles(some.sort("rank", maintain_order=True))]
    order = [row[0] for row in classes[0].rows] if classes else []
    if not order:
        return
    # Of too many classes, these are from the most to the least frequent one at equal distances.
    count = min(len(order), _OF_CLASSES)
    names = [order[at * len(order) // count] for at in range(count)]
    own = (
        pl.when(pl.col("labels").list.len() > 0)
        .then("labels")
        .otherwise(pl.col("objects").list.unique())
    )
    numbers = pl.col("class").replace_strict(names, range(count), default=None).alias("number")
    ranked = table.with_columns(own.alias("class")).explode("class").with_columns(numbers)
    ranked = ranked.filter(pl.col("number").is_not_null())
    turn = pl.int_range(pl.len()).over("number", "rank").alias("turn")
    ranked = ranked.with_columns(turn).sort("number", "turn", "rank", maintain_order=True)
    some = ranked.group_by("number", maintain_order=True).head(min(_OF_CLASS, _OF_CLASSES // count))
    yield f"Samples of {_some(len(order), _OF_CLASSES)} classes", [*_tiles(some)]


def _tiles(rows: pl.DataFrame) -> Iterator[_Tile]:
    """Yield the tiles of measured samples, which may have columns for a note and a class."""
    columns = pl.col("^(data|row|path|side|label|note|class)$")
    for row in rows.with_columns(label_texts(rows)).select(columns).iter_rows(named=True):
        label = _short(row["label"])
        found_by = _short(row.get("class", ""))
        note = row.get("note", "" if found_by == label else found_by)
        where = (row["data"], row["row"])
        yield _Tile(where, _end_of(row["path"]), _short(row["side"]), label, note, found_by)


def _some(count: int, most: int) -> str:
    return f"{count:,}" if count <= most else f"{most:,} of {count:,}"


def _short(text: str) -> str:
    """Return a text with what cannot be seen escaped, and the end of a long one cut off."""
    text = visible(text)
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"


def _end_of(path: str) -> str:
    text = visible(path)
    return text if len(text) <= _LONG else f"…{text[-_LONG:]}"
