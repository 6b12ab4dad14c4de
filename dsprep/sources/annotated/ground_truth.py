"""Boxes and masks that Ground Truth's output manifest tells: SageMaker's augmented manifest."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING

from dsprep.annotations.masks import IGNORED
from dsprep.errors import SourceError
from dsprep.formats.augmented import AugmentedLine, colors_of, parse_augmented
from dsprep.numbering import number_ids, require_lines
from dsprep.sources.annotated.annotated import Scan
from dsprep.sources.annotated.boxes import TableBoxes, scan_of
from dsprep.sources.annotated.mask_files import files_below
from dsprep.sources.annotated.masks import Masks, parse_color
from dsprep.units import format_count, format_some, quoted, quoted_names

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.source import Source

_SHOWN = 3
_NOT_KEPT = ("confidence", "creation-date", "human-annotated", "job-name")


def scan_manifest(source: Source, path: str, run_all: RunAll) -> Scan:
    """Read a manifest with boxes, with references to masks, or with both."""
    from dsprep.text import read_text

    text = read_text(path)
    lines = list(parse_augmented(text, path))
    if not lines:
        raise SourceError(f"{path}: names no images")
    masks = _masks(source, text, lines[0].others, path, run_all)
    has_boxes = lines[0].kind == "boxes"
    if not has_boxes and masks is None:
        raise SourceError(
            f"{path}: has neither boxes nor masks: for labels of images, give it with --list"
        )
    names = [line.ref for line in lines]
    digest = hashlib.sha256(text.encode()).hexdigest()
    if not has_boxes:
        nothing = [0] * len(lines)
        return Scan(None, names, nothing, nothing, (), (), digest, path, masks=masks)
    classes, ids, numbers = _classes(lines, source.class_names(), path)
    labels = [line.label or () for line in lines]
    parts = [label[at : at + 5] for label in labels for at in range(2, len(label), 5)]
    boxes = TableBoxes(
        array("q", accumulate((len(label) // 5 for label in labels), initial=0)),
        array("d", chain.from_iterable(sides for _, *sides in parts)),
        array("i", (numbers[int(number)] for number, *_ in parts)),
        (),
        tuple((label[0], label[1]) if label else None for label in labels),
    )
    notes = []
    if not any(line.names for line in lines) and source.classes is None:
        said = f"{path}: no class-map names the classes, so their numbers are their names"
        notes.append(f"{said}: give --classes FILE")
    if lost := [name for name in _NOT_KEPT if f'"{name}"' in text]:
        notes.append(f"metadata of boxes that is not kept: {', '.join(lost)}")
    more = {"flags": False, "masks": masks}
    return scan_of(boxes, names, classes, ids, digest, path, notes, **more)


def _classes(
    lines: Iterable[AugmentedLine], given: tuple[str, ...] | None, path: str
) -> tuple[tuple[str, ...], tuple[int, ...], Mapping[int, int]]:
    """Return the names and ids of classes by number, and their numbers by id."""
    named: dict[int, str] = {}
    used = set[int]()
    for line in lines:
        for id, name in line.names.items():
            if named.setdefault(id, name) != name:
                raise SourceError(
                    f"{path}:{line.line}: the class {id} is called {name!r:.60}, and "
                    f"{named[id]!r:.60} elsewhere"
                )
        used.update(map(int, (line.label or ())[2::5]))
    if not named:
        named = dict(enumerate(given)) if given else {id: str(id) for id in used}
    if nameless := sorted(used.difference(named)):
        raise SourceError(
            f"{path}: {format_count(len(nameless), 'class')} without a name in any class-map: "
            f"{format_some(list(map(str, nameless)))}"
        )
    require_lines(sorted(named.values()), path)
    if len({*named.values()}) < len(named):
        names = [named[id] for id in sorted(named)]
        raise SourceError(f"{path}: several classes have one name: {quoted_names(names, _SHOWN)}")
    return number_ids(named, given, path)


# Masks


def _masks(
    source: Source, text: str, others: Sequence[str], path: str, run_all: RunAll
) -> Masks | None:
    """Return the masks that lines refer to; None if the first refers to none, among others."""
    from dsprep.places.match import find_elsewhere

    numbered = enumerate(text.split("\n"), 1)
    lines = [(number, json.loads(line)) for number, line in numbered if line.strip()]
    attribute = next((name for name in others if colors_of(lines[0][1], name)), None)
    if attribute is None:
        return None
    colors: dict[tuple[int, int, int], int] = {}
    named: dict[int, tuple[str, tuple[int, int, int]]] = {}
    for number, line in lines:
        for key, each in colors_of(line, attribute).items():
            try:
                color = parse_color(each["hex-color"])
                own = each["class-name"], color
                known = named.setdefault(int(key), own)
            except (KeyError, TypeError, ValueError):
                raise SourceError(
                    f"{path}:{number}: internal-color-map has {each!r:.60}, not a class-name and a "
                    "hex-color"
                ) from None
            if known != own or not isinstance(own[0], str):
                raise SourceError(
                    f"{path}:{number}: class {key:.20} is {own!r:.60}, and {known!r:.60} elsewhere"
                )
    ids = sorted(named)
    for at, id in enumerate(ids):
        if colors.setdefault(named[id][1], at) != at:
            raise SourceError(f"{path}: several classes have the color of {named[id][0]!r:.60}")
    if all(color == (id, id, id) for id, (_, color) in named.items()):  # a gray mask of dsprep
        colors.setdefault((IGNORED, IGNORED, IGNORED), IGNORED)
    root = str(source.masks or source.root)
    known_files = files_below(root, run_all)
    for number, line in lines:
        ref = line.get(attribute)
        if not isinstance(ref, str | None):
            raise SourceError(f"{path}:{number}: {attribute!r:.60} is {ref!r:.60}, not a path")
    meant = find_elsewhere((line.get(attribute) or "" for _, line in lines), known_files)
    meant.refuse_several(path, lambda one, two: ": give their directory with --masks")
    missing = [quoted(name) for name in meant.missing if name]
    if missing:
        raise SourceError(
            f"{path}: {format_count(len(missing), 'mask')} that it names not below {root}: "
            f"{format_some(missing)}: give their directory with --masks"
        )
    found = tuple(meant.paths.fill_null(""))
    sizes = [known_files.get(name, 0) for name in found]
    return Masks(root, found, sizes, colors, names=tuple(named[id][0] for id in ids))
